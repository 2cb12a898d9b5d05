"""The live network's figures in the forms in which they are published, and a simulation beside them."""

from __future__ import annotations

import json
import lzma
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from onionlab.errors import ResultsError, UntrustedError
from onionlab.live_network import tor_metrics
from onionlab.live_network.calibrate import calibrate, page, year_of
from onionlab.live_network.tor_metrics import Metrics
from onionlab.results.request_times import on_time

TABLES = {
    "torperf.csv": """\
#
# The Tor Project
date,filesize,source,server,q1,md,q3
2026-05-01,51200,op-hk6a,public,0.8,1.0,1.5
2026-05-02,51200,op-hk6a,public,1.0,1.2,1.7
2026-05-02,51200,op-hk6a,onion,9.0,9.0,9.0
2026-05-01,5242880,,public,4.0,6.0,9.0
""",
    "onionperf-latencies.csv": """\
date,source,server,low,q1,md,q3,high
2026-05-01,op-us,public,100,200,300,500,900
2026-05-01,op-us,onion,900,900,900,900,900
2026-05-01,,public,700,800,800,800,900
2026-05-02,,public,700,800,800,800,900
""",
    "onionperf-buildtimes.csv": """\
date,source,position,q1,md,q3
2026-05-01,op-us,1,50,60,80
2026-05-01,op-us,2,100,120,150
2026-05-01,op-us,3,150,200,260
2026-05-01,,3,900,900,900
2026-05-02,,3,900,900,900
""",
    "torperf-failures.csv": "date,filesize,source,server,timeouts,failures\n2026-05-01,51200,op-us,public,0.02,0.01\n",
    "bandwidth.csv": "date,advbw,bwhist\n2026-05-01,800,300\n2026-05-02,820,\n2026-05-03,840,320\n",
}


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_tables_of_tor_metrics(tmp_path: Path) -> None:
    live = Metrics()
    for name, content in TABLES.items():
        live.add(written(tmp_path, name, content))
    assert live.sources == list(TABLES)
    assert live.when == "2026"
    assert live.times["51200"] == pytest.approx({0.25: 0.9, 0.5: 1.1, 0.75: 1.6})
    assert "1048576" not in live.times
    assert live.times["circuit_rtt"] == pytest.approx({0.25: 0.2, 0.5: 0.3, 0.75: 0.5})
    assert live.times["circuit_build_times"] == pytest.approx({0.25: 0.3, 0.5: 0.38, 0.75: 0.49})
    assert live.error_rate == pytest.approx(0.03)
    assert live.relay_goodput == pytest.approx(310e9)


def test_counts_are_pooled_and_milliseconds_are_told_by_them(tmp_path: Path) -> None:
    rows = """\
date,filesize,source,server,q1,md,q3,timeouts,failures,requests
2019-05-01,51200,op-us,public,800,1000,1500,1,2,100
2019-05-02,51200,op-us,public,1000,1200,1700,0,0,90
2019-05-01,51200,,public,9000,9000,9000,50,50,100
2019-05-01,5242880,op-us,public,4000,6000,9000,1,0,10
"""
    live = Metrics()
    live.add(written(tmp_path, "torperf-1.1.csv", rows))
    assert live.when == "2019"
    assert live.times["51200"] == pytest.approx({0.25: 0.9, 0.5: 1.1, 0.75: 1.6})
    assert live.times["5242880"][0.5] == pytest.approx(6.0)
    assert live.error_rate == pytest.approx(4 / 200)


def test_shares_of_days_are_averaged_and_weighted_by_size(tmp_path: Path) -> None:
    """Most days nothing fails: their median would be nothing."""
    days = [("51200", 0.0)] * 8 + [("51200", 0.1)] * 2 + [("5242880", 0.0)] * 3 + [("5242880", 0.2)]
    rows = "".join(f"2026-05-{day + 1:02d},{size},op-us,public,{share},0\n" for day, (size, share) in enumerate(days))
    live = Metrics()
    live.add(written(tmp_path, "failures.csv", f"date,filesize,source,server,timeouts,failures\n{rows}"))
    assert live.error_rate == pytest.approx((12 * 0.02 + 1 * 0.05) / 13)


