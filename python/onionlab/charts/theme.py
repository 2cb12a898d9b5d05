"""How all charts look: colours that colour-blind readers tell apart, one per treatment everywhere; fonts; axes."""

from __future__ import annotations

from collections.abc import Sequence
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


def colours(treatments: Sequence[str]) -> dict[str, str]:
    """Colour of each treatment, by its place in the experiment."""
    return {treatment: PALETTE[number % len(PALETTE)] for number, treatment in enumerate(treatments)}


def dashes(treatments: Sequence[str]) -> list[list[int]]:
    """Dash pattern of each treatment: the first six differ in colour and every other one in dash too."""
    return [list(DASHES[(number // len(PALETTE) + number) % len(DASHES)]) for number, _ in enumerate(treatments)]


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


def legend_columns(treatments: Sequence[str]) -> int:
    """Columns in which the names of the treatments fit above a chart."""
    widest = 8 * max(map(len, treatments)) + 60
    return max(1, min(len(treatments), WIDTH // widest))
