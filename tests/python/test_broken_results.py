"""Results directories of which something is broken, or was made by another hand: one sentence says what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import onionlab
from fake_core import FakeCore
from onionlab.errors import ResultsError

DEEP = "[" * 100_000


@pytest.fixture
def out(core: FakeCore, experiment_file: Path, tmp_path: Path) -> Path:
    """Results to break."""
    return onionlab.run(experiment_file, tmp_path / "results", report=False).directory


def refused(out: Path) -> str:
    """What is said of the results, on one line."""
    with pytest.raises(ResultsError) as error:
        onionlab.load(out).report()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 700
    return str(error.value)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan: plan.pop("runs"), "'runs' is missing"),
        (lambda plan: plan.update(runs=["a"]), "is not a mapping"),
        (lambda plan: plan.update(runs=[["a"]]), "is not a plan that onionlab wrote"),
        (lambda plan: plan.update(scenario=3), "a scenario is no object"),
        (lambda plan: plan.update(version=[1]), "`version` or `build` is no text"),
        (lambda plan: plan["scenario"].update({"measure-from": "soon"}), "'soon' is not a duration"),
        (lambda plan: plan["scenario"].update(title="\ud800"), "surrogates not allowed"),
        (lambda plan: plan["scenario"].update({"measure-from": "1e400 s"}), "longer than any duration"),
        (lambda plan: plan["scenario"].update(treatments=None), "`treatments` is no list of objects with names"),
        (lambda plan: plan["scenario"].update(treatments=["x"]), "`treatments` is no list of objects with names"),
        (lambda plan: plan["scenario"].update(treatments=[{"name": 5}]), "`treatments` is no list of objects with names"),
        (lambda plan: plan["runs"].append(plan["runs"][0]), "two runs have one directory"),
        (lambda plan: plan["runs"][0].update(directory=3), "a value of runs[0] is of another kind"),
        (lambda plan: plan["runs"][1].update(network=[1]), "a value of runs[1] is of another kind"),
        (lambda plan: plan["runs"][1].update(seed=-1), "a value of runs[1] is of another kind"),
        (lambda plan: plan["runs"][0].update(point=7), "runs[0] is of a point that there is not"),
        (lambda plan: plan["runs"][0].update(also=[0.5]), "runs[0] is of a point that there is not"),
        (lambda plan: plan["runs"][0].update(directory="runs/../../others"), "is not one within runs/"),
        (lambda plan: plan["runs"][0].update(directory="/runs/a"), "is not one within runs/"),
        (lambda plan: plan["runs"][0].update(directory="runs/\0"), "is not one within runs/"),
    ],
)
def test_a_broken_plan(change: Change, said: str, out: Path) -> None:
    plan = json.loads((out / "plan.json").read_text())
    change(plan)
    (out / "plan.json").write_text(json.dumps(plan))
    told = refused(out)
    assert told.startswith(f"{out / 'plan.json'} is not a plan that onionlab wrote: ")
    assert said in told


def test_a_plan_without_end(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onionlab.results.experiment.MOST_OF_A_PLAN", 1000)
    assert "has more than 1,000 B, which no plan has" in refused(out)


def test_a_deep_plan(out: Path) -> None:
    (out / "plan.json").write_text(DEEP)
    assert "recursion" in refused(out)


OUTCOME = {
    "of": "mean",
    "kind": "web",
    "metric": "ttlb_p50",
    "width": 0.05,
    "networks": 3,
    "found": None,
    "reached": False,
}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DEEP, "recursion"),
        ('{"measure_from": "soon"}', "'soon' is not a duration"),
        ('{"measure_from": 5}', "'5' is not a duration"),
        ('{"until_ci": 7}', "not subscriptable"),
        ('{"until_ci": {}}', "'networks' is missing"),
        (json.dumps({"until_ci": OUTCOME | {"metric": "beauty"}}), "no outcome of a search"),
        (json.dumps({"until_ci": OUTCOME | {"width": "5%"}}), "no outcome of a search"),
        (json.dumps({"until_ci": OUTCOME | {"kind": 3}}), "no outcome of a search"),
    ],
)
def test_a_broken_choice(text: str, said: str, out: Path) -> None:
    (out / "evaluation.json").write_text(text)
    told = refused(out)
    assert told.startswith(f"{out / 'evaluation.json'} is not what onionlab wrote: ")
    assert said in told


def table(out: Path, name: str) -> Path:
    """A table of the first run."""
    plan = json.loads((out / "plan.json").read_text())
    path: Path = out / plan["runs"][0]["directory"] / f"{name}.parquet"
    return path


@pytest.mark.parametrize("left", [0, 100])
@pytest.mark.parametrize("name", ["transfers", "network"])
def test_a_table_that_is_cut_off(name: str, left: int, out: Path) -> None:
    path = table(out, name)
    path.write_bytes(path.read_bytes()[:left])
    told = refused(out)
    assert told.startswith(f"{path} cannot be read (")
    assert told.endswith("without the directory that it lies in, `onionlab run` makes it anew")


@pytest.mark.parametrize("name", ["transfers", "network"])
def test_a_table_of_something_else(name: str, out: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(table(out, name))
    assert f"{name}.parquet is not what onionlab wrote: it has other columns" in refused(out)


def test_a_run_of_something_else_is_unfinished(out: Path) -> None:
    for scenario in (DEEP, "[]", "3", ""):
        path = table(out, "run")
        pl.read_parquet(path, hive_partitioning=False).with_columns(scenario=pl.lit(scenario)).write_parquet(path)
        experiment = onionlab.load(out)
        assert len(experiment.missing) == 1
