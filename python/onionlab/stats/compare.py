"""From figures per run to means over networks and paired differences between treatments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from onionlab.quantity import format_number
from onionlab.stats.intervals import CONFIDENCE, Floats, Interval, are_copies, difference_interval
from onionlab.stats.metrics import HEADLINE, METRICS
from onionlab.stats.multiple import holm, paired_p_value
from onionlab.stats.power import detectable, networks_needed
from onionlab.stats.skewed import geometric_interval, mean_intervals

#: Columns of `summarise` behind those that name a row.
_NUMBERS = {
    "networks": pl.UInt32,
    "mean": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "method": pl.String,
    "geometric_mean": pl.Float64,
    "geometric_low": pl.Float64,
    "geometric_high": pl.Float64,
    "difference": pl.Float64,
    "difference_low": pl.Float64,
    "difference_high": pl.Float64,
    "difference_networks": pl.UInt32,
    "difference_percent": pl.Float64,
    "ratio": pl.Float64,
    "ratio_low": pl.Float64,
    "ratio_high": pl.Float64,
    "p": pl.Float64,
    "p_holm": pl.Float64,
    "networks_needed": pl.UInt32,
    "detectable": pl.Float64,
    "verdict": pl.String,
}


def seeds_as_networks(figures: pl.DataFrame) -> pl.DataFrame:
    """Rows of runs of one network that is not sampled, with its seeds, which are what is repeated, in the place of networks."""
    return figures.with_columns(network=pl.col("seed").rank("dense").cast(figures.schema["network"]) - 1, seed=pl.lit(0))


def repeat(by_seed: bool) -> str:
    """What is repeated, in a word: a network; of one that is not sampled, a seed (`seeds_as_networks`)."""
    return "seed" if by_seed else "network"


def per_network(figures: pl.DataFrame) -> pl.DataFrame:
    """Average the figures of `per_run` over the seeds within each network.

    A figure that some seeds lack is averaged over the others.
    """
    return (
        figures.group_by("treatment", "network", "kind", "metric", maintain_order=True)
        .agg(pl.col("value").mean(), seeds=pl.col("value").count())
        .filter(pl.col("seeds") > 0)
    )


def paired_differences(figures: pl.DataFrame, treatment: str, base: str) -> pl.DataFrame:
    """Difference of ``treatment`` to ``base`` in each network where both exist.

    Runs are paired by network and seed, differences averaged over the seeds of a network: common random numbers make the two runs
    of a pair alike in everything but the treatment.

    Returns
    -------
    polars.DataFrame
        ``network, kind, metric, difference, base`` (the mean of ``base`` over the same pairs).
    """
    keys = ["network", "seed", "kind", "metric"]
    there = figures.filter(pl.col("treatment") == treatment, pl.col("value").is_not_null()).select(*keys, "value")
    here = figures.filter(pl.col("treatment") == base, pl.col("value").is_not_null()).select(*keys, base="value")
    return (
        there.join(here, on=keys, how="inner", maintain_order="left")
        .group_by("network", "kind", "metric", maintain_order=True)
        .agg(difference=(pl.col("value") - pl.col("base")).mean(), base=pl.col("base").mean())
    )


def verdict(
    metric: str,
    difference: Interval | None,
    base_mean: float | None,
    *,
    paired: bool = True,
    shown: str = "the interval excludes zero",
    by_seed: bool = False,
    others: bool = False,
) -> str:
    """Say in words what a difference shows.

    Parameters
    ----------
    metric : str
        Key into `METRICS`.
    difference : Interval or None
        Mean difference over networks, or None where no network has both.
    base_mean : float or None
        Mean of the first treatment over the same networks, for the relative size.
    paired : bool
        Whether there is a difference in each network; else it is one of the means of two samples of networks.
    shown
        By what a difference is shown.
    by_seed : bool
        Whether seeds stand for networks (`seeds_as_networks`), and are to be called so.
    others : bool
        Whether there are networks beside those of the difference, in which one of the two has no value.
    """
    of = repeat(by_seed)
    if difference is None:
        return f"no {of} has a value of both"
    if difference.mean == 0 and difference.low in (None, 0.0) and difference.high in (None, 0.0):
        return "equal" if difference.count == 1 else f"equal in every {of}{' with both' if others else ''}"
    size = ""
    if METRICS[metric].unit == "%":
        # A share that grows from 2 to 3 % is neither "1 % higher" nor usefully "50 % higher".
        size = f"{format_number(abs(difference.mean), 2)} points "
    elif base_mean:
        size = f"{format_number(100 * abs(difference.mean) / abs(base_mean), 2)} % "
    direction = f"{size}{'higher' if difference.mean > 0 else 'lower'}"
    if difference.low is None:
        both = " with both" if others else ""
        if paired:
            where = f"in the only {of}{both}" if difference.count == 1 else f"by the same in every {of}{both}"
        else:
            where = f"with only one {of} on a side" if difference.count == 1 else f"with all {of}s of a side the same"
        return f"{direction} {where}, hence no interval"
    if not difference.excludes_zero:
        return f"no difference shown ({direction} on average, the interval includes zero)"
    sense = METRICS[metric].better * (1 if difference.mean > 0 else -1)
    judged = {1: "better: ", -1: "worse: ", 0: ""}[sense]
    return f"{judged}{direction}, {shown}"


#: Times of downloads, of which only those count that came so far.
OF_COMPLETED = ("ttfb_median", "ttfb_p90", "ttlb_median", "ttlb_p90")

#: Where so many points more or fewer did not complete, their times do not say which treatment is better, %.
MISSING = 1.0

#: Figures of two networks that are hardly ever the same.
CONTINUOUS = (*OF_COMPLETED, "goodput")

#: Shares and counts, of which two networks often have the same.
COUNTED = tuple(metric for metric in METRICS if metric.startswith("failed") or metric in ("completed", "unfinished"))


#: How the verdict ends where times are not judged.
_NEITHER = "hence neither better nor worse"


def not_judged(metric: str, difference: Interval, base_mean: float | None, missing: float) -> str | None:
    """The verdict on times where the slow downloads of the seemingly better treatment are missing because they did not complete.

    ``missing``: by how many points more than under the base did not complete. None where that does not matter.
    """
    better = METRICS[metric].better * difference.mean > 0
    if metric not in OF_COMPLETED or not difference.excludes_zero or abs(missing) < MISSING or better != (missing > 0):
        return None
    size = f"{format_number(100 * abs(difference.mean) / abs(base_mean), 2)} % " if base_mean else ""
    which = f"{format_number(abs(missing), 2)} points {'more' if missing > 0 else 'fewer'} did not complete"
    return f"{size}{'higher' if difference.mean > 0 else 'lower'} among completed downloads, but {which}, {_NEITHER}"


def is_not_judged(words: str) -> bool:
    """Whether a verdict is one of `not_judged`."""
    return words.endswith(_NEITHER)


def summarise(
    figures: pl.DataFrame, treatments: Sequence[str], kinds: Sequence[str] | None = None, *, by_seed: bool = False
) -> pl.DataFrame:
    """Summarise over networks, with the paired difference of every treatment to the first one.

    Parameters
    ----------
    figures : polars.DataFrame
        The result of `per_run`.
    treatments : sequence of str
        Treatments in the order of the experiment; the first is the base of comparison.
    kinds : sequence of str, optional
        Kinds of client in the order wanted; that of ``figures`` by default.
    by_seed : bool
        Whether seeds stand for networks in ``figures`` (`seeds_as_networks`); verdicts then speak of seeds.

    Returns
    -------
    polars.DataFrame
        ``kind, metric, unit, treatment``, then of the treatment itself ``networks, mean, low, high, method`` (the mean over
        networks with its interval, and which interval it is: `onionlab.stats.skewed`), ``geometric_mean, geometric_low,
        geometric_high`` (null where a value is not positive).

        Of its difference to the first treatment ``difference, difference_low, difference_high, difference_networks,
        difference_percent``; ``ratio, ratio_low, ratio_high``, the geometric mean of the networks' ratios; ``p`` of the paired
        test and, for the metrics in `metrics.HEADLINE`, ``p_holm``, corrected for their number; ``networks_needed``, with which
        the test would see a difference of this size in four of five experiments, and ``detectable``, the smallest difference
        that as many networks as there are would see as often (`onionlab.stats.power`); ``verdict`` in words.

        Bounds are null with fewer than two networks; the columns of differences are null for the first treatment.
    """
    order = list(kinds) if kinds is not None else figures["kind"].unique(maintain_order=True).to_list()
    samples = _samples(figures, treatments, order)
    pairs = {
        (treatment, *key): both
        for treatment in treatments[1:]
        for key, both in paired_differences(figures, treatment, treatments[0])
        .partition_by("kind", "metric", as_dict=True, maintain_order=True)
        .items()
    }
    none = pl.DataFrame(schema={"difference": pl.Float64, "base": pl.Float64})
    missing = {key: _more_missing(figures, key[0], treatments[0], key[1]) for key in {(one, kind) for one, kind, _ in pairs}}
    copied = {key: _are_copies(pairs, *key) for key in missing}
    networks = dict(figures.group_by("treatment").agg(pl.col("network").unique()).iter_rows())
    total = {one: len({*networks.get(one, ()), *networks.get(treatments[0], ())}) for one in treatments[1:]}
    rows: list[dict[str, object]] = []
    for (key, values), interval in zip(samples.items(), mean_intervals(samples.values()), strict=True):
        treatment, kind, metric = key
        if interval is None:
            continue
        row = {"kind": kind, "metric": metric, "unit": METRICS[metric].unit, "treatment": treatment, **_mean(values, interval)}
        if treatment != treatments[0]:
            both, of_pair = pairs.get(key, none), (treatment, kind)
            more, same = missing.get(of_pair, 0.0), copied.get(of_pair, True)
            row |= _difference(metric, both, more, copied=same, by_seed=by_seed, others=both.height < total[treatment])
        rows.append(row)
    correct_for_number(rows)
    frame = pl.DataFrame(rows, schema={**dict.fromkeys(("kind", "metric", "unit", "treatment"), pl.String), **_NUMBERS})
    ranks = {
        "kind": {name: number for number, name in enumerate(order)},
        "metric": {name: number for number, name in enumerate(METRICS)},
        "treatment": {name: number for number, name in enumerate(treatments)},
    }
    return frame.sort(
        *(pl.col(column).replace_strict(rank, return_dtype=pl.UInt32, default=None) for column, rank in ranks.items()),
        maintain_order=True,
    )


def _samples(figures: pl.DataFrame, treatments: Sequence[str], kinds: Sequence[str]) -> dict[tuple[str, str, str], Floats]:
    """One value per network of each treatment, kind of client and metric that has any, in their order."""
    parts = per_network(figures).partition_by("treatment", "kind", "metric", as_dict=True, maintain_order=True)
    keys = [(treatment, kind, metric) for treatment in treatments for kind in kinds for metric in METRICS]
    return {key: parts[key]["value"].to_numpy() for key in keys if key in parts}


def _mean(values: Floats, interval: Interval) -> dict[str, object]:
    """Columns of the mean over networks for one metric, kind and treatment."""
    columns: dict[str, object] = {
        "networks": interval.count,
        "mean": interval.mean,
        # No figure can be negative, though Student's interval does not know.
        "low": None if interval.low is None else max(0.0, interval.low),
        "high": interval.high,
        "method": interval.method if interval.low is not None else None,
    }
    typical = geometric_interval(values)
    if typical is not None:
        columns |= {"geometric_mean": typical.mean, "geometric_low": typical.low, "geometric_high": typical.high}
    return columns


def correct_for_number(rows: Sequence[dict[str, object]]) -> None:
    """Add ``p_holm`` to the rows whose metric is in `metrics.HEADLINE`: all of them are one family of comparisons."""
    family = [(row, p) for row in rows if row["metric"] in HEADLINE and isinstance(p := row.get("p"), float)]
    for (row, _), corrected in zip(family, holm([p for _, p in family]), strict=True):
        row["p_holm"] = corrected


def _missing(figures: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The share of downloads that did not complete, in percent, of each run."""
    counts = ("completed", "unfinished", *(metric for metric in METRICS if metric.startswith("failed_")))
    own = figures.filter(pl.col("kind") == kind, pl.col("metric").is_in(counts), pl.col("value").is_not_null())
    shares = own.group_by("treatment", "network", "seed").agg(
        share=100 * (1 - pl.col("value").filter(pl.col("metric") == "completed").sum() / pl.col("value").sum())
    )
    return shares.filter(pl.col("share").is_finite())


