"""How much a Parquet file unpacks to, by its end: polars says how many rows there are, but not how large they are.

The end is a struct of Thrift's compact protocol, of which no more is read than is needed
(https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift). The crate ``parquet``, by which onionlab
writes its tables, reads it too, but not within bounds: where a list claims two thousand million truth values in six bytes, it
passes over them one by one (60.1.0, ``skip_till_depth``). polars does so for half a minute. Here a list has no more entries than
there are bytes left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

#: Most bytes of the end of a file: one of onionlab's has a hundred for each column of each group of rows, beside two values.
MOST = 256 * 2**20

#: What a Parquet file begins and ends with.
_MARK = b"PAR1"

#: Places of what is looked at: the groups of rows in a file's struct, and in that of a group its size before it was compressed.
_ROW_GROUPS, _TOTAL_BYTE_SIZE = 4, 2

#: Kinds of values.
_TRUE, _FALSE, _BYTE, _WHOLE, _DOUBLE, _TEXT, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, 9, 10, 11, 12

#: Most structs and lists within each other.
_DEEPEST = 20


def unpacked_size(path: Path) -> int:
    """Bytes of all values of a Parquet file as they are encoded, before they are compressed.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If its end is none of a Parquet file.
    """
    if not path.is_file():
        raise FileNotFoundError("no such file" if not path.exists() else "no ordinary file")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            raise ValueError("too short for a Parquet file")
        file.seek(size - 8)
        length, mark = int.from_bytes(file.read(4), "little"), file.read(4)
        if mark != _MARK or length > min(size - 12, MOST):
            raise ValueError("no end of a Parquet file")
        file.seek(size - 8 - length)
        end = _Struct(file.read(length))
    try:
        return sum(_sizes(end))
    except IndexError as error:
        raise ValueError("no end of a Parquet file") from error


def _sizes(end: _Struct) -> Iterator[int]:
    """The size of each group of rows."""
    for place, kind in end.fields():
        if (place, kind) != (_ROW_GROUPS, _LIST):
            end.skip(kind)
            continue
        count, of = end.entries()
        if of != _STRUCT:
            raise ValueError("groups of rows that are no structs")
        for _ in range(count):
            for within, inner in end.fields():
                if within == _TOTAL_BYTE_SIZE and inner in _WHOLE:
                    # Signed, the sign last.
                    yield end.number() >> 1
                else:
                    end.skip(inner)


class _Struct:
    """Bytes of which one value after the other is read; `IndexError` if they end within one."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The place and the kind of each value of a struct, which is to be read before the next."""
        place = 0
        while head := self._byte():
            place = place + (head >> 4) if head >> 4 else self.number() >> 1
            yield place, head & 15

    def entries(self) -> tuple[int, int]:
        """Number and kind of a list's entries."""
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self.number()
        # Each has a byte at least.
        if count > len(self._raw) - self._at:
            raise IndexError
        return count, head & 15

    def number(self) -> int:
        """A whole number, seven bits a byte."""
        found = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
        raise ValueError("a number of more than 64 bits")

    def skip(self, kind: int, deep: int = 0, *, in_list: bool = False) -> None:
        """Read a value of a kind and forget it."""
        if deep > _DEEPEST:
            raise ValueError("structs within structs without end")
        if kind in (_TRUE, _FALSE):
            # In a struct the kind is the value.
            self._at += in_list
        elif kind == _BYTE:
            self._at += 1
        elif kind in _WHOLE:
            self.number()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _TEXT:
            length = self.number()
            self._at += length
        elif kind in (_LIST, _SET):
            count, of = self.entries()
            for _ in range(count):
                self.skip(of, deep + 1, in_list=True)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, deep + 1)
        else:
            # `_MAP` among them: a file's struct has none.
            raise ValueError("a kind of value that no Parquet file has")

    def _byte(self) -> int:
        byte = self._raw[self._at]
        self._at += 1
        return byte
