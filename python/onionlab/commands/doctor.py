"""``onionlab doctor``: whether this machine has what is needed."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onionlab.commands import EXIT_FAILED


def doctor() -> None:
    """Look whether this machine has what onionlab needs."""
    from onionlab.commands.carried_out.doctor import examine

    table = Table(box=None, show_header=False)
    findings = examine()
    for finding in findings:
        mark = {True: "[green]ok[/green]", False: "[red]missing[/red]", None: "[yellow]optional[/yellow]"}[finding.fine]
        table.add_row(mark, finding.what, escape(finding.found))
    Console().print(table)
    if any(finding.fine is False for finding in findings):
        raise typer.Exit(EXIT_FAILED)
