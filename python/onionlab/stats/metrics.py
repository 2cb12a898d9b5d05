"""The figures of one run: what is measured, in which unit, and which direction is better.

Transfers that start before the measurement begins (``measure-from``) are left out. Times to first byte are taken over every
transfer that received one, times to last byte over every transfer that completed; what failed is counted by kind beside them, and
what was still under way when the simulation ended ("unfinished") is counted apart, because it neither completed nor failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from onionlab.quantity import format_size
from onionlab.stats.intervals import Floats, lower_quantile

#: What an experiment's comparison in words is about. The number of these comparisons is what Holm's correction counts.
HEADLINE = ("ttfb_median", "ttlb_median", "ttlb_p90", "failed")

#: Columns that name a run.
RUN = ("treatment", "network", "seed")

#: Outcomes of a transfer that count as a failed download.
FAILURES = ("timeout", "stall", "circuit-closed", "no-circuit")

#: Classes of relays by their flags, as the columns of utilisation name them.
RELAY_CLASSES = ("guard", "middle", "exit", "guard_exit")

#: The row of figures that belong to the whole network and no single kind of client.
WHOLE = "whole network"

#: Up to this many distinct sizes, a group that fetches several is split by size, because a median over 50 kB and 5 MB together
#: says nothing.
SPLIT_SIZES = 6


@dataclass(frozen=True)
class Metric:
    """One figure per run and kind of client."""

    key: str
    label: str
    unit: str
    #: -1 where smaller is better, 1 where larger is better, 0 where neither.
    better: int
    #: In a sentence, which a report shows for the head of its column.
    meaning: str


METRICS: dict[str, Metric] = {
    metric.key: metric
    for metric in (
        Metric(
            "ttfb_median",
            "time to first byte, median",
            "s",
            -1,
            "From the application's request to the first byte of the answer.",
        ),
        Metric(
            "ttfb_p90",
            "time to first byte, 90th percentile",
            "s",
            -1,
            "Nine of ten transfers got their first byte within it.",
        ),
        Metric(
            "ttlb_median",
            "time to last byte, median",
            "s",
            -1,
            "From the application's request to the last byte; completed transfers only.",
        ),
        Metric(
            "ttlb_p90",
            "time to last byte, 90th percentile",
            "s",
            -1,
            "Nine of ten completed transfers were done within it.",
        ),
        Metric(
            "goodput",
            "goodput",
            "Mbit/s",
            1,
            "Payload delivered to clients, over the measured time; of a kind of client that of its transfers begun in it.",
        ),
        Metric(
            "failed", "failed downloads", "%", -1, "Failed among all that ended: time-out, stall, circuit closed, or no circuit."
        ),
        Metric("failed_timeout", "failed: time-out", "downloads", -1, "Downloads given up for taking too long."),
        Metric("failed_stall", "failed: stall", "downloads", -1, "Downloads given up because no byte came for too long."),
        Metric("failed_circuit_closed", "failed: circuit closed", "downloads", -1, "Downloads whose circuit went away."),
        Metric("failed_no_circuit", "failed: no circuit", "downloads", -1, "Downloads for which no circuit could be had."),
        Metric("completed", "completed downloads", "downloads", 1, "Downloads that received every byte."),
        Metric(
            "unfinished",
            "unfinished at the end",
            "downloads",
            0,
            "Still under way when the simulation ended; neither completed nor failed.",
        ),
        Metric("utilisation_guard", "utilisation of guards", "%", 0, "Capacity used of relays with the Guard flag only."),
        Metric("utilisation_middle", "utilisation of middles", "%", 0, "Capacity used of relays with neither flag."),
        Metric("utilisation_exit", "utilisation of exits", "%", 0, "Capacity used of relays with the Exit flag only."),
        Metric("utilisation_guard_exit", "utilisation of guard-exits", "%", 0, "Capacity used of relays with both flags."),
    )
}


def with_kind(transfers: pl.DataFrame) -> pl.DataFrame:
    """Add the column ``kind``: the client group, with the size where a group fetches a few different ones."""
    sizes = transfers.group_by("group").agg(pl.col("size_bytes").unique().sort())
    names = {
        (group, size): f"{group}, {called}" if 1 < len(found) <= SPLIT_SIZES else group
        for group, found in sizes.iter_rows()
        for size, called in zip(found, _different(found), strict=True)
    }
    lookup = pl.DataFrame(
        [(group, size, name) for (group, size), name in sorted(names.items())],
        schema={"group": pl.String, "size_bytes": transfers.schema["size_bytes"], "kind": pl.String},
        orient="row",
    )
    return transfers.join(lookup, on=["group", "size_bytes"], how="left", maintain_order="left")


def _different(sizes: Sequence[int]) -> list[str]:
    """Sizes as they are printed; to the byte those that would print alike.

    Examples
    --------
    >>> _different([320 * 1024, 10_000_001, 10_000_002])
    ['320 KiB', '10,000,001 B', '10,000,002 B']
    """
    names = [format_size(size) for size in sizes]
    return [name if names.count(name) == 1 else f"{size:,} B" for size, name in zip(sizes, names, strict=True)]


def kinds(transfers: pl.DataFrame, groups: Sequence[str]) -> list[str]:
    """Kinds of client in the order of ``groups``, within them by size; a group without transfers keeps its place."""
    found: list[str] = []
    for group in groups:
        own = transfers.filter(pl.col("group") == group).select("size_bytes", "kind").unique().sort("size_bytes")
        found += own["kind"].unique(maintain_order=True).to_list() or [group]
    return found


def measured(transfers: pl.DataFrame, measure_from: float) -> pl.DataFrame:
    """Cut to the transfers that start at or after ``measure_from`` (seconds), with times to first and last byte in seconds.

    ``ttfb`` is null where no byte came, ``ttlb`` where the transfer did not complete.
    """
    start = pl.col("start_ns")
    return transfers.filter(start >= round(measure_from * 1e9)).with_columns(
        ttfb=(pl.col("first_byte_ns") - start) / 1e9,
        ttlb=pl.when(pl.col("outcome") == "ok").then((pl.col("last_byte_ns") - start) / 1e9),
    )


def begun_before(named: pl.DataFrame, measure_from: float) -> dict[tuple[str, str], float]:
    """Which share of what arrived in the measured time came by transfers that began before it, which no figure of a kind counts.

    Of a transfer that was under way when the measurement began (seconds) records say what arrived, but not when: as much of it
    counts as if it had arrived evenly from its first byte on.

    Parameters
    ----------
    named : polars.DataFrame
        The result of `with_kind`.

    Returns
    -------
    dict
        The share, from 0 to 1, by treatment and kind; of those of which anything arrived.
    """
    begin = round(measure_from * 1e9)
    first = pl.col("first_byte_ns").fill_null(pl.col("start_ns")).clip(lower_bound=pl.col("start_ns"))
    late = ((pl.col("end_ns") - begin) / (pl.col("end_ns") - first)).clip(0.0, 1.0).fill_nan(0.0).fill_null(0.0)
    received = pl.col("received_bytes").cast(pl.Float64)
    before = pl.col("start_ns") < begin
    shares = (
        named.group_by("treatment", "kind")
        .agg(left_out=(received * late).filter(before).sum(), counted=received.filter(~before).sum())
        .with_columns(share=pl.col("left_out") / (pl.col("left_out") + pl.col("counted")))
        .filter(pl.col("share").is_finite())
    )
    return {(treatment, kind): share for treatment, kind, share in shares.select("treatment", "kind", "share").iter_rows()}


def ordered(values: pl.Series) -> Floats:
    """Values that happened, ascending."""
    return np.sort(values.drop_nulls().to_numpy().astype(np.float64))


def _of_kind(rows: pl.DataFrame, length: float) -> dict[str, float | None]:
    """All figures of one kind of client in one run; ``length`` is the measured time in seconds."""
    figures: dict[str, float | None] = {}
    for name in ("ttfb", "ttlb"):
        values = ordered(rows[name])
        for suffix, q in (("median", 0.5), ("p90", 0.9)):
            figures[f"{name}_{suffix}"] = lower_quantile(values, q) if values.size else None
    counts = dict(rows.group_by("outcome").len().iter_rows())
    failed = sum(counts.get(outcome, 0) for outcome in FAILURES)
    completed = counts.get("ok", 0)
    figures["goodput"] = int(rows["received_bytes"].sum()) * 8e-6 / length if length > 0 else None
    figures["failed"] = 100 * failed / (failed + completed) if failed + completed else None
    for outcome in FAILURES:
        figures[f"failed_{outcome.replace('-', '_')}"] = counts.get(outcome, 0)
    figures["completed"] = completed
    figures["unfinished"] = counts.get("unfinished", 0)
    return figures


def sample_length(*series: str) -> pl.Expr:
    """Seconds that each sample of a time series stands for: since the one before, or since the start.

    The last one of a run is shorter where its duration is no multiple of the sample interval. A series is a run's, or that of
    what the columns ``series`` name in it, such as a relay; its rows are in order of time.
    """
    return _length_ns(*series) / 1e9


def _length_ns(*series: str) -> pl.Expr:
    return pl.col("time_ns").diff().fill_null(pl.col("time_ns")).over(*RUN, *series)


def measured_share(measure_from: float, *series: str) -> pl.Expr:
    """Which share of the time that each sample stands for lies within the measurement, from 0 to 1; ``series`` as above.

    A sample stands for the time that ends with it; of the one in which the measurement begins (seconds), what comes after counts.
    """
    # Whole nanoseconds: a sample that begins with the measurement has exactly 1.
    return ((pl.col("time_ns") - round(measure_from * 1e9)) / _length_ns(*series)).clip(0.0, 1.0)


def measured_sum(samples: pl.DataFrame, column: str, measure_from: float, *series: str) -> float:
    """What a column that counts since the sample before comes to within the measurement; arguments as above."""
    return float(samples.select((pl.col(column) * measured_share(measure_from, *series)).sum()).item())


def measured_mean(samples: pl.DataFrame, column: str, measure_from: float) -> float | None:
    """Mean over time of a column within the measurement, all series together; None where it has no number there."""
    weight = measured_share(measure_from) * sample_length()
    return _mean_over_time(samples.select(value=column, weight=weight))


def _mean_over_time(samples: pl.DataFrame) -> float | None:
    """Mean of ``value`` by ``weight``. No relay in a position leaves nothing to use, which is neither 0 nor 100 %."""
    there = samples.with_columns(pl.col("value").fill_nan(None)).drop_nulls()
    over = float(there["weight"].sum())
    return float((there["value"] * there["weight"]).sum()) / over if over > 0 else None


def _of_network(rows: pl.DataFrame) -> dict[str, float | None]:
    """Figures of the whole network in one run: its samples, of each the ``share`` of its ``length`` (seconds) that counts."""
    seconds = float((rows["share"] * rows["length"]).sum())
    sent = float((rows["goodput_bytes"] * rows["share"]).sum())
    figures: dict[str, float | None] = {"goodput": sent * 8e-6 / seconds if seconds > 0 else None}
    for position in RELAY_CLASSES:
        used = _mean_over_time(rows.select(value=f"utilisation_{position}", weight=pl.col("share") * pl.col("length")))
        figures[f"utilisation_{position}"] = None if used is None else 100 * used
    return figures


def per_run(transfers: pl.DataFrame, network: pl.DataFrame, measure_from: float, duration: float) -> pl.DataFrame:
    """Compute every figure for each run and kind of client.

    Parameters
    ----------
    transfers, network : polars.DataFrame
        Record tables of all runs, with the columns ``treatment``, ``network``, ``seed`` in front.
    measure_from, duration : float
        Begin of the measurement and end of the simulation, in seconds.

    Returns
    -------
    polars.DataFrame
        ``treatment, network, seed, kind, metric, value``. A figure that does not exist (no transfer completed) is null, not
        absent, and a run in which a kind began no transfer has zeros for it: where a treatment brings a network to a stop, that
        counts.

    Raises
    ------
    ValueError
        If the measurement begins only when the simulation has ended: zeros would then look like a network at a stop.
    """
    length = duration - measure_from
    if not length > 0:
        raise ValueError(f"the measurement begins at {measure_from:g} s, which must be before the end at {duration:g} s")
    rows: list[tuple[str, int, int, str, str, float | None]] = []
    named = with_kind(transfers)
    cut = measured(named, measure_from)
    parts = cut.partition_by(*RUN, "kind", as_dict=True, maintain_order=True)
    everything = named["kind"].unique(maintain_order=True).to_list()
    runs = pl.concat([network.select(*RUN), named.select(*RUN)]).unique(maintain_order=True)
    for treatment, number, seed in runs.iter_rows():
        for kind in everything:
            part = parts.get((treatment, number, seed, kind), cut.clear())
            for metric, value in _of_kind(part, length).items():
                rows.append((treatment, number, seed, kind, metric, value))
    series = network.with_columns(length=sample_length(), share=measured_share(measure_from)).filter(pl.col("share") > 0)
    for key, part in series.group_by(*RUN, maintain_order=True):
        treatment, number, seed = key
        for metric, value in _of_network(part).items():
            rows.append((str(treatment), int(number), int(seed), WHOLE, metric, value))
    return pl.DataFrame(
        [row if row[5] is None else (*row[:5], float(row[5])) for row in rows],
        schema={
            "treatment": pl.String,
            "network": pl.UInt32,
            "seed": pl.UInt64,
            "kind": pl.String,
            "metric": pl.String,
            "value": pl.Float64,
        },
        orient="row",
    )
