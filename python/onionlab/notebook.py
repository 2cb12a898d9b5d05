"""How an experiment and its charts look in a notebook, and how far a run is while it goes on.

A notebook calls ``_repr_html_`` of what a cell ends with. All is plain HTML and SVG, so that a saved notebook shows it anywhere,
without a network and without widgets; colours follow the page's.
"""

from __future__ import annotations

import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any

from onionlab.charts.export import inline, to_svg
from onionlab.plan import in_words
from onionlab.quantity import format_duration
from onionlab.report import sweep
from onionlab.results import describe
from onionlab.stats.metrics import WHOLE
from onionlab.terminal.progress import Pace, pace_of
from onionlab.terminal.summary import CLIENT_COLUMNS, NETWORK_COLUMNS, cells_of, fewer_words

if TYPE_CHECKING:
    from onionlab._core import Progress
    from onionlab.charts import Chart
    from onionlab.plan import Plan, PlannedRun
    from onionlab.results.experiment import Experiment
    from onionlab.running.observer import Replaced

#: Seconds between two looks at a running experiment.
EVERY = 0.25


def experiment_html(experiment: Experiment) -> str:
    """An experiment in short: what it is, how far it is, its figures with intervals, and what to keep in mind."""
    done, planned = len(experiment.finished), len(experiment.plan.runs)
    state = f"{done} of {planned} runs in <code>{escape(str(experiment.directory))}</code>"
    about = f"a sweep of {len(experiment.plan.points)} points" if experiment.swept else describe.headline(experiment)
    parts = [f"<h4>{escape(experiment.title)}</h4>", f"<p>{escape(about)}<br>{state}</p>"]
    if experiment.finished:
        tables, written = _swept_tables(experiment) if experiment.swept else _tables(experiment)
        parts += tables
        parts.append(f"<p>± or (from–to): 95 % interval over {describe.repeated(experiment)}")
        if len(experiment.treatments) > 1:
            first = escape(experiment.treatments[0])
            parts.append(f"; second line: paired difference to “{first}”, * where its 95 % interval excludes zero")
        repeated = describe.repeated(experiment)
        over = f"{repeated} at a point" if experiment.swept else f"{experiment.repeats} {repeated}"
        parts += [f"; {escape(words)}" for words in fewer_words(written, over)]
        parts.append("</p>")
        warnings = sweep.warnings(experiment) if experiment.swept else describe.warnings(experiment)
        parts += [f"<p><em>{escape(warning)}</em></p>" for warning in warnings]
    return f'<div style="max-width:70em">{"".join(parts)}</div>'


def _tables(experiment: Experiment) -> tuple[list[str], list[str]]:
    """What each kind of client met, and what the network carried; and the figures of both."""
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    tables, written = [], []
    for columns, kinds, first in ((CLIENT_COLUMNS, experiment.kinds, "clients"), (NETWORK_COLUMNS, [WHOLE], "network")):
        shown = {
            metric: heading
            for metric, heading in columns.items()
            if any((kind, treatment, metric) in rows for kind in kinds for treatment in experiment.treatments)
        }
        blocks = []
        for kind in kinds:
            for treatment in experiment.treatments:
                found = {metric: rows.get((kind, treatment, metric)) for metric in shown}
                blocks.append(("" if kind == WHOLE else kind, treatment, cells_of(experiment, treatment, kind, found)))
        tables.append(_table([first, "treatment", *shown.values()], blocks))
        written += [figure for _, _, figures in blocks for figure in figures]
    return tables, written


