"""What is exported for tornettools: files, keys and units, values against our tables, and the tool itself where it is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import onionlab
from onionlab.charts.build import slug
from onionlab.errors import ResultsError
from onionlab.exporting import Exported, export_tornettools
from onionlab.exporting.tornettools import ERRORS, _Tables, measuring_groups
from onionlab.results.request_times import with_requests
from onionlab.stats.metrics import FAILURES

MEASURED_FROM = 8
EXPERIMENT = f"""\
title = "Measuring clients"
duration = "24 s"
measure-from = "{MEASURED_FROM} s"
networks = 2
seeds = [1, 2]
sample-interval = "500 ms"

[network]
kind = "synthetic"
relays = 12
servers = 3

[[clients]]
group = "web"
count = 3
start = {{ from = "0 s", to = "3 s" }}
load = {{ kind = "web", size = "100 KiB", pause = {{ uniform = ["1 s", "3 s"] }} }}

[[clients]]
group = "perf"
count = 5
start = {{ from = "0 s", to = "3 s" }}
load = {{ kind = "perf", pause = "2 s", sizes = [
    {{ size = "50 KiB", weight = 3, timeout = "15 s" }},
    {{ size = "1 MiB", weight = 1, timeout = "2.5 s" }},
] }}

[[treatments]]
name = "round robin"
circuitmux = "round-robin"

[[treatments]]
name = "EWMA"
circuitmux = "ewma"
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[onionlab.Experiment, Exported, Path]:
    folder = tmp_path_factory.mktemp("tornettools")
    file = folder / "measuring.toml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    experiment = onionlab.run(file, folder / "out", report=False)
    return experiment, export_tornettools(experiment, folder / "exported"), folder / "exported"


def read(folder: Path, name: str, network: int = 1) -> Any:
    return json.loads((folder / f"network{network}" / "tornet.plot.data" / name).read_text(encoding="utf-8"))


def rows(experiment: onionlab.Experiment, network: int = 1) -> list[dict[str, Any]]:
    """Transfers of the measuring clients under EWMA that ended within the measurement, one by one."""
    found = []
    for row in experiment.transfers.iter_rows(named=True):
        mine = row["treatment"] == "EWMA" and row["network"] == network and row["group"] == "perf"
        if mine and row["outcome"] != "unfinished" and row["end_ns"] >= MEASURED_FROM * 1e9:
            found.append(row)
    return found


def test_the_folders_are_what_tornettools_walks(exported: tuple[onionlab.Experiment, Exported, Path]) -> None:
    _, done, out = exported
    assert list(done.folders) == ["round robin", "EWMA"]
    assert sorted(path.relative_to(out).as_posix() for path in out.glob("*/*")) == [
        "ewma/network0",
        "ewma/network1",
        "round-robin/network0",
        "round-robin/network1",
    ]
    files = {path.name for path in (out / "ewma" / "network0" / "tornet.plot.data").iterdir()}
    assert files == {
        "error_rate.exit.json",
        "perfclient_circuit_build_time.exit.json",
        "relay_goodput.json",
        "resource_usage.json",
        "round_trip_time.exit.json",
        "simulation_info.json",
        "time_to_first_byte_recv.exit.json",
        "time_to_last_byte_recv.exit.json",
    }
    text = (out / "ewma" / "network0" / "tornet.plot.data" / "simulation_info.json").read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True)


