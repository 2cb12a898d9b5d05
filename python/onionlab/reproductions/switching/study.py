"""One experiment of `onionlab.reproductions.switching`, reduced to what its page needs, and in the form in which that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from onionlab.reproductions.figures import SCHEMA, VALUES
from onionlab.reproductions.kept import Form, Made, Reduced, together
from onionlab.results.experiment import Experiment

#: Significant figures of a single value: with more of them what is kept is several times as large.
PRECISION = 4


@dataclass(frozen=True)
class Study:
    """All runs of an experiment, reduced.

    Attributes
    ----------
    figures
        ``place, treatment, replicate, metric, value``: one figure of one run.
    times
        `onionlab.reproductions.figures.VALUES`: single values behind the figures, for curves and for quantiles over all
        replicates; none where the page shows neither.
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
        values = pl.DataFrame(schema=VALUES) if times is None else times.drop_nulls("value")
        return cls(
            figures,
            values.with_columns(pl.col("value").round_sig_figs(PRECISION)),
            tuple(experiment.treatments),
            max(experiment.plan.networks, len(experiment.plan.seeds)),
            points,
            experiment.duration / 60,
            Made.of(experiment),
        )

    @classmethod
    def read(cls, reduced: Reduced) -> Study:
        """What `reduced` made of one."""
        return cls(reduced.frames["figures"], reduced.frames["times"], made=reduced.made, **_facts(reduced.facts))

    @classmethod
    def together(cls, parts: Sequence[Study]) -> Study:
        """Of the replicates of all parts, which are alike but for them."""
        figures, times = (pl.concat(frames) for frames in zip(*((one.figures, one.times) for one in parts), strict=True))
        replicates, made = sum(one.replicates for one in parts), together(made for one in parts for made in one.made)
        return replace(parts[0], figures=figures, times=times, replicates=replicates, made=made)

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


def _facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as a study has them; raises what `Form` says where they are not."""
    names = {name: tuple(map(str, given[name])) for name in ("treatments", "points")}
    return {**names, "replicates": int(given["replicates"]), "minutes": float(given["minutes"])}


#: What is kept of each experiment.
FORM = Form(1, {"figures": SCHEMA, "times": VALUES}, _facts)
