"""Where the spread of a figure comes from: which network was sampled, or what happened in it.

A one-way analysis of variance with random effects: the figure of run s in network k is a mean, plus an effect of the network,
plus an effect of the seed. It needs several seeds in several networks.

References
----------
Searle, Casella and McCulloch, "Variance Components" (1992), section 3.6, for unequal numbers of seeds. That the network
dominates: Jansen et al., "Once is Never Enough", USENIX Security 2021.
"""

from __future__ import annotations

import math

import polars as pl

from onionlab.stats.metrics import METRICS

#: What names a group of runs of one kind of figure.
_GROUP = ("treatment", "kind", "metric")


def variance_split(figures: pl.DataFrame) -> pl.DataFrame:
    """Split the variance of each figure of `per_run` into that between networks and that between the seeds of a network.

    Returns
    -------
    polars.DataFrame
        ``treatment, kind, metric, unit, networks, runs, mean, between_networks, between_seeds`` (both standard deviations, in
        the figure's unit), ``network_share`` (the networks' share of a single run's variance, percent; null where nothing
        varies). Only figures with at least two networks and a network of at least two seeds; empty otherwise. A negative
        estimate for the networks, which few networks can give, counts as 0.

    Examples
    --------
    >>> rows = [("a", net, seed, "web", "ttfb_median", 10.0 * net + seed) for net in (0, 1, 2) for seed in (1, 2)]
    >>> names = ["treatment", "network", "seed", "kind", "metric", "value"]
    >>> split = variance_split(pl.DataFrame(rows, schema=names, orient="row")).row(0, named=True)
    >>> round(split["between_networks"] ** 2, 2), round(split["between_seeds"] ** 2, 2)
    (99.75, 0.5)
    """
    rows: list[dict[str, object]] = []
    for key, part in figures.drop_nulls("value").group_by(*_GROUP, maintain_order=True):
        found = _split(part)
        if found is not None:
            unit = METRICS[str(key[2])].unit
            rows.append({**dict(zip(_GROUP, key, strict=True)), "unit": unit, **found})
    return pl.DataFrame(
        rows,
        schema={
            **dict.fromkeys((*_GROUP, "unit"), pl.String),
            "networks": pl.UInt32,
            "runs": pl.UInt32,
            **dict.fromkeys(("mean", "between_networks", "between_seeds", "network_share"), pl.Float64),
        },
    )


def _split(part: pl.DataFrame) -> dict[str, object] | None:
    """Components for one figure; None without several seeds in a network and several networks."""
    groups = [values.to_numpy() for values in part.group_by("network", maintain_order=True).agg("value")["value"]]
    networks, runs = len(groups), sum(map(len, groups))
    if networks < 2 or runs == networks:
        return None
    mean = sum(float(group.sum()) for group in groups) / runs
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / (runs - networks)
    between = sum(len(group) * (float(group.mean()) - mean) ** 2 for group in groups) / (networks - 1)
    # As many seeds as each network effectively has.
    seeds = (runs - sum(len(group) ** 2 for group in groups) / runs) / (networks - 1)
    of_network = max(0.0, (between - within) / seeds)
    total = of_network + within
    return {
        "networks": networks,
        "runs": runs,
        "mean": sum(float(group.mean()) for group in groups) / networks,
        "between_networks": math.sqrt(of_network),
        "between_seeds": math.sqrt(within),
        "network_share": 100 * of_network / total if total > 0 else None,
    }
