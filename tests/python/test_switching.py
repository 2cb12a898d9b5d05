"""Circuit switching: the files of the reproduction, its figures by hand, its page, and a small one from end to end."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from onionlab import _core
from onionlab.charts.export import to_svg
from onionlab.errors import ResultsError
from onionlab.plan import Plan, PlannedRun, read_experiment
from onionlab.reproductions import runs, switching
from onionlab.reproductions.figures import VALUES, Figure, frame
from onionlab.reproductions.kept import Kept, Made
from onionlab.reproductions.switching import attack, charts, further, live, network, page, testbeds, thresholds
from onionlab.reproductions.switching.study import FORM, Study
from onionlab.running.runner import Silent
from onionlab.stats.metrics import measured

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "switching"
NETWORKS = ("network", *(question.stem for question in further.ON_NETWORKS))
SECOND = 10**9


def test_the_files_are_there_and_every_experiment_can_be_run() -> None:
    asked = switching.read(FOLDER)
    assert len(asked.claims) == 22
    assert len(asked.assumptions) > 10
    for name in ("testbed", "thresholds", "live", "attack", *(question.stem for question in further.ON_TESTBEDS), *NETWORKS):
        assert _core.resolve(str(FOLDER / f"{name}.toml"))


def test_claims_compare_what_the_experiments_have() -> None:
    """Treatments of a claim are those of the file that its places belong to."""
    asked = switching.read(FOLDER)
    assert {part.metric for claim in asked.claims for part in claim.parts} == set(page.WORDS)
    for claim in asked.claims:
        for part in claim.parts:
            on_testbed = thresholds.TREATMENTS if part.at == thresholds.PLACE else testbeds.TREATMENTS
            own = {"testbed": on_testbed, "network": network.TREATMENTS}.get(claim.section.split(",")[0])
            if own is not None:
                assert {part.of, part.to or part.of} <= set(own), claim.says


def test_a_folder_without_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"assumptions\.toml.*--experiments"):
        switching.read(tmp_path)
    for name in ("assumptions.toml", "published.json"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    claims = (FOLDER / "claims.toml").read_text(encoding="utf-8")
    (tmp_path / "claims.toml").write_text(claims.replace('to = "EWMA 66"', 'to = "EWMA"', 1), encoding="utf-8")
    with pytest.raises(ResultsError, match="compares what is not there"):
        switching.read(tmp_path)


def test_the_quick_patterns_change_the_files() -> None:
    found: set[str] = set()
    for name in NETWORKS:
        text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        for pattern, instead in (network.QUICK.always | network.QUICK.where_there).items():
            lines = re.findall(pattern, text)
            assert len(lines) == 1 or (not lines and pattern in network.QUICK.where_there), (name, pattern)
            found |= {pattern} if lines and lines != [instead] else set()
    assert found == {*network.QUICK.always, *network.QUICK.where_there}
    for name in ("thresholds", "live", "attack", *(question.stem for question in further.ON_TESTBEDS)):
        text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        for pattern, instead in testbeds.QUICK.always.items():
            assert [line != instead for line in re.findall(pattern, text)] == [True], name


def transfers(*rows: tuple[str, str, float, float]) -> pl.DataFrame:
    """Group, client, start and end in seconds; all ended well."""
    return measured(
        pl.DataFrame(
            [
                (group, client, *(round(time * SECOND) for time in (start, end, end, end)), "ok", testbeds.BYTES, 1000)
                for group, client, start, end in rows
            ],
            schema=[
                "group",
                "client",
                "start_ns",
                "end_ns",
                "first_byte_ns",
                "last_byte_ns",
                "outcome",
                "sent_bytes",
                "received_bytes",
            ],
            orient="row",
        ),
        0.0,
    )


def test_a_testbed_s_figures_by_hand() -> None:
    """Two clients send 12.3 MB in 100 and 200 s: 123 and 61.5 KB/s; all that is between 20 and 110 s counts for relays."""
    switches = pl.DataFrame(
        {
            "time_ns": [30 * SECOND, 40 * SECOND, 50 * SECOND],
            "drained_ns": [30 * SECOND + 300_000_000, 40 * SECOND + 500_000_000, None],
            "acknowledged_ns": [30 * SECOND + 200_000_000, None, 50 * SECOND + 400_000_000],
            "entry": ["entry1", "entry1", "entry2"],
            "occupancy": [0.75, 0.5, 1.0],
            "outcome": ["moved", "timed-out", "moved"],
            "cells_lost": [1, 0, 0],
            "bytes_started_over": [0, 498 * 10, 0],
        }
    )
    samples = pl.DataFrame(
        {
            "time_ns": [15 * SECOND, 30 * SECOND, 30 * SECOND, 45 * SECOND],
            "direction": ["out", "out", "out", "in"],
            "group": ["clients"] * 4,
            "client": ["client1", "client1", "client2", "client2"],
            "average_cells": [1000.0, 30.0, 10.0, 1000.0],
        }
    )
    relays = pl.DataFrame(
        {
            "time_ns": [second * SECOND for second in range(1, 201)],
            "relay": ["entry1"] * 200,
            "bytes_sent": [125_000 if 20 < second <= 110 else 0 for second in range(1, 201)],
            "uplink_drops": [0] * 200,
            "downlink_drops": [1] + [0] * 199,
        }
    )
    probes = pl.DataFrame(
        {
            "time_ns": [15 * SECOND, 50 * SECOND, 60 * SECOND, 70 * SECOND],
            "server_ns": [16 * SECOND, 52 * SECOND, None, 75 * SECOND],
        }
    )
    both = transfers(("clients", "client1", 10.0, 110.0), ("clients", "client2", 20.0, 220.0))
    run = testbeds.Run(both, switches, samples, probes, relays)
    found = {(place, metric): value for place, metric, value in run.figures("testbed")}
    cells = -(-testbeds.BYTES // testbeds.PAYLOAD)
    assert cells == 24_699
    assert found == pytest.approx(
        {
            ("testbed", "throughput"): (123 + 61.5) / 2,
            ("client1", "throughput"): 123.0,
            ("client2", "throughput"): 61.5,
            ("testbed", "together"): 2 * 12_300 / 210,
            ("testbed", "failed"): 0.0,
            ("testbed", "drop-rate"): 100 * (1 + 10 + 1) / (2 * cells),
            ("testbed", "latency"): 2.0,
            ("testbed", "switch-time"): 0.2,
            ("testbed", "drain-time"): 0.3,
            ("testbed", "answer-time"): -0.1,
            ("testbed", "least-occupancy"): 0.5,
            ("entry1", "switch-time"): 0.2,
            ("entry1", "drain-time"): 0.3,
            ("entry1", "answer-time"): -0.1,
            ("entry2", "switch-time"): 0.4,
            ("testbed", "switches"): 3.0,
            ("testbed", "undone"): 1.0,
            ("entry1", "capacity"): 1.0,
            ("client1", "share"): 75.0,
            ("client2", "share"): 25.0,
        }
    )


def test_groups_are_places_where_there_are_several() -> None:
    both = transfers(("uploads", "client1", 0.0, 100.0), ("downloads", "client2", 0.0, 200.0))
    run = testbeds.Run(both, None, None, None, EMPTY)
    found = {(place, metric): value for place, metric, value in run.figures("testbed")}
    assert found["uploads", "throughput"] == pytest.approx(123.0)
    assert found["downloads", "throughput"] == pytest.approx(61.5)
    assert ("testbed", "switches") not in found


EMPTY = pl.DataFrame(
    schema={
        "time_ns": pl.Int64,
        "relay": pl.String,
        "bytes_sent": pl.UInt64,
        "uplink_drops": pl.UInt32,
        "downlink_drops": pl.UInt32,
    }
)


def test_capacity_gains_are_paired_by_seed() -> None:
    rows: list[Figure] = [
        ("entry1", "multiplexed", 1, "capacity", 1.0),
        ("entry1", "multiplexed", 2, "capacity", 2.0),
        ("entry1", "0.1 and 0.5", 1, "capacity", 1.5),
        ("entry1", "0.1 and 0.5", 2, "capacity", 1.75),
    ]
    bases = {"multiplexed": "multiplexed", "0.1 and 0.5": "multiplexed"}
    assert testbeds.gains(frame(rows), bases)["value"].to_list() == [0.5, -0.25]


def test_gains_over_live_relays_are_to_the_same_sockets() -> None:
    values = {"multiplexed": 1.0, "switching": 3.0, f"multiplexed{live.USUAL}": 8.0, f"switching{live.USUAL}": 8.5}
    rows: list[Figure] = [("entry1", name, 1, "capacity", value) for name, value in values.items()]
    found = testbeds.gains(frame(rows), {name: live.base(name) for name in values})
    assert dict(found.select("treatment", "value").iter_rows()) == {"switching": 2.0, f"switching{live.USUAL}": 0.5}


def test_how_many_relays_gain_leaves_out_the_idle_one() -> None:
    """At one entry three of four, of which one is idle; with another entry that counts."""
    gains = [("entry1", 0.1), ("middle1", -0.1), ("exit1", 0.2), (testbeds.IDLE, 0.3)]
    rows = [
        (place, treatment, 0, 0, "capacity-gain", gain)
        for treatment in (testbeds.CHOSEN, testbeds.OTHER)
        for place, gain in gains
    ]
    times = pl.DataFrame(rows, schema=["place", "treatment", "network", "seed", "what", "value"], orient="row")
    bed = Study(frame([]), times, testbeds.TREATMENTS, 1)
    assert (page._grown(bed, testbeds.CHOSEN), page._grown(bed, testbeds.OTHER)) == ("67 %", "75 %")


def test_thresholds_stand_beside_the_paper_s_medians() -> None:
    times = {"switch-time": 0.5, "drain-time": 0.3, "answer-time": 0.2, "switches": 40.0, "least-occupancy": 0.51}
    rows: list[Figure] = [
        (thresholds.PLACE, treatment, 1, metric, value)
        for treatment in thresholds.TREATMENTS[1:]
        for metric, value in times.items()
    ]
    rows += [(thresholds.PLACE, treatment, 1, "throughput", 30.0) for treatment in thresholds.TREATMENTS]
    measured = Study(frame(rows), pl.DataFrame(), thresholds.TREATMENTS, 1)
    asked = switching.read(FOLDER)
    lines = list(thresholds.page(measured, asked.published["testbed"], asked.rule))
    table = [line for line in lines if line.startswith("| 0.3 and 0.75")]
    assert table == [
        f"| 0.3 and 0.75 | {order} | below 2.15 s | 40.0 | 0.51 | 0.500 | 0.300 | 0.200 | 30.0 (0 %) | – |"
        for order in thresholds.ORDERS.values()
    ]


def test_a_network_s_figures_by_hand() -> None:
    """Ten web downloads of 1 to 10 s: median the fifth, spread the ninth less the first; queues by position."""
    rows = [("web", f"client{index}", 0.0, float(index)) for index in range(1, 11)]
    run = network.Run(
        "switching",
        0,
        transfers(*rows),
        pl.DataFrame({"client": ["a", "b", "c"], "group": ["web", "web", "web"], "cells": [10, 30, 20]}),
        pl.DataFrame(
            {
                "relay": ["one", "two", "three", "four"],
                "class": ["guard", "exit", "guard-exit", "middle"],
                "queued": [4.0, 1.0, 3.0, 9.0],
            }
        ),
        pl.DataFrame({"outcome": ["moved", "timed-out", "unfinished", "moved"]}),
        2.0,
    )
    found = {(place, metric): value for place, metric, value in run.figures() if value is not None}
    assert found == pytest.approx(
        {
            ("web", "first-byte"): 5.0,
            ("web", "last-byte"): 5.0,
            ("web", "spread"): 8.0,
            ("web", "cells"): 20.0,
            ("entries", "queued"): 4.0,
            ("exits", "queued"): 2.0,
            ("middles", "queued"): 9.0,
            ("network", "failed"): 0.0,
            ("network", "switches"): 2.0,
            ("network", "undone"): 25.0,
        }
    )


def test_what_an_attack_costs_by_hand() -> None:
    """Two files in 2 and 4 s; of three switches in two minutes one is the attacker's."""
    rows = transfers((attack.OTHERS, "client1", 60.0, 62.0), (attack.OTHERS, "client2", 60.0, 64.0))
    probes = pl.DataFrame({"group": [attack.OTHERS, "bulky"], "time_ns": [SECOND, SECOND], "server_ns": [3 * SECOND, 9 * SECOND]})
    switches = pl.DataFrame(
        {"group": [attack.OTHERS, attack.OTHERS, "bulky"], "cells_lost": [4, 0, 100], "most_cells_held": [7, 9, 50]}
    )
    found = attack.figures_of(rows, probes, switches, 2.0)
    assert found == {"time": 3.0, "latency": 2.0, "switched": 1.0, "provoked": 0.5, "lost": 2.0, "held": 9.0}