def test_staged_measurements_of_tornettools(tmp_path: Path) -> None:
    content = {
        "circuit_rtt": [0.4, 0.1, 0.2, 0.3, 0.5],
        "circuit_build_times": [],
        "download_times": {"ALL": [1.0], "51200": [2.0, 1.0, 3.0]},
        "daily_counts": {
            "2026-05-01": {"requests": 90, "timeouts": 3, "failures": 0},
            "2026-05-02": {"requests": 10, "timeouts": 1, "failures": 1},
        },
        "relay_goodput": {"2026-05-01": 300.0, "2026-05-02": 310.0, "2026-05-03": 305.0},
    }
    path = tmp_path / "tor_metrics.json.xz"
    path.write_bytes(lzma.compress(json.dumps(content).encode()))
    live = Metrics()
    live.add(path)
    assert live.times["circuit_rtt"][0.5] == 0.3
    assert live.times["51200"][0.9] == 2.0, "the lower order statistic"
    assert "circuit_build_times" not in live.times
    assert live.error_rate == pytest.approx(0.05)
    assert live.relay_goodput == pytest.approx(305e9)
    assert live.when == "2026"


def test_quantiles(tmp_path: Path) -> None:
    content = {
        "quantiles": [0.1, 0.5],
        "tor_2019": {"circuit_rtt": [0.14, 0.4], "download_times": {"51200": [0.4, 1.23]}, "timeout_percent": 8.0},
    }
    live = Metrics()
    live.add(written(tmp_path, "targets.json", json.dumps(content)))
    assert live.named() == "targets.json (of 2019)"
    assert live.times == {"circuit_rtt": {0.1: 0.14, 0.5: 0.4}, "51200": {0.1: 0.4, 0.5: 1.23}}
    assert live.error_rate == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is no JSON"),
        ("{}", "has neither measurements"),
        ('{"circuit_rtt": ["fast"]}', "`circuit_rtt` is"),
        ('{"quantiles": [0.5], "tor_2019": {"circuit_rtt": [1, 2]}}', "a list of 1 numbers"),
        ("date,speed\n1,2\n", "no table of Tor Metrics"),
        ("", "no table of Tor Metrics"),
        ("date,filesize,source,server,timeouts,failures\n2026-05-01,51200,a,public,3,0\n", "must be a share, from 0 to 1"),
        (
            "date,filesize,source,server,timeouts,failures\n2026-05-01,7,a,public,0,0\n",
            "no rows of 51200, 1048576, 5242880 bytes",
        ),
        ("date,advbw,bwhist\n2026-05-01,1,much\n", "`bwhist` is 'much'"),
        ("date,advbw,bwhist\n2026-05-01,1,\n", "no numbers in the column `bwhist`"),
        ("date,advbw,bwhist\n2026-05-01,1,inf\n", "`bwhist` is 'inf', but must be a number from 0 to 1e[+]09"),
        ("date,advbw,bwhist\n2026-05-01,1,-3\n", "`bwhist` is '-3'"),
        ("date,advbw,bwhist\n2026-05-01,1," + "1" * 140_000 + "\n", "no table of Tor Metrics .field larger than field limit"),
        ("x" * 140_000 + "\n", "no table of Tor Metrics .field larger than field limit"),
        (",".join(map(str, range(20_000))) + "\n" * 5_000 + "1\n" * 400_000, "has 20,000 columns, more than the 100"),
        ('{"quantiles": [0.5], "tor_2019": {"timeout_percent": "many"}}', "`timeout_percent` is 'many', but must be a number"),
        ('{"quantiles": [0.5], "tor_2019": {"failure_percent": [8]}}', r"`failure_percent` is \[8\], but must be a number"),
        ('{"quantiles": [0.5], "tor_2019": {"failure_percent": 800}}', "must be a number from 0 to 100"),
        ('{"circuit_rtt": ' + "[" * 980 + "]" * 980 + "}", "`circuit_rtt` is |is no JSON"),
    ],
)
def test_other_files_are_refused_in_one_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UntrustedError, match=sentence) as refused:
        Metrics().add(written(tmp_path, "file", content))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_share_that_is_not_known(tmp_path: Path) -> None:
    live = Metrics()
    text = '{"quantiles": [0.5], "tor_2019": {"timeout_percent": null, "failure_percent": 3}}'
    live.add(written(tmp_path, "targets.json", text))
    assert live.error_rate == pytest.approx(0.03)


