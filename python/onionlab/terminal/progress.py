"""The progress of an experiment on a terminal: runs done, simulated time, events a second, time left."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from onionlab.quantity import format_duration, format_number, seconds
from onionlab.running.estimate import Forecast, last_start, resident

if TYPE_CHECKING:
    from onionlab import _core
    from onionlab.plan import Plan, PlannedRun
    from onionlab.running.observer import Replaced

#: Without a terminal, one line says how far the experiment is every so many seconds.
EVERY = 60.0

#: The speed shown is that of the last so many seconds.
WINDOW = 30.0


class Pace:
    """Simulated seconds and events of all runs of an experiment, and how fast they grow.

    Parameters
    ----------
    duration : float
        Simulated seconds per run, in the mean.
    runs : int
        Runs that are still to be made.
    of : callable, optional
        Simulated seconds of a run, where they are not those.
    """

    def __init__(self, duration: float, runs: int, of: Callable[[PlannedRun], float] | None = None) -> None:
        self._duration = duration
        self._of = of
        self._todo = duration * runs
        self._done = 0.0
        self._events_of_finished = 0
        self._running: dict[PlannedRun, tuple[float, int]] = {}
        self._marks: deque[tuple[float, float, int]] = deque()

    @property
    def duration(self) -> float:
        """Simulated seconds per run, in the mean."""
        return self._duration

    def of(self, run: PlannedRun) -> float:
        """Simulated seconds of a run."""
        return self._duration if self._of is None else self._of(run)

    @property
    def simulated(self) -> float:
        """Simulated seconds so far, finished and running."""
        return self._done + sum(there for there, _ in self._running.values())

    @property
    def events(self) -> int:
        """Events so far."""
        return self._events_of_finished + sum(events for _, events in self._running.values())

    @property
    def running(self) -> list[float]:
        """Simulated seconds of each run that is under way."""
        return [there for there, _ in self._running.values()]

    def moved(self, run: PlannedRun, simulated: float, events: int, now: float) -> None:
        """Note where a running simulation is."""
        self._running[run] = (min(simulated, self.of(run)), events)
        self._mark(now)

    def ended(self, run: PlannedRun, events: int, now: float) -> None:
        """Note that a run is over, whether it finished or failed."""
        self._running.pop(run, None)
        self._done += self.of(run)
        self._events_of_finished += events
        self._mark(now)

    def _mark(self, now: float) -> None:
        if not self._marks or now - self._marks[-1][0] >= WINDOW / 60:
            self._marks.append((now, self.simulated, self.events))
        while len(self._marks) > 2 and now - self._marks[0][0] > WINDOW:
            self._marks.popleft()

    def events_per_second(self, now: float) -> float | None:
        """Events a second over the last `WINDOW`; None before anything is known."""
        if not self._marks or now - self._marks[0][0] <= 0:
            return None
        return max(0.0, (self.events - self._marks[0][2]) / (now - self._marks[0][0]))

    def left(self, now: float) -> float | None:
        """Seconds until everything is done at the present pace; None before it is known."""
        if not self._marks or now - self._marks[0][0] <= 0:
            return None
        pace = (self.simulated - self._marks[0][1]) / (now - self._marks[0][0])
        return max(0.0, self._todo - self.simulated) / pace if pace > 0 else None


def duration_of(plan: Plan, run: PlannedRun) -> float:
    """Simulated seconds of a run."""
    return seconds(plan.scenario_of(run)["duration"])


def pace_of(plan: Plan, kept: int) -> Pace:
    """The pace of an experiment of which so many runs are there already."""
    mean = sum(duration_of(plan, run) for run in plan.runs) / len(plan.runs)
    return Pace(mean, len(plan.runs) - kept, partial(duration_of, plan))


class ProgressDisplay:
    """A progress bar on a terminal; one line per finished run where there is no terminal.

    Use it as a context manager and hand it to `onionlab.run` as the observer.

    Parameters
    ----------
    console : Console
        Where to.
    here : bool
        Whether the simulations are made by this process, whose memory then says what they need.
    """

    def __init__(self, console: Console, *, here: bool = True) -> None:
        self._console = console
        self._here = here
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._pace = Pace(0.0, 0)
        self._forecast = Forecast(0.0, 0)
        self._told = time.monotonic()
        self._kept_seconds = 0.0
        self._runs = 0
        self._done = 0
        self._kept = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def planned(self, plan: Plan, kept: int, replaced: Replaced) -> None:
        """Show what is ahead; once more where the experiment has grown."""
        if self._bar is not None:
            self._bar.stop()
        self._runs, self._done, self._kept = len(plan.runs), kept, kept
        self._pace = pace_of(plan, kept)
        duration = self._pace.duration
        started = sum(last_start(plan.scenario_of(run)) for run in plan.runs) / len(plan.runs)
        self._forecast = Forecast(duration, self._runs - kept, started)
        if kept:
            self._say(f"{kept} of {self._runs} runs are there already and are kept")
        for sentence in replaced.sentences:
            self._say(sentence)
        if kept == self._runs:
            return
        self._bar = Progress(
            TextColumn("[bold]{task.fields[runs]}[/bold] runs"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[state]}"),
            console=self._console,
            refresh_per_second=4,
            expand=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=duration * self._runs, runs="", state="starting")
        self._kept_seconds = duration * kept
        self._show()
        self._bar.start()

    def waiting(self, reason: str) -> None:
        """Say what is waited for."""
        with self._lock:
            self._say(reason)

    def advanced(self, run: PlannedRun, progress: _core.Progress) -> None:
        """Move the bar."""
        now = time.monotonic()
        with self._lock:
            self._pace.moved(run, progress["sim_seconds"], progress["events"], now)
            self._show()
            expected = self._forecast.moved(self._pace.simulated, self._pace.running, now, resident() if self._here else None)
            if expected is not None:
                self._say(expected.sentence(self._runs - self._kept))
            if not self._console.is_terminal and now - self._told >= EVERY:
                self._told = now
                self._say(f"{self._done} of {self._runs} runs: {self._state(now)}")

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """Count a finished run."""
        with self._lock:
            self._done += 1
            self._pace.ended(run, int(row["events"]), time.monotonic())
            if not self._console.is_terminal:
                took = format_duration(float(row["wall_seconds"]), coarse=True)
                self._say(f"{self._done} of {self._runs} runs: {run.label} took {took}")
            self._show()

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Tell of a failed run at once."""
        with self._lock:
            self._pace.ended(run, 0, time.monotonic())
            self._say(("failed:", "red"), f" {run.label}: {reason}")
            self._show()

    def _say(self, *parts: str | tuple[str, str]) -> None:
        """Print a line; as `Text`, for rich would take brackets in a treatment's name or in a path for its markup."""
        self._console.print(Text.assemble(*parts), soft_wrap=True, highlight=False)

    def _show(self) -> None:
        """Bring the bar up to date; call with the lock held."""
        if self._bar is None or self._task is None:
            return
        state = self._state(time.monotonic())
        simulated = self._kept_seconds + self._pace.simulated
        self._bar.update(self._task, completed=simulated, runs=f"{self._done}/{self._runs}", state=state)

    def _state(self, now: float) -> str:
        """How far the experiment is, how fast it goes, and how long it will take."""
        speed, left = self._pace.events_per_second(now), self._pace.left(now)
        state = [f"{format_duration(round(self._pace.simulated), coarse=True)} simulated"]
        if speed is not None:
            state.append(f"{format_number(speed / 1e6)} M events/s")
        if left is not None:
            state.append(f"{format_duration(round(left), coarse=True)} left")
        return " · ".join(state)
