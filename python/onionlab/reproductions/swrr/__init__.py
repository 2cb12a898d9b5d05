"""The experiment of the SWRR paper, as far as it can be made again, with an answer to each of its claims.

Lu et al., "SWRR: The Link Scheduling Algorithm Based on Weighted Round-Robin" (Computers, Materials & Continua, 2019): which
circuit of a channel sends next, on a network whose middles are taken away until it is congested. What the paper leaves open is in
``assumptions.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.charts import export
from onionlab.files import write_text
from onionlab.reproductions import claims_table
from onionlab.reproductions.claims import judge
from onionlab.reproductions.kept import kept_options, opened, work_off
from onionlab.reproductions.runs import Observe, watching
from onionlab.reproductions.swrr import charts as swrr_charts
from onionlab.reproductions.swrr import measure as swrr_measure
from onionlab.reproductions.swrr import page as swrr_page
from onionlab.reproductions.swrr import runs as swrr_runs
from onionlab.reproductions.swrr.assumptions import Assumptions, read
from onionlab.reproductions.swrr.measure import Measured


def reproduce(
    experiments: Path,
    out: Path,
    docs: Path,
    observe: Observe | None = None,
    *,
    quick: bool = False,
    kept: Path | None = None,
    as_kept: bool = False,
) -> tuple[Path, list[str]]:
    """Run what is missing and write the page; return its path and no complaints: a claim that does not hold is a result.

    Parameters
    ----------
    experiments : path
        The folder with ``assumptions.toml``.
    out, docs : path
        Runs go below ``out``, the page and its charts into ``docs``. Finished runs are kept.
    observe : callable, optional
        Gives a context with an observer of all runs.
    quick : bool
        A smaller experiment; its runs are kept apart.
    kept : path, optional
        A folder of experiments that are finished and reduced (`onionlab.reproductions.kept.Kept`), which are not run again.
    as_kept : bool
        What is kept is taken with whatever settings it was made, and none of it is run.
    """
    assumptions = read(experiments / "assumptions.toml", quick=quick)
    cells = swrr_runs.prepare(assumptions.variants, out / ("quick" if quick else "full"))
    store = opened(kept, swrr_measure.FORM, quick=quick, as_kept=as_kept)
    with watching(observe) as observer:
        reduced = list(
            work_off(
                swrr_runs.ahead(cells), lambda number, experiment: swrr_measure.reduce(cells[number], experiment), observer, store
            )
        )
    measured = swrr_measure.together(reduced)
    return write(assumptions, measured, docs, quick=quick, options=kept_options(kept, as_kept=True) if as_kept else ""), []


def write(assumptions: Assumptions, measured: Measured, docs: Path, *, quick: bool, options: str = "") -> Path:
    """Write ``swrr.md``, its charts as SVG and PNG, and the numbers behind both as CSV into ``docs``; return the page.

    ``options`` stand behind ``onionlab reproduce swrr`` on it, and ``--quick``.
    """
    for name, specification in drawings(assumptions, measured):
        export.write_with_data(docs, name, specification)
    judged = judge(measured.of(assumptions.main.name), assumptions.claims, assumptions.rule)
    write_text(docs / "swrr-claims.csv", pl.DataFrame(list(claims_table.rows(judged)), infer_schema_length=None).write_csv())
    write_text(docs / "swrr-figures.csv", wide(measured).write_csv())
    path = docs / "swrr.md"
    write_text(path, swrr_page.page(assumptions, measured, judged, quick=quick, options=options))
    return path


def wide(measured: Measured) -> pl.DataFrame:
    """The figures of every run, a row for each."""
    rows = measured.figures.pivot(on="metric", index=["variant", "middles", "treatment", "network"], values="value")
    return rows.with_columns(pl.selectors.float().round_sig_figs(6))


def drawings(assumptions: Assumptions, measured: Measured) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and specifications of all charts: the paper's figures, then those of its second comparison with today's tor."""
    wanted: Sequence[tuple[Any, str, str, str]] = (
        (assumptions.main, "weights", "swrr", ""),
        (assumptions.main, "schedulers", "swrr", ""),
        (assumptions.today, "schedulers", "swrr-today", " with tor 0.4.9"),
    )
    for variant, comparison, prefix, around in wanted:
        yield swrr_charts.stem("over-time", comparison, prefix), swrr_charts.over_time(measured, variant, comparison, around)
        yield swrr_charts.stem("times", comparison, prefix), swrr_charts.times(measured, variant, comparison, around)
        yield swrr_charts.stem("all", comparison, prefix), swrr_charts.all_times(measured, variant, comparison, around)
