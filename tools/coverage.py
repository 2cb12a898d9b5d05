"""Measures how often the intervals of `onionlab.stats` cover the truth, and writes docs/results/coverage.md with its chart.

An experiment is simulated as two log-normal draws: each network has a factor, each transfer in it a time. Every run gives one
quantile, as in a report, and the intervals over networks are those that a report prints. The truth is known without simulation.

    python tools/coverage.py [--experiments 1000] [--out docs/results]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from rich.progress import track
from scipy import special, stats

from onionlab import _core
from onionlab.charts import theme
from onionlab.charts.export import to_png, to_svg
from onionlab.files import write_bytes, write_text
from onionlab.quantity import format_number
from onionlab.running.until import PILOT, UntilCi, next_number
from onionlab.stats.intervals import Floats, Interval, half_width, pointwise_band, t_interval
from onionlab.stats.skewed import geometric_interval, mean_interval, relative_half_width

#: Transfers of a run, and the standard deviation of their times' logarithms: a median of 1 s has a 90th percentile of 2.2 s.
TRANSFERS, WITHIN = 200, 0.6

NETWORKS = (5, 10, 20)
SPREADS = (0.1, 1.0)
QUANTILES = {0.5: "median", 0.9: "90th percentile"}

#: What an interval of 95 % has to cover, in percent of 1,000 experiments.
WANTED = (92.0, 98.0)

REPORTED, STUDENT, BOOTSTRAP, GEOMETRIC = "as reported", "Student", "bootstrap (BCa)", "geometric mean"

#: Distributions over networks beside the log-normal one, each with mean 1.
SHAPES = ("log-normal", "gamma", "uniform", "half alike, half log-normal")

#: Searches: coefficient of variation between networks, and wished half width.
SEARCHES = ((0.1, 0.05), (0.3, 0.1), (1.0, 0.3))


@dataclass(frozen=True)
class Cell:
    """One setting: how networks differ, how many there are, and which quantile of a run is looked at."""

    shape: str
    spread: float
    networks: int
    quantile: float


def factors(shape: str, spread: float, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Factors of networks with mean 1 and the coefficient of variation ``spread``."""
    match shape:
        case "log-normal":
            sigma = math.sqrt(math.log(1 + spread**2))
            return rng.lognormal(-(sigma**2) / 2, sigma, size)
        case "gamma":
            return rng.gamma(1 / spread**2, spread**2, size)
        case "uniform":
            return 1 + spread * math.sqrt(3) * rng.uniform(-1, 1, size)
        case _:
            # A floor that no network goes below, and on top of it a tail that is twice as wide.
            sigma = math.sqrt(math.log(1 + (2 * spread) ** 2))
            return 0.5 + 0.5 * rng.lognormal(-(sigma**2) / 2, sigma, size)


def rank(quantile: float) -> int:
    """Rank of the lower order statistic, as `lower_quantile` has it."""
    return int((TRANSFERS - 1) * quantile)


def truth(quantile: float) -> float:
    """Mean over all networks of a run's quantile: that of the order statistic of log-normal times, for a mean factor of 1."""
    place = rank(quantile)
    share = (np.arange(20_000) + 0.5) / 20_000
    level = special.betaincinv(place + 1, TRANSFERS - place, share)
    return float(np.exp(WITHIN * special.ndtri(level)).mean())


def typical(cell: Cell) -> float:
    """Geometric mean over all networks of a run's quantile, for log-normal factors."""
    place = rank(cell.quantile)
    level = special.betaincinv(place + 1, TRANSFERS - place, (np.arange(20_000) + 0.5) / 20_000)
    return math.exp(WITHIN * float(special.ndtri(level).mean()) - math.log(1 + cell.spread**2) / 2)


def experiments(cell: Cell, count: int, seed: int) -> Floats:
    """A run's quantile in each network of each experiment: shape (experiments, networks)."""
    setting = (cell.networks, round(100 * cell.spread), SHAPES.index(cell.shape), round(100 * cell.quantile))
    rng = np.random.default_rng([seed, *setting])
    found = np.empty((count, cell.networks))
    factor = factors(cell.shape, cell.spread, found.shape, rng)
    for row in range(count):
        times = np.exp(WITHIN * rng.standard_normal((cell.networks, TRANSFERS)))
        found[row] = factor[row] * np.partition(times, rank(cell.quantile), axis=1)[:, rank(cell.quantile)]
    return found


def covered(intervals: Iterator[Interval | None], true: float) -> float:
    """Percent of the intervals that contain the truth."""
    hits = [one is not None and one.low is not None and one.high is not None and one.low <= true <= one.high for one in intervals]
    return 100 * sum(hits) / len(hits)


