"""The study of coverage: its truths are right, and what a report prints covers as it should."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from onionlab.stats import lower_quantile


@pytest.fixture(scope="module")
def study() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "coverage.py"
    specification = importlib.util.spec_from_file_location("measure_coverage", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_truth_is_the_mean_of_what_runs_give(study: ModuleType, quantile: float) -> None:
    times = np.sort(np.exp(study.WITHIN * np.random.default_rng(1).standard_normal((20_000, study.TRANSFERS))), axis=1)
    found = [lower_quantile(row, quantile) for row in times]
    error = float(np.std(found)) / np.sqrt(len(found))
    assert study.truth(quantile) == pytest.approx(float(np.mean(found)), abs=4 * error)
    assert study.typical(study.Cell("log-normal", 0.0, 5, quantile)) == pytest.approx(
        float(np.exp(np.mean(np.log(found)))), abs=4 * error
    )


@pytest.mark.parametrize("shape", ["log-normal", "gamma", "uniform", "half alike, half log-normal"])
def test_factors_have_mean_one_and_the_wished_spread(study: ModuleType, shape: str) -> None:
    values = study.factors(shape, 0.3, (400_000,), np.random.default_rng(2))
    assert values.min() > 0
    assert values.mean() == pytest.approx(1.0, abs=0.005)
    assert values.std() == pytest.approx(0.3, rel=0.03)


def test_small_study_writes_a_whole_page(study: ModuleType) -> None:
    text, specification = study.page(12, 1, lambda of, _: of)
    assert "{" not in text
    assert "12 simulated experiments" in text
    assert (
        len([line for line in text.splitlines() if line.startswith(("| 10 %, m", "| 10 %, 9", "| 100 %, m", "| 100 %, 9"))]) == 12
    )
    assert len(specification["concat"]) == 4


def test_a_coverage_that_is_not_good_enough_is_bold(study: ModuleType) -> None:
    assert study.percent(91.9) == "**91.9**"
    assert study.percent(92.0) == "92.0"
    assert study.percent(98.1) == "**98.1**"
    assert study.percent(None) == "–"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_reported_intervals_cover_in_92_to_98_of_100(study: ModuleType) -> None:
    found = {cell: study.coverage(cell, 1000, 1, quick=True)[study.REPORTED] for cell in study.grid()}
    assert len(found) == 12
    assert {cell: cover for cell, cover in found.items() if not study.WANTED[0] <= cover <= study.WANTED[1]} == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_searches_cover_and_stopping_early_does_not(study: ModuleType) -> None:
    for spread, width in study.SEARCHES:
        assert study.search(spread, width, 1000, 1)["rule"] >= study.WANTED[0]
    assert study.search(1.0, 0.3, 1000, 1)["first"] < 90
