"""YAML as objects, lists and texts, built from the parser's events.

Three things of YAML are refused, of which a few bytes can do harm: aliases (a document of any size), tags (which make PyYAML
construct other things than texts, and stumble) and deep nesting (on which libyaml's composer ends the whole process). Without a
tag every value is a text, whatever it looks like, as Shadow's own reader hands it on: who needs a number reads it from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from onionlab.errors import ImportedError
from onionlab.untrusted import clipped

#: How deep objects and lists may lie within each other; what tornettools writes has five levels.
DEEPEST = 50

#: Texts without quotes that stand for nothing.
NOTHING = frozenset(("", "~", "null", "Null", "NULL"))


class _Mapping:
    """An object in the making, and the key whose value comes next."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self.key: str | None = None


def read(text: str, path: Path) -> Any:
    """The one document of a text that was read from ``path``; None if it has none.

    Raises
    ------
    ImportedError
        If it is no YAML, or has what is refused.
    """
    # libyaml's parser knows its nesting by a list of its own: however deep a document is, it does not go deeper into the stack.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return _built(yaml.parse(text, Loader=loader), path)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ImportedError(f"{path} is no YAML ({clipped(error, 160)})") from error


def _built(events: Any, path: Path) -> Any:
    documents: list[Any] = []
    open_: list[_Mapping | list[Any]] = []

    def put(value: Any) -> None:
        if not open_:
            documents.append(value)
        elif isinstance(within := open_[-1], list):
            within.append(value)
        elif within.key is not None:
            within.content[within.key] = value
            within.key = None
        elif isinstance(value, str):
            within.key = value
        else:
            raise ImportedError(f"{path}: a key is an object or a list, but must be a text")

    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise ImportedError(f"{path} has YAML aliases, which tornettools does not write")
        if (tag := getattr(event, "tag", None)) is not None:
            raise ImportedError(f"{path} has YAML tags such as {clipped(tag, 40)!r}, which tornettools does not write")
        if isinstance(event, yaml.DocumentStartEvent) and documents:
            raise ImportedError(f"{path} has more than one YAML document")
        if isinstance(event, yaml.ScalarEvent):
            is_value = not open_ or isinstance(open_[-1], list) or open_[-1].key is not None
            put(None if is_value and not event.style and event.value in NOTHING else event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_) == DEEPEST:
                raise ImportedError(f"{path} has objects and lists more than {DEEPEST} deep within each other")
            open_.append(_Mapping() if isinstance(event, yaml.MappingStartEvent) else [])
        elif isinstance(event, yaml.CollectionEndEvent):
            done = open_.pop()
            put(done.content if isinstance(done, _Mapping) else done)
    return documents[0] if documents else None
