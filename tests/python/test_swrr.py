"""The SWRR paper's experiment: what is assumed, the networks drawn, when a claim holds, and a small one from end to end."""

from __future__ import annotations

import json
import random
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fake_core import FakeCore
from onionlab import _core, cli
from onionlab.errors import ResultsError
from onionlab.reproductions import swrr
from onionlab.reproductions.claims import Comparison
from onionlab.reproductions.figures import capped, mean
from onionlab.reproductions.kept import work_off
from onionlab.reproductions.swrr import charts as swrr_charts
from onionlab.reproductions.swrr import matters, rivalry, turns
from onionlab.reproductions.swrr import measure as swrr_measure
from onionlab.reproductions.swrr import networks as swrr_networks
from onionlab.reproductions.swrr import runs as swrr_runs
from onionlab.reproductions.swrr.assumptions import Assumptions, read
from onionlab.reproductions.swrr.measure import Measured
from onionlab.running.runner import Observer, Silent

ROOT = Path(__file__).parents[2]
FILE = ROOT / "experiments" / "swrr" / "assumptions.toml"


@pytest.fixture(scope="module")
def full() -> Assumptions:
    return read(FILE, quick=False)


def test_the_full_experiment_is_the_paper_s(full: Assumptions) -> None:
    """Table 1, both comparisons, and what is asked of the reproduction: twenty networks, twenty minutes."""
    main = full.main
    assert main.network.relays == {"guard-exit": 5, "guard": 14, "exit": 10}
    assert (main.network.servers, main.network.clients) == (100, {"bulk": 80, "web": 320})
    assert main.middles == (20, 10, 5)
    assert main.networks >= 20
    assert main.load.duration >= 20 * 60
    assert (main.load.bulk_size, main.load.web_size) == (5 * 2**20, 327_680)
    assert main.load.bulk_start[1] < main.load.web_start[0], "downloaders first"
    assert list(main.treatments) == ["RR", "EWMA", "SWRR linear", "SWRR proportional", "SWRR logarithmic"]
    assert full.today.base["tor"] == "0.4.9"
    assert "circuitmux" not in full.today.base


def test_every_turn_turns_something(full: Assumptions) -> None:
    for turn in full.turns:
        own = {name: full.main.treatments[name] for name in turn.treatments}
        same = (turn.network, turn.load, turn.base, turn.treatments) == (
            full.main.network,
            full.main.load,
            full.main.base,
            own,
        )
        assert not same, turn.name
    assert len({variant.name for variant in full.variants}) == len(full.variants)


def test_the_quick_one_is_smaller_and_otherwise_the_same(full: Assumptions) -> None:
    quick = read(FILE, quick=True)
    assert quick.main.networks < full.main.networks
    assert quick.main.load.duration < full.main.load.duration
    assert (quick.main.network, quick.main.base, quick.claims) == (full.main.network, full.main.base, full.claims)


def test_a_file_that_is_not_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="--experiments names the folder"):
        read(tmp_path / "assumptions.toml", quick=False)
    text = FILE.read_text(encoding="utf-8")
    wrong = tmp_path / "assumptions.toml"
    wrong.write_text(text.replace('to = "EWMA", at = 5', 'to = "WRR", at = 5'), encoding="utf-8")
    with pytest.raises(ResultsError, match="compares what is not there"):
        read(wrong, quick=False)
    wrong.write_text(text.replace("[network]", "[nets]"), encoding="utf-8")
    with pytest.raises(ResultsError, match="not a list of this experiment's assumptions"):
        read(wrong, quick=False)


def test_one_relay_of_each_part() -> None:
    """Ten relays in five parts of two: one of each pair, the greatest first."""
    weights = [1, 2, 10, 20, 100, 200, 1000, 2000, 10_000, 20_000]
    seen = {tuple(swrr_networks.draw_class(weights, 5, random.Random(seed))) for seed in range(200)}
    assert len(seen) == 2**5
    assert all(drawn[4 - part] in weights[2 * part : 2 * part + 2] for drawn in seen for part in range(5))
    with pytest.raises(ResultsError, match="has 10 relays of a class of which 11 are needed"):
        swrr_networks.draw_class(weights, 11, random.Random(1))


