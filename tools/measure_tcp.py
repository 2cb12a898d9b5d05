"""What Linux's own TCP does: how long cells wait for Nagle's algorithm and delayed acknowledgements, how its window grows.

Two network namespaces, made here and removed again, have a TUN device each; this program carries packets from one to the other
and lets each wait for a fixed time. So the kernel's TCP at both ends meets a path of known latency, whatever queueing
disciplines the kernel has. One end, or both, write records of TLS with cells at given times; printed are quantiles of the times
from each write to the arrival of its last byte. ``crates/net/src/tcp/tests/waiting.rs`` holds our TCP against them. Or
one end sends a file over a narrow link with a queue before it; printed is its congestion window each 100 ms, which
``tests/windows.rs`` there has. The congestion control is CUBIC, whatever the machine's default is: BBR paces what it sends.

Needs root, Linux and the program ``ip``.

    python tools/measure_tcp.py
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Bytes of a cell, and what a record of TLS 1.3 adds: header, type and tag.
CELL, RECORD = 514, 22

#: A flow's writes: when, in ms, and how many bytes.
Writes = list[tuple[float, int]]

#: How long writes go on that are repeated at an interval, and how many of the first are not counted: the window opens, and
#: Linux's quick acknowledgements are used up.
LASTS_MS, LEFT_OUT = 20_000.0, 50

#: Cells of a burst, one of which is drawn.
MIXED = (1, 2, 3, 4, 5, 6, 8, 12)

#: A download over a narrow link: how many bytes, for how long its window is looked at, and how often, in s.
FILE, LOOKED_AT, EACH = 4_000_000, 3.0, 0.1

#: Offset of ``tcpi_snd_cwnd`` in ``struct tcp_info`` (linux/tcp.h).
SND_CWND = 80

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)

#: Congestion control of both ends.
CONGESTION_CONTROL = b"cubic"

#: Ends of the path: namespace and address.
ENDS = (("onionlab-tcp-a", "10.9.0.1"), ("onionlab-tcp-b", "10.9.0.2"))

#: ``TUNSETIFF`` with ``IFF_TUN | IFF_NO_PI`` (linux/if_tun.h).
TUNSETIFF, TUN_WITHOUT_HEADER = 0x400454CA, 0x1001

libc = ctypes.CDLL(None, use_errno=True)


def inside(namespace: str, action: Callable[[], T]) -> T:
    """What ``action`` gives, done within a network namespace by this thread."""
    with Path("/proc/thread-self/ns/net").open("rb") as own, Path("/run/netns", namespace).open("rb") as other:
        if libc.setns(other.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        try:
            return action()
        finally:
            libc.setns(own.fileno(), 0)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _device() -> int:
    """A TUN device in the namespace of this thread; its packets are read from and written to what is returned."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", b"path", TUN_WITHOUT_HEADER))
    return descriptor


@dataclass(frozen=True)
class Bottleneck:
    """A link from the first end to the second: bytes a second, and bytes that may wait before it."""

    rate: float
    queue: int


def _carry(devices: list[int], delay: float, bottleneck: Bottleneck | None, over: threading.Event) -> None:
    """Takes packets from each device to the other one, ``delay`` seconds later and by way of the bottleneck."""
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    free_at = 0.0
    while not over.is_set():
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(waiting)
            os.write(device, packet)
        # Awake a little early, since a sleep may last longer than it should.
        until = waiting[0][0] - time.monotonic() - 0.0002 if waiting else 0.01
        for ready in select.select(devices, [], [], min(0.01, max(0.0, until)))[0]:
            other = devices[1 - devices.index(ready)]
            try:
                while True:
                    packet = os.read(ready, 2000)
                    count += 1
                    leaves = time.monotonic()
                    if bottleneck is not None and ready == devices[0]:
                        if max(0.0, free_at - leaves) * bottleneck.rate + len(packet) > bottleneck.queue:
                            continue
                        leaves = free_at = max(free_at, leaves) + len(packet) / bottleneck.rate
                    heapq.heappush(waiting, (leaves + delay, count, other, packet))
            except BlockingIOError:
                pass


