"""Means over networks and paired differences, against hand-computed values and scipy's paired test."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from onionlab.stats.compare import paired_differences, per_network, summarise, verdict
from onionlab.stats.intervals import Interval

Values = dict[tuple[str, int, int], float | None]


def figures(values: Values, metric: str = "ttlb_median") -> pl.DataFrame:
    rows = [(treatment, network, seed, "web", metric, value) for (treatment, network, seed), value in values.items()]
    return pl.DataFrame(
        rows,
        schema={
            "treatment": pl.String,
            "network": pl.UInt32,
            "seed": pl.UInt64,
            "kind": pl.String,
            "metric": pl.String,
            "value": pl.Float64,
        },
        orient="row",
    )


def test_seeds_are_averaged_within_a_network_first() -> None:
    # Network 0 has three seeds, network 1 has one: the network is the unit, so both weigh the same.
    values: Values = {("a", 0, 1): 1.0, ("a", 0, 2): 2.0, ("a", 0, 3): 3.0, ("a", 1, 1): 10.0}
    assert per_network(figures(values)).sort("network")["value"].to_list() == [2.0, 10.0]
    row = summarise(figures(values), ["a"]).row(0, named=True)
    assert row["mean"] == 6.0
    assert row["networks"] == 2


def test_a_seed_without_value_is_left_out_of_its_network() -> None:
    values: Values = {("a", 0, 1): 4.0, ("a", 0, 2): None, ("a", 1, 1): None}
    row = summarise(figures(values), ["a"]).row(0, named=True)
    assert (row["mean"], row["networks"], row["low"]) == (4.0, 1, None)


def test_paired_difference_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    base = rng.lognormal(1.0, 0.4, 7)
    other = base * 0.8 + rng.normal(0.0, 0.1, 7)
    values: Values = {("a", network, 1): float(value) for network, value in enumerate(base)}
    values |= {("b", network, 1): float(value) for network, value in enumerate(other)}
    row = summarise(figures(values), ["a", "b"]).filter(pl.col("treatment") == "b").row(0, named=True)
    expected = stats.ttest_rel(other, base).confidence_interval(0.95)
    assert row["difference"] == pytest.approx(float(np.mean(other - base)))
    assert row["difference_low"] == pytest.approx(expected.low)
    assert row["difference_high"] == pytest.approx(expected.high)
    assert row["difference_percent"] == pytest.approx(100 * float(np.mean(other - base)) / float(base.mean()))
    assert row["verdict"].startswith("better: ")
    assert row["verdict"].endswith("the interval excludes zero")


def test_pairing_uses_only_networks_and_seeds_that_both_have() -> None:
    values: Values = {
        ("a", 0, 1): 1.0,
        ("a", 0, 2): 5.0,
        ("a", 1, 1): 2.0,
        ("b", 0, 2): 6.0,
        ("b", 1, 1): 2.5,
        ("b", 2, 1): 99.0,
    }
    pairs = paired_differences(figures(values), "b", "a").sort("network")
    assert pairs["network"].to_list() == [0, 1]
    assert pairs["difference"].to_list() == [1.0, 0.5]
    assert pairs["base"].to_list() == [5.0, 2.0]


def test_first_treatment_has_no_difference_and_order_is_that_of_the_experiment() -> None:
    values: Values = {("z", 0, 1): 1.0, ("a", 0, 1): 2.0}
    summary = summarise(figures(values), ["z", "a"])
    assert summary["treatment"].to_list() == ["z", "a"]
    assert summary["difference"].to_list() == [None, 1.0]
    assert summary["verdict"].to_list() == [None, "100 % higher in the only network, hence no interval"]


def test_lower_bound_of_a_mean_is_cut_at_zero() -> None:
    row = summarise(figures({("a", 0, 1): 0.0, ("a", 1, 1): 4.0}), ["a"]).row(0, named=True)
    assert row["low"] == 0.0
    assert row["high"] > 4.0


@pytest.mark.parametrize(
    ("metric", "difference", "base", "words"),
    [
        ("ttlb_median", Interval(-1.0, -1.5, -0.5, 5), 4.0, "better: 25 % lower, the interval excludes zero"),
        ("ttlb_median", Interval(1.0, 0.5, 1.5, 5), 4.0, "worse: 25 % higher, the interval excludes zero"),
        ("goodput", Interval(1.0, 0.5, 1.5, 5), 4.0, "better: 25 % higher, the interval excludes zero"),
        ("utilisation_exit", Interval(1.0, 0.5, 1.5, 5), 4.0, "1.0 points higher, the interval excludes zero"),
        (
            "failed",
            Interval(0.5, -1.0, 2.0, 5),
            0.0,
            "no difference shown (0.50 points higher on average, the interval includes zero)",
        ),
        ("completed", Interval(0.5, -1.0, 2.0, 5), 0.0, "no difference shown (higher on average, the interval includes zero)"),
        ("failed", Interval(0.0, 0.0, 0.0, 5), 0.0, "equal in every network"),
        ("failed", None, None, "no network has a value of both"),
    ],
)
def test_verdict_in_words(metric: str, difference: Interval | None, base: float | None, words: str) -> None:
    assert verdict(metric, difference, base) == words
