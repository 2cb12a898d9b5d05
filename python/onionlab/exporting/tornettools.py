"""What ``tornettools plot`` reads, from a finished experiment: ours and Shadow's results in one chart by the field's own tool.

tornettools takes a folder for one line of every chart, and each ``tornet.plot.data`` anywhere below it for one independent
network. So a treatment becomes a folder, and a sampled network a folder in it; where there are several seeds, their values are
put together, since seeds within one network are no independent networks.

Every definition is that of tornettools 2.0.0 (``parse_tgen.py``, ``parse_oniontrace.py``, ``parse_rusage.py``): what ended in or
after the second in which the measurement begins; times from the command; error rates in percent of a client's downloads with
their resolution. What has no equivalent is not written: `MISSING`.
"""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.charts.build import distinct, slug
from onionlab.errors import ResultsError
from onionlab.files import write_directory
from onionlab.results.describe import scale as scale_of
from onionlab.results.experiment import Experiment
from onionlab.results.measuring import loads_from_onion_services, measures
from onionlab.results.request_times import answered, on_time, with_requests
from onionlab.stats.metrics import FAILURES

#: What stays empty in the charts of ``tornettools plot``, and why; `docs/export.md` says the same.
MISSING = (
    "perfclient_goodput*.json, the charts client_goodput and client_goodput_5MiB: the records have no times at which a transfer "
    "passes 0.5, 1, 4 and 5 MiB",
    "memory over time, the charts ram_realtime and ram_simtime: the records have the greatest memory of a process, maybe of "
    "several runs, and no course of it",
)

#: What tgen calls an outcome (``tgen-stream.c``).
ERRORS = {"timeout": "TIMEOUT", "stall": "STALLOUT", "circuit-closed": "READEOF", "no-circuit": "PROXY"}

Json = dict[str, Any] | list[Any]


#: No run is longer (the simulator's own bound, seven days).
LONGEST_NS = 7 * 86_400 * 10**9


@dataclass(frozen=True)
class Exported:
    """What was written: the folder of each treatment, in their order, and what to know about it."""

    folders: dict[str, Path]
    notes: tuple[str, ...]

    def command(self, out: Path) -> str:
        """The command that draws all of it."""
        folders = [str(folder) for folder in self.folders.values()]
        return shlex.join(["tornettools", "plot", *folders, "-l", *self.folders, "--prefix", str(out / "plots")])


def measuring_groups(experiment: Experiment, wanted: list[str] | None) -> list[str]:
    """The groups of clients that stand for tornettools' ``perfclient``s: those named, else those that measure."""
    groups = {str(group["group"]): group for group in experiment.plan.scenario["clients"]}
    for name in wanted or []:
        if name not in groups:
            raise ResultsError(f"{experiment.directory} has no group of clients {name!r}; it has {', '.join(groups)}")
    found = wanted or [name for name, group in groups.items() if measures(group)]
    if not found:
        raise ResultsError(
            f'{experiment.directory} has no group of clients that measure (load = {{ kind = "perf" }}); '
            f"name one with --group: {', '.join(groups)}"
        )
    onion = [name for name in found if loads_from_onion_services(groups[name])]
    if onion:
        raise ResultsError(
            f"{', '.join(onion)} of {experiment.directory} loads from onion services; tornettools has loads from servers"
        )
    silent = [name for name in found if groups[name].get("record") is False]
    if silent:
        raise ResultsError(f"{experiment.directory} has no records of {', '.join(silent)}, whose clients have record = false")
    return found


def export_tornettools(experiment: Experiment, out: Path, groups: list[str] | None = None) -> Exported:
    """Write ``out/<treatment>/network<k>/tornet.plot.data/*.json`` for every finished run of an experiment, all or nothing.

    A folder is called as its treatment, in small letters and with a hyphen for what some file system would not take; where that
    makes two names equal, the later one gets a number.

    Parameters
    ----------
    experiment : Experiment
        Finished, or as far as it is.
    out : Path
        A folder that is new or empty.
    groups : list of str, optional
        Groups of clients that stand for the measuring clients; those of load ``perf`` by default.

    Raises
    ------
    ResultsError
        If nothing measures, the folder holds something, or the experiment is a sweep, whose points are experiments of their own.
    """
    if experiment.swept:
        raise ResultsError(f"{experiment.directory} holds a sweep: export its points one by one (--point)")
    measuring = measuring_groups(experiment, groups)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ResultsError(f"{out} exists and is no empty folder; tornettools takes every file below a folder for a run")
    if out.exists() and out.samefile(Path.cwd()):
        raise ResultsError(f"{out} is the folder that you are in, in whose place no other can be put: name another folder")
    names = distinct([slug(name) for name in experiment.treatments])
    tried = {run.treatment for run in experiment.finished}
    folders = {treatment: name for treatment, name in zip(experiment.treatments, names, strict=True) if treatment in tried}
    write_directory(out, _files(experiment, folders, measuring))
    exported = {treatment: out / name for treatment, name in folders.items()}
    return Exported(exported, tuple(_notes(experiment)))


