"""The same experiment on a Dask cluster: same bytes, lost workers, interruption, refusals. Everything is on this machine."""

from __future__ import annotations

import _thread
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import polars as pl
import pytest
from distributed import Client, Future, LocalCluster, Worker
from distributed.comm import CommClosedError

import onionlab
from onionlab import _core
from onionlab.errors import ClusterError
from onionlab.plan import TABLES, Plan, PlannedRun
from onionlab.running.cluster import client as client_side
from onionlab.running.cluster.worker import Delivery
from onionlab.running.documents import named_files
from onionlab.running.observer import Silent
from onionlab.running.place import Place, made_at
from onionlab.running.work import Work
from onionlab.terminal.progress import ProgressDisplay
from test_core import SMALL, content

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"), pytest.mark.timeout(300)]

#: Provenance: columns of the table `run` that differ between equal runs.
PROVENANCE = ("version", "build", "wall_seconds", "cpu_seconds", "peak_memory_bytes")

#: So long that a run takes a second or more.
LONGER = SMALL.replace('"20 s"', '"3 min"')

#: Longer than any test.
ENDLESS = SMALL.replace('"20 s"', '"6 d"').replace('"5 s"', '"6 s"')


def local_cluster(workers: int, **options: Any) -> LocalCluster:
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50, **options
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two worker processes."""
    with local_cluster(2) as cluster:
        yield cluster.scheduler_address


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run(experiment: Path, out: str, **options: Any) -> onionlab.Experiment:
    return onionlab.run(experiment, experiment.parent / out, report=False, **options)


def same(one: onionlab.Experiment, other: onionlab.Experiment) -> None:
    """All tables are the same bytes, but for the provenance in `run`."""
    assert len(content(one.directory)) == len(one.plan.runs) * (len(TABLES) - 1)
    assert content(one.directory) == content(other.directory)
    assert one.runs.drop(PROVENANCE).equals(other.runs.drop(PROVENANCE))


def test_a_sweep_is_the_same_bytes_as_locally(address: str, tmp_path: Path) -> None:
    sweep = '\n[sweep]\n"clients.web.count" = [2, 3]\n'
    experiment = write(tmp_path / "sweep.toml", SMALL.replace("networks = 2", "networks = 1") + sweep)
    there = run(experiment, "there", cluster=address)
    assert len(there.finished) == 4
    same(run(experiment, "here"), there)


def test_results_are_the_same_bytes_as_locally(address: str, tmp_path: Path) -> None:
    small = write(tmp_path / "small.toml", SMALL)
    with Client(address) as client:
        cores = set(client.run(os.getpid).values())
    here = run(small, "here")
    there = run(small, "there", cluster=address)
    same(here, there)
    assert os.getpid() not in cores
    again = run(small, "there", cluster="tcp://127.0.0.1:1")
    assert len(again.finished) == 4, "where nothing is missing no cluster is asked"


def test_many_experiments_are_the_same_bytes_as_locally(address: str, tmp_path: Path) -> None:
    texts = {"one": SMALL, "two": SMALL.replace('"20 s"', '"25 s"')}
    files = {name: write(tmp_path / f"{name}.toml", text) for name, text in texts.items()}
    with made_at(Place(cluster=address)):
        there = list(onionlab.running.runner.run_all([(name, file, tmp_path / f"{name}-there") for name, file in files.items()]))
    for file, results in zip(files.values(), there, strict=True):
        same(run(file, f"{file.stem}-here"), results)
    with Client(address) as client:
        left = [name for names in client.run(plugins).values() for name in names if name.startswith("onionlab-")]
    assert left == [], "what was sent is put away"


def plugins(dask_worker: Worker) -> list[str]:
    return list(dask_worker.plugins)


def test_command_line(address: str, tmp_path: Path) -> None:
    write(tmp_path / "small.toml", SMALL)
    command = [sys.executable, "-m", "onionlab", "run", "small.toml", "--cluster", address, "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 runs" in done.stderr
    assert (tmp_path / "out" / "small" / "report.html").is_file()


def test_files_by_relative_path_are_sent_and_by_absolute_path_found(address: str, tmp_path: Path) -> None:
    consensus = _core.synth('{"relays": 60, "seed": 3}')
    write(tmp_path / "documents" / "consensus", consensus)
    write(tmp_path / "deep" / "documents" / "consensus", consensus)
    for number, path in enumerate(
        ("../documents/consensus", "up/../../documents/consensus", tmp_path / "documents" / "consensus")
    ):
        text = SMALL.replace('kind = "synthetic"', f'kind = "consensus"\npath = "{path}"').replace("networks = 2", "networks = 1")
        (tmp_path / "deep" / "up").mkdir(exist_ok=True)
        experiment = write(tmp_path / "deep" / f"{number}.toml", text)
        same(run(experiment, f"here{number}"), run(experiment, f"there{number}", cluster=address))


def test_refusals_of_a_worker_name_files_as_the_client_knows_them(address: str, tmp_path: Path) -> None:
    write(tmp_path / "consensus", "<html>404</html>\n")
    text = SMALL.replace('kind = "synthetic"', 'kind = "consensus"\npath = "consensus"')
    experiment = write(tmp_path / "small.toml", text)
    with pytest.raises(onionlab.DocumentError) as here:
        run(experiment, "out")
    with pytest.raises(onionlab.DocumentError) as there:
        run(experiment, "out", cluster=address)
    assert str(there.value) == str(here.value)
    assert there.value.code == here.value.code
    assert sorted(path.name for path in tmp_path.iterdir()) == ["consensus", "small.toml"]


class Watcher(Silent):
    """Sets an event when a run has moved on; remembers what was finished."""

    def __init__(self) -> None:
        self.moved = threading.Event()
        self.made: list[str] = []
        self.reasons: list[str] = []

    def waiting(self, reason: str) -> None:
        self.reasons.append(reason)

    def advanced(self, run: PlannedRun, progress: Any) -> None:  # noqa: ARG002
        assert 0 < progress["sim_seconds"] <= progress["duration_seconds"]
        self.moved.set()

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:  # noqa: ARG002
        self.made.append(run.directory)


def busy(client: Client) -> dict[str, tuple[str, ...]]:
    """What each worker is busy with."""
    return {worker: keys for worker, keys in client.processing().items() if keys}


@contextmanager
def killed_worker(address: str, watcher: Watcher) -> Iterator[list[int]]:
    """Kills a worker that is at work as soon as a run has moved on; the list holds its process."""
    killed: list[int] = []
    with Client(address, set_as_default=False) as client:
        processes = client.run(os.getpid)

        def kill() -> None:
            assert watcher.moved.wait(100)
            while not (at_work := busy(client)):
                time.sleep(0.01)
            process = processes[min(at_work)]
            os.kill(process, signal.SIGKILL)
            killed.append(process)

        thread = threading.Thread(target=kill)
        thread.start()
        yield killed
        thread.join()


def test_the_work_of_a_lost_worker_is_done_again(address: str, tmp_path: Path) -> None:
    experiment = write(tmp_path / "longer.toml", LONGER)
    watcher = Watcher()
    with killed_worker(address, watcher) as killed:
        there = run(experiment, "there", cluster=address, observer=watcher)
    assert killed
    assert sorted(watcher.made) == sorted(planned.directory for planned in there.plan.runs)
    assert there.failures == ()
    same(run(experiment, "here"), there)


def test_a_run_that_loses_every_worker_is_a_failure_and_the_others_go_on(tmp_path: Path) -> None:
    experiment = write(tmp_path / "longer.toml", LONGER)
    watcher = Watcher()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(1) as cluster,
        killed_worker(cluster.scheduler_address, watcher) as killed,
    ):
        results = run(experiment, "out", cluster=cluster.scheduler_address, observer=watcher, jobs=1)
    assert killed
    assert results.failures
    assert {failure.reason.partition(",")[0] for failure in results.failures} == {"its worker was lost"}
    # A machine that is too busy may lose another one.
    assert results.finished
    assert len(results.finished) + len(results.failures) == 4


def test_an_interrupted_client_leaves_the_workers_idle_and_empty(address: str, tmp_path: Path) -> None:
    experiment = write(tmp_path / "endless.toml", ENDLESS)
    watcher = Watcher()
    threading.Thread(target=lambda: watcher.moved.wait(60) and _thread.interrupt_main()).start()
    with pytest.raises(KeyboardInterrupt):
        run(experiment, "out", cluster=address, observer=watcher)
    assert watcher.made == []
    with Client(address) as client:
        wait_until_idle(client)
        assert not any(client.run(left_over).values())
    write(experiment, SMALL)
    assert len(run(experiment, "out", cluster=address).finished) == 4


def test_a_killed_client_leaves_the_workers_idle(address: str, tmp_path: Path) -> None:
    write(tmp_path / "endless.toml", ENDLESS)
    command = [sys.executable, "-m", "onionlab", "run", "endless.toml", "--cluster", address]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with Client(address) as client:
        deadline = time.monotonic() + 60
        while not busy(client) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert busy(client)
        process.kill()
        process.wait()
        wait_until_idle(client)


def left_over(dask_worker: Any) -> list[str]:
    """What of ours is with a worker."""
    folders = [path.name for path in Path(dask_worker.local_directory).glob("onionlab-*")]
    return [name for name in (*dask_worker.plugins, *folders) if name.startswith("onionlab-")]


def wait_until_idle(client: Client) -> None:
    """Until no thread of any worker is at work, which the test's time limit bounds."""
    while any(client.run(lambda dask_worker: len(dask_worker.active_threads)).values()):
        time.sleep(0.1)


