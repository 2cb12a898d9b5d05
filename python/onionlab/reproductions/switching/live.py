"""The partly live experiment of the testbed paper: an entry of one's own, relays of a real consensus with other traffic."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from onionlab.reproductions.switching import testbeds
from onionlab.reproductions.switching.study import Study
from onionlab.results.experiment import Experiment

#: What the whole is called in the figures, the entry's capacity among them, and the entry.
PLACE, ENTRY = "live", "entry1"

#: Ends the names of treatments whose sockets are not the testbed's; the others' are.
USUAL = ", usual sockets"
SHOWN = ("multiplexed", "switching", "uniform spares", f"multiplexed{USUAL}", f"switching{USUAL}")


def base(treatment: str) -> str:
    """The treatment without switching that it is held against."""
    return f"{SHOWN[0]}{USUAL}" if treatment.endswith(USUAL) else SHOWN[0]


def measure(experiment: Experiment) -> Study:
    """Reduce the results: as a testbed's, with one place."""
    bed = testbeds.measure(experiment, place=PLACE, relays=(ENTRY,), base=base)
    entry = pl.col("place") == ENTRY
    figures = bed.figures.filter((pl.col("place") == PLACE) | (entry & (pl.col("metric") == "capacity")))
    times = bed.times.filter((pl.col("place") == PLACE) | (entry & (pl.col("what") == "capacity-gain")))
    return replace(bed, figures=figures.with_columns(place=pl.lit(PLACE)), times=times.with_columns(place=pl.lit(PLACE)))
