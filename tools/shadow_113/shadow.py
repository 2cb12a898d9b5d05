# ruff: noqa: E501  (sentences)
"""What Shadow has left of a run of `make.py`'s networks, as it is kept in ``measured/``."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from make import BEFORE

#: The epoch at which Shadow's time begins.
EPOCH = 946_684_800

#: A download: the second of load at which it began, bytes, whether it ended, and seconds from its start until it was connected, had its first byte, and its last.
SCHEMA = {
    "time": pl.Float64,
    "size": pl.Int64,
    "ok": pl.Boolean,
    "connected": pl.Float64,
    "first": pl.Float64,
    "last": pl.Float64,
}


def downloads(folder: Path) -> list[list[object]]:
    """Each, as `SCHEMA` has it, by their beginnings."""
    hosts = folder / "shadow.data" / "hosts"
    rows = []
    for file in sorted(hosts.glob("perfclient*/stdout*tgen*log")):
        for line in file.read_text(errors="replace").splitlines():
            if (found := re.search(r"\[stream-(success|error)\]", line)) is None:
                continue
            values = dict(re.findall(r"([a-z-]+)=(-?\d+)", line))
            begin = int(values["created-ts"]) / 1e6 - EPOCH - BEFORE
            times = [int(values[f"usecs-to-{what}"]) / 1e6 for what in ("command", "first-byte-recv", "last-byte-recv")]
            row = [round(begin), int(values["recvsize"]), found[1] == "success"]
            rows.append([*row, *(round(time, 3) if time > 0 else None for time in times)])
    return sorted(rows, key=lambda row: row[:2])


def _since(clock: tuple[str, ...]) -> int:
    """Seconds of load at a time of Shadow's, hours, minutes and seconds."""
    hours, minutes, seconds = map(int, clock)
    return 3600 * hours + 60 * minutes + seconds - BEFORE


def take(folder: Path, out: Path, setting: dict[str, Any]) -> None:
    """Reads downloads and what the first exit said of itself, and keeps them."""
    hosts = folder / "shadow.data" / "hosts"
    state = []
    pattern = r"(\d\d):(\d\d):(\d\d)\.\d+ \[notice\] EXIT channels (\d+) outbufs (\d+) streams (\d+) writing (\d+) requests (\d+) unread (\d+)"
    for line in next(hosts.glob("exita/stdout*tor*log")).read_text(errors="replace").splitlines():
        found = re.search(pattern, line)
        if found is not None and (since := _since(found.groups()[:3])) >= 0 and since % 15 == 0:
            state.append([since, *map(int, found.groups()[3:])])
    keep(out, {"setting": setting, "downloads": downloads(folder), "exit": state})


def keep(out: Path, kept: dict[str, Any]) -> None:
    """Writes it."""
    out.write_text(json.dumps(kept, separators=(",", ":")) + "\n")


def passed(log: Path) -> dict[str, list[int]]:
    """Bytes that each exit sent by minute of load, headers included, by what Shadow says of its hosts each 15 s."""
    pattern = re.compile(r"\] (\d+):(\d+):(\d+)\.\d+ \[message\] \[(exit[a-e])~.*\[shadow-heartbeat\] \[node\] \d+,\d+,(\d+)")
    sent: dict[str, Counter[int]] = {}
    with log.open(errors="replace") as lines:
        for line in lines:
            if (found := pattern.search(line)) is not None and (since := _since(found.groups()[:3])) > 0:
                # What it says at a full minute is of the quarter before.
                sent.setdefault(found[4], Counter())[(since - 1) // 60] += int(found[5])
    return {name: [minutes[minute] for minute in range(max(minutes) + 1)] for name, minutes in sorted(sent.items())}


def circuits(folder: Path) -> list[list[int]]:
    """Of Markov clients that were told to say so (``Log [circ]info-info stdout``): how many circuits they launched, and found late, by minute of load."""

    def events() -> Iterator[tuple[int, int]]:
        for file in sorted((folder / "shadow.data" / "hosts").glob("markovclient*/stdout*tor*log")):
            for line in file.read_text(errors="replace").splitlines():
                what = ["First hop: finished sending CREATE", "Deciding to"]
                found = re.match(r"\S+ \d+ (\d\d):(\d\d):(\d\d)\.\d+ \[info\]", line)
                if found is not None:
                    yield from ((_since(found.groups()) // 60, n) for n, text in enumerate(what) if text in line)

    counts = Counter(events())
    return [[counts[minute, n] for n in (0, 1)] for minute in range(max((minute for minute, _ in counts), default=-1) + 1)]


def connections(log: Path) -> list[list[int]]:
    """Each connection of the first exit to a server: the seconds since the load began at which Shadow saw it first and last, which it looks for every 15 s."""
    seen: dict[str, list[int]] = {}
    with log.open(errors="replace") as lines:
        for line in lines:
            if "[exita~" not in line or "[socket] " not in line:
                continue
            since = _since(re.findall(r" (\d\d):(\d\d):(\d\d)\.", line)[0])
            for socket in line.split("[socket] ")[1].split("|"):
                number, _, peer = [*socket.split(";")[0].split(","), "", ""][:3]
                if peer.startswith("server"):
                    seen.setdefault(number, [since, since])[1] = since
    return sorted(seen.values())
