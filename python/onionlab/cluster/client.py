"""The client's side of a cluster: connect, compare versions, send orders, write what comes back."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from distributed import CancelledError, Client, Future, KilledWorker

from onionlab import _core
from onionlab.cluster.worker import Delivery, Order, Parcel, make, other_code
from onionlab.documents import named_files
from onionlab.errors import ClusterError, DocumentError, OnionlabError, RunError
from onionlab.files import write_directory
from onionlab.plan import PlannedRun
from onionlab.results import Failure
from onionlab.work import Work

if TYPE_CHECKING:
    from onionlab._core import Progress

#: Seconds to wait for the scheduler's first answer.
PATIENCE = 10.0

#: Seconds without a worker until that is told.
SILENCE = 2.0


class Session:
    """A connection to a cluster, on which one experiment is worked off. Use it as a context manager."""

    def __init__(self, work: Work, address: str) -> None:
        self._work = work
        self._address = address
        self._name = f"onionlab-{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._orders: list[PlannedRun] = []
        self._over: set[int] = set()
        try:
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ClusterError(f"no Dask scheduler answers at {address}: {reason}") from error

    def __enter__(self) -> Self:
        try:
            self._await_worker()
            self._compare_code()
            self._client.register_plugin(self._parcel(), name=self._name)
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
                self._client.unregister_worker_plugin(self._name)
        except OSError:
            pass  # the scheduler went away, and all that it knew with it
        finally:
            self._client.close()

    def work_off(self, waiting: Sequence[PlannedRun], jobs: int | None) -> list[Failure]:
        """Make all runs; return those that failed."""
        self._orders = list(waiting)
        failures: list[Failure] = []
        done: queue.SimpleQueue[Future[Delivery]] = queue.SimpleQueue()
        numbers = iter(range(len(self._orders)))
        under_way: dict[Future[Delivery], int] = {}
        try:
            self._order(numbers, jobs or len(self._orders), under_way, done)
            while under_way:
                future = self._next(done)
                number = under_way.pop(future)
                failures += self._take(number, future)
                future.release()
                self._order(numbers, 1, under_way, done)
        except BaseException:
            if self._client.status == "running":
                self._client.cancel(list(under_way), force=True)
            raise
        return failures

    def _await_worker(self) -> None:
        """Wait for the first worker: on a batch system the scheduler is there long before."""
        began = time.monotonic()
        told = False
        while not self._client.scheduler_info()["workers"]:
            if not told and time.monotonic() - began > SILENCE:
                told = True
                self._work.observer.waiting(f"the cluster at {self._address} has no workers yet; waiting for the first")
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

    def _parcel(self) -> Parcel:
        work = self._work
        folder = work.experiment.parent
        scenarios = (work.plan.scenario, *work.plan.scenarios)
        relative = [path for path in named_files(scenarios) if not Path(path).is_absolute()]
        try:
            files = {path: (folder / path).read_bytes() for path in relative}
        except OSError as error:
            raise DocumentError(f"cannot read {error.filename}: {error.strerror}") from error
        code = (work.plan.version, work.plan.build)
        return Parcel(self._name, work.experiment, work.text, work.plan.scenario, files, code)

    def _order(
        self,
        numbers: Iterator[int],
        count: int,
        under_way: dict[Future[Delivery], int],
        done: queue.SimpleQueue[Future[Delivery]],
    ) -> None:
        """Send the next orders."""
        for number in islice(numbers, count):
            run = self._orders[number]
            which = (run.treatment_index, run.network, run.seed, run.point)
            order = Order(self._name, self._name, number, *which, run.directory)
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
        return f"finished runs are kept in {self._work.root}, the same command goes on from there"

    def _take(self, number: int, future: Future[Delivery]) -> list[Failure]:
        """Write what an order brought; its failure, if it failed."""
        run, work = self._orders[number], self._work
        with self._lock:
            self._over.add(number)
        try:
            # Where the answer is lost with its worker, this waits until the run is made again.
            delivery = future.result()
        except KilledWorker as error:
            times = error.allowed_failures + 1
            last = error.last_worker.address
            reason = f"its worker was lost, {times} times in a row, the last time {last}: was it short of memory or time?"
            return [work.failure(run, RunError(reason))]
        except OnionlabError as error:
            return [work.failure(run, error)]
        except CancelledError as error:
            self._check_alive()
            raise ClusterError(f"the cluster at {self._address} gave {run.label} up; {self._resume()}") from error
        except Exception as error:  # whatever else goes wrong at a worker, such as a broken installation
            raise ClusterError(f"{run.label}: {type(error).__name__}: {error}; {self._resume()}") from error
        row: dict[str, Any] = json.loads(delivery.row)
        work.check(run, row)
        write_directory(work.root / run.directory, delivery.files)
        work.observer.finished(run, row)
        return []

    def _moved(self, event: tuple[float, dict[str, Any]]) -> None:
        """Pass a message about progress on; in Dask's thread. Messages may come after the run's end."""
        _, message = event
        number = int(message.pop("number"))
        with self._lock:
            if number not in self._over:
                self._work.observer.advanced(self._orders[number], cast("Progress", message))
