"""What treatments cost to simulate: processor time for each cell-hop.

A cell-hop is one cell moved from a circuit queue to an outbuf. All that the simulator did is in its cost: links, TCP, tor, and
the circuit scheduler, one of the user's own included. Where two treatments move about the same cells, as on the same networks
and seeds, the difference is the treatment's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from onionlab.quantity import format_number

if TYPE_CHECKING:
    from onionlab.results.comparison import Comparison
    from onionlab.results.experiment import Experiment

#: What the figures mean, for whoever reads them.
MEANING = (
    "Processor time of the simulator for each cell that a host moved from a circuit queue to an outbuf: links, TCP, tor and the "
    "circuit scheduler together, one of your own included. It tells what a treatment costs here, not what it would cost a relay; "
    "runs that share a machine with others take somewhat more."
)


@dataclass(frozen=True)
class Cost:
    """What one treatment's runs took."""

    treatment: str
    #: For each cell-hop, over all finished runs.
    nanoseconds: float
    #: The same over that of the first treatment, both on the networks and seeds that they have in common, in a sweep at the
    #: same points; None for the first.
    ratio: float | None


def clock(experiment: Experiment) -> str:
    """Which column of ``run`` tells the cost: ``cpu_seconds`` where every run has it, else ``wall_seconds``."""
    runs = experiment.runs
    return "cpu_seconds" if "cpu_seconds" in runs.columns and not runs["cpu_seconds"].has_nulls() else "wall_seconds"


def costs(experiment: Experiment) -> list[Cost]:
    """The cost of each treatment that has a finished run with any cell, in the order of the experiment."""
    return _costs(experiment.runs, experiment.treatments, clock(experiment))


def _costs(runs: pl.DataFrame, treatments: Sequence[str], seconds: str, unpaired: Collection[str] = ()) -> list[Cost]:
    """The cost of each treatment of a ``run`` table by a clock; to the first one unless it is not paired with it.

    Runs of a sweep are paired at each point. One that serves several points is in the table once for each.
    """
    keys = ["point", "network", "seed"] if "point" in runs.columns else ["network", "seed"]
    told = ["scenario"] if "point" in runs.columns else []
    runs = runs.select("treatment", *keys, *told, "cell_hops", seconds=seconds)
    base = runs.filter(pl.col("treatment") == treatments[0])
    found = []
    for treatment in treatments:
        own = runs.filter(pl.col("treatment") == treatment)
        cost = _per_hop(own)
        if cost is None:
            continue
        before, after = _per_hop(base.join(own, on=keys, how="semi")), _per_hop(own.join(base, on=keys, how="semi"))
        paired = (
            treatment != treatments[0] and treatment not in unpaired and before is not None and after is not None and before > 0
        )
        found.append(Cost(treatment, cost, after / before if paired and after is not None and before is not None else None))
    return found


def _per_hop(runs: pl.DataFrame) -> float | None:
    """Nanoseconds for each cell-hop, of every run once."""
    runs = runs.select(pl.exclude("point")).unique(maintain_order=True)
    hops = int(runs["cell_hops"].sum())
    return 1e9 * float(runs["seconds"].sum()) / hops if hops > 0 else None


def sentence(experiment: Experiment) -> str:
    """All of it on one line; empty where there is nothing to tell."""
    return _sentence(costs(experiment), clock(experiment))


def compared(comparison: Comparison) -> str:
    """The cost of each variant of a comparison on one line, beside the first where they are paired; empty as `sentence`."""
    clocks = {clock(variant.experiment) for variant in comparison.variants}
    seconds = clocks.pop() if len(clocks) == 1 else "wall_seconds"
    columns = ("treatment", "network", "seed", "cell_hops", seconds)
    runs = pl.concat(variant.labelled(variant.experiment.runs).select(*columns) for variant in comparison.variants)
    return _sentence(_costs(runs, comparison.labels, seconds, comparison.unpaired), seconds)


def _sentence(found: Sequence[Cost], seconds: str) -> str:
    parts = [
        f"“{of.treatment}” {format_number(of.nanoseconds)} ns" + (f" ({of.ratio:.2f} times)" if of.ratio is not None else "")
        for of in found
    ]
    time = "processor time" if seconds == "cpu_seconds" else "wall time"
    return f"{time} for each cell moved: {', '.join(parts)}" if parts else ""
