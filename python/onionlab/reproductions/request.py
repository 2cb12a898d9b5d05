"""What a reproduction is asked for, and what there is to say of each reproduction beside its code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onionlab.reproductions.runs import Observe

#: Where the page is, and a sentence for each figure that should agree and does not.
Outcome = tuple[Path, list[str]]


@dataclass(frozen=True)
class Request:
    """What is to be made again, and how; what a reproduction has no use for (`Reproduction.takes`) stays as it is.

    Attributes
    ----------
    experiments
        The folder with the experiment files and ``published.json``.
    out, docs
        Runs go below ``out``, the page and its charts into ``docs``.
    observe
        Gives a context with an observer of runs; None where nobody wants to be told.
    step
        Told what is being computed, where nothing is run.
    reference
        Measurements of others: a folder, or a file.
    consensuses
        Documents of the real network, and folders of them; without any, what is usual.
    seeds
        How many seeds of each experiment; None for the usual number.
    networks
        Networks by the beginnings of their names; None for the usual ones, none of them to write only the page.
    network_count
        How many sampled networks, the first ones; None for all.
    duration
        Simulated time, such as ``"20 min"``; None for the usual.
    load
        Users open so many times as many circuits.
    at_most
        Wall time, such as ``"3 h"``, after which a run ends sooner; None for no limit.
    quick
        A small form, whose results are kept apart.
    quarter
        A quarter of Tor too.
    parts
        Which parts are run; None for all.
    kept
        A folder for what each finished experiment came to (`onionlab.reproductions.kept.Kept`).
    as_kept
        What is there is taken with whatever settings it was made, and nothing is run.
    """

    experiments: Path
    out: Path
    docs: Path
    observe: Observe | None = None
    step: Callable[[str], None] = lambda _: None
    reference: Path | None = None
    consensuses: Sequence[Path] = ()
    seeds: int | None = None
    networks: Sequence[str] | None = None
    network_count: int | None = None
    duration: str | None = None
    load: float = 1.0
    at_most: str | None = None
    quick: bool = False
    quarter: bool = False
    parts: Sequence[str] | None = None
    kept: Path | None = None
    as_kept: bool = False


@dataclass(frozen=True)
class Reproduction:
    """One that can be asked for.

    Attributes
    ----------
    run
        Makes it and writes its page.
    takes
        Options of the command line beside those that all have, of which it makes use.
    simulates
        Whether it makes runs, which can be made several at a time, or on a cluster; everything is computed otherwise.
    """

    run: Callable[[Request], Outcome]
    takes: frozenset[str]
    simulates: bool = True
