"""One point of a sweep, as commands choose it with ``--point``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from onionlab.plan import in_words

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment

#: How points are counted: people begin with 1, rows of tables with 0.
COUNTED = "Counted from 1, in the order of tables/points.csv, whose column point counts from 0."


def at_point(results: Experiment, number: int | None) -> Experiment:
    """The experiment at a point of its sweep, whose values are said; the whole of it where no point is chosen."""
    if number is None:
        return results
    chosen = results.at_number(number)
    points = results.plan.points
    # Not on standard output, where the answer may be for another program.
    print(f"point {number} of {len(points)}: {in_words(points[number - 1])}", file=sys.stderr)
    return chosen