def test_a_study_is_the_same_when_it_was_kept(tmp_path: Path) -> None:
    rows: list[Figure] = [("testbed", "0.1 and 0.5", 1, "switch-time", 0.3), ("entry1", "0.1 and 0.5", 1, "switch-time", None)]
    values = pl.DataFrame([("testbed", "0.1 and 0.5", 1, 1, "latency", 0.25)], schema=VALUES, orient="row")
    one = Study(
        frame(rows), values, ("multiplexed", "0.1 and 0.5"), 10, ("16 KiB", "1 MiB"), 5.0, (Made("0.1.0", "1f", 20, 3.5),)
    )
    kept = Kept(tmp_path / "kept", FORM)
    kept.add("one", "identity", one.reduced())
    kept.add("another", "identity", one.without_times().reduced())
    found = Kept(tmp_path / "kept", FORM).take("one", "identity")
    assert found is not None
    read = Study.read(found)
    assert read.figures.equals(one.figures)
    assert read.times.equals(values)
    assert (read.treatments, read.replicates, read.points, read.minutes, read.made) == (
        one.treatments,
        10,
        one.points,
        5.0,
        one.made,
    )
    FORM.check(found.facts)
    for name in found.facts:
        with pytest.raises(KeyError, match=name):
            FORM.check({key: value for key, value in found.facts.items() if key != name})


