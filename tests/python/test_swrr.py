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
from onionlab.reproductions.swrr import measure as swrr_measure
from onionlab.reproductions.swrr import networks as swrr_networks
from onionlab.reproductions.swrr import runs as swrr_runs
from onionlab.reproductions.swrr.assumptions import Assumptions, read
from onionlab.runner import Observer, Silent

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
    monkeypatch.setattr("onionlab.charts.export.to_png", lambda _: b"\x89PNG left out")
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
    for name, _ in swrr.drawings(assumptions, swrr_measure.Measured(*frames(tmp_path, assumptions), 0.0)):
        assert f"({name}.svg)" in text
        assert "NaN" not in (tmp_path / "docs" / f"{name}.svg").read_text(encoding="utf-8")


def frames(tmp_path: Path, assumptions: Assumptions) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """What was measured, from the runs that are there."""
    cells = swrr_runs.prepare(assumptions.variants, tmp_path / "out" / "quick")
    measured = swrr_measure.measure(swrr_runs.work_off(cells, Silent()))
    series = measured.series.filter(pl.col("variant") == "main", pl.col("treatment") == "RR", pl.col("network") == 0)
    assert series.group_by("middles").agg(pl.col("timeouts").is_sorted().all())["timeouts"].all()
    # What the curve delivers while it is measured is the figure: one step of 15 s.
    curve = series.filter(pl.col("middles") == 5, pl.col("time") > 15)["throughput"].mean()
    figure = measured.of("main").filter(
        pl.col("metric") == "throughput", pl.col("middles") == 5, pl.col("treatment") == "RR", pl.col("network") == 0
    )["value"]
    assert curve == pytest.approx(figure.item())
    return measured.figures, measured.series, measured.times


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
