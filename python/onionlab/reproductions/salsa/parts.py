"""The expected share of shared links, from the formula, by part of the circuit: guard to middle, middle to last.

The simulator's own expectation counts whole circuits and is a different computation in another language; that both agree on whole
circuits is tested.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onionlab import _core
from onionlab.reproductions.salsa.documents import Document, entries, flags, text_of, weight

Array = npt.NDArray[np.float64]

#: Rows of the matrix of pairs that are in memory at once.
BLOCK = 128


@dataclass(frozen=True)
class Chances:
    """Relays that are drawn alike, by the chance of one of them in each position; ``count`` is how many they are."""

    guard: Array
    middle: Array
    exit: Array
    count: Array

    @property
    def one_relay_twice(self) -> float:
        """Chance that an external circuit has one relay in two positions."""
        twice = self.guard * self.middle + self.middle * self.exit + self.guard * self.exit
        return float(np.sum(self.count * (twice - 2 * self.guard * self.middle * self.exit)))


def chances(document: Document) -> Chances:
    """Chances of all relays of a document, from its own weights by flags."""
    summary = json.loads(_core.consensus_summary(str(document.path)))
    factors = {row["class"]: row["factors"] for row in summary["classes"]}
    rows = []
    for entry in entries(text_of(document.path))[1]:
        marks = flags(entry)
        guard, leaves = "Guard" in marks, "Exit" in marks and "BadExit" not in marks
        kind = {(True, True): "guard-exit", (True, False): "guard", (False, True): "exit", (False, False): "middle"}[
            guard, leaves
        ]
        by_position = factors.get(kind, [0.0, 0.0, 0.0])
        size = weight(entry)
        rows.append((size * by_position[0] * guard, size * by_position[1], size * by_position[2] * leaves))
    table = np.array(rows)
    alike, count = np.unique(table / table.sum(axis=0), axis=0, return_counts=True)
    return Chances(alike[:, 0], alike[:, 1], alike[:, 2], count.astype(np.float64))


def shares(network: Chances, circuits: int, *, internal: bool, directed: bool) -> dict[str, float]:
    """Expected shared links in percent of the expected links: ``entry``, ``last`` and ``whole``."""
    end = network.middle if internal else network.exit
    sums = {part: np.zeros(2) for part in ("entry", "last", "whole")}
    size = len(network.count)
    nothing = np.zeros((1, 1))
    for start in range(0, size, BLOCK):
        rows = slice(start, min(start + BLOCK, size))
        entry = np.outer(network.guard[rows], network.middle)
        last = np.outer(network.middle[rows], end)
        pairs = np.outer(network.count[rows], network.count)
        both = nothing
        if not directed:
            entry = entry + np.outer(network.middle[rows], network.guard)
            last = last + np.outer(end[rows], network.middle)
            pairs = pairs / 2
            # There and back: a circuit whose guard is its last relay too puts both parts on one link.
            back = network.guard * end
            both = np.outer(back[rows], network.middle) + np.outer(network.middle[rows], back)
        at = np.arange(start, rows.stop)
        for part, chance, twice in (("entry", entry, nothing), ("last", last, nothing), ("whole", entry + last, both)):
            sums[part] += _links(chance, twice, pairs, circuits)
            if not directed:
                # A relay and itself are one pair with half that chance, and were counted as half a pair with all of it.
                alone, count = chance[at - start, at], network.count[at]
                returns = twice[at - start, at] if twice is both else np.zeros(1)
                sums[part] += _links(alone / 2, returns / 2, count, circuits) - _links(alone, returns, count / 2, circuits)
    return {part: float(100 * (links - once) / links) for part, (links, once) in sums.items()}


def _links(chance: Array, both: Array, pairs: Array, circuits: int) -> Array:
    """Expected links, and links with one part of one circuit, of so many pairs.

    ``chance`` is the mean number of parts that one circuit puts on the pair, ``both`` the chance that it puts two there.
    """
    missed = np.log1p(both - chance)
    links = np.sum(pairs * -np.expm1(circuits * missed))
    once = np.sum(pairs * circuits * (chance - 2 * both) * np.exp((circuits - 1) * missed))
    return np.array([links, once])
