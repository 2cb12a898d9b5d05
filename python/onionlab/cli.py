"""The command line.

Exit codes: 0 done, 1 a run failed, 2 the input was refused, 3 an interval is not as narrow as asked for, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from onionlab import _core
from onionlab.errors import ClusterError, DocumentError, OnionlabError, QuestionError, ResultsError, ScenarioError
from onionlab.export_command import app as export_app
from onionlab.files import write_text

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_TOO_WIDE = 3
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="onionlab",
    help="A laboratory for the performance of the Tor network.",
    epilog="Example: onionlab run experiments/swrr/demo.toml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"onionlab {_core.version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Simulate the Tor network cell by cell, compare treatments, and draw a report."""


@app.command(epilog="Example: onionlab run experiments/swrr/demo.toml --jobs 2")
def run(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment file.")],
    out: Annotated[Path | None, typer.Option(help="Results directory.", show_default="out/<name of the file>")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at the same time.", show_default="all cores, or all threads of the cluster")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Repeat finished runs, or keep them and add what is missing.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Draw the report at the end.")] = True,
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
        typer.Option(metavar='"40 s"', help="Begin of the measurement, or auto to find it.", show_default="the file's"),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="tcp://HOST:PORT", help="Make the runs on a Dask cluster.", show_default="on this machine"),
    ] = None,
) -> None:
    """Run an experiment: all treatments, sampled networks and seeds, on all cores; then draw the report.

    Each finished run is on disk at once. After Ctrl-C the same command goes on where it stopped; after networks, seeds or
    treatments were added to the file it makes only what is missing.
    """
    from onionlab import runner
    from onionlab.progress import ProgressDisplay
    from onionlab.until import rule_of, run_until

    root = out if out is not None else runner.default_directory(experiment)
    rule = rule_of(until_ci, metric=metric, kind=kind, of=of, at_most=max_networks)
    options: dict[str, Any] = {"jobs": jobs, "fresh": fresh, "report": report, "measure_from": measure_from, "cluster": cluster}
    errors = Console(stderr=True)
    try:
        with ProgressDisplay(errors, here=cluster is None) as display:
            if rule is None:
                results = runner.run(experiment, root, observer=display, **options)
            else:
                tell = partial(errors.print, soft_wrap=True, highlight=False, markup=False)
                results = run_until(experiment, root, rule, tell=tell, observer=display, **options)
    except KeyboardInterrupt:
        print(f"onionlab: stopped; finished runs are kept in {root}, the same command goes on from there", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    from onionlab.terminal import print_summary

    print_summary(results, Console())
    if report:
        print(f"report: {root / 'report.html'}")
    else:
        print(f"records: {root}; `onionlab report {root}` draws the report")
    if results.failures:
        print(f"onionlab: {len(results.failures)} of {len(results.plan.runs)} runs failed", file=sys.stderr)
        raise typer.Exit(EXIT_FAILED)
    if results.evaluation.until_ci is not None and not results.evaluation.until_ci["reached"]:
        print(f"onionlab: {results.plan.networks} networks are not enough for --until-ci {until_ci}", file=sys.stderr)
        raise typer.Exit(EXIT_TOO_WIDE)


@app.command(epilog="Example: onionlab report out/demo --measure-from auto")
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory of `onionlab run`.")],
    point: Annotated[
        int | None,
        typer.Option(min=1, help="Of a sweep: the whole report of this point, into DIR/points.", show_default="the sweep's"),
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
    from onionlab.evaluation import remember_measure_from
    from onionlab.results import load
    from onionlab.terminal import print_summary

    results, into = load(directory), None
    if measure_from is not None:
        remember_measure_from(measure_from, directory, results.plan)
        results = load(directory)
    if point is not None:
        results, into = results.at_number(point), directory / "points" / str(point)
    path = results.report(into)
    print_summary(results, Console())
    print(f"report: {path}")


@app.command(epilog="Example: onionlab plot out/demo --paper one-column --only 'time-to-last-byte-*'")
def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory of `onionlab run`.")],
    paper: Annotated[str, typer.Option(help="one-column (3.33 in wide) or two-columns (7 in).")] = "one-column",
    out: Annotated[Path | None, typer.Option(help="Folder for the charts.", show_default="DIR/paper/PAPER")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Charts by name, with * and ?; also several times.", show_default="all"),
    ] = None,
    point: Annotated[int | None, typer.Option(min=1, help="Of a sweep: the charts of this point.")] = None,
) -> None:
    """Draw charts for a paper: SVG, PDF and PNG in the width of a column, and the numbers behind each as CSV.

    Distribution functions, also with a logarithmic tail and as complementary ones, and everything that the report shows.
    """
    from onionlab import plot_command
    from onionlab.charts.theme import PAPERS

    if paper not in PAPERS:
        raise typer.BadParameter(f"{paper!r} is not one of {', '.join(PAPERS)}", param_hint="--paper")
    folder, drawn, empty = plot_command.plot(directory, paper, out, only or [], point)
    print(f"{len(drawn)} charts in {folder}: NAME.svg, NAME.pdf, NAME.png, NAME.csv; what they show: {folder / 'captions.md'}")
    for sentence in empty:
        print(f"onionlab: {sentence}", file=sys.stderr)


@app.command(epilog="Example: onionlab compare out/kist out/vanilla")
def compare(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR DIR...", help="Results directories of `onionlab run`.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the page.", show_default="out/compare-<names>")] = None,
) -> None:
    """Compare finished experiments: what differs between them, and what that does; paired where their networks are the same."""
    from onionlab.compare_command import answer

    answer(directories, out, Console())


@app.command(epilog="Example: onionlab schema > experiment.schema.json")
def schema(
    of: Annotated[str, typer.Argument(metavar="[WHAT]", help="experiment, or network: a network document.")] = "experiment",
) -> None:
    """Print the JSON Schema of the experiment file or of the network document, for editors that complete and check."""
    schemas = {"experiment": _core.schema, "network": _core.network_schema}
    if of not in schemas:
        raise typer.BadParameter(f"{of!r} is not one of {', '.join(schemas)}", param_hint="WHAT")
    print(json.dumps(json.loads(schemas[of]()), indent=2, ensure_ascii=False))


@app.command(name="import", epilog="Example: onionlab import tornet-0.01 --out experiments/tornet")
def import_(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A folder that tornettools generated, or a published NAME.network.json.xz.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the experiment; it must be new or empty.")],
    relay_info: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="tornettools: relayinfo_staging_*.json, which has the countries of relays."),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with stream-model-2018.json and packet-model-2018.json, which are copied.",
            show_default="a built-in compact model of Tor's traffic",
        ),
    ] = None,
    latency: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table of round trips between countries.", show_default="built-in places"),
    ] = None,
    tor: Annotated[str | None, typer.Option(help="Version of tor.", show_default="0.3.5 if published, else 0.4.9")] = None,
    duration: Annotated[
        str | None, typer.Option(metavar='"20 min"', help="Simulated time.", show_default="as long as in Shadow")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="How many seeds the experiment runs.")] = 1,
    load: Annotated[float, typer.Option(metavar="1.2", help="So many times the circuits of the source's users.")] = 1.0,
) -> None:
    """Make an experiment of a network that was made elsewhere, for Shadow."""
    from onionlab.importing import Options, import_network

    options = Options(tor=tor, latency=latency, models=models, seeds=seeds, duration=duration, load=load)
    written = import_network(source, out, relay_info, options)
    print(f"{written.experiment}: `onionlab run {written.experiment}` runs it; the hosts are in {written.network}")
    for note in written.notes:
        print(f"onionlab: {note}", file=sys.stderr)


