"""A comparison of experiments as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onionlab.report.comparison import caveats, pairing
from onionlab.results import cost
from onionlab.results.comparison import ABSENT, Comparison
from onionlab.terminal.summary import CLIENT_COLUMNS, cells_of, fewer_words, figures_table, narrow_table, width_of

#: Heads of the columns before the figures.
NAMES = ("clients", "variant")


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print what differs, how variants are paired, and the figures of the clients.

    Names of variants that leave no room for their settings and figures, as those of a sweep, are said once and then numbered.
    """
    # A pipe has no width of its own; wider lines than these nobody reads.
    wide = console if console.is_terminal else Console(file=console.file, width=160)
    differing, figures = _by_variant(comparison), _figures(comparison)
    if any(width_of(wide, table) > wide.width for table in (differing, narrow_table(NAMES, CLIENT_COLUMNS, figures))):
        variants = _table("", "variant")
        for number, label in enumerate(comparison.labels, 1):
            variants.add_row(str(number), escape(label))
        wide.print(variants)
        comparison = numbered(comparison)
        differing, figures = _by_value(comparison), _figures(comparison)
    wide.print(differing if comparison.differing.height else "\nNothing differs between the scenarios.")
    if brought := _brought_along(comparison):
        wide.print(f"brought along by these: {escape(brought)}", soft_wrap=True, highlight=False)
    wide.print(figures_table(wide, NAMES, CLIENT_COLUMNS, figures))
    written = [cell for block in figures for _, _, cells in block for cell in cells]
    for line in (
        f"± or (from–to) 95 % interval over {comparison.repeated}",
        f"second line: difference to “{escape(comparison.base.label)}”, * where its 95 % interval excludes zero",
        *fewer_words(written, comparison.repeated),
        *(escape(sentence) for sentence in pairing(comparison)),
        *([escape(taken)] if (taken := cost.compared(comparison)) else []),
        *(f"[yellow]note:[/yellow] {escape(sentence)}" for sentence in caveats(comparison)),
    ):
        wide.print(line, soft_wrap=True, highlight=False)


def numbered(comparison: Comparison) -> Comparison:
    """The same with numbers from 1 for the names of its variants."""
    return replace(
        comparison,
        variants=tuple(replace(variant, label=str(number)) for number, variant in enumerate(comparison.variants, 1)),
    )


def _table(*columns: str, title: str | None = None) -> Table:
    """An empty table in which nothing is cut: what does not fit goes on in the next line."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _by_variant(comparison: Comparison) -> Table:
    """What differs: a row for each key, a column for each variant."""
    table = _table("key", *map(escape, comparison.labels), title="What differs")
    for key, *values in comparison.differing.iter_rows():
        if key not in comparison.brought_along:
            table.add_row(escape(key), *("–" if value is None else escape(value) for value in values))
    return table


def _by_value(comparison: Comparison) -> Table:
    """What differs: a row for each key and value, with the variants that have it, by their numbers."""
    table = _table("key", "value", "variants", title="What differs")
    for key, *values in comparison.differing.iter_rows():
        if key in comparison.brought_along:
            continue
        for place, value in enumerate(dict.fromkeys(values)):
            who = ranges([number for number, other in enumerate(values, 1) if other == value])
            table.add_row(escape(key) if place == 0 else "", "–" if value is None else escape(value), who)
    return table


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in short.

    Examples
    --------
    >>> ranges([1, 2, 3, 5, 7, 8])
    '1–3, 5, 7, 8'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _brought_along(comparison: Comparison) -> str:
    """Keys that other ones bring along, with their values; parameters of the consensus are counted."""
    found, parameters = [], 0
    for key, *values in comparison.differing.iter_rows():
        if key not in comparison.brought_along:
            continue
        if key.startswith("consensus-params."):
            parameters += 1
        else:
            found.append(f"{key} = {next(value for value in values if value not in ABSENT)}")
    return ", ".join([*found, *([f"{parameters} of consensus-params (the page has them)"] if parameters else [])])


def _figures(comparison: Comparison) -> list[list[tuple[str, str, list[str]]]]:
    """What the clients of each variant met: a block for each kind, a row for each variant."""
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in comparison.summary.iter_rows(named=True)}
    blocks = []
    for kind in comparison.kinds:
        block = []
        for variant in comparison.variants:
            found = {metric: rows.get((kind, variant.label, metric)) for metric in CLIENT_COLUMNS}
            over = (comparison.repeats(variant), comparison.pairs(variant) or None)
            block.append((kind, variant.label, cells_of(variant.experiment, variant.treatment, kind, found, over)))
        blocks.append(block)
    return blocks
