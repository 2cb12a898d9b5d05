"""``onionlab calibrate`` and ``reproduce``: figures of ours beside figures of others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from onionlab.commands import EXIT_FAILED, EXIT_INTERRUPTED
from onionlab.commands.foreign import drawn_from, show_missing
from onionlab.commands.points import COUNTED, at_point
from onionlab.files import write_output
from onionlab.quantity import seconds

#: What `calibrate` holds a network beside unless told otherwise.
USUAL_METRICS = Path("../shared/data/reference/shadow-networks/targets.json")


def calibrate(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A results directory whose experiment has a group of load perf.")
    ],
    metrics: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The live network's figures: tornettools' tor_metrics_*.json, or tables of Tor Metrics; also several times.",
            show_default=f"2019, from {USUAL_METRICS}",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of Tor that was simulated.", show_default="as far as the results know it"),
    ] = None,
    point: Annotated[int | None, typer.Option(min=1, help=f"Of a sweep: the point. {COUNTED}")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.", show_default="standard output")] = None,
) -> None:
    """Hold a simulated network's figures beside those of the live network, best of the same year.

    The page names the years of both, and says so where they differ.
    """
    from onionlab.live_network import calibrate as calibration
    from onionlab.live_network.tor_metrics import Metrics
    from onionlab.results.experiment import load

    if not metrics and not USUAL_METRICS.exists():
        raise typer.BadParameter(
            f"{USUAL_METRICS} is not there: this names a tor_metrics_*.json of tornettools or a table of Tor Metrics",
            param_hint="--metrics",
        )
    if scale is not None and scale <= 0:
        raise typer.BadParameter(f"{scale:g} is no share: above 0 and at most 1 is allowed", param_hint="--scale")
    live = Metrics()
    for path in metrics or [USUAL_METRICS]:
        live.add(path)
    with drawn_from(directory):
        results = at_point(load(directory), point)
        found = calibration.calibrate(results, live, scale)
        show_missing(results)
        text = calibration.page(found, live, directory, calibration.year_of(results))
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(output, text.encode())


@contextmanager
def _told_when_stopped(results: Path, *, simulates: bool) -> Iterator[None]:
    """Say what a keyboard interrupt leaves: of what simulates, the runs."""
    try:
        yield
    except KeyboardInterrupt:
        left = f"finished runs are kept in {results}, the same command goes on from there" if simulates else "nothing is kept"
        print(f"onionlab: stopped; {left}", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _names(given: list[str], option: str = "--networks") -> list[str]:
    """What stands between commas, of all the times that the option was given; nothing where it says ``none``."""
    named = [name.strip() for each in given for name in each.split(",")]
    if "" in named:
        raise typer.BadParameter("a name is missing beside a comma", param_hint=option)
    return [] if named == ["none"] else named


def _parts(given: list[str]) -> list[str]:
    """Parts of the reproduction of shared connections; one that it has not is refused."""
    from onionlab.reproductions import cci

    named = _names(given, "--parts")
    if unknown := [name for name in named if name not in cci.LATER]:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(cci.LATER)}, and not none", param_hint="--parts")
    return named


def _count(given: list[str]) -> int:
    """How many sampled networks; anything but one number from 1 on is refused."""
    (*before, last) = given
    if before or not last.isascii() or not last.isdigit() or int(last[:9]) < 1:
        raise typer.BadParameter(f"{','.join(given)!r} is no number from 1 on", param_hint="--networks")
    return int(last[:9])


def _time(given: str | None, option: str) -> str | None:
    """A length of time; anything else is refused."""
    if given is None:
        return None
    try:
        length = seconds(given)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
    if length <= 0:
        raise typer.BadParameter(f"{given!r} leaves no time for anything", param_hint=option)
    return given


def _check_folder(folder: Path, option: str) -> None:
    """Refuse what cannot be a folder before hours are spent on what is to lie in it."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not nearest.is_dir():
        raise typer.BadParameter(f"{nearest} is no folder; one is needed", param_hint=option)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"nothing can be written into {nearest}", param_hint=option)


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="What to make again: swrr, cci, predictor, switching, salsa, shadow-tor, shadow-networks or live.",
        ),
    ],
    experiments: Annotated[
        Path | None, typer.Option(help="Folder of its experiment files.", show_default="experiments/PAPER")
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="shadow-tor, shadow-networks: folder of the reference's own measurements, which shadow-tor can do without; "
            "live: a file or a folder with the live network's figures.",
            show_default="../shared/data/reference/PAPER; live: shadow-networks/targets.json there",
        ),
    ] = None,
    consensus: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE|DIR",
            help="salsa: consensus documents, also several times; else synthetic networks.",
            show_default="../shared/data/consensus, where it exists",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="shadow-tor: seeds of each experiment.", show_default="200")
    ] = None,
    networks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...|COUNT",
            help="shadow-networks: networks to run, by the beginnings of their names, also several times; none: only write the "
            "page. cci: how many sampled networks of each part, the first ones.",
            show_default="1pct; all",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(metavar='"20 min"', help="shadow-networks: simulated time; its results are kept apart.", show_default="1 h"),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            metavar="1.2",
            help="shadow-networks: 1.2 times the load, as the reference has it; shown as an effect beside the usual one.",
            show_default="1",
        ),
    ] = None,
    at_most: Annotated[
        str | None,
        typer.Option(
            metavar='"3 h"',
            help="shadow-networks: wall time; a run that would not be over by then ends with the last simulated minute for which "
            "there is time, and is kept and shown with the time that it has reached.",
            show_default="no limit",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="swrr, cci, predictor, switching: a small one; its results and its page are kept apart."),
    ] = False,
    quarter: Annotated[
        bool, typer.Option("--quarter", help="cci: a quarter of Tor too, once; two hours or more for each of two ways.")
    ] = False,
    parts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="cci: what is run besides the testbeds: network, four-ways, more-load, policies, also several times; none: "
            "nothing. The page has besides what is kept, and says what it lacks.",
            show_default="all",
        ),
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="swrr, cci, predictor, switching, shadow-networks: keep what each finished experiment came to in this small "
            "folder, and run none again that is there: a long one goes on later, also on another machine.",
            show_default="nothing is kept but the runs themselves, below --out",
        ),
    ] = None,
    as_kept: Annotated[
        bool,
        typer.Option(
            "--as-kept",
            help="swrr, cci, predictor, switching, with --kept: run nothing of what can be kept, and take it as it is there, "
            "whatever settings and build made it: to write a page anew.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs at the same time; salsa makes none.", show_default="all cores, or all threads of the cluster"
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Make the runs on a Dask cluster; salsa makes none.", show_default="on this machine"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Results go below it.", show_default="out/PAPER")] = None,
    docs: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the page and its charts, in which they replace what an earlier one wrote.",
            show_default="docs/results; with --quick out/PAPER/quick/page",
        ),
    ] = None,
) -> None:
    """Make published results again and write a page that shows ours beside theirs."""
    from onionlab.reproductions import REPRODUCTIONS, Request
    from onionlab.running.place import Place, made_at
    from onionlab.terminal.progress import ProgressDisplay

    if paper not in REPRODUCTIONS:
        raise typer.BadParameter(f"{paper!r} is not one of {', '.join(REPRODUCTIONS)}", param_hint="PAPER")
    chosen = REPRODUCTIONS[paper]
    counted = "network-count" in chosen.takes
    given = {
        "reference": reference,
        "consensus": consensus,
        "seeds": seeds,
        "network-count" if counted else "networks": networks,
        "duration": duration,
        "load": load,
        "at-most": at_most,
        "quick": quick or None,
        "quarter": quarter or None,
        "parts": parts,
        "kept": kept,
        "as-kept": as_kept or None,
    }
    places = {} if chosen.simulates else {"jobs": jobs, "cluster": cluster}
    for option, value in {**given, **places}.items():
        if value is not None and option not in chosen.takes:
            raise typer.BadParameter(f"{paper} does not use it", param_hint=f"--{option}")
    if as_kept and kept is None:
        raise typer.BadParameter("it needs the folder: --kept names it", param_hint="--as-kept")
    if quick and quarter:
        raise typer.BadParameter("there is no small form of a quarter of Tor: leave out one of the two", param_hint="--quarter")
    if reference is not None and not reference.exists():
        raise typer.BadParameter(f"there is no {reference}", param_hint="--reference")
    results = out if out is not None else Path("out") / paper
    if docs is None:
        docs = results / "quick" / "page" if quick else Path("docs/results")
    for option, folder in {"--out": results, "--docs": docs, "--kept": kept}.items():
        if folder is not None:
            _check_folder(folder, option)
    errors = Console(stderr=True)
    # What computes says in a line what it is at; what simulates shows its runs.
    status = nullcontext() if chosen.simulates else errors.status("")
    with made_at(Place(jobs, cluster)), _told_when_stopped(results, simulates=chosen.simulates), status as line:
        asked = Request(
            experiments=experiments if experiments is not None else Path("experiments") / paper,
            out=results,
            docs=docs,
            observe=lambda: ProgressDisplay(errors, here=cluster is None),
            step=(lambda _: None) if line is None else line.update,
            reference=reference if reference is not None else Path("../shared/data/reference") / paper,
            consensuses=consensus or [],
            seeds=seeds,
            networks=None if networks is None or counted else _names(networks),
            network_count=_count(networks) if networks is not None and counted else None,
            duration=_time(duration, "--duration"),
            load=1.0 if load is None else load,
            at_most=_time(at_most, "--at-most"),
            quick=quick,
            quarter=quarter,
            parts=None if parts is None else _parts(parts),
            kept=kept,
            as_kept=as_kept,
        )
        page, broken = chosen.run(asked)
    print(f"page: {page}")
    for sentence in broken:
        print(f"onionlab: {sentence}", file=sys.stderr)
    if broken:
        raise typer.Exit(EXIT_FAILED)