def _files(experiment: Experiment, folders: dict[str, str], measuring: list[str]) -> Iterator[tuple[str, bytes]]:
    """Every file below the exported folder, by the folder of each treatment."""
    for treatment, folder in folders.items():
        for network in sorted({run.network for run in experiment.finished if run.treatment == treatment}):
            for name, content in _Tables(experiment, treatment, network, measuring).files().items():
                text = json.dumps(content, indent=2, sort_keys=True)
                yield f"{folder}/network{network}/tornet.plot.data/{name}", text.encode("utf-8")


def _notes(experiment: Experiment) -> list[str]:
    """What a reader of tornettools' charts must know."""
    notes = [f"not written: {reason}" for reason in MISSING]
    onion = [str(group["group"]) for group in experiment.plan.scenario["clients"] if loads_from_onion_services(group)]
    if onion:
        notes.append(f"not written: clients that load from onion services ({', '.join(onion)})")
    if scale_of(experiment) is None:
        notes.append("the share of Tor that was simulated is unknown: tornettools draws public Tor's goodput of relays as zero")
    if len(experiment.plan.seeds) > 1:
        count = len(experiment.plan.seeds)
        notes.append(f"the {count} seeds of each network are together in one folder, since they are no independent networks")
    untried = [
        treatment for treatment in experiment.treatments if treatment not in {run.treatment for run in experiment.finished}
    ]
    notes += [f"no folder for {treatment!r}: no run of it is finished" for treatment in untried]
    return notes


