"""Sweeps with the real simulator: what is planned, what is run, what is kept when a sweep grows, and what the results know."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import onionlab
from onionlab import _core
from onionlab.charts.sweep import SweptAxis, metric_chart
from onionlab.plan import Plan, in_words
from onionlab.report.sweep import page
from onionlab.results import describe
from onionlab.results.evaluation import beginning
from onionlab.stats.metrics import WHOLE
from test_cli import call

SMALL = """\
title = "Two schedulers under two loads"
duration = "12 s"
measure-from = "4 s"
networks = 2

[network]
kind = "synthetic"
relays = 12

[[clients]]
group = "web"
count = 4
start = { from = "0 s", to = "3 s" }
load = { kind = "web", size = "100 KiB", pause = { uniform = ["1 s", "3 s"] } }

[[treatments]]
name = "round robin"
circuitmux = "round-robin"

[[treatments]]
name = "EWMA"
circuitmux = "ewma"

"""
COUNTS = '[sweep]\n"clients.web.count" = [2, 6]\n'


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL + COUNTS, encoding="utf-8")
    return path


def records(root: Path) -> dict[str, tuple[str, int]]:
    """Digest and time of writing of every file of transfers."""
    files = root.glob("runs/*/transfers.parquet")
    return {path.parent.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def test_a_sweep_is_run_and_its_results_know_their_points(small: Path) -> None:
    results = onionlab.run(small, small.parent / "out")
    assert len(results.finished) == 2 * 2 * 2
    assert results.points.to_dicts() == [{"point": 0, "clients.web.count": 2}, {"point": 1, "clients.web.count": 6}]
    clients = results.transfers.group_by("point", "treatment", "network").agg(pl.col("client").n_unique())
    assert clients.height == 8
    assert dict(clients.select("point", "client").unique().iter_rows()) == {0: 2, 1: 6}
    summary = results.summary.filter(pl.col("metric") == "completed", pl.col("kind") == "web")
    assert summary["point"].to_list() == [0, 0, 1, 1]
    assert summary["mean"][2] > summary["mean"][0]
    # Nothing is pooled over points: each has its own networks.
    assert summary["networks"].to_list() == [2, 2, 2, 2]
    # A comparison takes each treatment at each point as a variant; the swept key is what differs between points.
    comparison = onionlab.compare([results.directory])
    assert comparison.labels == [f"{name}, count = {count}" for count in (2, 6) for name in ("round robin", "EWMA")]
    told = {"clients.web.count", "circuitmux", "ewma-clock"}
    assert comparison.brought_along == {"ewma-half-life", "ewma-tick"}
    assert set(comparison.differing["key"]) == told | comparison.brought_along
    assert [comparison.pairs(variant) for variant in comparison.variants] == [2, 2, 2, 2]
    page = (results.directory / "report.html").read_text(encoding="utf-8")
    assert "clients.web.count = 2, 6 (2 points)" in page
    assert 'id="chart-ttlb-median-web"' in page
    table = pl.read_csv(results.directory / "tables" / "ttlb-median-web.csv")
    assert table.columns == ["point", "clients.web.count", "treatment", "networks", "mean", "low", "high"]
    assert table.height == 4
    again = onionlab.load(results.directory)
    assert again.points.equals(results.points)
    assert again.figures.equals(results.figures)


def test_a_point_is_what_a_file_of_its_own_gives(small: Path) -> None:
    swept = onionlab.run(small, small.parent / "out", report=False)
    plain = small.parent / "plain.toml"
    plain.write_text(SMALL.replace("count = 4", "count = 6"), encoding="utf-8")
    alone = onionlab.run(plain, small.parent / "plain", report=False)
    assert swept.at(1).transfers.equals(alone.transfers)
    assert swept.at(1).summary.equals(alone.summary)
    assert json.loads(_core.resolve(str(plain))) == swept.at(1).plan.scenario


def test_a_chosen_point_is_said_with_its_values(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands count points from 1, frames and tables from 0: whoever mixes them up sees it at once."""
    small.write_text(SMALL.replace("networks = 2", "networks = 1") + COUNTS, encoding="utf-8")
    out = onionlab.run(small, small.parent / "out", report=False).directory
    for words in (("report", out), ("plot", out, "--only", "network-throughput")):
        assert call(monkeypatch, *words, "--point", 2) == 0
        said = capsys.readouterr()
        assert "point 2 of 2: count = 6\n" in said.err
        assert "point 2 of 2" not in said.out
    assert call(monkeypatch, "report", out, "--point", 3) == 2
    assert "the points 1 to 2, and no point 3" in capsys.readouterr().err