def coverage(cell: Cell, count: int, seed: int, *, quick: bool = False) -> dict[str, Any]:
    """Coverage of each interval in percent, and half widths relative to the truth; ``quick`` measures the reported one only."""
    values = experiments(cell, count, seed)
    true = truth(cell.quantile)
    reported = [mean_interval(row) for row in values]
    found: dict[str, Any] = {REPORTED: covered(iter(reported), true)}
    if quick:
        return found
    widths = [relative_half_width(one) or 0.0 for one in reported if one is not None]
    _, low, high = pointwise_band(values.T)
    assert low is not None
    assert high is not None
    found[STUDENT] = 100 * float(np.mean((low <= true) & (true <= high)))
    boot = stats.bootstrap((values,), np.mean, axis=-1, method="BCa", n_resamples=999, batch=100, rng=seed).confidence_interval
    found[BOOTSTRAP] = 100 * float(np.mean((boot.low <= true) & (true <= boot.high)))
    if cell.shape == "log-normal":
        found[GEOMETRIC] = covered((geometric_interval(row) for row in values), typical(cell))
    found["log-normal share"] = 100 * sum(one is not None and one.method == "log-normal" for one in reported) / count
    found["width"] = 100 * float(np.median(widths))
    student = half_width(values.std(axis=1, ddof=1), cell.networks) / values.mean(axis=1)
    found["Student width"] = 100 * float(np.median(student))
    return found


def grid() -> list[Cell]:
    """The settings that the coverage is asked for."""
    return [Cell("log-normal", spread, networks, q) for spread in SPREADS for q in QUANTILES for networks in NETWORKS]


def search(spread: float, width: float, count: int, seed: int) -> dict[str, float]:
    """Coverage and number of networks of searches for a narrow interval: by the rule, and by stopping at the first one."""
    rng = np.random.default_rng([seed, round(100 * spread)])
    rule = UntilCi(width, at_most=2_000)
    numbers, hits, narrow, naive_numbers, naive_hits = [], 0, 0, [], 0
    for _ in range(count):
        values = factors("log-normal", spread, (rule.at_most,), rng)
        networks = PILOT
        pilot = [(values[:PILOT].tolist(), float(values[:PILOT].mean()))]
        while True:
            so_far = values[:networks]
            wanted, _ = next_number(pilot, [(so_far.tolist(), float(so_far.mean()))], rule, networks)
            if wanted == networks or networks >= rule.at_most:
                break
            networks = min(wanted, rule.at_most)
        interval = mean_interval(values[:networks])
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        numbers.append(networks)
        narrow += interval.low <= 1 <= interval.high
        hits += min(interval.low, interval.mean * (1 - width)) <= 1 <= max(interval.high, interval.mean * (1 + width))
        networks = _first_narrow(values, width)
        first = t_interval(values[:networks])
        naive_numbers.append(networks)
        naive_hits += first is not None and first.low is not None and first.high is not None and first.low <= 1 <= first.high
    return {
        "rule": 100 * hits / count,
        "rule's table": 100 * narrow / count,
        "networks": float(np.median(numbers)),
        "first": 100 * naive_hits / count,
        "first networks": float(np.median(naive_numbers)),
    }


def _first_narrow(values: Floats, width: float) -> int:
    """Number of networks, at least five, at which Student's interval is narrow for the first time."""
    counts = np.arange(1, values.size + 1)
    mean = np.cumsum(values) / counts
    variance = np.maximum(0.0, np.cumsum(values**2) / counts - mean**2) * counts / np.maximum(1, counts - 1)
    factor = special.stdtrit(np.maximum(1, counts - 1), 0.975) / np.sqrt(counts)
    narrow = (factor * np.sqrt(variance) <= width * mean) & (counts >= 5)
    return int(counts[np.argmax(narrow)]) if narrow.any() else values.size


def differences(spread: float, networks: int, count: int, seed: int) -> dict[str, float]:
    """Coverage of paired differences and ratios: a treatment takes 0.8 of the time, 10 % more or less from network to network."""
    rng = np.random.default_rng([seed, networks, round(100 * spread), 7])
    base = factors("log-normal", spread, (count, networks), rng)
    ratio = 0.8 * factors("log-normal", 0.1, base.shape, rng)
    difference = base * (ratio - 1)
    return {
        "difference": covered((t_interval(row) for row in difference), -0.2),
        "ratio": covered((geometric_interval(row) for row in ratio), 0.8 / math.sqrt(1 + 0.1**2)),
    }


