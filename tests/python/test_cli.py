"""The command line: exit codes, messages, and examples in the help."""

from __future__ import annotations

import _thread
import errno
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab import cli
from onionlab.commands.carried_out.doctor import needed


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Run the command line in this process and return its exit code."""
    monkeypatch.setattr("sys.argv", ["onionlab", *map(str, words)])
    try:
        cli.main()
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else (0 if leave.code is None else 1)
    return 0


def test_run_prints_the_table_and_where_the_report_is(
    core: FakeCore,
    experiment_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(experiment_file.parent)
    assert call(monkeypatch, "run", "pair.toml", "--jobs", 2) == 0
    output = capsys.readouterr().out
    assert "round robin" in output
    assert "EWMA" in output
    assert "Only 3 sampled networks" in output
    assert "report: out/pair/report.html" in output
    assert (experiment_file.parent / "out" / "pair" / "report.html").is_file()
    assert call(monkeypatch, "report", "out/pair") == 0
    assert core.made


def test_bad_input_is_one_sentence_and_exit_code_2(
    core: FakeCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(EXPERIMENT.replace("networks", "netwroks"), encoding="utf-8")
    assert call(monkeypatch, "run", bad, "--out", tmp_path / "out") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1
    assert "netwroks" in captured.err
    assert call(monkeypatch, "run", tmp_path / "absent.toml", "--out", tmp_path / "out") == 2
    assert call(monkeypatch, "report", tmp_path) == 2
    assert call(monkeypatch, "run") == 2
    assert not (tmp_path / "out").exists()
    assert core.made == []


def test_document_refused_is_exit_code_2(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    core.refuse_document = True
    out = experiment_file.parent / "out"
    assert call(monkeypatch, "run", experiment_file, "--out", out) == 2
    assert "ends in the middle of a router entry" in capsys.readouterr().err
    assert not out.exists()


def test_failed_run_is_exit_code_1_and_the_rest_is_reported(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    core.failing = {"ewma--net1--seed1"}
    out = experiment_file.parent / "out"
    assert call(monkeypatch, "run", experiment_file, "--out", out) == 1
    captured = capsys.readouterr()
    assert "1 of 12 runs failed" in captured.err
    assert "Traceback" not in captured.err
    assert "the event queue ran dry" in (out / "report.html").read_text(encoding="utf-8")


def test_interrupt_is_exit_code_130(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(directory: str) -> None:
        if directory == "ewma--net1--seed1":
            _thread.interrupt_main()
            # The run goes on until the main thread, which looks up five times a second, has noticed; however busy the machine is.
            time.sleep(0.5)

    core.on_step = interrupt
    out = experiment_file.parent / "out"
    assert call(monkeypatch, "run", experiment_file, "--out", out, "--jobs", 1) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert core.made
    core.on_step = lambda _: None
    assert call(monkeypatch, "run", experiment_file, "--out", out) == 0


def test_an_interrupt_before_any_run_is_finished_promises_none(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A results directory there may be all the same, say with a file of the user's own."""
    out = experiment_file.parent / "out"
    out.mkdir()
    (out / "mine").touch()

    once = threading.Lock()

    def interrupt(_: str) -> None:
        if once.acquire(blocking=False):
            _thread.interrupt_main()
        time.sleep(0.5)

    core.on_step = interrupt
    assert call(monkeypatch, "run", experiment_file, "--out", out, "--jobs", 1) == 130
    assert capsys.readouterr().err.endswith("onionlab: stopped; before any run was finished\n")
    assert core.made == []


