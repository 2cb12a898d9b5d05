"""All networks of `onionlab.reproductions.swrr`: each sampled network at each size is an experiment, with all treatments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onionlab.reproductions.runs import Ahead, written
from onionlab.reproductions.swrr import networks as swrr_networks
from onionlab.reproductions.swrr.assumptions import Variant


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
                written(folder / "network.json", swrr_networks.document(variant.network, number, middles))
                file = written(folder / "experiment.toml", swrr_networks.experiment(variant, number, middles))
                cells.append(Cell(variant, middles, number, file))
    return cells


def ahead(cells: Sequence[Cell]) -> list[Ahead]:
    """What is to be run."""
    return [(cell.name, cell.file, cell.results) for cell in cells]
