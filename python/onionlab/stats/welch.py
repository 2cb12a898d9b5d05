"""Differences between treatments whose networks are not the same: two samples, with Welch's interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onionlab.stats.intervals import CONFIDENCE, Floats, Interval


def welch_interval(
    values: Sequence[float] | Floats, base: Sequence[float] | Floats, confidence: float = CONFIDENCE
) -> Interval | None:
    """Difference of the means of two independent samples, with an interval that supposes no equal spread.

    Returns
    -------
    Interval or None
        ``count`` is the smaller number of networks; without bounds where a sample has fewer than two values or both have no
        spread; None where one is empty.

    References
    ----------
    Welch, "The generalization of Student's problem when several different population variances are involved", Biometrika 34
    (1947).

    Examples
    --------
    >>> found = welch_interval([4.0, 5.0, 6.0], [1.0, 2.0, 3.0])
    >>> found.mean, round(found.low, 3), round(found.high, 3)
    (3.0, 0.733, 5.267)
    """
    ours, theirs = np.asarray(values, dtype=np.float64), np.asarray(base, dtype=np.float64)
    count = min(ours.size, theirs.size)
    if count == 0:
        return None
    difference = float(ours.mean() - theirs.mean())
    if count < 2 or (np.ptp(ours) == 0 and np.ptp(theirs) == 0):
        return Interval(difference, None, None, count)
    from scipy.special import stdtrit

    error, freedom = _standard_error(ours, theirs)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    return Interval(difference, difference - reach, difference + reach, count)


def welch_ratio(values: Sequence[float] | Floats, base: Sequence[float] | Floats) -> Interval | None:
    """Ratio of the geometric means of two independent samples of positive values, with Welch's interval of the logarithms."""
    ours, theirs = np.asarray(values, dtype=np.float64), np.asarray(base, dtype=np.float64)
    if not ((ours > 0).all() and (theirs > 0).all()):
        return None
    found = welch_interval(np.log(ours), np.log(theirs))
    if found is None:
        return None
    bounds = [None if bound is None else float(np.exp(bound)) for bound in (found.low, found.high)]
    return Interval(float(np.exp(found.mean)), bounds[0], bounds[1], found.count, "log-normal")


def welch_p_value(values: Sequence[float] | Floats, base: Sequence[float] | Floats) -> float | None:
    """Two-sided p value of Welch's test that two means are equal; None where `welch_interval` has no bounds."""
    found = welch_interval(values, base)
    if found is None or found.low is None:
        return None
    from scipy.special import stdtr

    error, freedom = _standard_error(np.asarray(values, dtype=np.float64), np.asarray(base, dtype=np.float64))
    return 2 * float(stdtr(freedom, -abs(found.mean) / error))


def _standard_error(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """Standard error of the difference of the means, and its degrees of freedom (Welch-Satterthwaite)."""
    # SciPy's test does the same, but warns where all networks of a side have one value, as counts of downloads can.
    parts = [float(np.var(sample, ddof=1)) / sample.size for sample in (ours, theirs)]
    freedom = sum(parts) ** 2 / sum(part**2 / (sample.size - 1) for part, sample in zip(parts, (ours, theirs), strict=True))
    return math.sqrt(sum(parts)), freedom