def test_times_are_those_of_our_tables(exported: tuple[onionlab.Experiment, Exported, Path]) -> None:
    experiment, done, _ = exported
    folder = done.folders["EWMA"]
    early = json.loads(experiment.runs["treatment_json"][0])["optimistic-data"]
    completed = [row for row in rows(experiment) if row["outcome"] == "ok"]
    leaves = with_requests(pl.DataFrame(completed), experiment.circuits, early)["leaves_ns"].to_list()
    last = [(row["last_byte_ns"] - left) / 1e9 for row, left in zip(completed, leaves, strict=True)]
    first = [(row["first_byte_ns"] - left) / 1e9 for row, left in zip(completed, leaves, strict=True)]
    times = read(folder, "time_to_last_byte_recv.exit.json")
    assert set(times) == {"ALL", "51200", "1048576"}
    assert times["ALL"] == pytest.approx(last, abs=1e-6)
    small = [time for time, row in zip(last, completed, strict=True) if row["size_bytes"] == 51_200]
    assert len(small) > 10
    assert times["51200"] == pytest.approx(small, abs=1e-6)
    assert read(folder, "round_trip_time.exit.json") == pytest.approx(first, abs=1e-6)
    assert read(folder, "time_to_first_byte_recv.exit.json")["ALL"] == pytest.approx(first, abs=1e-6)


def test_a_header_ends_the_round_trip_and_is_not_the_first_byte(tmp_path: Path) -> None:
    """As tgen counts: its server says first who it is."""
    text = EXPERIMENT.replace("networks = 2", "networks = 1").replace("seeds = [1, 2]", "seeds = [1]")
    text = text.replace('kind = "perf", ', 'kind = "perf", header = "70 B", ')
    # A window of one segment, so that what follows the header leaves when that is acknowledged.
    text = text.replace("[[treatments]]", '[base]\ntor = "0.3.5"\nnet = "shadow"\ninitial-window = 1\n\n[[treatments]]', 1)
    file = tmp_path / "header.toml"
    file.write_text(text, encoding="utf-8")
    experiment = onionlab.run(file, tmp_path / "out", report=False)
    folder = export_tornettools(experiment, tmp_path / "exported").folders["EWMA"]
    completed = pl.DataFrame([row for row in rows(experiment, network=0) if row["outcome"] == "ok"])
    early = json.loads(experiment.runs["treatment_json"][0])["optimistic-data"]
    left = with_requests(completed, experiment.circuits, early)["leaves_ns"]
    header, first = ((completed[column] - left) / 1e9 for column in ("answered_ns", "first_byte_ns"))
    assert (header <= first).all()
    assert (header < first).sum() > first.len() / 2, "the download comes behind its header"
    assert read(folder, "round_trip_time.exit.json", network=0) == pytest.approx(header.to_list(), abs=1e-6)
    assert read(folder, "time_to_first_byte_recv.exit.json", network=0)["ALL"] == pytest.approx(first.to_list(), abs=1e-6)


def test_error_rates_are_percent_per_client_with_their_resolution(exported: tuple[onionlab.Experiment, Exported, Path]) -> None:
    experiment, done, _ = exported
    rates = read(done.folders["EWMA"], "error_rate.exit.json")
    clients: dict[tuple[int, str], list[str]] = {}
    for row in rows(experiment):
        clients.setdefault((row["seed"], row["client"]), []).append(row["outcome"])
    wanted = [[100 * sum(o != "ok" for o in outcomes) / len(outcomes), 100 / len(outcomes)] for outcomes in clients.values()]
    assert sorted(rates["ALL"]) == [pytest.approx(pair) for pair in sorted(wanted)]
    timeouts = [outcomes.count("timeout") for outcomes in clients.values() if "timeout" in outcomes]
    assert timeouts, "the experiment is made so that some downloads take too long"
    assert sum(round(rate / one) for rate, one in rates["TIMEOUT"]) == sum(timeouts)
    assert set(ERRORS) == set(FAILURES)


def test_relays_goodput_is_bytes_by_second(exported: tuple[onionlab.Experiment, Exported, Path]) -> None:
    experiment, done, _ = exported
    goodput = read(done.folders["EWMA"], "relay_goodput.json")
    assert list(map(int, goodput)) != []
    assert {int(second) for second in goodput} == set(range(MEASURED_FROM, 24))
    mine = (pl.col("treatment") == "EWMA") & (pl.col("network") == 1) & (pl.col("time_ns") > MEASURED_FROM * 1e9)
    # Two seeds: the mean of both, second by second.
    total = experiment.network.filter(mine)["relay_bytes_sent"].sum() / 2
    assert sum(goodput.values()) == pytest.approx(total, abs=len(goodput))


