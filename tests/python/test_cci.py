"""Shared connections: the files of the reproduction, its networks, and a small one from end to end."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import onionlab
from onionlab import _core, cli
from onionlab.errors import ResultsError
from onionlab.plan import Plan, fingerprint, read_experiment
from onionlab.reproductions import REPRODUCTIONS, Request, cci, claims_table
from onionlab.reproductions.cci import further, further_charts, network, page, quarter, testbeds
from onionlab.reproductions.claims import Claim, Comparison, Judged, Rule
from onionlab.reproductions.figures import capped, frame, mean
from onionlab.reproductions.kept import Kept, Reduced, identity
from onionlab.reproductions.scales import UNDECIDED
from onionlab.running.runner import Silent

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "cci"

#: A network that takes seconds.
TINY = {
    r"(?m)^relays = .*$": "relays = 12",
    r"(?m)^networks = .*$": "networks = 2",
    r"(?m)^count = 64$": "count = 8",
    r"(?m)^duration = .*$": 'duration = "130 s"',
    r"(?m)^measure-from = .*$": 'measure-from = "70 s"',
    r'timeout = "[^"]*"': 'timeout = "20 s"',
}


def test_the_files_are_there_and_every_experiment_can_be_run() -> None:
    asked = cci.read(FOLDER)
    assert len(asked.testbed_claims) == 12
    assert len(asked.network_claims) == 4
    assert len(asked.left_out) == 4
    printed = {(case["experiment"], case["treatment"]) for case in asked.published["eight"]["cases"]}
    assert printed == {(place, treatment) for place in testbeds.EIGHT for treatment in (testbeds.VANILLA, testbeds.PCTLS)}
    for name in (*testbeds.TESTBEDS, "network", "quarter", *(question.stem for question in further.QUESTIONS)):
        assert _core.resolve(str(FOLDER / f"{name}.toml"))


def test_every_testbed_is_in_a_claim() -> None:
    asked = cci.read(FOLDER)
    assert {part.at for claim in asked.testbed_claims for part in claim.parts} == set(testbeds.TESTBEDS)
    assert {part.at for claim in asked.network_claims for part in claim.parts} <= set(network.LOSSES)


def test_a_folder_without_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"claims\.toml"):
        cci.read(tmp_path)


def test_the_quick_patterns_change_the_file() -> None:
    for name, key in (("network", network.LOSS), *((question.stem, question.key) for question in further.QUESTIONS)):
        text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        for pattern, instead in network.QUICK.items():
            lines = set(re.findall(pattern, text))
            assert len(lines) == 1, (name, pattern)
            assert lines != {instead}, (name, pattern)
        assert set(tomllib.loads(text)["sweep"]) == {key} <= set(network.QUICK_VALUES)
        assert _core.resolve(str(FOLDER / f"{name}.toml"))


@pytest.mark.parametrize(
    ("line", "otherwise"),
    [
        ('duration = "20 min"', 'duration  = "20 min"'),
        ("networks = 10", "networks = 10  # fewer than the paper's"),
        ('"network.loss" = [', '"network.loss"  = ['),
    ],
)
def test_a_file_in_which_a_pattern_matches_nothing_is_refused(tmp_path: Path, line: str, otherwise: str) -> None:
    """It would be run at its full length, or be all of a sweep where a part of it is meant."""
    text = (FOLDER / "network.toml").read_text(encoding="utf-8")
    assert line in text
    (tmp_path / "network.toml").write_text(text.replace(line, otherwise, 1), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"network\.toml: nothing there matches "):
        network.prepare(tmp_path, tmp_path / "out", quick=line.startswith("duration"))
    assert not (tmp_path / "out").exists()


def _runs(file: Path) -> list[tuple[str, str, int]]:
    """What each run of an experiment is but for its network: scenario, treatment, seed; and the network's seed."""
    plan = Plan.of(file, read_experiment(file))
    extent = {"networks": None, "base-seed": None}
    assert all(run.network < plan.scenario["networks"] for run in plan.runs)
    return [
        (fingerprint(plan.scenario_of(run) | extent, ("", ""), run.treatment, 0, run.seed), run.treatment, run.seed)
        for run in plan.runs
    ]


