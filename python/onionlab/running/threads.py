"""Making runs on the cores of this machine.

The simulator releases the interpreter lock, so plain threads fill the cores.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onionlab import _core
from onionlab.errors import Cancelled
from onionlab.running.work import Ended, Task

if TYPE_CHECKING:
    from onionlab._core import Progress


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def make(tasks: Sequence[Task], jobs: int) -> Generator[Ended, None, None]:
    """Make runs, ``jobs`` at a time, and give each when it is over; the others go on meanwhile.

    A refused input or a results directory that cannot be written stops all and is raised, and so is a keyboard interrupt. Closing
    the iterator stops all, too. Whatever stops them, no run goes on when that is raised.
    """
    stop = threading.Event()
    futures: dict[Future[None], Task] = {}
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="onionlab") as pool:
        try:
            # The pool would not wait for a thread in whose start it was interrupted.
            with _interrupts_later():
                for task in tasks:
                    futures[pool.submit(_make, task, stop)] = task
            pending = set(futures)
            while pending:
                # With a time limit, so that a signal is noticed between two waits.
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in done:
                    task, error = futures[future], future.exception()
                    yield Ended(task, None if error is None else task.work.failure(task.run, error))
        except BaseException:
            # What they write lies in a directory that is locked, and perhaps put back as soon as this is over.
            with _interrupts_later():
                stop.set()
                pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hear keyboard interrupts when the block is over, once for all; only the main thread hears any."""
    # None: whatever has embedded Python handles them.
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    heard = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: heard.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard.is_set() and callable(before):
        before(signal.SIGINT, None)


def _make(task: Task, stop: threading.Event) -> None:
    """Make one run; in a thread of the pool."""
    work, planned = task.work, task.run
    pace = None if work.limit is None else work.limit.for_run(work.plan.scenario_of(planned))

    def moved(progress: Progress) -> bool | float:
        work.observer.advanced(planned, progress)
        if stop.is_set():
            return False
        return True if pace is None else pace.answer(progress)

    if stop.is_set():
        raise Cancelled("stopped before it began")
    point = (planned.point,) if work.plan.points else ()
    row = json.loads(
        _core.run_one(
            str(work.experiment),
            planned.treatment_index,
            planned.network,
            planned.seed,
            str(work.root),
            moved,
            work.text,
            *point,
        )
    )
    work.check(planned, row)
    work.observer.finished(planned, row)
