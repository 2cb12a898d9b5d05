"""What `onionlab.reproductions.swrr` was told before its first run: ``assumptions.toml``, read and checked.

The file says in words what the SWRR paper leaves open, what was chosen and why, and in numbers what the program then does. The
program has no number of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onionlab.reproductions import beside
from onionlab.reproductions.claims import Claim, Rule, read_claims

#: What a comparison may be about.
METRICS = ("throughput", "timeouts", "first-byte", "last-byte")


@dataclass(frozen=True)
class NetworkRules:
    """How a sampled network is made; rates in bytes/s.

    Attributes
    ----------
    year, first_seed
        Of the synthetic consensus; sampled network k is drawn from seed ``first_seed + k``.
    relays, servers, clients
        Table 1 without its middles, by class and by group.
    middles_drawn
        So many middles are drawn; those of greatest weight stay.
    middle_link
        Mean rate of the middles' links, the same with 20, 10 and 5 of them; each has its link in proportion to its weight.
    server_link, least_link
        Of a server, and of the slowest relay.
    client_delay
        One-way delay between a client and the core of its place, as an experiment file has it; empty: drawn.
    even_links
        Whether all middles have equal weights and links.
    limit_by_tor
        Whether a middle is limited by tor's own ``BandwidthRate`` instead of by its link.
    scale_middles
        Whether the middles' weights are scaled until they have as much as all others, and with it the middle position.
    """

    year: float
    first_seed: int
    relays: dict[str, int]
    servers: int
    clients: dict[str, int]
    middles_drawn: int
    middle_link: int
    server_link: int
    least_link: int
    client_delay: str
    even_links: bool
    limit_by_tor: bool
    scale_middles: bool


@dataclass(frozen=True)
class Load:
    """What clients do; times in simulated seconds, sizes in bytes, ``pause`` as an experiment file has it."""

    duration: int
    measure_from: int
    sample_interval: int
    bulk_start: tuple[int, int]
    web_start: tuple[int, int]
    bulk_size: int
    web_size: int
    pause: str
    timeout: int
    stall: int


@dataclass(frozen=True)
class Variant:
    """Networks, load and treatments that are run together.

    Attributes
    ----------
    name, what
        For file names, and in words.
    middles, networks
        Sizes of the network, and how many networks are sampled of each.
    base, treatments
        Settings of tor, as an experiment file has them.
    """

    name: str
    what: str
    middles: tuple[int, ...]
    networks: int
    network: NetworkRules
    load: Load
    base: dict[str, Any]
    treatments: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Assumptions:
    """The whole file.

    Attributes
    ----------
    rows
        What the paper leaves open: ``what``, ``chosen``, ``why``.
    variants
        The main comparison first, then each assumption that is turned, then today's tor.
    claims
        The paper's.
    rule
        When they hold; so many time-outs a run count as none in any case.
    """

    rows: list[dict[str, str]]
    variants: tuple[Variant, ...]
    claims: tuple[Claim, ...]
    rule: Rule

    @property
    def main(self) -> Variant:
        """The paper's comparison."""
        return self.variants[0]

    @property
    def turns(self) -> tuple[Variant, ...]:
        """The variants in which one assumption is another."""
        return self.variants[1:-1]

    @property
    def today(self) -> Variant:
        """The variant with today's tor."""
        return self.variants[-1]


def read(path: Path, *, quick: bool) -> Assumptions:
    """Read ``assumptions.toml``: with ``quick`` fewer and shorter runs of the same experiment.

    Raises
    ------
    ResultsError
        If the file cannot be read or lacks something.
    """
    with beside.checked(f"{path} is not a list of this experiment's assumptions"):
        return _assumptions(beside.toml(path), "quick" if quick else "full")


def _assumptions(content: Mapping[str, Any], size: str) -> Assumptions:
    runs = content["runs"][size]
    main = Variant(
        name="main",
        what="as assumed",
        middles=tuple(runs["middles"]),
        networks=int(runs["networks"]),
        network=_fields(NetworkRules, content["network"]),
        load=_fields(Load, content["load"] | runs["load"]),
        base=dict(content["base"]),
        treatments=_treatments(content["treatments"]),
    )
    turns = tuple(_variant(turn, main, runs["turns"]) for turn in content["turn"])
    today = _variant(content["today"], main, runs["today"])
    verdict = content["verdict"]
    return Assumptions(
        rows=beside.assumptions(content),
        variants=(main, *turns, today),
        claims=read_claims(content["claim"], METRICS, main.treatments, main.middles),
        rule=Rule(float(verdict["confidence"]), float(verdict["margin"]), {"timeouts": float(verdict["least-timeouts"])}),
    )


def _variant(row: Mapping[str, Any], main: Variant, runs: Mapping[str, Any]) -> Variant:
    """``main`` with what ``row`` says otherwise."""
    wanted: Sequence[str] = row.get("treatments", runs["treatments"])
    own = _treatments(row.get("own-treatments", {}))
    known = {**main.treatments, **own}
    return Variant(
        name=row["name"],
        what=row["what"],
        middles=tuple(runs["middles"]),
        networks=int(runs["networks"]),
        network=_changed(main.network, row.get("network", {})),
        load=_changed(main.load, row.get("load", {})),
        base={**(main.base if row.get("on-base", True) else {}), **row.get("base", {})},
        treatments={name: known[name] for name in wanted},
    )


def _treatments(table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: dict(settings) for name, settings in table.items()}


def _fields(kind: Any, table: Mapping[str, Any]) -> Any:
    return kind(**{key.replace("-", "_"): _plain(value) for key, value in table.items()})


def _changed(rules: Any, table: Mapping[str, Any]) -> Any:
    return replace(rules, **{key.replace("-", "_"): _plain(value) for key, value in table.items()})


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
