"""What a cell costs, by treatment."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import onionlab
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab.results import cost


def finished(core: FakeCore, folder: Path, text: str = EXPERIMENT) -> onionlab.Experiment:
    path = folder / "costs.toml"
    path.write_text(text, encoding="utf-8")
    return onionlab.run(path, folder / "out", jobs=1, report=False)


def test_the_cost_is_time_over_cells_and_compares_with_the_first_treatment(core: FakeCore, tmp_path: Path) -> None:
    experiment = finished(core, tmp_path, EXPERIMENT.replace("fake-factor = 0.7", "fake-factor = 0.7\nfake-cost = 3.0"))
    first, second = cost.costs(experiment)
    hops = experiment.runs.group_by("treatment").agg(pl.col("cell_hops").sum())
    of = dict(hops.iter_rows())
    assert first.nanoseconds == pytest.approx(1e9 * 6 * 1.0 / of["round robin"])
    assert second.nanoseconds == pytest.approx(1e9 * 6 * 3.0 / of["EWMA"])
    assert first.ratio is None
    assert second.ratio == pytest.approx(second.nanoseconds / first.nanoseconds)
    text = cost.sentence(experiment)
    assert text.startswith("processor time for each cell moved: “round robin” ")
    assert f"({second.ratio:.2f} times)" in text


def test_runs_that_both_have_are_compared(core: FakeCore, tmp_path: Path) -> None:
    """Where a run failed, the other treatment's run on that network and seed is left out of the ratio too."""
    core.failing = {"ewma--net1--seed1"}
    experiment = finished(core, tmp_path)
    own = experiment.runs.filter(pl.col("treatment") == "EWMA")
    base = experiment.runs.filter(pl.col("treatment") == "round robin").join(own, on=["network", "seed"], how="semi")
    assert base.height == own.height == 5
    expected = (own["cpu_seconds"].sum() / own["cell_hops"].sum()) / (base["cpu_seconds"].sum() / base["cell_hops"].sum())
    assert cost.costs(experiment)[1].ratio == pytest.approx(expected)


def test_without_processor_time_wall_time_is_told(core: FakeCore, tmp_path: Path) -> None:
    experiment = finished(core, tmp_path)
    experiment.__dict__["runs"] = experiment.runs.with_columns(cpu_seconds=pl.lit(None, dtype=pl.Float64))
    assert cost.sentence(experiment).startswith("wall time for each cell moved: ")
    experiment.__dict__["runs"] = experiment.runs.drop("cpu_seconds")
    first = cost.costs(experiment)[0]
    runs = experiment.runs.filter(pl.col("treatment") == "round robin")
    assert first.nanoseconds == pytest.approx(1e9 * 6 * 1.25 / runs["cell_hops"].sum())


def test_the_report_shows_it(core: FakeCore, tmp_path: Path) -> None:
    experiment = finished(core, tmp_path)
    text = experiment.report().read_text(encoding="utf-8")
    assert "What a cell costs" in text
    assert f"{cost.costs(experiment)[1].ratio:.2f}" in text


def test_runs_of_a_sweep_are_paired_at_each_point_and_count_once() -> None:
    """Treatment a has one run for both points, b one at each, c one at the second point alone, d at a point that a lacks."""
    rows = [
        (0, "a", "both", 100, 1.0),
        (1, "a", "both", 100, 1.0),
        (0, "b", "few", 100, 2.0),
        (1, "b", "many", 300, 8.0),
        (1, "c", "many", 100, 3.0),
        (2, "d", "most", 100, 9.0),
    ]
    runs = pl.DataFrame(rows, schema=["point", "treatment", "scenario", "cell_hops", "cpu_seconds"], orient="row").with_columns(
        network=pl.lit(0), seed=pl.lit(1)
    )
    found = cost._costs(runs, ["a", "b", "c", "d"], "cpu_seconds")
    assert [one.nanoseconds for one in found] == pytest.approx([1e7, 2.5e7, 3e7, 9e7])
    assert [one.ratio for one in found] == [None, pytest.approx(2.5), pytest.approx(3.0), None]
    # The base's run at another point is none to pair with: there it has other work.
    other = runs.with_columns(
        scenario=pl.when(treatment="a", point=0).then(pl.lit("few")).otherwise("scenario"),
        cpu_seconds=pl.when(treatment="a", point=0).then(5.0).otherwise("cpu_seconds"),
    )
    assert cost._costs(other, ["a", "c"], "cpu_seconds")[1].ratio == pytest.approx(3.0)
