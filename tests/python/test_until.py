"""Adding networks until an interval is narrow: the rule, what is kept, what is refused, and what is said about it."""

from __future__ import annotations

import _thread
import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import onionlab
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab import _core
from onionlab.errors import ScenarioError
from onionlab.results import experiment
from onionlab.running.rewriting import with_duration, with_networks
from onionlab.running.until import PILOT, UntilCi, parse_width, relative_width, rule_of, samples, stein
from test_cli import call
from test_sweeps import SMALL as SWEPT

SHORT = EXPERIMENT.replace('duration = "60 s"', 'duration = "30 s"').replace("seeds = [1, 2]", "seeds = [1]")


def until(path: Path, rule: UntilCi, out: str = "out", **options: object) -> onionlab.Experiment:
    return onionlab.run(path, path.parent / out, report=False, until_ci=rule, **options)  # type: ignore[arg-type]


@pytest.fixture
def short_file(tmp_path: Path) -> Path:
    path = tmp_path / "short.toml"
    path.write_text(SHORT, encoding="utf-8")
    return path


def test_stein_asks_for_what_the_pilot_shows() -> None:
    values = [9.0, 10.0, 11.0, 10.5, 9.5, 10.2, 9.8, 10.1, 9.9, 10.0]
    factor = stats.t.ppf(0.975, 9) * np.std(values, ddof=1)
    assert stein(values, 10.0, 0.02) == math.ceil((factor / 0.2) ** 2)
    # Differences: the width is a share of the base's mean, not of the difference's.
    differences = [value - 10.0 for value in values]
    assert stein(differences, 10.0, 0.02) == stein(values, 10.0, 0.02)
    assert stein([0.0] * 10, 10.0, 0.02) == 10
    assert stein([1.0], 1.0, 0.02) is None


def test_differences_that_are_all_the_same_have_no_width() -> None:
    """They are copies, of which no spread is known; that nothing differs anywhere is known."""
    assert relative_width([0.5] * 10, 10.0, "difference") is None
    assert relative_width([0.0] * 10, 10.0, "difference") == 0.0
    assert relative_width([0.5, 0.7], 10.0, "difference") == pytest.approx(stats.t.ppf(0.975, 1) * 0.1 / 10)


def test_networks_are_added_until_the_interval_is_narrow(core: FakeCore, short_file: Path) -> None:
    results = until(short_file, UntilCi(0.05))
    outcome = results.evaluation.until_ci
    assert outcome is not None
    assert outcome["reached"] is True
    assert outcome["kind"] == "web"
    count = results.plan.networks
    assert count == outcome["networks"] > PILOT
    rule = UntilCi(0.05, kind="web")
    pilot = samples(results, rule, PILOT)
    assert count >= max(stein(values, scale, 0.05) or 0 for values, scale in pilot)
    widths = [relative_width(values, scale, "mean") for values, scale in samples(results, rule, count)]
    assert max(width for width in widths if width is not None) == outcome["found"] <= 0.05
    assert len(core.made) == len(set(core.made)) == 2 * count


def test_networks_are_those_of_a_fixed_number(core: FakeCore, short_file: Path) -> None:
    grown = until(short_file, UntilCi(0.05), "grown")
    assert grown.plan.networks > PILOT
    fixed = onionlab.run(short_file, short_file.parent / "fixed", report=False, networks=grown.plan.networks)
    assert core.made.count("ewma--net0--seed1") == 2
    assert grown.transfers.equals(fixed.transfers)
    assert fixed.evaluation.until_ci is None


def test_interrupted_search_goes_on_to_the_same_end(core: FakeCore, short_file: Path) -> None:
    whole = until(short_file, UntilCi(0.05), "whole").plan.networks
    core.on_step = lambda directory: _thread.interrupt_main() if directory == f"ewma--net{PILOT}--seed1" else None
    with pytest.raises(KeyboardInterrupt):
        until(short_file, UntilCi(0.05), jobs=1)
    core.on_step = lambda _: None
    done = len(list((short_file.parent / "out" / "runs").iterdir()))
    assert 2 * PILOT <= done < 2 * whole
    core.made.clear()
    assert until(short_file, UntilCi(0.05)).plan.networks == whole
    assert len(core.made) == 2 * whole - done


