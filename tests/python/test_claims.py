"""When a paper's claim holds: differences by hand, verdicts, and files that compare what is not there."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from onionlab.reproductions import claims, claims_table
from onionlab.reproductions.claims import Claim, Comparison, Difference, Finding, Judged, Rule
from onionlab.reproductions.scales import FAILS, HOLDS, SLIGHTLY, UNDECIDED, Scale
from onionlab.stats import Interval
from onionlab.stats.power import power

RULE = Rule(0.95, 0.05, {"timeouts": 10.0})


def differing(metric: str, sense: str) -> Comparison:
    return Comparison(metric, "SWRR linear", "RR", 5, None, sense)


@pytest.mark.parametrize(
    ("metric", "sense", "low", "high", "expected"),
    [
        ("throughput", "greater", 0.1, 9.0, HOLDS),
        ("throughput", "greater", 0.1, 4.9, SLIGHTLY),  # surely more, surely by less than 5 % of 100
        ("throughput", "less", -4.9, -0.1, SLIGHTLY),
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
    assert claims.together([HOLDS, SLIGHTLY, HOLDS]) == SLIGHTLY
    assert claims.together([SLIGHTLY, UNDECIDED]) == UNDECIDED


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


def of_networks(*pairs: tuple[float, float], metric: str = "time") -> pl.DataFrame:
    """What ``a`` and ``b`` have in each network at 5 middles."""
    rows = [
        (5, name, network, metric, value) for network, pair in enumerate(pairs) for name, value in zip("ab", pair, strict=True)
    ]
    return pl.DataFrame(rows, schema=["middles", "treatment", "network", "metric", "value"], orient="row")


def test_ratios_by_hand() -> None:
    """Half, a quarter, an eighth of the time: the mean ratio is a quarter, at whatever size."""
    part = Comparison("time", "a", "b", 5, None, "less")
    found = claims.difference(of_networks((1.0, 2.0), (4.0, 16.0), (8.0, 64.0)), part, 0.95)
    assert found is not None
    assert found.wide
    assert found.ratio is not None
    assert math.exp(found.ratio.mean) == pytest.approx(0.25)
    # Student's over ln 1/2, ln 1/4, ln 1/8: 4.303 ln 2 / sqrt(3) to each side.
    assert found.ratio.high == pytest.approx(math.log(0.25) + 4.3027 * math.log(2) / math.sqrt(3), abs=1e-4)
    alike = claims.difference(of_networks((9.0, 10.0), (8.0, 10.5)), part, 0.95)
    assert alike is not None
    assert not alike.wide
    none = claims.difference(of_networks((0.0, 2.0), (4.0, 16.0)), part, 0.95)
    assert none is not None
    assert (none.wide, none.ratio) == (True, None)


def test_a_change_as_a_ratio_of_ratios() -> None:
    """At 5 twice, at 20 half: four times."""
    at_5 = of_networks((2.0, 1.0), (20.0, 10.0))
    at_20 = of_networks((1.0, 2.0), (10.0, 20.0)).with_columns(middles=pl.lit(20, pl.Int64))
    found = claims.difference(pl.concat([at_5, at_20]), Comparison("time", "a", "b", 5, 20, "greater"), 0.95)
    assert found is not None
    assert found.ratio is not None
    assert math.exp(found.ratio.mean) == pytest.approx(4.0)
    assert found.values == (2.0, 20.0)


def test_wide_spreads_need_the_ratio_too() -> None:
    """A difference that is clear, and a ratio that is not, decide nothing."""
    part = Comparison("time", "a", "b", 5, None, "greater")
    clear, unclear = Interval(30.0, 20.0, 40.0, 5), Interval(0.2, -0.1, 0.5, 5)
    logarithms = (0.2,) * 5
    assert claims.verdict(part, Difference(clear, 100.0, 5), RULE) == HOLDS
    assert claims.verdict(part, Difference(clear, 100.0, 5, True, (), logarithms, unclear), RULE) == UNDECIDED
    assert claims.verdict(part, Difference(clear, 100.0, 5, False, (), logarithms, unclear), RULE) == HOLDS
    both = Interval(0.3, 0.2, 0.4, 5)
    assert claims.verdict(part, Difference(clear, 100.0, 5, True, (), logarithms, both), RULE) == HOLDS
    # Surely less than 5 % by the ratio alone: that it is less stands, by how little does not.
    little = Interval(0.03, 0.02, 0.04, 5)
    assert claims.verdict(part, Difference(clear, 100.0, 5, True, (), logarithms, little), RULE) == HOLDS
    less = Comparison("time", "a", "b", 5, None, "less", by=0.5)
    halved = Interval(-0.8, -0.9, math.log(0.51), 5)
    assert (
        claims.verdict(less, Difference(Interval(-80.0, -90.0, -60.0, 5), 100.0, 5, True, (), logarithms, halved), RULE)
        == UNDECIDED
    )


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


def test_what_was_there_before_is_something() -> None:
    """Figures of 0.5 and 0.4 are nothing where 1 is the least; beside 40 and 41 before that they are something."""
    rows = [
        ("x", "a", 0.4, 0.41),
        ("x", "b", 0.5, 0.52),
        ("y", "a", 40.0, 40.5),
        ("y", "b", 41.0, 41.2),
    ]
    flat = [(place, treatment, network, "queued", row[network]) for place, treatment, *row in rows for network in (0, 1)]
    figures = pl.DataFrame(flat, schema=["middles", "treatment", "network", "metric", "value"], orient="row")
    rule = Rule(0.95, 0.05, nothing={"queued": 1.0})
    for against, nothing in ((None, True), ("y", False)):
        part = Comparison("queued", "a", "b", "x", against, "less")
        assert claims.is_nothing(part, claims.difference(figures, part, 0.95, rule), rule) is nothing


def test_copies_of_a_run_prove_nothing() -> None:
    figures = pl.DataFrame(
        [("x", treatment, network, "queued", value) for network in (0, 1, 2) for treatment, value in (("a", 2.0), ("b", 3.0))],
        schema=["middles", "treatment", "network", "metric", "value"],
        orient="row",
    )
    part = Comparison("queued", "a", "b", "x", None, "less")
    found = claims.difference(figures, part, 0.95)
    assert found is not None
    assert (found.interval.mean, found.interval.low, found.interval.high) == (-1.0, None, None)
    assert claims.verdict(part, found, Rule(0.95, 0.05)) == UNDECIDED


def test_two_figures_of_one_replicate_are_refused() -> None:
    figures = pl.DataFrame(
        [("x", treatment, 0, "queued", value) for value in (1.0, 2.0) for treatment in ("a", "b")],
        schema=["middles", "treatment", "network", "metric", "value"],
        orient="row",
    )
    for to in ("b", None):
        part = Comparison("queued", "a", to, "x", None if to else "x", "less")
        with pytest.raises(ValueError, match="several figures under one treatment"):
            claims.difference(figures, part, 0.95)


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
        largest = max(base, base + more)
        found = Difference(Interval(more, more - 0.001, more + 0.001, 5), base, 5, largest=largest)
        assert claims.is_nothing(part, found, rule) is nothing
        assert claims.verdict(part, found, rule) == expected
    found = Difference(Interval(0.01, 0.009, 0.011, 5), 0.01, 5)
    judged = Judged(Claim("4", "alike", (part,)), (Finding(part, found, UNDECIDED, nothing=True),), UNDECIDED)
    (row,) = list(claims_table.table([judged], {"queued": ("queued", "cells", 1)}))[2:3]
    assert "| undecided |" in row
    assert row.endswith(": nothing to compare |")


def test_claims_that_compare_what_is_not_there_are_refused() -> None:
    part = {"metric": "time", "of": "a", "to": "b", "at": "x", "is": "less"}
    row = {"section": "1", "says": "so", "parts": [part]}
    (claim,) = claims.read_claims([row], ["time"], ["a", "b"], ["x"])
    assert claim == Claim("1", "so", (Comparison("time", "a", "b", "x", None, "less"),))
    for wrong in (
        {"metric": "speed"},
        {"of": "c"},
        {"at": "y"},
        {"is": "more"},
        {"to": None},
        {"by": -1.0},
        {"to": ""},
        {"against": ""},
    ):
        with pytest.raises(ValueError, match="compares what is not there"):
            claims.read_claims([{**row, "parts": [{**part, **wrong}]}], ["time"], ["a", "b"], ["x"])
    # A number of relays can be 0, and is then a place like any other.
    with pytest.raises(ValueError, match="compares what is not there"):
        claims.read_claims([{**row, "parts": [{**part, "at": 5, "against": 0}]}], ["time"], ["a", "b"], [5, 10])


def test_the_table_says_by_how_much() -> None:
    part = Comparison("time", "a", None, "lossy", "clean", "less", by=0.5)
    finding = Finding(part, Difference(Interval(-0.7, -0.9, -0.5, 4), 1.0, 4), HOLDS)
    (row,) = list(
        claims_table.table([Judged(Claim("4.6", "most is lost", (part,)), (finding,), HOLDS)], {"time": ("time", "s", 1)})
    )[2:3]
    assert "lossy < clean by 50 % or more: −0.7 s (−0.9 to −0.5; 4 of 4): holds" in row
    assert "**holds**" in row


def test_all_comparisons_share_the_error() -> None:
    """Two claims of three comparisons in all: each interval at 1 - 0.05 / 3."""
    part = Comparison("time", "a", "b", 5, None, "less")
    asked = [Claim("1", "so", (part, part)), Claim("2", "and so", (part,))]
    figures = of_networks((10.0, 11.0), (10.0, 12.0), (10.0, 11.5))
    judged = claims.judge(figures, asked, RULE)
    assert claims.comparisons(asked) == 3
    found = judged[0].findings[0].difference
    assert found is not None
    assert found.interval == claims.t_interval([-1.0, -2.0, -1.5], 1 - 0.05 / 3)
    (text,) = list(claims_table.explanation(RULE, judged, "3 networks"))[:1]
    assert "Student's interval at 98.33 %, so that all 3 comparisons together are at 95 %" in text


def test_how_many_networks_would_decide() -> None:
    """Enough that the paired test sees the distance to the nearest verdict in four of five cases, and one fewer is not."""
    values = np.array([3.0, -1.0, 4.0, 0.0, 2.0, -2.0])  # mean 1; 5 counts as none
    scale = Scale(values, Interval(1.0, -2.0, 4.0, 6), -5.0, 5.0, 0.0)
    deviation = values.std(ddof=1)
    needed = scale.needed("greater", 0.95)
    assert needed is not None
    nearest = 4.0 / deviation  # to "no room for more than 5" it is farther than to zero, and so sooner seen
    assert power(nearest, needed, 0.95) >= 0.8 > power(nearest, needed - 1, 0.95)
    assert scale.needed("equal", 0.95) == needed, "the nearer of both bounds"
    part = differing("throughput", "greater")
    found = Difference(Interval(1.0, -2.0, 9.0, 6), 100.0, 4, values=tuple(values.tolist()))
    assert claims.replicates_needed(part, found, RULE, 0.95) == needed
    assert claims.replicates_needed(part, None, RULE, 0.95) is None
    finding = Finding(part, found, UNDECIDED, needed=40)
    (row,) = list(
        claims_table.table([Judged(Claim("1", "more", (part,)), (finding,), UNDECIDED)], {"throughput": ("rate", "", 1)})
    )[2:3]
    assert "(−2.0 to +9.0; 4 of 6): needs 40 |" in row


def test_the_table_has_the_ratio_where_it_counts() -> None:
    part = Comparison("time", "a", "b", 5, None, "less")
    words = {"time": ("time", "s", 1)}

    def row(*pairs: tuple[float, float]) -> str:
        judged = claims.judge(of_networks(*pairs), [Claim("1", "less", (part,))], RULE)
        return "\n".join([*claims_table.explanation(RULE, judged, "3 networks"), *claims_table.table(judged, words)])

    assert "; ratio 0.250 (" in row((1.0, 2.0), (4.0, 16.0), (8.0, 64.0))
    assert "†" in row((0.0, 2.0), (4.0, 16.0), (8.0, 64.0))
    assert "atio" not in row((9.0, 10.0), (9.0, 10.5), (9.0, 10.2))


def test_slight_ones_are_counted_apart() -> None:
    judged = [Judged(Claim("1", "x", ()), (), one) for one in (HOLDS, SLIGHTLY, SLIGHTLY, FAILS)]
    (sentence, *_) = claims_table.short(judged)
    assert (
        "claims 1 holds here, 2 slightly (by less than what counts as a difference), 1 does not, and 0 are undecided" in sentence
    )


def test_claims_that_do_not_hold_are_named_in_short_while_they_are_few() -> None:
    few = [Judged(Claim("1", f"so {number}", ()), (), HOLDS if number == 2 else FAILS) for number in (1, 2, 3)]
    assert list(claims_table.short(few))[2:] == ["Not so here:", "", "- 1: so 1", "- 3: so 3", ""]
    many = [Judged(Claim("1", f"so {number}", ()), (), UNDECIDED) for number in range(claims_table.FEW + 1)]
    assert list(claims_table.short(many))[2:] == ["Undecided: 1, 2, 3, 4, 5, 6, 7, 8, 9 of the table.", ""]


def test_what_verdicts_rest_on_as_a_table() -> None:
    part = Comparison("time", "a", "b", 5, None, "less")
    judged = claims.judge(of_networks((1.0, 2.0), (4.0, 16.0), (8.0, 64.0)), [Claim("1", "less", (part,))], RULE)
    (row,) = claims_table.rows(judged)
    assert (row["claim"], row["of"], row["to"], row["is"], row["replicates"]) == (1, "a", "b", "less", 3)
    assert (row["difference"], row["base"], row["ratio"]) == pytest.approx((-23.0, 82 / 3, 0.25))


def test_a_ratio_that_may_be_anything_has_no_upper_bound() -> None:
    assert claims_table.times(Interval(math.log(2), math.log(0.5), math.log(8), 5, "student")) == "2.000 (0.500 to 8.000)"
    assert claims_table.times(Interval(math.log(2), math.log(0.5), math.log(2001), 2, "student")) == "2.000 (0.500 or more)"
    assert claims_table.times(Interval(math.log(2), None, None, 1, "student")) == "2.000"
