"""The client's side of a cluster: connect, compare versions, send orders, write what comes back."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from distributed import CancelledError, Client, Future, KilledWorker

from onionlab import _core
from onionlab.errors import ClusterError, DocumentError, OnionlabError, RunError
from onionlab.files import write_directory
from onionlab.plan import OPTIONAL_TABLES, TABLES
from onionlab.results.experiment import Failure
from onionlab.running.cluster.worker import Delivery, Order, Parcel, make, other_code
from onionlab.running.documents import named_files
from onionlab.running.work import Ended, Task, Work
from onionlab.untrusted import clipped

if TYPE_CHECKING:
    from onionlab._core import Progress

#: Seconds to wait for the scheduler's first answer.
PATIENCE = 10.0

#: Seconds without a worker until that is told.
SILENCE = 2.0


class Session:
    """A connection to a cluster, on which runs of any number of experiments are made. Use it as a context manager."""

    def __init__(self, tasks: Sequence[Task], address: str) -> None:
        self._tasks = tasks
        self._address = address
        self._name = f"onionlab-{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._over: set[int] = set()
        #: For each experiment that was begun and is not over, by its results directory: the name of its parcel.
        self._parcels: dict[Path, str] = {}
        self._left = Counter(task.work.root for task in tasks)
        try:
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ClusterError(f"no Dask scheduler answers at {address}: {reason}") from error

    def __enter__(self) -> Self:
        try:
            self._await_worker()
            self._compare_code()
            self._client.subscribe_topic(self._name, self._moved)
        except OSError as error:
            self._client.close()
            raise ClusterError(f"the scheduler at {self._address} is gone: {error}") from error
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._client.status == "running":
                self._client.unsubscribe_topic(self._name)
                for parcel in self._parcels.values():
                    self._client.unregister_worker_plugin(parcel)
        except OSError:
            pass  # the scheduler went away, and all that it knew with it
        finally:
            self._client.close()

    def make(self, jobs: int | None) -> Generator[Ended, None, None]:
        """Make all runs; give each when it is over."""
        done: queue.SimpleQueue[Future[Delivery]] = queue.SimpleQueue()
        numbers = iter(range(len(self._tasks)))
        under_way: dict[Future[Delivery], int] = {}
        try:
            self._order(numbers, jobs or len(self._tasks), under_way, done)
            while under_way:
                future = self._next(done)
                number = under_way.pop(future)
                failure = self._take(number, future)
                future.release()
                self._order(numbers, 1, under_way, done)
                self._put_away(self._tasks[number].work)
                yield Ended(self._tasks[number], failure)
        except BaseException:
            if self._client.status == "running":
                # A scheduler that is gone has nothing left to cancel, and why all ends here is on its way already.
                with suppress(OSError):
                    self._client.cancel(list(under_way), force=True)
            raise

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Say in one sentence that the scheduler has gone away while something was asked of it."""
        try:
            yield
        except OSError as error:
            raise ClusterError(f"the scheduler at {self._address} is gone: {error}; {self._resume()}") from error

    def _await_worker(self) -> None:
        """Wait for the first worker: on a batch system the scheduler is there long before."""
        began = time.monotonic()
        told = False
        while not self._client.scheduler_info()["workers"]:
            if not told and time.monotonic() - began > SILENCE:
                told = True
                self._tasks[0].work.observer.waiting(f"the cluster at {self._address} has no workers yet; waiting for the first")
            self._check_alive()
            time.sleep(0.2)

    def _compare_code(self) -> None:
        """Refuse workers with another onionlab; those that join later are asked by the parcel."""
        ours = (_core.version(), _core.build())
        versions = self._client.run(_core.version, on_error="return")
        builds = self._client.run(_core.build, on_error="return")
        for address in sorted(versions.keys() & builds.keys()):
            theirs = (versions[address], builds[address])
            if any(isinstance(answer, BaseException) for answer in theirs):
                raise ClusterError(f"worker {address} cannot import onionlab: install {ours[0]} (build {ours[1]}) there")
            if theirs != ours:
                raise ClusterError(other_code(address, cast("tuple[str, str]", theirs), ours))

    def _parcel(self, work: Work) -> str:
        """The name of the parcel with what an experiment rests on; sent with its first order."""
        if work.root not in self._parcels:
            folder = work.experiment.parent
            swept = bool(work.plan.points)
            scenarios = work.plan.scenarios if swept else (work.plan.scenario,)
            relative = [path for path in named_files(scenarios) if not Path(path).is_absolute()]
            try:
                files = {path: (folder / path).read_bytes() for path in relative}
            except OSError as error:
                raise DocumentError(f"cannot read {error.filename}: {error.strerror}") from error
            code = (work.plan.version, work.plan.build)
            name = f"{self._name}-{uuid.uuid4().hex}"
            parcel = Parcel(name, work.experiment, work.text, scenarios, swept, files, code)
            with self._reaching():
                self._client.register_plugin(parcel, name=name)
            self._parcels[work.root] = name
        return self._parcels[work.root]

    def _put_away(self, work: Work) -> None:
        """Count a task that is over; with the last of its experiment its parcel goes."""
        self._left[work.root] -= 1
        if not self._left[work.root]:
            with self._reaching():
                self._client.unregister_worker_plugin(self._parcels.pop(work.root))

    def _order(
        self,
        numbers: Iterator[int],
        count: int,
        under_way: dict[Future[Delivery], int],
        done: queue.SimpleQueue[Future[Delivery]],
    ) -> None:
        """Send the next orders."""
        for number in islice(numbers, count):
            run = self._tasks[number].run
            which = (run.treatment_index, run.network, run.seed, run.point)
            order = Order(self._parcel(self._tasks[number].work), self._name, number, *which, run.directory)
            with self._reaching():
                future = self._client.submit(make, order, key=f"{self._name}-{number}", pure=False)
            under_way[future] = number
            future.add_done_callback(done.put)

    def _next(self, done: queue.SimpleQueue[Future[Delivery]]) -> Future[Delivery]:
        """The next order that is done, well or not."""
        while True:
            try:
                return done.get(timeout=1.0)
            except queue.Empty:
                self._check_alive()

    def _check_alive(self) -> None:
        if self._client.status != "running":
            raise ClusterError(f"the scheduler at {self._address} is gone; {self._resume()}")

    def _resume(self) -> str:
        kept = os.path.commonpath([task.work.root for task in self._tasks])
        return f"finished runs are kept in {kept}, the same command goes on from there"

    def _take(self, number: int, future: Future[Delivery]) -> Failure | None:
        """Write what an order brought; its failure, if it failed."""
        work, run = self._tasks[number].work, self._tasks[number].run
        with self._lock:
            self._over.add(number)
        try:
            # Where the answer is lost with its worker, this waits until the run is made again.
            delivery = future.result()
        except KilledWorker as error:
            times = error.allowed_failures + 1
            last = error.last_worker.address
            reason = f"its worker was lost, {times} times in a row, the last time {last}: was it short of memory or time?"
            return work.failure(run, RunError(reason))
        except OnionlabError as error:
            return work.failure(run, error)
        except CancelledError as error:
            self._check_alive()
            raise ClusterError(f"the cluster at {self._address} gave {run.label} up; {self._resume()}") from error
        except Exception as error:  # whatever else goes wrong at a worker, such as a broken installation
            raise ClusterError(f"{run.label}: {type(error).__name__}: {error}; {self._resume()}") from error
        try:
            row = checked(delivery)
        except ValueError as error:
            raise ClusterError(f"{run.label}: what a worker answered is no run: {error}; {self._resume()}") from error
        work.check(run, row)
        write_directory(work.root / run.directory, delivery.files.items())
        work.observer.finished(run, row)
        return None

    def _moved(self, event: tuple[float, dict[str, Any]]) -> None:
        """Pass a message about progress on; in Dask's thread. Messages may come after the run's end."""
        _, message = event
        number = message.pop("number", None)
        amounts = [message.get(name) for name in ("sim_seconds", "duration_seconds", "events")]
        if type(number) is not int or not 0 <= number < len(self._tasks) or not all(isinstance(x, int | float) for x in amounts):
            return
        with self._lock:
            if number not in self._over:
                task = self._tasks[number]
                task.work.observer.advanced(task.run, cast("Progress", message))


def checked(delivery: object) -> dict[str, Any]:
    """The row of a run's ``run`` table in what a worker answered; refuses with a `ValueError` what is no run's.

    The names of its files come from the worker and become those of ours.
    """
    if not isinstance(delivery, Delivery) or not isinstance(delivery.files, dict):
        raise ValueError("it is of another kind")
    known = {f"{table}.parquet" for table in (*TABLES, *OPTIONAL_TABLES)}
    if strange := [name for name in delivery.files if name not in known]:
        raise ValueError(f"{clipped(strange[0])!r} is no record table")
    if lacking := [table for table in TABLES if not isinstance(delivery.files.get(f"{table}.parquet"), bytes)]:
        raise ValueError(f"the table {lacking[0]!r} is missing")
    try:
        row = json.loads(delivery.row)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"its row is no JSON ({clipped(error)})") from error
    if not isinstance(row, dict) or not all(
        isinstance(row.get(key), int | float) for key in ("sim_seconds", "events", "wall_seconds")
    ):
        raise ValueError("its row is none of the table 'run'")
    return row
