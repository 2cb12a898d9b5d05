"""What all reproductions have in common: figures in tables, and the quick form of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from fake_core import FakeCore
from onionlab.errors import ResultsError, RunError
from onionlab.live_network.tor_metrics import Metrics
from onionlab.reproductions import REPRODUCTIONS, Request, predictor, shadow_tor, switching
from onionlab.reproductions.claims import Comparison, Rule
from onionlab.reproductions.figures import NOTHING, change, frame, level, mean, percent
from onionlab.reproductions.live import then
from onionlab.reproductions.panels import FEW, Panel, extent, grid, has_few
from onionlab.reproductions.runs import Changes, changed, run
from onionlab.running import runner
from onionlab.running.runner import Silent
from test_cli import call

RULE = Rule(0.95, 0.05, place="place", replicate="replicate")
#: Two replicates: 10 and 20 before, 11 and 24 after; the differences are 1 and 4.
FIGURES = frame(
    [
        ("here", "before", 1, "time", 10.0),
        ("here", "before", 2, "time", 20.0),
        ("here", "after", 1, "time", 11.0),
        ("here", "after", 2, "time", 24.0),
        ("here", "after", 3, "time", None),
    ]
)
PART = Comparison("time", "after", "before", "here", None, "greater")


def test_levels_and_changes_by_hand() -> None:
    """The t quantile of one degree of freedom is 12.706; deviations are 9.19 (11, 24) and 2.12 (1, 4)."""
    assert level(FIGURES, 1, place="here", treatment="after", metric="time") == "17.5 (0.0 to 100.1)", "no time is negative"
    below = FIGURES.with_columns(pl.col("value") - 30)
    assert level(below, 1, place="here", treatment="after", metric="time").replace("−", "-") == "-12.5 ± 82.6"
    assert level(FIGURES.filter(replicate=1), 1, treatment="after") == "11.0"
    assert level(FIGURES, 1, place="there") == NOTHING
    assert change(FIGURES, PART, RULE, 1, " s").replace("−", "-") == "+2.5 s (-16.6 to +21.6), +16.7 %"
    assert percent(FIGURES, PART, RULE) == "+17 %"
    assert percent(FIGURES, Comparison("size", "after", "before", "here", None, "less"), RULE) == ""


def test_a_level_of_networks_that_differ_widely() -> None:
    """1 to 16, each twice the one before: the interval of a log-normal mean, as `onionlab.stats.mean_interval` has it."""
    rows = frame([("here", "one", number, "time", 2.0**number) for number in range(5)])
    assert level(rows, 0) == "6 (3 to 794)"
    apart = frame([("here", "one", number, "time", 4.0**number) for number in range(5)])
    assert level(apart, 0) == "68 (20 or more)", "the bound is nine thousand million"


def test_means_of_what_is_there() -> None:
    assert mean(pl.Series([1, None, 2])) == 1.5
    assert mean(pl.Series([None], dtype=pl.Float64)) is None


@pytest.mark.parametrize(
    ("means", "domain"),
    [([1.0, 4.0], [0.0, 4.08]), ([3.0, 4.0], [2.85, 4.08]), ([-1.0, 4.0], [-1.25, 4.08]), ([0.0], [0.0, 1.0])],
)
def test_extents(means: list[float], domain: list[float]) -> None:
    assert extent(pl.DataFrame({"mean": means}))["domain"] == pytest.approx(domain)


def _times(transfers: int) -> pl.DataFrame:
    """Two treatments and three seeds of so many transfers each: the k-th of a seed takes k seconds."""
    keys = [(treatment, seed) for treatment in ("before", "after") for seed in (1, 2, 3)]
    rows = [("here", treatment, seed, seed, "time", 1.0 + k) for treatment, seed in keys for k in range(transfers)]
    return pl.DataFrame(rows, schema=["place", "treatment", "network", "seed", "what", "value"], orient="row")


def test_few_values_are_drawn_as_points() -> None:
    panel = [[Panel("here", "time", "Here", "time (s)")]]
    few, many = _times(2), _times(FEW)
    assert has_few(few)
    assert not has_few(many)
    drawn = grid(few, ("before", "after"), panel, "Times", [])
    points = [row for row in drawn["datasets"]["here-time"] if row["treatment"] == "after"]
    # Both transfers of the three seeds: a quantile function of each seed would have been the first transfer's time alone.
    assert [point["mean"] for point in points] == [1, 1, 1, 2, 2, 2]
    assert [point["quantile"] for point in points] == pytest.approx([k / 6 for k in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)], abs=1e-6)
    assert _marks(drawn) == ["point"]
    lines = grid(many, ("before", "after"), panel, "Times", [])
    assert "line" in _marks(lines)
    # What the legend shows is what is drawn; points among lines have the lines' legend, which is one.
    assert [_symbol(one) for one in (drawn, lines)] == ["circle", "stroke"]
    both = pl.concat([few, many.with_columns(place=pl.lit("there"))])
    rows = [*panel, [Panel("there", "time", "There", "time (s)")]]
    assert _symbol(grid(both, ("before", "after"), rows, "Times", [])) == "stroke"


def _symbol(drawn: dict[str, Any]) -> str:
    """Of the legend of the first panel."""
    symbol: str = drawn["vconcat"][0]["hconcat"][0]["layer"][0]["encoding"]["color"]["legend"]["symbolType"]
    return symbol


def _marks(drawn: dict[str, Any]) -> list[str]:
    (row,) = drawn["vconcat"]
    (panel,) = row["hconcat"]
    return [layer["mark"]["type"] for layer in panel["layer"]]


def test_the_quick_form_is_a_file_of_its_own(core: FakeCore, experiment_file: Path, tmp_path: Path) -> None:
    before = experiment_file.read_text(encoding="utf-8")
    results = run(
        experiment_file, tmp_path / "quick", lambda: nullcontext(Silent()), Changes({r"(?m)^networks = .*$": "networks = 2"})
    )
    assert results.plan.networks == 2
    assert results.directory == tmp_path / "quick" / "pair"
    assert experiment_file.read_text(encoding="utf-8") == before
    whole = run(experiment_file, tmp_path / "full", lambda: nullcontext(Silent()))
    assert whole.plan.networks == 3


def test_a_file_that_says_it_already_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text("seeds = [1, 2]\n", encoding="utf-8")
    copy = changed(file, tmp_path / "files", Changes({"2": "3"}))
    written = copy.stat().st_mtime_ns
    assert changed(file, tmp_path / "files", Changes({"2": "3"})).stat().st_mtime_ns == written
    assert copy.read_text(encoding="utf-8") == "seeds = [1, 3]\n"
    changed(file, tmp_path / "files", Changes({"2": "4"}, where_there={"7": "8"}))
    assert copy.read_text(encoding="utf-8") == "seeds = [1, 4]\n"
    with pytest.raises(ResultsError, match=r"one\.toml: nothing there matches '7', which is to become '8'"):
        changed(file, tmp_path / "files", Changes({"7": "8"}))


def test_a_run_that_fails_is_named(core: FakeCore, experiment_file: Path, tmp_path: Path) -> None:
    core.failing = {"ewma--net1--seed2"}
    with pytest.raises(RunError, match="did not finish"):
        run(experiment_file, tmp_path / "out", lambda: nullcontext(Silent()))


EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def of_shadow_tor(out: Path) -> None:
    published = shadow_tor.load_published(EXPERIMENTS / "shadow-tor" / "published.json")
    shadow_tor.measure(EXPERIMENTS / "shadow-tor", published, None, out, seeds=1)


def of_predictor(out: Path) -> None:
    asked = predictor.read(EXPERIMENTS / "predictor", quick=True)
    predictor.run(asked, EXPERIMENTS / "predictor", out, None, quick=True)


def of_switching(out: Path) -> None:
    switching.reproduce(EXPERIMENTS / "switching", out, out / "docs", quick=True)


def of_live(out: Path) -> None:
    step = then.Step("one", "what", "why", "default", {}, {}, (), ())
    then.run(then.Steps(("1pct",), "1 h", (step,)), out, Metrics(), out, Silent())


@pytest.mark.parametrize("reproduce", [of_shadow_tor, of_predictor, of_switching, of_live])
def test_no_run_goes_on_for_a_reproduction_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reproduce: Callable[[Path], None]
) -> None:
    """Also while its error is kept, with all that its frames hold, as a notebook does."""
    ended: list[bool] = []

    def run_all(*_: Any, **__: Any) -> Iterator[Any]:
        try:
            yield SimpleNamespace(directory=tmp_path, missing=[SimpleNamespace(label="the first run")])
        finally:
            ended.append(True)

    monkeypatch.setattr(runner, "run_all", run_all)
    monkeypatch.setattr(then, "_written", lambda *_: tmp_path)
    with pytest.raises(RunError, match="the first run did not finish") as kept:
        reproduce(tmp_path)
    assert ended == [True]
    assert kept.tb is not None


#: An option of the command line with a value, by its name in `onionlab.reproductions.Reproduction.takes`.
OPTIONS = {
    "reference": ["--reference", "."],
    "consensus": ["--consensus", "."],
    "seeds": ["--seeds", "3"],
    "networks": ["--networks", "a"],
    "network-count": ["--networks", "2"],
    "duration": ["--duration", "20 min"],
    "load": ["--load", "1.2"],
    "at-most": ["--at-most", "3 h"],
    "quick": ["--quick"],
    "quarter": ["--quarter"],
    "parts": ["--parts", "network"],
    "kept": ["--kept", "here"],
    "as-kept": ["--as-kept", "--kept", "here"],
    "jobs": ["--jobs", "2"],
    "cluster": ["--cluster", "tcp://here:1"],
}


@pytest.mark.parametrize("paper", REPRODUCTIONS)
def test_a_reproduction_is_asked_with_the_options_that_it_takes_and_refuses_the_others(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Request] = []
    chosen = REPRODUCTIONS[paper]
    assert chosen.takes <= set(OPTIONS)
    run = lambda request: asked.append(request) or (tmp_path, [])  # noqa: E731
    monkeypatch.setitem(REPRODUCTIONS, paper, replace(chosen, run=run))
    taken = chosen.takes | ({"jobs", "cluster"} if chosen.simulates else set())
    for name, words in OPTIONS.items():
        # Names or a number of networks: which of the two is meant, the reproduction says.
        if name in ("networks", "network-count") and name not in taken and {"networks", "network-count"} & taken:
            continue
        before = len(asked)
        code = call(monkeypatch, "reproduce", paper, *words)
        told = capsys.readouterr()
        if name in taken:
            assert (code, len(asked)) == (0, before + 1), told.err
            field = {
                "consensus": "consensuses",
                "network-count": "network_count",
                "at-most": "at_most",
                "as-kept": "as_kept",
            }.get(name, name)
            usual = Request(Path("experiments") / paper, Path("out") / paper, Path("docs/results"))
            assert name in ("jobs", "cluster") or getattr(asked[-1], field) != getattr(usual, field)
        else:
            assert (code, len(asked)) == (2, before)
            assert "does not use it" in told.err


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ([], "docs/results"),
        (["--quick"], "out/swrr/quick/page"),
        (["--quick", "--out", "there"], "there/quick/page"),
        (["--quick", "--docs", "here"], "here"),
    ],
)
def test_a_quick_page_does_not_replace_the_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], where: str
) -> None:
    asked: list[Request] = []
    run = lambda request: asked.append(request) or (tmp_path, [])  # noqa: E731
    monkeypatch.setitem(REPRODUCTIONS, "swrr", replace(REPRODUCTIONS["swrr"], run=run))
    assert call(monkeypatch, "reproduce", "swrr", *words) == 0
    assert [request.docs for request in asked] == [Path(where)]
