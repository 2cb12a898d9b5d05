"""Results directories of which something is broken, or was made by another hand: one sentence says what it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onionlab
from fake_core import FakeCore
from onionlab import cli, records
from onionlab.errors import ResultsError
from onionlab.footer import unpacked_size
from onionlab.plan import read_run_table
from onionlab.report import content
from onionlab.report.content import experiment_file as experiment_file_of

DATA = Path(__file__).parent / "testdata"

DEEP = "[" * 100_000


@pytest.fixture
def out(core: FakeCore, experiment_file: Path, tmp_path: Path) -> Path:
    """Results to break."""
    return onionlab.run(experiment_file, tmp_path / "results", report=False).directory


def refused(out: Path) -> str:
    """What is said of the results, on one line."""
    with pytest.raises(ResultsError) as error:
        onionlab.load(out).report()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 700
    return str(error.value)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan: plan.pop("runs"), "'runs' is missing"),
        (lambda plan: plan.update(runs=["a"]), "is not a mapping"),
        (lambda plan: plan.update(runs=[["a"]]), "is not a plan that onionlab wrote"),
        (lambda plan: plan.update(scenario=3), "a scenario is no object"),
        (lambda plan: plan["scenario"].pop("clients"), "'clients' is missing"),
        (lambda plan: plan["scenario"].pop("duration"), "'duration' is missing"),
        (lambda plan: plan["scenario"].update(duration="0 s"), "`duration` of a scenario is no duration above 0"),
        (lambda plan: plan["scenario"].update(clients=[1]), "`clients` of a scenario is no list of objects"),
        (lambda plan: plan["scenario"].update(network="x"), "`network` of a scenario is no object"),
        (
            lambda plan: plan["scenario"]["clients"][0].update(members={"count": {"count": "many"}}),
            "`count.count` of a scenario is no whole number",
        ),
        (lambda plan: plan["scenario"]["clients"][0].update(users=None), "`users` of a scenario is no whole number"),
        (lambda plan: plan["scenario"].update(title="A \x1b[2J\x1b]0;owned\x07"), "a text has control characters"),
        (lambda plan: plan["scenario"].update({"a\x9b": 1}), "a text has control characters"),
        (lambda plan: plan.update(version=[1]), "`version` or `build` is no text"),
        (lambda plan: plan["scenario"].update({"measure-from": "soon"}), "'soon' is not a duration"),
        (lambda plan: plan["scenario"].update(title="\ud800"), "surrogates not allowed"),
        (lambda plan: plan["scenario"].update({"measure-from": f"1{'0' * 400} s"}), "longer than any duration"),
        (lambda plan: plan["scenario"].update(duration=10**400), "a duration is longer than any"),
        (lambda plan: plan["scenario"].update(treatments=None), "`treatments` is no list of objects with names"),
        (lambda plan: plan["scenario"].update(treatments=["x"]), "`treatments` is no list of objects with names"),
        (lambda plan: plan["scenario"].update(treatments=[{"name": 5}]), "`treatments` is no list of objects with names"),
        (lambda plan: plan["runs"].append(plan["runs"][0]), "two runs have one directory"),
        (lambda plan: plan["runs"][0].update(directory=3), "a value of runs[0] is of another kind"),
        (lambda plan: plan["runs"][1].update(network=[1]), "a value of runs[1] is of another kind"),
        (lambda plan: plan["runs"][1].update(seed=-1), "a value of runs[1] is of another kind"),
        (lambda plan: plan["runs"][0].update(point=7), "runs[0] is of a point that there is not"),
        (lambda plan: plan["runs"][0].update(also=[0.5]), "runs[0] is of a point that there is not"),
        (lambda plan: plan["runs"][0].update(directory="runs/../../others"), "is not one within runs/"),
        (lambda plan: plan["runs"][0].update(directory="/runs/a"), "is not one within runs/"),
        (lambda plan: plan["runs"][0].update(directory="runs/\0"), "is not one within runs/"),
    ],
)
def test_a_broken_plan(change: Change, said: str, out: Path) -> None:
    plan = json.loads((out / "plan.json").read_text())
    change(plan)
    (out / "plan.json").write_text(json.dumps(plan))
    told = refused(out)
    assert told.startswith(f"{out / 'plan.json'} is not a plan that onionlab wrote: ")
    assert said in told


def test_a_plan_without_end(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onionlab.results.experiment.MOST_OF_A_PLAN", 1000)
    assert "has more than 1,000 B, which no plan has" in refused(out)


def test_a_plan_that_is_no_file(out: Path) -> None:
    """Whoever opened it would wait for ever."""
    (out / "plan.json").unlink()
    os.mkfifo(out / "plan.json")
    assert "it has no readable plan.json" in refused(out)


def test_a_deep_plan(out: Path) -> None:
    (out / "plan.json").write_text(DEEP)
    assert "recursion" in refused(out)


OUTCOME = {
    "of": "mean",
    "kind": "web",
    "metric": "ttlb_p50",
    "width": 0.05,
    "networks": 3,
    "found": None,
    "reached": False,
}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DEEP, "recursion"),
        ('{"measure_from": "soon"}', "'soon' is not a duration"),
        ('{"measure_from": 5}', "'5' is not a duration"),
        ('{"until_ci": 7}', "not subscriptable"),
        ('{"until_ci": {}}', "'networks' is missing"),
        (json.dumps({"until_ci": OUTCOME | {"metric": "beauty"}}), "no outcome of a search"),
        (json.dumps({"until_ci": OUTCOME | {"width": "5%"}}), "no outcome of a search"),
        (json.dumps({"until_ci": OUTCOME | {"kind": 3}}), "no outcome of a search"),
    ],
)
def test_a_broken_choice(text: str, said: str, out: Path) -> None:
    (out / "evaluation.json").write_text(text)
    told = refused(out)
    assert told.startswith(f"{out / 'evaluation.json'} is not what onionlab wrote: ")
    assert said in told


def table(out: Path, name: str) -> Path:
    """A table of the first run."""
    plan = json.loads((out / "plan.json").read_text())
    path: Path = out / plan["runs"][0]["directory"] / f"{name}.parquet"
    return path


@pytest.mark.parametrize("left", [0, 100])
@pytest.mark.parametrize("name", ["transfers", "network"])
def test_a_table_that_is_cut_off(name: str, left: int, out: Path) -> None:
    path = table(out, name)
    path.write_bytes(path.read_bytes()[:left])
    told = refused(out)
    assert told.startswith(f"{path} cannot be read (")
    assert told.endswith(f"remove {path.parent}, and `onionlab run` makes that run anew")


@pytest.mark.parametrize("name", ["transfers", "circuits", "channels", "relays", "network"])
def test_a_run_with_a_damaged_table_is_made_anew(name: str, out: Path, experiment_file: Path, core: FakeCore) -> None:
    path = table(out, name)
    for damaged in (b"", path.read_bytes()[:100], b"PAR1 and so on PAR1"):
        path.write_bytes(damaged)
        core.made.clear()
        onionlab.run(experiment_file, out, report=False)
        assert len(core.made) == 1
        assert pl.read_parquet(path, hive_partitioning=False).width > 0
    core.made.clear()
    onionlab.run(experiment_file, out, report=False)
    assert core.made == []


@pytest.mark.parametrize("name", ["transfers", "network"])
def test_a_table_of_something_else(name: str, out: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(table(out, name))
    assert f"{name}.parquet is not what onionlab wrote: it has other columns" in refused(out)


def test_a_run_of_something_else_is_unfinished(out: Path) -> None:
    for scenario in (DEEP, "[]", "3", ""):
        path = table(out, "run")
        pl.read_parquet(path, hive_partitioning=False).with_columns(scenario=pl.lit(scenario)).write_parquet(path)
        experiment = onionlab.load(out)
        assert len(experiment.missing) == 1


def panicking(path: Path) -> None:
    """Damage a table so that polars panics over it, as it does over a few of a thousand damaged files."""
    shutil.copy(DATA / "panics.parquet", path)


@pytest.mark.parametrize("name", ["transfers", "network"])
def test_a_table_over_which_polars_panics(name: str, out: Path) -> None:
    panicking(table(out, name))
    told = refused(out)
    assert told.startswith(f"{table(out, name)} ")


def test_a_run_over_which_polars_panics_is_made_anew(out: Path, experiment_file: Path, core: FakeCore) -> None:
    panicking(table(out, "run"))
    assert len(onionlab.load(out).missing) == 1
    core.made.clear()
    assert onionlab.run(experiment_file, out, report=False).missing == ()
    assert len(core.made) == 1


def test_of_a_table_without_end_no_row_is_read(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(out, "run")
    many = pl.concat([pl.read_parquet(path, hive_partitioning=False)] * 2)
    many.write_parquet(path)
    collected = Collected(pl.LazyFrame.collect)
    monkeypatch.setattr(pl.LazyFrame, "collect", collected)
    assert read_run_table(path.parent) is None
    assert collected.most == 1
    monkeypatch.setattr(records.scan, "__defaults__", (3,))
    with pytest.raises(ResultsError, match=r"transfers\.parquet is not what onionlab wrote: it has [0-9,]+ rows, and may have 3"):
        _ = onionlab.load(out).transfers


def test_a_table_of_many_columns_is_not_read(out: Path) -> None:
    """Constant ones take no space on disk, however many rows they have."""
    path = table(out, "transfers")
    wide = pl.read_parquet(path, hive_partitioning=False).with_columns(pl.lit(0).alias(f"x{number}") for number in range(100))
    wide.write_parquet(path)
    with pytest.raises(ResultsError, match=r"transfers\.parquet .* it has 1\d\d columns, and may have 100"):
        _ = onionlab.load(out).transfers


@pytest.mark.parametrize("column", ["scenario", "mine"])
def test_a_run_that_unpacks_to_more_than_any_has_is_not_read(
    column: str, out: Path, experiment_file: Path, core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of one letter alone is small on disk, however long it is."""
    path = table(out, "run")
    large = pl.lit("x" * 150 * 2**20)
    pl.read_parquet(path, hive_partitioning=False).with_columns(large.alias(column)).write_parquet(path)
    assert path.stat().st_size < 2**20
    lengths: list[int] = []
    collect = pl.LazyFrame.collect

    def watched(frame: pl.LazyFrame, *options: Any, **named: Any) -> pl.DataFrame:
        found = collect(frame, *options, **named)
        lengths.append(found.estimated_size())
        return found

    with monkeypatch.context() as patched:
        patched.setattr(pl.LazyFrame, "collect", watched)
        assert read_run_table(path.parent) is None
        with pytest.raises(ResultsError, match=r"run\.parquet is not what onionlab wrote: its 1 rows unpack to 150 MiB"):
            records.read_parquet(path)
    assert max(lengths) < 1000
    core.made.clear()
    onionlab.run(experiment_file, out, report=False)
    assert len(core.made) == 1


