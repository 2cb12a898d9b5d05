"""Figures of runs: the frame that claims are judged on, and how tables show a mean and a paired difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from onionlab.quantity import format_fixed
from onionlab.reproductions.claims import Comparison, Rule, difference
from onionlab.stats.intervals import CONFIDENCE, t_interval

#: One figure of one run: place, treatment, replicate (a seed or a sampled network), metric, value.
Figure = tuple[str, str, int, str, float | None]

#: Columns of a frame of them.
SCHEMA = {"place": pl.String, "treatment": pl.String, "replicate": pl.Int64, "metric": pl.String, "value": pl.Float64}

#: What a table shows where there is nothing.
NOTHING = "–"


def frame(figures: Iterable[Figure]) -> pl.DataFrame:
    """The frame of these figures."""
    return pl.DataFrame(list(figures), schema=SCHEMA, orient="row")


def mean(values: pl.Series) -> float | None:
    """Mean of what is there; None of nothing."""
    found = values.drop_nulls().mean()
    return float(found) if isinstance(found, int | float) else None


def level(figures: pl.DataFrame, places: int, **at: Any) -> str:
    """Mean over replicates with half the width of its 95 % interval; ``at`` are columns and what stands in them."""
    interval = t_interval(figures.filter(**at)["value"].drop_nulls().to_list())
    if interval is None:
        return NOTHING
    text = format_fixed(interval.mean, places)
    return text if interval.high is None else f"{text} ± {format_fixed(interval.high - interval.mean, places)}"


def change(figures: pl.DataFrame, part: Comparison, rule: Rule, places: int, unit: str = "") -> str:
    """A difference with its 95 % interval, in the metric's unit and in per cent; an asterisk where it excludes zero."""
    found = difference(figures, part, CONFIDENCE, rule)
    if found is None:
        return NOTHING
    text = format_fixed(found.interval.mean, places, signed=True) + unit
    if found.interval.low is not None and found.interval.high is not None:
        bounds = " to ".join(format_fixed(bound, places, signed=True) for bound in (found.interval.low, found.interval.high))
        text += f" ({bounds}){'*' if found.interval.excludes_zero else ''}"
    if found.percent is not None:
        text += f", {format_fixed(found.percent, 1, signed=True)} %"
    return text


def percent(figures: pl.DataFrame, part: Comparison, rule: Rule) -> str:
    """A difference in per cent of its base; an asterisk where its 95 % interval excludes zero; empty without a base."""
    found = difference(figures, part, CONFIDENCE, rule)
    if found is None or found.percent is None:
        return ""
    return f"{format_fixed(found.percent, 0, signed=True)} %{'*' if found.interval.excludes_zero else ''}"
