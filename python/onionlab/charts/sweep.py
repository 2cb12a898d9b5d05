"""A figure against a swept key: a line for each treatment with its interval over networks, panels for further keys."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.charts.bands import LOGARITHMIC_FROM, style, values
from onionlab.charts.build import Chart, Words, captioned, slug, with_names
from onionlab.plan import value_text
from onionlab.quantity import amount, unit_for
from onionlab.results import describe
from onionlab.stats.compare import repeat
from onionlab.stats.metrics import METRICS, WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onionlab.results.experiment import Experiment

#: What is drawn of each kind of client, and of the whole network.
CLIENT_METRICS = ("ttfb_median", "ttlb_median", "ttlb_p90", "goodput", "failed")
NETWORK_METRICS = ("goodput", "utilisation_guard", "utilisation_middle", "utilisation_exit", "utilisation_guard_exit")

#: Of which of these the difference to the first treatment is drawn too.
DIFFERENCE_METRICS = ("ttfb_median", "ttlb_median")

#: A panel's heading has so many letters a line: no more than fit above half the width of a column in print.
PANEL_LETTERS = 28

#: More panels than this are not drawn: nobody reads them.
MOST_PANELS = 24


@dataclass(frozen=True)
class SweptAxis:
    """The horizontal axis: the values of the first swept key.

    Attributes
    ----------
    key
        The swept key, dotted.
    title
        What stands at the axis, with the unit.
    positions
        Where each value, as text, lies on the axis; None for values that are names.
    """

    key: str
    title: str
    positions: dict[str, float] | None

    @classmethod
    def of(cls, key: str, found: Sequence[Any]) -> SweptAxis:
        """The axis for values in the order of the sweep: numbers, quantities of one kind, or names."""
        texts = [value_text(value) for value in found]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in found):
            return cls(key, key, {text: float(value) for text, value in zip(texts, found, strict=True)})
        amounts = [amount(value) if isinstance(value, str) else None for value in found]
        kinds = {each[1] for each in amounts if each is not None}
        if None in amounts or len(kinds) != 1:
            return cls(key, key, None)
        plain = [each[0] for each in amounts if each is not None]
        # On a logarithmic axis the small values are to be read too.
        spread = min(plain) > 0 and max(plain) / min(plain) >= LOGARITHMIC_FROM
        factor, unit = unit_for(min(plain) if spread else max(plain), kinds.pop())
        return cls(key, f"{key} ({unit})", {text: value / factor for text, value in zip(texts, plain, strict=True)})

    @property
    def logarithmic(self) -> bool:
        """Whether the values are so far apart that only ratios can be seen."""
        if self.positions is None:
            return False
        low, high = min(self.positions.values()), max(self.positions.values())
        return low > 0 and high / low >= LOGARITHMIC_FROM

    def channel(self) -> alt.X:
        """The encoding."""
        if self.positions is None:
            return alt.X("x:N", title=self.title, sort=None, axis=alt.Axis(labelAngle=0))
        places = sorted(self.positions.values())
        if self.logarithmic:
            scale = alt.Scale(type="log", domain=[places[0] / 1.1, places[-1] * 1.1], nice=False)
        else:
            edge = 0.03 * (places[-1] - places[0] or 1.0)
            scale = alt.Scale(domain=[places[0] - edge, places[-1] + edge], nice=False, zero=False)
        ticks = {"values": places} if len(places) <= 8 else {"tickCount": 6}
        return alt.X("x:Q", title=self.title, scale=scale, axis=alt.Axis(format=".4~g", labelOverlap=True, **ticks))


def curves(
    experiment: Experiment, kind: str, metric: str, columns: tuple[str, str, str, str] = ("mean", "low", "high", "networks")
) -> pl.DataFrame:
    """The figure at every point: ``point``, the swept keys, ``treatment``, ``networks``, ``mean``, ``low``, ``high``."""
    mean, low, high, networks = columns
    return (
        experiment.summary.filter(pl.col("kind") == kind, pl.col("metric") == metric, pl.col(mean).is_not_null())
        .select("point", "treatment", networks=networks, mean=mean, low=low, high=high)
        .join(experiment.points, on="point", how="left", maintain_order="left")
        .select("point", *experiment.points.columns[1:], "treatment", "networks", "mean", "low", "high")
    )


def _panels(experiment: Experiment, axis: SweptAxis) -> list[str]:
    """The panel of each point: the values of all keys but the axis'; empty texts with a single key."""
    names = []
    for values_of in experiment.plan.points:
        others = [(key, value) for key, value in values_of.items() if key != axis.key]
        words = ", ".join(_in_words(key.rsplit(".", 1)[-1], value) for key, value in others)
        names.append("\n".join(textwrap.wrap(words, PANEL_LETTERS, break_on_hyphens=False)))
    return names


