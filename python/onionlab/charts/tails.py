"""Distributions for those who look at the slowest transfers: distribution functions with a logarithmic tail, and complements.

On the logarithmic tail a quantile q lies at ``-log10(1 - q)``: 0.9 is as far from 0 as 0.99 from 0.9 (the form of tornettools'
charts). The complementary function ``1 - F`` is on a logarithmic axis, where a tail that falls as a power is a straight line on a
logarithmic axis of times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from onionlab.charts.bands import Axis, band_chart, time_axis
from onionlab.charts.build import Chart, Subject, band_words, banded, finish, not_drawn, other_in_table, slug, with_names
from onionlab.stats import quantile_bands, tail_quantiles
from onionlab.stats.metrics import RUN

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment

#: With so many transfers in every run, the axis goes on to 0.999: ten of them lie beyond.
MANY = 10_000

#: Labels of the logarithmic tail.
_TICKS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999)


def _nines(cut: pl.DataFrame, column: str) -> int:
    """How far into the tail the runs reach: 2 for 0.99, 3 for 0.999."""
    counts = cut.filter(pl.col(column).is_not_null()).group_by(*RUN).len()["len"]
    return 3 if counts.len() and min(counts) >= MANY else 2


def tail(experiment: Experiment, kind: str, column: str, form: Literal["tail", "ccdf"]) -> Chart:
    """Distribution of the time to first (``ttfb``) or last byte (``ttlb``) of one kind of client, as ``form`` has it."""
    which = {"ttfb": "first", "ttlb": "last"}[column]
    words = {"tail": "logarithmic tail", "ccdf": "complementary distribution"}[form]
    title = f"Time to {which} byte, {kind}: {words}"
    name = f"time-to-{which}-byte-{slug(kind)}-{form}"
    treatments = experiment.treatments
    cut = experiment.over_repeats(experiment.measured).filter(pl.col("kind") == kind)
    nines = _nines(cut, column)
    curves = quantile_bands(cut, column, treatments, quantiles=tail_quantiles(nines), method="suitable")
    notes = not_drawn(experiment, kind, column, curves) + other_in_table(experiment.summary, kind, column, curves)
    found = Chart(name, title, curves, None, tuple(notes) or ("Nothing to draw: no transfer was measured.",))
    if curves.height == 0:
        return found
    # The smallest value of a curve may be zero, of which a logarithmic axis has none.
    x, shown = time_axis(curves, f"time to {which} byte, {kind}", reach=1.1, ticks=6, zeros=False)
    if form == "tail":
        places = [float(-np.log10(1 - tick)) for tick in _TICKS if tick <= 1 - 10.0**-nines + 1e-9]
        y = Axis(
            "place",
            "share of transfers (CDF, tail log)",
            {"domain": [0, nines], "nice": False},
            {"values": places, "labelExpr": "format(1 - pow(10, -datum.value), '.3~f')"},
        )
        shown = shown.with_columns(place=-(1 - pl.col("quantile")).log10())
    else:
        y = Axis(
            "beyond",
            "share that takes longer (CCDF)",
            {"type": "log", "domain": [10.0**-nines, 1], "nice": False},
            {"values": [10.0**-power for power in range(nines + 1)], "format": "~g"},
        )
        shown = shown.with_columns(beyond=1 - pl.col("quantile"))
    chart = band_chart("curves", treatments, x, y, spread="x", banded=banded(shown))
    of = Subject.of(experiment)
    return finish(chart, replace(found, notes=tuple(notes)), of, band_words(of, curves), {"curves": shown})


def tail_charts(experiment: Experiment) -> list[Chart]:
    """Both forms of both times of every kind of client."""
    forms: tuple[Literal["tail", "ccdf"], ...] = ("tail", "ccdf")
    return with_names(
        [tail(experiment, kind, column, form) for kind in experiment.kinds for column in ("ttfb", "ttlb") for form in forms]
    )
