"""Sampled networks of `onionlab.reproductions.cci`: Tor's users, and clients that measure, at several losses or loads.

A file sweeps losses or loads; each treatment at each of them in each network is run as an experiment of its own, so that one that
is finished can be kept, and more networks can follow at another time.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.errors import ResultsError
from onionlab.quantity import seconds
from onionlab.reproductions import runs
from onionlab.reproductions.figures import Figure, capped, frame, mean
from onionlab.reproductions.kept import Made, Reduced, frames_together, made_together
from onionlab.results.experiment import Experiment
from onionlab.stats.metrics import measured, measured_sum

#: The group that measures, and its sizes in bytes by name.
MEASURES = "measure"
SIZES = {"50 kB": 50_000, "1 MB": 1_000_000, "5 MB": 5_000_000}

#: What most files sweep.
LOSS = "network.loss"

#: Where a file's treatments begin, which come last in it.
TREATMENT = "[[treatments]]\n"

#: Shares of packets lost, as places are called.
LOSSES = ("0 %", "0.1 %", "0.5 %", "1 %")


def percent(loss: Any) -> str:
    """How the place of a loss is called."""
    return f"{100 * float(loss):g} %"


#: A path between two relays, as Reno's rate is told of it: its round trip in s, and the bytes of a packet.
ROUND_TRIP, PACKET = 0.1, 1460


def reno(loss: float) -> float:
    """What one connection of TCP Reno carries where packets are lost at random, in bytes a second.

    Mathis, Semke, Mahdavi and Ott 1997, equation 3 without delayed acknowledgements, over a path of `ROUND_TRIP`.

    Examples
    --------
    >>> round(8 * reno(0.005) / 1e6, 2)
    2.02
    """
    return PACKET / ROUND_TRIP * math.sqrt(1.5 / loss)


#: Names of figures: the bytes between relays, in per cent, that went over connections of a mean rate above Reno's at a loss.
BEYOND = {f"beyond {percent(loss)}": loss for loss in (0.001, 0.005, 0.01)}

#: Figures of a run: mean times to the last byte and to build a circuit in s; downloads that count, and those of them that failed
#: in per cent; pairs of relays that circuits share in per cent; most sockets of a relay; and of all relays together bytes in
#: sockets, of these, bytes held up by others' losses, and megabytes that open connections cost while nothing is in them.
METRICS = (
    *SIZES,
    "build",
    "counted",
    "failed",
    "shared",
    "busy-shared",
    "sockets",
    "socket-bytes",
    "held",
    "connection-megabytes",
    *BEYOND,
)

#: What the quick run has.
QUICK = {
    r"(?m)^duration = .*$": 'duration = "4 min"',
    r"(?m)^measure-from = .*$": 'measure-from = "90 s"',
    r'timeout = "[^"]*"': 'timeout = "1 min"',
    r"(?m)^networks = .*$": "networks = 3",
    r"(?m)^relays = .*$": "relays = 34",
}

#: The values that it has of what is swept.
QUICK_VALUES = {LOSS: "[0.0, 0.005]", "clients.users.users-at-full-scale": "[100_000, 800_000]"}


@dataclass(frozen=True)
class Measured:
    """All runs, reduced.

    Attributes
    ----------
    figures
        ``place, treatment, replicate, metric, value``; the place is the loss, the replicate a sampled network.
    times
        ``place, treatment, network, seed, what, value``: every download's time to the last byte by size, every circuit's
        to be built (``build``), in seconds. A download that failed has its time-out.
    networks, relays, minutes
        Extent: sampled networks, relays of each, simulated minutes of a run.
    longest
        The time-out of a download in seconds; a download counts if it began that long before the end, or earlier.
    made
        By which code the runs were made, and how long they took.
    """

    figures: pl.DataFrame
    times: pl.DataFrame
    networks: int
    relays: int
    minutes: float
    longest: float
    made: tuple[Made, ...] = ()

    @property
    def places(self) -> list[str]:
        """Those that were run, in the order of the file."""
        return list(dict.fromkeys(self.figures["place"]))

    @property
    def treatments(self) -> list[str]:
        """In the order of the file."""
        return list(dict.fromkeys(self.figures["treatment"]))


@dataclass(frozen=True)
class Cell:
    """One treatment at one loss or load in one sampled network."""

    number: int
    ahead: runs.Ahead


def prepare(experiments: Path, out: Path, stem: str = "network", key: str = LOSS, *, quick: bool) -> list[Cell]:
    """Everything that the file ``stem`` asks for, which sweeps ``key``: first all of one network, then all of the next.

    The files are written. A network is drawn from ``base-seed``, which is 1 for the first, whatever others there are.
    """
    file = experiments / f"{stem}.toml"
    swept = rf'(?m)^"{re.escape(key)}" = .*$'
    text = file.read_text(encoding="utf-8")
    if quick:
        text = runs.with_changes(text, runs.Changes({**QUICK, swept: f'"{key}" = {QUICK_VALUES[key]}'}), file)
    asked = tomllib.loads(text)
    cells = []
    for number in range(asked["networks"]):
        for value in asked["sweep"][key]:
            alone = {**runs.only_network(1 + number), swept: f'"{key}" = [{value}]'}
            for name, own in by_treatment(runs.with_changes(text, runs.Changes(alone), file)):
                ahead = written(out, f"{stem}-{value}-{name}-{1 + number}", own)
                cells.append(Cell(number, ahead))
    return cells


def by_treatment(text: str) -> list[tuple[str, str]]:
    """Of each treatment of an experiment file its name, as in a path, and the file with it alone."""
    before, *treatments = text.split(TREATMENT)
    names = [re.sub(r"[^a-z0-9]+", "-", one["name"].lower()).strip("-") for one in tomllib.loads(text)["treatments"]]
    return [(name, f"{before}{TREATMENT}{own}") for name, own in zip(names, treatments, strict=True)]


def written(out: Path, name: str, text: str) -> runs.Ahead:
    """An experiment of this name: its file, which is written, and its results directory."""
    return name, runs.written(out / "files" / f"{name}.toml", text), out / name


def reduce(experiment: Experiment, first: int = 0, key: str = LOSS, called: Callable[[Any], str] = percent) -> Reduced:
    """Treatments at one loss or load, or at several, in the networks of an experiment.

    Parameters
    ----------
    experiment : Experiment
        All results.
    first : int
        The number of its first network among those of all experiments.
    key : str
        What it sweeps, if anything; otherwise the place is its loss.
    called : callable
        From a value of that to the name of a place.
    """
    figures: list[Figure] = []
    times: list[pl.DataFrame] = []
    relays = 0
    for place, point in _places(experiment, key, called):
        for treatment in point.treatments:
            for network in range(point.plan.networks):
                one = _Run(point, treatment, network)
                relays = max(relays, one.relays["relay"].n_unique())
                figures += [(place, treatment, first + network, metric, value) for metric, value in one.figures().items()]
                times.append(one.times(place, first + network))
    about = {
        "relays": relays,
        "minutes": experiment.duration / 60,
        "longest": max(patience(experiment.plan.scenario).values()),
    }
    return Reduced({"figures": frame(figures), "times": pl.concat(times)}, Made.of(experiment), about)


def _places(experiment: Experiment, key: str, called: Callable[[Any], str]) -> Iterator[tuple[str, Experiment]]:
    for number, values in enumerate(experiment.plan.points):
        yield called(values[key]), experiment.at(number)
    if not experiment.plan.points:
        yield percent(experiment.plan.scenario["network"]["loss"]), experiment


def together(reduced: Sequence[Reduced]) -> Measured:
    """All that was run of a file."""
    figures = frames_together(reduced, "figures")
    try:
        about = facts([one.facts for one in reduced])
    except KeyError as error:
        raise ResultsError(f"what is kept of a sampled network does not say its {error}") from error
    return Measured(
        figures,
        frames_together(reduced, "times"),
        networks=figures["replicate"].n_unique(),
        **about,
        made=made_together(reduced),
    )


def facts(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The facts of several experiments together; raises what `onionlab.reproductions.kept.Form` says where one lacks them."""
    largest = {name: max(float(one[name]) for one in given) for name in ("relays", "minutes", "longest")}
    return {**largest, "relays": int(largest["relays"])}


