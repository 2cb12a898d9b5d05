"""A limit of wall time for long runs: what would not be over by then ends sooner, and is kept as what it has become."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onionlab.errors import DocumentError, ResultsError, ScenarioError
from onionlab.files import write_all
from onionlab.plan import Plan, read_run_table
from onionlab.quantity import seconds
from onionlab.running.estimate import last_start
from onionlab.running.rewriting import with_duration

if TYPE_CHECKING:
    from onionlab._core import Progress
    from onionlab.running.place import Place
    from onionlab.running.work import Task, Work

#: Simulated seconds at whose multiples a run ends that has to end.
MINUTE = 60.0


@dataclass(frozen=True)
class TimeLimit:
    """So long runs may take, all together.

    Parameters
    ----------
    ends : float
        By ``clock``.
    clock : callable
        Seconds of wall time since any moment.
    """

    ends: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, length: float, clock: Callable[[], float] = time.monotonic) -> TimeLimit:
        """From now on so many seconds."""
        return cls(clock() + length, clock)

    def for_run(self, scenario: dict[str, Any]) -> Pace:
        """What a run of this scenario is to be asked as it goes on."""
        return Pace(self, max(seconds(scenario["measure-from"]), last_start(scenario)))


@dataclass
class Pace:
    """How fast a run goes, and with which simulated minute it has to end so that it is over when the limit is reached.

    A minute is begun only if one that takes as long as the one before can be over in time.

    Parameters
    ----------
    limit : TimeLimit
        The limit.
    begun : float
        Simulated seconds at which statistics and all clients have begun: an end before would leave no experiment.
    """

    limit: TimeLimit
    begun: float
    _minute: int | None = None
    _since: float = 0.0
    _took: float = 0.0
    _end: float | None = None

    def answer(self, progress: Progress) -> bool | float:
        """What the run is told (`onionlab._core.run_one`): that it goes on, or the simulated second with which it ends."""
        if self._end is not None:
            return self._end
        now, minute = self.limit.clock(), int(progress["sim_seconds"] // MINUTE)
        if minute != self._minute:
            if self._minute is not None:
                self._took = (now - self._since) / (minute - self._minute)
            self._minute, self._since = minute, now
        over = max(now, self._since + self._took)
        if over + self._took < self.limit.ends:
            return True
        self._end = (max(progress["sim_seconds"], self.begun) // MINUTE + 1) * MINUTE
        return self._end


def check_limited(works: Sequence[Work], waiting: Sequence[Task], place: Place) -> None:
    """Refuse with an `OnionlabError` what a limit of time is not for, and whose duration could not be replaced in the end."""
    if place.cluster is not None:
        raise ResultsError("runs on a cluster cannot be made to end sooner; leave out the limit of time")
    if several := [work for work in works if len(work.plan.runs) != 1]:
        raise ResultsError(
            f"{several[0].experiment} has several runs, which would end at different times; leave out the limit of time"
        )
    if len(waiting) > place.at_once:
        raise ResultsError(
            f"{len(waiting)} runs cannot begin at once where {place.at_once} are made at a time, and the last would have no time "
            "left; name fewer, or leave out the limit of time"
        )
    for work in {task.work.root: task.work for task in waiting}.values():
        _check_duration(work)


def _check_duration(work: Work) -> None:
    """Refuse an experiment file that would not become one of another duration: a longer one, which nothing else forbids."""
    other = seconds(work.plan.scenario["duration"]) // MINUTE * MINUTE + 2 * MINUTE
    try:
        plan = Plan.of(work.experiment, with_duration(work.text, other))
    except ScenarioError as error:
        raise ScenarioError(f"{work.experiment}: {error}; or leave out the limit of time") from error
    if seconds(plan.scenario["duration"]) != other:
        raise ScenarioError(f"{work.experiment}: `sweep` sets the duration; leave that out, or the limit of time")


def ended_sooner(work: Work, row: dict[str, Any]) -> bool:
    """Whether a run of the experiment has ended before its time, by the row of its ``run`` table."""
    return float(row["sim_seconds"]) < seconds(work.plan.scenario["duration"])


def as_it_ended(work: Work) -> Work:
    """The experiment of one run that its results directory holds now: the same, or, if the run ended sooner, a shorter one.

    Of a shorter one the copy of the file and the plan are written too, so that the directory is that experiment's, as if its file
    had been run.

    Raises
    ------
    DocumentError
        If the run is that of another experiment, because a file that this one names has changed meanwhile.
    """
    (run,) = work.plan.runs
    row = read_run_table(work.root / run.directory)
    if row is None or not ended_sooner(work, row):
        return work
    text = with_duration(work.text, row["sim_seconds"])
    plan = Plan.of(work.experiment, text)
    if plan.scenario != json.loads(row["scenario"]):
        raise DocumentError(
            f"a file that {work.experiment} names has changed while the experiment ran; "
            "the same command goes on if it is put back"
        )
    write_all({work.root / "experiment.toml": text.encode(), work.root / "plan.json": plan.to_json().encode()})
    return replace(work, text=text, plan=plan)
