"""Distribution functions in rows of panels, each a mean over replicates with its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.charts.bands import Axis, band_chart, style, values
from onionlab.stats import quantile_bands

#: Size of a panel, in pixels.
SIZE = (230, 170)

#: A run has a quantile function from so many values on. Of fewer, hardly more than the least would be drawn, for each quantile is
#: the lower order statistic: then the values of all runs are drawn as points.
FEW = 10


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes
    ----------
    place, what
        Which rows of the times it draws.
    heading
        Above it.
    words
        Along its axis.
    scale
        Of its axis, where the data's own extent is not it.
    """

    place: str
    what: str
    heading: str
    words: str
    scale: dict[str, Any] = field(default_factory=dict)


def grid(
    times: pl.DataFrame,
    treatments: Sequence[str],
    rows: Sequence[Sequence[Panel]],
    title: str,
    about: Sequence[str],
    size: tuple[int, int] = SIZE,
) -> dict[str, Any]:
    """A chart's specification; panels without data are left out.

    Parameters
    ----------
    times : polars.DataFrame
        ``place, treatment, network, seed, what, value``: bands lie over the values of ``network``.
    treatments : sequence of str
        In the order of their colours.
    rows : sequence of sequences of Panel
        What is drawn, row by row.
    title : str
        Above all.
    about : sequence of str
        Lines below the title.
    size : tuple of int
        Of a panel, in pixels.
    """
    shown = [[(one, own) for one in row if not (own := _own(times, one)).is_empty()] for row in rows]
    alone = all(has_few(own) for row in shown for _, own in row)
    data: dict[str, pl.DataFrame] = {}
    drawn = []
    for row in shown:
        panels = []
        for one, own in row:
            name = f"{one.place}-{one.what}"
            few = has_few(own)
            data[name] = _pooled(own) if few else quantile_bands(own, "value", treatments)
            ticks = {"tickCount": 5, "labelOverlap": "parity", "labelSeparation": 6}
            x = Axis("mean", one.words, one.scale or extent(data[name]), ticks)
            y = Axis("quantile", "share", {"domain": [0, 1]}, {"format": "%", "tickCount": 5})
            if few:
                panel = _points(name, treatments, x, y, size, alone=alone)
            else:
                banded = data[name]["low"].null_count() < data[name].height
                panel = band_chart(name, treatments, x, y, spread="x", banded=banded, size=size)
            panels.append(panel.properties(title=alt.TitleParams(one.heading, fontSize=12, offset=4)))
        if panels:
            drawn.append(alt.hconcat(*panels, spacing=22))
    return whole(drawn, title, about, data)


def _own(times: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """What a panel draws."""
    return times.filter(place=panel.place, what=panel.what)


def points_of(times: pl.DataFrame, panels: Sequence[Panel], together: str) -> list[str]:
    """What is to be said below a title where some of these panels have points: values of all ``together``, such as "seeds"."""
    shown = [own for one in panels if not (own := _own(times, one)).is_empty()]
    said = f"points, where a run has fewer than {FEW} values: those of all {together} together"
    return [said] if any(has_few(own) for own in shown) else []


def has_few(times: pl.DataFrame) -> bool:
    """Whether half of a treatment's runs have too few values for a quantile function; all are of one place and one kind."""
    counts = times.group_by("treatment", "network", "seed").len().group_by("treatment").agg(pl.col("len").median())
    return bool(counts.select((pl.col("len") < FEW).any()).item())


def _pooled(times: pl.DataFrame) -> pl.DataFrame:
    """The values of all runs of a treatment in order, each in the middle of its step of the distribution function."""
    share = (pl.col("value").rank("ordinal") - 0.5) / pl.len()
    nothing = pl.lit(None, pl.Float64)
    rows = times.select("treatment", quantile=share.over("treatment"), mean="value", low=nothing, high=nothing)
    return rows.sort("treatment", "quantile")


def _points(name: str, treatments: Sequence[str], x: Axis, y: Axis, size: tuple[int, int], *, alone: bool) -> alt.LayerChart:
    """Points in the place of lines; ``alone``: no panel has lines, so that the legend has points too."""
    looks = style(treatments, dashed=False, points=alone)
    dots = alt.Chart(alt.NamedData(name), width=size[0], height=size[1]).mark_point(filled=True, size=26, opacity=0.8, clip=True)
    return alt.LayerChart(layer=[dots.encode(x=x.channel("x"), y=y.channel("y"), color=looks["color"])])


def whole(rows: Sequence[Any], title: str, about: Sequence[str], data: dict[str, pl.DataFrame]) -> dict[str, Any]:
    """Rows of panels below each other under one title, with the data sets that they name."""
    drawn = alt.vconcat(*rows, spacing=20, title=alt.TitleParams(title, subtitle=list(about), frame="bounds", offset=14))
    specification: dict[str, Any] = drawn.to_dict()
    specification["config"] = theme.config()
    specification.setdefault("datasets", {}).update({name: values(curves) for name, curves in data.items()})
    return specification


def extent(curves: pl.DataFrame) -> dict[str, Any]:
    """From zero (or, where values hardly vary, from near the least) to a little above the lines."""
    means = curves["mean"].drop_nulls().to_numpy()
    if not means.size:
        return {}
    least, most = float(means.min()), float(means.max())
    below = most - least if least < 0 else least
    begin = 0.0 if 0 <= least < 0.6 * most else least - 0.05 * below
    return {"domain": [begin, most + 0.02 * abs(most) or 1.0], "nice": False, "zero": False}
