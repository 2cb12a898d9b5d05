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

from onionlab.importing.sources import ImportedError, clipped, read_text

#: Most bytes of a torrc, most lines with all that it includes, and how deep files may include others
#: (``MAX_INCLUDE_RECURSION_LEVEL``).
MOST, MOST_LINES, DEEPEST = 2**20, 100_000, 31

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


@dataclass(frozen=True)
class Torrc:
    """What holds for a host: the lines of each option, by its name in small letters."""

    options: dict[str, tuple[Line, ...]]

    def last(self, option: str) -> Line | None:
        """The line that counts of an option with one value."""
        return self.options[option][-1] if option in self.options else None


def read(root: Path, home: Path, arguments: str | list[str] | None) -> Torrc:
    """The options of the tor whose folder is ``home`` within ``root``, and which is started with these arguments.

    Raises
    ------
    ImportedError
        If a file cannot be read, leads out of ``root`` or is no torrc.
    """
    words = _words(home, arguments)
    named: dict[str, str] = {}
    given: list[Line] = []
    while words:
        word = words.pop(0)
        name = word.lstrip("-")
        if name.lower() in ALONE:
            continue
        value = words.pop(0) if words else ""
        if name.lower() in ("f", "defaults-torrc"):
            named[name.lower()] = value
        elif name:
            given.append(Line(name, value, f"{home.name}'s command line"))
    layers = []
    for word, usual in (("defaults-torrc", DEFAULTS), ("f", TORRC)):
        path = _place(root, home, named.get(word, usual))
        layers.append(list(_lines(root, home, path, 0)) if word in named or path.exists() else [])
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
    options: dict[str, tuple[Line, ...]] = {}
    for layer in layers:
        here: set[str] = set()
        for line in layer:
            option = line.option
            if line.name.startswith("/"):
                options.pop(option, None)
            elif option in here or line.name.startswith("+"):
                options[option] = (*options.get(option, ()), line)
            else:
                options[option] = (line,)
            here.add(option)
        if sum(map(len, options.values())) > MOST_LINES:
            raise ImportedError(f"{layer[0].where}: more than {MOST_LINES:,} lines")
    return Torrc(options)


def _place(root: Path, home: Path, name: str) -> Path:
    """A file that a torrc or a command line names: from the host's folder; an absolute path is one in ``conf``."""
    path = root / "conf" / PurePosixPath(name).name if PurePosixPath(name).is_absolute() or name.startswith("~") else home / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise ImportedError(f"{path} leads out of {root}")
    return path.resolve()


def _lines(root: Path, home: Path, path: Path, depth: int) -> Iterator[Line]:
    if depth > DEEPEST:
        raise ImportedError(f"{path}: files include each other more than {DEEPEST} deep")
    text = read_text(path, MOST)
    whole, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        start = start if whole else number
        whole += line.split("#")[0] if '"' not in line else line
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        where, parts = f"{path}, line {start}", whole.strip().split(maxsplit=1)
        whole = ""
        if not parts or parts[0].startswith("#"):
            continue
        value = _value(where, parts[1]) if len(parts) > 1 else ""
        if parts[0].lower() == "%include":
            yield from _included(root, home, where, value, depth)
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


def _included(root: Path, home: Path, where: str, name: str, depth: int) -> Iterator[Line]:
    path = _place(root, home, name)
    if not path.exists():
        raise ImportedError(f"{where} includes {clipped(name, 100)!r}, which is not there")
    # Of a folder all files but hidden ones, by name.
    files = sorted(file for file in path.iterdir() if not file.name.startswith(".")) if path.is_dir() else [path]
    for file in files:
        if not file.resolve().is_relative_to(root.resolve()):
            raise ImportedError(f"{file} leads out of {root}")
        yield from _lines(root, home, file, depth + 1)
