# ruff: noqa: E501  (sentences)
"""What tgen 1.0.0 makes its Markov clients do, which depends on its seeds alone, as a file that `load = { kind = "replay" }` reads.

    python tools/shadow_113/tgen.py FOLDER traffic.json

``FOLDER``: what `make.py` has written, or its ``conf``. A client has one generator of numbers, GLib's Mersenne Twister, of which each walk through a model takes a seed when it begins; a walk has a generator of its own (`tgen-generator.c`, `tgen-markovmodel.c`).
When which circuit and which stream begins depends on the models, not on the network, so all of it is known beforehand. Of 11,868 streams that ended well in the logs of eleven clients 9,953 had these bytes, both ways, within 0.6 ms of these times; the others were cut short by their servers.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

#: What an observation of a packet writes; the longest delay in microseconds.
PACKET, LONGEST = 1434, 600_000_000
#: A stream of more packets than this cannot be sent within a run.
MOST_PACKETS = 400_000
T = TypeVar("T")
NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"


class Random:
    """GLib's ``GRand``."""

    def __init__(self, seed: int) -> None:
        self._twister = np.random.RandomState(seed & 0xFFFF_FFFF)
        self._drawn: Iterator[int] = iter(())
        self._next = 32

    def whole(self) -> int:
        """``g_rand_int``."""
        for value in self._drawn:
            return value
        self._drawn = iter(self._twister.randint(0, 2**32, size=self._next, dtype=np.uint32).tolist())
        self._next = min(2 * self._next, 65_536)
        return self.whole()

    def fraction(self) -> float:
        """``g_rand_double``."""
        while True:
            value = self.whole() * 2.0**-32
            value = (value + self.whole()) * 2.0**-32
            if value < 1.0:
                return value

    def above_nothing(self) -> float:
        """``_tgenmarkovmodel_getUniform``."""
        while (value := self.fraction()) <= sys.float_info.min:
            pass
        return value


class Choice(Generic[T]):
    """Things with weights, in the order of the model's file."""

    def __init__(self, weighted: list[tuple[float, T]]) -> None:
        self._sums = list(itertools.accumulate(weight for weight, _ in weighted))
        self._things = [thing for _, thing in weighted]

    def draw(self, random: Random) -> T:
        """``_tgenmarkovmodel_chooseEdge``."""
        return self._things[bisect_left(self._sums, random.fraction() * self._sums[-1])]


@dataclass(frozen=True)
class Emission:
    """What a state emits, and the law of the delay behind it."""

    symbol: str
    law: str
    location: float
    scale: float
    rate: float

    def delay(self, random: Random) -> int:
        """Microseconds (``_tgenmarkovmodel_generateDelay``)."""
        if self.law == "exponential":
            value = -math.log(random.above_nothing()) / self.rate
        else:
            radius = math.sqrt(-2 * math.log(random.above_nothing()))
            value = math.exp(min(700.0, self.location + self.scale * radius * math.cos(2 * math.pi * random.above_nothing())))
        return min(math.floor(value + 0.5), LONGEST)


class Model:
    """A hidden Markov model from its GraphML."""

    def __init__(self, path: Path) -> None:
        nodes, edges = _graph(path)
        names = {node: of["name"] for node, of in nodes.items()}
        states: dict[str, list[tuple[float, str]]] = {}
        emissions: dict[str, list[tuple[float, Emission]]] = {}
        for source, target, of in edges:
            weight = float(of["weight"])
            if of["type"] == "transition":
                states.setdefault(source, []).append((weight, target))
                continue
            location, scale, rate = (float(of.get(f"param_{name}", 0)) for name in ("location", "scale", "rate"))
            emission = Emission(names[target], of["distribution"], location, scale, rate)
            emissions.setdefault(source, []).append((weight, emission))
        self._states = {state: Choice(weighted) for state, weighted in states.items()}
        self._emissions = {state: Choice(weighted) for state, weighted in emissions.items()}

    def walk(self, seed: int) -> Iterator[tuple[bool, int]]:
        """Observations up to the end: whether to the server, and the delay behind it."""
        random, state = Random(seed), "start"
        while True:
            state = self._states[state].draw(random)
            emission = self._emissions[state].draw(random)
            delay = emission.delay(random)
            if emission.symbol not in "+-":
                return
            yield emission.symbol == "+", delay


def _graph(path: Path) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, dict[str, str]]]]:
    """Nodes and edges with their attributes."""
    root = ElementTree.parse(path).getroot()
    keys = {key.get("id"): key.get("attr.name", "") for key in root.iter(f"{NAMESPACE}key")}

    def attributes(element: ElementTree.Element) -> dict[str, str]:
        return {keys[data.get("key")]: data.text or "" for data in element.findall(f"{NAMESPACE}data")}

    nodes = {node.get("id", ""): attributes(node) for node in root.iter(f"{NAMESPACE}node")}
    edges = [(edge.get("source", ""), edge.get("target", ""), attributes(edge)) for edge in root.iter(f"{NAMESPACE}edge")]
    return nodes, edges


@dataclass
class Flow:
    """A circuit's streams: when each begins, in microseconds, and its writes."""

    at: int
    walk: Iterator[tuple[bool, int]]
    streams: list[dict[str, object]] = field(default_factory=list)


def client(file: Path, models: dict[str, Model], until: int) -> list[dict[str, object]]:
    """What one client does in so many microseconds."""
    nodes, _ = _graph(file)
    start = int(re.findall(r"\d+", nodes["start"]["time"])[0]) * 1_000_000
    random = Random(int(nodes["traffic"]["markovmodelseed"]))
    circuits = models["flow"].walk(random.whole())
    flows: list[Flow] = []
    ordinals = itertools.count()
    due: list[tuple[int, int, Flow | None]] = [(start, next(ordinals), None)]
    while due:
        now, _, flow = heapq.heappop(due)
        if now > until:
            break
        if flow is None:
            if (observed := next(circuits, None)) is not None:
                heapq.heappush(due, (now + observed[1], next(ordinals), None))
            flow = Flow(now, models["stream"].walk(random.whole()))
            flows.append(flow)
        if (observed := next(flow.walk, None)) is None:
            continue
        packets = itertools.islice(models["packet"].walk(random.whole()), MOST_PACKETS)
        flow.streams.append({"at": now, "writes": [(-PACKET if up else PACKET, delay) for up, delay in packets]})
        heapq.heappush(due, (now + observed[1], next(ordinals), flow))
    return [{"at": flow.at, "streams": flow.streams} for flow in flows]


def traffic(conf: Path, seconds: int) -> dict[str, object]:
    """What all Markov clients do, whose files are ``tgen.markovN.graphml``."""
    models = {kind: Model(conf / f"{kind}.graphml") for kind in ("flow", "stream", "packet")}
    clients = {
        f"markovclient{file.name.split('.')[1].removeprefix('markov')}": client(file, models, seconds * 1_000_000)
        for file in sorted(conf.glob("tgen.markov*.graphml"))
    }
    return {"format": "onionlab-traffic", "version": 1, "clients": clients}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=int, default=1080, help="of load")
    given = parser.parse_args()
    conf = given.folder / "conf" if (given.folder / "conf").is_dir() else given.folder
    given.out.write_text(json.dumps(traffic(conf, given.seconds), separators=(",", ":")))


if __name__ == "__main__":
    main()