def test_of_a_run_no_more_is_read_than_which_it_is(out: Path) -> None:
    path = table(out, "run")
    pl.read_parquet(path, hive_partitioning=False).with_columns(mine=pl.lit("x" * 2**20)).write_parquet(path)
    row = read_run_table(path.parent)
    assert row is not None
    assert set(row) == {"scenario", "treatment", "network", "seed", "version", "build", "sim_seconds"}


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "zstd"])
def test_how_large_a_table_is_unpacked(compression: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"number": range(10_000), "text": [f"some text, the {number}th" for number in range(10_000)]})
    frame.write_parquet(tmp_path / "a.parquet", compression=compression, row_group_size=1000, use_pyarrow=False)
    assert unpacked_size(tmp_path / "a.parquet") == pytest.approx(frame.estimated_size(), rel=0.6)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_an_end_that_is_none_of_a_table_is_refused(tmp_path_factory: pytest.TempPathFactory, end: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "end.parquet"
    path.write_bytes(b"PAR1" + end + len(end).to_bytes(4, "little") + b"PAR1")
    with suppress(ValueError):
        assert unpacked_size(path) >= 0


def test_a_list_has_no_more_entries_than_bytes(tmp_path: Path) -> None:
    # Place 14, of which nobody knows anything, is a list of 2^31 - 1 truth values: polars counts to the end of it.
    end = bytes([14 << 4 | 9, 15 << 4 | 1, 255, 255, 255, 255, 7, 0])
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + end + len(end).to_bytes(4, "little") + b"PAR1")
    for read in (records.scan, lambda path: records.check_columns(path, "transfers")):
        with pytest.raises(ResultsError, match="no end of a Parquet file"):
            read(path)