def test_networks_of_all_sizes(full: Assumptions) -> None:
    rules = full.main.network
    five, twenty = (swrr_networks.draw_relays(rules, 3, middles) for middles in (5, 20))
    for relays, count in ((five, 5), (twenty, 20)):
        middles = [relay for relay in relays if relay.kind == "middle"]
        others = [relay for relay in relays if relay.kind != "middle"]
        assert (len(middles), len(others)) == (count, 29)
        assert sum(relay.link for relay in middles) / count == pytest.approx(rules.middle_link, rel=0.02)
        # The middle position is theirs alone.
        assert sum(relay.weight for relay in middles) == pytest.approx(sum(relay.weight for relay in others), rel=1e-3)
    assert [relay for relay in five if relay.kind != "middle"] == [relay for relay in twenty if relay.kind != "middle"]
    ratios = [few.link / many.link for few, many in zip(five[-5:], twenty[29:34], strict=True)]
    assert ratios == pytest.approx([ratios[0]] * 5, rel=1e-3), "the same five relays"
    assert swrr_networks.draw_relays(rules, 4, 5) != five
    limited = swrr_networks.draw_relays(replace(rules, limit_by_tor=True), 3, 5)
    assert [relay.limit for relay in limited[-5:]] == [relay.link for relay in five[-5:]]
    even = swrr_networks.draw_relays(replace(rules, even_links=True), 3, 5)
    assert len({relay.link for relay in even[-5:]}) == 1


def test_every_variant_can_be_run(full: Assumptions, tmp_path: Path) -> None:
    for variant in full.variants:
        (cell, *_) = swrr_runs.prepare([replace(variant, networks=1)], tmp_path)
        scenario = json.loads(_core.resolve(str(cell.file)))
        assert [treatment["name"] for treatment in scenario["treatments"]] == list(variant.treatments)


class Counting(Silent):
    """Counts the runs that are made."""

    made = 0

    def finished(self, *_: object) -> None:
        self.made += 1

    def shown(self) -> AbstractContextManager[Observer]:
        return nullcontext(self)


def small(full: Assumptions) -> Assumptions:
    """Two networks of half a minute, few clients, one turn."""
    load = replace(full.main.load, duration=30, measure_from=15, bulk_start=(1, 2), web_start=(3, 6))
    network = replace(full.main.network, clients={"bulk": 2, "web": 8}, middle_link=50_000)
    chosen = [full.main, full.turns[0], full.today]
    less = [replace(one, load=load, network=network, networks=2, middles=one.middles[-1:]) for one in chosen]
    less[0] = replace(less[0], middles=(20, 5))
    return replace(full, variants=tuple(less))


