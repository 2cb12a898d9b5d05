"""The sampled networks of `onionlab.reproductions.switching`: web and bulk clients on 150 relays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import polars as pl

from onionlab.reproductions import runs
from onionlab.reproductions.figures import Figure, frame, mean
from onionlab.reproductions.switching.study import Study
from onionlab.reproductions.switching.testbeds import optional
from onionlab.results.experiment import Experiment
from onionlab.stats.intervals import lower_quantile
from onionlab.stats.metrics import measured, ordered

#: Treatments of ``network.toml``.
VANILLA, EWMA, SWITCHING = "vanilla", "EWMA 66", "switching"
TREATMENTS = (VANILLA, EWMA, SWITCHING)

#: Names of files that sample networks, and of one whose network is given by hand.
SAMPLED, BY_HAND = ("network", "narrow", "today-network"), ("one-path",)

#: Groups of clients, and positions of relays by the class in the records.
GROUPS = ("web", "bulk")
POSITIONS = {"guard": "entries", "middle": "middles", "exit": "exits", "guard-exit": "exits"}
PLACES = (*GROUPS, *dict.fromkeys(POSITIONS.values()))

#: Figures of a run; what they are stands in ``claims.toml``. Beside them, of the whole network: switches a minute, in per cent
#: those of them that did not end well; downloads that failed, per cent.
METRICS = ("first-byte", "last-byte", "spread", "cells", "queued", "switches", "undone", "failed")

#: What the quick run has.
QUICK = runs.Changes(
    {
        r"(?m)^duration = .*$": 'duration = "3 min"',
        r"(?m)^measure-from = .*$": 'measure-from = "1 min"',
    },
    where_there={
        r"(?m)^networks = .*$": "networks = 3",
        r"(?m)^seeds = \[1, 2, 3, 4, 5\]$": "seeds = [1, 2, 3]",
        r"(?m)^\"network.capacity.factor\" = .*$": '"network.capacity.factor" = [1.0, 0.03]',
        r"(?m)^count = 50$": "count = 10",
    },
)

#: The place of figures that are of no group.
WHOLE = "network"


def measure(experiment: Experiment, key: str | None = None, called: Callable[[Any], str] = str) -> Study:
    """Reduce an experiment's results.

    A place is a group of clients, a position of relays or `WHOLE`, with a sweep the point's name and a colon before it; a
    replicate is a sampled network, by the seed from which it is drawn, or a seed where the network is given by hand. Times are
    those to the first and last byte in s, cells that reached each client, cells that queue at each relay.

    Parameters
    ----------
    experiment : Experiment
        The results.
    key : str, optional
        What it sweeps.
    called : callable
        From a value of that to the name of a point.
    """
    points = [("", experiment)]
    if key is not None:
        points = [(called(values[key]), experiment.at(number)) for number, values in enumerate(experiment.plan.points)]
    figures: list[Figure] = []
    times: list[pl.DataFrame] = []
    for name, point in points:
        prefix = f"{name}: " if name else ""
        for one in _runs(point):
            figures += [(prefix + place, one.treatment, one.replicate, metric, value) for place, metric, value in one.figures()]
            times += [_times(prefix + place, one, what, values) for place, what, values in one.times()]
    return Study.of(experiment, frame(figures), pl.concat(times), tuple(name for name, _ in points))


def _times(place: str, run: Run, what: str, values: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"value": values.cast(pl.Float64)}).select(
        place=pl.lit(place),
        treatment=pl.lit(run.treatment),
        network=pl.lit(run.replicate, dtype=pl.Int64),
        seed=pl.lit(1, dtype=pl.Int64),
        what=pl.lit(what),
        value="value",
    )


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes
    ----------
    treatment, replicate
        Which.
    transfers
        Measured, as `onionlab.stats.metrics.measured` gives them.
    cells
        ``client, group, cells``: DATA cells that reached each client.
    queues
        ``relay, class, queued``: cells in circuit queues, mean over samples.
    switches
        Those of the measured time; None where no treatment switches.
    minutes
        Measured.
    """

    treatment: str
    replicate: int
    transfers: pl.DataFrame
    cells: pl.DataFrame
    queues: pl.DataFrame
    switches: pl.DataFrame | None
    minutes: float

    def figures(self) -> Iterable[tuple[str, str, float | None]]:
        """Place, metric, value."""
        for group in GROUPS:
            rows = self.transfers.filter(pl.col("group") == group)
            first, last = ordered(rows["ttfb"]), ordered(rows["ttlb"])
            yield group, "first-byte", lower_quantile(first, 0.5) if first.size else None
            yield group, "last-byte", lower_quantile(last, 0.5) if last.size else None
            yield group, "spread", lower_quantile(last, 0.9) - lower_quantile(last, 0.1) if last.size else None
            cells = ordered(self._cells(group))
            yield group, "cells", lower_quantile(cells, 0.5) if cells.size else None
        for position in dict.fromkeys(POSITIONS.values()):
            yield position, "queued", mean(self._queued(position))
        ended = self.transfers.filter(pl.col("outcome") != "unfinished")
        yield WHOLE, "failed", 100 * ended.filter(pl.col("outcome") != "ok").height / ended.height if ended.height else None
        if self.switches is not None:
            undone = self.switches.filter(~pl.col("outcome").is_in(["moved", "unfinished"])).height
            yield WHOLE, "switches", self.switches.height / self.minutes
            yield WHOLE, "undone", 100 * undone / self.switches.height if self.switches.height else None

    def times(self) -> Iterable[tuple[str, str, pl.Series]]:
        """Place, what, values."""
        for group in GROUPS:
            rows = self.transfers.filter(pl.col("group") == group)
            yield group, "first-byte", rows["ttfb"]
            yield group, "last-byte", rows["ttlb"]
            yield group, "cells", self._cells(group)
        for position in dict.fromkeys(POSITIONS.values()):
            yield position, "queued", self._queued(position)

    def _cells(self, group: str) -> pl.Series:
        return self.cells.filter(pl.col("group") == group)["cells"]

    def _queued(self, position: str) -> pl.Series:
        """Of each relay of the position."""
        classes = [name for name, of in POSITIONS.items() if of == position]
        return self.queues.filter(pl.col("class").is_in(classes))["queued"]


def _runs(experiment: Experiment) -> Iterable[Run]:
    """Every run; of the long tables only what is needed is read."""
    begin = round(experiment.measure_from * 1e9)
    keys = ("treatment", "network", "seed")
    cells = experiment.table("circuits").group_by(*keys, "client", "group").agg(cells=pl.col("cells_in").sum()).collect()
    queues = (
        experiment.table("relays")
        .filter(pl.col("time_ns") > begin)
        .group_by(*keys, "relay", "class")
        .agg(queued=pl.col("queued_cells").cast(pl.Float64).mean())
        .collect(engine="streaming")
    )
    transfers = measured(experiment.transfers, experiment.measure_from)
    switches = optional(experiment, "switches")
    if switches is not None:
        switches = switches.filter(pl.col("time_ns") >= begin)
    by_hand = experiment.plan.scenario["network"]["kind"] == "explicit"
    first = experiment.plan.scenario["base-seed"] - 1
    for treatment in experiment.treatments:
        for network, seed in product(range(experiment.plan.networks), experiment.plan.seeds):
            own = {"treatment": treatment, "network": network, "seed": seed}
            yield Run(
                treatment,
                seed if by_hand else first + network,
                transfers.filter(**own),
                cells.filter(**own).sort("client"),
                queues.filter(**own).sort("relay"),
                None if switches is None else switches.filter(**own),
                (experiment.duration - experiment.measure_from) / 60,
            )
