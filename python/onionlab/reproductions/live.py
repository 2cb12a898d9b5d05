"""How far a simulated Tor of today is from the live network: sampled networks, the users' load, clients that measure.

Ours is `onionlab.calibrate` for each sampled network; a figure is the mean over networks with Student's interval. Theirs is
whatever `onionlab.tor_metrics` can read: the reference's quantiles of 2019, or newer files that ``--reference`` names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from onionlab import runner
from onionlab.calibrate import calibrate
from onionlab.describe import network as network_in_words
from onionlab.describe import plural
from onionlab.errors import ResultsError, RunError
from onionlab.files import write_text
from onionlab.quantity import format_bytes, format_fixed
from onionlab.reproductions.published import load_differences
from onionlab.reproductions.runs import Observe
from onionlab.results import Experiment
from onionlab.stats.intervals import Interval, t_interval
from onionlab.tor_metrics import Metrics

#: What is known of the live network where nobody says otherwise, relative to the folder of references.
USUAL = Path("shadow-networks/targets.json")

#: Classes of relays by their flags, as the table ``network`` has them.
POSITIONS = ("guard", "middle", "exit", "guard and exit")

#: The page's first lines.
INTRODUCTION = """\
# Beside the live network

A network of today as this program makes it without being told anything but the size: how far is it from Tor as it is? The
experiment is `experiments/live/today.toml`: {network}, {networks}, {minutes:g} simulated minutes each, downloads from minute
{since:g} on. Clients download 50 KiB, 1 MiB and 5 MiB as OnionPerf does, beside the load of the sample's share of Tor's users.

This page was written by

    onionlab reproduce live{options}

Live: {sources}. Ours: means over networks with 95 % intervals between networks. A ratio above 1: ours is slower.
"""


@dataclass(frozen=True)
class Row:
    """One figure of one treatment: ours over networks, theirs."""

    name: str
    of: str
    ours: Interval
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours over theirs; not a number where theirs is zero."""
        return self.ours.mean / self.theirs if self.theirs else math.nan


def reproduce(
    experiments: Path, reference: Path | None, out: Path, docs: Path, observe: Observe | None = None
) -> tuple[Path, list[str]]:
    """Run the networks and write the page; return its path and no complaints.

    Parameters
    ----------
    experiments : path
        The folder with ``today.toml`` and ``differences.toml``.
    reference : path or None
        A file, or a folder of files, with the live network's figures; else the quantiles of 2019 beside the other references.
    out, docs : path
        Results go below ``out``, the page into ``docs``. Finished runs are kept.
    observe : callable, optional
        Gives a context with an observer.
    """
    named = reference is not None and reference.exists()
    metrics = _metrics(reference)
    file = experiments / "today.toml"
    with observe() if observe is not None else nullcontext(runner.Silent()) as observer:
        experiment = runner.run(file, out / "today", observer=observer)
    if experiment.missing:
        raise RunError(f"{experiment.missing[0].label} did not finish")
    path = docs / "live.md"
    write_text(path, page(experiment, metrics, load_differences(experiments / "differences.toml"), reference if named else None))
    return path, []


def _metrics(reference: Path | None) -> Metrics:
    """The live network's figures: of the file, of all files of the folder, or where neither is there the usual ones beside it."""
    metrics = Metrics()
    if reference is not None and reference.is_dir():
        files = sorted(path for path in reference.iterdir() if path.is_file())
    elif reference is not None and reference.exists():
        files = [reference]
    else:
        files = [(reference or Path()).parent / USUAL]
    for path in files:
        metrics.add(path)
    if not metrics.times:
        raise ResultsError(f"{reference} has no times of the live network")
    return metrics


def rows(experiment: Experiment, metrics: Metrics) -> dict[str, list[Row]]:
    """Every figure by treatment; a figure that a network lacks is left to the others."""
    found: dict[str, dict[tuple[str, str], tuple[list[float], float]]] = {}
    for network in sorted(set(experiment.runs["network"])):
        for one in calibrate(experiment, metrics, network=int(network)):
            of_treatment = found.setdefault(one.treatment, {})
            for line in one.lines:
                of_treatment.setdefault((line.name, line.of), ([], line.theirs))[0].append(line.ours)
    table: dict[str, list[Row]] = {}
    for treatment, figures in found.items():
        intervals = ((key, t_interval(values), theirs) for key, (values, theirs) in figures.items())
        table[treatment] = [Row(*key, interval, theirs) for key, interval, theirs in intervals if interval is not None]
    return table


def page(experiment: Experiment, metrics: Metrics, differences: list[dict[str, str]], reference: Path | None) -> str:
    """The page as Markdown."""
    lines = [
        INTRODUCTION.format(
            network=network_in_words(experiment),
            networks=plural(experiment.plan.networks, "sampled network"),
            minutes=experiment.duration / 60,
            since=experiment.measure_from / 60,
            options=f" --reference {reference.name}" if reference is not None else "",
            sources=", ".join(f"`{source}`" for source in metrics.sources),
        )
    ]
    for treatment, table in rows(experiment, metrics).items():
        lines += _table(treatment, table)
    lines += _cost(experiment)
    if differences:
        lines += ["## What differs, and why", "", "| what | mechanism | evidence |", "| --- | --- | --- |"]
        lines += [f"| {row['what']} | {row['mechanism']} | {row['evidence']} |" for row in differences]
        lines.append("")
    return "\n".join(lines)


def _table(treatment: str, table: list[Row]) -> Iterator[str]:
    yield from (f"## {treatment}", "", "| | | simulated | live | ratio |", "| --- | --- | ---: | ---: | ---: |")
    for row in table:
        bounds = "" if row.ours.low is None or row.ours.high is None else f" [{_number(row.ours.low)}, {_number(row.ours.high)}]"
        ratio = "" if math.isnan(row.ratio) else _number(row.ratio)
        yield f"| {row.name} | {row.of} | {_number(row.ours.mean)}{bounds} | {_number(row.theirs)} | {ratio} |"
    yield ""


def _cost(experiment: Experiment) -> Iterator[str]:
    """How loaded the networks were, and what a run took."""
    samples = experiment.network.filter(pl.col("time_ns") > experiment.measure_from * 1e9)
    used = {name: samples[f"utilisation_{name.replace(' and ', '_')}"].mean() for name in POSITIONS}
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in used.items() if isinstance(share, float))
    runs = experiment.runs
    wall, memory = (float(str(runs[column].max())) for column in ("wall_seconds", "peak_memory_bytes"))
    yield f"Used of the relays' links, by class, mean over all treatments: {shares}."
    yield from (f"A run took at most {wall / 60:.1f} minutes of one core and {format_bytes(memory)}.", "")


def _number(value: float) -> str:
    return format_fixed(max(value, 0.0), 2)
