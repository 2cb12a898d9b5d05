"""A quarter of Tor, once, as large as the paper's: what `onionlab.reproductions.cci` says of it.

It takes hours and much memory, so that it is only run when it is asked for. One network has no interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.quantity import format_bytes, format_duration, format_fixed
from onionlab.reproductions.cci import network
from onionlab.reproductions.figures import NOTHING
from onionlab.reproductions.kept import Reduced
from onionlab.reproductions.runs import Ahead
from onionlab.results.cost import clock
from onionlab.results.experiment import Experiment

#: Name of the file, with which those of its experiments begin.
STEM = "quarter"

#: Columns of the table: metric and places.
COLUMNS: Mapping[str, tuple[str, int]] = {
    "50 kB, s": ("50 kB", 2),
    "1 MB, s": ("1 MB", 2),
    "5 MB, s": ("5 MB", 2),
    "downloads": ("counted", 0),
    "failed, %": ("failed", 1),
    "circuit, s": ("build", 3),
    "links shared, %": ("shared", 1),
    "busy ones, %": ("busy-shared", 1),
    "idle connections, MB": ("connection-megabytes", 0),
}


@dataclass(frozen=True)
class Cost:
    """What a run took.

    Seconds of one core, by the processor's clock where the system tells it, and the most memory that the program had until its
    end, in bytes.
    """

    treatment: str
    seconds: float
    memory: int


def prepare(experiments: Path, out: Path) -> list[Ahead]:
    """Name, experiment file and results directory of each treatment; the files are written."""
    text = (experiments / f"{STEM}.toml").read_text(encoding="utf-8")
    return [network.written(out, f"{STEM}-{name}", own) for name, own in network.by_treatment(text)]


def reduce(experiment: Experiment) -> Reduced:
    """A treatment's run, as those of other networks are reduced, and what it took."""
    reduced = network.reduce(experiment)
    taken = experiment.runs.select("treatment", seconds=clock(experiment), memory="peak_memory_bytes")
    return Reduced(reduced.frames, reduced.made, {**reduced.facts, "costs": list(taken.iter_rows(named=True))})


def costs(facts: Mapping[str, Any]) -> list[Cost]:
    """What the runs took; nothing of a network of which that is not kept."""
    return [Cost(str(row["treatment"]), float(row["seconds"]), int(row["memory"])) for row in facts.get("costs", ())]


def section(reduced: Sequence[Reduced], printed: Mapping[str, Any]) -> Iterator[str]:
    """The table beside the paper's numbers, as Markdown."""
    sampled = network.together(reduced)
    (loss,) = sampled.places
    taken = {cost.treatment: cost for one in reduced for cost in costs(one.facts)}
    yield from ("### A quarter of Tor", "")
    yield (
        f"The paper's size, once: {sampled.relays:,} relays, {loss} lost, {sampled.minutes:g} simulated minutes; a download that "
        f"failed counts as {format_duration(sampled.longest)}, after which clients give up here. One network has no interval: "
        "this shows that it can be run, and how much is shared. Memory is the most that the program had until the run's end; the "
        "paper's are those of its simulation of an hour."
    )
    yield ""
    yield f"| | {' | '.join(COLUMNS)} | time, one core | memory | the paper's | shared, the paper's, % |"
    yield f"| --- |{' ---: |' * (len(COLUMNS) + 4)}"
    for treatment in sampled.treatments:
        own = sampled.figures.filter(treatment=treatment)
        cells = [_value(own, metric, places) for metric, places in COLUMNS.values()]
        cost = taken.get(treatment)
        cells += [NOTHING] * 2 if cost is None else [format_duration(round(cost.seconds), coarse=True), format_bytes(cost.memory)]
        cells.append(f"{printed['memory'][treatment]} GB")
        cells.append(f"{printed['shared-links'][treatment]:g}" if treatment in printed["shared-links"] else NOTHING)
        yield f"| {treatment} | {' | '.join(cells)} |"
    yield ""


def _value(figures: pl.DataFrame, metric: str, places: int) -> str:
    values = figures.filter(metric=metric)["value"].drop_nulls()
    return format_fixed(values.item(), places) if values.len() else NOTHING