@pytest.mark.parametrize("times", [[9 * 10**18], [10**9, 10**9], [-(10**9)]])
def test_times_that_no_run_has_are_refused(exported: tuple[onionlab.Experiment, Exported, Path], times: list[int]) -> None:
    results, _, _ = exported
    few = results.network.head(len(times)).with_columns(pl.Series("time_ns", times, dtype=results.network["time_ns"].dtype))
    there = _Tables(results, "EWMA", 0, ["web"])
    there._series = few.with_columns(pl.lit(1, dtype=few["seed"].dtype).alias("seed"))
    with pytest.raises(ResultsError, match="no samples of a run"):
        there.relay_goodput()


def test_circuits_resources_and_size(exported: tuple[onionlab.Experiment, Exported, Path]) -> None:
    experiment, done, _ = exported
    folder = done.folders["EWMA"]
    built = [
        (row["built_ns"] - row["launched_ns"]) / 1e9
        for row in experiment.circuits.iter_rows(named=True)
        if (row["treatment"], row["network"], row["group"]) == ("EWMA", 1, "perf")
        and row["built_ns"] is not None
        and row["built_ns"] >= MEASURED_FROM * 1e9
    ]
    assert sorted(read(folder, "perfclient_circuit_build_time.exit.json")) == pytest.approx(sorted(built), abs=1e-6)
    usage = read(folder, "resource_usage.json")
    assert usage["ram"]["gib_used_max"] == usage["ram"]["bytes_used_max"] / 2**30
    assert usage["run_time"]["real_seconds_per_sim_second"]["24.0"] == usage["run_time"]["seconds"]
    info = read(folder, "simulation_info.json")
    assert info["num_sampled_relays"] == 12
    assert info["num_tgen_exit_perf_clients"] == 5
    assert info["num_tgen_exit_markov_clients"] == 3
    assert info["num_tgen_exit_servers"] == 3
    assert info["net_scale"] == pytest.approx(12 / info["num_public_relays"], rel=0.01)


def test_what_cannot_be_exported_is_refused(exported: tuple[onionlab.Experiment, Exported, Path], tmp_path: Path) -> None:
    experiment, done, out = exported
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    for note in (note for note in done.notes if note.startswith("not written: ")):
        what = note.removeprefix("not written: ").partition(":")[0]
        names = re.findall(r"perfclient_goodput\S*\.json|client_goodput\w*|ram_\w+", what)
        assert names, note
        assert all(f"`{name}`" in page for name in names), "the page says the same"
    assert any("2 seeds" in note for note in done.notes)
    assert not any("onion" in note for note in done.notes), "there are no onion services"
    scenario = experiment.plan.scenario
    groups = [*scenario["clients"], {**scenario["clients"][0], "group": "hidden", "onion": {"hosts": [7]}}]
    other = replace(experiment, plan=replace(experiment.plan, scenario={**scenario, "clients": groups}))
    assert "not written: clients that load from onion services (hidden)" in export_tornettools(other, tmp_path / "onion").notes
    with pytest.raises(onionlab.ResultsError, match="no empty folder"):
        export_tornettools(experiment, out)
    with pytest.raises(onionlab.ResultsError, match="no group of clients 'ftp'; it has web, perf"):
        export_tornettools(experiment, tmp_path / "other", ["ftp"])
    assert not (tmp_path / "other").exists()
    web = export_tornettools(experiment, tmp_path / "web", ["web"])
    assert set(read(web.folders["EWMA"], "time_to_last_byte_recv.exit.json")) == {"ALL", "102400"}


