"""Whole networks held against published ones: what counts as within, what is compared, and the page."""

from __future__ import annotations

import json
import lzma
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from fake_core import FakeCore
from onionlab import cli
from onionlab.errors import ImportedError, ResultsError
from onionlab.plan import Plan, PlannedRun
from onionlab.reproductions import REPRODUCTIONS, Request, shadow_networks
from onionlab.reproductions.kept import Kept
from onionlab.reproductions.published import differences_section, load_differences
from onionlab.reproductions.published_networks import settle
from onionlab.reproductions.shadow_networks import charts as shadow_networks_charts
from onionlab.reproductions.shadow_networks import compare
from onionlab.reproductions.shadow_networks import page as shadow_networks_page
from onionlab.reproductions.shadow_networks import transfer_times as shadow_networks_times
from onionlab.reproductions.shadow_networks.by_place import by_place
from onionlab.reproductions.shadow_networks.more_load import QUANTILES as MORE_QUANTILES
from onionlab.reproductions.shadow_networks.more_load import Ratio, effect
from onionlab.reproductions.shadow_networks.spread import Placed, Target
from onionlab.reproductions.shadow_networks.transfer_times import FORM, Observed, reduce

ROOT = Path(__file__).parents[2]
QUANTILES = [0.1, 0.5, 0.9]
NAME = "1pct-load1.0-9"


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """A folder as the reference's, with one network of eight clients."""
    folder = tmp_path / "reference"
    folder.mkdir()
    spread = {"runs": 100, "mean": [0.5, 1.0, 2.0], "sd": [0.1, 0.2, 0.4]}
    keys = [f"{metric}.{size}" for metric in shadow_networks_times.TIMES for size in shadow_networks_times.SIZES]
    targets = {"quantiles": QUANTILES, "shadow": {"1% load 1.0": dict.fromkeys(keys, spread)}}
    (folder / "targets.json").write_text(json.dumps(targets))
    times = {size: [0.4, 0.9, 1.1, 2.5] for size in shadow_networks_times.SIZES}
    results = dict.fromkeys(shadow_networks_times.TIMES, times) | {"error_rate": {"ALL": [[0.0, 2.5], [5.0, 2.5]]}}
    (folder / f"{NAME}.results.json.xz").write_bytes(lzma.compress(json.dumps(results).encode()))
    return folder


def experiment() -> Any:
    """What is taken of a finished run: downloads of 50 KiB that take 0.5, 0.6, ... s once connected."""
    rows = [
        {
            "group": "perf",
            "client": f"perf{index % 2}",
            "size_bytes": 51_200,
            "outcome": "timeout" if index == 7 else "ok",
            "start_ns": int((30 + index) * 1e9),
            "connected_ns": int((30.25 + index) * 1e9),
            "first_byte_ns": int((30.5 + index) * 1e9),
            "last_byte_ns": int((30.75 + index + index / 10) * 1e9),
        }
        for index in range(8)
    ]
    early = rows[0] | {"start_ns": 1, "last_byte_ns": int(99e9)}
    load = rows[0] | {"group": "markov", "last_byte_ns": int(99e9)}
    return SimpleNamespace(
        transfers=pl.DataFrame([*rows, early, load]).with_columns(pl.col("size_bytes").cast(pl.UInt64)),
        network=pl.DataFrame(
            {
                **{key: [0, 0, 0] for key in ("treatment", "network", "seed")},
                "time_ns": [int(10e9), int(30e9), int(60e9)],
                "relay_bytes_sent": [10**9, 4 * 10**8, 3 * 10**8],
            }
        ),
        runs=pl.DataFrame(
            {
                "wall_seconds": [90.0],
                "cpu_seconds": [60.0],
                "peak_memory_bytes": [10**8],
                "cell_hops": [10**8],
                "version": ["1"],
                "build": ["2e"],
                "relays": [65],
                "clients": [108],
            }
        ),
        plan=SimpleNamespace(scenario={"network": {"latency": None}, "clients": [{"load": {"kind": "tor-users"}}]}),
        measure_from=20.0,
        duration=60.0,
    )


def observed(run: Any = None) -> Observed:
    return Observed.of(reduce(run or experiment()))


