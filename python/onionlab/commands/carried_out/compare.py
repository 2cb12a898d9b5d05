"""What `onionlab compare` does: the comparison on the terminal, and its page in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onionlab.errors import ResultsError
from onionlab.report.comparison import caveats, pairing, write_comparison
from onionlab.results import cost
from onionlab.results.comparison import Comparison, compare
from onionlab.terminal.summary import CLIENT_COLUMNS, cell

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
    show(comparison, console)
    print(f"comparison: {page}")


def show(comparison: Comparison, console: Console) -> None:
    """Print what differs, how variants are paired, and the figures of the clients."""
    wide = console if console.is_terminal else Console(file=console.file, width=160)
    differing = Table(box=box.SIMPLE_HEAD, title="What differs", title_justify="left")
    differing.add_column("key")
    for label in comparison.labels:
        differing.add_column(escape(label), overflow="fold")
    for row in comparison.differing.iter_rows():
        differing.add_row(escape(row[0]), *("–" if value is None else escape(value) for value in row[1:]))
    wide.print(differing if comparison.differing.height else "\nNothing differs between the scenarios.")
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in comparison.summary.iter_rows(named=True)}
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("clients")
    table.add_column("variant")
    for heading in CLIENT_COLUMNS.values():
        table.add_column(heading, justify="right")
    for kind in comparison.kinds:
        for number, label in enumerate(comparison.labels):
            cells = [cell(rows.get((kind, label, metric))) for metric in CLIENT_COLUMNS]
            table.add_row(escape(kind) if number == 0 else "", escape(label), *cells)
        table.add_section()
    wide.print(table)
    base = escape(comparison.base.label)
    for line in (
        "± or (from–to) 95 % interval over sampled networks",
        f"second line: difference to “{base}”, * where its 95 % interval excludes zero",
        *(escape(sentence) for sentence in pairing(comparison)),
        *([escape(taken)] if (taken := cost.compared(comparison)) else []),
        *(f"[yellow]note:[/yellow] {escape(sentence)}" for sentence in caveats(comparison)),
    ):
        wide.print(line, soft_wrap=True, highlight=False)
