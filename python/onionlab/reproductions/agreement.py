"""Whether two samples of times agree: by their medians where theirs hardly varies, else by their distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from onionlab.reproductions.published import Quantiles

#: Up to this ratio of their 90th to their 10th percentile a time hardly varies, and medians are compared.
NARROW = 1.1

#: Largest relative difference of a median that still counts as agreement: in general, and where nothing queues.
TOLERANCE, TIGHT = 0.03, 0.01

#: Least p of the Kolmogorov-Smirnov test that still counts as agreement.
LEAST_P = 0.01

#: Bootstrap resamples of a median's interval.
RESAMPLES = 1000

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """One figure of ours held against theirs.

    Attributes
    ----------
    narrow
        Their times hardly vary, so that medians are compared; else distributions are.
    limit
        Largest relative difference of the medians (where ``narrow``), or least p.
    difference
        Our median over theirs, less one.
    low, high
        95 % bootstrap interval of our median: whole runs are drawn, since transfers within a run depend on each other.
    p
        Of the two-sample Kolmogorov-Smirnov test over single transfers, as if independent, with as many of ours as there are in
        runs that differ; None without their transfers.
    p_of_runs
        Two-sided share of our runs whose median lies as far out as theirs.
    within
        Whether they agree; None where distributions are to be compared and their transfers are not at hand.
    runs
        How many different runs of ours there are: several seeds may come to the very same times.
    """

    narrow: bool
    limit: float
    difference: float
    low: float
    high: float
    p: float | None
    p_of_runs: float
    within: bool | None
    runs: int


def judge(theirs: Quantiles, their_times: pl.Series | None, ours: pl.DataFrame, tight: bool) -> Verdict:
    """Hold our times (columns ``seed`` and ``time``) against theirs.

    Parameters
    ----------
    theirs : Quantiles
        What is published of theirs.
    their_times : series or None
        Their single times, if at hand.
    ours : frame
        Every time of ours.
    tight : bool
        Nothing queues in this figure: the narrower tolerance applies to its median.
    """
    times = ours["time"].to_numpy()
    narrow = theirs.p90 < NARROW * theirs.p10
    difference = float(np.median(times)) / theirs.median - 1
    low, high = median_interval(ours)
    runs = different_runs(ours)
    size = max(1, round(len(times) * runs / ours["seed"].n_unique()))
    p = same_distribution(their_times.to_numpy(), times, size) if their_times is not None else None
    limit = (TIGHT if tight else TOLERANCE) if narrow else LEAST_P
    within = abs(difference) <= limit if narrow else (None if p is None else p > limit)
    return Verdict(narrow, limit, difference, low, high, p, _place_among_runs(theirs.median, ours, runs), within, runs)


def same_distribution(theirs: Times, ours: Times, size: int) -> float:
    """P of the two-sample Kolmogorov-Smirnov test where ours tell as much as ``size`` independent values do.

    How often a time comes out is taken from all of ``ours``; copies of a run say nothing more about it, so that the distance is
    held against that of fewer values.
    """
    from scipy.stats import ks_2samp, kstwo

    distance = float(ks_2samp(theirs, ours, method="asymp").statistic)
    return float(kstwo.sf(distance, max(1, round(len(theirs) * size / (len(theirs) + size)))))


def different_runs(ours: pl.DataFrame) -> int:
    """How many runs (column ``seed``) have times that no run before them has."""
    return len({tuple(run["time"]) for _, run in ours.group_by("seed", maintain_order=True)})


def median_interval(ours: pl.DataFrame) -> tuple[float, float]:
    """95 % interval of the median of column ``time``, by drawing whole runs (column ``seed``) with replacement; repeatable.

    As many are drawn as there are different ones: copies of a run say nothing more about the median.
    """
    runs = [group["time"].to_numpy() for _, group in ours.sort("seed").group_by("seed", maintain_order=True)]
    draw, different = np.random.default_rng(1), different_runs(ours)
    medians = [
        float(np.median(np.concatenate([runs[index] for index in draw.integers(0, len(runs), different)])))
        for _ in range(RESAMPLES if len(runs) > 1 else 1)
    ]
    low, high = np.quantile(medians, [0.025, 0.975])
    return float(low), float(high)


def _place_among_runs(median: float, ours: pl.DataFrame, runs: int) -> float:
    """Two-sided p of one run with this median among ours, of which so many differ."""
    medians = ours.group_by("seed").agg(pl.col("time").median())["time"].to_numpy()
    below, above = float((medians <= median).mean()), float((medians >= median).mean())
    return min(1.0, 2 * (min(below, above) * runs + 1) / (runs + 1))
