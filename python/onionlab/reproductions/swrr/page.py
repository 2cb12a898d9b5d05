"""The page of `onionlab.reproductions.swrr`: what was asked, which claims hold, the figures, what the answer depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import polars as pl

from onionlab.quantity import format_duration, format_number
from onionlab.reproductions import claims_table
from onionlab.reproductions.claims import Judged, comparisons, per_comparison
from onionlab.reproductions.figures import level
from onionlab.reproductions.kept import code
from onionlab.reproductions.swrr import charts as swrr_charts
from onionlab.reproductions.swrr import matters, rivalry, turns
from onionlab.reproductions.swrr.assumptions import Assumptions, Variant
from onionlab.reproductions.swrr.measure import Measured
from onionlab.stats.intervals import half_width

#: Columns of the table of means: metric and places.
LEVELS = {
    "middles used, %": ("utilisation", 1),
    "a cell waits in a circuit queue there, ms": ("queue-wait", 1),
    "Mbit/s": ("throughput", 1),
    "time-outs": ("timeouts", 0),
    "of all downloads, %": ("timeout-share", 1),
    "first byte, s": ("first-byte", 2),
    "320 KiB, s": ("last-byte", 2),
    "320 KiB of all, s": ("last-byte-all", 2),
}

#: Forms of the charts, with what they show.
FORMS = {
    "over-time": "throughput and time-outs over time",
    "times": "times to the first and the last byte",
    "all": "share of all downloads done within a time",
}

DATA = (
    "The numbers behind each chart lie beside it as CSV. [swrr-figures.csv](swrr-figures.csv) has the figures of every run, "
    "[swrr-claims.csv](swrr-claims.csv) what each verdict rests on."
)

WEIGHTS = """\
The three weights do not use the choice alike. With T the microseconds since a circuit was served and D its queue in cells, the
linear one, 10000 T − D, goes by waiting time alone; D only breaks ties, which circuits served at one instant have. The
proportional one, (T + 1000) / (D + 1000), lets a queue of 256 cells take away a fifth: the order is another only where waits are
that near to each other, and the two often run alike to the last digit (above). The logarithmic one, log(T + 1) / log(D + 2), is
the only one that puts short queues first: 256 cells instead of one divide it by five, for which the wait would have to grow to
its fifth power."""

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


def page(assumptions: Assumptions, measured: Measured, judged: Sequence[Judged], *, quick: bool, options: str = "") -> str:
    """The page as Markdown; ``options`` are of its command line, beside ``--quick``."""
    main = assumptions.main
    lines = [INTRODUCTION.format(options=f"{' --quick' if quick else ''}{options}")]
    if quick:
        lines.append(_quick(assumptions))
    lines += ["## In short", ""]
    lines += claims_table.short(judged)
    rule = assumptions.rule
    lines += matters.answer(measured, main, rule, "as assumed")
    lines += matters.answer(measured, assumptions.today, rule, "with today's tor")
    lines += rivalry.table(measured, main, "SWRR (linear) against RR and EWMA, as assumed")
    lines += ["## The claims", ""]
    lines += matters.failures(assumptions, measured, judged)
    lines += claims_table.explanation(rule, judged, f"{main.networks} networks", "Sizes are numbers of middles.")
    lines += claims_table.table(judged, rivalry.WORDS)
    lines += ["## The figures", ""]
    for comparison in swrr_charts.COMPARISONS:
        lines += _identical(measured.of(main.name), main, comparison)
        for form in FORMS:
            lines += _picture(swrr_charts.stem(form, comparison), comparison, form)
    lines += [DATA, ""]
    lines += ["## What was measured", ""]
    lines += _levels(measured, main)
    lines += ["Whether it is steady while it is measured:", "", *matters.settled(measured, main)]
    lines += ["## How much there is to choose from", "", *matters.choice(measured, main), WEIGHTS, ""]
    lines += matters.capacity(measured, main)
    lines += ["## What the answer depends on", ""]
    lines += turns.section(assumptions, measured)
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
    return [f"![{what}{swrr_charts.WORDS[comparison]}: {FORMS[form]}]({stem}.svg)", ""]


def _levels(measured: Measured, variant: Variant) -> Iterator[str]:
    """Means of every treatment at every number of middles."""
    yield (
        "Means over networks with their 95 % intervals, as bounds where they would reach below zero or are those "
        "of a log-normal mean; "
        "time-outs while it is measured; times are medians over the web downloads that got a first byte, and over "
        "those complete in "
        f"time; *of all*: the mean over all web downloads, failures as {variant.load.timeout} s."
    )
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


def _today(assumptions: Assumptions, measured: Measured) -> Iterator[str]:
    variant = assumptions.today
    yield (
        "The paper's tor wrote what sockets took, and had fixed windows. Today KIST asks the kernel how much a socket can send, "
        "so that cells wait where the scheduler of circuits still has a choice, and congestion control keeps queues short, so "
        f"that there is less to choose from. Here is {variant.what}; all else is as before."
    )
    yield ""
    yield from matters.answer(measured, variant, assumptions.rule, "with today's tor")
    yield from matters.choice(measured, variant)
    other, known = turns.surely_other(measured, variant, assumptions.rule)
    changed, count = turns.verdict_changes(measured, assumptions, variant)
    ends = f"come out otherwise today: {'; '.join(changed)}" if changed else "none comes out otherwise today"
    yield (
        f"Beside the tor of then, on the same {variant.networks} networks: the ratio of SWRR to a rival is surely "
        f"another in {other} of "
        f"{known} figures, intervals at 95 % together. Of the {count} comparisons of the claims that can be made here {ends}."
    )
    yield ""
    yield from rivalry.table(measured, variant, "SWRR (linear) against RR and EWMA with today's tor")
    yield from _levels(measured, variant)
    for form in FORMS:
        yield from _picture(swrr_charts.stem(form, "schedulers", "swrr-today"), "schedulers", form, "today's tor, ")


def _runs(assumptions: Assumptions, measured: Measured) -> Iterator[str]:
    main = assumptions.main
    runs, seconds = sum(one.runs for one in measured.made), sum(one.seconds for one in measured.made)
    yield (
        f"{runs} runs of {format_duration(main.load.duration)} of simulated time took {format_duration(seconds, coarse=True)} of "
        "processor time, beside other work (without: `experiments/swrr/README.md`). Networks are drawn from the seeds "
        f"{main.network.first_seed} to {main.network.first_seed + main.networks - 1}, one run in each; a run's records are the "
        f"same bytes on any machine. {code(measured.made)}. What is finished is kept: the same command goes on where it stopped."
    )
