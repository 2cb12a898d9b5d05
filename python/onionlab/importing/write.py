"""From a network to a folder that ``onionlab run`` runs.

It has ``experiment.toml``, ``network.json``, and the traffic models if they were named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onionlab import _core
from onionlab.errors import ImportedError, ResultsError, ScenarioError
from onionlab.files import write_directory
from onionlab.importing.model import Host, Markov, Network, Options, Perf, Relay
from onionlab.quantity import seconds
from onionlab.untrusted import clipped, read_bytes, read_text

EXPERIMENT, NETWORK = "experiment.toml", "network.json"

#: Files of the traffic models, in the folder where the user has them and in the experiment's.
MODELS = ("stream-model-2018.json", "packet-model-2018.json")

#: Most bytes of a traffic model.
MOST_MODEL = 16 * 2**20

#: What a perf client's tgen writes for a download: 222 B that say what it wants, 1000 B, 37 B that say their checksum. And what
#: the server's writes before the download, in a write of its own (`_tgenstream_writeCommand`, `_tgenstream_writeResponse`; names
#: of two digits).
COMMAND, RESPONSE = 222, 70
REQUEST = COMMAND + 1000 + 37

#: Greatest multiple of the load.
MOST_LOAD = 100

#: Most different intervals between circuits and torrcs: each makes a group of clients.
MOST_INTERVALS = 900


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes
    ----------
    experiment, network
        The two files.
    notes
        What a user should know, a sentence each.
    """

    experiment: Path
    network: Path
    notes: tuple[str, ...]


def write(network: Network, out: Path, options: Options) -> Written:
    """Write the folder ``out``, whole or not at all.

    Raises
    ------
    ImportedError
        If the folder exists and is not empty, cannot be written, or the network is not one that can be simulated.
    """
    groups = len(network.markov) + len(network.perf)
    if groups > MOST_INTERVALS:
        raise ImportedError(f"the clients have {groups:,} different intervals or torrcs; at most {MOST_INTERVALS} are taken in")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ImportedError(f"{out} exists already and is not empty: name another folder")
    if out.exists() and out.samefile(Path.cwd()):
        raise ImportedError(f"{out} is the folder that you are in, in whose place no other can be put: name another folder")
    models = _models(options.models)
    texts = {NETWORK: document(network), EXPERIMENT: experiment(network, options)}
    try:
        contents = {name: text.encode() for name, text in texts.items()} | models
        write_directory(out, contents.items(), check=_check)
    except ResultsError as error:
        raise ImportedError(str(error)) from error
    except UnicodeEncodeError as error:
        raise ImportedError(f"cannot write {out}: a name in it is no text in UTF-8") from error
    return Written(out / EXPERIMENT, out / NETWORK, (*network.notes, *_notes(options)))


def _check(draft: Path) -> None:
    """Whether the simulator takes what was written."""
    path = draft / EXPERIMENT
    try:
        _core.resolve(str(path))
    except ScenarioError as error:
        raise ImportedError(f"this network cannot be simulated: {_of_network(str(error).removeprefix(str(path)))}") from error


def _of_network(reason: str) -> str:
    """What is wrong with the network, without a place in a file that is not kept."""
    inner = re.search(r"`network\.path` names .*cannot be used \((.*)\)$", reason, re.DOTALL)
    return inner[1] if inner is not None else re.sub(r"^[:, ]*(line \d+: )?", "", reason)


