"""Building each chart of an experiment, or of a comparison, from its curves.

A chart that has nothing to show is not left out: it becomes a sentence that says why.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.charts.bands import Axis, band_chart, time_axis, values
from onionlab.quantity import format_duration
from onionlab.results import describe
from onionlab.stats import cdf_bands, series_bands
from onionlab.stats.compare import repeat
from onionlab.stats.metrics import RELAY_CLASSES, RUN

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment


@dataclass(frozen=True)
class Chart:
    """One chart, or the reason why there is none.

    Attributes
    ----------
    name
        Stem of its files.
    title
        What it shows.
    data
        The numbers behind it.
    specification
        Vega-Lite; None where there is nothing to draw.
    notes
        What a reader must know beside the picture: series that are missing, and what is left out.
    caption
        What the picture shows of what, in sentences: its subtitle for those who print it without one.
    """

    name: str
    title: str
    data: pl.DataFrame
    specification: dict[str, Any] | None
    notes: tuple[str, ...] = ()
    caption: str = ""

    def _repr_html_(self) -> str:
        """The drawing, for a notebook."""
        from onionlab.notebook import chart_html

        return chart_html(self)


def slug(text: str) -> str:
    """A name that any file system takes."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "chart"


def with_names(charts: Sequence[Chart]) -> list[Chart]:
    """The charts with a name of its own each: where groups differ only in what `slug` drops, the later ones get a number."""
    return [replace(chart, name=name) for chart, name in zip(charts, distinct([chart.name for chart in charts]), strict=True)]


def distinct(names: Sequence[str]) -> list[str]:
    """The names in their order, each once: the later ones of those that are equal get a number.

    >>> distinct(["kist", "kist", "kist-2"])
    ['kist', 'kist-3', 'kist-2']
    """
    originals = set(names)
    taken: set[str] = set()
    found = []
    for original in names:
        name = original
        if name in taken:
            numbered = (f"{original}-{number}" for number in count(2))
            name = next(other for other in numbered if other not in originals | taken)
        taken.add(name)
        found.append(name)
    return found


@dataclass(frozen=True)
class Subject:
    """What charts are about: the treatments of an experiment, or the variants of a comparison.

    Attributes
    ----------
    labels
        What they are called, drawn or not: all of them fix the colours.
    lines
        How each subtitle begins.
    sentences
        How each caption begins.
    repeats
        Over how many networks (or seeds) each of the labels has figures.
    by_seed
        Whether seeds, not networks, are what is repeated.
    duration
        Where the time ends, in simulated seconds.
    measure_from
        When the measurement begins; None where that differs.
    places
        Of the labels in the palette, where that is not their order.
    """

    labels: Sequence[str]
    lines: Sequence[str]
    sentences: Sequence[str]
    repeats: Mapping[str, int]
    by_seed: bool
    duration: float
    measure_from: float | None
    places: Sequence[int] | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> Subject:
        """An experiment, which every subtitle describes."""
        return cls(
            experiment.treatments,
            describe.chart_lines(experiment),
            describe.chart_sentences(experiment),
            dict.fromkeys(experiment.treatments, experiment.repeats),
            experiment.by_seed,
            experiment.duration,
            experiment.measure_from,
        )

    @property
    def cut_before(self) -> float | None:
        """Where the measurement begins, if something is cut off before."""
        return self.measure_from or None


@dataclass(frozen=True)
class Words:
    """The same, as it stands in the subtitle of a chart, and as the sentences of a caption."""

    line: str
    sentences: tuple[str, ...]

    def then(self, other: Words) -> Words:
        """These and further ones."""
        return Words(f"{self.line}; {other.line}", (*self.sentences, *other.sentences))


def captioned(of: Sequence[str], about: Words) -> str:
    """A caption: what the chart is of, and what is in it."""
    return " ".join(f"{sentence}." for sentence in (*of, *about.sentences))


def finish(
    chart: alt.LayerChart | alt.ConcatChart | alt.FacetChart,
    found: Chart,
    of: Subject,
    about: Words,
    data: dict[str, pl.DataFrame],
    heading: str | None = None,
) -> Chart:
    """The chart that was ``found`` with its drawing: title (or ``heading``), subtitle, looks and data; and with its caption."""
    title = found.title if heading is None else heading
    title = title if len(of.labels) > 1 else f"{title}: {of.labels[0]}"
    lines = [part for line in (*of.lines, about.line) for part in textwrap.wrap(line, 100)]
    done = chart.properties(title=alt.TitleParams(title, subtitle=lines))
    specification: dict[str, Any] = done.to_dict()
    specification["config"] = theme.config()
    # Altair has put the data of the rules there already.
    specification.setdefault("datasets", {}).update({name: values(curves) for name, curves in data.items()})
    return replace(found, specification=specification, caption=captioned((title, *of.sentences), about))


def banded(curves: pl.DataFrame) -> bool:
    """Whether any line has a band."""
    return curves["low"].null_count() < curves.height


