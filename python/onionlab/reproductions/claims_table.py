"""Claims and what became of them, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onionlab.quantity import format_fixed
from onionlab.reproductions.claims import FAILS, HOLDS, UNDECIDED, Finding, Judged, Rule, per_claim

SIGNS = {"less": "<", "greater": ">", "equal": "="}
BOLD = {HOLDS: "**holds**", FAILS: "**does not hold**", UNDECIDED: "undecided"}

#: A metric in words, its unit, and the places that are shown.
Words = Mapping[str, tuple[str, str, int]]


def short(judged: Sequence[Judged]) -> Iterator[str]:
    """How many hold, in a sentence."""
    counts = {verdict: sum(one.verdict == verdict for one in judged) for verdict in (HOLDS, FAILS, UNDECIDED)}
    yield (
        f"**Of the paper's {len(judged)} claims {counts[HOLDS]} hold here, {counts[FAILS]} do not, and {counts[UNDECIDED]} are "
        "undecided.**"
    )
    yield ""


def explanation(rule: Rule, claims: int, replicates: str, *more: str) -> Iterator[str]:
    """What the table shows; ``replicates`` is their number in words, such as ``20 networks``."""
    text = (
        f"In brackets the interval at {100 * per_claim(rule.confidence, claims):.2f} %, so that all {claims} together are at "
        f"{100 * rule.confidence:g} %, and in how many of the {replicates} the difference has the "
        f"sign of the mean. A difference below {100 * rule.margin:g} % counts as none."
    )
    yield " ".join([text, *more])
    yield ""


def table(judged: Sequence[Judged], words: Words) -> Iterator[str]:
    """A row for each claim."""
    yield "| | the paper | says | here | verdict |"
    yield "| ---: | --- | --- | --- | --- |"
    for number, one in enumerate(judged, 1):
        rows = "<br>".join(_finding(finding, words) for finding in one.findings)
        yield f"| {number} | {one.claim.section} | {one.claim.says} | {rows} | {BOLD[one.verdict]} |"
    yield ""


def _finding(finding: Finding, words: Words) -> str:
    part, found = finding.part, finding.difference
    name, unit, places = words[part.metric]
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
    if found is None:
        return f"{name}, {sides}, {where}: nothing has both"
    interval = found.interval
    text = f"{name}, {sides}, {where}: {format_fixed(interval.mean, places, signed=True)} {unit}".rstrip()
    if interval.low is not None and interval.high is not None:
        bounds = " to ".join(format_fixed(bound, places, signed=True) for bound in (interval.low, interval.high))
        same = interval.low == interval.high == 0
        text += " in every one" if same else f" ({bounds}; {found.alike} of {interval.count})"
    if finding.nothing:
        return f"{text}: nothing to compare"
    return f"{text}: {finding.verdict}" if finding.verdict != UNDECIDED else text