def test_each_treatment_at_each_loss_or_load_in_each_network_is_an_experiment_of_its_own(tmp_path: Path) -> None:
    """Together they are what the files sweep, as many runs; a second call finds the files as they are."""
    planned = cci.plan(FOLDER, tmp_path, quick=False)
    names = [one.ahead[0] for one in planned if one.part != cci.TESTBEDS]
    places = [f"network-{loss}-{way}" for loss in ("0.0", "0.001", "0.005", "0.01") for way in ("vanilla", "pctls")]
    assert names[:80] == [f"{place}-{number}" for number in range(1, 11) for place in places]
    assert len(set(names)) == len(names) == 10 * 4 * 2 + 5 * (2 * 9 + 5 * 2 + 2 * 7)
    assert "four-ways-0.005-shared-no-nagle-5" in names
    assert "policies-0.0-shared-round-robin-0-2-4-1" in names
    assert [one.ahead[0] for one in planned if one.part == cci.TESTBEDS] == list(testbeds.TESTBEDS)
    for stem, key in (("network", network.LOSS), *((question.stem, question.key) for question in further.QUESTIONS)):
        own = [one.ahead[1] for one in planned if one.part == stem]
        assert Counter(_runs(FOLDER / f"{stem}.toml")) == Counter(run for file in own for run in _runs(file)), key
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "files").iterdir()}
    assert cci.plan(FOLDER, tmp_path, quick=False) != []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "files").iterdir()} == written


