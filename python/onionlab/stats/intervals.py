"""Order statistics and t intervals: the two primitives that everything else is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

#: Confidence level of every interval.
CONFIDENCE = 0.95

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean over ``count`` networks with its confidence interval.

    ``low`` and ``high`` are None where fewer than two networks leave the spread unknown. ``method`` says how they came about:
    ``"student"`` or ``"log-normal"`` (`onionlab.stats.skewed`).
    """

    mean: float
    low: float | None
    high: float | None
    count: int
    method: str = "student"

    @property
    def excludes_zero(self) -> bool | None:
        """Whether zero lies outside; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return self.low > 0 or self.high < 0


def lower_quantile(ordered: Floats | Sequence[float], q: float) -> float:
    """Lower order statistic at ``q``: the value of rank ``int((n - 1) * q)``, never an interpolation.

    Parameters
    ----------
    ordered : sequence of float
        Values in ascending order, at least one.
    q : float
        Between 0 and 1.

    References
    ----------
    The definition is the one of tornettools (``plot_common.py``), so that figures can be laid side by side.

    Examples
    --------
    >>> lower_quantile([1.0, 2.0, 3.0, 10.0], 0.9)
    3.0
    """
    return float(ordered[int((len(ordered) - 1) * q)])


def half_width(deviation: Floats | float, count: int, confidence: float = CONFIDENCE) -> Floats | float:
    """Half width of the t interval of a mean.

    ``t * s / sqrt(k)``, with ``deviation`` the sample deviation s of ``count`` values.
    """
    # Imported here, because it takes most of a second, and most commands need no interval.
    from scipy.special import stdtrit

    factor = float(stdtrit(count - 1, (1 + confidence) / 2)) / float(np.sqrt(count))
    return deviation * factor


def t_interval(values: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Interval | None:
    """Mean of one value per network with Student's interval.

    Returns
    -------
    Interval or None
        None without values; an interval without bounds for a single value.

    Examples
    --------
    >>> t_interval([5.0])
    Interval(mean=5.0, low=None, high=None, count=1, method='student')
    >>> interval = t_interval([1.0, 2.0, 3.0])
    >>> interval.mean, round(interval.low, 3), round(interval.high, 3)
    (2.0, -0.484, 4.484)
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        return None
    mean = float(sample.mean())
    if sample.size == 1:
        return Interval(mean, None, None, 1)
    error = float(half_width(float(sample.std(ddof=1)), sample.size, confidence))
    return Interval(mean, mean - error, mean + error, int(sample.size))


def are_copies(sample: Floats) -> bool:
    """Whether several values are all the same: copies of one run, of which no spread is known.

    Their computed standard deviation need not be zero: their mean is rounded.
    """
    return sample.size > 1 and bool((sample == sample[0]).all())


def difference_interval(differences: Sequence[float] | Floats, confidence: float = CONFIDENCE) -> Interval | None:
    """`t_interval` of paired differences; without bounds where all are the same and not zero.

    Then the pairs are copies of one another, as with seeds that nothing depends on: how far another pair would be is not
    known, and Student's interval would have no width.
    """
    sample = np.asarray(differences, dtype=np.float64)
    found = t_interval(sample, confidence)
    copies = are_copies(sample) and sample[0] != 0
    return replace(found, low=None, high=None) if found is not None and copies else found


def pointwise_band(curves: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats | None, Floats | None]:
    """Mean of several curves with a t interval at every point, lower bound cut at zero.

    The band is pointwise: each point is covered with the given confidence, the whole curve with less.

    Parameters
    ----------
    curves : array, shape (networks, points)
        One row per network.

    Returns
    -------
    mean, low, high : arrays of shape (points,)
        Bounds are None for a single network.
    """
    mean = curves.mean(axis=0)
    count = curves.shape[0]
    if count < 2:
        return mean, None, None
    error = np.asarray(half_width(curves.std(axis=0, ddof=1), count, confidence))
    return mean, np.maximum(0.0, mean - error), mean + error