class Collected:
    """Counts the rows that are read."""

    def __init__(self, collect: Callable[..., pl.DataFrame]) -> None:
        self.collect, self.most = collect, 0

    def __get__(self, frame: pl.LazyFrame, _: object) -> Callable[..., pl.DataFrame]:
        def counted(*options: Any, **named: Any) -> pl.DataFrame:
            found = self.collect(frame, *options, **named)
            self.most = max(self.most, found.height)
            return found

        return counted


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("transfers", lambda frame: frame.drop("size_bytes"), "it has other columns, and no `size_bytes`"),
        (
            "transfers",
            lambda frame: frame.with_columns(start_ns=pl.lit("x")),
            "its column `start_ns` is of type String, not Int64",
        ),
        (
            "transfers",
            lambda frame: frame.with_columns(size_bytes=pl.lit(None, dtype=pl.UInt64)),
            "`size_bytes` has no value in a row of the table 'transfers'",
        ),
        (
            "transfers",
            lambda frame: frame.with_columns(start_ns=-pl.col("start_ns") - 1),
            "a transfer starts before the simulation",
        ),
        ("transfers", lambda frame: frame.with_columns(group=pl.lit("a\x1b[2J")), "`group` of a transfer has control characters"),
        ("network", lambda frame: frame.with_columns(time_ns=pl.lit(0, dtype=pl.Int64)), "are not above 0 and ascending"),
        ("network", lambda frame: frame.with_columns(time_ns=-pl.col("time_ns")), "are not above 0 and ascending"),
        ("network", lambda frame: frame.with_columns(time_ns=pl.col("time_ns") * 10**6), "is after the run's end"),
        (
            "run",
            lambda frame: frame.with_columns(wall_seconds=pl.lit(float("nan"))),
            "`wall_seconds` of a run is no length of time",
        ),
        (
            "run",
            lambda frame: frame.with_columns(cpu_seconds=pl.lit(float("inf"))),
            "`cpu_seconds` of a run is no length of time",
        ),
        ("run", lambda frame: frame.with_columns(divergence_json=pl.lit("{")), "`divergence_json` of a run is no JSON"),
    ],
)
def test_tables_with_values_that_no_run_has(
    name: str, change: Callable[[pl.DataFrame], pl.DataFrame], said: str, out: Path
) -> None:
    path = table(out, name)
    change(pl.read_parquet(path, hive_partitioning=False)).write_parquet(path)
    told = refused(out)
    assert said in told
    assert str(out) in told


