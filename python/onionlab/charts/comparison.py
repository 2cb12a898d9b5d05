"""Charts of a comparison of experiments: distributions, goodput over time, and every difference with its interval."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.charts.bands import Axis, band_chart, time_axis, values
from onionlab.charts.build import Chart, slug, with_names
from onionlab.stats import cdf_bands, series_bands
from onionlab.stats.metrics import HEADLINE, METRICS, RUN

if TYPE_CHECKING:
    from onionlab.results.comparison import Comparison

#: What a band is.
BAND = "line: mean over networks; band: 95 % interval at each point"


def _finish(chart: Any, title: str, about: str, data: dict[str, pl.DataFrame]) -> dict[str, Any]:
    """Title, looks and data."""
    lines = textwrap.wrap(about, 100)
    specification: dict[str, Any] = chart.properties(title=alt.TitleParams(title, subtitle=lines)).to_dict()
    specification["config"] = theme.config()
    specification.setdefault("datasets", {}).update({name: values(rows) for name, rows in data.items()})
    return specification


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def distribution(comparison: Comparison, kind: str, column: str) -> Chart:
    """Distribution function of the time to first (``ttfb``) or last byte (``ttlb``) of one kind of client."""
    which = {"ttfb": "first", "ttlb": "last"}[column]
    title, name = f"Time to {which} byte, {kind}", f"time-to-{which}-byte-{slug(kind)}"
    parts = [
        variant.labelled(comparison.over_repeats(variant.experiment.measured)).filter(pl.col("kind") == kind).select(*RUN, column)
        for variant in comparison.variants
    ]
    curves = cdf_bands(pl.concat(parts), column, comparison.labels)
    drawn = set(curves["treatment"])
    notes = tuple(f"No line for “{label}”: nothing to measure." for label in comparison.labels if label not in drawn)
    if column == "ttlb":
        notes = (*notes, "Failed and unfinished downloads are not in the curves; see the table.")
    if curves.height == 0:
        return Chart(name, title, curves, None, notes)
    times, shown = time_axis(curves, f"time to {which} byte")
    shares = Axis("quantile", "share of transfers", {"domain": [0, 1]}, {"format": "%"})
    banded = curves["low"].null_count() < curves.height
    chart = band_chart("curves", comparison.labels, times, shares, spread="x", banded=banded, places=comparison.places)
    return Chart(name, title, curves, _finish(chart, title, BAND if banded else "no bands", {"curves": shown}), notes)


def goodput(comparison: Comparison) -> Chart:
    """Payload delivered to clients over time; of each variant until its own end."""
    title, name = "Goodput of the whole network", "network-throughput"
    step = pl.col("time_ns") - pl.col("time_ns").shift(1, fill_value=0).over(*RUN)
    parts = []
    for variant in comparison.variants:
        rows = variant.labelled(comparison.over_repeats(variant.experiment.network))
        parts.append(series_bands(rows, pl.col("goodput_bytes") * 8e3 / step, [variant.label])[0])
    curves = pl.concat(parts)
    top = 1.04 * _number(curves["mean"].max())
    if top == 0:
        return Chart(name, title, curves, None, ("Nothing to draw: no byte reached a client in any run.",))
    end = max(variant.experiment.duration for variant in comparison.variants)
    begins = {variant.experiment.measure_from for variant in comparison.variants}
    time = Axis("time", "simulated time (s)", {"domain": [0, end], "nice": False}, {"labelOverlap": True, "tickCount": 8})
    banded = curves["low"].null_count() < curves.height
    cut = max(begins) if len(begins) == 1 and max(begins) > 0 else None
    chart = band_chart(
        "curves",
        comparison.labels,
        time,
        Axis("mean", "goodput (Mbit/s)", {"domain": [0, top], "nice": True}),
        spread="y",
        banded=banded,
        places=comparison.places,
        cut_before=cut,
    )
    about = f"{BAND if banded else 'no bands'}{'; shaded: warm-up, not measured' if cut else ''}"
    notes = () if len(begins) == 1 else ("What is cut off as warm-up differs, and is not shaded.",)
    return Chart(name, title, curves, _finish(chart, title, about, {"curves": curves}), notes)


def differences(comparison: Comparison) -> Chart:
    """Every headline difference to the base as a share of it, with its interval."""
    title, name = f"Differences to {comparison.base.label}", "differences"
    scale = pl.col("difference_percent") / pl.col("difference")
    data = (
        comparison.summary.filter(
            pl.col("metric").is_in(HEADLINE), pl.col("unit") != "%", pl.col("difference_percent").is_not_null()
        )
        .with_columns(scale=pl.when(pl.col("difference") != 0).then(scale))
        .select(
            "treatment",
            "kind",
            "metric",
            "pairing",
            figure=pl.col("kind") + ": " + pl.col("metric").replace_strict({key: METRICS[key].label for key in HEADLINE}),
            mean="difference_percent",
            low=pl.col("difference_low") * pl.col("scale"),
            high=pl.col("difference_high") * pl.col("scale"),
        )
    )
    if data.height == 0:
        return Chart(name, title, data, None, ("Nothing to draw: there is no time of both.",))
    labels = comparison.labels
    order = data["figure"].unique(maintain_order=True).to_list()
    colour = alt.Color(
        "treatment:N",
        sort=labels,
        scale=alt.Scale(domain=labels[1:], range=list(theme.colours(labels, comparison.places).values())[1:]),
        legend=alt.Legend(columns=theme.legend_columns(labels[1:]), symbolSize=90, symbolStrokeWidth=0)
        if len(labels) > 2
        else None,
    )
    height = max(90, 26 * data.height)
    base = alt.Chart(alt.NamedData("differences"), width=theme.WIDTH - 170, height=height)
    y = alt.Y("figure:N", sort=order, title=None, axis=alt.Axis(labelLimit=330))
    side = alt.YOffset("treatment:N", sort=labels[1:], scale=alt.Scale(paddingOuter=0.4))
    lines = base.transform_filter("isValid(datum.low)").mark_rule(strokeDash=[1, 0], strokeWidth=2.2)
    points = base.mark_point(filled=True, size=70, opacity=1)
    zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule().encode(x=alt.XDatum(0))
    x = "difference (% of the base’s mean)"
    axis = alt.Axis(tickCount=7, labelOverlap=True)
    chart = alt.layer(
        zero,
        lines.encode(x=alt.X("low:Q", title=x, axis=axis), x2="high:Q", y=y, yOffset=side, color=colour),
        points.encode(x=alt.X("mean:Q", title=x, axis=axis), y=y, yOffset=side, color=colour),
    )
    about = "point: mean difference; line: its 95 % interval; an interval without zero shows a difference"
    heading = title if len(labels) > 2 else f"{labels[1]} against {labels[0]}"
    return Chart(name, title, data, _finish(chart, heading, about, {"differences": data}))


def comparison_charts(comparison: Comparison) -> list[Chart]:
    """Every chart of a comparison, in its order."""
    charts = [differences(comparison)]
    for kind in comparison.kinds:
        charts += [distribution(comparison, kind, "ttfb"), distribution(comparison, kind, "ttlb")]
    return with_names([*charts, goodput(comparison)])
