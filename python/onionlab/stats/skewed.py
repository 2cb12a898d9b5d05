"""Intervals for a mean over few networks whose values are skewed.

Student's interval assumes that a mean over networks is nearly normal. Times of sampled networks are positive and spread in
proportion: between networks of 1 % of Tor's size the standard deviation is about the mean itself, and with five such networks
Student's 95 % interval of the mean covers it in 86 of 100 experiments (docs/results/coverage.md). Where the values look
log-normal and spread widely, the interval of the mean of a log-normal distribution takes its place. It is far wider upwards: few
values cannot exclude that slow networks are rare and were not met.

References
----------
Krishnamoorthy and Mathew, "Inferences on the means of lognormal distributions using generalized p-values and generalized
confidence intervals", Journal of Statistical Planning and Inference 115 (2003), section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from onionlab.stats.intervals import CONFIDENCE, Floats, Interval, pointwise_band, t_interval

#: Kinds of intervals of a mean.
Method = Literal["student", "log-normal"]

#: From this standard deviation of the logarithms on, Student's interval loses coverage that one can see (1 % at 0.3).
SPREAD = 0.3

#: With fewer networks neither the shape nor the spread of the logarithms can be judged.
FEWEST = 5

#: Logarithms that a test of normality rejects at this level are not treated as normal.
REJECTED = 0.02

#: Points of the numerical integral over the unknown variance.
_GRID = 512


def looks_log_normal(values: Sequence[float] | Floats) -> bool:
    """Whether the log-normal interval should take the place of Student's.

    At least `FEWEST` values, all positive, the standard deviation of their logarithms above `SPREAD`, and the logarithms not
    rejected as normal by the test of Shapiro and Wilk at `REJECTED`.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size < FEWEST or not (sample > 0).all():
        return False
    logarithms = np.log(sample)
    if float(logarithms.std(ddof=1)) <= SPREAD:
        return False
    # Imported here, because it takes most of a second, and most commands need no test.
    from scipy.stats import shapiro

    return float(shapiro(logarithms).pvalue) >= REJECTED


