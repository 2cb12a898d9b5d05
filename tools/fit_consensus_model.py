#!/usr/bin/env python3
"""Fit the synthetic network to real consensuses; print the model as JSON.

    tools/fit_consensus_model.py FOLDER > crates/directory/model/consensus.json

FOLDER holds consensus documents `md-YYYY-MM-DD.xz` (one per year is taken, 2021 on) and one unflavoured
`ns-*.xz`, whose exit-policy summaries serve all years. Standard library only. What is fitted:

- relays and mean consensus weight of each class (guard, middle, exit, guard-exit);
- quantiles of consensus weight within a class (piecewise log-linear between them), and the significant digits to which
  the authorities round weights;
- the chance of each flag that the class does not imply; relays without Fast are the lightest of their class;
- shares of versions and OR ports (the commonest; the rest is shared among them);
- addresses as a two-level Pitman-Yor process: discount and concentration of the /16 networks from the number of
  distinct ones and of those with a single relay, discount of the /24 networks within a /16 from the number of distinct
  /24, and the chance that a relay shares its address with another of its /24;
- exit policies: the commonest summaries of each class.
"""

from __future__ import annotations

import collections
import json
import lzma
import math
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: One relay of a consensus: what its lines say, by name.
Relay = dict[str, Any]

# Denser towards the top, where most of the weight is.
LEVELS = [
    *(0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    *(0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 1),
]
CLASSES = ["guard", "middle", "exit", "guard-exit"]
FLAGS = ["Stable", "V2Dir", "HSDir", "StaleDesc", "BadExit", "MiddleOnly"]


def relay_class(flags: Iterable[str]) -> str:
    """Return the class that the flags make of a relay."""
    flags = set(flags)
    is_exit, is_guard = "Exit" in flags and "BadExit" not in flags, "Guard" in flags
    return CLASSES[3 if is_exit and is_guard else 2 if is_exit else 0 if is_guard else 1]


def read(path: pathlib.Path) -> tuple[dict[str, str], list[Relay]]:
    """Return header and relays of a consensus document."""
    relays: list[Relay] = []
    header: dict[str, str] = {}
    with lzma.open(path, "rt") as file:
        lines = file.read().splitlines()
    for line in lines:
        keyword, _, rest = line.partition(" ")
        words = rest.split()
        if keyword in ("valid-after", "consensus-method", "params"):
            header[keyword] = rest
        elif keyword == "r":
            relays.append({"address": words[-3], "port": int(words[-2]), "version": None})
        elif keyword == "s":
            relays[-1]["flags"] = set(words)
            relays[-1]["class"] = relay_class(words)
        elif keyword == "v":
            relays[-1]["version"] = words[1] if words[0] == "Tor" else None
        elif keyword == "w":
            relays[-1]["weight"] = int(words[0].removeprefix("Bandwidth="))
            relays[-1]["unmeasured"] = "Unmeasured=1" in words
        elif keyword == "p":
            relays[-1]["policy"] = rest
        elif keyword == "directory-footer":
            break
    return header, relays


def quantile(ordered: Sequence[float], level: float) -> float:
    """Return a quantile, log-linear between two values."""
    position = level * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    a, b = (math.log(max(ordered[i], 0.5)) for i in (low, high))
    return math.exp(a + (b - a) * (position - low))


def digits(relays: list[Relay]) -> int:
    """Return the fewest significant digits that 99 % of the weights above 10,000 need."""
    large = [relay["weight"] for relay in relays if relay["weight"] > 10_000]
    needed = sorted(len(str(weight).rstrip("0")) for weight in large)
    return needed[int(0.99 * (len(needed) - 1))]


def shares(values: Iterable[Any], count: int) -> list[list[Any]]:
    """Return the commonest values with their shares."""
    counts = collections.Counter(values)
    total = sum(counts.values())
    return [[value, round(n / total, 4)] for value, n in counts.most_common(count)]


def expected_clusters(n: int, discount: float, concentration: float) -> float:
    """Return the expected number of clusters among n draws of a Pitman-Yor process."""
    if n == 0:
        return 0.0
    d, t = discount, concentration
    log = math.lgamma(t + 1) - math.lgamma(t + d) + math.lgamma(n + t + d) - math.lgamma(n + t)
    return math.exp(log) / d - t / d


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of an increasing function."""
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


def addresses(relays: list[Relay]) -> dict[str, float]:
    """Fit how relays share networks and addresses."""

    def counts(parts: int) -> collections.Counter[str]:
        return collections.Counter(".".join(relay["address"].split(".")[:parts]) for relay in relays)

    by16, by24, by_address = counts(2), counts(3), counts(4)
    discount = sum(1 for n in by16.values() if n == 1) / len(by16)
    concentration = bisect(lambda t: expected_clusters(len(relays), discount, t) - len(by16), 0.001, 10_000)
    sizes = list(by16.values())
    discount24 = bisect(lambda d: sum(expected_clusters(n, d, 1.0) for n in sizes) - len(by24), 0.001, 0.999)
    shared = (len(relays) - len(by_address)) / (len(relays) - len(by24))
    return {
        "discount_16": round(discount, 4),
        "concentration_16": round(concentration, 2),
        "discount_24": round(discount24, 4),
        "shared_address": round(shared, 4),
        "most_per_address": max(by_address.values()),
    }


def year_model(path: pathlib.Path) -> dict[str, Any]:
    """Fit one document."""
    header, relays = read(path)
    classes = {}
    for name in CLASSES:
        members = [relay for relay in relays if relay["class"] == name]
        weights = sorted(relay["weight"] for relay in members)
        held = {flag: sum(flag in relay["flags"] for relay in members) / len(members) for flag in FLAGS}
        classes[name] = {
            "relays": len(members),
            "mean_weight": round(sum(weights) / len(weights), 2),
            "quantiles": [float(f"{quantile(weights, level):.4g}") for level in LEVELS],
            "fast": round(sum("Fast" in relay["flags"] for relay in members) / len(members), 4),
            "unmeasured": round(sum(relay["unmeasured"] for relay in members) / len(members), 4),
            "flags": {flag: round(share, 4) for flag, share in held.items() if share > 0},
        }
    return {
        "valid_after": header["valid-after"],
        "method": int(header["consensus-method"]),
        "params": header["params"],
        "digits": digits(relays),
        "classes": classes,
        "versions": shares([r["version"] for r in relays if r["version"]], 10),
        "or_ports": shares([r["port"] for r in relays], 8),
        "addresses": addresses(relays),
    }


def main() -> None:
    """Print the model of all years."""
    folder = pathlib.Path(sys.argv[1])
    years = {}
    for path in sorted(folder.glob("md-20*.xz")):
        year = int(path.name.removeprefix("md-")[:4])
        if year >= 2021:
            years[year] = year_model(path)
    policies = {}
    _, relays = read(sorted(folder.glob("ns-*.xz"))[-1])
    for name in CLASSES:
        of_class = [relay["policy"] for relay in relays if relay["class"] == name]
        policies[name] = shares(of_class, 10 if "exit" in name else 4)
    model = {"levels": LEVELS, "first_year": min(years), "years": [years[y] for y in sorted(years)], "policies": policies}
    assert sorted(years) == list(range(min(years), max(years) + 1)), "one document a year, no gap"
    # One line per list of numbers, so that a change of the model can be read as a difference.
    text = json.dumps(model, indent=1)
    print(re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda match: "[" + re.sub(r",\s+", ", ", match[1]) + "]", text))


if __name__ == "__main__":
    main()
