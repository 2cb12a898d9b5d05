"""Charts of shared links: the figures of the SALSA paper for another network, with the paper's values marked."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from onionlab.charts import export, theme
from onionlab.charts.build import Chart
from onionlab.errors import QuestionError
from onionlab.shared_links import (
    BUILT_IN,
    DEFAULT,
    PAPER_TIME,
    TRAFFIC,
    Question,
    Source,
    by_circuits,
    by_scale,
    documents,
    over_time,
    shared_links,
)

#: Name of the paper's values in legends.
PAPER = "the paper"

#: Kinds of circuits in figures 4 and 8, by whether they are internal and whether links are directed.
KINDS = {
    "external, directed": (False, True),
    "external, undirected": (False, False),
    "internal, directed": (True, True),
    "internal, undirected": (True, False),
}

#: Section 4.1.7: at the number of circuits of 2021, and section 4.2: at three times as many, the network's capacity.
IN_2021 = {(False, True): 3.7, (True, False): 6.9}
AT_CAPACITY = {(False, True): 8.0, (True, False): 16.0}
CIRCUITS, CAPACITY = 96_876, 290_000

#: Section 4.1.2: measured in Shadow, by network scale in percent.
SHADOW = {1.0: 54.82, 10.0: 20.56, 25.0: 12.51}

#: Figure 6: the whole network, by circuits per client.
BY_CLIENTS = {1: 4.0, 64: 5.0}

#: Figure 7: percent of links with two circuits, and with more.
PER_LINK = {"2": 3.5, "3 and more": 0.3}

#: Figure 5 and section 4.1.4: by traffic class, November 2021.
BY_TRAFFIC = {
    "web": 4.3,
    "mixture": 6.7,
    "bittorrent-base": 11.3,
    "bittorrent-extended": 11.2,
    "other-file-sharing": 11.2,
    "various": 16.2,
}

#: Scales of figures 4 and 6.
SCALES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0)


def _finish(name: str, title: str, chart: alt.LayerChart, data: pl.DataFrame, about: Sequence[str]) -> Chart:
    lines = [part for line in about for part in textwrap.wrap(line, 100)]
    done = chart.properties(width=theme.WIDTH, height=theme.HEIGHT, title=alt.TitleParams(title, subtitle=lines))
    specification: dict[str, Any] = done.to_dict()
    specification["config"] = theme.config()
    return Chart(name, title, data, specification)


def _rows(frame: pl.DataFrame) -> alt.InlineData:
    return alt.InlineData(frame.with_columns(pl.selectors.float().round_sig_figs(6)).to_dicts())


def _first_row(source: Source) -> dict[str, Any]:
    """What a document says of itself."""
    return shared_links(source, Question(circuits=1, internal=True)).row(0, named=True)


def _network(row: Mapping[str, Any]) -> str:
    """Which network a chart is of."""
    if row["file"] == BUILT_IN:
        return f"{BUILT_IN}, a model of that of {row['consensus'][:7]}, {row['relays']:,} relays"
    place = Path(row["file"]).name
    return f"{place}: consensus of {row['consensus'][:16]}, {row['relays']:,} relays"


def _colour(names: Sequence[str]) -> alt.Color:
    legend = alt.Legend(columns=theme.legend_columns(names), symbolType="stroke", symbolFillColor="transparent")
    scale = alt.Scale(domain=list(names), range=list(theme.colours(names).values()))
    return alt.Color("line:N", scale=scale, legend=legend, sort=list(names))


def _lines(data: pl.DataFrame, names: Sequence[str], x: alt.X, y: alt.Y) -> alt.LayerChart:
    base = alt.Chart(_rows(data)).encode(x=x, y=y, color=_colour(names))
    return alt.LayerChart(layer=[base.mark_line(), base.mark_circle(size=26, opacity=1)])


def _marks(points: Sequence[Mapping[str, Any]], x: alt.X, y: alt.Y, *, right: bool = True) -> list[alt.Chart]:
    """The paper's values as crosses with their text beside them."""
    if not points:
        return []
    base = alt.Chart(alt.InlineData(list(points))).encode(x=x, y=y)
    look: dict[str, Any] = {"align": "left" if right else "right", "dx": 9 if right else -9}
    return [
        base.mark_point(shape="cross", angle=45, size=110, filled=True, color=theme.INK, opacity=1),
        # A halo, for lines may pass below the text.
        base.mark_text(baseline="middle", fontSize=12, stroke="white", strokeWidth=4, **look).encode(text="label:N"),
        base.mark_text(baseline="middle", fontSize=12, color=theme.INK, **look).encode(text="label:N"),
    ]


