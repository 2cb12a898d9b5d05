"""Which claims hold in `onionlab.reproductions.swrr`: paired differences over networks, corrected for the number of claims.

What a claim compares and when it holds is fixed in ``assumptions.toml``; here it is only worked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from onionlab.reproductions.swrr.assumptions import Assumptions, Claim, Comparison
from onionlab.stats import Interval, t_interval

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


@dataclass(frozen=True)
class Difference:
    """A paired difference over networks.

    Attributes
    ----------
    interval
        Of the difference, in the metric's unit; without bounds for a single network.
    base
        Mean of what it is a difference to.
    alike
        In how many networks the difference has the sign of the mean.
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
    """One comparison: its difference (None where no network has both), and whether it comes out as the paper says."""

    part: Comparison
    difference: Difference | None
    verdict: str


@dataclass(frozen=True)
class Judged:
    """A claim with its comparisons and the verdict on all of them."""

    claim: Claim
    findings: tuple[Finding, ...]
    verdict: str


def difference(figures: pl.DataFrame, part: Comparison, confidence: float) -> Difference | None:
    """The paired difference that ``part`` asks for, over the networks that have all of its figures.

    Parameters
    ----------
    figures : polars.DataFrame
        Of one variant: ``middles, treatment, network, metric, value``.
    part : Comparison
        What is compared.
    confidence : float
        Of the interval.
    """
    first = _at(figures, part, part.at)
    if part.against is not None:
        second = _at(figures, part, part.against)
        if part.to is None:
            first, second = first.select("network", "value"), second.select("network", base="value")
        else:
            first = first.select("network", "base", value=pl.col("value") - pl.col("base"))
            second = second.select("network", before=pl.col("value") - pl.col("base"))
        both = first.join(second, on="network")
        if part.to is not None:
            both = both.select("network", "base", value=pl.col("value") - pl.col("before") + pl.col("base"))
    else:
        both = first
    differences = (both["value"] - both["base"]).to_list()
    interval = t_interval(differences, confidence)
    if interval is None:
        return None
    alike = sum(one * interval.mean > 0 for one in differences)
    return Difference(interval, sum(both["base"]) / both.height, alike)


def _at(figures: pl.DataFrame, part: Comparison, middles: int) -> pl.DataFrame:
    """``network, value`` and, with two treatments, ``base`` at one number of middles."""
    rows = figures.filter(pl.col("metric") == part.metric, pl.col("middles") == middles, pl.col("value").is_not_null())
    own = rows.filter(pl.col("treatment") == part.of).select("network", "value")
    if part.to is None:
        return own
    return own.join(rows.filter(pl.col("treatment") == part.to).select("network", base="value"), on="network").sort("network")


def verdict(part: Comparison, found: Difference | None, margin: float, least_timeouts: float) -> str:
    """Whether a comparison comes out as the paper says.

    A difference below ``margin`` of the base counts as none; of time-outs one below ``least_timeouts``, if that is more.
    """
    if found is None or found.interval.low is None or found.interval.high is None:
        return UNDECIDED
    low, high = found.interval.low, found.interval.high
    none = margin * abs(found.base)
    if part.metric == "timeouts":
        none = max(none, least_timeouts)
    if part.sense == "equal":
        if -none <= low and high <= none:
            return HOLDS
        return FAILS if low > none or high < -none else UNDECIDED
    if part.sense == "less":
        low, high = -high, -low
    if low > 0:
        return HOLDS
    return FAILS if high < none else UNDECIDED


def judge(figures: pl.DataFrame, assumptions: Assumptions) -> list[Judged]:
    """Every claim on the figures of the main variant."""
    confidence = 1 - (1 - assumptions.confidence) / len(assumptions.claims)
    judged = []
    for claim in assumptions.claims:
        findings = []
        for part in claim.parts:
            found = difference(figures, part, confidence)
            findings.append(Finding(part, found, verdict(part, found, assumptions.margin, assumptions.least_timeouts)))
        judged.append(Judged(claim, tuple(findings), together([finding.verdict for finding in findings])))
    return judged


def together(verdicts: Sequence[str]) -> str:
    """All must hold; one that does not hold is enough for the whole."""
    if FAILS in verdicts:
        return FAILS
    return UNDECIDED if UNDECIDED in verdicts else HOLDS
