"""The testbeds of `onionlab.reproductions.cci`: eight bulk clients in three settings, and two clients in eleven.

The network is given by hand, so a seed is what is replicated: it draws losses and the instants at which clients start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from onionlab.reproductions import runs
from onionlab.reproductions.figures import Figure, frame, mean
from onionlab.reproductions.kept import Made, Reduced, frames_together, made_together
from onionlab.results.experiment import Experiment
from onionlab.stats.metrics import measured, measured_sum

VANILLA, PCTLS = "vanilla", "PCTLS"

#: The testbed that has both without Nagle's algorithm too, and how they are called there.
PLAIN = "no-dropping"
WITHOUT_NAGLE = {VANILLA: "vanilla, no Nagle", PCTLS: "PCTLS, no Nagle"}

#: Experiment files with eight clients, and with two.
EIGHT = ("no-dropping", "shared-dropping", "dropping-remaining")
TWO = (
    *(f"one-{load}" for load in ("bulk", "audio", "video", "web")),
    *(f"two-{load}" for load in ("bulk", "audio", "video", "web")),
    *(f"three-{load}" for load in ("bulk", "audio", "video")),
)
TESTBEDS = (*EIGHT, *TWO)

#: Figures of a run; what they are stands in ``claims.toml``.
METRICS = ("throughput", "round-trip", "time", "build", "held")

#: Bytes of a transfer of the bulk clients.
BULK = 5_000_000

#: What the quick run has.
QUICK_SEEDS, QUICK_DURATION = 3, "75 s"


@dataclass(frozen=True)
class Measured:
    """All testbeds, reduced.

    Attributes
    ----------
    figures
        ``place, treatment, replicate, metric, value``; the place is the file's name, the replicate a seed.
    times
        ``place, treatment, network, seed, what, value``: every transfer's time in seconds (``what`` is ``time``) and every
        round trip in ms (``round-trip``); ``network`` is the seed, so that bands lie over seeds.
    made
        By which code the runs were made, and how long they took.
    """

    figures: pl.DataFrame
    times: pl.DataFrame
    made: tuple[Made, ...] = ()

    @property
    def seeds(self) -> int:
        """How many there are."""
        return self.figures["replicate"].n_unique()


def prepare(experiments: Path, out: Path, *, quick: bool) -> list[runs.Ahead]:
    """Name, experiment file and results directory of every testbed; the quick run's files are written."""
    shorter = runs.Changes(
        {
            r"(?m)^seeds = .*$": f"seeds = {list(range(1, QUICK_SEEDS + 1))}",
            r"(?m)^duration = .*$": f'duration = "{QUICK_DURATION}"',
        }
    )
    return [runs.prepare(experiments / f"{name}.toml", out, shorter if quick else None) for name in TESTBEDS]


def reduce(name: str, experiment: Experiment) -> Reduced:
    """One testbed."""
    figures: list[Figure] = []
    times: list[pl.DataFrame] = []
    everything = ended_for_sure(measured(experiment.transfers, experiment.measure_from), experiment.duration)
    for treatment in experiment.treatments:
        own = everything.filter(pl.col("treatment") == treatment)
        for (seed,), rows in own.group_by("seed", maintain_order=True):
            circuits = experiment.circuits.filter(pl.col("treatment") == treatment, pl.col("seed") == seed)
            relays = experiment.relays.filter(pl.col("treatment") == treatment, pl.col("seed") == seed)
            span = experiment.measure_from, experiment.duration
            for metric, value in _figures(name, rows, circuits, relays, span).items():
                figures.append((name, treatment, int(str(seed)), metric, value))
        times.append(_times(name, own))
    return Reduced({"figures": frame(figures), "times": pl.concat(times)}, Made.of(experiment))


def together(reduced: Sequence[Reduced]) -> Measured:
    """All testbeds."""
    return Measured(frames_together(reduced, "figures"), frames_together(reduced, "times"), made_together(reduced))


def ended_for_sure(transfers: pl.DataFrame, end: float) -> pl.DataFrame:
    """Without the times (``ttlb``) of transfers that began less before the end than the slowest of their group took.

    Of those that begin later only the fast ones are seen to end, which would favour who is slow. ``transfers`` are those of all
    treatments and seeds.
    """
    slowest = pl.col("ttlb").max().over("group")
    return transfers.with_columns(ttlb=pl.when(pl.col("start_ns") / 1e9 + slowest <= end).then("ttlb"))


def watched(name: str, transfers: pl.DataFrame) -> pl.DataFrame:
    """Transfers of the client whose times are shown: with two clients that beside the bulk client."""
    load = name.rpartition("-")[2]
    if name in EIGHT or load == "bulk":
        return transfers
    return transfers.filter(pl.col("group") == load)


def _figures(
    name: str, transfers: pl.DataFrame, circuits: pl.DataFrame, relays: pl.DataFrame, span: tuple[float, float]
) -> dict[str, float | None]:
    """One run's figures; ``span`` is when the measurement begins and ends, in seconds. Transfers are cut to it already."""
    begin, end = span
    bulk = transfers.filter(pl.col("group").str.starts_with("bulk"))["ttlb"].drop_nulls()
    time = mean(bulk)
    late = circuits.filter(pl.col("launched_ns") >= round(begin * 1e9))
    return {
        "throughput": BULK / 1e6 / time if time else None,
        "round-trip": mean(_round_trips(watched(name, transfers))),
        "time": mean(watched(name, transfers)["ttlb"]),
        "build": mean((late["built_ns"] - late["launched_ns"]) / 1e9),
        "held": measured_sum(relays, "held", begin, "relay") / (end - begin) if end > begin else None,
    }


def _round_trips(transfers: pl.DataFrame) -> pl.Series:
    """From opening a stream to CONNECTED, in ms."""
    return transfers.select(value=(pl.col("connected_ns") - pl.col("start_ns")) / 1e6)["value"]


def _times(name: str, transfers: pl.DataFrame) -> pl.DataFrame:
    rows = watched(name, transfers)
    seed = pl.col("seed").cast(pl.Int64)
    keys = [pl.lit(name).alias("place"), pl.col("treatment"), seed.alias("network"), seed]
    times = rows.select(*keys, what=pl.lit("time"), value=pl.col("ttlb"))
    trips = rows.select(*keys, what=pl.lit("round-trip"), value=(pl.col("connected_ns") - pl.col("start_ns")) / 1e6)
    return pl.concat([times, trips]).drop_nulls("value")