def _percent(title: str = "shared links, % of links", **scale: Any) -> alt.Y:
    return alt.Y("shared_percent:Q", title=title, scale=alt.Scale(**scale))


def _kinds(question: Question) -> dict[str, Question]:
    return {name: replace(question, internal=internal, directed=directed) for name, (internal, directed) in KINDS.items()}


def _plain(question: Question) -> Question:
    """The question without what the four kinds of circuits or the closed form leave out."""
    return Question(circuits=question.circuits)


def _of_2021(question: Question) -> bool:
    """Whether a question is about as many circuits as the paper's network had in 2021, and of its plain kinds."""
    plain = replace(_plain(question), internal=question.internal, directed=question.directed)
    return question == plain and 0.9 < question.circuits / CIRCUITS < 1.1


def circuits_chart(source: Source = None, question: Question = DEFAULT) -> Chart:
    """Figure 8: the share against the number of active circuits, up to three times those of the question."""
    numbers = sorted({round(question.circuits * share / 20) for share in (1, 2, 4, 6, 8, 12, 16, 20, 26, 32, 40, 50, 60)} - {0})
    frames = {name: by_circuits(source, numbers, asked) for name, asked in _kinds(_plain(question)).items()}
    data = pl.concat(
        frame.select(pl.lit(name).alias("line"), pl.col("circuits").cast(pl.Int64), "shared_percent")
        for name, frame in frames.items()
    )
    x = alt.X("circuits:Q", title="active circuits", axis=alt.Axis(format=",d", tickCount=7))
    y = _percent(zero=True)
    points = [
        {"circuits": circuits, "shared_percent": percent, "label": f"{percent:g} %"}
        for circuits, values in ((CIRCUITS, IN_2021), (CAPACITY, AT_CAPACITY))
        for percent in values.values()
        if circuits <= 1.02 * numbers[-1]
    ]
    layers = [_lines(data, list(KINDS), x, y), *_marks(points, x, y, right=False)]
    about = (
        _network(frames["external, directed"].row(0, named=True)),
        f"crosses: {PAPER}'s 3.7 to 6.9 % at {CIRCUITS:,} circuits and 8 to 16 % at {CAPACITY:,}, external directed to internal"
        " undirected, average of 2021",
    )
    return _finish("shared-links-by-circuits", "Shared links against active circuits", alt.LayerChart(layer=layers), data, about)


def _scales(row: Mapping[str, Any], question: Question, circuits: int = 1) -> list[float]:
    """Scales at which a network of relays of every class, and so many circuits, is left."""
    return [
        scale for scale in SCALES if (row["relays"] * scale >= 10 or scale == 1) and round(question.circuits * scale) >= circuits
    ]


def _scaled(frame: pl.DataFrame, line: str) -> pl.DataFrame:
    return frame.select(pl.lit(line).alias("line"), (100 * pl.col("scale")).alias("scale"), "shared_percent", "stddev_percent")


def _scale_axis() -> alt.X:
    axis = alt.Axis(values=[1, 2, 5, 10, 25, 50, 100], labelExpr="datum.label + ' %'")
    return alt.X("scale:Q", title="scale of the network (relays and circuits)", scale=alt.Scale(type="log"), axis=axis)


