"""The experiments that come with the project: each can be read, and the slow ones answer their question."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import onionlab
from onionlab import _core

ROOT = Path(__file__).parents[2]
#: What stands beside experiments without being one.
NOTES = {"assumptions.toml", "claims.toml", "differences.toml", "steps.toml"}
EXPERIMENTS = sorted(path for path in (ROOT / "experiments").rglob("*.toml") if path.name not in NOTES)


def planned(path: Path) -> list[dict[str, object]]:
    try:
        runs: list[dict[str, object]] = json.loads(_core.plan(str(path)))
    except onionlab.ScenarioError as error:
        if error.code == "scenario-file":
            pytest.skip(str(error))
        raise
    return runs


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_experiment_can_be_run(path: Path) -> None:
    runs = planned(path)
    assert runs
    assert len({run["directory"] for run in runs}) == len(runs)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_real_consensus_gives_an_answer(tmp_path: Path) -> None:
    path = ROOT / "experiments" / "first" / "real.toml"
    assert len(planned(path)) == 2 * 3
    results = onionlab.run(path, tmp_path / "out")
    assert len(results.finished) == 6
    rows = results.summary.filter(pl.col("treatment") == "EWMA", pl.col("metric") == "ttlb_median")
    assert rows.height == 2
    # Either the interval of the difference excludes zero, or the report says that no difference is shown.
    for row in rows.iter_rows(named=True):
        excludes = row["difference_low"] > 0 or row["difference_high"] < 0
        assert excludes == ("excludes zero" in row["verdict"])
        assert excludes or row["verdict"].startswith(("no difference shown", "equal"))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "consensus md-2021-07-20.xz, 100 relays" in page
