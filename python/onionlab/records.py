"""Record tables as they lie on disk, where anything can lie: read within bounds, and held against what they should be.

A column that Python computes with has its type in `COLUMNS`; what the columns mean stands beside their rows in
``crates/lab/src/records``. Columns that are not named there are passed on as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.errors import ResultsError
from onionlab.footer import unpacked_size
from onionlab.quantity import format_bytes
from onionlab.untrusted import clipped

#: Most rows of a file: a constant column of any number of them takes no space on disk, and eight bytes a row in memory.
MOST_ROWS = 100_000_000

#: Most columns of a file: none of onionlab's has a third of them.
MOST_COLUMNS = 100

#: Most bytes of a file's values, and how many more for each row: a scenario is a text in a single row, a text of one letter alone
#: takes next to no space on disk.
MOST_BYTES, BYTES_OF_A_ROW = 128 * 2**20, 4096

#: What reading can raise. Polars panics over some damaged files, which is no `Exception` of Python's.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)

_TEXT, _TIME, _AMOUNT, _COUNT, _SHARE = pl.String(), pl.Int64(), pl.UInt64(), pl.UInt32(), pl.Float64()

#: By table, the columns that are computed with and their types; times in ns, amounts in bytes.
COLUMNS: Mapping[str, Mapping[str, pl.DataType]] = {
    "transfers": {
        "client": _TEXT,
        "group": _TEXT,
        "size_bytes": _AMOUNT,
        "received_bytes": _AMOUNT,
        "start_ns": _TIME,
        "connected_ns": _TIME,
        "answered_ns": _TIME,
        "first_byte_ns": _TIME,
        "last_byte_ns": _TIME,
        "end_ns": _TIME,
        "outcome": _TEXT,
        "circuit": _COUNT,
        "retries": _COUNT,
    },
    "circuits": {
        "circuit": _COUNT,
        "client": _TEXT,
        "group": _TEXT,
        "launched_ns": _TIME,
        "built_ns": _TIME,
        "joined_ns": _TIME,
        "purpose": _TEXT,
        "timed_out": _TEXT,
    },
    "channels": {"channel": _COUNT, "opener": _TEXT, "peer": _TEXT},
    "relays": {"time_ns": _TIME, "relay": _TEXT, "class": _TEXT, "bytes_sent": _AMOUNT, "utilisation": _SHARE},
    "network": {
        "time_ns": _TIME,
        "goodput_bytes": _AMOUNT,
        "relay_bytes_sent": _AMOUNT,
        "transfers_ok": _AMOUNT,
        "transfers_failed": _AMOUNT,
        "active_circuits": _COUNT,
        "utilisation_guard": _SHARE,
        "utilisation_middle": _SHARE,
        "utilisation_exit": _SHARE,
        "utilisation_guard_exit": _SHARE,
    },
    "run": {
        "scenario": _TEXT,
        "version": _TEXT,
        "build": _TEXT,
        "sim_seconds": pl.Float64(),
        "events": _AMOUNT,
        "cell_hops": _AMOUNT,
        "wall_seconds": pl.Float64(),
        "cpu_seconds": pl.Float64(),
        "peak_memory_bytes": _AMOUNT,
        "relays": _COUNT,
        "clients": _COUNT,
        "divergence_json": _TEXT,
    },
}

#: Of these, what a version of onionlab that is older than they are did not write, and what no report needs.
MAY_LACK = {
    "transfers": {"connected_ns", "answered_ns", "circuit", "retries"},
    "circuits": {"launched_ns", "built_ns", "joined_ns", "purpose", "timed_out"},
    "relays": {"bytes_sent", "utilisation"},
    "run": {"build", "cpu_seconds"},
}

#: Of these, what may have no value in a row: what did not happen before the end, has no relay, or is not told by the system.
MAY_BE_NULL = {
    "transfers": {"circuit", "connected_ns", "answered_ns", "first_byte_ns", "last_byte_ns"},
    "circuits": {"built_ns", "joined_ns"},
    "network": {"utilisation_guard", "utilisation_middle", "utilisation_exit", "utilisation_guard_exit"},
    "run": {"cpu_seconds"},
}

#: Control characters, which a terminal obeys.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def scan(path: Path, most: int = MOST_ROWS) -> pl.LazyFrame:
    """A Parquet file of at most so many rows, of which only their number, their size and the columns have been read.

    Raises
    ------
    ResultsError
        If it cannot be read, or has more rows or columns, or larger values than any of onionlab's.
    """
    try:
        size = unpacked_size(path)
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        columns = len(frame.collect_schema())
        rows = frame.select(pl.len()).collect().item()
    except (*UNREADABLE, ValueError) as error:
        raise ResultsError(f"{path} cannot be read ({clipped(error, 200)})") from error
    if rows > most:
        raise ResultsError(f"{path} is not what onionlab wrote: it has {rows:,} rows, and may have {most:,}")
    if columns > MOST_COLUMNS:
        raise ResultsError(f"{path} is not what onionlab wrote: it has {columns:,} columns, and may have {MOST_COLUMNS}")
    if size > MOST_BYTES + rows * BYTES_OF_A_ROW:
        raise ResultsError(f"{path} is not what onionlab wrote: its {rows:,} rows unpack to {format_bytes(size)}")
    return frame


def read_parquet(path: Path, most: int = MOST_ROWS, only: Collection[str] | None = None) -> pl.DataFrame:
    """A Parquet file of at most so many rows; of its columns those in ``only`` that it has.

    Raises
    ------
    ResultsError
        As `scan`.
    """
    frame = scan(path, most)
    try:
        if only is not None:
            frame = frame.select(name for name in frame.collect_schema() if name in only)
        return frame.collect()
    except UNREADABLE as error:
        raise ResultsError(f"{path} cannot be read ({clipped(error, 200)})") from error


def scan_table(path: Path, table: str) -> pl.LazyFrame:
    """A record table of a run, whose columns have been held against `COLUMNS`.

    Raises
    ------
    ResultsError
        As `scan`, or if a column is missing or of another type.
    """
    frame = scan(path)
    _check_schema(path, table, frame.collect_schema())
    return frame


def check_columns(path: Path, table: str) -> None:
    """Look whether a record table of a run is one, by the end of its file alone, which says what its columns are.

    Raises
    ------
    ResultsError
        As `scan_table`, but for the number of rows and columns.
    """
    try:
        # Which an end that polars would count in for minutes does not pass.
        unpacked_size(path)
        found = pl.scan_parquet(path, glob=False, hive_partitioning=False).collect_schema()
    except (*UNREADABLE, ValueError) as error:
        raise ResultsError(f"{path} cannot be read ({clipped(error, 200)})") from error
    _check_schema(path, table, found)


def _check_schema(path: Path, table: str, found: Mapping[str, pl.DataType]) -> None:
    for name, kind in COLUMNS.get(table, {}).items():
        if name not in found:
            if name not in MAY_LACK.get(table, ()):
                raise ResultsError(f"{path} is not what onionlab wrote: it has other columns, and no `{name}`")
        elif found[name] != kind:
            raise ResultsError(f"{path} is not what onionlab wrote: its column `{name}` is of type {found[name]}, not {kind}")


def check_values(frame: pl.DataFrame, table: str, duration: float) -> None:
    """Refuse values that no run has: the rows of any runs, with the columns that name a run.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    table : str
        Of which record table.
    duration : float
        The longest simulated time of a run, in seconds.

    Raises
    ------
    ResultsError
        If a value is missing, out of its range or not in its order; it names the column.
    """
    for name in COLUMNS.get(table, {}):
        if name in frame.columns and name not in MAY_BE_NULL.get(table, ()) and frame[name].has_nulls():
            raise ResultsError(f"`{name}` has no value in a row of the table {table!r}")
    run = [key for key in ("point", "treatment", "network", "seed") if key in frame.columns]
    match table:
        case "transfers":
            _check_transfers(frame)
        case "network":
            before = pl.col("time_ns").shift(1).over(run).fill_null(0)
            _refuse(frame, pl.col("time_ns") <= before, f"the times of the table {table!r} are not above 0 and ascending")
            # The last sample is at the end of the run, to the nanosecond to which a floating-point number has it.
            _refuse(frame, pl.col("time_ns") > duration * 1e9 + 1, f"a time of the table {table!r} is after the run's end")
        case "run":
            _check_runs(frame)


def _check_transfers(frame: pl.DataFrame) -> None:
    _refuse(frame, pl.col("start_ns") < 0, "a transfer starts before the simulation does")
    for name in ("group", "outcome"):
        if any(CONTROL.search(text) for text in frame[name].unique()):
            raise ResultsError(f"`{name}` of a transfer has control characters")


def _check_runs(frame: pl.DataFrame) -> None:
    for name in ("sim_seconds", "wall_seconds", "cpu_seconds"):
        if name in frame.columns:
            value = pl.col(name)
            _refuse(frame, ~value.is_finite() | (value < 0), f"`{name}` of a run is no length of time")
    for text in frame["divergence_json"].unique():
        try:
            json.loads(text or "null")
        except (ValueError, RecursionError) as error:
            raise ResultsError(f"`divergence_json` of a run is no JSON ({clipped(error)})") from error


def _refuse(frame: pl.DataFrame, wrong: pl.Expr, said: str) -> None:
    if frame.select(wrong.any()).item():
        raise ResultsError(said)


def texts(value: Any) -> list[str]:
    """All texts in what JSON held, names of values among them; however deep, because none of it is called again."""
    found, waiting = [], [value]
    while waiting:
        match waiting.pop():
            case str(text):
                found.append(text)
            case dict(table):
                found += table
                waiting += table.values()
            case list(entries):
                waiting += entries
    return found
