"""From the records of runs to the figures of `onionlab.reproductions.predictor`.

Latency is byte-wise, from the table ``latency``: the time from the exit's write to the entry's read, a mean over the bytes that
arrive while it is measured. A circuit without any has a rate of zero and no latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from onionlab.predictor import Network, fairness, max_min
from onionlab.reproductions.figures import SCHEMA, VALUES, Figure, frame
from onionlab.reproductions.kept import Form, Made, Reduced
from onionlab.reproductions.predictor.asked import PAPERS_SYSTEM, Asked, Fair
from onionlab.reproductions.predictor.cells import Cell
from onionlab.reproductions.predictor.networks import FIRST_BYTES, capacities, draw
from onionlab.results.experiment import Experiment

KIB = 1024

#: The share of its link with which a controller of the public program plans.
PLANNED = 0.85

#: The treatment whose rates are the max-min fair ones.
FAIR = "fair"

#: Figures that hold rates against fair ones.
AGAINST_FAIR = ("served", "conforming", "deviation", "shares", "served-85", "served-links", "starved")

#: Below this share of its fair rate a circuit counts as starved.
STARVED = 0.1

#: A circuit that waits for something and got nothing for so many seconds has stalled.
STALLED = 1.0

#: So long after the begin of a run of the toy network the paper's times begin, seconds: before, circuits are built.
TOY_LEAD = 3.5

#: Access rates of the toy network's relays in bit/s; the relays of its circuits.
TOY_RATES = {"exit1": 10e6, "exit2": 10e6, "btlnk": 4e6, "entry1": 10e6, "entry2": 10e6, "entry3": 10e6}
TOY_CIRCUITS = {
    "circuit1": ("exit1", "btlnk", "entry1"),
    "circuit2": ("exit1", "btlnk", "entry2"),
    "circuit3": ("exit2", "btlnk", "entry3"),
}


@dataclass(frozen=True)
class Carried:
    """What each circuit carried while it was measured, one value for each.

    Attributes
    ----------
    rates
        Payload that arrived, bytes a second.
    waits
        Seconds that this took from the exit to the entry, summed over its bytes and divided by the seconds of the measurement.
    """

    rates: np.ndarray[tuple[int], np.dtype[np.float64]]
    waits: np.ndarray[tuple[int], np.dtype[np.float64]]

    @property
    def latencies(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Mean latency of each circuit's bytes in ms; not a number of a circuit without any."""
        with np.errstate(invalid="ignore", divide="ignore"):
            latencies: np.ndarray[tuple[int], np.dtype[np.float64]] = 1000 * self.waits / self.rates
        return latencies

    @property
    def latency(self) -> float | None:
        """Mean over the bytes of all circuits in ms."""
        return float(1000 * self.waits.sum() / self.rates.sum()) if self.rates.sum() > 0 else None


def carried(latency: pl.DataFrame, groups: Sequence[str], begin: float, end: float) -> Carried:
    """What arrived of each group's circuits from ``begin`` to ``end``, in seconds of simulated time."""
    rows = latency.filter(pl.col("time_ns") > round(begin * 1e9), pl.col("time_ns") <= round(end * 1e9))
    sums = rows.group_by("group").agg(pl.col("read_bytes").sum(), pl.col("latency").sum())
    found = pl.DataFrame({"group": groups}).join(sums, on="group", how="left", maintain_order="left").fill_null(0)
    seconds = end - begin
    return Carried(found["read_bytes"].to_numpy() / seconds, found["latency"].to_numpy() / seconds)


def against_fair(rates: Sequence[float], fair: Sequence[float], planned: Sequence[float]) -> dict[str, float]:
    """Readings of the fairness index, against the fair rates and against those with the capacities that controllers plan with."""
    read, of_planned = fairness(rates, fair), fairness(rates, planned)
    below = np.asarray(rates) < STARVED * np.asarray(fair)
    return {
        "served": read.served,
        "conforming": read.conforming,
        "deviation": read.deviation,
        "shares": read.shares,
        "served-85": of_planned.served,
        "starved": 100 * float(below.mean()),
    }