def test_a_scheduler_that_goes_away(tmp_path: Path) -> None:
    experiment = write(tmp_path / "endless.toml", ENDLESS)
    watcher = Watcher()
    cluster = local_cluster(1)
    threading.Thread(target=lambda: watcher.moved.wait(60) and cluster.close()).start()
    with pytest.raises(ClusterError, match=r"the scheduler at .* is gone"):
        run(experiment, "out", cluster=cluster.scheduler_address, observer=watcher)


def test_a_document_that_a_worker_has_otherwise_is_found_at_every_point_of_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [write(tmp_path / f"consensus-{number}", _core.synth(f'{{"relays": 60, "seed": {number}}}')) for number in (1, 2)]
    sweep = f'\n[sweep]\n"network.path" = {[str(path) for path in documents]}\n'.replace("'", '"')
    text = SMALL.replace('kind = "synthetic"', f'kind = "consensus"\npath = "{documents[0]}"') + sweep
    experiment = write(tmp_path / "sweep.toml", text)
    work = Work(experiment, text, Plan.of(experiment, text), tmp_path / "out", Silent())
    registered = []
    client = SimpleNamespace(register_plugin=lambda parcel, **_: registered.append(parcel))
    monkeypatch.setattr(client_side, "Client", lambda *_, **__: client)
    session = client_side.Session(work.waiting(), "tcp://here:1")
    session._parcel(work)
    (parcel,) = registered
    worker = SimpleNamespace(address="tcp://there:1", local_directory=str(tmp_path))
    parcel.setup(worker)
    assert parcel.opened()[1] == text
    parcel.teardown(worker)
    # A worker with another content of the second document alone.
    write(documents[1], _core.synth('{"relays": 60, "seed": 3}'))
    parcel.setup(worker)
    with pytest.raises(onionlab.DocumentError, match=r"has another content in a file that sweep\.toml names by an absolute path"):
        parcel.opened()
    parcel.teardown(worker)


