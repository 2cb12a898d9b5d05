"""A listener between two tor processes that passes bytes on, late if it shall, and notes the TLS records among them."""

from __future__ import annotations

import queue
import socket
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Record:
    """A TLS record as it stands on the wire."""

    time: float
    #: From the process that opened the connection.
    from_initiator: bool
    #: 20 change cipher spec, 22 handshake, 23 encrypted.
    kind: int
    #: With its header of five bytes.
    size: int


@dataclass
class Connection:
    """The records of one connection, in order of arrival."""

    opened: float
    records: list[Record] = field(default_factory=list)


class _Parser:
    """Cuts a byte stream into records."""

    def __init__(self, connection: Connection, from_initiator: bool) -> None:
        self._connection, self._from_initiator = connection, from_initiator
        self._header = b""
        self._left = 0

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            taken = data[at : at + 5 - len(self._header)]
            self._header += taken
            at += len(taken)
            if len(self._header) == 5:
                self._left = int.from_bytes(self._header[3:5], "big")
                record = Record(time.monotonic(), self._from_initiator, self._header[0], self._left + 5)
                self._connection.records.append(record)
                self._header = b""


class Tap:
    """Listens on one port of 127.0.0.1 and passes every connection on to another, either way each byte `delay` seconds later."""

    def __init__(self, listen: int, target: int, delay: float = 0.0) -> None:
        self.connections: list[Connection] = []
        self._target = target
        self._delay = delay
        self._listener = socket.create_server(("127.0.0.1", listen))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No new connections; those that are open end with their processes."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                initiator, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._open, args=(initiator,), daemon=True).start()

    def _open(self, initiator: socket.socket) -> None:
        connection = Connection(time.monotonic())
        try:
            responder = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            initiator.close()
            return
        self.connections.append(connection)
        for source, sink, first in ((initiator, responder, True), (responder, initiator, False)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            arguments = (source, pieces, self._delay, _Parser(connection, first))
            threading.Thread(target=_take, args=arguments, daemon=True).start()
            threading.Thread(target=_pass_on, args=(pieces, sink), daemon=True).start()


def _take(source: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]], delay: float, parser: _Parser) -> None:
    """Puts what comes into the queue, with when it is due; nothing at the end. Windows of circuits bound what waits."""
    data = b"-"
    while data:
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        parser.feed(data)
        pieces.put((time.monotonic() + delay, data))


def _pass_on(pieces: queue.SimpleQueue[tuple[float, bytes]], sink: socket.socket) -> None:
    try:
        while True:
            due, data = pieces.get()
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
    except OSError:
        sink.close()
