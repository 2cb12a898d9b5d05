"""What a reproduction keeps of its experiments: nothing is run twice, nothing is lost on the way, nothing else is believed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab.errors import ResultsError, RunError
from onionlab.plan import Plan
from onionlab.reproductions import cci
from onionlab.reproductions.kept import (
    FORMAT,
    INDEX,
    Form,
    Kept,
    Made,
    Reduced,
    code,
    frames_together,
    identity,
    identity_of,
    kept_options,
    made_together,
    opened,
    work_off,
)
from onionlab.reproductions.predictor import measure as predictor
from onionlab.reproductions.runs import Ahead
from onionlab.reproductions.shadow_networks import transfer_times as shadow_networks
from onionlab.reproductions.switching import study
from onionlab.reproductions.swrr import measure as swrr
from onionlab.results.experiment import Experiment
from onionlab.running.runner import Silent

#: Frames that the tests keep.
FORM = Form(
    1,
    {
        "times": {"treatment": pl.String, "network": pl.UInt32, "seed": pl.UInt64, "value": pl.Int64},
        "counts": {"count": pl.Int64},
        "values": {"value": pl.Float64},
    },
)


@pytest.fixture
def ahead(tmp_path: Path, core: FakeCore) -> list[Ahead]:
    """Three experiments of twelve runs that differ in a size."""
    experiments = []
    for number in range(3):
        file = tmp_path / f"{number}.toml"
        file.write_text(EXPERIMENT.replace("320 KiB", f"{320 + number} KiB"), encoding="utf-8")
        experiments.append((f"number {number}", file, tmp_path / "out" / str(number)))
    assert core.made == []
    return experiments


def reduce(number: int, experiment: Experiment) -> Reduced:
    times = experiment.transfers.select("treatment", "network", "seed", value=pl.col("end_ns") - pl.col("start_ns"))
    return Reduced({"times": times, "counts": pl.DataFrame({"count": [times.height]})}, Made.of(experiment), {"number": number})


def worked_off(ahead: Sequence[Ahead], kept: Path | None) -> list[Reduced]:
    return list(work_off(ahead, reduce, Silent(), None if kept is None else Kept(kept, FORM)))


def alike(some: Sequence[Reduced], others: Sequence[Reduced]) -> bool:
    return all(
        one.made == other.made
        and one.facts == other.facts
        and one.frames.keys() == other.frames.keys()
        and all(frame.equals(other.frames[name]) for name, frame in one.frames.items())
        for one, other in zip(some, others, strict=True)
    )


def test_what_is_kept_is_not_run_again_and_is_the_same(ahead: list[Ahead], core: FakeCore, tmp_path: Path) -> None:
    first = worked_off(ahead, tmp_path / "kept")
    assert len(core.made) == 36
    assert [one.facts["number"] for one in first] == [0, 1, 2]
    assert sum(one.runs for one in made_together(first)) == 36
    elsewhere = [(name, file, tmp_path / "other" / name) for name, file, _ in ahead]
    assert alike(worked_off(elsewhere, tmp_path / "kept"), first)
    assert len(core.made) == 36
    assert not (tmp_path / "other").exists()
    assert alike(worked_off(ahead, None), first), "nor does keeping change anything"
    assert frames_together(first, "counts")["count"].sum() == frames_together(first, "times").height


def test_it_goes_on_where_it_broke_off(ahead: list[Ahead], core: FakeCore, tmp_path: Path) -> None:
    """The first is kept and a run of the others fails; with the folders of the runs gone, only the others are run again."""
    worked_off(ahead[:1], tmp_path / "kept")
    core.failing = {"ewma--net1--seed2"}
    with pytest.raises(RunError, match="EWMA, network 1, seed 2 failed"):
        worked_off(ahead, tmp_path / "kept")
    core.failing = set()
    made = len(core.made)
    moved = [(name, file, tmp_path / "moved" / name) for name, file, _ in ahead]
    assert [one.facts["number"] for one in worked_off(moved, tmp_path / "kept")] == [0, 1, 2]
    assert len(core.made) - made == 24


def test_no_run_goes_on_when_one_cannot_be_reduced(ahead: list[Ahead], core: FakeCore) -> None:
    """The first experiment's results are of no use: the error comes at once, and the others' runs are not made for nobody."""
    core.on_step = lambda _: time.sleep(0.02)

    def refused(number: int, experiment: Experiment) -> Reduced:
        raise ResultsError(f"{experiment.directory} is of no use")

    with pytest.raises(ResultsError, match="of no use") as error:
        list(work_off(ahead, refused, Silent()))
    made = len(core.made)
    assert 12 <= made < 36
    time.sleep(0.3)
    assert len(core.made) == made
    assert error.traceback, "held until here, with all that it holds"


def test_a_key_that_has_no_effect_counts_for_nothing(ahead: list[Ahead]) -> None:
    """What is kept stays of use in a version that has more settings."""
    _, file, _ = ahead[0]
    plan = Plan.of(file, file.read_text(encoding="utf-8"))
    before = identity_of(plan)
    own = {key: value for key, value in plan.scenario.items() if key != "treatments"}

    def with_key(value: str | None) -> Plan:
        treatments = [{**treatment, "a-new-key": value} for treatment in plan.scenario["treatments"]]
        return replace(plan, scenario={**own, "treatments": treatments}, scenarios=())

    assert identity_of(with_key(None)) == before
    assert identity_of(with_key("a value")) != before


def test_another_experiment_of_the_name_is_run(ahead: list[Ahead], core: FakeCore, tmp_path: Path) -> None:
    """Whatever changes what the runs come to changes the identity; the title does not."""
    worked_off(ahead[:1], tmp_path / "kept")
    name, file, results = ahead[0]
    before = identity(file)
    text = file.read_text(encoding="utf-8")
    for old, new in (("networks = 3", "networks = 4"), ("10 s", "20 s"), ("count = 3", "count = 4"), ("0.7", "0.8")):
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")
        assert identity(file) != before, old
    assert Kept(tmp_path / "kept", FORM).take(name, identity(file)) is None
    file.write_text(text.replace("Round robin against EWMA", "Another title"), encoding="utf-8")
    assert identity(file) == before
    made = len(core.made)
    file.write_text(text.replace("networks = 3", "networks = 4"), encoding="utf-8")
    (found,) = worked_off([(name, file, results)], tmp_path / "kept")
    assert len(core.made) - made == 4, "the new network's"
    assert found.made[0].runs == 16
    index = json.loads((tmp_path / "kept" / INDEX).read_text(encoding="utf-8"))
    assert list(index["experiments"]) == [name], "in place of the one before"
    assert pl.read_parquet(tmp_path / "kept" / "counts.parquet").height == 1


def test_what_is_kept_can_be_taken_as_kept(ahead: list[Ahead], core: FakeCore, tmp_path: Path) -> None:
    """With whatever settings it was made, and nothing is run: what is missing is said."""
    first = worked_off(ahead[:2], tmp_path / "kept")
    made = len(core.made)
    for _, file, _ in ahead:
        file.write_text(file.read_text(encoding="utf-8").replace("networks = 3", "networks = 4"), encoding="utf-8")
    store = opened(tmp_path / "kept", FORM, as_kept=True)
    assert store is not None
    assert alike(list(work_off(ahead[:2], reduce, Silent(), store)), first)
    with pytest.raises(ResultsError, match="kept lacks 'number 2'; without --as-kept what is missing is run"):
        list(work_off(ahead, reduce, Silent(), store))
    empty = opened(tmp_path / "nothing", FORM, as_kept=True)
    with pytest.raises(ResultsError, match="nothing lacks 'number 0' and 2 more;"):
        list(work_off(ahead, reduce, Silent(), empty))
    assert len(core.made) == made
    assert kept_options(Path("some/folder"), as_kept=True) == " --kept some/folder --as-kept"
    assert kept_options(tmp_path) == " --kept DIR"
    assert kept_options(None) == ""


def test_where_documents_lie_is_no_part_of_the_identity(ahead: list[Ahead], core: FakeCore) -> None:
    """What they hold is: another machine has them elsewhere, and a changed one is another experiment."""
    file = ahead[0][1]

    def with_latency(path: str, digest: str) -> str:
        core.documents = {"latency": {"path": path, "digest": digest}}
        return identity(file)

    assert with_latency("/here/rtt.csv", "1a") == with_latency("/there/rtt.csv", "1a") != with_latency("/here/rtt.csv", "2b")


def test_a_quick_run_leaves_the_whole_one_alone(ahead: list[Ahead], tmp_path: Path) -> None:
    """They have experiments of the same names."""
    name = ahead[0][0]
    whole, quick = opened(tmp_path / "kept", FORM), opened(tmp_path / "kept", FORM, quick=True)
    assert opened(None, FORM) is None
    assert whole is not None
    assert quick is not None
    whole.add(name, "whole", Reduced({}, ()))
    quick.add(name, "quick", Reduced({}, ()))
    again = opened(tmp_path / "kept", FORM)
    assert again is not None
    assert again.take(name, "whole") is not None
    assert again.take(name, "quick") is None


def test_two_commands_with_one_folder_keep_both(tmp_path: Path) -> None:
    """Each has read it before the other wrote."""
    one, other = Kept(tmp_path / "kept", FORM), Kept(tmp_path / "kept", FORM)
    frame = pl.DataFrame({"value": [1.0]})
    one.add("one", "1", Reduced({"values": frame}, ()))
    other.add("other", "2", Reduced({"values": frame}, ()))
    found = Kept(tmp_path / "kept", FORM)
    assert [found.take(name) is not None for name in ("one", "other")] == [True, True]
    assert pl.read_parquet(tmp_path / "kept" / "values.parquet").height == 2


def test_a_frame_without_rows_is_kept_too(tmp_path: Path) -> None:
    empty = pl.DataFrame(schema={"value": pl.Float64})
    Kept(tmp_path / "kept", FORM).add("nothing", "1", Reduced({"values": empty}, ()))
    found = Kept(tmp_path / "kept", FORM).take("nothing")
    assert found is not None
    assert found.frames["values"].equals(empty)


def test_frames_of_something_else_are_refused(tmp_path: Path) -> None:
    Kept(tmp_path / "kept", FORM).add("one", "1", Reduced({"values": pl.DataFrame({"value": [1.0]})}, ()))
    pl.DataFrame({"value": [1.0]}).write_parquet(tmp_path / "kept" / "values.parquet")
    with pytest.raises(ResultsError, match=r"values\.parquet has other columns, or others in them, than value"):
        Kept(tmp_path / "kept", FORM)
    index = tmp_path / "kept" / INDEX
    index.write_text(index.read_text(encoding="utf-8").replace('"values"', '"../values"'), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"'\.\./values' is not one of times, counts, values"):
        Kept(tmp_path / "kept", FORM)


def test_runs_of_several_builds_are_told_apart(ahead: list[Ahead], core: FakeCore, tmp_path: Path) -> None:
    worked_off(ahead[:2], tmp_path / "kept")
    core.build_text = "fedcba9876543210"
    found = made_together(worked_off(ahead, tmp_path / "kept"))
    assert [(one.build, one.runs) for one in found] == [("0123456789abcdef", 24), ("fedcba9876543210", 12)]
    assert code(found) == (
        "onionlab 0.0.0-fake, build 0123456789abcdef (24 runs); onionlab 0.0.0-fake, build fedcba9876543210 (12 runs)"
    )


def test_a_run_counts_with_its_processor_time_where_every_run_has_one() -> None:
    runs = pl.DataFrame({"version": "1", "build": "2e", "wall_seconds": [9.0, 9.0], "cpu_seconds": [1.5, 2.0]})
    assert Made.of(SimpleNamespace(runs=runs)) == (Made("1", "2e", 2, 3.5),)  # type: ignore[arg-type]
    one = runs.with_columns(cpu_seconds=pl.Series([1.5, None]))
    assert Made.of(SimpleNamespace(runs=one)) == (Made("1", "2e", 2, 18.0),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _: "[", "holds nothing that a reproduction kept"),
        (lambda _: json.dumps([]), "holds nothing that a reproduction kept"),
        (lambda index: json.dumps(index | {"experiments": []}), "holds nothing that a reproduction kept"),
        (lambda index: json.dumps(index | {"frames": ["other"]}), "holds nothing that a reproduction kept"),
        (lambda index: json.dumps(index | {"format": FORMAT + 1}), "by another version of onionlab"),
        (lambda index: json.dumps(index | {"form": 2}), "by another version of onionlab"),
    ],
)
def test_a_folder_that_is_no_such_thing_is_refused(ahead: list[Ahead], tmp_path: Path, change: object, says: str) -> None:
    worked_off(ahead[:1], tmp_path / "kept")
    file = tmp_path / "kept" / INDEX
    file.write_text(change(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")  # type: ignore[operator]
    with pytest.raises(ResultsError, match=says):
        Kept(tmp_path / "kept", FORM)


def test_an_entry_that_is_not_whole_is_refused(ahead: list[Ahead], tmp_path: Path) -> None:
    worked_off(ahead[:1], tmp_path / "kept")
    file = tmp_path / "kept" / INDEX
    index = json.loads(file.read_text(encoding="utf-8"))
    del index["experiments"]["number 0"]["made"]
    file.write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ResultsError, match="'number 0' is not whole"):
        worked_off(ahead[:1], tmp_path / "kept")


def test_a_full_disk_changes_nothing(ahead: list[Ahead], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second cannot be written: a sentence, and the first is there as before."""
    worked_off(ahead[:1], tmp_path / "kept")
    before = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if INDEX in path.name:
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ResultsError, match="No space left on device"):
        worked_off(ahead[:2], tmp_path / "kept")
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()} == before


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": "x"},
        {"seconds": float("inf")},
        {"seconds": -1.0},
        {"runs": None},
        {"runs": 1.5},
        {"runs": True},
        {"version": [1]},
    ],
)
def test_runs_that_nobody_can_have_made_are_refused_at_once(change: dict[str, object], tmp_path: Path) -> None:
    reduced = Reduced({"values": pl.DataFrame({"value": [1.0]})}, (Made("0", "b", 1, 1.0),), {})
    Kept(tmp_path, FORM).add("a", "i", reduced)
    index = json.loads((tmp_path / INDEX).read_text(encoding="utf-8"))
    index["experiments"]["a"]["made"][0].update(change)
    (tmp_path / INDEX).write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ResultsError, match="the entry 'a' is not whole"):
        Kept(tmp_path, FORM)