def scale_chart(source: Source = None, question: Question = DEFAULT, samples: int = 5) -> Chart:
    """Figure 4: the share against the scale of the network."""
    row = _first_row(source)
    scales = _scales(row, question)
    frames = [_scaled(by_scale(source, scales, asked, samples=samples), name) for name, asked in _kinds(_plain(question)).items()]
    data = pl.concat(frames)
    x, y = _scale_axis(), _percent(zero=True)
    points = [{"scale": scale, "shared_percent": percent, "label": f"{percent} %"} for scale, percent in SHADOW.items()]
    layers = [_lines(data, list(KINDS), x, y), *_marks(points, x, y)]
    about = (
        f"{_network(row)}; {question.circuits:,} circuits at 100 %",
        f"mean of {samples} sampled networks; crosses: {PAPER}'s measurements in Shadow, external directed, of another month",
    )
    return _finish("shared-links-by-scale", "Shared links against network scale", alt.LayerChart(layer=layers), data, about)


def clients_chart(source: Source = None, question: Question = DEFAULT, samples: int = 5) -> Chart:
    """Figure 6: the share against the scale of the network for several numbers of circuits per client."""
    names = {1: "1 circuit per client", 16: "16", 32: "32", 64: "64"}
    # A client of k circuits wants a network with as many. Draws, since they take milliseconds where the formula takes a second.
    row = _first_row(source)
    scales = _scales(row, question, max(names))
    name, title = "shared-links-by-clients", "Shared links against circuits per client"
    if not scales:
        note = f"No chart of circuits per client: {question.circuits} circuits are not enough for a client of {max(names)}."
        return Chart(name, title, pl.DataFrame(), None, (note,))
    frames = [
        _scaled(by_scale(source, scales, replace(_plain(question), per_client=k), samples=samples, method="draw"), line)
        for k, line in names.items()
    ]
    data = pl.concat(frames)
    points = [{"scale": 100.0, "shared_percent": percent, "label": f"{percent:g} %"} for percent in BY_CLIENTS.values()]
    low, high = min(*data["shared_percent"], *BY_CLIENTS.values()), max(*data["shared_percent"], *BY_CLIENTS.values())
    x, y = _scale_axis(), _percent(type="log", nice=False, domain=[0.85 * low, 1.1 * high])
    layers = [_lines(data, list(names.values()), x, y), *_marks(points, x, y)]
    about = (
        f"{_network(row)}; {question.circuits:,} external circuits at 100 %",
        f"mean of {samples} sampled networks, one draw each; crosses: {PAPER}'s 4 % (1 circuit per client) and 5 % (64)",
    )
    return _finish(name, title, alt.LayerChart(layer=layers), data, about)


def per_link_chart(source: Source = None, question: Question = DEFAULT) -> Chart:
    """Figure 7: how many circuits a link carries."""
    frame = shared_links(source, question, method="draw" if question.excludes else "expectation")
    row = frame.row(0, named=True)
    counts = [*row["circuits_per_link"], 0.0, 0.0]
    shares = {str(n + 1): 100 * count / row["links"] for n, count in enumerate(counts[:6])}
    shares["7 and more"] = 100 * sum(counts[6:]) / row["links"]
    data = pl.DataFrame({"circuits": list(shares), "percent": list(shares.values())}).filter(pl.col("percent") > 0)
    x = alt.X("circuits:N", sort=list(shares), title="circuits on the link", axis=alt.Axis(labelAngle=0))
    y = alt.Y(
        "percent:Q",
        title="% of links",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format="~g", values=[10**n for n in range(-6, 3)]),
    )
    kind = alt.condition("datum.circuits == '1'", alt.value(theme.PALETTE[0]), alt.value(theme.PALETTE[1]))
    base = alt.Chart(_rows(data))
    dots = base.mark_circle(size=130, opacity=1).encode(x=x, y=y, color=kind)
    text = base.transform_calculate(label="format(datum.percent, '.2~r') + ' %'")
    words = text.mark_text(dy=-14, fontSize=12, color=theme.INK).encode(x=x, y=y, text="label:N")
    published = _of_2021(question) and float(question.internal) == 0 and question.directed
    points = [{"circuits": "2", "percent": PER_LINK["2"], "label": f"{PER_LINK['2']} %"}] if published else []
    layers = [dots, words, *_marks(points, x, y)]
    rest = 100 * sum(counts[2:]) / row["links"]
    beside = f"cross: {PAPER}'s 3.5 % of links with two circuits, with 0.3 % that have more (here {rest:.2f} %), average of 2021"
    about = (
        f"{_network(row)}; {row['circuits']:,} {row['kind']} circuits, {_directed(question)}",
        beside if published else f"{rest:.2f} % of links have more than two circuits",
    )
    return _finish("shared-links-circuits-per-link", "Circuits per link", alt.LayerChart(layer=layers), data, about)


