"""Intervals of skewed values, against simulation of the pivot and of whole experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from onionlab.stats.intervals import Interval, pointwise_band, t_interval
from onionlab.stats.skewed import (
    ascending_band,
    geometric_interval,
    log_normal_bounds,
    looks_log_normal,
    mean_interval,
    relative_half_width,
    suitable_method,
)


@pytest.mark.parametrize("count", [5, 10, 20])
def test_log_normal_bounds_are_the_quantiles_of_the_generalised_pivot(count: int) -> None:
    rng = np.random.default_rng(count)
    values = rng.lognormal(1.0, 0.8, count)
    logarithms = np.log(values)
    mean, deviation = logarithms.mean(), logarithms.std(ddof=1)
    chi = rng.chisquare(count - 1, 400_000) / (count - 1)
    pivot = mean + rng.standard_normal(chi.size) * deviation / np.sqrt(count * chi) + deviation**2 / (2 * chi)
    expected = np.exp(np.quantile(pivot, [0.025, 0.975]))
    low, high = log_normal_bounds(values[:, None])
    assert low[0] == pytest.approx(expected[0], rel=0.01)
    assert high[0] == pytest.approx(expected[1], rel=0.08)


def test_log_normal_interval_covers_where_students_does_not() -> None:
    # A spread of 100 % between five networks.
    sigma = math.sqrt(math.log(2))
    curves = np.random.default_rng(8).lognormal(-(sigma**2) / 2, sigma, (5, 2000))
    low, high = log_normal_bounds(curves)
    covered = np.mean((low <= 1) & (high >= 1))
    _, student_low, student_high = pointwise_band(curves)
    assert student_low is not None
    assert student_high is not None
    by_student = np.mean((student_low <= 1) & (student_high >= 1))
    # Binomial standard error: half a percent.
    assert 0.93 < covered < 0.97
    assert by_student < 0.89


def test_values_without_spread_have_an_interval_of_no_length() -> None:
    low, high = log_normal_bounds(np.full((6, 1), 3.0))
    assert low[0] == pytest.approx(3.0)
    assert high[0] == pytest.approx(3.0)


def test_rule_takes_the_log_normal_interval_only_where_it_fits() -> None:
    wide = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert looks_log_normal(wide)
    assert not looks_log_normal(wide[:4])  # too few to judge
    assert not looks_log_normal([*wide, 0.0])  # no logarithm
    assert not looks_log_normal([10.0, 11.0, 10.5, 9.5, 9.9])  # narrow: Student's will do
    assert not looks_log_normal([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 100.0])  # one outlier is no log-normal spread
    narrow = mean_interval([10.0, 11.0, 10.5, 9.5, 9.9])
    assert narrow == t_interval([10.0, 11.0, 10.5, 9.5, 9.9])
    found = mean_interval(wide)
    assert found is not None
    assert found.method == "log-normal"
    assert found.mean == pytest.approx(6.2)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < found.mean < found.high
    assert mean_interval([]) is None


def test_geometric_interval_is_students_of_the_logarithms() -> None:
    values = [1.0, 3.0, 2.0, 8.0]
    expected = stats.ttest_1samp(np.log(values), 0.0).confidence_interval(0.95)
    found = geometric_interval(values)
    assert found is not None
    assert found.mean == pytest.approx(float(stats.gmean(values)))
    assert found.low == pytest.approx(math.exp(expected.low))
    assert found.high == pytest.approx(math.exp(expected.high))
    assert geometric_interval([1.0, 0.0]) is None
    assert geometric_interval([]) is None


def networks_of(rng: np.random.Generator, count: int, spread: float, points: int = 40) -> np.ndarray:
    """Quantile functions of networks that differ by a factor and in how far their transfers spread."""
    transfers, rows = 60, []
    for _ in range(count):
        within = rng.lognormal(-0.3, spread / 2)
        times = np.sort(rng.lognormal(0.0, spread) * np.exp(within * rng.standard_normal(transfers)))
        rows.append(times[((transfers - 1) * np.linspace(0, 0.99, points)).astype(int)])
    return np.stack(rows)


def test_bands_of_one_picture_are_of_one_kind() -> None:
    rng = np.random.default_rng(4)
    wide, calm = networks_of(rng, 8, 0.8), 10 + np.sort(rng.normal(0, 0.2, (8, 40)), axis=1)
    assert suitable_method([wide]) == "log-normal"
    assert suitable_method([calm]) == "student"
    # More points of all lines together look log-normal than do not, or the other way about.
    assert suitable_method([wide, wide, calm]) == "log-normal"
    assert suitable_method([wide, calm, calm]) == "student"
    # A line that cannot have one decides for all; one without a band does not count.
    assert suitable_method([wide, wide[:3]]) == "student"
    assert suitable_method([wide, np.where(wide > wide.min(), wide, 0.0)]) == "student"
    assert suitable_method([wide, calm[:1]]) == "log-normal"
    assert suitable_method([wide[:1]]) == "student"
    assert suitable_method([]) == "student"


def test_edges_of_a_band_ascend_and_keep_their_area() -> None:
    curves = networks_of(np.random.default_rng(0), 5, 0.8)
    for method, raw in (("log-normal", log_normal_bounds(curves)), ("student", pointwise_band(curves)[1:])):
        assert any((np.diff(edge) < 0).any() for edge in raw), "otherwise nothing is to be rearranged"  # type: ignore[arg-type]
        mean, low, high = ascending_band(curves, method)  # type: ignore[arg-type]
        assert low is not None
        assert high is not None
        assert np.allclose(mean, curves.mean(axis=0))
        for edge, before in ((low, raw[0]), (high, raw[1])):
            assert (np.diff(edge) >= 0).all()
            assert edge.sum() == pytest.approx(float(np.sum(before)))  # type: ignore[arg-type]
        assert ((low <= mean) & (mean <= high)).all()
    assert ascending_band(curves[:1], "student")[1:] == (None, None)


def test_edges_that_ascend_cover_no_less() -> None:
    rng = np.random.default_rng(3)
    true = networks_of(rng, 4_000, 0.6, 12).mean(axis=0)
    before, after = [], []
    for _ in range(80):
        curves = networks_of(rng, 5, 0.6, 12)
        for bounds, hits in ((log_normal_bounds(curves), before), (ascending_band(curves, "log-normal")[1:], after)):
            hits.append((bounds[0] <= true) & (true <= bounds[1]))  # type: ignore[operator]
    assert np.mean(before) > 0.88
    assert np.mean(after) >= np.mean(before)


def test_the_reach_of_an_interval_is_that_of_its_longer_side() -> None:
    assert relative_half_width(Interval(10.0, 9.0, 13.0, 5, "log-normal")) == pytest.approx(0.3)
    assert relative_half_width(Interval(-10.0, -12.0, -8.0, 5)) == pytest.approx(0.2)
    assert relative_half_width(Interval(10.0, None, None, 1)) is None
    assert relative_half_width(Interval(0.0, -1.0, 1.0, 5)) is None
