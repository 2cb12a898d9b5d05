"""Figures of a run, against transfers small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from fake_core import NETWORK, TRANSFERS
from onionlab.stats import metrics

RUN_KEYS: dict[str, Any] = {"treatment": "a", "network": 0, "seed": 1}
S = 1_000_000_000


def transfer(start: float, first: float | None, last: float | None, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    return {
        **RUN_KEYS,
        "client": "web0",
        "group": "web",
        "ordinal": 0,
        "circuit": 0,
        "size_bytes": 1_000_000,
        "received_bytes": 1_000_000 if outcome == "ok" else 0,
        "start_ns": round(start * S),
        "connected_ns": None,
        "first_byte_ns": None if first is None else round(first * S),
        "last_byte_ns": None if last is None else round(last * S),
        "end_ns": None,
        "outcome": outcome,
        **more,
    }


def transfers(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"treatment": pl.String, "network": pl.UInt32, "seed": pl.UInt64, **TRANSFERS})


def samples(*goodput: int, used: float = 0.5) -> pl.DataFrame:
    rows = [
        {**RUN_KEYS, "time_ns": (number + 1) * S, "goodput_bytes": value, "utilisation_middle": used}
        for number, value in enumerate(goodput)
    ]
    return pl.DataFrame(rows, schema={"treatment": pl.String, "network": pl.UInt32, "seed": pl.UInt64, **NETWORK})


def figures(rows: list[dict[str, Any]], series: pl.DataFrame | None = None) -> dict[tuple[str, str], float | None]:
    frame = metrics.per_run(transfers(rows), samples() if series is None else series, measure_from=10.0, duration=20.0)
    return {(row["kind"], row["metric"]): row["value"] for row in frame.iter_rows(named=True)}


def test_times_are_order_statistics_of_what_happened() -> None:
    rows = [transfer(10 + i, 10 + i + (i + 1) / 10, 10 + i + (i + 1)) for i in range(5)]
    found = figures(rows)
    assert found["web", "ttfb_median"] == pytest.approx(0.3)
    assert found["web", "ttfb_p90"] == pytest.approx(0.4)  # rank int(4 * 0.9) = 3
    assert found["web", "ttlb_median"] == pytest.approx(3.0)
    assert found["web", "ttlb_p90"] == pytest.approx(4.0)
    assert found["web", "completed"] == 5
    assert found["web", "failed"] == 0


def test_goodput_counts_all_payload_of_the_measured_time() -> None:
    rows = [transfer(10, 11, 12), transfer(12, 13, None, "timeout", received_bytes=250_000)]
    assert figures(rows)["web", "goodput"] == pytest.approx(1_250_000 * 8 / 1e6 / 10)


def test_what_starts_before_the_measurement_is_cut() -> None:
    rows = [transfer(9.999, 10.5, 11.0), transfer(10.0, 12.0, 13.0)]
    found = figures(rows)
    assert found["web", "completed"] == 1
    assert found["web", "ttlb_median"] == pytest.approx(3.0)


def test_failures_are_counted_by_kind_and_unfinished_apart() -> None:
    rows = [
        transfer(11, 12, 13),
        transfer(11, 12, 13),
        transfer(11, 12, 13),
        transfer(11, None, None, "timeout"),
        transfer(11, 15, None, "stall"),
        transfer(11, None, None, "circuit-closed"),
        transfer(11, 19, None, "unfinished"),
        transfer(11, 19, None, "unfinished"),
    ]
    found = figures(rows)
    assert found["web", "failed"] == pytest.approx(50.0)
    assert [found["web", f"failed_{kind}"] for kind in ("timeout", "stall", "circuit_closed")] == [1, 1, 1]
    assert found["web", "unfinished"] == 2
    # A byte that came counts, whatever became of the transfer: first bytes after 1, 1, 1, 4, 8, 8 s.
    assert found["web", "ttfb_p90"] == pytest.approx(8.0)
    assert found["web", "ttlb_p90"] == pytest.approx(2.0)


def test_a_figure_without_data_is_null_and_not_absent() -> None:
    found = figures([transfer(11, None, None, "timeout")])
    assert found["web", "ttlb_median"] is None
    assert found["web", "ttfb_median"] is None
    assert found["web", "failed"] == 100
    assert figures([transfer(11, None, None, "unfinished")])["web", "failed"] is None


def test_a_group_with_few_sizes_is_split_by_size() -> None:
    rows = [transfer(11, 12, 13), transfer(11, 12, 15, size_bytes=50_000, received_bytes=50_000)]
    found = figures(rows)
    assert found["web, 1 MB", "ttlb_median"] == pytest.approx(2.0)
    assert found["web, 50 kB", "ttlb_median"] == pytest.approx(4.0)
    alike = [transfer(11, 12, 13, size_bytes=10_000_001), transfer(11, 12, 15, size_bytes=10_000_002)]
    assert figures(alike)["web, 10,000,002 B", "completed"] == 1
    many = [transfer(11, 12, 13, size_bytes=size) for size in range(1000, 1007)]
    assert figures(many)["web", "completed"] == 7


def test_kinds_follow_the_experiment_and_keep_silent_groups() -> None:
    rows = [transfer(11, 12, 13, group="b"), transfer(11, 12, 13, group="b", size_bytes=10)]
    frame = metrics.with_kind(transfers(rows))
    assert metrics.kinds(frame, ["b", "a"]) == ["b, 10 B", "b, 1 MB", "a"]


def test_network_figures_use_the_measured_time_only() -> None:
    series = samples(*[999_999] * 10, *[125_000] * 10, used=0.96)
    found = figures([transfer(11, 12, 13)], series)
    assert found[metrics.WHOLE, "goodput"] == pytest.approx(1.0)
    assert found[metrics.WHOLE, "utilisation_middle"] == pytest.approx(96.0)
    assert found[metrics.WHOLE, "utilisation_exit"] is None


def test_a_sample_counts_by_its_part_within_the_measured_time() -> None:
    """Samples of 4 s but for a last one of 2 s, measured from second 10: of the third half counts, and of the last all."""
    ends, used = [4, 8, 12, 16, 20, 22], [0.0, 0.0, 0.2, 0.4, 0.4, 1.0]
    series = pl.DataFrame(
        [
            {**RUN_KEYS, "time_ns": end * S, "goodput_bytes": 125_000 * size, "utilisation_middle": share}
            for end, size, share in zip(ends, [9, 9, 4, 4, 4, 14], used, strict=True)
        ],
        schema={"treatment": pl.String, "network": pl.UInt32, "seed": pl.UInt64, **NETWORK},
    )
    found = figures([transfer(11, 12, 13)], series)
    assert found[metrics.WHOLE, "goodput"] == pytest.approx((2 + 4 + 4 + 14) / 12)
    assert found[metrics.WHOLE, "utilisation_middle"] == pytest.approx(100 * (2 * 0.2 + 8 * 0.4 + 2 * 1.0) / 12)


def test_what_a_measurement_takes_of_a_series_with_its_own_samples() -> None:
    """Two relays, whose samples lie between one another's; the measurement begins in the middle of the second one's second."""
    rows = [(4, "x", 7.0), (6, "y", 9.0), (8, "x", 3.0), (10, "y", 8.0), (12, "x", None), (14, "y", 2.0)]
    relays = pl.DataFrame(
        [{**RUN_KEYS, "time_ns": end * S, "relay": name, "cells": value} for end, name, value in rows], infer_schema_length=None
    )
    shares = relays.select(metrics.measured_share(8.0, "relay"))["time_ns"].to_list()
    assert shares == [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]
    assert metrics.measured_sum(relays, "cells", 8.0, "relay") == 4.0 + 2.0
    assert metrics.measured_sum(relays, "cells", 20.0, "relay") == 0.0
    alone = relays.filter(relay="y")
    assert metrics.measured_mean(alone, "cells", 8.0) == pytest.approx((2 * 8.0 + 4 * 2.0) / 6)
    assert metrics.measured_mean(alone, "cells", 20.0) is None


def test_a_run_that_was_brought_to_a_stop_counts() -> None:
    """In network 1 treatment b begins no transfer in the measured time: zeros and nulls, not nothing at all."""
    runs = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    rows = [
        {**transfer(8 if (treatment, number) == ("b", 1) else 12, 13, 14), "treatment": treatment, "network": number}
        for treatment, number in runs
    ]
    one = samples(*[125_000] * 20)
    series = pl.concat(
        one.with_columns(treatment=pl.lit(treatment), network=pl.lit(number, pl.UInt32)) for treatment, number in runs
    )
    found = metrics.per_run(transfers(rows), series, measure_from=10.0, duration=20.0)
    of_web = found.filter(pl.col("kind") == "web")
    assert of_web.group_by("treatment", "network").len()["len"].unique().to_list() == [of_web["metric"].n_unique()]
    stopped = of_web.filter(pl.col("treatment") == "b", pl.col("network") == 1)
    values = dict(stopped.select("metric", "value").iter_rows())
    assert (values["completed"], values["goodput"], values["ttlb_median"], values["failed"]) == (0, 0, None, None)


@pytest.mark.parametrize("begin", [20.0, 25.0])
def test_nothing_is_measured_when_all_is_over(begin: float) -> None:
    """Zeros would say that the network was at a stop."""
    with pytest.raises(ValueError, match=f"begins at {begin:g} s, which must be before the end at 20 s"):
        metrics.per_run(transfers([transfer(11, 12, 13)]), samples(1), measure_from=begin, duration=20.0)


def test_what_came_by_transfers_begun_before_the_measurement_is_known_as_a_share() -> None:
    """Of one that was under way then, what arrived is spread evenly from its first byte to its end."""
    rows = [
        transfer(2, 4, 16, end_ns=16 * S, received_bytes=1_200_000),  # half of it after 10 s
        transfer(3, None, None, "unfinished", end_ns=20 * S),  # nothing arrived
        transfer(1, 2, 9, end_ns=9 * S),  # before
        transfer(12, 13, 14, end_ns=14 * S, received_bytes=200_000),
        transfer(10, 11, 12, end_ns=12 * S, group="bulk"),
        transfer(11, None, None, "unfinished", end_ns=20 * S, group="idle"),
    ]
    found = metrics.begun_before(metrics.with_kind(transfers(rows)), 10.0)
    assert found == {("a", "web"): pytest.approx(0.75), ("a", "bulk"): 0.0}
    assert set(metrics.begun_before(metrics.with_kind(transfers(rows)), 0.0).values()) == {0.0}
