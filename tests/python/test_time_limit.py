"""A limit of wall time: a run that is not over by then ends sooner, and is that of a shorter experiment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import polars as pl
import pytest

import onionlab
from onionlab import _core
from onionlab.errors import DocumentError, OnionlabError, ResultsError
from onionlab.reproductions.kept import Form, Kept, Made, Reduced, identity, work_off
from onionlab.running.observer import Silent
from onionlab.running.place import Place, made_at
from onionlab.running.runner import run_all
from onionlab.running.time_limit import TimeLimit

if TYPE_CHECKING:
    from onionlab._core import Progress

TEXT = """\
title = "Two clients"
duration = "5 min"
measure-from = "10 s"
seeds = [1]
[network]
kind = "synthetic"
relays = 30
[[clients]]
group = "web"
count = 2
load = { kind = "web", size = "50 kB", pause = { uniform = ["1 s", "20 s"] } }
"""


class Watch(Silent):
    """Wall time that is up when the run is at a simulated second."""

    def __init__(self, up_at: float) -> None:
        self.now, self.up_at = 0.0, up_at

    def advanced(self, run: object, progress: object) -> None:  # noqa: ARG002
        self.now = 100.0 if progress["sim_seconds"] >= self.up_at else 0.0  # type: ignore[index]

    def limit(self) -> TimeLimit:
        return TimeLimit.of(50.0, lambda: self.now)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(TEXT)
    return path


def test_a_run_that_ends_sooner_makes_its_directory_a_shorter_experiments(file: Path, tmp_path: Path) -> None:
    # Before it begins: the first answer already names the end.
    watch = Watch(0.0)
    (short,) = run_all([("two", file, tmp_path / "out")], observer=watch, limit=watch.limit())
    assert short.duration % 60 == 0
    assert 60 <= short.duration < 300
    other = tmp_path / "other.toml"
    other.write_text(TEXT.replace('"5 min"', f'"{short.duration:g} s"'))
    alone = onionlab.run(other, tmp_path / "alone", report=False)
    for results in (short, onionlab.load(tmp_path / "out")):
        assert results.missing == ()
        assert results.plan.scenario == alone.plan.scenario
        assert results.transfers.equals(alone.transfers)
    # Without a limit it is made anew, to its end.
    (long,) = run_all([("two", file, tmp_path / "out")])
    assert long.duration == 300
    assert onionlab.load(tmp_path / "out").duration == 300


@pytest.mark.parametrize(
    ("measure_from", "start", "now", "end"),
    [("10 s", "5 s", 70.0, 120.0), ("150 s", "5 s", 70.0, 180.0), ("0 s", "60 s", 1.0, 120.0)],
)
def test_it_ends_when_there_is_something_to_measure(measure_from: str, start: str, now: float, end: float) -> None:
    scenario = {"measure-from": measure_from, "clients": [{"start": {"from": "0 s", "to": start}}]}
    assert TimeLimit(50.0, lambda: 50.0).for_run(scenario).answer(at(now)) == end


def at(second: float) -> Progress:
    return {"sim_seconds": second, "duration_seconds": 6000.0, "events": 0}


@pytest.mark.parametrize(("ends", "minutes"), [(99.0, 9), (100.0, 9), (101.0, 10), (109.0, 10)])
def test_it_is_over_by_then(ends: float, minutes: int) -> None:
    """Each simulated minute takes ten seconds: the last that is begun is over before the limit."""
    now = 0.0
    pace = TimeLimit(ends, lambda: now).for_run({"measure-from": "0 s", "clients": []})
    for tenth in range(1000):
        now = float(tenth)
        answer = pace.answer(at(6.0 * tenth))
        if answer is not True:
            break
    assert answer == 60.0 * minutes
    assert now == 10.0 * (minutes - 1), "it is told when that minute begins"
    now = 1e6
    assert pace.answer(at(60.0 * minutes - 1.0)) == answer, "once said, it stays"


def test_a_minute_that_takes_longer_than_the_one_before_counts_as_long() -> None:
    now = 0.0
    pace = TimeLimit(100.0, lambda: now).for_run({"measure-from": "0 s", "clients": []})
    for second, wall in [(0.0, 0.0), (60.0, 10.0), (65.0, 40.0), (119.0, 60.0)]:
        now = wall
        assert pace.answer(at(second)) is True
    # This one took 51 s, and so the next would end after 112.
    now = 61.0
    assert pace.answer(at(120.0)) == 180.0


def test_an_end_before_anything_is_measured_is_put_off(file: Path, tmp_path: Path) -> None:
    file.write_text(TEXT.replace('"10 s"', '"200 s"'))
    watch = Watch(0.0)
    (short,) = run_all([("two", file, tmp_path / "out")], observer=watch, limit=watch.limit())
    assert short.duration == 240


def test_one_that_is_over_in_time_is_as_it_would_be(file: Path, tmp_path: Path) -> None:
    watch = Watch(1e9)
    (limited,) = run_all([("two", file, tmp_path / "out")], observer=watch, limit=watch.limit())
    assert limited.plan == onionlab.run(file, tmp_path / "alone", report=False).plan


def test_it_is_kept_by_the_time_that_it_has_reached(file: Path, tmp_path: Path) -> None:
    def reduce(_: int, results: onionlab.Experiment) -> Reduced:
        return Reduced({"all": results.transfers.select(pl.len())}, Made.of(results), {"duration": results.duration})

    kept = Kept(tmp_path / "kept", Form(1, {"all": {"len": pl.UInt32}}))
    watch = Watch(0.0)
    ahead = [("two", file, tmp_path / "out")]
    named = lambda number, reached: f"{ahead[number][0]}, {reached:g} s"  # noqa: E731
    (found,) = work_off(ahead, reduce, watch, kept, watch.limit(), named)
    reached = found.facts["duration"]
    assert kept.names == (f"two, {reached:g} s",)
    other = tmp_path / "other.toml"
    other.write_text(TEXT.replace('"5 min"', f'"{reached:g} s"'))
    assert kept.take(f"two, {reached:g} s", identity(other)) is not None
    (found,) = work_off(ahead, reduce, Silent(), kept, sooner=named)
    assert found.facts["duration"] == 300
    assert kept.names == (f"two, {reached:g} s", "two")


def test_what_it_is_not_for_is_refused(file: Path, tmp_path: Path) -> None:
    limit = Watch(1e9).limit()
    with pytest.raises(ResultsError, match=r"2 runs cannot begin at once where 1 are made at a time"), made_at(Place(jobs=1)):
        list(run_all([(name, file, tmp_path / name) for name in ("a", "b")], limit=limit))
    file.write_text(TEXT.replace("[1]", "[1, 2]"))
    with pytest.raises(ResultsError, match="has several runs"):
        list(run_all([("two", file, tmp_path / "two")], limit=limit))
    assert not (tmp_path / "two").exists()
    assert list(tmp_path.iterdir()) == [file]
    elsewhere = SimpleNamespace(cluster="tcp://here:1", jobs=None, try_policies=lambda *_: None)
    with pytest.raises(ResultsError, match="cannot be made to end sooner"), made_at(elsewhere):  # type: ignore[arg-type]
        list(run_all([("two", file, tmp_path / "two")], limit=limit))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace('duration = "5 min"', 'duration = """5 min"""'), "the duration cannot be replaced: write"),
        (
            "\ufeff" + TEXT,
            r"two\.toml: the duration cannot be replaced in this experiment file; .*; or leave out the limit of time",
        ),
        (f'{TEXT}\n[sweep]\n"duration" = ["5 min"]\n', "`sweep` sets the duration"),
    ],
)
def test_a_file_that_cannot_become_a_shorter_one_is_refused_before_it_is_run(
    file: Path, tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(text, encoding="utf-8")
    (planned,) = onionlab.plan.Plan.of(file, text).runs
    monkeypatch.setattr(_core, "run_one", lambda *_: pytest.fail(f"{planned.label} was begun"))
    with pytest.raises(OnionlabError, match=said):
        list(run_all([("two", file, tmp_path / "two")], limit=Watch(0.0).limit()))
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    "line", ['duration = "5 min"', "duration = '5 min' # long", '"duration"="5 min"', '  duration   =   "300 s"   # five minutes']
)
def test_however_the_duration_is_written_it_is_that_of_the_run(file: Path, tmp_path: Path, line: str) -> None:
    file.write_text(TEXT.replace('duration = "5 min"', line))
    watch = Watch(0.0)
    (short,) = run_all([("two", file, tmp_path / "out")], observer=watch, limit=watch.limit())
    assert short.missing == ()
    assert short.duration < 300


def test_a_document_that_changes_while_a_run_is_ended_sooner_is_noticed(file: Path, tmp_path: Path) -> None:
    consensus = _core.synth('{"relays": 60, "seed": 3}')
    (tmp_path / "consensus").write_text(consensus)
    file.write_text(TEXT.replace('kind = "synthetic"', 'kind = "consensus"\npath = "consensus"'))
    watch = Watch(0.0)
    limit = watch.limit()
    advanced = watch.advanced

    def changing(run: object, progress: object) -> None:
        advanced(run, progress)
        (tmp_path / "consensus").write_text(_core.synth('{"relays": 60, "seed": 4}'))

    watch.advanced = changing  # type: ignore[method-assign]
    with pytest.raises(DocumentError, match="has changed while the experiment ran; the same command goes on if it is put back"):
        list(run_all([("two", file, tmp_path / "out")], observer=watch, limit=limit))
