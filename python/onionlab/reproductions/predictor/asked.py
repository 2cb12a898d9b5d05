"""What `onionlab.reproductions.predictor` is told before its first run: the files beside the experiments, read and checked.

``assumptions.toml`` says in words what the paper leaves open and in numbers what is run; the program has no number of its own.
``claims.toml`` has the paper's claims as comparisons, ``published.json`` its numbers; ``differences.toml`` names the mechanism
behind what comes out otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onionlab.reproductions import beside
from onionlab.reproductions.claims import Claim, Rule, read_claims
from onionlab.reproductions.published import load_differences

#: Figures of a run; what they are stands in ``claims.toml``.
METRICS = (
    "latency",
    "throughput",
    "served",
    "conforming",
    "deviation",
    "shares",
    "served-85",
    "served-links",
    "starved",
    "wire",
    "web-latency",
    "web-tail",
    "bulk-latency",
    "finished",
    "stalled",
    "unfinished",
    "unsteady",
    *(f"{what}-{circuit}" for what in ("rate", "latency") for circuit in (1, 2, 3)),
)

#: The toy network's scenarios: the place, and the experiment file.
TOYS = {"toy 1": "toy-1", "toy 2": "toy-2"}

VANILLA, PCTCP, PREDICTOR = "vanilla", "PCTCP", "PredicTor"

#: What stands around the treatments in the paper.
PAPERS_SYSTEM = "nstor"


@dataclass(frozen=True)
class Single:
    """The inputs of the single controller; packets and packets a second, a value for each circuit."""

    capacity: float
    queue_limit: float
    queue: tuple[float, ...]
    source_rate: tuple[float, ...]
    source_queue: tuple[float, ...]
    limit: tuple[float, ...]


@dataclass(frozen=True)
class NetworkRules:
    """How random networks are drawn and run; times in milliseconds of simulated time.

    Attributes
    ----------
    first_seed
        Network k is drawn from seed ``first_seed + k``.
    relays, link_mbit, latency_ms
        How many, the rate of their access links in Mbit/s, and the latency between any two.
    start_ms
        When circuits are built, drawn evenly: each loads a first byte.
    wait_ms, web_wait_ms
        From then to the load; of web circuits in a mix drawn evenly.
    duration_ms, window_ms, sample_ms
        Of a run; the end of it that is measured; of a sample.
    web_bytes, web_pause
        An object, and the pause after it as an experiment file has it.
    """

    first_seed: int
    relays: int
    link_mbit: float
    latency_ms: float
    start_ms: tuple[int, int]
    wait_ms: int
    web_wait_ms: tuple[int, int]
    duration_ms: int
    window_ms: int
    sample_ms: int
    web_bytes: int
    web_pause: str


@dataclass(frozen=True)
class Fair:
    """Payload of a cell, what it takes on a link with all headers and its part of acknowledgements, and its size; bytes."""

    payload: int
    wire: int
    cell: int


@dataclass(frozen=True, order=True)
class Conditions:
    """What a random network is like beyond its number of circuits.

    Attributes
    ----------
    throttle
        Share of their bandwidth that relays may not use.
    fuzziness
        How far latencies deviate from what controllers know.
    web
        Share of circuits with web traffic.
    capacity
        Range from which the relays' share of the link rate is drawn.
    system
        What stands around the treatments.
    """

    throttle: float = 0.0
    fuzziness: float = 0.0
    web: float = 0.0
    capacity: tuple[float, float] = (1.0, 1.0)
    system: str = PAPERS_SYSTEM

    def place(self, circuits: int) -> str:
        """How claims and tables call it."""
        if self.web:
            return "mix"
        words = [f"{circuits} circuits"]
        words += [f"throttled {self.throttle:g}"] if self.throttle else []
        words += [f"fuzzy {self.fuzziness:g}"] if self.fuzziness else []
        words += ["unequal"] if self.capacity[0] != self.capacity[1] else []
        words += [self.system] if self.system != PAPERS_SYSTEM else []
        return ", ".join(words)


@dataclass(frozen=True)
class Study:
    """Random networks that are run for one question.

    Attributes
    ----------
    name
        Of the question.
    treatments
        Names of what meets each network.
    networks, circuits
        How many networks, and with how many circuits.
    conditions
        Under which.
    heading, says
        Of a question that the paper leaves open: above its table, and what is asked.
    base
        The treatment to which the others are held there.
    """

    name: str
    treatments: tuple[str, ...]
    networks: int
    circuits: tuple[int, ...]
    conditions: tuple[Conditions, ...]
    heading: str = ""
    says: str = ""
    base: str = ""

    def places(self) -> Iterator[tuple[int, Conditions, str]]:
        """Number of circuits, conditions and name of each place."""
        for circuits in self.circuits:
            for condition in self.conditions:
                yield circuits, condition, condition.place(circuits)


@dataclass(frozen=True)
class Asked:
    """All files.

    Attributes
    ----------
    assumptions
        What the paper leaves open: ``what``, ``chosen``, ``why``.
    differences
        Mechanisms behind what comes out otherwise here: ``what``, ``mechanism``, ``evidence``.
    published
        Its numbers.
    claims, rule
        Its claims, and when they hold.
    single, network
        What is run.
    fair
        What a cell takes, by what stands around the treatments.
    systems, treatments
        Settings as an experiment file has them: of all treatments, by what stands around them; and of each.
    studies
        Random networks.
    """

    assumptions: list[dict[str, str]]
    differences: list[dict[str, str]]
    published: Mapping[str, Any]
    claims: tuple[Claim, ...]
    rule: Rule
    single: Single
    network: NetworkRules
    fair: Mapping[str, Fair]
    systems: Mapping[str, Mapping[str, Any]]
    treatments: Mapping[str, Mapping[str, Any]]
    studies: tuple[Study, ...]


def read(experiments: Path, *, quick: bool) -> Asked:
    """Read the files of ``experiments/predictor``; one that is not as it must be is refused.

    Raises
    ------
    ResultsError
        A file cannot be read or lacks something.
    """
    with beside.checked(f"{experiments} has not the files of this reproduction"):
        told = beside.toml(experiments / "assumptions.toml")
        claims = beside.toml(experiments / "claims.toml")
        studies = tuple(_study(row, "full", told) for row in told["study"])
        places = {*TOYS, *(place for study in studies for _, _, place in study.places())}
        verdict = told["verdict"]
        return Asked(
            assumptions=beside.assumptions(told),
            differences=load_differences(experiments / "differences.toml"),
            published=beside.published(experiments / "published.json"),
            claims=read_claims(claims["claim"], METRICS, told["treatments"], places),
            rule=Rule(float(verdict["confidence"]), float(verdict["margin"]), place="place", replicate="replicate"),
            single=_fields(Single, told["single"]),
            network=_fields(NetworkRules, told["network"]),
            fair={system: _fields(Fair, of) for system, of in told["fair"].items()},
            systems=told["systems"],
            treatments=told["treatments"],
            studies=tuple(_study(row, "quick", told) for row in told["study"]) if quick else studies,
        )


def _study(row: Mapping[str, Any], size: str, told: Mapping[str, Any]) -> Study:
    runs = row[size]
    system = row.get("system", PAPERS_SYSTEM)
    missing = {*row["treatments"]} - {*told["treatments"]} | ({system} - ({*told["systems"]} & {*told["fair"]}))
    if missing:
        raise ValueError(f"study {row['name']!r} names what is not there: {sorted(missing)}")
    conditions = tuple(
        Conditions(throttle, fuzziness, row.get("web", 0.0), tuple(row.get("capacity", (1.0, 1.0))), system)
        for throttle in runs.get("throttle", (0.0,))
        for fuzziness in runs.get("fuzziness", (0.0,))
    )
    return Study(
        name=row["name"],
        treatments=tuple(row["treatments"]),
        networks=int(runs["networks"]),
        circuits=tuple(runs["circuits"]),
        conditions=conditions,
        heading=row.get("heading", ""),
        says=row.get("says", ""),
        base=row.get("base", row["treatments"][0]),
    )


def _fields(kind: Any, table: Mapping[str, Any]) -> Any:
    plain = {key.replace("-", "_"): tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return kind(**plain)