def patience(scenario: Mapping[str, Any]) -> dict[str, float]:
    """The time-outs of the clients that measure, by size, in seconds."""
    loads = [group["load"] for group in scenario["clients"] if group["group"] == MEASURES]
    return {row["size"]: seconds(row["timeout"]) for load in loads for row in load["sizes"]}


def counted(transfers: pl.DataFrame, longest: Mapping[str, float], end: float) -> pl.DataFrame:
    """Downloads that began so early that their time-out was over before the end of the simulation.

    Of the others only the fast ones are seen to end, so that a mean of what ended would favour who is slow.

    Parameters
    ----------
    transfers : polars.DataFrame
        ``size_bytes`` and ``start_ns`` of each.
    longest : mapping
        Time-outs by size's name, in seconds.
    end : float
        Of the simulation, in seconds.
    """
    begun = [
        (pl.col("size_bytes") == SIZES[size]) & (pl.col("start_ns") / 1e9 + timeout < end) for size, timeout in longest.items()
    ]
    return transfers.filter(pl.any_horizontal(begun))


def beyond(channels: pl.DataFrame, relays: pl.Series, end: float) -> dict[str, float | None]:
    """Of the bytes between relays, in per cent, those that went over connections on which Reno could not have carried them.

    That is what a connection carried while it was open, each way by itself, beside `reno` at each loss of `BEYOND`.

    Parameters
    ----------
    channels : polars.DataFrame
        A run's, as they are recorded.
    relays : polars.Series
        Names.
    end : float
        Of the simulation, in seconds.
    """
    between = channels.filter(pl.col("opener").is_in(relays.implode()), pl.col("peer").is_in(relays.implode()))
    open_for = (pl.col("closed_ns").fill_null(round(end * 1e9)) - pl.col("open_ns")) / 1e9
    ways = pl.concat(between.select(bytes=way, rate=pl.col(way) / open_for) for way in ("bytes_to_peer", "bytes_to_opener"))
    total = int(ways["bytes"].sum())
    if not total:
        return dict.fromkeys(BEYOND)
    return {name: 100 * int(ways.filter(pl.col("rate") > reno(loss))["bytes"].sum()) / total for name, loss in BEYOND.items()}


