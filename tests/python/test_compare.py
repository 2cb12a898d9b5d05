"""Means over networks and paired differences, against hand-computed values and scipy's paired test."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from onionlab.report.content import cell
from onionlab.results.comparison import _unpaired_difference
from onionlab.stats.compare import paired_differences, per_network, seeds_as_networks, summarise, verdict
from onionlab.stats.intervals import Interval, t_interval
from onionlab.stats.skewed import mean_interval, mean_intervals

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


def test_copies_of_one_run_are_sure_of_nothing() -> None:
    """In three networks the same values, as where nothing depends on the network."""
    values: Values = {(treatment, network, 1): value for treatment, value in (("a", 1.1), ("b", 1.2)) for network in range(3)}
    row = summarise(figures(values), ["a", "b"]).filter(pl.col("treatment") == "b").row(0, named=True)
    assert (row["difference"], row["ratio"]) == (pytest.approx(0.1), pytest.approx(1.2 / 1.1))
    for column in (
        "difference_low",
        "difference_high",
        "ratio_low",
        "ratio_high",
        "p",
        "p_holm",
        "networks_needed",
        "detectable",
    ):
        assert row[column] is None, column
    assert row["verdict"] == "9.1 % higher by the same in every network, hence no interval"


def counted(share: dict[str, float], times: dict[str, list[float]]) -> pl.DataFrame:
    """Figures of as many networks as there are times; of each treatment's 100 downloads so many are given up."""
    parts = []
    for treatment, values in times.items():
        lost = share[treatment]
        of = {"ttlb_median": values, "failed": [lost] * len(values), "failed_timeout": [lost] * len(values)}
        of |= {"completed": [100 - lost] * len(values), "unfinished": [0.0] * len(values)}
        for metric, each in of.items():
            parts.append(figures({(treatment, network, 1): value for network, value in enumerate(each)}, metric))
    return pl.concat(parts)


def of_b(rows: pl.DataFrame, metric: str) -> dict[str, Any]:
    return rows.filter(pl.col("metric") == metric, pl.col("treatment") == "b").row(0, named=True)


def test_what_is_faster_because_the_slow_ones_failed_is_not_better() -> None:
    base = [4.0, 4.4, 3.9, 4.2, 4.1, 4.3]
    times = {"a": base, "b": [0.9 * value for value in base]}
    rows = summarise(counted({"a": 0.0, "b": 0.0}, times), ["a", "b"])
    assert of_b(rows, "ttlb_median")["verdict"].startswith("better: 10.0 % lower")
    row = of_b(summarise(counted({"a": 0.0, "b": 12.0}, times), ["a", "b"]), "ttlb_median")
    told = "10.0 % lower among completed downloads, but 12 points more did not complete, hence neither better nor worse"
    assert (row["verdict"], row["p"], row["difference_low"]) == (told, None, None)
    assert cell(row, 6, by_seed=False).words == "not judged: more or fewer did not complete"
    # Slower although more fail is worse all the same.
    slower = summarise(counted({"a": 0.0, "b": 12.0}, {"a": base, "b": [1.1 * value for value in base]}), ["a", "b"])
    assert of_b(slower, "ttlb_median")["verdict"].startswith("worse: 10 % higher")


def test_shares_that_differ_by_the_same_everywhere_are_no_copies() -> None:
    """In ten networks all fail instead of none, while times differ: the test of signs gives 2^-9. Of three it is not sure."""
    rng = np.random.default_rng(1)
    for networks, sure in ((10, True), (3, False)):
        times = {treatment: list(rng.lognormal(1.0, 0.2, networks)) for treatment in ("a", "b")}
        rows = summarise(counted({"a": 0.0, "b": 100.0}, times), ["a", "b"])
        row = of_b(rows, "failed")
        if sure:
            assert row["verdict"] == "worse: 100 points higher, by the same in every network"
            assert row["p"] == 2.0**-9
            assert (row["difference_low"], row["difference_high"]) == (100, 100)
        else:
            assert row["verdict"] == "100 points higher by the same in every network, hence no interval"


def test_of_a_network_that_is_not_sampled_seeds_are_what_is_repeated() -> None:
    values: Values = {("a", 0, seed): 1.0 + 0.1 * seed for seed in (3, 5, 8)} | {("b", 0, seed): 2.0 for seed in (3, 5, 8)}
    row = summarise(seeds_as_networks(figures(values)), ["a", "b"]).filter(pl.col("treatment") == "b").row(0, named=True)
    expected = t_interval([2.0 - (1.0 + 0.1 * seed) for seed in (3, 5, 8)])
    assert expected is not None
    assert (row["networks"], row["difference_low"]) == (3, pytest.approx(expected.low))


def test_samples_that_share_no_network_are_no_pairs() -> None:
    """Welch's comparison counts the networks of the smaller sample."""
    one, copies = Interval(1.0, None, None, 1), Interval(1.0, None, None, 20)
    assert verdict("ttlb_median", one, 4.0, paired=False) == "25 % higher with only one network on a side, hence no interval"
    assert verdict("ttlb_median", copies, 4.0, paired=False).endswith("with all networks of a side the same, hence no interval")
    told = _unpaired_difference("ttlb_median", [5.0, 6.0, 4.0], [4.0], 0.0, by_seed=False)["verdict"]
    assert told == "25 % higher with only one network on a side, hence no interval"


