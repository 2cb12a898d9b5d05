"""Running an experiment: every combination of treatment, network and seed, each one on disk as soon as it is done.

Where the runs are made is for others: `onionlab.threads` makes them on the cores of this machine, `onionlab.cluster` on other
machines. A run is a pure function of its inputs; neither the place nor the order in which runs finish changes anything.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onionlab import cluster as on_cluster
from onionlab import threads
from onionlab.errors import RunError
from onionlab.evaluation import Evaluation, check_measure_from
from onionlab.observer import Observer, Silent
from onionlab.plan import Plan, is_finished, is_outdated, read_experiment
from onionlab.results import Experiment, opened
from onionlab.results_directory import check_replaceable, prepared
from onionlab.work import Work

if TYPE_CHECKING:
    from onionlab.until import UntilCi

__all__ = ["Observer", "Silent", "default_directory", "run"]


def default_directory(experiment: Path) -> Path:
    """Where results go unless told otherwise: ``out/<name of the experiment file>``."""
    return Path("out") / experiment.stem


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
    until_ci: UntilCi | None = None,
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
        Results directory; ``out/<name of the experiment file>`` by default.
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
    until_ci : UntilCi, optional
        Add networks until an interval is narrow enough (`onionlab.until`).
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
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}; at least one run at a time is needed")
    if cluster is not None:
        on_cluster.check(cluster)
    root = Path(out) if out is not None else default_directory(path)
    if until_ci is not None:
        from onionlab.until import run_until

        if networks is not None:
            raise ValueError("until_ci finds the number of networks; leave out networks")
        how: dict[str, Any] = {"jobs": jobs, "fresh": fresh, "observer": observer, "cluster": cluster}
        return run_until(path, root, until_ci, report=report, measure_from=measure_from, **how)
    text = read_experiment(path)
    if networks is not None:
        from onionlab.until import with_networks

        text = with_networks(text, networks)
    plan = Plan.of(path, text)
    if measure_from is not None:
        check_measure_from(measure_from, plan)
    watcher = observer or _default_observer()
    with prepared(root, text, plan):
        waiting = [planned for planned in plan.runs if fresh or not is_finished(root, plan, planned)]
        for planned in waiting:
            check_replaceable(root / planned.directory)
        outdated = 0 if fresh else sum(is_outdated(root, plan, planned) for planned in waiting)
        watcher.planned(plan, len(plan.runs) - len(waiting), outdated)
        work = Work(path, text, plan, root, watcher)
        if cluster is None or not waiting:
            failures = threads.work_off(work, waiting, jobs or threads.cores())
        else:
            failures = on_cluster.work_off(work, waiting, cluster, jobs)
        Evaluation(measure_from).write(root)
        results = opened(root, plan, failures)
        if not results.finished:
            raise RunError("; ".join(f"{failure.run.label}: {failure.reason}" for failure in failures))
        if report:
            results.report()
    return results


def _default_observer() -> Observer:
    """Who is told where the caller names nobody: the reader of a notebook, if this is its kernel."""
    if "ipykernel" not in sys.modules:
        return Silent()
    from onionlab.notebook import NotebookProgress

    return NotebookProgress()
