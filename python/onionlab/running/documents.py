"""Which files an experiment names: what must be there, beside the experiment file itself, for it to run elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

#: Keys of a load of Markov models that name files, in the order of its ``digests``.
_CHAINS = ("streams", "packets")


def named_files(scenarios: Iterable[dict[str, Any]]) -> list[str]:
    """Paths of all files that resolved scenarios rest on, as their experiment file writes them, each once.

    A file is known by its digest, which stands beside the path in a resolved scenario (`onionlab._core.resolve`).
    """
    return list(dict.fromkeys(path for scenario in scenarios for path in _walk(scenario)))


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for entry in value:
            yield from _walk(entry)
    elif isinstance(value, dict):
        if isinstance(value.get("path"), str) and isinstance(value.get("digest"), str):
            yield value["path"]
        if value.get("digests"):
            yield from (value[key] for key in _CHAINS)
        for entry in value.values():
            yield from _walk(entry)
