"""What lies in a results directory that somebody else may have made: whatever it does to us is one sentence."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from onionlab.errors import OnionlabError, ResultsError
from onionlab.untrusted import clipped

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment

#: The environment variable with which an unexpected error says where it happened.
TRACEBACK = "ONIONLAB_TRACEBACK"


@contextmanager
def drawn_from(*directories: Path) -> Iterator[None]:
    """Read and draw what lies in results directories; what nobody has foreseen becomes a `ResultsError`, with it as its cause.

    Tables and plans are checked where they are opened, so this is for what the checks do not see, and for defects of our own:
    the sentence says how to find out which of them it is.
    """
    import polars as pl

    try:
        yield
    except (OnionlabError, OSError, MemoryError, typer.BadParameter, typer.Exit):
        raise
    # Polars' panics are no `Exception`.
    except (Exception, pl.exceptions.PanicException) as error:
        named = ", ".join(map(str, directories))
        raise ResultsError(
            f"{named}: what lies there cannot be drawn ({type(error).__name__}: {clipped(error, 160)}); onionlab did not write "
            f"it so, or has a defect: {TRACEBACK}=1 in the environment shows where"
        ) from error


def show_missing(experiment: Experiment) -> None:
    """Say on the error stream that runs are missing, which nothing that is drawn or written of the others shows."""
    from onionlab.results.describe import missing_runs

    for sentence in missing_runs(experiment):
        print(f"onionlab: {sentence}", file=sys.stderr)


def show_cause(error: BaseException) -> None:
    """Print where an unexpected error happened, if that is asked for."""
    if error.__cause__ is not None and os.environ.get(TRACEBACK):
        traceback.print_exception(error.__cause__)
