"""From a specification to pictures: SVG for the report, SVG and PNG as files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert

from onionlab.charts.theme import FAINT, INK
from onionlab.files import write_bytes, write_text

#: Pixels per unit of the chart: sharp on a dense screen and in print.
SCALE = 2.0


#: A tag of a drawing; a name of a treatment within an attribute may have anything in it but quotes.
TAG = re.compile(r'<[A-Za-z][^<>"]*(?:"[^"]*"[^<>"]*)*>')
ATTRIBUTE = re.compile(r' ([\w:-]+)="([^"]*)"')
#: A reference to a part of the same drawing.
REFERENCE = re.compile(r"(url\(#|#)([\w-]+)(\)?)")


def to_svg(specification: dict[str, Any]) -> str:
    """A chart as SVG text that stands for itself; the same chart gives the same text."""
    svg = str(vl_convert.vegalite_to_svg(specification))
    # Vega numbers clip paths through the life of the process.
    parts = (value for tag in TAG.findall(svg) for name, value in ATTRIBUTE.findall(tag) if name == "id")
    names = {part: f"clip{place}" for place, part in enumerate(part for part in parts if re.fullmatch(r"clip\d+", part))}
    return _renamed(svg, lambda part: names.get(part, part))


def _with_attributes(svg: str, change: Callable[[str, str], str | None]) -> str:
    """The drawing with each attribute's value as ``change`` has it, or without it; texts stay as they are."""

    def changed(found: re.Match[str]) -> str:
        value = change(found[1], found[2])
        return "" if value is None else f' {found[1]}="{value}"'

    return TAG.sub(lambda tag: ATTRIBUTE.sub(changed, tag[0]), svg)


def _renamed(svg: str, rename: Callable[[str], str]) -> str:
    """The drawing with other identifiers."""

    def change(name: str, value: str) -> str:
        if name == "id":
            return rename(value)
        if (found := REFERENCE.fullmatch(value)) and (found[3] or name.endswith("href")):
            return f"{found[1]}{rename(found[2])}{found[3] or ''}"
        return value

    return _with_attributes(svg, change)


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
    body = _renamed(body, lambda part: f"{name}-{part}")
    return opening + _with_attributes(body, _of_the_page)


def _of_the_page(name: str, value: str) -> str | None:
    """An attribute as a page has it: its colours, and without the names of Vega's own parts."""
    # These are noise to a screen reader that has the drawing's label.
    if name == "role" or name.startswith("aria-"):
        return None
    return {INK: "currentColor", FAINT: "var(--faint)"}.get(value, value)
