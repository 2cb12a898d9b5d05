"""What a long experiment will take, time and memory, told from the first seconds of its first runs.

Nothing is run for it: the first runs are themselves the calibration. What is observed after their last client has started is
carried on to the end, since little happens before, and at least in the second half of the time observed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onionlab.quantity import format_bytes, format_duration, seconds

#: Seconds after which the first runs say something, and the share of its simulated time that each must have behind it, from the
#: start of its last client on.
FIRST = 10.0
SHARE = 0.05

#: Below so many seconds an experiment is not long, and nothing is said.
LONG = 60.0


@dataclass(frozen=True)
class Expected:
    """What an experiment will take, all its runs together."""

    #: Seconds from its beginning to its end.
    seconds: float
    #: Most bytes in memory at a time; None where the kernel does not tell.
    memory: int | None
    #: Runs at a time.
    jobs: int

    def sentence(self, runs: int) -> str:
        """What the user is told."""
        needs = "" if self.memory is None else f" and {format_bytes(self.memory)} of memory"
        many = "1 run" if runs == 1 else f"{runs} runs"
        return f"expected: about {format_duration(round(self.seconds), coarse=True)}{needs} for {many}, {self.jobs} at a time"


def last_start(scenario: dict[str, Any]) -> float:
    """Simulated seconds after which all clients of a resolved scenario have started."""
    return max((seconds(group["start"]["to"]) for group in scenario["clients"]), default=0.0)


class Forecast:
    """Watches the first runs of an experiment until it can say what all of them will take.

    Parameters
    ----------
    duration : float
        Simulated seconds per run, in the mean.
    runs : int
        Runs that are to be made.
    started : float
        Simulated seconds after which all clients of a run have started.
    """

    def __init__(self, duration: float, runs: int, started: float = 0.0) -> None:
        self._duration = duration
        # A group that comes late, an attacker's say, is not waited for.
        self._started = min(started, duration / 2)
        self._busy: float | None = None
        self._todo = duration * runs
        self._seen: list[tuple[float, float, int | None]] = []
        self._over = runs == 0

    def moved(self, simulated: float, running: list[float], now: float, memory: int | None) -> Expected | None:
        """Note how far the experiment is; what it will take, once, as soon as that can be told of a long one.

        Parameters
        ----------
        simulated : float
            Simulated seconds of all runs so far.
        running : list of float
            Simulated seconds of each run that is under way.
        now : float
            Seconds of some clock.
        memory : int, optional
            Bytes that the process has in memory.
        """
        if self._over:
            return None
        if not self._seen or now - self._seen[-1][0] >= FIRST / 50:
            self._seen.append((now, simulated, memory))
        # Where a run is over, all of its life has been seen.
        least = self._duration if simulated > sum(running) else min(running, default=0.0)
        start = self._seen[0][0]
        if self._busy is None and least >= self._started:
            self._busy = now if least < self._duration else start
        if self._busy is None or now - start < FIRST or least < self._started + SHARE * self._duration:
            return None
        half = next((seen for seen in self._seen if seen[0] >= max(self._busy, (start + now) / 2)), self._seen[-1])
        if now <= half[0] or simulated <= half[1]:
            return None
        self._over = True
        takes = now - start + (self._todo - simulated) * (now - half[0]) / (simulated - half[1])
        if takes < LONG:
            return None
        most = None
        if memory is not None and half[2] is not None:
            growth = max(0.0, (memory - half[2]) / (simulated - half[1]))
            left = min(self._todo - simulated, sum(max(0.0, self._duration - there) for there in running))
            most = round(memory + growth * left)
        return Expected(takes, most, max(1, len(running)))


def resident() -> int | None:
    """Bytes that this process has in memory now; None where there is no ``/proc``."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
