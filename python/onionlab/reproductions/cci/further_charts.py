"""Charts of what the paper on shared links leaves open: means of every way side by side, and what sharing costs by its share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.quantity import format_duration
from onionlab.reproductions.cci import network
from onionlab.reproductions.panels import whole
from onionlab.results.describe import plural
from onionlab.stats import mean_interval

#: Size of a panel of means: its width, and the height of a treatment; and that of a panel of costs.
WIDTH, ROW = 210, 20
COST_SIZE = (230, 190)


def drawings(measured: Mapping[str, network.Measured]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and specifications of all charts, by the names of the questions' files."""
    for stem, title in (
        ("four-ways", "Ways to put circuits on connections, with the tor of today"),
        ("policies", "Circuit schedulers on shared connections"),
    ):
        if stem in measured:
            yield f"cci-{stem}", means(measured[stem], title)
    if "more-load" in measured:
        yield "cci-more-load", costs(measured["more-load"])


def means(sampled: network.Measured, title: str) -> dict[str, Any]:
    """A dot for the mean of each treatment, with its interval over networks; a row of panels for each place."""
    data: dict[str, pl.DataFrame] = {}
    rows = []
    for place in sampled.places:
        panels = []
        for number, size in enumerate(network.SIZES):
            found = _intervals(sampled, place, size)
            if found.is_empty():
                continue
            name = f"{place}-{size}"
            data[name] = found
            panels.append(_dots(name, found, sampled.treatments, f"{size}, {place} lost", labelled=number == 0))
        rows.append(alt.hconcat(*panels, spacing=22))
    over = f"mean over {plural(sampled.networks, 'sampled network')}; line: 95 % interval, cut where an axis ends"
    about = [
        "one sampled network, no interval" if sampled.networks == 1 else over,
        f"time to the last byte; what failed counts as {format_duration(sampled.longest)}",
    ]
    return whole(rows, title, about, data)


def _intervals(sampled: network.Measured, place: str, metric: str) -> pl.DataFrame:
    """``treatment, mean, low, high``; the bounds null where there is no interval."""
    rows = []
    for treatment in sampled.treatments:
        values = sampled.figures.filter(place=place, treatment=treatment, metric=metric)["value"].drop_nulls().to_numpy()
        interval = mean_interval(values)
        if interval is not None:
            rows.append((treatment, interval.mean, interval.low, interval.high))
    schema = {"treatment": pl.String, "mean": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _dots(name: str, found: pl.DataFrame, treatments: list[str], heading: str, *, labelled: bool) -> alt.LayerChart:
    means = found["mean"].to_numpy()
    scale = alt.Scale(domain=[0, 1.6 * float(means.max())], nice=False)
    looks = alt.Axis(labels=labelled, ticks=False, domain=False, title=None, labelLimit=300)
    base = alt.Chart(alt.NamedData(name), width=WIDTH, height=ROW * len(treatments))
    y = alt.Y("treatment:N", sort=list(treatments), axis=looks, scale=alt.Scale(domain=list(treatments)))
    colour = alt.value(theme.PALETTE[0])
    bounds = base.transform_filter("isValid(datum.low)").mark_rule(clip=True, strokeWidth=1.6, strokeDash=[1, 0])
    layers = [
        bounds.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, color=colour),
        base.mark_point(filled=True, size=46, opacity=1).encode(
            x=alt.X(
                "mean:Q",
                title="time to last byte, mean (s)",
                scale=scale,
                axis=alt.Axis(tickCount=5, labelOverlap=True, labelSeparation=8),
            ),
            y=y,
            color=colour,
        ),
    ]
    return alt.LayerChart(layer=layers, title=alt.TitleParams(heading, fontSize=12, offset=4))


def shares(sampled: network.Measured) -> pl.DataFrame:
    """What sharing costs by how much is shared: ``size, treatment`` (the load), ``network, shared, cost``, each in per cent.

    ``shared`` is the share of pairs of relays that several circuits use, under the first treatment; ``cost`` how much longer a
    download takes under that than under the second.
    """
    base, other = sampled.treatments[:2]
    wide = sampled.figures.pivot(on="metric", index=["place", "treatment", "replicate"], values="value")
    both = wide.filter(treatment=base).join(
        wide.filter(treatment=other), on=["place", "replicate"], suffix="-other", maintain_order="left"
    )
    parts = [
        both.select(
            size=pl.lit(size),
            treatment="place",
            network="replicate",
            shared="shared",
            cost=100 * (pl.col(size) / pl.col(f"{size}-other") - 1),
        )
        for size in network.SIZES
    ]
    return pl.concat(parts).drop_nulls().filter(pl.col("cost").is_finite())


def costs(sampled: network.Measured) -> dict[str, Any]:
    """A dot for each network and load; a panel for each size."""
    found = shares(sampled)
    most = 10.0 * math.ceil(max(found["shared"].to_list(), default=100.0) / 10)
    palette = theme.colours(sampled.places)
    legend = alt.Legend(columns=theme.legend_columns(sampled.places), symbolType="circle", symbolStrokeWidth=0, symbolSize=90)
    scale = alt.Scale(domain=list(palette), range=list(palette.values()))
    colour = alt.Color("treatment:N", scale=scale, legend=legend, sort=list(palette))
    panels = []
    data: dict[str, pl.DataFrame] = {}
    for size in network.SIZES:
        own = found.filter(size=size)
        if own.is_empty():
            continue
        name = f"costs-{size}"
        data[name] = own
        cost = own["cost"].to_list()
        extent = alt.Scale(domain=[1.08 * min(0.0, *cost), 1.08 * max(1.0, *cost)], nice=False)
        dots = alt.Chart(alt.NamedData(name), width=COST_SIZE[0], height=COST_SIZE[1]).mark_point(
            filled=True, size=40, opacity=0.85
        )
        encoded = dots.encode(
            x=alt.X(
                "shared:Q", title="links shared (%)", scale=alt.Scale(domain=[0, most], nice=False), axis=alt.Axis(tickCount=5)
            ),
            y=alt.Y("cost:Q", title="longer by (%)", scale=extent, axis=alt.Axis(tickCount=5)),
            color=colour,
        )
        zero = alt.Chart(alt.NamedData(name)).transform_aggregate(dots="count()").mark_rule().encode(y=alt.YDatum(0))
        panels.append(alt.LayerChart(layer=[encoded, zero], title=alt.TitleParams(size, fontSize=12, offset=4)))
    about = [
        "each dot a sampled network under a load: how much longer a mean download takes than with a connection for each circuit",
        f"{plural(sampled.networks, 'network')}; more users share more links, and fill relays more",
    ]
    return whole([alt.hconcat(*panels, spacing=22)], "What sharing costs, by how many links are shared", about, data)
