"""Figures of sampled networks beside those of the live network, with intervals between networks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from onionlab.live_network.calibrate import Calibration, calibrate
from onionlab.live_network.tor_metrics import Metrics
from onionlab.results.experiment import Experiment
from onionlab.stats.intervals import Interval, t_interval


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


def rows(experiment: Experiment, metrics: Metrics) -> dict[str, list[Row]]:
    """Every figure of a finished experiment by treatment, over its networks."""
    networks = sorted(set(experiment.runs["network"]))
    return over_networks(one for network in networks for one in calibrate(experiment, metrics, network=int(network)))


def over_networks(calibrations: Iterable[Calibration]) -> dict[str, list[Row]]:
    """Every figure by treatment, from one calibration for each network; a figure that a network lacks is left to the others."""
    found: dict[str, dict[tuple[str, str], tuple[list[float], float]]] = {}
    for one in calibrations:
        of_treatment = found.setdefault(one.treatment, {})
        for line in one.lines:
            of_treatment.setdefault((line.name, line.of), ([], line.theirs))[0].append(line.ours)
    table: dict[str, list[Row]] = {}
    for treatment, figures in found.items():
        intervals = ((key, t_interval(values), theirs) for key, (values, theirs) in figures.items())
        table[treatment] = [Row(*key, interval, theirs) for key, interval, theirs in intervals if interval is not None]
    return table
