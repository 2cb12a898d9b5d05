"""The summary of an experiment as a table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from onionlab.plan import in_words
from onionlab.quantity import decimals, format_fixed, format_number
from onionlab.report import sweep
from onionlab.results import cost
from onionlab.results.describe import goodput_mark, headline, repeated, warnings
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


def cell(row: dict[str, Any] | None, repeats: int | None = None, pairs: int | None = None, mark: str = "") -> str:
    """A mean with its interval, and the paired difference below it; a star where the interval of the difference excludes zero.

    Parameters
    ----------
    row : dict or None
        Of a summary.
    repeats : int, optional
        How many networks (or seeds) there are; a mean over fewer says over how many it is.
    pairs : int, optional
        The same of the difference.
    mark : str
        What stands behind the mean.
    """
    if row is None:
        return "–"
    text = f"{format_number(row['mean'])}{mark}"
    if row["low"] is not None and row["method"] == "log-normal":
        text += f" ({format_number(row['low'], 2)}–{format_number(row['high'], 2)})"
    elif row["low"] is not None and row["high"] > row["mean"]:
        text += f" ±{format_number(row['high'] - row['mean'], 2)}"
    text += _fewer(row["networks"], repeats)
    if row["difference"] is not None:
        percent = row["difference_percent"]
        relative = percent is not None and row["unit"] != "%"
        change = f"{format_fixed(percent, 1, signed=True)} %" if relative else _plain(row["difference"])
        low, high = row["difference_low"], row["difference_high"]
        clear = low is not None and (low > 0 or high < 0)
        text += f"\n{change}{' *' if clear else ''}{_fewer(row['difference_networks'], pairs)}"
    return text


def _fewer(count: int, of: int | None) -> str:
    return "" if of is None or count >= of else f" n={count}"


def fewer_words(cells: Iterable[str], repeated: str) -> list[str]:
    """What ``n=`` in `cell` means, where one of them has it; ``repeated`` is what means are taken over."""
    if not any(" n=" in text for text in cells):
        return []
    return [f"n=: over so many of the {repeated} only, because the others have no value (of a difference: not both values)"]


def _plain(difference: float) -> str:
    return format_fixed(difference, decimals(difference, 2), signed=True)


def figures_table(
    console: Console,
    names: Sequence[str],
    columns: Mapping[str, str],
    blocks: Sequence[Sequence[tuple[str, str, Sequence[str]]]],
    title: str | None = None,
) -> Table:
    """A table of figures as wide as the console: a block for each of ``blocks``, whose rows are two names and their `cell`s.

    Where a line is too short for it, what belongs to one figure stands one below the other; nothing is cut off.
    """
    table = _figures_table(names, columns, blocks, title, str)
    return table if width_of(console, table) <= console.width else _figures_table(names, columns, blocks, title, stacked)


def narrow_table(
    names: Sequence[str], columns: Mapping[str, str], blocks: Sequence[Sequence[tuple[str, str, Sequence[str]]]]
) -> Table:
    """`figures_table` where lines are short."""
    return _figures_table(names, columns, blocks, None, stacked)


def width_of(console: Console, table: Table) -> int:
    """How wide a table is that breaks no line."""
    return Measurement.get(console, console.options.update_width(10_000), table).maximum


def _figures_table(
    names: Sequence[str],
    columns: Mapping[str, str],
    blocks: Sequence[Sequence[tuple[str, str, Sequence[str]]]],
    title: str | None,
    form: Callable[[str], str],
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 0 if form is stacked else 1))
    for name in names:
        table.add_column(name, overflow="fold")
    for heading in columns.values():
        table.add_column(heading, justify="right", overflow="fold")
    for block in blocks:
        for number, (name, other, cells) in enumerate(block):
            table.add_row(escape(name) if number == 0 else "", escape(other), *map(form, cells))
        table.add_section()
    return table


def stacked(text: str) -> str:
    r"""A `cell` with its interval on a line of its own, so that differences of all figures stand beside each other.

    Examples
    --------
    >>> stacked("4.52 ±1.9 n=4\n+11.9 % n=1").splitlines()
    ['4.52', '±1.9 n=4', '+11.9 % n=1']
    """
    figure, _, difference = text.partition("\n")
    mean, _, interval = figure.partition(" ")
    return f"{mean}\n{interval}\n{difference}".rstrip("\n")


def _table(console: Console, experiment: Experiment, columns: dict[str, str], kinds: list[str], first: str) -> list[str]:
    """Print a block per kind, a row per treatment; return the figures."""
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    shown = {
        key: heading
        for key, heading in columns.items()
        if any((kind, t, key) in rows for kind in kinds for t in experiment.treatments)
    }
    blocks = []
    for kind in kinds:
        block = []
        for treatment in experiment.treatments:
            found = {metric: rows.get((kind, treatment, metric)) for metric in shown}
            block.append((kind, treatment, cells_of(experiment, treatment, kind, found)))
        blocks.append(block)
    console.print(figures_table(console, (first, "treatment"), shown, blocks))
    return [cell for block in blocks for _, _, cells in block for cell in cells]


def cells_of(
    experiment: Experiment,
    treatment: str,
    kind: str,
    rows: Mapping[str, dict[str, Any] | None],
    over: tuple[int, int | None] | None = None,
) -> list[str]:
    """The figures of a treatment and kind of client, given their rows by metric.

    ``over``: how many networks there are, and how many pairs of them, as for `cell`; those of the experiment by default.
    """
    repeats, pairs = (experiment.repeats, experiment.repeats) if over is None else over
    marks = {"goodput": goodput_mark(experiment, treatment, kind)}
    return [cell(row, repeats, pairs, marks.get(metric, "")) for metric, row in rows.items()]


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
    written = _table(wide, experiment, CLIENT_COLUMNS, experiment.kinds, "clients")
    written += _table(wide, experiment, NETWORK_COLUMNS, [WHOLE], "")
    several = experiment.repeats > 1
    if several:
        skewed = (experiment.summary["method"] == "log-normal").any()
        say(f"±{' or (from–to)' if skewed else ''} 95 % interval over {repeated(experiment)}")
    if len(experiment.treatments) > 1:
        star = ", * where its 95 % interval excludes zero" if several else ""
        say(f"second line: paired difference to “{escape(experiment.treatments[0])}”{star}")
    for line in fewer_words(written, f"{experiment.repeats} {repeated(experiment)}"):
        say(line)
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
    names, points = ("point", "treatment"), [in_words(values) for values in experiment.plan.points]

    def blocks_of(kind: str) -> list[list[tuple[str, str, list[str]]]]:
        blocks = []
        for point, name in enumerate(points):
            block = []
            for treatment in experiment.treatments:
                found = {metric: rows.get((kind, point, treatment, metric)) for metric in CLIENT_COLUMNS}
                block.append((name, treatment, cells_of(experiment.at(point), treatment, kind, found)))
            blocks.append(block)
        return blocks

    if any(width_of(console, narrow_table(names, CLIENT_COLUMNS, blocks_of(kind))) > console.width for kind in experiment.kinds):
        for number, name in enumerate(points, 1):
            console.print(f"point {number}: {escape(name)}", soft_wrap=True, highlight=False)
        points = [str(number) for number in range(1, len(points) + 1)]
    written = []
    for kind in experiment.kinds:
        blocks = blocks_of(kind)
        console.print(figures_table(console, names, CLIENT_COLUMNS, blocks, escape(kind)))
        written += [cell for block in blocks for _, _, cells in block for cell in cells]
    for line in fewer_words(written, f"{repeated(experiment)} at a point"):
        console.print(line, soft_wrap=True, highlight=False)
    if experiment.missing:
        missing = f"{len(experiment.missing)} of {len(experiment.plan.runs)} runs are missing"
        console.print(f"[yellow]note:[/yellow] {missing}", soft_wrap=True, highlight=False)