def experiment(kind: str = "perf", early: bool = False, purpose: str = "exit", built: float = 25.75, retries: int = 0) -> Any:
    """Two treatments; downloads of 50 KiB that take 1, 2, 3 s after a second's wait for the stream, over one circuit."""
    transfers = pl.DataFrame(
        [
            {
                "treatment": treatment,
                "network": 0,
                "seed": 1,
                "circuit": 7,
                "retries": retries,
                "group": "measure",
                "outcome": "ok" if index < 3 else "timeout",
                "size_bytes": 51_200,
                "start_ns": int(30e9),
                "connected_ns": int(31e9),
                "first_byte_ns": int(31.5e9),
                "last_byte_ns": int((32 + index) * 1e9),
            }
            for treatment in ("a", "b")
            for index in range(4)
        ]
    )
    circuits = pl.DataFrame(
        {
            "treatment": ["a", "b"],
            "network": [0] * 2,
            "seed": [1] * 2,
            "circuit": [7] * 2,
            "group": ["measure"] * 2,
            "purpose": [purpose] * 2,
            "launched_ns": [int(25e9)] * 2,
            "built_ns": [int(built * 1e9)] * 2,
            "joined_ns": pl.Series([None, None], dtype=pl.Int64),
        }
    )
    return SimpleNamespace(
        directory=Path("out"),
        treatments=["a", "b"],
        transfers=transfers,
        circuits=circuits,
        network=pl.DataFrame(
            {
                "treatment": ["a", "a", "b", "b"],
                "network": [0] * 4,
                "seed": [1] * 4,
                # The measurement begins when half of the second sample's time is over.
                "time_ns": [int(10e9), int(30e9), int(20e9), int(40e9)],
                "relay_bytes_sent": [7, 10 * 10**9, 7, 10**9],
            }
        ),
        runs=pl.DataFrame(
            {
                "treatment": ["a", "b"],
                "network": [0] * 2,
                "seed": [1] * 2,
                "treatment_json": [json.dumps({"optimistic-data": early})] * 2,
                "divergence_json": ['{"scale": 0.01}'] * 2,
            }
        ),
        plan=SimpleNamespace(scenario={"clients": [{"group": "measure", "load": {"kind": kind}}], "network": {}}),
        measure_from=20.0,
        swept=False,
        by_seed=False,
        duration=60.0,
    )


def live() -> Metrics:
    return Metrics(
        ["metrics"], {"51200": {0.5: 4.0}, "circuit_rtt": {0.5: 0.25}, "circuit_build_times": {0.5: 1.5}}, 0.125, 200e9
    )


def test_a_simulation_beside_them() -> None:
    first, second = calibrate(experiment(), live())
    found = {(line.name.split(",")[0], line.of): (line.ours.mean, line.theirs) for line in first.lines}
    assert found["time to last byte", "p50"] == (2.0, 4.0)
    assert found["circuit round trip", "p50"] == (0.5, 0.25)
    assert found["circuit build time", "p50"] == (0.75, 1.5)
    assert found["failed downloads", "all"] == (25.0, 12.5)
    # Half of 10 GB in 40 s are 1 Gbit/s, and a hundredth of 200 Gbit/s is 2.
    assert found["goodput of relays at 1 %", "mean"] == (1.0, 2.0)
    assert second.lines[-1].ours.mean == 0.2
    text = page([first, second], live(), Path("out/x"))
    assert "| time to last byte, 50 KiB, s | p50 | 2.00 | 4.00 | 0.50 |" in text
    assert "**b**, 4 downloads:" in text


