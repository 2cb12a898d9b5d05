"""When a paper's claim holds: differences by hand, verdicts, and files that compare what is not there."""

from __future__ import annotations

import polars as pl
import pytest

from onionlab.reproductions import claims, claims_table
from onionlab.reproductions.claims import FAILS, HOLDS, UNDECIDED, Claim, Comparison, Difference, Finding, Judged, Rule
from onionlab.stats import Interval

RULE = Rule(0.95, 0.05, {"timeouts": 10.0})


def differing(metric: str, sense: str) -> Comparison:
    return Comparison(metric, "SWRR linear", "RR", 5, None, sense)


@pytest.mark.parametrize(
    ("metric", "sense", "low", "high", "expected"),
    [
        ("throughput", "greater", 0.1, 9.0, HOLDS),
        ("throughput", "greater", -1.0, 9.0, UNDECIDED),
        ("throughput", "greater", -9.0, -0.1, FAILS),
        ("throughput", "greater", -1.0, 4.9, FAILS),  # no room for 5 % of 100
        ("throughput", "less", -9.0, -0.1, HOLDS),
        ("throughput", "less", -4.9, 1.0, FAILS),
        ("throughput", "less", -5.1, 1.0, UNDECIDED),
        ("throughput", "equal", -4.9, 4.9, HOLDS),
        ("throughput", "equal", -5.1, 4.9, UNDECIDED),
        ("throughput", "equal", 5.1, 9.0, FAILS),
        ("timeouts", "equal", -9.9, 9.9, HOLDS),  # up to ten count as none
        ("timeouts", "greater", -1.0, 9.9, FAILS),
        ("first-byte", "equal", 0.0, 0.0, HOLDS),
        ("first-byte", "less", 0.0, 0.0, FAILS),
    ],
)
def test_when_a_comparison_comes_out(metric: str, sense: str, low: float, high: float, expected: str) -> None:
    found = Difference(Interval((low + high) / 2, low, high, 20), 100.0, 20)
    assert claims.verdict(differing(metric, sense), found, RULE) == expected


def test_one_network_decides_nothing() -> None:
    found = Difference(Interval(50.0, None, None, 1), 100.0, 1)
    assert claims.verdict(differing("throughput", "greater"), found, RULE) == UNDECIDED
    assert claims.verdict(differing("throughput", "greater"), None, RULE) == UNDECIDED


def test_a_claim_of_several_comparisons() -> None:
    assert claims.together([HOLDS, HOLDS]) == HOLDS
    assert claims.together([HOLDS, UNDECIDED]) == UNDECIDED
    assert claims.together([UNDECIDED, FAILS, HOLDS]) == FAILS


def test_differences_by_hand() -> None:
    """Two networks; throughput of SWRR and RR at 5 and 20 middles; a third network lacks RR at 5 and is left out there."""
    rows = [
        (middles, treatment, network, "throughput", value)
        for network, values in enumerate([(32.0, 30.0, 99.0, 100.0), (44.0, 40.0, 121.0, 120.0)])
        for (middles, treatment), value in zip(
            [(5, "SWRR linear"), (5, "RR"), (20, "SWRR linear"), (20, "RR")], values, strict=True
        )
    ]
    rows.append((5, "SWRR linear", 2, "throughput", 1e6))
    figures = pl.DataFrame(rows, schema=["middles", "treatment", "network", "metric", "value"], orient="row")
    plain = claims.difference(figures, Comparison("throughput", "SWRR linear", "RR", 5, None, "greater"), 0.95)
    assert plain is not None
    assert (plain.interval.mean, plain.interval.count, plain.base, plain.alike) == (3.0, 2, 35.0, 2)
    trend = claims.difference(figures, Comparison("throughput", "RR", None, 5, 20, "less"), 0.95)
    assert trend is not None
    assert (trend.interval.mean, trend.base, trend.alike) == (-75.0, 110.0, 2)
    change = claims.difference(figures, Comparison("throughput", "SWRR linear", "RR", 5, 20, "greater"), 0.95)
    assert change is not None
    assert (change.interval.mean, change.base) == (3.0, 35.0)
    none = claims.difference(figures, Comparison("timeouts", "RR", None, 5, 20, "less"), 0.95)
    assert none is None