class _Run:
    """One run's tables, from the measurement's begin on."""

    def __init__(self, point: Experiment, treatment: str, network: int) -> None:
        begin = round(point.measure_from * 1e9)
        mine = (pl.col("treatment") == treatment) & (pl.col("network") == network)
        own = point.transfers.filter(mine, pl.col("group") == MEASURES)
        self.treatment = treatment
        self.longest = patience(point.plan.scenario)
        self.transfers = counted(measured(own, point.measure_from), self.longest, point.duration)
        self.circuits = point.circuits.filter(mine, pl.col("group") == MEASURES, pl.col("launched_ns") >= begin)
        self.samples = point.network.filter(mine, pl.col("time_ns") > begin)
        relays = point.relays.filter(mine)
        self.relays = relays.filter(pl.col("time_ns") > begin)
        self.held = measured_sum(relays, "held", point.measure_from, "relay")
        self.channels = point.channels.filter(mine)
        self.duration = point.duration
        self.length = point.duration - point.measure_from

    def figures(self) -> dict[str, float | None]:
        """By metric."""
        count = self.transfers.height
        links, busy = (int(self.samples[column].sum()) for column in ("links", "busy_links_directed"))
        samples = self.samples.height
        return (
            {size: mean(self._downloads(size)) for size in SIZES}
            | {
                "build": mean(self._builds()),
                "counted": float(count),
                "failed": 100 * self.transfers.filter(pl.col("outcome") != "ok").height / count if count else None,
                "shared": 100 * int(self.samples["shared_links"].sum()) / links if links else None,
                "busy-shared": 100 * int(self.samples["shared_busy_links_directed"].sum()) / busy if busy else None,
                "sockets": _largest(self.relays["most_sockets"]),
                "socket-bytes": float(self.relays["socket_bytes"].sum()) / samples if samples else None,
                "held": self.held / self.length if self.length else None,
                "connection-megabytes": float(self.relays["connection_bytes"].sum()) / samples / 1e6 if samples else None,
            }
            | beyond(self.channels, self.relays["relay"].unique(), end=self.duration)
        )

    def _downloads(self, size: str) -> pl.Series:
        return capped(self.transfers.filter(pl.col("size_bytes") == SIZES[size])["ttlb"], self.longest[size])

    def _builds(self) -> pl.Series:
        return (self.circuits["built_ns"] - self.circuits["launched_ns"]).drop_nulls() / 1e9

    def times(self, place: str, number: int) -> pl.DataFrame:
        """Every time, by what it is of; ``number`` is the network's among those of all experiments."""
        parts = [(size, self._downloads(size)) for size in SIZES] + [("build", self._builds())]
        frames = [
            pl.DataFrame({"value": values.cast(pl.Float64)}).select(
                place=pl.lit(place),
                treatment=pl.lit(self.treatment),
                network=pl.lit(number).cast(pl.Int64),
                seed=pl.lit(1).cast(pl.Int64),
                what=pl.lit(what),
                value="value",
            )
            for what, values in parts
        ]
        return pl.concat(frames).drop_nulls("value")


def _largest(values: pl.Series) -> float | None:
    largest = values.max()
    return float(largest) if isinstance(largest, int | float) else None
