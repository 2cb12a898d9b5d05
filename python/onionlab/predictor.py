"""PredicTor: max-min fair rates, and the controller that is to reach them; NumPy arrays in and out.

The system is that of "Optimization-Based Predictive Congestion Control for the Tor Network" (ACM Transactions on Internet
Technology, 2022). What is certain about it and what had to be inferred: ``docs/models/predictor.md``. Rates are in packets (cells
of 512 bytes) a second where a controller is concerned, and in any one unit elsewhere.

>>> from onionlab.predictor import Network, max_min, projection
>>> lot = Network([1.0, 1.0], [[0, 1], [0], [1]])   # a parking lot: one long circuit, two short ones
>>> max_min(lot).tolist()
[0.5, 0.5, 0.5]
>>> projection(lot, 3.0).round(3).tolist()          # Theorem 3 starves the long one
[0.0, 1.0, 1.0]
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from onionlab import _core
from onionlab.errors import QuestionError

__all__ = [
    "BOTTLENECK_LIMIT",
    "ClosedLoop",
    "Fairness",
    "Network",
    "Parameters",
    "Plan",
    "bottlenecks",
    "closed_loop",
    "fairness",
    "max_min",
    "projection",
    "solve",
]

Array = npt.NDArray[np.float64]

#: In the answer of `bottlenecks`: the circuit's own limit.
BOTTLENECK_LIMIT = -1


@dataclass(frozen=True)
class Network:
    """Relays with capacities, and circuits as the numbers of the relays they cross; first relay first.

    ``limits`` are upper limits of the circuits' own, infinite for those without one.
    """

    capacities: Sequence[float] | Array
    circuits: Sequence[Sequence[int]]
    limits: Sequence[float] | Array | None = None

    def _arrays(self) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        starts = np.cumsum([0, *(len(path) for path in self.circuits)], dtype=np.int64)
        crossed = [relay for path in self.circuits for relay in path]
        if wrong := [relay for relay in crossed if not isinstance(relay, int | np.integer) or relay < 0]:
            raise _refused(f"{wrong[0]!r} is not the number of a relay: relays are numbered from 0 in the order of capacities")
        relays = np.array(crossed, dtype=np.int64)
        return _floats(self.capacities), starts, relays

    def _limits(self) -> Array | None:
        return None if self.limits is None else _floats(self.limits)


@dataclass(frozen=True)
class Fairness:
    """Four readings of the paper's fairness index, whose formula is lost: the share of the traffic that is max-min fair."""

    served: float
    """Of what max-min fairness gives, the share that arrives: the recommended reading."""
    conforming: float
    """Of what arrives, the share that max-min fairness gives too."""
    deviation: float
    """One less the sum of all deviations over the sum of the fair rates; negative for rates far off."""
    shares: float
    """One less half the sum of the differences between the shares in the respective totals."""


@dataclass(frozen=True)
class Parameters:
    """Parameters of the optimal control problem, with the values of the public program (conference form)."""

    form: Literal["conference", "journal"] = "conference"
    step_seconds: float = 0.04
    horizon: int = 10
    discount: float = 1 / 3
    discount_floor: float = 1e-6
    scaling: float = 50.0
    queue_limit: float = 100.0
    intake: float = 10.0
    """Weights: of the intake's shortfall, and so on."""
    outgoing: float = 1.0
    virtual_outgoing: float = 1.0
    deviation: float = 10.0
    queue: float = 0.0
    slack: float = 1e5
    strict: bool = False
    """Whether the source's queue counts before the step, as in a real relay, and not after it, as in the public program."""
    committed: bool = True
    """Whether what arrives in the first two steps cannot be changed any more."""

    @staticmethod
    def journal() -> Parameters:
        """Those of the journal form, as reconstructed."""
        return Parameters(form="journal", committed=False)

    def _json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


@dataclass(frozen=True)
class Plan:
    """The solution of one relay's problem; arrays of shape (circuits, steps)."""

    status: Literal["solved", "iteration-limit", "failed"]
    iterations: int
    commitments_scaled: bool
    """The announced rates of the first two steps did not fit into the intake capacity together, and were scaled down."""
    objective: float
    rate_in: Array
    rate_out: Array
    virtual_rate_out: Array | None
    """None in the conference form."""
    queue: Array
    """One column more: before the first step and after each."""


@dataclass(frozen=True)
class ClosedLoop:
    """A network of controllers over time; arrays of shape (steps, circuits)."""

    rate_read: Array
    """Rate at which the first relay reads from the server, packets a second."""
    rate_delivered: Array
    """Rate at which the last relay delivers."""
    backlog: Array
    """Packets on their way, those in the first relay's queue left out."""
    counts: dict[str, int] = field(default_factory=dict)
    """``solves``, ``iterations``, ``trusted`` (plans of the trusted solver), ``old_plans``, ``commitments_scaled``."""

    def latency_seconds(self, last: int) -> Array:
        """Mean latency of each circuit over the last steps, by Little's law: what is on its way over what arrives."""
        if not 1 <= last <= len(self.backlog):
            raise _refused(f"last is {last}; there are {len(self.backlog)} steps, of which it is 1 or more")
        arrived = self.rate_delivered[-last:].mean(axis=0)
        on_its_way = self.backlog[-last:].mean(axis=0)
        latency: Array = np.divide(on_its_way, arrived, out=np.full_like(arrived, np.nan), where=arrived > 0)
        return latency


def max_min(network: Network) -> Array:
    """Max-min fair rates of the circuits, by water-filling: the reference for fairness."""
    return _array(_core.predictor_max_min(*network._arrays(), network._limits()))


