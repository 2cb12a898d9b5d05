"""A simulated network's figures beside those of the live network: what ``onionlab calibrate`` prints.

The simulation's come from its measuring clients: the groups of load ``perf``. Times count from the moment at which the request
leaves (module ``request_times``), as OnionPerf's do. Relays' goodput is what all relays send, held against the live network's
times the share of Tor that was simulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onionlab.errors import ResultsError
from onionlab.live_network.tor_metrics import QUANTITIES, Metrics
from onionlab.quantity import format_fixed
from onionlab.results.describe import scale as scale_of
from onionlab.results.experiment import Experiment
from onionlab.results.measuring import measures
from onionlab.results.request_times import with_requests
from onionlab.stats.intervals import Floats, lower_quantile

#: Quantiles that are shown, where the live network's are known.
SHOWN = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Line:
    """One figure: ours and theirs, in the unit that its name says."""

    name: str
    of: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours over theirs; not a number where theirs is zero."""
        return self.ours / self.theirs if self.theirs else float("nan")


@dataclass(frozen=True)
class Calibration:
    """What was found of one treatment."""

    treatment: str
    transfers: int
    lines: tuple[Line, ...]


def calibrate(
    experiment: Experiment, metrics: Metrics, scale: float | None = None, network: int | None = None
) -> list[Calibration]:
    """Hold each treatment of a finished experiment against the live network.

    Parameters
    ----------
    experiment : Experiment
        With a group of load ``perf`` that downloads from servers.
    metrics : Metrics
        The live network's figures.
    scale : float, optional
        Share of Tor that was simulated; else as far as the experiment knows it.
    network : int, optional
        The sampled network that is looked at; else all of them together.

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
    share = scale if scale is not None else scale_of(experiment)
    return [_one(experiment, metrics, treatment, network, groups, share) for treatment in experiment.treatments]


def _one(
    experiment: Experiment, metrics: Metrics, treatment: str, network: int | None, groups: list[str], share: float | None
) -> Calibration:
    since = experiment.measure_from * 1e9
    mine = pl.col("treatment") == treatment
    if network is not None:
        mine &= pl.col("network") == network
    perf = experiment.transfers.filter(mine, pl.col("group").is_in(groups), pl.col("start_ns") >= since)
    ended = perf.filter(pl.col("outcome") != "unfinished")
    if ended.is_empty():
        raise ResultsError(
            f"{experiment.directory}: no download of {', '.join(groups)} ended under {treatment!r} after {since / 1e9:g} s"
        )
    done = perf.filter(pl.col("outcome") == "ok")
    ours = _times(with_requests(done, experiment.circuits, _ahead(experiment, treatment)))
    built = experiment.circuits.filter(mine, pl.col("group").is_in(groups), pl.col("launched_ns") >= since)
    built = built.filter(pl.col("built_ns").is_not_null())
    ours["circuit_build_times"] = np.sort(((built["built_ns"] - built["launched_ns"]) / 1e9).to_numpy())
    lines = [
        Line(f"{words}, s", f"p{100 * q:g}", lower_quantile(ours[key], q), metrics.times[key][q])
        for key, words in QUANTITIES.items()
        if key in metrics.times and len(ours.get(key, ()))
        for q in SHOWN
        if q in metrics.times[key]
    ]
    if metrics.error_rate is not None:
        failed = ended.filter(pl.col("outcome") != "ok").height / ended.height
        lines.append(Line("failed downloads, %", "all", 100 * failed, 100 * metrics.error_rate))
    if metrics.relay_goodput is not None and share:
        samples = experiment.network.filter(mine, pl.col("time_ns") > since)
        runs = max(1, len(experiment.runs.filter(mine)))
        rate = 8 * float(samples["relay_bytes_sent"].sum()) / runs / (experiment.duration - experiment.measure_from)
        lines.append(
            Line(f"goodput of relays at {100 * share:g} %, Gbit/s", "mean", rate / 1e9, metrics.relay_goodput * share / 1e9)
        )
    return Calibration(treatment, len(ended), tuple(lines))


def _ahead(experiment: Experiment, treatment: str) -> bool:
    """Whether requests leave before the stream is connected."""
    import json

    text = experiment.runs.filter(pl.col("treatment") == treatment)["treatment_json"][0]
    settings: dict[str, Any] = json.loads(text)
    return bool(settings.get("optimistic-data"))


def _times(done: pl.DataFrame) -> dict[str, Floats]:
    """Times of completed downloads in ascending order, by key of `QUANTITIES`."""
    found = {"circuit_rtt": np.sort(((done["first_byte_ns"] - done["leaves_ns"]) / 1e9).to_numpy())}
    for size in ("51200", "1048576", "5242880"):
        rows = done.filter(pl.col("size_bytes") == int(size))
        found[size] = np.sort(((rows["last_byte_ns"] - rows["leaves_ns"]) / 1e9).to_numpy())
    return found


def page(calibrations: list[Calibration], metrics: Metrics, directory: Path) -> str:
    """The comparison as Markdown."""
    lines = [
        f"Simulated: {directory}. Live: {', '.join(metrics.sources)}.",
        "",
    ]
    for one in calibrations:
        lines += [f"**{one.treatment}**, {one.transfers} downloads:", ""]
        lines += ["| | | simulated | live | ratio |", "| --- | --- | ---: | ---: | ---: |"]
        for line in one.lines:
            numbers = " | ".join(format_fixed(value, 2) for value in (line.ours, line.theirs, line.ratio))
            lines.append(f"| {line.name} | {line.of} | {numbers} |")
        lines.append("")
    return "\n".join(lines)