def _directed(question: Question) -> str:
    return "directed" if question.directed else "undirected"


def traffic_chart(source: Source = None, question: Question = DEFAULT) -> Chart:
    """Figure 5: the share if all circuits were for one class of traffic; nothing where the consensus has no exit policies."""
    name, title = "shared-links-by-traffic", "Shared links by class of traffic"
    classes = [traffic for traffic in TRAFFIC if traffic in BY_TRAFFIC]
    try:
        frames = [shared_links(source, replace(_plain(question), traffic=traffic)) for traffic in classes]
    except QuestionError as error:
        if error.code != "question-policies":
            raise
        return Chart(name, title, pl.DataFrame(), None, (f"No chart of traffic classes: {error}.",))
    data = pl.DataFrame({"traffic": classes, "shared_percent": [frame["shared_percent"][0] for frame in frames]})
    y = alt.Y("traffic:N", sort=list(BY_TRAFFIC), title=None)
    x = alt.X("shared_percent:Q", title="shared links, % of links", axis=alt.Axis(tickCount=8))
    dots = alt.Chart(_rows(data)).mark_circle(size=130, opacity=1, color=theme.PALETTE[0]).encode(x=x, y=y)
    points = [
        {"traffic": traffic, "shared_percent": BY_TRAFFIC[traffic], "label": f"{BY_TRAFFIC[traffic]} %"} for traffic in classes
    ]
    crosses = _marks(points, x, y)
    about = (
        f"{_network(frames[0].row(0, named=True))}; {question.circuits:,} external circuits, directed",
        f"dot: all circuits of this class; cross: {PAPER}, November 2021",
    )
    return _finish(name, title, alt.LayerChart(layer=[dots, *crosses]), data, about)


def simplification_chart(source: Source = None, question: Question = DEFAULT, draws: int = 30) -> Chart:
    """Figure 11: what it changes that a circuit may have a relay twice, or two of one /16."""
    plain = _plain(question)
    rules = {
        "as the paper": plain,
        "no relay twice": replace(plain, exclude_same_relay=True),
        "no two of one /16": replace(plain, exclude_same_subnet=True),
    }
    frames = [shared_links(source, asked, method="draw", repeat=draws) for asked in rules.values()]
    data = pl.DataFrame(
        {
            "rule": list(rules),
            "shared_percent": [frame["shared_percent"][0] for frame in frames],
            "stddev_percent": [frame["stddev_percent"][0] for frame in frames],
        }
    )
    spread = data.with_columns(
        low=pl.col("shared_percent") - pl.col("stddev_percent"), high=pl.col("shared_percent") + pl.col("stddev_percent")
    )
    base = alt.Chart(_rows(spread)).encode(y=alt.Y("rule:N", sort=list(rules), title=None))
    title, scale = "shared links, % of links", alt.Scale(zero=False, padding=20)
    bars = base.mark_rule(strokeWidth=3, strokeDash=[1, 0], color=theme.PALETTE[0], opacity=0.5)
    dots = base.mark_circle(size=130, opacity=1, color=theme.PALETTE[0])
    layers = [
        bars.encode(x=alt.X("low:Q", title=title, scale=scale, axis=alt.Axis(tickCount=8)), x2="high:Q"),
        dots.encode(x=alt.X("shared_percent:Q", title=title, scale=scale)),
    ]
    about = (
        f"{_network(frames[0].row(0, named=True))}; {question.circuits:,} external circuits, directed",
        f"mean and standard deviation of {draws} draws; {PAPER}: tor with all its rules and SALSA alike, TorPS 0.2 points higher",
    )
    title = "What rules of tor that are left out would change"
    return _finish("shared-links-simplification", title, alt.LayerChart(layer=layers), data, about)


