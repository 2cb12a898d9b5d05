"""The figures of the SALSA paper as they come out here, with the paper's numbers as black diamonds."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt

from onionlab.charts import theme
from onionlab.reproductions.salsa.measurement import KINDS, Measured

#: Of the subtitle, how the paper's numbers are drawn.
DIAMOND = "black diamonds: the paper"

#: Name of the file, and what its chart is of.
TITLES = {
    "scale": "Shared links by scale of the network (figure 4)",
    "classes": "Shared links by traffic class (figure 5)",
    "clients": "Shared links by circuits a client (figure 6)",
    "per-link": "Circuits on a link (figure 7)",
    "circuits": "Shared links by active circuits (figure 8)",
    "rules": "Shared links under tor's own rules (figure 11)",
    "years": "Shared links from year to year",
}

#: How a figure names the classes.
CLASS_NAMES = {
    "web": "web",
    "mixture": "mixture",
    "bittorrent-base": "BitTorrent base",
    "bittorrent-extended": "BitTorrent extended",
    "other-file-sharing": "other file sharing",
    "various": "various",
}

Published = Mapping[str, float]
Rows = list[dict[str, Any]]


def charts(measured: Measured, published: Published, about: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Vega-Lite of each chart, by the keys of `TITLES`.

    Parameters
    ----------
    measured
        Ours.
    published
        The paper's numbers by the keys of its claims.
    about
        The data of each chart by its name, in a line below its title; that of ``""`` for all others.
    """
    made: dict[str, Callable[[Measured, Published], tuple[alt.LayerChart, str]]] = {
        "scale": _scale,
        "classes": _classes,
        "clients": _clients,
        "per-link": _per_link,
        "circuits": _circuits,
        "rules": _rules,
        "years": _years,
    }
    found = {}
    for name, make in made.items():
        chart, reading = make(measured, published)
        lines = [part for line in (about.get(name, about[""]), reading) for part in textwrap.wrap(line, 100)]
        done = chart.properties(title=alt.TitleParams(TITLES[name], subtitle=lines, frame="bounds"))
        specification: dict[str, Any] = done.to_dict()
        specification["config"] = theme.config()
        found[name] = specification
    return found


def _data(rows: Rows) -> alt.InlineData:
    return alt.InlineData(rows)


def _percent(high: float | None = None, field: str = "shared_percent:Q", title: str = "shared links (%)") -> alt.Y:
    scale = alt.Scale(zero=True) if high is None else alt.Scale(domain=[0, high], nice=True)
    return alt.Y(field, title=title, scale=scale)


def _lines(rows: Rows, x: alt.X, y: alt.Y, series: Sequence[str], *, columns: int | None = None) -> list[alt.Chart]:
    """A line with points for each series, told apart by colour and dash."""
    names = list(series)
    legend = alt.Legend(symbolType="stroke", columns=columns if columns is not None else theme.legend_columns(names))
    paint = alt.Scale(domain=names, range=list(theme.colours(names).values()))
    colour = alt.Color("series:N", scale=paint, legend=legend)
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=names, range=theme.dashes(names)), legend=legend)
    base = alt.Chart(_data(rows))
    dots = base.mark_circle(size=36, opacity=1).encode(x=x, y=y, color=alt.Color("series:N", scale=paint, legend=None))
    return [base.mark_line(clip=True).encode(x=x, y=y, color=colour, strokeDash=dash), dots]


def _diamonds(rows: Rows, x: alt.X, y: alt.Y | alt.YOffset, label: bool = True, **place: Any) -> list[alt.Chart]:
    """The paper's numbers, with their values beside them."""
    base = alt.Chart(_data(rows))
    marks = [base.mark_point(shape="diamond", size=110, filled=True, color=theme.INK, opacity=1).encode(x=x, y=y)]
    if label:
        offsets = {"align": "left", "dx": 9, "dy": -7, **place}
        # White behind the letters, where they cross a line.
        for paint in ({"color": "white", "stroke": "white", "strokeWidth": 3}, {"color": theme.INK}):
            marks.append(base.mark_text(fontSize=12, **paint, **offsets).encode(x=x, y=y, text="label:N"))
    return marks


def _layers(layers: Sequence[alt.Chart], height: int = theme.HEIGHT) -> alt.LayerChart:
    return alt.LayerChart(layer=list(layers), width=theme.WIDTH, height=height)


def _scale_axis() -> alt.X:
    labels = "datum.value * 100 + ' %'"
    axis = alt.Axis(values=[0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1], labelExpr=labels, grid=False, labelOverlap=False)
    return alt.X(
        "scale:Q", title="scale of the network (logarithmic)", scale=alt.Scale(type="log", domain=[0.009, 1.15]), axis=axis
    )