def test_all_ways_meet_one_network_and_each_number_is_another(tmp_path: Path) -> None:
    cells = network.prepare(FOLDER, tmp_path, quick=False)
    seeds: dict[int, set[int]] = {}
    for cell in cells:
        scenario = json.loads(_core.resolve(str(cell.ahead[1])))
        assert scenario["networks"] == 1
        seeds.setdefault(cell.number, set()).add(scenario["base-seed"])
    assert seeds == {number: {1 + number} for number in range(10)}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_small_one_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four testbeds and a small network: the page has every claim and chart; with what was kept it is written without any run."""
    asked = cci.read(FOLDER)
    monkeypatch.setattr(cci, "read", lambda _: asked)
    monkeypatch.setattr(testbeds, "QUICK_SEEDS", 2)
    monkeypatch.setattr(testbeds, "QUICK_DURATION", "25 s")
    monkeypatch.setattr(testbeds, "TESTBEDS", ("no-dropping", "shared-dropping", "dropping-remaining", "one-audio"))
    monkeypatch.setattr(network, "QUICK", network.QUICK | TINY)
    pages = []
    for out in ("out", "nothing"):
        written, broken = cci.reproduce(
            FOLDER, tmp_path / out, tmp_path / "docs", lambda: nullcontext(Silent()), quick=True, kept=tmp_path / "kept"
        )
        assert broken == []
        pages.append(written.read_text(encoding="utf-8"))
    assert [path.name for path in (tmp_path / "nothing" / "quick").iterdir()] == ["files"]
    assert pages[0] == pages[1]
    for claim in (*asked.testbed_claims, *asked.network_claims):
        assert claim.says in pages[0]
    for row in asked.left_out:
        assert f"- {row['where']}: {row['says']} ({row['why']})\n" in pages[0]
    assert "Not on this page" not in pages[0]
    # What is kept is on the page, though no part is asked for.
    written, _ = cci.reproduce(FOLDER, tmp_path / "nothing", tmp_path / "other", quick=True, kept=tmp_path / "kept", parts=[])
    assert written.read_text(encoding="utf-8") == pages[0]
    for name in re.findall(r"\]\((cci-[\w-]+\.svg)\)", pages[0]):
        assert "NaN" not in (tmp_path / "docs" / name).read_text(encoding="utf-8")


def test_parts_that_are_neither_asked_for_nor_kept_are_left_out(tmp_path: Path) -> None:
    planned = cci.plan(FOLDER, tmp_path, quick=False)
    assert cci._present(planned, None, None, None) == planned
    assert cci._lacking(planned, planned) == []
    assert {one.part for one in cci._present(planned, [], None, None)} == {cci.TESTBEDS}
    assert {one.part for one in cci._present(planned, ["policies"], None, None)} == {cci.TESTBEDS, "policies"}
    three = cci._present(planned, ["policies"], 3, None)
    assert {(one.part, one.network) for one in three} == {(cci.TESTBEDS, 0), *(("policies", number) for number in range(3))}
    lacking = ["the sampled network", "all four ways with the tor of today", "more load"]
    assert cci._lacking(planned, three) == [*lacking, "each circuit scheduler (2 of 5 networks)"]


def test_a_page_that_lacks_something_says_with_which_command_it_was_made() -> None:
    assert cci.options(quick=False, kept=None, parts=None, networks=3) == " --networks 3"
    assert cci.options(quick=False, kept=Path("docs/kept"), parts=[], networks=None) == " --parts none --kept docs/kept"
    assert cci.options(quick=True, kept=Path("/tmp/k"), parts=["network"], networks=None) == " --quick --parts network --kept DIR"


@pytest.mark.parametrize(("given", "asked"), [("4", 4), ("0", None), ("1pct", None), ("-1", None), ("1,2", None), ("²", None)])
def test_the_networks_that_are_asked_for_are_a_number(
    given: str, asked: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    got: list[int | None] = []

    def run(request: Request) -> tuple[Path, list[str]]:
        assert not request.quick
        assert request.networks is None
        got.append(request.network_count)
        return tmp_path, []

    monkeypatch.setitem(REPRODUCTIONS, "cci", replace(REPRODUCTIONS["cci"], run=run))
    monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", "cci", "--networks", given])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert got == ([] if asked is None else [asked])
    assert leave.value.code == (0 if asked is not None else cli.EXIT_REFUSED)
    assert asked is not None or "is no number from 1 on" in capsys.readouterr().err


def test_a_sampled_network_is_on_the_page_once_all_of_it_is_kept(tmp_path: Path) -> None:
    everything = cci.plan(FOLDER, tmp_path, quick=False)
    planned = [one for one in everything if one.part == cci.NETWORK and one.network < 3]
    store = Kept(tmp_path / "kept", cci.FORM)
    for number, one in enumerate(planned[:16]):
        assert {each.network for each in cci._present(planned, [], None, store)} == set(range(number // 8))
        store.add(one.ahead[0], identity(one.ahead[1]), Reduced({"figures": frame([])}, ()))
    # Those that are kept stay on the page when fewer are asked for, or more.
    for networks, found in ((1, {0, 1}), (3, {0, 1, 2})):
        assert {each.network for each in cci._present(planned, [cci.NETWORK], networks, store)} == found


def test_a_network_keeps_its_number_when_it_is_reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "QUICK", network.QUICK | TINY)
    (second,) = (cell for cell in network.prepare(FOLDER, tmp_path, quick=True) if cell.ahead[0] == "network-0.005-pctls-2")
    _, file, results = second.ahead
    reduced = network.reduce(onionlab.run(file, results, report=False), first=second.number)
    figures, times = reduced.frames["figures"], reduced.frames["times"]
    assert set(figures["place"]) == {"0.5 %"}
    assert set(figures["treatment"]) == {testbeds.PCTLS}
    assert set(figures["replicate"]) == {1}
    assert times.height > 0
    assert set(times["network"]) == {1}


def test_figures_by_hand() -> None:
    """Two transfers of 5 MB in 2 and 3 s: 2 MB/s; round trips of 80 and 100 ms; what was before second 1 does not count."""
    second = 10**9
    transfers = pl.DataFrame(
        {
            "group": ["bulk1", "bulk2"],
            "ttlb": [2.0, 3.0],
            "start_ns": [second, 2 * second],
            "connected_ns": [second + 80_000_000, 2 * second + 100_000_000],
        }
    )
    circuits = pl.DataFrame({"launched_ns": [0, second, 4 * second], "built_ns": [3 * second, second + second // 2, None]})
    run = {key: [0, 0, 0] for key in ("treatment", "network", "seed", "relay")}
    relays = pl.DataFrame({**run, "time_ns": [second, 3 * second, 5 * second], "held": [40.0, 6.0, 2.0]})
    found = testbeds._figures("no-dropping", transfers, circuits, relays, (1.0, 5.0))
    assert found == pytest.approx({"throughput": 2.0, "round-trip": 90.0, "time": 2.5, "build": 0.5, "held": 2.0})


def test_times_count_that_none_of_their_clients_could_have_missed() -> None:
    """Of three bulk transfers that take up to 60 s the last began 50 s before the end: though fast, it does not count."""
    second = 10**9
    transfers = pl.DataFrame(
        {
            "group": ["bulk", "bulk", "bulk", "audio"],
            "start_ns": [0, 10 * second, 50 * second, 95 * second],
            "ttlb": [60.0, 20.0, 15.0, 1.0],
        }
    )
    assert testbeds.ended_for_sure(transfers, 100.0)["ttlb"].to_list() == [60.0, 20.0, None, 1.0]


def test_downloads_count_that_could_have_ended_and_failures_as_the_time_out() -> None:
    """Of four downloads of 1 MB two end, one fails, and one begins a minute before the end: it alone does not count."""
    scenario = {
        "clients": [
            {"group": "users", "load": {"kind": "tor-users"}},
            {"group": "measure", "load": {"kind": "perf", "sizes": [{"size": "1 MB", "timeout": "5 min"}]}},
        ]
    }
    longest = network.patience(scenario)
    assert longest == {"1 MB": 300.0}
    transfers = pl.DataFrame(
        {
            "size_bytes": [1_000_000, 1_000_000, 1_000_000, 1_000_000],
            "start_ns": [0, 100 * 10**9, 299 * 10**9, 540 * 10**9],
            "ttlb": [10.0, None, 20.0, 5.0],
        }
    )
    kept = network.counted(transfers, longest, 600.0)
    assert kept["ttlb"].to_list() == [10.0, None, 20.0]
    assert mean(capped(kept["ttlb"], 300.0)) == pytest.approx(110.0)
    assert network.counted(transfers, longest, 599.0)["ttlb"].to_list() == [10.0, None]


def test_bytes_beyond_reno_by_hand() -> None:
    """100 s at 3 Mbit/s one way and at 1 Mbit/s the other: at 0.5 % lost Reno carries 2.02 of them, at 0.1 % 4.5, at 1 % 1.43."""
    megabit = 125_000
    channels = pl.DataFrame(
        {
            "opener": ["guard1", "middle1", "client1", "exit1"],
            "peer": ["middle1", "exit1", "guard1", "guard1"],
            "open_ns": [0, 150 * 10**9, 0, None],
            "closed_ns": [100 * 10**9, None, None, 200 * 10**9],
            "bytes_to_peer": [300 * megabit, 10 * megabit, 10**9, 0],
            "bytes_to_opener": [100 * megabit, 90 * megabit, 10**9, 0],
        }
    )
    relays = pl.Series(["guard1", "middle1", "exit1"])
    found = network.beyond(channels, relays, end=200.0)
    assert found == pytest.approx({"beyond 0.1 %": 0.0, "beyond 0.5 %": 60.0, "beyond 1 %": 78.0})
    assert set(network.beyond(channels.clear(), relays, end=200.0).values()) == {None}
    assert 8 * network.reno(0.005) / 1e6 == pytest.approx(2.0230, abs=1e-4)
    rows = [("0 %", testbeds.VANILLA, 0, metric, share) for metric, share in found.items()]
    sampled = network.Measured(frame(rows), pl.DataFrame(), 1, 134, 20.0, 300.0)
    text = "\n".join(page.beyond(sampled, cci.read(FOLDER).published["network"]))
    assert (
        "0 % if 0.1 % of the packets are lost (4.5 Mbit/s), 60 % if 0.5 % of the packets are lost (2.0 Mbit/s), 78 % if 1 %"
        in text
    )
    assert "each pair of the 134 relays here is asked for 13 times as much as one of the paper's 1,750" in text
    assert not list(page.beyond(network.Measured(frame([]), pl.DataFrame(), 1, 134, 20.0, 300.0), {}))


def test_what_is_not_judged_is_on_the_page_with_its_reason() -> None:
    rows = [
        {"where": "4.5", "says": "Windows of 120 segments", "why": "no records"},
        {"where": "4.6", "says": "More", "why": "as well"},
    ]
    assert list(claims_table.left_out(rows)) == [
        "Not judged of what the paper says:",
        "",
        "- 4.5: Windows of 120 segments (no records)",
        "- 4.6: More (as well)",
        "",
    ]
    assert list(claims_table.left_out([])) == []


def test_the_claims_say_the_numbers_that_are_published() -> None:
    asked = cci.read(FOLDER)
    printed = asked.published["network"]
    said = {claim.section: claim.says for claim in asked.network_claims[::-1]}
    for when, claim in zip(("without loss", "with loss"), asked.network_claims[:2], strict=True):
        assert ", ".join(str(printed["faster"][when][size]) for size in network.SIZES) in claim.says
    for when in ("without loss", "with loss"):
        assert str(printed["building-slower"][when]) in said["4.3, figure 10"]


def test_every_circuit_scheduler_is_among_the_policies() -> None:
    scenario = json.loads(_core.resolve(str(FOLDER / "policies.toml")))
    tried = {treatment["circuitmux"] for treatment in scenario["treatments"] if treatment["links"] == "shared"}
    known = json.loads(_core.schema())["$defs"]["Circuitmux"]["oneOf"]
    assert tried == {each["const"] for each in known}


def test_which_claims_meet_nagle() -> None:
    asked = cci.read(FOLDER)
    claims = (*asked.testbed_claims, *asked.network_claims)
    assert [number for number, claim in enumerate(claims, 1) if any(map(page.meets_nagle, claim.parts))] == [1, 6, 7]


def test_nagle_is_explained_where_no_claim_meets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (testbeds.PLAIN, name, seed, metric, 1.0 + seed)
        for name in (testbeds.VANILLA, testbeds.PCTLS, *testbeds.WITHOUT_NAGLE.values())
        for seed in (1, 2)
        for metric in ("throughput", "round-trip")
    ]
    beds = testbeds.Measured(frame(rows), pl.DataFrame())
    rule = Rule(0.95, 0.05, place="place", replicate="replicate")
    met = Judged(Claim("4.3", "so", (Comparison("round-trip", "PCTLS", "vanilla", testbeds.PLAIN, None, "less"),)), (), "holds")
    other = Judged(Claim("4.3", "and so", (Comparison("time", "PCTLS", "vanilla", "one-bulk", None, "less"),)), (), "holds")
    for judged, words in (([other], "No claim meets"), ([other, met], "Claim 2 meets"), ([met, met], "Claims 1 and 2 meet")):
        assert next(page._nagle(beds, judged, rule)).startswith(f"{words} Nagle's algorithm")


def test_what_hangs_on_the_loss_is_said_beside_it() -> None:
    """Building a circuit at each loss, and in a quarter of Tor at the one that it was run with."""
    asked = cci.read(FOLDER)
    judged = [Judged(claim, (), UNDECIDED) for claim in (*asked.testbed_claims, *asked.network_claims)]
    building = {"0 %": (0.5, 1.0), "0.5 %": (9.0, 1.5)}
    rows = [
        (loss, name, network_, "build", seconds * (1 + network_ / 10))
        for loss, both in building.items()
        for name, seconds in zip(("vanilla", "PCTLS"), both, strict=True)
        for network_ in (1, 2, 3)
    ]
    sampled = network.Measured(frame(rows), pl.DataFrame(), 3, 134, 20.0, 300.0)
    large = network.Measured(
        frame([row for row in rows if row[0] == "0.5 %" and row[2] == 1]), pl.DataFrame(), 1, 1675, 10.0, 240.0
    )
    (text, blank) = page._loss(sampled, None, judged, asked.rule)
    assert text.startswith("Claims 14, 15, 16 hang on a loss that the paper does not print")
    assert "less vanilla: +0.600 s (+0.476 to +0.724)*, +100.0 % with 0 % lost; −9.000 s (−10.863 to −7.137)*, −83.3 %" in text
    assert ("quarter" not in text, blank) == (True, "")
    assert next(page._loss(sampled, large, judged, asked.rule)).endswith(
        "In a quarter of Tor with 0.5 % lost, once: −8.250 s, −83.3 %."
    )
    assert not list(page._loss(sampled, large, judged[:13], asked.rule))


def test_a_claim_that_was_changed_says_so_below_the_table() -> None:
    claims = cci.read(FOLDER).testbed_claims
    lines = list(claims_table.table([Judged(claim, (), UNDECIDED) for claim in claims], {}))
    assert lines[-2].startswith("Changed after first runs. 1: First this was an equality within 5 %")
    assert not [line for line in claims_table.table([Judged(claims[1], (), UNDECIDED)], {}) if line.startswith("Changed")]


def test_a_quarter_of_tor_beside_the_paper() -> None:
    """What each run took stands beside the paper's memory; a figure that a run has not is a dash."""
    rows = [
        ("0.5 %", name, 0, metric, value) for name, value in (("vanilla", 1.5), ("PCTLS", 1.25)) for metric in network.METRICS
    ]
    rows = [row for row in rows if row[1:4:2] != ("PCTLS", "5 MB")]
    facts = {"networks": 1, "relays": 1675, "minutes": 10.0, "longest": 240.0}
    costs = [{"treatment": name, "seconds": 5400.0, "memory": 3 * 2**30} for name in ("vanilla", "PCTLS")]
    reduced = [
        Reduced(
            {"figures": frame([row for row in rows if row[1] == cost["treatment"]]), "times": pl.DataFrame()},
            (),
            {**facts, "costs": [cost]},
        )
        for cost in costs
    ]
    text = "\n".join(quarter.section(reduced, cci.read(FOLDER).published["network"]))
    assert "1,675 relays, 0.5 % lost, 10 simulated minutes" in text
    assert "| vanilla | 1.50 | 1.50 | 1.50 | 2 | 1.5 | 1.500 | 1.5 | 1.5 | 2 | 1 h 30 min | 3.00 GiB | 430 GB | 12.5 |" in text
    assert "| PCTLS | 1.25 | 1.25 | – |" in text


