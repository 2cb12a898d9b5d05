"""The summary of an experiment as a table on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onionlab.describe import headline, warnings
from onionlab.quantity import format_number
from onionlab.stats.metrics import WHOLE

if TYPE_CHECKING:
    from onionlab.results import Experiment

#: What the terminal shows of each kind of client, with the heading of its column.
COLUMNS = {
    "ttfb_median": "first byte\nmedian, s",
    "ttfb_p90": "first byte\np90, s",
    "ttlb_median": "last byte\nmedian, s",
    "ttlb_p90": "last byte\np90, s",
    "goodput": "goodput\nMbit/s",
    "failed": "failed\n%",
}


def cell(row: dict[str, Any] | None) -> str:
    """A mean with its interval, and the paired difference below it; a star where the interval of the difference excludes zero."""
    if row is None:
        return "–"
    text = format_number(row["mean"])
    if row["low"] is not None:
        text += f" ±{format_number(row['high'] - row['mean'], 2)}"
    if row["difference"] is not None:
        percent = row["difference_percent"]
        change = f"{percent:+.1f} %" if percent is not None else f"{row['difference']:+.3g}"
        low, high = row["difference_low"], row["difference_high"]
        clear = low is not None and (low > 0 or high < 0)
        text += f"\n{change}{' *' if clear else ''}"
    return text


def print_summary(experiment: Experiment, console: Console) -> None:
    """Print one table: a block per kind of client, a row per treatment."""
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    # A pipe has no width of its own: let the table be as wide as it needs.
    wide = console if console.is_terminal else Console(file=console.file, width=160)
    table = Table(box=box.SIMPLE_HEAD, title=escape(experiment.title), title_justify="left", title_style="bold")
    table.add_column("clients")
    table.add_column("treatment")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    for kind in [*experiment.kinds, WHOLE]:
        for number, treatment in enumerate(experiment.treatments):
            cells = [cell(rows.get((kind, treatment, metric))) for metric in COLUMNS]
            table.add_row(escape(kind) if number == 0 else "", escape(treatment), *cells)
        table.add_section()
    wide.print(table)
    wide.print(escape(headline(experiment)), soft_wrap=True, highlight=False)
    several = experiment.plan.networks > 1
    wide.print(
        f"± 95 % interval over sampled networks; second line: paired difference to “{escape(experiment.treatments[0])}”"
        f"{', * where its interval excludes zero' if several else ''}",
        soft_wrap=True,
        highlight=False,
    )
    for warning in warnings(experiment):
        wide.print(f"[yellow]note:[/yellow] {escape(warning)}", soft_wrap=True, highlight=False)