def test_networks_that_were_run_apart_are_one_study_together() -> None:
    def part(replicate: int, runs_made: int) -> Study:
        figures = frame([("web", "vanilla", replicate, "last-byte", 1.0 + replicate)])
        values = pl.DataFrame([("web", "vanilla", replicate, 1, "last-byte", 0.5)], schema=VALUES, orient="row")
        return Study(figures, values, ("vanilla",), 1, made=(Made("0.1.0", "1f", runs_made, 3.5),))

    found = Study.together([part(0, 2), part(1, 3)])
    assert found.replicates == 2
    assert found.figures["replicate"].to_list() == found.times["network"].to_list() == [0, 1]
    assert found.made == (Made("0.1.0", "1f", 5, 7.0),)


def test_each_sampled_network_is_an_experiment_of_its_own(tmp_path: Path) -> None:
    for quick, count in ((False, 10), (True, 3)):
        ahead = switching.prepare(FOLDER / "network.toml", tmp_path / str(quick), quick=quick)
        assert [name for name, _, _ in ahead] == [f"network-{number}" for number in range(1, 1 + count)]
        for number, (_, file, _) in enumerate(ahead, start=1):
            scenario = Plan.of(file, read_experiment(file)).scenario
            assert (scenario["networks"], scenario["base-seed"]) == (1, number)
    assert [name for name, _, _ in switching.prepare(FOLDER / "one-path.toml", tmp_path, quick=False)] == ["one-path"]
    assert {*network.SAMPLED, *network.BY_HAND} == {*NETWORKS}