def test_years_stand_beside_the_figures_and_other_years_are_said(tmp_path: Path) -> None:
    """Figures of 2019 tell little of a network of 2026: nobody should have to find that out alone."""
    metrics = Metrics()
    metrics.add(written(tmp_path, "targets.json", '{"quantiles": [0.5], "tor_2019": {"circuit_rtt": [0.4]}}'))
    calibrations = calibrate(experiment(), metrics)
    apart = page(calibrations, metrics, Path("out/x"), 2026)
    assert apart.startswith("Simulated: out/x, the network of 2026. Live: targets.json (of 2019).\n")
    assert "**The live figures are of 2019, the simulated network is that of 2026**" in apart
    assert "| | | simulated | live, 2019 | ratio |" in apart
    for year in (2019, None):
        assert "**The live figures" not in page(calibrations, metrics, Path("out/x"), year)
    staged = '{"circuit_rtt": [0.4], "relay_goodput": {"2022-12-31": 300, "2023-01-01": 300}}'
    metrics.add(written(tmp_path, "staged.json", staged))
    assert metrics.when == "2019 and 2022 to 2023"
    assert metrics.of_other_years(2023).startswith("**The live figures are of 2019 and 2022 to 2023,")
    # Without counts the name alone has days, and a file may have none at all.
    for name, when in (("tor_metrics_2024-05-01--2024-05-31.json", "2024"), ("metrics.json", "")):
        alone = Metrics()
        alone.add(written(tmp_path, name, '{"circuit_rtt": [0.4]}'))
        assert alone.when == when
    assert "| | | simulated | live | ratio |" in page(calibrate(experiment(), alone), alone, Path("out/x"), 2026)


@pytest.mark.parametrize(
    ("network", "year"),
    [
        ({"kind": "synthetic", "year": 2024.5}, 2024),
        ({"kind": "consensus", "document": {"path": "../2019-old/md-2026-06-27.xz"}}, 2026),
        ({"kind": "consensus", "document": {"path": "2021-11-15-13-00-00-consensus-microdesc"}}, 2021),
        ({"kind": "consensus", "document": {"path": "november.xz"}}, None),
        ({"kind": "file", "document": {"path": "of-2019-01-01.json"}}, None),
    ],
)
def test_the_year_of_a_network(network: dict[str, Any], year: int | None) -> None:
    one = SimpleNamespace(plan=SimpleNamespace(scenario={"network": network}))
    assert year_of(one) == year  # type: ignore[arg-type]


def test_networks_are_not_pooled() -> None:
    """A second network with many slow downloads, and two seeds of a third: each network counts once, each of its seeds half."""
    one = experiment()
    first = {name: getattr(one, name) for name in ("transfers", "circuits", "network", "runs")}
    for network, seed, often, later in ((1, 1, 40, 4.0), (2, 1, 1, 5.0), (2, 2, 1, 7.0)):
        for name, frame in first.items():
            other = frame.with_columns(network=pl.lit(network, pl.Int64), seed=pl.lit(seed, pl.Int64))
            if name == "transfers":
                slower = other.with_columns(last_byte_ns=pl.col("last_byte_ns") + int(later * 1e9))
                other = pl.concat([slower] * often)
            setattr(one, name, pl.concat([getattr(one, name), other]))
    found, _ = calibrate(one, live())
    assert found.transfers == 4 * (1 + 40 + 1 + 1)
    line = next(line for line in found.lines if line.name.startswith("time to last byte"))
    assert (line.name, line.of, line.ours.count) == ("time to last byte, 50 KiB, s", "p50", 3)
    assert line.ours.mean == pytest.approx((2 + 6 + (7 + 9) / 2) / 3)
    assert found.lines[-1].ours.mean == pytest.approx(1.0)
    text = page([found], live(), Path("out/x"))
    assert "Simulated: means over 3 networks, or seeds of one, with 95 % intervals between them." in text
    assert "| time to last byte, 50 KiB, s | p50 | 5.33 [0.00, 12.92] | 4.00 | 1.33 |" in text


@pytest.mark.parametrize(
    ("case", "trip"),
    [
        # The request goes with BEGIN, at once or when the circuit is there.
        ({}, 1.5),
        ({"built": 30.25}, 1.25),
        # Over a set it waits for CONNECTED; after a second try nobody knows when it went.
        ({"purpose": "leg"}, 0.5),
        ({"purpose": "leg", "built": 30.25}, 0.5),
        ({"retries": 1}, 0.5),
    ],
)
def test_with_optimistic_data_times_count_from_begin(case: dict[str, Any], trip: float) -> None:
    lines = calibrate(experiment(early=True, **case), live(), scale=0.02)[0].lines
    assert next(line.ours.mean for line in lines if line.name.startswith("circuit round")) == trip
    assert next(line.ours.mean for line in lines if line.name.startswith("time to last byte")) == trip + 1.5
    assert lines[-1].theirs == 4.0


