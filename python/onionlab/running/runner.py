"""Running an experiment: every combination of treatment, network and seed, each one on disk as soon as it is done.

Where the runs are made is for others (`onionlab.running.place`). A run is a pure function of its inputs; neither the place nor
the order in which runs finish changes anything.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onionlab.errors import RunError
from onionlab.plan import Plan, read_experiment, what_differs
from onionlab.results.describe import plural
from onionlab.results.evaluation import Evaluation, check_measure_from
from onionlab.results.experiment import Experiment, Failure, opened
from onionlab.running.directory import check_own, prepared
from onionlab.running.observer import Observer, Passing, Replaced, Silent
from onionlab.running.place import chosen
from onionlab.running.time_limit import TimeLimit, as_it_ended, check_limited
from onionlab.running.work import Task, Work

if TYPE_CHECKING:
    from onionlab.running.until import UntilCi

__all__ = ["Observer", "Silent", "default_directory", "run", "run_all"]


#: What `onionlab import` and results directories call every experiment file.
OWN_NAME = "experiment"


def default_directory(experiment: Path) -> Path:
    """Where results go unless told otherwise: ``out/<name of the experiment file>``.

    Of a file called ``experiment.toml``, as imports and results directories have it, the name is its folder's.
    """
    stem = experiment.stem
    return Path("out") / (experiment.resolve().parent.name or stem if stem == OWN_NAME else stem)


def run(
    experiment: str | Path,
    out: str | Path | None = None,
    *,
    jobs: int | None = None,
    fresh: bool = False,
    report: bool = True,
    observer: Observer | None = None,
    networks: int | None = None,
    measure_from: str | None = None,
    until_ci: UntilCi | str | None = None,
    cluster: str | None = None,
) -> Experiment:
    """Run an experiment file and draw its report.

    Runs that the results directory already holds are kept, so that the same call resumes an interrupted experiment, and adds what
    is missing after networks, seeds, treatments or points of a sweep were added to the file. A keyboard interrupt stops at once
    and keeps what is finished.

    Parameters
    ----------
    experiment : path
        The experiment file.
    out : path, optional
        Results directory; ``out/<name of the experiment file>`` by default, of an ``experiment.toml`` the name of its folder.
    jobs : int, optional
        Runs at the same time; all cores by default, all threads of its workers on a cluster.
    fresh : bool
        Repeat finished runs too.
    report : bool
        Draw ``report.html`` with its charts and tables at the end.
    observer : Observer, optional
        Told about progress; a line below the cell in a notebook, nobody elsewhere by default.
    networks : int, optional
        Number of sampled networks in place of the file's; network k is the same network in either case.
    measure_from : str, optional
        ``auto`` or a time such as ``"40 s"`` in place of the file's `measure-from`; ``auto`` is when the network's goodput has
        settled (`onionlab.stats.steady_state`).
    until_ci : UntilCi or str, optional
        Add networks until an interval is narrow enough (`onionlab.running.until`): a width such as ``"5%"``, of the median time
        to the last byte of the first kind of client that has one, or an `onionlab.UntilCi`, which says of what.
    cluster : str, optional
        Address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``, on whose workers the runs are made; needs
        ``onionlab[cluster]``. Results are the same.

    Returns
    -------
    Experiment
        The results, with ``failures`` listing runs that were tried and failed.

    Raises
    ------
    ScenarioError, DocumentError
        If the experiment or a document it names cannot be used; nothing is left behind then.
    RunError
        If no run finished at all.
    ResultsError
        If the results cannot be written.
    ClusterError
        If the cluster cannot be used.

    Examples
    --------
    >>> exp = onionlab.run("experiments/swrr/demo.toml")  # doctest: +SKIP
    """
    path = Path(experiment)
    place = chosen(jobs, cluster)
    root = Path(out) if out is not None else default_directory(path)
    if until_ci is not None:
        from onionlab.running.until import rule_from, run_until

        if networks is not None:
            raise ValueError("until_ci finds the number of networks; leave out networks")
        how: dict[str, Any] = {"jobs": jobs, "fresh": fresh, "observer": observer, "cluster": cluster}
        return run_until(path, root, rule_from(until_ci), report=report, measure_from=measure_from, **how)
    text = read_experiment(path)
    if networks is not None:
        from onionlab.running.until import with_networks

        text = with_networks(text, networks)
    plan = Plan.of(path, text)
    if measure_from is not None:
        check_measure_from(measure_from, plan)
    place.try_policies(path, text)
    watcher = observer or _default_observer()
    if not fresh:
        check_own(root, plan, ", --fresh replaces them")
    with prepared(root, text, plan):
        work = Work(path, text, plan, root, watcher)
        waiting = work.waiting(fresh=fresh)
        watcher.planned(plan, len(plan.runs) - len(waiting), Replaced() if fresh else _replaced(waiting))
        with closing(place.make(waiting)) as ended:
            failures = [end.failure for end in ended if end.failure is not None]
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
        For experiments of one run each, on this machine, all of which can begin at once: a run that is not over by then ends at
        the next whole simulated minute, and its experiment becomes one of that duration.

    Yields
    ------
    Experiment
        Each experiment's results, in their order, as soon as all its runs are over; the runs of later ones go on meanwhile.

    Raises
    ------
    OnionlabError
        As `run`.
    """
    watcher, place = observer or _default_observer(), chosen(None, None)
    with ExitStack() as stack:
        works: list[Work] = []
        for name, path, root in experiments:
            text = read_experiment(path)
            plan = Plan.of(path, text)
            place.try_policies(path, text)
            check_own(root, plan)
            stack.enter_context(prepared(root, text, plan))
            before = sum(max(1, len(work.plan.points)) for work in works)
            works.append(Work(path, text, plan, root, Passing(watcher, name, before), limit))
        waiting = [task for work in works for task in work.waiting()]
        if limit is not None:
            check_limited(works, waiting, place)
        together = Plan.together([work.plan for work in works])
        watcher.planned(together, len(together.runs) - len(waiting), _replaced(waiting))
        left = Counter(task.work.root for task in waiting)
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


def _results(work: Work, failures: Sequence[Failure], measure_from: str | None, *, report: bool) -> Experiment:
    """The results of an experiment whose runs are over."""
    kept = Evaluation.read(work.root)
    Evaluation(kept.measure_from if measure_from is None else measure_from).write(work.root)
    results = opened(work.root, work.plan, failures)
    if not results.finished:
        why = "; ".join(f"{failure.run.label}: {failure.reason}" for failure in failures)
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