def costs(facts: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """Treatment, circuits and processor time of each run; raises what `onionlab.reproductions.kept.Form` says of other facts."""
    return [(str(treatment), int(circuits), float(seconds)) for treatment, circuits, seconds in facts["costs"]]


#: What is kept of each network.
FORM = Form(1, {"figures": SCHEMA, "rates": VALUES}, costs)

#: Significant figures of a circuit's rate or latency.
PRECISION = 4


def cell(asked: Asked, one: Cell, results: Experiment) -> Reduced:
    """One network's runs, reduced to what `held_against_fair` completes.

    Frames are ``figures`` and ``rates``, ``place, treatment, network, seed, what, value``: payload of each circuit, KiB/s,
    ``what`` being ``rate``. Of web mixes ``web`` and ``bulk``: mean latency of each circuit, ms. Of the facts ``costs`` has the
    processor time of each run where it is known, as `cells.Cost`.
    """
    rules, conditions = asked.network, one.conditions
    groups = [str(group["group"]) for group in results.plan.scenario["clients"]]
    end = results.duration
    begin = end - rules.window_ms / 1000
    figures: list[Figure] = []
    parts = []
    latency = results.table("latency").collect()
    for treatment in one.treatments:
        own = carried(latency.filter(treatment=treatment), groups, begin, end)
        found: dict[str, float | None] = {"latency": own.latency, "throughput": float(own.rates.sum()) / KIB}
        if conditions.web:
            found["finished"] = _finished(results, treatment)
            for kind in ("web", "bulk"):
                chosen = own.latencies[[group.startswith(kind) for group in groups]]
                chosen = chosen[~np.isnan(chosen)]
                found[f"{kind}-latency"] = float(chosen.mean()) if chosen.size else None
                parts.append(_values(one, treatment, kind, chosen))
                if kind == "web":
                    found["web-tail"] = float(np.quantile(chosen, 0.9)) if chosen.size else None
        else:
            parts.append(_values(one, treatment, "rate", own.rates / KIB))
        asked_for = results.transfers.filter(treatment=treatment)
        found |= left_behind(asked_for, latency.filter(treatment=treatment), len(groups), begin, end)
        found["wire"] = _wire(results, treatment, begin, end, float(own.rates.sum()))
        figures += [(one.place, treatment, one.number, metric, value) for metric, value in found.items()]
    taken = results.runs.select("treatment", "cpu_seconds").drop_nulls()
    each = [(treatment, one.circuits, seconds) for treatment, seconds in taken.iter_rows()]
    return Reduced({"figures": frame(figures), "rates": pl.concat(parts)}, Made.of(results), {"costs": each})


def held_against_fair(asked: Asked, one: Cell, reduced: Reduced) -> Reduced:
    """With the figures `AGAINST_FAIR`, and among the rates the max-min fair ones as those of the treatment `FAIR`.

    They follow from the rates alone, so that nothing is run or kept for them: what an older version kept of them is left out.
    Of web mixes there are none.
    """
    rates = reduced.frames["rates"].filter(pl.col("treatment") != FAIR)
    figures = reduced.frames["figures"].filter(~pl.col("metric").is_in(AGAINST_FAIR))
    if not one.conditions.web:
        drawn, fair = draw(asked.network, one.conditions, one.circuits, one.number), asked.fair[one.conditions.system]
        whole, planned = (
            max_min(Network(capacities(asked.network, one.conditions, drawn, of), drawn.circuits)) / KIB
            for of in (fair, _planned(fair))
        )
        found = [
            (one.place, str(treatment), one.number, metric, value)
            for (treatment,), own in rates.group_by("treatment", maintain_order=True)
            for metric, value in against_fair(own["value"].to_list(), whole.tolist(), planned.tolist()).items()
        ]
        figures = pl.concat([figures, frame([*found, *by_links(asked, one, rates)])])
        rates = pl.concat([_values(one, FAIR, "rate", whole), rates])
    return replace(reduced, frames={**reduced.frames, "figures": figures, "rates": rates})


def by_links(asked: Asked, one: Cell, rates: pl.DataFrame) -> list[Figure]:
    """``served-links``: the index ``served`` with the fair rates of the links that are simulated, from a network's ``rates``.

    The paper's fair rates, and its controllers, count each circuit once against one capacity of each of its relays. A link
    carries as much each way, though, and nothing on it passes between a relay and the client or the server that stand on it:
    exits send, entries receive, and only middles do both. Where relays have a limit of tor's, that counts each circuit, and the
    paper's fair rates are the links' too; there, and of web mixes, this is empty.
    """
    rows = rates.filter(what="rate")
    if one.conditions.throttle or rows.is_empty():
        return []
    drawn = draw(asked.network, one.conditions, one.circuits, one.number)
    each_way = capacities(asked.network, one.conditions, drawn, asked.fair[one.conditions.system])
    out, into = range(len(each_way)), range(len(each_way), 2 * len(each_way))
    paths = [(out[exit_], into[middle], out[middle], into[entry]) for exit_, middle, entry in drawn.circuits]
    fair = [float(rate) / KIB for rate in max_min(Network(each_way * 2, paths))]
    return [
        (one.place, treatment, one.number, "served-links", fairness(own["value"].to_list(), fair).served)
        for (treatment,), own in rows.group_by("treatment", maintain_order=True)
        if treatment != FAIR
    ]


def _planned(fair: Fair) -> Fair:
    """With what controllers plan: a share of the link, or of the relay's limit, in whole cells, as if the rest were headers."""
    taken = round(fair.cell / PLANNED)
    return replace(fair, wire=taken, cell=taken)


def _values(one: Cell, treatment: str, what: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pl.DataFrame:
    keys = {"place": one.place, "treatment": treatment, "network": one.number, "seed": one.number, "what": what}
    schema = {"network": pl.Int64, "seed": pl.Int64}
    return pl.DataFrame({"value": values.astype(float)}).select(
        *(pl.lit(value, dtype=schema.get(key, pl.String)).alias(key) for key, value in keys.items()),
        pl.col("value").round_sig_figs(PRECISION),
    )


def _finished(results: Experiment, treatment: str) -> float:
    """Web objects that a circuit has loaded to the end by the end of the run, mean over circuits."""
    objects = pl.col("group").str.starts_with("web") & (pl.col("size_bytes") > FIRST_BYTES)
    transfers = results.transfers.filter(pl.col("treatment") == treatment, objects)
    circuits = sum(str(group["group"]).startswith("web") for group in results.plan.scenario["clients"])
    return transfers.filter(pl.col("outcome") == "ok").height / circuits


def left_behind(
    transfers: pl.DataFrame, latency: pl.DataFrame, circuits: int, begin: float, end: float
) -> dict[str, float | None]:
    """What was asked for before the measurement, from ``begin`` to ``end``, and is not there at its end, in per cent.

    ``stalled``: circuits that wait for something so old and got nothing in the last second. ``unfinished``: of the web objects
    asked for before the measurement, those that are not whole; none where there are no such objects.
    """
    asked = transfers.filter(pl.col("size_bytes") > FIRST_BYTES, pl.col("start_ns") <= round(begin * 1e9))
    waiting = asked.filter(pl.col("outcome") != "ok")
    late = latency.filter(pl.col("time_ns") > round((end - STALLED) * 1e9), pl.col("read_bytes") > 0)
    stalled = set(waiting["group"].to_list()) - set(late["group"].to_list())
    objects = asked.filter(pl.col("group").str.starts_with("web"))
    left = objects.filter(pl.col("outcome") != "ok").height
    return {
        "stalled": 100 * len(stalled) / circuits,
        "unfinished": 100 * left / objects.height if objects.height else None,
    }


def _wire(results: Experiment, treatment: str, begin: float, end: float, rate: float) -> float | None:
    """Bytes that relays send for each byte of payload that arrives."""
    relays = results.relays.filter(
        pl.col("treatment") == treatment, pl.col("time_ns") > round(begin * 1e9), pl.col("time_ns") <= round(end * 1e9)
    )
    return float(relays["bytes_sent"].sum()) / (end - begin) / rate if rate > 0 else None


@dataclass(frozen=True)
class Toy:
    """A scenario of the toy network, reduced.

    Attributes
    ----------
    figures
        One for each treatment, seed and metric.
    series
        Of the first seed: ``treatment, circuit, time, rate, backlog``, every 100 ms; s of the paper's clock, KiB/s and KiB.
    latencies
        Of the first seed, of samples of 20 ms from the begin of the measurement on: ``treatment, circuit, latency, bytes``; ms.
    treatments
        In the order of the file.
    made
        By which code the runs were made, and how long they took.
    """

    figures: list[Figure]
    series: pl.DataFrame
    latencies: pl.DataFrame
    treatments: list[str]
    made: tuple[Made, ...] = ()


#: Steps of `Toy.series`, and of the sums whose spread is ``unsteady``; seconds.
SERIES_STEP, STEADY_STEP = 0.1, 0.2


def toy(asked: Asked, place: str, results: Experiment) -> Toy:
    """Reduce the runs of one scenario."""
    papers = asked.fair[PAPERS_SYSTEM]
    fair, planned = toy_fair(papers), toy_fair(_planned(papers))
    begin, end = results.measure_from, results.duration
    latency = results.table("latency").collect()
    figures: list[Figure] = []
    groups = list(TOY_CIRCUITS)
    seeds = sorted(set(latency["seed"].to_list()))
    for treatment in results.treatments:
        for seed in seeds:
            rows = latency.filter(treatment=treatment, seed=seed)
            own = carried(rows, groups, begin, end)
            found: dict[str, float | None] = {"latency": own.latency, "throughput": float(own.rates.sum()) / KIB}
            found |= {f"rate-{number}": float(rate) / KIB for number, rate in enumerate(own.rates, 1)}
            for number, value in enumerate(own.latencies, 1):
                found[f"latency-{number}"] = None if np.isnan(value) else float(value)
            if place == "toy 2":
                found |= against_fair(list(own.rates), fair, planned)
            found["unsteady"] = _unsteady(rows, begin, end)
            figures += [(place, treatment, int(seed), metric, value) for metric, value in found.items()]
    first = latency.filter(pl.col("seed") == seeds[0])
    return Toy(figures, _series(first), _latencies(first, begin), results.treatments, Made.of(results))


def toy_fair(fair: Fair) -> list[float]:
    """Fair rates of the toy network's circuits, bytes of payload a second."""
    names = list(TOY_RATES)
    rates = [fair.payload * rate / 8 / fair.wire for rate in TOY_RATES.values()]
    circuits = [[names.index(relay) for relay in path] for path in TOY_CIRCUITS.values()]
    return [float(rate) for rate in max_min(Network(rates, circuits))]


def _unsteady(rows: pl.DataFrame, begin: float, end: float) -> float | None:
    """Spread of what all circuits together deliver, in per cent of the mean."""
    steps = int((end - begin) / STEADY_STEP + 1e-6)
    index = ((pl.col("time_ns") / 1e9 - begin) / STEADY_STEP - 1e-6).floor().cast(pl.Int64)
    sums = rows.select(index.alias("step"), "read_bytes").filter(pl.col("step").is_between(0, steps - 1))
    delivered = np.zeros(steps)
    for step, total in sums.group_by("step").agg(pl.col("read_bytes").sum()).iter_rows():
        delivered[step] = total
    mean = float(delivered.mean())
    return 100 * float(delivered.std(ddof=1)) / mean if mean > 0 else None


def _series(rows: pl.DataFrame) -> pl.DataFrame:
    """Sums of every step; a circuit without a row in one carried nothing then."""
    step = (pl.col("time_ns") / 1e9 / SERIES_STEP - 1e-6).floor().cast(pl.Int64)
    found = (
        rows.select("treatment", "time_ns", "read_bytes", "in_flight_bytes", circuit=pl.col("group"), step=step)
        .group_by("treatment", "circuit", "step")
        .agg(
            rate=pl.col("read_bytes").sum() / SERIES_STEP / KIB,
            backlog=pl.col("in_flight_bytes").sort_by("time_ns").last() / KIB,
        )
    )
    steps = pl.DataFrame({"step": range(int(found["step"].max() or 0) + 1)}, schema={"step": pl.Int64})  # type: ignore[arg-type]
    keys = found.select("treatment", "circuit").unique()
    return (
        keys.join(steps, how="cross")
        .join(found, on=["treatment", "circuit", "step"], how="left")
        .fill_null(0.0)
        .select("treatment", "circuit", "rate", "backlog", time=(pl.col("step") + 1) * SERIES_STEP - TOY_LEAD)
        .filter(pl.col("time") > SERIES_STEP / 2)
        .sort("treatment", "circuit", "time")
    )


def _latencies(rows: pl.DataFrame, begin: float) -> pl.DataFrame:
    return rows.filter(pl.col("read_bytes") > 0, pl.col("time_ns") > round(begin * 1e9)).select(
        "treatment",
        circuit=pl.col("group"),
        latency=1000 * pl.col("latency") / pl.col("read_bytes"),
        bytes=pl.col("read_bytes"),
    )
