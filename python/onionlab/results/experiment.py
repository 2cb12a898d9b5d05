"""A results directory as an object: the record tables of all its runs, their statistics, and the report.

Layout of the directory: ``experiment.toml`` (a copy of the file that was run), ``plan.json`` (the runs it asks for and the
scenario with all defaults), ``evaluation.json`` (what the command line chose beside the file, if it did),
``runs/<treatment>--net<k>--seed<s>/*.parquet`` (one directory per finished run), and what is derived from them:
``report.html``, ``charts/``, ``tables/``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from onionlab.errors import ResultsError
from onionlab.plan import MOST_OF_A_PLAN, OPTIONAL_TABLES, TABLES, Plan, PlannedRun, in_words, is_finished, value_text
from onionlab.quantity import format_bytes, format_duration, seconds
from onionlab.records import CONTROL, UNREADABLE, check_values, read_parquet, scan_table, texts
from onionlab.results.evaluation import AUTO, Evaluation
from onionlab.stats import Settling, metrics, per_run, steady_state, summarise, variance_split
from onionlab.stats.compare import seeds_as_networks
from onionlab.stats.steady import begin_of_steady_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onionlab.charts import Chart


@dataclass(frozen=True)
class Failure:
    """A run that was tried and did not finish."""

    run: PlannedRun
    reason: str


@dataclass
class Experiment:
    """An experiment on disk.

    Every frame carries the columns ``treatment``, ``network`` and ``seed`` in front of those of the record table; times are
    nanoseconds since the start of the simulation. With a sweep, ``point`` comes before them; `points` has the values of each, and
    `at` is the experiment at one point.

    Examples
    --------
    >>> exp = onionlab.load("out/demo")                                       # doctest: +SKIP
    >>> exp.transfers.group_by("treatment").agg(pl.col("last_byte_ns").count())  # doctest: +SKIP
    """

    directory: Path
    plan: Plan
    finished: tuple[PlannedRun, ...]
    #: Runs that failed in the call that made this object; a loaded experiment knows of none.
    failures: tuple[Failure, ...] = field(default=())
    #: What the command line chose about the evaluation.
    evaluation: Evaluation = field(default=Evaluation())
    _at: dict[int, Experiment] = field(default_factory=dict, repr=False, compare=False)

    @property
    def title(self) -> str:
        """Title of the experiment."""
        return str(self.plan.scenario.get("title") or self.directory.name)

    @property
    def treatments(self) -> list[str]:
        """Treatments in the order of the experiment file; the first is the base of comparison."""
        return self.plan.treatments

    @cached_property
    def in_force(self) -> dict[str, dict[str, Any]]:
        """Every setting of each treatment as its runs had it, with what its version of tor and the consensus gave.

        The plan knows only the defaults that do not depend on these. A treatment of which no finished run tells has what the plan
        says of it; of a sweep ask a point.
        """
        if self.swept:
            raise ResultsError(f"{self.directory} holds a sweep: a treatment has settings at each point by itself, `at(0)`")
        found = {str(entry["name"]): dict(entry) for entry in self.plan.scenario.get("treatments", [])}
        if not self.finished or "treatment_json" not in self.runs.columns:
            return found
        for name, text in self.runs.unique("treatment", keep="first").select("treatment", "treatment_json").iter_rows():
            told = _settings(text)
            if name in found and told is not None:
                found[name] = told
        return found

    @property
    def scenario_in_force(self) -> dict[str, Any]:
        """The scenario with every default filled in, also those of `in_force`; of a sweep ask a point."""
        scenario = self.plan.scenario
        return {**scenario, "treatments": list(self.in_force.values())} if "treatments" in scenario else scenario

    @property
    def swept(self) -> bool:
        """Whether the experiment has a sweep."""
        return bool(self.plan.points)

    @cached_property
    def points(self) -> pl.DataFrame:
        """One row per point of the sweep: ``point`` and a column for each swept key.

        Values of a key that are not all numbers or all truth values are texts.
        """
        columns: dict[str, list[Any]] = {}
        for key in self.plan.points[0] if self.swept else ():
            values = [point[key] for point in self.plan.points]
            plain = all(isinstance(value, bool) for value in values) or not any(
                isinstance(value, bool) or not isinstance(value, int | float) for value in values
            )
            columns[key] = values if plain else [value_text(value) for value in values]
        numbers = pl.Series("point", range(len(self.plan.points)), dtype=pl.UInt32)
        return pl.DataFrame([numbers, *(pl.Series(key, values, strict=False) for key, values in columns.items())])

    def at(self, point: int) -> Experiment:
        """The experiment at one point of its sweep, as if a file of its own had described it.

        Parameters
        ----------
        point : int
            The number of the point, from 0: its row in `points`. One without a finished run has a plan, and no tables.
        """
        if point not in self._at:
            plan = self.plan.at(point)
            own = set(plan.runs)
            self._at[point] = Experiment(
                directory=self.directory,
                plan=plan,
                finished=tuple(run for run in self.finished if run in own),
                failures=tuple(failure for failure in self.failures if failure.run in own),
                evaluation=self.evaluation,
            )
        return self._at[point]

    def at_number(self, number: int) -> Experiment:
        """`at` for a point as reports number it, from 1; refuses one that there is not, or that has no finished run."""
        if not self.swept:
            raise ResultsError(f"{self.directory} holds no sweep, and so no point {number}")
        if not 1 <= number <= len(self.plan.points):
            raise ResultsError(
                f"the sweep in {self.directory} has the points 1 to {len(self.plan.points)}, and no point {number}"
            )
        there = self.at(number - 1)
        if not there.finished:
            raise ResultsError(
                f"no run of point {number} ({in_words(self.plan.points[number - 1])}) in {self.directory} is finished"
            )
        return there

    def _over_points(self, frame: Callable[[Experiment], pl.DataFrame]) -> pl.DataFrame:
        """A frame of each point that has a finished run, one below the other, with the point in front."""
        parts = []
        for point in range(len(self.plan.points)):
            there = self.at(point)
            if there.finished:
                parts.append(frame(there).select(pl.lit(point, dtype=pl.UInt32).alias("point"), pl.all()))
        if not parts:
            raise ResultsError(self._empty())
        return pl.concat(parts, how="vertical_relaxed")

    @property
    def missing(self) -> tuple[PlannedRun, ...]:
        """Runs that the experiment asks for and the directory does not hold."""
        done = set(self.finished)
        return tuple(run for run in self.plan.runs if run not in done)

    def _alike(self, what: str, of: Callable[[Experiment], float]) -> float:
        """What is the same at all points of the sweep; refuses what is not."""
        found = {of(self.at(point)) for point in range(len(self.plan.points))}
        if len(found) > 1:
            raise ResultsError(f"{self.directory} holds a sweep, and its points have no {what} in common: ask one, `at(0)`")
        return found.pop()

    @property
    def duration(self) -> float:
        """Simulated time per run, in seconds; of a sweep, if it is the same at all points."""
        if self.swept:
            return self._alike("duration", lambda there: there.duration)
        return seconds(self.plan.scenario["duration"])

    @cached_property
    def measure_from(self) -> float:
        """Begin of the measurement, in seconds of simulated time.

        That of the experiment file unless the command line chose another; ``auto`` is when the goodput of all treatments has
        settled, or half of the duration where it does not settle before. Of a sweep, if it is the same at all points, which
        ``auto`` is not.
        """
        chosen = self.evaluation.measure_from
        if self.swept and chosen == AUTO:
            raise ResultsError(f"{self.directory} holds a sweep: each point has a begin of the measurement of its own, `at(0)`")
        if self.swept:
            return self._alike("begin of the measurement", lambda there: there.measure_from)
        if chosen == AUTO:
            found = begin_of_steady_state(steady_state(self.over_repeats(self.network), self.treatments, 0.0))
            return self.duration / 2 if found is None else found
        begin = seconds(chosen if chosen is not None else self.plan.scenario.get("measure-from") or 0)
        # A choice outlives the file beside which it was made: that may have a shorter duration by now.
        if begin >= self.duration:
            raise ResultsError(
                f"{self.directory} is to be measured from {format_duration(begin)}, when its {format_duration(self.duration)} "
                "are over; `onionlab report DIR --measure-from TIME`, or `file`, chooses anew"
            )
        return begin

    @cached_property
    def settlings(self) -> list[Settling]:
        """When the goodput of each treatment's networks settles, beside the begin of the measurement; of a sweep ask a point."""
        if self.swept:
            raise ResultsError(f"{self.directory} holds a sweep: goodput settles at each point by itself, `at(0)`")
        return steady_state(self.over_repeats(self.network), self.treatments, self.measure_from)

    def table(self, name: str) -> pl.LazyFrame:
        """One record table of all finished runs, lazily.

        A run that serves several points of a sweep has its rows at each of them.

        Parameters
        ----------
        name : {"transfers", "circuits", "channels", "relays", "network", "run", or one that not all runs have}
            Which table. ``vegas`` is there only for treatments with congestion control, where clients are traced;
            ``latency`` only with clients whose ``record-latency`` is true, ``probes`` only with clients that have ``probe``,
            ``switches`` and ``switching_samples`` only for treatments with switching; ``controllers`` only for those with
            PredicTor, ``plans`` where clients are traced besides.
        """
        known = (*TABLES, *OPTIONAL_TABLES)
        if name not in known:
            raise ValueError(f"no record table {name!r}; there are {', '.join(known)}")
        if not self.finished:
            raise ResultsError(self._empty())
        holding = self._with_table(name)
        if not holding:
            why = "no client has `trace = true` or `record-latency = true`, or no treatment writes it"
            raise ResultsError(f"{self.directory} holds no table {name!r}: {why}")
        if self.swept:
            tables = [
                self.at(point).table(name).select(pl.lit(point, dtype=pl.UInt32).alias("point"), pl.all())
                for point in range(len(self.plan.points))
                if self.at(point)._with_table(name)
            ]
            return pl.concat(tables)
        parts = []
        for run in holding:
            path = self.directory / run.directory / f"{name}.parquet"
            try:
                frame = scan_table(path, name)
            except ResultsError as error:
                raise ResultsError(f"{error}; {_made_anew(path)}") from error
            keys = (
                pl.lit(run.treatment).alias("treatment"),
                pl.lit(run.network, dtype=pl.UInt32).alias("network"),
                pl.lit(run.seed, dtype=pl.UInt64).alias("seed"),
            )
            parts.append(frame.select(*keys, pl.exclude("treatment", "network", "seed")))
        return pl.concat(parts)

    def _empty(self) -> str:
        """That nothing is finished: of a point of a sweep, of which one."""
        at = "" if self.swept else next((f"of {run.at} " for run in self.plan.runs if run.at), "")
        return f"no run {at}in {self.directory} is finished, so that there are no tables"

    def _with_table(self, name: str) -> tuple[PlannedRun, ...]:
        """Finished runs that have a record table: all of them, but for a table that not every treatment or client writes."""
        if name in TABLES:
            return self.finished
        return tuple(run for run in self.finished if (self.directory / run.directory / f"{name}.parquet").is_file())

    def collected(self, name: str) -> pl.DataFrame:
        """A table of all finished runs, as `table` but in memory; what is broken of it is named, and so is what no run has."""
        try:
            found = self.table(name).collect()
        except UNREADABLE as error:
            raise ResultsError(self._broken(name)) from error
        longest = max(seconds(scenario["duration"]) for scenario in (self.plan.scenario, *self.plan.scenarios))
        try:
            check_values(found, name, longest)
        except ResultsError as error:
            raise ResultsError(f"{self.directory} is not what onionlab wrote: {error}") from error
        return found

    def _broken(self, name: str) -> str:
        """Which file it is that keeps a table from being read."""
        columns: pl.Schema | None = None
        for run in self._with_table(name):
            path = self.directory / run.directory / f"{name}.parquet"
            try:
                found = read_parquet(path).schema
            except ResultsError as error:
                return f"{error}; {_made_anew(path)}"
            if columns is not None and found != columns:
                return f"{path} is not what onionlab wrote: it has other columns than those of the runs before it"
            columns = found
        return f"{self.directory}: the tables {name!r} cannot be read together"

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """All transfers."""
        return self.collected("transfers")

    @cached_property
    def circuits(self) -> pl.DataFrame:
        """All circuits."""
        return self.collected("circuits")

    @cached_property
    def channels(self) -> pl.DataFrame:
        """All channels: who opened them, and what they carried."""
        return self.collected("channels")

    @cached_property
    def relays(self) -> pl.DataFrame:
        """Time series of every relay."""
        return self.collected("relays")

    @cached_property
    def network(self) -> pl.DataFrame:
        """Time series of the network as a whole."""
        return self.collected("network")

    @cached_property
    def runs(self) -> pl.DataFrame:
        """One row per run: scenario, seeds, version, events, wall time, memory."""
        return self.collected("run")

    @cached_property
    def measured(self) -> pl.DataFrame:
        """Transfers within the measurement, with the columns ``kind``, ``ttfb`` and ``ttlb`` (seconds)."""
        if self.swept:
            return self._over_points(lambda experiment: experiment.measured)
        return metrics.measured(metrics.with_kind(self.transfers), self.measure_from)

    @cached_property
    def begun_before(self) -> dict[tuple[str, str], float]:
        """By treatment and kind of client: which share of what arrived in the measured time its figures leave out.

        See `onionlab.stats.metrics.begun_before`; of a sweep ask a point.
        """
        if self.swept:
            raise ResultsError(
                f"{self.directory} holds a sweep: what a measurement leaves out is of each point by itself, `at(0)`"
            )
        return metrics.begun_before(metrics.with_kind(self.transfers), self.measure_from) if self.finished else {}

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of client: the groups that are recorded, split by size where a group fetches a few different sizes."""
        if self.swept:
            found = [kind for point in range(len(self.plan.points)) if self.at(point).finished for kind in self.at(point).kinds]
            return list(dict.fromkeys(found))
        return metrics.kinds(metrics.with_kind(self.transfers), recorded_groups(self.plan))

    @cached_property
    def figures(self) -> pl.DataFrame:
        """Every figure per run: ``treatment, network, seed, kind, metric, value``; with a sweep, ``point`` comes first."""
        if self.swept:
            return self._over_points(lambda experiment: experiment.figures)
        return per_run(self.transfers, self.network, self.measure_from, self.duration)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """Means over networks with intervals and paired differences to the first treatment; see `onionlab.stats.summarise`.

        Of one network that is not sampled, means over its seeds, and ``networks`` counts these.

        With a sweep, the summary of each point, ``point`` in front. Its ``p_holm`` is corrected for the comparisons at that point
        alone: with twelve points there are twelve families, in each of which something false may be found.
        """
        if self.swept:
            return self._over_points(lambda experiment: experiment.summary)
        figures = self.over_repeats(self.figures)
        return summarise(figures, self.treatments, [*self.kinds, metrics.WHOLE], by_seed=self.by_seed)

    @property
    def by_seed(self) -> bool:
        """Whether seeds, not networks, are what is repeated: of one network, by hand or made elsewhere, there are several."""
        kind = self.plan.scenario.get("network", {}).get("kind")
        return kind in ("explicit", "file") and self.plan.networks == 1 and len(self.plan.seeds) > 1

    @property
    def repeats(self) -> int:
        """Over how many there are intervals: networks of which there is any run, or seeds, where these are what is repeated."""
        return len({run.seed if self.by_seed else run.network for run in self.finished})

    def over_repeats(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of runs with what is repeated as their ``network``: seeds stand for it where they are."""
        return seeds_as_networks(rows) if self.by_seed else rows

    @cached_property
    def variance(self) -> pl.DataFrame:
        """Spread between networks and between seeds of each figure; see `onionlab.stats.variance_split`."""
        if self.swept:
            return self._over_points(lambda experiment: experiment.variance)
        return variance_split(self.figures)

    def report(self, into: Path | None = None) -> Path:
        """Draw charts, tables and ``report.html`` into the directory, or into another; return the path of the report."""
        from onionlab.report import write_report

        return write_report(self, into)

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """The charts of the report by name, such as ``time-to-last-byte-web``; a notebook shows each as a picture."""
        from onionlab.charts import all_charts
        from onionlab.charts.sweep import sweep_charts

        return {chart.name: chart for chart in (sweep_charts(self) if self.swept else all_charts(self))}

    def _repr_html_(self) -> str:
        """What it is and its figures, for a notebook."""
        from onionlab.notebook import experiment_html

        return experiment_html(self)

    def __repr__(self) -> str:
        return f"<onionlab.Experiment {self.title!r}: {len(self.finished)} of {len(self.plan.runs)} runs in {self.directory}>"