def test_times_count_from_the_request_and_what_came_early_is_left_out(reference: Path) -> None:
    one = compare(NAME, reference, observed())
    assert np.allclose(one.ours["time_to_first_byte_recv", "51200"], [0.25] * 7)
    assert np.allclose(one.ours["time_to_last_byte_recv", "all"], 0.5 + np.arange(7) / 10)
    assert len(one.ours["time_to_first_byte_recv", "1048576"]) == 0
    assert one.our_errors.tolist() == [0.0, 0.25]
    assert one.their_errors.tolist() == [0.0, 0.05]
    # Of the sample in which the measurement begins, 10 of 20 s count.
    assert one.observed.goodput == 8 * (2e8 + 3e8) / 40
    # Sizes that nobody downloaded have no figures.
    assert sorted(one.figures) == [(metric, size) for metric in sorted(shadow_networks_times.TIMES) for size in ("51200", "all")]


def test_a_figure_is_within_two_deviations_of_the_mean() -> None:
    target = Target(1.0, 0.2, 100)
    assert Placed(1.39, target).within
    assert not Placed(1.41, target).within
    assert not Placed(0.59, target).within
    assert Placed(0.8, target).distance == pytest.approx(-1.0)
    assert not Placed(1.0, Target(1.0, 0.0, 100)).within


def test_the_page_counts_what_is_within(reference: Path, tmp_path: Path) -> None:
    one = compare(NAME, reference, observed())
    inside, all_ = one.within
    # First byte: 0.25 s lies 2.5, 3.75 and 4.4 deviations below; last byte: 0.5, 0.8 and 1.0 s lie 0, 1 and 2.5 from the mean.
    assert (inside, all_) == (4, 12)
    reason = {"what": "first byte", "mechanism": "no queue", "evidence": "it is made up"}
    page = shadow_networks_page.page([one], [], [reason])
    assert "**Of 12 figures of 1 network, 4 are within.**" in page
    assert "| first byte | no queue | it is made up |" in page
    # Ours over theirs: 0.25 to 0.4, 0.9, 1.1 s, and 0.5, 0.8, 1.0 s to the same.
    assert f"| {NAME}, until minute 1 | 4 of 12 | 0.28 | 0.91 | 2.5 % / 12.5 % |" in page
    assert f"| {NAME}, until minute 1 | 1 min | 1.0 min |" in page
    assert "processor time" in page
    assert "By onionlab 1, build 2e." in page
    assert "| | | | ours | **0.25** | **0.25** | **0.25** |" in page
    assert "| | | | ours | 0.50 | 0.80 | **1.00** |" in page
    assert "the built-in places" in page
    assert f'onionlab reproduce shadow-networks --networks {NAME} --duration "1 min"' in page
    assert max(map(len, page.splitlines())) < 260


def test_more_load_is_a_ratio_with_clients_paired(reference: Path) -> None:
    path = reference / "targets.json"
    targets = json.loads(path.read_text())
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    keys = [f"{metric}.{size}" for metric in shadow_networks_times.TIMES for size in shadow_networks_times.SIZES]
    for load, mean, runs in (("1.0", 2.0, 100), ("1.2", 3.0, 64)):
        targets["shadow"][f"1% load {load}"] = {key: {"runs": runs, "mean": [mean] * 5, "sd": [0.4] * 5} for key in keys}
    path.write_text(json.dumps(targets | {"quantiles": levels}))

    def slower(factor: int) -> Any:
        one = experiment()
        stretched = pl.col("connected_ns") + factor * (pl.col("first_byte_ns") - pl.col("connected_ns"))
        one.transfers = one.transfers.with_columns(first_byte_ns=stretched)
        return one

    found = effect(NAME, reference, observed(), observed(slower(2)))
    # Every first byte of every client takes twice as long: nothing for the bootstrap to vary. Theirs: half as long again.
    ratios = found.ratios["time_to_first_byte_recv", "51200"]
    assert [(ratio.ours, ratio.low, ratio.high, ratio.theirs) for ratio in ratios] == [(2.0, 2.0, 2.0, 1.5)] * 5
    assert ratios[0].error == pytest.approx(1.5 * np.hypot(0.2 / 10, 0.4 / 3 / 8))
    assert (ratios[0].clients, ratios[0].networks) == (2, 64)
    assert found.ratios["time_to_last_byte_recv", "all"][2].ours == 1.0
    assert ("time_to_first_byte_recv", "1048576") not in found.ratios
    assert (found.agreeing, found.moved) == ((0, 20), (10, 20))
    page = shadow_networks_page.page([compare(NAME, reference, observed())], [found], [])
    assert f"## 20 % more load: {NAME}" in page
    assert "| first byte | all sizes | ours | **2.00 [2.00, 2.00]** |" in page
    assert "| | | theirs | 1.50 ± 0.08 |" in page
    # First bytes take 0.5 s now, their networks 3.0 s with a deviation of 0.4; last bytes are as before, 0.5 to 1.1 s.
    assert [placed.distance for placed in found.loaded["time_to_first_byte_recv", "all"]] == [pytest.approx(-6.25)] * 5
    assert found.within == (0, 20)
    assert "in all 1 minutes of it" in page
    assert "| first byte | 50 KiB | ours | **0.50** |" in page
    assert "| | | their networks | 3.00 ± 0.40 |" in page


