"""Whether a paper's claims hold here: paired differences, corrected for the number of claims.

What a claim compares and when it holds is fixed in files beside the experiments before anything is run; here it is only worked
out. Figures come as one frame: a column that says where (a number of relays, a testbed's name), ``treatment``, a column of what
is replicated (sampled networks, or seeds where the network is given by hand), ``metric`` and ``value``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from onionlab.stats import Interval, t_interval

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"

#: How a figure is said to compare.
SENSES = ("less", "greater", "equal")

#: Where a figure was taken: the value of the column that says so.
Place = int | str


@dataclass(frozen=True)
class Comparison:
    """One comparison of a figure.

    Attributes
    ----------
    metric
        The figure.
    of, to
        Treatments; without ``to`` the figure itself is compared.
    at, against
        Places; with ``against`` the same there is subtracted.
    sense
        ``less``, ``greater`` or ``equal``.
    by
        For ``less`` and ``greater``: the share of the base by which it must at least.
    margin
        The share of the base that counts as none, where it is not that of all claims.
    """

    metric: str
    of: str
    to: str | None
    at: Place
    against: Place | None
    sense: str
    by: float = 0.0
    margin: float | None = None


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the comparisons of which each must come out for it to hold.

    Attributes
    ----------
    section, says
        Where the paper has it, and what it says.
    parts
        What is compared.
    """

    section: str
    says: str
    parts: tuple[Comparison, ...]


@dataclass(frozen=True)
class Rule:
    """When a claim holds.

    Attributes
    ----------
    confidence
        Of all claims together (Bonferroni).
    margin
        The share of the base below which a difference counts as none.
    least
        By metric: the difference that counts as none in any case.
    place, replicate
        Columns of the figures.
    nothing
        By metric: where both figures are below it, there is nothing to compare, and the comparison is undecided.
    """

    confidence: float
    margin: float
    least: Mapping[str, float] = field(default_factory=dict)
    place: str = "middles"
    replicate: str = "network"
    nothing: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """A paired difference over replicates.

    Attributes
    ----------
    interval
        Of the difference, in the metric's unit; without bounds for a single replicate.
    base
        Mean of what it is a difference to.
    alike
        In how many replicates the difference has the sign of the mean.
    """

    interval: Interval
    base: float
    alike: int

    @property
    def percent(self) -> float | None:
        """Of the base; None where that is zero."""
        return 100 * self.interval.mean / self.base if self.base else None


