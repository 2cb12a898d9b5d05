"""Running all networks of `onionlab.reproductions.swrr`: one experiment each, one progress for all of them.

Each sampled network at each size is an experiment of its own, with all treatments; what is finished is kept, run by run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onionlab import _core, runner
from onionlab.errors import RunError
from onionlab.files import write_text
from onionlab.plan import Plan, PlannedRun, is_finished, is_outdated, read_experiment
from onionlab.reproductions.swrr import networks as swrr_networks
from onionlab.reproductions.swrr.assumptions import Variant
from onionlab.results import Experiment


@dataclass(frozen=True)
class Cell:
    """One sampled network at one size, with all treatments of a variant."""

    variant: Variant
    middles: int
    number: int
    file: Path

    @property
    def results(self) -> Path:
        """Where its runs go."""
        return self.file.parent / "results"


def prepare(variants: Sequence[Variant], out: Path) -> list[Cell]:
    """Write the experiment and the network of every cell below ``out``, unless they are there already as they should be."""
    cells = []
    for variant in variants:
        for middles in variant.middles:
            for number in range(variant.networks):
                folder = out / variant.name / f"{middles}-middles" / f"network-{number:02}"
                _write(folder / "network.json", swrr_networks.document(variant.network, number, middles))
                _write(folder / "experiment.toml", swrr_networks.experiment(variant, number, middles))
                cells.append(Cell(variant, middles, number, folder / "experiment.toml"))
    return cells


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)


class Together(runner.Silent):
    """One progress for many experiments: tells an observer of all their runs at once, then passes on what happens."""

    def __init__(self, observer: runner.Observer, cells: Sequence[Cell]) -> None:
        self._observer = observer
        plans = [(cell, Plan.of(cell.file, read_experiment(cell.file))) for cell in cells]
        runs = [(cell.results, plan, run) for cell, plan in plans for run in plan.runs]
        kept = sum(is_finished(*run) for run in runs)
        outdated = sum(is_outdated(*run) for run in runs)
        whole = Plan(plans[0][1].scenario, _core.version(), _core.build(), tuple(run for _, _, run in runs))
        observer.planned(whole, kept, outdated)

    def advanced(self, run: PlannedRun, progress: _core.Progress) -> None:
        """Pass on."""
        self._observer.advanced(run, progress)

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """Pass on."""
        self._observer.finished(run, row)

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Pass on."""
        self._observer.failed(run, reason)


def work_off(cells: Sequence[Cell], observer: runner.Observer) -> Iterator[tuple[Cell, Experiment]]:
    """Run what is missing, cell by cell; give each cell with its results as soon as it is whole."""
    together = Together(observer, cells)
    for cell in cells:
        results = runner.run(cell.file, cell.results, report=False, observer=together)
        if results.missing:
            raise RunError(f"{cell.results}: {results.missing[0].label} did not finish")
        yield cell, results
