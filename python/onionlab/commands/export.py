"""``onionlab export``: results in the formats of other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from onionlab.commands.foreign import drawn_from, show_missing
from onionlab.commands.points import COUNTED, at_point

app = typer.Typer(help="Write results in the formats of other programs.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Write results in the formats of other programs."""


@app.command(epilog="Example: onionlab export tornettools out/users out/users-tornettools")
def tornettools(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory of `onionlab run`.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for a folder of each treatment; it must be new or empty.")],
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Clients that measure; also several times.", show_default="those of load perf"),
    ] = None,
    point: Annotated[int | None, typer.Option(min=1, help=f"Of a sweep: the point. {COUNTED}")] = None,
) -> None:
    """Write what `tornettools plot` reads: ours and Shadow's results can then be drawn in one chart."""
    from onionlab.exporting import export_tornettools
    from onionlab.results.experiment import load

    with drawn_from(directory):
        results = at_point(load(directory), point)
        exported = export_tornettools(results, out, group)
        show_missing(results)
    for note in exported.notes:
        print(f"onionlab: {note}", file=sys.stderr)
    for treatment, folder in exported.folders.items():
        print(f"{treatment}: {folder}")
    print(f"draw: {exported.command(out)}")