def test_charts_say_what_they_show(reference: Path) -> None:
    specification = json.dumps(shadow_networks_charts.chart(compare(NAME, reference, observed())))
    for text in (shadow_networks_charts.OURS, shadow_networks_charts.THEIRS, "50 KiB", "share of downloads"):
        assert text in specification


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda it: it.pop("error_rate"), "holds no results"),
        (lambda it: it["time_to_first_byte_recv"].update(all=["fast"]), "holds no results"),
    ],
)
def test_a_broken_reference_is_one_sentence(change: Any, sentence: str, reference: Path) -> None:
    path = reference / f"{NAME}.results.json.xz"
    content = json.loads(lzma.decompress(path.read_bytes()))
    change(content)
    path.write_bytes(lzma.compress(json.dumps(content).encode()))
    with pytest.raises(ResultsError, match=sentence):
        compare(NAME, reference, observed())


def test_without_reference_or_runs_it_says_so(reference: Path, tmp_path: Path) -> None:
    arguments = (ROOT / "experiments/shadow-networks", reference, tmp_path / "out", tmp_path / "docs")
    with pytest.raises(ResultsError, match="--reference names their folder"):
        shadow_networks.reproduce(arguments[0], tmp_path, *arguments[2:])
    with pytest.raises(ResultsError, match="no network 'tiny'"):
        shadow_networks.reproduce(*arguments, networks=["tiny"])
    with pytest.raises(ResultsError, match="no finished run"):
        shadow_networks.reproduce(*arguments, networks=[])
    with pytest.raises(ResultsError, match="no finished run"):
        shadow_networks.reproduce(*arguments, networks=[], kept=tmp_path / "kept")
    with pytest.raises(ResultsError, match=r"the reference has the usual one, 1, and 1\.2"):
        shadow_networks.reproduce(*arguments, networks=[], load=1.5)
    (reference / f"{NAME}.network.json.xz").write_bytes(lzma.compress(b"{}"))
    with pytest.raises(ResultsError, match=f"{NAME} was not run with the usual load yet"):
        shadow_networks.reproduce(*arguments, networks=[NAME], load=1.2)


def test_a_network_whose_downloads_all_fail_is_on_the_page(reference: Path) -> None:
    one = experiment()
    one.transfers = one.transfers.with_columns(outcome=pl.lit("timeout"))
    page = shadow_networks_page.page([compare(NAME, reference, observed(one))], [], [])
    assert f"| {NAME}, until minute 1 | 0 of 0 | – | – | 2.5 % / 100.0 % |" in page
    one.transfers = one.transfers.clear()
    assert f"| {NAME}, until minute 1 | 0 of 0 | – | – | 2.5 % / none |" in shadow_networks_page.page(
        [compare(NAME, reference, observed(one))], [], []
    )


def test_an_import_is_made_anew_and_moved_only_where_it_differs(tmp_path: Path) -> None:
    """The same files stay where they are, with the runs' experiment file as old as it was; others take their place."""
    place = tmp_path / "network"
    for text, moves in (("one", True), ("one", False), ("two", True)):
        draft = tmp_path / "imported"
        draft.mkdir()
        (draft / "experiment.toml").write_text(text)
        before = place.stat().st_ino if place.is_dir() else None
        settle(draft, place)
        assert not draft.exists()
        assert (place / "experiment.toml").read_text() == text
        assert (place.stat().st_ino != before) == moves


