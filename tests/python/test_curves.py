"""Bands over networks, recomputed here from the published description."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from onionlab.stats.curves import QUANTILES, cdf_bands, quantile_bands, series_bands, tail_quantiles


def cut(runs: dict[tuple[int, int], list[float]]) -> pl.DataFrame:
    rows = [("a", network, seed, value) for (network, seed), values in runs.items() for value in values]
    return pl.DataFrame(rows, schema=["treatment", "network", "seed", "ttlb"], orient="row")


def test_the_fields_band_follows_once_is_never_enough() -> None:
    rng = np.random.default_rng(2)
    runs = {(network, 1): rng.lognormal(1.0, 0.5, 40 + network).tolist() for network in range(4)}
    found = quantile_bands(cut(runs), "ttlb", ["a"])
    assert found["quantile"].to_list() == QUANTILES.tolist()
    for row in found.gather_every(20).iter_rows(named=True):
        at = [sorted(values)[int((len(values) - 1) * row["quantile"])] for values in runs.values()]
        # Their estimator: population variance, half width t * sqrt(v) / sqrt(k - 1).
        error = stats.t.ppf(0.975, 3) * np.sqrt(np.var(at)) / np.sqrt(3)
        assert row["mean"] == pytest.approx(np.mean(at))
        assert row["low"] == pytest.approx(max(0, np.mean(at) - error))
        assert row["high"] == pytest.approx(np.mean(at) + error)
    # A report draws the same edges in ascending order.
    drawn = cdf_bands(cut(runs), "ttlb", ["a"])
    assert drawn.select("quantile", "mean").equals(found.select("quantile", "mean"))
    for edge in ("low", "high"):
        assert drawn[edge].equals(found[edge].sort())


def test_cdf_averages_seeds_within_a_network() -> None:
    found = cdf_bands(cut({(0, 1): [1.0], (0, 2): [3.0], (1, 1): [5.0]}), "ttlb", ["a"])
    assert found["networks"].unique().to_list() == [2]
    assert found["mean"].unique().to_list() == [3.5]


def test_one_network_has_a_line_and_no_band() -> None:
    found = cdf_bands(cut({(0, 1): [1.0, 2.0]}), "ttlb", ["a"])
    assert found.height == QUANTILES.size
    assert found["low"].null_count() == found.height


def test_treatment_without_values_has_no_rows() -> None:
    found = cdf_bands(cut({(0, 1): [1.0, 2.0]}), "ttlb", ["a", "b"])
    assert found["treatment"].unique().to_list() == ["a"]


def series(*values: float) -> pl.DataFrame:
    rows = [("a", 0, 1, (number + 1) * 1_000_000_000, value) for number, value in enumerate(values)]
    return pl.DataFrame(rows, schema=["treatment", "network", "seed", "time_ns", "value"], orient="row")


def test_long_series_are_averaged_over_equal_bins() -> None:
    found, width = series_bands(series(1, 3, 5, 7, 9), pl.col("value"), ["a"], points=3)
    assert width == 2
    assert found["time"].to_list() == [2, 4, 5]
    assert found["mean"].to_list() == [2, 6, 9]


def test_running_totals_take_the_last_of_a_bin() -> None:
    found, _ = series_bands(series(0, 1, 1, 4, 6), pl.col("value"), ["a"], cumulated=True, points=3)
    assert found["mean"].to_list() == [1, 4, 6]


def test_a_series_with_holes_is_not_drawn_as_if_it_were_whole() -> None:
    found, _ = series_bands(series(1, 2), pl.when(pl.col("value") > 1).then("value"), ["a"])
    assert found.height == 0


def over_networks(values: dict[str, list[list[float]]]) -> pl.DataFrame:
    rows = [
        (treatment, network, 1, value)
        for treatment, networks in values.items()
        for network, of_network in enumerate(networks)
        for value in of_network
    ]
    return pl.DataFrame(rows, schema=["treatment", "network", "seed", "ttlb"], orient="row")


def test_all_lines_of_a_picture_have_one_kind_of_band_with_edges_that_ascend() -> None:
    rng = np.random.default_rng(8)
    # Alone, the band of the first would be Student's and that of the second log-normal.
    calm = [(10 + rng.normal(0, 1, 30)).tolist() for _ in range(6)]
    wide = [(rng.lognormal(0, 1.0) * rng.lognormal(0, 0.5 + network / 10, 30)).tolist() for network in range(6)]
    kinds = {}
    for name, values in {"calm": {"a": calm}, "wide": {"b": wide}, "both": {"a": calm, "b": wide}}.items():
        for quantiles in (QUANTILES, tail_quantiles(2)):
            bands = quantile_bands(over_networks(values), "ttlb", ["a", "b"], quantiles=quantiles, method="suitable")
            kinds.setdefault(name, set()).update(bands["method"].unique())
            for _, line in bands.group_by("treatment"):
                assert (line["low"].diff().drop_nulls() >= 0).all()
                assert (line["high"].diff().drop_nulls() >= 0).all()
    assert kinds["calm"] == {"student"}
    assert kinds["wide"] == {"log-normal"}
    assert len(kinds["both"]) == 1
    # The field's band is as the field draws it.
    plain = quantile_bands(over_networks({"b": wide}), "ttlb", ["b"])
    assert plain["method"].unique().to_list() == ["student"]
