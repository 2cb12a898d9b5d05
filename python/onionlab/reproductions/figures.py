"""Figures of runs: the frame that claims are judged on, and how tables show a mean and a paired difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from onionlab.quantity import format_fixed
from onionlab.reproductions.claims import Comparison, Rule, difference
from onionlab.stats import mean_interval
from onionlab.stats.intervals import CONFIDENCE

#: One figure of one run: place, treatment, replicate (a seed or a sampled network), metric, value.
Figure = tuple[str, str, int, str, float | None]

#: Columns of a frame of them.
SCHEMA = {"place": pl.String, "treatment": pl.String, "replicate": pl.Int64, "metric": pl.String, "value": pl.Float64}

#: Columns of a frame of single values behind figures, for curves and for quantiles over all replicates.
VALUES = {
    "place": pl.String,
    "treatment": pl.String,
    "network": pl.Int64,
    "seed": pl.Int64,
    "what": pl.String,
    "value": pl.Float64,
}

#: An upper bound so many times the mean bounds nothing, and is not shown.
FAR = 1000

#: What a table shows where there is nothing.
NOTHING = "–"


def frame(figures: Iterable[Figure]) -> pl.DataFrame:
    """The frame of these figures."""
    return pl.DataFrame(list(figures), schema=SCHEMA, orient="row")


def mean(values: pl.Series) -> float | None:
    """Mean of what is there; None of nothing."""
    found = values.drop_nulls().mean()
    return float(found) if isinstance(found, int | float) else None


def capped(values: pl.Series, longest: float) -> pl.Series:
    """Times of all; one without a value, or with a longer one, counts as the longest."""
    return values.cast(pl.Float64).fill_null(longest).clip(upper_bound=longest)


def level(figures: pl.DataFrame, places: int, **at: Any) -> str:
    """Mean over replicates with its 95 % interval; ``at`` are columns and what stands in them.

    The interval is that of `onionlab.stats.mean_interval`: half its width, or its bounds in brackets where it is that of a
    log-normal mean, or would reach below zero although no value does. Of values that differ by orders of magnitude the upper
    bound can be thousands of times the mean; then there is none.
    """
    values = figures.filter(**at)["value"].drop_nulls().to_numpy()
    interval = mean_interval(values)
    if interval is None:
        return NOTHING
    text = format_fixed(interval.mean, places)
    if interval.low is None or interval.high is None:
        return text
    low = max(0.0, interval.low) if (values >= 0).all() else interval.low
    if interval.method == "student" and low == interval.low:
        return f"{text} ± {format_fixed(interval.high - interval.mean, places)}"
    if interval.high > FAR * abs(interval.mean):
        return f"{text} ({format_fixed(low, places)} or more)"
    return f"{text} ({format_fixed(low, places)} to {format_fixed(interval.high, places)})"


def change(figures: pl.DataFrame, part: Comparison, rule: Rule, places: int, unit: str = "") -> str:
    """A difference with its 95 % interval, in the metric's unit and in per cent; an asterisk where it is clear of zero."""
    found = difference(figures, part, CONFIDENCE, rule)
    if found is None:
        return NOTHING
    text = format_fixed(found.interval.mean, places, signed=True) + unit
    if found.interval.low is not None and found.interval.high is not None:
        bounds = " to ".join(format_fixed(bound, places, signed=True) for bound in (found.interval.low, found.interval.high))
        text += f" ({bounds}){'*' if found.clear else ''}"
    if found.percent is not None:
        text += f", {format_fixed(found.percent, 1, signed=True)} %"
    return text


def percent(figures: pl.DataFrame, part: Comparison, rule: Rule) -> str:
    """A difference in per cent of its base; an asterisk where its 95 % interval is clear of zero; empty without a base."""
    found = difference(figures, part, CONFIDENCE, rule)
    if found is None or found.percent is None:
        return ""
    return f"{format_fixed(found.percent, 0, signed=True)} %{'*' if found.clear else ''}"
