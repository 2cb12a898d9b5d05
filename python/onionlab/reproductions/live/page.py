"""The page of `onionlab.reproductions.live`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from onionlab.live_network.calibrate import Line, calibrate, header, year_of
from onionlab.live_network.tor_metrics import Metrics
from onionlab.quantity import format_bytes, format_fixed
from onionlab.reproductions.kept import Made, together, took
from onionlab.reproductions.live.then import Taken
from onionlab.reproductions.live.then import section as steps_section
from onionlab.reproductions.published import differences_section
from onionlab.results.describe import network as network_in_words
from onionlab.results.describe import plural
from onionlab.results.experiment import Experiment
from onionlab.stats.metrics import measured_mean

#: Classes of relays by their flags, as the table ``network`` has them.
POSITIONS = ("guard", "middle", "exit", "guard and exit")

#: The page's first lines.
INTRODUCTION = """\
# Beside the live network

A network of today as this program makes it without being told anything but the size: how far is it from what was measured on
the live network{when}? The
experiment is `experiments/live/today.toml`: {network}, {networks}, {minutes:g} simulated minutes each, downloads from minute
{since:g} on. Clients download 50 KiB, 1 MiB and 5 MiB as OnionPerf does, beside the load of the sample's share of Tor's users.

This page was written by

    onionlab reproduce live{options}

{differs}Live: {sources}. Ours: means over networks with 95 % intervals between networks. A ratio above 1: ours is slower.
"""


def page(
    experiment: Experiment, metrics: Metrics, taken: Sequence[Taken], differences: list[dict[str, str]], reference: Path | None
) -> str:
    """The page as Markdown."""
    lines = [
        INTRODUCTION.format(
            network=network_in_words(experiment),
            networks=plural(experiment.plan.networks, "sampled network"),
            minutes=experiment.duration / 60,
            since=experiment.measure_from / 60,
            options=f" --reference {reference.name}" if reference is not None else "",
            sources=metrics.named("`"),
            when=f" in {metrics.when}" if metrics.when else "",
            differs=f"{differs}\n\n" if (differs := metrics.of_other_years(year_of(experiment))) else "",
        )
    ]
    for one in calibrate(experiment, metrics):
        lines += _table(one.treatment, one.lines, header(metrics))
    lines += _cost(experiment)
    if taken:
        lines += steps_section(taken)
    lines += differences_section(differences)
    made = {"today": Made.of(experiment)}
    if taken:
        made["one parameter at a time"] = together(one for step in taken for one in step.made)
    lines += ["## Runs", "", took(made), ""]
    return "\n".join(lines)


def _table(treatment: str, table: Sequence[Line], head: str) -> Iterator[str]:
    yield from (f"## {treatment}", "", head, "| --- | --- | ---: | ---: | ---: |")
    for row in table:
        bounds = "" if row.ours.low is None or row.ours.high is None else f" [{_number(row.ours.low)}, {_number(row.ours.high)}]"
        ratio = "" if math.isnan(row.ratio) else _number(row.ratio)
        yield f"| {row.name} | {row.of} | {_number(row.ours.mean)}{bounds} | {_number(row.theirs)} | {ratio} |"
    yield ""


def _cost(experiment: Experiment) -> Iterator[str]:
    """How loaded the networks were, and what a run took."""
    columns = {name: f"utilisation_{name.replace(' and ', '_')}" for name in POSITIONS}
    used = {name: measured_mean(experiment.network, column, experiment.measure_from) for name, column in columns.items()}
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in used.items() if share is not None)
    runs = experiment.runs
    wall, memory = (float(str(runs[column].max())) for column in ("wall_seconds", "peak_memory_bytes"))
    yield f"Used of the relays' links, by class, mean over all treatments: {shares}."
    yield from (f"A run took at most {wall / 60:.1f} minutes of one core and {format_bytes(memory)}.", "")


def _number(value: float) -> str:
    return format_fixed(max(value, 0.0), 2)
