"""What is said about few networks, small networks, and intervals that may not cover."""

from __future__ import annotations

import polars as pl
import pytest

from onionlab.stats import summarise, warnings
from onionlab.stats.caveats import until_note
from onionlab.stats.metrics import HEADLINE

WIDE = (1.0, 2.0, 4.0, 8.0, 16.0)


def summary(values: tuple[float, ...], metric: str = "ttlb_median") -> pl.DataFrame:
    rows = [("a", network, 1, "web", metric, value) for network, value in enumerate(values)]
    return summarise(pl.DataFrame(rows, schema=["treatment", "network", "seed", "kind", "metric", "value"], orient="row"), ["a"])


def test_few_networks_and_small_networks() -> None:
    assert "One sampled network" in warnings(networks=1)[0]
    assert "Only 4 sampled networks" in warnings(networks=4)[0]
    assert warnings(networks=5) == []
    assert warnings(networks=1, sampled=False) == []
    assert "9.9 % of the original's relays" in warnings(networks=5, scale=0.099)[0]
    assert warnings(networks=5, scale=0.1) == []


def test_skewed_values_are_named() -> None:
    (sentence,) = warnings(networks=5, summary=summary(WIDE))
    assert "web (time to last byte, median)" in sentence
    assert "log-normal mean" in sentence
    (of_seeds,) = warnings(networks=5, sampled=False, by_seed=True, summary=summary(WIDE))
    assert of_seeds == sentence.replace("Networks differ", "Seeds differ").replace("few networks", "few seeds")
    # Not of those that the report's words are about.
    assert warnings(networks=5, summary=summary(WIDE, "goodput")) == []
    assert warnings(networks=5, summary=summary((10.0, 11.0, 10.5, 9.5, 9.9))) == []


@pytest.mark.parametrize("values", [WIDE[:4], (0.0, *WIDE)])
def test_wide_spread_under_students_interval_is_named(values: tuple[float, ...]) -> None:
    found = warnings(networks=len(values), summary=summary(values))
    assert "fewer than 92 of 100 experiments" in found[-1]
    of_seeds = warnings(networks=len(values), sampled=False, by_seed=True, summary=summary(values))[-1]
    assert of_seeds.startswith("Seeds differ widely")
    assert of_seeds.endswith("More seeds help.")
    assert "network" not in of_seeds


def test_note_on_a_number_that_was_found() -> None:
    outcome = {
        "networks": 22,
        "metric": "ttlb_median",
        "kind": "web",
        "of": "mean",
        "width": 0.05,
        "found": 0.041,
        "reached": True,
    }
    (sentence,) = until_note(outcome, 22)
    assert "±5.0 % about the mean" in sentence
    assert until_note(outcome, 23) == []
    assert until_note(None, 22) == []
    (sentence,) = until_note({**outcome, "reached": False}, 22)
    assert "with 22 networks it is ±4.1 %" in sentence


def test_holm_counts_the_headline_comparisons_only() -> None:
    rows = [
        (treatment, network, 1, kind, metric, value + (0.1 * network * network + 0.5 if treatment == "b" else 0.0))
        for kind in ("web", "bulk")
        for metric in (*HEADLINE, "goodput")
        for treatment in ("a", "b")
        for network, value in enumerate((1.0, 2.0, 1.5, 1.2, 1.8))
    ]
    frame = pl.DataFrame(rows, schema=["treatment", "network", "seed", "kind", "metric", "value"], orient="row")
    found = summarise(frame, ["a", "b"]).filter(pl.col("treatment") == "b")
    corrected = found.filter(pl.col("p_holm").is_not_null())
    assert set(corrected["metric"]) == set(HEADLINE)
    assert corrected.height == 8
    # All p values are equal here, so each is multiplied by the number of comparisons.
    assert corrected["p_holm"].to_list() == pytest.approx([8 * p for p in corrected["p"]])
    assert found.filter(pl.col("metric") == "goodput")["p"].null_count() == 0