def test_the_begin_that_was_chosen_stays_for_the_whole_search(
    core: FakeCore, short_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = short_file.parent / "out"
    onionlab.run(short_file, out, report=False, measure_from="20 s")
    assert until(short_file, UntilCi(0.05)).measure_from == 20
    chosen = json.loads((out / "evaluation.json").read_text())
    assert chosen["measure_from"] == "20 s"
    assert chosen["until_ci"]["networks"] > PILOT
    # What was found with one begin was not found with another.
    assert call(monkeypatch, "report", out, "--measure-from", "20 s") == 0
    assert json.loads((out / "evaluation.json").read_text()) == chosen
    assert call(monkeypatch, "report", out, "--measure-from", "25 s") == 0
    found = json.loads((out / "evaluation.json").read_text())
    assert (found["measure_from"], found["until_ci"]) == ("25 s", None)
    assert core.made


def test_no_number_of_networks_makes_an_interval_a_share_of_zero(core: FakeCore, short_file: Path) -> None:
    with pytest.raises(ScenarioError, match="is 0 for web") as refused:
        until(short_file, UntilCi(0.05, metric="failed_stall"))
    assert "10 networks of the pilot are kept" in str(refused.value)
    assert len(core.made) == 2 * PILOT


def test_a_begin_that_is_found_is_found_on_the_pilot(core: FakeCore, short_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here goodput settles a second later with each network: the pilot's values must not change while networks are added."""
    monkeypatch.setattr(experiment, "steady_state", lambda network, *_: network["network"].n_unique())
    monkeypatch.setattr(experiment, "begin_of_steady_state", float)
    results = until(short_file, UntilCi(0.05), measure_from="auto")
    assert results.plan.networks > PILOT
    assert results.measure_from == PILOT
    assert json.loads((results.directory / "evaluation.json").read_text())["measure_from"] == f"{PILOT} s"
    assert core.made


def test_points_of_a_sweep_have_no_begin_in_common_that_could_be_found(tmp_path: Path) -> None:
    path = tmp_path / "swept.toml"
    path.write_text(f'{SWEPT}[sweep]\n"clients.web.count" = [2, 6]\n', encoding="utf-8")
    with pytest.raises(ScenarioError, match="one begin of the measurement for all points"):
        until(path, UntilCi(0.05), measure_from="auto")
    assert not (tmp_path / "out").exists()


def test_the_maximum_ends_the_search(
    core: FakeCore, short_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = short_file.parent / "out"
    words = ("run", short_file, "--out", out, "--until-ci", "0.5%", "--max-networks", 12, "--no-report")
    assert call(monkeypatch, *words) == 3
    captured = capsys.readouterr()
    assert "12 networks are not enough for --until-ci 0.5%" in captured.err
    assert "going on to 12" in captured.err
    assert "ended before it was reached: with 12 networks it is ±" in captured.out.replace("\n", " ")
    assert json.loads((out / "evaluation.json").read_text())["until_ci"]["reached"] is False
    assert len(core.made) == 24


def test_what_was_chosen_is_said_and_forgotten_with_another_number(
    core: FakeCore, short_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = short_file.parent / "out"
    assert call(monkeypatch, "run", short_file, "--out", out, "--until-ci", "50 %", "--kind", "bulk", "--of", "difference") == 0
    assert "found by looking at the difference of time to last byte, median of bulk" in capsys.readouterr().out.replace("\n", " ")
    assert "Stein" in (out / "report.html").read_text(encoding="utf-8")
    assert call(monkeypatch, "run", short_file, "--out", out) == 0
    assert "Stein" not in capsys.readouterr().out
    assert not (out / "evaluation.json").exists()
    assert core.made


def test_failed_run_ends_the_search(core: FakeCore, short_file: Path) -> None:
    core.failing = {"ewma--net4--seed1"}
    results = until(short_file, UntilCi(0.01))
    assert results.plan.networks == PILOT
    assert [failure.run.network for failure in results.failures] == [4]
    assert results.evaluation.until_ci is not None
    assert results.evaluation.until_ci["reached"] is False


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--until-ci", "narrow"], "'narrow'"),
        (["--until-ci", "0%"], "allowed is 0.01 % to less than 100 %"),
        (["--until-ci", "0." + "0" * 170 + "1"], "allowed is 0.01 % to less than 100 %"),
        (["--until-ci", "100%"], "less than 100 %"),
        (["--until-ci", "5%", "--metric", "speed"], "'speed' is not one of ttfb_median"),
        (["--until-ci", "5%", "--of", "ratio"], "'ratio' is not one of mean, difference"),
        (["--until-ci", "5%", "--max-networks", "4"], "pilot of 10"),
        (["--metric", "ttfb_median"], "--metric belongs to --until-ci"),
        (["--max-networks", "30"], "--max-networks belongs to --until-ci"),
        (["--measure-from", "soon"], "allowed are auto, file and a time"),
        (["--measure-from", "30 s"], "less than the duration, which is 30 s"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(
    core: FakeCore,
    short_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    assert call(monkeypatch, "run", short_file, "--out", short_file.parent / "out", *words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert core.made == []


def test_unknown_kind_names_those_that_exist(core: FakeCore, short_file: Path) -> None:
    with pytest.raises(ScenarioError, match="--kind 'voice' is not one of 'web', 'bulk', 'whole network'"):
        until(short_file, UntilCi(0.5, kind="voice"))
    assert core.made == [], "before anything runs"
    # Which sizes a group has only runs tell.
    with pytest.raises(ScenarioError, match="--kind 'web, 7 MiB' is not one of 'web', 'bulk', 'whole network'"):
        until(short_file, UntilCi(0.5, kind="web, 7 MiB"))
    assert len(core.made) == 2 * PILOT


def test_groups_that_are_not_recorded_are_no_kinds(core: FakeCore, short_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no transfers: neither the rule nor the report looks for any."""
    resolve = core.resolve

    def without_record(path: str, text: str | None = None) -> str:
        scenario = json.loads(resolve(path, text))
        for group in scenario["clients"]:
            group["record"] = group["group"] != "web"
        return json.dumps(scenario, sort_keys=True)

    monkeypatch.setattr(core, "resolve", without_record)
    monkeypatch.setattr(_core, "resolve", without_record)
    core.silent_groups = {"web"}
    with pytest.raises(ScenarioError, match="--kind 'web' is not one of 'bulk', 'whole network'"):
        until(short_file, UntilCi(0.5, kind="web"))
    assert core.made == [], "before anything runs"
    results = until(short_file, UntilCi(0.5))
    assert results.evaluation.until_ci is not None
    assert results.evaluation.until_ci["kind"] == "bulk"
    assert results.kinds == ["bulk"]
    times = [name for name in results.charts if name.startswith("time-to-")]
    assert times == ["time-to-first-byte-bulk", "time-to-last-byte-bulk"]


def test_the_first_kind_that_has_the_metric_is_looked_at(core: FakeCore, short_file: Path) -> None:
    core.silent_groups = {"web"}
    found = until(short_file, UntilCi(0.5)).evaluation.until_ci
    assert found is not None
    assert found["kind"] == "bulk"
    found = until(short_file, UntilCi(0.5, metric="utilisation_guard")).evaluation.until_ci
    assert found is not None
    assert found["kind"] == "whole network"
    core.silent_groups = {"web", "bulk"}
    with pytest.raises(ScenarioError, match="--metric ttlb_median has no value for web or bulk or whole network"):
        until(short_file, UntilCi(0.5), "silent")


def test_a_rule_from_python(core: FakeCore, short_file: Path) -> None:
    """A width as text is the rule of the command line; what is neither is refused in a sentence."""
    found = onionlab.run(short_file, short_file.parent / "text", report=False, until_ci="50 %").evaluation.until_ci
    assert found == until(short_file, onionlab.UntilCi(0.5), "rule").evaluation.until_ci
    made = len(core.made)
    with pytest.raises(ScenarioError, match=r"until_ci is 0\.05; allowed is a width such as '5%'"):
        onionlab.run(short_file, short_file.parent / "number", until_ci=0.05)  # type: ignore[arg-type]
    assert len(core.made) == made


def test_a_network_by_hand_has_nothing_to_add(core: FakeCore, short_file: Path) -> None:
    short_file.write_text(SHORT + '\n[network]\nkind = "explicit"\n', encoding="utf-8")
    with pytest.raises(ScenarioError, match="not sampled"):
        until(short_file, UntilCi(0.5))
    assert core.made == []


def test_difference_needs_two_treatments(core: FakeCore, short_file: Path) -> None:
    short_file.write_text(SHORT[: SHORT.index('[[treatments]]\nname = "EWMA"')], encoding="utf-8")
    with pytest.raises(ScenarioError, match="needs two treatments"):
        until(short_file, UntilCi(0.5, of="difference"))
    assert core.made == []


@pytest.mark.parametrize(
    "text",
    [
        SHORT,
        SHORT.replace("networks = 3\n", ""),
        '# networks = 1\n"networks"   =   1_0 # ten\n[a]\nnetworks = 5\n',
        "[a]\nnetworks = 5\n",
        "",
    ],
)
def test_number_of_networks_is_replaced_and_nothing_else(text: str) -> None:
    assert tomllib.loads(with_networks(text, 17)) == {**tomllib.loads(text), "networks": 17}


def test_number_of_networks_that_cannot_be_replaced_is_refused() -> None:
    with pytest.raises(ScenarioError, match="on a line of its own"):
        with_networks('title = """\nnetworks = 3\n"""\nnetworks = 4\n', 17)
    for text in ("\ufeffnetworks = 3\n", 'networks = 3\nload = { kind = "web", }\n'):
        with pytest.raises(ScenarioError, match=r"must be TOML 1\.0"):
            with_networks(text, 17)


@pytest.mark.parametrize(
    "text",
    [SHORT, "# duration = '1 h'\n'duration'=\"1 h\"#\n[a]\nduration = '2 h'\n", "duration = '1 h'", "[a]\nduration = '2 h'\n"],
)
def test_a_duration_is_replaced_and_nothing_else(text: str) -> None:
    assert tomllib.loads(with_duration(text, 120.0)) == {**tomllib.loads(text), "duration": "120 s"}


def test_widths_and_rules() -> None:
    assert parse_width("5%") == 0.05
    assert parse_width(" .1 ") == 0.1
    assert rule_of(None, metric=None, kind=None, of=None, at_most=None) is None
    assert rule_of("5%", metric=None, kind="web", of=None, at_most=30) == UntilCi(0.05, kind="web", at_most=30)
