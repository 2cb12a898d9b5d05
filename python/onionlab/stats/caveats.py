"""What to keep in mind about the statistics of an experiment, in sentences for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from onionlab.quantity import format_duration, format_fixed, format_number
from onionlab.stats.compare import repeat
from onionlab.stats.metrics import HEADLINE, METRICS
from onionlab.stats.skewed import FEWEST
from onionlab.stats.steady import Settling

#: Fewer networks than this give intervals too wide to carry far ("Once is Never Enough", figures 6 and 7).
FEW_NETWORKS = 5

#: Networks smaller than this share of the original are biased, and not only noisy.
SMALL_SCALE = 0.10

#: Coefficient of variation between networks from which Student's interval loses coverage (docs/results/coverage.md).
WIDE = 0.5


def warnings(
    *,
    networks: int,
    sampled: bool = True,
    by_seed: bool = False,
    scale: float | None = None,
    summary: pl.DataFrame | None = None,
) -> list[str]:
    """Warn of few networks, small networks, and intervals that may not cover.

    Parameters
    ----------
    networks : int
        How many networks there are results of.
    sampled : bool
        Whether networks are sampled at all; one that is written by hand or was made elsewhere is the only one of
        its kind.
    by_seed : bool
        Whether there is one network that is not sampled, and ``networks`` counts its seeds, which are what is repeated.
    scale : float, optional
        Share of the original network that was sampled; None where it is not known.
    summary : polars.DataFrame, optional
        The result of `summarise`: its headline metrics are looked through for intervals that may not cover.

    Examples
    --------
    >>> warnings(networks=3)[0].partition(":")[0]
    'Only 3 sampled networks'
    >>> warnings(networks=20, scale=0.3)
    []
    """
    found = []
    if sampled and networks == 1:
        found.append(
            "One sampled network: there is no interval, and a difference may be an accident of that network. Use five or more."
        )
    elif (sampled or by_seed) and networks < FEW_NETWORKS:
        of = "seeds" if by_seed else "sampled networks"
        found.append(f"Only {networks} {of}: the intervals are wide and rest on few values. Use five or more.")
    if scale is not None and scale < SMALL_SCALE:
        found.append(
            f"The network has {format_number(100 * scale, 2)} % of the original's relays. Below 10 % results are not only noisy "
            "but biased: compare treatments with each other, not the times with those of public Tor."
        )
    if summary is not None:
        found += _of_intervals(summary, repeat(by_seed))
    return found


def _of_intervals(summary: pl.DataFrame, of: str) -> list[str]:
    """Which means have log-normal intervals, and which have Student's although the networks (``of``) differ widely."""
    shown = summary.filter(pl.col("metric").is_in(HEADLINE), pl.col("low").is_not_null())
    found = []
    skewed = shown.filter(pl.col("method") == "log-normal")
    if skewed.height:
        found.append(
            f"{of.capitalize()}s differ so much in {_named(skewed)} that the intervals there are those of a log-normal mean: "
            "Student’s would cover the mean too seldom. They cover 95 % if the values are log-normal, and reach far up with few "
            f"{of}s. Of differences there the ratio is to be trusted more than the difference itself."
        )
    networks = pl.col("networks")
    rough = shown.filter(
        pl.col("method") == "student",
        networks >= 2,
        pl.col("mean") > 0,
        # The standard deviation, from the half width of Student's interval.
        (pl.col("high") - pl.col("mean")) * networks.cast(pl.Float64).sqrt() / _factor(shown) > WIDE * pl.col("mean"),
    )
    if rough.height:
        why = f"with fewer than {FEWEST} {of}s, or values that are not log-normal either, nothing better is known"
        found.append(
            f"{of.capitalize()}s differ widely in {_named(rough)}: Student’s 95 % intervals there may cover the mean in fewer "
            f"than 92 of 100 experiments; {why}. More {of}s help."
        )
    return found


def _factor(shown: pl.DataFrame) -> pl.Expr:
    """The factor of Student's interval for the number of networks in each row."""
    from scipy.special import stdtrit

    counts = [count for count in shown["networks"].unique().to_list() if count >= 2]
    factors = {count: float(stdtrit(count - 1, 0.975)) for count in counts}
    return pl.col("networks").replace_strict(factors, return_dtype=pl.Float64, default=None)


def _named(rows: pl.DataFrame) -> str:
    """Kinds with their metrics: ``web (time to first byte, median), bulk (...)``."""
    parts = []
    for (kind,), part in rows.group_by("kind", maintain_order=True):
        labels = [METRICS[metric].label for metric in part["metric"].unique(maintain_order=True)]
        parts.append(f"{kind} ({'; '.join(labels)})")
    return ", ".join(parts)


def until_note(outcome: Mapping[str, Any] | None, networks: int) -> list[str]:
    """Say that the number of networks was found by looking at a metric, and what that means for its interval.

    Parameters
    ----------
    outcome : mapping or None
        What `onionlab.running.until` left of its search; None without one.
    networks : int
        Number of networks of the plan; the note is for this number only.
    """
    if outcome is None or outcome["networks"] != networks:
        return []
    label = f"{METRICS[outcome['metric']].label} of {outcome['kind']}"
    what = f"the difference of {label}" if outcome["of"] == "difference" else f"the mean of {label}"
    wished = f"±{format_number(100 * outcome['width'], 2)} %"
    if not outcome["reached"]:
        have = "is not known" if outcome["found"] is None else f"is ±{format_number(100 * outcome['found'], 2)} %"
        return [f"The search for {wished} about {what} ended before it was reached: with {networks} networks it {have}."]
    return [
        f"The number of networks, {networks}, was found by looking at {what} (Stein's rule with a pilot). As its 95 % interval "
        f"take {wished} about the mean, or the one in the table where that is wider: the table's is computed as if the number "
        "had been fixed and alone would cover too seldom."
    ]


def warm_up_warnings(settlings: Sequence[Settling], measure_from: float, duration: float, *, by_seed: bool = False) -> list[str]:
    """Warn where the goodput had not settled when the measurement began, or moves within it.

    Parameters
    ----------
    settlings : sequence of Settling
        From `steady_state`.
    measure_from, duration : float
        Begin of the measurement and end of the simulation, in seconds.
    by_seed : bool
        Whether seeds are what is repeated.
    """
    begin = format_duration(measure_from)
    found = []
    for one in settlings:
        who = f"“{one.treatment}”"
        if one.too_early and one.excess is not None and one.settled_at is not None:
            found.append(
                f"{who}: the network's goodput settles only at {format_duration(one.settled_at)} (MSER-5), and from {begin}, "
                f"when the measurement begins, until then it is {_percent(one.excess)} off. Measure from later on: "
                "`onionlab report DIR --measure-from auto`, or a time."
            )
        elif one.settled_at is None and not one.short and one.drift is not None and one.moving:
            found.append(
                f"{who}: the network's goodput does not settle in the first half of {format_duration(duration)} (MSER-5), and "
                f"its second half of the measurement lies {_percent(one.drift.mean)} from the first: simulate longer."
            )
        elif one.moving and one.drift is not None:
            found.append(
                f"{who}: the network's goodput moves within the measurement, by {_percent(one.drift.mean)} from its first to its "
                f"second half in the mean over {repeat(by_seed)}s: simulate longer, or measure from later on."
            )
    return found


def _percent(share: float) -> str:
    return f"{format_fixed(100 * share, 0, signed=True)} %"
