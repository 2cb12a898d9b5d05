"""How much of a connection waits in the queue of its own host's interface on Linux (TCP small queues), and its window then.

Two network namespaces, made here and removed again, are joined by a pair of virtual interfaces, each of which HTB holds to a
rate, with a plain queue, first in, first out, below it: so Mininet limits its links. Segments are not put together (GSO off).
Some flows send without end, under CUBIC; printed are each one's window, threshold, smoothed round trip, and how many of its
segments the queue holds. ``crates/net/src/tcp/tests/small_queues.rs`` and ``crates/net/tests/small_queues.rs`` have them.

Needs root, Linux with HTB, and the programs ``ip`` and ``tc``.

    python tools/measure_small_queues.py
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from measure_tcp import CONGESTION_CONTROL, SND_CWND, inside

#: Ends of the link: namespace, interface and address.
ENDS = (("onionlab-queue-a", "queue-a", "10.9.1.1"), ("onionlab-queue-b", "queue-b", "10.9.1.2"))

PORT = 5001

#: Offsets in ``struct tcp_info`` (linux/tcp.h): unacknowledged segments, smoothed round trip in us, threshold.
UNACKED, RTT, SSTHRESH = 24, 68, 76

#: ``SO_MEMINFO``, and the place of the memory that waits to leave among its numbers (``SK_MEMINFO_WMEM_ALLOC``).
SO_MEMINFO, WAITING = 55, 2

#: Memory of a segment of 1448 bytes.
SEGMENT = 2280


def _run(*arguments: str) -> None:
    subprocess.run(arguments, check=True)


@contextmanager
def link(rate: str) -> Iterator[None]:
    """Both namespaces, with a link of so many bits a second between them, as ``tc`` writes rates."""
    try:
        for namespace, _, _ in ENDS:
            _run("ip", "netns", "add", namespace)
        (first, ours, _), (second, theirs, _) = ENDS
        _run("ip", "-n", first, "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", second)
        for namespace, interface, address in ENDS:
            _run("ip", "-n", namespace, "addr", "add", f"{address}/30", "dev", interface)
            _run("ip", "-n", namespace, "link", "set", interface, "up", "gso_max_segs", "1")
            _run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "handle", "1:", "htb", "default", "1")
            limit = f"parent 1: classid 1:1 htb rate {rate} burst 15k quantum 1514"
            _run("tc", "-n", namespace, "class", "add", "dev", interface, *limit.split())
        yield
    finally:
        for namespace, _, _ in ENDS:
            with suppress(subprocess.CalledProcessError):
                _run("ip", "netns", "del", namespace)


def flows(count: int) -> list[socket.socket]:
    """Senders of so many flows without end, which end with this process."""
    listener = inside(ENDS[1][0], lambda: socket.create_server((ENDS[1][2], PORT)))

    def take(taken: socket.socket) -> None:
        with suppress(OSError):
            while taken.recv(1 << 16):
                pass

    def give(sender: socket.socket) -> None:
        with suppress(OSError):
            while True:
                sender.send(bytes(1 << 16))

    senders = []
    for _ in range(count):
        sender = inside(ENDS[0][0], socket.socket)
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
        sender.connect((ENDS[1][2], PORT))
        threading.Thread(target=take, args=(listener.accept()[0],), daemon=True).start()
        threading.Thread(target=give, args=(sender,), daemon=True).start()
        senders.append(sender)
    listener.close()
    return senders


def state(sender: socket.socket) -> tuple[int, int, float, int, int]:
    """Window and threshold in segments, smoothed round trip in ms, segments unacknowledged, and segments in the queue."""
    info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    window, threshold, rtt, unacked = (struct.unpack_from("I", info, at)[0] for at in (SND_CWND, SSTHRESH, RTT, UNACKED))
    memory = struct.unpack("9I", sender.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))
    return window, threshold, rtt / 1000, unacked, round(memory[WAITING] / SEGMENT)


def main() -> None:
    """Print what each flow does at each rate."""
    parser = argparse.ArgumentParser(description="What of TCP connections waits in the queue of their own host's interface.")
    parser.add_argument("--rates", nargs="+", default=["2mbit", "300mbit"], metavar="RATE", help="default: %(default)s")
    parser.add_argument("--flows", type=int, default=2, metavar="N", help="at a time (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="at each rate (default: %(default)s)")
    asked = parser.parse_args()
    print(f"Linux {os.uname().release}")
    for rate in asked.rates:
        with link(rate):
            senders = flows(asked.flows)
            for _ in range(5):
                time.sleep(asked.seconds / 5)
                told = [
                    f"window {window} (threshold {threshold if threshold < 1 << 30 else 'none'}), {rtt:.1f} ms, "
                    f"{unacked} unacknowledged, {queued} in the queue"
                    for window, threshold, rtt, unacked, queued in map(state, senders)
                ]
                print(f"{rate}: {'; '.join(told)}")
            for sender in senders:
                sender.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
