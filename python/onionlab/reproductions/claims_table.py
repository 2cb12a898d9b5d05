"""Claims and what became of them, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onionlab.quantity import format_fixed
from onionlab.reproductions.claims import Comparison, Difference, Finding, Judged, Rule, comparisons, per_comparison
from onionlab.reproductions.figures import FAR
from onionlab.reproductions.scales import FAILS, HOLDS, SLIGHTLY, UNDECIDED
from onionlab.stats import Interval

SIGNS = {"less": "<", "greater": ">", "equal": "="}
BOLD = {HOLDS: "**holds**", SLIGHTLY: "**holds slightly**", FAILS: "**does not hold**", UNDECIDED: "undecided"}

#: A number of replicates beyond this is not worth printing.
MANY = 10_000

#: So many claims of one verdict are named in short; of more, the numbers.
FEW = 8

#: A metric in words, its unit, and the places that are shown.
Words = Mapping[str, tuple[str, str, int]]


def short(judged: Sequence[Judged], which: str = "claims") -> Iterator[str]:
    """How many hold, in a sentence, and which do not; ``which`` they are."""
    counts = {verdict: sum(one.verdict == verdict for one in judged) for verdict in (HOLDS, SLIGHTLY, FAILS, UNDECIDED)}
    slightly = f"{counts[SLIGHTLY]} slightly (by less than what counts as a difference), " if counts[SLIGHTLY] else ""
    hold, not_so = ("holds" if counts[HOLDS] == 1 else "hold"), ("does" if counts[FAILS] == 1 else "do")
    open_ = "is" if counts[UNDECIDED] == 1 else "are"
    yield (
        f"**Of the paper's {len(judged)} {which} {counts[HOLDS]} {hold} here, {slightly}{counts[FAILS]} {not_so} not, and "
        f"{counts[UNDECIDED]} {open_} undecided.**"
    )
    yield ""
    for verdict, title in ((FAILS, "Not so here"), (UNDECIDED, "Undecided")):
        numbered = [(number, one.claim.says) for number, one in enumerate(judged, 1) if one.verdict == verdict]
        if len(numbered) > FEW:
            yield from (f"{title}: {', '.join(str(number) for number, _ in numbered)} of the table.", "")
        elif numbered:
            yield from (f"{title}:", "", *(f"- {number}: {says}" for number, says in numbered), "")


def explanation(rule: Rule, judged: Sequence[Judged], replicates: str, *more: str) -> Iterator[str]:
    """What the table shows; ``replicates`` is their number in words, such as ``20 networks``."""
    count = comparisons([one.claim for one in judged])
    found = [finding for one in judged for finding in one.findings]
    each = f"{100 * per_comparison(rule.confidence, count):.2f} %"
    text = [
        f"In brackets Student's interval at {each}, so that all {count} comparisons "
        f"together are at {100 * rule.confidence:g} %, and in how many of the {replicates} the difference has the sign of the "
        f'mean. A difference below {100 * rule.margin:g} % of the base counts as none: a claim of "less" or "more" does not '
        "hold where no more than that is possible, and holds *slightly* where the difference is surely there and surely no more "
        "than that.",
    ]
    differences = [finding.difference for finding in found if finding.difference is not None]
    if any(_by_ratio(one) for one in differences):
        text.append(
            "*Ratio*: the mean ratio (geometric) over them, with its interval. It is given where they differ by more than 30 %; "
            "there Student's interval of a difference is too narrow, and nothing is decided unless the ratio says so too."
        )
    if any(one.wide and one.ratio is None for one in differences):
        text.append("†: they differ as much, and no ratio can be had, because some have none: the interval may be too narrow.")
    if any(_needed(finding) for finding in found):
        text.append(
            "*Needs*: so many would decide it in four of five cases, if the difference and its spread are what they seem."
        )
    yield " ".join([*text, *more])
    yield ""


def table(judged: Sequence[Judged], words: Words) -> Iterator[str]:
    """A row for each claim, and what of them was another first."""
    yield "| | the paper | says | verdict | here |"
    yield "| ---: | --- | --- | --- | --- |"
    for number, one in enumerate(judged, 1):
        rows = "<br>".join(_finding(finding, words) for finding in one.findings)
        yield f"| {number} | {one.claim.section} | {one.claim.says} | {BOLD[one.verdict]} | {rows} |"
    yield ""
    changed = [f"{number}: {one.claim.changed}" for number, one in enumerate(judged, 1) if one.claim.changed]
    if changed:
        yield from (f"Changed after first runs. {' '.join(changed)}", "")


def left_out(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What else the paper says, ``where``, and ``why`` it is not judged."""
    if rows:
        yield from ("Not judged of what the paper says:", "")
        yield from (f"- {row['where']}: {row['says']} ({row['why']})" for row in rows)
        yield ""