@app.command(epilog="Example: onionlab synth --relays 100 --year 2026 -o small-network.txt")
def synth(
    relays: Annotated[int | None, typer.Option(min=1, help="Number of relays.", show_default="as many as Tor had")] = None,
    year: Annotated[int | None, typer.Option(help="Year whose network is imitated.", show_default="the latest fitted")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another network of the same kind.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.", show_default="standard output")] = None,
) -> None:
    """Write a synthetic consensus whose relays are distributed like those of a year's real network."""
    options = {"relays": relays, "year": year, "seed": seed}
    text = _core.synth(json.dumps({key: value for key, value in options.items() if value is not None}))
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


fetch_app = typer.Typer(help="Get documents of the real Tor network.", no_args_is_help=True)
app.add_typer(fetch_app, name="fetch")


@fetch_app.command("consensus", epilog="Example: onionlab fetch consensus --date 2021-11-15T13 -o november.xz")
def fetch_consensus(
    date: Annotated[str, typer.Option(metavar="YYYY-MM-DD[THH]", help="Hour of the consensus, UTC; midnight without an hour.")],
    flavour: Annotated[str, typer.Option(help="ns, which has exit policies, or microdesc.")] = "ns",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File; compressed if its name ends in .xz.", show_default="CollecTor's name, here"),
    ] = None,
    url: Annotated[str, typer.Option(help="Address of CollecTor or a mirror of it.")] = "https://collector.torproject.org",
) -> None:
    """Get the consensus of an hour from CollecTor, the archive of the Tor project. Its signatures are not verified."""
    from onionlab import fetch
    from onionlab.fetch_display import FetchDisplay

    try:
        hour = fetch.parse_hour(date)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--date") from error
    if flavour not in fetch.FLAVOURS:
        raise typer.BadParameter(f"{flavour!r} is not one of {', '.join(fetch.FLAVOURS)}", param_hint="--flavour")
    with FetchDisplay(Console(stderr=True)) as display:
        found = fetch.consensus(hour, flavour, output, base=url, tell=display.moved)
    print(f"{found.path}: {found.relays:,} relays, valid after {found.valid_after} UTC, from {found.url}")
    print("Its signatures were not verified: it is as trustworthy as the server and the way from there.")


