"""The page that holds a simulated Tor of today beside the live network, on networks small enough for a test."""

from __future__ import annotations

import json
import lzma
import tomllib
from pathlib import Path
from typing import Any

import pytest

from onionlab.errors import UntrustedError
from onionlab.importing.published import LIMITED, LINKS
from onionlab.live_network.calibrate import calibrate
from onionlab.live_network.tor_metrics import Metrics
from onionlab.reproductions import live
from onionlab.results.experiment import load

EXPERIMENT = """\
title = "A small Tor"
duration = "40 s"
measure-from = "10 s"
networks = 3
[network]
kind = "synthetic"
relays = 12
servers = 2
[[clients]]
group = "perf"
count = 4
start = { from = "5 s", to = "8 s" }
load = { kind = "perf", pause = "4 s", sizes = [{ size = "50 KiB", weight = 1, timeout = "15 s" }] }
[base]
tor = "0.4.9"
[[treatments]]
name = "conflux"
[[treatments]]
name = "without conflux"
conflux = false
"""

STEPS = """\
networks = ["small"]
duration = "10 min"
[[step]]
name = "as in Shadow"
what = "nothing"
why = "the beginning"
default = "no"
[[step]]
name = "Linux"
what = "its links"
why = "relays run it"
default = "yes"
without = [
  "mss", "packet-header", "kist-knows-unsent", "epoll", "link-shaping", "round-trips", "min-rto", "downlink-queue",
  "downlink-queue-size",
]
base = { net = "linux" }
[[step]]
name = "places"
what = "where clients stand"
why = "OnionPerf"
default = "no"
without = ["latency-floor", "latency-between"]
network = { latency-factor = 1.0 }
perf-countries = ["NL", "US"]
"""

DIFFERENCES = '[[difference]]\nwhat = "all of it"\nmechanism = "twelve relays"\nevidence = "count them"\n'


