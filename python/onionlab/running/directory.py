"""The results directory while runs are made: locked, cleared of what a killed process left, put back if nothing comes of it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from onionlab.errors import OnionlabError, ResultsError, UntrustedError
from onionlab.files import REPLACED, remove_drafts, settle_replaced, write_all
from onionlab.plan import (
    MOST_OF_A_PLAN,
    OPTIONAL_TABLES,
    TABLES,
    Plan,
    is_finished,
    is_readable,
    read_run_table,
    what_differs,
)
from onionlab.quantity import format_bytes
from onionlab.results.drawn import FOLDERS, PAGE, refuse_links
from onionlab.results.evaluation import FILE as CHOICE
from onionlab.results.written import OWN_CODE, differing, of_run
from onionlab.untrusted import clipped, read_text

#: What is copied and planned, beside the runs themselves.
OWN = ("experiment.toml", "plan.json")

#: What is written after the runs: how they are evaluated, and the report.
DERIVED = (CHOICE, PAGE)

#: How many keys a refusal names in which an experiment differs from what lies there.
_NAMED = 3

#: Hidden directories in ``runs`` that a killed process left: the draft of a run, or a run while a newer one takes its place.
_LEFT = re.compile(r"\..+--net\d+--seed\d+((\.[0-9a-f]+)+\.partial|" + re.escape(REPLACED) + ")")


def check_replaceable(directory: Path) -> None:
    """Refuse to have a run's directory replaced that holds anything but tables, or lies elsewhere."""
    if directory.is_symlink():
        raise ResultsError(f"{directory} is a symbolic link, which onionlab did not write; remove it")
    if not directory.exists():
        return
    ours = {f"{table}.parquet" for table in (*TABLES, *OPTIONAL_TABLES)}
    if not directory.is_dir() or any(path.name not in ours for path in directory.iterdir()):
        raise ResultsError(f"{directory} holds files that onionlab did not write; move them away")


def plan_there(root: Path) -> Plan | None:
    """The plan that a results directory has from before; None where there is none, or one that cannot be read."""
    try:
        return Plan.from_json(read_text(root / "plan.json", MOST_OF_A_PLAN))
    except (UntrustedError, ResultsError):
        return None


def holds_finished(root: Path) -> bool:
    """Whether a results directory has a finished run of its experiment."""
    plan = plan_there(root)
    return plan is not None and any(is_finished(root, plan, run) for run in plan.runs)


def check_own(root: Path, before: Plan | None, plan: Plan, otherwise: str = "") -> None:
    """Refuse to run into the results of another experiment, all of which would be replaced.

    ``before`` is the plan that lies there (`plan_there`). The refusal names another directory as the way out, and goes on with
    ``otherwise``.
    """
    if before is None:
        return
    titles = [str(of.scenario.get("title")) for of in (before, plan)]
    if titles[0] == titles[1] or not any(is_finished(root, before, run) for run in before.runs):
        return
    if not any(is_finished(root, plan, run) for run in plan.runs):
        raise ResultsError(
            f"{root} holds the runs of another experiment, “{titles[0]}”; --out names another directory{otherwise}"
        )


def check_form(root: Path, before: Plan | None, plan: Plan) -> None:
    """Refuse to replace finished runs that the same simulator made of another form of this experiment.

    Only they are lost for good: what another build made is outdated, and what is broken was none. Where a circuit scheduler of
    one's own was changed and nothing else, its code is as much a part of the simulator as ours.
    """
    lost = list(_lost(root, before, plan))
    if not lost:
        return
    keys = {key: values for differing in lost for key, values in differing.items()}
    named = [f"{key} ({clipped(there, 40)} there, {clipped(now, 40)} now)" for key, (there, now) in list(keys.items())[:_NAMED]]
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    runs = "1 finished run" if len(lost) == 1 else f"{len(lost):,} finished runs"
    raise ResultsError(
        f"{root} holds {runs} of another form of this experiment, which would be lost: it differs in {', '.join(named)}{more}; "
        "--fresh replaces all runs there, --out names another directory"
    )


def _lost(root: Path, before: Plan | None, plan: Plan) -> Iterator[dict[str, tuple[str, str]]]:
    """In what each finished run that would be replaced differs from the one that would take its place."""
    planned = {} if before is None else {run.directory: run for run in before.runs}
    for run in plan.runs:
        own = planned.get(run.directory)
        if before is not None and own is not None and before.identity_of(own) == plan.identity_of(run):
            continue
        # What is not of the plan there was given up when that plan was written, say with a --fresh that was interrupted.
        if before is not None and own is not None and not is_finished(root, before, own):
            continue
        if what_differs(root, plan, run) != "experiment" or not is_readable(root, run):
            continue
        row = read_run_table(root / run.directory)
        try:
            there = of_run(json.loads(row["scenario"]), row["treatment"]) if row is not None else {}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # of nothing that can be run again either
        found = differing(there, of_run(plan.scenario_of(run), run.treatment))
        # Under another name it may be the same.
        if any(not key.endswith(OWN_CODE) for key in found):
            yield found


