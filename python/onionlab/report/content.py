"""What a report says: every number as the text that the page shows."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from onionlab.charts import Chart, colours
from onionlab.quantity import decimals, format_bytes, format_duration, format_fixed, format_number
from onionlab.results import cost, describe
from onionlab.stats.compare import is_not_judged, repeat
from onionlab.stats.intervals import CONFIDENCE
from onionlab.stats.metrics import HEADLINE, METRICS, WHOLE

if TYPE_CHECKING:
    from onionlab.results.experiment import Experiment

Row = dict[str, Any]

#: Most bytes of an experiment file, as the simulator has it.
MOST_OF_A_FILE = 4 * 2**20

#: Columns of the summary table of one kind of client, with their headings.
CLIENT_COLUMNS = {
    "ttfb_median": ("Time to first byte", "median, s"),
    "ttfb_p90": ("Time to first byte", "90th percentile, s"),
    "ttlb_median": ("Time to last byte", "median, s"),
    "ttlb_p90": ("Time to last byte", "90th percentile, s"),
    "goodput": ("Goodput", "Mbit/s"),
    "failed": ("Failed downloads", "% of those that ended"),
}

NETWORK_COLUMNS = {
    "goodput": ("Goodput", "Mbit/s"),
    "utilisation_guard": ("Guards used", "% of capacity"),
    "utilisation_middle": ("Middles used", "% of capacity"),
    "utilisation_exit": ("Exits used", "% of capacity"),
    "utilisation_guard_exit": ("Guard-exits used", "% of capacity"),
}


def heads(columns: Mapping[str, tuple[str, str]]) -> list[tuple[str, str, str]]:
    """The heads of columns of figures: name, unit, and what is meant, which a pointer brings up."""
    return [(name, unit, METRICS[metric].meaning) for metric, (name, unit) in columns.items()]


COUNT_COLUMNS = {
    "completed": "completed",
    "failed_timeout": "time-out",
    "failed_stall": "stall",
    "failed_circuit_closed": "circuit closed",
    "failed_no_circuit": "no circuit",
    "unfinished": "unfinished at the end",
}


@dataclass(frozen=True)
class Cell:
    """One figure: the mean, its interval, and the difference to the first treatment with what it shows."""

    mean: str
    interval: str = ""
    difference: str = ""
    bounds: str = ""
    words: str = ""
    #: "better", "worse", "clear" (excludes zero, neither better nor worse), "unclear", or empty without a difference.
    sense: str = ""


def counted(count: int, of: int | None, by_seed: bool) -> str:
    """Over how many networks (or seeds) a figure is, where some of them lack it: `` (1 of 5 networks)``, otherwise nothing."""
    return "" if of is None or count >= of else f" ({count} of {describe.plural(of, repeat(by_seed))})"


def cell(row: Row | None, repeats: int, *, by_seed: bool, pairs: int | None = None, mark: str = "") -> Cell:
    """One figure of the summary as text.

    ``repeats`` is how many networks there are, or seeds (``by_seed``), and ``pairs`` of how many there could be a difference, so
    that a figure that some of them lack says so; ``mark`` stands behind the mean.
    """
    if row is None:
        return Cell("–", interval="nothing to measure")
    places = decimals(row["mean"])
    mean = f"{format_fixed(row['mean'], places)}{mark}"
    interval = "no interval"
    if row["low"] is not None:
        interval = f"{format_fixed(row['low'], places)} to {format_fixed(row['high'], places)}"
        if row["method"] == "log-normal":
            interval += ", log-normal"
    interval += counted(row["networks"], repeats, by_seed)
    if row["verdict"] is None:
        return Cell(mean, interval)
    if row["difference"] is None:
        return Cell(mean, interval, words=row["verdict"], sense="unclear")
    over = counted(row["difference_networks"], pairs, by_seed)
    low, high = row["difference_low"], row["difference_high"]
    places = decimals(max(abs(value) for value in (row["difference"], low or 0.0, high or 0.0)), 2)
    difference = format_fixed(row["difference"], places, signed=True)
    percent = row["difference_percent"]
    if percent is not None and row["unit"] != "%":
        difference += f" ({format_fixed(percent, decimals(percent, 2), signed=True)} %)"
    if low is None:
        words = "not judged: more or fewer did not complete" if is_not_judged(row["verdict"]) else "no interval"
        return Cell(mean, interval, difference, words=f"{words}{over}", sense="unclear")
    bounds = f"{format_fixed(low, places, signed=True)} to {format_fixed(high, places, signed=True)}{over}"
    if row["difference"] == 0 and low == high:
        words, sense = f"equal in every {repeat(by_seed)}", "unclear"
    elif low > 0 or high < 0:
        judged = METRICS[row["metric"]].better * (1 if row["difference"] > 0 else -1)
        sense = {1: "better", -1: "worse", 0: "clear"}[judged]
        words = f"{sense}: excludes zero" if judged else "excludes zero"
    else:
        words, sense = "includes zero", "unclear"
    return Cell(mean, interval, difference, bounds, words, sense)


def cells(
    experiment: Experiment,
    treatment: str,
    kind: str,
    rows: Mapping[str, Row | None],
    repeats: int,
    pairs: int | None,
    by_seed: bool,
) -> list[Cell]:
    """The figures of a treatment and kind of client, given their rows by metric; the rest as for `cell`."""
    marks = {"goodput": describe.goodput_mark(experiment, treatment, kind)}
    return [cell(row, repeats, by_seed=by_seed, pairs=pairs, mark=marks.get(metric, "")) for metric, row in rows.items()]


def _table(experiment: Experiment, rows: dict[tuple[str, str, str], Row], kind: str, columns: list[str]) -> list[Row]:
    """One line per treatment."""
    lines = []
    for treatment in experiment.treatments:
        found = {metric: rows.get((kind, treatment, metric)) for metric in columns}
        figures = cells(experiment, treatment, kind, found, experiment.repeats, experiment.repeats, experiment.by_seed)
        lines.append({"treatment": treatment, "cells": figures})
    return lines


def _change(row: Row) -> str:
    """A difference as short as it can be said."""
    percent = row["difference_percent"]
    if METRICS[row["metric"]].unit == "%" or percent is None:
        difference = row["difference"]
        return (
            f"{format_fixed(difference, decimals(difference, 2), signed=True)} {'points' if row['unit'] == '%' else row['unit']}"
        )
    return f"{format_fixed(percent, decimals(percent, 2), signed=True)} %"


def sentences(experiment: Experiment) -> list[Row]:
    """The comparison in words: per treatment, first what differs from the first treatment, then what is not shown to differ."""
    found = []
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    for treatment in experiment.treatments[1:]:
        shown: list[Row] = []
        for kind in experiment.kinds:
            alike = []
            for metric in HEADLINE:
                row = rows.get((kind, treatment, metric))
                if row is None or row["verdict"] is None:
                    continue
                label, sense = METRICS[metric].label, cell(row, experiment.repeats, by_seed=experiment.by_seed).sense
                over = counted(row["difference_networks"] or 0, experiment.repeats, experiment.by_seed)
                if row["difference_low"] is None or sense != "unclear":
                    doubt = ""
                    if row["p_holm"] is not None and row["p_holm"] > 1 - CONFIDENCE:
                        doubt = ", but no longer when corrected for the number of comparisons"
                    shown.append({"kind": kind, "sense": sense, "text": f"{label}: {row['verdict']}{doubt}{over}."})
                else:
                    alike.append(f"{label} ({_change(row)} on average{over.replace(' (', ' over ').removesuffix(')')})")
            if alike:
                text = f"no difference shown (the interval includes zero) in {'; '.join(alike)}."
                shown.append({"kind": kind, "sense": "unclear", "text": text})
        found.append({"treatment": treatment, "lines": shown})
    return found


def effect_lines(summary: pl.DataFrame) -> list[Row]:
    """How sure each headline difference is, and how many networks it takes to see it: one line per comparison of a summary."""
    lines = []
    for row in summary.filter(pl.col("metric").is_in(HEADLINE), pl.col("p").is_not_null()).iter_rows(named=True):
        relative = row["unit"] != "%" and row["difference_percent"] is not None
        scale = row["difference_percent"] / row["difference"] if relative and row["difference"] else 1.0
        relative = relative and row["difference"] != 0
        unit = " %" if relative else " points" if row["unit"] == "%" else f" {row['unit']}"
        low, high = (scale * row[key] for key in ("difference_low", "difference_high"))
        places = decimals(max(abs(low), abs(high)), 2)
        lines.append(
            {
                "kind": row["kind"],
                "treatment": row["treatment"],
                "metric": METRICS[row["metric"]].label,
                "difference": f"{format_fixed(scale * row['difference'], places, signed=True)}{unit}",
                "bounds": f"{format_fixed(low, places, signed=True)} to {format_fixed(high, places, signed=True)}{unit}",
                "ratio": "–" if row["ratio"] is None else format_fixed(row["ratio"], 3),
                "ratio_bounds": ""
                if row["ratio_low"] is None
                else f"{format_fixed(row['ratio_low'], 3)} to {format_fixed(row['ratio_high'], 3)}",
                "p": _p_value(row["p"]),
                "p_holm": _p_value(row["p_holm"]),
                "sure": row["p_holm"] <= 1 - CONFIDENCE,
                "networks": row["difference_networks"],
                "needed": "–" if row["networks_needed"] is None else f"{row['networks_needed']:,}",
                "detectable": "–" if row["detectable"] is None else f"{format_number(abs(scale * row['detectable']), 2)}{unit}",
            }
        )
    return lines


def _p_value(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else format_fixed(p, decimals(p, 2) if p < 0.1 else 2)


def spread(experiment: Experiment) -> list[Row]:
    """Where the headline figures' spread comes from, where there are several seeds; one line per treatment and figure."""
    split = experiment.variance.filter(pl.col("metric").is_in(HEADLINE), pl.col("network_share").is_not_null())
    order = {kind: number for number, kind in enumerate(experiment.kinds)}
    lines = []
    for row in sorted(split.iter_rows(named=True), key=lambda row: order[row["kind"]]):
        mean, networks, seeds = row["mean"], row["between_networks"], row["between_seeds"]
        single = row["runs"] / row["networks"]
        # Variance of the mean over k networks with s seeds each: (networks + seeds / s) / k.
        gain = 1 - math.sqrt((networks**2 + seeds**2 / (single + 1)) / (networks**2 + seeds**2 / single))
        more = 1 - math.sqrt(row["networks"] / (row["networks"] + 1))
        places = decimals(mean)
        lines.append(
            {
                "kind": row["kind"],
                "treatment": row["treatment"],
                "metric": f"{METRICS[row['metric']].label}, {row['unit']}",
                "mean": format_fixed(mean, places),
                "networks": format_number(networks, 2),
                "seeds": format_number(seeds, 2),
                "share": f"{format_number(row['network_share'], 2)} %",
                "more_seeds": f"{format_number(100 * gain, 2)} %",
                "more_networks": f"{format_number(100 * more, 2)} %",
            }
        )
    return lines


