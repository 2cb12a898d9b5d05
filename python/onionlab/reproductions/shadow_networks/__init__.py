"""Held against whole networks: the published networks of "Once is Never Enough", each run here as it was given.

Theirs is real tor 0.3.5 in Shadow 1.13, one simulated hour, statistics from minute 20. Each network is imported as ``onionlab
import`` does it. What is compared are quantiles of the perf clients' times, beside those of the same network there and beside
mean and standard deviation over the hundred networks that were sampled there at the same scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from onionlab.charts import export
from onionlab.errors import ResultsError, UntrustedError
from onionlab.files import write_text
from onionlab.plan import Plan
from onionlab.quantity import seconds
from onionlab.reproductions.kept import Kept, Made, Reduced, opened, work_off
from onionlab.reproductions.published import load_differences
from onionlab.reproductions.published_networks import SUFFIX, imported, names, settle
from onionlab.reproductions.runs import Observe, watching
from onionlab.reproductions.shadow_networks import charts as shadow_networks_charts
from onionlab.reproductions.shadow_networks import page as shadow_networks_page
from onionlab.reproductions.shadow_networks import transfer_times
from onionlab.reproductions.shadow_networks.by_place import Place, by_place
from onionlab.reproductions.shadow_networks.more_load import MORE_LOAD, Effect, effect
from onionlab.reproductions.shadow_networks.spread import Placed, Target, spread
from onionlab.reproductions.shadow_networks.transfer_times import (
    FIRST_BYTE,
    SIZES,
    TIMES,
    Observed,
    Samples,
    errors,
    reduce,
    times,
    times_by_client,
)
from onionlab.results.experiment import opened as opened_results
from onionlab.running.time_limit import TimeLimit
from onionlab.stats.intervals import Floats, lower_quantile
from onionlab.untrusted import read_json

#: What is run where nobody says otherwise: the networks of 1 %.
SMALL = "1pct"


@dataclass(frozen=True)
class Figure(Placed):
    """One quantile of one time: ours, that of the same network there, and what their networks have of it."""

    quantile: float
    theirs: float


@dataclass(frozen=True)
class Comparison:
    """One network, ours and theirs.

    Attributes
    ----------
    name
        As the reference's files are called.
    scale
        Share of Tor's relays, as the targets call it (``1%``).
    ours, theirs
        Times by metric and size, in seconds.
    our_errors, their_errors
        Failed downloads by client, as a share of those that ended.
    targets, quantiles
        Over all networks of the scale.
    observed
        Our run.
    places
        First bytes by where clients stand; none where the reference does not tell.
    """

    name: str
    scale: str
    ours: Samples
    theirs: Samples
    our_errors: Floats
    their_errors: Floats
    targets: dict[tuple[str, str], tuple[Target, ...]]
    quantiles: tuple[float, ...]
    observed: Observed
    places: tuple[Place, ...] = ()

    @cached_property
    def figures(self) -> dict[tuple[str, str], tuple[Figure, ...]]:
        """Every quantile, by metric and size; none where ours or theirs has no transfer of the size."""
        return {
            key: tuple(
                Figure(lower_quantile(self.ours[key], q), target, q, lower_quantile(self.theirs[key], q))
                for q, target in zip(self.quantiles, self.targets[key], strict=True)
            )
            for key in self.targets
            if len(self.ours[key]) and len(self.theirs[key])
        }

    @property
    def made(self) -> tuple[Made, ...]:
        """By which code the run was made."""
        return self.observed.made

    @property
    def within(self) -> tuple[int, int]:
        """How many figures lie within the spread, and how many there are."""
        figures = [figure for row in self.figures.values() for figure in row]
        return sum(figure.within for figure in figures), len(figures)

    def ratio(self, metric: str) -> float:
        """Ours over theirs of the same network: the median over the quantiles of all sizes; not a number without any download."""
        ratios = [figure.ours / figure.theirs for figure in self.figures.get((metric, "all"), ())]
        return float(np.median(ratios)) if ratios else math.nan


@dataclass(frozen=True)
class Runs:
    """What there is of one network, with the usual load and with more of it: the one for the page first, then the longest."""

    usual: list[Observed]
    more: list[Observed]

    @property
    def pair(self) -> tuple[Observed, Observed] | None:
        """A run with each load that differ in nothing else, for the longest time; None where there is none."""
        pairs = [
            (usual, more)
            for usual in self.usual
            for more in self.more
            if _codes(usual) == _codes(more) and usual.measure_from == more.measure_from
        ]
        # Among several, runs of one length: they are what a command makes.
        return max(pairs, key=lambda pair: (min(lengths := [run.duration for run in pair]), -max(lengths)), default=None)

    @property
    def shorter(self) -> list[Observed]:
        """Runs with the usual load that stand on the page beside its own: of the pair, and the longest of each other build."""
        shown = [self.usual[0], *([self.pair[0]] if self.pair is not None else [])]
        for run in self.usual:
            if all(_codes(run) != _codes(one) for one in shown):
                shown.append(run)
        return [run for run in shown[1:] if run is not self.usual[0]]

    @property
    def of_other_builds(self) -> bool:
        """Whether no run with the one load is of the same build as any with the other."""
        return not any(_codes(usual) == _codes(more) for usual in self.usual for more in self.more)


def _codes(run: Observed) -> set[tuple[str, str]]:
    return {(made.version, made.build) for made in run.made}


def reproduce(
    experiments: Path,
    reference: Path | None,
    out: Path,
    docs: Path,
    observe: Observe | None = None,
    networks: Sequence[str] | None = None,
    duration: str | None = None,
    load: float = 1.0,
    kept: Path | None = None,
    at_most: str | None = None,
) -> tuple[Path, list[str]]:
    """Run networks and write the page of all that have been run; return its path and no complaints.

    Parameters
    ----------
    experiments : path
        The folder with ``differences.toml``: mechanisms by which ours differ.
    reference : path or None
        The folder with the published networks and their results.
    out, docs : path
        Experiments and results go below ``out``, the page and its charts into ``docs``. Finished runs in ``out`` are kept.
    observe : callable, optional
        Gives a context with an observer of all runs.
    networks : sequence of str, optional
        Which networks are run: names, or beginnings of names; by default those of 1 %. None of them: only the page is written.
    duration : str, optional
        Simulated time in place of an hour, as an experiment file has it. Such runs are kept apart. Without it a network that is
        only kept with another time than an hour is on the page with that, and so is the effect of more load.
    load : float
        Users open so many times as many circuits: 1, or `MORE_LOAD`, of which the page shows what it changes. Such runs are kept
        apart too, and are only made of networks that have been run with the usual load.
    kept : path, optional
        A folder of runs that are finished and reduced (`onionlab.reproductions.kept.Kept`): they are not made again, and are on
        the page beside those in ``out``.
    at_most : str, optional
        Wall time, such as ``"3 h"``: a run that would not be over by then ends with the last simulated minute for which there is
        time, and is one of that duration.
    """
    limit = None if at_most is None else TimeLimit.of(seconds(at_most))
    if duration is not None:
        seconds(duration)
    if reference is None or not (reference / "targets.json").is_file():
        raise ResultsError(f"the published networks are not in {reference}; --reference names their folder")
    if load not in (1, MORE_LOAD):
        raise ResultsError(f"a load of {load:g} has nothing beside it: the reference has the usual one, 1, and {MORE_LOAD:g}")
    reasons = load_differences(experiments / "differences.toml")
    known = names(reference)
    chosen = _chosen(known, networks if networks is not None else [SMALL])
    folder = out if duration is None else out / re.sub(r"\W+", "-", duration)
    store = opened(kept, transfer_times.FORM)

    def finished(name: str, load: float = 1.0) -> Observed | None:
        there = None if store is None else store.take(_called(name, duration, load))
        found = there or _finished(_results(folder, name, load))
        return None if found is None else Observed.of(found)

    def with_another_time(name: str, load: float = 1.0) -> list[Observed]:
        return _kept_with_another_time(store, name, load) if duration is None else []

    if load != 1 and (lacking := [name for name in chosen if finished(name) is None and not with_another_time(name)]):
        raise ResultsError(f"{lacking[0]} was not run with the usual load yet, beside which the page sets more: run that first")
    ahead = [
        (
            _called(name, duration, load),
            _imported(name, reference, _loaded(folder, load), duration, load),
            _results(folder, name, load),
        )
        for name in chosen
    ]
    with watching(observe) as observer:

        def sooner(number: int, reached: float) -> str:
            return _called(chosen[number], f"until {_minutes(reached)}", load)

        for _ in work_off(ahead, lambda _, results: reduce(results), observer, store, limit, sooner):
            pass
    runs = {}
    for name in known:
        usual, more = (
            [
                *([own] if (own := finished(name, load)) else []),
                *with_another_time(name, load),
            ]
            for load in (1.0, MORE_LOAD)
        )
        if usual:
            runs[name] = Runs(usual, more)
    if not runs:
        raise ResultsError(f"{folder} holds no finished run of these networks")
    comparisons = [compare(name, reference, of.usual[0]) for name, of in runs.items()]
    effects = [effect(name, reference, *of.pair) for name, of in runs.items() if of.pair is not None]
    unlike = {name: of.of_other_builds for name, of in runs.items() if of.more and of.pair is None}
    shorter = [compare(name, reference, run) for name, of in runs.items() for run in of.shorter]
    return write(comparisons, effects, unlike, shorter, reasons, docs), []


def _kept_with_another_time(store: Kept | None, name: str, load: float) -> list[Observed]:
    """Runs of a network that are kept with other simulated times than an hour: the longest first."""
    if store is None:
        return []
    whole = _called(name, None, load)
    times = {called.removeprefix(f"{whole}, ") for called in store.names if called.startswith(f"{whole}, ")}
    found = [store.take(_called(name, time, load)) for time in sorted(times) if not time.startswith("load ")]
    runs = [Observed.of(run) for run in found if run is not None]
    return sorted(runs, key=lambda run: run.duration, reverse=True)


def _minutes(duration: float) -> str:
    """Simulated seconds as ``--duration`` has them."""
    return f"{duration / 60:g} min"


def _called(name: str, duration: str | None, load: float) -> str:
    """How a run is called."""
    return ", ".join([name, *([f"load {load:g}"] if load != 1 else []), *([duration] if duration is not None else [])])


def _loaded(folder: Path, load: float) -> Path:
    """Where runs with so many times the load are."""
    return folder if load == 1 else folder / f"load-{load:g}"


def _results(folder: Path, name: str, load: float) -> Path:
    return _loaded(folder, load) / name / "results"


def _chosen(known: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The known names that begin with one that is wanted."""
    for beginning in wanted:
        if not any(name.startswith(beginning) for name in known):
            raise ResultsError(f"there is no network {beginning!r}; there are {', '.join(known)}")
    return [name for name in known if name.startswith(tuple(wanted))]


