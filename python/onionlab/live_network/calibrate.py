"""A simulated network's figures beside those of the live network: what ``onionlab calibrate`` prints.

The simulation's come from its measuring clients: the groups of load ``perf``. Times count from the moment at which the request
leaves (module ``request_times``), as OnionPerf's do. Relays' goodput is what all relays send, held against the live network's
times the share of Tor that was simulated. Each run gives one value of a figure, those of a network's seeds are averaged, and what
counts is the mean over networks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from statistics import fmean
from typing import Any

import polars as pl

from onionlab.errors import ResultsError
from onionlab.live_network.tor_metrics import QUANTITIES, Metrics, years_in
from onionlab.quantity import decimals, format_fixed
from onionlab.results.describe import scale as scale_of
from onionlab.results.experiment import Experiment
from onionlab.results.measuring import measures
from onionlab.results.request_times import answered, on_time, with_requests
from onionlab.stats.intervals import Floats, Interval, lower_quantile, t_interval
from onionlab.stats.metrics import measured_sum, ordered

#: How the goodput of relays is called, before its share of Tor.
GOODPUT = "goodput of relays"

#: Quantiles that are shown, where the live network's are known.
SHOWN = (0.1, 0.25, 0.5, 0.75, 0.9)


#: What a figure is called, and which quantile of it or what else it is.
Key = tuple[str, str]

#: Failed downloads.
FAILED: Key = ("failed downloads, %", "all")


@dataclass(frozen=True)
class Line:
    """One figure: ours over networks, and theirs, in the unit that its name says."""

    name: str
    of: str
    ours: Interval
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours over theirs; not a number where theirs is zero."""
        return self.ours.mean / self.theirs if self.theirs else math.nan


@dataclass(frozen=True)
class Calibration:
    """What was found of one treatment, from so many downloads that ended."""

    treatment: str
    transfers: int
    lines: tuple[Line, ...]


def calibrate(experiment: Experiment, metrics: Metrics, scale: float | None = None) -> list[Calibration]:
    """Hold each treatment of a finished experiment against the live network.

    Parameters
    ----------
    experiment : Experiment
        With a group of load ``perf`` that downloads from servers.
    metrics : Metrics
        The live network's figures.
    scale : float, optional
        Share of Tor that was simulated; else as far as the experiment knows it.

    Raises
    ------
    ResultsError
        If nothing measures, or nothing was measured, or if there is a sweep, whose points are experiments of their own.
    """
    if experiment.swept:
        raise ResultsError(f"{experiment.directory} holds a sweep: say which point is meant (--point 1, or `at_number(1)`)")
    groups = [str(group["group"]) for group in experiment.plan.scenario["clients"] if measures(group)]
    if not groups:
        raise ResultsError(
            f'{experiment.directory} has no group of clients that measure (load = {{ kind = "perf" }}, not from onion services)'
        )
    if scale is not None and metrics.relay_goodput is None:
        raise ResultsError("--scale is for the goodput of relays, which these live figures do not have")
    share = scale if scale is not None else scale_of(experiment)
    finished = set(experiment.runs["treatment"])
    return [_one(experiment, metrics, treatment, groups, share) for treatment in experiment.treatments if treatment in finished]


def year_of(experiment: Experiment) -> int | None:
    """The year of which the simulated network is: of a synthetic one what was asked for, of a consensus what its name says."""
    network = experiment.plan.scenario.get("network", {})
    if network.get("kind") == "synthetic" and isinstance(network.get("year"), int | float):
        return int(network["year"])
    name = PurePath(str(network.get("document", {}).get("path", ""))).name if network.get("kind") == "consensus" else ""
    return min(years_in([name]), default=None)


def over_networks(calibrations: Sequence[Calibration]) -> tuple[Line, ...]:
    """Every figure over experiments, each of which has another network; one that some lack is left to the others."""
    theirs = {(line.name, line.of): line.theirs for one in calibrations for line in one.lines}
    return _lines([[{(line.name, line.of): line.ours.mean for line in one.lines}] for one in calibrations], theirs)


def _lines(networks: Sequence[Sequence[Mapping[Key, float]]], theirs: Mapping[Key, float]) -> tuple[Line, ...]:
    """Every figure's mean over networks, from what each of a network's runs gave; what a run or a network lacks is left out."""
    lines = []
    for key, live in theirs.items():
        values = [fmean(of_runs) for runs in networks if (of_runs := [run[key] for run in runs if key in run])]
        interval = t_interval(values)
        if interval is not None:
            lines.append(Line(*key, interval, live))
    return tuple(lines)


