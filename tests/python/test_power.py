"""Numbers of networks, Holm's correction and the split of variance, against published figures and simulation."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import integrate, stats

from onionlab.stats.multiple import holm, paired_p_value
from onionlab.stats.power import detectable, networks_for_width, networks_needed, power
from onionlab.stats.variance import variance_split


@pytest.mark.parametrize(("effect", "networks"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_power_agrees_with_cohens_tables(effect: float, networks: int) -> None:
    # Pairs that a two-sided paired t test at 5 % needs for 80 %, as every table of power has them.
    assert power(effect, networks) >= 0.8 > power(effect, networks - 1)


def test_power_agrees_with_simulated_tests() -> None:
    draws = np.random.default_rng(3).normal(0.7, 1.0, (20_000, 8))
    seen = np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05)
    assert power(0.7, 8) == pytest.approx(seen, abs=0.012)
    assert power(0.0, 8) == pytest.approx(0.05, abs=1e-6)
    assert power(-0.7, 8) == pytest.approx(power(0.7, 8))
    assert power(1e6, 5) == pytest.approx(1.0)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.998, 0.999])
@pytest.mark.parametrize("networks", [2, 3, 4, 6, 10, 30])
@pytest.mark.parametrize("effect", [0.3, 1.0, 2.0, 3.5, 5.4, 12.0])
def test_power_agrees_with_integration(effect: float, networks: int, confidence: float) -> None:
    freedom = networks - 1
    limit = stats.t.ppf((1 + confidence) / 2, freedom)

    # Given the standard deviation that is estimated, the statistic is normal: over its distribution that is added up.
    def seen(estimated: float) -> float:
        shift = effect * math.sqrt(networks)
        beyond = stats.norm.sf(limit * estimated - shift) + stats.norm.cdf(-limit * estimated - shift)
        return float(beyond * stats.chi.pdf(estimated * math.sqrt(freedom), freedom) * math.sqrt(freedom))

    expected = integrate.quad(seen, 0, 1, limit=400)[0] + integrate.quad(seen, 1, 12, limit=400)[0]
    assert power(effect, networks, confidence) == pytest.approx(expected, abs=2e-5)


def test_power_of_a_large_effect_against_a_far_limit() -> None:
    """Two differences that are nearly alike, at a level as Bonferroni's: the t distribution's limit lies beyond 700."""
    assert power(1415.0, 2, 0.9992) == pytest.approx(0.988, abs=0.003)
    assert networks_needed([100.0, 100.1], confidence=0.9992) == 2
    # Where the two forms meet.
    for networks, confidence in ((2, 0.9992), (3, 0.9992), (4, 0.95)):
        near, far = (power(shift / math.sqrt(networks), networks, confidence) for shift in (29.99, 30.01))
        assert near == pytest.approx(far, abs=0.005)


def test_networks_needed_is_the_first_number_that_is_enough() -> None:
    differences = np.array([-1.0, 2.0, 0.5, -0.5, 1.0])
    effect = differences.mean() / differences.std(ddof=1)
    needed = networks_needed(differences)
    assert needed is not None
    assert power(effect, needed) >= 0.8 > power(effect, needed - 1)
    assert networks_needed(10 * differences) == needed
    assert networks_needed(differences, 0.95) > needed  # type: ignore[operator]
    assert networks_needed([1.0]) is None
    assert networks_needed([1.0, -1.0]) is None
    assert networks_needed([1.0, 1.0]) is None
    assert networks_needed([1e-9, 1.0, -1.0]) is None


def test_detectable_effect_is_seen_with_the_wished_chance() -> None:
    differences = np.array([-1.0, 2.0, 0.5, -0.5, 1.0])
    smallest = detectable(differences)
    assert smallest is not None
    assert power(smallest / differences.std(ddof=1), 5) == pytest.approx(0.8, abs=1e-6)
    assert detectable([1.0]) is None


@pytest.mark.parametrize("difference", [1.0, 0.1, 0.0, -0.3])
@pytest.mark.parametrize("networks", [2, 3, 7])
def test_copies_of_one_run_have_no_spread_to_count_with(difference: float, networks: int) -> None:
    """The computed deviation of three times 0.1 is 1.7e-17, which is no spread either."""
    copies = [difference] * networks
    assert networks_needed(copies) is None
    assert detectable(copies) is None
    assert paired_p_value(copies) is None


def test_networks_for_width_by_hand() -> None:
    values = [9.0, 10.0, 11.0]
    # t(0.975, 2) = 4.302653 and s = 1: (4.302653 / 0.5)^2 = 74.05.
    assert networks_for_width(values, 0.05) == 75
    assert networks_for_width(values, 0.9) == 3
    assert networks_for_width([1.0], 0.05) is None
    assert networks_for_width([1.0, -1.0], 0.05) is None


def test_p_value_agrees_with_scipy() -> None:
    differences = [0.4, -0.1, 0.3, 0.9, 0.2]
    assert paired_p_value(differences) == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)
    assert paired_p_value([1.0]) is None
    assert paired_p_value([0.0, 0.0, 0.0]) is None
    assert paired_p_value([2.0, 2.0]) is None


def test_holm_by_hand() -> None:
    # Times 4, 3, 2, 1 in the order of size, never falling, at most 1.
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.9, 0.8, 0.001]) == pytest.approx([1.0, 1.0, 0.003])
    assert holm([]) == []


def frame(values: dict[tuple[int, int], float | None]) -> pl.DataFrame:
    rows = [("a", network, seed, "web", "ttlb_median", value) for (network, seed), value in values.items()]
    return pl.DataFrame(rows, schema=["treatment", "network", "seed", "kind", "metric", "value"], orient="row")


def test_variance_components_are_found_again() -> None:
    rng = np.random.default_rng(11)
    values: dict[tuple[int, int], float | None] = {}
    for network in range(400):
        effect = rng.normal(0, 3.0)
        for seed in range(4):
            values[network, seed] = 100 + effect + rng.normal(0, 1.0)
    row = variance_split(frame(values)).row(0, named=True)
    assert row["between_networks"] == pytest.approx(3.0, rel=0.08)
    assert row["between_seeds"] == pytest.approx(1.0, rel=0.05)
    assert row["network_share"] == pytest.approx(90, abs=2)
    assert (row["networks"], row["runs"]) == (400, 1600)


def test_variance_split_agrees_with_the_f_test_and_knows_its_limits() -> None:
    groups = {0: [1.0, 2.0, 3.0], 1: [4.0, 6.0, 5.0], 2: [9.0, 7.0, 8.0]}
    values: dict[tuple[int, int], float | None] = {
        (network, seed): value for network, row in groups.items() for seed, value in enumerate(row)
    }
    split = variance_split(frame(values)).row(0, named=True)
    f = stats.f_oneway(*groups.values()).statistic
    within = split["between_seeds"] ** 2
    assert 1 + 3 * split["between_networks"] ** 2 / within == pytest.approx(f)
    # Seeds that differ more than networks: no negative variance.
    mixed = variance_split(frame({(0, 1): 1.0, (0, 2): 9.0, (1, 1): 9.0, (1, 2): 1.0})).row(0, named=True)
    assert mixed["between_networks"] == 0
    assert mixed["network_share"] == 0
    assert variance_split(frame({(0, 1): 1.0, (1, 1): 2.0})).height == 0
    assert variance_split(frame({(0, 1): 1.0, (0, 2): 2.0, (1, 1): None})).height == 0
    assert variance_split(frame({(0, 1): 1.0, (0, 2): 1.0, (1, 1): 1.0})).row(0, named=True)["network_share"] is None
    assert math.isclose(split["mean"], 5.0)
