"""What the perf clients of a run saw, in the reference's words: times by metric and size, failures by client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from onionlab.reproductions.kept import Form, Made, Reduced
from onionlab.results.experiment import Experiment
from onionlab.stats.intervals import Floats
from onionlab.stats.metrics import measured_sum

#: Transfer sizes in bytes; "all" is every one of them.
SIZES = ("all", "51200", "1048576", "5242880")

#: Simulated time of theirs, in seconds.
HOUR = 3600.0

#: After how many seconds a perf client gives a download up, by size (tornettools, as OnionPerf does).
TIME_OUTS = {"51200": 15, "1048576": 60, "5242880": 120}

#: Times, as the reference calls them, and in words.
TIMES = {"time_to_first_byte_recv": "first byte", "time_to_last_byte_recv": "last byte"}

#: The time that clients feel first.
FIRST_BYTE = "time_to_first_byte_recv"

#: The column of the table ``transfers`` at which each time ends.
_ENDS = {"time_to_first_byte_recv": "first_byte_ns", "time_to_last_byte_recv": "last_byte_ns"}

#: Times in seconds, sorted, by metric and size.
Samples = dict[tuple[str, str], Floats]

#: What is taken of a perf client's transfer.
COLUMNS = {
    "client": pl.String,
    "size_bytes": pl.UInt64,
    "outcome": pl.String,
    "connected_ns": pl.Int64,
    "first_byte_ns": pl.Int64,
    "last_byte_ns": pl.Int64,
}

#: What is taken of the row of the table ``run``. ``cpu_seconds`` is none where the system does not tell it.
OF_RUN = ("relays", "clients", "cell_hops", "wall_seconds", "cpu_seconds", "peak_memory_bytes")


@dataclass(frozen=True)
class Observed:
    """One run of a network, reduced.

    Attributes
    ----------
    perf
        The perf clients' transfers that began when statistics had begun: `COLUMNS`.
    run
        Of the row of the table ``run``: `OF_RUN`.
    duration, measure_from
        Simulated seconds, and when statistics began.
    goodput
        Of all relays, in bits/s, since ``measure_from``.
    settings
        What the experiment says beside the network: tables of latency, traffic models.
    made
        By which code.
    """

    perf: pl.DataFrame
    run: dict[str, Any]
    duration: float
    measure_from: float
    goodput: float
    settings: tuple[str, str]
    made: tuple[Made, ...]

    @classmethod
    def of(cls, reduced: Reduced) -> Observed:
        """What `reduce` made of a run."""
        return cls(perf=reduced.frames["perf"], made=reduced.made, **_facts(reduced.facts))

    def until(self, duration: float) -> Observed:
        """The run as far as so many simulated seconds: downloads that were given up or complete by then, whatever became of them.

        Those are the ones that began a time-out before. Of later ones only the fast are seen to end.
        """
        longest = pl.col("size_bytes").cast(pl.String).replace_strict(TIME_OUTS, return_dtype=pl.Int64)
        return replace(self, perf=self.perf.filter(pl.col("connected_ns") / 1e9 + longest <= duration), duration=duration)

    def beside_theirs(self) -> Observed:
        """What stands beside an hour of theirs: all of an hour, at whose end theirs were cut off too; less of a shorter run."""
        return self if self.duration >= HOUR else self.until(self.duration)


def _facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as `Observed` has them; raises what `onionlab.reproductions.kept.Form` says where they are not."""
    run = {name: given["run"][name] for name in OF_RUN}
    # `cpu_seconds`, where the system does not tell it.
    for value in (value for value in run.values() if value is not None):
        float(value)
    latency, models = map(str, given["settings"])
    return {"run": run, "settings": (latency, models)} | {
        name: float(given[name]) for name in ("duration", "measure_from", "goodput")
    }


#: What is kept of each network.
FORM = Form(1, {"perf": COLUMNS}, _facts)


def reduce(experiment: Experiment) -> Reduced:
    """What is taken of a finished run."""
    since = experiment.measure_from * 1e9
    perf = experiment.transfers.filter(pl.col("group") == "perf", pl.col("start_ns") >= since).select(*COLUMNS)
    sent = measured_sum(experiment.network, "relay_bytes_sent", experiment.measure_from)
    scenario, run = experiment.plan.scenario, experiment.runs.row(0, named=True)
    facts = {
        "run": {name: run[name] for name in OF_RUN},
        "duration": experiment.duration,
        "measure_from": experiment.measure_from,
        "goodput": 8 * sent / (experiment.duration - experiment.measure_from),
        "settings": [
            "the table of countries" if scenario["network"]["latency"] else "the built-in places",
            "the learned models" if scenario["clients"][0]["load"]["kind"] == "markov" else "the built-in compact model",
        ],
    }
    return Reduced({"perf": perf}, Made.of(experiment), facts)


def times(perf: pl.DataFrame) -> Samples:
    """Times of completed downloads, counted as theirs from when the request leaves: when the stream is connected."""
    done = perf.filter(pl.col("outcome") == "ok")
    return {(metric, size): np.sort(_seconds(_of_size(done, size), metric)) for metric in TIMES for size in SIZES}


def times_by_client(perf: pl.DataFrame, metric: str, size: str) -> dict[str, Floats]:
    """The same, of one metric and size, for each client that completed such a download."""
    rows = _of_size(perf.filter(pl.col("outcome") == "ok"), size)
    return {str(key[0]): _seconds(own, metric) for key, own in rows.group_by("client", maintain_order=True)}


def errors(perf: pl.DataFrame) -> Floats:
    """Share of failed downloads of each client."""
    ended = perf.filter(pl.col("outcome") != "unfinished")
    shares = ended.group_by("client").agg((pl.col("outcome") != "ok").mean()).sort("client")
    return shares["outcome"].to_numpy()


def _of_size(rows: pl.DataFrame, size: str) -> pl.DataFrame:
    return rows if size == "all" else rows.filter(pl.col("size_bytes") == int(size))


def _seconds(rows: pl.DataFrame, metric: str) -> Floats:
    return ((rows[_ENDS[metric]] - rows["connected_ns"]) / 1e9).to_numpy()
