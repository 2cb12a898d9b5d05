"""PredicTor's evaluation made again, and what it leaves open.

"Optimization-Based Predictive Congestion Control for the Tor Network: Opportunities and Challenges" (ACM TOIT 2022), section 5:
one controller alone, the toy network, random networks, throttled relays, uncertain latencies, a mix of web and bulk, against tor
with one connection for each pair of relays and with one for each circuit. What the paper leaves open is in ``assumptions.toml``,
its claims as comparisons are in ``claims.toml``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import polars as pl

from onionlab.charts import export
from onionlab.files import write_text
from onionlab.reproductions import runs
from onionlab.reproductions.claims import judge
from onionlab.reproductions.figures import frame
from onionlab.reproductions.kept import Kept, Reduced, frames_together, kept_options, made_together, opened, together, work_off
from onionlab.reproductions.predictor import cells, measure
from onionlab.reproductions.predictor import charts as predictor_charts
from onionlab.reproductions.predictor import page as predictor_page
from onionlab.reproductions.predictor.asked import TOYS, Asked, read
from onionlab.reproductions.predictor.cells import Cell
from onionlab.reproductions.predictor.measured import Measured
from onionlab.reproductions.runs import Changes, Observe, watching
from onionlab.results.experiment import Experiment
from onionlab.running import runner

#: What the quick run of the toy network has instead.
QUICK_TOY = Changes({r"(?m)^seeds = .*$": "seeds = [1, 2, 3]"})


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
        The folder with ``assumptions.toml`` and the toy network's experiment files.
    out, docs : path
        Runs go below ``out``, the page and its charts into ``docs``. Finished runs are kept.
    observe : callable, optional
        Gives a context with an observer of all runs of one part.
    quick : bool
        Fewer and smaller networks, fewer seeds; its runs are kept apart.
    kept : path, optional
        A folder of random networks that are finished and reduced (`onionlab.reproductions.kept.Kept`), which are not run again.
    as_kept : bool
        What is kept is taken with whatever settings it was made, and none of it is run.
    """
    asked = read(experiments, quick=quick)
    store = opened(kept, measure.FORM, quick=quick, as_kept=as_kept)
    measured = run(asked, experiments, out / ("quick" if quick else "full"), observe, store, quick=quick)
    whole = read(experiments, quick=False) if quick else asked
    return write(asked, whole, measured, docs, quick=quick, options=kept_options(kept, as_kept=True) if as_kept else ""), []


def run(
    asked: Asked, experiments: Path, out: Path, observe: Observe | None, kept: Kept | None = None, *, quick: bool
) -> Measured:
    """Run what is missing, study by study, and reduce it."""
    toys = {}
    ahead = [runs.prepare(experiments / f"{stem}.toml", out, QUICK_TOY if quick else None) for stem in TOYS.values()]
    # Closed in the end, so that no run goes on where one of them cannot be measured.
    with watching(observe) as observer, closing(runner.run_all(ahead, observer=observer, whole=True)) as everything:
        for place, results in zip(TOYS, everything, strict=True):
            toys[place] = measure.toy(asked, place, runs.whole(results))
    made = {"toy": together(own for toy in toys.values() for own in toy.made)}
    networks: list[Reduced] = []
    for study, planned in zip(asked.studies, cells.plan(asked), strict=True):
        if not planned:
            continue
        with watching(observe) as observer:
            ahead, reduce = cells.prepare(asked, planned, out), partial(_reduced, asked, planned)
            found = list(work_off(ahead, reduce, observer, kept))
        networks += [measure.held_against_fair(asked, one, reduced) for one, reduced in zip(planned, found, strict=True)]
        made[study.name] = made_together(found)
    return Measured(
        toys,
        pl.concat([frame(figure for toy in toys.values() for figure in toy.figures), frames_together(networks, "figures")]),
        frames_together(networks, "rates"),
        made,
        [cost for one in networks for cost in measure.costs(one.facts)],
    )


def _reduced(asked: Asked, planned: Sequence[Cell], number: int, results: Experiment) -> Reduced:
    return measure.cell(asked, planned[number], results)


def write(asked: Asked, whole: Asked, measured: Measured, docs: Path, *, quick: bool, options: str = "") -> Path:
    """Write ``predictor.md`` and its charts as SVG and PNG into ``docs``.

    ``whole`` is what is asked without ``quick``; ``options`` stand behind ``onionlab reproduce predictor`` and ``--quick`` on it.
    """
    for name, specification in predictor_charts.drawings(asked, measured):
        export.write_with_data(docs, name, specification)
    judged = judge(measured.figures, asked.claims, asked.rule)
    path = docs / "predictor.md"
    write_text(path, predictor_page.page(asked, whole, measured, judged, quick=quick, options=options))
    return path