def test_without_a_sweep_there_are_no_points(small: Path) -> None:
    plan = Plan.of(small, SMALL)
    with pytest.raises(ValueError, match="the experiment holds no sweep, and so no point 0"):
        plan.at(0)
    with pytest.raises(ValueError, match="the sweep has 2, counted from 0"):
        Plan.of(small, SMALL + COUNTS).at(2)


def test_a_longer_sweep_keeps_what_is_finished(small: Path) -> None:
    before = records(onionlab.run(small, small.parent / "out", report=False).directory)
    small.write_text(SMALL + "[sweep]\nclients.web.count = { from = 2, to = 6, steps = 3 }\n", encoding="utf-8")
    after = onionlab.run(small, small.parent / "out", report=False)
    now = records(after.directory)
    assert len(now) == 12
    assert {name: now[name] for name in before} == before
    assert after.points["clients.web.count"].to_list() == [2, 4, 6]
    # The points have other numbers now, and their runs have gone with them.
    assert after.at(2).transfers["client"].n_unique() == 6


def test_a_table_that_some_points_lack_is_that_of_the_others(small: Path) -> None:
    """Only PredicTor writes ``controllers``: the point with windows has none."""
    text = SMALL.replace("networks = 2", "networks = 1").replace('duration = "12 s"', 'duration = "6 s"')
    swept = '[sweep]\n"treatments.EWMA.flow-control" = ["windows", "predictor"]\n'
    small.write_text(text + swept, encoding="utf-8")
    results = onionlab.run(small, small.parent / "out", report=False)
    controllers = results.table("controllers").select("point", "treatment").unique().collect()
    assert controllers.rows() == [(1, "EWMA")]
    with pytest.raises(onionlab.ResultsError, match="holds no table 'probes'"):
        results.table("probes")


BY_HAND = """\
[network]
kind = "explicit"
default-latency = "10 ms"
hosts = [
  { name = "entry", role = "guard", up = "3 Mbit/s", down = "3 Mbit/s" },
  { name = "middle", role = "middle", up = "3 Mbit/s", down = "3 Mbit/s" },
  { name = "exit", role = "exit", up = "3 Mbit/s", down = "3 Mbit/s" },
  { name = "server", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "client", role = "client", up = "1 Gbit/s", down = "1 Gbit/s" },
]
"""


@pytest.mark.parametrize("seeds", [1, 2])
def test_where_seeds_are_repeated_charts_and_page_say_so(small: Path, seeds: int) -> None:
    text = SMALL.replace('[network]\nkind = "synthetic"\nrelays = 12\n', BY_HAND).replace("count = 4", 'hosts = ["client"]')
    text = text.replace("networks = 2", "seeds = [1, 2]")
    small.write_text(text + '[sweep]\n"treatments.EWMA.circuitmux" = ["ewma", "round-robin"]\n', encoding="utf-8")
    results = onionlab.run(small, small.parent / "out", report=False)
    if seeds == 1:
        for run in (results.directory / "runs").glob("*--seed2*"):
            shutil.rmtree(run)
        results = onionlab.load(results.directory)
    assert results.by_seed
    words = {
        1: "one seed at each point, hence no interval",
        2: "mean over seeds; shaded or barred: its 95 % interval at each point",
    }
    chart = metric_chart(results, "web", "ttfb_median")
    assert chart.specification is not None
    assert chart.specification["title"]["subtitle"][-1] == words[seeds]
    text = results.report(small.parent / "report").read_text(encoding="utf-8")
    phrases = {
        1: ("With one seed at each point there is no interval.", "the value in the only seed; with one seed there"),
        2: ("Lines connect means over seeds;", "Bold: mean over seeds;"),
    }
    assert all(phrase in text for phrase in phrases[seeds])