def bottlenecks(network: Network, rates: Sequence[float] | Array, tolerance: float = 1e-6) -> list[list[int]]:
    """The bottlenecks of each circuit: relays, or `BOTTLENECK_LIMIT`. Feasible rates are max-min fair if each circuit has one."""
    if not tolerance >= 0:
        raise _refused(f"tolerance is {tolerance}; it must be 0 or more")
    return _core.predictor_bottlenecks(*network._arrays(), network._limits(), _floats(rates), tolerance)


def projection(network: Network, common_rate: float) -> Array:
    """Rates of the quadratic of the paper's Theorem 3, which are not max-min fair where bottlenecks overlap in part."""
    return _array(_core.predictor_projection(*network._arrays(), network._limits(), common_rate))


def fairness(rates: Sequence[float] | Array, fair: Sequence[float] | Array) -> Fairness:
    """Compare rates with the max-min fair ones of the same circuits."""
    return Fairness(*_core.predictor_fairness(_floats(rates), _floats(fair)))


def solve(
    *,
    capacity_in: float,
    capacity_out: float,
    queue: Sequence[float] | Array,
    source_rate: npt.ArrayLike,
    source_queue: npt.ArrayLike,
    limit: npt.ArrayLike,
    source_virtual_rate: npt.ArrayLike | None = None,
    from_relay: bool | Sequence[bool] = True,
    parameters: Parameters | None = None,
    solver: Literal["fast", "trusted"] = "fast",
) -> Plan:
    """Solve one relay's optimal control problem.

    Parameters
    ----------
    capacity_in, capacity_out
        Packets a second.
    queue
        The queues measured, packets, one for each circuit.
    source_rate, source_queue
        What the sources announced, shape (circuits, steps); or (circuits, 1) for the same in all steps, or a number for all.
    limit
        The most that the successors take, the same shapes; infinite for no limit.
    source_virtual_rate
        The sources' virtual outgoing rates; for the journal form alone, infinite for no limit.
    from_relay
        Whether the sources are relays, whose first two steps are committed.
    parameters
        Those of the conference form if left out.
    solver
        The fast solver, or the trusted one (Clarabel).

    Raises
    ------
    QuestionError
        Something is out of its range, or shapes do not agree.
    """
    if solver not in ("fast", "trusted"):
        raise _refused(f"solver is {solver!r}; it is 'fast' or 'trusted'")
    parameters = parameters or Parameters()
    queues = _floats(queue)

    def steps(what: str, values: npt.ArrayLike) -> Array:
        shape = (len(queues), parameters.horizon)
        try:
            given = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise _refused(f"{what} is no array of numbers: {error}") from None
        # Numbers in one row could be meant of circuits or of steps: NumPy would take them for steps.
        if given.ndim not in (0, 2) or not all(have in (1, want) for have, want in zip(given.shape, shape, strict=False)):
            wanted = f"{shape} for so many circuits and steps, or ({len(queues)}, 1), or a single number"
            raise _refused(f"{what} has the shape {given.shape}, which must be {wanted}")
        return np.ascontiguousarray(np.broadcast_to(given, shape))

    relays = [bool(from_relay)] * len(queues) if isinstance(from_relay, bool | np.bool_) else [bool(one) for one in from_relay]
    if len(relays) != len(queues):
        raise _refused(f"from_relay has {len(relays)} values for {len(queues)} circuits")
    status, iterations, scaled, objective, rate_in, rate_out, virtual_rate_out, found = _core.predictor_solve(
        parameters._json(),
        (capacity_in, capacity_out),
        queues,
        relays,
        steps("source_rate", source_rate),
        steps("source_queue", source_queue),
        None if source_virtual_rate is None else steps("source_virtual_rate", source_virtual_rate),
        steps("limit", limit),
        solver == "trusted",
    )
    shape = (len(queues), parameters.horizon)
    return Plan(
        status=status,  # type: ignore[arg-type]  # one of the three words
        iterations=iterations,
        commitments_scaled=scaled,
        objective=objective,
        rate_in=_array(rate_in).reshape(shape),
        rate_out=_array(rate_out).reshape(shape),
        virtual_rate_out=_array(virtual_rate_out).reshape(shape) if virtual_rate_out else None,
        queue=_array(found).reshape(len(queues), parameters.horizon + 1),
    )


def closed_loop(network: Network, steps: int, *, starts: Sequence[int] = (), parameters: Parameters | None = None) -> ClosedLoop:
    """Controllers at all relays of a network, with fluid between them, one step's latency a hop, and sources without end.

    The capacities are those of the links, in packets a second; the controllers plan with 85 % of them. ``starts`` are the steps
    in which the sources begin, 0 where left out. The network's limits have no place here and are refused.
    """
    if network.limits is not None:
        raise _refused("limits of the circuits have no effect in a closed loop: leave them out")
    if len(starts) > len(network.circuits):
        raise _refused(f"starts has {len(starts)} values for {len(network.circuits)} circuits")
    parameters = parameters or Parameters()
    read, delivered, backlog, counts = _core.predictor_closed_loop(parameters._json(), *network._arrays(), list(starts), steps)
    shape = (steps, len(network.circuits))
    names = ("solves", "iterations", "trusted", "old_plans", "commitments_scaled")
    return ClosedLoop(
        rate_read=_array(read).reshape(shape),
        rate_delivered=_array(delivered).reshape(shape),
        backlog=_array(backlog).reshape(shape),
        counts=dict(zip(names, counts, strict=True)),
    )


def _floats(values: Sequence[float] | Array) -> Array:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise _refused(f"an array of the shape {array.shape} where one number for each circuit or relay is needed")
    return array


def _array(found: bytearray) -> Array:
    return np.frombuffer(found, dtype=np.float64)


def _refused(reason: str) -> QuestionError:
    error = QuestionError(reason)
    error.code = "question-predictor"
    return error
