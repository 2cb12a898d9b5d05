"""Running an experiment file, with as many networks as it asks for or as an interval needs: what `onionlab.run` does."""

from __future__ import annotations

from pathlib import Path

from onionlab.results.experiment import Experiment
from onionlab.running.observer import Observer
from onionlab.running.place import chosen
from onionlab.running.runner import run_once
from onionlab.running.until import UntilCi, rule_from, run_until

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
    is missing after networks, seeds, treatments or points of a sweep were added to the file. Finished runs of another form of
    the experiment are not replaced unless ``fresh`` says so; those of another build of onionlab are. A keyboard interrupt stops
    at once and keeps what is finished.

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
        Draw ``report.html`` with its charts and tables at the end. An earlier one is removed before other runs are made than it
        shows.
    observer : onionlab.Observer, optional
        Told about progress; a line below the cell in a notebook, nobody elsewhere by default.
    networks : int, optional
        Number of sampled networks in place of the file's; network k is the same network in either case.
    measure_from : str, optional
        ``auto`` or a time such as ``"40 s"`` in place of the file's `measure-from`; ``auto`` is when the network's goodput has
        settled (`onionlab.stats.steady_state`). The results directory keeps it; ``file`` takes back what was chosen before.
    until_ci : onionlab.UntilCi or str, optional
        Add networks until an interval is narrow enough (`onionlab.running.until`): a width such as ``"5%"``, of the median time
        to the last byte of the first kind of client that has one, or a rule, which says of what (a key into
        `onionlab.METRICS`).
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
    ValueError
        If ``jobs`` is less than 1, or both ``networks`` and ``until_ci`` are given.
    RunError
        If no run finished at all.
    ResultsError
        If the results cannot be written, or finished runs of another form of the experiment would be lost.
    ClusterError
        If the cluster cannot be used.

    Examples
    --------
    >>> exp = onionlab.run("experiments/swrr/demo.toml")  # doctest: +SKIP
    """
    place = chosen(jobs, cluster)
    path = Path(experiment)
    root = Path(out) if out is not None else default_directory(path)
    if until_ci is None:
        return run_once(
            path,
            root,
            place=place,
            fresh=fresh,
            report=report,
            observer=observer,
            networks=networks,
            measure_from=measure_from,
        )
    if networks is not None:
        raise ValueError("until_ci finds the number of networks; leave out networks")
    rule = rule_from(until_ci)
    return run_until(path, root, rule, place=place, fresh=fresh, report=report, observer=observer, measure_from=measure_from)