def _counts(rows: dict[tuple[str, str, str], Row], experiment: Experiment) -> list[Row]:
    """Downloads by outcome, mean per run."""
    lines = []
    for kind in experiment.kinds:
        for treatment in experiment.treatments:
            cells = []
            for metric in COUNT_COLUMNS:
                row = rows.get((kind, treatment, metric))
                cells.append(f"{row['mean']:,.1f}".removesuffix(".0") if row is not None else "–")
            share = rows.get((kind, treatment, "failed"))
            lines.append(
                {
                    "kind": kind,
                    "treatment": treatment,
                    "cells": cells,
                    "share": f"{format_number(share['mean'])} %" if share is not None else "–",
                }
            )
    return lines


def settling(experiment: Experiment) -> str:
    """When the goodput settles, and who chose the begin of the measurement."""
    parts = []
    for one in experiment.settlings:
        when = "is too short a series to tell" if one.short else "does not settle in the first half"
        if one.settled_at is not None:
            when = f"settles at {format_duration(one.settled_at)}"
        parts.append(f"{one.treatment}: {when}")
    chosen = {None: "the experiment file says so", "auto": "this is where the goodput has settled under every treatment"}
    why = chosen.get(experiment.evaluation.measure_from, "this was chosen on the command line")
    if experiment.evaluation.measure_from == "auto" and any(one.settled_at is None for one in experiment.settlings):
        unsettled = [one for one in experiment.settlings if one.settled_at is None]
        short = all(one.short for one in unsettled)
        why = f"half of the time is cut, because the goodput {'cannot tell' if short else 'does not settle before'}"
    return (
        f"What starts before {format_duration(experiment.measure_from)} is cut off as warm-up; {why}. The network's goodput, by "
        f"MSER-5 over the mean of all runs: {'; '.join(parts)}."
    )