def band_words(of: Subject, curves: pl.DataFrame) -> Words:
    """What lines and shaded areas are, and which lines are over fewer networks than there are."""
    over = repeat(of.by_seed)
    fewer = _fewer(of, curves)
    among = f" ({', '.join(f'“{label}”: {count}' for label, count in fewer.items())})" if fewer else ""
    more = tuple(f"The line of “{label}” is over {count} {over}s, as the others have no values" for label, count in fewer.items())
    if not banded(curves):
        return Words(f"one {over}, hence no band{among}", (f"Each line is of one {over} and has no band", *more))
    methods = set(curves["method"].drop_nulls().unique())
    kind = {"student": "t", "log-normal": "log-normal"}
    words = f"{' or '.join(kind[method] for method in kind if method in methods)} interval"
    return Words(
        f"line: mean over {over}s{among}; band: 95 % {words} at each point",
        (f"Lines are means over {over}s, and bands their 95 % {words}s at each point", *more),
    )


def _fewer(of: Subject, curves: pl.DataFrame) -> dict[str, str]:
    """Over how many networks a line is, in words, of the lines of which that is not all."""
    counts = curves.group_by("treatment").agg(least=pl.col("networks").min(), most=pl.col("networks").max())
    there = {label: (least, most) for label, least, most in counts.iter_rows()}
    found = {}
    for label in of.labels:
        least, most = there.get(label, (of.repeats[label],) * 2)
        if least < of.repeats[label]:
            found[label] = f"{least} of {of.repeats[label]}" if least == most else f"{least} to {most} of {of.repeats[label]}"
    return found


def silent(curves: pl.DataFrame, treatments: Sequence[str], reason: str) -> list[str]:
    """A note for each treatment without a line."""
    drawn = set(curves["treatment"].unique())
    return [f"There is no line for “{treatment}”: {reason}" for treatment in treatments if treatment not in drawn]


def not_drawn(experiment: Experiment, kind: str, column: str, curves: pl.DataFrame) -> list[str]:
    """Notes on what a distribution of times leaves out: treatments without a line, and transfers that a line does not count."""
    treatments = experiment.treatments
    notes = silent(curves, treatments, "no transfer got a first byte." if column == "ttfb" else "no transfer completed.")
    if column == "ttlb":
        notes += filter(None, (describe.left_out(experiment, kind, treatment) for treatment in treatments))
    return notes


def other_in_table(summary: pl.DataFrame, kind: str, column: str, curves: pl.DataFrame) -> list[str]:
    """A note where the summary has another kind of interval for a quantile than the band of its distribution (``column``)."""
    band = curves["method"].drop_nulls().unique().to_list()
    rows = summary.filter(pl.col("kind") == kind, pl.col("method").is_not_null(), ~pl.col("method").is_in(band))
    there = set(rows["metric"])
    named = [name for suffix, name in (("median", "median"), ("p90", "90th percentile")) if f"{column}_{suffix}" in there]
    if not band or not named:
        return []
    return [
        f"The summary’s interval of the {' and of the '.join(named)} is of another kind than the band: there each figure of each "
        "treatment has the kind that suits it, here all lines have the same."
    ]


def _largest(curves: pl.DataFrame, column: str = "mean") -> float:
    value = curves[column].max()
    return float(value) if isinstance(value, int | float) else 0.0


def distribution(experiment: Experiment, kind: str, column: str) -> Chart:
    """Distribution function of the time to first (``ttfb``) or last byte (``ttlb``) of one kind of client."""
    cut = experiment.over_repeats(experiment.measured).filter(pl.col("kind") == kind)
    curves = cdf_bands(cut, column, experiment.treatments)
    notes = not_drawn(experiment, kind, column, curves) + other_in_table(experiment.summary, kind, column, curves)
    if cut.height == 0:
        start = format_duration(experiment.measure_from)
        notes = [f"Nothing to draw: no transfer of “{kind}” started after {start}, when the measurement begins."]
    return distribution_chart(Subject.of(experiment), kind, column, curves, notes)


def distribution_chart(of: Subject, kind: str, column: str, curves: pl.DataFrame, notes: Sequence[str]) -> Chart:
    """Draw the distribution functions of `onionlab.stats.cdf_bands`; without any, the notes say why."""
    which = {"ttfb": "first", "ttlb": "last"}[column]
    title = f"Time to {which} byte, {kind}"
    name = f"time-to-{which}-byte-{slug(kind)}"
    found = Chart(name, title, curves, None, tuple(notes))
    if curves.height == 0:
        return found
    times, shown = time_axis(curves, f"time to {which} byte")
    shares = Axis("quantile", "share of transfers", {"domain": [0, 1]}, {"format": "%"})
    chart = band_chart("curves", of.labels, times, shares, spread="x", banded=banded(shown), places=of.places)
    return finish(chart, found, of, band_words(of, curves), {"curves": shown})


