"""A network made elsewhere, before it is written: what both kinds of source have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from onionlab.errors import ImportedError
from onionlab.importing.options import OF_MARKOV_CLIENTS, OF_PERF_CLIENTS, TorOptions
from onionlab.untrusted import clipped

#: What can be read, for who names something else.
SOURCES = (
    "what can be imported is a folder that tornettools generated, with its shadow.config.yaml, or a published NAME.network.json, "
    "plain, .xz or .gz"
)

#: Most hosts of each kind that are taken in.
MOST_HOSTS = 100_000

#: Flags of a relay of a testing network, whose authorities find every relay fast and stable.
COMMON_FLAGS = ("Fast", "Running", "Stable", "V2Dir", "Valid")

#: Further flags by role, as host names and the published networks call it.
ROLES = {"guard": ("Guard",), "exit": ("Exit",), "exitguard": ("Exit", "Guard"), "middle": (), "authority": ("Authority",)}


@dataclass(frozen=True)
class Relay:
    """A relay: rates in bytes/s, bytes of burst; ``exit_policy`` as a ``p`` line has it, None: as its role says."""

    name: str
    role: str
    weight: int
    address: str
    country: str | None
    up: int
    down: int
    rate: int | None = None
    burst: int | None = None
    relay_rate: int | None = None
    relay_burst: int | None = None
    exit_policy: str | None = None

    @property
    def flags(self) -> str:
        """As an ``s`` line has them."""
        return " ".join(sorted((*COMMON_FLAGS, *ROLES[self.role])))


@dataclass(frozen=True)
class Host:
    """A server or a client: rates in bytes/s."""

    name: str
    country: str | None
    up: int
    down: int


@dataclass(frozen=True)
class Markov:
    """Clients that stand for many users each, and open circuits at exponential intervals.

    Attributes
    ----------
    interval_us
        Mean time from one circuit to the next, in microseconds.
    options
        What their torrc says.
    """

    interval_us: int
    hosts: tuple[Host, ...]
    options: TorOptions = OF_MARKOV_CLIENTS


@dataclass(frozen=True)
class Perf:
    """Clients that measure; what their torrc says."""

    hosts: tuple[Host, ...]
    options: TorOptions = OF_PERF_CLIENTS


#: Clients that measure start so many seconds after the traffic, as tornettools has it.
LAST_PERF = 60


@dataclass(frozen=True)
class Times:
    """When things happen, in simulated seconds.

    Attributes
    ----------
    stop
        The end.
    tor, traffic
        When clients start their tor, and when their programs may start.
    spread
        Markov clients wait so many seconds more at most, at least one.
    measure_from
        Statistics begin.
    """

    stop: int = 3600
    tor: int = 240
    traffic: int = 300
    spread: int = 60
    measure_from: int = 1200

    def until(self, stop: int) -> Times:
        """With another end: statistics begin halfway where the usual time would leave less, but never before all have started."""
        started = self.traffic + max(self.spread, LAST_PERF)
        measure_from = Times.measure_from if stop >= 2 * Times.measure_from else max(min(started, stop - 1), stop // 2)
        return replace(self, stop=stop, measure_from=measure_from)


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes
    ----------
    source
        Where it comes from, for people.
    relays, servers, markov, perf
        Its hosts; ``markov`` by interval and options, ``perf`` by options.
    tor
        The version of tor that is simulated where nobody says otherwise.
    latency_factor
        What the round trips of the table of latencies are multiplied by to be as long as there.
    latency_floor
        The shortest of them then, in milliseconds.
    round_trips
        Those between two of the built-in places, or within one, that are known, in milliseconds, by both codes (``DE-FR``).
    split_requests
        What of a perf client's request its tor reads before the rest, in bytes, and of what share of all requests.
    guards
        How many guards a client uses, 0 for none; None: tor's default.
    scheduler, kist_interval
        The channel scheduler, as an experiment calls it, and KIST's interval in milliseconds; None: tor's default.
    distinct_subnets
        Whether a path has no two relays of one /16.
    half_life
        ``CircuitPriorityHalflife`` in seconds; None: the simulator's default.
    conflux
        Whether clients use Conflux where the version of tor has it; None: the simulator's default.
    consensus_params
        Parameters of the consensus, by tor's names.
    links
        Lines of the experiment file for what the links and TCP of its Shadow do otherwise than Shadow 3.
    notes
        What was left out or replaced, a sentence each.
    """

    source: str
    relays: tuple[Relay, ...]
    servers: tuple[Host, ...]
    markov: tuple[Markov, ...]
    perf: tuple[Perf, ...]
    tor: str
    times: Times = field(default_factory=Times)
    latency_factor: float = 1.0
    latency_floor: int = 0
    round_trips: Mapping[str, float] = field(default_factory=dict)
    split_requests: tuple[tuple[int, float], ...] = ()
    guards: int | None = 0
    scheduler: str | None = None
    kist_interval: int | None = None
    distinct_subnets: bool = False
    half_life: float | None = None
    conflux: bool | None = None
    consensus_params: dict[str, int] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


#: Versions of tor that are simulated, as `base.tor` of an experiment file has them.
VERSIONS = ("0.2.4", "0.3.5", "0.4.9")


@dataclass(frozen=True)
class Options:
    """What a user decides about the experiment.

    Attributes
    ----------
    tor
        Version of tor; None: what suits the source.
    latency
        Table of round trips between countries; None: the built-in one.
    models
        Folder with the traffic models learned from Tor, which are copied beside the experiment; None: the built-in compact model.
    seeds
        How many seeds are run.
    duration
        Simulated time, as an experiment file has it; None: as long as in Shadow.
    load
        Users open so many times as many circuits as the source says; above 0, at most 100.
    """

    tor: str | None = None
    latency: Path | None = None
    models: Path | None = None
    seeds: int = 1
    duration: str | None = None
    load: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no network could be simulated with."""
        if self.tor is not None and self.tor not in VERSIONS:
            raise ImportedError(f"there is no version {clipped(self.tor, 40)!r} of tor here; there are {', '.join(VERSIONS)}")
