"""What wants to know how an experiment gets on: a progress display, a test, a notebook."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from onionlab._core import Progress
    from onionlab.plan import Plan, PlannedRun


class Observer(Protocol):
    """What wants to know how an experiment gets on. Methods are called from several threads."""

    def planned(self, plan: Plan, kept: int, outdated: int) -> None:
        """The experiment was accepted.

        ``kept`` of its runs are on disk already; ``outdated`` others are there too, but made by another version or build of the
        simulator, and are made again.
        """

    def waiting(self, reason: str) -> None:
        """Nothing can begin yet; ``reason`` is a sentence."""

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

    def waiting(self, reason: str) -> None:
        """Ignore."""

    def advanced(self, run: PlannedRun, progress: Progress) -> None:
        """Ignore."""

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """Ignore."""

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Ignore."""


class Passing(Silent):
    """Passes on what happens to the runs of one experiment of several, which were planned together.

    Parameters
    ----------
    observer : Observer
        To whom.
    name : str
        Of the experiment, said with each run.
    first : int
        Its first point among those of all together (`onionlab.plan.Plan.together`).
    """

    def __init__(self, observer: Observer, name: str, first: int) -> None:
        self._observer = observer
        self._name = name
        self._first = first

    def _named(self, run: PlannedRun) -> PlannedRun:
        at = f"{self._name}, {run.at}" if run.at else self._name
        return replace(run, at=at, point=self._first + run.point)

    def waiting(self, reason: str) -> None:
        """Pass on."""
        self._observer.waiting(reason)

    def advanced(self, run: PlannedRun, progress: Progress) -> None:
        """Pass on."""
        self._observer.advanced(self._named(run), progress)

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """Pass on."""
        self._observer.finished(self._named(run), row)

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Pass on."""
        self._observer.failed(self._named(run), reason)
