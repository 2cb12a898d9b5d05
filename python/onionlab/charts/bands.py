"""Lines with bands: the one form that all charts of an experiment have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import altair as alt
import polars as pl

from onionlab.charts import theme

#: Values whose largest is this many times the smallest get a logarithmic axis.
LOGARITHMIC_FROM = 15.0


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    column: str
    title: str
    scale: dict[str, Any] = field(default_factory=dict)
    look: dict[str, Any] = field(default_factory=dict)

    def channel(self, of: Literal["x", "y"], instead: str | None = None) -> alt.X | alt.Y:
        """The encoding of this axis, of its own field or of another one that shares the axis."""
        shorthand = f"{instead or self.column}:Q"
        scale, axis = alt.Scale(**self.scale), alt.Axis(**self.look)
        if of == "x":
            return alt.X(shorthand, title=self.title, scale=scale, axis=axis)
        return alt.Y(shorthand, title=self.title, scale=scale, axis=axis)


def time_axis(
    curves: pl.DataFrame, title: str, *, reach: float = 1.15, ticks: int = 8, zeros: bool = True
) -> tuple[Axis, pl.DataFrame]:
    """The axis of times under a distribution, logarithmic where they are far apart, and the curves with bands cut to it.

    The axis covers the means. A band that is wider runs out of the picture instead of squeezing the lines together.

    Parameters
    ----------
    curves : polars.DataFrame
        ``mean``, ``low`` and ``high``, in seconds.
    title : str
        What the times are.
    reach : float
        A logarithmic axis goes on beyond the means by this factor.
    ticks : int
        About how many.
    zeros : bool
        Whether a time of zero makes the axis linear; otherwise only the positive times decide.
    """
    means = [float(mean) for mean in curves["mean"].drop_nulls() if zeros or mean > 0]
    low, high = (min(means), max(means)) if means else (1.0, 1.0)
    logarithmic = low > 0 and high / low >= LOGARITHMIC_FROM
    domain = [low / reach, high * reach] if logarithmic else [0.0, (high or 1.0) * 1.04]
    axis = Axis(
        "mean",
        f"{title} (s{', logarithmic' if logarithmic else ''})",
        {"type": "log" if logarithmic else "linear", "domain": domain, "nice": False},
        {"labelOverlap": True, "tickCount": ticks, **({"format": "~g"} if logarithmic else {})},
    )
    return axis, curves.with_columns(pl.col("low", "high").clip(domain[0], domain[1]))


def values(curves: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows for a specification, rounded to what a picture can show."""
    return curves.with_columns(pl.selectors.float().round_sig_figs(6)).to_dicts()


def style(
    treatments: Sequence[str],
    dashed: bool,
    drawn: Sequence[str] | None = None,
    places: Sequence[int] | None = None,
    points: bool = False,
) -> dict[str, Any]:
    """Colour and dash of lines, by their order or ``places``, one legend for both, with the treatments ``drawn``, all by default.

    A single treatment needs none, for the title names it. ``points``: there are no lines at all, and so none in the legend.
    """
    line = {"symbolType": "stroke", "symbolFillColor": "transparent"}
    symbol: dict[str, Any] = {"symbolType": "circle", "symbolSize": 60} if points else line
    colour = alt.Scale(domain=list(treatments), range=list(theme.colours(treatments, places).values()))
    legend = (
        None
        if len(treatments) == 1
        else alt.Legend(
            values=list(drawn if drawn is not None else treatments),
            columns=theme.legend_columns(drawn if drawn is not None else treatments),
            symbolOpacity=1,
            **symbol,
        )
    )
    looks: dict[str, Any] = {"color": alt.Color("treatment:N", scale=colour, legend=legend, sort=list(treatments))}
    if dashed:
        dash = alt.Scale(domain=list(treatments), range=theme.dashes(treatments, places))
        looks["strokeDash"] = alt.StrokeDash("treatment:N", scale=dash, legend=legend, sort=list(treatments))
    return looks


def band_chart(
    data: str,
    treatments: Sequence[str],
    x: Axis,
    y: Axis,
    *,
    spread: Literal["x", "y"],
    banded: bool,
    dashed: bool | None = None,
    drawn: Sequence[str] | None = None,
    places: Sequence[int] | None = None,
    cut_before: float | None = None,
    size: tuple[int, int] = (theme.WIDTH, theme.HEIGHT),
) -> alt.LayerChart:
    """Draw curves of `onionlab.stats.curves`.

    Parameters
    ----------
    data : str
        Name of a data set of the finished specification: ``treatment``, ``low``, ``high``, and the columns of the axes.
    treatments : sequence of str
        All treatments of the experiment, drawn or not: they fix the colours.
    x, y : Axis
        The axes.
    spread : {"x", "y"}
        Along which axis the band extends.
    banded : bool
        Whether there is a band.
    dashed : bool, optional
        Whether lines differ by their dashes too. Dashes tell smooth lines apart in print; of a jagged line they leave only
        crumbs. Where nothing is said, distributions have them (``spread="x"``).
    drawn : sequence of str, optional
        The treatments in the data, for the legend; all by default.
    places : sequence of int, optional
        Of the treatments in the palette, where that is not their order.
    cut_before : float, optional
        Shade what lies before, which is not measured, and draw a vertical rule here.
    size : tuple of int
        Width and height of the plot, in pixels.
    """
    base = alt.Chart(alt.NamedData(data), width=size[0], height=size[1])
    looks = style(treatments, dashed=spread == "x" if dashed is None else dashed, drawn=drawn, places=places)
    along: Axis = y if spread == "x" else x
    other: Literal["x", "y"] = "y" if spread == "x" else "x"
    across: Axis = x if spread == "x" else y
    layers: list[alt.Chart] = []
    if banded:
        encoding: dict[str, Any] = {
            spread: across.channel(spread, "low"),
            f"{spread}2": "high:Q",
            other: along.channel(other),
            "color": looks["color"],
        }
        orient: Literal["horizontal", "vertical"] = "horizontal" if spread == "x" else "vertical"
        layers.append(base.transform_filter("isValid(datum.low)").mark_area(clip=True, orient=orient).encode(**encoding))
    line: dict[str, Any] = {"x": x.channel("x"), "y": y.channel("y"), "order": f"{along.column}:Q", **looks}
    layers.append(base.mark_line(clip=True).encode(**line))
    if cut_before is not None:
        nothing = alt.Chart(alt.InlineData(values=[{}]))
        shade = nothing.mark_rect(color=theme.FAINT, opacity=0.16).encode(x=alt.XDatum(0), x2=alt.X2Datum(cut_before))
        layers = [shade, *layers, nothing.mark_rule().encode(x=alt.XDatum(cut_before))]
    return alt.LayerChart(layer=layers)
