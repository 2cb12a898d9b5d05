"""From figures per run to means over networks and paired differences between treatments."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from onionlab.quantity import format_number
from onionlab.stats.intervals import Interval, difference_interval
from onionlab.stats.metrics import HEADLINE, METRICS
from onionlab.stats.multiple import holm, paired_p_value
from onionlab.stats.power import detectable, networks_needed
from onionlab.stats.skewed import geometric_interval, mean_interval

#: Columns of `summarise` behind those that name a row.
_NUMBERS = {
    "networks": pl.UInt32,
    "mean": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "method": pl.String,
    "geometric_mean": pl.Float64,
    "geometric_low": pl.Float64,
    "geometric_high": pl.Float64,
    "difference": pl.Float64,
    "difference_low": pl.Float64,
    "difference_high": pl.Float64,
    "difference_networks": pl.UInt32,
    "difference_percent": pl.Float64,
    "ratio": pl.Float64,
    "ratio_low": pl.Float64,
    "ratio_high": pl.Float64,
    "p": pl.Float64,
    "p_holm": pl.Float64,
    "networks_needed": pl.UInt32,
    "detectable": pl.Float64,
    "verdict": pl.String,
}


def per_network(figures: pl.DataFrame) -> pl.DataFrame:
    """Average the figures of `per_run` over the seeds within each network.

    A figure that some seeds lack is averaged over the others.
    """
    return (
        figures.group_by("treatment", "network", "kind", "metric", maintain_order=True)
        .agg(pl.col("value").mean(), seeds=pl.col("value").count())
        .filter(pl.col("seeds") > 0)
    )


def paired_differences(figures: pl.DataFrame, treatment: str, base: str) -> pl.DataFrame:
    """Difference of ``treatment`` to ``base`` in each network where both exist.

    Runs are paired by network and seed, differences averaged over the seeds of a network: common random numbers make the two runs
    of a pair alike in everything but the treatment.

    Returns
    -------
    polars.DataFrame
        ``network, kind, metric, difference, base`` (the mean of ``base`` over the same pairs).
    """
    keys = ["network", "seed", "kind", "metric"]
    there = figures.filter(pl.col("treatment") == treatment, pl.col("value").is_not_null()).select(*keys, "value")
    here = figures.filter(pl.col("treatment") == base, pl.col("value").is_not_null()).select(*keys, base="value")
    return (
        there.join(here, on=keys, how="inner", maintain_order="left")
        .group_by("network", "kind", "metric", maintain_order=True)
        .agg(difference=(pl.col("value") - pl.col("base")).mean(), base=pl.col("base").mean())
    )


def verdict(metric: str, difference: Interval | None, base_mean: float | None) -> str:
    """Say in words what a paired difference shows.

    Parameters
    ----------
    metric : str
        Key into `METRICS`.
    difference : Interval or None
        Mean paired difference over networks, or None where no network has both.
    base_mean : float or None
        Mean of the first treatment over the same networks, for the relative size.
    """
    if difference is None:
        return "no network has a value of both"
    if difference.mean == 0 and difference.low in (None, 0.0) and difference.high in (None, 0.0):
        return "equal" if difference.count == 1 else "equal in every network"
    size = ""
    if METRICS[metric].unit == "%":
        # A share that grows from 2 to 3 % is neither "1 % higher" nor usefully "50 % higher".
        size = f"{format_number(abs(difference.mean), 2)} points "
    elif base_mean:
        size = f"{format_number(100 * abs(difference.mean) / abs(base_mean), 2)} % "
    direction = f"{size}{'higher' if difference.mean > 0 else 'lower'}"
    if difference.low is None:
        where = "in the only network" if difference.count == 1 else "by the same in every network"
        return f"{direction} {where}, hence no interval"
    if not difference.excludes_zero:
        return f"no difference shown ({direction} on average, the interval includes zero)"
    sense = METRICS[metric].better * (1 if difference.mean > 0 else -1)
    judged = {1: "better: ", -1: "worse: ", 0: ""}[sense]
    return f"{judged}{direction}, the interval excludes zero"


def summarise(figures: pl.DataFrame, treatments: Sequence[str], kinds: Sequence[str] | None = None) -> pl.DataFrame:
    """Summarise over networks, with the paired difference of every treatment to the first one.

    Parameters
    ----------
    figures : polars.DataFrame
        The result of `per_run`.
    treatments : sequence of str
        Treatments in the order of the experiment; the first is the base of comparison.
    kinds : sequence of str, optional
        Kinds of client in the order wanted; that of ``figures`` by default.

    Returns
    -------
    polars.DataFrame
        ``kind, metric, unit, treatment``, then of the treatment itself ``networks, mean, low, high, method`` (the mean over
        networks with its interval, and which interval it is: `onionlab.stats.skewed`), ``geometric_mean, geometric_low,
        geometric_high`` (null where a value is not positive).

        Of its difference to the first treatment ``difference, difference_low, difference_high, difference_networks,
        difference_percent``; ``ratio, ratio_low, ratio_high``, the geometric mean of the networks' ratios; ``p`` of the paired
        test and, for the metrics in `metrics.HEADLINE`, ``p_holm``, corrected for their number; ``networks_needed``, with which
        the test would see a difference of this size in four of five experiments, and ``detectable``, the smallest difference
        that as many networks as there are would see as often (`onionlab.stats.power`); ``verdict`` in words.

        Bounds are null with fewer than two networks; the columns of differences are null for the first treatment.
    """
    networks = per_network(figures)
    order = list(kinds) if kinds is not None else figures["kind"].unique(maintain_order=True).to_list()
    rows: list[dict[str, object]] = []
    for treatment in treatments:
        own = networks.filter(pl.col("treatment") == treatment)
        pairs = None if treatment == treatments[0] else paired_differences(figures, treatment, treatments[0])
        for kind in order:
            of_kind = own.filter(pl.col("kind") == kind)
            for metric, about in METRICS.items():
                values = of_kind.filter(pl.col("metric") == metric)["value"].to_list()
                interval = mean_interval(values)
                if interval is None:
                    continue
                typical = geometric_interval(values)
                row: dict[str, object] = {
                    "kind": kind,
                    "metric": metric,
                    "unit": about.unit,
                    "treatment": treatment,
                    "networks": interval.count,
                    "mean": interval.mean,
                    # No figure can be negative, though Student's interval does not know.
                    "low": None if interval.low is None else max(0.0, interval.low),
                    "high": interval.high,
                    "method": interval.method if interval.low is not None else None,
                }
                if typical is not None:
                    row |= {"geometric_mean": typical.mean, "geometric_low": typical.low, "geometric_high": typical.high}
                if pairs is not None:
                    both = pairs.filter(pl.col("kind") == kind, pl.col("metric") == metric)
                    row |= _difference(metric, both)
                rows.append(row)
    correct_for_number(rows)
    frame = pl.DataFrame(rows, schema={**dict.fromkeys(("kind", "metric", "unit", "treatment"), pl.String), **_NUMBERS})
    ranks = {
        "kind": {name: number for number, name in enumerate(order)},
        "metric": {name: number for number, name in enumerate(METRICS)},
        "treatment": {name: number for number, name in enumerate(treatments)},
    }
    return frame.sort(
        *(pl.col(column).replace_strict(rank, return_dtype=pl.UInt32, default=None) for column, rank in ranks.items()),
        maintain_order=True,
    )


def correct_for_number(rows: Sequence[dict[str, object]]) -> None:
    """Add ``p_holm`` to the rows whose metric is in `metrics.HEADLINE`: all of them are one family of comparisons."""
    family = [(row, p) for row in rows if row["metric"] in HEADLINE and isinstance(p := row.get("p"), float)]
    for (row, _), corrected in zip(family, holm([p for _, p in family]), strict=True):
        row["p_holm"] = corrected


def _difference(metric: str, both: pl.DataFrame) -> dict[str, object]:
    """Columns of the paired difference for one metric, kind and treatment."""
    values = both["difference"].to_list()
    difference = difference_interval(values)
    mean = both["base"].mean()
    base_mean = float(mean) if isinstance(mean, int | float) else None
    columns: dict[str, object] = {"verdict": verdict(metric, difference, base_mean)}
    if difference is not None:
        columns |= {
            "difference": difference.mean,
            "difference_low": difference.low,
            "difference_high": difference.high,
            "difference_networks": difference.count,
            "difference_percent": 100 * difference.mean / abs(base_mean) if base_mean else None,
            "p": paired_p_value(values),
            "networks_needed": networks_needed(values),
            "detectable": detectable(values),
        }
    base = both["base"].to_numpy()
    if (base > 0).all():
        ratio = geometric_interval((base + both["difference"].to_numpy()) / base)
        if ratio is not None:
            columns |= {"ratio": ratio.mean, "ratio_low": ratio.low, "ratio_high": ratio.high}
    return columns
