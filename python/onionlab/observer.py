"""What wants to know how an experiment gets on: a progress display, a test, a notebook."""

from __future__ import annotations

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