def _runs(experiment: Experiment) -> list[Row]:
    """Provenance, one line per run."""
    lines = []
    for row in experiment.runs.iter_rows(named=True):
        lines.append(
            {
                "treatment": row["treatment"],
                "network": row["network"],
                "network_seed": f"{row['network_seed']:016x}",
                "seed": row["seed"],
                "relays": f"{row['relays']:,}",
                "clients": f"{row['clients']:,}",
                "events": f"{row['events'] / 1e6:,.1f} M",
                "cell_hops": f"{row['cell_hops'] / 1e6:,.1f} M",
                "wall": format_duration(row["wall_seconds"], coarse=True),
                "memory": format_bytes(row["peak_memory_bytes"]),
            }
        )
    return lines


def _costs(experiment: Experiment) -> list[Row]:
    """What each treatment took for each cell-hop."""
    return [
        {
            "treatment": of.treatment,
            "nanoseconds": f"{format_number(of.nanoseconds)} ns",
            "ratio": f"{of.ratio:.2f}" if of.ratio is not None else "–",
        }
        for of in cost.costs(experiment)
    ]


def totals(runs: pl.DataFrame) -> str:
    """What runs cost together, given their ``run`` tables."""
    wall = float(runs["wall_seconds"].sum())
    hops = int(runs["cell_hops"].sum())
    speed = f", {format_number(hops / wall / 1e6)} M cell-hops a second and core" if wall > 0 else ""
    memory = runs["peak_memory_bytes"].max()
    most = format_bytes(memory) if isinstance(memory, int) else "unknown"
    return (
        f"{describe.plural(runs.height, 'run')}, {format_duration(wall, coarse=True)} of simulation together, "
        f"{hops / 1e6:,.1f} M cell-hops{speed}; at most {most} of memory."
    )


