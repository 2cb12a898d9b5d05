"""Curves with bands over networks: distribution functions and time series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import polars as pl

from onionlab.stats.intervals import Floats, pointwise_band
from onionlab.stats.metrics import RUN, ordered
from onionlab.stats.skewed import Method, ascending_band, suitable_method

#: Quantiles of a distribution chart. The last one is 0.99: beyond it, a run of a few hundred transfers has hardly any to show.
QUANTILES: Floats = np.linspace(0.0, 0.99, 199)

#: A mean and the edges of its band; these are None for a single network.
_Band = tuple[Floats, Floats | None, Floats | None]


def _mean_over_seeds(runs: Iterable[tuple[int, Floats]]) -> Floats | None:
    """Average the curves of one network's seeds, then stack networks into rows; None without any."""
    networks: dict[int, list[Floats]] = {}
    for network, curve in runs:
        networks.setdefault(network, []).append(curve)
    if not networks:
        return None
    return np.stack([np.mean(curves, axis=0) for _, curves in sorted(networks.items())])


def _rows(treatment: str, at: Floats, axis: str, networks: int, band: _Band | None, method: Method = "student") -> pl.DataFrame:
    """One treatment's band over so many networks as rows; empty without one."""
    schema = {
        "treatment": pl.String,
        axis: pl.Float64,
        "mean": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "networks": pl.UInt32,
        "method": pl.String,
    }
    if band is None:
        return pl.DataFrame(schema=schema)
    mean, low, high = band
    size = len(at)
    return pl.DataFrame(
        {
            "treatment": [treatment] * size,
            axis: at,
            "mean": mean,
            "low": low if low is not None else [None] * size,
            "high": high if high is not None else [None] * size,
            "networks": [networks] * size,
            "method": [method if low is not None else None] * size,
        },
        schema=schema,
    )


def quantile_bands(
    values: pl.DataFrame,
    column: str,
    treatments: Sequence[str],
    *,
    quantiles: Floats = QUANTILES,
    method: Literal["student", "suitable"] = "student",
) -> pl.DataFrame:
    """Mean quantile function over networks with its pointwise band, per treatment.

    Each run gives the lower order statistic at every quantile; runs without a value are skipped; the curves of a network's seeds
    are averaged. The band lies horizontally, in the direction of the values, and covers the mean over networks of the quantile.

    Parameters
    ----------
    values : polars.DataFrame
        ``treatment, network, seed`` and ``column``: one row per transfer of one kind of client, from `metrics.measured`, or any
        other values of runs.
    column : str
        What is measured, such as ``ttfb`` or ``ttlb``.
    treatments : sequence of str
        Treatments in the order of the experiment.
    quantiles : array, shape (points,)
        Between 0 and 1, ascending.
    method : {"student", "suitable"}
        ``student``: the field's band, so that curves can be laid beside others'. ``suitable``: in its place, for all treatments
        alike, the log-normal band where networks differ so much that Student's would not cover; the edges of either ascend as
        quantiles do (`onionlab.stats.skewed.ascending_band`).

    Returns
    -------
    polars.DataFrame
        ``treatment, quantile, mean, low, high, networks, method``; bounds and ``method`` null for a single network.

    References
    ----------
    Jansen et al., "Once is Never Enough", USENIX Security 2021, section 5; tornettools ``plot_common.py``, ``draw_cdf_ci``.
    """
    found = _quantiles(values, column, treatments, quantiles)
    if method == "student":
        kind: Method = "student"
        bands = [pointwise_band(curves) for curves in found.values()]
    else:
        # Judged by the same points for every picture of these values, so that its tail has the kind of band that it has.
        judged = found if quantiles is QUANTILES else _quantiles(values, column, treatments, QUANTILES)
        kind = suitable_method(list(judged.values()))
        bands = [ascending_band(curves, kind) for curves in found.values()]
    parts = [
        _rows(treatment, quantiles, "quantile", curves.shape[0], band, kind)
        for (treatment, curves), band in zip(found.items(), bands, strict=True)
    ]
    return pl.concat([_rows("", quantiles, "quantile", 0, None), *parts])


