"""The published networks of the reference, imported as `onionlab import` does it, for whoever runs them."""

from __future__ import annotations

import shutil
from pathlib import Path

from onionlab import importing
from onionlab.errors import ResultsError
from onionlab.files import writing

#: What the name of a network's file ends with.
SUFFIX = ".network.json.xz"


def names(reference: Path) -> list[str]:
    """All that lie in the folder of the reference."""
    return sorted(path.name.removesuffix(SUFFIX) for path in reference.glob(f"*{SUFFIX}"))


def imported(name: str, reference: Path, draft: Path, duration: str | None = None, load: float = 1.0) -> Path:
    """Import a network anew into the folder ``draft``, with the reference's latencies and traffic models where they are there.

    Raises
    ------
    ResultsError
        If the reference does not have it, or the folder cannot be written.
    """
    source = reference / f"{name}{SUFFIX}"
    if not source.is_file():
        raise ResultsError(f"the published network {name} is not in {reference}")
    data = reference.parent.parent / "network"
    latency = data / "country-rtt-2025.csv.gz"
    options = importing.Options(
        latency=latency if latency.is_file() else None,
        models=data if (data / "stream-model-2018.json").is_file() else None,
        duration=duration,
        load=load,
    )
    with writing(draft):
        shutil.rmtree(draft, ignore_errors=True)
    importing.import_network(source, draft, None, options)
    return draft


def settle(draft: Path, place: Path) -> None:
    """Move a folder to its place, unless the very same is there: what runs is what an import gives now, not once gave."""
    with writing(place):
        if place.is_dir() and _files(place) == _files(draft):
            shutil.rmtree(draft)
            return
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(place)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