@pytest.mark.parametrize(
    ("low", "high", "by", "expected"),
    [
        (-90.0, -60.0, 0.5, HOLDS),
        (-90.0, -40.0, 0.5, UNDECIDED),
        (-45.0, -30.0, 0.5, FAILS),
        (-45.0, -30.0, 0.0, HOLDS),
        (-4.0, 1.0, 0.0, FAILS),
    ],
)
def test_by_how_much(low: float, high: float, by: float, expected: str) -> None:
    """Of a base of 100: less by half or more."""
    found = Difference(Interval((low + high) / 2, low, high, 5), 100.0, 5)
    assert claims.verdict(Comparison("throughput", "a", None, "x", "y", "less", by), found, RULE) == expected


def test_a_margin_of_its_own() -> None:
    found = Difference(Interval(-9.0, -12.0, -6.0, 5), 100.0, 5)
    assert claims.verdict(Comparison("throughput", "a", "b", "x", None, "equal"), found, RULE) == FAILS
    assert claims.verdict(Comparison("throughput", "a", "b", "x", None, "equal", margin=0.15), found, RULE) == HOLDS


def test_of_nothing_nothing_follows() -> None:
    """Queues of 0.01 and 0.02 cells differ by next to nothing, and say nothing; of 0.01 and 50 they do, and of 40 and 41."""
    part = Comparison("queued", "a", "b", "x", None, "equal", margin=0.25)
    rule = Rule(0.95, 0.05, nothing={"queued": 1.0})
    for base, more, nothing, expected in (
        (0.01, 0.01, True, UNDECIDED),
        (0.01, 50.0, False, FAILS),
        (50.0, -49.99, False, FAILS),
        (40.0, 1.0, False, HOLDS),
    ):
        found = Difference(Interval(more, more - 0.001, more + 0.001, 5), base, 5)
        assert claims.is_nothing(part, found, rule) is nothing
        assert claims.verdict(part, found, rule) == expected
    found = Difference(Interval(0.01, 0.009, 0.011, 5), 0.01, 5)
    judged = Judged(Claim("4", "alike", (part,)), (Finding(part, found, UNDECIDED, nothing=True),), UNDECIDED)
    (row,) = list(claims_table.table([judged], {"queued": ("queued", "cells", 1)}))[2:3]
    assert row.endswith(": nothing to compare | undecided |")


def test_claims_that_compare_what_is_not_there_are_refused() -> None:
    part = {"metric": "time", "of": "a", "to": "b", "at": "x", "is": "less"}
    row = {"section": "1", "says": "so", "parts": [part]}
    (claim,) = claims.read_claims([row], ["time"], ["a", "b"], ["x"])
    assert claim == Claim("1", "so", (Comparison("time", "a", "b", "x", None, "less"),))
    for wrong in ({"metric": "speed"}, {"of": "c"}, {"at": "y"}, {"is": "more"}, {"to": None}, {"by": -1.0}):
        with pytest.raises(ValueError, match="compares what is not there"):
            claims.read_claims([{**row, "parts": [{**part, **wrong}]}], ["time"], ["a", "b"], ["x"])


def test_the_table_says_by_how_much() -> None:
    part = Comparison("time", "a", None, "lossy", "clean", "less", by=0.5)
    finding = Finding(part, Difference(Interval(-0.7, -0.9, -0.5, 4), 1.0, 4), HOLDS)
    (row,) = list(
        claims_table.table([Judged(Claim("4.6", "most is lost", (part,)), (finding,), HOLDS)], {"time": ("time", "s", 1)})
    )[2:3]
    assert "lossy < clean by 50 % or more: −0.7 s (−0.9 to −0.5; 4 of 4): holds" in row
    assert "**holds**" in row
