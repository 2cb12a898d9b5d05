"""Building each chart of an experiment from its curves.

A chart that has nothing to show is not left out: it becomes a sentence that says why.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
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
    """

    name: str
    title: str
    data: pl.DataFrame
    specification: dict[str, Any] | None
    notes: tuple[str, ...] = ()

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


def finish(
    chart: alt.LayerChart | alt.ConcatChart, title: str, experiment: Experiment, about: str, data: dict[str, pl.DataFrame]
) -> dict[str, Any]:
    """Title, subtitle, looks and data; the specification as plain data."""
    treatments = experiment.treatments
    heading = title if len(treatments) > 1 else f"{title}: {treatments[0]}"
    lines = [part for line in (*describe.chart_lines(experiment), about) for part in textwrap.wrap(line, 100)]
    done = chart.properties(title=alt.TitleParams(heading, subtitle=lines))
    specification: dict[str, Any] = done.to_dict()
    specification["config"] = theme.config()
    # Altair has put the data of the rules there already.
    specification.setdefault("datasets", {}).update({name: values(curves) for name, curves in data.items()})
    return specification


def banded(curves: pl.DataFrame) -> bool:
    """Whether any line has a band."""
    return curves["low"].null_count() < curves.height


def band_words(experiment: Experiment, curves: pl.DataFrame) -> str:
    """What the shaded area is, for a subtitle."""
    if not banded(curves):
        return "one network, hence no band"
    over = "seeds" if experiment.by_seed else "networks"
    methods = set(curves["method"].drop_nulls().unique())
    kind = {"student": "t interval", "log-normal": "log-normal interval"}
    words = " or ".join(kind[method] for method in kind if method in methods)
    return f"line: mean over {over}; band: 95 % {words} at each point"


def silent(curves: pl.DataFrame, treatments: Sequence[str], reason: str) -> list[str]:
    """A note for each treatment without a line."""
    drawn = set(curves["treatment"].unique())
    return [f"No line for “{treatment}”: {reason}" for treatment in treatments if treatment not in drawn]


def not_drawn(experiment: Experiment, kind: str, column: str, curves: pl.DataFrame) -> list[str]:
    """Notes on what a distribution of times leaves out: treatments without a line, and transfers that a line does not count."""
    treatments = experiment.treatments
    notes = silent(curves, treatments, "no transfer got a first byte." if column == "ttfb" else "no transfer completed.")
    if column == "ttlb":
        gaps = {treatment: describe.left_out(experiment, kind, treatment) for treatment in treatments}
        notes += [f"Not in the curve of “{treatment}”: {missing}." for treatment, missing in gaps.items() if missing]
    return notes


def _largest(curves: pl.DataFrame, column: str = "mean") -> float:
    value = curves[column].max()
    return float(value) if isinstance(value, int | float) else 0.0


def distribution(experiment: Experiment, kind: str, column: str) -> Chart:
    """Distribution function of the time to first (``ttfb``) or last byte (``ttlb``) of one kind of client."""
    which = {"ttfb": "first", "ttlb": "last"}[column]
    title = f"Time to {which} byte, {kind}"
    name = f"time-to-{which}-byte-{slug(kind)}"
    treatments = experiment.treatments
    cut = experiment.over_repeats(experiment.measured).filter(pl.col("kind") == kind)
    curves = cdf_bands(cut, column, treatments)
    if cut.height == 0:
        start = format_duration(experiment.measure_from)
        reason = f"Nothing to draw: no transfer of “{kind}” started after {start}, when the measurement begins."
        return Chart(name, title, curves, None, (reason,))
    notes = not_drawn(experiment, kind, column, curves)
    if curves.height == 0:
        return Chart(name, title, curves, None, tuple(notes))
    times, shown = time_axis(curves, f"time to {which} byte")
    shares = Axis("quantile", "share of transfers", {"domain": [0, 1]}, {"format": "%"})
    chart = band_chart("curves", treatments, times, shares, spread="x", banded=banded(shown))
    specification = finish(chart, title, experiment, band_words(experiment, curves), {"curves": shown})
    return Chart(name, title, curves, specification, tuple(notes))


