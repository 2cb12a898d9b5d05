# ruff: noqa: E501  (sentences)
"""Networks of `make.py` whose clients that measure begin one after the other (``--spread``), so that they meet exits at all times: as Shadow had them, and the same here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from make import PERF, RATE
from ours import BEGIN, downloads, imported, spread
from shadow import SCHEMA, circuits, keep, passed
from shadow import downloads as downloads_there

import onionlab

#: Seeds here, and seconds of load after the last download that is looked at began: larger ones are given up after two minutes.
SEEDS, AFTER = 10, 125
#: Downloads are looked at by the minute of load in which they began, the first of all being empty.
FIRST = 60

#: What is compared, and its digits: of the downloads of a minute, or of those that ended.
FIGURES: Mapping[str, tuple[Callable[[pl.DataFrame], float], int]] = {
    "fail": (lambda frame: float(PERF - frame["ok"].sum()), 0),
    "connected, p50": (lambda frame: _quantile(frame, "", "connected", 0.5), 2),
    "first byte, p25": (lambda frame: _quantile(frame, "connected", "first", 0.25), 2),
    "p50": (lambda frame: _quantile(frame, "connected", "first", 0.5), 2),
    "p75": (lambda frame: _quantile(frame, "connected", "first", 0.75), 2),
    "p90": (lambda frame: _quantile(frame, "connected", "first", 0.9), 2),
}


def _quantile(frame: pl.DataFrame, begin: str, end: str, at: float) -> float:
    """Of the downloads that ended: seconds from one time of theirs (the start, if it has no name) to another."""
    ended = frame.filter("ok")
    return float(np.quantile(ended[end] - ended[begin] if begin else ended[end], at)) if len(ended) else float("nan")


@dataclass(frozen=True)
class Runs:
    """A network: what it is, runs there, and what the same came to here. Of circuits: launched and found late by Markov clients, by minute; of exits: bytes sent."""

    setting: dict[str, Any]
    there: list[dict[str, Any]]
    here: list[pl.DataFrame]
    circuits: list[list[list[int]]]
    passed: list[dict[str, list[int]]]

    @property
    def name(self) -> str:
        """What it is."""
        of = self.setting
        exits = "one exit" if of["exits"] == 1 else f"{of['exits']} exits"
        return f"{exits} with {'a link' if of['exits'] == 1 else 'links'} of {of.get('rate', RATE) / 1e6:g} MB/s, {of['clients']} clients, a circuit each {of['interval_us'] / 1e6:.1f} s"

    def minutes(self) -> range:
        """When the downloads began that are looked at."""
        return range(FIRST, self.setting["until"], 60)

    def _of(self, frames: Sequence[pl.DataFrame], minute: int) -> list[pl.DataFrame]:
        return [frame.filter(pl.col("time").is_between(minute, minute + 60, closed="left")) for frame in frames]

    def figures(self, minute: int) -> Iterator[tuple[list[float], list[float], int]]:
        """Each of `FIGURES` in the runs there and here, and its digits."""
        frames = [pl.DataFrame(run["downloads"], schema=SCHEMA, orient="row") for run in self.there]
        there, here = self._of(frames, minute), self._of(self.here, minute)
        for figure, digits in FIGURES.values():
            yield [figure(frame) for frame in there], [figure(frame) for frame in here], digits


def take(folder: Path, out: Path, setting: dict[str, Any]) -> None:
    """Reads what Shadow has left, and keeps it."""
    kept = {"setting": setting, "downloads": [row for row in downloads_there(folder) if float(str(row[0])) < setting["until"]]}
    last = setting["until"] // 60
    sent = {name: minutes[:last] for name, minutes in passed(folder / "shadow.log").items()}
    keep(out, kept | {"passed": sent, "circuits": circuits(folder)[:last]})


def both(folder: Path, work: Path) -> list[Runs]:
    """All networks of a folder of what was kept (``NAME-RUN.json``), run here too."""
    networks: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(folder.glob("*.json")):
        networks.setdefault(file.stem.rpartition("-")[0], []).append(json.loads(file.read_text()))
    return [_run(there[0]["setting"], there, work / name) for name, there in networks.items()]


def _run(setting: dict[str, Any], there: list[dict[str, Any]], work: Path) -> Runs:
    file = imported(setting, work, setting["until"] + AFTER, SEEDS, record=True)
    results = onionlab.run(file, work / "results", report=False)
    minutes = range(setting["until"] // 60)
    measuring = downloads(results, group="perf")
    markov = results.circuits.filter(pl.col("group") != "perf")
    exits = results.relays.filter(pl.col("relay").str.starts_with("exit"))
    measuring_by_seed, markov_by_seed, exits_by_seed = (
        [frame.filter(pl.col("seed") == seed) for seed in range(1, SEEDS + 1)] for frame in (measuring, markov, exits)
    )
    return Runs(
        setting,
        there,
        measuring_by_seed,
        [_circuits(of, minutes) for of in markov_by_seed],
        [_sent(of, minutes) for of in exits_by_seed],
    )


def _circuits(of: pl.DataFrame, minutes: range) -> list[list[int]]:
    """How many were launched by minute of load, and how many of those were late."""
    minute = ((pl.col("launched_ns") / 1e9 - BEGIN) // 60).cast(pl.Int64)
    launched = [of.filter(minute == at) for at in minutes]
    return [[len(some), int((some["timed_out"] == "yes").sum())] for some in launched]


def _sent(of: pl.DataFrame, minutes: range) -> dict[str, list[int]]:
    """Bytes that each relay sent by minute of load; a row is of the second that ends then."""
    minute = ((pl.col("time_ns") / 1e9 - BEGIN - 0.5) // 60).cast(pl.Int64)
    return {
        str(name): [int(rows.filter(minute == at)["bytes_sent"].sum()) for at in minutes]
        for (name,), rows in of.sort("relay", maintain_order=True).group_by("relay", maintain_order=True)
    }


def section(networks: Sequence[Runs]) -> list[str]:
    """Its part of the page."""
    figures = list(FIGURES)
    lines = [
        "## Clients that begin one after the other",
        "",
        f"Here the {PERF} clients that measure begin at moments of their own, so that they meet exits at all times, and each minute has {PERF} downloads. Links are short: of the only exit, or of five whose weights are 1,500, 1,250, 1,000, 750 and 500, so that the first are asked for more than they pass while others have room; all else passes what comes. "
        f"Servers wait for ever. How many of {PERF} fail that began in a minute of load, and quantiles of those that do not, in seconds, to be connected and from then to the first byte; the mean over runs, the least and the most of them ({SEEDS} seeds here).",
        "",
        f"| network | s of load | runs there | {' | '.join(f'{name}, there | here' for name in figures)} |",
        f"| --- | ---: | ---: | {' | '.join('---:' for _ in range(2 * len(figures)))} |",
    ]
    counts: dict[str, list[bool]] = {}
    for runs in networks:
        for minute in runs.minutes():
            cells = []
            for there, here, digits in runs.figures(minute):
                cells += [spread(there, digits), spread(here, digits)]
                rounded = [round(value, digits) for value in here]
                counts.setdefault(runs.name, []).extend(min(rounded) <= round(value, digits) <= max(rounded) for value in there)
            lines.append(f"| {runs.name} | {minute} | {len(runs.there)} | {' | '.join(cells)} |")
    within = "; ".join(f"{sum(of)} of {len(of)} ({name})" for name, of in counts.items())
    lines += [
        "",
        f"Of the figures there lie between the least and the most of here: {within}.",
        "",
        "At a link three quarters full one of two runs is slower there than all seeds here, from second 180 on; and where time-outs are learned 32 and 56 circuits are late there in the minutes from seconds 180 and 300, in the worst of the seeds 25 and 54. Whether real tor is a little slower while links are not yet full would take more runs to say.",
        "",
    ]
    for runs in networks:
        if any(any(launched for launched, _ in run["circuits"]) for run in runs.there):
            lines += _learned(runs)
    return lines


def _learned(runs: Runs) -> list[str]:
    """What clients that learn a time-out for circuits do, and how that spreads over exits."""
    names = list(runs.passed[0])
    carried = runs.setting.get("rate", RATE) // 1024 * 1024 * 60
    lines = [
        f"**Where time-outs are learned** ({runs.name}): Markov clients have their hundred circuits within three minutes, and leave what answers late. Circuits that all of them launched in a minute, how many took longer than the time-out (there counted when it is noticed, 1.5 s and more after the launch), and what each exit sent, in percent of its link, headers included:",
        "",
        f"| s of load | launched, there | here | late, there | here | {' | '.join(f'{name}, there | here' for name in names)} |",
        f"| ---: | ---: | ---: | ---: | ---: | {' | '.join('---:' for _ in range(2 * len(names)))} |",
    ]
    for minute in range(1, runs.setting["until"] // 60):
        cells = []
        for which in (0, 1):
            cells.append(spread([run["circuits"][minute][which] for run in runs.there], 0))
            cells.append(spread([run[minute][which] for run in runs.circuits], 0))
        for name in names:
            cells.append(spread([100 * run["passed"][name][minute] / carried for run in runs.there], 0))
            cells.append(spread([100 * run[name][minute] / carried for run in runs.passed], 0))
        lines.append(f"| {60 * minute} | {' | '.join(cells)} |")
    return [
        *lines,
        "",
        "What TCP sends again because of time-outs that need not have been, in percent of what these exits send and are sent in the same six minutes (there of all bytes, here without headers, which are some 6 % of them): there 0.42, 0.26, 0.72, 0.35, 0.61, 0.64 and 0.65, 0.91, 1.43, 0.28, 0.71, 2.34; here, by a program that is not kept, in three seeds together, 0.39, 0.29, 0.45, 0.51, 0.78, 0.85 and 1.04, 0.55, 0.89, 0.88, 2.27, 3.42.",
        "",
    ]
