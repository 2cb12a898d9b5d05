"""One experiment of `onionlab.reproductions.switching`, reduced to what its page needs, and in the form in which that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from onionlab.errors import ResultsError
from onionlab.reproductions.figures import SCHEMA
from onionlab.reproductions.kept import Made, Reduced
from onionlab.results.experiment import Experiment

#: Changes with what is taken of runs (`onionlab.reproductions.kept.Kept`).
FORM = 1

#: Columns of `Study.times`.
TIMES = {
    "place": pl.String,
    "treatment": pl.String,
    "network": pl.Int64,
    "seed": pl.Int64,
    "what": pl.String,
    "value": pl.Float64,
}


@dataclass(frozen=True)
class Study:
    """All runs of an experiment, reduced.

    Attributes
    ----------
    figures
        ``place, treatment, replicate, metric, value``: one figure of one run.
    times
        `TIMES`: single values behind the figures, for curves and for quantiles over all replicates; none where the page shows
        neither.
    treatments, points
        In the order of the file, points of a sweep by their names; one without a name where there is no sweep.
    replicates
        How many seeds, or sampled networks.
    minutes
        Simulated, of each run.
    made
        By which code the runs were made, and how long they took.
    """

    figures: pl.DataFrame
    times: pl.DataFrame
    treatments: tuple[str, ...]
    replicates: int
    points: tuple[str, ...] = ("",)
    minutes: float = 0.0
    made: tuple[Made, ...] = ()

    @classmethod
    def of(
        cls, experiment: Experiment, figures: pl.DataFrame, times: pl.DataFrame | None = None, points: tuple[str, ...] = ("",)
    ) -> Study:
        """Of a finished experiment, with what was taken of its runs; values that are not there are left out of the times."""
        return cls(
            figures,
            pl.DataFrame(schema=TIMES) if times is None else times.drop_nulls("value"),
            tuple(experiment.treatments),
            max(experiment.plan.networks, len(experiment.plan.seeds)),
            points,
            experiment.duration / 60,
            Made.of(experiment),
        )

    @classmethod
    def read(cls, reduced: Reduced) -> Study:
        """What `reduced` made of one.

        Raises
        ------
        ResultsError
            If it is of something else.
        """
        try:
            figures, times = (_frame(reduced, name, schema) for name, schema in (("figures", SCHEMA), ("times", TIMES)))
            facts = {name: tuple(map(str, reduced.facts[name])) for name in ("treatments", "points")}
            replicates, minutes = int(reduced.facts["replicates"]), float(reduced.facts["minutes"])
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"what is kept is no experiment on circuit switching: {error}") from error
        return cls(figures, times, replicates=replicates, minutes=minutes, made=reduced.made, **facts)

    def reduced(self) -> Reduced:
        """In the form in which it is kept."""
        facts = {
            "treatments": list(self.treatments),
            "points": list(self.points),
            "replicates": self.replicates,
            "minutes": self.minutes,
        }
        return Reduced({"figures": self.figures, "times": self.times}, self.made, facts)

    def without_times(self) -> Study:
        """The figures alone."""
        return replace(self, times=self.times.clear())


def _frame(reduced: Reduced, name: str, schema: Mapping[str, Any]) -> pl.DataFrame:
    """A frame that is kept; raises a `ValueError` if it has other columns."""
    found = reduced.frames[name]
    if dict(found.schema) != dict(schema):
        raise ValueError(f"{name}.parquet has other columns")
    return found
