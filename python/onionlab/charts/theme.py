"""How all charts look: colours that colour-blind readers tell apart, one per treatment everywhere; fonts; axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Okabe and Ito's palette without black (the colour of text) and yellow (too pale on white).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

#: Dash patterns, so that lines can also be told apart in print; with the palette they give 24 different lines.
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))

#: Colours of text and of rules. The report replaces them in its inline charts, so that they follow a dark background.
INK = "#24292f"
FAINT = "#8c959f"

WIDTH = 620
HEIGHT = 320


@dataclass(frozen=True)
class Paper:
    """The place of a chart in a paper; lengths in points, of which an inch has 72.

    Attributes
    ----------
    name
        What users call it.
    width
        Of the whole chart, labels and all.
    height
        Of the plot of a chart with one panel, without its labels.
    small, large
        Sizes of the labels of ticks, and of all other text.
    """

    name: str
    width: float
    height: float
    small: float
    large: float


#: Columns of the usual formats of conferences: 3.33 in, or two with the space between them, 7 in.
PAPERS = {
    paper.name: paper
    for paper in (
        Paper("one-column", 3.33 * 72, 108, 7, 8),
        Paper("two-columns", 7 * 72, 170, 8, 9),
    )
}


def colours(treatments: Sequence[str], places: Sequence[int] | None = None) -> dict[str, str]:
    """Colour of each treatment, by its place in the experiment, or by the places given."""
    numbers = range(len(treatments)) if places is None else places
    return {treatment: PALETTE[number % len(PALETTE)] for number, treatment in zip(numbers, treatments, strict=True)}


def dashes(treatments: Sequence[str], places: Sequence[int] | None = None) -> list[list[int]]:
    """Dash pattern of each treatment, by its place: the first six differ in colour and every other one in dash too."""
    numbers = range(len(treatments)) if places is None else places
    return [list(DASHES[(number // len(PALETTE) + number) % len(DASHES)]) for number in numbers]


def config() -> dict[str, Any]:
    """Vega-Lite configuration of all charts."""
    return {
        "background": "white",
        "font": "DejaVu Sans, Verdana, sans-serif",
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "frame": "group",
            "color": INK,
            "fontSize": 17,
            "fontWeight": 600,
            "subtitleColor": INK,
            "subtitleFontSize": 12,
            "subtitlePadding": 5,
            "subtitleLineHeight": 16,
            "offset": 14,
        },
        "axis": {
            "labelColor": INK,
            "titleColor": INK,
            "labelFontSize": 13,
            "titleFontSize": 13,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "gridColor": FAINT,
            "gridOpacity": 0.3,
            "domainColor": FAINT,
            "tickColor": FAINT,
        },
        "legend": {
            "labelColor": INK,
            "titleColor": INK,
            "labelFontSize": 13,
            "labelLimit": 420,
            "symbolStrokeWidth": 3,
            "symbolSize": 500,
            "orient": "top",
            "direction": "horizontal",
            "columnPadding": 24,
            "title": None,
        },
        "header": {"labelColor": INK, "labelFontSize": 13},
        "line": {"strokeWidth": 2.2, "strokeCap": "butt"},
        "area": {"opacity": 0.18, "line": False},
        "rule": {"color": FAINT, "strokeDash": [3, 3], "strokeWidth": 1.2},
    }


def paper_config(paper: Paper) -> dict[str, Any]:
    """Vega-Lite configuration of charts for a paper: the same looks, with the sizes of print and text in black."""
    text = {"labelColor": "black", "titleColor": "black", "labelFontSize": paper.small, "titleFontSize": paper.large}
    axis = text | {
        "titleFontWeight": "normal",
        "titlePadding": 4,
        "labelPadding": 2,
        "labelFlush": False,
        "tickSize": 3,
        "gridColor": FAINT,
        "gridOpacity": 0.35,
        "gridWidth": 0.5,
        "domainColor": "black",
        "domainWidth": 0.6,
        "tickColor": "black",
        "tickWidth": 0.6,
    }
    legend = text | {
        "labelFontSize": paper.large,
        "labelLimit": paper.width,
        "symbolStrokeWidth": 1.4,
        "symbolSize": 220,
        "orient": "top",
        "direction": "horizontal",
        "columnPadding": 9,
        "rowPadding": 1,
        "offset": 3,
        "title": None,
    }
    return {
        "background": "white",
        "font": "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif",
        "padding": 1,
        "view": {"stroke": None},
        "axis": axis,
        "legend": legend,
        "header": {"labelColor": "black", "labelFontSize": paper.large, "labelPadding": 3},
        "line": {"strokeWidth": 1.2, "strokeCap": "butt"},
        "area": {"opacity": 0.2, "line": False},
        "rule": {"color": FAINT, "strokeDash": [2, 2], "strokeWidth": 0.7},
    }


def legend_columns(treatments: Sequence[str], width: float = WIDTH, letter: float = 8, symbol: float = 60) -> int:
    """Columns in which the names of the treatments fit above a chart of a width, given those of a letter and of a symbol."""
    widest = letter * max(map(len, treatments)) + symbol
    return max(1, min(len(treatments), int(width // widest)))
