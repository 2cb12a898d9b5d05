"""One comparison as numbers on one scale, and what an interval there decides: differences, or logarithms of ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onionlab.stats import Interval, networks_needed
from onionlab.stats.intervals import Floats

#: What becomes of a comparison, and of a claim. Slightly: as the paper says, by surely less than what counts as a difference.
HOLDS, SLIGHTLY, FAILS, UNDECIDED = "holds", "holds slightly", "does not hold", "undecided"


@dataclass(frozen=True)
class Scale:
    """A comparison on a scale on which "greater" is up, and "less" after it was turned.

    Attributes
    ----------
    values
        One for each replicate.
    interval
        Of their mean.
    below, above
        Between them counts as none.
    wanted
        Beyond it "greater" holds.
    """

    values: Floats
    interval: Interval
    below: float
    above: float
    wanted: float

    def verdict(self, sense: str) -> str:
        """What the interval says, as `onionlab.reproductions.claims.verdict` explains it."""
        low, high = self.interval.low, self.interval.high
        if low is None or high is None:
            return UNDECIDED
        if sense == "equal":
            if self.below <= low and high <= self.above:
                return HOLDS
            return FAILS if low > self.above or high < self.below else UNDECIDED
        if low > self.wanted:
            return SLIGHTLY if self.wanted == 0 and high <= self.above else HOLDS
        return FAILS if high < max(self.above, self.wanted) else UNDECIDED

    def needed(self, sense: str, confidence: float) -> int | None:
        """With how many replicates the interval would decide in four of five cases, if the mean is what it seems."""
        mean = self.interval.mean

        def beyond(bound: float) -> int | None:
            return networks_needed(self.values - bound, confidence=confidence) if math.isfinite(bound) else 2

        if sense == "equal":
            sides = [bound for bound in (self.below, self.above) if self.below <= mean <= self.above or mean * bound > 0]
            return most([beyond(bound) for bound in sides])
        # Above `wanted` it can come to hold, below `none` not to hold; between them to either.
        none = max(self.above, self.wanted)
        ways = [beyond(bound) for bound, way in ((self.wanted, mean > self.wanted), (none, mean < none)) if way]
        known = [count for count in ways if count is not None]
        return min(known) if known else None

    def turned(self) -> Scale:
        """The scale upside down."""
        low, high, mean = self.interval.low, self.interval.high, self.interval.mean
        interval = Interval(-mean, None if high is None else -high, None if low is None else -low, self.interval.count)
        return Scale(-self.values, interval, -self.above, -self.below, -self.wanted)


def most(counts: Sequence[int | None]) -> int | None:
    """The greatest; None where one is not known."""
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None