def test_no_report(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = experiment_file.parent / "out"
    assert call(monkeypatch, "run", experiment_file, "--out", out, "--no-report") == 0
    assert not (out / "report.html").exists()
    assert "onionlab report" in capsys.readouterr().out
    assert core.made


def test_every_command_has_an_example(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert call(monkeypatch, "--help") == 0
    commands = re.findall(r"^│ (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert {"run", "report", "schema", "synth", "doctor"} <= set(commands)
    for command in ("run", "report", "schema", "synth", "doctor"):
        assert call(monkeypatch, command, "--help") == 0
        assert f"Example: onionlab {command}" in capsys.readouterr().out
    assert core.version() == "0.0.0-fake"


def test_schema_and_version(core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "schema") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(core.schema())
    assert call(monkeypatch, "schema", "network") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "network"
    assert call(monkeypatch, "schema", "circuit") == 2
    assert "experiment, network" in capsys.readouterr().err
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == "onionlab 0.0.0-fake\n"


def test_synth_writes_a_file_or_prints(
    core: FakeCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "synth", "--relays", 50, "-o", tmp_path / "consensus") == 0
    assert (tmp_path / "consensus").read_text() == core.synth('{"relays": 50}')
    assert call(monkeypatch, "synth", "--year", 2023) == 0
    assert '"year": 2023' in capsys.readouterr().out
    assert call(monkeypatch, "synth", "-o", "/dev/null/x") == 2


def test_doctor_finds_this_machine_fit(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "doctor") == 0
    output = capsys.readouterr().out
    assert "cores" in output
    assert "drawing charts" in output
    assert core.version() in output


def test_doctor_looks_for_all_packages_that_are_declared_and_no_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = [f"{one}; extra == 'dev'" for one in declared["optional-dependencies"]["dev"]]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: [*declared["dependencies"], *extra])
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0" if name != "markupsafe" else missing(name))

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    assert needed(["polars>=1", *extra]) == ["polars"]
    assert len(needed(declared["dependencies"])) == len(declared["dependencies"])
    assert call(monkeypatch, "doctor") == 1
    assert "missing: markupsafe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("in <TCP (closed)>: Stream is closed"), "in <TCP (closed)>: Stream is closed"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (OSError(errno.EACCES, "Permission denied", "/a/file"), "/a/file: Permission denied"),
        (OSError(), "OSError"),
    ],
)
def test_what_the_system_refuses_is_blamed_on_the_output_only_where_that_is_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: OSError, said: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert call(monkeypatch, "run") == 1
    print("and goes on", flush=True)
    out, told = capfd.readouterr()
    assert told == f"onionlab: {said}\n"
    assert out == "and goes on\n", "standard output is left as it is"


@pytest.mark.parametrize("command", ["run", "shared-links", "report"])
def test_names_that_are_no_utf_8_are_refused(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, command, "\udcff.toml") == 2
    assert capsys.readouterr().err == (
        "onionlab: the argument '\N{REPLACEMENT CHARACTER}.toml' is not UTF-8, which names of files must be here\n"
    )


def test_an_error_controls_no_terminal(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "report", "a\x1b[2J\x9b") == 2
    assert "a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER} is not a results directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("run", ""), ("run", "pair.toml", "--out", ""), ("report", ""), ("run", "pair.toml", "--out=")]
)
def test_what_is_empty_is_not_the_working_folder(
    words: tuple[str, ...],
    core: FakeCore,
    experiment_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(experiment_file.parent)
    before = sorted(experiment_file.parent.iterdir())
    assert call(monkeypatch, *words) == 2
    assert "is empty, where a name or a value is needed" in capsys.readouterr().err
    assert sorted(experiment_file.parent.iterdir()) == before
    assert core.made == []


def test_an_experiment_out_of_a_pipe_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert call(monkeypatch, "run", tmp_path / "pipe") == 2
    assert "a pipe or a device" in capsys.readouterr().err


def test_a_folder_that_cannot_be_one_is_refused_before_anything_runs(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("--docs", "--kept", "--out"):
        for place in (experiment_file, experiment_file / "below"):
            assert call(monkeypatch, "reproduce", "swrr", "--quick", option, place) == 2
            said = " ".join(capsys.readouterr().err.replace("│", " ").split())
            assert f"for {option}" in said
            assert "is no folder; one is needed" in said
    assert core.made == []


def test_a_time_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--duration", "--at-most"):
        for wrong in ("20", "abc", "-5 min", "1e400 h", "0 s"):
            assert call(monkeypatch, "reproduce", "shadow-networks", f"{option}={wrong}") == 2
            assert f"for {option}" in capsys.readouterr().err


#: Starts the command line as a shell does, with its first words changed to `SETUP`.
START = [sys.executable, "-c", "import sys; sys.argv[0] = 'onionlab'; SETUP; from onionlab.__main__ import main; main()"]


def start(*words: str, setup: str = "pass", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [*START[:2], START[2].replace("SETUP", setup), *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_a_closed_output_and_one_without_our_signs_end_nothing() -> None:
    closed = start("synth", "--relays", "10", "-o", os.devnull, setup="import os; os.close(1); sys.stdout = None")
    assert (closed.returncode, closed.stderr) == (0, "")
    plain = start("shared-links", "--circuits", "1000", PYTHONIOENCODING="ascii")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "1,000" in plain.stdout


def test_an_interrupt_while_it_is_loaded_is_one_line() -> None:
    loading = (
        "import builtins, signal; load = builtins.__import__; stop = lambda: signal.raise_signal(signal.SIGINT); "
        "builtins.__import__ = lambda name, *rest: stop() if name == 'onionlab.cli' else load(name, *rest)"
    )
    stopped = start("--version", setup=loading)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", "onionlab: stopped\n")
