"""Charts of `onionlab.reproductions.shadow_tor`: distribution functions of ours beside those of theirs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import polars as pl

from onionlab.charts import theme
from onionlab.quantity import format_size
from onionlab.reproductions.published import METRICS
from onionlab.reproductions.shadow_tor.vegas_trace import QUANTITIES

if TYPE_CHECKING:
    from onionlab.reproductions.shadow_tor import Comparison

#: Lines, in this order.
THEIRS, SHADOW, LINUX = "real tor in Shadow", "onionlab, shadow", "onionlab, linux"

#: Colours told apart by colour-blind readers; the dashes tell them apart without colour.
COLOURS = {THEIRS: theme.PALETTE[1], SHADOW: theme.PALETTE[0], LINUX: theme.PALETTE[2]}
DASHES = {THEIRS: [1, 0], SHADOW: [6, 3], LINUX: [2, 2]}

#: What the trace of congestion control shows.
TRACED = {
    "cwnd": "window",
    "min_rtt_ms": "least round trip",
    "ewma_rtt_ms": "smoothed round trip",
    "bdp": "estimate of the path's content",
}

#: Points of a line at most.
POINTS = 400

#: Bins of the time axis.
BINS = 60


def stems(one: Comparison) -> list[str]:
    """File names of the charts of one experiment, without extension."""
    times = f"shadow-tor-{one.case.name}"
    return [times] if one.our_trace is None or one.their_trace is None else [times, f"{times}-vegas"]


def charts(one: Comparison) -> dict[str, dict[str, Any]]:
    """The charts of one experiment as Vega-Lite specifications, by file name without extension."""
    drawn = [_times(one)]
    if one.our_trace is not None and one.their_trace is not None:
        drawn.append(_trace(one.their_trace, one.our_trace))
    found = {}
    for stem, (chart, title, reading) in zip(stems(one), drawn, strict=True):
        lines = [*textwrap.wrap(one.case.setting, 110), reading]
        titled = alt.TitleParams(f"{one.case.name}: {title}", subtitle=lines, frame="bounds", offset=14)
        specification: dict[str, Any] = chart.properties(title=titled).to_dict()
        specification["config"] = theme.config()
        found[stem] = specification
    return found


def _times(one: Comparison) -> tuple[alt.ConcatChart, str, str]:
    """Distribution functions of every time that is compared."""
    panels = []
    for size, metric in sorted(one.case.figures, key=lambda figure: (figure[0], figure[1])):
        samples = {
            source: one.of(treatment).filter(pl.col("bytes") == size)[metric].to_numpy()
            for source, treatment in ((SHADOW, "shadow"), (LINUX, "linux"))
        }
        if one.theirs is not None:
            samples[THEIRS] = one.theirs.filter(pl.col("bytes") == size)[metric].to_numpy()
        panels.append(_panel(samples, f"time to {METRICS[metric]}, {format_size(size)} (s)", "share of transfers"))
    reading = (
        f"theirs: one run; ours: {len(one.seeds)} seeds of onionlab {one.made[0].version}; line: share that took at most so long"
    )
    return alt.concat(*panels, columns=2, spacing=22), "real tor and onionlab", reading


def _lines(sources: Iterable[str]) -> dict[str, alt.Color | alt.StrokeDash]:
    """Colour and dashes of these lines, with a legend that names them and no others."""
    domain = [source for source in COLOURS if source in set(sources)]
    legend = alt.Legend(symbolType="stroke", title=None, orient="top")
    colours = alt.Scale(domain=domain, range=[COLOURS[source] for source in domain])
    dashes = alt.Scale(domain=domain, range=[DASHES[source] for source in domain])
    return {
        "color": alt.Color("source:N", scale=colours, legend=legend),
        "strokeDash": alt.StrokeDash("source:N", scale=dashes, legend=legend),
    }


def _panel(samples: dict[str, np.ndarray[Any, np.dtype[np.float64]]], title: str, share: str) -> alt.Chart:
    """Distribution functions on one axis, which leaves out the outermost half percent of ours."""
    rows: list[dict[str, str | float]] = []
    ends: list[float] = []
    for source, values in samples.items():
        ordered = np.sort(values)
        steps = np.unique(np.linspace(0, len(ordered) - 1, min(POINTS, len(ordered))).astype(int))
        rows.append({"source": source, "value": float(ordered[0]), "share": 0.0})
        rows += [{"source": source, "value": float(ordered[step]), "share": (int(step) + 1) / len(ordered)} for step in steps]
        outermost = (0.0, 1.0) if source == THEIRS else (0.005, 0.995)
        ends += [float(end) for end in np.quantile(ordered, outermost)]
    low, high = min(ends), max(ends)
    margin = max(0.04 * (high - low), 0.002 * high)
    x = alt.X(
        "value:Q",
        title=title,
        scale=alt.Scale(domain=[low - margin, high + margin], nice=False, zero=False),
        axis=alt.Axis(tickCount=5, labelOverlap=True),
    )
    y = alt.Y("share:Q", title=share, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=5))
    drawn: alt.Chart = (
        alt.Chart(alt.InlineData(rows), width=theme.WIDTH // 2 - 20, height=150)
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=x,
            y=y,
            order="share:Q",
            **_lines(samples),
        )
    )
    return drawn


def _trace(theirs: pl.DataFrame, ours: pl.DataFrame) -> tuple[alt.ConcatChart, str, str]:
    """Distribution functions of what congestion control saw, and its window over time."""
    panels = [
        _panel({THEIRS: theirs[name].to_numpy(), SHADOW: ours[name].to_numpy()}, f"{TRACED[name]} ({unit})", "share of SENDMEs")
        for name, unit in QUANTITIES.items()
    ]
    end = float(theirs["t"].to_numpy().max())
    rows: list[dict[str, Any]] = []
    for source, frame in ((THEIRS, theirs), (SHADOW, ours)):
        binned = frame.with_columns(bin=(pl.col("t") / end * BINS).floor()).filter(pl.col("bin") <= BINS)
        medians = binned.group_by("bin").agg(pl.col("cwnd").median()).sort("bin")
        rows += [{"source": source, "t": (row[0] + 0.5) * end / BINS, "value": row[1]} for row in medians.iter_rows()]
    panels.append(
        alt.Chart(alt.InlineData(rows), width=theme.WIDTH // 2 - 20, height=150)
        .mark_line()
        .encode(
            x=alt.X("t:Q", title="time since the first transfer (s)"),
            y=alt.Y("value:Q", title="median window (cells)"),
            **_lines([THEIRS, SHADOW]),
        )
    )
    reading = "line: share of the SENDMEs after which a quantity was at most so much; last panel: the window over time"
    return alt.concat(*panels, columns=2, spacing=22), "congestion control at the exit", reading
