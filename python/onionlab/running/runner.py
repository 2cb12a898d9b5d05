"""Running an experiment: every combination of treatment, network and seed, each one on disk as soon as it is done.

Where the runs are made is for others (`onionlab.running.place`). A run is a pure function of its inputs; neither the place nor
the order in which runs finish changes anything.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from onionlab.errors import RunError
from onionlab.plan import Plan, read_experiment, what_differs
from onionlab.results.describe import plural
from onionlab.results.drawn import remove_reports
from onionlab.results.evaluation import Evaluation, beginning, still_chosen
from onionlab.results.experiment import Experiment, Failure, opened
from onionlab.running.directory import check_form, check_own, plan_there, prepared, without_place
from onionlab.running.observer import Observer, Passing, Replaced, Silent
from onionlab.running.place import Place, chosen
from onionlab.running.rewriting import with_networks
from onionlab.running.time_limit import TimeLimit, as_it_ended, check_limited
from onionlab.running.work import Task, Work

__all__ = ["Observer", "Silent", "run_all", "run_once"]


def run_once(
    experiment: Path,
    root: Path,
    *,
    place: Place | None = None,
    fresh: bool = False,
    renew: bool = False,
    report: bool = True,
    observer: Observer | None = None,
    networks: int | None = None,
    measure_from: str | None = None,
) -> Experiment:
    """Make what is missing of an experiment, with a number of networks that is known.

    Parameters
    ----------
    experiment, root : path
        The experiment file and the results directory.
    place : Place, optional
        Where the runs are made; by default where the ``with`` around the call says.
    fresh, report, observer, networks, measure_from
        As for `onionlab.run`.
    renew : bool
        Make finished runs of another form of the experiment anew, too, which are otherwise refused to be replaced without
        ``fresh``: for those who write experiment files themselves, as reproductions do.

    Raises
    ------
    OnionlabError
        As `onionlab.run`.
    """
    place = place or chosen(None, None)
    text = read_experiment(experiment)
    if networks is not None:
        text = with_networks(text, networks)
    plan = Plan.of(experiment, text)
    if measure_from is not None:
        # A begin that cannot be is refused before anything is made.
        beginning(measure_from, plan)
    place.try_policies(experiment, text)
    watcher = observer or _default_observer()
    before = plan_there(root)
    if not fresh:
        check_own(root, before, plan, ", --fresh replaces them")
    if not fresh and not renew:
        check_form(root, before, plan)
    # What cannot be evaluated is refused now and not when all runs are made.
    Evaluation.read(root)
    left = without_place(root, before, plan)
    with prepared(root, text, plan):
        work = Work(experiment, text, plan, root, watcher)
        waiting = work.waiting(fresh=fresh)
        replaced = Replaced() if fresh else _replaced(waiting)
        watcher.planned(plan, len(plan.runs) - len(waiting), replace(replaced, left=left))
        if waiting or plan != before:
            remove_reports(root)
        with closing(place.make(waiting)) as ended:
            failures = []
            for end in ended:
                if end.failure is not None:
                    failures.append(end.failure)
                elif fresh and measure_from is None:
                    # What was chosen goes with the first of the runs for which it was.
                    Evaluation().write(root)
        return _results(work, failures, measure_from, report=report)


def run_all(
    experiments: Sequence[tuple[str, Path, Path]],
    *,
    observer: Observer | None = None,
    report: bool = False,
    whole: bool = False,
    limit: TimeLimit | None = None,
) -> Generator[Experiment]:
    """Run many experiments as one: no core waits for the last run of one before it begins with the next.

    Parameters
    ----------
    experiments : sequence of (str, path, path)
        Of each a name for messages, the experiment file and the results directory. What is there already is kept.
    observer : Observer, optional
        Told of all runs together.
    report : bool
        Draw a report of each.
    whole : bool
        Nothing is of use with a run missing: `RunError` at the first experiment that has a failed one, once all runs of all the
        others are made, so that only what failed is left to do when that is mended.
    limit : TimeLimit, optional
        For experiments of one run each, on this machine, all of which can begin at once: a run that would not be over by
        then ends with the last whole simulated minute for which there is time, and its experiment becomes one of that duration.

    Yields
    ------
    Experiment
        Each experiment's results, in their order, as soon as all its runs are over; the runs of later ones go on meanwhile.

    Raises
    ------
    OnionlabError
        As `onionlab.run`.
    """
    watcher, place = observer or _default_observer(), chosen(None, None)
    with ExitStack() as stack:
        works: list[Work] = []
        there: dict[Path, Plan | None] = {}
        for name, path, root in experiments:
            text = read_experiment(path)
            plan = Plan.of(path, text)
            place.try_policies(path, text)
            there[root] = plan_there(root)
            check_own(root, there[root], plan)
            Evaluation.read(root)
            stack.enter_context(prepared(root, text, plan))
            before = sum(max(1, len(work.plan.points)) for work in works)
            works.append(Work(path, text, plan, root, Passing(watcher, name, before), limit))
        waiting = [task for work in works for task in work.waiting()]
        if limit is not None:
            check_limited(works, waiting, place)
        together = Plan.together([work.plan for work in works])
        watcher.planned(together, len(together.runs) - len(waiting), _replaced(waiting))
        left = Counter(task.work.root for task in waiting)
        for work in works:
            if left[work.root] or work.plan != there[work.root]:
                remove_reports(work.root)
        failures: dict[Path, list[Failure]] = {work.root: [] for work in works}
        with closing(place.make(waiting)) as ended:
            for work in works:
                while left[work.root]:
                    end = next(ended)
                    left[end.task.work.root] -= 1
                    if end.failure is not None:
                        failures[end.task.work.root].append(end.failure)
                if whole and failures[work.root]:
                    others = sum(end.failure is not None for end in ended) + sum(map(len, failures.values())) - 1
                    also = f"; so did {plural(others, 'other run')}" if others else ""
                    first = failures[work.root][0]
                    raise RunError(f"{work.root}: {first.run.label} failed ({first.reason}){also}")
                yield _results(work if limit is None else as_it_ended(work), failures[work.root], None, report=report)


def _replaced(waiting: Sequence[Task]) -> Replaced:
    """The finished runs in the place of those that are to be made."""
    differing = Counter(what_differs(task.work.root, task.work.plan, task.run) for task in waiting)
    return Replaced(outdated=differing["code"], changed=differing["experiment"])


def _why(failures: Sequence[Failure]) -> str:
    """Why runs failed, each reason once: with the run, or with how many have it."""
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    return "; ".join(
        f"{alike[0].run.label}: {reason}" if len(alike) == 1 else f"{len(alike)} runs: {reason}"
        for reason, alike in by_reason.items()
    )


def _results(work: Work, failures: Sequence[Failure], measure_from: str | None, *, report: bool) -> Experiment:
    """The results of an experiment whose runs are over."""
    before = Evaluation.read(work.root)
    kept = still_chosen(before, work.plan) if measure_from is None else beginning(measure_from, work.plan)
    if kept.measure_from != before.measure_from:
        remove_reports(work.root)
    replace(kept, until_ci=None).write(work.root)
    results = opened(work.root, work.plan, failures)
    if not results.finished:
        why = _why(failures)
        raise RunError(why or f"{work.root}: no run is finished, and none has failed; was the directory changed meanwhile?")
    if report:
        results.report()
    return results


def _default_observer() -> Observer:
    """Who is told where the caller names nobody: the reader of a notebook, if this is its kernel."""
    if "ipykernel" not in sys.modules:
        return Silent()
    from onionlab.notebook import NotebookProgress

    return NotebookProgress()
