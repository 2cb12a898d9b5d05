"""The whole way with the real simulator: from an experiment file on the command line to records and a report."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import onionlab
from onionlab import _core

#: A minute of light load on twelve relays takes a second or two.
SMALL = """\
title = "Two schedulers on a small network"
duration = "20 s"
measure-from = "5 s"
networks = 2

[network]
kind = "synthetic"
relays = 12

[[clients]]
group = "web"
count = 6
start = { from = "0 s", to = "4 s" }
load = { kind = "web", size = "100 KiB", pause = { uniform = ["1 s", "3 s"] } }

[[treatments]]
name = "round robin"
circuitmux = "round-robin"

[[treatments]]
name = "EWMA"
circuitmux = "ewma"
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def consensus() -> str:
    """A synthetic consensus of 60 relays as text."""
    return _core.synth('{"relays": 60, "seed": 3}')


def onionlab_command(*words: object, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "onionlab", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=100, check=False)


def content(root: Path) -> dict[str, str]:
    """Digest of every record file but ``run``, whose wall time and memory differ from one machine to the next."""
    files = sorted(path for path in root.glob("runs/*/*.parquet") if path.stem != "run")
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_command_line_from_file_to_report(small: Path) -> None:
    done = onionlab_command("run", "small.toml", directory=small.parent)
    assert done.returncode == 0, done.stderr
    assert "report: out/small/report.html" in done.stdout
    assert "EWMA" in done.stdout
    assert "4 of 4 runs" in done.stderr
    results = onionlab.load(small.parent / "out" / "small")
    assert results.treatments == ["round robin", "EWMA"]
    assert results.transfers.filter(pl.col("outcome") == "ok").height > 20
    assert results.transfers["received_bytes"].max() == 102_400
    summary = results.summary.filter(pl.col("metric") == "ttlb_median", pl.col("kind") == "web")
    assert summary["networks"].to_list() == [2, 2]
    assert 0.1 < summary["mean"][0] < 10
    page = (results.directory / "report.html").read_text(encoding="utf-8")
    assert "synthetic network" in page
    again = onionlab_command("run", "small.toml", directory=small.parent)
    assert again.returncode == 0
    assert "4 of 4 runs are there already" in again.stderr


def test_records_are_the_same_bytes_on_one_thread_and_on_two(small: Path) -> None:
    one = onionlab.run(small, small.parent / "one", jobs=1, report=False)
    two = onionlab.run(small, small.parent / "two", jobs=2, report=False)
    assert content(one.directory) == content(two.directory)
    assert len(content(one.directory)) == 4 * 5
    small.write_text(SMALL.replace("networks = 2", "networks = 2\nseeds = [2]"), encoding="utf-8")
    other = onionlab.run(small, small.parent / "other", report=False)
    assert not set(content(one.directory).values()) & {
        digest for name, digest in content(other.directory).items() if name.endswith("transfers.parquet")
    }