def published() -> dict[str, Any]:
    """A network as the published ones are: few relays, two clients that measure and one that stands for users."""
    host = {"country": "DE", "up_bytes_s": 10_000_000, "down_bytes_s": 10_000_000}
    roles = ("exitguard", "exitguard", "guard", "guard", "exit", "middle", "middle")
    relays = [
        {"name": f"relay{number}", "role": role, "address": f"192.{number}.2.1", "weight": 1000, **host}
        for number, role in enumerate(roles, 1)
    ]
    return {
        "relays": relays,
        "servers": [{"name": "server1", **host}],
        "perf_clients": [{"name": f"perf{number}", **host} for number in (1, 2)],
        "clients": [{"name": "users1", "mean_flow_interval_us": 5_000_000, **host}],
    }


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folder of the experiment, and that of the references."""
    experiments, reference = tmp_path / "experiments", tmp_path / "reference"
    experiments.mkdir()
    (experiments / "today.toml").write_text(EXPERIMENT)
    (experiments / "differences.toml").write_text(DIFFERENCES)
    (reference / "shadow-networks").mkdir(parents=True)
    times = {"circuit_rtt": [0.1, 0.4], "download_times": {"51200": [0.5, 1.0], "1048576": [1.0, 2.0]}, "timeout_percent": 2.0}
    (experiments / "steps.toml").write_text(STEPS)
    (reference / live.USUAL).with_name("small.network.json.xz").write_bytes(lzma.compress(json.dumps(published()).encode()))
    (reference / live.USUAL).write_text(json.dumps({"quantiles": [0.1, 0.5], "tor_2019": times}))
    return experiments, reference


def test_figures_are_means_over_networks_beside_the_live_network(folders: tuple[Path, Path], tmp_path: Path) -> None:
    experiments, reference = folders
    path, complaints = live.reproduce(experiments, reference / "live", tmp_path / "out", tmp_path / "docs")
    assert path == tmp_path / "docs/live.md"
    assert complaints == []
    page = path.read_text()
    assert "3 sampled networks" in page
    assert "## conflux" in page
    assert "## without conflux" in page
    assert "| all of it | twelve relays | count them |" in page
    assert "1 MiB |" not in page, "nobody downloaded it"
    assert "Live: `targets.json` (of 2019)." in page
    assert "measured on\nthe live network in 2019? The\n" in page
    assert "**The live figures are of 2019, the simulated network is that of 2025**" in page
    assert max(map(len, page.splitlines())) < 260

    metrics = Metrics()
    metrics.add(reference / live.USUAL)
    of = {one.treatment: one.lines for one in calibrate(load(tmp_path / "out/today"), metrics)}
    table = {(row.name, row.of): row for row in of["without conflux"]}
    median = table["time to last byte, 50 KiB, s", "p50"]
    assert median.ours.count == 3
    assert median.ours.low is not None
    assert median.ours.low < median.ours.mean
    assert median.theirs == 1.0
    assert median.ratio == median.ours.mean
    assert 0.1 < median.ours.mean < 5
    assert f"| {median.name} | p50 | {median.ours.mean:.2f} [" in page


def test_named_figures_come_first_and_absent_ones_are_a_sentence(folders: tuple[Path, Path], tmp_path: Path) -> None:
    experiments, _ = folders
    table = tmp_path / "metrics"
    table.mkdir()
    (table / "onionperf-latencies.csv").write_text("date,source,server,low,q1,md,q3,high\n2026-05-01,us,public,1,2,300,4,5\n")
    path, _ = live.reproduce(experiments, table, tmp_path / "out", tmp_path / "docs")
    assert "onionlab reproduce live --reference metrics" in path.read_text()
    assert "one parameter at a time" not in path.read_text(), "there is no published network beside it"
    with pytest.raises(UntrustedError, match="cannot read"):
        live.reproduce(experiments, tmp_path / "nowhere/live", tmp_path / "out", tmp_path / "docs")


def test_one_parameter_after_the_other_is_turned_on_a_published_network(folders: tuple[Path, Path], tmp_path: Path) -> None:
    experiments, reference = folders
    path, _ = live.reproduce(experiments, reference / "live", tmp_path / "out", tmp_path / "docs")
    page = path.read_text()
    assert "| 1. Linux | its links | relays run it | yes |" in page
    assert "| all times, ours over theirs (geometric mean) | |" in page
    settings = []
    for step in ("as-in-shadow", "linux", "places"):
        (file,) = (tmp_path / "out/then").glob(f"{step}-*/small/network/experiment.toml")
        settings.append(tomllib.loads(file.read_text()))
    shadow, linux, places = settings
    assert shadow["base"]["net"] == "shadow"
    assert shadow["network"] == linux["network"], "one parameter at a time"
    assert linux["base"]["net"] == "linux"
    assert "mss" in shadow["base"]
    assert "mss" not in linux["base"]
    assert places["base"] == linux["base"], "on top of those before"
    assert (linux["network"]["latency-factor"], places["network"]["latency-factor"]) == (1.76, 1.0)
    assert linux["network"]["latency-between"]["DE-FR"] == "66.2 ms"
    assert not {"latency-floor", "latency-between"} & places["network"].keys()
    stand = {}
    for step in ("linux", "places"):
        (file,) = (tmp_path / "out/then").glob(f"{step}-*/small/network/network.json")
        stand[step] = [(one["group"], one["country"]) for one in json.loads(file.read_text())["clients"]]
    assert stand["linux"] == [("markov", "DE"), ("perf", "DE"), ("perf", "DE")]
    assert stand["places"] == [("markov", "DE"), ("perf", "NL"), ("perf", "US")]
    figures = [
        line.split(" | ")
        for line in page.splitlines()
        if line.startswith("| circuit round trip, s | p50 | ") and line.count("|") > 5
    ]
    shadow_rtt, linux_rtt, places_rtt = (float(cell) for cell in figures[-1][2:5])
    assert shadow_rtt > places_rtt, "shorter round trips"
    assert linux_rtt != places_rtt


def test_the_step_to_linux_takes_away_all_that_is_shadows() -> None:
    """Of what published networks are imported with only the TLS of their tor stays, which is no link's."""
    file = Path(__file__).parents[2] / "experiments/live/steps.toml"
    steps = {step["name"]: step for step in tomllib.loads(file.read_text(encoding="utf-8"))["step"]}
    imported = {line.partition(" =")[0] for line in (*LINKS, *LIMITED)}
    assert imported - set(steps["Linux"]["without"]) == {"tls"}
