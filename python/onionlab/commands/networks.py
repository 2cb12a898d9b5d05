"""``onionlab import``, ``synth``, ``fetch`` and ``schema``: where networks come from, and how files are written."""

from __future__ import annotations

import json
import lzma
import math
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from onionlab import _core
from onionlab.files import write_output

#: Most relays of a synthetic consensus, as many as an experiment's network may have hosts.
MOST_RELAYS = 100_000


def schema(
    of: Annotated[str, typer.Argument(metavar="[WHAT]", help="experiment, or network: a network document.")] = "experiment",
) -> None:
    """Print the JSON Schema of the experiment file or of the network document, for editors that complete and check."""
    schemas = {"experiment": _core.schema, "network": _core.network_schema}
    if of not in schemas:
        raise typer.BadParameter(f"{of!r} is not one of {', '.join(schemas)}", param_hint="WHAT")
    print(json.dumps(json.loads(schemas[of]()), indent=2, ensure_ascii=False))


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A folder that tornettools generated, or a published NAME.network.json, plain, .xz or .gz."
        ),
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


def synth(
    relays: Annotated[
        int | None, typer.Option(min=4, max=MOST_RELAYS, help="Number of relays.", show_default="as many as Tor had")
    ] = None,
    year: Annotated[
        float | None, typer.Option(help="Year whose network is imitated; 2024.5 lies between two.", show_default="2025")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**64 - 1,
            help="Another seed gives another network of the same kind.",
            show_default='that of the network kind "synthetic"',
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; compressed if its name ends in .xz.", show_default="standard output"),
    ] = None,
) -> None:
    """Write a synthetic consensus whose relays are distributed like those of a year's real network."""
    if year is not None and not math.isfinite(year):
        raise typer.BadParameter(f"{year} is no year", param_hint="--year")
    options = {"relays": relays, "year": year, "seed": seed}
    text = _core.synth(json.dumps({key: value for key, value in options.items() if value is not None}))
    if output is None:
        sys.stdout.write(text)
    else:
        write_output(output, lzma.compress(text.encode()) if output.suffix == ".xz" else text.encode())


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
    from onionlab.live_network import fetch
    from onionlab.terminal.transfer import FetchDisplay

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
