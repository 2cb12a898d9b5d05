"""Unpacking what may be anything, piece by piece: work grows with what comes in and out, and memory not at all.

The module `lzma` by itself has no limit on the memory that a header may ask for, and what is left over is copied once for each of
the members that a packed file can consist of.
"""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator

#: Memory that unpacking xz may take; an honest ``xz -9`` needs 65 MiB.
XZ_MEMORY = 128 * 2**20

#: Most bytes that are read at once, and most that are unpacked at once.
PIECE_IN, PIECE_OUT = 64 * 1024, 2**20

#: Most members, one packed file after the other, that a file may consist of; ``bgzip`` makes one of each 64 KiB.
MOST_MEMBERS = 10_000

#: First bytes, by form.
XZ, GZIP = b"\xfd7zXZ\x00", b"\x1f\x8b"

#: What the functions here raise beside what reading raises; their text is a reason, no sentence.
ERRORS = (lzma.LZMAError, zlib.error, EOFError, ValueError)


def unpacked(packed: Iterable[bytes], form: bytes) -> Iterator[bytes]:
    """What pieces of a file of the form `XZ` or `GZIP` unpack to; all members one after the other.

    Raises
    ------
    lzma.LZMAError, zlib.error
        If it is broken or needs too much memory.
    EOFError
        If it ends early.
    ValueError
        If it has too many members.
    """
    member: _Xz | _Gzip | None = None
    members = 0
    for piece in packed:
        left = piece
        while left:
            if member is None:
                # Zero bytes may stand between members and after the last.
                left = left.lstrip(b"\0") if members else left
                if not left:
                    break
                members += 1
                if members > MOST_MEMBERS:
                    raise ValueError(f"it consists of more than {MOST_MEMBERS:,} packed files one after the other")
                member = _Xz() if form == XZ else _Gzip()
            yield from member.take(left)
            left = member.rest
            if member.whole:
                member = None
    if member is not None:
        raise EOFError("it ends too early")


def pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """All that a function reads, such as a file's ``read``."""
    return iter(lambda: read(PIECE_IN), b"")


class _Xz:
    """A member in the making: what it had no use for, and whether it has ended."""

    def __init__(self) -> None:
        self._inner = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        self.rest = b""
        self.whole = False

    def take(self, packed: bytes) -> Iterator[bytes]:
        """Unpack a piece."""
        yield self._inner.decompress(packed, PIECE_OUT)
        while not self._inner.eof and not self._inner.needs_input:
            yield self._inner.decompress(b"", PIECE_OUT)
        self.whole, self.rest = self._inner.eof, self._inner.unused_data


class _Gzip:
    """As `_Xz`."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.rest = b""
        self.whole = False

    def take(self, packed: bytes) -> Iterator[bytes]:
        """Unpack a piece."""
        while not self._inner.eof:
            piece = self._inner.decompress(packed, PIECE_OUT)
            packed = self._inner.unconsumed_tail
            yield piece
            if not piece and not packed:
                break
        self.whole, self.rest = self._inner.eof, self._inner.unused_data


class Unpacked(io.RawIOBase):
    """A file of what is unpacked, to be read once from its beginning to its end; errors as `unpacked`."""

    def __init__(self, packed: Iterable[bytes], form: bytes) -> None:
        self._pieces = unpacked(packed, form)
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: object) -> int:
        """As many bytes as there are at once, at most what has room; none at the end. All else that reads rests on this."""
        room = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        count = min(len(room), len(self._piece))
        room[:count], self._piece = self._piece[:count], self._piece[count:]
        return count