def test_what_nobody_has_foreseen_is_one_sentence_too(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def defective(*_: object) -> None:
        raise KeyError("a\x1bb")

    monkeypatch.setattr(onionlab.Experiment, "report", defective)
    monkeypatch.setattr("sys.argv", ["onionlab", "report", str(out)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"onionlab: {out}: what lies there cannot be drawn (KeyError: ")
    assert told.endswith("or has a defect: ONIONLAB_TRACEBACK=1 in the environment shows where\n")
    assert "Traceback" not in told
    monkeypatch.setenv("ONIONLAB_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        cli.main()
    assert "in defective" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["charts", "tables", "points", "points/1"])
def test_no_report_is_drawn_through_a_link(name: str, out: Path) -> None:
    elsewhere = out.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "report.html").write_text("mine", encoding="utf-8")
    place = out / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    with pytest.raises(ResultsError, match=rf"{name} is a symbolic link, which onionlab did not write; remove it"):
        onionlab.load(out).report(out / "points" / "1" if name.startswith("points") else None)
    assert [path.name for path in elsewhere.iterdir()] == ["report.html"]
    assert (elsewhere / "report.html").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["charts", "tables"])
def test_a_link_in_the_place_of_charts_is_refused_before_anything_runs(
    name: str, out: Path, experiment_file: Path, core: FakeCore
) -> None:
    (out / name).symlink_to(out.parent)
    core.made.clear()
    with pytest.raises(ResultsError, match=rf"{name} is a symbolic link"):
        onionlab.run(experiment_file, out, fresh=True)
    assert not core.made


@pytest.mark.parametrize("kind", ["link", "pipe", "without end"])
def test_only_the_experiment_file_itself_is_in_a_report(kind: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = out / "experiment.toml"
    results = onionlab.load(out)
    assert "Round robin" in experiment_file_of(results)
    path.unlink()
    match kind:
        case "link":
            (out.parent / "secret").write_text("TOPSECRET", encoding="utf-8")
            path.symlink_to(out.parent / "secret")
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_text("TOPSECRET" * 5, encoding="utf-8")
            monkeypatch.setattr(content, "MOST_OF_A_FILE", 40)
    assert experiment_file_of(results) == ""
    if kind == "link":
        assert "TOPSECRET" not in results.report().read_text(encoding="utf-8")
