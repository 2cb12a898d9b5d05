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
from onionlab.reproductions.salsa_documents import Document, entries, flags, text_of, weight

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
    for start in range(0, size, BLOCK):
        rows = slice(start, start + BLOCK)
        entry = np.outer(network.guard[rows], network.middle)
        last = np.outer(network.middle[rows], end)
        pairs = np.outer(network.count[rows], network.count)
        if not directed:
            entry = entry + np.outer(network.middle[rows], network.guard)
            last = last + np.outer(end[rows], network.middle)
            pairs = pairs / 2
        # A relay and itself are no pair; a relay twice in a circuit makes a link to itself in the paper's model, however.
        own = np.arange(start, min(start + BLOCK, size))
        for part, chance in (("entry", entry), ("last", last), ("whole", entry + last)):
            sums[part] += _links(chance, pairs, circuits)
            if not directed:
                at = chance[own - start, own]
                count = network.count[own]
                # Half of each of these was counted with the chance of a pair of two relays.
                sums[part] += _links(at / 2, count, circuits) - _links(at, count / 2, circuits)
    return {part: float(100 * (links - once) / links) for part, (links, once) in sums.items()}


def _links(chance: Array, pairs: Array, circuits: int) -> Array:
    """Expected links, and links with one circuit, of so many pairs each."""
    missed = np.log1p(-chance)
    links = np.sum(pairs * -np.expm1(circuits * missed))
    once = np.sum(pairs * circuits * chance * np.exp((circuits - 1) * missed))
    return np.array([links, once])