def _scale(measured: Measured, published: Published) -> tuple[alt.LayerChart, str]:
    rows = measured.frames["scale"].to_dicts()
    x, y = _scale_axis(), _percent()
    shadow = [
        {"scale": percent / 100, "shared_percent": published[f"shadow-{percent}"], "label": f"{published[f'shadow-{percent}']} %"}
        for percent in (1, 10, 25)
    ]
    layers = [*_lines(rows, x, y, list(KINDS), columns=2), *_diamonds(shadow[:1], x, y)]
    layers += _diamonds(shadow[1:], x, y, align="right", dx=-4, dy=20)
    return _layers(layers), f"{DIAMOND}, measured in Shadow with external circuits and directed links"


def _classes(measured: Measured, published: Published) -> tuple[alt.LayerChart, str]:
    names = [CLASS_NAMES[name] for name in measured.frames["classes"]["class"]]
    rows = [
        {
            "class": CLASS_NAMES[row["class"]],
            "shared_percent": row["shared_percent"],
            "label": f"{row['shared_percent']:.1f} % with {row['exits']:,.0f} exits; paper {published[row['class']]:.1f} %",
            "paper": published[row["class"]],
        }
        for row in measured.frames["classes"].iter_rows(named=True)
    ]
    y = alt.Y("class:N", title=None, sort=names, axis=alt.Axis(grid=False, ticks=False, domain=False))
    longest = max(max(row["shared_percent"], row["paper"]) for row in rows)
    scale = alt.Scale(domain=[0, 1.7 * longest], nice=False)
    axis = alt.Axis(values=list(range(0, int(longest) + 2, 2)), grid=True)
    x = alt.X("shared_percent:Q", title="shared links (%)", scale=scale, axis=axis)
    bars = alt.Chart(_data(rows)).mark_bar(color=theme.PALETTE[5], height=18).encode(x=x, y=y)
    for row in rows:
        row["end"] = max(row["shared_percent"], row["paper"])
    text = (
        alt.Chart(_data(rows))
        .mark_text(align="left", dx=12, color=theme.INK, fontSize=12)
        .encode(x=alt.X("end:Q", title="shared links (%)", scale=scale, axis=axis), y=y, text="label:N")
    )
    points = (
        alt.Chart(_data(rows))
        .mark_point(shape="diamond", size=110, filled=True, color=theme.INK, opacity=1)
        .encode(x=alt.X("paper:Q", title="shared links (%)", scale=scale, axis=axis), y=y)
    )
    return _layers([bars, points, text], 240), f"bars: all circuits of one class, external, directed; {DIAMOND}, November 2021"


def _clients(measured: Measured, published: Published) -> tuple[alt.LayerChart, str]:
    counts = sorted(set(measured.frames["clients"]["clients"]))
    names = {count: f"{count} circuit{'s' if count > 1 else ''} a client" for count in counts}
    rows = [{**row, "series": names[row["clients"]]} for row in measured.frames["clients"].to_dicts()]
    x, y = _scale_axis(), _percent()
    paper = [
        {"scale": 1.0, "shared_percent": published["clients-64"], "label": f"{published['clients-64']:g} % with 64"},
        {"scale": 1.0, "shared_percent": published["clients-1"], "label": f"{published['clients-1']:g} % with 1"},
    ]
    layers = [*_lines(rows, x, y, list(names.values())), *_diamonds(paper[:1], x, y, align="right", dx=6, dy=-22)]
    layers += _diamonds(paper[1:], x, y, align="right", dx=6, dy=12)
    return _layers(layers), f"all of a client over one guard; external, directed; {DIAMOND}, in whole per cents"


def _per_link(measured: Measured, published: Published) -> tuple[alt.LayerChart, str]:
    frame = measured.frames["per-link"].filter(measured.frames["per-link"]["links_percent"] >= 0.002)
    rows = [
        {**row, "label": f"{row['links_percent']:.2g} %" if row["links_percent"] < 10 else f"{row['links_percent']:.1f} %"}
        for row in frame.to_dicts()
    ]
    axis = alt.Axis(values=list(range(1, len(rows) + 1)), format="d", grid=False)
    x = alt.X("circuits:Q", title="circuits on the link", axis=axis, scale=alt.Scale(domain=[0.7, len(rows) + 0.6], nice=False))
    y = alt.Y(
        "links_percent:Q",
        title="share of links (%, logarithmic)",
        scale=alt.Scale(type="log", domain=[0.001, 200], nice=False),
        axis=alt.Axis(values=[0.001, 0.01, 0.1, 1, 10, 100], labelExpr="datum.value"),
    )
    ours = alt.Chart(_data(rows))
    dots = ours.mark_circle(size=90, color=theme.PALETTE[0], opacity=1).encode(x=x, y=y)
    line = ours.mark_line(color=theme.PALETTE[0]).encode(x=x, y=y)
    text = ours.mark_text(color=theme.PALETTE[0], fontSize=12, align="left", dx=9, dy=-8).encode(x=x, y=y, text="label:N")
    paper = [{"circuits": 2, "links_percent": published["links-two"], "label": f"paper {published['links-two']:g} %"}]
    layers = [line, dots, text, *_diamonds(paper, x, y, align="right", dx=-9, dy=8)]
    more = f"more than two circuits: {measured.values['links-more']:.2f} % here, paper {published['links-more']:g} %"
    return _layers(layers), f"external, directed; {DIAMOND}; {more}"