def test_many_samples_together_have_the_intervals_of_each_alone() -> None:
    """Bounds of log-normal means are found for all samples of a size at once; they are those that 80 halvings found."""
    rng = np.random.default_rng(2)
    samples = [rng.lognormal(0.0, 1.0, size) for size in (5, 20, 5, 3, 20, 1)] + [np.array([]), np.full(6, 2.0)]
    together = mean_intervals(samples)
    assert [None if found is None else found.method for found in together].count("log-normal") >= 3
    for found, sample in zip(together, samples, strict=True):
        alone = mean_interval(sample)
        assert (found is None) == (alone is None)
        if found is not None and alone is not None:
            assert (found.mean, found.count, found.method) == (alone.mean, alone.count, alone.method)
            assert [found.low, found.high] == [bound and pytest.approx(bound, rel=1e-11) for bound in (alone.low, alone.high)]
    assert mean_interval([1.0, 2.0, 4.0, 8.0, 16.0]).high == pytest.approx(793.8985567912597, rel=1e-11)  # type: ignore[union-attr]


def test_a_summary_is_made_of_the_values_of_its_own_row() -> None:
    """Kinds, metrics and treatments side by side, of which one lacks a kind and one a network."""
    rng = np.random.default_rng(4)
    values = {
        (metric, kind, treatment, network): float(rng.lognormal(1.0, 0.8))
        for metric in ("ttlb_median", "goodput")
        for kind in ("web", "bulk")
        for treatment in ("a", "b", "c")
        for network in range(6)
        if (kind, treatment) != ("bulk", "c") and (treatment, network) != ("b", 3)
    }
    rows = [(treatment, network, 1, kind, metric, value) for (metric, kind, treatment, network), value in values.items()]
    frame = pl.DataFrame(rows, schema=figures({}).schema, orient="row")
    summary = summarise(frame, ["a", "b", "c"], ["web", "bulk"])
    assert summary.height == 2 * 5
    for row in summary.iter_rows(named=True):
        own = {key[3]: value for key, value in values.items() if key[:3] == (row["metric"], row["kind"], row["treatment"])}
        base = {key[3]: value for key, value in values.items() if key[:3] == (row["metric"], row["kind"], "a")}
        expected = mean_interval(list(own.values()))
        assert expected is not None
        assert (row["mean"], row["networks"], row["method"]) == (pytest.approx(expected.mean), expected.count, expected.method)
        assert row["high"] == pytest.approx(expected.high)
        if row["treatment"] != "a":
            differences = [value - base[network] for network, value in own.items()]
            found = t_interval(differences)
            assert found is not None
            assert (row["difference"], row["difference_high"]) == pytest.approx((found.mean, found.high))


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


def test_seeds_that_stand_for_networks_are_called_seeds() -> None:
    """By the verdict of a pair, of two samples, and of a figure on a page, also where some lack it."""
    one, copies, none = Interval(1.0, None, None, 1), Interval(1.0, None, None, 20), Interval(0.0, 0.0, 0.0, 3)
    said = {
        "in the only seed": verdict("ttlb_median", one, 4.0, by_seed=True),
        "by the same in every seed": verdict("ttlb_median", copies, 4.0, by_seed=True),
        "with only one seed on a side": _unpaired_difference("ttlb_median", [5.0, 6.0], [4.0], 0.0, by_seed=True)["verdict"],
        "with all seeds of a side the same": verdict("ttlb_median", copies, 4.0, paired=False, by_seed=True),
        "equal in every seed": verdict("failed", none, 0.0, by_seed=True),
        "no seed has a value of both": verdict("failed", None, None, by_seed=True),
    }
    assert {words: sentence for words, sentence in said.items() if words not in sentence} == {}
    values: Values = {(treatment, 0, seed): value for treatment, value in (("a", 1.1), ("b", 1.2)) for seed in range(3)}
    row = of_b(summarise(seeds_as_networks(figures(values)), ["a", "b"], by_seed=True), "ttlb_median")
    assert row["verdict"] == "9.1 % higher by the same in every seed, hence no interval"
    assert cell(row, 4, by_seed=True).interval.endswith("(3 of 4 seeds)")
    assert cell(row, 4, by_seed=False).interval.endswith("(3 of 4 networks)")
    assert "seeds" not in cell(row, 3, by_seed=True).interval


def test_a_difference_over_some_of_the_networks_says_so() -> None:
    """Means of two treatments over different networks can lie the other way about than their difference."""
    values: Values = {("a", network, 1): value for network, value in ((0, 4.0), (1, 9.0), (2, 9.5), (3, 4.2))}
    values |= {("b", network, 1): value for network, value in ((0, 4.4), (4, 2.0))}
    row = of_b(summarise(figures(values), ["a", "b"]), "ttlb_median")
    assert (row["networks"], row["difference_networks"]) == (2, 1)
    assert row["verdict"] == "10 % higher in the only network with both, hence no interval"
    found = cell(row, 5, by_seed=False, pairs=5, mark="†")
    assert found.mean == "3.20†"
    assert found.interval.endswith("(2 of 5 networks)")
    assert found.words == "no interval (1 of 5 networks)"
    # With a second one of both there are bounds, and a network of either that the other lacks.
    row = of_b(summarise(figures(values | {("b", 3, 1): 4.7}), ["a", "b"]), "ttlb_median")
    assert cell(row, 5, by_seed=False, pairs=5).bounds.endswith(" (2 of 5 networks)")
    assert "networks)" not in cell(row, 3, by_seed=False, pairs=2).bounds
    alone = of_b(summarise(figures({("a", 0, 1): 4.0, ("b", 0, 1): 4.4}), ["a", "b"]), "ttlb_median")
    assert alone["verdict"] == "10 % higher in the only network, hence no interval"
    same: Values = {(treatment, network, 1): value for treatment, value in (("a", 1.0), ("b", 1.5)) for network in range(3)}
    copies = of_b(summarise(figures({**same, ("a", 3, 1): 1.0}), ["a", "b"]), "ttlb_median")
    assert copies["verdict"] == "50 % higher by the same in every network with both, hence no interval"