def test_an_export_that_breaks_off_leaves_nothing(
    exported: tuple[onionlab.Experiment, Exported, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, done, _ = exported
    out = tmp_path / "whole"
    with monkeypatch.context() as broken:
        broken.setattr("onionlab.exporting.tornettools._Tables.information", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export_tornettools(experiment, out)
    assert list(tmp_path.iterdir()) == []
    assert list(export_tornettools(experiment, out).folders) == list(done.folders)
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    with pytest.raises(onionlab.ResultsError, match="the folder that you are in"):
        export_tornettools(experiment, Path())


def test_treatments_whose_names_are_alike_have_folders_of_their_own(
    exported: tuple[onionlab.Experiment, Exported, Path], tmp_path: Path
) -> None:
    experiment, _, out = exported
    # The same runs, with names of which no letter can be in a folder's, or no other than those of the other's.
    for first, second, folders in (("α β", "γ", ["chart", "chart-2"]), ("KIST", "kist $!", ["kist", "kist-2"])):
        names = {"round robin": first, "EWMA": second}
        done = export_tornettools(renamed(experiment, names), tmp_path / folders[0])
        assert {name: folder.name for name, folder in done.folders.items()} == dict(zip((first, second), folders, strict=True))
        for old, new in names.items():
            known, now = out / slug(old), done.folders[new]
            for name in ("round_trip_time.exit.json", "relay_goodput.json"):
                assert read(now, name) == read(known, name)
        command = shlex.split(done.command(tmp_path))
        assert command[command.index("-l") + 1 : command.index("--prefix")] == [first, second], "as a shell takes it"


def renamed(experiment: onionlab.Experiment, names: dict[str, str]) -> Any:
    """An experiment whose treatments have other names."""

    def frame(name: str) -> pl.DataFrame:
        return getattr(experiment, name).with_columns(pl.col("treatment").cast(pl.String).replace(names))

    def run(found: Any) -> SimpleNamespace:
        return SimpleNamespace(treatment=names[found.treatment], network=found.network)

    return SimpleNamespace(
        **{name: frame(name) for name in ("runs", "network", "transfers", "circuits")},
        **{name: getattr(experiment, name) for name in ("swept", "directory", "plan", "measure_from")},
        treatments=[names[name] for name in experiment.treatments],
        finished=[run(found) for found in experiment.finished],
    )


def test_tornettools_draws_it(exported: tuple[onionlab.Experiment, Exported, Path], tmp_path: Path) -> None:
    _, done, _ = exported
    tool = shutil.which("tornettools")
    if tool is None:
        print("tornettools is not installed", file=sys.stderr)
        pytest.skip("tornettools is not installed")
    folders = [str(folder) for folder in done.folders.values()]
    command = [tool, "plot", *folders, "-l", *done.folders, "--pngs", "--prefix", str(tmp_path)]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "tornet.plot.pages.pdf").stat().st_size > 10_000
    # An empty chart is smaller than any with lines.
    empty = (tmp_path / "transfer_time_51200.onionservice.png").stat().st_size
    for name in ("transfer_time_51200.exit", "round_trip_time.exit", "relay_goodput", "circuit_build_time.exit", "run_time"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1.5 * empty, name


def test_groups_that_load_from_onion_services_are_left_out_or_refused() -> None:
    perf = {"load": {"kind": "perf"}}
    clients = [{"group": "perf", "onion": None, **perf}, {"group": "onion", "onion": {"services": {"services": 2}}, **perf}]
    experiment: Any = SimpleNamespace(directory=Path("out"), plan=SimpleNamespace(scenario={"clients": clients}))
    assert measuring_groups(experiment, None) == ["perf"]
    with pytest.raises(ResultsError, match="onion of out loads from onion services"):
        measuring_groups(experiment, ["perf", "onion"])
    del clients[0]
    with pytest.raises(ResultsError, match="no group of clients that measure"):
        measuring_groups(experiment, None)
