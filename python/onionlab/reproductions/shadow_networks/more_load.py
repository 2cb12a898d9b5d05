"""What a fifth more load changes in a published network: each quantile's ratio, ours beside theirs.

Ours is one network run twice, so clients are paired: an interval is the bootstrap's over clients, each drawn with all its
downloads under both loads (Efron and Tibshirani 1993, chapter 13, percentiles). Theirs are other networks for each load: the
ratio of the means over all that have the figure, with the standard error of such a ratio. Whether the two differ is Welch's
test of the logarithms: that two ranges of 95 % meet would show less. Theirs says how the mean moves, and no network of theirs
was run with both loads; so what ours has with more load stands beside the spread between their networks with it, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onionlab.errors import ResultsError, UntrustedError
from onionlab.reproductions.kept import Made
from onionlab.reproductions.shadow_networks.spread import Placed, Target, spread
from onionlab.reproductions.shadow_networks.transfer_times import Observed, errors, times, times_by_client
from onionlab.stats.intervals import Floats, lower_quantile
from onionlab.untrusted import read_json

#: The other load of the published simulations.
MORE_LOAD = 1.2

#: Quantiles that are shown: outer ones hang on few downloads.
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)

#: Confidence of the intervals and of the test.
CONFIDENCE = 0.95

#: Draws of the bootstrap, and the seed of its random numbers.
DRAWS, SEED = 2000, 1


@dataclass(frozen=True)
class Ratio:
    """A quantile with more load over the same with the usual one.

    Attributes
    ----------
    ours, low, high
        Ours, and its interval by the bootstrap over clients.
    spread, clients
        Standard error of its logarithm by the same bootstrap, and of how many clients.
    theirs, error, networks
        Theirs, its standard error, and of how many networks (with the load that has fewer).
    """

    ours: float
    low: float
    high: float
    spread: float
    clients: int
    theirs: float
    error: float
    networks: int

    @property
    def agrees(self) -> bool:
        """Whether ours and theirs do not differ, by Welch's test of the logarithms."""
        from scipy.special import stdtrit

        own, other = self.spread**2, (self.error / self.theirs) ** 2
        if own + other == 0:
            return self.ours == self.theirs
        freedom = (own + other) ** 2 / (own**2 / (self.clients - 1) + other**2 / (self.networks - 1))
        reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(own + other)
        return abs(math.log(self.ours / self.theirs)) <= reach

    @property
    def moved(self) -> tuple[bool, bool]:
        """Whether more load makes a difference at all, here and there: whether 1 is outside the interval."""
        from scipy.special import stdtrit

        reach = float(stdtrit(self.networks - 1, (1 + CONFIDENCE) / 2)) * self.error
        return not self.low <= 1 <= self.high, abs(self.theirs - 1) > reach


@dataclass(frozen=True)
class Effect:
    """One network under both loads.

    Attributes
    ----------
    name
        As the reference's files are called.
    minutes, measure_from
        Simulated, and when statistics began, both in minutes.
    ratios
        By metric and size, in the order of `QUANTILES`.
    loaded
        The run with more load, over the whole of it, beside their networks with more load: as ``ratios``.
    failed
        Mean share of failed downloads over clients, ours with the usual load and with more, each over the whole of its run.
    lasted
        How long these runs were, in minutes.
    made
        By which code the run with more load was made.
    """

    name: str
    minutes: float
    measure_from: float
    ratios: dict[tuple[str, str], tuple[Ratio, ...]]
    loaded: dict[tuple[str, str], tuple[Placed, ...]]
    failed: tuple[float, float]
    lasted: tuple[float, float]
    made: tuple[Made, ...]

    @property
    def agreeing(self) -> tuple[int, int]:
        """How many ratios agree, and how many there are."""
        found = [ratio for row in self.ratios.values() for ratio in row]
        return sum(ratio.agrees for ratio in found), len(found)

    @property
    def moved(self) -> tuple[int, int]:
        """At how many of them more load makes a difference, here and there."""
        found = [ratio.moved for row in self.ratios.values() for ratio in row]
        return sum(ours for ours, _ in found), sum(theirs for _, theirs in found)

    @property
    def within(self) -> tuple[int, int]:
        """How many quantiles with more load lie within the spread between their networks with it, and how many there are."""
        found = [placed for row in self.loaded.values() for placed in row]
        return sum(placed.within for placed in found), len(found)