@contextmanager
def connection(delay: float, nagle: bool, bottleneck: Bottleneck | None = None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two sockets that are connected by a path of ``delay`` seconds one way."""
    made: list[str] = []
    over = threading.Event()
    try:
        devices = []
        for name, address in ENDS:
            _ip("netns", "add", name)
            made.append(name)
            devices.append(inside(name, _device))
            _ip("-n", name, "addr", "add", f"{address}/30", "dev", "path")
            _ip("-n", name, "link", "set", "path", "up")
        carrier = threading.Thread(target=_carry, args=(devices, delay, bottleneck, over))
        carrier.start()
        try:
            listener = inside(ENDS[1][0], socket.socket)
            # What it accepts has the same.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
            listener.bind((ENDS[1][1], 7000))
            listener.listen()
            writer = inside(ENDS[0][0], socket.socket)
            writer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
            writer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(not nagle))
            writer.connect((ENDS[1][1], 7000))
            reader, _ = listener.accept()
            with listener, writer, reader:
                yield writer, reader
        finally:
            over.set()
            carrier.join()
    finally:
        for name in made:
            _ip("netns", "del", name)


def repeated(interval: float, cells: tuple[int, ...] = (), seed: int = 1) -> Writes:
    """One of so many cells at an interval in ms."""
    draw = random.Random(seed)
    return [(i * interval, draw.choice(cells) * CELL + RECORD) for i in range(int(LASTS_MS / interval) if cells else 0)]


def begins(downloads: int = 100) -> tuple[Writes, Writes, list[int]]:
    """Downloads of a second, SENDMEs against them, and 1 to 9 ms after the last SENDME of each a BEGIN.

    What the server writes, what the client does, and which of the client's writes are the BEGINs.
    """
    draw = random.Random(1)
    data: Writes = []
    answers: Writes = []
    marked = []
    for download in range(downloads):
        at = first = 1500.0 * download
        while at < first + 1000:
            data.append((at, draw.choice((36, 38, 40, 42)) * CELL + 5 * RECORD))
            at += 8 + 4 * draw.random()
        last, at = data[-1][0] + 13, first + 13
        while at < last - 1:
            answers.append((at, CELL + RECORD))
            at += 6 + 8 * draw.random()
        marked.append(len(answers) + 1)
        answers += [(last, CELL + RECORD), (last + 1 + 8 * draw.random(), CELL + RECORD)]
    return data, answers, marked


def times(delay: float, nagle: bool, flows: tuple[Writes, Writes]) -> list[list[float]]:
    """From each write of either end to the arrival of its last byte, in ms."""
    arrived: list[list[tuple[float, int]]] = [[], []]
    written: list[list[tuple[float, int]]] = [[], []]

    def read(end: int, reader: socket.socket) -> None:
        total = 0
        while data := reader.recv(65536):
            total += len(data)
            arrived[end].append((time.monotonic(), total))

    def write(end: int, writer: socket.socket, begin: float) -> None:
        total = 0
        for at, size in flows[end]:
            time.sleep(max(0.0, begin + at / 1000 - time.monotonic()))
            total += size
            written[end].append((time.monotonic(), total))
            writer.sendall(bytes(size))

    with connection(delay, nagle) as ends:
        readers = [threading.Thread(target=read, args=one) for one in enumerate(ends)]
        begin = time.monotonic() + 0.1
        writers = [threading.Thread(target=write, args=(*one, begin)) for one in enumerate(ends)]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        time.sleep(1)
        for one in ends:
            one.shutdown(socket.SHUT_WR)
        for thread in readers:
            thread.join()
    found = []
    for end in (0, 1):
        place, waited = 0, []
        for at, last in written[end]:
            while arrived[1 - end][place][1] < last:
                place += 1
            waited.append(1000 * (arrived[1 - end][place][0] - at))
        found.append(waited)
    return found


def windows(delay: float, bottleneck: Bottleneck) -> list[int]:
    """The congestion window of a download in segments, at its beginning and then each `EACH` seconds."""
    found = []
    with connection(delay, True, bottleneck) as (writer, reader):

        def read() -> None:
            while reader.recv(1 << 20):
                pass

        threads = [threading.Thread(target=read), threading.Thread(target=writer.sendall, args=(bytes(FILE),))]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for number in range(round(LOOKED_AT / EACH)):
            time.sleep(max(0.0, begin + number * EACH - time.monotonic()))
            info = writer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            found.append(int(struct.unpack_from("=I", info, SND_CWND)[0]))
        threads[1].join()
        writer.shutdown(socket.SHUT_WR)
        threads[0].join()
    return found


def narrow_links() -> Iterator[tuple[str, Callable[[], list[int]]]]:
    """Names of downloads over a narrow link, and what measures their windows."""
    for megabits, queue, delay in ((20, 200_000, 40), (20, 400_000, 40), (20, 400_000, 100), (100, 1_000_000, 40)):
        link = Bottleneck(megabits * 125_000, queue)
        name = f"window each 100 ms over {megabits} Mbit/s, {queue // 1000} kB of queue, {delay} ms one way"
        yield name, partial(windows, delay / 1000, link)


def cases(delay: float) -> Iterator[tuple[str, Callable[[], list[list[float]]]]]:
    """Names, and what measures the times of either end's writes that count."""

    def measured(nagle: bool, *flows: Writes) -> Callable[[], list[list[float]]]:
        both = (flows[0], flows[1] if len(flows) > 1 else [])
        return lambda: [one[LEFT_OUT:] for one in times(delay, nagle, both)]

    for nagle in (True, False):
        for cells in ((1,), (3,), (7,), MIXED):
            name = "mixed" if len(cells) > 1 else cells[0]
            yield f"{'with' if nagle else 'without'} Nagle, {name} cells each 10 ms", measured(nagle, repeated(10, cells))
    one, seven = repeated(60, (1,)), repeated(60, (7,))
    yield "1 cell each 60 ms", measured(True, one)
    yield "7 cells each 60 ms", measured(True, seven)
    yield "1 cell each 60 ms, against 1 each 170 ms", measured(True, one, repeated(170, (1,), seed=2))
    yield "7 cells each 60 ms, against 1 each 97 ms", measured(True, seven, repeated(97, (1,), seed=2))
    many = repeated(10, (5, 10, 15, 20))
    yield "5 to 20 cells each 10 ms, against 1 each 20 ms", measured(True, many, repeated(20, (1,), seed=2))

    def begin() -> list[list[float]]:
        data, answers, marked = begins()
        waited = times(delay, True, (data, answers))[1]
        return [[waited[one] for one in marked], []]

    yield "a BEGIN after the last SENDME of a download", begin


def main() -> None:
    """Measure each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=12.5, metavar="MS", help="one way (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose name contains this")
    given = parser.parse_args()
    if not given.delay >= 0:
        parser.error("the delay cannot be negative")
    chosen = [(name, measure) for name, measure in cases(given.delay / 1000) if given.only in name]
    narrow = [(name, measure) for name, measure in narrow_links() if given.only in name]
    if not chosen and not narrow:
        names = [name for name, _ in (*cases(0), *narrow_links())]
        parser.error(f"no case's name contains {given.only!r}; the cases are: " + "; ".join(names))
    about = f"Linux {os.uname().release}, {given.delay:g} ms one way"
    print(f"{about}; quantiles {', '.join(f'{one:g}' for one in QUANTILES)} in ms")
    for name, measure in chosen:
        for end, waited in enumerate(map(sorted, measure())):
            if waited:
                shown = ", ".join(f"{waited[int(quantile * len(waited))]:.1f}" for quantile in QUANTILES)
                print(f"{name}{', the other way' if end else ''}: {shown}", flush=True)
    for name, look in narrow:
        print(f"{name}: {', '.join(map(str, look()))}", flush=True)


if __name__ == "__main__":
    main()
