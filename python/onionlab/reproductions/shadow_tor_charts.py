"""Charts of `onionlab.reproductions.shadow_tor`: every transfer of ours beside every transfer of theirs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.quantity import format_size
from onionlab.reproductions.published import METRICS, Quantiles

if TYPE_CHECKING:
    from onionlab.reproductions.shadow_tor import Comparison

#: Rows and lines, in this order: real tor above.
THEIRS, OURS = "real tor", "onionlab"

#: Their colour and ours, told apart by colour-blind readers.
COLOURS = alt.Scale(domain=[THEIRS, OURS], range=[theme.PALETTE[1], theme.PALETTE[0]])

#: Up to so many transfers each is drawn as a dot; more of them become a distribution function.
FEW = 40


def chart(comparison: Comparison) -> dict[str, Any]:
    """The chart of one experiment, as a Vega-Lite specification."""
    many = comparison.ours.height > FEW
    drawn = _distributions(comparison) if many else _dots(comparison)
    seeds = ", ".join(map(str, comparison.seeds))
    lines = [
        *textwrap.wrap(comparison.case.setting, 96),
        f"real tor: 0.4.9.11 in Shadow 3.3.0, one run; onionlab {comparison.version}, seed {seeds}",
        _reading(comparison, many),
    ]
    title = alt.TitleParams(f"Real tor and onionlab: {comparison.case.name}", subtitle=lines, frame="bounds")
    specification: dict[str, Any] = drawn.properties(title=title).to_dict()
    specification["config"] = theme.config()
    return specification


def _reading(comparison: Comparison, many: bool) -> str:
    """How the chart is read, in one line."""
    if many:
        return "line: share of transfers that took at most so long" + (
            "" if comparison.theirs is not None else "; of real tor only the points at 10, 50 and 90 % are at hand"
        )
    theirs = "" if comparison.theirs is not None else "; of real tor only the range from p10 to p90 is at hand"
    return f"dot: a transfer; bar: median; shaded: real tor's median ± 2 %{theirs}"


def _samples(comparison: Comparison, size: int, metric: str) -> dict[str, list[float]]:
    """Times of one figure by source; theirs is empty where only quantiles are at hand."""
    found = {}
    for name, frame in ((THEIRS, comparison.theirs), (OURS, comparison.ours)):
        found[name] = [] if frame is None else frame.filter(pl.col("bytes") == size)[metric].to_list()
    return found


def _dots(comparison: Comparison) -> alt.VConcatChart:
    """A panel for each figure with a row of dots for each source."""
    panels = []
    figures = comparison.case.figures
    # Times to first byte do not depend on the size: one panel shows those of the smallest.
    smallest = min(size for size, _ in figures)
    wanted = [(size, metric) for size, metric in figures if metric == "ttlb" or size == smallest]
    ratios = [
        time / figures[figure].median for figure in wanted for times in _samples(comparison, *figure).values() for time in times
    ]
    span = (min(ratios) - 0.02, max(ratios) + 0.02)
    for size, metric in sorted(wanted, key=lambda figure: (figure[1], figure[0])):
        title = [METRICS[metric], format_size(size)]
        panels.append(_strip(_samples(comparison, size, metric), figures[size, metric], title, span))
    return alt.vconcat(*panels, spacing=14)


def _strip(samples: dict[str, list[float]], published: Quantiles, title: list[str], span: tuple[float, float]) -> alt.LayerChart:
    """One panel: both sources on one axis of seconds, which covers the same multiples of their median in every panel."""
    centre = published.median
    x = alt.X(
        "seconds:Q",
        title=None,
        scale=alt.Scale(domain=[span[0] * centre, span[1] * centre], nice=False, zero=False),
        axis=alt.Axis(tickCount=6, labelExpr="datum.label + ' s'"),
    )
    rows = {THEIRS: 1, OURS: 0}
    y = alt.Y(
        "row:Q",
        title=title,
        scale=alt.Scale(domain=[-0.5, 1.5], nice=False),
        axis=alt.Axis(
            values=[0, 1],
            grid=False,
            ticks=False,
            domain=False,
            labelExpr=f"datum.value == 1 ? '{THEIRS}' : '{OURS}'",
            titleAngle=0,
            titleAlign="left",
            titleX=-150,
            titleY=24,
        ),
    )
    colour = alt.Color("source:N", scale=COLOURS, legend=None)
    # Equal times lie one above the other: spread them over the row, by a fixed pattern.
    dots = [
        {"source": source, "seconds": time, "row": rows[source] + 0.56 * ((0.618034 * number) % 1 - 0.5)}
        for source, times in samples.items()
        for number, time in enumerate(times)
    ]
    medians = [{"source": THEIRS, "seconds": centre, "row": 0.62, "to": 1.38}]
    medians.append({"source": OURS, "seconds": Quantiles.of(pl.Series(samples[OURS])).median, "row": -0.38, "to": 0.38})
    layers = [
        alt.Chart(alt.InlineData([{"seconds": 0.98 * centre, "until": 1.02 * centre}]))
        .mark_rect(color=theme.FAINT, opacity=0.22, clip=True)
        .encode(x=x, x2="until:Q"),
        alt.Chart(alt.InlineData(medians))
        .mark_rule(strokeWidth=2, strokeDash=[1, 0], color=theme.INK)
        .encode(x=x, y=y, y2="to:Q"),
        alt.Chart(alt.InlineData(dots)).mark_circle(size=38, opacity=0.75, clip=True).encode(x=x, y=y, color=colour),
    ]
    if not samples[THEIRS]:
        bar = [{"source": THEIRS, "seconds": published.p10, "until": published.p90, "row": 1}]
        layers.append(
            alt.Chart(alt.InlineData(bar))
            .mark_rule(strokeWidth=6, strokeDash=[1, 0], opacity=0.75)
            .encode(x=x, x2="until:Q", y=y, color=colour)
        )
    return alt.LayerChart(layer=layers, width=theme.WIDTH - 90, height=74)


def _distributions(comparison: Comparison) -> alt.HConcatChart:
    """Distribution functions of the times to first and last byte, side by side."""
    panels = [_steps(comparison, size, metric) for size, metric in comparison.case.figures]
    return alt.hconcat(*panels, spacing=24)


def _steps(comparison: Comparison, size: int, metric: str) -> alt.LayerChart:
    """One distribution function for each source; three points of theirs where only quantiles are at hand."""
    published = comparison.case.figures[size, metric]
    samples = _samples(comparison, size, metric)
    rows: list[dict[str, str | float]] = []
    for source, times in samples.items():
        ordered = sorted(times)
        rows += [{"source": source, "seconds": time, "share": (rank + 1) / len(ordered)} for rank, time in enumerate(ordered)]
        if ordered:
            rows.append({"source": source, "seconds": ordered[0], "share": 0.0})
    points = [
        {"source": THEIRS, "seconds": value, "share": share}
        for value, share in ((published.p10, 0.1), (published.median, 0.5), (published.p90, 0.9))
    ]
    all_times = [*samples[THEIRS], *samples[OURS], published.p10, published.p90]
    low, high = min(all_times), max(all_times)
    margin = 0.03 * (high - low)
    x = alt.X(
        "seconds:Q",
        title=f"time to {METRICS[metric]}, {format_size(size)} (s)",
        scale=alt.Scale(domain=[low - margin, high + margin], nice=False, zero=False),
        axis=alt.Axis(tickCount=5, labelOverlap=True),
    )
    y = alt.Y("share:Q", title="share of transfers", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    colour = alt.Color("source:N", scale=COLOURS, legend=alt.Legend(symbolType="stroke"))
    dashes = alt.Scale(domain=[THEIRS, OURS], range=[[1, 0], [6, 3]])
    dash = alt.StrokeDash("source:N", scale=dashes, legend=alt.Legend(symbolType="stroke"))
    lines = (
        alt.Chart(alt.InlineData(rows))
        .mark_line(interpolate="step-after", clip=True)
        .encode(x=x, y=y, color=colour, strokeDash=dash, order="share:Q")
    )
    layers: list[alt.Chart] = [lines]
    if not samples[THEIRS]:
        layers.append(alt.Chart(alt.InlineData(points)).mark_point(size=90, filled=True).encode(x=x, y=y, color=colour))
    return alt.LayerChart(layer=layers, width=theme.WIDTH // 2, height=theme.HEIGHT - 40)