def without_place(root: Path, before: Plan | None, plan: Plan) -> int:
    """How many finished runs the directory has for which this experiment has no place, say from before it was a sweep."""
    if before is None:
        return 0
    places = {run.directory for run in plan.runs}
    return sum(run.directory not in places and is_finished(root, before, run) for run in before.runs)


def _is_plan(path: Path) -> bool:
    """Whether the file is a plan, of whichever version."""
    try:
        found = json.loads(read_text(path, MOST_OF_A_PLAN))
    except (UntrustedError, ResultsError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "version" in found


def _check_foreign(root: Path) -> None:
    """Refuse a directory with somebody's own files where ours go, or whose runs would go elsewhere."""
    if (root / "runs").is_symlink():
        raise ResultsError(f"{root / 'runs'} is a symbolic link; runs lie in the results directory itself, which --out names")
    for name in FOLDERS:
        refuse_links(root / name, root)
    # A process that was killed at its first write has left the lock, and perhaps no plan.
    if (root / ".lock").exists():
        return
    if (root / "plan.json").exists():
        if not _is_plan(root / "plan.json"):
            raise ResultsError(f"{root / 'plan.json'} is no onionlab's and would be replaced; --out names another place")
        return
    for name in ("experiment.toml", PAGE):
        if (root / name).exists():
            raise ResultsError(f"{root / name} is no results directory's and would be replaced; --out names another place")


@contextmanager
def prepared(root: Path, text: str, plan: Plan) -> Iterator[None]:
    """Prepare and lock the results directory; undo that if the experiment is refused or stopped before any of its runs finished.

    So an experiment that was edited and then stopped at once leaves what there was, which the older file made. A plan that would
    be too large to be read again is refused before anything changes.
    """
    planned = plan.to_json().encode()
    if len(planned) > MOST_OF_A_PLAN:
        raise ResultsError(
            f"the plan of these {len(plan.runs):,} runs would have {format_bytes(len(planned))}, and no more than "
            f"{format_bytes(MOST_OF_A_PLAN)} are read; fewer points of a sweep make it smaller, and fewer hosts or links by hand"
        )
    if root.exists() and not root.is_dir():
        raise ResultsError(f"{root} is a file; the results need a directory")
    _check_foreign(root)
    made = [directory for directory in (root, *root.parents) if not directory.exists()]
    try:
        (root / "runs").mkdir(parents=True, exist_ok=True)
        lock = _lock_file(root / ".lock")
    except OSError as error:
        _remove_empty(root, made)
        raise ResultsError(f"cannot write into {root}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ResultsError(f"another onionlab is writing into {root}") from error
        except OSError as error:
            raise ResultsError(
                f"cannot lock {root / '.lock'}: {error.strerror}; results need a file system with locks"
            ) from error
        _clear(root)
        before = {root / name: _content(root / name) for name in (*OWN, CHOICE)}
        try:
            write_all({root / "experiment.toml": text.encode(), root / "plan.json": planned})
            yield
        except (OnionlabError, KeyboardInterrupt):
            if not any(is_finished(root, plan, run) for run in plan.runs):
                _undo(root, made, before)
            raise


def _lock_file(path: Path) -> IO[bytes]:
    """The file that is locked, which nothing is ever written into.

    A results directory may come from somebody else: a link in its place is not followed, and a pipe is not waited for.
    """
    if path.is_symlink():
        raise ResultsError(f"{path} is a symbolic link, which onionlab did not write; remove it")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ResultsError(f"{path} is no ordinary file, which onionlab did not write; remove it")
    return os.fdopen(descriptor, "r+b", buffering=0)


def _clear(root: Path) -> None:
    """Finish or undo what a killed process was about; whatever else is hidden among the runs is somebody's own, and stays."""
    for left_over in (root / "runs").iterdir():
        if not _LEFT.fullmatch(left_over.name) or left_over.is_symlink() or not left_over.is_dir():
            continue
        if left_over.name.endswith(REPLACED):
            settle_replaced(left_over)
        else:
            shutil.rmtree(left_over, ignore_errors=True)
    remove_drafts(root, (*OWN, *DERIVED))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _undo(root: Path, made: list[Path], before: dict[Path, bytes | None]) -> None:
    """Put back what `prepared` changed; directories that it made go if they are empty."""
    for path, content in before.items():
        if content is None:
            path.unlink(missing_ok=True)
    changed = {path: content for path, content in before.items() if content is not None and content != _content(path)}
    # What led here is reported; a disk that is still full would only say the same again.
    with suppress(ResultsError):
        write_all(changed)
    if root in made:
        (root / ".lock").unlink(missing_ok=True)
    _remove_empty(root, made)


def _remove_empty(root: Path, made: list[Path]) -> None:
    """Remove the directories that were made, as far as they are empty."""
    for directory in (root / "runs", *made):
        try:
            directory.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return
