"""The torrc of a host as tor reads it: defaults, then torrc, then the command line.

Source: ``app/config/config.c``, ``lib/encoding/confline.c``.

A later line of an option takes the place of an earlier one; options that are lists, such as ``Log``, add up within a file
instead. What a file says replaces what the one before it said, unless the option is written with ``+``; ``/`` takes it away.
Files are read only where they lie within the imported folder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from onionlab.errors import ImportedError
from onionlab.untrusted import clipped, inside, read_text

#: Most bytes of a torrc, and how deep files may include others (``MAX_INCLUDE_RECURSION_LEVEL``).
MOST, DEEPEST = 2**20, 31

#: Most files and lines of one host, with all that is included, as often as it is.
MOST_FILES, MOST_LINES = 1_000, 100_000

#: Most characters of all hosts of an import, counted likewise; the shortest file counts as so many, since it has to be opened.
MOST_OF_ALL, OPENING = 2**30, 500

#: What a host's files are called where its command line names none.
DEFAULTS, TORRC = "torrc-defaults", "torrc"

#: Words of the command line that stand without a value.
ALONE = frozenset({"allow-missing-torrc", "ignore-missing-torrc", "hush", "quiet"})

#: Other names of options (``option_abbrevs_``).
OTHER_NAMES = {
    "bandwidthburstbytes": "bandwidthburst",
    "bandwidthratebytes": "bandwidthrate",
    "dirserver": "dirauthority",
    "maxconn": "connlimit",
    "maxmemincellqueues": "maxmeminqueues",
    "numentrynodes": "numentryguards",
    "numhelpernodes": "numentryguards",
    "useentrynodes": "useentryguards",
    "usehelpernodes": "useentryguards",
}


@dataclass(frozen=True)
class Line:
    """An option as written: its name, its value without quotes, and where it stands."""

    name: str
    value: str
    where: str

    @property
    def option(self) -> str:
        """By what it is looked up, however it is written."""
        name = self.name.lstrip("+/").lower()
        return OTHER_NAMES.get(name, name)


class Budget:
    """What the torrcs of an import may still come to: a few files that include each other make any number of lines."""

    def __init__(self) -> None:
        self._files, self._lines, self._characters = MOST_FILES, MOST_LINES, MOST_OF_ALL

    def next_host(self) -> None:
        """Count the files and lines of another host."""
        self._files, self._lines = MOST_FILES, MOST_LINES

    def take(self, path: Path, text: str, lines: int) -> None:
        """Count a file that has been read."""
        self._files -= 1
        self._lines -= lines
        self._characters -= max(len(text), OPENING)
        if self._files < 0 or self._lines < 0:
            allowed = f"at most {MOST_FILES:,} files and {MOST_LINES:,} lines are taken in"
            raise ImportedError(f"{path}: with all that is included the torrc of a host is longer than allowed: {allowed}")
        if self._characters < 0:
            raise ImportedError(
                f"{path}: the torrcs of all hosts, with all that they include, have more than {MOST_OF_ALL:,} characters"
            )


@dataclass(frozen=True)
class Torrc:
    """What holds for a host: the lines of each option, by its name in small letters."""

    options: dict[str, tuple[Line, ...]]

    def last(self, option: str) -> Line | None:
        """The line that counts of an option with one value."""
        return self.options[option][-1] if option in self.options else None


def read(root: Path, home: Path, arguments: str | list[str] | None, budget: Budget | None = None) -> Torrc:
    """The options of the tor whose folder is ``home`` within ``root``, and which is started with these arguments.

    The hosts of an import have one ``budget``.

    Raises
    ------
    UntrustedError
        If a file cannot be read, leads out of ``root`` or is no torrc, or all of it is more than the budget allows.
    """
    budget = budget if budget is not None else Budget()
    budget.next_host()
    named: dict[str, str] = {}
    given: list[Line] = []
    words = iter(_words(home, arguments))
    for word in words:
        name = word.lstrip("-")
        if name.lower() in ALONE:
            continue
        # What takes an option back has no value (`config_parse_commandline`).
        value = "" if name.startswith("/") else next(words, "")
        if name.lower() in ("f", "defaults-torrc"):
            named[name.lower()] = value
        elif name:
            given.append(Line(name, value, f"{home.name}'s command line"))
    layers = []
    for word, usual in (("defaults-torrc", DEFAULTS), ("f", TORRC)):
        path = _place(root, home, named.get(word, usual))
        layers.append(list(_lines(root, home, path, budget, 0)) if word in named or path.exists() else [])
    return _together([*layers, given])


def _words(home: Path, arguments: str | list[str] | None) -> list[str]:
    if arguments is None:
        return []
    try:
        return list(arguments) if isinstance(arguments, list) else shlex.split(arguments)
    except ValueError as error:
        raise ImportedError(f"the command line of {home.name}'s tor cannot be read ({clipped(error)})") from error


def _together(layers: list[list[Line]]) -> Torrc:
    """All lines of a file go before those of the same option in the file before."""
    options: dict[str, list[Line]] = {}
    for layer in layers:
        here: set[str] = set()
        for line in layer:
            option = line.option
            if line.name.startswith("/"):
                options.pop(option, None)
            elif option in here or line.name.startswith("+"):
                options.setdefault(option, []).append(line)
            else:
                options[option] = [line]
            here.add(option)
    return Torrc({option: tuple(lines) for option, lines in options.items()})


def _place(root: Path, home: Path, name: str) -> Path:
    """A file that a torrc or a command line names: from the host's folder; an absolute path is one in ``conf``."""
    path = root / "conf" / PurePosixPath(name).name if PurePosixPath(name).is_absolute() or name.startswith("~") else home / name
    return inside(root, path)


