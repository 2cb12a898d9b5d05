"""What happens around the runs: resuming, extending, refusing, failing, interrupting."""

from __future__ import annotations

import _thread
import errno
import fcntl
import io
import json
import os
import re
import shutil
import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

import onionlab
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab.errors import ClusterError, DocumentError, ResultsError, RunError, ScenarioError
from onionlab.plan import TABLES, Plan, PlannedRun
from onionlab.quantity import seconds
from onionlab.reproductions import runs as reproductions
from onionlab.results.drawn import MADE, remove_reports
from onionlab.running.observer import Replaced, Silent
from onionlab.running.place import Place, made_at
from onionlab.running.run import default_directory
from onionlab.running.runner import run_once
from onionlab.terminal.progress import ProgressDisplay, duration_of, pace_of

ALL_RUNS = 3 * 2 * 2


def run(experiment: Path, **options: object) -> onionlab.Experiment:
    return onionlab.run(experiment, experiment.parent / "out", report=False, **options)  # type: ignore[arg-type]


def test_results_are_called_as_the_file_or_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_directory(Path("a/web.toml")) == Path("out/web")
    assert default_directory(tmp_path / "tornet" / "experiment.toml") == Path("out/tornet")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert default_directory(Path("experiment.toml")) == Path("out/here")