def _one(experiment: Experiment, metrics: Metrics, treatment: str, groups: Sequence[str], share: float | None) -> Calibration:
    mine = pl.col("treatment") == treatment
    begin = round(experiment.measure_from * 1e9)
    perf = experiment.transfers.filter(mine, pl.col("group").is_in(groups), pl.col("start_ns") >= begin)
    ended = perf.filter(pl.col("outcome") != "unfinished")
    if ended.is_empty():
        raise ResultsError(
            f"{experiment.directory}: no download of {', '.join(groups)} ended under {treatment!r} after {begin / 1e9:g} s"
        )
    done = with_requests(ended.filter(pl.col("outcome") == "ok"), experiment.circuits, _ahead(experiment, treatment))
    circuits = on_time(experiment.circuits)
    built = circuits.filter(mine, pl.col("group").is_in(groups), pl.col("launched_ns") >= begin)
    networks: dict[int, list[dict[Key, float]]] = {}
    for network, seed in experiment.runs.filter(mine).select("network", "seed").sort("network", "seed").iter_rows():
        own = (pl.col("network") == network, pl.col("seed") == seed)
        figures = _quantiles(_times(done.filter(*own), built.filter(*own)))
        own_ended = ended.filter(*own)
        if own_ended.height:
            figures[FAILED] = 100 * own_ended.filter(pl.col("outcome") != "ok").height / own_ended.height
        if share:
            bits = 8 * measured_sum(experiment.network.filter(mine, *own), "relay_bytes_sent", experiment.measure_from)
            figures[_goodput(share)] = bits / (experiment.duration - experiment.measure_from) / 1e9
        networks.setdefault(seed if experiment.by_seed else network, []).append(figures)
    return Calibration(treatment, len(ended), _lines([*networks.values()], _theirs(metrics, share)))


def _theirs(metrics: Metrics, share: float | None) -> dict[Key, float]:
    """The live network's figures, in the order in which they are shown."""
    found = {
        (f"{words}, s", f"p{100 * q:g}"): metrics.times[key][q]
        for key, words in QUANTITIES.items()
        for q in SHOWN
        if q in metrics.times.get(key, {})
    }
    if metrics.error_rate is not None:
        found[FAILED] = 100 * metrics.error_rate
    if metrics.relay_goodput is not None and share:
        found[_goodput(share)] = metrics.relay_goodput * share / 1e9
    return found


def _goodput(share: float) -> Key:
    return f"{GOODPUT} at {100 * share:g} %, Gbit/s", "mean"


def _ahead(experiment: Experiment, treatment: str) -> bool:
    """Whether requests leave before the stream is connected."""
    text = experiment.runs.filter(pl.col("treatment") == treatment)["treatment_json"][0]
    settings: dict[str, Any] = json.loads(text)
    return bool(settings.get("optimistic-data"))


def _times(done: pl.DataFrame, built: pl.DataFrame) -> dict[str, Floats]:
    """Times in ascending order, by key of `QUANTITIES`: of completed downloads, and of circuits that were built."""
    found = {"circuit_rtt": ordered((answered(done) - done["leaves_ns"]) / 1e9)}
    found["circuit_build_times"] = ordered((built["built_ns"] - built["launched_ns"]) / 1e9)
    for size in ("51200", "1048576", "5242880"):
        rows = done.filter(pl.col("size_bytes") == int(size))
        found[size] = ordered((rows["last_byte_ns"] - rows["leaves_ns"]) / 1e9)
    return found


def _quantiles(times: Mapping[str, Floats]) -> dict[Key, float]:
    """Quantiles of one run's times."""
    known = {key: values for key, values in times.items() if len(values)}
    return {(f"{QUANTITIES[key]}, s", f"p{100 * q:g}"): lower_quantile(known[key], q) for key in known for q in SHOWN}


def header(metrics: Metrics) -> str:
    """The first row of a table of `Line`, with the years of the live figures over them."""
    return f"| | | simulated | live{', ' if metrics.when else ''}{metrics.when} | ratio |"


def page(calibrations: list[Calibration], metrics: Metrics, directory: Path, year: int | None = None) -> str:
    """The comparison as Markdown; ``year`` is that of the simulated network, where it is known."""
    of = f", the network of {year}" if year is not None else ""
    lines = [f"Simulated: {directory}{of}. Live: {metrics.named()}.", ""]
    if differs := metrics.of_other_years(year):
        lines += [differs, ""]
    most = max((line.ours.count for one in calibrations for line in one.lines), default=0)
    if most > 1:
        lines += [f"Simulated: means over {most} networks, or seeds of one, with 95 % intervals between them.", ""]
    shown = {line.name for one in calibrations for line in one.lines}
    if metrics.relay_goodput is not None and not any(name.startswith(GOODPUT) for name in shown):
        lines += ["The goodput of relays is left out: which share of Tor this network is, is not known (`--scale` says it).", ""]
    for one in calibrations:
        lines += [f"**{one.treatment}**, {one.transfers} downloads:", ""]
        lines += [header(metrics), "| --- | --- | ---: | ---: | ---: |"]
        for line in one.lines:
            low, high = line.ours.low, line.ours.high
            # No figure can be negative, though Student's interval does not know.
            places = max(2, decimals(line.ours.mean, 2))
            bounds = (
                "" if low is None or high is None else f" [{format_fixed(max(low, 0.0), places)}, {format_fixed(high, places)}]"
            )
            if line.ours.count < most:
                bounds += f" ({line.ours.count} of {most})"
            theirs, ratio = format_fixed(line.theirs, places), format_fixed(line.ratio, 2)
            lines.append(f"| {line.name} | {line.of} | {format_fixed(line.ours.mean, places)}{bounds} | {theirs} | {ratio} |")
        lines.append("")
    return "\n".join(lines)
