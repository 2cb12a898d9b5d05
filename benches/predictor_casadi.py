"""PredicTor's controller problem by CasADi and IPOPT, as its authors solve it, against our solvers, in one run.

Usage: python benches/predictor_casadi.py [--circuits 3 15 60] [--out target/bench-predictor-casadi.json]

CasADi is no dependency of onionlab: ``pip install casadi`` brings it with IPOPT and MUMPS. The problem is the conference form,
stated here once more by its formulas (section "The problem of one relay" of ``docs/models/predictor.md``) and not by our code,
with the inputs of the paper's open-loop figure, repeated for more circuits. What the relay would do first must agree within 1e-4
of its capacity, or the run fails: IPOPT relaxes bounds, and is no closer than that.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onionlab.files import write_text
from onionlab.predictor import Parameters, Plan, solve

Array = npt.NDArray[np.float64]

#: Repetitions, of which the shortest counts: what else the machine does makes times longer, never shorter.
REPEAT = 20

#: Capacity for each circuit, queues, and what neighbours announce, by circuit: the paper's section 5.1 as its program has it.
CAPACITY = 20.0
QUEUE = (2.0, 4.0, 4.0)
SOURCE_RATE = (0.0, 50.0, 10.0)
SOURCE_QUEUE = (3.0, 2.0, 0.0)
LIMIT = (40.0, 30.0, 25.0)
QUEUE_LIMIT = 15.0

#: How far the first outgoing rates may be apart, as a share of the relay's capacity.
AGREE = 1e-4


def repeated(values: tuple[float, ...], circuits: int) -> Array:
    """One value for each circuit."""
    return np.resize(np.asarray(values), circuits)


def by_casadi(circuits: int, parameters: Parameters) -> Callable[[], Array]:
    """The problem, stated and handed to IPOPT; each call solves it from zero and gives the first outgoing rates."""
    casadi: Any = importlib.import_module("casadi")
    n, steps, h, scale = circuits, parameters.horizon, parameters.step_seconds, parameters.scaling
    capacity = CAPACITY * n / scale
    queue, rate, announced, limit = (repeated(values, n) / scale for values in (QUEUE, SOURCE_RATE, SOURCE_QUEUE, LIMIT))
    short_in, short_out = casadi.SX.sym("a", n, steps), casadi.SX.sym("b", n, steps)
    queues, taken, excess = (casadi.SX.sym(name, n, steps + 1) for name in ("q", "d", "e"))
    intake, outgoing = capacity - short_in, capacity - short_out
    cost: Any = parameters.slack * casadi.sum1(casadi.vec(excess))
    rows: list[tuple[Any, float, float]] = []

    def between(expression: Any, low: float, high: float) -> None:
        rows.append((casadi.vec(expression), low, high))

    between(queues[:, 0] - queue, 0.0, 0.0)
    between(taken[:, 0], 0.0, 0.0)
    for k in range(steps):
        weight = max(parameters.discount**k, parameters.discount_floor) / n
        cost += weight * (
            parameters.intake * casadi.sumsqr(short_in[:, k]) + parameters.outgoing * casadi.sumsqr(short_out[:, k])
        )
        between(queues[:, k + 1] - queues[:, k] - h * (intake[:, k] - outgoing[:, k]), 0.0, 0.0)
        between(taken[:, k + 1] - taken[:, k] - h * (intake[:, k] - rate), 0.0, 0.0)
        between(intake[:, k], 0.0, np.inf)
        between(outgoing[:, k], 0.0, np.inf)
        between(outgoing[:, k] - limit, -np.inf, 0.0)
        between(casadi.sum1(intake[:, k]), -np.inf, capacity)
        between(casadi.sum1(outgoing[:, k]), -np.inf, capacity)
    between(queues - excess, -np.inf, QUEUE_LIMIT / scale)
    between(taken - casadi.repmat(announced, 1, steps + 1), -np.inf, 0.0)
    unknown = casadi.veccat(short_in, short_out, queues, taken, excess)
    signs = [np.zeros(2 * n * steps + n * (steps + 1)), np.full(n * (steps + 1), -np.inf), np.zeros(n * (steps + 1))]
    options = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.tol": 1e-8, "ipopt.max_iter": 300}
    problem = {"x": unknown, "f": cost, "g": casadi.vertcat(*(row for row, _, _ in rows))}
    solver = casadi.nlpsol("relay", "ipopt", problem, options)
    low = np.concatenate([np.full(row.numel(), bound) for row, bound, _ in rows])
    high = np.concatenate([np.full(row.numel(), bound) for row, _, bound in rows])

    def once() -> Array:
        found = solver(x0=0.0, lbx=np.concatenate(signs), lbg=low, ubg=high)
        shortfall = np.asarray(found["x"]).ravel()[n * steps : n * steps + n]
        return (capacity - shortfall) * scale

    return once


def ours(circuits: int, parameters: Parameters, solver: Any) -> Callable[[], Array]:
    """The same through `onionlab.predictor`."""

    def once() -> Array:
        plan: Plan = solve(
            capacity_in=CAPACITY * circuits,
            capacity_out=CAPACITY * circuits,
            queue=repeated(QUEUE, circuits),
            source_rate=repeated(SOURCE_RATE, circuits)[:, None],
            source_queue=repeated(SOURCE_QUEUE, circuits)[:, None],
            limit=repeated(LIMIT, circuits)[:, None],
            from_relay=False,
            parameters=parameters,
            solver=solver,
        )
        first: Array = plan.rate_out[:, 0]
        return first

    return once


def timed(once: Callable[[], Array]) -> tuple[float, float, Array]:
    """Shortest and median time in seconds, and what came out."""
    found = once()
    times = []
    for _ in range(REPEAT):
        began = time.perf_counter()
        once()
        times.append(time.perf_counter() - began)
    return min(times), statistics.median(times), found


def main() -> int:
    """Run; 1 if the solvers disagree, 0 otherwise."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--circuits", type=int, nargs="+", default=[3, 15, 60])
    asked.add_argument("--out", type=Path, default=Path("target/bench-predictor-casadi.json"))
    given = asked.parse_args()
    if importlib.util.find_spec("casadi") is None:
        print("CasADi is not installed, so there is nothing to compare with: pip install casadi")
        return 0
    parameters = Parameters(queue_limit=QUEUE_LIMIT, committed=False)
    rows = []
    for circuits in given.circuits:
        theirs, their_median, wanted = timed(by_casadi(circuits, parameters))
        row: dict[str, float] = {"circuits": circuits, "casadi_seconds": theirs, "casadi_median_seconds": their_median}
        line = f"{circuits:4d} circuits: CasADi with IPOPT {1e3 * theirs:8.2f} ms"
        for solver in ("fast", "trusted"):
            seconds, median, found = timed(ours(circuits, parameters, solver))
            apart = float(np.abs(found - wanted).max()) / (CAPACITY * circuits)
            row |= {f"{solver}_seconds": seconds, f"{solver}_median_seconds": median, f"{solver}_apart": apart}
            line += (
                f", {solver} {1e3 * seconds:7.3f} ms ({theirs / seconds:6.1f} times as fast, {apart:.1e} of the capacity apart)"
            )
        rows.append(row)
        print(line)
    write_text(given.out, json.dumps({"repeat": REPEAT, "rows": rows}, indent=2) + "\n")
    if any(row["fast_apart"] > AGREE or row["trusted_apart"] > AGREE for row in rows):
        print(f"the solvers differ by more than {AGREE} of the capacity in what the relay does first", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
