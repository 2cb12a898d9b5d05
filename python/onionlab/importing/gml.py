"""The vertices of Shadow's network graph, in GML: of a file that has a million edges, only what comes before these is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from onionlab.errors import ImportedError
from onionlab.unpacking import ERRORS, XZ, Unpacked, pieces
from onionlab.untrusted import clipped

#: Most vertices, and most characters of a line.
MOST_VERTICES, MOST_LINE = 1_000_000, 10_000

#: Most bytes and most lines that are read of a graph, unpacked, and how many bytes at a time.
MOST, MOST_LINES, PIECE = 512 * 2**20, 20_000_000, 2**20

ATTRIBUTE = re.compile(r'\s*(\w+)\s+(?:"([^"]*)"|(\S+))\s*\Z')


#: What is kept of a vertex, which may have any number of attributes.
WANTED = frozenset({"id", "country_code", "host_bandwidth_up", "host_bandwidth_down"})


@dataclass(frozen=True)
class Vertex:
    """A vertex: its country, and the rates of hosts on it that have none of their own, as written."""

    country: str | None
    up: str | None
    down: str | None


def lines(path: Path) -> Iterator[str]:
    """The lines of a graph, packed or not, up to a bound."""
    size = count = 0
    try:
        with path.open("rb") as head:
            packed = head.read(len(XZ)) == XZ
        with path.open("rb") as file:
            unpacked = BufferedReader(Unpacked(pieces(file.read), XZ), PIECE) if packed else file
            while line := unpacked.readline(MOST_LINE):
                size, count = size + len(line), count + 1
                if size > MOST or count > MOST_LINES:
                    most = f"{MOST / 2**20:g} MiB or {MOST_LINES:,} lines"
                    raise ImportedError(f"{path} has more than {most} before its first edge")
                yield line.decode("utf-8", errors="replace")
    except (OSError, *ERRORS) as error:
        raise ImportedError(f"cannot read {path}: {clipped(error)}") from error


def read_vertices(graph: Iterable[str], where: str) -> dict[int, Vertex]:
    """The vertices by their number; what follows the first edge is not looked at.

    Raises
    ------
    ImportedError
        If this is no such graph.
    """
    vertices: dict[int, Vertex] = {}
    found: dict[str, str] | None = None
    for line in graph:
        words = line.split()
        if words[:1] == ["edge"]:
            break
        if words[:1] == ["node"]:
            found = {}
        elif words == ["]"] and found is not None:
            number = found.get("id", "")
            if not re.fullmatch(r"\d{1,10}", number) or len(vertices) >= MOST_VERTICES:
                raise ImportedError(f"{where}: a node's `id` is {clipped(number, 30)!r}, or there are more than a million nodes")
            code = found.get("country_code", "")
            country = code.upper() if re.fullmatch(r"[A-Za-z]{2}", code) else None
            vertices[int(number)] = Vertex(country, found.get("host_bandwidth_up"), found.get("host_bandwidth_down"))
            found = None
        elif found is not None and words[:1] and words[0] in WANTED and (attribute := ATTRIBUTE.match(line)):
            found[attribute[1]] = attribute[2] if attribute[2] is not None else attribute[3]
    if not vertices:
        raise ImportedError(f"{where} is no network graph: it has no nodes")
    return vertices
