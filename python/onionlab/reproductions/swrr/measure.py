"""What `onionlab.reproductions.swrr` takes of each run: the figures that claims are about, and the curves of the charts.

Everything is reduced to small frames as soon as a network is finished; each has the columns ``variant, middles, treatment,
network`` in front. Nothing is pooled over networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from onionlab.reproductions.figures import capped, mean
from onionlab.reproductions.kept import Form, Made, Reduced, frames_together, made_together
from onionlab.reproductions.swrr.runs import Cell
from onionlab.results.experiment import Experiment
from onionlab.stats.curves import QUANTILES as ALL_QUANTILES
from onionlab.stats.intervals import Floats, lower_quantile, pointwise_band
from onionlab.stats.metrics import measured, measured_mean, measured_sum, ordered

#: Outcomes that are download time-outs: the program gave up.
TIMEOUTS = ("timeout", "stall")

#: Seconds for which a point of a chart over time stands.
STEP = 15

#: Points of a quantile function: every hundredth.
QUANTILES = ALL_QUANTILES[::2]

#: Points of a distribution function among all downloads.
POINTS = 121

#: Payload of a relay cell in bytes.
CELL_PAYLOAD = 498

#: Columns in front of each frame.
_FRONT = {"variant": pl.String, "middles": pl.Int64, "treatment": pl.String, "network": pl.Int64}

#: What is kept of each experiment.
FORM = Form(
    1,
    {
        "figures": {**_FRONT, "metric": pl.String, "value": pl.Float64},
        "series": {**_FRONT, "time": pl.Float64, "throughput": pl.Float64, "timeouts": pl.Float64},
        "times": {**_FRONT, "which": pl.String, "quantile": pl.Float64, "value": pl.Float64},
        "shares": {**_FRONT, "which": pl.String, "time": pl.Float64, "share": pl.Float64},
        "goodput": {**_FRONT, "time_ns": pl.Int64, "goodput_bytes": pl.UInt64},
    },
)


@dataclass(frozen=True)
class Measured:
    """All runs, reduced.

    Attributes
    ----------
    figures
        ``metric, value``: throughput in Mbit/s, time-outs and their share of the downloads that ended in per cent, times in
        seconds (medians of what was done, and means of all with failures as the time-out), utilisation of the middles in per
        cent, the mean time of a cell in circuit queues there in milliseconds, what their links send in Mbit/s and in bytes for a
        cell, and how many per cent of their cells bring payload to a client.
    series
        ``time, throughput, timeouts``: Mbit/s over the step that ends at ``time`` (seconds), and time-outs so far.
    times
        ``which, quantile, value``: quantile functions of web clients' time to ``first-byte`` and ``last-byte`` in seconds.
    shares
        ``which, time, share``: which share of all web downloads that ended had its first or last byte within so many seconds.
    goodput
        ``time_ns, goodput_bytes``: every sample of the network.
    made
        By which code the runs were made, and how long they took.
    """

    figures: pl.DataFrame
    series: pl.DataFrame
    times: pl.DataFrame
    shares: pl.DataFrame
    goodput: pl.DataFrame
    made: tuple[Made, ...] = ()

    def of(self, variant: str) -> pl.DataFrame:
        """The figures of one variant."""
        return self.figures.filter(pl.col("variant") == variant)


def together(reduced: Sequence[Reduced]) -> Measured:
    """What all cells came to."""
    frames = {name: frames_together(reduced, name) for name in FORM.frames}
    return Measured(**frames, made=made_together(reduced))


def reduce(cell: Cell, experiment: Experiment) -> Reduced:
    """One cell's runs."""
    figures: list[tuple[Any, ...]] = []
    parts: dict[str, list[pl.DataFrame]] = {name: [] for name in ("series", "times", "shares", "goodput")}
    for treatment in experiment.treatments:
        transfers = experiment.transfers.filter(pl.col("treatment") == treatment)
        network = experiment.network.filter(pl.col("treatment") == treatment).sort("time_ns")
        web = measured(transfers.filter(pl.col("group") == "web"), experiment.measure_from)
        sorted_times = {"first-byte": ordered(web["ttfb"]), "last-byte": ordered(web["ttlb"])}
        keys = (cell.variant.name, cell.middles, treatment, cell.number)
        relays = experiment.relays.filter(pl.col("treatment") == treatment, pl.col("class") == "middle")
        own = _figures(transfers, network, relays, experiment, sorted_times)
        ended = web.filter(pl.col("outcome") != "unfinished")
        done = {"first-byte": ended["ttfb"], "last-byte": ended["ttlb"]}
        longest = float(cell.variant.load.timeout)
        own |= {f"{which}-all": mean(capped(values, longest)) for which, values in done.items()}
        figures += [(*keys, metric, value) for metric, value in own.items()]
        parts["goodput"].append(_keyed(network.select("time_ns", "goodput_bytes"), keys))
        if ended.height:
            parts["shares"] += [_keyed(_shares(which, values, longest), keys) for which, values in done.items()]
        parts["series"].append(_keyed(_series(transfers, network, experiment.duration), keys))
        for which, values in sorted_times.items():
            if values.size:
                ranks = ((values.size - 1) * QUANTILES).astype(np.int64)
                frame = pl.DataFrame({"which": [which] * len(QUANTILES), "quantile": QUANTILES, "value": values[ranks]})
                parts["times"].append(_keyed(frame, keys))
    frame = pl.DataFrame(figures, schema=FORM.frames["figures"], orient="row")
    frames = {"figures": frame} | {name: pl.concat(own) for name, own in parts.items() if own}
    return Reduced(frames, Made.of(experiment))


