"""Measures when real tor's KIST runs, on a private network on 127.0.0.1: the table of ``docs/results/kist-intervals.md``.

    .venv/bin/python tools/measure_tor/kist.py

It needs the programs ``tor``, ``tor-gencert`` and ``cc``, and Linux. It takes a minute, starts five processes in temporary
folders and ends them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import load
import numpy as np
from measures import first_download
from network import RELAYS, Refused, find, running

#: Of the kinds of notes in ``kist_notes.c``.
INFO, WAIT, AWAKE = 1, 2, 3
NOTE = np.dtype([("nanoseconds", "u8"), ("kind", "u4"), ("value", "i4")])
#: Downloads: bytes, bytes that the server writes at once, seconds between two writes.
LOADS = {"20 MB in bulk": (20_000_000, 1 << 16, 0.0), "16 cells each 2 ms": (488 * 16 * 2000, 488 * 16, 0.002)}
#: After a tick of the kernel's coarse clock, in milliseconds: a wait of a millisecond and its slack.
AFTER_TICK = 1.25


@dataclass
class Runs:
    """KIST's runs of one process over one download."""

    #: Nanoseconds at which those began that no event began.
    by_timer: list[int]
    by_event: int
    #: Time-outs of ``epoll_wait`` in milliseconds.
    waits: list[int]


def tick() -> int:
    """Nanoseconds between two ticks of the kernel's coarse clock."""
    return round(time.clock_getres(6) * 1e9)


def runs(notes: Path, start: int, end: int) -> Runs:
    """What one process noted between two instants."""
    found = Runs([], 0, [])
    ready, awake = 0, False
    noted = np.fromfile(notes, dtype=NOTE)
    noted = noted[(noted["nanoseconds"] >= start) & (noted["nanoseconds"] < end)]
    for at, kind, value in noted.tolist():
        if kind == WAIT and value > 0:
            found.waits.append(value)
        elif kind == AWAKE:
            ready, awake = value, True
        elif kind == INFO and awake:
            # The first question after a wait; the others belong to the same run.
            awake = False
            if ready == 0:
                found.by_timer.append(at)
            else:
                found.by_event += 1
    return found


def main() -> int:
    """The command; 1 if something is missing."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory(prefix="measure-kist-") as folder:
        library = Path(folder) / "kist_notes.so"
        spans: dict[str, tuple[int, int]] = {}
        try:
            compile_it = [find("cc"), "-O2", "-shared", "-fPIC", "-o", str(library), str(here / "kist_notes.c"), "-ldl"]
            subprocess.run(compile_it, check=True)
            os.environ.update(KIST_NOTES=folder, LD_PRELOAD=str(library))
            with running("tor") as network:
                del os.environ["LD_PRELOAD"]
                server = load.Server()
                first_download(network, server)
                for name, (size, chunk, pause) in LOADS.items():
                    start = time.monotonic_ns()
                    load.download(network.socks_port, server.port, size, chunk, pause)
                    spans[name] = (start, time.monotonic_ns())
                server.close()
                pids = {role: network.nodes[role].pid for role in RELAYS}
        except Refused as refused:
            print(refused, file=sys.stderr)
            return 1
        every = tick()
        print(f"a tick each {every / 1e6:g} ms")
        print("| download | process | runs | begun by its timer | of those within 1.25 ms after a tick | waits of 1 ms, of all |")
        for name, (start, end) in spans.items():
            for role, pid in pids.items():
                of = runs(Path(folder) / str(pid), start, end)
                timed, total = len(of.by_timer), len(of.by_timer) + of.by_event
                near = sum(at % every < AFTER_TICK * 1e6 for at in of.by_timer)
                shares = f"{timed} ({100 * timed / max(1, total):.0f} %) | {100 * near / max(1, timed):.0f} %"
                print(f"| {name} | {role} | {total} | {shares} | {of.waits.count(1)} of {len(of.waits)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