@pytest.mark.timeout(1800)
def test_a_small_one_from_end_to_end(full: Assumptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is made once, the page has every claim and chart, and a second call only writes it again."""
    assumptions = small(full)
    monkeypatch.setattr(swrr, "read", lambda *_, **__: assumptions)
    pages = []
    for observer in (Counting(), Counting()):
        page, broken = swrr.reproduce(FILE.parent, tmp_path / "out", tmp_path / "docs", observer.shown, quick=True)
        assert broken == []
        pages.append((observer.made, page.read_text(encoding="utf-8")))
    runs = sum(len(one.middles) * one.networks * len(one.treatments) for one in assumptions.variants)
    assert [made for made, _ in pages] == [runs, 0]
    assert pages[0][1] == pages[1][1]
    text = pages[0][1]
    assert "This is the quick run" in text
    for claim in assumptions.claims:
        assert claim.says in text
    for name, _ in swrr.drawings(assumptions, again(tmp_path, assumptions)):
        assert f"({name}.svg)" in text
        assert "NaN" not in (tmp_path / "docs" / f"{name}.svg").read_text(encoding="utf-8")
        if not name.startswith("swrr-today"):  # in half a minute today's tor has no download done
            assert set(pl.read_csv(tmp_path / "docs" / f"{name}.csv").columns) >= {"data", "treatment", "mean", "low", "high"}
    assert pl.read_csv(tmp_path / "docs" / "swrr-figures.csv").height == runs
    assert pl.read_csv(tmp_path / "docs" / "swrr-claims.csv")["claim"].n_unique() == len(assumptions.claims)


def again(tmp_path: Path, assumptions: Assumptions) -> Measured:
    """What was measured, from the runs that are there."""
    cells = swrr_runs.prepare(assumptions.variants, tmp_path / "out" / "quick")
    reduced = work_off(swrr_runs.ahead(cells), lambda number, found: swrr_measure.reduce(cells[number], found), Silent())
    measured = swrr_measure.together(list(reduced))
    series = measured.series.filter(pl.col("variant") == "main", pl.col("treatment") == "RR", pl.col("network") == 0)
    assert series.group_by("middles").agg(pl.col("timeouts").is_sorted().all())["timeouts"].all()
    # What the curve delivers while it is measured is the figure: one step of 15 s.
    curve = series.filter(pl.col("middles") == 5, pl.col("time") > 15)["throughput"].mean()
    figure = measured.of("main").filter(
        pl.col("metric") == "throughput", pl.col("middles") == 5, pl.col("treatment") == "RR", pl.col("network") == 0
    )["value"]
    assert curve == pytest.approx(figure.item())
    # The share of all downloads whose last byte came before the time-out is that of those that did not fail.
    assert (
        measured.shares.group_by("variant", "middles", "treatment", "network", "which")
        .agg(sorted=pl.col("share").is_sorted(), most=pl.col("share").max())
        .select(pl.col("sorted").all() & (pl.col("most") <= 1).all())
        .item()
    )
    return measured


def test_failures_count_in_what_is_of_all() -> None:
    """Of four downloads two are done after 1 and 3 s, one fails, one takes longer than 60 s: (1 + 3 + 60 + 60) / 4."""
    times = pl.Series([1.0, None, 3.0, 75.0])
    assert mean(capped(times, 60.0)) == 31.0
    assert mean(capped(pl.Series([], dtype=pl.Float64), 60.0)) is None
    shares = swrr_measure._shares("last-byte", times, 60.0)
    at = dict(zip(shares["time"].to_list(), shares["share"].to_list(), strict=True))
    assert (at[0.5], at[1.0], at[3.0], at[60.0]) == (0.0, 0.25, 0.5, 0.5)


def test_middles_with_weights_of_their_own(full: Assumptions) -> None:
    """Unscaled, the weights are the consensus's; links and all other relays stay."""
    rules = full.main.network
    scaled, own = (swrr_networks.draw_relays(replace(rules, scale_middles=scale), 3, 5) for scale in (True, False))
    assert [relay.link for relay in scaled] == [relay.link for relay in own]
    assert scaled[:-5] == own[:-5]
    population = swrr_networks.weights_by_class(_core.synth(json.dumps({"year": rules.year, "seed": rules.first_seed + 3})))
    assert {relay.weight for relay in own[-5:]} <= set(population["middle"])


def figures_of(variants: dict[str, float], networks: int = 6) -> pl.DataFrame:
    """Figures in which SWRR is so many times its rivals, in each variant; nothing else differs between networks but a little."""
    rows = [
        (variant, middles, name, network, metric, (100 + network) * (factor if name == rivalry.OURS else 1.0))
        for variant, factor in variants.items()
        for middles in (20, 10, 5)
        for name in ("RR", "EWMA", "SWRR linear", "SWRR proportional", "SWRR logarithmic")
        for network in range(networks)
        for metric in rivalry.WORDS
    ]
    columns = ["variant", "middles", "treatment", "network", "metric", "value"]
    return pl.DataFrame(rows, schema=columns, orient="row")


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (1.5, "matters as assumed: 30 of 30 figures differ by surely more than 5 %, for the better in 6 of them"),
        (1.03, "makes some difference as assumed, but none that is surely above 5 %"),
        (1.0, "does not matter as assumed: nothing differs by 5 %"),
    ],
)
def test_whether_it_matters(full: Assumptions, factor: float, words: str) -> None:
    """More throughput is better; more of everything else is worse."""
    nothing = pl.DataFrame()
    measured = Measured(figures_of({"main": factor}), nothing, nothing, nothing, nothing)
    assert words in " ".join(matters.answer(measured, full.main, full.rule, "as assumed"))


def test_whether_it_matters_can_stay_open(full: Assumptions) -> None:
    figures = figures_of({"main": 1.0}).with_columns(
        value=pl.when(pl.col("treatment") == rivalry.OURS).then(pl.col("value") + 40 * (pl.col("network") % 2)).otherwise("value")
    )
    nothing = pl.DataFrame()
    measured = Measured(figures, nothing, nothing, nothing, nothing)
    text = " ".join(matters.answer(measured, full.main, full.rule, "as assumed"))
    assert "is not shown: no difference is sure with 20 networks" in text
    assert "30 are open. The largest, which chance may have made" in text


