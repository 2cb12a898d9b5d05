"""The report as text: it needs nothing from outside, says what was run, and gives a reason for what it does not show."""

from __future__ import annotations

import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest

import onionlab
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab.charts import all_charts, colours
from onionlab.charts.export import inline, to_svg
from onionlab.charts.tails import tail_charts
from onionlab.charts.theme import PALETTE
from onionlab.files import ABANDONED, draft_of
from onionlab.report.write import replace_folder
from onionlab.results.drawn import MADE
from onionlab.stats.metrics import METRICS

CHARTS = {
    "time-to-first-byte-web",
    "time-to-last-byte-web",
    "time-to-first-byte-bulk",
    "time-to-last-byte-bulk",
    "network-throughput",
    "failed-downloads",
    "utilisation",
}


class Page(HTMLParser):
    """Collects what a test asks of a page."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.resources: list[str] = []
        self.identifiers: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "xlink:href", "action", "srcset", "data"} and value:
                self.resources.append(value)
            if name == "id" and value:
                self.identifiers.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.words.append(data)


def made(experiment_file: Path) -> tuple[onionlab.Experiment, Page, str]:
    results = onionlab.run(experiment_file, experiment_file.parent / "out")
    text = (results.directory / "report.html").read_text(encoding="utf-8")
    return results, Page(text), text


def test_page_is_whole_and_needs_nothing_from_outside(core: FakeCore, experiment_file: Path) -> None:
    _, page, text = made(experiment_file)
    assert core.made
    assert page.open == []
    assert page.resources
    assert all(resource.startswith(("#", "data:")) for resource in page.resources)
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert "<script" not in text
    assert len(page.identifiers) == len(set(page.identifiers))


def test_page_says_what_was_run_and_what_came_out(core: FakeCore, experiment_file: Path) -> None:
    results, page, text = made(experiment_file)
    assert core.made
    for phrase in (
        "Round robin against EWMA",
        "synthetic network of 2021, 100 relays",
        "12 clients “web” (320 KiB); 3 clients “bulk” (5120 KiB)",
        "1 min simulated, measured from 10 s; 3 sampled networks × 2 seeds",
        "onionlab 0.0.0-fake",
        "Only 3 sampled networks",
        "better: excludes zero",
        "includes zero",
        "Downloads by outcome",
        "12 runs",
    ):
        assert phrase in page.text, phrase
    assert text.count('<svg class="chart"') == len(CHARTS)
    # Each number of the summary is one that the statistics gave.
    row = results.summary.filter(pl.col("treatment") == "EWMA", pl.col("kind") == "web", pl.col("metric") == "ttlb_median").row(
        0, named=True
    )
    assert f"<b>{row['mean']:.2f}</b>" in text
    # What a figure means is there for who points at the head of its column.
    for metric in ("ttlb_p90", "failed", "utilisation_middle"):
        assert f'<th scope="col" title="{METRICS[metric].meaning}">' in text


@pytest.mark.real_pictures
def test_charts_and_tables_lie_beside_the_page(core: FakeCore, experiment_file: Path) -> None:
    results, _, _ = made(experiment_file)
    assert core.made
    files = {path.name for path in (results.directory / "charts").iterdir()}
    assert files == {f"{name}.{kind}" for name in CHARTS for kind in ("png", "svg", "vl.json")} | {MADE}
    for name in CHARTS:
        picture = (results.directory / "charts" / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG\r\n")
        assert int.from_bytes(picture[16:20]) > 1000  # pixels wide
        svg = (results.directory / "charts" / f"{name}.svg").read_text(encoding="utf-8")
        assert "3 sampled networks × 2 seeds" in svg
        assert "onionlab 0.0.0-fake" in svg
    tables = {path.name for path in (results.directory / "tables").iterdir()}
    assert tables == {f"{name}.csv" for name in (*CHARTS, "summary", "figures-per-run", "runs", "variance")} | {MADE}
    summary = pl.read_csv(results.directory / "tables" / "summary.csv")
    assert summary.height == results.summary.height


def test_beginning_of_the_measurement_is_marked_in_every_time_series(core: FakeCore, experiment_file: Path) -> None:
    results, _, _ = made(experiment_file)
    assert core.made
    for name, panels in {"network-throughput": 1, "failed-downloads": 1, "utilisation": 4}.items():
        svg = (results.directory / "charts" / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.count('stroke-dasharray="3,3"') == panels, name


def test_treatments_keep_their_colour_in_every_chart(core: FakeCore, experiment_file: Path) -> None:
    results, _, _ = made(experiment_file)
    assert core.made
    palette = colours(results.treatments)
    assert list(palette.values()) == list(PALETTE[:2])
    for name in CHARTS:
        svg = (results.directory / "charts" / f"{name}.svg").read_text(encoding="utf-8")
        assert all(colour in svg for colour in palette.values()), name


def test_empty_series_say_why(core: FakeCore, experiment_file: Path) -> None:
    core.silent_groups = {"bulk"}
    text = EXPERIMENT.replace('name = "EWMA"', 'name = "EWMA"\nfake-failures = 0.0')
    text = text.replace('name = "round robin"', 'name = "round robin"\nfake-failures = 0.0')
    experiment_file.write_text(text + "\n[network]\nno-exits = true\n", encoding="utf-8")
    results, page, _ = made(experiment_file)
    assert "Nothing to draw: no transfer of “bulk” started after 10 s" in page.text
    assert "Nothing to draw: no download failed in any run." in page.text
    assert "There is no panel for exits: no run has such relays." in page.text
    files = {path.name for path in (results.directory / "charts").glob("*.png")}
    assert files == {
        "time-to-first-byte-web.png",
        "time-to-last-byte-web.png",
        "network-throughput.png",
        "utilisation.png",
    }


def test_a_treatment_whose_transfers_all_fail_is_named(core: FakeCore, experiment_file: Path) -> None:
    experiment_file.write_text(EXPERIMENT.replace("fake-factor = 0.7", "fake-failures = 1.0"), encoding="utf-8")
    results, page, _ = made(experiment_file)
    assert core.made
    assert "There is no line for “EWMA”: no transfer completed." in page.text
    assert re.search(
        r"Of the transfers of “EWMA” 9\d[.\d]* % failed and [.\d]+ % were unfinished at the end, which no curve shows\.",
        page.text,
    )
    summary = results.summary.filter(pl.col("treatment") == "EWMA", pl.col("kind") == "web", pl.col("metric") == "failed")
    assert summary["mean"].to_list() == [100.0]


def test_one_network_has_no_interval_and_says_so(core: FakeCore, experiment_file: Path) -> None:
    experiment_file.write_text(EXPERIMENT.replace("networks = 3", "networks = 1"), encoding="utf-8")
    results, page, _ = made(experiment_file)
    assert core.made
    assert "One sampled network: there is no interval" in page.text
    assert "hence no interval" in page.text
    assert results.summary["low"].null_count() == results.summary.height
    charts = {chart.name: chart for chart in all_charts(results)}
    specification = charts["time-to-last-byte-web"].specification
    assert specification is not None
    assert "one network, hence no band" in specification["title"]["subtitle"]


def test_seeds_of_one_network_by_hand_stand_for_networks(core: FakeCore, experiment_file: Path) -> None:
    """In tables, in charts and in warnings alike."""
    by_hand = EXPERIMENT.replace("networks = 3", "networks = 1").replace("seeds = [1, 2]", "seeds = [4, 5, 6]")
    experiment_file.write_text(f'{by_hand}\n[network]\nkind = "explicit"\n', encoding="utf-8")
    results, page, _ = made(experiment_file)
    assert core.made
    assert results.by_seed
    assert results.repeats == 3
    assert results.summary["networks"].drop_nulls().max() == 3
    assert "Only 3 seeds: the intervals are wide" in page.text
    charts = {chart.name: chart for chart in all_charts(results)}
    for name in ("time-to-last-byte-web", "network-throughput"):
        chart = charts[name]
        assert chart.specification is not None
        assert any("line: mean over seeds; band" in line for line in chart.specification["title"]["subtitle"])
        assert chart.data["low"].null_count() < chart.data.height
    tails = next(chart for chart in tail_charts(results) if chart.name == "time-to-last-byte-web-tail")
    assert tails.data["low"].null_count() < tails.data.height
    assert {settling.drift.count for settling in results.settlings if settling.drift is not None} == {3}


def test_small_scale_is_warned_of(core: FakeCore, experiment_file: Path) -> None:
    experiment_file.write_text(EXPERIMENT + "\n[network]\nsize = { scale = 0.015 }\n", encoding="utf-8")
    _, page, _ = made(experiment_file)
    assert core.made
    assert "100 relays (1.5 % of the original)" in page.text
    assert "Below 10 % results are not only noisy but biased" in page.text


def test_missing_runs_are_named(core: FakeCore, experiment_file: Path) -> None:
    core.failing = {"ewma--net1--seed1", "ewma--net1--seed2"}
    _, page, _ = made(experiment_file)
    assert "2 of 12 runs are missing" in page.text
    assert "EWMA, network 1, seed 1 failed: the event queue ran dry" in page.text


@pytest.mark.parametrize("hostile", ['<script>alert("x")</script>', "</style><b>&amp;", "]]>"])
def test_names_cannot_break_the_page(core: FakeCore, experiment_file: Path, hostile: str) -> None:
    escaped = hostile.replace('"', '\\"')
    experiment_file.write_text(EXPERIMENT.replace('"EWMA"', f'"{escaped}"').replace("Round robin", escaped), encoding="utf-8")
    _, page, text = made(experiment_file)
    assert core.made
    assert page.open == []
    assert hostile in " ".join(page.words)
    assert "<script" not in text


@pytest.mark.real_pictures
def test_report_is_the_same_every_time_and_drops_old_charts(core: FakeCore, experiment_file: Path) -> None:
    results, _, text = made(experiment_file)
    assert core.made
    charts = results.directory / "charts"
    stale, outside = charts / "time-to-last-byte-gone.png", results.directory / "outside.png"
    mine = [charts / "notes.txt", charts / "my-measurements.csv", outside]
    for path in (stale, *mine):
        path.write_bytes(b"old")
    with (charts / MADE).open("a", encoding="utf-8") as made_before:
        made_before.write(f"{stale.name}\n../{outside.name}\n")
    onionlab.load(results.directory).report()
    assert (results.directory / "report.html").read_text(encoding="utf-8") == text
    assert not stale.exists()
    assert all(path.read_bytes() == b"old" for path in mine)


def test_two_reports_at_a_time_leave_each_other_alone(tmp_path: Path) -> None:
    """One that is asked for while a run ends: by another process or thread, perhaps on another machine."""
    ours, dead = str(os.getpid()), str(2**31)
    here = draft_of(tmp_path / "charts", ".new")
    elsewhere = here.with_name(here.name.replace(here.name.split(".")[2], "0" * 8).replace(f".{ours}.", f".{dead}."))
    killed = here.with_name(here.name.replace(f".{ours}.", f".{dead}."))
    left = elsewhere.with_name(elsewhere.name.replace(elsewhere.name.split(".")[4], "f" * 32))
    # What only looks like a draft is somebody's own, however old it is.
    others, mine = (here, elsewhere), tmp_path / ".charts.1.new"
    for draft in (*others, killed, left, mine):
        draft.mkdir()
        (draft / "half.svg").write_text("<svg", encoding="utf-8")
    before = time.time() - 2 * ABANDONED
    for old in (left, mine):
        os.utime(old, (before, before))

    def fill(folder: Path) -> None:
        (folder / "whole.svg").write_text("<svg/>", encoding="utf-8")

    def fill_while_another_does(folder: Path) -> None:
        fill(folder)
        replace_folder(tmp_path / "charts", fill)

    replace_folder(tmp_path / "charts", fill_while_another_does)
    assert {path.name for path in (tmp_path / "charts").iterdir()} == {"whole.svg", MADE}
    assert all((draft / "half.svg").is_file() for draft in (*others, mine))
    assert not killed.exists()
    assert not left.exists()


def test_inline_charts_share_no_identifiers() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" class="marks" width="10" height="20" viewBox="0 0 10 20">'
        '<rect width="10" height="20" fill="white"/><clipPath id="clip0"/><g clip-path="url(#clip0)" role="x"/></svg>'
    )
    placed = inline(svg, "c1", 'say "a" & b')
    assert 'id="c1-clip0"' in placed
    assert "url(#c1-clip0)" in placed
    assert "white" not in placed
    assert 'aria-label="say &quot;a&quot; &amp; b"' in placed


@pytest.mark.parametrize("name", ["url(#clip0)", 'x role="y', 'x role="y" z', 'id="mark"', "a > b", "<g>", "#clip0"])
def test_a_name_like_a_part_of_a_drawing_is_a_name(name: str) -> None:
    points = [{"treatment": name, "value": number} for number in (1, 2)]
    chart = alt.Chart(alt.Data(values=points)).mark_line(clip=True).encode(x="value:Q", y="value:Q", color="treatment:N")
    svg = to_svg(chart.to_dict())
    placed = inline(svg, "c1", "a chart")
    for text in (svg, placed):
        assert name in "".join(ElementTree.fromstring(text).itertext())
    identifiers = re.findall(r' id="([^"]+)"', placed)
    assert identifiers
    assert all(identifier.startswith("c1") for identifier in identifiers)
    assert 'clip-path="url(#c1-clip0)"' in placed


def test_report_says_how_sure_it_is_and_where_the_spread_comes_from(core: FakeCore, experiment_file: Path) -> None:
    results, page, text = made(experiment_file)
    assert core.made
    assert "How sure the differences are" in page.text
    corrected = results.summary["p_holm"].drop_nulls()
    assert f"of {corrected.len()}, Holm" in page.text
    table = text[text.index('id="effects"') : text.index("The ratio is the geometric mean")]
    assert table.count('<td class="number"><b>') == (corrected <= 0.05).sum() < corrected.len()
    row = results.summary.filter(pl.col("treatment") == "EWMA", pl.col("kind") == "web", pl.col("metric") == "ttlb_median").row(
        0, named=True
    )
    assert f"{row['ratio']:.3f}" in page.text
    assert f"{row['networks_needed']} there are 3" in page.text
    assert "Where the spread comes from" in page.text
    split = pl.read_csv(results.directory / "tables" / "variance.csv")
    assert split.height == results.summary.filter(pl.col("networks") == 3).height
    assert "is cut off as warm-up; the experiment file says so" in page.text
    assert "round robin: is too short a series to tell" in page.text
    assert 'aria-label="Goodput of the whole network"' in text
    svg = (results.directory / "charts" / "network-throughput.svg").read_text(encoding="utf-8")
    assert "shaded: warm-up" in svg


def test_one_seed_has_no_spread_to_split(core: FakeCore, experiment_file: Path) -> None:
    experiment_file.write_text(EXPERIMENT.replace("seeds = [1, 2]", "seeds = [1]"), encoding="utf-8")
    results, page, _ = made(experiment_file)
    assert core.made
    assert "Where the spread comes from" not in page.text
    assert not (results.directory / "tables" / "variance.csv").exists()
