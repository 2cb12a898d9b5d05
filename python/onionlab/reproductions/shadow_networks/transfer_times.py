"""What the perf clients of a run saw, in the reference's words: times by metric and size, failures by client."""

from __future__ import annotations

import numpy as np
import polars as pl

from onionlab.results import Experiment
from onionlab.stats.intervals import Floats

#: Transfer sizes in bytes; "all" is every one of them.
SIZES = ("all", "51200", "1048576", "5242880")

#: Times, as the reference calls them, and in words.
TIMES = {"time_to_first_byte_recv": "first byte", "time_to_last_byte_recv": "last byte"}

#: The column of the table ``transfers`` at which each time ends.
_ENDS = {"time_to_first_byte_recv": "first_byte_ns", "time_to_last_byte_recv": "last_byte_ns"}

#: Times in seconds, sorted, by metric and size.
Samples = dict[tuple[str, str], Floats]


def measured(experiment: Experiment) -> pl.DataFrame:
    """The perf clients' transfers that began when statistics had begun."""
    return experiment.transfers.filter(pl.col("group") == "perf", pl.col("start_ns") >= experiment.measure_from * 1e9)


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
