# ruff: noqa: E501  (sentences and command lines)
"""Writes the page: tables, chart, and how to make it again."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

import altair as alt
from measures import CIRCUITS, PACED, ROLES, SIZES, Row, Wire
from network import RELAYS

from onionlab.charts.export import to_svg
from onionlab.charts.theme import config

#: What the model says of an exit's records: a full outbuf of 4,048-byte chunks is cut at the end of each call of 16,448 bytes, 256 bytes further into a
#: chunk each time; with 22 bytes of overhead.
PREDICTED = {4070, *(256 * call + 22 for call in range(1, 16)), *(4048 - 256 * call + 22 for call in range(1, 16))}


def machine() -> str:
    """What it is measured on, in words."""
    names = [
        line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    load = os.getloadavg()[1]
    kernel = platform.release().split("-")[0]
    return f"{names[0] if names else platform.machine()}, {len(names)} cores, Linux {kernel}, load average {load:.1f}"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} – {max(values):.2f})"


def calibrated(downloads: Sequence[Row], handshakes: Sequence[Row]) -> tuple[float, float]:
    """Microseconds for each cell of a relay under the largest load, and for each handshake: the least, which other programs disturbed least."""
    busiest = f"bulk, {SIZES[-1] // 1_000_000} MB"
    cell = min(row.per_cell for row in downloads if row.load == busiest and row.role in RELAYS)
    handshake = min(row.workers / 1000 / row.cells for row in handshakes if row.role in RELAYS)
    return cell, handshake


def write(out: Path, version: str, command: str, downloads: Sequence[Row], handshakes: Sequence[Row], wire: Wire) -> None:
    """Writes ``out`` and, beside it, the chart."""
    cell, handshake = calibrated(downloads, handshakes)
    loads = [f"bulk, {size // 1_000_000} MB" for size in SIZES] + [f"{cells} every 2 ms" for cells in PACED]
    repeats = len([row for row in downloads if row.load == loads[0] and row.role == "guard"])
    lines = [
        "# What tor's computing costs",
        "",
        "Real tor on one machine: a directory authority, a guard, a middle, an exit and a client, each a process, all on 127.0.0.1, and a server",
        "behind the exit. CPU time is that of each thread as the kernel's scheduler counts it (`/proc/PID/task/*/schedstat`); cells follow from the bytes that tor",
        "reports to have written (a client: read), SENDMEs included.",
        "",
        f"- {version}",
        f"- {machine()}; what other programs do beside it adds to the costs",
        f"- {repeats} repeats; medians, with the least and the most of them",
        "",
        "This page was written by",
        "",
        f"    {command}",
        "",
        f"**The least: {cell:.1f} µs for each cell of a relay in the largest bulk load, {handshake:.0f} µs for each onion handshake. The simulator's defaults are 6 µs and 160 µs.**",
        "",
        "## The main thread, microseconds for each cell",
        "",
        "| load | " + " | ".join(ROLES) + " |",
        "| --- |" + " ---: |" * len(ROLES),
    ]
    for name in loads:
        values = [[row.per_cell for row in downloads if row.load == name and row.role == role] for role in ROLES]
        lines.append(f"| {name} | " + " | ".join(_spread(each) for each in values) + " |")
    ticks = [row for row in downloads if row.load == loads[len(SIZES) - 1] and row.role in RELAYS]
    ratio = sum(row.ticks for row in ticks) * 1e7 / sum(row.main + row.workers for row in ticks)
    lines += [
        "",
        "![Microseconds for each cell](tor-cpu.svg)",
        "",
        f"User and system time of the whole process (`/proc/PID/stat`, in steps of 10 ms) is {100 * ratio:.0f} % of this in the largest bulk load.",
        "",
        "In bulk a pass of the event loop reads and writes up to 32 cells; its fixed part (epoll, timers, the scheduler, cold caches) is shared by all of them. With",
        "single cells two milliseconds apart nearly all is fixed part, and the processor has nothing else to do. The simulator's cost is the one in bulk, since that",
        "decides how much a busy relay carries; at an idle one it leaves out up to a tenth of a millisecond for each cell.",
        "",
        f"## Onion handshakes, microseconds for each ({CIRCUITS} circuits of three hops at once)",
        "",
        "| thread | " + " | ".join(RELAYS) + " |",
        "| --- |" + " ---: |" * len(RELAYS),
    ]
    for thread, of in (("worker", "workers"), ("main", "main")):
        values = [[getattr(row, of) / 1000 / row.cells for row in handshakes if row.role == role] for role in RELAYS]
        lines.append(f"| {thread} | " + " | ".join(_spread(each) for each in values) + " |")
    lines += [
        "",
        "A guard's main thread passes the cells of all three hops (five it takes in), a middle's those of two (three), an exit's only its own; the rest is the circuit's set-up, which",
        "the simulator does not charge.",
        "",
        "## Channels being opened, bytes of each flight",
        "",
        "| opened by | ClientHello | ServerHello to Finished | Finished, VERSIONS | tickets, VERSIONS, CERTS, AUTH_CHALLENGE, NETINFO | last flight's first record |",
        "| --- |" + " ---: |" * 5,
        *(f"| {who} | " + " | ".join(f"{size:,}" for size in sizes) + " |" for who, sizes in sorted(wire.flights.items())),
        "",
        "A listener between the processes noted the records. A client's last record holds NETINFO and CREATE2 (1,028 bytes and 22), a relay's CERTS,",
        "AUTHENTICATE and NETINFO. Certificates differ by some bytes from key to key.",
        "",
        "## Records of a loaded exit",
        "",
        "The simulator cuts records as tor does: a chunk of 4,048 bytes each, and one more cut where a call has written its 16,448 bytes. Each call ends 256",
        "bytes further into a chunk, so behind 4,070 bytes (with 22 of overhead) sizes come in pairs that make a chunk: 278 and 3,814, 534 and 3,558, 790 and 3,302.",
        "",
        "| bytes | share of records, measured | the model says |",
        "| ---: | ---: | --- |",
    ]
    total = wire.records.total()
    for size, count in wire.records.most_common(10):
        lines.append(f"| {size:,} | {100 * count / total:.1f} % | {'yes' if size in PREDICTED else ''} |")
    lines.append("")
    out.write_text("\n".join(lines))
    _chart(out.with_suffix(".svg"), downloads, loads)


def _chart(path: Path, downloads: Sequence[Row], loads: Sequence[str]) -> None:
    data = [{"load": row.load, "process": row.role, "cost": row.per_cell} for row in downloads]
    chart = (
        alt.Chart(alt.InlineData(values=data), width=680, height=220)
        .mark_point(size=40)
        .encode(
            x=alt.X("load:N", sort=list(loads), title="load", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("process:N", sort=list(ROLES)),
            y=alt.Y("cost:Q", scale=alt.Scale(type="log", domain=[4, 200], nice=False), title="main thread, µs for each cell"),
            color=alt.Color("process:N", sort=list(ROLES), title=None),
            shape=alt.Shape("process:N", sort=list(ROLES), title=None),
        )
    )
    path.write_text(to_svg({**chart.to_dict(), "config": config()}))
