"""How the answers of `onionlab.reproductions.swrr` depend on the assumptions: each turn against the same networks as assumed."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from onionlab.reproductions.claims import Comparison, Rule, comparisons, difference, per_comparison, verdict
from onionlab.reproductions.claims_table import asked, times
from onionlab.reproductions.figures import NOTHING, level
from onionlab.reproductions.swrr.assumptions import Assumptions, Variant
from onionlab.reproductions.swrr.measure import Measured
from onionlab.reproductions.swrr.rivalry import COMPARED, OURS, RIVALS, WORDS, cells, pairs
from onionlab.stats.intervals import CONFIDENCE


def same_networks(measured: Measured, assumptions: Assumptions, variant: Variant) -> pl.DataFrame:
    """The figures as assumed, of the networks that a variant has."""
    return measured.of(assumptions.main.name).filter(pl.col("network") < variant.networks)


def beside_main(measured: Measured, variant: Variant, part: Comparison, confidence: float) -> str | None:
    """How the ratio of two treatments in a variant relates to that as assumed, paired by network.

    Their ratio, with an asterisk where its interval excludes one; None where a figure is zero or not there.
    """
    found = _change(measured, variant, part, confidence)
    return None if found is None else found[0]


def _change(measured: Measured, variant: Variant, part: Comparison, confidence: float) -> tuple[str, bool] | None:
    both = measured.figures.filter(pl.col("middles") == part.at, pl.col("variant").is_in([variant.name, "main"]))
    columns = Rule(confidence, 0.0, place="variant")
    found = difference(both, Comparison(part.metric, part.of, part.to, variant.name, "main", "equal"), confidence, columns)
    if found is None or found.ratio is None or found.ratio.low is None:
        return None
    sure = bool(found.ratio.excludes_zero)
    return f"{times(found.ratio)}{'*' if sure else ''}", sure


def surely_other(measured: Measured, variant: Variant, rule: Rule) -> tuple[int, int]:
    """In how many comparisons with rivals the ratio is surely another than as assumed, all together, and of how many."""
    wanted = [Comparison(metric, OURS, rival, middles, None, "equal") for middles, rival, metric in pairs(variant)]
    confidence = per_comparison(rule.confidence, len(wanted))
    found = [_change(measured, variant, part, confidence) for part in wanted]
    known = [one for one in found if one is not None]
    return sum(sure for _, sure in known), len(known)


def verdict_changes(measured: Measured, assumptions: Assumptions, variant: Variant) -> tuple[list[str], int]:
    """The comparisons of claims that come out otherwise in a variant than as assumed, on the same networks, and of how many."""
    rule = assumptions.rule
    confidence = per_comparison(rule.confidence, comparisons(assumptions.claims))
    base, other = same_networks(measured, assumptions, variant), measured.of(variant.name)
    changed, count = [], 0
    for part in dict.fromkeys(part for claim in assumptions.claims for part in claim.parts):
        places = {part.at, part.at if part.against is None else part.against}
        if not places <= set(variant.middles) or not {part.of, part.to or part.of} <= set(variant.treatments):
            continue
        count += 1
        before, after = (verdict(part, difference(figures, part, confidence, rule), rule) for figures in (base, other))
        if before != after:
            changed.append(f"{asked(part, WORDS)}: {after} instead of {before}")
    return changed, count


def section(assumptions: Assumptions, measured: Measured) -> Iterator[str]:
    """The table of turns, and which comparisons of claims come out otherwise."""
    first = assumptions.turns[0]
    middles = first.middles[0]
    rows = sum(rival in turn.treatments for turn in assumptions.turns for rival in RIVALS) * len(COMPARED)
    untouched = " or ".join(str(one) for one in assumptions.main.middles if one != middles)
    yield (
        f"One assumption at a time is another, with {middles} middles and {first.networks} networks; the first line is the "
        "experiment as assumed on the same networks. SWRR (linear) against RR, and against EWMA where that was run: "
        "difference in per cent, 95 % interval, an asterisk where it is clear of zero. Below it how the ratio of SWRR to the "
        "other relates to that as assumed: 1 is no change, in brackets the 95 % interval of the networks' ratios. Of as many "
        f"intervals as there are here, some {max(1, round(rows * (1 - CONFIDENCE)))} of either kind exclude no change by "
        "chance alone. Where tor's own limit is what is full, more than 100 % can be used: the limit counts what tor writes, "
        f"use what the link carries, headers and all. Nothing was turned with {untouched} middles: how the answers there "
        "depend on the assumptions is not known."
    )
    yield ""
    yield f"| what is different | against | middles used | {' | '.join(COMPARED.values())} |"
    yield f"| --- | --- | ---: |{' ---: |' * len(COMPARED)}"
    for variant in (assumptions.main, *assumptions.turns):
        is_main = variant is assumptions.main
        figures = same_networks(measured, assumptions, first) if is_main else measured.of(variant.name)
        what = "nothing" if is_main else variant.what
        for rival in RIVALS:
            if rival not in variant.treatments:
                continue
            used = level(figures, 1, middles=middles, treatment=OURS, metric="utilisation")
            row = list(cells(figures, middles, rival))
            if not is_main:
                parts = (Comparison(metric, OURS, rival, middles, None, "equal") for metric in COMPARED)
                row = [
                    f"{cell}<br>{beside_main(measured, variant, part, CONFIDENCE) or NOTHING}"
                    for cell, part in zip(row, parts, strict=True)
                ]
            yield f"| {what} | {rival} | {used} % | {' | '.join(row)} |"
            what = ""
    yield ""
    yield from _changes(assumptions, measured)


def _changes(assumptions: Assumptions, measured: Measured) -> Iterator[str]:
    found = [(turn, *verdict_changes(measured, assumptions, turn)) for turn in assumptions.turns]
    most = max(count for _, _, count in found)
    networks = assumptions.turns[0].networks
    yield (
        f"Up to {most} comparisons of the claims can be made in a turn. Against the same {networks} networks as assumed "
        f"{'these come' if any(changed for _, changed, _ in found) else 'none of them comes'} out otherwise; with {networks} "
        "networks most are undecided either way."
    )
    yield ""
    for turn, changed, _ in found:
        if changed:
            yield f"- {turn.what}: {'; '.join(changed)}"
    yield ""