def test_another_experiment_s_results_are_not_replaced(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    other = experiment_file.with_name("other.toml")
    text = EXPERIMENT.replace('duration = "60 s"', 'duration = "80 s"')
    title = next(line for line in text.splitlines() if line.startswith("title"))
    other.write_text(text.replace(title, 'title = "Another"'), encoding="utf-8")
    core.made.clear()
    with pytest.raises(ResultsError, match="holds the runs of another experiment"):
        run(other)
    assert not core.made
    # The same experiment under another title has its runs still.
    other.write_text(EXPERIMENT.replace(title, 'title = "Another"'), encoding="utf-8")
    assert run(other).missing == ()
    assert not core.made
    run(experiment_file, fresh=True)


def test_finished_runs_of_another_form_of_an_experiment_are_replaced_only_when_that_is_asked_for(
    core: FakeCore, experiment_file: Path
) -> None:
    first = run(experiment_file).transfers
    other = experiment_file.with_name("other.toml")
    text = EXPERIMENT.replace("count = 12", "count = 14").replace("320 KiB", "100 KiB").replace("5120 KiB", "9 MiB")
    text = text.replace('duration = "60 s"', 'duration = "80 s"')
    other.write_text(text, encoding="utf-8")
    core.made.clear()
    root = experiment_file.parent / "out"
    with pytest.raises(ResultsError) as refused:
        run(other)
    assert str(refused.value) == (
        f"{root} holds {ALL_RUNS} finished runs of another form of this experiment, which would be lost: it differs in "
        "clients.web.load.size (320 KiB there, 100 KiB now), clients.web.count (12 there, 14 now), clients.bulk.load.size "
        "(5120 KiB there, 9 MiB now) and 1 more; --fresh replaces all runs there, --out names another directory"
    )
    assert not core.made
    assert onionlab.load(root).transfers.equals(first)
    # One treatment alone, in one network alone: what is left is as dear as all.
    text = EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.6").replace("networks = 3", "networks = 1")
    other.write_text(text.replace("seeds = [1, 2]", "seeds = [2]"), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"1 finished run of .*: it differs in fake-factor \(0.7 there, 0.6 now\); --fresh"):
        run(other)
    assert run(other, fresh=True).missing == ()
    assert len(core.made) == 2


def test_an_experiment_whose_groups_have_changed_places_is_another_form(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    head, *groups = EXPERIMENT.partition("[[treatments]]")[0].split("[[clients]]")
    treatments = EXPERIMENT[EXPERIMENT.index("[[treatments]]") :]
    experiment_file.write_text("[[clients]]".join([head, *groups[::-1]]) + treatments, encoding="utf-8")
    core.made.clear()
    with pytest.raises(ResultsError, match=r"differs in clients \(order\) \(web, bulk there, bulk, web now\); --fresh"):
        run(experiment_file)
    assert not core.made


def test_where_replacing_was_asked_for_once_the_same_command_goes_on(core: FakeCore, experiment_file: Path) -> None:
    """What an interrupted ``--fresh`` has left of the older form was given up with it, also without a plan that says so."""
    run(experiment_file)
    experiment_file.write_text(EXPERIMENT.replace('duration = "60 s"', 'duration = "80 s"'), encoding="utf-8")
    core.failing = {f"{treatment}--net{network}--seed2" for treatment in ("round-robin", "ewma") for network in range(3)}
    assert len(run(experiment_file, fresh=True).failures) == ALL_RUNS // 2
    core.failing = set()
    core.made.clear()
    assert run(experiment_file).missing == ()
    assert len(core.made) == ALL_RUNS // 2


def test_without_a_plan_what_would_be_lost_is_known_from_the_runs(core: FakeCore, experiment_file: Path) -> None:
    root = run(experiment_file).directory
    (root / "plan.json").unlink()
    experiment_file.write_text(EXPERIMENT.replace('duration = "60 s"', 'duration = "80 s"'), encoding="utf-8")
    with pytest.raises(ResultsError, match=rf"{ALL_RUNS} finished runs of .* duration \(60 s there, 80 s now\)"):
        run(experiment_file)


def test_what_can_be_replaced_without_loss_is(core: FakeCore, experiment_file: Path) -> None:
    """Runs of another build, broken ones, and those of a treatment whose name alone is spelt otherwise."""
    root = run(experiment_file).directory
    core.made.clear()
    longer = EXPERIMENT.replace('duration = "60 s"', 'duration = "80 s"')
    experiment_file.write_text(longer, encoding="utf-8")
    core.build_text = "fedcba9876543210"
    assert run(experiment_file).missing == ()
    assert len(core.made) == ALL_RUNS
    core.made.clear()
    experiment_file.write_text(longer.replace('"EWMA"', '"ewma"'), encoding="utf-8")
    assert run(experiment_file).missing == ()
    assert set(core.made) == {f"ewma--net{network}--seed{seed}" for network in range(3) for seed in (1, 2)}
    core.made.clear()
    for table in root.glob("runs/*/relays.parquet"):
        table.write_bytes(b"PAR1 but no more")
    experiment_file.write_text(EXPERIMENT, encoding="utf-8")
    assert run(experiment_file).missing == ()
    assert len(core.made) == ALL_RUNS


def test_reproductions_replace_what_an_older_file_of_theirs_made(core: FakeCore, experiment_file: Path) -> None:
    """Their files change with onionlab, and the directories are their own."""
    for duration in ("60 s", "80 s", "90 s"):
        experiment_file.write_text(EXPERIMENT.replace('"60 s"', f'"{duration}"'), encoding="utf-8")
        results = reproductions.run(experiment_file, experiment_file.parent, lambda: nullcontext(Silent()))
        assert (results.duration, results.missing) == (seconds(duration), ())
    experiment_file.write_text(EXPERIMENT, encoding="utf-8")
    (again,) = onionlab.running.runner.run_all([("pair", experiment_file, results.directory)])
    assert again.missing == ()
    assert len(core.made) == 4 * ALL_RUNS


def test_no_report_shows_other_runs_than_there_are(core: FakeCore, experiment_file: Path) -> None:
    """Without ``--no-report`` a new one takes its place, but not before all runs are over, which may be never."""
    root = onionlab.run(experiment_file, experiment_file.parent / "out").directory
    own = root / "charts" / "mine.svg"
    own.write_text("mine", encoding="utf-8")
    drawn = {path for path in root.rglob("*") if path.parent.name in ("charts", "tables")} | {root / "report.html"}
    assert len(drawn) > 10
    assert run(experiment_file).missing == ()
    assert all(path.exists() for path in drawn), "all runs that it shows are there"
    seen: list[bool] = []
    core.on_step = lambda _: seen.append((root / "report.html").exists())
    for change, options in (
        (EXPERIMENT.replace("networks = 3", "networks = 4"), {}),
        (EXPERIMENT.replace("networks = 3", "networks = 2"), {}),
        (EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.6"), {"fresh": True}),
        (EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.6"), {"measure_from": "20 s"}),
    ):
        onionlab.load(root).report()
        experiment_file.write_text(change, encoding="utf-8")
        seen.clear()
        run(experiment_file, **options)
        assert not any(seen)
        assert [path for path in drawn if path.exists()] == [own]
        assert not (root / "tables").exists()


def test_reports_of_points_go_with_the_one_of_the_sweep(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "points" / "0", tmp_path / "points" / "mine"):
        for name in ("charts", "tables"):
            (folder / name).mkdir(parents=True)
            (folder / name / "a.csv").write_text("a")
            (folder / name / MADE).write_text("a.csv\n")
        (folder / "report.html").write_text("a page")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.csv").write_text("a")
    (elsewhere / MADE).write_text("a.csv\n")
    shutil.rmtree(tmp_path / "points" / "0" / "charts")
    (tmp_path / "points" / "0" / "charts").symlink_to(elsewhere)
    remove_reports(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    mine = {f"points/mine/{folder}/{name}" for folder in ("charts", "tables") for name in ("a.csv", MADE)}
    assert left == {"elsewhere/a.csv", f"elsewhere/{MADE}", "points/mine/report.html", *mine}


@pytest.mark.parametrize("name", ["points", "points/0"])
def test_through_a_link_to_reports_of_points_nothing_is_removed(name: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    report = elsewhere if name == "points/0" else elsewhere / "0"
    (report / "charts").mkdir(parents=True)
    theirs = [report / "report.html", report / "charts" / MADE, report / "charts" / "a.csv"]
    for path in theirs:
        path.write_text("a.csv\n", encoding="utf-8")
    root = tmp_path / "results"
    (root / name).parent.mkdir(parents=True)
    (root / name).symlink_to(elsewhere)
    remove_reports(root)
    assert all(path.is_file() for path in theirs)
    assert (root / name).is_symlink()


def test_points_that_are_no_folders_are_in_no_way(tmp_path: Path) -> None:
    (tmp_path / "points").mkdir()
    (tmp_path / "points" / "1").write_text("a note", encoding="utf-8")
    remove_reports(tmp_path)
    assert (tmp_path / "points" / "1").is_file()


def test_a_run_that_would_be_written_elsewhere_is_refused(core: FakeCore, experiment_file: Path) -> None:
    root = experiment_file.parent / "out"
    elsewhere = experiment_file.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run.parquet").write_text("mine", encoding="utf-8")
    run(experiment_file)
    shutil.rmtree(root / "runs" / "ewma--net0--seed1")
    (root / "runs" / "ewma--net0--seed1").symlink_to(elsewhere)
    core.made.clear()
    with pytest.raises(ResultsError, match=r"ewma--net0--seed1 is a symbolic link"):
        run(experiment_file)
    assert not core.made
    assert (elsewhere / "run.parquet").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["experiment.toml", "report.html"])
def test_somebody_s_own_files_are_not_replaced(core: FakeCore, experiment_file: Path, name: str) -> None:
    own = experiment_file.parent / "out" / name
    own.parent.mkdir()
    own.write_text("mine", encoding="utf-8")
    with pytest.raises(ResultsError, match=f"{name} is no results directory"):
        run(experiment_file)
    assert own.read_text(encoding="utf-8") == "mine"
    assert [path.name for path in own.parent.iterdir()] == [name]


def test_a_plan_of_something_else_is_not_replaced(core: FakeCore, experiment_file: Path) -> None:
    own = experiment_file.parent / "out" / "plan.json"
    own.parent.mkdir()
    for content in ('{"x": 1}', "[]", "mine"):
        own.write_text(content, encoding="utf-8")
        with pytest.raises(ResultsError, match=r"plan\.json is no onionlab's"):
            run(experiment_file)
        assert own.read_text(encoding="utf-8") == content
    assert not core.made


def test_what_a_process_left_that_was_killed_at_its_first_write_is_ours(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    left = experiment_file.parent / "out"
    (left / "plan.json").unlink()
    assert run(experiment_file).missing == ()


def test_a_begin_is_a_text(core: FakeCore, experiment_file: Path) -> None:
    with pytest.raises(ScenarioError, match="allowed are auto, file and a time"):
        run(experiment_file, measure_from=3)
    assert not core.made
    assert run(experiment_file, measure_from="3 s").missing == ()


def test_every_combination_is_run_once(core: FakeCore, experiment_file: Path) -> None:
    results = run(experiment_file, jobs=2)
    assert len(core.made) == len(set(core.made)) == ALL_RUNS
    assert len(results.finished) == ALL_RUNS
    assert results.missing == ()
    for planned in results.finished:
        files = {path.name for path in (results.directory / planned.directory).iterdir()}
        assert files == {f"{table}.parquet" for table in TABLES}
    assert (results.directory / "experiment.toml").read_text() == EXPERIMENT
    assert results.transfers.select("treatment", "network", "seed").unique().height == ALL_RUNS
    assert results.transfers.columns[:3] == ["treatment", "network", "seed"]


def test_names_of_folders_are_no_patterns(core: FakeCore, experiment_file: Path) -> None:
    out = experiment_file.parent / "delay [1] *?"
    first = onionlab.run(experiment_file, out, report=False)
    made = len(core.made)
    again = onionlab.run(experiment_file, out, report=False)
    assert (len(first.finished), len(again.finished), len(core.made)) == (ALL_RUNS, ALL_RUNS, made)
    assert not again.transfers.is_empty()


def test_results_do_not_depend_on_the_number_of_threads(core: FakeCore, experiment_file: Path) -> None:
    one = onionlab.run(experiment_file, experiment_file.parent / "one", jobs=1, report=False)
    two = onionlab.run(experiment_file, experiment_file.parent / "two", jobs=4, report=False)
    assert core.made.count("ewma--net0--seed1") == 2
    assert one.transfers.equals(two.transfers)


def test_finished_runs_are_kept(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    core.made.clear()
    run(experiment_file)
    assert core.made == []
    run(experiment_file, fresh=True)
    assert len(core.made) == ALL_RUNS


def test_a_broken_run_is_made_again(core: FakeCore, experiment_file: Path) -> None:
    results = run(experiment_file)
    (results.directory / "runs" / "ewma--net1--seed2" / "relays.parquet").unlink()
    (results.directory / "runs" / "ewma--net2--seed1" / "run.parquet").write_bytes(b"PAR1 but no more")
    core.made.clear()
    run(experiment_file)
    assert sorted(core.made) == ["ewma--net1--seed2", "ewma--net2--seed1"]


def test_an_experiment_can_be_extended(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    core.made.clear()
    longer = EXPERIMENT.replace("networks = 3", "networks = 4") + '\n[[treatments]]\nname = "vanilla"\n'
    experiment_file.write_text(longer, encoding="utf-8")
    results = run(experiment_file)
    new_network = {f"{treatment}--net3--seed{seed}" for treatment in ("round-robin", "ewma") for seed in (1, 2)}
    new_treatment = {f"vanilla--net{network}--seed{seed}" for network in range(4) for seed in (1, 2)}
    assert set(core.made) == new_network | new_treatment
    assert results.treatments == ["round robin", "EWMA", "vanilla"]
    assert len(results.finished) == 4 * 2 * 3


@pytest.mark.parametrize(
    "change", [("320 KiB", "321 KiB"), ('duration = "60 s"', 'duration = "50 s"'), ("count = 3", "count = 4")]
)
def test_another_scenario_is_run_anew(core: FakeCore, experiment_file: Path, change: tuple[str, str]) -> None:
    run(experiment_file)
    core.made.clear()
    experiment_file.write_text(EXPERIMENT.replace(*change), encoding="utf-8")
    run_once(experiment_file, experiment_file.parent / "out", renew=True, report=False)
    assert len(core.made) == ALL_RUNS


def test_a_changed_treatment_is_run_anew_and_the_other_kept(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    core.made.clear()
    experiment_file.write_text(EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.6"), encoding="utf-8")
    run_once(experiment_file, experiment_file.parent / "out", renew=True, report=False)
    assert len(core.made) == ALL_RUNS // 2
    assert all(name.startswith("ewma") for name in core.made)


@pytest.mark.parametrize("terminal", [True, False])
def test_runs_of_another_form_of_the_experiment_are_announced_before_they_are_replaced(
    core: FakeCore, experiment_file: Path, terminal: bool
) -> None:
    run(experiment_file)
    core.made.clear()
    experiment_file.write_text(EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.6"), encoding="utf-8")
    stream = io.StringIO()
    said: list[str] = []
    core.on_step = lambda _: said.append(stream.getvalue()) if not said else None
    with ProgressDisplay(Console(file=stream, width=200, force_terminal=terminal)) as display:
        run_once(experiment_file, experiment_file.parent / "out", renew=True, report=False, observer=display)
    assert len(core.made) == ALL_RUNS // 2
    assert f"{ALL_RUNS // 2} runs there are of another form of this experiment and are made again" in said[0]
    # Where all is made again because it was asked for, there is nothing to say; nor where nothing is there.
    stream.truncate(0)
    with ProgressDisplay(Console(file=stream, width=200, force_terminal=terminal)) as display:
        experiment_file.write_text(EXPERIMENT, encoding="utf-8")
        run(experiment_file, observer=display, fresh=True)
        onionlab.run(experiment_file, experiment_file.parent / "new", report=False, observer=display)
    assert "another form" not in stream.getvalue()


def test_what_is_made_again_is_counted_by_its_reason(core: FakeCore, experiment_file: Path) -> None:
    told: list[Replaced] = []

    class Told(Silent):
        def planned(self, plan: Plan, kept: int, replaced: Replaced) -> None:  # noqa: ARG002
            told.append(replaced)

    run(experiment_file)
    name, root = experiment_file.stem, experiment_file.parent / "out"
    experiment_file.write_text(EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.6"), encoding="utf-8")
    list(onionlab.running.runner.run_all([(name, experiment_file, root)], observer=Told()))
    core.build_text = "fedcba9876543210"
    experiment_file.write_text(EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.5"), encoding="utf-8")
    list(onionlab.running.runner.run_all([(name, experiment_file, root)], observer=Told()))
    list(onionlab.running.runner.run_all([(name, experiment_file, root)], observer=Told()))
    # Whatever else has changed: what another build made is made again for that alone.
    assert told == [Replaced(changed=ALL_RUNS // 2), Replaced(outdated=ALL_RUNS), Replaced()]
    assert Replaced(1, 1, 1).sentences == [
        "1 run there was made by another build of onionlab and is made again",
        "1 run there is of another form of this experiment and is made again",
        "1 finished run there, which stays, has no place in this form of the experiment and will not be shown",
    ]


def test_runs_that_an_experiment_has_no_place_for_any_more_are_told_of(core: FakeCore, experiment_file: Path) -> None:
    told: list[Replaced] = []

    class Told(Silent):
        def planned(self, plan: Plan, kept: int, replaced: Replaced) -> None:  # noqa: ARG002
            told.append(replaced)

    out = experiment_file.parent / "out"
    onionlab.run(experiment_file, out, observer=Told(), report=False)
    fewer = EXPERIMENT.replace("networks = 3", "networks = 2")
    experiment_file.write_text(fewer, encoding="utf-8")
    core.made.clear()
    for _ in range(2):
        onionlab.run(experiment_file, out, observer=Told(), report=False)
    assert [one.left for one in told] == [0, ALL_RUNS // 3, 0]
    assert core.made == []


def test_many_experiments_do_not_replace_another_one_s_results_either(core: FakeCore, experiment_file: Path) -> None:
    experiments = two_experiments(experiment_file)
    list(onionlab.running.runner.run_all(experiments))
    (_, first, root), *_ = experiments
    first.write_text(EXPERIMENT.replace('"Round robin against EWMA"', '"Another"').replace('"60 s"', '"70 s"'), encoding="utf-8")
    core.made.clear()
    with pytest.raises(ResultsError, match=r"first holds the runs of another experiment, .*; --out names another directory$"):
        list(onionlab.running.runner.run_all(experiments))
    assert core.made == []
    assert onionlab.load(root).title == "Round robin against EWMA"


def test_another_version_is_run_anew(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    core.made.clear()
    core.version_text = "0.0.1-fake"
    run(experiment_file)
    assert len(core.made) == ALL_RUNS


def test_another_build_is_run_anew_with_a_word(core: FakeCore, experiment_file: Path) -> None:
    stream = io.StringIO()
    first = run(experiment_file)
    assert first.runs["build"].unique().to_list() == [core.build()]
    core.made.clear()
    core.build_text = "fedcba9876543210"
    with ProgressDisplay(Console(file=stream, width=200)) as display:
        results = run(experiment_file, observer=display)
    assert len(core.made) == ALL_RUNS
    assert f"{ALL_RUNS} runs there were made by another build of onionlab and are made again" in stream.getvalue()
    assert results.runs["build"].unique().to_list() == [core.build()]
    core.made.clear()
    assert len(run(experiment_file).finished) == ALL_RUNS
    assert core.made == []


def test_results_without_a_build_can_be_opened_but_are_run_anew(core: FakeCore, experiment_file: Path) -> None:
    root = run(experiment_file).directory
    plan = json.loads((root / "plan.json").read_text())
    del plan["build"]
    (root / "plan.json").write_text(json.dumps(plan))
    for table in root.glob("runs/*/run.parquet"):
        pl.read_parquet(table, hive_partitioning=False).drop("build").write_parquet(table)
    assert len(onionlab.load(root).finished) == ALL_RUNS
    core.made.clear()
    run(experiment_file)
    assert len(core.made) == ALL_RUNS


def test_evaluating_from_another_time_on_repeats_nothing(core: FakeCore, experiment_file: Path) -> None:
    run(experiment_file)
    core.made.clear()
    experiment_file.write_text(EXPERIMENT.replace('measure-from = "10 s"', 'measure-from = "20 s"'), encoding="utf-8")
    results = run(experiment_file)
    assert core.made == []
    assert results.measured["start_ns"].min() >= 20_000_000_000  # type: ignore[operator]


def test_a_begin_that_was_chosen_goes_when_the_file_says_another_or_all_is_made_afresh(
    core: FakeCore, experiment_file: Path
) -> None:
    assert run(experiment_file, measure_from="15 s").measure_from == 15
    assert run(experiment_file).measure_from == 15
    assert run(experiment_file, fresh=True).measure_from == 10
    assert run(experiment_file, measure_from="15 s").measure_from == 15
    experiment_file.write_text(EXPERIMENT.replace('measure-from = "10 s"', 'measure-from = "20 s"'), encoding="utf-8")
    assert run(experiment_file).measure_from == 20


def test_an_interrupt_right_after_an_edit_leaves_what_there_was(core: FakeCore, experiment_file: Path) -> None:
    before = run(experiment_file).transfers
    experiment_file.write_text(EXPERIMENT.replace('duration = "60 s"', 'duration = "50 s"'), encoding="utf-8")

    interrupted = threading.Event()

    def step(_: str) -> None:
        if not interrupted.is_set():
            interrupted.set()
            _thread.interrupt_main()
        # Until the interrupt is heard.
        time.sleep(0.05)

    core.on_step, core.steps = step, 10
    with pytest.raises(KeyboardInterrupt):
        run(experiment_file, jobs=1, fresh=True)
    out = experiment_file.parent / "out"
    assert (out / "experiment.toml").read_text(encoding="utf-8") == EXPERIMENT
    assert onionlab.load(out).transfers.equals(before)


def test_after_a_second_interrupt_too_no_run_goes_on(core: FakeCore, experiment_file: Path) -> None:
    """What one of them writes then would lie in a directory that was put back and is locked no more."""
    first, over = threading.Lock(), threading.Event()

    def step(_: str) -> None:
        if first.acquire(blocking=False):
            for _ in range(4):
                _thread.interrupt_main()
                time.sleep(0.5)
            over.set()
        over.wait()

    core.on_step = step
    with pytest.raises(KeyboardInterrupt):
        run(experiment_file, jobs=2)
    assert over.is_set()
    assert core.made == []
    assert not (experiment_file.parent / "out").exists()


def test_a_plan_that_could_not_be_read_again_is_refused_before_anything_runs(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onionlab.running.directory.MOST_OF_A_PLAN", 1000)
    with pytest.raises(ResultsError, match=r"^the plan of these 12 runs would have .* and no more than 1,000 B are read; fewer "):
        run(experiment_file)
    assert core.made == []
    assert not (experiment_file.parent / "out").exists()


def test_a_plan_has_no_more_than_it_needs(core: FakeCore, experiment_file: Path) -> None:
    assert core.version()
    text = Plan.of(experiment_file, EXPERIMENT).to_json()
    assert not any(letter.isspace() for letter in re.sub(r'"[^"]*"', "", text))


@pytest.mark.parametrize("kind", ["refused", "not shown", "interrupted"])
def test_what_was_chosen_stays_where_nothing_was_made_afresh(kind: str, core: FakeCore, experiment_file: Path) -> None:
    root = run(experiment_file, measure_from="20 s").directory
    chosen = (root / "evaluation.json").read_text(encoding="utf-8")
    observer = Silent()
    error: type[BaseException] = KeyboardInterrupt

    def raising(*_: object) -> None:
        raise KeyboardInterrupt

    match kind:
        case "refused":
            (root / "runs" / "ewma--net2--seed2" / "mine").touch()
            error = ResultsError
        case "not shown":
            observer.planned = raising  # type: ignore[method-assign]
        case _:
            once = threading.Lock()
            core.on_step = lambda _: _thread.interrupt_main() if once.acquire(blocking=False) else time.sleep(0.5)
    with pytest.raises(error):
        run(experiment_file, fresh=True, observer=observer, jobs=1)
    assert (root / "evaluation.json").read_text(encoding="utf-8") == chosen
    assert onionlab.load(root).measure_from == 20


def test_what_was_chosen_stays_where_every_run_fails(core: FakeCore, experiment_file: Path) -> None:
    """The runs of an older form are there still, and so is what was chosen for them."""
    root = run(experiment_file, measure_from="20 s").directory
    chosen = (root / "evaluation.json").read_text(encoding="utf-8")
    experiment_file.write_text(EXPERIMENT.replace('duration = "60 s"', 'duration = "80 s"'), encoding="utf-8")
    core.failing = {path.name for path in (root / "runs").iterdir()}
    with pytest.raises(RunError):
        run(experiment_file, fresh=True, measure_from="30 s")
    assert (root / "evaluation.json").read_text(encoding="utf-8") == chosen
    assert onionlab.load(root).measure_from == 20


def test_editing_the_file_while_it_runs_changes_nothing(core: FakeCore, experiment_file: Path) -> None:
    core.on_step = lambda _: experiment_file.write_text("networks = nonsense", encoding="utf-8") and None
    results = run(experiment_file)
    assert len(results.finished) == ALL_RUNS
    assert (results.directory / "experiment.toml").read_text(encoding="utf-8") == EXPERIMENT


def test_a_document_that_changes_on_the_way_is_noticed(core: FakeCore, experiment_file: Path) -> None:
    core.on_step = lambda directory: core.documents.update(digest="new") if directory.startswith("ewma--net1") else None
    with pytest.raises(DocumentError, match="has changed while the experiment ran"):
        run(experiment_file, jobs=1)
    assert core.made
    core.on_step = lambda _: None
    core.made.clear()
    # What was made before is not given up for it.
    with pytest.raises(ResultsError, match="6 finished runs of another form of this experiment"):
        run(experiment_file)
    results = run(experiment_file, fresh=True)
    assert set(core.made) >= {f"{slug}--net0--seed{seed}" for slug in ("round-robin", "ewma") for seed in (1, 2)}
    assert len(results.finished) == ALL_RUNS


def test_choices_that_cannot_be_read_are_refused_before_anything_is_run(core: FakeCore, experiment_file: Path) -> None:
    root = run(experiment_file).directory
    (root / "evaluation.json").write_text("{", encoding="utf-8")
    core.made.clear()
    experiment_file.write_text(EXPERIMENT.replace("networks = 3", "networks = 4"), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"evaluation\.json is not what onionlab wrote"):
        run(experiment_file)
    with pytest.raises(ResultsError, match=r"evaluation\.json is not what onionlab wrote"):
        list(onionlab.running.runner.run_all([("pair", experiment_file, root)]))
    assert core.made == []


def test_refused_scenario_leaves_nothing(core: FakeCore, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(EXPERIMENT.replace("networks", "netwroks"), encoding="utf-8")
    with pytest.raises(ScenarioError, match="netwroks"):
        onionlab.run(path, tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == [path]
    assert core.made == []


def test_refused_document_leaves_nothing(core: FakeCore, experiment_file: Path) -> None:
    core.refuse_document = True
    with pytest.raises(DocumentError, match="ends in the middle"):
        onionlab.run(experiment_file, experiment_file.parent / "deep" / "out")
    assert list(experiment_file.parent.iterdir()) == [experiment_file]


def test_refused_document_does_not_harm_older_results(core: FakeCore, experiment_file: Path) -> None:
    results = run(experiment_file)
    before = {path: path.read_bytes() for path in results.directory.rglob("*") if path.is_file()}
    core.refuse_document = True
    experiment_file.write_text(EXPERIMENT + '\n[[treatments]]\nname = "vanilla"\n', encoding="utf-8")
    with pytest.raises(DocumentError):
        run(experiment_file)
    assert len(onionlab.load(results.directory).finished) == ALL_RUNS
    for path, content in before.items():
        if path.suffix == ".parquet":
            assert path.read_bytes() == content


def test_one_failing_run_does_not_stop_the_others(core: FakeCore, experiment_file: Path) -> None:
    core.failing = {"ewma--net1--seed1"}
    results = run(experiment_file)
    assert [failure.run.directory for failure in results.failures] == ["runs/ewma--net1--seed1"]
    assert results.failures[0].reason == "the event queue ran dry"
    assert len(results.finished) == ALL_RUNS - 1
    assert [planned.directory for planned in results.missing] == ["runs/ewma--net1--seed1"]


def test_nothing_but_failures_is_an_error(core: FakeCore, experiment_file: Path) -> None:
    core.failing = {f"{slug}--net{net}--seed{seed}" for slug in ("round-robin", "ewma") for net in range(3) for seed in (1, 2)}
    with pytest.raises(RunError, match=r"^12 runs: the event queue ran dry$"):
        run(experiment_file)


def test_interrupt_keeps_what_is_finished_and_resumes(core: FakeCore, experiment_file: Path) -> None:
    steps = threading.Semaphore(22)
    interrupted = threading.Event()

    def step(_: str) -> None:
        if not steps.acquire(blocking=False) and not interrupted.is_set():
            interrupted.set()
            _thread.interrupt_main()
        if interrupted.is_set():
            interrupted.wait(0.05)

    core.on_step = step
    core.steps = 10
    with pytest.raises(KeyboardInterrupt):
        run(experiment_file, jobs=2)
    done = list(core.made)
    assert 0 < len(done) < ALL_RUNS
    left = [path.name for path in (experiment_file.parent / "out" / "runs").iterdir()]
    assert sorted(left) == sorted(done)
    core.on_step = lambda _: None
    core.made.clear()
    results = run(experiment_file)
    assert sorted(core.made + done) == sorted(planned.directory.removeprefix("runs/") for planned in results.plan.runs)


def test_left_over_drafts_are_removed(core: FakeCore, experiment_file: Path) -> None:
    draft = experiment_file.parent / "out" / "runs" / ".ewma--net0--seed1.4294967295.partial"
    draft.mkdir(parents=True)
    (draft / "transfers.parquet").write_bytes(b"half")
    results = run(experiment_file)
    assert not draft.exists()
    assert len(results.finished) == ALL_RUNS


def test_what_others_have_hidden_among_the_runs_stays(core: FakeCore, experiment_file: Path) -> None:
    runs = experiment_file.parent / "out" / "runs"
    theirs = [".git", ".notes.partial", "..replaced", "...replaced", ".old.replaced", ".a--net0--seed1.draft"]
    for name in theirs:
        (runs / name).mkdir(parents=True)
        (runs / name / "HEAD").write_text("mine", encoding="utf-8")
    (runs / ".linked--net0--seed1.7.partial").symlink_to(runs / ".git")
    left = [".ewma--net0--seed1.4294967295.partial", ".ewma--net0--seed2.0a1b2c3d.7.0123456789abcdef.partial"]
    for name in left:
        (runs / name).mkdir()
    run(experiment_file)
    assert sorted(path.name for path in runs.glob(".*")) == sorted([*theirs, ".linked--net0--seed1.7.partial"])
    assert (runs / ".git" / "HEAD").read_text(encoding="utf-8") == "mine"


def test_runs_are_not_made_behind_a_link(core: FakeCore, experiment_file: Path) -> None:
    home, root = experiment_file.parent / "home", experiment_file.parent / "out"
    (home / ".a--net0--seed1.7.partial").mkdir(parents=True)
    root.mkdir()
    (root / "plan.json").write_text("{}", encoding="utf-8")
    (root / "runs").symlink_to(home)
    with pytest.raises(ResultsError, match="runs is a symbolic link"):
        run(experiment_file)
    assert [path.name for path in home.iterdir()] == [".a--net0--seed1.7.partial"]
    assert core.made == []


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_a_lock_of_another_kind_is_refused(kind: str, core: FakeCore, experiment_file: Path) -> None:
    root, precious = experiment_file.parent / "out", experiment_file.parent / "precious"
    root.mkdir()
    match kind:
        case "pipe":
            os.mkfifo(root / ".lock")
        case "folder":
            (root / ".lock").mkdir()
        case _:
            if kind == "link":
                precious.write_text("mine", encoding="utf-8")
            (root / ".lock").symlink_to(precious)
    with pytest.raises(ResultsError, match=r"\.lock is (a symbolic link|no ordinary file)|cannot write into .*: Is a directory"):
        run(experiment_file)
    assert precious.exists() == (kind == "link")
    assert kind != "link" or precious.read_text(encoding="utf-8") == "mine"
    assert core.made == []


def test_a_lock_is_not_emptied(core: FakeCore, experiment_file: Path) -> None:
    root = experiment_file.parent / "out"
    root.mkdir()
    (experiment_file.parent / "precious").write_text("mine", encoding="utf-8")
    (root / ".lock").hardlink_to(experiment_file.parent / "precious")
    run(experiment_file)
    assert (experiment_file.parent / "precious").read_text(encoding="utf-8") == "mine"


def test_two_at_once_in_one_directory_are_refused(core: FakeCore, experiment_file: Path) -> None:
    root = experiment_file.parent / "out"
    root.mkdir()
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ResultsError, match="another onionlab"):
            run(experiment_file)
    assert core.made == []


def test_a_file_system_without_locks_is_named(core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(ResultsError, match=r"cannot lock .*No locks available"):
        run(experiment_file)
    assert core.made == []


def test_files_of_others_are_not_removed(core: FakeCore, experiment_file: Path) -> None:
    run_directory = experiment_file.parent / "out" / "runs" / "ewma--net0--seed1"
    run_directory.mkdir(parents=True)
    (run_directory / "notes.txt").write_text("mine")
    with pytest.raises(ResultsError, match="did not write"):
        run(experiment_file)
    assert (run_directory / "notes.txt").read_text() == "mine"


def test_load_wants_a_results_directory(core: FakeCore, experiment_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="not a results directory"):
        onionlab.load(tmp_path)
    run(experiment_file)
    (tmp_path / "out" / "plan.json").write_text("{}")
    with pytest.raises(ResultsError, match="not a plan"):
        onionlab.load(tmp_path / "out")
    assert core.made


def test_load_gives_what_run_gave(core: FakeCore, experiment_file: Path) -> None:
    made = run(experiment_file)
    core.version_text = "9.9"  # opening results needs neither the same version nor the experiment file
    experiment_file.unlink()
    opened = onionlab.load(made.directory)
    assert opened.finished == made.finished
    assert opened.summary.equals(made.summary)
    assert isinstance(opened.table("relays"), pl.LazyFrame)
    with pytest.raises(ValueError, match="no record table"):
        opened.table("cells")


class Listening(ProgressDisplay):
    """Keeps the runs that it was told are finished."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.told: list[PlannedRun] = []

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        self.told.append(run)
        super().finished(run, row)


def two_experiments(experiment_file: Path) -> list[tuple[str, Path, Path]]:
    """The experiment, and one like it that is longer, each with its place for results."""
    folder = experiment_file.parent
    longer = EXPERIMENT.replace('duration = "60 s"', 'duration = "80 s"')
    (folder / "longer.toml").write_text(longer, encoding="utf-8")
    return [(name, folder / file, folder / name) for name, file in (("first", experiment_file.name), ("second", "longer.toml"))]


def test_many_experiments_at_once_give_what_each_alone_gives(core: FakeCore, experiment_file: Path) -> None:
    experiments = two_experiments(experiment_file)
    stream = io.StringIO()
    with Listening(Console(file=stream, width=200)) as display:
        together = list(onionlab.running.runner.run_all(experiments, observer=display))
    assert [results.directory for results in together] == [root for _, _, root in experiments]
    for (_, file, root), results in zip(experiments, together, strict=True):
        alone = onionlab.run(file, root.with_name(f"{root.name}-alone"), report=False)
        assert results.transfers.equals(alone.transfers)
        assert results.missing == ()
    said = stream.getvalue()
    assert f"{2 * ALL_RUNS} of {2 * ALL_RUNS} runs: " in said
    assert "first, network 0, seed 1 took" in said
    plans = [results.plan for results in together]
    assert pace_of(Plan.together(plans), 0).duration == 70.0
    # Two run at a time, so that the first of the second experiment may be over before the last of the first.
    told = Counter((run.at.split(",")[0], duration_of(Plan.together(plans), run)) for run in display.told)
    assert told == {("first", 60.0): ALL_RUNS, ("second", 80.0): ALL_RUNS}
    core.made.clear()
    assert [results.missing for results in onionlab.running.runner.run_all(experiments)] == [(), ()]
    assert core.made == []


def test_many_experiments_are_given_one_by_one_in_their_order(core: FakeCore, experiment_file: Path) -> None:
    experiments = two_experiments(experiment_file)
    with made_at(Place(jobs=1)):
        everything = onionlab.running.runner.run_all(experiments)
        first = next(everything)
        assert len(first.finished) == ALL_RUNS
        everything.close()
    # The second was not waited for; what it has is whole, and the same call goes on from there.
    done = len(core.made)
    assert done < 2 * ALL_RUNS
    list(onionlab.running.runner.run_all(experiments))
    assert len(core.made) <= 2 * ALL_RUNS + 1


def test_a_failure_is_of_its_own_experiment(core: FakeCore, experiment_file: Path) -> None:
    experiments = two_experiments(experiment_file)
    core.failing.add("ewma--net1--seed2")
    first, second = onionlab.running.runner.run_all(experiments)
    assert [len(results.failures) for results in (first, second)] == [1, 1]
    assert first.directory != second.directory
    core.failing.clear()
    assert [results.failures for results in onionlab.running.runner.run_all(experiments)] == [(), ()]


def test_where_nothing_may_be_missing_all_others_are_made_before_it_is_said(core: FakeCore, experiment_file: Path) -> None:
    experiments = two_experiments(experiment_file)
    core.failing.add("ewma--net1--seed2")
    with pytest.raises(RunError, match=r"first: EWMA, network 1, seed 2.* failed \(.*\); so did 1 other run$"):
        list(onionlab.running.runner.run_all(experiments, whole=True))
    core.failing.clear()
    core.made.clear()
    assert [results.missing for results in onionlab.running.runner.run_all(experiments, whole=True)] == [(), ()]
    assert len(core.made) == 2, "only what had failed"


def test_a_place_is_refused_where_it_is_named() -> None:
    with pytest.raises(ValueError, match="jobs is 0; at least one run at a time is needed"):
        Place(jobs=0)
    with pytest.raises(ClusterError, match="no address of a cluster"):
        Place(cluster="10.0.0.1")


def test_runs_are_made_where_the_block_around_them_says(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onionlab.running.cluster.client.PATIENCE", 0.5)
    with made_at(Place(cluster="tcp://127.0.0.1:1")):
        with pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1"):
            run(experiment_file)
        assert len(run(experiment_file, jobs=1).finished) == ALL_RUNS
    core.made.clear()
    run(experiment_file, fresh=True)
    assert len(core.made) == ALL_RUNS
