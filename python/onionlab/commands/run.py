"""``onionlab run`` and ``report``: an experiment's runs, and what came out."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from onionlab.commands import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TOO_WIDE
from onionlab.commands.foreign import drawn_from
from onionlab.commands.points import COUNTED, at_point

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment


def run(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Results directory.", show_default="out/<name of the file>; of an experiment.toml, out/<name of its folder>"
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at the same time.", show_default="all cores, or all threads of the cluster")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Repeat finished runs, or keep them and add what is missing.")
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report/--no-report",
            help="Draw the report at the end. An earlier one is deleted as soon as runs begin that it does not show.",
        ),
    ] = True,
    until_ci: Annotated[
        str | None,
        typer.Option(metavar="5%", help="Add networks until the 95 % interval reaches no further than this to each side."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="--until-ci: of what, a metric of the summary.", show_default="ttlb_median")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="--until-ci: of which clients.", show_default="the first in the report")
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(help="--until-ci: every mean, or every difference to the first treatment.", show_default="mean"),
    ] = None,
    max_networks: Annotated[int | None, typer.Option(help="--until-ci: most networks.", show_default="100")] = None,
    measure_from: Annotated[
        str | None,
        typer.Option(
            metavar='"40 s"',
            help="Begin of the measurement: a time, auto to find it, or file: that of the experiment file. The results directory "
            "keeps what was chosen until the file says another time, or this takes it back.",
            show_default="as chosen before, else the file's",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="tcp://HOST:PORT", help="Make the runs on a Dask cluster.", show_default="on this machine"),
    ] = None,
) -> None:
    """Run an experiment: all treatments, sampled networks and seeds, on all cores; then draw the report.

    Each finished run is on disk at once. After Ctrl-C the same command goes on where it stopped; after networks, seeds or
    treatments were added to the file it makes only what is missing. Where the file was changed so that finished runs are no
    longer its own, nothing is run: --fresh replaces them, --out names another directory. What another build of onionlab made is
    made again.
    """
    from onionlab.running.directory import holds_finished
    from onionlab.running.place import chosen
    from onionlab.running.run import default_directory
    from onionlab.running.runner import run_once
    from onionlab.running.until import rule_of, run_until
    from onionlab.terminal.progress import ProgressDisplay

    root = out if out is not None else default_directory(experiment)
    rule = rule_of(until_ci, metric=metric, kind=kind, of=of, at_most=max_networks)
    place = chosen(jobs, cluster)
    errors = Console(stderr=True)
    tell = partial(errors.print, soft_wrap=True, highlight=False, markup=False)
    try:
        with ProgressDisplay(errors, here=cluster is None) as display:
            run_it = run_once if rule is None else partial(run_until, rule=rule, tell=tell)
            results = run_it(
                experiment, root, place=place, fresh=fresh, report=report, observer=display, measure_from=measure_from
            )
    except KeyboardInterrupt:
        on = "without --fresh it goes on from there" if fresh else "the same command goes on from there"
        kept = f"finished runs are kept in {root}, {on}" if holds_finished(root) else "before any run was finished"
        print(f"onionlab: stopped; {kept}", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    from onionlab.terminal.summary import print_summary

    if measure_from is None:
        _remind_of_begin(results)
    print_summary(results, Console())
    if report:
        print(f"report: {root / 'report.html'}")
    else:
        print(f"records: {root}; `onionlab report {shlex.quote(str(root))}` draws the report")
    if results.failures:
        print(f"onionlab: {len(results.failures)} of {len(results.plan.runs)} runs failed", file=sys.stderr)
        raise typer.Exit(EXIT_FAILED)
    if results.evaluation.until_ci is not None and not results.evaluation.until_ci["reached"]:
        print(f"onionlab: {results.plan.networks} networks are not enough for --until-ci {until_ci}", file=sys.stderr)
        raise typer.Exit(EXIT_TOO_WIDE)


def _remind_of_begin(results: Experiment) -> None:
    """Say that the begin of the measurement was chosen in an earlier command: nobody would look for it in the directory."""
    chosen = results.evaluation.measure_from
    if chosen is not None:
        print(
            f"onionlab: the measurement begins where --measure-from {shlex.quote(chosen)} of an earlier command puts it, not at "
            f"the file's {results.plan.scenario['measure-from']}; "
            f"`onionlab report {shlex.quote(str(results.directory))} --measure-from file` goes back to the file's",
            file=sys.stderr,
        )


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory of `onionlab run`.")],
    point: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Of a sweep: the whole report of this point, into DIR/points. {COUNTED}", show_default="the sweep's"
        ),
    ] = None,
    measure_from: Annotated[
        str | None,
        typer.Option(
            metavar='"40 s"',
            help="Begin of the measurement from now on: a time, auto to find it, or file: that of the experiment file.",
            show_default="as it was",
        ),
    ] = None,
) -> None:
    """Draw the report of a results directory anew, from whatever runs are finished."""
    from onionlab.results.evaluation import remember_measure_from
    from onionlab.results.experiment import load
    from onionlab.terminal.summary import print_summary

    with drawn_from(directory):
        results, into = load(directory), None
        if measure_from is not None:
            remember_measure_from(measure_from, directory, results.plan)
            results = load(directory)
        else:
            _remind_of_begin(results)
        if point is not None:
            results, into = at_point(results, point), directory / "points" / str(point)
        path = results.report(into)
        print_summary(results, Console())
    print(f"report: {path}")
