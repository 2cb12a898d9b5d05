"""``onionlab shared-links``: how many links circuits share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    from onionlab.commands.carried_out.shared_links import How, answer, asked

    question = asked(
        circuits=circuits,
        internal=internal,
        internal_share=internal_share,
        undirected=undirected,
        per_client=per_client,
        guard_set=guard_set,
        ports=ports,
        traffic=traffic,
        exclude=exclude or [],
    )
    how = How(scale=scale, method=method, repeat=repeat, seed=seed, form=form, out=out, charts=charts)
    answer(files or [], question, how)