def software(runs: pl.DataFrame) -> str:
    """Versions that the records and the figures rest on."""
    versions = sorted({str(version) for version in runs["version"].unique()})
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("polars", "scipy", "altair"))
    return f"Records: onionlab {', '.join(versions)}. Statistics and charts: Python {platform.python_version()}, {packages}."


def _divergence(experiment: Experiment) -> str:
    """Sampling reports of the networks, as JSON; empty where there are none."""
    per_network = experiment.runs.group_by("network").agg(pl.col("divergence_json").first()).sort("network")
    reports = {network: json.loads(text) for network, text in per_network.iter_rows() if text and text != "null"}
    return json.dumps(reports, indent=2, ensure_ascii=False) if reports else ""


def page(experiment: Experiment, charts: list[Chart]) -> dict[str, Any]:
    """Everything that the template shows."""
    rows = {(row["kind"], row["treatment"], row["metric"]): row for row in experiment.summary.iter_rows(named=True)}
    treatments = experiment.treatments
    return {
        "title": experiment.title,
        "facts": [
            ("Network", describe.network(experiment)),
            ("Load", describe.load(experiment)),
            ("Extent", describe.extent(experiment)),
            ("Simulator", f"onionlab {experiment.plan.version}"),
        ],
        "treatments": treatments,
        "base": treatments[0],
        "colours": colours(treatments),
        "confidence": round(100 * CONFIDENCE),
        "several": experiment.repeats > 1,
        "repeat": repeat(experiment.by_seed),
        "repeated": describe.repeated(experiment),
        "warnings": describe.warnings(experiment),
        "sentences": sentences(experiment),
        "effects": effect_lines(experiment.summary),
        "spread": spread(experiment),
        "settling": settling(experiment),
        "client_columns": heads(CLIENT_COLUMNS),
        "clients": [(kind, _table(experiment, rows, kind, list(CLIENT_COLUMNS))) for kind in experiment.kinds],
        "network_columns": heads(NETWORK_COLUMNS),
        "network": _table(experiment, rows, WHOLE, list(NETWORK_COLUMNS)),
        "count_columns": list(COUNT_COLUMNS.values()),
        "counts": _counts(rows, experiment),
        "charts": charts,
        "runs": _runs(experiment),
        "costs": _costs(experiment),
        "cost_clock": {"cpu_seconds": "processor time", "wall_seconds": "wall time"}[cost.clock(experiment)],
        "cost_meaning": cost.MEANING,
        "totals": totals(experiment.runs),
        "software": software(experiment.runs),
        "divergence": _divergence(experiment),
        "experiment_file": experiment_file(experiment),
        "scenario": json.dumps(experiment.scenario_in_force, indent=2, ensure_ascii=False),
        "measure_from": format_duration(experiment.measure_from),
    }


def experiment_file(experiment: Experiment) -> str:
    """The copy of the experiment file in the results directory; nothing where there is none that onionlab wrote.

    Who made the directory may be somebody else, and who is given the report another still: a link, which leads to a file of
    whoever draws the report, is not followed.
    """
    path = experiment.directory / "experiment.toml"
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        text = file.read(MOST_OF_A_FILE + 1)
    return text.decode("utf-8", errors="replace") if len(text) <= MOST_OF_A_FILE else ""
