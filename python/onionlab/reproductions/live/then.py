"""The network of 2019 beside the live one of 2019: published networks, turned from Shadow's to Tor's one parameter at a time."""

from __future__ import annotations

import hashlib
import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from onionlab.errors import RunError
from onionlab.files import write_text
from onionlab.live_network.calibrate import Line, calibrate, over_networks
from onionlab.live_network.tor_metrics import Metrics
from onionlab.quantity import format_fixed
from onionlab.reproductions import beside
from onionlab.reproductions.kept import Made, together
from onionlab.reproductions.published_networks import imported, settle
from onionlab.results.experiment import Experiment
from onionlab.running import runner
from onionlab.running.observer import Observer
from onionlab.stats.metrics import measured_sum

#: Quantiles that the table shows.
SHOWN = ("p10", "p50", "p90", "all")


@dataclass(frozen=True)
class Step:
    """One parameter that is turned, on top of those of the steps before.

    Attributes
    ----------
    name, what, why
        For people: what is set, and why that may be so.
    default
        Whether networks have it where an experiment says nothing.
    network, base
        Keys of these tables of the experiment file, and their values.
    without
        Keys of these that are taken away.
    perf_countries
        Where the measuring clients stand, in turn; empty: where they stood.
    """

    name: str
    what: str
    why: str
    default: str
    network: Mapping[str, Any]
    base: Mapping[str, Any]
    without: tuple[str, ...]
    perf_countries: tuple[str, ...]


@dataclass(frozen=True)
class Steps:
    """What is run: networks by the names of their files, for so long, at each step."""

    networks: tuple[str, ...]
    duration: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Taken:
    """A step that was run: its figures over networks, how much of the relays' links was used, and by which code."""

    step: Step
    rows: tuple[Line, ...]
    networks: int
    used: float
    made: tuple[Made, ...]

    @property
    def nearness(self) -> tuple[float, float]:
        """Ours over theirs, geometric mean over all figures that are times; and how far they are apart either way."""
        logs = np.log([row.ratio for row in self.rows if row.of != "all" and row.ratio > 0])
        return float(np.exp(logs.mean())), float(np.exp(np.abs(logs).mean()))


def load(path: Path) -> Steps:
    """Read ``steps.toml``; raises `ResultsError` in one sentence."""
    with beside.checked(f"{path} does not say what is turned"):
        document = beside.toml(path)
        steps = tuple(
            Step(
                name=str(step["name"]),
                what=str(step["what"]),
                why=str(step["why"]),
                default=str(step["default"]),
                network=dict(step.get("network", {})),
                base=dict(step.get("base", {})),
                without=tuple(step.get("without", ())),
                perf_countries=tuple(step.get("perf-countries", ())),
            )
            for step in document["step"]
        )
        return Steps(tuple(document["networks"]), str(document["duration"]), steps)


def run(asked: Steps, published: Path, metrics: Metrics, out: Path, observer: Observer) -> list[Taken]:
    """Run every step on every network; finished runs below ``out`` are kept.

    Raises
    ------
    ResultsError
        If a published network is not in the folder ``published``.
    RunError
        If a run did not finish.
    """
    asked_for = [
        (number, f"{step.name}, {name}", _written(asked, number, name, published, out))
        for number, step in enumerate(asked.steps)
        for name in asked.networks
    ]
    folders = [(name, folder / "network/experiment.toml", folder / "results") for _, name, folder in asked_for]
    found: dict[int, list[Experiment]] = {}
    # Closed in the end, so that no run goes on where one of them is not whole.
    with closing(runner.run_all(folders, observer=observer, whole=True)) as everything:
        for (number, name, _), experiment in zip(asked_for, everything, strict=True):
            if experiment.missing:
                raise RunError(f"{name}: {experiment.missing[0].label} did not finish")
            found.setdefault(number, []).append(experiment)
    return [_taken(step, found[number], metrics) for number, step in enumerate(asked.steps)]


def _taken(step: Step, experiments: Sequence[Experiment], metrics: Metrics) -> Taken:
    rows = over_networks([one for experiment in experiments for one in calibrate(experiment, metrics)])
    used = []
    for experiment in experiments:
        bits = 8 * measured_sum(experiment.network, "relay_bytes_sent", experiment.measure_from)
        sent = bits / (experiment.duration - experiment.measure_from)
        used.append(sent / float(experiment.relays.unique("relay")["capacity_bits"].sum()))
    made = together(one for experiment in experiments for one in Made.of(experiment))
    return Taken(step, rows, len(experiments), float(np.mean(used)), made)