def _finished(results: Path) -> Reduced | None:
    """What the run there came to, whichever build of the simulator made it; None where none is finished.

    Raises
    ------
    ResultsError
        If what is there cannot be read.
    """
    file = results / "plan.json"
    if not file.is_file():
        return None
    try:
        plan = Plan.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ResultsError) as error:
        raise ResultsError(f"{file}: {error}") from error
    experiment = opened_results(results, plan)
    return reduce(experiment) if experiment.finished else None


def _imported(name: str, reference: Path, folder: Path, duration: str | None, load: float) -> Path:
    """The experiment file of a network."""
    place = folder / name / "network"
    settle(imported(name, reference, place.with_name("imported"), duration, load), place)
    return place / "experiment.toml"


def compare(name: str, reference: Path, observed: Observed) -> Comparison:
    """Hold the finished run of a network against what is published of it."""
    scale = f"{name.split('pct')[0]}%"
    try:
        targets = read_json(reference / "targets.json")
        theirs = read_json(reference / f"{name}.results.json.xz")
        quantiles = tuple(float(q) for q in targets["quantiles"])
        of_scale = spread(targets, scale, 1.0)
        keys = [(metric, size) for metric in TIMES for size in SIZES]
        samples = {(metric, size): np.sort(np.asarray(theirs[metric][size], dtype=np.float64)) for metric, size in keys}
        failed = np.asarray([float(pair[0]) for pair in theirs["error_rate"]["ALL"]]) / 100
        document = reference / f"{name}{SUFFIX}"
        clients = read_json(document).get("perf_clients", []) if document.is_file() else []
        perf = observed.beside_theirs().perf
        first = times_by_client(perf, FIRST_BYTE, "all")
        places = by_place({client["name"]: client.get("country", "none") for client in clients}, theirs[FIRST_BYTE], first)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, UntrustedError) as error:
        raise ResultsError(f"{reference} holds no results of {name} as they are published: {error!r}") from error
    return Comparison(
        name=name,
        scale=scale,
        ours=times(perf),
        theirs=samples,
        our_errors=errors(perf),
        their_errors=failed,
        targets=of_scale,
        quantiles=quantiles,
        observed=observed,
        places=places,
    )


def write(
    comparisons: list[Comparison],
    effects: list[Effect],
    unlike: Mapping[str, bool],
    shorter: Sequence[Comparison],
    differences: list[dict[str, str]],
    docs: Path,
) -> Path:
    """Write ``shadow-networks.md`` and the charts of each network as SVG and PNG into ``docs``; return the page."""
    for comparison in comparisons:
        export.write(docs, shadow_networks_charts.stem(comparison), shadow_networks_charts.chart(comparison))
    path = docs / "shadow-networks.md"
    write_text(path, shadow_networks_page.page(comparisons, effects, differences, unlike, shorter))
    return path