def test_a_second_stands_beside_each_time_to_switch() -> None:
    rows: list[Figure] = [("testbed", "0.1 and 0.5", 1, "switch-time", 0.3), ("entry1", "0.1 and 0.5", 1, "switch-time", 0.2)]
    assert switching.seconds(frame(rows)).rows() == [(testbeds.SECOND, "0.1 and 0.5", 1, "switch-time", 1.0)]


def test_a_testbed_runs_and_has_all_figures(tmp_path: Path) -> None:
    """Two seeds of the testbed itself: every metric at its places, and no value that is not finite."""
    changes = runs.Changes({r"(?s)\nseeds = \[.*?\]\n": "\nseeds = [1, 2]\n"})
    results = runs.run(FOLDER / "testbed.toml", tmp_path, lambda: nullcontext(Silent()), changes)
    bed = testbeds.measure(results)
    assert (bed.replicates, bed.treatments) == (2, testbeds.TREATMENTS)
    there = bed.figures.drop_nulls("value")
    assert there["value"].is_finite().all()
    wanted = {part.metric for claim in switching.read(FOLDER).claims if "testbed" in claim.section for part in claim.parts}
    assert wanted <= set(there["metric"])
    assert set(there.filter(metric="share")["place"]) == set(testbeds.CLIENTS)
    assert set(there.filter(metric="capacity")["place"]) == set(testbeds.RELAYS)
    shares = there.filter(metric="share", treatment=testbeds.WATCHED, replicate=1)["value"]
    assert shares.sum() == pytest.approx(100)
    assert there.filter(metric="switches", treatment=testbeds.WATCHED)["value"].to_list() == [0.0, 0.0]
    assert (there.filter(metric="switches", treatment=testbeds.CHOSEN)["value"] > 0).all()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_small_one_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every experiment, small: the page has every claim and chart, and a second call runs nothing and changes nothing."""
    seeds = {r"(?s)\nseeds = \[.*?\]\n": "\nseeds = [1, 2]\n"}
    at_most = {r"(?m)^networks = .*$": "networks = 2", r"(?m)^relays = .*$": "relays = 12"}
    shorter = runs.Changes(network.QUICK.always, {**network.QUICK.where_there, **at_most})
    alone, each = runs.prepare, runs.by_network

    def prepare(file: Path, out: Path, _: runs.Changes | None = None) -> runs.Ahead:
        if file.stem in network.BY_HAND:
            return alone(file, out, runs.Changes(shorter.always, {**shorter.where_there, **seeds}))
        return alone(file, out, runs.Changes(seeds))

    monkeypatch.setattr(runs, "prepare", prepare)
    monkeypatch.setattr(runs, "by_network", lambda file, out, _: each(file, out, shorter))
    made: list[str] = []

    class Counting(Silent):
        def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:  # noqa: ARG002
            made.append(run.label)

    pages, runs_made = [], []
    for out, as_kept in (("out", False), ("out", False), ("elsewhere", True)):
        written, broken = switching.reproduce(
            FOLDER,
            tmp_path / out,
            tmp_path / "docs",
            lambda: nullcontext(Counting()),
            quick=True,
            kept=tmp_path / "kept",
            as_kept=as_kept,
        )
        assert broken == []
        pages.append(written.read_text(encoding="utf-8"))
        runs_made.append(len(made))
    assert runs_made[0] == runs_made[1] == runs_made[2] > 50
    assert pages[0] == pages[1] == pages[2].replace(" --kept DIR --as-kept", "")
    for claim in switching.read(FOLDER).claims:
        assert claim.says in pages[0]
    names = re.findall(r"\]\((switching-[\w-]+\.svg)\)", pages[0])
    assert len(names) >= 5
    for name in names:
        assert "NaN" not in (tmp_path / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("quick", [True, False])
def test_the_page_can_be_written_of_a_few_values(quick: bool) -> None:
    """Two replicates of every figure, all alike: each section is there, and what the papers print stands beside it."""
    asked = switching.read(FOLDER)
    on_live = (*live.SHOWN[:3], "exit kept", "one move", *live.SHOWN[3:])

    def figures(treatments: tuple[str, ...], places: tuple[str, ...], metrics: tuple[str, ...]) -> pl.DataFrame:
        return frame(
            (place, treatment, replicate, metric, 2.0)
            for place in places
            for treatment in treatments
            for replicate in (1, 2)
            for metric in metrics
        )

    def bed(treatments: tuple[str, ...], places: tuple[str, ...]) -> Study:
        rows = [
            (place, treatment, 0, 0, what, value)
            for place in places
            for treatment in treatments
            for what in testbeds.POOLED
            for value in (1.0, 3.0)
        ]
        times = pl.DataFrame(rows, schema=["place", "treatment", "network", "seed", "what", "value"], orient="row")
        return Study(figures(treatments, places, testbeds.METRICS), times, treatments, 2)

    def net(points: tuple[str, ...]) -> Study:
        places = tuple(f"{point}: {place}" if point else place for point in points for place in (*network.PLACES, network.WHOLE))
        return Study(figures(network.TREATMENTS, places, network.METRICS), pl.DataFrame(), network.TREATMENTS, 2, points, 3.0)

    rules = ("as the paper", "another entry", *["same entry"] * (len(further.ON_TESTBEDS) - 2))
    phases = figures(("no switching", "each second"), tuple(attack.PHASES), ("time", "latency", "switched", "held"))
    others = further.Measured(
        {
            question.stem: bed(("multiplexed", rule), testbeds.PLACES)
            for question, rule in zip(further.ON_TESTBEDS, rules, strict=True)
        },
        Study(phases, pl.DataFrame(), ("no switching", "each second"), 2),
        {question.stem: net(("one", "two") if question.key else ("",)) for question in further.ON_NETWORKS},
    )
    whole = bed(testbeds.TREATMENTS, (testbeds.WHOLE, *testbeds.CLIENTS, *testbeds.RELAYS))
    measured = switching.Measured(
        whole, bed(thresholds.TREATMENTS, (thresholds.PLACE,)), bed(on_live, (live.PLACE,)), net(("",)), others
    )
    judged = switching.judge_all(asked, measured)
    text = page.page(asked, measured, judged, quick=quick)
    assert ("--quick" in text) is quick
    for section in ("thresholds can decide", "figure 6", "figure 10", "Other rules", "is provoked", "on one path"):
        assert section in text, section
    for printed in ("below 119,000", "below 264", "below 350", "88 ± 24 KB/s", "98 %", "| the paper | 0 | 1.7 | 3 |", "| 3.28 |"):
        assert printed in text, printed
    assert "| uniform spares | 1.00 | 1.00 | 1.00 |" in text
    # What another entry's times are not is said of each of them.
    assert [line.split(" | ")[0] for line in text.splitlines() if "(control alone)" in line] == [f"| {testbeds.OTHER}"]
    [said] = [line for line in text.splitlines() if "the round trip of control alone (“" in line]
    assert said.startswith(further.ON_TESTBEDS[1].says)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert not [line for line in rows if "None" in line or "nan" in line]


def test_charts_can_be_drawn_of_a_few_values() -> None:
    """One value each for every panel."""
    places = (*testbeds.PLACES, live.PLACE, *network.PLACES)
    rows = [
        (place, treatment, seed, seed, what, 0.5 + seed)
        for place in places
        for treatment in (*testbeds.TREATMENTS, *live.SHOWN, *network.TREATMENTS)
        for seed in (1, 2)
        for what in ("switch-time", "throughput", "latency", "capacity-gain", "first-byte", "last-byte", "cells", "queued")
    ]
    times = pl.DataFrame(rows, schema=["place", "treatment", "network", "seed", "what", "value"], orient="row")
    bed = Study(frame([]), times, testbeds.TREATMENTS, 2)
    sampled = Study(frame([]), times, network.TREATMENTS, 2)
    drawn = dict(charts.drawings(bed, bed, sampled, switching.read(FOLDER).published["network"]))
    assert len(drawn) == 6
    for name, specification in drawn.items():
        assert "NaN" not in to_svg(specification), name