@pytest.mark.parametrize("purpose", ["exit", "leg"])
def test_without_optimistic_data_times_count_from_connected(purpose: str) -> None:
    lines = calibrate(experiment(purpose=purpose, built=30.25), live())[0].lines
    assert next(line.ours.mean for line in lines if line.name.startswith("circuit round")) == 0.5


def test_downloads_from_onion_services_are_not_held_against_those_from_servers() -> None:
    """Another group measures from services: it changes nothing, and alone it is none that measures."""
    one = experiment()
    onion = {"group": "onion", "load": {"kind": "perf"}, "onion": {"services": {"services": 2}}}
    one.plan.scenario["clients"].append(onion)
    slower = one.transfers.with_columns(group=pl.lit("onion"), last_byte_ns=pl.col("last_byte_ns") + int(9e9))
    one.transfers = pl.concat([one.transfers, slower])
    assert calibrate(one, live())[0].lines == calibrate(experiment(), live())[0].lines
    one.plan.scenario["clients"] = [onion]
    with pytest.raises(ResultsError, match="not from onion services"):
        calibrate(one, live())


def test_what_is_left_out_is_said_and_a_treatment_without_runs_ends_nothing() -> None:
    found = calibrate(experiment(), live(), scale=0.0)
    assert not [line for one in found for line in one.lines if line.name.startswith("goodput")]
    assert "The goodput of relays is left out" in page(found, live(), Path("out/x"))
    assert "left out" not in page(calibrate(experiment(), live()), live(), Path("out/x"))
    half = experiment()
    half.runs = half.runs.filter(pl.col("treatment") == "a")
    assert [one.treatment for one in calibrate(half, live())] == ["a"]


def test_nobody_measures() -> None:
    with pytest.raises(ResultsError, match="no group of clients that measure"):
        calibrate(experiment("web"), live())


def test_a_share_without_anything_to_scale_is_refused() -> None:
    without = Metrics(["metrics"], {"51200": {0.5: 4.0}}, 0.125, None)
    assert calibrate(experiment(), without)
    with pytest.raises(ResultsError, match="--scale is for the goodput of relays"):
        calibrate(experiment(), without, 0.5)


def test_points_of_a_sweep_are_not_mixed() -> None:
    swept = experiment()
    swept.swept = True
    with pytest.raises(ResultsError, match="say which point is meant"):
        calibrate(swept, live())


def test_columns_that_nobody_asks_for_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = ["date", "advbw", "bwhist", *(f"x{number}" for number in range(97))]
    path = written(tmp_path, "bandwidth.csv", ",".join(heads) + "\n" + "2026-05-01,2,1\n" + "a,,,\n" * 20_000)
    # As much memory is taken for reading.
    monkeypatch.setattr(tor_metrics, "MOST", 2**20)
    tracemalloc.start()
    try:
        live = Metrics()
        live.add(path)
        # Of a row with an entry for each column it would be 5 kB.
        assert tracemalloc.get_traced_memory()[1] < 20_000 * 1_000
    finally:
        tracemalloc.stop()
    assert live.relay_goodput == 1e9
    monkeypatch.setattr(tor_metrics, "MOST_CELLS", 1_000)
    with pytest.raises(UntrustedError, match="has more than 1,000 values"):
        Metrics().add(path)


def test_circuits_that_were_late_have_failed() -> None:
    circuits = pl.DataFrame({"circuit": [0, 1, 2], "timed_out": ["no", "yes", "no"]})
    assert on_time(circuits)["circuit"].to_list() == [0, 2]
    older = circuits.drop("timed_out")
    assert on_time(older).equals(older)
    # One that is built after 0.75 s beside a late one of 3 s.
    one = experiment()
    built = pl.col("launched_ns") + int(3e9)
    late = one.circuits.with_columns(circuit=pl.lit(8, pl.Int64), built_ns=built, timed_out=pl.lit("yes"))
    one.circuits = pl.concat([one.circuits.with_columns(timed_out=pl.lit("no")), late.select(*one.circuits.columns, "timed_out")])
    first, _ = calibrate(one, live())
    assert {line.ours.mean for line in first.lines if line.name.startswith("circuit build time")} == {0.75}
