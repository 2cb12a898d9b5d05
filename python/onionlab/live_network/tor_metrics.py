"""Figures of the live network: what Tor Metrics and OnionPerf publish, in the forms in which one gets it.

Four kinds of files are read, each as it is or packed as ``.xz`` or ``.gz``:

- ``tor_metrics_<first>--<last>.json``, which ``tornettools stage`` makes of OnionPerf's files and ``bandwidth.csv``: lists of
  single measurements (``circuit_rtt`` and ``circuit_build_times`` in s, ``download_times`` in s by size), ``daily_counts`` and
  ``relay_goodput`` (Gbit/s by day).
- Tables of Tor Metrics (metrics.torproject.org), recognised by their columns: ``torperf.csv`` (``date, filesize, source,
  server, q1, md, q3`` in s), ``torperf-1.1.csv`` (the same in ms, and ``timeouts, failures, requests``),
  ``onionperf-latencies.csv`` (``date, source, server, low, q1, md, q3, high`` in ms), ``onionperf-buildtimes.csv`` (``date,
  source, position, q1, md, q3`` in ms), ``torperf-failures.csv`` (``date, filesize, source, server, timeouts, failures`` as
  shares) and ``bandwidth.csv`` (``date, advbw, bwhist`` in Gbit/s). Lines that begin with ``#`` are left out, and rows of onion
  servers.
- An object with ``quantiles`` and an object whose name begins with ``tor_``, with quantiles of the same quantities.

Each quantity becomes quantiles. Of a table these are q1, median and q3: the medians of what its days and sources have. Rows of
all sources together are left out where there are rows of single ones.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onionlab.errors import UntrustedError
from onionlab.untrusted import Fields, clipped, read_text

#: Quantities, and how they are called in words; times in s.
QUANTITIES = {
    "circuit_rtt": "circuit round trip",
    "circuit_build_times": "circuit build time",
    "51200": "time to last byte, 50 KiB",
    "1048576": "time to last byte, 1 MiB",
    "5242880": "time to last byte, 5 MiB",
}

#: Sizes of downloads in bytes, and how often OnionPerf makes each.
WEIGHTS = {"51200": 12, "1048576": 2, "5242880": 1}

#: Columns of what did not end well.
FAILED = ("timeouts", "failures")

#: Quantiles that are taken of lists of single measurements.
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)

#: Most bytes of a file, and most rows, columns and values of a table; of the columns only those that are known are kept.
MOST, MOST_ROWS, MOST_COLUMNS, MOST_CELLS = 64 * 2**20, 1_000_000, 100, 10_000_000

#: Columns of a table that are looked at.
KNOWN = {
    *("date", "filesize", "source", "server", "position", "low", "q1", "md", "q3", "high"),
    *("timeouts", "failures", "requests", "advbw", "bwhist"),
}

#: Greatest number that is taken from a table, in its own unit.
GREATEST = 1e9

#: A day, wherever in a text, and the name of an object of quantiles, with its year.
_DAY, _NAMED = re.compile(r"(?<![0-9])([0-9]{4})-[0-9]{2}-[0-9]{2}(?![0-9])"), re.compile(r"tor_([0-9]{4})(?![0-9])")

_QUARTILES = {"low": 0.1, "q1": 0.25, "md": 0.5, "q3": 0.75, "high": 0.9}


@dataclass
class Metrics:
    """What is known of the live network.

    Attributes
    ----------
    sources
        Names of the files.
    years
        By name of the file: the first and the last year of what it holds; of what says no year, nothing.
    times
        By key of `QUANTITIES`: quantile and time in s.
    error_rate
        Share of downloads that fail, 0 to 1; None: not known.
    relay_goodput
        Of all relays, in bits/s; None: not known.
    """

    sources: list[str] = field(default_factory=list)
    times: dict[str, dict[float, float]] = field(default_factory=dict)
    error_rate: float | None = None
    relay_goodput: float | None = None
    years: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def when(self) -> str:
        """The years of all figures in words; empty where no file says one."""
        spans = sorted(set(self.years.values()))
        return " and ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)

    def named(self, quote: str = "") -> str:
        """The files in words, each with its years."""
        years = {source: Metrics(years={source: span}).when for source, span in self.years.items()}
        return ", ".join(
            f"{quote}{source}{quote}" + (f" (of {years[source]})" if source in years else "") for source in self.sources
        )

    def of_other_years(self, year: int | None) -> str:
        """A sentence where figures are of other years than the simulated network, whose year that is; else nothing."""
        if year is None or all(first <= year <= last for first, last in self.years.values()):
            return ""
        return (
            f"**The live figures are of {self.when}, the simulated network is that of {year}**: the ratios also show what "
            "changed in between, such as the load and the versions of tor."
        )

    def add(self, path: Path) -> None:
        """Add what a file says; it comes before what others said of the same quantity.

        Raises
        ------
        UntrustedError
            If it is of none of the known forms.
        """
        text = read_text(path, MOST)
        if text.lstrip().startswith("{"):
            self._add_json(path, text)
        else:
            self._add_table(path, text)
        self.sources.append(path.name)

    def _note_years(self, path: Path, texts: Iterable[str], pattern: re.Pattern[str] = _DAY) -> None:
        """Note from when figures are, as far as texts of their file tell."""
        if found := years_in(texts, pattern):
            self.years[path.name] = (min(found), max(found))

    def _add_json(self, path: Path, text: str) -> None:
        import json

        try:
            document = Fields(str(path), json.loads(text))
        except (ValueError, RecursionError) as error:
            raise UntrustedError(f"{path} is no JSON ({clipped(error)})") from error
        live = [name for name, value in document.items() if name.startswith("tor_") and isinstance(value, dict)]
        if "quantiles" in document and live:
            self._add_quantiles(document, live[0])
            self._note_years(path, live[:1], _NAMED)
        elif "circuit_rtt" in document or "download_times" in document:
            # What has neither counts nor goodput by day says in its name alone from when it is.
            days = [day for key in ("daily_counts", "relay_goodput") if key in document for day, _ in document.table(key).items()]
            self._note_years(path, days or [path.name])
            self._add_measurements(document)
        else:
            raise UntrustedError(f"{path} has neither measurements of OnionPerf nor quantiles of them")

    def _add_quantiles(self, document: Fields, name: str) -> None:
        quantiles = _numbers(document, "quantiles", 0.0, 1.0)
        known = document.table(name)
        for key in QUANTITIES:
            table = known if key in known or "download_times" not in known else known.table("download_times")
            if key in table:
                values = _numbers(table, key, 0.0, 1e6)
                if len(values) != len(quantiles):
                    raise table.refuse(key, f"a list of {len(quantiles)} numbers")
                self.times[key] = dict(zip(quantiles, values, strict=True))
        shares = [key for key in ("timeout_percent", "failure_percent") if key in known]
        failed = [_number(known, key, dict(known.items())[key], 0.0, 100.0) for key in shares]
        if failed:
            self.error_rate = sum(failed) / 100

    def _add_measurements(self, document: Fields) -> None:
        for key in QUANTITIES:
            table = document if key in document or "download_times" not in document else document.table("download_times")
            values = _numbers(table, key, 0.0, 1e6) if key in table else []
            if values:
                ordered = sorted(values)
                self.times[key] = {q: ordered[int((len(ordered) - 1) * q)] for q in QUANTILES}
        if "daily_counts" in document:
            days = [Fields(f"{document.where}, {day}", row) for day, row in document.table("daily_counts").items()]
            counts = [[day.whole(key, 0, 10**9) for key in ("requests", "timeouts", "failures")] for day in days]
            requests = sum(row[0] for row in counts)
            if requests:
                self.error_rate = sum(row[1] + row[2] for row in counts) / requests
        if "relay_goodput" in document:
            goodput = document.table("relay_goodput")
            days_gbit = [_number(goodput, day, value, 0.0, 1e6) for day, value in goodput.items()]
            if days_gbit:
                self.relay_goodput = float(np.median(days_gbit)) * 1e9

    def _add_table(self, path: Path, text: str) -> None:
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        rows = csv.reader(io.StringIO("\n".join(lines)))
        try:
            names = next(rows, [])
            columns = set(names)
            if len(names) > MOST_COLUMNS:
                raise UntrustedError(f"{path} has {len(names):,} columns, more than the {MOST_COLUMNS} that can be read")
            table: list[dict[str, str]] = []
            cells = 0
            for number, values in enumerate(rows):
                if number >= MOST_ROWS:
                    raise UntrustedError(f"{path} has more than {MOST_ROWS:,} rows")
                row = {name: value for name, value in zip(names, values, strict=False) if value and name in KNOWN}
                if row.get("server", "public") == "public" and row:
                    table.append(row)
                    cells += len(row)
                if cells > MOST_CELLS:
                    raise UntrustedError(f"{path} has more than {MOST_CELLS:,} values")
        except csv.Error as error:
            raise UntrustedError(f"{path} is no table of Tor Metrics ({clipped(error)})") from error
        counted = {"timeouts", "failures", "requests"} <= columns
        if {"date", "advbw", "bwhist"} <= columns:
            self.relay_goodput = _median(path, table, "bwhist", 1e9)
        elif {"date", "filesize", "q1", "md", "q3"} <= columns:
            for size in WEIGHTS:
                if of_size := _of_size(table, size):
                    self.times[size] = _quartiles(path, of_size, 1e-3 if counted else 1.0)
            if counted:
                every = [row for size in WEIGHTS for row in _of_size(table, size)]
                lost, requests = (sum(sum(_values(path, every, key)) for key in keys) for keys in (FAILED, ("requests",)))
                self.error_rate = lost / requests if requests else self.error_rate
        elif {"date", "filesize", "timeouts", "failures"} <= columns:
            # On most days of few downloads none fails, so that a median of days would be nothing: means, of what is downloaded.
            shares = {
                size: [_share(path, of_size, key) for key in FAILED] for size in WEIGHTS if (of_size := _of_size(table, size))
            }
            if not shares:
                raise UntrustedError(f"{path} has no rows of {', '.join(WEIGHTS)} bytes")
            weight = sum(WEIGHTS[size] for size in shares)
            self.error_rate = sum(WEIGHTS[size] * sum(of_size) for size, of_size in shares.items()) / weight
        elif {"date", "position", "q1", "md", "q3"} <= columns:
            # The three positions are those of a circuit's hops: what its extension to each took.
            by_hop = [
                _quartiles(path, _single([row for row in table if row.get("position") == hop]), 1e-3) for hop in ("1", "2", "3")
            ]
            self.times["circuit_build_times"] = {q: sum(hop[q] for hop in by_hop) for q in by_hop[0]}
        elif {"date", "low", "q1", "md", "q3", "high"} <= columns:
            # Low and high are ends of whiskers, not quantiles.
            quartiles = _quartiles(path, _single(table), 1e-3)
            self.times["circuit_rtt"] = {q: quartiles[q] for q in (0.25, 0.5, 0.75)}
        else:
            found = clipped(sorted(columns)) if columns else "none"
            raise UntrustedError(
                f"{path} is no table of Tor Metrics that is known (docs/calibration.md names them): its columns are {found}"
            )
        self._note_years(path, (row.get("date", "") for row in table))


def years_in(texts: Iterable[str], pattern: re.Pattern[str] = _DAY) -> set[int]:
    """The years of the days that are in texts."""
    return {int(year) for text in texts for year in pattern.findall(text)}


def _size(text: str) -> str:
    """A size in bytes, which some tables abbreviate."""
    return {"50 KiB": "51200", "1 MiB": "1048576", "5 MiB": "5242880", "50kb": "51200", "1mb": "1048576", "5mb": "5242880"}.get(
        text, text
    )


def _number(fields: Fields, key: str, value: object, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise fields.refuse(key, f"a number from {least:g} to {most:g}")
    return float(value)


def _numbers(fields: Fields, key: str, least: float, most: float) -> list[float]:
    return [_number(fields, key, value, least, most) for value in fields.rows(key, 10_000_000)]


def _of_size(rows: Iterable[dict[str, Any]], size: str) -> list[dict[str, Any]]:
    """Rows of a size, as `_single` has them."""
    return _single([row for row in rows if _size(row.get("filesize", "")) == size])


def _single(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of single sources; those of all together only where there are no others."""
    return [row for row in rows if row.get("source")] or rows


