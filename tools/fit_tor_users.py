#!/usr/bin/env python3
"""Fit the compact model of Tor's users; print the constants of `crates/load/src/tor_users.rs` and how well they fit.

    tools/fit_tor_users.py STREAM-MODEL.json PACKET-MODEL.json [--charts DIRECTORY]

The files are the hidden Markov models of "Privacy-Preserving Dynamic Learning of Tor Network Traffic" (Jansen, Traudt, Hopper,
CCS 2018): streams within a circuit, packets within a stream. They are drawn from as tgen 1.x does, and the draws are summed up as

- streams of a circuit, and the delays between them;
- packets of a stream to the server and to the client, its rounds (delays of more than 10 ms, at least one), and those delays.

Streams are fitted by a mixture of kinds (expectation maximisation of the likelihood of rounds and packets together): a stream
of a kind has a geometric number of rounds, each with geometric numbers of packets either way, and one packet more to the server
in the first; its delays are log-normal above 10 ms, and 10 minutes at most. Circuits are fitted by a mixture of two geometric
numbers of streams, and delays between streams by a mixture of an exponential and a log-normal one. Factors on the packets and
rounds of all kinds then make the means those of the chains, which are known exactly (fundamental matrix).
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import optimize, special, stats

Array: TypeAlias = np.ndarray[Any, Any]

LONGEST = 600e6
"""No delay of tgen is longer (microseconds)."""
AT_ONCE = 10e3
"""tgen leaves shorter delays within a stream out (microseconds)."""
PACKET = 1434
"""Bytes of a packet (TGEN_MMODEL_PACKET_DATA_SIZE)."""
BINS = np.linspace(np.log(AT_ONCE), np.log(LONGEST), 61)
"""Edges of the histogram of the logarithms of a stream's delays; those of ten minutes lie in the last."""


class Chain:
    """A hidden Markov model: states, what they emit, and the delay behind each emission."""

    def __init__(self, model: dict[str, Any]) -> None:
        states, symbols = model["state_space"], model["observation_space"]
        index = {state: i for i, state in enumerate(states)}
        n = len(states)
        self.end = symbols.index("F")
        self.symbols = symbols
        self.start, self.step, self.emit = np.zeros(n), np.zeros((n, n)), np.zeros((n, len(symbols)))
        self.mu, self.sigma, self.rate = (np.zeros((n, len(symbols))) for _ in range(3))
        for state, chance in model["start_probability"].items():
            self.start[index[state]] = chance
        for state, row in model["transition_probability"].items():
            for after, chance in row.items():
                self.step[index[state], index[after]] = chance
        for state, row in model["emission_probability"].items():
            for symbol, values in row.items():
                at = index[state], symbols.index(symbol)
                self.emit[at] = values[0]
                if len(values) > 1:
                    self.mu[at], self.sigma[at], self.rate[at] = values[1:]

    def expected(self) -> dict[str, float]:
        """Expected number of each symbol until the end, by the fundamental matrix."""
        visits = self.start @ np.linalg.inv(np.eye(len(self.start)) - self.step)
        return dict(zip(self.symbols, visits @ self.emit, strict=True))

    def walks(self, count: int, rng: np.random.Generator) -> Iterator[tuple[Array, Array, Array]]:
        """Draws `count` sequences together: yields (who is not at its end, symbols, delays in microseconds) for each step."""
        state = np.minimum(np.searchsorted(np.cumsum(self.start), rng.random(count)), len(self.start) - 1)
        steps, emits = np.cumsum(self.step, axis=1), np.cumsum(self.emit, axis=1)
        alive = np.arange(count)
        while len(alive):
            here = state[alive]
            symbol = np.minimum((emits[here] < rng.random(len(here))[:, None]).sum(1), len(self.symbols) - 1)
            going = symbol != self.end
            alive, here, symbol = alive[going], here[going], symbol[going]
            log_normal = np.exp(self.mu[here, symbol] + self.sigma[here, symbol] * rng.standard_normal(len(here)))
            rate = self.rate[here, symbol]
            exponential = rng.exponential(size=len(here)) / np.where(rate > 0, rate, 1)
            delay = np.minimum(np.round(np.where(rate > 0, exponential, log_normal)), LONGEST)
            yield alive, symbol, delay
            state[alive] = np.minimum((steps[here] < rng.random(len(here))[:, None]).sum(1), len(self.start) - 1)