def _quantiles(values: pl.DataFrame, column: str, treatments: Sequence[str], quantiles: Floats) -> dict[str, Floats]:
    """The quantile function of each network, one row each, of the treatments that have values."""
    found = {}
    for treatment in treatments:
        runs = []
        for key, rows in values.filter(pl.col("treatment") == treatment).group_by(*RUN, maintain_order=True):
            of_run = ordered(rows[column])
            if of_run.size:
                runs.append((int(key[1]), of_run[((of_run.size - 1) * quantiles).astype(np.int64)]))
        curves = _mean_over_seeds(runs)
        if curves is not None:
            found[treatment] = curves
    return found


def tail_quantiles(nines: int, points: int = 201) -> Floats:
    """Quantiles from 0 to 0.9, 0.99 or further, at equal distances of ``-log10(1 - q)``: as close in the tail as below it.

    Examples
    --------
    >>> tail_quantiles(2, 3).round(3).tolist()
    [0.0, 0.9, 0.99]
    """
    return np.asarray(1.0 - 10.0 ** -np.linspace(0.0, nines, points))


def cdf_bands(cut: pl.DataFrame, column: str, treatments: Sequence[str]) -> pl.DataFrame:
    """Distribution curves of a report: `quantile_bands` at `QUANTILES` with suitable bands, of one kind in a picture."""
    return quantile_bands(cut, column, treatments, method="suitable")


def series_bands(
    network: pl.DataFrame, value: pl.Expr, treatments: Sequence[str], *, cumulated: bool = False, points: int = 100
) -> tuple[pl.DataFrame, float]:
    """Mean over networks of a time series, with its pointwise t band, per treatment.

    Parameters
    ----------
    network : polars.DataFrame
        The ``network`` table of all runs.
    value : polars.Expr
        What is drawn, per sample.
    treatments : sequence of str
        Treatments in the order of the experiment.
    cumulated : bool
        The series is a running total: of several samples drawn as one point, the last counts instead of their mean.
    points : int
        Most points per line; longer series are averaged over bins of equal length.

    Returns
    -------
    bands : polars.DataFrame
        ``treatment, time, mean, low, high, networks, method``; ``time`` in seconds, the end of a bin.
    bin : float
        Length of a bin, in seconds.
    """
    series = network.select(*RUN, "time_ns", value=value)
    times = series["time_ns"].unique().sort()
    if times.len() == 0:
        return _rows("", np.empty(0), "time", 0, None), 0.0
    step = int(times[0]) if times.len() == 1 else int(times[1]) - int(times[0])
    last = int(times[-1])
    width = step * max(1, -(-last // (step * points)))
    # The sample at `time_ns` stands for the interval that ends there.
    binned = (
        series.drop_nulls("value")
        .sort("time_ns", maintain_order=True)
        .with_columns(bin=(pl.col("time_ns") - 1) // width)
        .group_by(*RUN, "bin")
        .agg(pl.col("value").last() if cumulated else pl.col("value").mean())
        .sort(*RUN, "bin")
    )
    count = (last - 1) // width + 1
    at = np.minimum((np.arange(count) + 1) * width, last) / 1e9
    parts = []
    for treatment in treatments:
        runs = []
        for key, rows in binned.filter(pl.col("treatment") == treatment).group_by(*RUN, maintain_order=True):
            curve = np.full(count, np.nan)
            curve[rows["bin"].to_numpy()] = rows["value"].to_numpy()
            if not np.isnan(curve).any():
                runs.append((int(key[1]), curve))
        curves = _mean_over_seeds(runs)
        if curves is not None:
            parts.append(_rows(treatment, at, "time", curves.shape[0], pointwise_band(curves)))
    return pl.concat([_rows("", at, "time", 0, None), *parts]), width / 1e9
