"""Running an experiment: every combination of treatment, network and seed on all cores, each one on disk as soon as it is done.

The simulator releases the interpreter lock, so plain threads fill the cores. A run is a pure function of its inputs; the order in
which runs finish changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from onionlab import _core
from onionlab.errors import Cancelled, DocumentError, OnionlabError, ResultsError, RunError
from onionlab.evaluation import Evaluation, check_measure_from
from onionlab.files import write_bytes
from onionlab.plan import OPTIONAL_TABLES, TABLES, Plan, PlannedRun, is_finished, is_of, is_outdated, read_experiment
from onionlab.results import Experiment, Failure, opened

if TYPE_CHECKING:
    from onionlab._core import Progress
    from onionlab.until import UntilCi


class Observer(Protocol):
    """What wants to know how an experiment gets on. Methods are called from several threads."""

    def planned(self, plan: Plan, kept: int, outdated: int) -> None:
        """The experiment was accepted.

        ``kept`` of its runs are on disk already; ``outdated`` others are there too, but made by another version or build of the
        simulator, and are made again.
        """

    def advanced(self, run: PlannedRun, progress: Progress) -> None:
        """A running simulation has moved on."""

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """A run is on disk; ``row`` is its ``run`` table."""

    def failed(self, run: PlannedRun, reason: str) -> None:
        """A run has failed; the others go on."""


class Silent:
    """An observer that says nothing."""

    def planned(self, plan: Plan, kept: int, outdated: int) -> None:
        """Ignore."""

    def advanced(self, run: PlannedRun, progress: Progress) -> None:
        """Ignore."""

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """Ignore."""

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Ignore."""


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def default_directory(experiment: Path) -> Path:
    """Where results go unless told otherwise: ``out/<name of the experiment file>``."""
    return Path("out") / experiment.stem


def run(
    experiment: str | Path,
    out: str | Path | None = None,
    *,
    jobs: int | None = None,
    fresh: bool = False,
    report: bool = True,
    observer: Observer | None = None,
    networks: int | None = None,
    measure_from: str | None = None,
    until_ci: UntilCi | None = None,
) -> Experiment:
    """Run an experiment file and draw its report.

    Runs that the results directory already holds are kept, so that the same call resumes an interrupted experiment, and adds what
    is missing after networks, seeds, treatments or points of a sweep were added to the file. A keyboard interrupt stops at once
    and keeps what is finished.

    Parameters
    ----------
    experiment : path
        The experiment file.
    out : path, optional
        Results directory; ``out/<name of the experiment file>`` by default.
    jobs : int, optional
        Runs at the same time; all cores by default.
    fresh : bool
        Repeat finished runs too.
    report : bool
        Draw ``report.html`` with its charts and tables at the end.
    observer : Observer, optional
        Told about progress.
    networks : int, optional
        Number of sampled networks in place of the file's; network k is the same network in either case.
    measure_from : str, optional
        ``auto`` or a time such as ``"40 s"`` in place of the file's `measure-from`; ``auto`` is when the network's goodput has
        settled (`onionlab.stats.steady_state`).
    until_ci : UntilCi, optional
        Add networks until an interval is narrow enough (`onionlab.until`).

    Returns
    -------
    Experiment
        The results, with ``failures`` listing runs that were tried and failed.

    Raises
    ------
    ScenarioError, DocumentError
        If the experiment or a document it names cannot be used; nothing is left behind then.
    RunError
        If no run finished at all.

    Examples
    --------
    >>> exp = onionlab.run("experiments/swrr/demo.toml")  # doctest: +SKIP
    """
    path = Path(experiment)
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}; at least one run at a time is needed")
    root = Path(out) if out is not None else default_directory(path)
    if until_ci is not None:
        from onionlab.until import run_until

        if networks is not None:
            raise ValueError("until_ci finds the number of networks; leave out networks")
        return run_until(
            path, root, until_ci, jobs=jobs, fresh=fresh, report=report, observer=observer, measure_from=measure_from
        )
    text = read_experiment(path)
    if networks is not None:
        from onionlab.until import with_networks

        text = with_networks(text, networks)
    plan = Plan.of(path, text)
    if measure_from is not None:
        check_measure_from(measure_from, plan)
    watcher = observer or Silent()
    with _results_directory(root, text, plan):
        waiting = [planned for planned in plan.runs if fresh or not is_finished(root, plan, planned)]
        for planned in waiting:
            _check_replaceable(root / planned.directory)
        outdated = 0 if fresh else sum(is_outdated(root, plan, planned) for planned in waiting)
        watcher.planned(plan, len(plan.runs) - len(waiting), outdated)
        failures = _Workers(path, text, plan, root, jobs or cores(), watcher).work_off(waiting)
        Evaluation(measure_from).write(root)
        results = opened(root, plan, failures)
        if not results.finished:
            raise RunError("; ".join(f"{failure.run.label}: {failure.reason}" for failure in failures))
        if report:
            results.report()
    return results


