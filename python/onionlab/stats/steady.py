"""When a simulated network has reached its steady state.

A simulation starts empty: circuits are built, load sets in, queues fill. What is measured before that is over says nothing about
the network. The truncation point is found by MSER-5 on the network's goodput, averaged over all runs of a treatment: of the
series in batches of five samples, so much is cut at the front that the standard error of the mean of what is left is smallest. A
minimum in the second half means that the series has not settled.

References
----------
White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69 (1997); White, Cobb and Spratt,
"A comparison of five steady-state truncation heuristics for simulation", Winter Simulation Conference 2000. Averaging over
replications first: Welch, "The statistical analysis of simulation results" (1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from onionlab.stats.intervals import Floats, Interval, difference_interval
from onionlab.stats.metrics import RUN, sample_length

#: Samples per batch: the 5 of MSER-5.
BATCH = 5

#: Batches at the end that cannot be the beginning of the steady state: the error of so few is no measure of anything.
TAIL = 5

#: A deviation of less than this share of the steady state's mean is no warm-up worth a warning.
MATERIAL = 0.05


@dataclass(frozen=True)
class Settling:
    """When the goodput of a treatment's networks settles, and whether it still moves afterwards.

    Attributes
    ----------
    treatment
        Its name.
    settled_at
        Seconds of simulated time; None where the series does not settle in its first half, or is too short to tell.
    short
        Whether the series is too short to tell: less than `BATCH` times four `TAIL` samples.
    excess
        Mean goodput between the given begin of the measurement and ``settled_at`` relative to the mean after it, minus 1: how
        far off is what is measured too early; None where nothing is measured before.
    drift
        Second half of the measurement over the first half, minus 1, with Student's interval over networks; None without data.
    """

    treatment: str
    settled_at: float | None
    short: bool
    excess: float | None
    drift: Interval | None

    @property
    def too_early(self) -> bool:
        """Whether the measurement begins before the steady state, by enough to matter."""
        return self.excess is not None and abs(self.excess) > MATERIAL

    @property
    def moving(self) -> bool:
        """Whether the goodput moves within the measurement, by enough to matter and more than networks differ by chance."""
        return self.drift is not None and self.drift.excludes_zero is True and abs(self.drift.mean) > MATERIAL


def mser(series: Floats, batch: int = BATCH, tail: int = TAIL) -> int | None:
    """Samples to cut at the front of a series, by MSER with batches of ``batch`` samples.

    Returns
    -------
    int or None
        A multiple of ``batch``; None if the minimum of the criterion lies in the second half, or if there are fewer than four
        times ``tail`` batches.

    Examples
    --------
    >>> series = np.concatenate([np.linspace(0, 100, 50), np.tile([99.0, 101.0], 125)])
    >>> mser(series)
    50
    """
    batches = series[: series.size // batch * batch].reshape(-1, batch).mean(axis=1)
    count = batches.size
    if count < 4 * tail:
        return None
    # Sums from each batch to the end give all variances at once; centred first, so that nothing cancels.
    centred = batches - batches.mean()
    left = np.arange(count, 0, -1)
    sums, squares = np.cumsum(centred[::-1])[::-1], np.cumsum(centred[::-1] ** 2)[::-1]
    criterion = ((squares - sums**2 / left) / left**2)[: count - tail + 1]
    # Rounding must not decide between equal values: the first one counts.
    best = int(np.argmax(criterion <= criterion.min() + 1e-12 * float(squares[0])))
    return best * batch if 2 * best <= count else None


def steady_state(network: pl.DataFrame, treatments: Sequence[str], measure_from: float) -> list[Settling]:
    """Find when the goodput of each treatment's networks settles.

    Parameters
    ----------
    network : polars.DataFrame
        The ``network`` table of all runs.
    treatments : sequence of str
        Treatments in the order of the experiment.
    measure_from : float
        Begin of the measurement, in seconds.

    Returns
    -------
    list of Settling
        One for each treatment with data.
    """
    found = []
    for treatment in treatments:
        own = network.filter(pl.col("treatment") == treatment).select(
            *RUN, "time_ns", "goodput_bytes", length=sample_length(), goodput=pl.col("goodput_bytes") / sample_length()
        )
        if own.height:
            found.append(_settling(treatment, own, measure_from))
    return found


def _settling(treatment: str, own: pl.DataFrame, measure_from: float) -> Settling:
    mean = (
        own.group_by("network", "time_ns")
        .agg(pl.col("goodput").mean())
        .group_by("time_ns")
        .agg(pl.col("goodput").mean())
        .sort("time_ns")
    )
    times, series = mean["time_ns"].to_numpy() / 1e9, mean["goodput"].to_numpy().astype(np.float64)
    cut = mser(series)
    settled = None if cut is None else 0.0 if cut == 0 else float(times[cut - 1])
    excess = None
    if settled is not None:
        early, after = series[(times > measure_from) & (times <= settled)], series[times > settled]
        if early.size and after.mean() > 0:
            excess = float(early.mean() / after.mean()) - 1
    short = series.size < 4 * TAIL * BATCH
    return Settling(treatment, settled, short, excess, _drift(own, measure_from, float(times[-1])))


def _drift(own: pl.DataFrame, measure_from: float, end: float) -> Interval | None:
    """Second half of the measurement over its first half, minus 1, over networks."""
    half = round((measure_from + end) / 2 * 1e9)
    time = pl.col("time_ns")

    def rate(samples: pl.Expr) -> pl.Expr:
        return pl.col("goodput_bytes").filter(samples).sum() / pl.col("length").filter(samples).sum()

    halves = (
        own.filter(time > round(measure_from * 1e9))
        .group_by("network")
        .agg(
            first=rate(time <= half),
            second=rate(time > half),
        )
        .sort("network")
        .filter(pl.col("first") > 0, pl.col("first").is_not_nan(), pl.col("second").is_not_nan())
    )
    return difference_interval((halves["second"] / halves["first"] - 1).to_list())


def begin_of_steady_state(settlings: Sequence[Settling]) -> float | None:
    """Instant from which all treatments are in steady state, in seconds; None where one never settles or is too short to tell."""
    instants = [settling.settled_at for settling in settlings]
    known = [instant for instant in instants if instant is not None]
    return max(known) if known and len(known) == len(instants) else None
