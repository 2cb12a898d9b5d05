"""A configuration that tornettools generated for Shadow: the folder with ``shadow.config.yaml``.

What is taken from where:

================================================  ==========================================================================
hosts, links, addresses, start times              ``shadow.config.yaml``
consensus weights                                 ``shadow.data.template/hosts/bwauthority/v3bw.init.consensus``
options of tor                                    ``shadow.data.template/hosts/<host>/torrc-defaults``, ``torrc``, what they
                                                  include, and the command line; what becomes of them is in `options`
flags                                             the relay's name, by which tornettools gives them (``relay7exitguard``)
interval between a Markov client's circuits       the flow model in ``conf`` that the client's ``tgenrc.graphml`` names
countries                                         the network graph, if it is in ``conf``; relays' also in the staged information
================================================  ==========================================================================

No file outside the folder is read but the staged relay information that the user names: paths in the configuration count by
their last part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path, PurePosixPath
from typing import Any

from onionlab.errors import ImportedError
from onionlab.importing import atlas, exit_policy, graphml, torrc, yaml_document
from onionlab.importing.common import Common
from onionlab.importing.gml import Vertex, lines, read_vertices
from onionlab.importing.model import MOST_HOSTS, SOURCES, Host, Markov, Network, Perf, Relay, Times
from onionlab.importing.options import OF_MARKOV_CLIENTS, OF_PERF_CLIENTS, TorOptions, limits
from onionlab.importing.torrc import Torrc
from onionlab.untrusted import Fields, clipped, inside, read_json, read_text

CONFIG = "shadow.config.yaml"
HOSTS = Path("shadow.data.template/hosts")
WEIGHTS = HOSTS / "bwauthority/v3bw.init.consensus"
FINGERPRINT = "fingerprint-public-tor"

#: Most bytes of the configuration, and of a small file.
MOST_CONFIG, MOST_SMALL = 64 * 2**20, 2**20

#: Most processes of a host.
MOST_PROCESSES = 100

#: Names of hosts, as tornettools makes them.
RELAY = re.compile(r"(?:relay\d+(exitguard|exit|guard|middle)|(4uthority)\d+)\Z")
PROGRAM = re.compile(r"(markovclient|perfclient|server)\d+(exit|onionservice)?\Z")

#: What a relay lets out where its torrc says nothing, by whether its name says that it is an exit.
OF_ROLE = {True: "accept 1-65535", False: "reject 1-65535"}

#: Where Shadow starts to give addresses to hosts without one.
FIRST_ADDRESS = IPv4Address("11.0.0.1")

#: Prefixes of Shadow's units, and its units of time in seconds.
PREFIXES = {"": 1}
for _power, _names in enumerate((("k", "kilo"), ("m", "mega"), ("g", "giga"), ("t", "tera")), 1):
    PREFIXES |= dict.fromkeys(_names, 1000**_power)
    PREFIXES |= dict.fromkeys((f"{_names[0]}i", f"{_names[1][:2]}bi"), 1024**_power)
SECONDS = dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1)
SECONDS |= dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60)
SECONDS |= dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600)


@dataclass(frozen=True)
class _Staged:
    """What the staged relay information says of a relay."""

    country: str | None
    address: str | None


@dataclass(frozen=True)
class _Named:
    """A host of the configuration."""

    name: str
    fields: Fields
    country: str | None
    up: int
    down: int


def read(folder: Path, relay_info: Path | None = None) -> Network:
    """Read the configuration in ``folder``.

    Raises
    ------
    ImportedError, UntrustedError
        If it is not there, or not of this form.
    """
    path = _inside(folder, CONFIG)
    if not path.exists():
        raise ImportedError(f"{folder} has no {CONFIG}; {SOURCES}")
    config = Fields(str(path), yaml_document.read(read_text(path, MOST_CONFIG), path))
    listed = config.table("hosts").items()
    if len(listed) > 3 * MOST_HOSTS:
        raise ImportedError(f"{config.where}: {len(listed):,} hosts are more than the {3 * MOST_HOSTS:,} that can be taken in")
    graph, notes = _graph(folder, config)
    on_atlas = _graph_file(config).startswith(atlas.FILES)
    staged = _staged(relay_info)
    weights = _weights(_inside(folder, WEIGHTS))
    relays: list[Relay] = []
    servers: list[Host] = []
    perf: dict[TorOptions, list[Host]] = {}
    markov: dict[tuple[int, TorOptions], list[Host]] = {}
    common, budget, intervals = Common(), torrc.Budget(), dict[str, int]()
    times, onion = _times(config), 0
    address = FIRST_ADDRESS
    for name, content in listed:
        host = _host(config.where, name, content, graph)
        relay, program = RELAY.match(name), PROGRAM.match(name)
        if relay is not None:
            options = _torrc(folder, host, budget)
            relays.append(_relay(folder, host, relay[1] or "authority", weights, staged, str(address), options))
            common.relay(options, name, exits="exit" in (relay[1] or ""))
            address += 1
        elif program is None:
            raise ImportedError(f"{config.where}: the host {clipped(name, 64)!r} is none that tornettools makes")
        elif program[2] == "onionservice":
            onion += 1
        else:
            known = Host(name, host.country, host.up, host.down)
            if program[1] == "server":
                servers.append(known)
                continue
            options = _torrc(folder, host, budget)
            own = common.client(options, name, OF_MARKOV_CLIENTS if program[1] == "markovclient" else OF_PERF_CLIENTS)
            if program[1] == "markovclient":
                markov.setdefault((_interval(folder, name, intervals), own), []).append(known)
                times = _client_times(host, times)
            else:
                perf.setdefault(own, []).append(known)
    if onion:
        notes.append(f"{onion} clients and servers of onion services are left out.")
    if not any(relay.country for relay in relays):
        notes.append("Nothing says in which countries relays are: their places are drawn.")
    notes += common.sentences()
    return Network(
        source=f"tornettools' configuration {clipped(folder.resolve().name)}",
        relays=tuple(relays),
        servers=tuple(servers),
        markov=tuple(
            Markov(interval, tuple(markov[interval, options]), options)
            for interval, options in sorted(markov, key=lambda group: (group[0], group[1].rank()))
        ),
        perf=tuple(Perf(tuple(perf[options]), options) for options in sorted(perf, key=TorOptions.rank)),
        tor="0.4.9",
        latency_factor=atlas.LATENCY_FACTOR if on_atlas else 1.0,
        latency_floor=atlas.LATENCY_FLOOR if on_atlas else 0,
        round_trips=atlas.ROUND_TRIPS if on_atlas else {},
        guards=common.guards(),
        scheduler=common.scheduler(),
        kist_interval=common.kist_interval(),
        distinct_subnets=common.agreed("enforcedistinctsubnets", True),
        half_life=common.half_life(),
        conflux=common.conflux(),
        consensus_params=common.params(),
        times=times,
        notes=tuple(notes),
    )


def _inside(folder: Path, file: str | Path) -> Path:
    """A file of the folder, which no symbolic link leads out of."""
    path = folder / file
    inside(folder, path)
    return path


def _times(config: Fields) -> Times:
    general = config.table("general")
    stop = _seconds(general, "stop_time", Times.stop)
    traffic = _seconds(general, "bootstrap_end_time", min(Times.traffic, stop // 3))
    return Times(tor=max(0, traffic - 60), traffic=traffic).until(stop)


def _client_times(host: _Named, known: Times) -> Times:
    """The times at which the last client's tor and tgen start, which are all the same where tornettools wrote them."""
    starts: dict[str, int] = {}
    for index, row in enumerate(host.fields.rows("processes", MOST_PROCESSES)):
        process = Fields(f"{host.fields.where}, processes[{index}]", row)
        starts[PurePosixPath(process.text("path", 4096)).name] = _seconds(process, "start_time", 0)
    if "tor" not in starts or "tgen" not in starts:
        raise ImportedError(f"{host.fields.where}: a client runs tor and tgen")
    return replace(known, tor=starts["tor"], traffic=starts["tgen"])