def draw_streams(chain: Chain, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array, Array]:
    """Packets up and down, rounds, duration in seconds (delays that tgen waits for), histogram of delays."""
    up, down, duration = np.zeros(count), np.zeros(count), np.zeros(count)
    delays = np.zeros((count, len(BINS) - 1), dtype=np.int32)
    to_server = chain.symbols.index("+")
    for alive, symbol, delay in chain.walks(count, rng):
        up[alive] += symbol == to_server
        down[alive] += symbol != to_server
        long = delay > AT_ONCE
        duration[alive[long]] += delay[long] / 1e6
        bins = np.clip(np.searchsorted(BINS, np.log(delay[long]), side="right") - 1, 0, len(BINS) - 2)
        delays[alive[long], bins] += 1
    return up, down, np.maximum(delays.sum(1), 1), duration, delays


def draw_circuits(chain: Chain, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Streams of each circuit, seconds from the first to the last, pairs of delays that follow each other in microseconds."""
    streams, duration, last, pairs = np.zeros(count), np.zeros(count), np.zeros(count), []
    for alive, _, delay in chain.walks(count, rng):
        streams[alive] += 1
        duration[alive] += last[alive] / 1e6
        if len(alive) and streams[alive[0]] > 1:
            pairs.append(np.c_[last[alive], delay])
        last[alive] = delay
    return streams, duration, np.concatenate(pairs)


def log_negative_binomial(count: Array, shape: Array, mean: Array) -> Array:
    """Logarithm of the chance that `shape` geometric numbers from 0, of this mean together, have the sum `count`."""
    chance = shape / (shape + mean)
    logarithm: Array = (
        special.gammaln(count + shape)
        - special.gammaln(shape)
        - special.gammaln(count + 1)
        + shape * np.log(chance)
        + count * np.log1p(-chance)
    )
    return logarithm


def fit_kinds(up: Array, down: Array, rounds: Array, kinds: int) -> tuple[Array, Array]:
    """Weights, mean rounds, mean packets up and down a round of each kind; who belongs to which, as weights."""
    later = np.maximum(up - 1, 0)
    rank = np.argsort(np.argsort(down + 0.1 * up))
    belongs = np.full((len(up), kinds), 0.05 / kinds)
    belongs[np.arange(len(up)), np.minimum(rank * kinds // len(up), kinds - 1)] += 0.95
    before = -np.inf
    for _ in range(1000):
        total = belongs.sum(0)
        all_rounds = (belongs * rounds[:, None]).sum(0)
        weight, mean = total / len(up), all_rounds / total
        ups, downs = (belongs * later[:, None]).sum(0) / all_rounds, (belongs * down[:, None]).sum(0) / all_rounds
        each = np.log(weight) + (rounds[:, None] - 1) * np.log1p(-1 / mean) - np.log(mean)
        each = each + log_negative_binomial(later[:, None], rounds[:, None], ups * rounds[:, None])
        each = each + log_negative_binomial(down[:, None], rounds[:, None], downs * rounds[:, None])
        likelihood = special.logsumexp(each, axis=1)
        belongs = np.exp(each - likelihood[:, None])
        if likelihood.mean() - before < 1e-7:
            break
        before = likelihood.mean()
    return np.c_[weight, mean, ups, downs], belongs


def fit_delays(histogram: Array) -> tuple[float, float]:
    """Log-normal above 10 ms, ten minutes at most: mean and deviation of the logarithm of microseconds, by maximum likelihood."""

    def loss(parameters: Array) -> float:
        mu, sigma = parameters[0], np.exp(parameters[1])
        edges = stats.norm.cdf((BINS - mu) / sigma)
        edges[-1] = 1.0
        chances = np.diff(edges) / max(1 - edges[0], 1e-12)
        return float(-(histogram * np.log(np.maximum(chances, 1e-12))).sum() / histogram.sum())

    # A median far below 10 ms would be another tail than a log-normal one, and slow to draw from.
    bounds = [(6.0, 25.0), (-2.0, 3.0)]
    found = optimize.minimize(loss, [12.0, 1.0], method="Nelder-Mead", bounds=bounds, options={"maxiter": 4000})
    return found.x[0], np.exp(found.x[1])


def fit_counts(count: Array) -> tuple[float, float, float]:
    """A mixture of two geometric numbers from 1: weight of the first, both means."""
    means, weight = np.array([3.0, 15.0]), np.array([0.3, 0.7])
    for _ in range(5000):
        each = np.log(weight) + (count[:, None] - 1) * np.log1p(-1 / means) - np.log(means)
        belongs = np.exp(each - special.logsumexp(each, axis=1)[:, None])
        weight, means = belongs.mean(0), (belongs * count[:, None]).sum(0) / belongs.sum(0)
    return weight[0], means[0], means[1]


def fit_pauses(pairs: Array) -> tuple[float, float, float, float, float]:
    """Exponential and log-normal delays, ten minutes at most; one is of the kind of the one before with some chance.

    Weight and mean in s of the exponential ones; mu, sigma of the others; that chance, by the correlation of the logarithms.
    """
    pairs = np.maximum(pairs, 0.5)
    delay = pairs[:100_000, 1]
    capped = delay >= LONGEST
    log = np.log(delay)

    def loss(parameters: Array) -> float:
        weight, mean = special.expit(parameters[0]), np.exp(parameters[1])
        mu, sigma = parameters[2], np.exp(parameters[3])
        first = np.where(capped, -LONGEST / mean, -delay / mean - np.log(mean) + log)
        second = np.where(capped, stats.norm.logsf((log - mu) / sigma), stats.norm.logpdf((log - mu) / sigma) - np.log(sigma))
        return float(-np.logaddexp(np.log(weight) + first, np.log1p(-weight) + second).mean())

    start = [0.0, np.log(2e6), 10.0, 1.0]
    found = optimize.minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-9, "maxiter": 4000})
    weight, mean, mu, sigma = found.x
    weight = special.expit(weight)
    # The logarithm of an exponential delay has the mean ln(mean) - gamma; only the kinds' means make delays correlate.
    between = weight * (1 - weight) * (mean - np.euler_gamma - mu) ** 2
    same = np.clip(np.cov(np.log(pairs).T)[0, 1] / between, 0, 0.95)
    return weight, np.exp(mean) / 1e6, mu, np.exp(sigma), same


def truncated(mu: Array, sigma: Array, rng: np.random.Generator) -> Array:
    """Log-normal delays above 10 ms, in microseconds, ten minutes at most."""
    below = stats.norm.cdf((np.log(AT_ONCE) - mu) / sigma)
    drawn: Array = np.minimum(np.exp(mu + sigma * stats.norm.ppf(below + (1 - below) * rng.random(len(mu)))), LONGEST)
    return drawn


def draw_compact(table: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Packets up and down, rounds and duration in seconds of streams of the compact model."""
    kind = rng.choice(len(table), count, p=table[:, 0] / table[:, 0].sum())
    rounds = rng.geometric(1 / table[kind, 1])
    up = 1 + rng.negative_binomial(rounds, 1 / (1 + table[kind, 2]))
    down = rng.negative_binomial(rounds, 1 / (1 + table[kind, 3]))
    of = np.repeat(np.arange(count), rounds)
    delays = truncated(table[kind[of], 4], table[kind[of], 5], rng)
    return up, down, rounds, np.bincount(of, weights=delays / 1e6, minlength=count)


def draw_compact_circuits(counts: Array, pauses: tuple[float, ...], count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Streams of each circuit and the time from the first to the last in seconds."""
    first = rng.random(count) < counts[0]
    streams = rng.geometric(1 / np.where(first, counts[1], counts[2]))
    of = np.repeat(np.arange(count), streams - 1)
    short = rng.random(len(of)) < pauses[0]
    same = rng.random(len(of)) < pauses[4]
    same[np.flatnonzero(np.diff(of, prepend=-1))] = False
    short = short[np.maximum.accumulate(np.where(same, 0, np.arange(len(of))))]
    delays = np.where(
        short, 1e6 * rng.exponential(pauses[1], len(of)), np.exp(pauses[2] + pauses[3] * rng.standard_normal(len(of)))
    )
    return streams, np.bincount(of, weights=np.minimum(delays, LONGEST) / 1e6, minlength=count)


def distance(a: Array, b: Array) -> float:
    """Kolmogorov and Smirnov's: the greatest difference of the two distribution functions."""
    values = np.unique(np.concatenate([a, b]))
    difference: Array = np.abs(
        np.searchsorted(np.sort(a), values, side="right") / len(a) - np.searchsorted(np.sort(b), values, side="right") / len(b)
    )
    return float(difference.max())


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("streams", type=Path)
    parser.add_argument("packets", type=Path)
    parser.add_argument("--kinds", type=int, default=4)
    parser.add_argument("--count", type=int, default=60_000, help="streams and circuits to draw")
    parser.add_argument("--charts", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(1)

    packets = Chain(json.loads(options.packets.read_text())["packet_model"])
    up, down, rounds, duration, delays = draw_streams(packets, options.count, rng)
    table, belongs = fit_kinds(up, down, rounds, options.kinds)
    table = np.c_[table, np.array([fit_delays(belongs[:, kind] @ delays) for kind in range(options.kinds)])]
    exact = packets.expected()
    weights = table[:, 0] * table[:, 1]
    table[:, 2] *= (exact["+"] - 1) / (weights * table[:, 2]).sum()
    table[:, 3] *= exact["-"] / (weights * table[:, 3]).sum()

    circuits = Chain(json.loads(options.streams.read_text())["stream_model"])
    streams, length, between = draw_circuits(circuits, options.count, rng)
    counts = np.array(fit_counts(streams))
    counts[1:] = 1 + (counts[1:] - 1) * (circuits.expected()["$"] - 1) / (counts[0] * counts[1] + (1 - counts[0]) * counts[2] - 1)
    pauses = fit_pauses(rng.permutation(between))

    print("kinds: weight, rounds, packets up, packets down, delay mu and sigma of ln(microseconds)")
    for row in table:
        print("   ", ", ".join(f"{value:.4g}" for value in row))
    print("streams of a circuit: weight of the first, means:", ", ".join(f"{value:.4g}" for value in counts))
    print(
        "between streams: weight and mean in s of the exponential, mu, sigma, chance of the same:",
        ", ".join(f"{value:.4g}" for value in pauses),
    )

    compact = draw_compact(table, options.count, rng)
    compact_circuits = draw_compact_circuits(counts, pauses, options.count, rng)
    pairs = {
        "bytes to the server of a stream": (PACKET * up, PACKET * compact[0]),
        "bytes to the client of a stream": (PACKET * down, PACKET * compact[1]),
        "rounds of a stream": (rounds, compact[2]),
        "duration of a stream in s": (duration, compact[3]),
        "streams of a circuit": (streams, compact_circuits[0]),
        "first to last stream in s": (length, compact_circuits[1]),
    }
    print(
        f"\nexact means: {PACKET * exact['+']:.0f} B up, {PACKET * exact['-']:.0f} B down, {circuits.expected()['$']:.3f} streams"
    )
    print("| quantity | mean | | median | | 90 % | | 99 % | | greatest difference of the CDFs |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (theirs, ours) in pairs.items():
        cells = [f"{theirs.mean():.4g} | {ours.mean():.4g}"]
        cells += [f"{np.quantile(theirs, q):.4g} | {np.quantile(ours, q):.4g}" for q in (0.5, 0.9, 0.99)]
        print(f"| {name} | {' | '.join(cells)} | {distance(theirs, ours):.3f} |")
    if options.charts:
        charts(pairs, options.charts)


def charts(pairs: dict[str, tuple[Array, Array]], directory: Path) -> None:
    """A chart of the distribution functions of each quantity, both models in one."""
    import altair as alt
    import polars as pl

    chosen = {
        "bytes-down": "bytes to the client of a stream",
        "bytes-up": "bytes to the server of a stream",
        "duration": "duration of a stream in s",
        "streams": "streams of a circuit",
    }
    panels = []
    for name in chosen.values():
        rows = []
        for model, values in zip(("hidden Markov model", "compact model"), pairs[name], strict=True):
            share = np.linspace(0.0, 0.999, 600)
            at = np.quantile(values, share)
            rows.append(pl.DataFrame({"value": at, "share": share, "model": [model] * len(at)}).filter(pl.col("value") > 0))
        data = pl.concat(rows)
        panels.append(
            alt.Chart(data, width=330, height=210, title=name)
            .mark_line(interpolate="step-after", strokeWidth=2)
            .encode(
                x=alt.X("value:Q", scale=alt.Scale(type="log"), title=None, axis=alt.Axis(format="~s", tickCount=6)),
                y=alt.Y("share:Q", title="share of at most that", scale=alt.Scale(domain=[0, 1])),
                color=alt.Color("model:N", title=None, sort=["hidden Markov model"], legend=alt.Legend(orient="top")),
                strokeDash=alt.StrokeDash("model:N", sort=["hidden Markov model"], legend=None),
            )
        )
    chart = alt.vconcat(alt.hconcat(*panels[:2]), alt.hconcat(*panels[2:])).configure_view(stroke=None)
    for suffix in ("svg", "png"):
        chart.save(directory / f"tor-users.{suffix}", **({"scale_factor": 1.2} if suffix == "png" else {}))


if __name__ == "__main__":
    main()
