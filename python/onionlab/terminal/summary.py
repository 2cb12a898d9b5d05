"""The summary of an experiment as a table on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onionlab.plan import in_words
from onionlab.quantity import decimals, format_fixed, format_number
from onionlab.report import sweep
from onionlab.report.content import repeated
from onionlab.results import cost
from onionlab.results.describe import headline, warnings
from onionlab.stats.metrics import WHOLE

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment

#: What the terminal shows of each kind of client, with the heading of its column.
CLIENT_COLUMNS = {
    "ttfb_median": "first byte\nmedian, s",
    "ttfb_p90": "first byte\np90, s",
    "ttlb_median": "last byte\nmedian, s",
    "ttlb_p90": "last byte\np90, s",
    "goodput": "goodput\nMbit/s",
    "failed": "failed\n%",
}

#: What it shows of the network.
NETWORK_COLUMNS = {
    "goodput": "goodput\nMbit/s",
    "utilisation_guard": "guards\n% used",
    "utilisation_middle": "middles\n% used",
    "utilisation_exit": "exits\n% used",
    "utilisation_guard_exit": "guard-exits\n% used",
}


def cell(row: dict[str, Any] | None) -> str:
    """A mean with its interval, and the paired difference below it; a star where the interval of the difference excludes zero."""
    if row is None:
        return "–"
    text = format_number(row["mean"])
    if row["low"] is not None and row["method"] == "log-normal":
        text += f" ({format_number(row['low'], 2)}–{format_number(row['high'], 2)})"
    elif row["low"] is not None and row["high"] > row["mean"]:
        text += f" ±{format_number(row['high'] - row['mean'], 2)}"
    if row["difference"] is not None:
        percent = row["difference_percent"]
        relative = percent is not None and row["unit"] != "%"
        change = f"{format_fixed(percent, 1, signed=True)} %" if relative else _plain(row["difference"])
        low, high = row["difference_low"], row["difference_high"]
        clear = low is not None and (low > 0 or high < 0)
        text += f"\n{change}{' *' if clear else ''}"
    return text


def _plain(difference: float) -> str:
    return format_fixed(difference, decimals(difference, 2), signed=True)


def _table(experiment: Experiment, columns: dict[str, str], kinds: list[str], first: str) -> Table:
    """A block per kind, a row per treatment."""
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    shown = {
        key: heading
        for key, heading in columns.items()
        if any((kind, t, key) in rows for kind in kinds for t in experiment.treatments)
    }
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(first)
    table.add_column("treatment")
    for heading in shown.values():
        table.add_column(heading, justify="right")
    for kind in kinds:
        for number, treatment in enumerate(experiment.treatments):
            cells = [cell(rows.get((kind, treatment, metric))) for metric in shown]
            table.add_row(escape(kind) if number == 0 else "", escape(treatment), *cells)
        table.add_section()
    return table


def print_summary(experiment: Experiment, console: Console) -> None:
    """Print what each kind of client met, and what the network carried."""
    # A pipe has no width of its own: let the tables be as wide as they need.
    wide = console if console.is_terminal else Console(file=console.file, width=160)

    def say(text: str) -> None:
        wide.print(text, soft_wrap=True, highlight=False)

    say(f"\n[bold]{escape(experiment.title)}[/bold]")
    if experiment.swept:
        _print_sweep(experiment, wide)
        _print_notes(experiment, sweep.warnings(experiment), say)
        return
    say(escape(headline(experiment)))
    wide.print(_table(experiment, CLIENT_COLUMNS, experiment.kinds, "clients"))
    wide.print(_table(experiment, NETWORK_COLUMNS, [WHOLE], ""))
    several = experiment.repeats > 1
    if several:
        skewed = (experiment.summary["method"] == "log-normal").any()
        say(f"±{' or (from–to)' if skewed else ''} 95 % interval over {repeated(experiment)}")
    if len(experiment.treatments) > 1:
        star = ", * where its 95 % interval excludes zero" if several else ""
        say(f"second line: paired difference to “{escape(experiment.treatments[0])}”{star}")
    _print_notes(experiment, warnings(experiment), say)


def _print_notes(experiment: Experiment, notes: list[str], say: Callable[[str], None]) -> None:
    """What runs took for each cell, and what to keep in mind."""
    if taken := cost.sentence(experiment):
        say(escape(taken))
    for note in notes:
        say(f"[yellow]note:[/yellow] {escape(note)}")


def _print_sweep(experiment: Experiment, console: Console) -> None:
    """Print a table for each kind of client: a block per point, a row per treatment."""
    rows = {(row["kind"], row["point"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    for kind in experiment.kinds:
        table = Table(box=box.SIMPLE_HEAD, title=escape(kind), title_justify="left")
        table.add_column("point")
        table.add_column("treatment")
        for heading in CLIENT_COLUMNS.values():
            table.add_column(heading, justify="right")
        for point, values in enumerate(experiment.plan.points):
            for number, treatment in enumerate(experiment.treatments):
                cells = [cell(rows.get((kind, point, treatment, metric))) for metric in CLIENT_COLUMNS]
                table.add_row(escape(in_words(values)) if number == 0 else "", escape(treatment), *cells)
            table.add_section()
        console.print(table)
    if experiment.missing:
        missing = f"{len(experiment.missing)} of {len(experiment.plan.runs)} runs are missing"
        console.print(f"[yellow]note:[/yellow] {missing}", soft_wrap=True, highlight=False)
