"""What wants to know how an experiment gets on: a progress display, a test, a notebook."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from onionlab._core import Progress
    from onionlab.plan import Plan, PlannedRun


@dataclass(frozen=True)
class Replaced:
    """How many finished runs are made again.

    Attributes
    ----------
    outdated
        Runs that another version or build of the simulator made.
    changed
        Runs of the same build, of another form of the experiment: its file, or one that it names, was changed since.
    left
        Runs of another form of the experiment that this one has no place for: they stay where they are, and nothing shows them.
    """

    outdated: int = 0
    changed: int = 0
    left: int = 0

    @property
    def sentences(self) -> list[str]:
        """What is made again and why, a sentence for each reason."""
        told = []
        if self.outdated:
            were = "1 run there was" if self.outdated == 1 else f"{self.outdated} runs there were"
            told.append(f"{were} made by another build of onionlab and {_again(self.outdated)}")
        if self.changed:
            are = "1 run there is" if self.changed == 1 else f"{self.changed} runs there are"
            told.append(f"{are} of another form of this experiment and {_again(self.changed)}")
        if self.left:
            some = f"{self.left} finished runs there, which stay, have"
            those = "1 finished run there, which stays, has" if self.left == 1 else some
            told.append(f"{those} no place in this form of the experiment and will not be shown")
        return told


def _again(count: int) -> str:
    return "is made again" if count == 1 else "are made again"


class Observer(Protocol):
    """What wants to know how an experiment gets on. Methods are called from several threads."""

    def planned(self, plan: Plan, kept: int, replaced: Replaced) -> None:
        """The experiment was accepted; ``kept`` of its runs are on disk already.

        In the place of others finished runs are there that are not these, which are ``replaced``. None of them is touched before
        this returns.
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
    """An observer that ignores everything."""

    def planned(self, plan: Plan, kept: int, replaced: Replaced) -> None:  # noqa: D102
        pass

    def waiting(self, reason: str) -> None:  # noqa: D102
        pass

    def advanced(self, run: PlannedRun, progress: Progress) -> None:  # noqa: D102
        pass

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:  # noqa: D102
        pass

    def failed(self, run: PlannedRun, reason: str) -> None:  # noqa: D102
        pass


class Passing(Silent):
    """Passes on what happens to the runs of one experiment of several; that all together were planned is not for it to say.

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

    def waiting(self, reason: str) -> None:  # noqa: D102
        self._observer.waiting(reason)

    def advanced(self, run: PlannedRun, progress: Progress) -> None:  # noqa: D102
        self._observer.advanced(self._named(run), progress)

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:  # noqa: D102
        self._observer.finished(self._named(run), row)

    def failed(self, run: PlannedRun, reason: str) -> None:  # noqa: D102
        self._observer.failed(self._named(run), reason)
