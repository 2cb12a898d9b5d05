"""Charts of `onionlab.reproductions.predictor` in the forms of the paper's figures 3 to 13."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from onionlab.charts import theme
from onionlab.charts.bands import Axis, band_chart
from onionlab.reproductions.panels import Panel, extent, grid, whole
from onionlab.reproductions.predictor import single
from onionlab.reproductions.predictor.asked import PCTCP, PREDICTOR, VANILLA, Asked, Study
from onionlab.reproductions.predictor.measured import Measured
from onionlab.stats import t_interval

#: The paper's three, in the order of their colours.
THREE = (VANILLA, PCTCP, PREDICTOR)
FAIR = "max-min fair"
CIRCUITS = ("circuit 1", "circuit 2", "circuit 3")

SIZE = (250, 190)

WORDS = {
    "latency": "mean latency (ms)",
    "throughput": "payload of all circuits (KiB/s)",
    "served": "fairness index",
}


def drawings(asked: Asked, measured: Measured) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and specifications of all charts."""
    treatments = [treatment for treatment in THREE if treatment in asked.treatments]
    studies = {study.name: study for study in asked.studies}
    yield "predictor-single", _single(asked)
    yield "predictor-toy-rates", _toy_rates(measured)
    yield "predictor-toy-latency", _toy_latency(measured)
    yield "predictor-random", _random(studies["random"], measured, treatments)
    yield "predictor-rates", _rates(studies["random"], measured, treatments)
    yield "predictor-throttled", _along(studies["throttled"], measured, treatments, "throttle", ["latency", "throughput"])
    yield "predictor-fuzzy", _along(studies["fuzzy"], measured, treatments, "fuzziness", ["latency", "throughput", "served"])
    yield "predictor-mix", _mix(studies["mix"], measured)
    if "queue limit" in studies:
        yield "predictor-queue-limit", _trade(studies["queue limit"], measured)


def _single(asked: Asked) -> dict[str, Any]:
    """Steps of every trajectory, a row for each form."""
    found = single.trajectories(asked.single)
    rows, data = [], {}
    for form in single.FORMS:
        panels = []
        for what in ("taken in", "sent", "could send", "queue"):
            own = found.filter(form=form, what=what).rename({"circuit": "treatment"})
            if own.is_empty():
                continue
            name = f"{form}-{what}"
            data[name] = own
            y = Axis("value", "packets" if what == "queue" else "packets/s", _from_zero(own["value"]))
            looks = _colours(CIRCUITS)
            chart = (
                alt.Chart(alt.NamedData(name), width=190, height=150)
                .mark_line(interpolate="linear" if what == "queue" else "step-after", clip=True)
                .encode(x=Axis("time", "time (s)", look={"tickCount": 5}).channel("x"), y=y.channel("y"), **looks)
            )
            panels.append(chart.properties(title=alt.TitleParams(what, fontSize=12, offset=4)))
        rows.append(alt.hconcat(*panels, spacing=22, title=alt.TitleParams(f"{form} form", fontSize=13, offset=6)))
    about = [
        f"a plan at one instant; capacity {asked.single.capacity:g} packets/s, queue limit {asked.single.queue_limit:g}, "
        f"queues of {_listed(asked.single.queue)} packets;",
        f"announced: {_listed(asked.single.source_rate)} packets/s, queues of {_listed(asked.single.source_queue)}; "
        f"successors take {_listed(asked.single.limit)} packets/s",
    ]
    return whole(rows, "A single controller (the paper's figure 3)", about, data)


def _toy_rates(measured: Measured) -> dict[str, Any]:
    panels, data = [], {}
    series = measured.toys["toy 1"].series
    highest = _from_zero(series["rate"])
    for treatment in measured.toys["toy 1"].treatments:
        own = series.filter(treatment=treatment).with_columns(
            treatment=pl.col("circuit").str.replace("circuit", "circuit "), mean=pl.col("rate")
        )
        data[treatment] = own
        x = Axis("time", "simulated time (s)", look={"tickCount": 6})
        chart = band_chart(treatment, CIRCUITS, x, Axis("mean", "KiB/s", highest), spread="y", banded=False, size=(340, 170))
        panels.append(chart.properties(title=alt.TitleParams(treatment, fontSize=12, offset=4)))
    about = ["payload that arrives at the entries, mean of 100 ms; one seed"]
    rows = [alt.hconcat(*panels[begin : begin + 2], spacing=22) for begin in range(0, len(panels), 2)]
    return whole(rows, "Toy network, scenario 1 (the paper's figure 4)", about, data)