def _share(path: Path, rows: Iterable[dict[str, Any]], column: str) -> float:
    """The mean of a column of shares."""
    values = _values(path, rows, column)
    if not values:
        raise UntrustedError(f"{path} has no numbers in the column `{column}`")
    if max(values) > 1:
        raise UntrustedError(f"{path}: `{column}` is {max(values):g}, but must be a share, from 0 to 1")
    return sum(values) / len(values)


def _values(path: Path, rows: Iterable[dict[str, Any]], column: str) -> list[float]:
    """What is in a column, rows without it left aside."""
    values = []
    for row in rows:
        text = (row.get(column) or "").strip()
        if not text or text == "NA":
            continue
        try:
            value = float(text)
        except ValueError as error:
            raise UntrustedError(f"{path}: `{column}` is {clipped(text, 30)!r}, but must be a number") from error
        if not 0.0 <= value <= GREATEST:
            raise UntrustedError(f"{path}: `{column}` is {clipped(text, 30)!r}, but must be a number from 0 to {GREATEST:g}")
        values.append(value)
    return values


def _median(path: Path, rows: Iterable[dict[str, Any]], column: str, factor: float) -> float:
    """The median of a column, rows without it left aside."""
    values = _values(path, rows, column)
    if not values:
        raise UntrustedError(f"{path} has no numbers in the column `{column}`")
    return float(np.median(values)) * factor


def _quartiles(path: Path, rows: list[dict[str, Any]], factor: float) -> dict[float, float]:
    return {_QUARTILES[column]: _median(path, rows, column, factor) for column in ("q1", "md", "q3")}
