"""Measures what an open connection costs a real tor relay: memory while it is idle, and the main thread's time for opening it.

    .venv/bin/python tools/measure_tor/connections.py

It starts one relay in a temporary folder, opens connections to it as a client does (TLS, VERSIONS, NETINFO) and ends it. It
needs the program ``tor`` and Linux. It takes some minutes. The figures stand in ``docs/models/links.md``
and ``docs/models/cpu.md``.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from network import Refused, find, free_port, version

#: Connections that are opened before any is counted, and then in each of the steps.
FIRST, STEP, STEPS = 200, 500, 3
#: Cells of the link handshake (tor-spec, 4).
VERSIONS, NETINFO = 7, 8
#: A directory authority that isn't there: the relay is to know no network.
NOBODY = "nobody orport=9 no-v2 v3ident={0} 127.0.0.1:9 {0}".format("0" * 39 + "1")
RELAY = """
DataDirectory {folder}
ORPort 127.0.0.1:{port}
Nickname alone
AssumeReachable 1
PublishServerDescriptor 0
SocksPort 0
TestingTorNetwork 1
DoSConnectionEnabled 0
DirAuthority {nobody}
Log notice file {folder}/notice.log
"""


def own_bytes(pid: int) -> int:
    """Memory that the process has written, and that is its alone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty:"))


def main_thread(pid: int) -> float:
    """Seconds for which its main thread has computed."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def take(connection: ssl.SSLSocket, count: int) -> bytes:
    """So many bytes."""
    taken = b""
    while len(taken) < count:
        piece = connection.recv(count - len(taken))
        if not piece:
            raise Refused("The relay has closed a connection: its log says why.")
        taken += piece
    return taken


def connect(port: int) -> ssl.SSLSocket:
    """A connection that is open at both ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="www.example.com")
    connection.sendall(struct.pack(">HBHHH", 0, VERSIONS, 4, 4, 5))
    take(connection, struct.unpack(">HBH", take(connection, 5))[2])
    command = VERSIONS
    while command != NETINFO:
        command = take(connection, 5)[4]
        take(connection, struct.unpack(">H", take(connection, 2))[0] if command >= 128 else 509)
    addresses = struct.pack(">IBB4sBBB4s", 0, 4, 4, bytes([127, 0, 0, 1]), 1, 4, 4, bytes([127, 0, 0, 2]))
    connection.sendall(struct.pack(">IB", 0, NETINFO) + addresses.ljust(509, b"\0"))
    return connection


def measure(port: int, pid: int) -> None:
    """Opens connections step by step and says what each has cost."""
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.3)
    open_ones = [connect(port) for _ in range(FIRST)]
    for _ in range(STEPS):
        time.sleep(2)
        memory, computing = own_bytes(pid), main_thread(pid)
        open_ones += [connect(port) for _ in range(STEP)]
        computing = (main_thread(pid) - computing) / STEP
        time.sleep(2)
        print(
            f"{len(open_ones)} open: each {(own_bytes(pid) - memory) / STEP:.0f} bytes, {computing * 1e6:.0f} microseconds",
            flush=True,
        )
    for connection in open_ones:
        connection.close()


def main() -> int:
    """The command; 1 if something is missing."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 10_000), limit))
    try:
        tor = find("tor")
        print(version(tor))
        with tempfile.TemporaryDirectory(prefix="onionlab-") as folder:
            port = free_port()
            configuration = Path(folder) / "torrc"
            configuration.write_text(RELAY.format(folder=folder, port=port, nobody=NOBODY), encoding="ascii")
            with subprocess.Popen([tor, "-f", configuration], stdout=subprocess.DEVNULL) as relay:
                try:
                    measure(port, relay.pid)
                finally:
                    relay.terminate()
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