FILES = {f"{table}.parquet": b"PAR1" for table in TABLES}
ROW = '{"sim_seconds": 1.0, "events": 5, "wall_seconds": 0.1}'


@pytest.mark.parametrize(
    ("delivery", "said"),
    [
        (Delivery(ROW, FILES | {"../../../outside": b"x"}), "'../../../outside' is no record table"),
        (Delivery(ROW, FILES | {"/tmp/outside": b"x"}), "is no record table"),
        (Delivery(ROW, {}), "the table 'transfers' is missing"),
        (Delivery(ROW, FILES | {"run.parquet": None}), "the table 'run' is missing"),  # type: ignore[dict-item]
        (Delivery("{", FILES), "its row is no JSON"),
        (Delivery("[]", FILES), "its row is none of the table 'run'"),
        (Delivery('{"sim_seconds": "x"}', FILES), "its row is none of the table 'run'"),
        ("delivered", "it is of another kind"),
    ],
)
def test_what_a_worker_answers_is_looked_at_before_it_is_written(delivery: object, said: str) -> None:
    assert client_side.checked(Delivery(ROW, FILES | {"vegas.parquet": b"PAR1"}))["events"] == 5
    with pytest.raises(ValueError, match=re.escape(said)):
        client_side.checked(delivery)


@pytest.mark.parametrize("message", [{}, {"number": "x"}, {"number": 99}, {"number": -1}, {"number": 0, "sim_seconds": "x"}])
def test_messages_of_no_run_are_passed_over(message: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = write(tmp_path / "one.toml", SMALL)
    work = Work(experiment, SMALL, Plan.of(experiment, SMALL), tmp_path / "out", Silent())
    monkeypatch.setattr(client_side, "Client", lambda *_, **__: SimpleNamespace())
    monkeypatch.setattr(work.observer, "advanced", lambda *_: pytest.fail("told"), raising=False)
    client_side.Session(work.waiting(), "tcp://here:1")._moved((0.0, message))


class Deaf:
    """A client whose scheduler goes away as it is asked for one thing; then it cannot be asked to cancel either."""

    status = "running"

    def __init__(self, asked: str) -> None:
        self.asked = asked

    def __getattr__(self, name: str) -> Any:
        def ask(*_: Any, **__: Any) -> Any:
            if name in (self.asked, "cancel"):
                raise CommClosedError("in <TCP (closed)>: Stream is closed")
            return Future(f"{name}-1", client=None)  # type: ignore[arg-type]

        return ask


@pytest.mark.parametrize("asked", ["register_plugin", "submit", "unregister_worker_plugin"])
def test_a_scheduler_that_goes_away_as_it_is_asked_for_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    experiment = write(tmp_path / "small.toml", SMALL)
    work = Work(experiment, SMALL, Plan.of(experiment, SMALL), tmp_path / "out", Silent())
    monkeypatch.setattr(client_side, "Client", lambda *_, **__: Deaf(asked))
    monkeypatch.setattr(Future, "add_done_callback", lambda future, told: told(future))
    monkeypatch.setattr(Future, "release", lambda _: None)
    monkeypatch.setattr(client_side.Session, "_take", lambda *_: None)
    with pytest.raises(ClusterError, match=r"the scheduler at tcp://here:1 is gone: in <TCP.*; finished runs are kept in .*out"):
        list(client_side.Session(work.waiting()[:1], "tcp://here:1").make(None))


@pytest.mark.parametrize("wrong", ["10.0.0.1:8786", "tcp://somewhere", "http://localhost:8786", "tcp://:8786", "tcp://a:b", ""])
def test_what_is_no_address_is_refused(tmp_path: Path, wrong: str) -> None:
    experiment = write(tmp_path / "small.toml", SMALL)
    with pytest.raises(ClusterError, match="is no address of a cluster; it looks like tcp://HOST:PORT"):
        run(experiment, "out", cluster=wrong)
    assert list(tmp_path.iterdir()) == [experiment]


def test_nobody_at_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_side, "PATIENCE", 0.5)
    experiment = write(tmp_path / "small.toml", SMALL)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ClusterError, match=f"no Dask scheduler answers at tcp://127.0.0.1:{port}"):
        run(experiment, "out", cluster=f"tcp://127.0.0.1:{port}")
    assert list(tmp_path.iterdir()) == [experiment]