def _settings(text: Any) -> dict[str, Any] | None:
    """The settings that a run says its treatment had; None where it says nothing of the kind."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    # Whatever controls a terminal is not printed, as of a plan.
    return found if isinstance(found, dict) and not any(map(CONTROL.search, texts(found))) else None


def _made_anew(table: Path) -> str:
    """What is done about a table that cannot be read."""
    return f"remove {table.parent}, and `onionlab run` makes that run anew"


def recorded_groups(plan: Plan) -> list[str]:
    """Groups of clients whose transfers are recorded, at any point of a sweep; the others only make load."""
    parts = [plan.at(point) for point in range(len(plan.points))] or [plan]
    groups = [group for part in parts for group in part.scenario["clients"]]
    return list(dict.fromkeys(str(group["group"]) for group in groups if group.get("record", True)))


def load(directory: str | Path) -> Experiment:
    """Open a results directory.

    Parameters
    ----------
    directory : path
        What ``onionlab run`` wrote.

    Returns
    -------
    Experiment
        With at least one finished run. Runs that the directory's plan does not ask for, or that another version or scenario
        made, are left out.

    Raises
    ------
    ResultsError
        If the directory holds no finished run.

    Examples
    --------
    >>> exp = onionlab.load("out/demo")  # doctest: +SKIP
    """
    root = Path(directory)
    try:
        # What is no ordinary file, such as a pipe, might never end.
        if not (root / "plan.json").is_file():
            raise FileNotFoundError
        with (root / "plan.json").open("rb") as file:
            raw = file.read(MOST_OF_A_PLAN + 1)
        if len(raw) > MOST_OF_A_PLAN:
            raise ResultsError(f"{root / 'plan.json'} has more than {format_bytes(MOST_OF_A_PLAN)}, which no plan has")
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{root} is not a results directory: it has no readable plan.json") from error
    try:
        plan = Plan.from_json(text)
    except ResultsError as error:
        raise ResultsError(f"{root / 'plan.json'} is {error}") from error
    experiment = opened(root, plan)
    if not experiment.finished:
        raise ResultsError(
            f"{root} holds no finished run of its experiment; `onionlab run FILE --out {root}` with its file would make them"
        )
    return experiment


def opened(root: Path, plan: Plan, failures: Sequence[Failure] = ()) -> Experiment:
    """The experiment ``plan`` with the runs of it that ``root`` holds."""
    finished = tuple(run for run in plan.runs if is_finished(root, plan, run))
    return Experiment(directory=root, plan=plan, finished=finished, failures=tuple(failures), evaluation=Evaluation.read(root))
