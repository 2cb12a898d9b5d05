"""``onionlab plot`` and ``compare``: charts for a paper, and experiments side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from onionlab.commands.foreign import drawn_from
from onionlab.commands.points import COUNTED


def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory of `onionlab run`.")],
    paper: Annotated[str, typer.Option(help="one-column (3.33 in wide) or two-columns (7 in).")] = "one-column",
    out: Annotated[Path | None, typer.Option(help="Folder for the charts.", show_default="DIR/paper/PAPER")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Charts by name, with * and ?; also several times.", show_default="all"),
    ] = None,
    point: Annotated[int | None, typer.Option(min=1, help=f"Of a sweep: the charts of this point. {COUNTED}")] = None,
) -> None:
    """Draw charts for a paper: SVG, PDF and PNG in the width of a column, and the numbers behind each as CSV.

    Distribution functions, also with a logarithmic tail and as complementary ones, and everything that the report shows.
    """
    from onionlab.charts.theme import PAPERS
    from onionlab.commands.carried_out.plot import draw

    if paper not in PAPERS:
        raise typer.BadParameter(f"{paper!r} is not one of {', '.join(PAPERS)}", param_hint="--paper")
    with drawn_from(directory):
        folder, drawn, empty = draw(directory, paper, out, only or [], point)
    print(f"{len(drawn)} charts in {folder}: NAME.svg, NAME.pdf, NAME.png, NAME.csv; what they show: {folder / 'captions.md'}")
    for sentence in empty:
        print(f"onionlab: {sentence}", file=sys.stderr)


def compare(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR DIR...", help="Results directories of `onionlab run`.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the page.", show_default="out/compare-<names>")] = None,
) -> None:
    """Compare finished experiments: what differs between them, and what that does; paired where their networks are the same."""
    from onionlab.commands.carried_out.compare import answer

    with drawn_from(*directories):
        answer(directories, out, Console())
