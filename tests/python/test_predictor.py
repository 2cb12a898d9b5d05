"""PredicTor from Python: fair rates, Theorem 3, the problem, and the closed loop."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from onionlab.errors import QuestionError
from onionlab.predictor import (
    BOTTLENECK_LIMIT,
    Network,
    Parameters,
    bottlenecks,
    closed_loop,
    fairness,
    max_min,
    projection,
    solve,
)

REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "reference" / "predictor_cases.json"

LOT = Network([1.0, 1.0], [[0, 1], [0], [1]])


def random_network(seed: int, circuits: int = 100) -> Network:
    """50 relays of one capacity, circuits of three of them: the networks of the study of Theorem 3."""
    draw = np.random.default_rng(seed)
    return Network(np.ones(50), [draw.choice(50, 3, replace=False).tolist() for _ in range(circuits)])


def test_water_filling_and_bottlenecks() -> None:
    np.testing.assert_allclose(max_min(LOT), 0.5)
    limited = Network([10.0], [[0], [0], [0]], limits=[1.0, np.inf, np.inf])
    np.testing.assert_allclose(max_min(limited), [1.0, 4.5, 4.5])
    assert bottlenecks(limited, max_min(limited)) == [[BOTTLENECK_LIMIT], [0], [0]]
    network = random_network(7, 1000)
    assert all(bottlenecks(network, max_min(network)))
    assert not all(bottlenecks(LOT, [0.3, 0.7, 0.7]))


@pytest.mark.parametrize(("common_rate", "long", "index"), [(1.0, 1 / 3, 8 / 9), (1.5, 1 / 6, 7 / 9), (3.0, 0.0, 2 / 3)])
def test_theorem_3_fails_on_a_parking_lot(common_rate: float, long: float, index: float) -> None:
    rates = projection(LOT, common_rate)
    np.testing.assert_allclose(rates, [long, 1 - long, 1 - long], atol=1e-5)
    assert fairness(rates, max_min(LOT)).served == pytest.approx(index, abs=1e-5)


def test_theorem_3_fails_on_random_networks() -> None:
    """The published networks of the study, by their seeds: index 0.780 on average, 13 circuits of 100 starved."""
    served, starved, total = [], [], []
    for seed in range(1000, 1050):
        network = random_network(seed)
        fair, rates = max_min(network), projection(network, 1.0)
        served.append(fairness(rates, fair).served)
        starved.append(int((rates < 1e-4).sum()))
        total.append(rates.sum() / fair.sum())
    assert np.mean(served) == pytest.approx(0.780, abs=0.001)
    assert min(served) == pytest.approx(0.732, abs=0.001)
    assert np.mean(starved) == pytest.approx(13.0, abs=0.3)
    assert np.mean(total) == pytest.approx(1.17, abs=0.01)


@pytest.mark.skipif(not REFERENCE.is_file(), reason=f"no reference cases at {REFERENCE}")
@pytest.mark.parametrize("solver", ["fast", "trusted"])
def test_the_open_loop_figure(solver: str) -> None:
    case = json.loads(REFERENCE.read_text(encoding="utf-8"))["cases"][0]
    inputs, expected = case["inputs"], case["accurate_qp"]

    def by_circuit(values: list[list[float]]) -> npt.NDArray[np.float64]:
        return np.array(values).T

    plan = solve(
        capacity_in=inputs["capacity_in"],
        capacity_out=inputs["capacity_out"],
        queue=inputs["queue_initial"],
        source_rate=by_circuit(inputs["source_rate_out"]),
        source_queue=by_circuit(inputs["source_queue"]),
        limit=by_circuit(inputs["rate_out_max"]),
        parameters=Parameters(queue_limit=inputs["queue_limit_per_circuit"]),
        solver="fast" if solver == "fast" else "trusted",
    )
    assert plan.status == "solved"
    assert plan.virtual_rate_out is None
    np.testing.assert_allclose(plan.rate_in, by_circuit(expected["rate_in"]), atol=1e-3)
    np.testing.assert_allclose(plan.rate_out, by_circuit(expected["rate_out"]), atol=1e-3)
    np.testing.assert_allclose(plan.queue, by_circuit(expected["queue"]), atol=1e-3)
    assert plan.objective == pytest.approx(expected["objective"], rel=1e-6)


def test_the_journal_form_gives_virtual_rates() -> None:
    plan = solve(
        capacity_in=60,
        capacity_out=60,
        queue=[2, 4],
        source_rate=[[10], [50]],
        source_queue=[[3], [2]],
        source_virtual_rate=[[30], [30]],
        limit=np.inf,
        parameters=Parameters.journal(),
    )
    assert plan.status == "solved"
    assert plan.virtual_rate_out is not None
    assert plan.virtual_rate_out.shape == (2, 10)
    assert plan.virtual_rate_out.sum(axis=0).max() <= 60 + 1e-6


def test_the_closed_loop_becomes_fair_where_theorem_3_is_not() -> None:
    """Each relay's own problem is water-filling with limits; exchanged limits make it a network's. The parking lot again."""
    rate = 1000.0
    lot = Network(np.array([rate, rate, 4 * rate, 4 * rate]), [[2, 0, 1], [2, 0], [3, 1]])
    loop = closed_loop(lot, 150)
    np.testing.assert_allclose(loop.rate_delivered[-30:].mean(axis=0), 0.85 * rate / 2, rtol=0.01)
    assert loop.counts["solves"] == 4 * 150
    assert loop.counts["old_plans"] == loop.counts["trusted"] == 0
    assert (loop.latency_seconds(30) >= 0.0399).all()


@pytest.mark.parametrize(
    ("reason", "wrong"),
    [
        ("relay 7", lambda: max_min(Network([1.0], [[7]]))),
        ("relay", lambda: max_min(Network([1.0], [[-1]]))),
        ("capacity", lambda: max_min(Network([-1.0], [[0]]))),
        ("2 limits", lambda: max_min(Network([1.0], [[0]], limits=[1.0, 2.0]))),
        ("common rate", lambda: projection(LOT, float("nan"))),
        ("sum to zero", lambda: fairness([1.0], [0.0])),
        ("shape", lambda: fairness(np.ones((2, 2)), [0.0])),
        ("horizon", lambda: closed_loop(LOT, 3, parameters=Parameters(horizon=1))),
        ("limits", lambda: closed_loop(Network([1.0], [[0]], limits=[1.0]), 3)),
        ("rate", lambda: closed_loop(Network([0.0], [[0]]), 3)),
        ("source_rate has the shape", lambda: one(source_rate=[1.0, 2.0])),
        # A number for each circuit, or for each step: nobody knows.
        ("source_rate has the shape [(]10,[)], which must be [(]10, 10[)]", lambda: ten(source_rate=np.arange(10.0))),
        (
            "limit has the shape [(]10,[)], which must be [(]10, 10[)].*or [(]10, 1[)], or a single",
            lambda: ten(limit=np.ones(10)),
        ),
        ("source_queue has the shape [(]3, 1[)]", lambda: ten(source_queue=np.ones((3, 1)))),
        ("source_rate has the shape [(]10, 10, 1[)]", lambda: ten(source_rate=np.ones((10, 10, 1)))),
        ("source_rate is no array of numbers", lambda: one(source_rate=[[1.0], [1.0, 2.0]])),
        ("last is 0; there are 3 steps", lambda: closed_loop(Network([1000.0], [[0]]), 3).latency_seconds(0)),
        ("last is 4; there are 3 steps", lambda: closed_loop(Network([1000.0], [[0]]), 3).latency_seconds(4)),
        ("limit of circuit 0", lambda: one(limit=-1.0)),
        ("from_relay", lambda: one(from_relay=[True, False])),
        ("no effect", lambda: one(source_virtual_rate=1.0)),
        ("it is 'fast' or 'trusted'", lambda: one(solver="trustd")),
        ("0.5 is not the number of a relay", lambda: max_min(Network([1.0], [[0.5]]))),  # type: ignore[list-item]
        ("starts has 2 values for 1 circuits", lambda: closed_loop(Network([1.0], [[0]]), 3, starts=[0, 1])),
        ("tolerance", lambda: bottlenecks(LOT, [0.5, 0.5], -1.0)),
    ],
)
def test_nonsense_is_refused_in_a_sentence(reason: str, wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(QuestionError, match=reason) as refused:
        wrong()
    assert refused.value.code == "question-predictor"


def one(**changed: object) -> object:
    """A problem of one circuit, changed."""
    given: dict[str, object] = {
        "capacity_in": 10,
        "capacity_out": 10,
        "queue": [0],
        "source_rate": 1.0,
        "source_queue": 0.0,
        "limit": 5.0,
    }
    return solve(**(given | changed))  # type: ignore[arg-type]


def ten(**changed: object) -> object:
    """The same for ten circuits, as many as there are steps."""
    return one(**({"queue": [0] * 10} | changed))


def test_a_number_for_each_circuit_or_one_for_all() -> None:
    """A column is the same in all steps; and whether a source is a relay may be NumPy's truth."""
    rates = np.arange(10.0)
    column, whole = ten(source_rate=rates.reshape(-1, 1)), ten(source_rate=np.repeat(rates.reshape(-1, 1), 10, axis=1))
    np.testing.assert_array_equal(column.rate_in, whole.rate_in)  # type: ignore[attr-defined]
    plain, of_numpy = one(from_relay=False), one(from_relay=np.bool_(False))
    np.testing.assert_array_equal(plain.rate_in, of_numpy.rate_in)  # type: ignore[attr-defined]
    assert not np.array_equal(plain.rate_in, one(from_relay=True).rate_in)  # type: ignore[attr-defined]
