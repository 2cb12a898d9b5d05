"""The random networks of `onionlab.reproductions.predictor`, and the experiment of each.

A network is a draw of relays' rates and of a path for each circuit; the network with fewer circuits has the first ones of that
with more. Each circuit has a client of its own beside its entry and a server beside its exit, which cost neither time nor rate.
It is there before anything is carried that counts: a first byte has it built.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onionlab.reproductions import runs
from onionlab.reproductions.predictor.asked import Asked, Conditions, Fair, NetworkRules

#: Access rate of clients and servers, and their latency to the relay that they stand beside.
BESIDE_RATE, BESIDE_LATENCY = "100 Gbit/s", "10 us"

#: What each circuit loads first, so that it is built.
FIRST_BYTES = 1

#: More web objects than a circuit can load in any run.
OBJECTS = 1000


@dataclass(frozen=True)
class Drawn:
    """A network drawn.

    Attributes
    ----------
    shares
        Of the link rate, relay by relay.
    circuits
        Relays of each circuit in the direction of data: exit, middle, entry.
    """

    shares: tuple[float, ...]
    circuits: tuple[tuple[int, int, int], ...]


def draw(rules: NetworkRules, conditions: Conditions, circuits: int, number: int) -> Drawn:
    """Sampled network ``number`` with so many circuits of three different relays each."""
    seed = rules.first_seed + number
    rates, paths = random.Random(f"predictor relays {seed}"), random.Random(f"predictor circuits {seed}")
    low, high = conditions.capacity
    shares = tuple(low + (high - low) * rates.random() for _ in range(rules.relays))
    drawn = (paths.sample(range(rules.relays), 3) for _ in range(circuits))
    return Drawn(shares, tuple((first, second, third) for first, second, third in drawn))


def is_web(conditions: Conditions, circuit: int, circuits: int) -> bool:
    """Whether a circuit has web traffic: the last ones have."""
    return circuit >= circuits - round(conditions.web * circuits)


def capacities(rules: NetworkRules, conditions: Conditions, drawn: Drawn, fair: Fair) -> list[float]:
    """Payload that each relay can carry, bytes a second: its link's, or what its limit lets through if that is less."""
    links = [share * rules.link_mbit * 1e6 / 8 for share in drawn.shares]
    limits = [(1 - conditions.throttle) * link / fair.cell for link in links]
    return [fair.payload * min(link / fair.wire, limit) for link, limit in zip(links, limits, strict=True)]


def experiment(asked: Asked, treatments: Sequence[str], conditions: Conditions, circuits: int, number: int) -> str:
    """The experiment file of one network with all its treatments."""
    rules = asked.network
    drawn = draw(rules, conditions, circuits, number)
    title = f"PredicTor, {conditions.place(circuits)}, network {number}"
    lines = [
        "# Written by `onionlab reproduce predictor`.",
        f"title = {json.dumps(title)}",
        f'duration = "{rules.duration_ms} ms"',
        f'measure-from = "{rules.duration_ms - rules.window_ms} ms"',
        f"base-seed = {rules.first_seed + number}",
        f'sample-interval = "{rules.sample_ms} ms"',
        f"clients = [\n{_lines(_clients(rules, conditions, drawn))}]",
        "",
        "[network]",
        'kind = "explicit"',
        f'default-latency = "{rules.latency_ms} ms"',
        *([f"latency-error = {conditions.fuzziness}"] if conditions.fuzziness else []),
        f"hosts = [\n{_lines(_hosts(rules, conditions, drawn))}]",
        f"links = [\n{_lines(_links(drawn))}]",
        "",
        "[base]",
        *runs.settings(asked.systems[conditions.system]),
    ]
    for name in treatments:
        lines += ["", "[[treatments]]", f"name = {json.dumps(name)}", *runs.settings(asked.treatments[name])]
    return "\n".join([*lines, ""])


def _clients(rules: NetworkRules, conditions: Conditions, drawn: Drawn) -> Iterator[str]:
    for circuit, (exit_, middle, entry) in enumerate(drawn.circuits):
        web = is_web(conditions, circuit, len(drawn.circuits))
        begin, end = rules.start_ms
        early, late = rules.web_wait_ms
        wait = f'{{ uniform = ["{early} ms", "{late} ms"] }}' if web else f'"{rules.wait_ms} ms"'
        objects = f'{{ size = "{rules.web_bytes} B", pause = {rules.web_pause}, count = {OBJECTS} }}'
        then = objects if web else '{ size = "1 GiB" }'
        load = f'{{ kind = "sequence", transfers = [{{ size = "{FIRST_BYTES} B", pause = {wait} }}, {then}] }}'
        yield (
            f'{{ group = "{"web" if web else "bulk"}{circuit}", hosts = ["client{circuit}"], '
            f'path = ["relay{entry}", "relay{middle}", "relay{exit_}"], server = "server{exit_}", '
            f'start = {{ from = "{begin} ms", to = "{end} ms" }}, '
            f"record-latency = true, load = {load} }}"
        )


def _hosts(rules: NetworkRules, conditions: Conditions, drawn: Drawn) -> Iterator[str]:
    for relay, share in enumerate(drawn.shares):
        rate = round(share * rules.link_mbit * 1e6)
        limit = ""
        if conditions.throttle:
            bytes_ = round((1 - conditions.throttle) * rate / 8)
            limit = f', rate = "{bytes_} B/s", burst = "{max(bytes_ // 10, 16_384)} B"'
        yield f'{{ name = "relay{relay}", role = "guard-exit", up = "{rate} bit/s", down = "{rate} bit/s"{limit} }}'
    beside = f'up = "{BESIDE_RATE}", down = "{BESIDE_RATE}"'
    for circuit in range(len(drawn.circuits)):
        yield f'{{ name = "client{circuit}", role = "client", {beside} }}'
    for exit_ in sorted({path[0] for path in drawn.circuits}):
        yield f'{{ name = "server{exit_}", role = "server", {beside} }}'


def _links(drawn: Drawn) -> Iterator[str]:
    for circuit, path in enumerate(drawn.circuits):
        yield f'{{ between = ["client{circuit}", "relay{path[2]}"], latency = "{BESIDE_LATENCY}", beside = true }}'
    for exit_ in sorted({path[0] for path in drawn.circuits}):
        yield f'{{ between = ["relay{exit_}", "server{exit_}"], latency = "{BESIDE_LATENCY}", beside = true }}'


def _lines(rows: Iterator[str]) -> str:
    return "".join(f"  {row},\n" for row in rows)
