"""How far a transfer is, shown on a terminal once it takes longer than two seconds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

#: Seconds that pass without a bar.
QUIET = 2.0


class FetchDisplay:
    """A bar with bytes and speed. Use it as a context manager and hand `moved` to `onionlab.live_network.fetch.consensus`.

    An archive is left as soon as the document has been found in it, so that its bar rarely reaches the end.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def moved(self, received: int, total: int | None) -> None:
        """Bring the bar up to date; it appears when it is worth it."""
        if self._bar is None:
            if not self._console.is_terminal or time.monotonic() - self._start < QUIET:
                return
            self._bar = Progress(
                TextColumn("fetching"),
                BarColumn(bar_width=None),
                DownloadColumn(binary_units=True),
                TransferSpeedColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=received, total=total)