def _over_time(
    data: str, of: Subject, curves: pl.DataFrame, what: str, ceiling: float | None = None, **more: Any
) -> alt.LayerChart:
    """Draw a time series; the axis ends at ``ceiling`` or a little above the lines, and a wider band runs out of the picture."""
    top = ceiling
    if top is None:
        highest = _largest(curves)
        top = 1.04 * max(highest, min(_largest(curves, "high"), 1.5 * highest))
    time = Axis(
        "time",
        "simulated time (s)",
        {"domain": [0, of.duration], "nice": False},
        {"labelOverlap": True, "tickCount": 8},
    )
    return band_chart(
        data,
        of.labels,
        time,
        Axis("mean", what, {"domain": [0, top], "nice": ceiling is None}),
        spread="y",
        banded=banded(curves),
        places=of.places,
        cut_before=of.cut_before,
        **more,
    )


def _with_rule(of: Subject, about: Words) -> Words:
    """With what is shaded in a chart over time."""
    if of.cut_before is None:
        return about
    shaded = Words("shaded: warm-up, not measured", ("The shaded time at the beginning is warm-up, which is not measured",))
    return about.then(shaded)


def goodput_bands(network: pl.DataFrame, labels: Sequence[str]) -> tuple[pl.DataFrame, float]:
    """Payload delivered to clients over time, in Mbit/s, and the length of a bin, as `onionlab.stats.series_bands` has them."""
    step = pl.col("time_ns") - pl.col("time_ns").shift(1, fill_value=0).over(*RUN)
    return series_bands(network, pl.col("goodput_bytes") * 8e3 / step, labels)


def throughput(experiment: Experiment) -> Chart:
    """Payload delivered to clients over time."""
    curves, width = goodput_bands(experiment.over_repeats(experiment.network), experiment.treatments)
    notes = silent(curves, experiment.treatments, "no run of it is finished.")
    return throughput_chart(Subject.of(experiment), curves, [width], notes)


def throughput_chart(of: Subject, curves: pl.DataFrame, widths: Sequence[float], notes: Sequence[str]) -> Chart:
    """Draw `goodput_bands`, whose bins are of these ``widths``."""
    title, name = "Goodput of the whole network", "network-throughput"
    if _largest(curves) == 0:
        return Chart(name, title, curves, None, ("Nothing to draw: no byte reached a client in any run.",))
    bins = " or ".join(format_duration(width) for width in sorted(set(widths)))
    about = Words(f"mean over {bins}", (f"A point is the mean over {bins}",)).then(band_words(of, curves))
    chart = _over_time("curves", of, curves, "goodput (Mbit/s)")
    return finish(chart, Chart(name, title, curves, None, tuple(notes)), of, _with_rule(of, about), {"curves": curves})


def failures(experiment: Experiment) -> Chart:
    """Downloads that failed, cumulated over time."""
    title, name = "Failed downloads, cumulated", "failed-downloads"
    treatments = experiment.treatments
    curves, _ = series_bands(
        experiment.over_repeats(experiment.network), pl.col("transfers_failed").cast(pl.Float64), treatments, cumulated=True
    )
    if _largest(curves) == 0:
        return Chart(name, title, curves, None, ("Nothing to draw: no download failed in any run.",))
    of = Subject.of(experiment)
    chart = _over_time("curves", of, curves, "failed downloads per run")
    notes = silent(curves, treatments, "no run of it is finished.")
    found = Chart(name, title, curves, None, tuple(notes))
    return finish(chart, found, of, _with_rule(of, band_words(of, curves)), {"curves": curves})


def utilisation(experiment: Experiment) -> Chart:
    """How much of the relays' capacity is used over time, by their flags."""
    title, name = "Utilisation of relays, by flags", "utilisation"
    panels: dict[str, pl.DataFrame] = {}
    notes = []
    width = 0.0
    for kind in RELAY_CLASSES:
        share = 100 * pl.col(f"utilisation_{kind}").fill_nan(None)
        curves, width = series_bands(experiment.over_repeats(experiment.network), share, experiment.treatments, points=60)
        relays = f"{kind.replace('_', '-')}s"
        if curves.height:
            panels[relays] = curves
        else:
            notes.append(f"There is no panel for {relays}: no run has such relays.")
    if not panels:
        return Chart(name, title, pl.DataFrame(), None, tuple(notes))
    data = pl.concat(curves.select(pl.lit(relays).alias("relays"), pl.all()) for relays, curves in panels.items())
    size = (theme.WIDTH // 2 - 45, theme.HEIGHT // 2 + 10)
    ceiling = max(100.0, 1.02 * _largest(data))
    of = Subject.of(experiment)
    parts = [_over_time(relays, of, curves, f"{relays}, % used", ceiling, size=size) for relays, curves in panels.items()]
    chart = alt.concat(*parts, columns=2, spacing=20)
    over = format_duration(width)
    about = Words(
        f"bytes sent over capacity, mean over {over}",
        (f"Utilisation is what was sent over what could have been; a point is the mean over {over}",),
    ).then(band_words(of, data))
    return finish(chart, Chart(name, title, data, None, tuple(notes)), of, _with_rule(of, about), panels)


def all_charts(experiment: Experiment) -> list[Chart]:
    """Every chart of a report, in its order."""
    charts = []
    for kind in experiment.kinds:
        charts += [distribution(experiment, kind, "ttfb"), distribution(experiment, kind, "ttlb")]
    return with_names([*charts, throughput(experiment), failures(experiment), utilisation(experiment)])
