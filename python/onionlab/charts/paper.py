"""Charts as a paper prints them: as wide as one or two columns, with text that can be read at that size, and no heading.

Each is drawn as SVG and PDF, which stay sharp at any size, and as PNG, with the numbers behind it as CSV beside them.

A chart of the report becomes one for a paper by its specification: the heading goes (a paper has captions), sizes are those of
print, and the plots are made as wide as makes the whole just as wide as the column. Colours and dashes stay, so that a treatment
looks the same in all charts of an experiment.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vl_convert

from onionlab.charts.build import Chart, all_charts, with_names
from onionlab.charts.export import to_svg
from onionlab.charts.sweep import sweep_charts
from onionlab.charts.tails import tail_charts
from onionlab.charts.theme import Paper, legend_columns, paper_config
from onionlab.files import write_bytes, write_text

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment

#: Dots to an inch of bitmaps.
DOTS = 600

#: Marks of points are drawn for the screen; in print they have this share of their area.
_POINTS = 0.25

#: Least width of a plot, in points.
_LEAST = 40.0

#: What the labels of a vertical axis take.
_BEFORE = 40.0


@dataclass(frozen=True)
class Printed:
    """One chart in the three formats, and its size in inches."""

    svg: str
    pdf: bytes
    png: bytes
    width: float
    height: float


def charts_for_paper(experiment: Experiment) -> list[Chart]:
    """Every chart that there is of an experiment: those of its report, and of one without a sweep the tails of its times."""
    return sweep_charts(experiment) if experiment.swept else with_names([*all_charts(experiment), *tail_charts(experiment)])


def write_printed(folder: Path, chart: Chart, paper: Paper) -> Printed:
    """Draw a chart into a folder: ``NAME.svg``, ``.pdf``, ``.png``, and the numbers behind it as ``NAME.csv``."""
    if chart.specification is None:
        raise ValueError(f"the chart {chart.name} has nothing to draw")
    drawn = printed(chart.specification, paper)
    write_text(folder / f"{chart.name}.svg", drawn.svg)
    write_bytes(folder / f"{chart.name}.pdf", drawn.pdf)
    write_bytes(folder / f"{chart.name}.png", drawn.png)
    write_text(folder / f"{chart.name}.csv", chart.data.write_csv())
    return drawn


def captions(charts: list[Chart]) -> str:
    """What the charts show and what they leave out, a paragraph each: the headings that the pictures do not have."""
    return "\n\n".join(f"## {chart.name}\n\n{' '.join((chart.caption, *chart.notes))}" for chart in charts) + "\n"


def for_paper(specification: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """A specification of the report as one for a paper; of about the right width, which `printed` makes exact."""
    found = copy.deepcopy(specification)
    found.pop("title", None)
    found["config"] = paper_config(paper)
    views = list(_views(found))
    across = _across(found)
    for view in views:
        view["width"] = max(_LEAST, paper.width / across - 42)
        view["height"] = paper.height if across == 1 else 0.75 * paper.height
    for part in _dictionaries(found):
        _resize(part, paper, across)
    if "spacing" in found:
        found["spacing"] = 12
    return found


def _views(specification: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts that have a width: the whole, the panels of a row, or the one that a facet repeats."""
    if "concat" in specification:
        yield from specification["concat"]
    elif "facet" in specification:
        yield specification["spec"]
    else:
        yield specification


def _across(specification: dict[str, Any]) -> int:
    """How many plots stand beside each other."""
    if "concat" in specification:
        return min(len(specification["concat"]), int(specification.get("columns", len(specification["concat"]))))
    if "facet" in specification:
        panels = specification["facet"].get("sort") or [None]
        return min(len(panels), int(specification.get("columns", len(panels))))
    return 1


def _dictionaries(part: Any) -> Iterator[dict[str, Any]]:
    """Every table of a specification but its data."""
    if isinstance(part, dict):
        yield part
        for key, value in part.items():
            if key not in {"datasets", "data", "config"}:
                yield from _dictionaries(value)
    elif isinstance(part, list):
        for value in part:
            yield from _dictionaries(value)


def _resize(part: dict[str, Any], paper: Paper, across: int) -> None:
    """Bring what a specification sizes by itself to the size of print."""
    mark = part.get("mark")
    if isinstance(mark, dict):
        if "size" in mark:
            mark["size"] = mark["size"] * _POINTS
        if "strokeWidth" in mark:
            mark["strokeWidth"] = 0.6 * mark["strokeWidth"]
    legend, scale = part.get("legend"), part.get("scale")
    if isinstance(legend, dict) and isinstance(scale, dict):
        shown = [str(name) for name in legend.get("values") or scale.get("domain") or ["?"]]
        legend["columns"] = legend_columns(shown, paper.width, 0.52 * paper.large, 32)
        # A name that does not fit beside its line, right of the axis' labels, ends in dots: no chart is wider than its column.
        legend["labelLimit"] = round((paper.width - _BEFORE) / legend["columns"] - 26)
    axis = part.get("axis")
    if isinstance(axis, dict) and "tickCount" in axis:
        axis["tickCount"] = max(3, round(min(axis["tickCount"], paper.width / across / 40)))
    dashes = scale.get("range") if isinstance(scale, dict) else None
    if isinstance(scale, dict) and isinstance(dashes, list) and dashes and isinstance(dashes[0], list):
        scale["range"] = [[0.6 * length for length in dash] if len(dash) > 1 and dash[1] else dash for dash in dashes]


def printed(specification: dict[str, Any], paper: Paper) -> Printed:
    """Draw a chart of the report for a paper."""
    fitted = for_paper(specification, paper)
    views = list(_views(fitted))
    across = _across(fitted)
    svg = to_svg(fitted)
    # Labels take what they need; the plots get the rest. Their own width decides which labels there are, hence again.
    for _ in range(4):
        excess = _size(svg)[0] - paper.width
        if abs(excess) < 0.5:
            break
        for view in views:
            view["width"] = max(_LEAST, view["width"] - excess / across)
        svg = to_svg(fitted)
    width, height = _size(svg)
    pdf = bytes(vl_convert.svg_to_pdf(svg))
    png = bytes(vl_convert.svg_to_png(svg, scale=DOTS / 72, ppi=72))
    return Printed(_in_inches(svg), pdf, png, width / 72, height / 72)


def _size(svg: str) -> tuple[float, float]:
    """Width and height of a drawing, in points."""
    found = re.search(r'<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)"', svg)
    if found is None:
        raise ValueError("the drawing has no size")
    return float(found[1]), float(found[2])


def _in_inches(svg: str) -> str:
    """The same drawing with its size in inches, for programs to which a length without a unit is a pixel of the screen."""
    width, height = _size(svg)
    return re.sub(r'width="[0-9.]+" height="[0-9.]+"', f'width="{width / 72:.4f}in" height="{height / 72:.4f}in"', svg, count=1)
