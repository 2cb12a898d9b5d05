"""Held against real tor: settings that tor 0.4.9.11 ran through in Shadow 3.3.0, with the same network and load here.

Tor's own code ran there, on Shadow's model of links and TCP. The treatment ``shadow`` has that model, so that what remains to
differ is onionlab's tor; the treatment ``linux`` stands beside it. `onionlab.reproductions.agreement` has the rules.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from onionlab.charts import export
from onionlab.errors import ResultsError
from onionlab.files import write_text
from onionlab.quantity import format_fixed
from onionlab.reproductions import beside
from onionlab.reproductions.agreement import Verdict, judge
from onionlab.reproductions.kept import Made
from onionlab.reproductions.published import Case, Published, Quantiles, label, load_published, load_samples, quantiles
from onionlab.reproductions.runs import Changes, Observe, watching, whole, with_changes
from onionlab.reproductions.shadow_tor import charts as shadow_tor_charts
from onionlab.reproductions.shadow_tor import page as shadow_tor_page
from onionlab.reproductions.shadow_tor import vegas_trace
from onionlab.results.experiment import Experiment
from onionlab.running import runner

#: The treatment that is judged, and the one beside it.
SHADOW, LINUX = "shadow", "linux"

#: How many seeds a full reproduction runs.
SEEDS = 200


@dataclass(frozen=True)
class Comparison:
    """One experiment, ours and theirs.

    Attributes
    ----------
    case
        The setting, with their published quantiles.
    ours
        Every completed transfer here: ``treatment``, ``seed``, ``bytes``, ``ttfb``, ``ttlb`` (seconds).
    theirs
        Every transfer there, or None where only quantiles are at hand.
    made, seeds
        By which code ours were made, and from which seeds.
    our_trace, their_trace
        Congestion control at the exit, where it was recorded.
    """

    case: Case
    ours: pl.DataFrame
    theirs: pl.DataFrame | None
    made: tuple[Made, ...]
    seeds: tuple[int, ...]
    our_trace: pl.DataFrame | None = None
    their_trace: pl.DataFrame | None = None

    def of(self, treatment: str) -> pl.DataFrame:
        """Our transfers under one treatment."""
        return self.ours.filter(pl.col("treatment") == treatment)

    @cached_property
    def figures(self) -> dict[str, dict[tuple[int, str], Quantiles]]:
        """Quantiles of ours by treatment, then by size and metric."""
        return {treatment: quantiles(self.of(treatment)) for treatment in (SHADOW, LINUX)}

    @cached_property
    def verdicts(self) -> dict[tuple[int, str], Verdict]:
        """Every figure judged."""
        found = {}
        for (size, metric), theirs in self.case.figures.items():
            ours = self.of(SHADOW).filter(pl.col("bytes") == size).select("seed", time=metric)
            their_times = None if self.theirs is None else self.theirs.filter(pl.col("bytes") == size)[metric]
            found[size, metric] = judge(theirs, their_times, ours, tight(self.case.name, size, metric))
        return found


def tight(case: str, size: int, metric: str) -> bool:
    """Whether nothing queues: on the empty network, times to first byte and to the last of 50 kB."""
    return case.startswith("e0") and (metric == "ttfb" or size == 50_000)


def reproduce(
    experiments: Path,
    reference: Path | None,
    out: Path,
    docs: Path,
    observe: Observe | None = None,
    seeds: int = SEEDS,
) -> tuple[Path, list[str]]:
    """Run the experiments and write the page; return its path and what differs without a named reason.

    Parameters
    ----------
    experiments : path
        The folder with the experiment files, ``published.json`` and ``differences.toml``.
    reference : path or None
        The folder with the reference's own measurements, which are read where they exist.
    out, docs : path
        Results directories go below ``out``, the page and its charts into ``docs``.
    observe : callable, optional
        Gives a context with an observer for each experiment.
    seeds : int
        How many seeds each experiment is run with. Finished runs in ``out`` are kept.
    """
    if reference is not None and not reference.is_dir():
        raise ResultsError(f"the reference's measurements are to be in a folder, which {reference} is not")
    published = load_published(experiments / "published.json")
    reasons = load_reasons(experiments / "differences.toml")
    comparisons = measure(experiments, published, reference, out, observe, seeds)
    return write(comparisons, published.source, reasons, docs), violations(comparisons, reasons)


def load_reasons(path: Path) -> shadow_tor_page.Reasons:
    """Read ``differences.toml``: the mechanism behind each figure that differs, and what sets the profile ``linux`` apart."""
    with beside.checked(f"{path} is not a list of differences"):
        content = beside.toml(path)
        mechanisms = {(row["experiment"], row["bytes"], row["metric"]): row["mechanism"] for row in content.get("difference", [])}
        linux = {row["experiment"]: row["why"] for row in content.get("linux", [])}
    return shadow_tor_page.Reasons(mechanisms, linux)


def with_seeds(file: Path, count: int) -> str:
    """The text of an experiment file with seeds 1 to ``count``, which it has not yet; raises `ResultsError` otherwise."""
    line = f"seeds = [{', '.join(map(str, range(1, count + 1)))}]\n"
    return with_changes(file.read_text(encoding="utf-8"), Changes({r"(?m)^\[network\]$": f"{line}\n[network]"}), file)


def measure(
    experiments: Path,
    published: Published,
    reference: Path | None,
    out: Path,
    observe: Observe | None = None,
    seeds: int = SEEDS,
) -> list[Comparison]:
    """Run the experiments of all published cases; the parameters are those of `reproduce`.

    Raises
    ------
    RunError
        If a run did not finish.
    """
    ahead = []
    for case in published.cases:
        file = out / f"{case.name}.toml"
        write_text(file, with_seeds(experiments / file.name, seeds))
        ahead.append((case.name, file, out / case.name))
    # Closed in the end, so that no run goes on where one of them cannot be compared.
    with watching(observe) as observer, closing(runner.run_all(ahead, observer=observer, whole=True)) as everything:
        return [compare(case, whole(results), reference) for case, results in zip(published.cases, everything, strict=True)]


def compare(case: Case, results: Experiment, reference: Path | None) -> Comparison:
    """Ours of a case beside theirs."""
    done = results.measured.filter(pl.col("outcome") == "ok")
    ours = done.select("treatment", "seed", bytes=pl.col("size_bytes").cast(pl.Int64), ttfb="ttfb", ttlb="ttlb")
    if set(ours["bytes"]) != {size for size, _ in case.figures}:
        raise ResultsError(f"{case.name}.toml and published.json differ in the sizes of transfers")
    return Comparison(
        case,
        ours,
        load_samples(reference / case.folder) if reference is not None else None,
        Made.of(results),
        tuple(results.plan.seeds),
        vegas_trace.load_ours(results, SHADOW),
        vegas_trace.load_theirs(reference / case.folder) if reference is not None else None,
    )


def violations(comparisons: list[Comparison], reasons: shadow_tor_page.Reasons) -> list[str]:
    """What differs and has no mechanism named, a sentence each."""
    return [
        f"{one.case.name}: {label(*figure)} differs by {format_fixed(100 * verdict.difference, 1, signed=True)} %, "
        "and nothing says why"
        for one in comparisons
        for figure, verdict in one.verdicts.items()
        if verdict.within is False and (one.case.name, *figure) not in reasons.mechanisms
    ]


def write(comparisons: list[Comparison], source: str, reasons: shadow_tor_page.Reasons, docs: Path) -> Path:
    """Write ``shadow-tor.md`` and the charts of each experiment as SVG and PNG into ``docs``; return the page."""
    for comparison in comparisons:
        for stem, chart in shadow_tor_charts.charts(comparison).items():
            export.write(docs, stem, chart)
    path = docs / "shadow-tor.md"
    write_text(path, shadow_tor_page.page(comparisons, source, reasons))
    return path
