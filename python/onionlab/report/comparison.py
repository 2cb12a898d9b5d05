"""The page of a comparison of experiments, with its charts and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from onionlab.charts import Chart, colours
from onionlab.charts.comparison import comparison_charts
from onionlab.charts.export import inline, to_svg
from onionlab.files import remove_drafts, write_text
from onionlab.quantity import format_duration
from onionlab.report.content import CLIENT_COLUMNS, NETWORK_COLUMNS, Row, cells, effect_lines, heads
from onionlab.report.write import environment, replace_folder, write_charts
from onionlab.results import cost, describe
from onionlab.results.comparison import Comparison, settings_json
from onionlab.stats.compare import repeat
from onionlab.stats.intervals import CONFIDENCE
from onionlab.stats.metrics import WHOLE

#: Name of the page.
PAGE = "compare.html"


def write_comparison(comparison: Comparison, into: Path) -> Path:
    """Draw a comparison into a folder: ``compare.html``, ``charts/`` and ``tables/``.

    Returns
    -------
    Path
        The page.
    """
    charts = comparison_charts(comparison)
    drawings = {chart.name: to_svg(chart.specification) for chart in charts if chart.specification is not None}
    replace_folder(into / "charts", lambda folder: write_charts(folder, charts, drawings))
    replace_folder(into / "tables", lambda folder: _tables(folder, comparison, charts))
    pictures = {
        chart.name: Markup(inline(drawings[chart.name], f"chart-{chart.name}", chart.title))
        for chart in charts
        if chart.name in drawings
    }
    path = into / PAGE
    text = environment().get_template("comparison.html.j2").render(page(comparison, charts), pictures=pictures)
    remove_drafts(into, (PAGE,))
    write_text(path, text)
    return path


def _tables(folder: Path, comparison: Comparison, charts: list[Chart]) -> None:
    """The numbers of the page, and those behind each chart."""
    comparison.summary.write_csv(folder / "summary.csv")
    comparison.figures.write_csv(folder / "figures-per-run.csv")
    comparison.differing.write_csv(folder / "differing.csv")
    (folder / "settings.json").write_text(settings_json(comparison) + "\n", encoding="utf-8")
    for chart in charts:
        chart.data.write_csv(folder / f"{chart.name}.csv")


def pairing(comparison: Comparison) -> list[str]:
    """How variants are compared with the base, in a sentence for all of which the same is true."""
    alike: dict[tuple[str | None, int], list[str]] = {}
    for variant in comparison.variants[1:]:
        reason = comparison.unpaired.get(variant.label)
        alike.setdefault((reason, comparison.pairs(variant)), []).append(f"“{variant.label}”")
    found, of, base = [], repeat(comparison.by_seed), f"“{comparison.base.label}”"
    for (reason, pairs), labels in alike.items():
        who = f"{', '.join(labels)} {'is' if len(labels) == 1 else 'are'}"
        if reason is None:
            found.append(
                f"{who} paired with {base} over {describe.plural(pairs, of)}: the same networks and seeds, "
                f"common random numbers, one difference per {of}."
            )
        else:
            found.append(
                f"{who} not paired with {base}, because {reason}: two samples of {of}s, "
                "Welch’s interval, which is wider than a paired one."
            )
    return found


def caveats(comparison: Comparison) -> list[str]:
    """What to keep in mind: of the comparison itself, then of each experiment."""
    found = []
    builds = {variant.settings["onionlab"] for variant in comparison.variants}
    if len(builds) > 1:
        found.append("Not all were made by the same build of the simulator: a difference may be one between builds.")
    begins = {variant.experiment.measure_from for variant in comparison.variants}
    if len(begins) > 1:
        words = ", ".join(format_duration(begin) for begin in sorted(begins))
        found.append(f"The measurement does not begin at the same time everywhere ({words}).")
    kinds = [kind for kind in comparison.kinds if any(kind not in variant.experiment.kinds for variant in comparison.variants)]
    if kinds:
        found.append(f"Not everywhere are there {', '.join(f'“{kind}”' for kind in kinds)}.")
    seen: dict[str, list[str]] = {}
    for experiment, labels in _experiments(comparison):
        for warning in describe.warnings(experiment):
            seen.setdefault(warning, []).extend(labels)
    return found + [
        warning if len(labels) == len(comparison.variants) else f"{', '.join(labels)}: {warning}"
        for warning, labels in seen.items()
    ]


def _experiments(comparison: Comparison) -> list[tuple[Any, list[str]]]:
    """Each experiment once, with the labels of its variants."""
    found: dict[int, tuple[Any, list[str]]] = {}
    for variant in comparison.variants:
        found.setdefault(id(variant.experiment), (variant.experiment, []))[1].append(variant.label)
    return list(found.values())


def _figures(comparison: Comparison, kind: str, columns: list[str]) -> list[Row]:
    """One line per variant."""
    rows = {(row["treatment"], row["metric"]): row for row in comparison.summary.filter(pl.col("kind") == kind).to_dicts()}
    lines = []
    for variant in comparison.variants:
        found = {metric: rows.get((variant.label, metric)) for metric in columns}
        over = (comparison.repeats(variant), comparison.pairs(variant) or None)
        figures = cells(variant.experiment, variant.treatment, kind, found, *over, comparison.by_seed)
        lines.append({"treatment": variant.label, "cells": figures})
    return lines


def page(comparison: Comparison, charts: list[Chart]) -> dict[str, Any]:
    """Everything that the template shows."""
    labels = comparison.labels
    return {
        "labels": labels,
        "base": labels[0],
        "colours": colours(labels, comparison.places),
        "confidence": round(100 * CONFIDENCE),
        "repeat": repeat(comparison.by_seed),
        "repeated": comparison.repeated,
        "variants": [
            {
                "label": variant.label,
                "treatment": variant.treatment,
                "title": variant.experiment.title,
                "directory": str(variant.experiment.directory),
                "network": describe.network(variant.experiment),
                "load": describe.load(variant.experiment),
                "extent": describe.extent(variant.experiment),
            }
            for variant in comparison.variants
        ],
        "differing": [row for row in comparison.differing.rows() if row[0] not in comparison.brought_along],
        "brought": [row for row in comparison.differing.rows() if row[0] in comparison.brought_along],
        "pairing": pairing(comparison),
        "cost": cost.compared(comparison),
        "warnings": caveats(comparison),
        "effects": effect_lines(comparison.summary),
        "client_columns": heads(CLIENT_COLUMNS),
        "clients": [(kind, _figures(comparison, kind, list(CLIENT_COLUMNS))) for kind in comparison.kinds],
        "network_columns": heads(NETWORK_COLUMNS),
        "network": _figures(comparison, WHOLE, list(NETWORK_COLUMNS)),
        "charts": charts,
        "settings": json.dumps(json.loads(settings_json(comparison)), indent=1, ensure_ascii=False),
    }