def time_chart(sources: Source | Sequence[Source], question: Question = DEFAULT) -> Chart:
    """The share over time, with the same circuits everywhere and with circuits in proportion to the network's weight."""
    names = {"fixed": f"always {question.circuits:,} circuits", "weight": "circuits in proportion to consensus weight"}
    fixed, grown = over_time(sources, question), over_time(sources, question, growth="weight")
    data = pl.concat(
        frame.select(pl.lit(name).alias("line"), "consensus", pl.col("circuits").cast(pl.Int64), "shared_percent")
        for name, frame in ((names["fixed"], fixed), (names["weight"], grown))
    )
    x = alt.X("consensus:T", title=None, axis=alt.Axis(format="%Y"))
    y = _percent(zero=True)
    # A share of 1 is all of them, as True is.
    published = {(float(internal), directed): percent for (internal, directed), percent in IN_2021.items()}.get(
        (float(question.internal), question.directed)
    )
    points = []
    if published is not None and _of_2021(question):
        points.append({"consensus": "2021-07-01 00:00:00", "shared_percent": published, "label": f"{published} %, {PAPER}, 2021"})
    layers = [_lines(data, list(names.values()), x, y), *_marks(points, x, y, right=False)]
    own = grown.filter(pl.col("circuits") == question.circuits)["consensus"].to_list()
    about = (
        f"{fixed['kind'][0]} circuits, links {_directed(question)}; {fixed.height} consensuses",
        f"proportion: {question.circuits:,} circuits on {own[0][:10] if own else 'the document of reference'}; weights before"
        " 2021 come from another bandwidth scanner and do not compare",
    )
    return _finish("shared-links-over-time", "Shared links over time", alt.LayerChart(layer=layers), data, about)


def _by_distance(sources: Source | Sequence[Source]) -> list[Source]:
    """Documents in order of their distance from the paper's month."""
    files = documents(sources)
    if len(files) < 2:
        return [*files] or [None]
    distance = (pl.col("consensus").str.to_datetime() - pl.lit(PAPER_TIME).str.to_datetime()).abs()
    return list(shared_links(list(files), Question(circuits=1, internal=True)).sort(distance)["file"])


def plan(sources: Source | Sequence[Source] = None, question: Question = DEFAULT) -> list[Callable[[], Chart]]:
    """What draws each chart: over time for several documents, and the others for the one next to the paper's month."""
    files = _by_distance(sources)
    drawn = [partial(time_chart, files, question)] if len(files) > 1 and not question.excludes else []
    for chart in (scale_chart, clients_chart, per_link_chart, circuits_chart, simplification_chart):
        drawn.append(partial(chart, files[0], question))
    drawn.insert(-4, partial(_traffic_of_any, files, question))
    return [*drawn]


def _traffic_of_any(files: Sequence[Source], question: Question) -> Chart:
    """Figure 5 for the first document that has exit policies."""
    charts = (traffic_chart(file, question) for file in files)
    first = next(charts)
    return first if first.specification is not None else next((chart for chart in charts if chart.specification), first)


def all_charts(sources: Source | Sequence[Source] = None, question: Question = DEFAULT) -> list[Chart]:
    """All charts of `plan`."""
    return [draw() for draw in plan(sources, question)]


def write(charts: Sequence[Chart], directory: Path) -> list[Path]:
    """Write each chart as PNG and SVG; their paths."""
    written = []
    for chart in charts:
        if chart.specification is not None:
            export.write(directory, chart.name, chart.specification)
            written += [directory / f"{chart.name}.png", directory / f"{chart.name}.svg"]
    return written
