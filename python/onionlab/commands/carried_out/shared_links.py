"""What `onionlab shared-links` does with its options."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onionlab.errors import QuestionError
from onionlab.files import write_output
from onionlab.quantity import format_fixed, format_number
from onionlab.shared_links import BUILT_IN, Method, Question, documents, shared_links, to_json

FORMATS = ("table", "json", "parquet")
EXCLUSIONS = ("relay", "subnet")
METHODS = ("draw", "expectation")

#: What a table shows of the network.
COUNTS = ("relays", "guards", "middles", "exits", "circuits")

#: Tor's primary guards.
GUARD_SET = 3


def _chosen(option: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise QuestionError(f"{option}: {value!r} is not one of {', '.join(allowed)}")
    return value


@dataclass(frozen=True)
class How:
    """How a question is answered, and where the answer goes.

    Attributes
    ----------
    scale
        Share of the network that is sampled.
    method
        ``draw`` or ``expectation``; None for the one that fits the question.
    repeat, seed
        Of draws and samples; None where nothing is said.
    form, out
        A name of `FORMATS`, and the file; standard output without one.
    charts
        The folder for charts; None for none.
    """

    scale: float = 1.0
    method: str | None = None
    repeat: int | None = None
    seed: int | None = None
    form: str = "table"
    out: Path | None = None
    charts: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be together, whatever the question is."""
        _chosen("--format", self.form, FORMATS)
        if self.form == "parquet" and self.out is None:
            raise QuestionError("--format parquet wants a file: add --out FILE.parquet")
        if self.method is not None and _chosen("--method", self.method, METHODS) == "expectation" and self.repeated:
            raise QuestionError("--method expectation draws nothing: of the whole network it has neither --repeat nor --seed")

    @property
    def repeated(self) -> bool:
        """Whether the whole network is drawn as often as is said, or with the seed that is said."""
        return self.scale == 1 and (self.repeat is not None or self.seed is not None)

    def method_for(self, question: Question) -> Method:
        """The method that is asked for, or the closed form where it can answer."""
        drawn = question.excludes or self.repeated if self.method is None else self.method == "draw"
        return "draw" if drawn else "expectation"


def asked(
    *,
    circuits: int,
    internal: bool,
    internal_share: float | None,
    undirected: bool,
    per_client: int,
    guard_set: bool,
    ports: str | None,
    traffic: str | None,
    exclude: Sequence[str],
) -> Question:
    """The question of a command line; the parameters are its options."""
    excluded = {_chosen("--exclude", rule, EXCLUSIONS) for rule in exclude}
    if internal and internal_share is not None:
        raise QuestionError("--internal and --internal-share say two things: write one of them")
    return Question(
        circuits=circuits,
        internal=internal if internal_share is None else internal_share,
        directed=not undirected,
        per_client=per_client,
        guards_per_client=GUARD_SET if guard_set else 1,
        ports=ports,
        traffic=traffic,
        exclude_same_relay="relay" in excluded,
        exclude_same_subnet="subnet" in excluded,
    )


def answer(files: Sequence[Path], question: Question, how: How) -> None:
    """Answer a question about documents, and folders of them, and draw its charts."""
    sources = documents(list(files))
    frame = shared_links(
        list(sources),
        question,
        scale=how.scale,
        method=how.method_for(question),
        repeat=1 if how.repeat is None else how.repeat,
        seed=1 if how.seed is None else how.seed,
    )
    _write(frame, question, how.form, how.out)
    if how.charts is not None:
        _draw(list(sources), question, how.charts)


def _draw(sources: list[str], question: Question, directory: Path) -> None:
    from rich.progress import track

    from onionlab.charts.shared_links import plan, write

    console = Console(stderr=True)
    draws = plan(list(sources), question)
    drawn = [draw() for draw in track(draws, "drawing", console=console, transient=True, disable=not console.is_terminal)]
    write(drawn, directory)
    for note in (note for chart in drawn for note in chart.notes):
        print(f"onionlab: {note}", file=sys.stderr)
    print(f"charts: {directory}", file=sys.stderr)


def _write(frame: pl.DataFrame, question: Question, form: str, out: Path | None) -> None:
    if form == "parquet":
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        assert out is not None
        write_output(out, buffer.getvalue())
        return
    if form == "json":
        text = json.dumps(to_json(frame), indent=2) + "\n"
    else:
        console = Console() if out is None else Console(file=io.StringIO(), width=130)
        console.print(table(frame, question))
        if out is None:
            return
        text = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
    if out is None:
        sys.stdout.write(text)
    else:
        write_output(out, text.encode())


def describe(question: Question, row: dict[str, Any]) -> str:
    """A question in a few words."""
    words = [f"{row['kind']} circuits, links {'directed' if question.directed else 'undirected'}"]
    if question.per_client > 1:
        guards = f" over {question.guards_per_client} guards" if question.guards_per_client > 1 else ""
        words.append(f"{question.per_client:,} per client{guards}")
    if question.traffic is not None:
        words.append(f"traffic: {question.traffic}")
    if question.ports is not None:
        words.append(f"exits for ports {question.ports}")
    if isinstance(question.internal, float) and 0 < question.internal < 1:
        words.append(f"{100 * question.internal:g} % internal")
    if question.exclude_same_relay or question.exclude_same_subnet:
        words.append("no two relays of one /16 in a circuit" if question.exclude_same_subnet else "no relay twice in a circuit")
    if row["scale"] < 1:
        words.append(f"{100 * row['scale']:g} % of the network, {row['repeat']} sampled")
    words.append("expectation" if row["method"] == "expectation" else f"{row['repeat']} drawn" if row["scale"] == 1 else "drawn")
    return "; ".join(words)


def table(frame: pl.DataFrame, question: Question) -> Table:
    """Answers for a terminal."""
    rows = frame.to_dicts()
    named = len({row["consensus"] for row in rows}) < len(rows)
    hours = len({row["consensus"][:10] for row in rows}) < len({row["consensus"] for row in rows})
    drawn = Table(
        box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), title=f"Shared links: {describe(question, rows[0])}", title_justify="left"
    )
    drawn.add_column("consensus", no_wrap=True)
    if named:
        drawn.add_column("file", overflow="fold")
    counts = [column for column in COUNTS if not named or column not in ("guards", "middles")]
    for heading in (*counts, "links", "shared %"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        deviation = row["stddev_percent"]
        share = format_fixed(row["shared_percent"], 2)
        drawn.add_row(
            _document(row, hours=hours),
            *([escape(Path(row["file"]).name)] if named else []),
            *(f"{row[column]:,}" for column in counts),
            f"{row['links']:,.0f}",
            share if deviation is None else f"{share} ±{format_number(deviation, 2)}",
        )
    seconds = sum(row["seconds"] for row in rows)
    # It answers only where no document does.
    model = f"built-in: the model of Tor's network of {rows[0]['consensus'][:7]}, no document. "
    deviations = f"±: standard deviation between {_between(rows[0])}. Computed in {format_number(1e3 * seconds)} ms."
    drawn.caption = (model if rows[0]["file"] == BUILT_IN else "") + deviations
    drawn.caption_justify = "left"
    return drawn


def _document(row: dict[str, Any], *, hours: bool) -> str:
    """Which consensus it is; the built-in model has the hour of a real document, and is none."""
    if row["file"] == BUILT_IN:
        return "built-in"
    return str(row["consensus"][: 16 if hours else 10])


def _between(row: dict[str, Any]) -> str:
    return "sampled networks" if row["scale"] < 1 and row["repeat"] > 1 else "draws"
