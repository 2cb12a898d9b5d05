"""The page of `onionlab.reproductions.swrr`: what was asked, which claims hold, the figures, what the answer depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import polars as pl

from onionlab import _core
from onionlab.quantity import format_duration, format_fixed, format_number
from onionlab.reproductions import claims_table
from onionlab.reproductions.claims import Comparison, Difference, Judged, comparisons, difference, per_comparison
from onionlab.reproductions.figures import NOTHING, level
from onionlab.reproductions.swrr import charts as swrr_charts
from onionlab.reproductions.swrr.assumptions import Assumptions, Variant
from onionlab.reproductions.swrr.measure import Measured
from onionlab.stats.intervals import CONFIDENCE, half_width

#: Metrics in words, with their unit and the places that are shown.
WORDS = {
    "throughput": ("throughput", "Mbit/s", 2),
    "timeouts": ("time-outs", "", 0),
    "first-byte": ("first byte", "s", 2),
    "last-byte": ("320 KiB", "s", 2),
}
#: Columns of the table of means: metric and places.
LEVELS = {
    "middles used, %": ("utilisation", 1),
    "a cell waits in a circuit queue there, ms": ("queue-wait", 1),
    "Mbit/s": ("throughput", 1),
    "time-outs": ("timeouts", 0),
    "of all downloads, %": ("timeout-share", 1),
    "first byte, s": ("first-byte", 2),
    "320 KiB, s": ("last-byte", 2),
}

#: Who is compared in short: the paper's scheduler and its rivals.
OURS, RIVALS = "SWRR linear", ("RR", "EWMA")

INTRODUCTION = """\
# SWRR: does a weighted round robin among circuits relieve congestion?

Lu et al., "SWRR: The Link Scheduling Algorithm Based on Weighted Round-Robin" (Computers, Materials & Continua, 2019), let a
relay serve the circuits of a channel in rounds: who waited long and has few cells queued is served more often in a round. They
try three weight functions of waiting time and queue length, choose the linear one, and hold it against tor's round robin (RR) and
EWMA on a network whose middle relays are reduced from 20 to 10 to 5. Their charts are one run each, without numbers. Here each is
a mean over sampled networks with its interval, every scheduler meets the same networks, starts, pauses and paths, and each
sentence of theirs is a comparison that was fixed before it was run.

This page was written by

    onionlab reproduce swrr{options}