def more_missing_apart(figures: pl.DataFrame, treatment: str, base: str, kind: str) -> float:
    """By how many points more downloads did not complete than under the base, whose networks are others: means over networks."""
    networks = _missing(figures, kind).group_by("treatment", "network").agg(pl.col("share").mean())
    here, there = (networks.filter(pl.col("treatment") == one)["share"].mean() for one in (treatment, base))
    return float(here) - float(there) if isinstance(here, int | float) and isinstance(there, int | float) else 0.0


def _more_missing(figures: pl.DataFrame, treatment: str, base: str, kind: str) -> float:
    """By how many points the share of downloads that did not complete is greater than under the base, mean over pairs."""
    shares = _missing(figures, kind)
    there, here = (shares.filter(pl.col("treatment") == one) for one in (treatment, base))
    pairs = there.join(here, on=["network", "seed"], suffix="_base")
    mean = (pairs["share"] - pairs["share_base"]).mean()
    return float(mean) if isinstance(mean, int | float) else 0.0


def _are_copies(pairs: Mapping[tuple[str, str, str], pl.DataFrame], treatment: str, kind: str) -> bool:
    """Whether the pairs of a kind are copies of one another: no figure that hardly ever is the same twice differs among them."""
    times = [pairs.get((treatment, kind, metric)) for metric in CONTINUOUS]
    return all(are_copies(both["difference"].to_numpy()) for both in times if both is not None)


