"""SWRR against its rivals: the differences that tables of `onionlab.reproductions.swrr` show, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from onionlab.quantity import format_fixed
from onionlab.reproductions.claims import Comparison, Difference, Rule, difference, per_comparison, verdict
from onionlab.reproductions.figures import NOTHING
from onionlab.reproductions.scales import HOLDS, SLIGHTLY
from onionlab.reproductions.swrr.assumptions import Variant
from onionlab.reproductions.swrr.measure import Measured
from onionlab.stats.intervals import CONFIDENCE

#: The paper's scheduler and its rivals.
OURS, RIVALS = "SWRR linear", ("RR", "EWMA")

#: Metrics of claims in words, with their unit and the places that are shown.
WORDS = {
    "throughput": ("throughput", "Mbit/s", 2),
    "timeouts": ("time-outs", "", 0),
    "first-byte": ("first byte", "s", 2),
    "last-byte": ("320 KiB", "s", 2),
    "first-byte-all": ("first byte of all", "s", 2),
    "last-byte-all": ("320 KiB of all", "s", 2),
}

#: What tables compare, with its heading.
COMPARED = {
    "throughput": "throughput",
    "timeouts": "time-outs",
    "first-byte": "first byte",
    "last-byte": "320 KiB",
    "last-byte-all": "320 KiB of all",
}

#: The figures of which more is better; of all others less is.
MORE_IS_BETTER = {"throughput"}


@dataclass(frozen=True)
class Effect:
    """A difference of SWRR to a rival, with the interval that holds for all of its table together.

    ``sure``: which side of zero it is on is known. ``large``: it surely exceeds what counts as none. ``alike``: it surely does
    not.
    """

    middles: int
    rival: str
    metric: str
    found: Difference
    sure: bool
    large: bool
    alike: bool

    @property
    def better(self) -> bool:
        """Whether SWRR is the better one of the two, going by the mean."""
        return (self.found.interval.mean > 0) == (self.metric in MORE_IS_BETTER)

    @property
    def words(self) -> str:
        """In a sentence."""
        return f"{COMPARED[self.metric]} against {self.rival} with {self.middles} middles {relative(self.found, marked=False)}"


def pairs(variant: Variant) -> list[tuple[int, str, str]]:
    """Middles, rival and metric of each difference of a table."""
    rivals = [rival for rival in RIVALS if rival in variant.treatments]
    return [(middles, rival, metric) for middles in variant.middles for rival in rivals for metric in COMPARED]


def effects(figures: pl.DataFrame, variant: Variant, rule: Rule) -> list[Effect]:
    """Every difference of a variant's table, with intervals that hold together."""
    wanted = pairs(variant)
    confidence = per_comparison(rule.confidence, len(wanted))
    found = []
    for middles, rival, metric in wanted:
        part = Comparison(metric, OURS, rival, middles, None, "equal")
        one = difference(figures, part, confidence, rule)
        if one is None or not one.base:
            continue
        sense = "greater" if one.interval.mean > 0 else "less"
        beyond = Comparison(metric, OURS, rival, middles, None, sense, by=rule.margin)
        towards = Comparison(metric, OURS, rival, middles, None, sense)
        found.append(
            Effect(
                middles,
                rival,
                metric,
                one,
                verdict(towards, one, rule) in (HOLDS, SLIGHTLY),
                verdict(beyond, one, rule) == HOLDS,
                verdict(part, one, rule) == HOLDS,
            )
        )
    return found


def table(measured: Measured, variant: Variant, heading: str) -> Iterator[str]:
    """SWRR against its rivals at every number of middles."""
    yield (
        f"{heading} ({variant.networks} networks; difference in per cent of the other's mean, 95 % interval, an asterisk "
        "where it is clear of zero, and the ratio of one where networks differ widely; *of all*: failures count as "
        f"{variant.load.timeout} s):"
    )
    yield ""
    yield f"| middles | against | {' | '.join(COMPARED.values())} |"
    yield f"| ---: | --- |{' ---: |' * len(COMPARED)}"
    for middles in variant.middles:
        for rival in RIVALS:
            if rival in variant.treatments:
                yield f"| {middles} | {rival} | {' | '.join(cells(measured.of(variant.name), middles, rival))} |"
    yield ""


def cells(figures: pl.DataFrame, middles: int, rival: str) -> Iterator[str]:
    """One row of differences."""
    for metric in COMPARED:
        yield relative(difference(figures, Comparison(metric, OURS, rival, middles, None, "equal"), CONFIDENCE))


def relative(found: Difference | None, *, marked: bool = True) -> str:
    """A difference in per cent with its interval; an asterisk where the interval is clear of zero."""
    if found is None or found.percent is None:
        return NOTHING
    text = f"{format_fixed(found.percent, 1, signed=True)} %"
    if found.interval.low is None or found.interval.high is None:
        return text
    low, high = (format_fixed(100 * bound / found.base, 1, signed=True) for bound in (found.interval.low, found.interval.high))
    return f"{text} ({low} to {high}){'*' if marked and found.clear else ''}"
