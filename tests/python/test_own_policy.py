"""Circuitmux policies of one's own in Python, and the documented example in both languages."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import onionlab
from onionlab import _core
from onionlab.errors import RunError, ScenarioError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own-scheduler"

EXPERIMENT = """\
title = "A policy in Python"
duration = "4 s"
[network]
kind = "explicit"
default-latency = "10 ms"
hosts = [
  { name = "guard1", role = "guard", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "guard2", role = "guard", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "middle1", role = "middle", up = "5 Mbit/s", down = "20 Mbit/s" },
  { name = "exit1", role = "exit", up = "20 Mbit/s", down = "20 Mbit/s" },
  { name = "server1", role = "server", up = "1 Gbit/s", down = "1 Gbit/s" },
  { name = "client1", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
  { name = "client2", role = "client", up = "50 Mbit/s", down = "50 Mbit/s" },
]
[[clients]]
group = "bulk"
hosts = ["client1"]
path = ["guard1", "middle1", "exit1"]
load = { kind = "bulk", size = "1 MB" }
[[clients]]
group = "web"
hosts = ["client2"]
path = ["guard2", "middle1", "exit1"]
load = { kind = "web", size = "50 kB", pause = { uniform = ["100 ms", "1 s"] } }
[[treatments]]
name = "EWMA"
circuitmux = "ewma"
[[treatments]]
name = "own"
circuitmux = { python = "mine:Mine", parameters = PARAMETERS }
"""

#: First come, first served: a queue of circuits.
POLICY = """\
class Mine:
    def __init__(self, depth=1):
        self.queue = []
        self.sent = 0

    def notify_active(self, circuit, now):
        self.queue.append(circuit)

    def notify_inactive(self, circuit, now):
        self.queue.remove(circuit)

    def notify_sent(self, circuit, cells, now):
        self.sent += cells

    def pick(self, now):
        return self.queue[0] if self.sent < 200 else ANSWER

    def compare(self, other):
        return 0
"""


def run(folder: Path, answer: str = "self.queue[0]", parameters: str = "{}", name: str = "out") -> onionlab.Experiment:
    (folder / "mine.py").write_text(POLICY.replace("ANSWER", answer), encoding="utf-8")
    path = folder / "own.toml"
    path.write_text(EXPERIMENT.replace("PARAMETERS", parameters), encoding="utf-8")
    return onionlab.run(path, folder / name, jobs=2, report=False)


def tables(experiment: onionlab.Experiment, treatment: str) -> list[bytes]:
    (planned,) = (run for run in experiment.finished if run.treatment == treatment)
    return [(experiment.directory / planned.directory / f"{name}.parquet").read_bytes() for name in ("transfers", "relays")]


def test_a_policy_in_python_runs_beside_a_built_in_one_and_gives_the_same_bytes_again(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert tables(first, "own") == tables(run(tmp_path, name="again"), "own")
    assert tables(first, "own") != tables(first, "EWMA")
    own = first.transfers.filter(pl.col("treatment") == "own", pl.col("outcome") == "ok")
    assert set(own["group"]) == {"bulk", "web"}


def test_a_changed_policy_is_another_experiment(tmp_path: Path) -> None:
    first = run(tmp_path)
    own = first.plan.scenario["treatments"][1]["circuitmux"]["python"]
    assert (own["path"], own["class"]) == ("mine.py", "Mine")
    kept = tables(first, "EWMA")
    changed = run(tmp_path, answer="self.queue[-1]")
    assert changed.plan.scenario["treatments"][1]["circuitmux"]["python"]["digest"] != own["digest"]
    assert tables(changed, "EWMA") == kept
    assert tables(changed, "own") != tables(first, "EWMA")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("self.queue[0] // 0", "failed in `pick` at "),
        ("'first'", "it returned 'first', which is neither the number of a circuit nor None"),
        ("-1", "it returned -1, which is neither"),
        ("None", "picked no circuit although some have cells queued"),
        ("77", "picked circuit 77, which this mux does not have"),
    ],
)
def test_a_policy_that_goes_wrong_ends_its_run_with_one_sentence(tmp_path: Path, answer: str, sentence: str) -> None:
    experiment = run(tmp_path, answer=answer)
    assert [failed.run.treatment for failed in experiment.failures] == ["own"]
    reason = experiment.failures[0].reason
    assert reason.startswith('the circuitmux policy "Mine" ')
    assert sentence in reason
    assert "s of simulated time" in reason
    assert "\n" not in reason
    assert {run.treatment for run in experiment.finished} == {"EWMA"}


def test_the_place_of_an_exception_is_named(tmp_path: Path) -> None:
    reason = run(tmp_path, answer="self.queue[0] // 0").failures[0].reason
    line = 1 + POLICY.splitlines().index("        return self.queue[0] if self.sent < 200 else ANSWER")
    assert reason.endswith(f"(line {line})")
    assert "of mine.py failed in `pick`" in reason
    assert "ZeroDivisionError: " in reason


@pytest.mark.parametrize(
    ("policy", "parameters", "sentence"),
    [
        ("class Mine(", "{}", "names mine.py, which cannot be imported: SyntaxError: "),
        ("import nothing_of_that_name", "{}", "cannot be imported: ModuleNotFoundError: "),
        ("class Other: pass", "{}", "mine.py, which has no class Mine"),
        ("class Mine:\n    def pick(self, now): return None", "{}", "has a class Mine without the method `compare`"),
        (POLICY.replace("ANSWER", "None"), "{ haste = 2 }", 'cannot make the policy "Mine": TypeError: '),
    ],
)
def test_a_policy_that_cannot_be_made_stops_the_experiment(tmp_path: Path, policy: str, parameters: str, sentence: str) -> None:
    (tmp_path / "mine.py").write_text(policy, encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(EXPERIMENT.replace("PARAMETERS", parameters), encoding="utf-8")
    with pytest.raises(ScenarioError) as raised:
        onionlab.run(path, tmp_path / "out", jobs=1, report=False)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    line = 1 + EXPERIMENT.splitlines().index('circuitmux = { python = "mine:Mine", parameters = PARAMETERS }')
    assert f"line {line}: `treatments[1].circuitmux.python` names mine.py" in str(raised.value)
    assert not (tmp_path / "out").exists(), "nothing was begun"


def test_an_interrupt_in_a_policy_is_raised_as_itself(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY.replace("ANSWER", "(_ for _ in ()).throw(KeyboardInterrupt)"), encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(EXPERIMENT.replace("PARAMETERS", "{}"), encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        _core.run_one(str(path), 1, 0, 1, str(tmp_path / "out"), lambda _: True)
    assert not list((tmp_path / "out").glob("runs/*"))


def test_a_policy_that_exits_has_failed_as_any_that_raises(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY.replace("ANSWER", "(_ for _ in ()).throw(SystemExit(3))"), encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(EXPERIMENT.replace("PARAMETERS", "{}"), encoding="utf-8")
    with pytest.raises(RunError, match=r"SystemExit: 3 \(line \d+\)"):
        _core.run_one(str(path), 1, 0, 1, str(tmp_path / "out"), lambda _: True)


def test_some_relays_have_a_treatment(tmp_path: Path) -> None:
    """The share is of the run's relays, clients have none of it, and the records say which relays it were."""
    text = EXPERIMENT.replace('name = "own"\n', 'name = "own"\nrelays = { share = 0.5 }\n')
    text = text.replace('{ python = "mine:Mine", parameters = PARAMETERS }', '"round-robin"') + 'channel-scheduler = "vanilla"\n'
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    experiment = onionlab.run(path, tmp_path / "out", report=False)
    relays = experiment.relays.select("treatment", "relay", "treated").unique()
    treated = dict(relays.group_by("treatment").agg((pl.col("treated") == "yes").sum()).iter_rows())
    assert treated == {"EWMA": 4, "own": 2}
    row = experiment.runs.filter(pl.col("treatment") == "own").row(0, named=True)
    effective = json.loads(row["treatment_json"])
    assert (effective["channel-scheduler"], effective["relays"]["others"]["channel-scheduler"]) == ("vanilla", "kist")
    assert tables(experiment, "own") != tables(experiment, "EWMA")


def test_the_lock_file_of_the_example_knows_what_the_crates_need() -> None:
    """It is no member of the workspace, so that nothing else looks at its lock file before a user does."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("no cargo here")
    command = [cargo, "metadata", "--locked", "--offline", "--format-version", "1"]
    found = subprocess.run(command, cwd=EXAMPLE, check=False, capture_output=True, text=True)
    # Without the registry's index nothing can be said of it.
    assert "lock file" not in found.stderr, found.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_documented_example_decides_alike_in_both_languages(tmp_path: Path) -> None:
    """The example is built as a user builds it, and run; its policy in Python gives the records of the one in Rust."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("no cargo here")
    target = ROOT / "target" / "own-scheduler"
    subprocess.run(
        [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", str(target)],
        cwd=EXAMPLE,
        check=True,
    )
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("target", "out"))
    library = folder / "target" / "release" / "libown_scheduler.so"
    library.parent.mkdir(parents=True)
    shutil.copyfile(target / "release" / library.name, library)
    experiment = onionlab.run(folder / "experiment.toml", tmp_path / "out", report=False)
    assert not experiment.failures
    names = ["treatment", "network", "seed"]
    of = {
        treatment: experiment.transfers.filter(pl.col("treatment") == treatment).drop(names)
        for treatment in experiment.treatments
    }
    assert of["shortest queue"].equals(of["shortest queue in Python"])
    assert not of["shortest queue"].equals(of["EWMA"])
    assert not of["shortest queue"].equals(of["shortest queue at a third"])