def _written(asked: Steps, number: int, network: str, published: Path, out: Path) -> Path:
    """The folder of a step's experiment on a network, called after all that has been turned so far."""
    taken = asked.steps[: number + 1]
    settings = json.dumps([[dict(step.network), dict(step.base), step.without, step.perf_countries] for step in taken])
    known = hashlib.sha256(f"{asked.duration} {settings}".encode()).hexdigest()[:8]
    folder = out / f"{re.sub(r'[^a-z0-9]+', '-', taken[-1].name.lower())}-{known}" / network
    draft = imported(network, published, folder / "imported", asked.duration)
    for step in taken:
        _turn(draft, step)
    settle(draft, folder / "network")
    return folder


def _turn(folder: Path, step: Step) -> None:
    """Turn an imported experiment's parameter."""
    file = folder / "experiment.toml"
    text = changed(file.read_text(encoding="utf-8"), "network", step.network, step.without)
    write_text(file, changed(text, "base", step.base, step.without))
    if step.perf_countries:
        hosts = folder / "network.json"
        document = json.loads(hosts.read_text(encoding="utf-8"))
        for client, country in zip((one for one in document["clients"] if one["group"] == "perf"), cycle(step.perf_countries)):
            client["country"] = country
        write_text(hosts, json.dumps(document, indent=1, ensure_ascii=False))


def changed(text: str, table: str, settings: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    r"""An experiment file with other values of some keys of a table, one key a line; values are numbers, texts, true or false.

    A key without which it is to be may be a table of its own.

    Examples
    --------
    >>> changed('[base]\nmss = 1434 # less\nguards = 0\n\n[more]\nmss = 1\n', "base", {"net": "linux"}, ["mss"])
    '[base]\nguards = 0\nnet = "linux"\n\n[more]\nmss = 1\n'
    >>> changed("[a]\nb = 1\n\n[a.c] # known\nd = 2\n\n[e]\nd = 3\n", "a", {}, ["c"])
    '[a]\nb = 1\n\n[e]\nd = 3\n'
    """
    gone = {*settings, *without}
    lines, here, within_gone = [], False, False
    for line in text.splitlines():
        if line.startswith("["):
            name = line.split("#")[0].strip()
            here, within_gone = name == f"[{table}]", name in {f"[{table}.{key}]" for key in gone}
        if within_gone or (here and line.split("=")[0].strip() in gone):
            continue
        if here and not line.strip():
            lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
            here = False
        lines.append(line)
    return "\n".join([*lines, ""])


def section(taken: Sequence[Taken]) -> Iterator[str]:
    """What each step sets and what comes of it, as Markdown."""
    yield from ("## The network of 2019, one parameter at a time", "")
    about = (
        "The live figures of this chapter are of 2019. So are the published networks that real tor 0.3.5 ran on in Shadow, with "
        f"relays, users and their load sampled at 1 % from that year. Here {taken[0].networks} of them run with one parameter "
        "after the other turned from Shadow's value to the live network's; each step has those before it. No value was sought "
        "until figures agreed: each is what it is for the reason that is given."
    )
    yield textwrap.fill(about, 126)
    yield from ("", "| step | what is set | why | in networks by default |", "| --- | --- | --- | --- |")
    for number, one in enumerate(taken):
        yield f"| {number}. {one.step.name} | {one.step.what} | {one.step.why} | {one.step.default} |"
    names = [f"{number}" for number in range(len(taken))]
    yield from ("", f"| | | {' | '.join(names)} | live |", f"| --- | --- |{' ---: |' * (len(taken) + 1)}")
    tables = [{(row.name, row.of): row for row in one.rows} for one in taken]
    for key, row in tables[0].items():
        if key[1] in SHOWN:
            cells = [_cell(table.get(key)) for table in tables]
            yield f"| {key[0]} | {key[1]} | {' | '.join(cells)} | {format_fixed(row.theirs, 2)} |"
    near = [one.nearness for one in taken]
    yield f"| all times, ours over theirs (geometric mean) | | {' | '.join(format_fixed(mean, 2) for mean, _ in near)} | 1 |"
    yield f"| all times, how far apart, either way (factor) | | {' | '.join(format_fixed(apart, 2) for _, apart in near)} | 1 |"
    yield f"| used of the relays' links, % | | {' | '.join(format_fixed(100 * one.used, 0) for one in taken)} | – |"
    yield ""
    best = min(range(len(taken)), key=lambda number: near[number][1])
    yield f"Nearest to the live network, over all times, is step {best}, {taken[best].step.name}."
    yield ""


def _cell(row: Line | None) -> str:
    if row is None:
        return "–"
    mean = format_fixed(max(row.ours.mean, 0.0), 2)
    if row.ours.low is None or row.ours.high is None or math.isnan(row.ours.low):
        return mean
    return f"{mean} [{format_fixed(max(row.ours.low, 0.0), 2)}, {format_fixed(row.ours.high, 2)}]"
