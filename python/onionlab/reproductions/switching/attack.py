"""A guard under attack in `onionlab.reproductions.switching`: what clients that provoke switches cost the others.

The experiment has all in one run, so that what an attack costs is a difference within it: a time without, a time with one client
that sends without end, a time with many small circuits of another.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from onionlab.reproductions.claims import Comparison, Rule
from onionlab.reproductions.figures import Figure, frame, level, mean, percent
from onionlab.reproductions.switching.study import Study
from onionlab.reproductions.switching.testbeds import optional
from onionlab.results.experiment import Experiment
from onionlab.stats.intervals import lower_quantile
from onionlab.stats.metrics import measured, ordered

#: Begin and end of each time, in seconds, as the head of ``attack.toml`` has them.
PHASES = {"no attack": (60, 300), "one bulky client": (300, 540), "eight light circuits": (540, 780)}

#: The group that is attacked.
OTHERS = "others"


def measure(experiment: Experiment) -> Study:
    """Reduce the results: at each of `PHASES` the others' figures.

    Their mean time to send 500 kB in s (``time``), the median time of a cell to its server in s (``latency``), switches a minute
    of the others and of the attackers (``switched``, ``provoked``), cells that the others' switches lost a minute (``lost``),
    most cells that the entry held for one of them (``held``).
    """
    figures: list[Figure] = []
    transfers = measured(experiment.transfers.filter(pl.col("group") == OTHERS), 0.0)
    probes, switches = optional(experiment, "probes"), optional(experiment, "switches")
    for treatment in experiment.treatments:
        for seed in experiment.plan.seeds:
            own = {"treatment": treatment, "seed": seed}
            for phase, (begin, end) in PHASES.items():
                found = figures_of(
                    _within(transfers.filter(**own), "start_ns", begin, end),
                    None if probes is None else _within(probes.filter(**own), "time_ns", begin, end),
                    None if switches is None else _within(switches.filter(**own), "time_ns", begin, end),
                    (end - begin) / 60,
                )
                figures += [(phase, treatment, seed, metric, value) for metric, value in found.items()]
    return Study.of(experiment, frame(figures))


def _within(rows: pl.DataFrame, column: str, begin: int, end: int) -> pl.DataFrame:
    return rows.filter(pl.col(column) >= begin * 10**9, pl.col(column) < end * 10**9)


def figures_of(
    transfers: pl.DataFrame, probes: pl.DataFrame | None, switches: pl.DataFrame | None, minutes: float
) -> dict[str, float | None]:
    """By metric, of what began in one of the times, which is so many minutes long."""
    found: dict[str, float | None] = {"time": mean(transfers["ttlb"])}
    if probes is not None:
        latencies = ordered(
            probes.filter(pl.col("group") == OTHERS).select(value=(pl.col("server_ns") - pl.col("time_ns")) / 1e9)["value"]
        )
        found["latency"] = lower_quantile(latencies, 0.5) if latencies.size else None
    if switches is not None:
        own = switches.filter(pl.col("group") == OTHERS)
        held = own["most_cells_held"].max()
        found["switched"] = own.height / minutes
        found["provoked"] = (switches.height - own.height) / minutes
        found["lost"] = float(own["cells_lost"].sum()) / minutes
        found["held"] = float(held) if isinstance(held, int) else 0.0
    return found


#: Columns: metric and places.
COLUMNS = {
    "500 kB, s": ("time", 2),
    "a cell to the server, s": ("latency", 2),
    "switches a minute, of the others": ("switched", 1),
    "of the attacker": ("provoked", 1),
    "cells lost a minute": ("lost", 1),
    "most cells held": ("held", 0),
}


def page(attacked: Study, rule: Rule) -> Iterator[str]:
    """The section of the page."""
    yield from ("### A guard that is provoked", "")
    yield (
        "Four clients send 500 kB again and again over one path. For four minutes they are alone; then one client sends without "
        "end, so that its circuit is the bulkiest at first; then another sends on eight circuits at a time that are lighter at "
        "first, so that those of the four move; once all are spread over the paths, either's do. "
        f"{attacked.replicates} seeds; in brackets the paired difference to “no attack” "
        "with the same treatment, with an asterisk where its 95 % interval excludes zero."
    )
    yield ""
    yield (
        "While the eight circuits attack, something else happens: the circuits of the four are ten minutes old and take no more "
        "files. New ones begin on the first path, and whatever a treatment shows in this time includes their moves. With “two "
        "moves” they are all the moves of the others that there are, two for each of four circuits, in every seed: the circuits "
        "before moved in the first minute and never again. So its differences there are not the attack's alone."
    )
    yield from ("", f"| treatment | | {' | '.join(COLUMNS)} |", f"| --- | --- |{' ---: |' * len(COLUMNS)}")
    quiet = next(iter(PHASES))
    for treatment in attacked.treatments:
        for phase in PHASES:
            cells = []
            for metric, places in COLUMNS.values():
                text = level(attacked.figures, places, place=phase, treatment=treatment, metric=metric)
                part = Comparison(metric, treatment, None, phase, quiet, "equal")
                differs = percent(attacked.figures, part, rule) if phase != quiet and metric in ("time", "latency") else ""
                cells.append(f"{text} ({differs})" if differs else text)
            yield f"| {treatment} | {phase} | {' | '.join(cells)} |"
    yield ""
