"""What reports left in a results directory, as far as it is known to be theirs."""

from __future__ import annotations

from pathlib import Path

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
    of_points = [folder for folder in sorted((root / POINTS).glob("*")) if folder.name.isdecimal()]
    for place in (*of_points, root):
        with writing(place / PAGE):
            (place / PAGE).unlink(missing_ok=True)
            for folder in (place / name for name in FOLDERS):
                # Behind a link lies what is somebody's own.
                if not folder.is_symlink():
                    _clear(folder)
    for folder in (*of_points, root / POINTS):
        _remove_if_empty(folder)


def _clear(folder: Path) -> None:
    """Remove what a report made in a folder, and the folder if nothing else is in it."""
    for name in made_before(folder):
        (folder / name).unlink(missing_ok=True)
    (folder / MADE).unlink(missing_ok=True)
    _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
