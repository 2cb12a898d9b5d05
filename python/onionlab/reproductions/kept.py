"""What each experiment of a reproduction came to, in a few small files: a long one goes on at another time, on another machine.

A results directory holds every record of its runs and is large. What a page needs of it is small: an experiment is reduced to
that as soon as its runs are over. `Kept` is a folder of such remains, which can be passed on: an experiment that it has is not
run again, and once it has all, the page can be written without any run.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import math
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.errors import ResultsError, UntrustedError
from onionlab.files import write_all, writing
from onionlab.plan import Plan, fingerprint, read_experiment
from onionlab.quantity import format_duration
from onionlab.records import read_parquet
from onionlab.reproductions.runs import Ahead, whole
from onionlab.results.cost import clock
from onionlab.results.describe import plural
from onionlab.results.experiment import Experiment
from onionlab.running import runner
from onionlab.running.time_limit import TimeLimit
from onionlab.untrusted import read_text

#: Written into every index; one with another number is not read.
FORMAT = 2

#: Name of the file that says what is kept; frames lie beside it, ``<name>.parquet``.
INDEX = "index.json"

#: Column that says to which experiment a row belongs.
OWNER = "experiment"


@dataclass(frozen=True)
class Made:
    """Which code made runs, how many, and how many seconds of a processor they took (of the clock where a system tells none)."""

    version: str
    build: str
    runs: int
    seconds: float

    @classmethod
    def of(cls, experiment: Experiment) -> tuple[Made, ...]:
        """One for each code that made runs of an experiment."""
        table = experiment.runs.group_by("version", "build", maintain_order=True).agg(
            runs=pl.len(), seconds=pl.col(clock(experiment)).sum()
        )
        return tuple(cls(**row) for row in table.iter_rows(named=True))

    @classmethod
    def read(cls, entry: dict[str, Any]) -> Made:
        """One of an index, which anybody may have written; raises `TypeError` or `ValueError` where it is no such thing."""
        made = cls(**entry)
        numbers = made.runs, made.seconds
        if not isinstance(made.version, str) or not isinstance(made.build, str):
            raise ValueError("`version` or `build` is no text")
        if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
            raise ValueError("`runs` or `seconds` is no number")
        if not isinstance(made.runs, int) or not 0 < made.runs < 2**53 or not 0 <= made.seconds < math.inf:
            raise ValueError("`runs` is no whole number above 0, or `seconds` no length of time")
        return made


@dataclass(frozen=True)
class Reduced:
    """One experiment, reduced.

    Attributes
    ----------
    frames
        By name; those of one name have the same columns in all experiments of a reproduction.
    made
        Its runs.
    facts
        What is no frame: values that JSON can hold.
    """

    frames: Mapping[str, pl.DataFrame]
    made: tuple[Made, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def _no_facts(_: Mapping[str, Any]) -> None:
    """Any facts will do."""


@dataclass(frozen=True)
class Form:
    """What a reproduction keeps of its experiments: anybody may have written what lies in a folder.

    Attributes
    ----------
    number
        Changes whenever something else is taken of experiments.
    frames
        By name, the columns that each has and their types.
    check
        Handed an experiment's facts; raises a `LookupError`, `TypeError` or `ValueError` where they are not as they must be.
    """

    number: int
    frames: Mapping[str, Mapping[str, Any]]
    check: Callable[[Mapping[str, Any]], object] = _no_facts


def frames_together(reduced: Iterable[Reduced], name: str) -> pl.DataFrame:
    """The frames of this name of all experiments below each other; an experiment may lack it."""
    return pl.concat([one.frames[name] for one in reduced if name in one.frames])


def made_together(reduced: Iterable[Reduced]) -> tuple[Made, ...]:
    """All runs, one entry for each code, in the order in which they come."""
    return together(made for one in reduced for made in one.made)


def together(parts: Iterable[Made]) -> tuple[Made, ...]:
    """One entry for each code, in the order in which they come."""
    found: dict[tuple[str, str], Made] = {}
    for made in parts:
        key = made.version, made.build
        before = found.get(key, Made(*key, 0, 0.0))
        found[key] = Made(*key, before.runs + made.runs, before.seconds + made.seconds)
    return tuple(found.values())


def code(made: Sequence[Made]) -> str:
    """Which versions and builds made the runs, in words.

    Examples
    --------
    >>> code([Made("0.1.0", "1f", 4, 2.0)])
    'onionlab 0.1.0, build 1f'
    >>> code([Made("0.1.0", "1f", 4, 2.0), Made("0.1.0", "2e", 1, 2.0)])
    'onionlab 0.1.0, build 1f (4 runs); onionlab 0.1.0, build 2e (1 run)'
    """
    named = [f"onionlab {one.version}, build {one.build or 'unknown'}" for one in made]
    if len(named) > 1:
        named = [f"{name} ({plural(one.runs, 'run')})" for name, one in zip(named, made, strict=True)]
    return "; ".join(named)


def took(made: Mapping[str, Sequence[Made]], *more: str) -> str:
    """The last words of a page: how many runs took how long, part by part, and by which code they were made."""
    every = together(one for own in made.values() for one in own)
    seconds = {part: sum(one.seconds for one in own) for part, own in made.items()}
    count, total = sum(one.runs for one in every), format_duration(round(sum(seconds.values())), coarse=True)
    parts = ", ".join(f"{part} {format_duration(round(of_part), coarse=True)}" for part, of_part in seconds.items())
    first = f"{count:,} runs took {total} of processor time"
    words = [f"{first}: {parts}." if len(made) > 1 else f"{first}.", *more, f"{code(every)}."]
    return " ".join([*words, "What is finished is kept: the same command goes on where it stopped."])


class Kept:
    """A folder of reduced experiments.

    Parameters
    ----------
    folder : path
        Made with the first experiment that is added.
    form : Form
        What is kept of experiments.
    as_kept : bool
        An experiment of a name is the one that is asked for, with whatever settings it was made.

    Raises
    ------
    ResultsError
        If there is something in the folder that is no such thing, or that was reduced in another way.
    """

    def __init__(self, folder: Path, form: Form, *, as_kept: bool = False) -> None:
        self._folder = folder
        self._form = form
        self.as_kept = as_kept
        self._entries: dict[str, dict[str, Any]] = {}
        self._frames: dict[str, pl.DataFrame] = {}
        self._read()

    def _read(self) -> None:
        if not (self._folder / INDEX).is_file():
            return
        try:
            index = json.loads(read_text(self._folder / INDEX))
            if index["format"] != FORMAT or index["form"] != self._form.number:
                raise ResultsError(f"{self._folder} was kept by another version of onionlab; name another folder, or remove it")
            self._entries = {str(name): dict(entry) for name, entry in index["experiments"].items()}
            self._frames = {name: self._frame(name) for name in map(str, index["frames"])}
            # Before anything is run for what lies there, not when it is asked for.
            for name in self._entries:
                self.take(name)
        except (UntrustedError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ResultsError(f"{self._folder} holds nothing that a reproduction kept: {error}") from error

    def _frame(self, name: str) -> pl.DataFrame:
        """A frame as it lies there; raises a `ValueError` where it cannot be read, or is not one that is kept."""
        if name not in self._form.frames:
            raise ValueError(f"{name!r} is not one of {', '.join(self._form.frames)}")
        try:
            frame = read_parquet(self._folder / f"{name}.parquet")
        except ResultsError as error:
            raise ValueError(str(error)) from error
        if dict(frame.schema) != {OWNER: pl.String, **self._form.frames[name]}:
            raise ValueError(f"{name}.parquet has other columns, or others in them, than {', '.join(self._form.frames[name])}")
        return frame

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._folder

    @property
    def names(self) -> tuple[str, ...]:
        """What is kept."""
        return tuple(self._entries)

    def take(self, name: str, identity: str | None = None) -> Reduced | None:
        """The experiment of this name, if it is kept and has the identity, where one is given and counts."""
        entry = self._entries.get(name)
        if entry is None or not (self.as_kept or identity is None or entry.get("identity") == identity):
            return None
        own = {stem: frame.filter(pl.col(OWNER) == name).drop(OWNER) for stem, frame in self._frames.items()}
        try:
            made, facts = tuple(Made.read(one) for one in entry["made"]), dict(entry["facts"])
            self._form.check(facts)
            return Reduced(own, made, facts)
        except (LookupError, TypeError, ValueError) as error:
            raise ResultsError(f"{self._folder / INDEX}: the entry {name!r} is not whole: {error}") from error

    def add(self, name: str, identity: str, reduced: Reduced) -> None:
        """Keep an experiment, in place of one of this name; all is written at once, or nothing is changed.

        What another command has added since is read first, and stays.
        """
        with self._locked():
            self._read()
            for stem, frame in self._frames.items():
                self._frames[stem] = frame.filter(pl.col(OWNER) != name)
            for stem, frame in reduced.frames.items():
                if dict(frame.schema) != self._form.frames[stem]:
                    raise TypeError(f"{stem} of {name!r} has not the columns of what is kept")
                owned = frame.select(pl.lit(name).alias(OWNER), pl.all())
                before = self._frames.get(stem)
                self._frames[stem] = owned if before is None else pl.concat([before, owned])
            made = [vars(one) for one in reduced.made]
            self._entries[name] = {"identity": identity, "made": made, "facts": dict(reduced.facts)}
            index = {"format": FORMAT, "form": self._form.number, "frames": list(self._frames), "experiments": self._entries}
            contents = {self._folder / f"{stem}.parquet": _parquet(frame) for stem, frame in self._frames.items()}
            # Last, so that nothing is named before it is there.
            contents[self._folder / INDEX] = f"{json.dumps(index, indent=1, ensure_ascii=False)}\n".encode()
            write_all(contents)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Alone in the folder, which is made."""
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            folder = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def opened(folder: Path | None, form: Form, *, quick: bool = False, as_kept: bool = False) -> Kept | None:
    """What is kept in a folder; experiments of a quick run, which have the names of the whole ones, in one within it."""
    if folder is None:
        return None
    return Kept(folder / "quick" if quick else folder, form, as_kept=as_kept)