def test_without_dask_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ClusterError, match=r"needs Dask, which is not installed: pip install 'onionlab\[cluster\]'"):
        run(write(tmp_path / "small.toml", SMALL), "out", cluster="tcp://127.0.0.1:8786")


@contextmanager
def foreign_worker(address: str, folder: Path, package: dict[str, str]) -> Iterator[None]:
    """A worker that finds another package of our name; it may take a while to come."""
    for name, text in package.items():
        write(folder / "onionlab" / name, text)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


FOREIGN = {
    "another": (
        {"__init__.py": "", "_core.py": "def version(): return '0.0.9'\ndef build(): return 'feedfeedfeedfeed'\n"},
        r"has onionlab 0\.0\.9 \(build feedfeedfeedfeed\) and this is onionlab .*; install the same on both",
    ),
    "none": ({"__init__.py": "raise ImportError('no onionlab here')\n"}, "cannot import onionlab: install "),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_worker_with_another_onionlab_is_refused(tmp_path: Path, kind: str) -> None:
    package, sentence = FOREIGN[kind]
    experiment = write(tmp_path / "small.toml", SMALL)
    watcher = Watcher()
    with (
        local_cluster(0) as cluster,
        foreign_worker(cluster.scheduler_address, tmp_path / "foreign", package),
        pytest.raises(ClusterError, match=sentence) as refused,
    ):
        run(experiment, "out", cluster=cluster.scheduler_address, observer=watcher)
    assert "\n" not in str(refused.value)
    assert watcher.reasons in ([], [f"the cluster at {cluster.scheduler_address} has no workers yet; waiting for the first"])
    assert not (tmp_path / "out").exists()


def test_a_worker_that_joins_later_with_another_onionlab_is_refused(address: str, tmp_path: Path) -> None:
    from onionlab.running.cluster.worker import Parcel

    with Client(address) as client:
        parcel = Parcel("onionlab-test", tmp_path / "x.toml", SMALL, [{}], False, {}, ("0.0.9", "feedfeedfeedfeed"))
        client.register_plugin(parcel, name="onionlab-test")
        try:
            problems = client.run(lambda dask_worker: str(dask_worker.plugins["onionlab-test"]._problem))
        finally:
            client.unregister_worker_plugin("onionlab-test")
    assert all("and this is onionlab 0.0.9" in problem for problem in problems.values())
    assert problems


def test_dask_jobqueue_in_its_local_mode(tmp_path: Path) -> None:
    from dask_jobqueue.local import LocalCluster as JobCluster

    experiment = write(tmp_path / "small.toml", SMALL)
    with JobCluster(
        cores=1,
        memory="1 GiB",
        processes=1,
        n_workers=1,
        log_directory=tmp_path / "logs",
        local_directory=tmp_path / "scratch",
        scheduler_options={"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"},
        interface=None,
        python=sys.executable,
    ) as cluster:
        there = run(experiment, "there", cluster=cluster.scheduler_address)
    same(run(experiment, "here"), there)


def test_files_of_every_kind_are_known(tmp_path: Path) -> None:
    """Each key of the experiment file that names a file is one that a cluster gets."""
    assert named_files([{"network": {"document": {"path": "a", "digest": "1"}, "geoip": None, "path": "not a file"}}]) == ["a"]
    markov = {"load": {"kind": "markov", "streams": "s", "packets": "p", "digests": ["1", "2"]}}
    assert named_files([{"clients": [markov]}, {"clients": [markov]}]) == ["s", "p"]


def test_waiting_is_said_once_on_the_terminal() -> None:
    import io

    from rich.console import Console

    stream = io.StringIO()
    with ProgressDisplay(Console(file=stream, width=200), here=False) as display:
        display.waiting("the cluster has no workers yet")
    assert stream.getvalue() == "the cluster has no workers yet\n"


def test_runs_columns_of_provenance_are_those_that_the_table_names(tmp_path: Path) -> None:
    results = run(write(tmp_path / "small.toml", SMALL.replace("networks = 2", "networks = 1")), "out")
    import json

    file = results.directory / results.finished[0].directory / "run.parquet"
    columns = json.loads(pl.read_parquet_metadata(file)["onionlab.columns"])
    assert sorted(PROVENANCE) == sorted(name for name, about in columns.items() if about["provenance"])