@dataclass(frozen=True)
class Finding:
    """One comparison: its difference (None where no replicate has both), and whether it comes out as the paper says.

    ``nothing``: both figures are so small that there is nothing to compare.
    """

    part: Comparison
    difference: Difference | None
    verdict: str
    nothing: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim with its comparisons and the verdict on all of them."""

    claim: Claim
    findings: tuple[Finding, ...]
    verdict: str


def read_claims(
    rows: Sequence[Mapping[str, Any]],
    metrics: Collection[str],
    treatments: Collection[str],
    places: Collection[Place],
) -> tuple[Claim, ...]:
    """The claims of a file's tables ``[[claim]]``: ``section``, ``says`` and ``parts``.

    Raises
    ------
    ValueError
        A claim compares what is not there.
    KeyError
        It leaves out what it must have.
    """
    claims = []
    for row in rows:
        parts = []
        for part in row["parts"]:
            one = Comparison(
                part["metric"],
                part["of"],
                part.get("to"),
                part["at"],
                part.get("against"),
                part["is"],
                float(part.get("by", 0.0)),
                part.get("margin"),
            )
            named = {one.of, one.to or one.of} <= set(treatments) and {one.at, one.against or one.at} <= set(places)
            asks = one.to is not None or one.against is not None
            if not named or not asks or one.metric not in metrics or one.sense not in SENSES or one.by < 0:
                raise ValueError(f"claim {row['says']!r} compares what is not there: {part}")
            parts.append(one)
        claims.append(Claim(row["section"], row["says"], tuple(parts)))
    return tuple(claims)


def difference(figures: pl.DataFrame, part: Comparison, confidence: float, rule: Rule | None = None) -> Difference | None:
    """The paired difference that ``part`` asks for, over the replicates that have all of its figures.

    Parameters
    ----------
    figures : polars.DataFrame
        Place, ``treatment``, replicate, ``metric``, ``value``.
    part : Comparison
        What is compared.
    confidence : float
        Of the interval.
    rule : Rule, optional
        Says how the columns are called.
    """
    columns = rule if rule is not None else Rule(confidence, 0.0)
    over = columns.replicate
    first = _at(figures, part, part.at, columns)
    if part.against is not None:
        second = _at(figures, part, part.against, columns)
        if part.to is None:
            first, second = first.select(over, "value"), second.select(over, base="value")
        else:
            first = first.select(over, "base", value=pl.col("value") - pl.col("base"))
            second = second.select(over, before=pl.col("value") - pl.col("base"))
        both = first.join(second, on=over)
        if part.to is not None:
            both = both.select(over, "base", value=pl.col("value") - pl.col("before") + pl.col("base"))
    else:
        both = first
    differences = (both["value"] - both["base"]).to_list()
    interval = t_interval(differences, confidence)
    if interval is None:
        return None
    alike = sum(one * interval.mean > 0 for one in differences)
    return Difference(interval, sum(both["base"]) / both.height, alike)


def _at(figures: pl.DataFrame, part: Comparison, place: Place, columns: Rule) -> pl.DataFrame:
    """Replicate, ``value`` and, with two treatments, ``base`` at one place."""
    over = columns.replicate
    rows = figures.filter(pl.col("metric") == part.metric, pl.col(columns.place) == place, pl.col("value").is_not_null())
    own = rows.filter(pl.col("treatment") == part.of).select(over, "value")
    if part.to is None:
        return own
    return own.join(rows.filter(pl.col("treatment") == part.to).select(over, base="value"), on=over).sort(over)


def verdict(part: Comparison, found: Difference | None, rule: Rule) -> str:
    """Whether a comparison comes out as the paper says.

    "Equal" holds if the interval lies within what counts as none, and does not if it lies outside. "Less" and "greater" hold if
    the interval lies beyond ``by``, and do not if it leaves no room for more than what counts as none (with ``by``: for that).
    """
    if found is None or found.interval.low is None or found.interval.high is None or is_nothing(part, found, rule):
        return UNDECIDED
    low, high = found.interval.low, found.interval.high
    margin = rule.margin if part.margin is None else part.margin
    none = max(margin * abs(found.base), rule.least.get(part.metric, 0.0))
    if part.sense == "equal":
        if -none <= low and high <= none:
            return HOLDS
        return FAILS if low > none or high < -none else UNDECIDED
    if part.sense == "less":
        low, high = -high, -low
    wanted = part.by * abs(found.base)
    if low > wanted:
        return HOLDS
    return FAILS if high < max(none, wanted) else UNDECIDED


def is_nothing(part: Comparison, found: Difference | None, rule: Rule) -> bool:
    """Whether there is nothing to compare: both figures are below what the rule says of the metric."""
    if found is None:
        return False
    return max(abs(found.base), abs(found.base + found.interval.mean)) < rule.nothing.get(part.metric, 0.0)


def judge(figures: pl.DataFrame, claims: Sequence[Claim], rule: Rule) -> list[Judged]:
    """Every claim on the figures."""
    confidence = per_claim(rule.confidence, len(claims))
    judged = []
    for claim in claims:
        findings = []
        for part in claim.parts:
            found = difference(figures, part, confidence, rule)
            findings.append(Finding(part, found, verdict(part, found, rule), is_nothing(part, found, rule)))
        judged.append(Judged(claim, tuple(findings), together([finding.verdict for finding in findings])))
    return judged


def per_claim(confidence: float, claims: int) -> float:
    """The confidence of each interval so that all together have this one."""
    return 1 - (1 - confidence) / claims


def together(verdicts: Sequence[str]) -> str:
    """All must hold; one that does not hold is enough for the whole."""
    if FAILS in verdicts:
        return FAILS
    return UNDECIDED if UNDECIDED in verdicts else HOLDS
