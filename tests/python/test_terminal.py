"""Figures and comparisons on a terminal: over how many networks they are, what they leave out, and that nothing is cut off."""

from __future__ import annotations

import doctest
import io
import json
import re
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import onionlab
import onionlab.terminal.comparison
import onionlab.terminal.summary
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab.charts.build import distribution
from onionlab.results import describe
from onionlab.terminal.comparison import print_comparison
from onionlab.terminal.summary import cell, print_summary
from test_report import Page

#: Small enough to be run by the simulator itself.
SMALL = """\
title = "Two treatments"
duration = "10 s"
measure-from = "4 s"
networks = 2
[network]
kind = "synthetic"
relays = 12
[[clients]]
group = "web"
count = 4
load = { kind = "bulk", size = "100 KiB" }
[[treatments]]
name = "round robin"
circuitmux = "round-robin"
flow-control = "windows"
[[treatments]]
name = "EWMA"
circuitmux = "ewma"
flow-control = "windows"
"""


def printed(width: int, of: onionlab.Experiment | onionlab.Comparison) -> str:
    """What is printed on a terminal of so many columns."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    if isinstance(of, onionlab.Experiment):
        print_summary(of, console)
    else:
        print_comparison(of, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.fixture
def gaps(core: FakeCore, tmp_path: Path) -> onionlab.Experiment:
    """Nothing is loaded in bulk in the second network under the first treatment, and in the third under the other."""

    def silence(directory: str) -> None:
        core.silent_groups = {"bulk"} if directory.startswith(("round-robin--net1", "ewma--net2")) else set()

    core.on_step = silence
    path = tmp_path / "gaps.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return onionlab.run(path, tmp_path / "gaps", jobs=1)


@pytest.mark.parametrize("module", [onionlab.terminal.comparison, onionlab.terminal.summary])
def test_examples_in_the_documentation(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


def test_a_figure_that_some_networks_lack_says_over_how_many_it_is(gaps: onionlab.Experiment) -> None:
    text = printed(160, gaps)
    web, bulk = text[: text.index(" bulk ")], text[text.index(" bulk ") :].split("whole network", 1)[0]
    assert " n=" not in web
    first, second, third = (line for line in bulk.splitlines()[:3])
    assert first.count(" n=2") == second.count(" n=2") == 5, "times and failures"
    assert third.count(" n=1") == 5, "there is one network of both"
    assert "n=: over so many of the 3 sampled networks only" in text
    assert "n=: over so many of the 3 sampled networks only" in gaps._repr_html_()
    page = Page((gaps.directory / "report.html").read_text(encoding="utf-8")).text
    assert re.search(
        r"time to first byte, median: .* in the only network with both, hence no interval \(1 of 3 networks\)\.", page
    )
    assert "no interval (1 of 3 networks)" in page
    chart = distribution(gaps, "bulk", "ttlb")
    assert chart.specification is not None
    subtitle = " ".join(chart.specification["title"]["subtitle"])
    assert "line: mean over networks (“round robin”: 2 of 3, “EWMA”: 2 of 3); band:" in subtitle
    assert "The line of “EWMA” is over 2 of 3 networks, as the others have no values." in chart.caption
    whole = distribution(gaps, "web", "ttlb")
    assert whole.specification is not None
    assert "line: mean over networks; band:" in " ".join(whole.specification["title"]["subtitle"])


def test_without_gaps_no_count_is_said(core: FakeCore, experiment_file: Path) -> None:
    results = onionlab.run(experiment_file, experiment_file.parent / "out", report=False)
    assert core.made
    assert "n=" not in printed(160, results)


@pytest.mark.parametrize("width", [80, 100])
def test_short_lines_cut_no_figure_off(gaps: onionlab.Experiment, width: int) -> None:
    text = printed(width, gaps)
    assert "…" not in text
    tables = text[: text.index("95 % interval over")].splitlines()
    assert max(len(line.rstrip()) for line in tables if "simulated" not in line) <= width
    means = gaps.summary.filter(pl.col("kind") == "web", pl.col("metric").str.starts_with("tt"))
    for row in means.iter_rows(named=True):
        assert cell(row).split(" ")[0] in text


def test_goodput_that_leaves_much_out_is_marked(core: FakeCore, tmp_path: Path) -> None:
    """Downloads in bulk take long enough for that, and those of the web do not."""
    path = tmp_path / "long.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    marked = onionlab.run(path, tmp_path / "long", report=False)
    assert core.made
    assert marked.begun_before["EWMA", "bulk"] > describe.MUCH_LEFT_OUT > marked.begun_before["EWMA", "web"]
    (warning,) = [warning for warning in describe.warnings(marked) if describe.LEFT_OUT in warning]
    assert re.match(
        r"bulk: † up to about [\d.]+ % of what these clients received in the measured time came by downloads", warning
    )
    assert "began before 10 s" in warning
    text = printed(160, marked)
    assert warning in text
    figures = marked.summary.filter(pl.col("metric") == "goodput")
    for row in figures.iter_rows(named=True):
        assert (cell(row, mark="†").split("\n")[0] in text) is (row["kind"] == "bulk")
    page = Page(marked.report().read_text(encoding="utf-8")).text
    assert warning in page
    assert len(re.findall(r"\d†", page)) == 2
    assert "†" in marked._repr_html_()
    # Without a warm-up nothing is left out.
    path.write_text(EXPERIMENT.replace('measure-from = "10 s"\n', ""), encoding="utf-8")
    assert describe.LEFT_OUT not in printed(160, onionlab.run(path, tmp_path / "all", report=False))


def made(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    onionlab.run(path, folder / name, report=False)
    return folder / name


def test_settings_are_those_that_the_runs_had(tmp_path: Path) -> None:
    """Vegas brings Conflux and other cells with it, which no file says."""
    windows, vegas = made(tmp_path, "windows", SMALL), made(tmp_path, "vegas", SMALL.replace("windows", "vegas"))
    results = onionlab.load(windows)
    assert results.plan.scenario["treatments"][1]["conflux"] is None
    assert results.in_force["EWMA"]["conflux"] is False
    told = {entry["name"]: entry for entry in results.scenario_in_force["treatments"]}
    assert (told["EWMA"]["kist-interval"], told["EWMA"]["cell-payload"]) == ("3 ms", 498)
    page = results.report().read_text(encoding="utf-8")
    assert "&#34;kist-interval&#34;: &#34;3 ms&#34;" in page
    assert "&#34;conflux&#34;: null" not in page
    comparison = onionlab.compare([windows, vegas])
    differing = {key: values for key, *values in comparison.differing.iter_rows()}
    assert differing["conflux"] == ["false", "false", "true", "true"]
    assert differing["cell-payload"] == ["498", "498", "488", "488"]
    assert "conflux-legs" in comparison.brought_along
    assert not {"conflux", "flow-control"} & comparison.brought_along
    text = printed(160, comparison)
    assert not re.search(r"(?m)^ *conflux-legs", text)
    assert re.search(r"brought along by these: .*conflux-legs = 2, .* of consensus-params \(the page has them\)", text)
    shown = Page(comparison.report(tmp_path / "page").read_text(encoding="utf-8")).text
    assert shown.index("conflux ") < shown.index("Brought along by these") < shown.index("conflux-legs")


def test_a_run_that_tells_no_settings_leaves_those_of_the_plan(core: FakeCore, experiment_file: Path) -> None:
    results = onionlab.run(experiment_file, experiment_file.parent / "out", report=False)
    assert core.made
    for text in ("null", "no JSON", '["a"]', json.dumps({"name": "EWMA", "tcp": "\x1b[31mred"})):
        for file in (results.directory / "runs").glob("ewma*/run.parquet"):
            pl.read_parquet(file).with_columns(treatment_json=pl.lit(text)).write_parquet(file)
        found = onionlab.load(results.directory)
        assert found.in_force["EWMA"] == found.plan.scenario["treatments"][1]
    for file in (results.directory / "runs").glob("*/run.parquet"):
        pl.read_parquet(file).drop("treatment_json").write_parquet(file)
    assert onionlab.load(results.directory).in_force["EWMA"]["fake-factor"] == 0.7


@pytest.mark.parametrize("width", [80, 160])
def test_a_comparison_of_many_variants_cuts_no_key_and_no_name(tmp_path: Path, width: int) -> None:
    """Those of a sweep have long names, which are said once."""
    base = '[sweep]\n"clients.web.count" = [2, 4]\nbase = [{ cell-queue-high = 200 }, { cell-queue-high = 300, mss = 1300 }]\n'
    comparison = onionlab.compare([made(tmp_path, "swept", SMALL.replace("networks = 2", "networks = 1") + base)])
    assert len(comparison.variants) == 8
    text = printed(width, comparison)
    assert "…" not in text
    legend, _, rest = text.partition("What differs")
    told = " ".join(legend.split())
    for number, label in enumerate(comparison.labels, 1):
        assert f"{number} {label}" in told
    assert comparison.labels[-1] not in rest
    keys = [key for key, *_ in comparison.differing.iter_rows() if key not in comparison.brought_along]
    assert {"cell-queue-high", "mss", "clients.web.count"} <= set(keys)
    lines = [" ".join(line.split()) for line in rest.splitlines()]
    for key in keys:
        assert sum(line.startswith(f"{key} ") for line in lines) == 1, key
    place = lines.index("cell-queue-high 200 1, 2, 5, 6")
    assert lines[place + 1] == "300 3, 4, 7, 8"
    assert "clients.web.count 2 1–4" in lines
    paired = [line for line in lines if "paired with" in line]
    assert len(paired) == 1, "what is true of all variants is said once"
    assert paired[0].startswith("“2”, “3”, “4”, “5”, “6”, “7”, “8” are paired with “1” over 1 network")


def test_few_variants_with_short_names_keep_them(tmp_path: Path) -> None:
    text = printed(80, onionlab.compare([made(tmp_path, "two", SMALL)]))
    assert re.search(r"key +round robin +EWMA", text)
    assert "circuitmux" in text
    assert "difference to “round robin”" in text


def test_points_of_a_sweep_are_numbered_where_they_have_no_room(tmp_path: Path) -> None:
    base = "[sweep]\nbase = [{ cell-queue-high = 200, mss = 1200 }, { cell-queue-high = 300, mss = 1300 }]\n"
    results = onionlab.load(made(tmp_path, "swept", SMALL + base))
    text = printed(80, results)
    assert 'point 2: base = {"cell-queue-high": 300, "mss": 1300}' in text
    assert re.search(r"^ +2 +round robin", text, re.MULTILINE)
    assert "…" not in text
    assert "point 2:" not in printed(200, results)
