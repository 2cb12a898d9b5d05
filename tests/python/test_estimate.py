"""What is said of a long experiment after its first seconds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import onionlab
from fake_core import FakeCore
from onionlab.running.estimate import Expected, Forecast, resident
from onionlab.terminal.progress import ProgressDisplay

MIB = 1 << 20


def feed(forecast: Forecast, speeds: list[float], seconds: int, memory: list[int] | None = None) -> list[tuple[int, Expected]]:
    """Two runs of 1000 s side by side; ``speeds`` are those of the first four seconds and of the later ones."""
    there, told = 0.0, []
    for second in range(seconds):
        bytes_now = None if memory is None else memory[min(second, len(memory) - 1)]
        expected = forecast.moved(2 * there, [there, there], float(second), bytes_now)
        if expected is not None:
            told.append((second, expected))
        there += speeds[0] if second < 4 else speeds[1]
    return told


def test_the_pace_of_the_second_half_is_carried_on() -> None:
    # Two of eight runs: fast in the first four seconds, then 10 simulated seconds a second.
    told = feed(Forecast(1000.0, 8), [50.0, 10.0], 30)
    assert [second for second, _ in told] == [10]
    expected = told[0][1]
    # 4 * 50 + 6 * 10 = 260 simulated seconds each of 4000 are done; the rest goes at 10 a second.
    assert expected.seconds == pytest.approx(10 + (8000 - 520) / 20)
    assert (expected.memory, expected.jobs) == (None, 2)


def test_memory_grows_on_until_the_runs_that_are_under_way_end() -> None:
    told = feed(Forecast(1000.0, 8), [10.0, 10.0], 30, [100 * MIB + second * MIB for second in range(40)])
    # 110 MiB after ten seconds, 1 MiB for each 20 simulated seconds; each run has 900 s left.
    assert told[0][1].memory == pytest.approx(110 * MIB + 1800 / 20 * MIB)
    steady = feed(Forecast(1000.0, 8), [10.0, 10.0], 30, [100 * MIB, 300 * MIB])
    assert steady[0][1].memory == 300 * MIB


def test_nothing_is_said_of_a_short_experiment_or_too_early() -> None:
    assert feed(Forecast(1000.0, 2), [100.0, 100.0], 30) == []
    slow = feed(Forecast(1000.0, 8), [1.0, 1.0], 120)
    assert [second for second, _ in slow] == [50], "after a twentieth of a run"


def test_what_happens_before_the_last_client_has_started_does_not_count() -> None:
    # 50 simulated seconds a second for four seconds, then 10: clients start until second 250, which is there after nine seconds.
    told = feed(Forecast(1000.0, 2, started=250.0), [50.0, 10.0], 60)
    assert [second for second, _ in told] == [14], "a twentieth of a run later"
    assert told[0][1].seconds == pytest.approx(14 + (2000 - 600) / 20)
    # A group that starts at the very end is waited for until half of the run.
    assert [second for second, _ in feed(Forecast(1000.0, 2, started=999.0), [50.0, 10.0], 60)] == [39]


def test_a_run_that_is_over_says_enough() -> None:
    forecast = Forecast(100.0, 8, started=50.0)
    # Runs one after the other, each over in eight seconds.
    told = [forecast.moved(12.5 * second, [12.5 * second % 100], float(second), None) for second in range(20)]
    assert [second for second, expected in enumerate(told) if expected] == [10]
    assert told[10] == Expected(pytest.approx(800 / 12.5), None, 1)


def test_a_process_has_some_memory() -> None:
    memory = resident()
    assert memory is None or memory > 10 * MIB


def test_the_display_says_it_once(core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onionlab.running.estimate.FIRST", 0.001)
    monkeypatch.setattr("onionlab.running.estimate.LONG", 0.0)
    core.steps = 200
    stream = io.StringIO()
    with ProgressDisplay(Console(file=stream, width=200)) as display:
        onionlab.run(experiment_file, experiment_file.parent / "out", report=False, observer=display)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("expected: about ")]
    assert len(lines) == 1
    assert "for 12 runs" in lines[0]