def test_groups_whose_names_look_alike_have_charts_of_their_own(small: Path) -> None:
    head, group = SMALL.split("[[clients]]")
    group, treatment, _ = group.split("[[treatments]]")
    other = group.replace('"web"', '"Web"', 1)
    text = f"{head}[[clients]]{other}[[clients]]{group}[[treatments]]{treatment}{COUNTS}"
    small.write_text(text.replace("networks = 2", "networks = 1"), encoding="utf-8")
    charts = onionlab.run(small, small.parent / "out", report=False).charts
    assert charts["ttlb-median-web"].title == "Time to last byte, median, Web"
    assert charts["ttlb-median-web-2"].title == "Time to last byte, median, web"


def test_charts_have_the_intervals_as_they_are(small: Path) -> None:
    """Two small networks: some intervals are much wider than the axis, and run out of the picture rather than end in it."""
    results = onionlab.run(small, small.parent / "out", report=False)
    for metric in ("ttlb_median", "ttfb_p90"):
        chart = metric_chart(results, "web", metric)
        assert chart.specification is not None
        drawn = sorted(row["high"] for row in chart.specification["datasets"]["curves"] if row["high"] is not None)
        assert drawn == pytest.approx(sorted(chart.data["high"].drop_nulls().to_list()), rel=1e-5)


def test_warnings_about_different_kinds_stay_apart(small: Path) -> None:
    """Names with numbers in them: what is said of one size is not what is said of another."""
    sizes = ", ".join(f'{{ size = "{size} MiB", weight = 1.0, timeout = "60 s" }}' for size in (1, 5))
    load = f'load = {{ kind = "perf", pause = "2 s", sizes = [{sizes}] }}'
    web = 'load = { kind = "web", size = "100 KiB", pause = { uniform = ["1 s", "3 s"] } }'
    small.write_text((SMALL + COUNTS).replace(web, load), encoding="utf-8")
    results = onionlab.run(small, small.parent / "out", report=False)
    told = [warning for warning in page(results, [])["warnings"] if "unfinished" in warning]
    assert any("1 MiB" in warning for warning in told)
    assert any("5 MiB" in warning for warning in told)
    assert not any(re.match(r"At ([3-9]|[0-9]{2,}) of 2", warning) for warning in told)


def test_a_key_of_one_treatment_does_not_repeat_the_others(small: Path) -> None:
    small.write_text(SMALL + '[sweep]\ntreatments.EWMA.ewma-half-life = ["1 s", "30 s"]\n', encoding="utf-8")
    results = onionlab.run(small, small.parent / "out", report=False)
    assert len(results.plan.runs) == 2 * (1 + 2)
    for point in (0, 1):
        assert results.at(point).treatments == ["round robin", "EWMA"]
        assert results.at(point).transfers["treatment"].n_unique() == 2
    rows = results.transfers.filter(pl.col("treatment") == "round robin")
    first, second = (rows.filter(pl.col("point") == point).drop("point") for point in (0, 1))
    assert first.equals(second)


def test_a_plan_without_a_sweep_is_written_as_before(small: Path) -> None:
    plan = Plan.of(small, SMALL)
    assert plan.points == ()
    kept = json.loads(plan.to_json())
    assert set(kept) == {"build", "runs", "scenario", "version"}
    assert set(kept["runs"][0]) == {"directory", "network", "seed", "treatment", "treatment_index"}
    swept = Plan.of(small, SMALL + COUNTS)
    assert Plan.from_json(swept.to_json()) == swept
    assert swept.runs[0].label == "round robin, count = 2, network 0, seed 1"
    assert swept.scenario_of(swept.runs[-1])["clients"][0]["members"]["count"]["count"] == 6


