"""``onionlab plot``: the charts of an experiment for a paper."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console

from onionlab.charts.paper import captions, charts_for_paper, write_printed
from onionlab.charts.theme import PAPERS
from onionlab.commands.foreign import show_missing
from onionlab.commands.points import at_point
from onionlab.errors import ResultsError
from onionlab.files import write_text
from onionlab.results.drawn import refuse_links
from onionlab.results.experiment import load


def draw(directory: Path, paper: str, out: Path | None, only: list[str], point: int | None) -> tuple[Path, list[str], list[str]]:
    """Draw the charts of a results directory.

    Parameters
    ----------
    directory : Path
        What ``onionlab run`` wrote.
    paper : str
        A name of `onionlab.charts.theme.PAPERS`.
    out : Path, optional
        Folder for them; ``paper/<paper>`` in the results directory by default.
    only : list of str
        Names of charts, with ``*`` and ``?``; all without any.
    point : int, optional
        Of a sweep: draw the charts of this point, counted from 1, instead of those of the sweep.

    Returns
    -------
    folder, drawn, empty
        Where they are, the names of the charts, and sentences about those that have nothing to draw.
    """
    experiment = load(directory)
    folder = out if out is not None else directory / "paper" / paper
    if point is not None:
        experiment = at_point(experiment, point)
        folder = folder if out is not None else directory / "points" / str(point) / "paper" / paper
    if out is None:
        refuse_links(folder, directory)
    show_missing(experiment)
    console = Console(stderr=True)
    with console.status("computing the curves"):
        charts = charts_for_paper(experiment)
    wanted = [chart for chart in charts if not only or any(fnmatch(chart.name, pattern) for pattern in only)]
    if unknown := [pattern for pattern in only if not any(fnmatch(chart.name, pattern) for chart in charts)]:
        names = ", ".join(chart.name for chart in charts)
        raise ResultsError(f"no chart of {directory} is called {unknown[0]!r}; there are {names}")
    drawn = [chart for chart in wanted if chart.specification is not None]
    with console.status("") as status:
        for number, chart in enumerate(drawn, 1):
            status.update(f"{chart.name} ({number} of {len(drawn)})")
            write_printed(folder, chart, PAPERS[paper])
    # Those that lie there from before keep theirs.
    there = [chart for chart in charts if chart in drawn or (folder / f"{chart.name}.svg").is_file()]
    write_text(folder / "captions.md", captions(there))
    empty = [f"{chart.name}: {' '.join(chart.notes)}" for chart in wanted if chart.specification is None]
    return folder, [chart.name for chart in drawn], empty