def chart(rows: pl.DataFrame, count: int) -> dict[str, Any]:
    """Coverage by number of networks, a panel for each spread and quantile."""
    methods = [REPORTED, STUDENT, BOOTSTRAP, GEOMETRIC]
    colour = alt.Color("interval:N", sort=methods, scale=alt.Scale(domain=methods, range=list(theme.PALETTE[:4])))
    shape = alt.Shape("interval:N", sort=methods, scale=alt.Scale(domain=methods, range=["circle", "square", "diamond", "cross"]))
    low = min(75.0, float(rows["coverage"].to_numpy().min()) - 1)
    panels = []
    for spread in SPREADS:
        for name in QUANTILES.values():
            data = rows.filter(pl.col("spread") == spread, pl.col("quantile") == name).to_dicts()
            base = alt.Chart(alt.InlineData(values=data), width=250, height=170)
            band = alt.Chart(alt.InlineData(values=[{"low": WANTED[0], "high": WANTED[1]}]))
            scale = alt.Scale(domain=[low, 100], nice=False, zero=False)
            shade = band.mark_rect(color=theme.FAINT, opacity=0.18).encode(
                y=alt.Y("low:Q", title="covered (%)", scale=scale), y2="high:Q"
            )
            networks = alt.X("networks:O", title="networks", axis=alt.Axis(labelAngle=0))
            cover = alt.Y("coverage:Q", title="covered (%)", scale=scale)
            points = base.mark_point(filled=True, size=80, opacity=0.9).encode(
                x=networks,
                y=cover,
                color=colour,
                shape=shape,
                xOffset=alt.XOffset("interval:N", sort=methods, scale=alt.Scale(paddingOuter=0.5)),
            )
            panels.append(
                alt.layer(shade, points).properties(title=alt.TitleParams(f"{name}, spread {100 * spread:g} %", fontSize=13))
            )
    lines = [
        f"{count:,} simulated experiments each, {TRANSFERS} transfers a run; log-normal spread between networks",
        f"shaded: {WANTED[0]:g} to {WANTED[1]:g} %; “{GEOMETRIC}” is held against the geometric mean, the rest against the mean",
    ]
    title = alt.TitleParams("How often a 95 % interval covers the truth", subtitle=lines, frame="bounds")
    specification: dict[str, Any] = alt.concat(*panels, columns=2, spacing=22).properties(title=title).to_dict()
    config = theme.config()
    config["legend"] |= {"symbolStrokeWidth": 0, "symbolSize": 90}
    specification["config"] = config
    return specification


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    line = ["| " + " | ".join(headings) + " |", "| --- | " + " | ".join("---:" for _ in headings[1:]) + " |"]
    return "\n".join([*line, *("| " + " | ".join(row) + " |" for row in rows)])


def percent(value: float | None) -> str:
    """A coverage, in bold where it is not what an interval of 95 % should have."""
    if value is None:
        return "–"
    return f"{value:.1f}" if WANTED[0] <= value <= WANTED[1] else f"**{value:.1f}**"


def page(count: int, seed: int, watch: Callable[[list[Any], str], Any]) -> tuple[str, dict[str, Any]]:
    """The page and the specification of its chart."""
    cells = {cell: coverage(cell, count, seed) for cell in watch(grid(), "log-normal networks")}
    others = [Cell(shape, spread, networks, 0.5) for shape in SHAPES[1:] for spread in (0.3, 1.0) for networks in NETWORKS]
    # A uniform distribution around 1 with a spread of 100 % would have negative times.
    others = [cell for cell in others if cell.shape != "uniform" or cell.spread < 0.5]
    shapes = {cell: coverage(cell, count, seed) for cell in watch(others, "other networks")}
    pairs = [(spread, networks) for spread in SPREADS for networks in NETWORKS]
    paired = {pair: differences(pair[0], pair[1], count, seed) for pair in watch(pairs, "differences")}
    searches = {one: search(one[0], one[1], count, seed) for one in watch(list(SEARCHES), "searches")}
    methods = (REPORTED, STUDENT, BOOTSTRAP, GEOMETRIC)
    rows = pl.DataFrame(
        [
            {
                "spread": cell.spread,
                "quantile": QUANTILES[cell.quantile],
                "networks": cell.networks,
                "interval": method,
                "coverage": found[method],
            }
            for cell, found in cells.items()
            for method in methods
        ]
    )
    failing = [cell for cell, found in cells.items() if not WANTED[0] <= found[REPORTED] <= WANTED[1]]
    verdict = (
        f"Log-normal networks, all {len(cells)} settings: the interval that a report prints covers in {WANTED[0]:g} to "
        f"{WANTED[1]:g} %. Where networks differ otherwise it need not (Other networks, below)."
        if not failing
        else f"Log-normal networks: {len(failing)} of {len(cells)} settings lie outside {WANTED[0]:g} to {WANTED[1]:g} %: "
        + "; ".join(f"{QUANTILES[cell.quantile]}, spread {100 * cell.spread:g} %, {cell.networks} networks" for cell in failing)
        + "."
    )
    text = PAGE.format(
        version=_core.version(),
        count=f"{count:,}",
        seed=seed,
        transfers=TRANSFERS,
        error=format_number(100 * math.sqrt(0.95 * 0.05 / count), 2),
        low=f"{WANTED[0]:g}",
        high=f"{WANTED[1]:g}",
        pilot=PILOT,
        verdict=verdict,
        main=table(
            [
                "spread, quantile",
                "networks",
                REPORTED,
                STUDENT,
                BOOTSTRAP,
                GEOMETRIC,
                "taken as log-normal",
                "half width",
                "Student’s",
            ],
            [
                [
                    f"{100 * cell.spread:g} %, {QUANTILES[cell.quantile]}",
                    str(cell.networks),
                    *(percent(found[method]) for method in methods),
                    f"{found['log-normal share']:.0f} %",
                    f"±{format_number(found['width'], 2)} %",
                    f"±{format_number(found['Student width'], 2)} %",
                ]
                for cell, found in cells.items()
            ],
        ),
        shapes=table(
            ["networks differ as", "spread", "networks", REPORTED, STUDENT, BOOTSTRAP, "taken as log-normal"],
            [
                [
                    cell.shape,
                    f"{100 * cell.spread:g} %",
                    str(cell.networks),
                    *(percent(found[method]) for method in (REPORTED, STUDENT, BOOTSTRAP)),
                    f"{found['log-normal share']:.0f} %",
                ]
                for cell, found in shapes.items()
            ],
        ),
        paired=table(
            ["spread", "networks", "difference", "ratio"],
            [
                [f"{100 * spread:g} %", str(networks), percent(found["difference"]), percent(found["ratio"])]
                for (spread, networks), found in paired.items()
            ],
        ),
        searches=table(
            [
                "spread, wished",
                "the rule: mean ± wished",
                "networks",
                "its table’s interval",
                "first narrow interval",
                "networks",
            ],
            [
                [
                    f"{100 * spread:g} %, ±{100 * width:g} %",
                    percent(found["rule"]),
                    f"{found['networks']:.0f}",
                    percent(found["rule's table"]),
                    percent(found["first"]),
                    f"{found['first networks']:.0f}",
                ]
                for (spread, width), found in searches.items()
            ],
        ),
    )
    return text, chart(rows, count)