def test_what_was_kept_is_on_the_page(reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any results, and only with the duration that is asked for."""
    (reference / f"{NAME}.network.json.xz").write_bytes(lzma.compress(b"{}"))
    Kept(tmp_path / "kept", FORM).add(NAME, "whatever it was", reduce(experiment()))
    folders = ROOT / "experiments/shadow-networks", reference, tmp_path / "out", tmp_path / "docs"
    page, broken = shadow_networks.reproduce(*folders, networks=[], kept=tmp_path / "kept")
    assert broken == []
    text = page.read_text(encoding="utf-8")
    assert f"| {NAME}, until minute 1 | 4 of 12 | 0.28 | 0.91 | 2.5 % / 12.5 % |" in text
    with pytest.raises(ResultsError, match="no finished run"):
        shadow_networks.reproduce(*folders, networks=[], duration="20 min", kept=tmp_path / "kept")


def test_a_network_that_is_kept_with_another_time_alone_is_on_the_page_with_it(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest of several; one that is kept with an hour too is there with that, and with the longest that has more load."""
    other = NAME.replace("-9", "-8")
    targets = json.loads((reference / "targets.json").read_text())
    spread = {"runs": 100, "mean": [1.0] * len(MORE_QUANTILES), "sd": [0.1] * len(MORE_QUANTILES)}
    of_scale = dict.fromkeys(targets["shadow"]["1% load 1.0"], spread)
    targets = {"quantiles": MORE_QUANTILES, "shadow": {"1% load 1.0": of_scale, "1% load 1.2": of_scale}}
    (reference / "targets.json").write_text(json.dumps(targets))
    for name in (NAME, other):
        (reference / f"{name}.network.json.xz").write_bytes(lzma.compress(b"{}"))
        (reference / f"{name}.results.json.xz").write_bytes((reference / f"{NAME}.results.json.xz").read_bytes())
    kept = Kept(tmp_path / "kept", FORM)

    def keep(called: str, seconds: float) -> None:
        one = experiment()
        one.duration = seconds
        kept.add(called, "whatever it was", reduce(one))

    keep(NAME, 3600.0)
    for called, seconds in (("40 min", 2400.0), ("20 min", 1200.0), ("load 1.2, 20 min", 1200.0)):
        keep(f"{NAME}, {called}", seconds)
    for called, seconds in (("10 min", 600.0), ("26 min", 1560.0), ("load 1.2, 26 min", 1560.0), ("load 1.2, 10 min", 600.0)):
        keep(f"{other}, {called}", seconds)
    folders = ROOT / "experiments/shadow-networks", reference, tmp_path / "out", tmp_path / "docs"
    text = shadow_networks.reproduce(*folders, networks=[], kept=tmp_path / "kept")[0].read_text(encoding="utf-8")
    assert f"    onionlab reproduce shadow-networks --networks {NAME}\n" in text
    assert f'    onionlab reproduce shadow-networks --networks {other} --duration "26 min"\n' in text
    assert f'    onionlab reproduce shadow-networks --networks {NAME} --duration "20 min"\n' in text
    assert f'    onionlab reproduce shadow-networks --networks {NAME} --load 1.2 --duration "20 min"\n' in text
    assert f'    onionlab reproduce shadow-networks --networks {other} --load 1.2 --duration "26 min"\n' in text
    assert f"## 20 % more load: {NAME}\n\nThe same network with 1.2 times the circuits, 20 simulated minutes" in text
    assert f"| {NAME} | 60 min |" in text
    assert f"| {other}, until minute 26 | 26 min |" in text
    assert f"## 20 % more load: {other}\n\nThe same network with 1.2 times the circuits, 26 simulated minutes" in text
    assert "40 min" not in text


def test_more_load_can_be_run_where_the_usual_load_ended_sooner(reference: Path, tmp_path: Path) -> None:
    """What stands beside it has ended before the hour: the same command without ``--duration`` made it."""
    (reference / f"{NAME}.network.json.xz").write_bytes(lzma.compress(b"{}"))
    kept = Kept(tmp_path / "kept", FORM)
    kept.add(f"{NAME}, 35 min", "whatever it was", reduce(experiment()))
    folders = ROOT / "experiments/shadow-networks", reference, tmp_path / "out", tmp_path / "docs"
    # The network that it goes on with is an empty document.
    with pytest.raises(ImportedError, match="has no `relays`"):
        shadow_networks.reproduce(*folders, networks=[NAME], load=1.2, kept=tmp_path / "kept")
    with pytest.raises(ResultsError, match="was not run with the usual load yet"):
        shadow_networks.reproduce(*folders, networks=[NAME], load=1.2, duration="20 min", kept=tmp_path / "kept")


def test_results_that_cannot_be_read_are_not_taken_for_none(reference: Path, tmp_path: Path) -> None:
    (reference / f"{NAME}.network.json.xz").write_bytes(lzma.compress(b"{}"))
    plan = tmp_path / "out" / NAME / "results" / "plan.json"
    plan.parent.mkdir(parents=True)
    plan.write_text("{", encoding="utf-8")
    folders = ROOT / "experiments/shadow-networks", reference, tmp_path / "out", tmp_path / "docs"
    with pytest.raises(ResultsError, match=r"plan\.json: not a plan that onionlab wrote"):
        shadow_networks.reproduce(*folders, networks=[])
    # One that is planned and not finished yet is none.
    scenario = {"title": "x", "duration": "1 h", "clients": [], "treatments": [{"name": "a"}]}
    planned = PlannedRun("a", 0, 0, 1, "runs/a--net0--seed1")
    plan.write_text(Plan(scenario, "0.1.0", "1f", (planned,)).to_json(), encoding="utf-8")
    with pytest.raises(ResultsError, match="no finished run of these networks"):
        shadow_networks.reproduce(*folders, networks=[])


def test_loads_that_different_builds_have_run_are_not_compared(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reference / f"{NAME}.network.json.xz").write_bytes(lzma.compress(b"{}"))
    kept = Kept(tmp_path / "kept", FORM)
    kept.add(NAME, "whatever it was", reduce(experiment()))
    other = experiment()
    other.runs = other.runs.with_columns(build=pl.lit("3f"))
    kept.add(f"{NAME}, load 1.2", "whatever it was", reduce(other))
    folders = ROOT / "experiments/shadow-networks", reference, tmp_path / "out", tmp_path / "docs"
    text = shadow_networks.reproduce(*folders, networks=[], kept=tmp_path / "kept")[0].read_text(encoding="utf-8")
    assert f"## 20 % more load: {NAME}\n\nRun by another build than the usual load" in text
    assert "--load" not in text
    # A shorter one of another build stands in the overview; of several the longest.
    for called, seconds in (("until 30 min", 1800.0), ("until 25 min", 1500.0)):
        short = experiment()
        short.runs = short.runs.with_columns(build=pl.lit("4f"))
        short.duration = seconds
        kept.add(f"{NAME}, {called}", "whatever it was", reduce(short))
    text = shadow_networks.reproduce(*folders, networks=[], kept=tmp_path / "kept")[0].read_text(encoding="utf-8")
    assert f"| {NAME}, until minute 30 | 30 min |" in text
    assert f"{NAME}, until minute 25" not in text
    assert "build 4f (1 run)" in text
    # The same build, but downloads that count from another minute: as with another duration.
    other = experiment()
    other.measure_from = 10.0
    kept.add(f"{NAME}, load 1.2", "something else", reduce(other))
    text = shadow_networks.reproduce(*folders, networks=[], kept=tmp_path / "kept")[0].read_text(encoding="utf-8")
    assert f"## 20 % more load: {NAME}\n\nIts downloads count from another minute" in text


def test_runs_of_unlike_lengths_are_compared_as_far_as_both_go(reference: Path) -> None:
    """Ours is at minute 1 with the usual load and at second 50 with more: downloads that were complete or given up by then."""
    targets = json.loads((reference / "targets.json").read_text())
    spread = {"runs": 100, "mean": [1.0] * len(MORE_QUANTILES), "sd": [0.1] * len(MORE_QUANTILES)}
    of_scale = dict.fromkeys(targets["shadow"]["1% load 1.0"], spread)
    targets = {"quantiles": MORE_QUANTILES, "shadow": {"1% load 1.0": of_scale, "1% load 1.2": of_scale}}
    (reference / "targets.json").write_text(json.dumps(targets))
    long, short, other = experiment(), experiment(), experiment()
    short.duration = 50.0
    long.measure_from = short.measure_from = 28.0
    # Those that began after second 35 would be given up after the end; the two fastest of them have ended.
    ended = pl.col("connected_ns") < 37e9
    short.transfers = short.transfers.with_columns(outcome=pl.when(ended).then("outcome").otherwise(pl.lit("unfinished")))
    other.measure_from = 10.0
    pair = shadow_networks.Runs([observed(other), observed(long)], [observed(short)]).pair
    assert pair is not None
    assert [run.duration for run in pair] == [60.0, 50.0]
    found = effect(NAME, reference, *pair)
    assert found.minutes == pytest.approx(50 / 60)
    # The same downloads on both sides; without the limit those of the usual load would go on to longer ones.
    assert {(ratio.ours, ratio.low, ratio.high) for row in found.ratios.values() for ratio in row} == {(1.0, 1.0, 1.0)}
    assert found.failed == (0.125, 0.0)
    page = shadow_networks_page.page([compare(NAME, reference, observed(long))], [found], [])
    assert f"--networks {NAME} --load 1.2 --at-most TIME   # until minute 0.833333\n" in page
    # The run with the usual load went on: nobody asked for a short one.
    assert page.count("# until minute 0.833333") == 1
    assert shadow_networks.Runs([observed(other)], [observed(short)]).pair is None


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["--networks", "a, b"], ["a", "b"]),
        (["--networks", "a,b", "--networks", "c"], ["a", "b", "c"]),
        (["--networks", "none"], []),
        ([], None),
    ],
)
def test_networks_are_named_with_commas_or_several_times(
    words: list[str], chosen: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def run(request: Request) -> tuple[Path, list[str]]:
        asked.append(request.networks)
        return tmp_path, []

    monkeypatch.setitem(REPRODUCTIONS, "shadow-networks", replace(REPRODUCTIONS["shadow-networks"], run=run))
    monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", "shadow-networks", *words])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert (leave.value.code, asked) == (0, [chosen])


@pytest.mark.parametrize(("given", "sentence"), [("soon", "is not a duration"), ("0 s", "leaves no time for anything")])
def test_a_limit_of_time_is_a_time(
    given: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", "shadow-networks", "--at-most", given])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == cli.EXIT_REFUSED
    assert sentence in capsys.readouterr().err


def test_options_of_other_reproductions_are_refused(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("shadow-networks", "--networks", "1pct,"), ("shadow-networks", "--networks", ",1pct")):
        monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", *words])
        with pytest.raises(SystemExit) as leave:
            cli.main()
        assert leave.value.code == cli.EXIT_REFUSED
        assert "a name is missing" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", "live", "--reference", "nowhere"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "there is no nowhere" in capsys.readouterr().err
    for words in (
        ("shadow-tor", "--networks", "x"),
        ("shadow-networks", "--seeds", "3"),
        ("salsa", "--duration", "1 min"),
        ("live", "--as-kept"),
    ):
        monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", *words])
        with pytest.raises(SystemExit) as leave:
            cli.main()
        assert leave.value.code == cli.EXIT_REFUSED
        assert f"{words[0]} does not use it" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", "swrr", "--as-kept"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "--kept names it" in capsys.readouterr().err
    assert core.made == []


def test_the_differences_that_are_named_can_be_read() -> None:
    rows = load_differences(ROOT / "experiments/shadow-networks/differences.toml")
    assert all(row["what"] and row["mechanism"] and row["evidence"] for row in rows)
    section = "\n".join(differences_section(rows))
    detailed = [number for number, row in enumerate(rows, 1) if "details" in row]
    assert detailed
    for number in detailed:
        assert section.count(f"([details](#difference-{number}))") == 1
        assert f'<a id="difference-{number}"></a>\n\n### {number}. {rows[number - 1]["what"]}\n' in section
    # Rows that name others: there are so many.
    assert all(0 < int(named) <= len(rows) for named in re.findall(r"\brows? (\d+)", section))
    # A table's cell is one line without the sign that ends it.
    assert not any(sign in row[key] for row in rows for key in ("what", "mechanism", "evidence") for sign in "|\n")


def test_times_of_the_reference_are_told_apart_by_client_and_so_by_place() -> None:
    # Two downloads of 50 KiB and one of 1 MiB; one of 50 KiB and one of 5 MiB; one of 1 MiB alone; one of 50 KiB.
    theirs = {
        "51200": [0.3, 0.2, 0.5, 0.9],
        "1048576": [0.4, 0.6],
        "5242880": [0.7],
        "all": [0.3, 0.2, 0.4, 0.5, 0.7, 0.6, 0.9],
    }
    countries = {"perf1": "NL", "perf2": "HK", "perf10": "NL", "perf3": "US"}
    ours = {"perf1": np.array([0.35]), "perf2": np.array([0.8, 0.1]), "perf10": [0.25]}
    found = {place.country: place for place in by_place(countries, theirs, ours)}
    assert list(found) == ["HK", "NL", "US"]
    # In alphabetical order: perf1, perf10, perf2, perf3.
    assert list(found["NL"].theirs) == [0.2, 0.3, 0.4, 0.5, 0.7]
    assert (list(found["HK"].theirs), list(found["US"].theirs)) == ([0.6], [0.9])
    assert (found["NL"].clients, list(found["NL"].ours)) == (2, [0.25, 0.35])
    assert (list(found["HK"].ours), list(found["US"].ours)) == ([0.1, 0.8], [])
    # Another number of clients, or a time that no size has: nothing is told.
    assert by_place({"perf1": "NL"}, theirs, ours) == ()
    assert by_place(countries, theirs | {"all": [0.3, 0.31]}, ours) == ()
    assert by_place({}, {size: [] for size in theirs}, ours) == ()


@pytest.mark.parametrize("name", ["1pct-load1.0-1", "1pct-load1.0-3", "10pct-load1.0-1"])
def test_the_published_lists_are_in_the_order_of_clients(name: str) -> None:
    folder = ROOT / "../shared/data/reference/shadow-networks"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    read = {
        part: json.loads(lzma.decompress((folder / f"{name}.{part}.json.xz").read_bytes())) for part in ("network", "results")
    }
    countries = {client["name"]: client["country"] for client in read["network"]["perf_clients"]}
    places = by_place(countries, read["results"]["time_to_first_byte_recv"], {})
    assert {place.country for place in places} == set(countries.values())
    # From Hong Kong nothing is as near as from the Netherlands.
    lowest = {place.country: place.theirs[len(place.theirs) // 20] for place in places}
    assert "HK" not in lowest or lowest["HK"] > lowest["NL"] + 0.1


def test_the_page_has_first_bytes_by_place(reference: Path) -> None:
    clients = [{"name": "perf0", "country": "NL"}]
    (reference / f"{NAME}.network.json.xz").write_bytes(lzma.compress(json.dumps({"perf_clients": clients}).encode()))
    times = {"51200": [0.4, 0.9], "1048576": [1.1], "5242880": [2.5], "all": [0.4, 0.9, 1.1, 2.5]}
    results = dict.fromkeys(shadow_networks_times.TIMES, times) | {"error_rate": {"ALL": [[0.0, 2.5]]}}
    (reference / f"{NAME}.results.json.xz").write_bytes(lzma.compress(json.dumps(results).encode()))
    text = shadow_networks_page.page([compare(NAME, reference, Observed.of(reduce(experiment())))], [], [])
    assert "| NL | 1 | 4 / 4 | theirs | 0.40 | 0.40 | 0.90 | 1.10 | 1.10 |\n| | | | ours | 0.25 |" in text


def test_more_load_is_told_apart_by_a_test_and_not_by_ranges_that_meet() -> None:
    """Two intervals of 95 % that just meet are almost three standard errors apart; few clients make it less sure."""
    apart = Ratio(1.20, 1.12, 1.28, 0.034, 8, 1.0, 0.05, 100)
    assert apart.low < 1.0 + 2 * 0.065
    assert not apart.agrees
    assert Ratio(1.20, 1.12, 1.28, 0.034, 8, 1.1, 0.05, 100).agrees
    assert not Ratio(1.20, 1.0, 1.4, 0.07, 40, 1.0, 0.02, 100).agrees
    assert Ratio(1.20, 1.0, 1.4, 0.07, 4, 1.0, 0.02, 100).agrees
    assert (apart.moved, Ratio(1.2, 0.9, 1.4, 0.1, 8, 1.2, 0.05, 100).moved) == ((True, False), (False, True))


def test_what_cannot_have_failed_yet_does_not_count(reference: Path) -> None:
    """A run that ends at second 45: of downloads of 50 KiB, which are given up after 15 s, only the first began by second 30."""
    one = experiment()
    one.duration = 45.5
    found = compare(NAME, reference, observed(one))
    assert len(found.ours["time_to_first_byte_recv", "all"]) == 1
    assert len(compare(NAME, reference, observed()).ours["time_to_first_byte_recv", "all"]) == 7