def _seconds(fields: Fields, key: str, otherwise: int) -> int:
    """A duration in whole seconds: a number, or a text with a unit."""
    if key not in fields:
        return otherwise
    value = dict(fields.items())[key]
    found = re.fullmatch(r"(\d{1,9})\s*([a-z]*)", str(value).strip()) if isinstance(value, int | str) else None
    if found is None or found[2] not in SECONDS or int(found[1]) * SECONDS[found[2]] > 7 * 86_400:
        raise fields.refuse(key, 'a duration such as 300 or "5 min", at most a week')
    return int(found[1]) * SECONDS[found[2]]


def _rate(fields: Fields, key: str, of_vertex: str | None) -> int:
    """A bandwidth of Shadow in bytes/s: bits/s as a number, or a text with a unit; that of the vertex if the host has none."""
    value = dict(fields.items()).get(key)
    value = of_vertex if value is None else value
    found = re.fullmatch(r"(\d{1,15})\s*([A-Za-z]*?)(?:bits?)?", str(value).strip()) if isinstance(value, int | str) else None
    if found is None or found[2].lower() not in PREFIXES or not 1000 <= int(found[1]) * PREFIXES[found[2].lower()] <= 10**12:
        raise fields.refuse(key, 'a bandwidth such as "81920 kilobit", from 1 kbit/s to 1 Tbit/s')
    return int(found[1]) * PREFIXES[found[2].lower()] // 8


def _host(where: str, name: str, content: object, graph: dict[int, Vertex]) -> _Named:
    fields = Fields(f"{where}, {clipped(name, 64)}", content)
    vertex = graph.get(fields.whole("network_node_id", 0, 2**32 - 1))
    up = _rate(fields, "bandwidth_up", vertex.up if vertex else None)
    down = _rate(fields, "bandwidth_down", vertex.down if vertex else None)
    return _Named(name, fields, vertex.country if vertex else None, up, down)


