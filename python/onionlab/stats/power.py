"""How many networks an experiment needs: to see an effect, or for an interval of a wished width.

All numbers come from the spread that the experiment itself shows, a pilot. They are themselves uncertain: with five networks the
estimated standard deviation is a quarter or more off as often as not, and an effect that is overestimated needs fewer networks
than the true one.

References
----------
Power of the paired t test: the non-central t distribution (Johnson, Kotz and Balakrishnan, "Continuous Univariate
Distributions", volume 2, chapter 31). Width of an interval: Stein, "A two-sample test for a linear hypothesis whose power is
independent of the variance", Annals of Mathematical Statistics 16 (1945).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from onionlab.stats.intervals import CONFIDENCE, Floats, are_copies

#: The usual chance with which a test should see an effect that is there.
POWER = 0.8

#: A shift of the t distribution beyond which its series fails, and its numerator varies little beside the shift.
FAR = 30.0

#: More networks than this are not worth a number.
MOST = 1_000_000


def power(effect: float, networks: int, confidence: float = CONFIDENCE) -> float:
    """Chance that the paired t test of ``networks`` differences excludes zero.

    Parameters
    ----------
    effect : float
        True mean difference over the standard deviation of the differences.
    networks : int
        At least two.

    Examples
    --------
    >>> round(power(0.5, 34), 3)
    0.808
    """
    from scipy.special import chdtr, nctdtr, stdtrit

    freedom = networks - 1
    shift = abs(effect) * math.sqrt(networks)
    limit = float(stdtrit(freedom, (1 + confidence) / 2))
    if shift > FAR:
        return float(chdtr(freedom, freedom * (shift / limit) ** 2))
    beyond, wrong_side = 1.0 - float(nctdtr(freedom, shift, limit)), float(nctdtr(freedom, shift, -limit))
    # SciPy's series does not converge in the far tail, whose chance is then less than rounding.
    return min(1.0, beyond + (0.0 if math.isnan(wrong_side) else wrong_side))


def networks_needed(differences: Sequence[float] | Floats, chance: float = POWER, confidence: float = CONFIDENCE) -> int | None:
    """Number of networks with which the paired test would see the mean of ``differences``, if that is the true effect.

    Parameters
    ----------
    differences : sequence of float
        One paired difference per network, from the experiment at hand.
    chance : float
        Wished power.

    Returns
    -------
    int or None
        At least 2; None for fewer than two differences, for a mean of zero, where all are the same, or beyond `MOST`.

    Examples
    --------
    >>> networks_needed([0.9, 1.1, 1.0, 1.2, 0.8]), networks_needed([-1.0, 2.0, 0.5, -0.5, 1.0])
    (3, 72)
    """
    sample = np.asarray(differences, dtype=np.float64)
    if sample.size < 2 or sample.mean() == 0 or are_copies(sample):
        return None
    deviation = float(sample.std(ddof=1))
    return _smallest(lambda networks: power(float(sample.mean()) / deviation, networks, confidence) >= chance)


def detectable(differences: Sequence[float] | Floats, chance: float = POWER, confidence: float = CONFIDENCE) -> float | None:
    """Smallest true difference that as many networks see with the wished power, in the unit of the differences.

    Returns
    -------
    float or None
        None for fewer than two differences, and where all are the same.

    Examples
    --------
    >>> round(detectable([-1.0, 2.0, 0.5, -0.5, 1.0]), 2)
    2.01
    """
    sample = np.asarray(differences, dtype=np.float64)
    if sample.size < 2 or are_copies(sample):
        return None
    deviation = float(sample.std(ddof=1))
    low, high = 0.0, 1.0
    while power(high, sample.size, confidence) < chance and high < 64:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, sample.size, confidence) < chance else (low, middle)
    return high * deviation


def networks_for_width(values: Sequence[float] | Floats, relative: float, confidence: float = CONFIDENCE) -> int | None:
    """Number of networks after which Student's interval of the mean reaches ``relative`` of the mean to each side, by Stein.

    ``k = (t s / (relative * mean))^2`` rounded up, with t and s of the values at hand, and never fewer than these.

    Returns
    -------
    int or None
        None for fewer than two values, a mean of zero, or beyond `MOST`.

    Examples
    --------
    >>> networks_for_width([9.0, 10.0, 11.0, 10.5, 9.5], 0.05)
    20
    """
    from scipy.special import stdtrit

    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2 or sample.mean() == 0:
        return None
    factor = float(stdtrit(sample.size - 1, (1 + confidence) / 2)) * float(sample.std(ddof=1))
    count = math.ceil((factor / (relative * abs(float(sample.mean())))) ** 2 - 1e-9)
    return None if count > MOST else max(int(sample.size), count)


def _smallest(enough: Callable[[int], bool]) -> int | None:
    """Smallest number of networks from 2 on that is enough."""
    high = 2
    while not enough(high):
        high *= 2
        if high > MOST:
            return None
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high
