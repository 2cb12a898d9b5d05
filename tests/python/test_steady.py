"""Where a series settles, and what is said about it."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import onionlab
from fake_core import FakeCore
from onionlab.errors import ResultsError, ScenarioError
from onionlab.stats.caveats import warm_up_warnings
from onionlab.stats.steady import begin_of_steady_state, mser, steady_state
from test_cli import call


def table(curves: dict[tuple[str, int, int], np.ndarray]) -> pl.DataFrame:
    parts = [
        pl.DataFrame(
            {
                "treatment": [treatment] * curve.size,
                "network": [network] * curve.size,
                "seed": [seed] * curve.size,
                "time_ns": (np.arange(curve.size) + 1) * 1_000_000_000,
                "goodput_bytes": curve.astype(np.int64),
            }
        )
        for (treatment, network, seed), curve in curves.items()
    ]
    return pl.concat(parts)


def rising(rng: np.random.Generator, until: int, size: int = 600, noise: float = 50.0) -> np.ndarray:
    level = np.minimum(1.0, (np.arange(size) + 1) / until)
    return 1000 * level + rng.normal(0, noise, size)


def brute_force(series: np.ndarray) -> int | None:
    """MSER-5 as it is defined, without cleverness."""
    batches = series[: series.size // 5 * 5].reshape(-1, 5).mean(axis=1)
    errors = [np.sum((batches[d:] - batches[d:].mean()) ** 2) / (batches.size - d) ** 2 for d in range(batches.size - 4)]
    best = int(np.argmin(errors))
    return 5 * best if best <= batches.size / 2 else None


@pytest.mark.parametrize("seed", range(8))
def test_mser_agrees_with_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for series in (rising(rng, 120), rng.normal(5, 1, 200), np.cumsum(rng.normal(0, 1, 300)), rising(rng, 560)):
        assert mser(series) == brute_force(series)


def test_mser_finds_the_end_of_a_ramp() -> None:
    found = [mser(rising(np.random.default_rng(seed), 120)) for seed in range(20)]
    assert all(cut is not None and 95 <= cut <= 220 for cut in found)
    assert mser(np.arange(500.0)) is None  # never settles
    assert mser(np.full(500, 3.0)) == 0  # nothing to cut
    assert mser(np.full(99, 3.0)) is None  # too short


def test_too_early_a_measurement_is_found_and_said() -> None:
    rng = np.random.default_rng(1)
    network = table({("a", k, 1): rising(rng, 200) for k in range(5)} | {("b", k, 1): rising(rng, 20) for k in range(5)})
    slow, quick = steady_state(network, ["a", "b"], 50.0)
    assert slow.settled_at is not None
    assert 170 <= slow.settled_at <= 230
    assert slow.too_early
    assert not quick.too_early
    assert begin_of_steady_state([slow, quick]) == slow.settled_at
    (sentence,) = warm_up_warnings([slow, quick], 50.0, 600.0)
    assert sentence.startswith("“a”: the network's goodput settles only at")
    assert "--measure-from auto" in sentence
    assert warm_up_warnings(steady_state(network, ["a", "b"], 250.0), 250.0, 600.0) == []


def test_a_steady_series_is_left_in_peace() -> None:
    rng = np.random.default_rng(2)
    complaints = 0
    for _ in range(40):
        network = table({("a", k, 1): 1000 * rng.lognormal(0, 0.3) + rng.normal(0, 100, 400) for k in range(5)})
        complaints += len(warm_up_warnings(steady_state(network, ["a"], 40.0), 40.0, 400.0))
    assert complaints <= 1


def test_a_series_that_grows_to_the_end_is_said() -> None:
    rng = np.random.default_rng(3)
    network = table({("a", k, 1): rising(rng, 800) for k in range(5)})
    (one,) = steady_state(network, ["a"], 100.0)
    assert one.settled_at is None
    assert one.moving
    assert begin_of_steady_state([one]) is None
    (sentence,) = warm_up_warnings([one], 100.0, 600.0)
    assert "does not settle in the first half of 10 min" in sentence
    assert "simulate longer" in sentence
    moving = replace(one, settled_at=90.0)
    for by_seed, of in ((False, "networks"), (True, "seeds")):
        (sentence,) = warm_up_warnings([moving], 100.0, 600.0, by_seed=by_seed)
        assert f"in the mean over {of}:" in sentence


def test_drift_is_over_networks_by_hand() -> None:
    half = np.concatenate([np.full(100, 100.0), np.full(100, 110.0)])
    other = np.concatenate([np.full(100, 200.0), np.full(100, 260.0)])
    (one,) = steady_state(table({("a", 0, 1): half, ("a", 0, 2): half, ("a", 1, 1): other}), ["a"], 0.0)
    assert one.drift is not None
    assert one.drift.count == 2
    assert one.drift.mean == pytest.approx((0.1 + 0.3) / 2)
    assert not one.moving  # two networks cannot exclude zero here


def test_a_shorter_last_sample_is_no_drift() -> None:
    """Samples of 10 s and a last one of 4 s, of a network that sends 100 B/s all the time."""
    ends = [*range(10, 130, 10), 124]
    parts = [
        pl.DataFrame(
            {
                "treatment": "a",
                "network": network,
                "seed": 1,
                "time_ns": [end * 1_000_000_000 for end in ends],
                "goodput_bytes": [1000] * 12 + [400],
            }
        )
        for network in range(3)
    ]
    (one,) = steady_state(pl.concat(parts), ["a"], 60.0)
    assert one.drift is not None
    assert one.drift.mean == pytest.approx(0.0)
    assert not one.moving


def test_networks_that_are_copies_cannot_tell_a_drift() -> None:
    curve = np.concatenate([np.full(100, 100.0), np.full(100, 120.0)])
    (one,) = steady_state(table({("a", network, 1): curve for network in range(4)}), ["a"], 0.0)
    assert one.drift is not None
    assert one.drift.mean == pytest.approx(0.2)
    assert one.drift.low is None
    assert not one.moving


def test_begin_of_the_measurement_can_be_chosen_and_taken_back(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = experiment_file.parent / "out"
    assert call(monkeypatch, "run", experiment_file, "--out", out, "--no-report", "--measure-from", "20 s") == 0
    assert onionlab.load(out).measure_from == 20
    assert onionlab.load(out).measured["start_ns"].min() >= 20_000_000_000  # type: ignore[operator]
    assert call(monkeypatch, "report", out) == 0
    said = capsys.readouterr()
    assert "measured from 20 s" in said.out
    reminder = "where --measure-from '20 s' of an earlier command puts it, not at the file's 10 s; `onionlab report "
    assert said.err.count(reminder) == 1, "of the report; the command that chose says nothing"
    # A run that finds everything there does not take the choice back, and says so.
    assert call(monkeypatch, "run", experiment_file, "--out", out, "--no-report") == 0
    assert onionlab.load(out).measure_from == 20
    assert reminder in capsys.readouterr().err
    assert call(monkeypatch, "report", out, "--measure-from", "60 s") == 2
    assert "less than the duration" in capsys.readouterr().err
    assert call(monkeypatch, "report", out, "--measure-from", "file") == 0
    assert onionlab.load(out).measure_from == 10
    assert "earlier command" not in capsys.readouterr().err
    assert core.made


def test_the_same_words_choose_the_begin_of_the_measurement_everywhere(
    core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = experiment_file.parent / "out"
    run = functools.partial(onionlab.run, experiment_file, out, report=False)
    assert run(measure_from="20 s").measure_from == 20
    assert run(measure_from="file").measure_from == 10
    assert not (out / "evaluation.json").exists()
    assert run(measure_from="20 s").measure_from == 20
    capsys.readouterr()
    assert call(monkeypatch, "run", experiment_file, "--out", out, "--no-report", "--measure-from", "file") == 0
    assert onionlab.load(out).measure_from == 10
    assert "earlier command" not in capsys.readouterr().err
    for command in (("run", experiment_file, "--out", out), ("report", out)):
        assert call(monkeypatch, *command, "--measure-from", "never") == 2
        assert "allowed are auto, file and a time such as '40 s'" in capsys.readouterr().err
    assert core.made


def test_begin_of_the_measurement_can_be_found(core: FakeCore, experiment_file: Path) -> None:
    longer = experiment_file.read_text(encoding="utf-8").replace('"60 s"', '"200 s"').replace("networks = 3", "networks = 1")
    experiment_file.write_text(longer, encoding="utf-8")
    results = onionlab.run(experiment_file, experiment_file.parent / "out", report=False, measure_from="auto")
    expected = begin_of_steady_state(steady_state(results.network, results.treatments, 0.0))
    assert expected is not None
    assert results.measure_from == expected < 100
    assert core.made
    with pytest.raises(ScenarioError, match="allowed are auto, file and a time"):
        onionlab.run(experiment_file, experiment_file.parent / "out", measure_from="the file's")
    (results.directory / "evaluation.json").write_text('{"measure_to": 3}')
    with pytest.raises(ResultsError, match="not what onionlab wrote"):
        onionlab.load(results.directory)


def test_a_choice_that_has_become_too_late_is_told(core: FakeCore, experiment_file: Path) -> None:
    """Chosen beside a file of 60 s, which then was made one of 30 s, and run by another build, which makes all runs again."""
    out = experiment_file.parent / "out"
    onionlab.run(experiment_file, out, report=False, measure_from="40 s")
    text = experiment_file.read_text(encoding="utf-8").replace('duration = "60 s"', 'duration = "30 s"')
    experiment_file.write_text(text, encoding="utf-8")
    core.build_text = "fedcba9876543210"
    results = onionlab.run(experiment_file, out, report=False)
    with pytest.raises(ResultsError, match="measured from 40 s, when its 30 s are over; `onionlab report DIR --measure-from"):
        _ = results.figures
    assert core.made
