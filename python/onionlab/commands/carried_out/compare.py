"""What `onionlab compare` does: the comparison on the terminal, and its page in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from onionlab.errors import ResultsError
from onionlab.report.comparison import write_comparison
from onionlab.results.comparison import compare
from onionlab.terminal.comparison import print_comparison

#: Files by which a results directory is known; a comparison is not written into one.
_RESULTS = ("plan.json", "runs")


def default_directory(directories: Sequence[Path]) -> Path:
    """Where a comparison goes unless told otherwise: ``out/compare-<first>-<second>...``."""
    return Path("out") / "-".join(["compare", *(path.resolve().name for path in directories)])


def answer(directories: Sequence[Path], out: Path | None, console: Console) -> None:
    """Compare results directories, print what came out, and write the page."""
    into = out if out is not None else default_directory(directories)
    if any((into / name).exists() for name in _RESULTS):
        raise ResultsError(f"{into} is a results directory; a comparison needs a folder of its own (--out)")
    comparison = compare(directories)
    with Console(stderr=True).status("drawing"):
        try:
            page = write_comparison(comparison, into)
        except OSError as error:
            raise ResultsError(f"cannot write {error.filename or into}: {error.strerror}") from error
    print_comparison(comparison, console)
    print(f"comparison: {page}")