def test_the_axis_knows_numbers_quantities_and_names() -> None:
    numbers = SweptAxis.of("load-target.utilisation", [0.5, 0.75, 1.0])
    assert numbers.positions == {"0.5": 0.5, "0.75": 0.75, "1.0": 1.0}
    assert not numbers.logarithmic
    times = SweptAxis.of("base.ewma-half-life", ["10 ms", "1 s", "0.05 s"])
    assert times.title == "base.ewma-half-life (ms)", "the smallest is to be read on a logarithmic axis"
    assert times.positions == pytest.approx({"10 ms": 10, "1 s": 1000, "0.05 s": 50})
    assert times.logarithmic
    assert SweptAxis.of("clients.web.size", ["10 KiB", "100 KiB", "1 MiB"]).positions == {
        "10 KiB": 10,
        "100 KiB": 100,
        "1 MiB": 1024,
    }
    assert SweptAxis.of("clients.web.up", ["500 kbit/s", "1 Mbit/s"]).title == "clients.web.up (Mbit/s)"
    for names in (["reno", "cubic"], [True, False], ["1 s", "1 MB"], [{"kind": "bulk"}, {"kind": "audio"}]):
        assert SweptAxis.of("base.x", names).positions is None


def test_a_point_in_words_is_short_where_it_can_be() -> None:
    assert in_words({"base.tcp": "reno", "network.relays": 30}) == "tcp = reno, relays = 30"
    assert in_words({"clients.web.count": 3, "clients.bulk.count": 4}) == "clients.web.count = 3, clients.bulk.count = 4"


def test_a_bad_value_is_refused_before_anything_is_run(small: Path) -> None:
    small.write_text(SMALL + '[sweep]\n"clients.web.count" = [2, 0]\n', encoding="utf-8")
    with pytest.raises(
        onionlab.ScenarioError, match=r"line 25: at point 2 \(clients.web.count = 0\) of the sweep: `clients\[0\]"
    ):
        onionlab.run(small, small.parent / "out")
    assert not (small.parent / "out").exists()


def test_a_begin_of_the_measurement_lies_before_the_end_of_every_point(small: Path) -> None:
    """At the shorter point nothing would be measured, which looks like a network at a stop."""
    small.write_text(SMALL + '[sweep]\nduration = ["12 s", "6 s"]\n', encoding="utf-8")
    plan = Plan.of(small, small.read_text(encoding="utf-8"))
    for chosen in ("6 s", "8 s"):
        with pytest.raises(onionlab.ScenarioError, match="less than the duration, which is 6 s at one point of the sweep"):
            beginning(chosen, plan)
    beginning("5 s", plan)
    small.write_text(SMALL + COUNTS, encoding="utf-8")
    plan = Plan.of(small, small.read_text(encoding="utf-8"))
    with pytest.raises(onionlab.ScenarioError, match=r"which is 12 s$"):
        beginning("12 s", plan)


def test_what_is_said_of_all_points_is_true_of_all(small: Path) -> None:
    """Swept are the number of relays and the duration; the load is the same at both points."""
    text = SMALL.replace("networks = 2", "networks = 1").split("[[treatments]]")
    swept = '[sweep]\n"network.relays" = [12, 15]\nduration = ["10 s", "12 s"]\n'
    small.write_text(f"{text[0]}[[treatments]]{text[1]}{swept}", encoding="utf-8")
    results = onionlab.run(small, small.parent / "out", report=False)
    facts = dict(page(results, [])["facts"])
    assert facts["Network"] == f"{describe.network(results.at(0))}, at the first point that is finished"
    assert "12 relays" in facts["Network"]
    assert facts["Load"] == describe.load(results.at(0))
    assert facts["Extent"].startswith("10 s simulated")
    assert facts["Extent"].endswith("at the first point that is finished")
    chart = metric_chart(results, WHOLE, "goodput")
    assert chart.specification is not None
    subtitle = " ".join(chart.specification["title"]["subtitle"])
    assert facts["Network"] in subtitle
    assert "1 seed, at the first point that is finished; onionlab" in subtitle
    # Where they are alike it is said without more words.
    small.write_text(f"{text[0]}[[treatments]]{text[1]}{COUNTS}", encoding="utf-8")
    alike = onionlab.run(small, small.parent / "alike", report=False)
    facts = dict(page(alike, [])["facts"])
    assert facts["Network"] == describe.network(alike.at(1))
    assert facts["Load"].endswith(", at the first point that is finished")
    assert facts["Extent"] == f"{describe.extent(alike.at(1))}, at each point"