def asked(part: Comparison, words: Words) -> str:
    """A comparison in words."""
    name = words[part.metric][0]
    sides = f"{part.of} {SIGNS[part.sense]} {part.to}" if part.to is not None else part.of
    if part.against is None:
        where = f"at {part.at}"
    elif part.to is None:
        where = f"{part.at} {SIGNS[part.sense]} {part.against}"
    else:
        where = f"more so at {part.at} than at {part.against}"
    if part.by:
        where += f" by {100 * part.by:g} % or more"
    if part.margin is not None:
        where += f" within {100 * part.margin:g} %"
    return f"{name}, {sides}, {where}"


def _finding(finding: Finding, words: Words) -> str:
    part, found = finding.part, finding.difference
    _, unit, places = words[part.metric]
    if found is None:
        return f"{asked(part, words)}: nothing has both"
    interval = found.interval
    text = f"{asked(part, words)}: {format_fixed(interval.mean, places, signed=True)} {unit}".rstrip()
    if interval.low is not None and interval.high is not None:
        bounds = " to ".join(format_fixed(bound, places, signed=True) for bound in (interval.low, interval.high))
        same = interval.low == interval.high == 0
        text += " in every one" if same else f" ({bounds}; {found.alike} of {interval.count})"
    text += _ratio(found)
    if finding.nothing:
        return f"{text}: nothing to compare"
    if finding.verdict != UNDECIDED:
        return f"{text}: {finding.verdict}"
    return f"{text}: {needed}" if (needed := _needed(finding)) else text


def _by_ratio(found: Difference) -> bool:
    return found.wide and found.ratio is not None and found.ratio.low is not None


def _ratio(found: Difference) -> str:
    """The ratio, where it counts; a dagger where it should and there is none."""
    if not _by_ratio(found) or found.ratio is None:
        return "†" if found.wide and found.ratio is None and found.interval.low is not None else ""
    return f"; ratio {times(found.ratio)}"


def times(logarithms: Interval) -> str:
    """A mean ratio with its interval, from those of the logarithms; none above where that bound is `FAR` from it."""
    mean = _factor(math.exp(min(logarithms.mean, 50.0)))
    if logarithms.low is None or logarithms.high is None:
        return mean
    low = _factor(math.exp(min(logarithms.low, 50.0)))
    if logarithms.high - logarithms.mean > math.log(FAR):
        return f"{mean} ({low} or more)"
    return f"{mean} ({low} to {_factor(math.exp(logarithms.high))})"


def _factor(value: float) -> str:
    return format_fixed(value, 0 if value >= 100 else 1 if value >= 10 else 3)


def _needed(finding: Finding) -> str:
    """How many replicates an undecided comparison needs; empty where that is not known or no more than there are."""
    if finding.needed is None or finding.difference is None or finding.needed <= finding.difference.interval.count:
        return ""
    return f"needs {finding.needed:,}" if finding.needed <= MANY else f"needs more than {MANY:,}"


def rows(judged: Sequence[Judged]) -> Iterator[dict[str, Any]]:
    """What each verdict rests on, a row for each comparison, for a table of its own."""
    for number, one in enumerate(judged, 1):
        for finding in one.findings:
            part, found = finding.part, finding.difference
            interval = None if found is None else found.interval
            ratio = None if found is None else found.ratio
            yield {
                "claim": number,
                "section": one.claim.section,
                "says": one.claim.says,
                "metric": part.metric,
                "of": part.of,
                "to": part.to,
                "at": str(part.at),
                "against": None if part.against is None else str(part.against),
                "is": part.sense,
                "by": part.by,
                "difference": None if interval is None else interval.mean,
                "low": None if interval is None else interval.low,
                "high": None if interval is None else interval.high,
                "base": None if found is None else found.base,
                "ratio": None if ratio is None else math.exp(ratio.mean),
                "ratio_low": None if ratio is None or ratio.low is None else math.exp(ratio.low),
                "ratio_high": None if ratio is None or ratio.high is None else math.exp(ratio.high),
                "wide": None if found is None else found.wide,
                "alike": None if found is None else found.alike,
                "replicates": None if interval is None else interval.count,
                "needed": finding.needed,
                "comparison": finding.verdict,
                "verdict": one.verdict,
            }