app.add_typer(export_app, name="export")


@app.command(name="shared-links", epilog="Example: onionlab shared-links consensus-2021-07-20.xz --circuits 96000 --undirected")
def shared_links(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Consensus documents and folders of them.", show_default="the built-in network"),
    ] = None,
    circuits: Annotated[int, typer.Option(help="Active circuits of the whole network.")] = 96_876,
    internal: Annotated[bool, typer.Option("--internal", help="Circuits within the network.")] = False,
    internal_share: Annotated[float | None, typer.Option(help="Share of circuits within the network, 0 to 1.")] = None,
    undirected: Annotated[bool, typer.Option("--undirected", help="A link from A to B is the one from B to A.")] = False,
    per_client: Annotated[int, typer.Option(help="Circuits of one client, all over its guard.")] = 1,
    guard_set: Annotated[bool, typer.Option("--guard-set", help="A client's circuits are over three guards.")] = False,
    ports: Annotated[str | None, typer.Option(help="Exits that serve all of these ports, such as 80,6881-6889.")] = None,
    traffic: Annotated[
        str | None,
        typer.Option(
            help="Exits for web, bittorrent-base, bittorrent-extended, other-file-sharing, various; the paper's mixture of them;"
            " or everything: the mixture and nine internal circuits for each external one."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="No relay twice in a circuit (relay), no two of one /16 (subnet); by draw only.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Sample so large a network, circuits in proportion.")] = 1.0,
    method: Annotated[
        str | None,
        typer.Option(
            help="draw: circuits at random; expectation: closed form.",
            show_default="expectation; draw with --exclude, or if --repeat or --seed are given without --scale",
        ),
    ] = None,
    repeat: Annotated[int | None, typer.Option(help="Draws, or sampled networks with --scale: means.", show_default="1")] = None,
    seed: Annotated[int | None, typer.Option(help="Of draws and samples.", show_default="1")] = None,
    form: Annotated[str, typer.Option("--format", help="table, json or parquet.")] = "table",
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="standard output")] = None,
    charts: Annotated[
        Path | None, typer.Option(help="Folder for the charts: the figures of the paper for the document next to November 2021.")
    ] = None,
) -> None:
    """Count how many links of a network carry more than one circuit, as SALSA does, or by closed form."""
    from onionlab.shared_links_command import answer

    answer(
        files or [],
        circuits=circuits,
        internal=internal,
        internal_share=internal_share,
        undirected=undirected,
        per_client=per_client,
        guard_set=guard_set,
        ports=ports,
        traffic=traffic,
        exclude=exclude or [],
        scale=scale,
        method=method,
        repeat=repeat,
        seed=seed,
        form=form,
        out=out,
        charts=charts,
    )


@app.command(epilog="Example: onionlab calibrate out/today --metrics tor_metrics_2026-05-01--2026-05-31.json")
def calibrate(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A results directory whose experiment has a group of load perf.")
    ],
    metrics: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The live network's figures: tornettools' tor_metrics_*.json, or tables of Tor Metrics; also several times.",
            show_default="2019, from ../shared/data/reference/shadow-networks/targets.json",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of Tor that was simulated.", show_default="as far as the results know it"),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.", show_default="standard output")] = None,
) -> None:
    """Hold a simulated network's figures beside those of the live network of the same time."""
    from onionlab import calibrate as calibration
    from onionlab.results import load
    from onionlab.tor_metrics import Metrics

    live = Metrics()
    for path in metrics or [Path("../shared/data/reference/shadow-networks/targets.json")]:
        live.add(path)
    text = calibration.page(calibration.calibrate(load(directory), live, scale), live, directory)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