def _swept_tables(experiment: Experiment) -> tuple[list[str], list[str]]:
    """What each kind of client met at each point; and the figures."""
    rows = {(row["kind"], row["point"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    tables, written = [], []
    for kind in experiment.kinds:
        blocks = []
        for point, values in enumerate(experiment.plan.points):
            for treatment in experiment.treatments:
                found = {metric: rows.get((kind, point, treatment, metric)) for metric in CLIENT_COLUMNS}
                blocks.append((in_words(values), treatment, cells_of(experiment.at(point), treatment, kind, found)))
        tables.append(_table([kind, "treatment", *CLIENT_COLUMNS.values()], blocks))
        written += [figure for _, _, figures in blocks for figure in figures]
    return tables, written


def _table(head: list[str], rows: list[tuple[str, str, list[str]]]) -> str:
    """A table whose rows are a block's name, a treatment and its figures; a name is written once."""
    written = None
    body = []
    for name, treatment, figures in rows:
        names = f"<th>{escape(name) if name != written else ''}</th><td>{escape(treatment)}</td>"
        cells = "".join(f'<td style="text-align:right;white-space:nowrap">{_lines(figure)}</td>' for figure in figures)
        body.append(f"<tr>{names}{cells}</tr>")
        written = name
    heads = "".join(f"<th>{_lines(heading)}</th>" for heading in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _lines(text: str) -> str:
    return "<br>".join(map(escape, text.split("\n")))


def chart_html(chart: Chart) -> str:
    """A chart with its notes, or the reason why there is none."""
    notes = "".join(f"<p><em>{escape(note)}</em></p>" for note in chart.notes)
    if chart.specification is None:
        return f"<p>{escape(chart.title)}</p>{notes}"
    # The name must differ from one output to the next: drawings on one page share their identifiers.
    drawing = inline(to_svg(chart.specification), f"{chart.name}-{time.monotonic_ns():x}", chart.title)
    return f'<div style="--faint:#8c959f">{drawing}{notes}</div>'


class NotebookProgress:
    """One line below the cell that says how far an experiment is: the observer of `onionlab.run` in a notebook."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: Any = None
        self._pace = Pace(0.0, 0)
        self._began = time.monotonic()
        self._told = 0.0
        self._runs = 0
        self._done = 0
        self._kept = 0

    def planned(self, plan: Plan, kept: int, replaced: Replaced) -> None:
        """Show what is ahead, and what is made again."""
        for sentence in replaced.sentences:
            _display(f"<p>{escape(sentence)}</p>")
        self._runs, self._done, self._kept = len(plan.runs), kept, kept
        self._pace = pace_of(plan, kept)
        self._began = time.monotonic()
        self._show("starting", time.monotonic())

    def waiting(self, reason: str) -> None:
        """Say what is waited for."""
        with self._lock:
            self._show(reason, time.monotonic())

    def advanced(self, run: PlannedRun, progress: Progress) -> None:
        """Move the line, a few times a second."""
        now = time.monotonic()
        with self._lock:
            self._pace.moved(run, progress["sim_seconds"], progress["events"], now)
            if now - self._told >= EVERY:
                self._show(self._state(now), now)

    def finished(self, run: PlannedRun, row: dict[str, Any]) -> None:
        """Count a finished run."""
        now = time.monotonic()
        with self._lock:
            self._done += 1
            self._pace.ended(run, int(row["events"]), now)
            self._show(self._state(now), now)

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Tell of a failed run; it stays on the page."""
        now = time.monotonic()
        with self._lock:
            self._pace.ended(run, 0, now)
            _display(f"<p><strong>failed:</strong> {escape(run.label)}: {escape(reason)}</p>")
            self._show(self._state(now), now)

    def _state(self, now: float) -> str:
        if self._done == self._runs:
            return format_duration(round(now - self._began, 1), coarse=True)
        left = self._pace.left(now)
        return "" if left is None else f"{format_duration(round(left), coarse=True)} left"

    def _show(self, state: str, now: float) -> None:
        """Bring the line up to date; call with the lock held."""
        self._told = now
        share = (self._kept + self._pace.simulated / self._pace.duration) / max(1, self._runs) if self._pace.duration else 0.0
        kept = f", {self._kept} of them kept" if self._kept else ""
        line = f'<progress max="1" value="{share:.4f}"></progress> {self._done} of {self._runs} runs{kept} · {escape(state)}'
        if self._handle is None:
            self._handle = _display(line)
        else:
            self._handle.update(_html(line))


def _html(text: str) -> Any:
    from IPython.display import HTML

    return HTML(text)


def _display(text: str) -> Any:
    """Show HTML below the running cell; the handle changes it."""
    from IPython.display import display

    return display(_html(text), display_id=True)
