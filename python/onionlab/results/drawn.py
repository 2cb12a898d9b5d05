"""What reports left in a results directory, as far as it is known to be theirs."""

from __future__ import annotations

from pathlib import Path

from onionlab.errors import ResultsError
from onionlab.files import writing

#: The page of a report; `FOLDERS` lie beside it.
PAGE = "report.html"

#: Folders of a report, which may hold other files too.
FOLDERS = ("charts", "tables")

#: Where a sweep's reports of single points lie, each in a folder called by the number of its point.
POINTS = "points"

#: In a folder of charts or tables: names of the files there that a report made.
MADE = ".made-by-onionlab"


def made_before(folder: Path) -> set[str]:
    """Names of the files in a folder that the report before made; none where its list is missing or no such thing."""
    try:
        names = (folder / MADE).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return set()
    # A list that was tampered with reaches nothing outside of the folder, nor what is no picture or table.
    return {name for name in names if Path(name).name == name and Path(name).suffix in {".svg", ".png", ".csv", ".json"}}


def remove_reports(root: Path) -> None:
    """Remove the report of a results directory, and those of a sweep's points; whatever else lies beside them stays.

    Raises
    ------
    ResultsError
        If one cannot be removed.
    """
    of_points = [folder for folder in sorted((root / POINTS).glob("*")) if folder.name.isdecimal() and _is_own(folder)]
    if not _is_own(root / POINTS):
        of_points = []
    for place in (*of_points, root):
        with writing(place / PAGE):
            (place / PAGE).unlink(missing_ok=True)
            for folder in (place / name for name in FOLDERS):
                if _is_own(folder):
                    _clear(folder)
    for folder in (*of_points, root / POINTS):
        _remove_if_empty(folder)


def refuse_links(folder: Path, root: Path) -> None:
    """Refuse to draw into a folder below ``root`` to which a symbolic link leads: it may lie anywhere.

    A results directory may come from somebody else. How one comes to ``root`` itself is for whoever names it.

    Raises
    ------
    ResultsError
        If there is such a link; it is named.
    """
    if not folder.is_relative_to(root):
        return
    below = folder.relative_to(root).parts
    for count in range(1, len(below) + 1):
        place = root.joinpath(*below[:count])
        if place.is_symlink():
            raise ResultsError(f"{place} is a symbolic link, which onionlab did not write; remove it")


def _is_own(folder: Path) -> bool:
    """Whether a report may have made the folder: behind a link lies what is somebody's own."""
    return folder.is_dir() and not folder.is_symlink()


def _clear(folder: Path) -> None:
    """Remove what a report made in a folder, and the folder if nothing else is in it."""
    for name in made_before(folder):
        (folder / name).unlink(missing_ok=True)
    (folder / MADE).unlink(missing_ok=True)
    _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    if _is_own(folder) and not any(folder.iterdir()):
        folder.rmdir()