def _difference(
    metric: str, both: pl.DataFrame, missing: float, *, copied: bool, by_seed: bool, others: bool
) -> dict[str, object]:
    """Columns of the paired difference for one metric, kind and treatment.

    ``missing``: by how many points more downloads did not complete; ``copied``: whether the pairs are copies of one another;
    ``by_seed``: whether they are of seeds; ``others``: whether there are more networks than pairs.
    """
    values = both["difference"].to_list()
    difference = difference_interval(values)
    mean = both["base"].mean()
    base_mean = float(mean) if isinstance(mean, int | float) else None
    if difference is None:
        return {"verdict": verdict(metric, difference, base_mean, by_seed=by_seed, others=others)}
    columns: dict[str, object] = {
        "difference": difference.mean,
        "difference_networks": difference.count,
        "difference_percent": 100 * difference.mean / abs(base_mean) if base_mean else None,
    }
    if (words := not_judged(metric, difference, base_mean, missing)) is not None:
        return columns | {"verdict": words}
    sign = 2.0 ** (1 - len(values))
    if metric in COUNTED and difference.low is None and not copied and sign <= 1 - CONFIDENCE:
        # Shares and counts can differ by the same everywhere without being copies: the test of signs sees that.
        same = replace(difference, low=difference.mean, high=difference.mean)
        both_words = " with both" if others else ""
        words = verdict(metric, same, base_mean, shown=f"by the same in every {repeat(by_seed)}{both_words}", by_seed=by_seed)
        return columns | {"difference_low": same.low, "difference_high": same.high, "p": sign, "verdict": words}
    columns |= {
        "difference_low": difference.low,
        "difference_high": difference.high,
        "p": paired_p_value(values),
        "networks_needed": networks_needed(values),
        "detectable": detectable(values),
        "verdict": verdict(metric, difference, base_mean, by_seed=by_seed, others=others),
    }
    base = both["base"].to_numpy()
    if (base > 0).all():
        ratio = geometric_interval((base + both["difference"].to_numpy()) / base)
        if ratio is not None:
            # The logarithms of copies may differ in their last digit.
            bounds = (None, None) if difference.low is None else (ratio.low, ratio.high)
            columns |= {"ratio": ratio.mean, "ratio_low": bounds[0], "ratio_high": bounds[1]}
    return columns
