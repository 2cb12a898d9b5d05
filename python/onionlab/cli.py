"""The command line: which commands there are, and how their refusals are said."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from onionlab import _core
from onionlab.commands import EXIT_FAILED, EXIT_REFUSED
from onionlab.commands.doctor import doctor
from onionlab.commands.evidence import calibrate, reproduce
from onionlab.commands.export import app as export_app
from onionlab.commands.foreign import show_cause
from onionlab.commands.look import compare, plot
from onionlab.commands.networks import fetch_consensus, import_, schema, synth
from onionlab.commands.run import report, run
from onionlab.commands.shared_links import shared_links
from onionlab.errors import ClusterError, DocumentError, OnionlabError, QuestionError, ResultsError, ScenarioError
from onionlab.untrusted import clipped, plain

#: What the system says where an output cannot be written to.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

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


fetch_app = typer.Typer(help="Get documents of the real Tor network.", no_args_is_help=True)

app.command(epilog="Example: onionlab run experiments/swrr/demo.toml --jobs 2")(run)
app.command(epilog="Example: onionlab report out/demo --measure-from auto")(report)
app.command(epilog="Example: onionlab plot out/demo --paper one-column --only 'time-to-last-byte-*'")(plot)
app.command(epilog="Example: onionlab compare out/kist out/vanilla")(compare)
app.command(epilog="Example: onionlab schema > experiment.schema.json")(schema)
app.command(name="import", epilog="Example: onionlab import tornet-0.01 --out experiments/tornet")(import_)
app.command(epilog="Example: onionlab synth --relays 100 --year 2026 -o small-network.txt")(synth)
fetch_app.command("consensus", epilog="Example: onionlab fetch consensus --date 2021-11-15T13 -o november.xz")(fetch_consensus)
app.add_typer(fetch_app, name="fetch")
app.add_typer(export_app, name="export")
app.command("shared-links", epilog="Example: onionlab shared-links consensus-2021-07-20.xz --circuits 96000 --undirected")(
    shared_links
)
app.command(epilog="Example: onionlab calibrate out/today --metrics tor_metrics_2026-05-01--2026-05-31.json")(calibrate)
app.command(epilog="Example: onionlab reproduce salsa")(reproduce)
app.command(epilog="Example: onionlab doctor")(doctor)


def _check_arguments() -> None:
    """Refuse what is empty or no UTF-8 among the arguments.

    An empty name of a folder would be the working folder's. Names of files go to the simulator, and into reports, as texts.
    """
    for argument in sys.argv[1:]:
        if not argument or re.fullmatch("--[a-z-]+=", argument):
            raise QuestionError(f"{argument or 'an argument'} is empty, where a name or a value is needed: an unset variable?")
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise QuestionError(f"the argument {clipped(argument)!r} is not UTF-8, which names of files must be here") from error


def _bear_with_streams() -> None:
    """Let no terminal end what is computed: one that lacks a sign gets another, and what is closed is written nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (until the end)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def main() -> None:
    """Run the command line; every refusal is one sentence on the error stream."""
    _bear_with_streams()
    try:
        try:
            _check_arguments()
            app()
        finally:
            sys.stdout.flush()
    except (ClusterError, ScenarioError, DocumentError, QuestionError, ResultsError) as error:
        show_cause(error)
        print(f"onionlab: {plain(error)}", file=sys.stderr)
        sys.exit(EXIT_REFUSED)
    except OnionlabError as error:
        print(f"onionlab: {plain(error)}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:
        # The reader of our output has seen enough (`onionlab schema | head`).
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        # What writes files says so itself; what is left is standard output on a full disk, or a system that is worse off.
        of_output = error.filename is None and error.errno in UNWRITABLE
        where = "standard output" if of_output else plain(error.filename or "")
        reason = error.strerror or str(error) or type(error).__name__
        print(f"onionlab: {where}: {reason}" if where else f"onionlab: {reason}", file=sys.stderr)
        if of_output:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
