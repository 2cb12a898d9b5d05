"""The networks of `onionlab.reproductions.swrr`: table 1's relays drawn from a synthetic consensus, and what is run on them.

A sampled network is a draw of relays with their weights and links, and of places for all hosts. Its three sizes share hosts: the
ten middles are ten of the twenty, the five are five of the ten.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from onionlab import _core
from onionlab.errors import ResultsError
from onionlab.reproductions import runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onionlab.reproductions.swrr.assumptions import NetworkRules, Variant

#: Classes of relays as `DocumentRelay` flags them, in the order of table 1.
FLAGS = {"guard-exit": "Exit Guard", "guard": "Guard", "exit": "Exit", "middle": ""}

#: Flags that all relays have.
COMMON_FLAGS = "Fast Running Stable V2Dir Valid"


@dataclass(frozen=True)
class Relay:
    """A relay drawn: consensus weight as the network's document has it, link in bytes/s, limit of tor's own in bytes/s."""

    name: str
    kind: str
    weight: int
    link: int
    limit: int | None = None


def weights_by_class(consensus: str) -> dict[str, list[int]]:
    """Consensus weights of the relays of each class, ascending, from a consensus document's text."""
    found: dict[str, list[int]] = {kind: [] for kind in FLAGS}
    kind = None
    for line in consensus.splitlines():
        if line.startswith("s "):
            flags = set(line.split()[1:])
            kind = {(1, 1): "guard-exit", (1, 0): "guard", (0, 1): "exit", (0, 0): "middle"}[
                int("Guard" in flags), int("Exit" in flags)
            ]
        elif line.startswith("w Bandwidth=") and kind is not None:
            found[kind].append(int(line.removeprefix("w Bandwidth=").split()[0]))
            kind = None
    return {kind: sorted(weights) for kind, weights in found.items()}


def draw_class(weights: Sequence[int], count: int, random_: random.Random) -> list[int]:
    """Draw ``count`` weights as Shadow's generator does, descending.

    The relays, sorted by weight, are cut into as many parts of equal number; one is drawn of each part.
    """
    if len(weights) < count:
        raise ResultsError(f"the consensus has {len(weights)} relays of a class of which {count} are needed")
    bounds = [len(weights) * part // count for part in range(count + 1)]
    return sorted((weights[random_.randrange(low, high)] for low, high in pairwise(bounds)), reverse=True)


def draw_relays(rules: NetworkRules, number: int, middles: int) -> list[Relay]:
    """The relays of sampled network ``number`` with so many middles."""
    population = weights_by_class(_core.synth(json.dumps({"year": rules.year, "seed": rules.first_seed + number})))
    random_ = random.Random(f"swrr {rules.first_seed + number}")
    drawn = {kind: draw_class(population[kind], rules.relays[kind], random_) for kind in FLAGS if kind != "middle"}
    chosen = draw_class(population["middle"], rules.middles_drawn, random_)[:middles]
    if rules.even_links:
        chosen = [max(1, round(sum(chosen) / middles))] * middles
    unit = rules.middle_link * middles / sum(chosen)
    # With as much weight as all others together the middles have the middle position to themselves.
    scale = sum(map(sum, drawn.values())) / sum(chosen) if rules.scale_middles else 1
    relays = [
        Relay(f"{kind}{index}", kind, weight, max(rules.least_link, 1000 * weight))
        for kind, weights in drawn.items()
        for index, weight in enumerate(weights, 1)
    ]
    for index, weight in enumerate(chosen, 1):
        link = max(rules.least_link, round(weight * unit))
        if rules.limit_by_tor:
            relays.append(Relay(f"middle{index}", "middle", max(1, round(scale * weight)), 4 * link, link))
        else:
            relays.append(Relay(f"middle{index}", "middle", max(1, round(scale * weight)), link))
    return relays


def document(rules: NetworkRules, number: int, middles: int) -> str:
    """The network document of sampled network ``number`` with so many middles, a host a line."""
    relays = [_relay(relay, index) for index, relay in enumerate(draw_relays(rules, number, middles))]
    server = f"{rules.server_link} B/s"
    servers = [{"name": f"server{index}", "up": server, "down": server} for index in range(1, rules.servers + 1)]
    delay = {"access-delay": rules.client_delay} if rules.client_delay else {}
    clients = [
        {"name": f"{group}{index}", "group": group, **delay}
        for group, count in rules.clients.items()
        for index in range(1, count + 1)
    ]
    head: dict[str, Any] = {
        "format": "onionlab-network",
        "version": 1,
        "source": f"table 1 of the SWRR paper, sampled network {number}, {middles} middles",
        "distinct-subnets": False,
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, rows in (("relays", relays), ("servers", servers), ("clients", clients)):
        body = ",\n  ".join(json.dumps(row) for row in rows)
        lines.append(f"{json.dumps(key)}: [\n  {body}\n ]")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def _relay(relay: Relay, index: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": relay.name,
        "flags": " ".join(sorted(f"{COMMON_FLAGS} {FLAGS[relay.kind]}".split())),
        "address": f"10.{index}.0.1",
        "weight": relay.weight,
        "up": f"{relay.link} B/s",
        "down": f"{relay.link} B/s",
    }
    return row if relay.limit is None else row | {"rate": f"{relay.limit} B/s", "burst": f"{max(16_384, relay.limit)} B"}


def experiment(variant: Variant, number: int, middles: int) -> str:
    """The experiment file of one sampled network: all treatments of ``variant``."""
    load = variant.load
    lines = [
        "# Written by `onionlab reproduce swrr`: one sampled network of table 1. The hosts are in network.json.",
        f'title = "SWRR, {variant.name}: {middles} middles, sampled network {number}"',
        f'duration = "{load.duration} s"',
        f'measure-from = "{load.measure_from} s"',
        f"base-seed = {variant.network.first_seed + number}",
        f'sample-interval = "{load.sample_interval} s"',
        "",
        "[network]",
        'kind = "file"',
        'path = "network.json"',
        "jitter = false",
    ]
    for group, starts, what in (
        ("bulk", load.bulk_start, f'{{ kind = "bulk", size = "{load.bulk_size} B" }}'),
        ("web", load.web_start, f'{{ kind = "web", size = "{load.web_size} B", pause = {load.pause} }}'),
    ):
        lines += [
            "",
            "[[clients]]",
            f'group = "{group}"',
            f'start = {{ from = "{starts[0]} s", to = "{starts[1]} s" }}',
            f'timeout = "{load.timeout} s"',
            f'stall = "{load.stall} s"',
            f"load = {what}",
        ]
    lines += ["", "[base]", *runs.settings(variant.base)]
    for name, settings in variant.treatments.items():
        lines += ["", "[[treatments]]", f"name = {json.dumps(name)}", *runs.settings(settings)]
    return "\n".join([*lines, ""])
