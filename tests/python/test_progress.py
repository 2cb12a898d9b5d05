"""The pace of an experiment and its display."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import onionlab
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab.plan import PlannedRun
from onionlab.terminal.progress import Pace, ProgressDisplay


def planned(seed: int) -> PlannedRun:
    return PlannedRun("a", 0, 0, seed, f"runs/a--net0--seed{seed}")


def test_time_left_follows_the_pace() -> None:
    pace = Pace(duration=100.0, runs=4)
    assert pace.left(0.0) is None
    pace.moved(planned(1), 0.0, 0, now=0.0)
    pace.moved(planned(1), 20.0, 2000, now=10.0)
    pace.moved(planned(2), 20.0, 2000, now=10.0)
    # 40 of 400 simulated seconds in 10 s: 360 are left, at 4 a second.
    assert pace.left(10.0) == pytest.approx(90.0)
    assert pace.events_per_second(10.0) == pytest.approx(400.0)
    pace.ended(planned(1), 9000, now=20.0)
    assert pace.simulated == pytest.approx(120.0)
    assert pace.events == 11_000


def test_runs_are_as_long_as_they_are() -> None:
    pace = Pace(duration=100.0, runs=2, of=lambda run: 150.0 if run.seed == 1 else 50.0)
    pace.moved(planned(1), 140.0, 0, now=0.0)
    assert pace.simulated == 140.0, "not cut off at the mean"
    pace.ended(planned(1), 0, now=1.0)
    pace.moved(planned(2), 60.0, 0, now=2.0)
    assert pace.simulated == 200.0


def test_pace_forgets_what_is_long_ago() -> None:
    pace = Pace(duration=1000.0, runs=1)
    for second in range(101):
        pace.moved(planned(1), float(second if second < 50 else 50 + 4 * (second - 50)), second, now=float(second))
    # 750 simulated seconds left at four a second.
    assert pace.left(100.0) == pytest.approx((1000 - 250) / 4, rel=0.05)


@pytest.mark.parametrize("terminal", [True, False])
def test_display_survives_a_whole_experiment(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr("onionlab.terminal.progress.EVERY", 0.0)
    stream = io.StringIO()
    core.failing = {"ewma--net1--seed1"}
    with ProgressDisplay(Console(file=stream, force_terminal=terminal, width=200)) as display:
        onionlab.run(experiment_file, experiment_file.parent / "out", report=False, observer=display)
    text = stream.getvalue()
    assert "the event queue ran dry" in text
    if terminal:
        assert "11/12" in text
        assert "simulated" in text
    else:
        assert "11 of 12 runs" in text
        assert "0 of 12 runs: 12 s simulated" in text
    again = io.StringIO()
    core.failing.clear()
    with ProgressDisplay(Console(file=again, force_terminal=terminal, width=200)) as display:
        onionlab.run(experiment_file, experiment_file.parent / "out", report=False, observer=display)
    assert "11 of 12 runs are there already" in again.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_brackets_in_names_and_reasons_are_printed_as_they_are(core: FakeCore, experiment_file: Path, terminal: bool) -> None:
    text = EXPERIMENT.replace("round robin", "SWRR [linear]").replace("EWMA", "KIST [/fast] :dog:")
    experiment_file.write_text(text, encoding="utf-8")
    core.failing = {"swrr-linear--net0--seed1"}
    stream = io.StringIO()
    with ProgressDisplay(Console(file=stream, force_terminal=terminal, width=200, no_color=True)) as display:
        results = onionlab.run(experiment_file, experiment_file.parent / "out", report=False, observer=display)
        display.failed(planned(1), "no space left on [/data/x]")
        display.waiting("waiting for [red]a lock")
    assert len(results.finished) == 11
    said = stream.getvalue()
    assert "SWRR [linear], network 0, seed 1: the event queue ran dry" in said
    assert "no space left on [/data/x]" in said
    assert "waiting for [red]a lock" in said
    if not terminal:
        assert "KIST [/fast] :dog:, network 0, seed 1 took 1.25 s" in said