def effect(name: str, reference: Path, usual: Observed, more: Observed) -> Effect:
    """Compare two finished runs of a network, which differ in their load, and perhaps in how long they are.

    Downloads count that began a time-out before the end; if one run is longer, before that of the other. What failed, and what
    stands beside their networks with more load, is counted over the whole of each, as with the usual load alone.
    """
    scale = f"{name.split('pct')[0]}%"
    try:
        targets = read_json(reference / "targets.json")
        positions = [targets["quantiles"].index(q) for q in QUANTILES]
        there = [
            {key: [row[i] for i in positions] for key, row in spread(targets, scale, load).items()} for load in (1.0, MORE_LOAD)
        ]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, UntrustedError) as error:
        raise ResultsError(f"{reference} does not say what more load does to networks of {scale}: {error!r}") from error
    duration = min(usual.duration, more.duration)
    before, after = (run.until(duration).perf for run in (usual, more))
    whole = [run.beside_theirs().perf for run in (usual, more)]
    random = np.random.default_rng(SEED)
    ratios, loaded, observed = {}, {}, times(whole[1])
    for key in there[0]:
        ours = _ratios(times_by_client(before, *key), times_by_client(after, *key), random)
        if ours is not None:
            theirs = (_theirs(*pair) for pair in zip(there[0][key], there[1][key], strict=True))
            ratios[key] = tuple(Ratio(*own, *pair) for own, pair in zip(ours, theirs, strict=True))
            loaded[key] = tuple(
                Placed(lower_quantile(observed[key], q), target) for q, target in zip(QUANTILES, there[1][key], strict=True)
            )
    return Effect(
        name=name,
        minutes=duration / 60,
        measure_from=usual.measure_from / 60,
        ratios=ratios,
        loaded=loaded,
        failed=(float(np.mean(errors(whole[0]))), float(np.mean(errors(whole[1])))),
        lasted=(usual.duration / 60, more.duration / 60),
        made=more.made,
    )


def _theirs(usual: Target, more: Target) -> tuple[float, float, int]:
    """Ratio of the means over networks, its standard error by the delta method, and how many these are with the load of fewer."""
    ratio = more.mean / usual.mean
    errors = (of.sd / of.mean / math.sqrt(of.networks) for of in (usual, more))
    return ratio, ratio * math.hypot(*errors), min(usual.networks, more.networks)


def _ratios(
    before: dict[str, Floats], after: dict[str, Floats], random: np.random.Generator
) -> list[tuple[float, float, float, float, int]] | None:
    """Ratio, interval, standard error of the logarithm and number of clients at each quantile.

    None where fewer than two clients have a download with both loads.
    """
    clients = sorted(before.keys() & after.keys())
    if len(clients) < 2:
        return None

    def quantiles(drawn: list[str]) -> list[float]:
        both = [np.sort(np.concatenate([times[client] for client in drawn])) for times in (after, before)]
        return [lower_quantile(both[0], q) / lower_quantile(both[1], q) for q in QUANTILES]

    draws = np.array([quantiles([clients[i] for i in random.integers(len(clients), size=len(clients))]) for _ in range(DRAWS)])
    low, high = np.quantile(draws, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2), axis=0)
    spread = np.log(draws).std(axis=0, ddof=1)
    return [
        (*found, len(clients)) for found in zip(quantiles(clients), low.tolist(), high.tolist(), spread.tolist(), strict=True)
    ]
