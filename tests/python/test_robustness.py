"""Runs that are killed at random moments, and disks that are full: nothing finished is lost, nothing broken is left."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

import onionlab
from fake_core import FakeCore
from onionlab.errors import ResultsError
from onionlab.files import ABANDONED, draft_of_file, settle_replaced, write_all, write_bytes, write_directory
from onionlab.plan import TABLES, Plan, is_finished
from onionlab.results.drawn import MADE
from onionlab.running.observer import Replaced, Silent
from test_core import SMALL, content, onionlab_command

#: How often a run is killed.
KILLS = 20

#: Another seed gives other moments.
SEED = int(os.environ.get("ONIONLAB_TEST_SEED", "6"))


class Kept(Silent):
    """How many runs were there already."""

    kept = -1

    def planned(self, plan: Plan, kept: int, replaced: Replaced) -> None:  # noqa: ARG002
        self.kept = kept


def whole(root: Path) -> dict[str, str]:
    """Digests of the records of all finished runs, after everything that a reader can see was found to be whole."""
    plan = Plan.from_json((root / "plan.json").read_text(encoding="utf-8"))
    assert (root / "experiment.toml").stat().st_size > 0
    planned = {run.directory: run for run in plan.runs}
    for directory in (root / "runs").glob("[!.]*"):
        for table in TABLES:
            assert pl.read_parquet(directory / f"{table}.parquet", hive_partitioning=False).width > 1
        assert is_finished(root, plan, planned[str(directory.relative_to(root))])
    for path in [*root.glob("[!.]*"), *root.glob("charts/[!.]*"), *root.glob("tables/[!.]*")]:
        last = path.read_bytes()[-20:] if path.is_file() else b""
        end = {".html": b"</html>\n", ".svg": b"</svg>", ".json": b"}", ".csv": b"\n", ".png": b"IEND\xaeB`\x82"}
        assert path.is_dir() or last.rstrip(b"\n").endswith(end.get(path.suffix, b"").rstrip(b"\n")), path
    return visible_content(root)


def visible_content(root: Path) -> dict[str, str]:
    return {name: digest for name, digest in content(root).items() if not name.startswith("runs/.")}


def started(*words: object, directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "onionlab", *map(str, words)]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_at_work(process: subprocess.Popen[bytes], runs: Path, delay: float) -> None:
    """Kill a process ``delay`` seconds after the first sign that it makes runs, if it lives so long."""
    before = {path.name for path in runs.glob("*")}
    while process.poll() is None and {path.name for path in runs.glob("*")} <= before:
        time.sleep(0.002)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.timeout(900)
def test_killing_a_run_twenty_times_loses_nothing(tmp_path: Path) -> None:
    print(f"ONIONLAB_TEST_SEED={SEED}")
    moments = random.Random(SEED)
    text = SMALL.replace("networks = 2", "networks = 16")
    experiment = tmp_path / "small.toml"
    experiment.write_text(text, encoding="utf-8")
    began = time.monotonic()
    reference = onionlab.run(experiment, tmp_path / "reference", report=False, jobs=2)
    each = 2 * (time.monotonic() - began) / len(reference.plan.runs)
    finished: dict[str, str] = {}
    unfinished = 0
    for _ in range(KILLS):
        process = started("run", "small.toml", "--jobs", 2, "--no-report", directory=tmp_path)
        kill_at_work(process, tmp_path / "out" / "small" / "runs", moments.uniform(0, each))
        after = whole(tmp_path / "out" / "small")
        assert {name: after.get(name) for name in finished} == finished
        finished = after
        unfinished += len(list((tmp_path / "out" / "small" / "runs").glob(".*")))
    assert unfinished > 0, "no kill has met a run on its way"
    observer = Kept()
    results = onionlab.run(experiment, tmp_path / "out" / "small", report=False, observer=observer)
    assert observer.kept * (len(TABLES) - 1) == len(finished)
    assert whole(results.directory) == content(reference.directory)
    assert not list(results.directory.glob("runs/.*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killing_a_repeated_run_twenty_times_loses_nothing(tmp_path: Path) -> None:
    """Finished runs are replaced while the process is killed: the older or the newer one stays."""
    moments = random.Random(SEED)
    experiment = tmp_path / "small.toml"
    experiment.write_text(SMALL, encoding="utf-8")
    began = time.monotonic()
    reference = onionlab.run(experiment, tmp_path / "out" / "small", report=False, jobs=2)
    together = time.monotonic() - began
    expected = content(reference.directory)
    for _ in range(KILLS):
        process = started("run", "small.toml", "--jobs", 2, "--no-report", "--fresh", directory=tmp_path)
        kill_at_work(process, tmp_path / "out" / "small" / "runs", moments.uniform(0, together))
        observer = Kept()
        onionlab.run(experiment, tmp_path / "out" / "small", report=False, observer=observer)
        assert observer.kept == len(reference.plan.runs)
        assert whole(reference.directory) == expected


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killing_a_report_leaves_whole_files(tmp_path: Path) -> None:
    moments = random.Random(SEED)
    experiment = tmp_path / "small.toml"
    experiment.write_text(SMALL, encoding="utf-8")
    began = time.monotonic()
    assert onionlab_command("run", "small.toml", directory=tmp_path).returncode == 0
    together = time.monotonic() - began
    for _ in range(KILLS):
        process = started("report", "out/small", directory=tmp_path)
        time.sleep(moments.uniform(0, together))
        process.send_signal(signal.SIGKILL)
        process.wait()
        whole(tmp_path / "out" / "small")
    assert onionlab_command("run", "small.toml", directory=tmp_path).returncode == 0
    assert not [path for path in (tmp_path / "out" / "small").glob(".*") if path.name != ".lock"]


def ended_process() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def draft_by(process: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Half a file under the name that a process of this number gives to its draft of ``path``."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: process)
        draft = draft_of_file(path)
    draft.write_text("half", encoding="utf-8")
    return draft


def test_a_directory_that_was_moved_away_for_a_newer_one_comes_back(core: FakeCore, experiment_file: Path) -> None:
    results = onionlab.run(experiment_file, experiment_file.parent / "out", report=False)
    runs = results.directory / "runs"
    (runs / "ewma--net0--seed1").rename(runs / ".ewma--net0--seed1.replaced")
    shutil.copytree(runs / "ewma--net0--seed2", runs / ".ewma--net0--seed2.replaced")
    core.made.clear()
    again = onionlab.run(experiment_file, results.directory, report=False)
    assert core.made == []
    assert len(again.finished) == len(again.plan.runs)
    assert sorted(path.name for path in runs.glob(".*")) == []


def test_drafts_of_killed_writers_go_and_those_of_others_stay(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report locks nothing: one that is being drawn while a run begins keeps its draft."""
    root = onionlab.run(experiment_file, experiment_file.parent / "out", report=False).directory
    ended = ended_process()
    for name in ("experiment.toml", "plan.json", "evaluation.json", "report.html"):
        draft_by(ended, root / name, monkeypatch)
    old = draft_by(os.getppid(), root / "report.html", monkeypatch)
    before = time.time() - 2 * ABANDONED
    os.utime(old, (before, before))
    alive = draft_by(os.getppid(), root / "report.html", monkeypatch)
    own = draft_by(ended, root / "keep", monkeypatch)
    ours = alive.name.split(".")[3]
    elsewhere = alive.with_name(f".report.html.{'0' * len(ours)}.{ended}.{'0' * 8}")
    elsewhere.write_text("half", encoding="utf-8")
    onionlab.run(experiment_file, root, report=False)
    assert {path.name for path in root.glob(".*")} == {".lock", alive.name, own.name, elsewhere.name}
    assert core.made


