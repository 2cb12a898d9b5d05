"""The compiled half of onionlab: thin functions over Rust crates.

Paths are strings. Everything that comes back as JSON is UTF-8 text in canonical form (sorted keys), so that equal texts mean
equal content.
"""

from collections.abc import Callable
from typing import TypedDict, type_check_only

import numpy as np
import numpy.typing as npt

__all__ = [
    "Cancelled",
    "DocumentError",
    "OnionlabError",
    "QuestionError",
    "RunError",
    "ScenarioError",
    "build",
    "consensus_summary",
    "network_schema",
    "plan",
    "points",
    "predictor_bottlenecks",
    "predictor_closed_loop",
    "predictor_fairness",
    "predictor_max_min",
    "predictor_projection",
    "predictor_solve",
    "record_tables",
    "resolve",
    "run_one",
    "schema",
    "shared_links",
    "shared_links_by_circuits",
    "shared_links_by_clients",
    "shared_links_by_scale",
    "shared_links_over_time",
    "synth",
    "try_policies",
    "version",
]

@type_check_only
class Progress(TypedDict):
    """What a running simulation says about itself, several times a second."""

    sim_seconds: float
    duration_seconds: float
    events: int

class OnionlabError(Exception):
    """Any refusal or failure; ``code`` is a stable word for scripts."""

    code: str

class ScenarioError(OnionlabError):
    """The experiment file cannot be read or asks for something impossible."""

class DocumentError(OnionlabError):
    """A consensus or another input document cannot be used."""

class QuestionError(OnionlabError):
    """A question about shared links or rates has no answer."""

class RunError(OnionlabError):
    """A simulation failed although its input was accepted."""

class Cancelled(OnionlabError):
    """The callback of `run_one` asked to stop; nothing was written."""

def version() -> str:
    """Version of the simulator, as written into the ``run`` table."""

def build() -> str:
    """Identity of the simulator's code, as written into the ``run`` table: a hash of its sources, 16 hexadecimal digits."""

def schema() -> str:
    """JSON Schema of the experiment file."""

def network_schema() -> str:
    """JSON Schema of the network document, which an experiment file may name."""

def record_tables() -> str:
    """JSON list of the tables that a run may leave, with the type, unit and meaning of each column (``docs/records.md``)."""

def resolve(path: str, text: str | None = None) -> str:
    """Check an experiment file, at every point of its sweep; canonical JSON of the scenario with every default filled in.

    With a sweep it is that of the first point. ``text`` stands for the content of the file, to whose place other files are
    relative all the same.
    """

def plan(path: str, text: str | None = None) -> str:
    """JSON list of all runs.

    ``treatment``, ``treatment_index``, ``network``, ``seed``, ``directory`` (its name below ``runs`` in the results directory),
    ``point`` (null without a sweep), ``also`` (further points that the run serves).
    """

def try_policies(path: str, text: str | None = None) -> None:
    """Make every policy of the user's own that the experiment names once, which runs its code; raises `ScenarioError`."""

def points(path: str, text: str | None = None) -> str:
    """JSON list of the points of the sweep, empty without one.

    ``values`` (pairs of dotted key and value, in the order of the file), ``scenario`` (as from `resolve`).
    """

def run_one(
    path: str,
    treatment_index: int,
    network_index: int,
    seed: int,
    out_dir: str,
    callback: Callable[[Progress], bool | float],
    text: str | None = None,
    point: int = 0,
) -> str:
    """Simulate one run without holding the interpreter lock.

    Write its record tables below the results directory ``out_dir`` and return the row of its ``run`` table as JSON. ``callback``
    returns True to go on and False to stop and leave nothing; a number is the simulated second at which the run shall end, as
    one of an experiment with that duration. ``text`` stands for the content of the file; ``point`` is the point of its sweep.
    """

def synth(options_json: str) -> str:
    """Text of a synthetic consensus; options ``relays``, ``year``, ``seed``, each optional."""

def consensus_summary(path: str) -> str:
    """Flags, weights and class shares of a consensus document, as JSON."""

def predictor_max_min(
    capacities: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    relays: npt.NDArray[np.int64],
    limits: npt.NDArray[np.float64] | None,
) -> bytearray:
    """Max-min fair rates, as ``float64``. Circuit p crosses ``relays[starts[p]:starts[p + 1]]``."""

def predictor_bottlenecks(
    capacities: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    relays: npt.NDArray[np.int64],
    limits: npt.NDArray[np.float64] | None,
    rates: npt.NDArray[np.float64],
    tolerance: float,
) -> list[list[int]]:
    """The bottlenecks of each circuit: relays, and -1 for its own limit."""

def predictor_projection(
    capacities: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    relays: npt.NDArray[np.int64],
    limits: npt.NDArray[np.float64] | None,
    common_rate: float,
) -> bytearray:
    """The rates of the paper's Theorem 3, as ``float64``."""

def predictor_fairness(rates: npt.NDArray[np.float64], fair: npt.NDArray[np.float64]) -> tuple[float, float, float, float]:
    """The fairness index in its four readings: served, conforming, deviation, shares."""

def predictor_solve(
    parameters_json: str,
    capacities: tuple[float, float],
    queue: npt.NDArray[np.float64],
    from_relay: list[bool],
    source_rate: npt.NDArray[np.float64],
    source_queue: npt.NDArray[np.float64],
    source_virtual_rate: npt.NDArray[np.float64] | None,
    limit: npt.NDArray[np.float64],
    trusted: bool,
) -> tuple[str, int, bool, float, bytearray, bytearray, bytearray, bytearray]:
    """One relay's optimal control problem; arrays by circuit, then step.

    Status, iterations, whether commitments were scaled, objective; then, as ``float64``, intake rates, outgoing rates, virtual
    outgoing rates (none in the conference problem), queues (one more than steps).
    """

def predictor_closed_loop(
    parameters_json: str,
    capacities: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    relays: npt.NDArray[np.int64],
    begins: list[int],
    steps: int,
) -> tuple[bytearray, bytearray, bytearray, list[int]]:
    """Controllers at all relays with fluid between them.

    By step, then circuit, as ``float64``: rates read from the servers, rates delivered, packets on their way. Then counts:
    solves, iterations, plans of the trusted solver, old plans, steps with scaled commitments.
    """

def shared_links(request_json: str) -> str:
    """One answer for each document of the request, in their order, as a JSON list.

    The request: ``files`` (none: the built-in network), ``question`` (the crate's), ``traffic`` and ``internal_share`` (in place
    of the question's blend; each optional), ``method``, ``repeat``, ``seed``.
    """

def shared_links_by_circuits(request_json: str, circuits: list[int]) -> str:
    """For each document, a list of answers, one for each number of circuits; expectation."""

def shared_links_by_clients(request_json: str, per_client: list[int]) -> str:
    """For each document, a list of answers, one for each number of circuits per client; expectation."""

def shared_links_by_scale(request_json: str, scales: list[float]) -> str:
    """For each document, a list of points, one for each scale, each with ``repeat`` sampled networks."""

def shared_links_over_time(request_json: str, reference: str | None = None) -> str:
    """An answer for each document; circuits in proportion to its consensus weight if a ``reference`` document is named."""
