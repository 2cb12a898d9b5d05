"""The testbeds of `onionlab.reproductions.switching`: a few clients that exchange 12.3 MB each over the same slow path.

The network is given by hand, so a seed is what is replicated: it draws when the clients start, and with that where in a transfer
the samples fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from onionlab.errors import ResultsError
from onionlab.reproductions import runs
from onionlab.reproductions.figures import Figure, frame, mean
from onionlab.reproductions.switching.study import Study
from onionlab.results.experiment import Experiment
from onionlab.stats.intervals import lower_quantile
from onionlab.stats.metrics import measured, ordered

#: Treatments of ``testbed.toml``: without switching, with averages alone, the pairs of thresholds of figure 4, the other entry.
MULTIPLEXED, WATCHED = "multiplexed", "watched"
PAIRS = ("0.05 and 0.1", "0.1 and 0.5", "0.3 and 0.75", "0.5 and 0.9")
CHOSEN, OTHER = "0.1 and 0.5", "0.1 and 0.5, another entry"
TREATMENTS = (MULTIPLEXED, WATCHED, *PAIRS, OTHER)

CLIENTS = ("client1", "client2", "client3", "client4")
#: Of the relays the one that nothing uses where circuits stay at their entry.
IDLE = "entry2"
RELAYS = ("entry1", "middle1", "exit1", "entry2", "middle2", "exit2")

#: The whole testbed as a place, and one that has the paper's second for every time to switch.
WHOLE, SECOND = "testbed", "one second"
PLACES = (WHOLE, SECOND, *CLIENTS, *RELAYS)

#: What is said of the times of a switch: from the decision to the new exit's SWITCH_ACK; until SWITCH has left the outbuf; from
#: then to SWITCH_ACK, before which it may have come.
SWITCH_TIMES = ("switch-time", "drain-time", "answer-time")

#: Of what all seeds are one sample.
POOLED = ("throughput", "capacity-gain")

#: Bytes that a client exchanges, and payload of a cell.
BYTES, PAYLOAD = 12_300_000, 498

#: What the quick run has of every testbed but the papers' own, which is small enough.
QUICK = runs.Changes({r"(?m)^seeds = \[1, 2, 3, 4, 5, 6, .*\]$": "seeds = [1, 2, 3, 4, 5, 6]"})

#: Figures of a run; what they are stands in ``claims.toml``. Beside them: bytes of all over the time that all took in KB/s
#: (together), switches of a run and those of them that did not end well, the least occupancy of an outbuf that one relieved,
#: transfers that did not end well in per cent.
METRICS = (
    "share",
    *SWITCH_TIMES,
    "capacity",
    "throughput",
    "drop-rate",
    "latency",
    "together",
    "switches",
    "undone",
    "least-occupancy",
    "failed",
)


def measure(
    experiment: Experiment, *, place: str = WHOLE, relays: Sequence[str] = RELAYS, base: Callable[[str], str] | None = None
) -> Study:
    """Reduce a testbed's results: a replicate is a seed, a place the whole testbed, a client, a group of clients or a relay.

    Of the times ``network`` is the seed, so that bands lie over seeds. There are each time to switch in s (at the testbed, and at
    the entry that switched), throughput of each client in KB/s, latency of each cell in s. Of what a run has only a few of
    (`POOLED`; ``capacity-gain`` by relay, Mbit/s) all seeds are one sample, in which ``network`` and ``seed`` are 0.

    Parameters
    ----------
    experiment : Experiment
        The results.
    place : str
        What the whole is called.
    relays : sequence of str
        Those whose capacity is wanted.
    base : callable, optional
        From a treatment to the one to which its capacities are a gain, by default the first of all.
    """
    figures: list[Figure] = []
    times: list[pl.DataFrame] = []
    switches, samples, probes = (optional(experiment, name) for name in ("switches", "switching_samples", "probes"))
    carried = _carried(experiment, relays)
    for treatment in experiment.treatments:
        for seed in experiment.plan.seeds:
            own = {"treatment": treatment, "seed": seed}
            one = Run(
                transfers=measured(experiment.transfers.filter(**own), 0.0),
                switches=None if switches is None else switches.filter(**own),
                samples=None if samples is None else samples.filter(**own),
                probes=None if probes is None else probes.filter(**own),
                relays=carried.filter(**own),
            )
            found = one.figures(place)
            figures += [(where, treatment, seed, metric, value) for where, metric, value in found]
            times += [
                pl.DataFrame({"value": values}, schema={"value": pl.Float64}).select(
                    place=pl.lit(where),
                    treatment=pl.lit(treatment),
                    network=pl.lit(0 if what in POOLED else seed, dtype=pl.Int64),
                    seed=pl.lit(0 if what in POOLED else seed, dtype=pl.Int64),
                    what=pl.lit(what),
                    value="value",
                )
                for where, what, values in one.times(place)
            ]
    whole = frame(figures)
    bases = {one: base(one) if base is not None else MULTIPLEXED for one in experiment.treatments}
    return Study.of(experiment, whole, pl.concat([*times, gains(whole, bases)]))


def optional(experiment: Experiment, name: str) -> pl.DataFrame | None:
    """A table that not every treatment has; None where none has it."""
    try:
        return experiment.table(name).collect()
    except ResultsError:
        return None


def _carried(experiment: Experiment, relays: Sequence[str]) -> pl.DataFrame:
    """What is needed of the relays' time series."""
    columns = ("treatment", "seed", "time_ns", "relay", "bytes_sent", "uplink_drops", "downlink_drops")
    wanted = pl.col("relay").is_in(relays) | (pl.col("uplink_drops") + pl.col("downlink_drops") > 0)
    return experiment.table("relays").filter(wanted).select(columns).collect()


