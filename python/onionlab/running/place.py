"""Where runs are made: on the cores of this machine (`onionlab.running.threads`) or on a cluster (`onionlab.running.cluster`).

A place can be named in the call, or for everything within a ``with made_at(...)``: so whoever calls `onionlab.run` deep inside,
as reproductions of papers do, need not know of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from onionlab import _core
from onionlab.running import cluster as on_cluster
from onionlab.running import threads
from onionlab.running.work import Ended, Task


@dataclass(frozen=True)
class Place:
    """Where runs are made, and how many at a time.

    Parameters
    ----------
    jobs : int, optional
        Runs at the same time; all cores by default, all threads of its workers on a cluster.
    cluster : str, optional
        Address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``; this machine by default.

    Raises
    ------
    ValueError
        If ``jobs`` is not positive.
    ClusterError
        If ``cluster`` cannot be an address, or Dask is not installed.
    """

    jobs: int | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ValueError(f"jobs is {self.jobs}; at least one run at a time is needed")
        if self.cluster is not None:
            on_cluster.check(self.cluster)

    @property
    def at_once(self) -> int:
        """How many runs are made at a time on this machine."""
        return self.jobs or threads.cores()

    def try_policies(self, experiment: Path, text: str) -> None:
        """Make every policy of the user's own once, so that no run has to end for want of it hours later.

        Not for a cluster: its machines may be others than this one, and libraries are built for them.

        Raises
        ------
        ScenarioError
            If one cannot be made, by the key that names it.
        """
        if self.cluster is None:
            _core.try_policies(str(experiment), text)

    def make(self, tasks: Sequence[Task]) -> Generator[Ended, None, None]:
        """Make runs; give each when it is over, whatever their order. Closing the iterator stops those under way."""
        if not tasks:
            return
        if self.cluster is None:
            yield from threads.make(tasks, self.at_once)
        else:
            yield from on_cluster.make(tasks, self.cluster, self.jobs)


_CURRENT: ContextVar[Place] = ContextVar("place", default=Place())  # noqa: B039 (frozen)


@contextmanager
def made_at(place: Place) -> Iterator[None]:
    """Make all runs here that are not told otherwise."""
    token = _CURRENT.set(place)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def chosen(jobs: int | None, cluster: str | None) -> Place:
    """The place that a call names, or that of the ``with`` around it."""
    return _CURRENT.get() if jobs is None and cluster is None else Place(jobs, cluster)