"""

QUICK = """
> **This is the quick run:** {networks} sampled networks of {minutes:g} simulated minutes, of which {measured:g} are measured,
> instead of twenty networks of twenty minutes. It can say that everything works, how full the middles are, how the curves are
> shaped, and it can show large differences. It cannot settle the claims: with {networks} networks and {comparisons} comparisons
> an interval reaches {wide} standard deviations to either side (with twenty networks {narrow}), so most must stay undecided.
> "Undecided" here says nothing about SWRR. `onionlab reproduce swrr` makes the full one.
"""


def page(assumptions: Assumptions, measured: Measured, judged: Sequence[Judged], *, quick: bool) -> str:
    """The page as Markdown."""
    main = assumptions.main
    lines = [INTRODUCTION.format(options=" --quick" if quick else "")]
    if quick:
        lines.append(_quick(assumptions))
    lines += ["## In short", ""]
    lines += claims_table.short(judged)
    lines += _against(measured, main, "SWRR (linear) against RR and EWMA, as assumed")
    lines += ["## The claims", ""]
    rule = assumptions.rule
    lines += claims_table.explanation(rule, judged, f"{main.networks} networks", "Sizes are numbers of middles.")
    lines += claims_table.table(judged, WORDS)
    lines += ["## The figures", ""]
    for comparison in swrr_charts.COMPARISONS:
        lines += _identical(measured.of(main.name), main, comparison)
        for form in ("over-time", "times"):
            lines += _picture(swrr_charts.stem(form, comparison), comparison, form)
    lines += ["## What was measured", ""]
    lines += _levels(measured, main)
    lines += ["## What the answer depends on", ""]
    lines += _turns(assumptions, measured)
    lines += ["## With today's tor around it", ""]
    lines += _today(assumptions, measured)
    lines += ["## What the paper does not say", ""]
    lines += ["| what | chosen | why |", "| --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['chosen']} | {row['why']} |" for row in assumptions.rows]
    lines += ["", "## Runs", ""]
    lines += _runs(assumptions, measured)
    return "\n".join([*lines, ""])


def _quick(assumptions: Assumptions) -> str:
    main = assumptions.main
    confidence = per_comparison(assumptions.rule.confidence, comparisons(assumptions.claims))
    return QUICK.format(
        networks=main.networks,
        minutes=main.load.duration / 60,
        measured=(main.load.duration - main.load.measure_from) / 60,
        comparisons=comparisons(assumptions.claims),
        wide=format_number(float(half_width(1.0, main.networks, confidence)), 2),
        narrow=format_number(float(half_width(1.0, 20, confidence)), 2),
    )


def _against(measured: Measured, variant: Variant, heading: str) -> Iterator[str]:
    """SWRR against its rivals at every number of middles."""
    yield f"{heading} ({variant.networks} networks; difference in per cent of the other's mean, 95 % interval):"
    yield ""
    yield "| middles | against | throughput | time-outs | first byte | 320 KiB |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: |"
    for middles in variant.middles:
        for rival in RIVALS:
            if rival in variant.treatments:
                yield f"| {middles} | {rival} | {' | '.join(_rivalry(measured, variant, middles, rival))} |"
    yield ""


def _rivalry(measured: Measured, variant: Variant, middles: int, rival: str) -> Iterator[str]:
    figures = measured.of(variant.name)
    for metric in WORDS:
        yield _relative(difference(figures, Comparison(metric, OURS, rival, middles, None, "equal"), CONFIDENCE))


def _relative(found: Difference | None) -> str:
    """A difference in per cent with its interval; an asterisk where the interval is clear of zero."""
    if found is None or found.percent is None:
        return NOTHING
    text = f"{format_fixed(found.percent, 1, signed=True)} %"
    if found.interval.low is None or found.interval.high is None:
        return text
    low, high = (format_fixed(100 * bound / found.base, 1, signed=True) for bound in (found.interval.low, found.interval.high))
    return f"{text} ({low} to {high}){'*' if found.clear else ''}"


def _identical(figures: pl.DataFrame, variant: Variant, comparison: str) -> Iterator[str]:
    """A sentence for each pair of treatments whose runs have all figures in common in some network."""
    wide = figures.pivot(on="treatment", index=["middles", "network", "metric"], values="value")
    for one, other in combinations(swrr_charts.COMPARISONS[comparison], 2):
        same = wide.group_by("middles", "network").agg(equal=pl.col(one).eq_missing(pl.col(other)).all())
        counts = {middles: same.filter(pl.col("middles") == middles)["equal"].sum() for middles in variant.middles}
        if any(counts.values()):
            where = ", ".join(f"{count} of {variant.networks} at {middles} middles" for middles, count in counts.items())
            yield f"{one} and {other} have all figures to the last digit in common in some networks: {where}."
            yield ""


def _picture(stem: str, comparison: str, form: str, what: str = "") -> list[str]:
    words = {"over-time": "throughput and time-outs over time", "times": "times to the first and the last byte"}
    return [f"![{what}{swrr_charts.WORDS[comparison]}: {words[form]}]({stem}.svg)", ""]


def _levels(measured: Measured, variant: Variant) -> Iterator[str]:
    """Means of every treatment at every number of middles."""
    yield "Means over networks with their 95 % intervals; time-outs while it is measured; times are medians of web clients."
    yield ""
    head = ("middles", "scheduler", *LEVELS)
    yield f"| {' | '.join(head)} |"
    yield f"| ---: | --- |{' ---: |' * len(LEVELS)}"
    for middles in variant.middles:
        for treatment in variant.treatments:
            figures = measured.of(variant.name).filter(middles=middles, treatment=treatment)
            cells = [level(figures, places, metric=metric) for metric, places in LEVELS.values()]
            yield f"| {middles} | {treatment} | {' | '.join(cells)} |"
    yield ""


def _turns(assumptions: Assumptions, measured: Measured) -> Iterator[str]:
    first = assumptions.turns[0]
    middles = first.middles[0]
    yield (
        f"One assumption at a time is another, with {middles} middles and {first.networks} networks; the first line is the "
        f"experiment as assumed with all its {assumptions.main.networks} networks. SWRR (linear) against RR, and against EWMA "
        "where that was run: difference in per cent, 95 % interval, an asterisk where it excludes zero. Where tor's own limit is "
        "what is full, more than 100 % can be used: the limit counts what tor writes, use what the link carries, headers and all."
    )
    yield ""
    yield "| what is different | against | middles used | throughput | time-outs | first byte | 320 KiB |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for variant in (assumptions.main, *assumptions.turns):
        what = "nothing" if variant is assumptions.main else variant.what
        for rival in RIVALS:
            if rival in variant.treatments:
                used = level(measured.of(variant.name), 1, middles=middles, treatment=OURS, metric="utilisation")
                yield f"| {what} | {rival} | {used} % | {' | '.join(_rivalry(measured, variant, middles, rival))} |"
                what = ""
    yield ""


def _today(assumptions: Assumptions, measured: Measured) -> Iterator[str]:
    variant = assumptions.today
    yield (
        "The paper's tor wrote what sockets took, and had fixed windows. Today KIST asks the kernel how much a socket can send, "
        "so that cells wait where the scheduler of circuits still has a choice, and congestion control keeps queues short, so "
        f"that there is less to choose from. Here is {variant.what}; all else is as before."
    )
    yield ""
    yield from _against(measured, variant, "SWRR (linear) against RR and EWMA with today's tor")
    yield from _levels(measured, variant)
    for form in ("over-time", "times"):
        yield from _picture(swrr_charts.stem(form, "schedulers", "swrr-today"), "schedulers", form, "today's tor, ")


def _runs(assumptions: Assumptions, measured: Measured) -> Iterator[str]:
    main = assumptions.main
    runs = sum(len(one.middles) * one.networks * len(one.treatments) for one in assumptions.variants)
    yield (
        f"{runs} runs of {format_duration(main.load.duration)} of simulated time took {format_duration(measured.seconds)} one "
        "after the other, waiting for whatever else the machine did included. Networks are drawn from the seeds "
        f"{main.network.first_seed} to {main.network.first_seed + main.networks - 1}, one run in each; a run's records are the "
        "same bytes on any machine. "
        f"onionlab {_core.version()}, build {_core.build()}. What is finished is kept: the same command goes on where it stopped."
    )