def _relay(
    folder: Path, host: _Named, role: str, weights: dict[str, int], staged: dict[str, _Staged], address: str, options: Torrc
) -> Relay:
    if host.name not in weights:
        raise ImportedError(f"{folder / WEIGHTS} has no weight of {host.name}")
    limit, policy = limits(options), exit_policy.summary(options)
    fingerprint = _inside(folder, HOSTS / host.name / FINGERPRINT)
    known = staged.get(read_text(fingerprint, MOST_SMALL).strip().upper()) if staged and fingerprint.exists() else None
    given = dict(host.fields.items()).get("ip_addr") or (known.address if known else None) or address
    try:
        address = str(IPv4Address(given))
    except AddressValueError as error:
        raise host.fields.refuse("ip_addr", "an IPv4 address") from error
    return Relay(
        name=host.name,
        role=role,
        weight=weights[host.name],
        address=address,
        country=host.country or (known.country if known else None),
        up=host.up,
        down=host.down,
        rate=limit.rate,
        burst=limit.burst,
        relay_rate=limit.relay_rate,
        relay_burst=limit.relay_burst,
        exit_policy=None if policy == OF_ROLE["exit" in role] else policy,
    )


def _torrc(folder: Path, host: _Named, budget: torrc.Budget) -> Torrc:
    """The options of a host's tor."""
    for index, row in enumerate(host.fields.rows("processes", MOST_PROCESSES)):
        process = Fields(f"{host.fields.where}, processes[{index}]", row)
        if PurePosixPath(process.text("path", 4096)).name == "tor":
            arguments = dict(process.items()).get("args")
            if isinstance(arguments, list):
                arguments = [str(word) for word in arguments]
            elif arguments is not None:
                arguments = process.text("args", 100_000)
            return torrc.read(folder, folder / HOSTS / host.name, arguments, budget)
    raise ImportedError(f"{host.fields.where}: no process is tor")


def _weights(path: Path) -> dict[str, int]:
    """Consensus weights by nickname, from a bandwidth authority's file."""
    weights: dict[str, int] = {}
    for number, line in enumerate(read_text(path, MOST_CONFIG).splitlines(), 1):
        entries = dict(entry.split("=", 1) for entry in line.split() if "=" in entry)
        if "nick" not in entries:
            continue
        weight = entries.get("bw", "")
        if not re.fullmatch(r"\d{1,10}", weight) or int(weight) >= 2**32:
            raise ImportedError(f"{path}, line {number}: `bw` is {clipped(weight, 30)!r}, but must be a whole number below 2^32")
        weights[entries["nick"]] = int(weight)
    return weights


def _interval(folder: Path, client: str, known: dict[str, int]) -> int:
    """Mean interval between a Markov client's circuits, in microseconds; ``known``: of the flow models read so far."""
    path = _inside(folder, HOSTS / client / "tgenrc.graphml")
    models = [node["flowmodelpath"] for node in graphml.nodes(path) if "flowmodelpath" in node]
    if len(models) != 1:
        raise ImportedError(f"{path} names {len(models)} flow models (`flowmodelpath`), but must name one")
    name = PurePosixPath(models[0]).name
    if name not in known:
        known[name] = _interval_of(_inside(folder, Path("conf") / name))
    return known[name]


def _interval_of(model: Path) -> int:
    """The mean of a flow model's one exponential distribution."""
    rates = [edge.get("param_rate", "") for edge in graphml.edges(model) if edge.get("distribution") == "exponential"]
    try:
        (rate,) = (float(rate) for rate in rates)
        interval = round(1.0 / rate)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise ImportedError(f"{model} is no flow model with one exponential distribution") from error
    if not 1 <= interval <= 10**13:
        raise ImportedError(f"{model}: a mean interval of {interval:,} µs is out of range")
    return interval


def _graph_file(config: Fields) -> str:
    """Name of the network graph's file; empty where there is none."""
    graph = config.table("network").table("graph")
    return PurePosixPath(graph.table("file").text("path", 4096)).name if "file" in graph else ""


def _graph(folder: Path, config: Fields) -> tuple[dict[int, Vertex], list[str]]:
    """The vertices of the network graph; none, and a note, where it is not in ``conf``."""
    graph = config.table("network").table("graph")
    if "inline" in graph:
        return read_vertices(graph.text("inline", MOST_CONFIG).splitlines(), graph.where), []
    name = _graph_file(config)
    path = _inside(folder, Path("conf") / name)
    if not name or not path.is_file():
        return {}, [f"The network graph {clipped(name, 60)!r} is not in {folder / 'conf'}, which would tell all countries."]
    return read_vertices(lines(path), str(path)), []


def _staged(path: Path | None) -> dict[str, _Staged]:
    """Staged relay information by fingerprint."""
    if path is None:
        return {}
    relays = Fields(str(path), read_json(path)).table("relays").items()
    found = {}
    for fingerprint, content in relays[: 10 * MOST_HOSTS]:
        fields = Fields(f"{path}, {clipped(fingerprint, 40)}", content)
        country: Any = dict(fields.items()).get("country_code")
        country = country if isinstance(country, str) and re.fullmatch(r"[A-Za-z]{2}", country) else None
        address = fields.text("address", 40) if "address" in fields else None
        found[fingerprint.upper()] = _Staged(country.upper() if country else None, address)
    return found