@app.command(epilog="Example: onionlab reproduce salsa")
def reproduce(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="What to make again: swrr, salsa, shadow-tor, shadow-networks or live.")
    ],
    experiments: Annotated[
        Path | None, typer.Option(help="Folder of its experiment files.", show_default="experiments/PAPER")
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="shadow-tor, shadow-networks: folder of the reference's own measurements; shadow-tor can do without.",
            show_default="../shared/data/reference/PAPER",
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
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="shadow-networks: networks to run, by the beginnings of their names; none: only write the page.",
            show_default="1pct",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(metavar='"20 min"', help="shadow-networks: simulated time; its results are kept apart.", show_default="1 h"),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(metavar="1.2", help="shadow-networks: so many times the load; shown as an effect.", show_default="1"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="swrr: a small one; its results are kept apart.")] = False,
    out: Annotated[Path | None, typer.Option(help="Results go below it.", show_default="out/PAPER")] = None,
    docs: Annotated[Path, typer.Option(help="Folder for the page and its charts.")] = Path("docs/results"),
) -> None:
    """Make published results again and write a page that shows ours beside theirs."""
    from onionlab.progress import ProgressDisplay
    from onionlab.reproductions import COMPUTED, PAPERS, SELF_CONTAINED

    known = [*PAPERS, *COMPUTED, *SELF_CONTAINED]
    if paper not in known:
        raise typer.BadParameter(f"{paper!r} is not one of {', '.join(known)}", param_hint="PAPER")
    for option, value, owners in (
        ("--reference", reference, PAPERS),
        ("--seeds", seeds, ("shadow-tor",)),
        ("--networks", networks, ("shadow-networks",)),
        ("--duration", duration, ("shadow-networks",)),
        ("--load", load, ("shadow-networks",)),
        ("--consensus", consensus, COMPUTED),
        ("--quick", quick or None, SELF_CONTAINED),
    ):
        if value is not None and paper not in owners:
            raise typer.BadParameter(f"{paper} does not use it", param_hint=option)
    folder = experiments if experiments is not None else Path("experiments") / paper
    results = out if out is not None else Path("out") / paper
    errors = Console(stderr=True)
    if paper in COMPUTED:
        with errors.status("") as status:
            page, broken = COMPUTED[paper](folder, consensus or [], results, docs, status.update)
    elif paper in SELF_CONTAINED:
        page, broken = SELF_CONTAINED[paper](folder, results, docs, lambda: ProgressDisplay(errors), quick=quick)
    else:
        chosen: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
        if networks is not None:
            chosen["networks"] = [] if networks == "none" else networks.split(",")
        if duration is not None:
            chosen["duration"] = duration
        if load is not None:
            chosen["load"] = load
        measurements = reference if reference is not None else Path("../shared/data/reference") / paper
        page, broken = PAPERS[paper](folder, measurements, results, docs, lambda: ProgressDisplay(errors), **chosen)
    print(f"page: {page}")
    for sentence in broken:
        print(f"onionlab: {sentence}", file=sys.stderr)
    if broken:
        raise typer.Exit(EXIT_FAILED)


@app.command(epilog="Example: onionlab doctor")
def doctor() -> None:
    """Look whether this machine has what onionlab needs."""
    from onionlab.doctor import examine

    table = Table(box=None, show_header=False)
    findings = examine()
    for finding in findings:
        mark = {True: "[green]ok[/green]", False: "[red]missing[/red]", None: "[yellow]optional[/yellow]"}[finding.fine]
        table.add_row(mark, finding.what, escape(finding.found))
    Console().print(table)
    if any(finding.fine is False for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def main() -> None:
    """Run the command line; every refusal is one sentence on the error stream."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except (ClusterError, ScenarioError, DocumentError, QuestionError, ResultsError) as error:
        print(f"onionlab: {error}", file=sys.stderr)
        sys.exit(EXIT_REFUSED)
    except OnionlabError as error:
        print(f"onionlab: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:
        # The reader of our output has seen enough (`onionlab schema | head`).
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        # What writes files says so itself; what is left is standard output on a full disk, or a system that is worse off.
        print(f"onionlab: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
