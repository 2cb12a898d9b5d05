"""What a worker of a cluster does: unpack what an experiment rests on, make runs of it, and answer with their tables."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import Worker, WorkerPlugin, get_worker

from onionlab import _core
from onionlab.errors import ClusterError, DocumentError, OnionlabError
from onionlab.running.work import UNWRITABLE

if TYPE_CHECKING:
    from onionlab._core import Progress

#: Seconds between two messages about a run's progress.
PACE = 1.0


@dataclass(frozen=True)
class Order:
    """A run to make."""

    #: Name of the `Parcel` with its experiment.
    parcel: str
    #: Topic of the messages about its progress.
    topic: str
    #: Its number among the orders.
    number: int
    treatment_index: int
    network: int
    seed: int
    #: The point of the sweep; 0 without one.
    point: int
    #: Its directory, relative to the results directory.
    directory: str


@dataclass(frozen=True)
class Delivery:
    """A finished run: the row of its ``run`` table as JSON, and its files."""

    row: str
    files: dict[str, bytes]


class Parcel(WorkerPlugin):
    """All that an experiment rests on: unpacked by every worker, also by those that join later.

    Parameters
    ----------
    name : str
        Under which orders refer to it.
    experiment : Path
        The experiment file at the client, for its messages.
    text : str
        Content of that file.
    scenarios : sequence of dict
        What the client resolved it to: that of each point of a sweep, or the only one.
    swept : bool
        Whether it is a sweep.
    files : mapping
        Content of the files that it names by relative paths.
    code : tuple of str
        Version and build of the client's onionlab.
    """

    def __init__(
        self,
        name: str,
        experiment: Path,
        text: str,
        scenarios: Sequence[dict[str, Any]],
        swept: bool,
        files: Mapping[str, bytes],
        code: tuple[str, str],
    ) -> None:
        self.name = name
        self._there = str(experiment.parent)
        self._file = experiment.name
        self._text = text
        self._scenarios = list(scenarios)
        self._swept = swept
        self._files = dict(files)
        self._code = code
        self._folder: Path | None = None
        self._problem: OnionlabError | None = None

    def setup(self, worker: Worker) -> None:
        """Unpack; what is wrong is kept for whoever has a run made here."""
        try:
            self._check_code(worker.address)
            self._folder = Path(tempfile.mkdtemp(prefix="onionlab-", dir=worker.local_directory))
            self._unpack()
            self._check_scenario(worker.address)
        except OnionlabError as problem:
            self._problem = self.told(problem)
        except OSError as error:
            self._problem = ClusterError(f"worker {worker.address} cannot unpack the experiment: {error}")

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 (Dask's signature)
        """Remove what was unpacked."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def opened(self) -> tuple[Path, str]:
        """The experiment file's place here and its content; raises what was wrong on unpacking."""
        if self._problem is not None:
            raise self._problem
        return self._experiment(), self._text

    def scratch(self) -> Path:
        """A new directory for the results of a run."""
        return Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))

    def told(self, error: OnionlabError) -> OnionlabError:
        """The same error, with places as the client knows them."""
        again = type(error)(str(error).replace(str(self._experiment().parent), self._there))
        again.code = error.code
        return again

    def _experiment(self) -> Path:
        """Deep enough for paths that climb out of the experiment's folder."""
        climbs = max((Path(os.path.normpath(path)).parts.count("..") for path in self._files), default=0)
        return (self._folder or Path()).joinpath("experiment", *["inner"] * climbs, self._file)

    def _unpack(self) -> None:
        folder = self._experiment().parent
        folder.mkdir(parents=True)
        for path, content in self._files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        self._files = dict.fromkeys(self._files, b"")

    def _check_code(self, address: str) -> None:
        if (_core.version(), _core.build()) != self._code:
            raise ClusterError(other_code(address, (_core.version(), _core.build()), self._code))

    def _check_scenario(self, address: str) -> None:
        """Files that are named by absolute paths are this machine's own: they must have the same content."""
        named = str(self._experiment()), self._text
        if self._swept:
            here = [point["scenario"] for point in json.loads(_core.points(*named))]
        else:
            here = [json.loads(_core.resolve(*named))]
        if here != self._scenarios:
            raise DocumentError(f"worker {address} has another content in a file that {self._file} names by an absolute path")


def other_code(address: str, theirs: tuple[str, str], ours: tuple[str, str]) -> str:
    """What to say of a worker with another onionlab."""
    return (
        f"worker {address} has onionlab {theirs[0]} (build {theirs[1]}) and this is onionlab {ours[0]} (build {ours[1]}): "
        "results would differ; install the same on both"
    )


def make(order: Order) -> Delivery:
    """Make one run; the task that Dask gives to a worker."""
    worker = get_worker()
    parcel = worker.plugins.get(order.parcel)
    if not isinstance(parcel, Parcel):
        raise ClusterError(f"worker {worker.address} was not given the experiment; the same command tries again")
    experiment, text = parcel.opened()
    key = worker.get_current_task()
    told = float("-inf")

    def moved(progress: Progress) -> bool:
        nonlocal told
        now = time.monotonic()
        if now - told >= PACE:
            told = now
            worker.log_event(order.topic, {"number": order.number, **progress})
        # Dask marks a task that nobody wants any more, and lets it go on.
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    scratch = None
    try:
        scratch = parcel.scratch()
        row = _core.run_one(
            str(experiment),
            order.treatment_index,
            order.network,
            order.seed,
            str(scratch),
            moved,
            text,
            order.point,
        )
        return Delivery(row, {path.name: path.read_bytes() for path in sorted((scratch / order.directory).iterdir())})
    except OnionlabError as error:
        if error.code == UNWRITABLE:
            raise ClusterError(f"worker {worker.address}: {error}") from None
        raise parcel.told(error) from None
    except OSError as error:
        raise ClusterError(f"worker {worker.address}: {error}") from None
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
