"""Running all networks of `onionlab.reproductions.swrr`: one experiment each, one progress for all of them.

Each sampled network at each size is an experiment of its own, with all treatments; what is finished is kept, run by run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onionlab import runner
from onionlab.files import write_text
from onionlab.reproductions.runs import whole
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
    def name(self) -> str:
        """How it is called in messages."""
        return f"{self.variant.name}, {self.middles} middles, sample {self.number}"

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


def work_off(cells: Sequence[Cell], observer: runner.Observer) -> Iterator[tuple[Cell, Experiment]]:
    """Run what is missing; give each cell with its results as soon as it is whole."""
    everything = runner.run_all([(cell.name, cell.file, cell.results) for cell in cells], observer=observer, whole=True)
    for cell, results in zip(cells, everything, strict=True):
        yield cell, whole(results)