def test_drafts_of_a_killed_report_go_with_the_next(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = onionlab.run(experiment_file, experiment_file.parent / "out")
    ended = ended_process()
    for path in (results.directory / "report.html", results.directory / "charts" / MADE, results.directory / "tables" / MADE):
        draft_by(ended, path, monkeypatch)
    onionlab.load(results.directory).report()
    assert [path.name for path in results.directory.glob(".*")] == [".lock"]
    assert {path.name for path in results.directory.glob("*/.*")} == {MADE}
    assert core.made


def test_files_that_belong_together_change_together_or_not_at_all(tmp_path: Path) -> None:
    write_all({tmp_path / "one": b"1", tmp_path / "two": b"2"})
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match=r"cannot write .*file/below: Not a directory|cannot write .*File exists"):
        write_all({tmp_path / "one": b"changed", tmp_path / "file" / "below": b"3"})
    assert (tmp_path / "one").read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "one", "two"]


def test_a_directory_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_directory(path, [("a", b"1"), ("b", b"2")])
    write_directory(path, [("a", b"3")])
    assert {file.name: file.read_bytes() for file in path.iterdir()} == {"a": b"3"}
    with pytest.raises(ResultsError, match="cannot write"):
        write_directory(path, [("c", b"4"), ("c/no folder", b"5")])
    assert {file.name: file.read_bytes() for file in path.iterdir()} == {"a": b"3"}
    settle_replaced(tmp_path / ".run.replaced")
    assert list(tmp_path.iterdir()) == [path]


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system of so many bytes, in a namespace of its own; skips where the system does not allow one."""
    place.mkdir()
    script = f"mount -t tmpfs -o size={size} none '{place}' && echo ready && exec sleep 600"
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        pytest.skip("no `unshare`: no small disk can be mounted")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if process.stdout.readline() != "ready\n":
            pytest.skip(f"no small disk can be mounted: {process.stderr.read().strip()}")
        yield Path(f"/proc/{process.pid}/root{place}")
    finally:
        process.kill()
        process.communicate()


def fill(disk: Path, free: int) -> Path:
    """Fill a disk but for so many bytes; the file that does so."""
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - free))
    return filler


def visible(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_a_disk_that_fills_up_keeps_finished_runs_and_the_run_goes_on_later(small: Path, tmp_path: Path) -> None:
    reference = onionlab.run(small, tmp_path / "reference", report=False)
    one = sum(path.stat().st_size for path in (reference.directory / reference.plan.runs[0].directory).iterdir())
    with small_disk(tmp_path / "disk", 16 << 20) as disk:
        filler = fill(disk, 5 * one // 2 + (64 << 10))
        done = onionlab_command("run", small, "--out", disk / "out", "--jobs", 1, directory=tmp_path)
        assert done.returncode == 2, done.stderr
        sentence = done.stderr.strip().splitlines()[-1]
        assert "No space left on device" in sentence
        assert f"finished runs are kept in {disk / 'out'}, the same command goes on from there" in sentence
        assert "Traceback" not in done.stderr
        kept = whole(disk / "out")
        assert kept
        assert len(kept) < len(content(reference.directory))
        assert not list(disk.glob("out/runs/.*"))
        filler.unlink()
        results = onionlab.run(small, disk / "out", report=False)
        assert whole(results.directory) == content(reference.directory)


def test_a_full_disk_is_told_before_anything_is_run_and_nothing_is_left(core: FakeCore, experiment_file: Path) -> None:
    with small_disk(experiment_file.parent / "disk", 1 << 20) as disk:
        fill(disk, 0)
        with pytest.raises(ResultsError, match=r"cannot write .*No space left on device"):
            onionlab.run(experiment_file, disk / "out")
        assert sorted(visible(disk)) == ["filler"]
        assert not (disk / "out").exists()
    assert core.made == []


def test_a_full_disk_leaves_older_results_as_they_were(core: FakeCore, experiment_file: Path) -> None:
    text = experiment_file.read_text(encoding="utf-8")
    with small_disk(experiment_file.parent / "disk", 8 << 20) as disk:
        results = onionlab.run(experiment_file, disk / "out")
        before = visible(disk / "out")
        filler = fill(disk, 0)
        experiment_file.write_text(text.replace("320 KiB", "321 KiB") + f"# {'longer ' * 2000}\n", encoding="utf-8")
        with pytest.raises(ResultsError, match="No space left on device"):
            onionlab.run(experiment_file, disk / "out", fresh=True)
        with pytest.raises(ResultsError, match=r"cannot write .*: No space left on device"):
            onionlab.load(disk / "out").report()
        filler.unlink()
        assert visible(disk / "out") == before
        assert len(onionlab.load(disk / "out").finished) == len(results.finished)


def test_a_full_disk_gives_one_sentence_for_other_outputs(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64 << 10) as disk:
        fill(disk, 0)
        for words in (
            ["synth", "--relays", 200, "-o", disk / "network.txt"],
            ["shared-links", "--circuits", 1000, "--format", "json", "--out", disk / "links.json"],
        ):
            done = onionlab_command(*words, directory=tmp_path)
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith("onionlab: cannot write ")
            assert done.stderr.endswith("No space left on device\n")
            assert len(done.stderr.splitlines()) == 1
        assert [path.name for path in disk.iterdir()] == ["filler"]


def test_standard_output_on_a_full_disk_gives_one_sentence(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "onionlab", "schema"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr == "onionlab: standard output: No space left on device\n"


def test_a_limit_on_the_size_of_files_is_told_as_a_full_disk_is(small: Path) -> None:
    """The same as on a full disk, where no small disk can be mounted."""
    done = subprocess.run(
        [sys.executable, "-m", "onionlab", "run", "small.toml", "--jobs", "1"],
        cwd=small.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8_500, 8_500)),
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert list(small.parent.iterdir()) == [small]


def test_what_cannot_be_written_stops_all_at_once(core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is as full for the runs that wait: they are not tried in turn."""
    tried = []

    def full(*arguments: object) -> str:
        tried.append(arguments)
        error = onionlab.RunError("cannot write a table (No space left on device)")
        error.code = "run-records"
        raise error

    monkeypatch.setattr(onionlab._core, "run_one", full)
    with pytest.raises(ResultsError, match=r"No space left on device.*; finished runs are kept in"):
        onionlab.run(experiment_file, experiment_file.parent / "out", jobs=1)
    assert len(tried) < 3
    assert list(experiment_file.parent.iterdir()) == [experiment_file]


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_bytes(path, json.dumps({"whole": True}).encode())
    assert json.loads(path.read_text()) == {"whole": True}
    assert list(path.parent.iterdir()) == [path]