def _over_time(
    data: str, experiment: Experiment, curves: pl.DataFrame, what: str, ceiling: float | None = None, **more: Any
) -> alt.LayerChart:
    """Draw a time series; the axis ends at ``ceiling`` or a little above the lines, and a wider band runs out of the picture."""
    top = ceiling
    if top is None:
        highest = _largest(curves)
        top = 1.04 * max(highest, min(_largest(curves, "high"), 1.5 * highest))
    time = Axis(
        "time",
        "simulated time (s)",
        {"domain": [0, experiment.duration], "nice": False},
        {"labelOverlap": True, "tickCount": 8},
    )
    return band_chart(
        data,
        experiment.treatments,
        time,
        Axis("mean", what, {"domain": [0, top], "nice": ceiling is None}),
        spread="y",
        banded=banded(curves),
        cut_before=experiment.measure_from if experiment.measure_from > 0 else None,
        **more,
    )


def _rule_words(experiment: Experiment) -> str:
    return "; shaded: warm-up, not measured" if experiment.measure_from > 0 else ""


def throughput(experiment: Experiment) -> Chart:
    """Payload delivered to clients over time."""
    title, name = "Goodput of the whole network", "network-throughput"
    treatments = experiment.treatments
    step = pl.col("time_ns") - pl.col("time_ns").shift(1, fill_value=0).over(*RUN)
    curves, width = series_bands(experiment.over_repeats(experiment.network), pl.col("goodput_bytes") * 8e3 / step, treatments)
    if _largest(curves) == 0:
        return Chart(name, title, curves, None, ("Nothing to draw: no byte reached a client in any run.",))
    about = f"mean over {format_duration(width)}; {band_words(experiment, curves)}{_rule_words(experiment)}"
    chart = _over_time("curves", experiment, curves, "goodput (Mbit/s)")
    notes = silent(curves, treatments, "no run of it is finished.")
    return Chart(name, title, curves, finish(chart, title, experiment, about, {"curves": curves}), tuple(notes))


def failures(experiment: Experiment) -> Chart:
    """Downloads that failed, cumulated over time."""
    title, name = "Failed downloads, cumulated", "failed-downloads"
    treatments = experiment.treatments
    curves, _ = series_bands(
        experiment.over_repeats(experiment.network), pl.col("transfers_failed").cast(pl.Float64), treatments, cumulated=True
    )
    if _largest(curves) == 0:
        return Chart(name, title, curves, None, ("Nothing to draw: no download failed in any run.",))
    about = f"{band_words(experiment, curves)}{_rule_words(experiment)}"
    chart = _over_time("curves", experiment, curves, "failed downloads per run")
    notes = silent(curves, treatments, "no run of it is finished.")
    return Chart(name, title, curves, finish(chart, title, experiment, about, {"curves": curves}), tuple(notes))


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
            notes.append(f"No panel for {relays}: no run has such relays.")
    if not panels:
        return Chart(name, title, pl.DataFrame(), None, tuple(notes))
    data = pl.concat(curves.select(pl.lit(relays).alias("relays"), pl.all()) for relays, curves in panels.items())
    size = (theme.WIDTH // 2 - 45, theme.HEIGHT // 2 + 10)
    ceiling = max(100.0, 1.02 * _largest(data))
    parts = [_over_time(relays, experiment, curves, f"{relays}, % used", ceiling, size=size) for relays, curves in panels.items()]
    chart = alt.concat(*parts, columns=2, spacing=20)
    about = (
        f"bytes sent over capacity, mean over {format_duration(width)}; {band_words(experiment, data)}{_rule_words(experiment)}"
    )
    return Chart(name, title, data, finish(chart, title, experiment, about, panels), tuple(notes))


def all_charts(experiment: Experiment) -> list[Chart]:
    """Every chart of a report, in its order."""
    charts = []
    for kind in experiment.kinds:
        charts += [distribution(experiment, kind, "ttfb"), distribution(experiment, kind, "ttlb")]
    return with_names([*charts, throughput(experiment), failures(experiment), utilisation(experiment)])
