"""Running the experiment files of a reproduction, whole or in their quick form."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onionlab.errors import ResultsError, RunError
from onionlab.files import write_text
from onionlab.results.experiment import Experiment
from onionlab.running import runner

#: Gives a context with an observer of the runs of one experiment.
Observe = Callable[[], AbstractContextManager[runner.Observer]]


def watching(observe: Observe | None) -> AbstractContextManager[runner.Observer]:
    """A context with an observer; one that does nothing where nobody wants to be told."""
    return observe() if observe is not None else nullcontext(runner.Silent())


@dataclass(frozen=True)
class Changes:
    """What is written instead of every match of a regular expression.

    Attributes
    ----------
    always
        Each must match: an experiment that goes on unchanged is another one than was meant, perhaps for hours.
    where_there
        Of files that differ in what they have.
    """

    always: Mapping[str, str]
    where_there: Mapping[str, str] = field(default_factory=dict)


#: The line of an experiment file that says how many networks are sampled.
NETWORKS = r"(?m)^networks = \d+$"

#: Name, experiment file and results directory, as `onionlab.running.runner.run_all` takes them.
Ahead = tuple[str, Path, Path]


def run(file: Path, out: Path, observe: Observe, changes: Changes | None = None) -> Experiment:
    """Run what is missing of an experiment below ``out``; refuse to go on where a run fails.

    Parameters
    ----------
    file, out : path
        The experiment file, and the folder for its results, which go into one of the file's name.
    observe : callable
        Gives a context with an observer.
    changes : Changes, optional
        The quick form. The file so made goes below ``out``.
    """
    _, file, results = prepare(file, out, changes)
    with observe() as observer:
        return whole(runner.run_once(file, results, renew=True, report=False, observer=observer))


def prepare(file: Path, out: Path, changes: Changes | None = None) -> Ahead:
    """What is to be run; the parameters are those of `run`."""
    name = file.stem
    return name, changed(file, out / "files", changes) if changes else file, out / name


def by_network(file: Path, out: Path, changes: Changes | None = None) -> list[Ahead]:
    """What is to be run, with an experiment of its own for each sampled network, so that one after the other is finished.

    The parameters are those of `run`. The files so made go below ``out``.
    """
    text = file.read_text(encoding="utf-8")
    if changes is not None:
        text = with_changes(text, changes, file)
    ahead = []
    for number in range(1, 1 + tomllib.loads(text)["networks"]):
        own = with_changes(text, Changes(only_network(number)), file)
        name = f"{file.stem}-{number}"
        ahead.append((name, written(out / "files" / f"{name}.toml", own), out / name))
    return ahead


def only_network(number: int) -> dict[str, str]:
    """What leaves a file one network: that drawn from this ``base-seed``, 1 for the first, whatever others there are."""
    return {NETWORKS: f"networks = 1\nbase-seed = {number}"}


def whole(experiment: Experiment) -> Experiment:
    """The results, if no run of them is missing; raises `RunError` otherwise."""
    if experiment.missing:
        raise RunError(f"{experiment.directory}: {experiment.missing[0].label} did not finish")
    return experiment


def changed(file: Path, folder: Path, changes: Changes) -> Path:
    """The file with the changes made, in ``folder``; not written where it stands there already."""
    return written(folder / file.name, with_changes(file.read_text(encoding="utf-8"), changes, file))


def with_changes(text: str, changes: Changes, file: Path) -> str:
    """The text of a file with every match of a regular expression replaced by what stands for it.

    Raises
    ------
    ResultsError
        If one that must match does not.
    """
    for pattern, instead in changes.always.items():
        text, count = re.subn(pattern, instead, text)
        if not count:
            raise ResultsError(f"{file}: nothing there matches {pattern!r}, which is to become {instead!r}")
    for pattern, instead in changes.where_there.items():
        text = re.sub(pattern, instead, text)
    return text


def written(file: Path, text: str) -> Path:
    """The file, with this text; not written where it has it already."""
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        write_text(file, text)
    return file


def settings(table: Mapping[str, Any]) -> Iterator[str]:
    r"""Lines of an experiment file, a key each.

    Examples
    --------
    >>> list(settings({"tcp": "cubic", "relays": {"share": 0.5, "class": ["exit"]}}))
    ['tcp = "cubic"', 'relays = { share = 0.5, class = ["exit"] }']
    """
    for key, value in table.items():
        yield f"{key} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(settings(value))} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
