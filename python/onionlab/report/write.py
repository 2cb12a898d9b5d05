"""Writing a report: ``report.html``, ``charts/*.svg|png|vl.json`` and ``tables/*.csv``, each in one step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from onionlab.charts import Chart
from onionlab.charts.export import inline, to_png, to_svg
from onionlab.files import draft_of, remove_abandoned, remove_drafts, write_text, writing
from onionlab.report import content, sweep
from onionlab.results.drawn import MADE, PAGE, made_before, refuse_links

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment


def write_report(experiment: Experiment, into: Path | None = None) -> Path:
    """Draw everything that is derived from an experiment's records.

    Parameters
    ----------
    experiment : Experiment
        With a sweep, its report shows each figure against the swept key; `Experiment.at` gives a point's.
    into : Path, optional
        Folder for the page, the charts and the tables; the results directory by default.

    Returns
    -------
    Path
        The page, ``report.html``.

    Raises
    ------
    ResultsError
        If it cannot be written, or a symbolic link lies where one of its folders goes.
    """
    root = into if into is not None else experiment.directory
    refuse_links(root, experiment.directory)
    charts = list(experiment.charts.values())
    drawings = {chart.name: to_svg(chart.specification) for chart in charts if chart.specification is not None}
    replace_folder(root / "charts", lambda folder: write_charts(folder, charts, drawings))
    replace_folder(root / "tables", lambda folder: _tables(folder, experiment, charts))
    pictures = {
        chart.name: Markup(inline(drawings[chart.name], f"chart-{chart.name}", chart.title))
        for chart in charts
        if chart.name in drawings
    }
    path = root / PAGE
    remove_drafts(root, (path.name,))
    write_text(path, render(experiment, charts, pictures))
    return path


def render(experiment: Experiment, charts: list[Chart], pictures: dict[str, Markup]) -> str:
    """Text of the page."""
    name, page = ("sweep", sweep.page) if experiment.swept else ("report", content.page)
    return environment().get_template(f"{name}.html.j2").render(page(experiment, charts), pictures=pictures)


def environment() -> jinja2.Environment:
    """Where the templates of all pages lie, and how they are filled."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("onionlab.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder anew: nothing of it changes before all of its new files are there.

    Each then takes its place by itself. What an earlier report left there goes, by the list that it left; all else in the folder
    stays. Two reports at a time, one at the end of a run, say, and one asked for meanwhile, do not meet before that.
    """
    refuse_links(folder, folder.parent)
    remove_abandoned(folder, ".new")
    remove_drafts(folder, (MADE,))
    draft = draft_of(folder, ".new")
    try:
        with writing(folder):
            draft.mkdir(parents=True)
            fill(draft)
            folder.mkdir(exist_ok=True)
            new = sorted(path.name for path in draft.iterdir())
            for name in new:
                (draft / name).replace(folder / name)
            for old in made_before(folder).difference(new):
                (folder / old).unlink(missing_ok=True)
            write_text(folder / MADE, "".join(f"{name}\n" for name in new))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_charts(folder: Path, charts: list[Chart], drawings: dict[str, str]) -> None:
    """Each chart as pictures and as a specification that Vega's editor opens."""
    for chart in charts:
        if chart.specification is None:
            continue
        (folder / f"{chart.name}.svg").write_text(drawings[chart.name], encoding="utf-8")
        (folder / f"{chart.name}.png").write_bytes(to_png(drawings[chart.name]))
        specification = json.dumps(chart.specification, indent=1, sort_keys=True, ensure_ascii=False)
        (folder / f"{chart.name}.vl.json").write_text(specification + "\n", encoding="utf-8")


def _tables(folder: Path, experiment: Experiment, charts: list[Chart]) -> None:
    """The numbers of the page, and those behind each chart."""
    if experiment.swept:
        experiment.points.write_csv(folder / "points.csv")
    experiment.summary.write_csv(folder / "summary.csv")
    experiment.figures.write_csv(folder / "figures-per-run.csv")
    if experiment.variance.height:
        experiment.variance.write_csv(folder / "variance.csv")
    runs = experiment.runs.drop("scenario", "treatment_json", "divergence_json", strict=False)
    runs.write_csv(folder / "runs.csv")
    for chart in charts:
        chart.data.write_csv(folder / f"{chart.name}.csv")