def test_frames_of_others_are_refused(tmp_path: Path) -> None:
    reduced = Reduced({"values": pl.DataFrame({"value": [1.0]})}, (Made("0", "b", 1, 1.0),), {})
    Kept(tmp_path, FORM).add("a", "i", reduced)
    frame = tmp_path / "values.parquet"
    for other in (
        {"experiment": ["a"], "value": ["text"]},
        {"experiment": ["a"], "other": [1.0]},
        {"experiment": [1], "value": [1.0]},
    ):
        pl.DataFrame(other).write_parquet(frame)
        with pytest.raises(ResultsError, match=r"values\.parquet has other columns, or others in them, than value"):
            Kept(tmp_path, FORM)
    shutil.copy(Path(__file__).parent / "testdata" / "panics.parquet", frame)
    with pytest.raises(ResultsError, match=r"values\.parquet cannot be read"):
        Kept(tmp_path, FORM)


@pytest.mark.parametrize("paper", ["swrr", "cci", "predictor", "switching", "shadow-networks"])
def test_what_is_kept_of_the_pages_has_their_form(paper: str) -> None:
    """Each whole, and with what any of its experiments says left out."""
    forms = {"swrr": swrr, "cci": cci, "predictor": predictor, "switching": study, "shadow-networks": shadow_networks}
    form = forms[paper].FORM  # type: ignore[attr-defined]
    folder = Path(__file__).parents[2] / "docs" / "results" / "kept" / paper
    kept = Kept(folder, form)
    found = [kept.take(name) for name in kept.names]
    assert found
    for facts in (one.facts for one in found if one is not None and one.facts):
        form.check(facts)
        for name in facts.keys() - {"costs"} if paper == "cci" else facts:
            with pytest.raises(LookupError):
                form.check({key: value for key, value in facts.items() if key != name})
