"""Many comparisons at once: with twenty tests at 5 % one is expected to show an effect where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onionlab.stats.intervals import Floats, are_copies


def paired_p_value(differences: Sequence[float] | Floats) -> float | None:
    """Two-sided p value of Student's test that the mean of the differences is zero.

    Returns
    -------
    float or None
        None for fewer than two differences, and where all are the same: no spread says how sure they are.

    Examples
    --------
    >>> round(paired_p_value([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    sample = np.asarray(differences, dtype=np.float64)
    if sample.size < 2 or are_copies(sample):
        return None
    deviation = float(sample.std(ddof=1))
    from scipy.special import stdtr

    return 2 * float(stdtr(sample.size - 1, -abs(float(sample.mean())) / deviation * float(np.sqrt(sample.size))))


def holm(values: Sequence[float]) -> list[float]:
    """P values corrected so that the chance of any false finding among all of them stays below the level.

    Holm's step-down procedure; it needs no independence, which comparisons within one experiment do not have. (SciPy has the
    procedures for the false discovery rate, but none for this.)

    References
    ----------
    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    corrected = [0.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = largest
    return corrected