def log_normal_bounds(curves: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Generalised confidence interval of the mean of log-normal values, for every column.

    With mean m and standard deviation s of the logarithms of k values, the generalised pivot is
    ``T = m + Z s / sqrt(k V) + s^2 / (2 V)``, Z standard normal and ``(k - 1) V`` chi-squared with k - 1 degrees of freedom. Its
    distribution, a mixture of normal ones over V, is integrated numerically and inverted; nothing is drawn.

    Parameters
    ----------
    curves : array, shape (networks, points)
        Positive values, at least two networks.

    Returns
    -------
    low, high : arrays of shape (points,)
        Bounds in the unit of the values; ``high`` is infinite where it exceeds what a number can hold.
    """
    from scipy.special import chdtri, ndtr

    count = curves.shape[0]
    logarithms = np.log(curves)
    mean, deviation = logarithms.mean(axis=0), logarithms.std(axis=0, ddof=1)
    share = (np.arange(_GRID) + 0.5) / _GRID
    variance = chdtri(count - 1, 1 - share) / (count - 1)
    # One row per point, one column per possible variance; in units of the distance to the mean of the logarithms.
    centre = deviation[:, None] ** 2 / (2 * variance)
    width = np.maximum(deviation[:, None] / np.sqrt(count * variance), 1e-300)

    def quantile(q: float) -> Floats:
        low, high = (centre - 9 * width).min(axis=1), (centre + 9 * width).max(axis=1)
        # Halving 45 times leaves 3e-14 of the distance, of which no one sees a digit.
        for _ in range(45):
            middle = (low + high) / 2
            below = ndtr((middle[:, None] - centre) / width).mean(axis=1) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    with np.errstate(over="ignore"):
        return np.exp(mean + quantile((1 - confidence) / 2)), np.exp(mean + quantile((1 + confidence) / 2))


def mean_interval(values: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Interval | None:
    """Mean of one value per network with the interval that suits the values: Student's, or that of a log-normal mean.

    The mean is the arithmetic one in both cases. ``method`` of the result names the interval.

    Returns
    -------
    Interval or None
        None without values; without bounds for a single value.

    Examples
    --------
    >>> mean_interval([4.0, 4.2, 3.9, 4.1, 4.0]).method
    'student'
    >>> interval = mean_interval([1.0, 2.0, 4.0, 8.0, 16.0])
    >>> interval.method, interval.mean, round(interval.low, 1), round(interval.high)
    ('log-normal', 6.2, 3.0, 794)
    """
    return mean_intervals([values], confidence)[0]


def mean_intervals(samples: Iterable[Sequence[float] | Floats], confidence: float = CONFIDENCE) -> list[Interval | None]:
    """`mean_interval` of each of many samples, which takes a fraction of the time that one by one does."""
    arrays = [np.asarray(values, dtype=np.float64) for values in samples]
    skewed: dict[int, list[int]] = {}
    for place, sample in enumerate(arrays):
        if looks_log_normal(sample):
            skewed.setdefault(sample.size, []).append(place)
    together = {place for places in skewed.values() for place in places}
    found = [None if place in together else t_interval(sample, confidence) for place, sample in enumerate(arrays)]
    for count, places in skewed.items():
        lows, highs = log_normal_bounds(np.column_stack([arrays[place] for place in places]), confidence)
        for place, low, high in zip(places, lows, highs, strict=True):
            found[place] = Interval(float(arrays[place].mean()), float(low), float(high), count, "log-normal")
    return found


def geometric_interval(values: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Interval | None:
    """Geometric mean of positive values with its interval, Student's of the logarithms.

    For log-normal values it is the median over networks: what the typical network does, where the mean follows the slow ones.

    Returns
    -------
    Interval or None
        None without values, or where one is not positive.

    Examples
    --------
    >>> round(geometric_interval([1.0, 2.0, 4.0]).mean, 6)
    2.0
    """
    sample = np.asarray(values, dtype=np.float64)
    if not (sample > 0).all():
        return None
    found = t_interval(np.log(sample), confidence)
    if found is None:
        return None
    bounds = [None if bound is None else float(np.exp(bound)) for bound in (found.low, found.high)]
    return Interval(float(np.exp(found.mean)), bounds[0], bounds[1], found.count, "log-normal")


def suitable_method(lines: Sequence[Floats]) -> Method:
    """Which interval the bands of quantile functions have: the same one for all lines of a picture, and for all of their points.

    Bands of two kinds side by side differ in width where networks do not. Log-normal ones are taken where, of the points of all
    lines together, at least half look log-normal, and every line can have one: from `FEWEST` networks on, with positive values.

    Parameters
    ----------
    lines : sequence of arrays, shape (networks, points)
        One array per line, one row per network. A line over one network has no band, and does not count.
    """
    several = [curves for curves in lines if curves.shape[0] > 1]
    if not several or any(curves.shape[0] < FEWEST or not (curves > 0).all() for curves in several):
        return "student"
    skewed = np.mean([looks_log_normal(column) for curves in several for column in curves.T])
    return "log-normal" if skewed >= 0.5 else "student"


def ascending_band(curves: Floats, method: Method, confidence: float = CONFIDENCE) -> tuple[Floats, Floats | None, Floats | None]:
    """Mean of several quantile functions with a pointwise band whose edges ascend, as the mean does.

    An interval at each point by itself does not know that quantiles ascend. Its edges are rearranged in ascending order, which
    leaves the area between them as it is; points are covered no less often for it (tests/python/test_skewed.py).

    Parameters
    ----------
    curves : array, shape (networks, points)
        One row per network; each row ascends.

    Returns
    -------
    mean, low, high : arrays of shape (points,)
        Bounds are None for a single network.

    References
    ----------
    Chernozhukov, Fernández-Val and Galichon, "Improving point and interval estimators of monotone functions by rearrangement",
    Biometrika 96 (2009).
    """
    mean, low, high = pointwise_band(curves, confidence)
    if low is None or high is None:
        return mean, None, None
    if method == "log-normal":
        low, high = log_normal_bounds(curves, confidence)
    return mean, np.sort(low), np.sort(high)


def relative_half_width(interval: Interval) -> float | None:
    """How far an interval reaches from its mean, to the side where that is further, over the mean.

    None without an interval or where the mean is 0.
    """
    if interval.low is None or interval.high is None or interval.mean == 0:
        return None
    return max(interval.high - interval.mean, interval.mean - interval.low) / abs(interval.mean)
