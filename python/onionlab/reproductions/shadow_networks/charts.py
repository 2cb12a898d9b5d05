"""Charts of `onionlab.reproductions.shadow_networks`: quantiles of ours beside theirs, with the spread between their networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from onionlab.charts import theme
from onionlab.quantity import format_size

if TYPE_CHECKING:
    from onionlab.reproductions.shadow_networks import Comparison
    from onionlab.stats.intervals import Floats

#: Lines, and what lies behind them.
THEIRS, OURS = "real tor in Shadow, this network", "onionlab, this network"
SPREAD = "their networks of this scale: mean ± standard deviation"

COLOURS = alt.Scale(domain=[THEIRS, OURS, SPREAD], range=[theme.PALETTE[1], theme.PALETTE[0], theme.FAINT])
DASHES = alt.Scale(domain=[THEIRS, OURS, SPREAD], range=[[1, 0], [6, 3], [1, 0]])

#: Times at which there are ticks, in seconds.
TICKS = [step * 10**power for power in range(-2, 3) for step in (1, 2, 5)]

#: Points of a line at most.
POINTS = 200


def stem(one: Comparison) -> str:
    """File name of a network's chart, without extension."""
    return f"shadow-networks-{one.name}"


def chart(one: Comparison) -> dict[str, Any]:
    """Distribution functions of every time of one network, as a Vega-Lite specification."""
    from onionlab.reproductions.shadow_networks.transfer_times import SIZES, TIMES

    panels = [
        _panel(one, (metric, size), f"time to {word}, {format_size(int(size))} (s)")
        for size in SIZES
        if size != "all"
        for metric, word in TIMES.items()
    ]
    minutes = one.observed.duration / 60
    lines = [
        f"{one.scale} of Tor, {minutes:g} simulated minutes, downloads from minute {one.observed.measure_from / 60:g} on; "
        f"onionlab {one.observed.made[0].version}",
        "line: share of completed downloads that took at most that long; a bar cut off by the left edge begins further left",
    ]
    title = alt.TitleParams(f"{one.name}: downloads of perf clients", subtitle=lines, frame="bounds", offset=14)
    drawn = alt.concat(*panels, columns=2, spacing=22).properties(title=title)
    specification: dict[str, Any] = drawn.to_dict()
    specification["config"] = theme.config()
    return specification


def _panel(one: Comparison, key: tuple[str, str], title: str) -> alt.LayerChart | alt.FacetChart:
    rows = [row for source, values in ((THEIRS, one.theirs[key]), (OURS, one.ours[key])) for row in _line(source, values)]
    ends = [float(values[end]) for values in (one.theirs[key], one.ours[key]) if len(values) for end in (0, -1)]
    low, high = min(ends) / 1.25, max(ends) * 1.25
    marks = [
        {
            "source": SPREAD,
            "share": q,
            "value": target.mean,
            "low": max(low, target.mean - target.sd),
            "high": target.mean + target.sd,
        }
        for q, target in zip(one.quantiles, one.targets[key], strict=True)
    ]
    x = alt.X(
        "value:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[low, high], nice=False, clamp=True),
        axis=alt.Axis(values=[value for value in TICKS if low <= value <= high], format="~g"),
    )
    y = alt.Y("share:Q", title="share of downloads", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, title=None, orient="top", columns=1)
    colour = alt.Color("source:N", scale=COLOURS, legend=legend)
    spread = _chart(marks).encode(y=y, color=colour)
    lines = (
        _chart(rows)
        .mark_line(interpolate="step-after", clip=True)
        .encode(x=x, y=y, color=colour, strokeDash=alt.StrokeDash("source:N", scale=DASHES, legend=None), order="share:Q")
    )
    drawn: alt.LayerChart | alt.FacetChart = alt.layer(
        spread.mark_rule(strokeWidth=5, opacity=0.45, strokeDash=[1, 0], clip=True).encode(x=alt.X("low:Q"), x2="high:Q"),
        spread.mark_point(filled=True, size=30, opacity=1, clip=True).encode(x=x),
        lines,
    )
    return drawn


def _chart(rows: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(rows), width=theme.WIDTH // 2 - 20, height=160)


def _line(source: str, values: Floats) -> list[dict[str, Any]]:
    """A distribution function in a few points."""
    if not len(values):
        return []
    steps = np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).astype(int))
    return [{"source": source, "value": float(values[step]), "share": (int(step) + 1) / len(values)} for step in steps]