def _in_words(key: str, value: Any) -> str:
    """A key with its value; of a table the keys that it has."""
    if isinstance(value, dict):
        return ", ".join(_in_words(inner, its) for inner, its in value.items())
    return f"{key} = {value_text(value)}"


def swept_axis(experiment: Experiment) -> SweptAxis:
    """The axis of all charts of a sweep: its first key."""
    key = next(iter(experiment.plan.points[0]))
    distinct = {value_text(values_of[key]): values_of[key] for values_of in experiment.plan.points}
    return SweptAxis.of(key, list(distinct.values()))


def _draw(
    experiment: Experiment,
    name: str,
    title: str,
    data: pl.DataFrame,
    what: str,
    *,
    difference: bool = False,
    more: Sequence[str] = (),
) -> Chart:
    """Draw `curves`, with ``more`` notes; a sentence instead where there is nothing to draw."""
    axis = swept_axis(experiment)
    panels = _panels(experiment, axis)
    order = list(dict.fromkeys(panels))
    if data.height == 0:
        return Chart(name, title, data, None, ("Nothing to draw: no point has a value.",))
    if not difference and data["mean"].max() == 0:
        return Chart(name, title, data, None, ("Nothing to draw: it is zero at every point.",))
    notes = [*_gaps(experiment, data, difference), *more]
    if len(order) > MOST_PANELS:
        notes.append(f"Drawn for the first {MOST_PANELS} of {len(order)} combinations of the further keys; the table has all.")
    texts = [value_text(values_of[axis.key]) for values_of in experiment.plan.points]
    places = texts if axis.positions is None else [axis.positions[text] for text in texts]
    drawn_at = experiment.points.select("point", x=pl.Series(places), panel=pl.Series(panels))
    # A point without a value is a gap in the line, not a stretch of it.
    whole = drawn_at.join(data.select("treatment").unique(maintain_order=True), how="cross")
    found = data.select("point", "treatment", "mean", "low", "high")
    rows = (
        whole.join(found, on=["point", "treatment"], how="left", maintain_order="left")
        .select("point", "treatment", "mean", "low", "high", "x", "panel")
        .filter(pl.col("panel").is_in(order[:MOST_PANELS]))
        .drop("point")
    )
    y = _vertical(rows, what, difference)
    # Intervals that are too wide run out of the picture, whose marks are clipped; but there is no logarithm of zero.
    shown = rows.with_columns(pl.col("low").clip(lower_bound=y.domain[0])) if y.logarithmic else rows
    layers = _layers(experiment, axis, y, banded=rows["low"].null_count() < rows.height, difference=difference)
    width, height = (theme.WIDTH, theme.HEIGHT) if len(order) == 1 else (theme.WIDTH // 2 - 45, theme.HEIGHT // 2 + 30)
    plot = alt.LayerChart(layer=layers, data=alt.NamedData("curves"), width=width, height=height)
    chart: alt.LayerChart | alt.FacetChart = plot
    if len(order) > 1:
        header = alt.Header(labelExpr="split(datum.label, '\\n')")
        facet = alt.Facet("panel:N", title=None, sort=order[:MOST_PANELS], header=header)
        chart = plot.facet(facet=facet, columns=2, spacing=22)
    about = _about(experiment, interval=rows["low"].null_count() < rows.height)
    extent = describe.over_points(experiment, describe.extent, " at each point")
    lines = [describe.over_points(experiment, describe.network), f"{extent}; onionlab {experiment.plan.version}", about.line]
    sentences = [
        describe.over_points(experiment, describe.network_sentence),
        describe.over_points(experiment, describe.extent_sentence, " at each point"),
        describe.made_with(experiment),
    ]
    subtitle = [part for line in lines for part in textwrap.wrap(line, 100)]
    specification: dict[str, Any] = chart.properties(title=alt.TitleParams(title, subtitle=subtitle)).to_dict()
    specification["config"] = theme.config()
    specification.setdefault("datasets", {})["curves"] = values(shown)
    return Chart(name, title, data, specification, tuple(notes), captioned((title, *sentences), about))


def _about(experiment: Experiment, *, interval: bool) -> Words:
    """What points and bands are; ``interval``: whether there is any."""
    of = repeat(experiment.by_seed)
    if interval:
        return Words(
            f"mean over {of}s; shaded or barred: its 95 % interval at each point",
            (f"A point is a mean over {of}s; shaded or barred is its 95 % interval",),
        )
    if experiment.repeats < 2:
        return Words(f"one {of} at each point, hence no interval", (f"A point is of one {of}, and has no interval",))
    return Words(f"mean over {of}s; without an interval", (f"A point is a mean over {of}s, and has no interval",))


def _gaps(experiment: Experiment, data: pl.DataFrame, difference: bool) -> list[str]:
    """A note for each treatment without a value at some points, or there in some networks."""
    treatments = experiment.treatments[1:] if difference else experiment.treatments
    points = len(experiment.plan.points)
    notes = []
    for treatment in treatments:
        there = data.filter(pl.col("treatment") == treatment)["point"].n_unique()
        if there < points:
            notes.append(f"“{treatment}” has a value at {there} of {points} points.")
        own = data.filter(pl.col("treatment") == treatment).select("point", "networks").iter_rows()
        if fewer := sum(networks < experiment.at(point).repeats for point, networks in own):
            who = f"“{experiment.treatments[0]}” and “{treatment}” both have" if difference else f"“{treatment}” has"
            notes.append(f"{who} a value in only some of the {repeat(experiment.by_seed)}s at {fewer} of {points} points.")
    return notes


@dataclass(frozen=True)
class _Vertical:
    """The vertical axis."""

    title: str
    domain: tuple[float, float]
    logarithmic: bool

    def channel(self, column: str) -> alt.Y:
        """The encoding of a column on this axis."""
        scale = alt.Scale(type="log" if self.logarithmic else "linear", domain=list(self.domain), nice=not self.logarithmic)
        look = alt.Axis(format="~g", labelOverlap=True, tickCount=6) if self.logarithmic else alt.Axis(tickCount=6)
        return alt.Y(f"{column}:Q", title=self.title, scale=scale, axis=look)


def _vertical(rows: pl.DataFrame, what: str, difference: bool) -> _Vertical:
    """An axis that covers the means; intervals that are much wider run out of the picture."""
    means = rows["mean"].drop_nulls().to_numpy()
    highest, lowest = float(means.max()), float(means.min())
    tops = rows["high"].drop_nulls().to_numpy()
    bottoms = rows["low"].drop_nulls().to_numpy()
    top, bottom = float(tops.max()) if tops.size else highest, float(bottoms.min()) if bottoms.size else lowest
    if difference:
        reach = 5 * max(abs(highest), abs(lowest)) or 1.0
        edge = 0.04 * (min(max(top, 0.0), reach) - max(min(bottom, 0.0), -reach))
        return _Vertical(what, (max(min(bottom, 0.0), -reach) - edge, min(max(top, 0.0), reach) + edge), False)
    if lowest > 0 and highest / lowest >= LOGARITHMIC_FROM:
        return _Vertical(f"{what}, logarithmic", (lowest / 1.3, highest * 1.3), True)
    end = 1.04 * max(highest, min(top, 1.5 * highest))
    # Shares end at 100 %, unless a figure is beyond.
    return _Vertical(what, (0.0, min(end, 100.0) if what.endswith("(%)") and highest <= 100 else end), False)


def _layers(experiment: Experiment, axis: SweptAxis, y: _Vertical, *, banded: bool, difference: bool) -> list[alt.Chart]:
    """Intervals below lines below points."""
    drawn = experiment.treatments[1:] if difference else experiment.treatments
    looks = style(experiment.treatments, dashed=axis.positions is not None, drawn=drawn)
    x = axis.channel()
    base = alt.Chart()
    layers: list[alt.Chart] = []
    if difference:
        layers.append(base.mark_rule().encode(y=alt.YDatum(0)))
    if axis.positions is None:
        beside = alt.XOffset("treatment:N", sort=experiment.treatments)
        if banded:
            layers.append(
                base.transform_filter("isValid(datum.low)")
                .mark_rule(strokeDash=[], strokeWidth=2, clip=True)
                .encode(x=x, y=y.channel("low"), y2="high:Q", xOffset=beside, color=looks["color"])
            )
        layers.append(
            base.mark_point(filled=True, size=60).encode(x=x, y=y.channel("mean"), xOffset=beside, color=looks["color"])
        )
        return layers
    if banded:
        layers.append(base.mark_area(clip=True).encode(x=x, y=y.channel("low"), y2="high:Q", color=looks["color"]))
    layers.append(base.mark_line(clip=True).encode(x=x, y=y.channel("mean"), order="x:Q", **looks))
    layers.append(base.mark_point(filled=True, size=45, opacity=1).encode(x=x, y=y.channel("mean"), color=looks["color"]))
    return layers


def metric_chart(experiment: Experiment, kind: str, metric: str) -> Chart:
    """One figure of one kind of client, or of the whole network, against the swept key."""
    about = METRICS[metric]
    title = f"{about.label[0].upper()}{about.label[1:]}, {kind}"
    name = f"{metric.replace('_', '-')}-{slug(kind)}"
    data = curves(experiment, kind, metric)
    return _draw(
        experiment, name, title, data, f"{about.label} ({about.unit})", more=_left_out_or_skewed(experiment, kind, metric)
    )


def _left_out_or_skewed(experiment: Experiment, kind: str, metric: str) -> list[str]:
    """Notes on goodput that leaves much out, and on intervals that are log-normal at some points, as in the summary."""
    notes = []
    points = len(experiment.plan.points)
    for treatment in experiment.treatments:
        goodput = experiment.at if metric == "goodput" else None
        marked = goodput and sum(bool(describe.goodput_mark(goodput(point), treatment, kind)) for point in range(points))
        if marked:
            notes.append(
                f"At {marked} of {points} points much of what “{treatment}” delivered in the measured time came by downloads "
                "that began before it, and this goodput leaves it out."
            )
        skewed = experiment.summary.filter(
            pl.col("kind") == kind,
            pl.col("metric") == metric,
            pl.col("treatment") == treatment,
            pl.col("method") == "log-normal",
        )
        if skewed.height:
            notes.append(f"The interval of “{treatment}” is a log-normal one at {skewed.height} of {points} points.")
    return notes


def difference_chart(experiment: Experiment, kind: str, metric: str) -> Chart:
    """Paired difference of each treatment to the first, against the swept key."""
    about = METRICS[metric]
    base = experiment.treatments[0]
    title = f"{about.label[0].upper()}{about.label[1:]}, {kind}: difference to {base}"
    name = f"{metric.replace('_', '-')}-{slug(kind)}-difference"
    data = curves(experiment, kind, metric, ("difference", "difference_low", "difference_high", "difference_networks"))
    return _draw(experiment, name, title, data, f"paired difference ({about.unit})", difference=True)


def sweep_charts(experiment: Experiment) -> list[Chart]:
    """Every chart of a sweep's report, in its order."""
    charts = []
    for kind in experiment.kinds:
        for metric in CLIENT_METRICS:
            charts.append(metric_chart(experiment, kind, metric))
            if metric in DIFFERENCE_METRICS and len(experiment.treatments) > 1:
                charts.append(difference_chart(experiment, kind, metric))
    there = experiment.summary.filter(pl.col("kind") == WHOLE)["metric"].unique().to_list()
    return with_names([*charts, *(metric_chart(experiment, WHOLE, metric) for metric in NETWORK_METRICS if metric in there)])
