"""Charts of a comparison of experiments: distributions, goodput over time, and every difference with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.charts.build import (
    Chart,
    Subject,
    Words,
    distribution_chart,
    finish,
    goodput_bands,
    other_in_table,
    silent,
    throughput_chart,
    with_names,
)
from onionlab.stats import cdf_bands
from onionlab.stats.metrics import HEADLINE, METRICS, RUN

if TYPE_CHECKING:
    from onionlab.results.comparison import Comparison


def subject(comparison: Comparison) -> Subject:
    """The variants; what each of them is does not go into a subtitle."""
    begins = {variant.experiment.measure_from for variant in comparison.variants}
    return Subject(
        comparison.labels,
        (),
        (),
        {variant.label: comparison.repeats(variant) for variant in comparison.variants},
        comparison.by_seed,
        max(variant.experiment.duration for variant in comparison.variants),
        begins.pop() if len(begins) == 1 else None,
        comparison.places,
    )


def distribution(comparison: Comparison, kind: str, column: str) -> Chart:
    """Distribution function of the time to first (``ttfb``) or last byte (``ttlb``) of one kind of client."""
    parts = [
        variant.labelled(comparison.over_repeats(variant.experiment.measured)).filter(pl.col("kind") == kind).select(*RUN, column)
        for variant in comparison.variants
    ]
    curves = cdf_bands(pl.concat(parts), column, comparison.labels)
    notes = silent(curves, comparison.labels, "nothing to measure.") + other_in_table(comparison.summary, kind, column, curves)
    if column == "ttlb":
        notes.append("Failed and unfinished downloads are not in the curves; see the table.")
    return distribution_chart(subject(comparison), kind, column, curves, notes)


def goodput(comparison: Comparison) -> Chart:
    """Payload delivered to clients over time; of each variant until its own end."""
    series = [
        goodput_bands(variant.labelled(comparison.over_repeats(variant.experiment.network)), [variant.label])
        for variant in comparison.variants
    ]
    of = subject(comparison)
    notes = ["What is cut off as warm-up differs, and is not shaded."] if of.measure_from is None else []
    return throughput_chart(
        of, pl.concat(curves for curves, _ in series), [width for curves, width in series if curves.height], notes
    )


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
    about = Words(
        "point: mean difference; line: its 95 % interval; an interval without zero shows a difference",
        ("Points are mean differences, and lines their 95 % intervals; one without zero shows a difference",),
    )
    heading = None if len(labels) > 2 else f"{labels[1]} against {labels[0]}"
    return finish(chart, Chart(name, title, data, None), subject(comparison), about, {"differences": data}, heading)


def comparison_charts(comparison: Comparison) -> list[Chart]:
    """Every chart of a comparison, in its order."""
    charts = [differences(comparison)]
    for kind in comparison.kinds:
        charts += [distribution(comparison, kind, "ttfb"), distribution(comparison, kind, "ttlb")]
    return with_names([*charts, goodput(comparison)])
