"""Held against real tor: three settings that tor 0.4.9.11 ran through in Shadow 3.3.0, with the same network and load here.

Tor's own code ran there, on Shadow's model of links and TCP. The experiments therefore set ``net = "shadow"``, and what remains
to differ is onionlab's tor. `required` says which figures must agree; the others are shown beside theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from onionlab import runner
from onionlab.charts.export import to_png, to_svg
from onionlab.errors import ResultsError, RunError
from onionlab.files import write_bytes, write_text
from onionlab.quantity import format_fixed, format_size
from onionlab.reproductions import shadow_tor_charts
from onionlab.reproductions.published import METRICS, Case, Published, Quantiles, label, load_published, load_samples, quantiles

#: Bytes that the reference's server sends before the body; a transfer in the experiment files includes them.
HEADERS = 109

#: Largest relative difference of a median that still counts as agreement.
TOLERANCE = 0.02

Observe = Callable[[], AbstractContextManager[runner.Observer]]


@dataclass(frozen=True)
class Comparison:
    """One experiment, ours and theirs.

    Attributes
    ----------
    case
        The setting, with their published quantiles.
    ours
        Every transfer here: ``bytes`` (without headers), ``ttfb``, ``ttlb`` (seconds).
    theirs
        Every transfer there, or None where only quantiles are at hand.
    version, seeds
        What made ours.
    """

    case: Case
    ours: pl.DataFrame
    theirs: pl.DataFrame | None
    version: str
    seeds: tuple[int, ...]

    @property
    def figures(self) -> dict[tuple[int, str], Quantiles]:
        """Quantiles of ours, by size and metric."""
        return quantiles(self.ours)

    def difference(self, size: int, metric: str) -> float:
        """Our median over theirs, less one."""
        return self.figures[size, metric].median / self.case.figures[size, metric].median - 1


def reproduce(
    experiments: Path, reference: Path | None, out: Path, docs: Path, observe: Observe | None = None
) -> tuple[Path, list[str]]:
    """Run the experiments and write the page; return its path and what had to agree and does not.

    Parameters
    ----------
    experiments : path
        The folder with the experiment files and ``published.json``.
    reference : path or None
        The folder with the reference's own measurements, whose ``results.csv`` are read where they exist.
    out, docs : path
        Results directories go below ``out``, the page and its charts into ``docs``.
    observe : callable, optional
        Gives a context with an observer for each experiment.
    """
    published = load_published(experiments / "published.json")
    comparisons = measure(experiments, published, reference, out, observe)
    return write(comparisons, published.source, docs), violations(comparisons)


def required(size: int, metric: str) -> bool:
    """Whether a median must agree: times to first byte, and to the last byte of 50 kB, which no queue and no loss disturbs."""
    return metric == "ttfb" or size == 50_000


def measure(
    experiments: Path, published: Published, reference: Path | None, out: Path, observe: Observe | None = None
) -> list[Comparison]:
    """Run the experiments of all published cases; the parameters are those of `reproduce`.

    Raises
    ------
    RunError
        If a transfer did not complete.
    """
    comparisons = []
    for case in published.cases:
        with observe() if observe is not None else nullcontext(runner.Silent()) as observer:
            results = runner.run(experiments / f"{case.name}.toml", out / case.name, fresh=True, report=False, observer=observer)
        rows = results.measured
        if rows.filter(pl.col("outcome") != "ok").height:
            raise RunError(f"{case.name}: a transfer did not complete; {results.directory} holds the records")
        ours = rows.select(bytes=pl.col("size_bytes").cast(pl.Int64) - HEADERS, ttfb="ttfb", ttlb="ttlb")
        if set(ours["bytes"]) != {size for size, _ in case.figures}:
            raise ResultsError(f"{case.name}.toml and published.json differ in the sizes of transfers")
        theirs = load_samples(reference / case.folder) if reference is not None else None
        comparisons.append(Comparison(case, ours, theirs, results.plan.version, tuple(results.plan.seeds)))
    return comparisons


def violations(comparisons: list[Comparison]) -> list[str]:
    """What had to agree and does not, a sentence each."""
    return [
        f"{comparison.case.name}: {label(size, metric)} differs by {_percent(comparison.difference(size, metric))}"
        for comparison in comparisons
        for size, metric in comparison.case.figures
        if required(size, metric) and abs(comparison.difference(size, metric)) > TOLERANCE
    ]


def write(comparisons: list[Comparison], source: str, docs: Path) -> Path:
    """Write ``shadow-tor.md`` and a chart of each experiment as SVG and PNG into ``docs``; return the page."""
    for comparison in comparisons:
        svg = to_svg(shadow_tor_charts.chart(comparison))
        write_text(docs / f"{_stem(comparison)}.svg", svg)
        write_bytes(docs / f"{_stem(comparison)}.png", to_png(svg))
    path = docs / "shadow-tor.md"
    write_text(path, page(comparisons, source))
    return path


def page(comparisons: list[Comparison], source: str) -> str:
    """The page as Markdown."""
    broken = violations(comparisons)
    verdict = (
        "All of them do." if not broken else "**Not all of them do:**\n\n" + "\n".join(f"- {sentence}" for sentence in broken)
    )
    seeds = ", ".join(map(str, comparisons[0].seeds))
    return "\n".join(
        [
            "# Real tor in Shadow",
            "",
            "Three settings in which real tor was measured, and the same settings here.",
            "",
            f"- Theirs: {source}.",
            f"- Ours: onionlab {comparisons[0].version}, seed {seeds}, the files in `experiments/shadow-tor`, links and TCP as",
            '  Shadow models them (`net = "shadow"`). What the measurement leaves open is in `assumptions.toml` there.',
            "",
            "This page was written by",
            "",
            "    onionlab reproduce shadow-tor",
            "",
            "Times count from the moment at which the client opens its stream. A difference is our median over theirs, less one.",
            "Theirs have a resolution of half a millisecond to a millisecond, and are one run each; here no random value",
            "enters, and every seed gives the same times. Where a queue fills, what CoDel drops depends on small things, and",
            "transfers of one size lie several percent apart, in their run as in ours.",
            "",
            f"**Medians marked with ● must agree within {100 * TOLERANCE:.0f} %.** {verdict}",
            "",
            _widest(comparisons),
            *(line for comparison in comparisons for line in _section(comparison)),
            "",
        ]
    )


def _widest(comparisons: list[Comparison]) -> str:
    """Where the slow transfers differ most."""
    differences = [
        (comparison.figures[figure].p90 / theirs.p90 - 1, comparison.case.name, label(*figure))
        for comparison in comparisons
        for figure, theirs in comparison.case.figures.items()
    ]
    difference, name, what = max(differences, key=lambda found: abs(found[0]))
    return f"Of the 90th percentiles, that of {name}, {what}, differs most: {_percent(difference)}."


def _section(comparison: Comparison) -> list[str]:
    """One experiment: its setting, its table, its chart."""
    case = comparison.case
    lines = [
        "",
        f"## {case.name}",
        "",
        f"{case.setting[:1].upper()}{case.setting[1:]}.",
        "",
        "| time to | of | transfers, theirs / ours | median, theirs | median, ours | difference "
        "| p10 – p90 (max), theirs | p10 – p90 (max), ours |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (size, metric), theirs in case.figures.items():
        ours = comparison.figures[size, metric]
        mark = " ●" if required(size, metric) else ""
        cells = (
            METRICS[metric],
            format_size(size),
            f"{theirs.count} / {ours.count}",
            f"{_seconds(theirs.median)} s",
            f"{_seconds(ours.median)} s",
            f"{_percent(comparison.difference(size, metric))}{mark}",
            _range(theirs),
            _range(ours),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", f"![Times of {case.name}, ours beside theirs]({_stem(comparison)}.svg)"]


def _stem(comparison: Comparison) -> str:
    return f"shadow-tor-{comparison.case.name}"


def _seconds(value: float) -> str:
    return format_fixed(value, 4)


def _range(values: Quantiles) -> str:
    return f"{_seconds(values.p10)} – {_seconds(values.p90)} ({_seconds(values.max)})"


def _percent(share: float) -> str:
    return f"{format_fixed(100 * share, 1, signed=True)} %"