def test_a_turn_against_the_same_networks(full: Assumptions) -> None:
    """SWRR takes 1.5 times as long in the turn, and as long as the others as assumed: the ratio is 1.5 of what it was."""
    turn = full.turns[0]
    measured = Measured(figures_of({"main": 1.0, turn.name: 1.5}), *[pl.DataFrame()] * 4)
    part = Comparison("first-byte", rivalry.OURS, "RR", 5, None, "equal")
    assert turns.beside_main(measured, turn, part, 0.95) == "1.500 (1.500 to 1.500)*"
    changed, count = turns.verdict_changes(measured, full, turn)
    assert "first byte, SWRR linear = RR, at 5: does not hold instead of holds" in changed
    assert count > len(changed) > 0
    assert turns.surely_other(measured, turn, full.rule) == (10, 10)
    text = "\n".join(turns.section(replace(full, variants=(full.main, turn, full.today)), measured))
    assert "Nothing was turned with 20 or 10 middles" in text
    assert f"- {turn.what}: " in text


def test_what_a_turn_has_not_run_is_no_comparison_of_it(full: Assumptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is shared among the comparisons that there are: those with RR alone where a turn leaves EWMA out."""
    turn = replace(full.turns[0], treatments={name: {} for name in ("RR", rivalry.OURS)})
    measured = Measured(figures_of({"main": 1.0, turn.name: 1.5}), *[pl.DataFrame()] * 4)
    counts: list[int] = []
    monkeypatch.setattr(turns, "per_comparison", lambda confidence, count: counts.append(count) or confidence)
    assert turns.surely_other(measured, turn, full.rule) == (5, 5)
    assert counts == [len(rivalry.pairs(turn))] == [5]


def test_a_steady_goodput_is_told_from_one_that_moves(full: Assumptions) -> None:
    """A sample each 5 s for 20 minutes: the same throughout, or twice as much in the last quarter."""
    variant = replace(full.main, middles=(5,), treatments={"RR": {}}, networks=3)

    def told(last: float) -> str:
        rows = [
            ("main", 5, "RR", network, int(5e9 * step), (1000.0 + step % 2) * (last + 0.01 * network if step > 180 else 1.0))
            for network in range(3)
            for step in range(1, 241)
        ]
        columns = ["variant", "middles", "treatment", "network", "time_ns", "goodput_bytes"]
        goodput = pl.DataFrame(rows, schema=columns, orient="row")
        return " ".join(matters.settled(Measured(*[pl.DataFrame()] * 4, goodput), variant))

    assert "has settled by 0 s" in told(0.99)
    assert "none moves by more than 5 % for sure" in told(0.99)
    assert "does not settle in the first half" in told(2.0)
    assert "**still moves** under RR" in told(2.0)


def test_a_treatment_looks_alike_in_every_chart(full: Assumptions) -> None:
    """SWRR linear is in both comparisons, with one colour and one dash, and each legend has those that are drawn."""
    shares = pl.DataFrame(
        [
            ("main", middles, name, network, which, time, 0.5)
            for middles in full.main.middles
            for name in full.main.treatments
            for network in (0, 1)
            for which in ("first-byte", "last-byte")
            for time in (0.0, 10.0)
        ],
        schema=["variant", "middles", "treatment", "network", "which", "time", "share"],
        orient="row",
    )
    measured = Measured(*[pl.DataFrame()] * 3, shares, pl.DataFrame())
    looks = []
    for comparison, names in swrr_charts.COMPARISONS.items():
        chart = swrr_charts.all_times(measured, full.main, comparison)
        encoding = chart["vconcat"][0]["hconcat"][0]["layer"][-1]["encoding"]
        assert encoding["color"]["legend"]["values"] == list(names)
        looks.append((encoding["color"]["scale"], encoding["strokeDash"]["scale"]))
    assert looks[0] == looks[1]


@pytest.mark.parametrize("words", [["salsa", "--quick"], ["shadow-tor", "--quick"], ["swrr", "--seeds", "3"]])
def test_options_of_other_papers_are_refused(
    words: list[str], core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["onionlab", "reproduce", *words])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == cli.EXIT_REFUSED
    assert f"{words[0]} does not use it" in capsys.readouterr().err
    assert core.made == []
