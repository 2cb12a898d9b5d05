"""Charts for papers: their width, their letters, their colours, the numbers behind them, and the forms of the tails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import onionlab
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab.charts.paper import charts_for_paper, for_paper, printed, write_printed
from onionlab.charts.tails import tail
from onionlab.charts.theme import PAPERS, colours
from onionlab.cli import app
from onionlab.errors import ResultsError
from onionlab.stats import quantile_bands, tail_quantiles


@pytest.fixture
def results(core: FakeCore, experiment_file: Path) -> onionlab.Experiment:
    assert core.version()
    return onionlab.run(experiment_file, experiment_file.parent / "out", report=False)


def tables(part: Any) -> list[dict[str, Any]]:
    """Every table within a specification."""
    if isinstance(part, dict):
        return [part] + [found for value in part.values() for found in tables(value)]
    return [found for value in part for found in tables(value)] if isinstance(part, list) else []


def test_the_command_writes_every_format_in_the_width_of_the_column(results: onionlab.Experiment) -> None:
    done = CliRunner().invoke(app, ["plot", str(results.directory), "--only", "time-to-last-byte-web*", "--only", "utilisation"])
    assert done.exit_code == 0, done.output
    folder = results.directory / "paper" / "one-column"
    stems = {"time-to-last-byte-web", "time-to-last-byte-web-tail", "time-to-last-byte-web-ccdf", "utilisation"}
    assert {path.name for path in folder.iterdir()} == {
        *(f"{stem}.{suffix}" for stem in stems for suffix in ("svg", "pdf", "png", "csv")),
        "captions.md",
    }
    for stem in stems:
        box = re.search(rb"MediaBox \[0 0 ([0-9.]+) ", (folder / f"{stem}.pdf").read_bytes())
        assert box is not None
        assert float(box[1]) == pytest.approx(3.33 * 72, abs=1), stem
        svg = (folder / f"{stem}.svg").read_text(encoding="utf-8")
        assert re.search(r'width="3\.3[2-4]\d*in"', svg), stem
        sizes = [float(size) for size in re.findall(r'font-size="([0-9.]+)(?:px)?"', svg)]
        assert sizes, stem
        assert min(sizes) >= 7, stem
        png = (folder / f"{stem}.png").read_bytes()
        assert int.from_bytes(png[16:20], "big") == pytest.approx(3.33 * 600, abs=10), stem
    captions = (folder / "captions.md").read_text(encoding="utf-8")
    assert "## time-to-last-byte-web-tail" in captions
    assert "95 %" in captions
    # Of each chart a heading, and one paragraph of sentences.
    for part in captions.removeprefix("## ").split("\n\n## "):
        name, caption = part.rstrip("\n").split("\n\n")
        assert name in stems
        assert "\n" not in caption
        assert caption.endswith(".")
        assert re.findall(r"[.] (?=[a-z0-9])", caption) == [], "a sentence begins with a capital"
        for sentence in (
            "The network is a synthetic one of 2021 and has 100 relays.",
            "The load comes from 12 clients “web” (320 KiB) and 3 clients “bulk” (5120 KiB).",
            "A run simulates 1 min and is measured from 10 s on, and there are 3 sampled networks with 2 seeds each.",
            "Lines are means over networks, and bands their 95 % t intervals at each point.",
        ):
            assert sentence in caption, sentence
    chart = next(chart for chart in charts_for_paper(results) if chart.name == "utilisation")
    assert pl.read_csv(folder / "utilisation.csv").shape == chart.data.shape


@pytest.mark.parametrize("name", ["paper", "paper/one-column"])
def test_nothing_is_drawn_through_a_link(name: str, results: onionlab.Experiment) -> None:
    place, elsewhere = results.directory / name, results.directory.parent / "elsewhere"
    elsewhere.mkdir()
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    done = CliRunner().invoke(app, ["plot", str(results.directory), "--only", "utilisation"])
    assert isinstance(done.exception, ResultsError)
    assert str(done.exception) == f"{place} is a symbolic link, which onionlab did not write; remove it"
    assert not list(elsewhere.iterdir())


def test_pictures_that_are_not_drawn_again_keep_their_captions(results: onionlab.Experiment) -> None:
    for only in ("utilisation", "time-to-last-byte-web"):
        assert CliRunner().invoke(app, ["plot", str(results.directory), "--only", only]).exit_code == 0
    captions = (results.directory / "paper" / "one-column" / "captions.md").read_text(encoding="utf-8")
    assert sorted(re.findall("(?m)^## (.*)$", captions)) == ["time-to-last-byte-web", "utilisation"]


def test_a_long_name_makes_no_chart_wider(core: FakeCore, experiment_file: Path, tmp_path: Path) -> None:
    text = EXPERIMENT.replace('"EWMA"', '"EWMA with a half-life of thirty seconds and a tick of ten of them"')
    experiment_file.write_text(text, encoding="utf-8")
    results = onionlab.run(experiment_file, tmp_path / "out", report=False)
    assert core.made
    chart = next(chart for chart in charts_for_paper(results) if chart.name == "time-to-last-byte-web")
    assert write_printed(tmp_path, chart, PAPERS["one-column"]).width == pytest.approx(3.33, abs=0.02)


def test_a_chart_that_is_not_there_and_a_column_that_is_none_are_refused(results: onionlab.Experiment) -> None:
    with pytest.raises(onionlab.ResultsError, match=r"no chart of .* is called 'speed'; there are .*network-throughput"):
        CliRunner().invoke(app, ["plot", str(results.directory), "--only", "speed"], catch_exceptions=False)
    wrong = CliRunner().invoke(app, ["plot", str(results.directory), "--paper", "poster"])
    assert wrong.exit_code == 2
    assert not (results.directory / "paper").exists()


def test_groups_whose_names_look_alike_have_charts_of_their_own(core: FakeCore, experiment_file: Path) -> None:
    """``Web`` and ``web`` are one word in the name of a file; a group that is really called ``web-2`` keeps its name."""
    further = '[[clients]]\ngroup = "web-2"\ncount = 2\nsize = "320 KiB"\n\n[[treatments]]'
    text = EXPERIMENT.replace('"web"', '"Web"').replace('"bulk"', '"web"').replace("[[treatments]]", further, 1)
    experiment_file.write_text(text.replace("networks = 3", "networks = 1"), encoding="utf-8")
    results = onionlab.run(experiment_file, experiment_file.parent / "out", report=False)
    assert core.made
    titles = {name: chart.title for name, chart in results.charts.items()}
    assert titles["time-to-last-byte-web"] == "Time to last byte, Web"
    assert titles["time-to-last-byte-web-3"] == "Time to last byte, web"
    assert titles["time-to-last-byte-web-2"] == "Time to last byte, web-2"
    assert len(titles) == 2 * 3 + 3
    drawn = charts_for_paper(results)
    names = {chart.name: chart.title for chart in drawn}
    assert len(names) == len(drawn) == 2 * 3 + 3 + 4 * 3
    assert names.items() >= titles.items()


def test_a_treatment_has_one_colour_in_all_charts(results: onionlab.Experiment) -> None:
    wanted = colours(results.treatments)
    charts = [chart for chart in charts_for_paper(results) if chart.specification is not None]
    assert len(charts) > 10
    for chart in charts:
        assert chart.specification is not None
        for paper in PAPERS.values():
            specification = for_paper(chart.specification, paper)
            scales = [
                part["color"]["scale"]
                for part in tables(specification)
                if isinstance(part.get("color"), dict) and "scale" in part["color"]
            ]
            assert scales, chart.name
            for scale in scales:
                assert dict(zip(scale["domain"], scale["range"], strict=True)) == wanted, chart.name


def test_two_columns_are_seven_inches(results: onionlab.Experiment) -> None:
    for chart in (tail(results, "web", "ttlb", "ccdf"), charts_for_paper(results)[0]):
        assert chart.specification is not None
        assert printed(chart.specification, PAPERS["two-columns"]).width == pytest.approx(7, abs=0.02)


def test_tails_are_the_same_curve_on_other_axes(results: onionlab.Experiment) -> None:
    quantiles = tail_quantiles(2)
    assert quantiles[0] == 0
    assert quantiles[-1] == pytest.approx(0.99)
    assert np.allclose(np.diff(-np.log10(1 - quantiles)), 0.01)
    cut = results.measured.filter(pl.col("kind") == "web")
    wanted = quantile_bands(cut, "ttlb", results.treatments, quantiles=quantiles, method="suitable")
    for form, column in (("tail", "place"), ("ccdf", "beyond")):
        chart = tail(results, "web", "ttlb", form)  # type: ignore[arg-type]
        assert chart.data.equals(wanted)
        assert chart.specification is not None
        rows = chart.specification["datasets"]["curves"]
        mean = [row["mean"] for row in rows]
        assert mean == pytest.approx(wanted["mean"].to_list(), rel=1e-5)
        beyond = [row[column] if form == "ccdf" else 10 ** -row[column] for row in rows]
        assert beyond == pytest.approx((1 - wanted["quantile"]).to_list(), rel=1e-4)
    ends = [row["place"] for row in tail(results, "web", "ttlb", "tail").specification["datasets"]["curves"]]  # type: ignore[index]
    assert max(ends) == pytest.approx(2)
