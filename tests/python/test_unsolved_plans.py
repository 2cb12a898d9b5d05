"""What is said where relays' plans are not the optimum."""

from types import SimpleNamespace
from typing import Any, cast

import polars as pl

from onionlab.results.describe import _unsolved


def experiment(counts: list[tuple[str, int, int, int]], predictor: dict[str, Any] | None) -> Any:
    """Runs of these treatments with these counts of plans: solved, trusted and old."""
    frame = pl.DataFrame(counts, schema=["treatment", "solved", "trusted", "old_plans"], orient="row")
    names = sorted({name for name, *_ in counts})
    treatments = [{"name": name, "predictor": predictor} if predictor else {"name": name} for name in names]
    return cast(
        "Any",
        SimpleNamespace(
            plan=SimpleNamespace(scenario={"treatments": treatments}),
            finished=[SimpleNamespace(treatment=name) for name in names],
            collected=lambda name: frame if name == "controllers" else None,
        ),
    )


def test_plans_that_no_solver_found_are_told_by_treatment() -> None:
    counts = [("a", 990, 7, 3), ("b", 1000, 0, 0), ("a", 1000, 0, 0)]
    assert _unsolved(experiment(counts, {"form": "journal"})) == [
        "a: in 7 of 2,000 plans of relays the fast solver did not converge; they are the trusted one's.",
        "a: in 3 of 2,000 plans of relays no solver converged; the relay went on with the plan before.",
    ]


def test_nothing_is_said_where_all_plans_are_solved_or_none_are_made() -> None:
    assert _unsolved(experiment([("a", 1000, 0, 0)], {"form": "journal"})) == []
    assert _unsolved(experiment([("a", 0, 5, 5)], None)) == []
