"""Active circuit switching: the experiments of both papers, with an answer to each of their claims.

Kale, Ohzahata, Wu and Kato, "Reducing Congestion in the Tor Network with Circuit Switching" (JIP 23(5), 2015) on a testbed and
partly on the live network, and "Emulation Evaluations of Tor Schedulers with Active Circuit Switching" (2017) on a simulated
network: an entry moves bulky circuits away from a congested outbuf. What the papers leave open is in ``assumptions.toml``, their
claims as comparisons are in ``claims.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.charts import export
from onionlab.files import write_text
from onionlab.reproductions import beside, runs
from onionlab.reproductions.claims import Claim, Judged, Rule, judge, read_claims
from onionlab.reproductions.figures import SCHEMA
from onionlab.reproductions.kept import Kept, Reduced, kept_options, opened, work_off
from onionlab.reproductions.published import load_differences
from onionlab.reproductions.switching import charts as switching_charts
from onionlab.reproductions.switching import further, live, network, testbeds, thresholds
from onionlab.reproductions.switching import page as switching_page
from onionlab.reproductions.switching.study import FORM, Study
from onionlab.results.experiment import Experiment


@dataclass(frozen=True)
class Asked:
    """The files beside the experiments, read and checked.

    Attributes
    ----------
    assumptions
        What the papers leave open: ``what``, ``chosen``, ``why``.
    published
        Their numbers.
    claims, rule
        What they claim, and when that holds.
    differences
        Mechanisms behind what comes out otherwise here: ``what``, ``mechanism``, ``evidence``.
    """

    assumptions: list[dict[str, str]]
    published: Mapping[str, Any]
    claims: tuple[Claim, ...]
    rule: Rule
    differences: list[dict[str, str]]


@dataclass(frozen=True)
class Measured:
    """All experiments, reduced: the testbed, where thresholds decide on it, over live relays, the network, what is left open."""

    bed: Study
    thresholds: Study
    live: Study
    network: Study
    others: further.Measured


def read(experiments: Path) -> Asked:
    """Read the files of ``experiments/switching``; one that is not as it must be is refused."""
    with beside.checked(f"{experiments} has not the files of this reproduction"):
        assumptions = beside.assumptions(beside.toml(experiments / "assumptions.toml"))
        claims = beside.toml(experiments / "claims.toml")
        published = beside.published(experiments / "published.json")
        verdict = claims["verdict"]
        return Asked(
            assumptions=assumptions,
            published={paper: published[paper] for paper in ("testbed", "live", "network")},
            claims=read_claims(
                claims["claim"],
                {*testbeds.METRICS, *network.METRICS},
                {*testbeds.TREATMENTS, *thresholds.TREATMENTS, *network.TREATMENTS},
                {*testbeds.PLACES, thresholds.PLACE, live.PLACE, *network.PLACES},
            ),
            rule=Rule(
                float(verdict["confidence"]),
                float(verdict["margin"]),
                {"drop-rate": float(verdict["least-drop-rate"])},
                place="place",
                replicate="replicate",
                nothing={"queued": float(verdict["nothing-queued"])},
            ),
            differences=load_differences(experiments / "differences.toml"),
        )


def reproduce(
    experiments: Path,
    out: Path,
    docs: Path,
    observe: runs.Observe | None = None,
    *,
    quick: bool = False,
    kept: Path | None = None,
    as_kept: bool = False,
) -> tuple[Path, list[str]]:
    """Run what is missing and write the page; return its path and no complaints: a claim that does not hold is a result.

    Parameters
    ----------
    experiments : path
        The folder with the experiment files.
    out, docs : path
        Runs go below ``out``, the page and its charts into ``docs``. Finished runs are kept.
    observe : callable, optional
        Gives a context with an observer of all runs.
    quick : bool
        Fewer and shorter runs of all but the testbed of the claims; they are kept apart.
    kept : path, optional
        A folder of experiments that are finished and reduced (`onionlab.reproductions.kept.Kept`), which are not run again.
    as_kept : bool
        What is kept is taken with whatever settings it was made, and none of it is run.
    """
    asked = read(experiments)
    measured = run(experiments, out, observe, quick=quick, kept=opened(kept, FORM, quick=quick, as_kept=as_kept))
    judged = judge_all(asked, measured)
    for name, specification in switching_charts.drawings(
        measured.bed, measured.live, measured.network, asked.published["network"]
    ):
        export.write_with_data(docs, name, specification)
    path = docs / "switching.md"
    options = kept_options(kept, as_kept=True) if as_kept else ""
    write_text(path, switching_page.page(asked, measured, judged, quick=quick, options=options))
    return path, []


def run(experiments: Path, out: Path, observe: runs.Observe | None, *, quick: bool, kept: Kept | None = None) -> Measured:
    """Run what is missing, and reduce it."""
    folder = out / ("quick" if quick else "full")
    measures = {"testbed": testbeds.measure, "thresholds": thresholds.measure, "live": live.measure, "network": network.measure}
    planned = [
        (stem, measure, ahead)
        for stem, measure in (*measures.items(), *further.asked())
        for ahead in prepare(experiments / f"{stem}.toml", out / "full" if stem == "testbed" else folder, quick=quick)
    ]

    def reduce(number: int, experiment: Experiment) -> Reduced:
        _, measure, _ = planned[number]
        return measure(experiment).reduced()

    with runs.watching(observe) as observer:
        reduced = list(work_off([ahead for _, _, ahead in planned], reduce, observer, kept))
    parts: dict[str, list[Study]] = {}
    for (stem, _, _), one in zip(planned, reduced, strict=True):
        parts.setdefault(stem, []).append(Study.read(one))
    found = {stem: Study.together(own) for stem, own in parts.items()}
    return Measured(
        bed=found["testbed"],
        thresholds=found["thresholds"],
        live=found["live"],
        network=found["network"],
        others=further.Measured.of(found),
    )


def prepare(file: Path, out: Path, *, quick: bool) -> list[runs.Ahead]:
    """What is to be run of a file: it, or an experiment of its own for each network that it samples."""
    if file.stem in network.SAMPLED:
        return runs.by_network(file, out, network.QUICK if quick else None)
    on_network = network.QUICK if file.stem in network.BY_HAND else testbeds.QUICK
    return [runs.prepare(file, out, on_network if quick and file.stem != "testbed" else None)]


def judge_all(asked: Asked, measured: Measured) -> list[Judged]:
    """Every claim, with one correction for all of them together."""
    bed = measured.bed.figures
    of_thresholds = measured.thresholds.figures.filter(pl.col("place") == thresholds.PLACE)
    figures = pl.concat([bed, seconds(bed), of_thresholds, measured.live.figures, measured.network.figures])
    return judge(figures, asked.claims, asked.rule)


def seconds(figures: pl.DataFrame) -> pl.DataFrame:
    """Beside each time to switch the second that the papers hold against it."""
    times = figures.filter(metric="switch-time").select(
        pl.lit(testbeds.SECOND).alias("place"), "treatment", "replicate", "metric", pl.lit(1.0).alias("value")
    )
    return times.unique(maintain_order=True).select(list(SCHEMA))
