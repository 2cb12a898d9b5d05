"""Reading files that may be anything: never more than a bound, whatever they unpack to."""

from __future__ import annotations

import io
import json
import reprlib
from pathlib import Path
from typing import Any

from onionlab import unpacking
from onionlab.errors import UntrustedError

#: Most bytes of a file, as it lies there and unpacked. JSON made for it takes twenty times as much memory; a published network
#: with a tenth of Tor's relays has a quarter of a MiB.
MOST = 64 * 2**20


def clipped(text: object, most: int = 80) -> str:
    """A text on one line, and not all of it; what no terminal shows, or no file in UTF-8 can have, is replaced."""
    line = " ".join(str(text).split())
    line = line if len(line) <= most else line[: most - 1] + "…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)


def plain(text: object) -> str:
    """A text as it is, but for what a terminal would obey and what no file in UTF-8 can have: that is replaced."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in str(text))


def shown(value: object, most: int) -> str:
    """A value as Python writes it, clipped; of one that has many parts or is deep, no more than its beginning is looked at."""
    return clipped(_BEGINNING.repr(value), most)


_BEGINNING = reprlib.Repr()
_BEGINNING.maxlevel, _BEGINNING.maxlist, _BEGINNING.maxdict = 3, 20, 20
_BEGINNING.maxstring = _BEGINNING.maxlong = 200


def inside(root: Path, path: Path) -> Path:
    """The file itself behind a path, which no symbolic link leads out of the folder ``root``.

    Raises
    ------
    UntrustedError
        If it does, or there can be no such path: its name is too long, has a zero byte, or leads in a circle.
    """
    try:
        found = path.resolve()
        # Asking for it brings out what is wrong with its name.
        found.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UntrustedError(f"{clipped(path, 300)} cannot be read: {clipped(reason)}") from error
    if not found.is_relative_to(root.resolve()):
        raise UntrustedError(f"{path} leads out of {root}")
    return found


def read_bytes(path: Path, most: int = MOST) -> bytes:
    """A file of at most so many bytes, unpacked if it is .xz or .gz (which its first bytes say, not its name).

    Raises
    ------
    UntrustedError
        If it cannot be read, is larger, or is broken.
    """
    try:
        if not path.is_file():
            raise UntrustedError(f"cannot read {path}: {'it is no ordinary file' if path.exists() else 'there is no such file'}")
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise UntrustedError(f"cannot read {path}: {error.strerror}") from error
    if len(raw) > most:
        raise _too_large(path, most)
    try:
        for form in (unpacking.XZ, unpacking.GZIP):
            if raw.startswith(form):
                return _unpacked(path, raw, most, form)
    except unpacking.ERRORS as error:
        raise UntrustedError(f"{path} cannot be unpacked ({clipped(error)})") from error
    return raw


def _unpacked(path: Path, raw: bytes, most: int, form: bytes) -> bytes:
    """All members of a packed file, one after the other, up to a bound."""
    found = bytearray()
    for piece in unpacking.unpacked(unpacking.pieces(io.BytesIO(raw).read), form):
        found += piece
        if len(found) > most:
            raise _too_large(path, most)
    return bytes(found)


def _too_large(path: Path, most: int) -> UntrustedError:
    return UntrustedError(f"{path} has more than {most / 2**20:g} MiB")


def read_text(path: Path, most: int = MOST) -> str:
    """A file as UTF-8.

    Raises
    ------
    UntrustedError
        As `read_bytes`, or if it is no text.
    """
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UntrustedError(f"{path} is not text in UTF-8") from error


def read_json(path: Path, most: int = MOST) -> Any:
    """A JSON file.

    Raises
    ------
    UntrustedError
        As `read_text`, or if it is no JSON.
    """
    try:
        return json.loads(read_text(path, most))
    except (ValueError, RecursionError) as error:
        raise UntrustedError(f"{path} is no JSON ({clipped(error)})") from error


class Fields:
    """An object of an untrusted document, whose values are asked for by name, type and range.

    Parameters
    ----------
    where : str
        How an error names the place: ``net.json.xz, relays[3]``.
    content : object
        What should be the object.
    """

    def __init__(self, where: str, content: object) -> None:
        if not isinstance(content, dict):
            raise UntrustedError(f"{where}: an object is needed, not {shown(content, 40)}")
        self.where = where
        self._content: dict[str, Any] = content

    def __contains__(self, key: str) -> bool:
        return self._content.get(key) is not None

    def items(self) -> list[tuple[str, Any]]:
        """All names and values."""
        return [(str(key), value) for key, value in self._content.items()]

    def refuse(self, key: str, allowed: str) -> UntrustedError:
        """The error for a value that is not what it should be."""
        place, value = f"{self.where}: `{clipped(key, 40)}`", self._content.get(key)
        if value is None:
            return UntrustedError(f"{place} is missing; it must be {allowed}")
        return UntrustedError(f"{place} is {shown(value, 60)}, but must be {allowed}")

    def text(self, key: str, most: int = 200) -> str:
        """A text of at most so many characters."""
        value = self._content.get(key)
        if not isinstance(value, str) or len(value) > most:
            raise self.refuse(key, f"a text of at most {most} characters")
        # JSON can have halves of characters, which no file can.
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise self.refuse(key, "a text of whole characters")
        return value

    def whole(self, key: str, least: int, most: int) -> int:
        """A whole number in a range."""
        value = self._content.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.refuse(key, f"a whole number from {least:,} to {most:,}")
        return value

    def rows(self, key: str, most: int, least: int = 0) -> list[Any]:
        """A list with a bounded number of entries."""
        value = self._content.get(key)
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise self.refuse(key, f"a list of {least:,} to {most:,} entries")
        return value

    def table(self, key: str) -> Fields:
        """An object within."""
        if key not in self:
            raise self.refuse(key, "an object")
        return Fields(f"{self.where}, {clipped(key, 64)}", self._content[key])
