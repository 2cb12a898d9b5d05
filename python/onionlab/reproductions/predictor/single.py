"""One controller alone: its plan for inputs that are given, as the paper's figure 3 has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from onionlab.predictor import Parameters, Plan, solve
from onionlab.reproductions.predictor.asked import Single

FORMS = ("conference", "journal")


def plans(single: Single) -> Mapping[str, Plan]:
    """The plan of each form; in the journal's the sources' virtual rate is their outgoing rate."""
    return {form: _plan(single, form) for form in FORMS}


def _plan(single: Single, form: str) -> Plan:
    parameters = replace(Parameters.journal() if form == "journal" else Parameters(), queue_limit=single.queue_limit)
    rates = _steps(single.source_rate)
    return solve(
        capacity_in=single.capacity,
        capacity_out=single.capacity,
        queue=single.queue,
        source_rate=rates,
        source_queue=_steps(single.source_queue),
        limit=_steps(single.limit),
        source_virtual_rate=rates if form == "journal" else None,
        parameters=parameters,
        solver="trusted",
    )


def _steps(values: tuple[float, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=float).reshape(-1, 1)


def trajectories(single: Single) -> pl.DataFrame:
    """``form, what, circuit, time, value``: every trajectory, with those that were told; times in seconds from now."""
    rows: list[tuple[str, str, str, float, float]] = []
    for form, plan in plans(single).items():
        step = Parameters().step_seconds
        found = {"taken in": plan.rate_in, "sent": plan.rate_out, "queue": plan.queue}
        if plan.virtual_rate_out is not None:
            found["could send"] = plan.virtual_rate_out
        for what, values in found.items():
            # A rate lasts for a step, to the end of which it is drawn.
            whole = values if what == "queue" else np.column_stack((values, values[:, -1]))
            for circuit, trajectory in enumerate(whole, 1):
                rows += [
                    (form, what, f"circuit {circuit}", round(step * index, 6), float(value))
                    for index, value in enumerate(trajectory)
                ]
    schema = {"form": pl.String, "what": pl.String, "circuit": pl.String, "time": pl.Float64, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
