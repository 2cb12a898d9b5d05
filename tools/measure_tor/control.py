# ruff: noqa: E501  (sentences and command lines)
"""A tor process's control port: questions, circuits, streams."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable


class Control:
    """One connection. Replies and events are told apart by a thread that reads them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("r", encoding="utf-8", newline="\r\n")
        self._replies: queue.Queue[list[str]] = queue.Queue()
        self._lock = threading.Lock()
        self.on_event: Callable[[str], None] = lambda _: None
        threading.Thread(target=self._read, daemon=True).start()

    @classmethod
    def open(cls, port: int, deadline: float) -> Control:
        """Connects and authenticates (nothing is asked for on this network) as soon as the process listens."""
        while True:
            try:
                control = cls(socket.create_connection(("127.0.0.1", port), timeout=None))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        control.ask("AUTHENTICATE")
        return control

    def _read(self) -> None:
        reply: list[str] = []
        try:
            while line := self._lines.readline():
                line = line.rstrip("\r\n")
                reply.append(line)
                if len(line) > 3 and line[3] == "+":
                    while (data := self._lines.readline().rstrip("\r\n")) != ".":
                        reply.append(data)
                elif len(line) > 3 and line[3] == " ":
                    if line.startswith("650"):
                        self.on_event(line)
                    else:
                        self._replies.put(reply)
                    reply = []
        except (OSError, ValueError):
            return

    def ask(self, command: str) -> list[str]:
        """Sends a command; the lines of its reply."""
        with self._lock:
            self._connection.sendall(command.encode() + b"\r\n")
            return self._replies.get(timeout=60)

    def send(self, command: str) -> None:
        """Sends a command from an event's handler, which must not wait: its reply is read and dropped by another thread."""
        threading.Thread(target=self.ask, args=(command,), daemon=True).start()

    def info(self, key: str) -> str:
        """`GETINFO`: the value; empty if there is none."""
        lines = self.ask(f"GETINFO {key}")
        if not lines[0].startswith("250") or lines[0] == "250 OK":
            return ""
        first = lines[0].split("=", 1)[1]
        return "\n".join([first, *lines[1:-1]]).strip() if lines[0][3] == "+" else first

    def has_descriptor(self, fingerprint: str) -> bool:
        """Whether this process knows the relay's keys."""
        return bool(self.info(f"md/id/{fingerprint}"))

    def circuit(self, path: list[str], patience: float = 60) -> str:
        """Builds a circuit over these relays and waits until it is open: its number."""
        done: queue.Queue[tuple[str, str]] = queue.Queue()

        def notice(event: str) -> None:
            words = event.split()
            if words[1] == "CIRC" and words[3] in {"BUILT", "FAILED", "CLOSED"}:
                done.put((words[2], words[3]))

        self.on_event = notice
        self.ask("SETEVENTS CIRC")
        number = self.ask(f"EXTENDCIRCUIT 0 {','.join('$' + relay for relay in path)}")[0].split()[-1]
        deadline = time.monotonic() + patience
        while True:
            which, what = done.get(timeout=max(0.1, deadline - time.monotonic()))
            if which == number:
                self.ask("SETEVENTS")
                if what != "BUILT":
                    raise RuntimeError(f"circuit {number} {what.lower()}")
                return number

    def circuits(self, path: list[str], count: int, patience: float = 120) -> list[str]:
        """Builds `count` circuits at once and waits until all of them are open or have failed: the numbers of those that are open."""
        pending: set[str] = set()
        ended: dict[str, str] = {}
        changed = threading.Condition()

        def notice(event: str) -> None:
            words = event.split()
            if words[1] == "CIRC" and words[3] in {"BUILT", "FAILED", "CLOSED"}:
                with changed:
                    ended.setdefault(words[2], words[3])
                    changed.notify()

        self.on_event = notice
        self.ask("SETEVENTS CIRC")
        relays = ",".join("$" + relay for relay in path)
        for _ in range(count):
            pending.add(self.ask(f"EXTENDCIRCUIT 0 {relays}")[0].split()[-1])
        with changed:
            changed.wait_for(lambda: pending <= ended.keys(), timeout=patience)
        self.ask("SETEVENTS")
        return [number for number in pending if ended.get(number) == "BUILT"]

    def attach_streams_to(self, circuit: str) -> None:
        """Every new stream of this client goes over this circuit."""

        def notice(event: str) -> None:
            words = event.split()
            if words[1] == "STREAM" and words[3] in {"NEW", "NEWRESOLVE"}:
                self.send(f"ATTACHSTREAM {words[2]} {circuit}")

        self.on_event = notice
        self.ask("SETEVENTS STREAM")