def _shares(which: str, values: pl.Series, longest: float) -> pl.DataFrame:
    """Distribution function of a time among all downloads; it ends at the share of those that have one."""
    at = np.linspace(0.0, longest, POINTS)
    share = np.searchsorted(ordered(values), at, side="right") / values.len()
    return pl.DataFrame({"which": [which] * POINTS, "time": at, "share": share})


def _keyed(frame: pl.DataFrame, keys: tuple[str, int, str, int]) -> pl.DataFrame:
    columns = [pl.lit(key).alias(name) for name, key in zip(_FRONT, keys, strict=True)]
    return frame.select(*columns, pl.all()).with_columns(pl.col("middles", "network").cast(pl.Int64))


def _figures(
    transfers: pl.DataFrame, network: pl.DataFrame, relays: pl.DataFrame, experiment: Experiment, times: dict[str, Floats]
) -> dict[str, float | None]:
    """One run's figures; ``relays`` are the middles' samples."""
    begin = round(experiment.measure_from * 1e9)
    length = experiment.duration - experiment.measure_from
    ended = transfers.filter(pl.col("start_ns") >= begin, pl.col("outcome") != "unfinished")
    late = ended.filter(pl.col("outcome").is_in(TIMEOUTS)).height
    of_relays = ("cells_sent", "bytes_sent", "queue_wait_ns")
    cells, sent, waited = (measured_sum(relays, column, experiment.measure_from, "relay") for column in of_relays)
    payload = measured_sum(network, "goodput_bytes", experiment.measure_from)
    used = measured_mean(network, "utilisation_middle", experiment.measure_from)
    return {
        "throughput": payload * 8e-6 / length,
        "timeouts": float(late),
        "timeout-share": 100 * late / ended.height if ended.height else None,
        "utilisation": None if used is None else 100 * used,
        "queue-wait": waited / cells / 1e6 if cells else None,
        "sent": sent * 8e-6 / length,
        "cell-bytes": sent / cells if cells else None,
        "payload-cells": 100 * payload / CELL_PAYLOAD / cells if cells else None,
    } | {which: lower_quantile(values, 0.5) if values.size else None for which, values in times.items()}


def _series(transfers: pl.DataFrame, network: pl.DataFrame, duration: float) -> pl.DataFrame:
    """One run's curves over time, all from the start of the simulation."""
    steps = np.arange(STEP, duration + 1e-9, STEP)
    sent = np.concatenate([[0.0], np.cumsum(network["goodput_bytes"].to_numpy())])
    samples = np.concatenate([[0.0], network["time_ns"].to_numpy() / 1e9])
    cumulated = np.interp(np.concatenate([[0.0], steps]), samples, sent)
    ends = np.sort(transfers.filter(pl.col("outcome").is_in(TIMEOUTS))["end_ns"].to_numpy() / 1e9)
    return pl.DataFrame(
        {
            "time": steps,
            "throughput": np.diff(cumulated) * 8e-6 / STEP,
            "timeouts": np.searchsorted(ends, steps, side="right").astype(np.float64),
        }
    )


def bands(frame: pl.DataFrame, axis: str, value: str, treatments: Sequence[str]) -> pl.DataFrame:
    """Mean over networks of curves on common points, with the pointwise interval: ``treatment, axis, mean, low, high``."""
    parts = []
    for treatment in treatments:
        rows = frame.filter(pl.col("treatment") == treatment).sort("network", axis)
        if rows.is_empty():
            continue
        at = rows[axis].unique().sort().to_numpy()
        mean, low, high = pointwise_band(rows[value].to_numpy().reshape(-1, len(at)))
        empty = [None] * len(at)
        parts.append(
            pl.DataFrame(
                {
                    "treatment": [treatment] * len(at),
                    axis: at,
                    "mean": mean,
                    "low": empty if low is None else low,
                    "high": empty if high is None else high,
                },
                schema_overrides={"low": pl.Float64, "high": pl.Float64},
            )
        )
    return pl.concat(parts)