def test_an_added_network_leaves_the_others_alone(small: Path) -> None:
    before = content(onionlab.run(small, small.parent / "out", report=False).directory)
    written = {path: path.stat().st_mtime_ns for path in (small.parent / "out" / "runs").glob("*/*.parquet")}
    small.write_text(SMALL.replace("networks = 2", "networks = 3"), encoding="utf-8")
    after = onionlab.run(small, small.parent / "out", report=False)
    assert len(after.finished) == 6
    assert {name: content(after.directory)[name] for name in before} == before
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_interrupt_keeps_finished_runs_and_leaves_no_halves(small: Path) -> None:
    small.write_text(SMALL.replace('"20 s"', '"10 min"').replace("networks = 2", "networks = 50"), encoding="utf-8")
    runs = small.parent / "out" / "small" / "runs"
    process = subprocess.Popen(
        [sys.executable, "-m", "onionlab", "run", "small.toml", "--jobs", "2"],
        cwd=small.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not list(runs.glob("[!.]*")):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    left = list(runs.iterdir())
    assert left
    assert all(len(list(run.glob("*.parquet"))) == 6 for run in left)
    assert not [run for run in left if run.name.startswith(".")]


def without_bandwidth_weights(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("bandwidth-weights"))


REFUSED: dict[str, Callable[[str], str]] = {
    "nonsense": lambda _: "lorem ipsum = dolor [[\n" * 30_000,
    "zero relays": lambda text: text.replace("relays = 12", "relays = 0"),
    "negative rate": lambda text: text.replace("count = 6", 'count = 6\nup = "-1 Mbit/s"'),
    "unknown key": lambda text: text.replace("networks", "netwroks"),
    "wrong unit": lambda text: text.replace('"20 s"', '"20 kg"'),
    "missing unit": lambda text: text.replace('"20 s"', "20"),
    "no clients": lambda text: text.split("[[clients]]")[0],
    "absent file": lambda text: text.replace('kind = "synthetic"', 'kind = "consensus"\npath = "absent.xz"'),
    "unknown scheduler": lambda text: text.replace('"ewma"', '"emwa"'),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED.keys())
def test_refused_experiments_leave_nothing(small: Path, change: Callable[[str], str]) -> None:
    small.write_text(change(SMALL), encoding="utf-8")
    done = onionlab_command("run", "small.toml", directory=small.parent)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "small.toml" in done.stderr
    assert len(done.stderr) < 1000
    assert done.stdout == ""
    assert list(small.parent.iterdir()) == [small]


DOCUMENTS: dict[str, Callable[[str], str | bytes]] = {
    "truncated": lambda text: text[: len(text) // 2],
    "truncated xz": lambda text: lzma.compress(text.encode())[:-400],
    "no bandwidth weights": without_bandwidth_weights,
    "empty": lambda _: "",
    "not a consensus": lambda _: "<html>404</html>\n",
    "binary": lambda _: bytes(range(256)) * 100,
}


@pytest.mark.parametrize("change", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_refused_documents_leave_nothing(small: Path, consensus: str, change: Callable[[str], str | bytes]) -> None:
    document = small.parent / "consensus"
    changed = change(consensus)
    document.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    small.write_text(SMALL.replace('kind = "synthetic"', 'kind = "consensus"\npath = "consensus"'), encoding="utf-8")
    done = onionlab_command("run", "small.toml", "--out", "deep/out", directory=small.parent)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "consensus" in done.stderr
    assert done.stdout == ""
    assert sorted(small.parent.iterdir()) == [document, small]


def test_synthetic_consensus_is_written_and_runs(small: Path) -> None:
    done = onionlab_command("synth", "--relays", 60, "--seed", 3, "-o", "consensus", directory=small.parent)
    assert done.returncode == 0, done.stderr
    summary = json.loads(_core.consensus_summary(str(small.parent / "consensus")))
    assert "60" in json.dumps(summary)
    small.write_text(SMALL.replace('kind = "synthetic"', 'kind = "consensus"\npath = "consensus"'), encoding="utf-8")
    results = onionlab.run(small, small.parent / "out")
    page = (results.directory / "report.html").read_text(encoding="utf-8")
    assert "consensus consensus, 12 relays (20 % of the original)" in page
    refused = onionlab_command("synth", "--year", 1903, directory=small.parent)
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1


def test_errors_carry_codes(small: Path) -> None:
    small.write_text("title = 3\n", encoding="utf-8")
    with pytest.raises(onionlab.ScenarioError) as refused:
        onionlab.run(small)
    assert refused.value.code.startswith("scenario-")
    for kind in (onionlab.ScenarioError, onionlab.DocumentError, onionlab.RunError, onionlab.Cancelled, onionlab.ResultsError):
        assert issubclass(kind, onionlab.OnionlabError)
        assert kind.code


def test_schema_describes_the_experiment_file() -> None:
    schema = json.loads(_core.schema())
    assert {"title", "duration", "network", "clients", "treatments"} <= set(schema["properties"])


def test_stub_agrees_with_the_compiled_module(tmp_path: Path) -> None:
    # What the rest of the package imports has no part in this, and would take most of the time.
    alone = tmp_path / "alone.ini"
    alone.write_text("[mypy]\nfollow_imports = skip\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", str(alone), "onionlab._core"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.browser
def test_real_report_in_a_browser(small: Path, tmp_path: Path) -> None:
    from test_browser import find, probe

    browser = find()
    results = onionlab.run(small, small.parent / "out")
    seen = probe(browser, results.directory / "report.html", tmp_path / "profile", "--window-size=1200,2000")
    charts = seen["charts"]
    assert isinstance(charts, list)
    assert {chart["name"] for chart in charts} >= {"chart-time-to-last-byte-web", "chart-network-throughput", "chart-utilisation"}
    assert all(chart["size"][0] > 400 and chart["size"][1] > 200 and chart["lines"] >= 2 for chart in charts)


def test_onion_services_are_no_clients(tmp_path: Path) -> None:
    path = tmp_path / "onion.toml"
    path.write_text(
        'title = "Two clients of three services"\nduration = "5 s"\n[network]\nkind = "synthetic"\nrelays = 40\n[[clients]]\n'
        'group = "web"\ncount = 2\nload = { kind = "bulk", size = "10 kB" }\nonion = { services = 3 }\n',
        encoding="utf-8",
    )
    assert onionlab.run(path, tmp_path / "out", report=False).runs["clients"].to_list() == [2]