def _toy_latency(measured: Measured) -> dict[str, Any]:
    toy = measured.toys["toy 1"]
    data = {"backlog": toy.series.group_by("treatment", "time").agg(mean=pl.col("backlog").sum()).sort("treatment", "time")}
    data["latency"] = pl.concat(_weighted(toy.latencies.filter(treatment=treatment), treatment) for treatment in toy.treatments)
    x, y = Axis("time", "simulated time (s)", look={"tickCount": 6}), Axis("mean", "KiB", _from_zero(data["backlog"]["mean"]))
    backlog = band_chart("backlog", toy.treatments, x, y, spread="y", banded=False, dashed=True, size=(340, 210))
    x = Axis("mean", "latency (ms)", _from_zero(data["latency"]["mean"]))
    y = Axis("quantile", "share of the payload", {"domain": [0, 1]}, {"format": "%", "tickCount": 5})
    latency = band_chart("latency", toy.treatments, x, y, spread="x", banded=False, size=(340, 210))
    titles = ("between exits and entries (figure 5)", "from exit to entry, from 4 s on (figure 6)")
    panels = [
        chart.properties(title=alt.TitleParams(title, fontSize=12, offset=4))
        for chart, title in zip((backlog, latency), titles, strict=True)
    ]
    return whole([alt.hconcat(*panels, spacing=26)], "Toy network, scenario 1: backlog and latency", ["one seed"], data)


def _weighted(rows: pl.DataFrame, treatment: str) -> pl.DataFrame:
    """The distribution of latencies, each sample weighted with its bytes."""
    ordered = rows.sort("latency")
    share = (ordered["bytes"].cum_sum() - ordered["bytes"] / 2) / ordered["bytes"].sum()
    quantiles = np.linspace(0.005, 0.995, 199)
    values = np.interp(quantiles, share.to_numpy(), ordered["latency"].to_numpy()) if rows.height else np.full(199, np.nan)
    return pl.DataFrame({"treatment": [treatment] * 199, "quantile": quantiles, "mean": values}).drop_nans()


def _random(study: Study, measured: Measured, treatments: Sequence[str]) -> dict[str, Any]:
    points = [(float(circuits), place) for circuits, _, place in study.places()]
    ends = [min(x for x, _ in points), max(x for x, _ in points)]
    x = Axis(
        "x", "circuits (logarithmic)", {"type": "log", "domain": ends}, {"values": _apart(x for x, _ in points), "grid": False}
    )
    panels, data = _metrics("random", measured, points, treatments, x, ["latency", "throughput", "served"])
    about = [_networks(study), _BANDS]
    return whole(
        [alt.hconcat(*panels, spacing=22)], "Random networks by number of circuits (the paper's figures 7 and 9b)", about, data
    )


def _apart(values: Iterable[float]) -> list[float]:
    """Of values on a logarithmic axis those whose labels do not touch: the greatest, and what is at most a third of the next."""
    kept: list[float] = []
    for value in sorted(values, reverse=True):
        if not kept or 3 * value <= kept[-1]:
            kept.append(value)
    return kept[::-1]


_BANDS = "mean over networks; band: 95 % t interval"


def _along(study: Study, measured: Measured, treatments: Sequence[str], key: str, metrics: Sequence[str]) -> dict[str, Any]:
    """A row for each number of circuits, along one of the conditions."""
    rows: list[Any] = []
    data: dict[str, pl.DataFrame] = {}
    for circuits in study.circuits:
        points = [(float(getattr(conditions, key)), conditions.place(circuits)) for conditions in study.conditions]
        words = "share of the bandwidth that may not be used" if key == "throttle" else "fuzziness of latencies"
        x = Axis("x", words, {"domain": [points[0][0], points[-1][0]], "nice": False}, {"tickCount": 5})
        panels, own = _metrics(f"{study.name}-{circuits}", measured, points, treatments, x, metrics)
        data |= own
        rows.append(alt.hconcat(*panels, spacing=22, title=alt.TitleParams(f"{circuits} circuits", fontSize=13, offset=6)))
    throttled, uncertain = "Throttled relays (the paper's figure 8)", "Uncertain latencies (the paper's figures 10 to 12)"
    return whole(rows, throttled if key == "throttle" else uncertain, [_networks(study), _BANDS], data)


def _metrics(
    stem: str,
    measured: Measured,
    points: Sequence[tuple[float, str]],
    treatments: Sequence[str],
    x: Axis,
    metrics: Sequence[str],
) -> tuple[list[alt.LayerChart], dict[str, pl.DataFrame]]:
    """A panel for each metric, with a line for each treatment."""
    panels, data = [], {}
    for metric in metrics:
        name = f"{stem}-{metric}"
        data[name] = over(measured.figures, metric, points, treatments)
        top = data[name].select(pl.max_horizontal("mean", "high"))["mean"]
        y = Axis("mean", WORDS[metric], {"domain": [0, 1]} if metric == "served" else _from_zero(top))
        banded = data[name]["low"].null_count() < data[name].height
        chart = band_chart(name, treatments, x, y, spread="y", banded=banded, size=SIZE)
        dots = (
            alt.Chart(alt.NamedData(name))
            .mark_circle(size=30, opacity=1)
            .encode(x=x.channel("x"), y=y.channel("y"), color=_colours(treatments, legend=False)["color"])
        )
        layers = [*chart.layer, dots]
        panels.append(alt.LayerChart(data=alt.NamedData(name), layer=layers, width=SIZE[0], height=SIZE[1]))
    return panels, data