def test_a_sweep_says_nothing_that_only_its_points_know(small: Path) -> None:
    text = SMALL.replace("networks = 2", "networks = 1")
    small.write_text(text + '[sweep]\nduration = ["10 s", "12 s"]\n', encoding="utf-8")
    results = onionlab.run(small, small.parent / "out", report=False)
    assert results.measure_from == 4
    with pytest.raises(onionlab.ResultsError, match="its points have no duration in common"):
        _ = results.duration
    with pytest.raises(onionlab.ResultsError, match="settles at each point by itself"):
        _ = results.settlings
    assert [results.at(point).duration for point in (0, 1)] == [10, 12]
    found = onionlab.run(small, small.parent / "out", report=False, measure_from="auto")
    assert found.at(1).measure_from == 6
    with pytest.raises(onionlab.ResultsError, match="each point has a begin of the measurement of its own"):
        _ = found.measure_from
    # A point whose runs are gone.
    for run in results.at(1).finished:
        shutil.rmtree(results.directory / run.directory)
    empty = onionlab.load(results.directory).at(1)
    for name in ("transfers", "network", "runs", "figures"):
        with pytest.raises(onionlab.ResultsError, match=r"no run of duration = 12 s in .*out is finished"):
            getattr(empty, name)


def test_values_of_a_sweep_lie_where_their_point_is(small: Path) -> None:
    """Two swept keys: a panel for each value of the second one, places on the axis by the first."""
    text = SMALL.replace("networks = 2", "networks = 1")
    small.write_text(f'{text}[sweep]\n"clients.web.count" = [3, 2]\n"base.tcp" = ["reno", "cubic"]\n', encoding="utf-8")
    results = onionlab.run(small, small.parent / "out", report=False)
    specification = metric_chart(results, WHOLE, "goodput").specification
    assert specification is not None
    rows = pl.DataFrame(specification["datasets"]["curves"])
    assert rows.select("x", "panel").unique(maintain_order=True).rows() == [
        (3.0, "tcp = reno"),
        (3.0, "tcp = cubic"),
        (2.0, "tcp = reno"),
        (2.0, "tcp = cubic"),
    ]
    values = results.summary.filter(pl.col("metric") == "goodput", pl.col("kind") == WHOLE)
    assert rows["mean"].to_list() == pytest.approx(values["mean"].to_list())
    assert rows["treatment"].to_list() == values["treatment"].to_list()


def test_more_relays_than_a_consensus_has_are_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "consensus").write_text(_core.synth('{"relays": 20}'), encoding="utf-8")
    text = """
title = "Relays"
duration = "20 s"

[network]
kind = "consensus"
path = "consensus"

[[clients]]
group = "web"
count = 3
load = { kind = "web", size = "50 kB", pause = "2 s" }

[[treatments]]
name = "plain"

[sweep]
"network.relays" = [12, 21]
"""
    (tmp_path / "relays.toml").write_text(text, encoding="utf-8")
    with pytest.raises(onionlab.ScenarioError, match=r"line 18: at point 2 .* `network.relays` is 21, but must be at most 20"):
        onionlab.run(tmp_path / "relays.toml", out=tmp_path / "out", report=False)
    assert not (tmp_path / "out").exists()
