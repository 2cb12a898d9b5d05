"""Downloads over the network: a server behind the exit and a program that speaks SOCKS to the client's tor."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

REQUEST = struct.Struct("!QId")
BLOCK = bytes(1 << 16)


class Server:
    """Answers a request (bytes in all, bytes at once, seconds between two writes) with as many bytes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Takes no more requests."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        # Whoever has had enough closes, or resets.
        with connection, contextlib.suppress(ConnectionError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            asked = receive(connection, REQUEST.size)
            size, chunk, pause = REQUEST.unpack(asked)
            due = time.monotonic()
            while size > 0:
                step = min(size, chunk)
                connection.sendall(BLOCK[:step])
                size -= step
                if pause > 0:
                    due += pause
                    time.sleep(max(0.0, due - time.monotonic()))


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the connection ended early")
        data += more
    return data


def connect(connection: socket.socket, socks_port: int, server_port: int) -> None:
    """Asks the client's tor for a stream to the server, and waits until it is connected."""
    connection.connect(("127.0.0.1", socks_port))
    connection.sendall(b"\x05\x01\x00")
    receive(connection, 2)
    connection.sendall(b"\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + struct.pack("!H", server_port))
    answer = receive(connection, 10)
    if answer[1] != 0:
        raise ConnectionError(f"tor refused the connection: SOCKS reply {answer[1]}")


def download(socks_port: int, server_port: int, size: int, chunk: int = 1 << 16, pause: float = 0.0) -> float:
    """Loads `size` bytes, which the server writes `chunk` at a time: the seconds that it took."""
    start = time.monotonic()
    with socket.socket() as connection:
        connect(connection, socks_port, server_port)
        connection.sendall(REQUEST.pack(size, chunk, pause))
        left = size
        while left > 0:
            data = connection.recv(min(left, 1 << 18))
            if not data:
                raise ConnectionError(f"the download ended {left} bytes early")
            left -= len(data)
    return time.monotonic() - start