def _lines(root: Path, home: Path, path: Path, budget: Budget, depth: int) -> Iterator[Line]:
    if depth > DEEPEST:
        raise ImportedError(f"{path}: files include each other more than {DEEPEST} deep")
    text = read_text(path, MOST)
    lines = text.splitlines()
    budget.take(path, text, len(lines))
    pieces: list[str] = []
    start = 0
    for number, line in enumerate(lines, 1):
        # A comment within a value that goes on is left out, and the value goes on (`parse_config_line_from_str_verbose`).
        if pieces and line.lstrip().startswith("#"):
            continue
        start = start if pieces else number
        piece = line.split("#")[0] if '"' not in line else line
        if piece.endswith("\\"):
            pieces.append(piece[:-1])
            continue
        where, parts = f"{path}, line {start}", "".join((*pieces, piece)).strip().split(maxsplit=1)
        pieces = []
        if not parts or parts[0].startswith("#"):
            continue
        value = _value(where, parts[1]) if len(parts) > 1 else ""
        if parts[0].lower() == "%include":
            yield from _included(root, home, where, value, budget, depth)
        else:
            yield Line(parts[0], value, where)


def _value(where: str, text: str) -> str:
    """A value without its quotes and without the comment after it."""
    if not text.startswith('"'):
        return text.split("#")[0].strip()
    quoted = re.match(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z', text)
    if quoted is None:
        raise ImportedError(f"{where}: {clipped(text, 60)!r} does not end its quotes")
    return re.sub(r"\\(.)", r"\1", quoted[1])


def _included(root: Path, home: Path, where: str, name: str, budget: Budget, depth: int) -> Iterator[Line]:
    path = _place(root, home, name)
    if not path.exists():
        raise ImportedError(f"{where} includes {clipped(name, 100)!r}, which is not there")
    # Of a folder all files but hidden ones, by name.
    files = sorted(file for file in path.iterdir() if not file.name.startswith(".")) if path.is_dir() else [path]
    for file in files:
        yield from _lines(root, home, inside(root, file), budget, depth + 1)
