"""Writing files so that a reader never meets half of one, even if the writer is killed or the disk is full.

All goes into a hidden draft beside its place first, which takes the place's name when it is whole. A killed writer leaves at most
a draft, which `remove_drafts` recognises where it is a file, and `remove_abandoned` where it is a folder.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from onionlab.errors import ResultsError
from onionlab.untrusted import clipped

#: End of the hidden name of a directory while a newer one takes its place; `crates/lab` uses the same.
REPLACED = ".replaced"

#: What stands in the name of a draft behind that of its place (`draft_of_file`, `draft_of`): anything else may be somebody's own.
_DRAFT = r"(?P<machine>[0-9a-f]{8})\.(?P<process>\d+)\.(?:[0-9a-f]{8}|[0-9a-f]{32})"

#: Seconds after which nobody writes into a draft any more: whoever began it was killed.
ABANDONED = 86_400.0


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one step.

    Raises
    ------
    ResultsError
        If it cannot be written; what was there before is there still.
    """
    write_all({path: content})


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8 in one step; as `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_output(path: Path, content: bytes) -> None:
    """Write the file that a person named for an answer: in one step, or into whatever else stands there.

    Behind a symbolic link it is the file that the link leads to. A device, a pipe or standard output is written into, which the
    draft of a file must not replace.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    place = file_behind(path)
    if place is not None:
        write_bytes(place, content)
        return
    with writing(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as output:
        output.write(content)


def file_behind(path: Path) -> Path | None:
    """The file to which a path leads over symbolic links, there or not; None where something else is there, or an open file.

    Raises
    ------
    ResultsError
        If there can be no such path.
    """
    with writing(path):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return path.resolve() if path.is_symlink() else path
        # Under these names lies what a process has open, in the midst of which it may be.
        of_a_process = re.match(r"/dev/(std(in|out|err)|fd/)|/proc/", path.absolute().as_posix())
        if of_a_process or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return None
        return path.resolve() if path.is_symlink() else path


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: none takes its name before all are whole.

    Raises
    ------
    ResultsError
        If one cannot be written; none has changed then, unless the system refuses to rename a file that is whole.
    """
    for path in contents:
        # Some of them, such as `.`, have no name to which a draft's could be made.
        if is_folder(path):
            raise ResultsError(f"cannot write {path}: it is a folder, but the name of a file is needed")
    drafts = {path: draft_of_file(path) for path in contents}
    try:
        for path, content in contents.items():
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                remove_drafts(path.parent, (path.name,))
                drafts[path].write_bytes(content)
        for path, draft in drafts.items():
            with writing(path):
                draft.replace(path)
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def draft_of_file(path: Path) -> Path:
    """A hidden name beside a file for its draft, which no other thread, process or machine takes."""
    return path.with_name(f".{path.name}.{_machine()}.{os.getpid()}.{uuid.uuid4().hex[:8]}")


def is_folder(path: Path) -> bool:
    """Whether a folder has this name; what cannot be a name is none either."""
    try:
        return path.is_dir()
    except OSError:
        return False


def write_directory(path: Path, contents: Iterable[tuple[str, bytes]], check: Callable[[Path], None] | None = None) -> None:
    """Write a directory of files, which appears whole or not at all, in place of one that is there already.

    Behind a symbolic link it is the directory that the link leads to.

    Each file has its name, below the directory, and its content; they are taken and written one by one. ``check`` is handed the
    directory once it is whole, under a hidden name; if it raises, the directory does not appear.

    Raises
    ------
    ResultsError
        If it cannot be written; what was there before is there still.
    """
    path = file_behind(path) or path
    draft = draft_of(path, ".partial")
    replaced = path.with_name(f".{path.name}{REPLACED}")
    with writing(path), folders_above(path):
        # A process that was killed while it wrote may have left the older one here, in the way of that which is there now.
        settle_replaced(replaced)
        remove_abandoned(path, ".partial")
        try:
            draft.mkdir()
            for name, content in contents:
                if Path(name).is_absolute() or ".." in Path(name).parts:
                    raise ResultsError(f"cannot write {path}: {clipped(name)!r} is no name within it")
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                (draft / name).write_bytes(content)
            if check is not None:
                check(draft)
            if path.exists():
                path.replace(replaced)
            draft.replace(path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            settle_replaced(replaced)


@contextmanager
def folders_above(path: Path) -> Iterator[None]:
    """Make the folders that ``path`` is to lie in; those that were not there are gone again if nothing comes to lie in them."""
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        # Innermost first; one that holds something stays, and with it all above.
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


def draft_of(folder: Path, ending: str) -> Path:
    """A hidden name beside a folder for its draft, which no other thread, process or machine takes."""
    return folder.with_name(f".{folder.name}.{_machine()}.{os.getpid()}.{uuid.uuid4().hex}{ending}")


def remove_abandoned(folder: Path, ending: str) -> None:
    """Remove the drafts of a folder that killed writers left, as `_abandoned` knows them."""
    for draft in _abandoned(folder, ending):
        shutil.rmtree(draft, ignore_errors=True)


def remove_drafts(directory: Path, names: Iterable[str]) -> None:
    """Remove the drafts of files with these ``names`` that killed writers left in ``directory``, as `_abandoned` knows them.

    What is written at this moment stays: a report, say, of a process that locks nothing.
    """
    for name in names:
        for draft in _abandoned(directory / name):
            with suppress(OSError):
                draft.unlink()


def _abandoned(place: Path, ending: str = "") -> list[Path]:
    """The drafts of a file or a folder that killed writers left.

    Those are the ones of this machine whose process is no more, and all into which nothing was put since `ABANDONED`: on a file
    system of several machines this one does not know the processes of the others.
    """
    draft = re.compile(re.escape(f".{place.name}.") + _DRAFT + re.escape(ending))
    now = time.time()
    left = []
    with suppress(OSError):
        for path in place.parent.iterdir():
            if found := draft.fullmatch(path.name):
                ended = found["machine"] == _machine() and not _is_alive(found["process"])
                # One that takes its name just now is not there any more; the others are looked at all the same.
                with suppress(OSError):
                    if ended or now - path.lstat().st_mtime > ABANDONED:
                        left.append(path)
    return left


def _is_alive(process: str) -> bool:
    """Whether a process with this number runs; where there is no `/proc`, every process counts as alive, as in `crates/lab`."""
    return not Path("/proc/self").exists() or Path("/proc", process).exists()


def _machine() -> str:
    """What tells this machine from others that write to the same file system."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def settle_replaced(replaced: Path) -> None:
    """Put a directory back that was moved away for a newer one, if the newer one did not come; remove it otherwise.

    ``replaced`` is its hidden name, with `REPLACED` at the end; nothing happens where it does not exist.
    """
    path = replaced.with_name(replaced.name.removeprefix(".").removesuffix(REPLACED))
    if not path.exists():
        with suppress(FileNotFoundError):
            replaced.replace(path)
    # A link, which `rmtree` leaves, would be in the way of the next directory that steps aside.
    if replaced.is_symlink() or replaced.is_file():
        with suppress(OSError):
            replaced.unlink()
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Turn the system's refusal to write, such as a full disk, into one sentence that names ``what`` was to be written."""
    try:
        yield
    except OSError as error:
        raise ResultsError(f"cannot write {what}: {error.strerror or error}") from error