def _circuits(measured: Measured, published: Published) -> tuple[alt.LayerChart, str]:
    rows = measured.frames["circuits"].to_dicts()
    axis = alt.Axis(format="~s", grid=False, labelExpr="format(datum.value / 1000, ',') + ' k'")
    x = alt.X("circuits:Q", title="active circuits", axis=axis, scale=alt.Scale(domain=[0, 520_000], nice=False))
    y = _percent()
    keys = {"year-external-directed": 96_000, "year-internal-undirected": 96_000}
    keys |= {"capacity-lowest": 290_000, "capacity-highest": 290_000}
    marks = [
        {"circuits": place, "shared_percent": published[key], "label": f"{published[key]:g} %"} for key, place in keys.items()
    ]
    ranges = [
        {"circuits": low["circuits"], "shared_percent": low["shared_percent"], "to": high["shared_percent"]}
        for low, high in zip(marks[::2], marks[1::2], strict=True)
    ]
    bars = (
        alt.Chart(_data(ranges))
        .mark_rule(color=theme.INK, strokeWidth=1.5, strokeDash=[1, 0])
        .encode(x=x, y=y, y2=alt.Y2("to:Q"))
    )
    layers = [*_lines(rows, x, y, list(KINDS), columns=2), bars, *_diamonds(marks[::2], x, y, dy=12)]
    layers += _diamonds(marks[1::2], x, y, align="right", dx=-9, dy=-6)
    return _layers(layers), f"{DIAMOND}, ranges of the four kinds now and at capacity"


def _rules(measured: Measured, published: Published) -> tuple[alt.LayerChart, str]:
    frame = measured.frames["rules"]
    names = list(dict.fromkeys(frame["rule"]))
    rows: Rows = []
    for place, name in enumerate(names):
        inside = frame.filter(frame["rule"] == name)["shared_percent"].to_list()
        # Equal shares lie one above the other: spread them over the row, by a fixed pattern.
        rows += [
            {"row": -place + 0.5 * ((0.618034 * number) % 1 - 0.5), "shared_percent": percent}
            for number, percent in enumerate(inside)
        ]
    means = [
        {
            "row": -place - 0.36,
            "to": -place + 0.36,
            "shared_percent": frame.filter(frame["rule"] == name)["shared_percent"].mean(),
        }
        for place, name in enumerate(names)
    ]
    shown = [row["shared_percent"] for row in rows] + [published["november-lowest"]]
    margin = 0.1 * (max(shown) - min(shown))
    scale = alt.Scale(domain=[min(shown) - margin, max(shown) + margin], nice=False, zero=False)
    x = alt.X("shared_percent:Q", title="shared links (%), axis does not begin at 0", scale=scale)
    expression = " : ".join(f"datum.value == {-place} ? '{name}'" for place, name in enumerate(names)) + " : ''"
    y = alt.Y(
        "row:Q",
        title=None,
        scale=alt.Scale(domain=[0.5 - len(names), 0.5], nice=False),
        axis=alt.Axis(
            values=[-place for place in range(len(names))], labelExpr=expression, grid=False, ticks=False, domain=False
        ),
    )
    layers: list[alt.Chart] = [
        alt.Chart(_data(rows)).mark_circle(size=44, color=theme.PALETTE[0], opacity=0.6).encode(x=x, y=y),
        alt.Chart(_data(means)).mark_rule(strokeWidth=2, strokeDash=[1, 0], color=theme.PALETTE[1]).encode(x=x, y=y, y2="to:Q"),
        *_diamonds(
            [{"row": 0, "shared_percent": published["november-lowest"], "label": f"{published['november-lowest']:g} %"}],
            x,
            y,
            align="center",
            dx=0,
            dy=-14,
        ),
    ]
    reading = "dot: a draw; bar: mean; black diamond: the paper, lowest of the four kinds in November 2021"
    return _layers(layers, 220), reading


def _years(measured: Measured, published: Published) -> tuple[alt.LayerChart, str]:
    frame = measured.frames["years"]
    rows = [{**row, "when": row["consensus"].replace(" ", "T")} for row in frame.to_dicts()]
    names = list(dict.fromkeys(frame["series"]))
    first, last = min(row["when"] for row in rows)[:4], max(row["when"] for row in rows)[:4]
    scale = alt.Scale(domain=[f"{first}-01-01", f"{int(last) + 1}-01-01"], nice=False)
    axis = alt.Axis(format="%Y", tickCount="year", grid=False, labelFlush=False)
    x, y = alt.X("when:T", title=None, scale=scale, axis=axis), _percent()
    paper = [
        {"when": "2021-07-01", "shared_percent": published[key], "label": f"{published[key]:g} %"}
        for key in ("year-external-directed", "year-internal-undirected")
    ]
    layers = [*_lines(rows, x, y, names, columns=1), *_diamonds(paper, x, y, align="left", dx=10, dy=-4)]
    return _layers(layers), f"a dot: a consensus; between dots nothing is known; {DIAMOND}, mean of 2021"
