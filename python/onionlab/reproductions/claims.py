"""Whether a paper's claims hold here: paired differences, corrected for the number of comparisons.

What a claim compares and when it holds is fixed in files beside the experiments before anything is run; what was changed after
that says so there, and on the page. Here it is only worked out. Figures come as one frame: a column that says where (a number
of relays, a testbed's name), ``treatment``, a column of what is replicated (sampled networks, or seeds where the network is given
by hand), ``metric`` and ``value``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from onionlab.reproductions.scales import FAILS, HOLDS, SLIGHTLY, UNDECIDED, Scale, most
from onionlab.stats import Interval, t_interval
from onionlab.stats.intervals import Floats, difference_interval
from onionlab.stats.skewed import SPREAD

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
    changed
        What was another before the first runs, and why it was changed.
    """

    section: str
    says: str
    parts: tuple[Comparison, ...]
    changed: str = ""


@dataclass(frozen=True)
class Rule:
    """When a claim holds.

    Attributes
    ----------
    confidence
        Of all comparisons together (Bonferroni).
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
    wide
        Whether replicates differ so much in a figure that Student's interval of the difference misses more often than it says.
    values
        The difference in each replicate.
    logarithms
        Those of the ratio in each replicate; None where a figure is not positive.
    ratio
        Their mean with Student's interval: what the typical replicate does; None where ``logarithms`` is.
    largest
        The largest mean of the figures that it is made of, without their signs.
    """

    interval: Interval
    base: float
    alike: int
    wide: bool = False
    values: tuple[float, ...] = ()
    logarithms: tuple[float, ...] | None = None
    ratio: Interval | None = None
    largest: float = 0.0

    @property
    def percent(self) -> float | None:
        """Of the base; None where that is zero."""
        return 100 * self.interval.mean / self.base if self.base else None

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero, and that of the ratio too where replicates differ widely."""
        by_ratio = self.ratio is None or not self.wide or bool(self.ratio.excludes_zero)
        return bool(self.interval.excludes_zero) and by_ratio


@dataclass(frozen=True)
class Finding:
    """One comparison: its difference (None where no replicate has both), and whether it comes out as the paper says.

    ``nothing``: both figures are so small that there is nothing to compare.
    ``needed``: with how many replicates an undecided one would be decided, as `replicates_needed` finds it.
    """

    part: Comparison
    difference: Difference | None
    verdict: str
    nothing: bool = False
    needed: int | None = None


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
    """The claims of a file's tables ``[[claim]]``: ``section``, ``says``, ``parts``, and ``changed`` where that is so.

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
            compared = {one.of} if one.to is None else {one.of, one.to}
            where = {one.at} if one.against is None else {one.at, one.against}
            named = compared <= set(treatments) and where <= set(places)
            asks = one.to is not None or one.against is not None
            if not named or not asks or one.metric not in metrics or one.sense not in SENSES or one.by < 0:
                raise ValueError(f"claim {row['says']!r} compares what is not there: {part}")
            parts.append(one)
        claims.append(Claim(row["section"], row["says"], tuple(parts), row.get("changed", "")))
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

    Raises
    ------
    ValueError
        A replicate has a figure more than once, so that what belongs together is not known.
    """
    columns = rule if rule is not None else Rule(confidence, 0.0)
    over = columns.replicate
    found = _at(figures, part, part.at, columns)
    if part.against is not None:
        before = _at(figures, part, part.against, columns)
        if part.to is None:
            found = found.join(before.select(over, base="value"), on=over)
        else:
            found = found.join(before.select(over, earlier="value", earlier_base="base"), on=over)
    found = found.sort(over)
    value, base = found["value"].to_numpy(), found["base"].to_numpy()
    sides, differences = [value, base], value - base
    if "earlier" in found.columns:
        earlier = [found["earlier"].to_numpy(), found["earlier_base"].to_numpy()]
        sides, differences = sides + earlier, differences - (earlier[0] - earlier[1])
    interval = difference_interval(differences, confidence)
    if interval is None:
        return None
    logarithms = None
    if all((side > 0).all() for side in sides):
        signs = np.array([1, -1, -1, 1])[: len(sides)]
        logarithms = signs @ np.log(sides)
    return Difference(
        interval,
        float(base.mean()),
        int((differences * interval.mean > 0).sum()),
        any(_spread(side) > SPREAD for side in sides),
        tuple(differences.tolist()),
        None if logarithms is None else tuple(logarithms.tolist()),
        None if logarithms is None else t_interval(logarithms, confidence),
        max(abs(float(side.mean())) for side in sides),
    )


def _spread(values: Floats) -> float:
    """Standard deviation over the mean; 0 of a single value, and where the mean is zero."""
    mean = abs(float(values.mean()))
    return float(values.std(ddof=1)) / mean if values.size > 1 and mean else 0.0


def _at(figures: pl.DataFrame, part: Comparison, place: Place, columns: Rule) -> pl.DataFrame:
    """Replicate, ``value`` and, with two treatments, ``base`` at one place."""
    over = columns.replicate
    rows = figures.filter(pl.col("metric") == part.metric, pl.col(columns.place) == place, pl.col("value").is_not_null())
    own = rows.filter(pl.col("treatment") == part.of).select(over, "value")
    found = own
    if part.to is not None:
        found = own.join(rows.filter(pl.col("treatment") == part.to).select(over, base="value"), on=over).sort(over)
    if own[over].is_duplicated().any() or found[over].is_duplicated().any():
        raise ValueError(f"{part.metric} at {place}: a {over} has several figures under one treatment; average over repetitions")
    return found


def _scales(part: Comparison, found: Difference, rule: Rule) -> list[Scale]:
    """Differences and, where replicates differ widely and there are any, ratios: a verdict is what both say."""
    margin = rule.margin if part.margin is None else part.margin
    none = max(margin * abs(found.base), rule.least.get(part.metric, 0.0))
    wanted = part.by * abs(found.base)
    scales = [Scale(np.asarray(found.values), found.interval, -none, none, -wanted if part.sense == "less" else wanted)]
    if found.wide and found.ratio is not None and found.logarithms is not None:
        share = none / abs(found.base)
        lowest = math.log1p(-share) if share < 1 else -math.inf
        scales.append(
            Scale(
                np.asarray(found.logarithms),
                found.ratio,
                lowest,
                math.log1p(share),
                -math.inf if part.by >= 1 and part.sense == "less" else math.log1p(-part.by if part.sense == "less" else part.by),
            )
        )
    return [one.turned() for one in scales] if part.sense == "less" else scales


def verdict(part: Comparison, found: Difference | None, rule: Rule) -> str:
    """Whether a comparison comes out as the paper says.

    "Equal" holds if the interval lies within what counts as none, and does not if it lies outside. "Less" and "greater" hold if
    the interval lies beyond ``by`` (slightly, if it lies within what counts as none), and do not if it leaves no room for more
    than what counts as none (with ``by``: for that).

    Where replicates differ widely, Student's interval of a difference misses the truth more often than it says, while that of
    the ratios' logarithms does not (docs/statistics.md): a verdict then stands only if the ratio gives it too.
    """
    if found is None or found.interval.low is None or found.interval.high is None or is_nothing(part, found, rule):
        return UNDECIDED
    verdicts = {scale.verdict(part.sense) for scale in _scales(part, found, rule)}
    if len(verdicts) == 1:
        return verdicts.pop()
    return HOLDS if verdicts == {HOLDS, SLIGHTLY} else UNDECIDED


def replicates_needed(part: Comparison, found: Difference | None, rule: Rule, confidence: float) -> int | None:
    """With how many replicates an undecided comparison would be decided in four of five cases, if things are as they seem.

    None where fewer than two replicates are known, or where no number would do.
    """
    if found is None or len(found.values) < 2:
        return None
    return most([scale.needed(part.sense, confidence) for scale in _scales(part, found, rule)])


def is_nothing(part: Comparison, found: Difference | None, rule: Rule) -> bool:
    """Whether there is nothing to compare: both figures are below what the rule says of the metric."""
    if found is None:
        return False
    return found.largest < rule.nothing.get(part.metric, 0.0)


def judge(figures: pl.DataFrame, claims: Sequence[Claim], rule: Rule) -> list[Judged]:
    """Every claim on the figures."""
    confidence = per_comparison(rule.confidence, comparisons(claims))
    judged = []
    for claim in claims:
        findings = []
        for part in claim.parts:
            found = difference(figures, part, confidence, rule)
            result, nothing = verdict(part, found, rule), is_nothing(part, found, rule)
            decided = result != UNDECIDED or nothing
            needed = None if decided else replicates_needed(part, found, rule, confidence)
            findings.append(Finding(part, found, result, nothing, needed))
        judged.append(Judged(claim, tuple(findings), together([finding.verdict for finding in findings])))
    return judged


def comparisons(claims: Sequence[Claim]) -> int:
    """How many comparisons the claims have in all."""
    return sum(len(claim.parts) for claim in claims)


def per_comparison(confidence: float, count: int) -> float:
    """The confidence of each of so many intervals so that all together have this one."""
    return 1 - (1 - confidence) / count


def together(verdicts: Sequence[str]) -> str:
    """All must hold; one that does not hold is enough for the whole, and so is one that holds slightly to make that of it."""
    for one in (FAILS, UNDECIDED, SLIGHTLY):
        if one in verdicts:
            return one
    return HOLDS
