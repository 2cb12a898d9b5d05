"""Congestion control at an exit, recorded at each SENDME: tor's own log in Shadow, and the table ``vegas`` here."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from onionlab.records import read_parquet
from onionlab.reproductions import beside
from onionlab.results.experiment import Experiment

#: What is compared, and its unit.
QUANTITIES = {"cwnd": "cells", "min_rtt_ms": "ms", "ewma_rtt_ms": "ms", "bdp": "cells"}

#: Runs of ours whose traces are read: each has as many rows as theirs.
RUNS = 20

#: Simulated second at which the clients' programs start there and here.
THEIR_START, OUR_START = 300.0, 20.0


def load_theirs(folder: Path) -> pl.DataFrame | None:
    """The exit's rows of ``vegas_trace_exit.csv.xz`` with the columns of `QUANTITIES` and ``t`` (seconds); None without it."""
    path = folder / "vegas_trace_exit.csv.xz"
    if not path.is_file():
        return None
    rows = beside.table(path, dict.fromkeys(("t_s", "cwnd", "min_rtt_ms", "ewma_rtt_ms", "vegas_bdp"), pl.Float64()))
    rows = rows.filter(pl.col("t_s") >= THEIR_START)
    return rows.with_columns(pl.col("t_s") - THEIR_START).rename({"t_s": "t", "vegas_bdp": "bdp"})


def load_ours(results: Experiment, treatment: str) -> pl.DataFrame | None:
    """The same of our first runs under ``treatment``; None where nothing was traced."""
    parts = []
    for run in [run for run in results.finished if run.treatment == treatment][:RUNS]:
        path = results.directory / run.directory / "vegas.parquet"
        if not path.is_file():
            return None
        frame = read_parquet(path)
        parts.append(
            frame.select(
                t=pl.col("time_ns") / 1e9 - OUR_START,
                cwnd=pl.col("cwnd").cast(pl.Float64),
                min_rtt_ms=pl.col("min_rtt_ns") / 1e6,
                ewma_rtt_ms=pl.col("ewma_rtt_ns") / 1e6,
                bdp=pl.col("bdp").cast(pl.Float64),
            )
        )
    return pl.concat(parts) if parts else None