def _models(folder: Path | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    return {name: read_bytes(folder / name, MOST_MODEL) for name in MODELS}


def _notes(options: Options) -> Iterator[str]:
    if options.models is None:
        yield "Users follow the built-in compact model of Tor's traffic; --models names the folder of the full models."
    if options.latency is None:
        yield "Latencies come from the built-in places; --latency names a table of round trips between countries."


def document(network: Network) -> str:
    """The network document, a host a line."""
    head: dict[str, Any] = {
        "format": "onionlab-network",
        "version": 1,
        "source": clipped(network.source, 900),
        # tor's TestingTorNetwork turns the rule about /16 networks off.
        "distinct-subnets": network.distinct_subnets,
    }
    if network.consensus_params:
        head["consensus-params"] = dict(sorted(network.consensus_params.items()))
    lists = {
        "relays": [_relay(relay) for relay in network.relays],
        "servers": [_host(server) for server in network.servers],
        "clients": [_host(client, group) for group, hosts in _groups(network) for client in hosts],
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    for key, rows in lists.items():
        body = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        lines.append(f"{json.dumps(key)}: [\n  {body}\n ]" if rows else f"{json.dumps(key)}: []")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def _relay(relay: Relay) -> dict[str, Any]:
    row = {"name": relay.name, "flags": relay.flags, "address": relay.address, "weight": relay.weight}
    if relay.exit_policy is not None:
        row["exit-policy"] = relay.exit_policy
    row |= _common(relay.country, relay.up, relay.down)
    rates = {"rate": relay.rate, "relay-rate": relay.relay_rate}
    bursts = {"burst": relay.burst, "relay-burst": relay.relay_burst}
    row |= {key: f"{rate} B/s" for key, rate in rates.items() if rate is not None}
    return row | {key: f"{burst} B" for key, burst in bursts.items() if burst is not None}


def _host(host: Host, group: str | None = None) -> dict[str, Any]:
    row = {"name": host.name} | ({"group": group} if group is not None else {})
    return row | _common(host.country, host.up, host.down)


def _common(country: str | None, up: int, down: int) -> dict[str, Any]:
    # Shadow's hosts hang on a vertex of its graph without any delay of their own.
    row: dict[str, Any] = {"access-delay": "0 s", "up": f"{up} B/s", "down": f"{down} B/s"}
    return ({"country": country} if country is not None else {}) | row


def _groups(network: Network) -> Iterator[tuple[str, tuple[Host, ...]]]:
    for name, markov in _markov(network):
        yield name, markov.hosts
    for name, perf in _perf(network):
        yield name, perf.hosts


def _perf(network: Network) -> Iterator[tuple[str, Perf]]:
    """Groups of clients that measure by name: ``perf`` where all have the same torrc, else with a number."""
    single = len(network.perf) == 1
    for number, perf in enumerate(network.perf, 1):
        yield "perf" if single else f"perf{number}", perf


def _markov(network: Network) -> Iterator[tuple[str, Markov]]:
    """Groups of Markov clients by name: ``markov`` where all have one interval and the same torrc, else with a number."""
    single = len(network.markov) == 1
    for number, markov in enumerate(network.markov, 1):
        yield "markov" if single else f"markov{number}", markov


def _known(round_trips: Mapping[str, float], table: Path | None) -> Mapping[str, float]:
    """Those between countries that the table has; the built-in one has all of them."""
    if not round_trips or table is None:
        return round_trips
    countries = {country for line in read_text(table).splitlines() for country in line.split(",")[:2]}
    return {pair: time for pair, time in round_trips.items() if countries.issuperset(pair.split("-"))}


def _round_trips(known: Mapping[str, float]) -> list[str]:
    """The table of those that a piece of the other graph has."""
    lines = [f'{pair} = "{time:g} ms"' for pair, time in known.items()]
    return ["", "[network.latency-between] # what a published piece of its own graph has", *lines]


def experiment(network: Network, options: Options) -> str:
    """The experiment file."""
    if not 0 < options.load <= MOST_LOAD:
        raise ImportedError(f"a load of {options.load:g} is not allowed; allowed is more than 0 and at most {MOST_LOAD}")
    times = network.times if options.duration is None else network.times.until(_whole_seconds(options.duration))
    last = times.traffic + max(times.spread, 60)
    if times.stop <= last:
        raise ImportedError(
            f"a duration of {times.stop} s is not allowed; allowed is more than {last} s, when the last clients start"
        )
    clients = sum(len(markov.hosts) for markov in network.markov)
    measuring = sum(len(perf.hosts) for perf in network.perf)
    title = f"{len(network.relays)} relays, {clients} Markov and {measuring} perf clients: {clipped(network.source, 150)}"
    tor = options.tor if options.tor is not None else network.tor
    lines = [
        "# Made by `onionlab import`. The hosts are in network.json; what they do and when is here.",
        f"title = {json.dumps(title, ensure_ascii=False)}",
        f'duration = "{times.stop} s"',
        f'measure-from = "{times.measure_from} s"',
        f"seeds = [{', '.join(str(seed) for seed in range(1, options.seeds + 1))}]",
        "",
        "[network]",
        'kind = "file"',
        f'path = "{NETWORK}"',
        "jitter = false # Shadow's latencies do not vary",
    ]
    if options.latency is not None:
        lines.append(f"latency = {json.dumps(str(options.latency.resolve()), ensure_ascii=False)}")
    if network.latency_factor != 1:
        lines.append(f"latency-factor = {network.latency_factor:g} # as long as the round trips of its own graph")
    if network.latency_floor:
        lines.append(f'latency-floor = "{network.latency_floor} ms" # whose shortest have two last miles in them')
    known = _known(network.round_trips, options.latency)
    if known:
        lines += _round_trips(known)
    lines += [
        "",
        "[base]",
        f"tor = {json.dumps(tor, ensure_ascii=False)}",
        'net = "shadow" # links and TCP as Shadow models them',
        *network.links,
        *([] if network.guards is None else [_guards(network.guards)]),
        *([] if network.scheduler is None else [f'channel-scheduler = "{network.scheduler}" # Schedulers']),
        *([] if network.kist_interval is None else [f'kist-interval = "{network.kist_interval} ms" # KISTSchedRunInterval']),
        *([] if network.half_life is None else [f'ewma-half-life = "{network.half_life:g} s" # CircuitPriorityHalflife']),
        # Older versions have no Conflux, and no key for it.
        *(
            [f"conflux = {json.dumps(network.conflux)} # ConfluxEnabled"]
            if network.conflux is not None and tor == "0.4.9"
            else []
        ),
        "optimistic-data = false # tgen waits for tor's answer",
    ]
    for name, markov in _markov(network):
        lines += [
            "",
            "[[clients]] # each stands for many users: a circuit at exponential intervals, on each a user's streams",
            f'group = "{name}"',
            f'start = {{ from = "{times.traffic + 1} s", to = "{times.traffic + times.spread} s" }}',
            f'boot-before = "{times.traffic - times.tor} s"',
            "record = false # its streams are load, not results",
            *markov.options.lines(),
            f"load = {_users(markov.interval_us, options)}",
        ]
    for name, perf in _perf(network):
        lines += [
            "",
            "[[clients]] # each measures: a download a minute, over a fresh circuit",
            f'group = "{name}"',
            # tgen pauses before the first download too.
            f'start = "{times.traffic + 60} s"',
            f'boot-before = "{times.traffic + 60 - times.tor} s"',
            *perf.options.lines(),
            f"load = {_measures(network.split_requests)} # as its ends say first who they are",
        ]
    return "\n".join([*lines, ""])


def _measures(splits: tuple[tuple[int, float], ...]) -> str:
    said = [f'request = "{REQUEST} B"', f'answer-after = "{COMMAND} B"', f'header = "{RESPONSE} B"']
    if splits:
        parts = ", ".join(f'{{ after = "{after} B", share = {share:.4f} }}' for after, share in splits)
        said.append(f"split-requests = [{parts}]")
    return f'{{ kind = "perf", {", ".join(said)} }}'


def _guards(count: int) -> str:
    return f"guards = {count} # NumEntryGuards" if count else "guards = 0 # UseEntryGuards 0"


def _whole_seconds(duration: str) -> int:
    try:
        length = round(seconds(duration))
    except (ValueError, OverflowError) as error:
        raise ImportedError(f'{clipped(duration, 40)!r} is no duration such as "10 min"') from error
    if not 1 <= length <= 7 * 86_400:
        raise ImportedError(f"{clipped(duration, 40)!r} is no duration from a second to a week")
    return length


def _users(interval_us: int, options: Options) -> str:
    interval = f'flow-interval = "{max(1, round(interval_us / options.load))} us"'
    if options.models is None:
        return f'{{ kind = "tor-users", {interval} }}'
    streams, packets = MODELS
    return f'{{ kind = "markov", streams = "{streams}", packets = "{packets}", {interval} }}'
