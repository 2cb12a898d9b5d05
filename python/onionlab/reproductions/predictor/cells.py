"""Which networks `onionlab.reproductions.predictor` runs, each once with all treatments that any study wants there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onionlab.reproductions import runs
from onionlab.reproductions.predictor.asked import Asked, Conditions
from onionlab.reproductions.predictor.networks import experiment

#: What a run took: treatment, number of circuits, seconds of processor time.
Cost = tuple[str, int, float]


@dataclass(frozen=True)
class Cell:
    """One network under one set of conditions, with its treatments."""

    conditions: Conditions
    circuits: int
    number: int
    treatments: tuple[str, ...]

    @property
    def place(self) -> str:
        """How claims and tables call the conditions."""
        return self.conditions.place(self.circuits)

    @property
    def name(self) -> str:
        """For file names and messages."""
        return f"{self.place.replace(', ', '--').replace(' ', '-').lower()}--{self.number:02}"


def plan(asked: Asked) -> list[list[Cell]]:
    """Cells study by study; a cell that an earlier study has is not there again, and has the treatments of both."""
    wanted: dict[tuple[Conditions, int, int], set[str]] = {}
    for study in asked.studies:
        for circuits, conditions, _ in study.places():
            for number in range(study.networks):
                wanted.setdefault((conditions, circuits, number), set()).update(study.treatments)
    planned: list[list[Cell]] = []
    for study in asked.studies:
        own = []
        for circuits, conditions, _ in study.places():
            for number in range(study.networks):
                names = wanted.pop((conditions, circuits, number), None)
                if names is not None:
                    own.append(Cell(conditions, circuits, number, tuple(name for name in asked.treatments if name in names)))
        planned.append(own)
    return planned


def prepare(asked: Asked, cells: Sequence[Cell], out: Path) -> list[runs.Ahead]:
    """Name, experiment file, which is written, and results directory of each."""
    ahead = []
    for cell in cells:
        text = experiment(asked, cell.treatments, cell.conditions, cell.circuits, cell.number)
        ahead.append((cell.name, runs.written(out / "files" / f"{cell.name}.toml", text), out / "networks" / cell.name))
    return ahead


def processor_time(asked: Asked, costs: Sequence[Cost]) -> float:
    """Seconds of processor time that all random networks of ``asked`` will take, by what some runs took.

    Of each treatment a straight line through the costs by number of circuits is carried on; one that was not run costs as much as
    the dearest that was.
    """
    lines = {name: _line([(circuits, cost) for of, circuits, cost in costs if of == name]) for name, _, _ in costs}

    def cost(treatment: str, circuits: int) -> float:
        known = [lines[treatment]] if treatment in lines else list(lines.values())
        return max((max(0.0, base + slope * circuits) for base, slope in known), default=0.0)

    return sum(cost(name, one.circuits) for own in plan(asked) for one in own for name in one.treatments)


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Base and slope; through the origin where there is one size alone."""
    sizes, costs = [float(size) for size, _ in points], [cost for _, cost in points]
    if len(set(sizes)) == 1:
        return 0.0, sum(costs) / sum(sizes)
    slope, base = np.polyfit(sizes, costs, 1)
    return float(base), float(slope)
