"""The spread between the published networks: mean and standard deviation of each quantile over all of one scale and load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onionlab.reproductions.shadow_networks.transfer_times import SIZES, TIMES

#: Largest distance from the mean over their networks, in standard deviations between networks, of a figure within the spread.
SPREAD = 2.0


@dataclass(frozen=True)
class Target:
    """A quantile over the networks that were sampled at one scale: mean, standard deviation between networks, and their number.

    A network without a download of that size that was completed is not among them.
    """

    mean: float
    sd: float
    networks: int


@dataclass(frozen=True)
class Placed:
    """A quantile of ours, and what their networks have of it."""

    ours: float
    target: Target

    @property
    def distance(self) -> float:
        """From the mean over their networks, in standard deviations between networks."""
        return (self.ours - self.target.mean) / self.target.sd if self.target.sd > 0 else math.inf

    @property
    def within(self) -> bool:
        """Whether ours lies within the spread between their networks."""
        return abs(self.distance) <= SPREAD


def spread(targets: Mapping[str, Any], scale: str, load: float) -> dict[tuple[str, str], tuple[Target, ...]]:
    """What ``targets.json`` says of the networks of a scale under a load: by metric and size, in the order of its quantiles.

    Raises
    ------
    LookupError, TypeError, ValueError
        If it does not say it.
    """
    of_scale = targets["shadow"][f"{scale} load {load:.1f}"]
    found = {}
    for key in ((metric, size) for metric in TIMES for size in SIZES):
        row = of_scale[".".join(key)]
        networks = int(row["runs"])
        found[key] = tuple(Target(float(mean), float(sd), networks) for mean, sd in zip(row["mean"], row["sd"], strict=True))
    return found
