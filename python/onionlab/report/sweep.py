"""The report of a sweep: each figure against the swept key, then the figures of every point."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl

from onionlab.charts import Chart, colours
from onionlab.plan import in_words, value_text
from onionlab.report.content import (
    CLIENT_COLUMNS,
    NETWORK_COLUMNS,
    Row,
    cells,
    experiment_file,
    heads,
    software,
    totals,
)
from onionlab.results import describe
from onionlab.stats.compare import repeat
from onionlab.stats.intervals import CONFIDENCE
from onionlab.stats.metrics import WHOLE

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment

#: A number in a sentence.
_NUMBER = re.compile(r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?")


def swept(experiment: Experiment) -> str:
    """Each swept key with its values, and how many points that makes."""
    points = experiment.plan.points
    keys = [f"{key} = {', '.join(dict.fromkeys(value_text(point[key]) for point in points))}" for key in points[0]]
    return f"{'; '.join(keys)} ({describe.plural(len(points), 'point')})"


def _lines(experiment: Experiment, kind: str, columns: list[str]) -> list[Row]:
    """One line per point and treatment; a point without a finished run says so."""
    rows = {
        (row["point"], row["treatment"], row["metric"]): row
        for row in experiment.summary.filter(pl.col("kind") == kind).iter_rows(named=True)
    }
    lines = []
    for number, values in enumerate(experiment.plan.points):
        here = experiment.at(number)
        for place, treatment in enumerate(experiment.treatments):
            found = {metric: rows.get((number, treatment, metric)) for metric in columns}
            figures = cells(here, treatment, kind, found, here.repeats, here.repeats, here.by_seed)
            point = {"number": number + 1, "words": in_words(values)} if place == 0 else None
            lines.append({"treatment": treatment, "cells": figures, "point": point})
    return lines


def _names(experiment: Experiment) -> re.Pattern[str]:
    """Kinds of client, groups and treatments, whose numbers are no amounts."""
    scenarios = experiment.plan.scenarios or [experiment.plan.scenario]
    groups = {str(group["group"]) for scenario in scenarios for group in scenario["clients"]}
    kinds = {kind for point in range(len(experiment.plan.points)) for kind in experiment.at(point).kinds}
    longest_first = sorted({*groups, *kinds, *experiment.treatments}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


def _without_amounts(warning: str, names: re.Pattern[str]) -> str:
    """A warning with ``#`` for each number that is not part of a name."""
    found: list[str] = []
    end = 0
    for name in names.finditer(warning):
        found += [_NUMBER.sub("#", warning[end : name.start()]), name.group()]
        end = name.end()
    return "".join([*found, _NUMBER.sub("#", warning[end:])])


def warnings(experiment: Experiment) -> list[str]:
    """What to keep in mind, said once however many points it is true of; of several numbers the largest is said."""
    points = len(experiment.plan.points)
    names = _names(experiment)
    found: dict[str, list[str]] = {}
    for point in range(points):
        if experiment.at(point).finished:
            # One that is said twice at a point differs in more than how much.
            said: set[str] = set()
            for warning in describe.warnings(experiment.at(point)):
                key = _without_amounts(warning, names)
                key = key if key not in said else warning
                said.add(key)
                found.setdefault(key, []).append(warning)
    told = []
    for alike in found.values():
        worst = max(alike, key=lambda warning: [float(number.replace(",", "")) for number in _NUMBER.findall(warning)])
        told.append(worst if len(alike) == points else f"At {len(alike)} of {points} points: {worst}")
    return told


def page(experiment: Experiment, charts: list[Chart]) -> dict[str, Any]:
    """Everything that the template shows."""
    treatments = experiment.treatments
    points = range(len(experiment.plan.points))
    # A run that serves several points is there once for each.
    runs = experiment.runs.drop("point").unique(maintain_order=True)
    return {
        "title": experiment.title,
        "facts": [
            ("Sweep", swept(experiment)),
            ("Network", describe.over_points(experiment, describe.network)),
            ("Load", describe.over_points(experiment, describe.load)),
            ("Extent", describe.over_points(experiment, describe.extent, ", at each point")),
            ("Simulator", f"onionlab {experiment.plan.version}"),
        ],
        "treatments": treatments,
        "base": treatments[0],
        "colours": colours(treatments),
        "confidence": round(100 * CONFIDENCE),
        "several": experiment.repeats > 1,
        "repeat": repeat(experiment.by_seed),
        "repeated": describe.repeated(experiment),
        "warnings": warnings(experiment),
        "client_columns": heads(CLIENT_COLUMNS),
        "clients": [(kind, _lines(experiment, kind, list(CLIENT_COLUMNS))) for kind in experiment.kinds],
        "network_columns": heads(NETWORK_COLUMNS),
        "network": _lines(experiment, WHOLE, list(NETWORK_COLUMNS)),
        "charts": charts,
        "totals": totals(runs),
        "software": software(runs),
        "experiment_file": experiment_file(experiment),
        "scenarios": json.dumps([experiment.at(point).scenario_in_force for point in points], indent=2, ensure_ascii=False),
        "directory": experiment.directory,
    }
