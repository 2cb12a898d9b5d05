"""All that `onionlab.reproductions.predictor` has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from onionlab.reproductions.kept import Made
from onionlab.reproductions.predictor.asked import Study
from onionlab.reproductions.predictor.cells import Cost
from onionlab.reproductions.predictor.measure import Toy


@dataclass(frozen=True)
class Measured:
    """Everything, reduced.

    Attributes
    ----------
    toys
        The scenarios of the toy network.
    figures
        ``place, treatment, replicate, metric, value``: of the toy network over seeds, of random networks over networks.
    rates
        Of random networks, the frame of `onionlab.reproductions.predictor.measure.cell`.
    made
        By which code the runs were made, and how long they took, study by study; the toy network is called ``toy``.
    costs
        Of random networks: `onionlab.reproductions.predictor.cells.Cost`.
    """

    toys: Mapping[str, Toy]
    figures: pl.DataFrame
    rates: pl.DataFrame
    made: Mapping[str, Sequence[Made]]
    costs: Sequence[Cost]

    def of(self, study: Study) -> Measured:
        """With the figures of a study's own networks, which are the first ones: other studies have more at some of its places."""
        return replace(self, figures=self.figures.filter(pl.col("replicate") < study.networks))
