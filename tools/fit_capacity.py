#!/usr/bin/env python3
"""Fit link rate against consensus weight; print the parameters of `crates/directory/src/capacity.rs`.

    tools/fit_capacity.py NETWORK.json.xz...

Each file is a network of the artifact of "Once is Never Enough" (Jansen, Tracey, Goldberg, USENIX Security 2021): a JSON object
whose `relays` have a role, a consensus weight and a link rate (`up_bytes_s`, equal to `down_bytes_s`). Rate and weight are
divided by their network's mean (weights of different networks have different units), then the logarithm of one is regressed on
the logarithm of the other, by class, over all networks together. Standard library only.
"""

from __future__ import annotations

import json
import lzma
import math
import sys

ROLES = ["guard", "middle", "exit", "exitguard"]


def fit(points: list[tuple[float, float]]) -> tuple[float, float, float, float]:
    """Least squares y = a + b x: exp(a), b, standard deviation of the residuals, R squared."""
    n = len(points)
    mean_x, mean_y = (sum(point[i] for point in points) / n for i in (0, 1))
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    yy = sum((y - mean_y) ** 2 for _, y in points)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    slope = xy / xx
    intercept = mean_y - slope * mean_x
    residual = math.sqrt(sum((y - intercept - slope * x) ** 2 for x, y in points) / (n - 2))
    return math.exp(intercept), slope, residual, xy * xy / (xx * yy)


def main() -> None:
    """Print the fit of each class."""
    points: dict[str, list[tuple[float, float]]] = {role: [] for role in ROLES}
    for path in sys.argv[1:]:
        with lzma.open(path) as file:
            relays = json.load(file)["relays"]
        mean_weight = sum(relay["weight"] for relay in relays) / len(relays)
        mean_rate = sum(relay["up_bytes_s"] for relay in relays) / len(relays)
        for relay in relays:
            relative = math.log(relay["weight"] / mean_weight), math.log(relay["up_bytes_s"] / mean_rate)
            points[relay["role"]].append(relative)
    for role in ROLES:
        factor, exponent, residual, r_squared = fit(points[role])
        print(
            f"    Fit {{ factor: {factor:.4f}, exponent: {exponent:.4f}, residual: {residual:.3f}, "
            f"r_squared: {r_squared:.3f}, relays: {len(points[role])} }}, // {role}"
        )


if __name__ == "__main__":
    main()
