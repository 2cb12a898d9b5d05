"""How long bursts of cells wait for Nagle's algorithm and delayed acknowledgements, on Linux's own TCP.

Two network namespaces, made here and removed again, have a TUN device each; this program carries packets from one to the other
and lets each wait for a fixed time. So the kernel's TCP at both ends meets a path of known latency, whatever queueing
disciplines the kernel has. Each 10 ms (KIST's interval in tor 0.3.5) one end writes a burst of cells as a record of TLS; printed
are quantiles of the times from each write to the arrival of its last byte. ``crates/net/src/tcp/tests/behaviour.rs`` holds our
TCP against them.

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
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Bytes of a cell, and what a record of TLS 1.2 with AES-GCM adds: header, nonce and tag (TLS 1.3: 22).
CELL, RECORD = 514, 29

#: Cells of a burst: always so many, or one of these, drawn.
BURSTS = {"1": [1], "3": [3], "7": [7], "mixed": [1, 2, 3, 4, 5, 6, 8, 12]}

#: Bursts at the beginning that are not counted: the window opens, and Linux's quick acknowledgements are used up.
LEFT_OUT = 50

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)

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


def _carry(devices: list[int], delay: float, over: threading.Event) -> None:
    """Takes packets from each device to the other one, ``delay`` seconds later."""
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
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
                    heapq.heappush(waiting, (time.monotonic() + delay, count, other, packet))
            except BlockingIOError:
                pass


@contextmanager
def connection(delay: float, nagle: bool) -> Iterator[tuple[socket.socket, socket.socket]]:
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
        carrier = threading.Thread(target=_carry, args=(devices, delay, over))
        carrier.start()
        try:
            listener = inside(ENDS[1][0], socket.socket)
            listener.bind((ENDS[1][1], 7000))
            listener.listen()
            writer = inside(ENDS[0][0], socket.socket)
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


def times(delay: float, interval: float, nagle: bool, cells: list[int], bursts: int) -> list[float]:
    """From each write to the arrival of its last byte, in ms, in order of size."""
    draw = random.Random(1)
    arrived: list[tuple[float, int]] = []

    def read(reader: socket.socket) -> None:
        total = 0
        while data := reader.recv(65536):
            total += len(data)
            arrived.append((time.monotonic(), total))

    written: list[tuple[float, int]] = []
    with connection(delay, nagle) as (writer, reader):
        thread = threading.Thread(target=read, args=(reader,))
        thread.start()
        begin, total = time.monotonic(), 0
        for burst in range(bursts):
            time.sleep(max(0.0, begin + burst * interval - time.monotonic()))
            data = bytes(draw.choice(cells) * CELL + RECORD)
            total += len(data)
            written.append((time.monotonic(), total))
            writer.sendall(data)
        time.sleep(1)
        writer.shutdown(socket.SHUT_WR)
        thread.join()
    found, place = [], 0
    for at, end in written:
        while arrived[place][1] < end:
            place += 1
        found.append(1000 * (arrived[place][0] - at))
    return sorted(found[LEFT_OUT:])


def main() -> None:
    """Measure each kind of burst with Nagle's algorithm and without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=12.5, metavar="MS", help="one way (default: %(default)s)")
    parser.add_argument("--interval", type=float, default=10.0, metavar="MS", help="between bursts (default: %(default)s)")
    parser.add_argument("--bursts", type=int, default=2000, help="of each kind (default: %(default)s)")
    given = parser.parse_args()
    if given.bursts <= LEFT_OUT or given.delay < 0 or given.interval <= 0:
        parser.error(f"more than {LEFT_OUT} bursts, an interval above 0 and a delay that is not negative are needed")
    about = f"Linux {os.uname().release}, {given.delay:g} ms one way, a burst each {given.interval:g} ms"
    print(f"{about}; quantiles {', '.join(f'{one:g}' for one in QUANTILES)} in ms")
    for nagle in (True, False):
        for name, cells in BURSTS.items():
            found = times(given.delay / 1000, given.interval / 1000, nagle, cells, given.bursts)
            shown = ", ".join(f"{found[int(quantile * len(found))]:.1f}" for quantile in QUANTILES)
            print(f"{'with' if nagle else 'without'} Nagle, {name} cells: {shown}")


if __name__ == "__main__":
    main()
