"""From a specification to pictures: SVG for the report, SVG and PNG as files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert

from onionlab.charts.theme import FAINT, INK
from onionlab.files import write_bytes, write_text

#: Pixels per unit of the chart: sharp on a dense screen and in print.
SCALE = 2.0


def to_svg(specification: dict[str, Any]) -> str:
    """A chart as SVG text that stands for itself; the same chart gives the same text."""
    svg = str(vl_convert.vegalite_to_svg(specification))
    # Vega numbers clip paths through the life of the process.
    numbers = {number: str(place) for place, number in enumerate(dict.fromkeys(re.findall(r'id="clip(\d+)"', svg)))}
    return re.sub(r'(id="|url\(#)clip(\d+)', lambda found: f"{found[1]}clip{numbers[found[2]]}", svg)


def to_png(svg: str) -> bytes:
    """A drawing of `to_svg` as PNG."""
    return bytes(vl_convert.svg_to_png(svg, scale=SCALE))


def write(directory: Path, name: str, specification: dict[str, Any]) -> None:
    """Draw a chart into ``directory`` as SVG and PNG of this name."""
    svg = to_svg(specification)
    write_text(directory / f"{name}.svg", svg)
    write_bytes(directory / f"{name}.png", to_png(svg))


def write_with_data(directory: Path, name: str, specification: dict[str, Any]) -> None:
    """Draw a chart as `write` does, and write the numbers behind it as CSV: ``data``, the name of a data set, and its columns."""
    write(directory, name, specification)
    frames = [
        pl.DataFrame(rows, infer_schema_length=None).select(pl.lit(data).alias("data"), pl.all())
        for data, rows in specification.get("datasets", {}).items()
        if rows
    ]
    if frames:
        table = pl.concat(frames, how="diagonal_relaxed").with_columns(pl.selectors.float().round_sig_figs(5))
        write_text(directory / f"{name}.csv", table.write_csv())


def inline(svg: str, name: str, title: str) -> str:
    """Fit an SVG into a page: it scales with the column, follows the page's colours, and shares no identifier with other charts.

    Parameters
    ----------
    svg : str
        From `to_svg`.
    name : str
        Unique among the charts of the page.
    title : str
        Read aloud in place of the picture.
    """
    size = re.search(r'<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)" viewBox="([^"]+)"[^>]*>', svg)
    if size is None:
        raise ValueError(f"the drawing of chart {name} has no size")
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    opening = f'<svg class="chart" id="{name}" role="img" aria-label="{label}" viewBox="{size[3]}" style="max-width:{size[1]}px">'
    body = svg[size.end() :]
    body = re.sub(r'<rect width="[0-9.]+" height="[0-9.]+" fill="white"/>', "", body, count=1)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    # Names of Vega's own parts are noise to a screen reader that has the label above.
    body = re.sub(r' (?:aria-[a-z]+|role)="[^"]*"', "", body)
    return opening + body.replace(INK, "currentColor").replace(FAINT, "var(--faint)")