PAGE = """\
# Do the intervals cover?

Written by `python tools/coverage.py` (onionlab {version}, seed {seed}): {count} simulated experiments for each line, so that a
coverage of 95 % is known to ±{error} points (one standard error). **Bold**: outside {low} to {high} %.

{verdict}

![Coverage by number of networks](coverage.png)

**What is simulated.** Every network has a factor, drawn from a distribution with mean 1; “spread” is its coefficient of
variation. Every run has {transfers} transfers whose times are log-normal, times the factor. From each run the lower order
statistic is taken, and the intervals are those of `onionlab.stats`.

**What the truth is.** The mean over all networks of the run's quantile: what one would find with endlessly many networks of
{transfers} transfers each. It is not the quantile of all transfers of all networks together, and for a skewed spread it lies
above what the typical network does; that is the geometric mean, held against its own interval.

## Log-normal networks

{main}

Half widths are medians over the experiments, as shares of the mean. “{reported}” is Student's interval, or that of a
log-normal mean where there are at least five networks and the logarithms spread by more than 0.3 and pass for normal
([statistics.md](../statistics.md)). The price of covering is its length: with five networks that spread by 100 % nothing
useful is known upwards, and more networks are the only remedy.

## Other networks

Medians. What the rule does where the spread is not log-normal. “Half alike, half log-normal”: no network is faster than half of
the mean, and a few are many times slower. No interval over few networks knows of a tail that it has not met.

{shapes}

## Paired differences

A treatment that takes 0.8 of the time, with 10 % between networks: the mean of the paired differences with Student's interval,
and the geometric mean of the ratios.

{paired}

Where networks spread by 100 %, so do differences in seconds, and few networks miss the large ones; the ratio does not mind. A
report names the figures whose spread is of that kind and points to the ratio.

## Searching for a narrow interval

`--until-ci` (Stein's rule with a pilot of {pilot} networks) against stopping as soon as Student's interval is narrow enough, from
five networks on. Networks: median.

{searches}

What counts after a search is the mean with the wished width to each side, or the table's interval where that is wider. The
table's interval alone undercovers, and stopping at the first narrow one more so.
""".replace("{reported}", REPORTED.capitalize())


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--experiments", type=int, default=1_000, help="simulated experiments of each setting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    chosen = parser.parse_args()
    text, specification = page(chosen.experiments, chosen.seed, lambda of, what: track(of, what))
    svg = to_svg(specification)
    write_text(chosen.out / "coverage.svg", svg)
    write_bytes(chosen.out / "coverage.png", to_png(svg))
    write_text(chosen.out / "coverage.md", text)
    print(f"page: {chosen.out / 'coverage.md'}")


if __name__ == "__main__":
    main()