def test_a_quarter_is_on_the_page_once_both_ways_are_kept(tmp_path: Path) -> None:
    ahead = quarter.prepare(FOLDER, tmp_path)
    assert [name for name, _, _ in ahead] == ["quarter-vanilla", "quarter-pctls"]
    assert Counter(_runs(FOLDER / "quarter.toml")) == Counter(run for _, file, _ in ahead for run in _runs(file))
    store = Kept(tmp_path / "kept", cci.FORM)
    for kept, (name, file, _) in enumerate(ahead):
        assert cci._quarter(FOLDER, tmp_path, store, None, run=False) == [], kept
        store.add(name, identity(file), Reduced({"figures": frame([])}, ()))
    assert len(cci._quarter(FOLDER, tmp_path, store, None, run=False)) == 2


def test_what_sharing_costs_by_hand() -> None:
    """1.5 s where the other way takes 1.2 are a quarter more; a network without the other way has no cost."""
    rows = [
        ("few", "shared", 0, "50 kB", 1.5),
        ("few", "own", 0, "50 kB", 1.2),
        ("few", "shared", 0, "1 MB", 3.0),
        ("few", "own", 0, "1 MB", 3.0),
        ("few", "shared", 0, "5 MB", 9.0),
        ("few", "shared", 0, "shared", 12.5),
        ("few", "own", 0, "shared", 12.0),
    ]
    found = further_charts.shares(network.Measured(frame(rows), pl.DataFrame(), 1, 8, 12.0, 300.0))
    assert found.select("size", "treatment", "shared").rows() == [("50 kB", "few", 12.5), ("1 MB", "few", 12.5)]
    assert found["cost"].to_list() == pytest.approx([25.0, 0.0])
