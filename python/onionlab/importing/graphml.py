"""Nodes and edges of a GraphML file as tgen reads it: each with its attributes by name."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from onionlab.errors import ImportedError
from onionlab.untrusted import clipped, read_text

#: Most bytes of such a file.
MOST = 8 * 2**20

NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"


def nodes(path: Path) -> list[dict[str, str]]:
    """The nodes of a file.

    Raises
    ------
    UntrustedError
        If it cannot be read or is no GraphML.
    """
    return _elements(path, "node")


def edges(path: Path) -> list[dict[str, str]]:
    """The edges of a file; errors as `nodes`."""
    return _elements(path, "edge")


def _elements(path: Path, kind: str) -> list[dict[str, str]]:
    text = read_text(path, MOST)
    # Entities can make a document of any size from a few lines, and no GraphML of tgen has any.
    if "<!" in text.replace("<!--", ""):
        raise ImportedError(f"{path} declares a document type or entities, which GraphML does not need")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ImportedError(f"{path} is no XML ({clipped(error)})") from error
    if root.tag != f"{NAMESPACE}graphml":
        raise ImportedError(f"{path} is no GraphML")
    keys = {key.get("id", ""): key.get("attr.name", "") for key in root.iter(f"{NAMESPACE}key")}
    return [
        # Of those that are its own: of all below it would be read again for each of the elements that lie within each other.
        {keys.get(data.get("key", ""), ""): data.text or "" for data in element.findall(f"{NAMESPACE}data")}
        for element in root.iter(f"{NAMESPACE}{kind}")
    ]