class _Tables:
    """The records of one treatment in one network, as tornettools has them."""

    def __init__(self, experiment: Experiment, treatment: str, network: int, groups: list[str]) -> None:
        mine = (pl.col("treatment") == treatment) & (pl.col("network") == network)
        self._experiment = experiment
        self._since = experiment.measure_from
        self._groups = groups
        self._runs = experiment.runs.filter(mine).sort("seed")
        self._series = experiment.network.filter(mine)
        perf = pl.col("group").is_in(groups)
        # tgentools counts a transfer in the second in which it ends, tornettools from the second in which the measurement begins.
        self._transfers = experiment.transfers.filter(mine, perf, pl.col("outcome") != "unfinished").filter(
            self._counts("end_ns")
        )
        circuits = on_time(experiment.circuits)
        self._circuits = circuits.filter(mine, perf, pl.col("built_ns").is_not_null()).filter(self._counts("built_ns"))

    def _counts(self, column: str) -> pl.Expr:
        """Whether an instant lies within the seconds that count."""
        return pl.col(column) // 1_000_000_000 >= self._since

    def files(self) -> dict[str, Json]:
        """Every file with its content."""
        writers: dict[str, Callable[[], Json]] = {
            "round_trip_time.exit.json": self.round_trip_times,
            "time_to_first_byte_recv.exit.json": lambda: self.times("first_byte_ns"),
            "time_to_last_byte_recv.exit.json": lambda: self.times("last_byte_ns"),
            "error_rate.exit.json": self.error_rates,
            "perfclient_circuit_build_time.exit.json": self.build_times,
            "relay_goodput.json": self.relay_goodput,
            "resource_usage.json": self.resource_usage,
            "simulation_info.json": self.information,
        }
        return {name: write() for name, write in writers.items()}

    def _completed(self) -> pl.DataFrame:
        """Completed transfers with ``leaves_ns``, when the request left: tgen's command."""
        settings = json.loads(self._runs["treatment_json"][0])
        done = self._transfers.filter(pl.col("outcome") == "ok")
        return with_requests(done, self._experiment.circuits, bool(settings.get("optimistic-data")))

    def round_trip_times(self) -> list[float]:
        """From the command to the first byte of the answer, in seconds: of its header, if it has one."""
        done = self._completed()
        return self._seconds(done.with_columns(answered(done).alias("answered_ns")), "answered_ns")

    def times(self, column: str) -> dict[str, list[float]]:
        """From the command to the first or last byte by size, in seconds."""
        done = self._completed()
        sizes = done["size_bytes"].unique().sort().to_list()
        found = {str(size): self._seconds(done.filter(pl.col("size_bytes") == size), column) for size in sizes}
        return {"ALL": self._seconds(done, column), **found}

    @staticmethod
    def _seconds(rows: pl.DataFrame, column: str) -> list[float]:
        return ((rows[column] - rows["leaves_ns"]) / 1e9).round(6).to_list()

    def error_rates(self) -> dict[str, list[list[float]]]:
        """Percent of each client's downloads that failed, by error, each with its resolution: the share of one download."""
        rates: dict[str, list[list[float]]] = {"ALL": []}
        for _, rows in self._transfers.group_by("seed", "client", maintain_order=True):
            one = 100.0 / rows.height
            counts = dict(
                rows.filter(pl.col("outcome").is_in(FAILURES)).group_by("outcome", maintain_order=True).len().iter_rows()
            )
            rates["ALL"].append([one * sum(counts.values()), one])
            for outcome, count in counts.items():
                rates.setdefault(ERRORS[outcome], []).append([one * count, one])
        return rates

    def build_times(self) -> list[float]:
        """Of circuits that were built, in seconds."""
        return ((self._circuits["built_ns"] - self._circuits["launched_ns"]) / 1e9).round(6).to_list()

    def relay_goodput(self) -> dict[str, int]:
        """Bytes that all relays sent by second of simulated time; the mean where there are several seeds.

        A longer sample interval is spread over its seconds.
        """
        samples = self._series.sort("seed", "time_ns").with_columns(
            begin_ns=pl.col("time_ns").shift(1, fill_value=0).over("seed"),
        )
        if samples.filter((pl.col("begin_ns") >= pl.col("time_ns")) | (pl.col("time_ns") > LONGEST_NS)).height:
            where = self._experiment.directory
            raise ResultsError(f"{where} has no samples of a run in its table network: their times do not ascend, or never end")
        sums: dict[int, float] = {}
        for begin, end, sent in samples.select("begin_ns", "time_ns", "relay_bytes_sent").iter_rows():
            for second in range(begin // 1_000_000_000, -(-end // 1_000_000_000)):
                inside = min(end, (second + 1) * 1_000_000_000) - max(begin, second * 1_000_000_000)
                sums[second] = sums.get(second, 0.0) + sent * inside / (end - begin)
        seeds = max(1, self._runs.height)
        return {str(second): round(sent / seeds) for second, sent in sorted(sums.items()) if second >= self._since}

    def resource_usage(self) -> Json:
        """Time and greatest memory; of several seeds, those that took most."""
        wall = max(float(seconds) for seconds in self._runs["wall_seconds"])
        memory = max(int(most) for most in self._runs["peak_memory_bytes"])
        return {
            "ram": {"bytes_used_max": memory, "gib_used_max": memory / 2**30},
            "run_time": {
                "human": str(datetime.timedelta(seconds=wall)),
                "seconds": wall,
                "minutes": wall / 60,
                "hours": wall / 3600,
                # Only the ends are known.
                "real_seconds_per_sim_second": {"0.0": 0.0, str(float(self._runs["sim_seconds"][0])): wall},
            },
        }

    def information(self) -> Json:
        """How large the network is, as far as it is known."""
        run = self._runs.row(0, named=True)
        sampling = json.loads(run["divergence_json"] or "null") or {}
        measuring = self._experiment.transfers.filter(
            pl.col("treatment") == run["treatment"],
            pl.col("network") == run["network"],
            pl.col("seed") == run["seed"],
            pl.col("group").is_in(self._groups),
        )["client"].n_unique()
        found = {
            "net_scale": scale_of(self._experiment),
            "num_sampled_relays": run["relays"],
            "num_public_relays": sampling.get("relays_full"),
            "num_dir_authorities": 0,
            "num_tgen_exit_markov_clients": run["clients"] - measuring,
            "num_tgen_exit_perf_clients": measuring,
            "num_tgen_exit_servers": self._experiment.plan.scenario["network"].get("servers"),
            "num_tgen_hs_markov_clients": 0,
            "num_tgen_hs_perf_clients": 0,
            "num_tgen_onionservice_servers": 0,
            "tornettools_generate_seed": run["network_seed"],
        }
        return {key: value for key, value in found.items() if value is not None}
