"""Order statistics and t intervals against hand-computed values and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from onionlab.stats.intervals import Interval, lower_quantile, pointwise_band, t_interval

VALUES = st.lists(st.floats(0.001, 1e6), min_size=2, max_size=20)


def test_lower_quantile_takes_the_value_below() -> None:
    ordered = [float(value) for value in range(10, 101, 10)]
    assert lower_quantile(ordered, 0.5) == 50  # rank int(9 * 0.5) = 4
    assert lower_quantile(ordered, 0.9) == 90  # rank int(9 * 0.9) = 8
    assert lower_quantile(ordered, 0.0) == 10
    assert lower_quantile(ordered, 1.0) == 100
    assert lower_quantile([7.0], 0.9) == 7


@given(VALUES, st.floats(0, 1))
def test_lower_quantile_agrees_with_numpy(values: list[float], q: float) -> None:
    ordered = np.sort(np.array(values))
    rank = (len(values) - 1) * q
    if abs(rank - round(rank)) > 1e-9:
        assert lower_quantile(ordered, q) == np.quantile(ordered, q, method="lower")


def test_interval_of_three_networks_by_hand() -> None:
    # Mean 2, s = 1, k = 3: half width is t(0.975, 2) / sqrt(3) = 4.302653 / 1.732051 = 2.484138.
    interval = t_interval([1.0, 2.0, 3.0])
    assert interval is not None
    assert interval.mean == 2
    assert interval.low == pytest.approx(2 - 2.484138, abs=1e-6)
    assert interval.high == pytest.approx(2 + 2.484138, abs=1e-6)
    assert interval.excludes_zero is False


def test_one_network_has_no_interval_and_none_has_nothing() -> None:
    assert t_interval([4.0]) == Interval(4.0, None, None, 1)
    assert t_interval([4.0]).excludes_zero is None  # type: ignore[union-attr]
    assert t_interval([]) is None


@given(VALUES)
def test_interval_agrees_with_scipy(values: list[float]) -> None:
    if np.ptp(values) < 1e-6:
        return
    interval = t_interval(values)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert interval is not None
    assert interval.low == pytest.approx(expected.low, rel=1e-9, abs=1e-9)
    assert interval.high == pytest.approx(expected.high, rel=1e-9, abs=1e-9)


def test_band_is_the_interval_at_each_point_and_never_negative() -> None:
    curves = np.array([[1.0, 5.0], [2.0, 7.0], [3.0, 6.5]])
    mean, low, high = pointwise_band(curves)
    assert low is not None
    assert high is not None
    for point in range(2):
        interval = t_interval(curves[:, point])
        assert interval is not None
        assert mean[point] == pytest.approx(interval.mean)
        assert low[point] == pytest.approx(max(0.0, interval.low or 0.0))
        assert high[point] == pytest.approx(interval.high)
    assert low[0] == 0
    assert pointwise_band(curves[:1])[1:] == (None, None)