def gains(figures: pl.DataFrame, bases: Mapping[str, str]) -> pl.DataFrame:
    """What each relay sends more than with the treatment that ``bases`` names, Mbit/s, a row for each seed.

    Figures 6 and 10 have it as C_after - C_before.
    """
    capacity = figures.filter(pl.col("metric") == "capacity")
    own = capacity.filter(pl.col("treatment").is_in([one for one, base in bases.items() if base != one]))
    before = capacity.select("place", "replicate", base="treatment", before="value")
    both = own.with_columns(base=pl.col("treatment").replace(dict(bases))).join(before, on=["place", "replicate", "base"])
    return both.select(
        "place",
        "treatment",
        network=pl.lit(0, dtype=pl.Int64),
        seed=pl.lit(0, dtype=pl.Int64),
        what=pl.lit("capacity-gain"),
        value=pl.col("value") - pl.col("before"),
    )


@dataclass(frozen=True)
class Run:
    """One run's tables.

    Transfers are as `onionlab.stats.metrics.measured` gives them; switches, samples and probes are there where anything has them.
    """

    transfers: pl.DataFrame
    switches: pl.DataFrame | None
    samples: pl.DataFrame | None
    probes: pl.DataFrame | None
    relays: pl.DataFrame

    @property
    def _bulk(self) -> pl.DataFrame:
        """Transfers with the bytes that they exchanged and their throughput in KB/s, whether they ended well or not."""
        payload = pl.max_horizontal("sent_bytes", "received_bytes").cast(pl.Float64)
        length = (pl.col("end_ns") - pl.col("start_ns")) / 1e9
        return self.transfers.with_columns(payload=payload, throughput=payload / 1e3 / length)

    @property
    def _switch_times(self) -> pl.DataFrame:
        """``entry``, and each of `SWITCH_TIMES` in seconds: from the entry's decision, when SWITCH joins the outbuf.

        At another entry no SWITCH leaves the first one's outbuf with the decision; only the first of the times is there, and is
        the round trip of control alone: the client goes on over the new path when it has been told.
        """
        if self.switches is None:
            return pl.DataFrame(schema={"entry": pl.String} | dict.fromkeys(SWITCH_TIMES, pl.Float64))
        decided, drained, acknowledged = (pl.col(f"{name}_ns") for name in ("time", "drained", "acknowledged"))
        between = (acknowledged - decided, drained - decided, acknowledged - drained)
        return self.switches.select("entry", **{name: time / 1e9 for name, time in zip(SWITCH_TIMES, between, strict=True)})

    def figures(self, place: str) -> Iterable[tuple[str, str, float | None]]:
        """Place, metric, value."""
        bulk = self._bulk
        yield place, "throughput", mean(bulk["throughput"])
        for by in ("client", "group"):
            if by == "client" or bulk["group"].n_unique() > 1:
                for (name,), rows in bulk.group_by(by, maintain_order=True):
                    yield str(name), "throughput", mean(rows["throughput"])
        if bulk.height:
            length = (_integer(bulk["end_ns"].max()) - _integer(bulk["start_ns"].min())) / 1e9
            finished = bulk.filter(pl.col("outcome") == "ok").height
            yield place, "together", float(bulk["payload"].sum()) / 1e3 / length if length > 0 else None
            yield place, "failed", 100 * (1 - finished / bulk.height)
            yield place, "drop-rate", 100 * self._lost() / (bulk.height * -(-BYTES // PAYLOAD))
        latencies = ordered(self._latencies())
        yield place, "latency", lower_quantile(latencies, 0.5) if latencies.size else None
        times = self._switch_times
        for where, own in (
            (place, times),
            *((str(name), rows) for (name,), rows in times.group_by("entry", maintain_order=True)),
        ):
            for name in SWITCH_TIMES:
                values = ordered(own[name].drop_nulls())
                if values.size:
                    yield where, name, lower_quantile(values, 0.5)
        if self.switches is not None:
            yield place, "switches", float(self.switches.height)
            undone = self.switches.filter(~pl.col("outcome").is_in(["moved", "unfinished"])).height
            yield place, "undone", float(undone)
            least = self.switches["occupancy"].min()
            yield place, "least-occupancy", float(least) if isinstance(least, int | float) else None
        yield from self._capacities()
        yield from self._shares()

    def _lost(self) -> float:
        """Cells that switches lost or made worthless, and packets that queues at relays dropped."""
        lost = float(self.relays["uplink_drops"].sum()) + float(self.relays["downlink_drops"].sum())
        if self.switches is not None:
            lost += float(self.switches["cells_lost"].sum()) + float(self.switches["bytes_started_over"].sum()) / PAYLOAD
        return lost

    def _latencies(self) -> pl.Series:
        """Of each cell that was followed to its server while all transfers were under way, in seconds."""
        bulk = self._bulk
        if self.probes is None or bulk.is_empty():
            return pl.Series(dtype=pl.Float64)
        begin, end = _integer(bulk["start_ns"].max()), _integer(bulk["end_ns"].min())
        inside = self.probes.filter(pl.col("time_ns") > begin, pl.col("time_ns") <= end)
        return inside.select(value=(pl.col("server_ns") - pl.col("time_ns")) / 1e9)["value"].drop_nulls()

    def _capacities(self) -> Iterable[tuple[str, str, float | None]]:
        """What relays send while all transfers are under way, Mbit/s."""
        bulk = self._bulk
        if bulk.is_empty():
            return
        begin, end = _integer(bulk["start_ns"].max()), _integer(bulk["end_ns"].min())
        inside = self.relays.filter(pl.col("time_ns") > begin, pl.col("time_ns") <= end)
        for (relay,), rows in inside.group_by("relay", maintain_order=True):
            samples = rows["time_ns"].sort().diff().drop_nulls()
            step = _integer(samples.min()) if samples.len() else 0
            if step:
                yield str(relay), "capacity", float(rows["bytes_sent"].sum()) * 8e3 / (step * rows.height)

    def _shares(self) -> Iterable[tuple[str, str, float | None]]:
        """Of the averages of all clients' circuits, per cent, towards their middles and while all transfers are under way."""
        bulk = self._bulk
        if self.samples is None or bulk.is_empty():
            return
        inside = self.samples.filter(
            pl.col("direction") == "out",
            pl.col("time_ns") > _integer(bulk["start_ns"].max()),
            pl.col("time_ns") <= _integer(bulk["end_ns"].min()),
        )
        own = inside.group_by("time_ns", "client").agg(pl.col("average_cells").sum())
        averages = own.group_by("client").agg(pl.col("average_cells").sum()).sort("client")
        total = float(averages["average_cells"].sum())
        for client, average in averages.iter_rows():
            yield str(client), "share", 100 * average / total if total else None

    def times(self, place: str) -> Iterable[tuple[str, str, pl.Series]]:
        """Place, what, values."""
        switches = self._switch_times
        yield place, "switch-time", switches["switch-time"].drop_nulls()
        for (entry,), rows in switches.group_by("entry", maintain_order=True):
            yield str(entry), "switch-time", rows["switch-time"].drop_nulls()
        yield place, "throughput", self._bulk["throughput"].drop_nulls()
        yield place, "latency", self._latencies()


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number of nanoseconds")
    return value
