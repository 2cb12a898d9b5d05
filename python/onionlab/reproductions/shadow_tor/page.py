"""The page of `onionlab.reproductions.shadow_tor`: what was run, what agrees, what does not and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from onionlab.quantity import format_fixed, format_size
from onionlab.reproductions.agreement import LEAST_P, NARROW, TIGHT, TOLERANCE, Verdict
from onionlab.reproductions.kept import code, together
from onionlab.reproductions.published import METRICS, Quantiles, label
from onionlab.reproductions.shadow_tor import charts as shadow_tor_charts
from onionlab.reproductions.shadow_tor.vegas_trace import QUANTITIES, RUNS

if TYPE_CHECKING:
    from onionlab.reproductions.shadow_tor import Comparison


@dataclass(frozen=True)
class Reasons:
    """Why figures differ: by experiment, size and metric; and why ``linux`` differs from ``shadow``, by experiment."""

    mechanisms: dict[tuple[str, int, str], str]
    linux: dict[str, str]


def page(comparisons: list[Comparison], source: str, reasons: Reasons) -> str:
    """The page as Markdown."""
    verdicts = [(one, figure, verdict) for one in comparisons for figure, verdict in one.verdicts.items()]
    within = sum(verdict.within is True for _, _, verdict in verdicts)
    outside = [(one, figure, verdict) for one, figure, verdict in verdicts if verdict.within is False]
    open_ = sum(verdict.within is None for _, _, verdict in verdicts)
    counts = [len(one.seeds) for one in comparisons]
    seeds = f"{counts[0]} seeds" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)} seeds"
    ours = code(together(made for one in comparisons for made in one.made))
    command = f"onionlab reproduce shadow-tor --seeds {counts[0]}"
    lines = [
        "# Real tor in Shadow",
        "",
        "Settings in which real tor was measured, and the same settings here.",
        "",
        f"- Theirs: {source}.",
        f"- Ours: {ours}; {seeds} of each setting, the files in `experiments/shadow-tor`. Treatment",
        "  `shadow` has links and TCP as Shadow models them and is what is judged; `linux` has them as Linux does and",
        "  stands beside it. What the measurement leaves open, and what a seed varies, is in `assumptions.toml` there.",
        "",
        "This page was written by",
        "",
        f"    {command}",
        "",
        "Times count from the moment at which the client opens its stream. Theirs have a resolution of half a millisecond to",
        f"a millisecond. Where theirs hardly vary (90th over 10th percentile below {NARROW}) medians are compared: within",
        f"{100 * TOLERANCE:.0f} %, and {100 * TIGHT:.0f} % for the times on the empty network that no queue disturbs. Elsewhere",
        "the distributions are, by a two-sample Kolmogorov-Smirnov test of their one run against all runs here",
        f"(p above {LEAST_P}). That test takes transfers for independent. Transfers of one run are not: they share connections,",
        "whose windows remember losses, and p is too small where they depend on each other. So the share of our runs whose",
        "median lies as far out as theirs is given too (two-sided, *runs*). With few random numbers in a setting several seeds",
        "may come to the very same times: how often a time comes out is taken from all runs, how much is known of it from",
        "those that differ.",
        "",
        f"**Of {len(verdicts)} figures {within} are within these limits and {len(outside)} are not"
        + (f"; {open_} cannot be judged without the reference's transfers" if open_ else "")
        + ".**",
    ]
    if outside:
        lines += ["", "| outside | of | by | mechanism |", "| --- | --- | ---: | --- |"]
        for one, figure, verdict in outside:
            reason = reasons.mechanisms.get((one.case.name, *figure), "**not known**")
            lines.append(f"| {one.case.name} | {label(*figure)} | {_measure(verdict)} | {reason} |")
    for one in comparisons:
        lines += _section(one, reasons)
    return "\n".join([*lines, ""])


def _section(one: Comparison, reasons: Reasons) -> Iterator[str]:
    """One experiment: its setting, its table, its charts, what Linux changes."""
    case = one.case
    yield from ("", f"## {case.name}", "", f"{case.setting[:1].upper()}{case.setting[1:]}. {len(one.seeds)} seeds.", "")
    yield (
        "| time to | of | transfers, theirs / ours of different runs | theirs: median (p10 – p90) "
        "| `shadow`: median [95 %] (p10 – p90) | difference | p | runs | | `linux`: median (p10 – p90) |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |"
    for (size, metric), theirs in case.figures.items():
        ours, beside = one.figures["shadow"][size, metric], one.figures["linux"][size, metric]
        verdict = one.verdicts[size, metric]
        alone = verdict.runs == 1
        interval = "" if alone else f"[{_seconds(verdict.low)}, {_seconds(verdict.high)}] "
        cells = (
            METRICS[metric],
            format_size(size),
            f"{theirs.count} / {ours.count} of {verdict.runs}",
            f"{_seconds(theirs.median)} s ({_range(theirs)})",
            f"{_seconds(ours.median)} s {interval}({_range(ours)})",
            _bold(_percent(verdict.difference), verdict.narrow),
            "" if verdict.p is None else _bold(_probability(verdict.p), not verdict.narrow),
            "" if alone else _probability(verdict.p_of_runs),
            {True: "within", False: "**outside**", None: "open"}[verdict.within],
            f"{_seconds(beside.median)} s ({_range(beside)})",
        )
        yield f"| {' | '.join(cells)} |"
    yield from ("", "Bold: what is judged.")
    yield from _certain(one)
    if case.name in reasons.linux:
        yield from ("", f"`linux`: {reasons.linux[case.name]}")
    if one.our_trace is not None and one.their_trace is not None:
        yield from _trace(one.their_trace, one.our_trace, len(one.seeds))
    for stem in shadow_tor_charts.stems(one):
        yield from ("", f"![{case.name}, ours beside theirs]({stem}.svg)")


def _certain(one: Comparison) -> Iterator[str]:
    """Which times no seed changes."""
    certain = [label(*figure) for figure, verdict in one.verdicts.items() if verdict.runs == 1]
    if certain and len(one.seeds) > 1:
        times = "these times" if len(certain) == len(one.verdicts) else f"the times to {', '.join(certain)}"
        yield (
            f"No random number takes part in {times} under `shadow`: all {len(one.seeds)} seeds give the very same, so that they "
            "count as one run and have no interval."
        )


def _trace(theirs: pl.DataFrame, ours: pl.DataFrame, seeds: int) -> Iterator[str]:
    """Congestion control at the exit: medians of all rows."""
    yield from ("", f"Congestion control at the exit, a row for each SENDME, ours of {min(seeds, RUNS)} runs:", "")
    yield "| median (p10 – p90) | theirs | `shadow` | difference of the medians |"
    yield "| --- | ---: | ---: | ---: |"
    for name, unit in QUANTITIES.items():
        cells = [Quantiles.of(frame[name]) for frame in (theirs, ours)]
        texts = [f"{value.median:.0f} ({value.p10:.0f} – {value.p90:.0f}) {unit}" for value in cells]
        difference = _percent(cells[1].median / cells[0].median - 1)
        yield f"| {shadow_tor_charts.TRACED[name]} | {texts[0]} | {texts[1]} | {difference} |"


def _measure(verdict: Verdict) -> str:
    return _percent(verdict.difference) if verdict.narrow or verdict.p is None else f"p = {_probability(verdict.p)}"


def _bold(text: str, judged: bool) -> str:
    return f"**{text}**" if judged else text


def _probability(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else format_fixed(value, 4)


def _seconds(value: float) -> str:
    return format_fixed(value, 4)


def _range(values: Quantiles) -> str:
    return f"{_seconds(values.p10)} – {_seconds(values.p90)}"


def _percent(share: float) -> str:
    return f"{format_fixed(100 * share, 1, signed=True)} %"