def kept_options(folder: Path | None, *, as_kept: bool = False) -> str:
    """The folder as the command line on a page has it: without where it lies on a machine."""
    return "" if folder is None else f" --kept {'DIR' if folder.is_absolute() else folder}{' --as-kept' if as_kept else ''}"


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=12)
    return buffer.getvalue()


def identity(file: Path) -> str:
    """Hash of everything that determines what an experiment comes to, but for the code that runs it."""
    return identity_of(Plan.of(file, read_experiment(file)))


def identity_of(plan: Plan) -> str:
    """The same of an experiment whose plan is known."""
    scenarios = [_what_counts(scenario) for scenario in plan.scenarios] or [_what_counts(plan.scenario)]
    runs = [fingerprint(scenarios[run.point], ("", ""), run.treatment, run.network, run.seed) for run in plan.runs]
    text = json.dumps([sorted(runs), plan.points, plan.scenario["measure-from"]], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _what_counts(value: Any) -> Any:
    """A scenario without what can change while all that it comes to stays.

    The places of documents whose digests it has: they lie elsewhere on another machine. And the settings that it has not, which
    may be more in another version.
    """
    if isinstance(value, dict):
        gone = {"path"} if "digest" in value else {"streams", "packets"} if "digests" in value else set()
        return {key: _what_counts(own) for key, own in value.items() if key not in gone and own is not None}
    return [_what_counts(own) for own in value] if isinstance(value, list) else value


def work_off(
    ahead: Sequence[Ahead],
    reduce: Callable[[int, Experiment], Reduced],
    observer: runner.Observer,
    kept: Kept | None = None,
    limit: TimeLimit | None = None,
    sooner: Callable[[int, float], str] | None = None,
) -> Generator[Reduced]:
    """Run the experiments that are not kept, and give what each comes to, in their order, as soon as it is known.

    Parameters
    ----------
    ahead : sequence
        Name, experiment file and results directory of each.
    reduce : callable
        From the place of an experiment in ``ahead`` and its results, which are whole.
    observer : Observer
        Told of all runs together.
    kept : Kept, optional
        What is there is not run, and what is run is added. If it is taken as it is, nothing is run.
    limit : TimeLimit, optional
        Runs that would not be over by then end sooner (`onionlab.running.runner.run_all`).
    sooner : callable, optional
        From the place of an experiment and the simulated seconds at which it ended, if that was before its time: its name then.

    Raises
    ------
    ResultsError
        If what is kept is taken as it is, and lacks an experiment.
    """
    known: list[tuple[str, Reduced | None]] = [("", None)] * len(ahead)
    if kept is not None:
        for number, (name, file, _) in enumerate(ahead):
            own = identity(file)
            known[number] = own, kept.take(name, own)
    missing = [one for one, (_, found) in zip(ahead, known, strict=True) if found is None]
    if missing and kept is not None and kept.as_kept:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ResultsError(f"{kept.folder} lacks {missing[0][0]!r}{more}; without --as-kept what is missing is run")
    # Closed with this one, so that no run goes on for nobody.
    with closing(runner.run_all(missing, observer=observer, whole=True, limit=limit) if missing else _nothing()) as made:
        for number, ((name, file, _), (own, found)) in enumerate(zip(ahead, known, strict=True)):
            if found is None:
                results = whole(next(made))
                found = reduce(number, results)
                if sooner is not None and (there := identity_of(results.plan)) != identity(file):
                    name, own = sooner(number, results.duration), there
                if kept is not None:
                    kept.add(name, own, found)
            yield found


def _nothing() -> Generator[Experiment]:
    yield from ()