def over(figures: pl.DataFrame, metric: str, points: Sequence[tuple[float, str]], treatments: Sequence[str]) -> pl.DataFrame:
    """``treatment, x, mean, low, high``: a metric along an axis, of which each value has its place."""
    rows: list[tuple[str, float, float, float | None, float | None]] = []
    for treatment in treatments:
        for x, place in points:
            values = figures.filter(place=place, treatment=treatment, metric=metric)["value"].drop_nulls().to_list()
            found = t_interval(values)
            if found is not None:
                rows.append((treatment, x, found.mean, found.low, found.high))
    schema = {"treatment": pl.String, "x": pl.Float64, "mean": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _rates(study: Study, measured: Measured, treatments: Sequence[str]) -> dict[str, Any]:
    """Rates in the first network of a crowded size beside the fair ones."""
    circuits = max((size for size in study.circuits if size <= 750), default=max(study.circuits))
    place = study.conditions[0].place(circuits)
    rates = measured.rates.filter(pl.col("network") == 0, place=place, what="rate").with_columns(
        pl.col("treatment").replace({"fair": FAIR})
    )
    panel = Panel(place, "rate", "", "payload of a circuit (KiB/s)")
    title = f"Rates of {circuits} circuits in one network (the paper's figure 9a)"
    return grid(rates, [*treatments, FAIR], [[panel]], title, ["one network; without the greatest hundredth"], (460, 260))


def _mix(study: Study, measured: Measured) -> dict[str, Any]:
    circuits, conditions, place = next(study.places())
    web = round(conditions.web * circuits)
    rows = [
        [
            Panel(place, "web", f"{web} web circuits", "mean latency of a circuit (ms)"),
            Panel(place, "bulk", f"{circuits - web} bulk circuits", "mean latency of a circuit (ms)"),
        ]
    ]
    about = [_networks(study), "mean quantile function over networks; band: 95 % t interval"]
    return grid(measured.rates, study.treatments, rows, "Web and bulk together (the paper's figure 13)", about, (340, 210))


def _trade(study: Study, measured: Measured) -> dict[str, Any]:
    """Latency against throughput, a point for each limit."""
    rows = []
    figures = measured.of(study).figures
    for circuits, _, place in study.places():
        for treatment in study.treatments:
            one = {}
            for metric in ("latency", "throughput"):
                values = figures.filter(place=place, treatment=treatment, metric=metric)["value"].drop_nulls().to_list()
                found = t_interval(values)
                if found is not None:
                    one[metric] = found.mean
            if len(one) == 2:
                limit = treatment.rpartition(" ")[2] if treatment != PREDICTOR else "100"
                rows.append((f"{circuits} circuits", one["latency"], one["throughput"], limit, float(limit)))
    schema = {"treatment": pl.String, "latency": pl.Float64, "throughput": pl.Float64, "limit": pl.String, "order": pl.Float64}
    data = pl.DataFrame(rows, schema=schema, orient="row")
    names = [f"{circuits} circuits" for circuits in study.circuits]
    x, y = (
        Axis("latency", WORDS["latency"], extent(data.rename({"latency": "mean"}))),
        Axis("throughput", WORDS["throughput"], _from_zero(data["throughput"])),
    )
    base = alt.Chart(alt.NamedData("trade"), width=460, height=280)
    looks = _colours(names)
    line = base.mark_line().encode(x=x.channel("x"), y=y.channel("y"), order="order:Q", **looks)
    dots = base.mark_circle(size=50, opacity=1).encode(x=x.channel("x"), y=y.channel("y"), color=looks["color"])
    text = base.mark_text(dx=7, dy=11, align="left", fontSize=11, color=theme.INK).encode(
        x=x.channel("x"), y=y.channel("y"), text="limit:N"
    )
    about = ["numbers: cells that a circuit's queue at a relay is to hold at most", f"mean over {study.networks} networks"]
    chart = alt.LayerChart(layer=[line, dots, text])
    return whole([chart], "The queue limit between latency and throughput", about, {"trade": data})


def _colours(names: Sequence[str], *, legend: bool = True) -> Mapping[str, alt.Color]:
    paint = alt.Scale(domain=list(names), range=list(theme.colours(names).values()))
    shown = alt.Legend(symbolType="stroke", symbolFillColor="transparent", symbolOpacity=1) if legend else None
    return {"color": alt.Color("treatment:N", scale=paint, legend=shown, sort=list(names))}


def _from_zero(values: pl.Series) -> dict[str, Any]:
    most = values.drop_nulls().max()
    return {"domain": [0, 1.04 * float(most)], "nice": False} if isinstance(most, int | float) and most > 0 else {}


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _networks(study: Study) -> str:
    return f"{study.networks} networks of 50 relays, three in each circuit"
