"""What there is to do for an experiment, and the judgement of each run's outcome: the same wherever runs are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onionlab.errors import DocumentError, ResultsError, RunError
from onionlab.plan import Plan, PlannedRun, is_finished, is_of, is_readable
from onionlab.results.experiment import Failure
from onionlab.running.directory import check_replaceable
from onionlab.running.observer import Observer
from onionlab.running.time_limit import TimeLimit, ended_sooner

#: The ``code`` of a `RunError` that says that records could not be written.
UNWRITABLE = "run-records"


@dataclass(frozen=True)
class Work:
    """An experiment that was accepted, with the place for its results."""

    #: The experiment file, to whose place the files that it names are relative.
    experiment: Path
    #: Its content when it was accepted.
    text: str
    plan: Plan
    #: The results directory.
    root: Path
    observer: Observer
    #: Until when its runs may take.
    limit: TimeLimit | None = None

    def waiting(self, *, fresh: bool = False) -> list[Task]:
        """What is still to be made; with ``fresh`` everything. A place that holds something else is refused."""
        tasks = [Task(self, run) for run in self.plan.runs if fresh or not self._is_there(run)]
        for task in tasks:
            check_replaceable(self.root / task.run.directory)
        return tasks

    def _is_there(self, run: PlannedRun) -> bool:
        """Whether the run was made already, and none of its tables is damaged."""
        return is_finished(self.root, self.plan, run) and is_readable(self.root, run)

    def check(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """Refuse a finished run that is not the planned one, or that one with a sooner end where there is a limit of time."""
        if self.limit is not None and ended_sooner(self, row):
            return
        if not is_of(self.plan, run, row):
            raise DocumentError(
                f"a file that {self.experiment} names has changed while the experiment ran; "
                "the same command goes on if it is put back"
            )

    def failure(self, run: PlannedRun, error: BaseException) -> Failure:
        """Judge what a run has raised: a failure of this run alone is returned, everything else raised.

        Records that cannot be written, because the disk is full, say, would befall all other runs too.
        """
        if not isinstance(error, RunError):
            raise error
        if error.code == UNWRITABLE:
            raise ResultsError(f"{error}; finished runs are kept in {self.root}, the same command goes on from there") from error
        self.observer.failed(run, str(error))
        return Failure(run, str(error))


@dataclass(frozen=True)
class Task:
    """A run to make, of an experiment."""

    work: Work
    run: PlannedRun


@dataclass(frozen=True)
class Ended:
    """A task that is over: its run is on disk, or has failed."""

    task: Task
    failure: Failure | None