class _Workers:
    """Threads that work off a list of runs, and stop together."""

    def __init__(self, experiment: Path, text: str, plan: Plan, root: Path, jobs: int, observer: Observer) -> None:
        self._experiment = experiment
        self._text = text
        self._plan = plan
        self._root = root
        self._jobs = jobs
        self._observer = observer
        self._stop = threading.Event()

    def work_off(self, waiting: list[PlannedRun]) -> list[Failure]:
        """Run everything; return what failed. A refused input stops all and is raised."""
        failures: list[Failure] = []
        with ThreadPoolExecutor(max_workers=self._jobs, thread_name_prefix="onionlab") as pool:
            futures = {pool.submit(self._one, planned): planned for planned in waiting}
            try:
                pending = set(futures)
                while pending:
                    # With a time limit, so that a signal is noticed between two waits.
                    done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                    failures += [self._failure(futures[future], future) for future in done if future.exception()]
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return failures

    def _one(self, planned: PlannedRun) -> None:
        """Make one run; in a worker thread."""

        def moved(progress: Progress) -> bool:
            self._observer.advanced(planned, progress)
            return not self._stop.is_set()

        if self._stop.is_set():
            raise Cancelled("stopped before it began")
        point = (planned.point,) if self._plan.points else ()
        row = json.loads(
            _core.run_one(
                str(self._experiment),
                planned.treatment_index,
                planned.network,
                planned.seed,
                str(self._root),
                moved,
                self._text,
                *point,
            )
        )
        if not is_of(self._plan, planned, row):
            raise DocumentError(
                f"a file that {self._experiment} names has changed while the experiment ran; the same command makes it anew"
            )
        self._observer.finished(planned, row)

    def _failure(self, planned: PlannedRun, future: Future[None]) -> Failure:
        """Judge a run's exception: a failure of this run alone is returned, everything else raised."""
        error = future.exception()
        if not isinstance(error, RunError):
            assert error is not None
            raise error
        self._observer.failed(planned, str(error))
        return Failure(planned, str(error))


def _check_replaceable(directory: Path) -> None:
    """Refuse to have a run's directory replaced that holds anything but tables."""
    if not directory.exists():
        return
    ours = {f"{table}.parquet" for table in (*TABLES, *OPTIONAL_TABLES)}
    if not directory.is_dir() or any(path.name not in ours for path in directory.iterdir()):
        raise ResultsError(f"{directory} holds files that onionlab did not write; move them away")


@contextmanager
def _results_directory(root: Path, text: str, plan: Plan) -> Iterator[None]:
    """Prepare and lock the results directory; undo the preparation if the experiment is refused before any run finished."""
    if root.exists() and not root.is_dir():
        raise ResultsError(f"{root} is a file; the results need a directory")
    made = [directory for directory in (root, *root.parents) if not directory.exists()]
    try:
        (root / "runs").mkdir(parents=True, exist_ok=True)
        lock = (root / ".lock").open("w")
    except OSError as error:
        raise ResultsError(f"cannot write into {root}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ResultsError(f"another onionlab is writing into {root}") from error
        for left_over in (root / "runs").glob(".*"):
            shutil.rmtree(left_over, ignore_errors=True)
        before = {name: _content(root / name) for name in ("experiment.toml", "plan.json")}
        write_bytes(root / "experiment.toml", text.encode())
        write_bytes(root / "plan.json", plan.to_json().encode())
        try:
            yield
        except OnionlabError:
            if not any(is_finished(root, plan, planned) for planned in plan.runs):
                _undo(root, made, before)
            raise


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _undo(root: Path, made: list[Path], before: dict[str, bytes | None]) -> None:
    """Put back what `_results_directory` changed; directories that it made go if they are empty."""
    for name, content in before.items():
        if content is None:
            (root / name).unlink(missing_ok=True)
        else:
            write_bytes(root / name, content)
    if root in made:
        (root / ".lock").unlink(missing_ok=True)
    for directory in (root / "runs", *made):
        try:
            directory.rmdir()
        except OSError:
            return
