"""A stand-in for the compiled module: record tables of the documented shape, with numbers drawn from simple distributions.

Tests of what happens around a simulation (resuming, interrupting, failing, reporting) use it, because it takes milliseconds and
fails on demand.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import tomllib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from onionlab.errors import Cancelled, DocumentError, RunError, ScenarioError
from onionlab.quantity import seconds

VERSION = "0.0.0-fake"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass
class FakeCore:
    """The functions of ``onionlab._core``, with switches for what a test wants to go wrong."""

    version_text: str = VERSION
    build_text: str = "0123456789abcdef"
    #: Directories whose run raises a `RunError`.
    failing: set[str] = field(default_factory=set)
    #: Raise a `DocumentError` in every run.
    refuse_document: bool = False
    #: Called at each progress step of a run.
    on_step: Callable[[str], None] = lambda _: None
    #: Leave a group of clients without any transfer.
    silent_groups: set[str] = field(default_factory=set)
    #: Directories of the runs that were made, in order.
    made: list[str] = field(default_factory=list)
    steps: int = 5
    #: Digests of the documents that experiments name.
    documents: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def version(self) -> str:
        return self.version_text

    def build(self) -> str:
        return self.build_text

    def schema(self) -> str:
        return json.dumps({"type": "object"})

    def network_schema(self) -> str:
        return json.dumps({"type": "object", "title": "network"})

    def resolve(self, path: str, text: str | None = None) -> str:
        try:
            given = tomllib.loads(Path(path).read_text(encoding="utf-8") if text is None else text)
        except (OSError, ValueError) as error:
            raise ScenarioError(f"{path}: {error}") from error
        unknown = set(given) - {
            "title",
            "duration",
            "measure-from",
            "networks",
            "seeds",
            "network",
            "clients",
            "treatments",
        }
        if unknown:
            raise ScenarioError(f"{path}: unknown key `{sorted(unknown)[0]}`")
        scenario = {
            "title": given["title"],
            "duration": given["duration"],
            "measure-from": given.get("measure-from", "0 s"),
            "networks": given.get("networks", 1),
            "base-seed": 1,
            "seeds": given.get("seeds", [1]),
            "sample-interval": "1 s",
            "network": {"kind": "synthetic", "year": 2021, "size": {"relays": 100}, **given.get("network", {})} | self.documents,
            "clients": [
                {
                    "group": group["group"],
                    "members": {"count": {"count": group["count"]}},
                    "load": {"kind": "bulk", "size": group["size"], "pause": {"fixed": "0 s"}},
                    "start": {"from": "0 s", "to": "0 s"},
                }
                for group in given["clients"]
            ],
            "load-target": None,
            "treatments": [{"slug": slug(treatment["name"]), **treatment} for treatment in given["treatments"]],
        }
        return json.dumps(scenario, sort_keys=True)

    def try_policies(self, path: str, text: str | None = None) -> None:
        """No experiment of these has a policy of its own."""

    def plan(self, path: str, text: str | None = None) -> str:
        scenario = json.loads(self.resolve(path, text))
        return json.dumps(
            [
                {
                    "treatment": treatment["name"],
                    "treatment_index": index,
                    "network": network,
                    "seed": seed,
                    "directory": f"{treatment['slug']}--net{network}--seed{seed}",
                }
                for network in range(scenario["networks"])
                for seed in scenario["seeds"]
                for index, treatment in enumerate(scenario["treatments"])
            ]
        )

    def synth(self, options_json: str) -> str:
        return f"network-status-version 3 microdesc\n# {options_json}\n"

    def run_one(
        self,
        path: str,
        treatment_index: int,
        network_index: int,
        seed: int,
        out_dir: str,
        callback: Callable[[dict[str, Any]], bool],
        text: str | None = None,
    ) -> str:
        resolved = self.resolve(path, text)
        scenario = json.loads(resolved)
        treatment = scenario["treatments"][treatment_index]
        directory = f"{treatment['slug']}--net{network_index}--seed{seed}"
        if self.refuse_document:
            raise DocumentError("consensus.xz: the document ends in the middle of a router entry")
        duration = seconds(scenario["duration"])
        for step in range(1, self.steps + 1):
            self.on_step(directory)
            progress = {
                "sim_seconds": duration * step / self.steps,
                "duration_seconds": duration,
                "events": 1000 * step,
            }
            if not callback(progress):
                raise Cancelled("stopped")
        if directory in self.failing:
            raise RunError("the event queue ran dry")
        tables = self._tables(scenario, treatment, network_index, seed, duration, resolved)
        target = Path(out_dir) / "runs" / directory
        draft = target.with_name(f".{directory}.1.partial")
        draft.mkdir(parents=True)
        for name, table in tables.items():
            table.write_parquet(draft / f"{name}.parquet")
        if target.exists():
            shutil.rmtree(target)
        draft.rename(target)
        with self._lock:
            self.made.append(directory)
        return json.dumps(tables["run"].row(0, named=True))

    def _tables(
        self, scenario: dict[str, Any], treatment: dict[str, Any], network: int, seed: int, duration: float, text: str
    ) -> dict[str, pl.DataFrame]:
        world = np.random.default_rng([network, 7])
        slowness = world.lognormal(0.0, 0.1) * treatment.get("fake-factor", 1.0)
        rng = np.random.default_rng([network, seed, zlib.crc32(treatment["name"].encode())])
        transfers = []
        for group in scenario["clients"]:
            if group["group"] in self.silent_groups:
                continue
            size = int(group["load"]["size"].split()[0]) * 1024
            for client in range(group["members"]["count"]["count"]):
                now, ordinal = rng.uniform(0, 5), 0
                while now < duration:
                    first = slowness * rng.lognormal(-0.7, 0.6)
                    last = first + slowness * size / 4e5 * rng.lognormal(0.0, 0.5)
                    failed = rng.random() < treatment.get("fake-failures", 0.02)
                    end = now + (5.0 if failed else last)
                    ended = min(end, duration)
                    outcome = "unfinished" if end > duration else ("timeout" if failed else "ok")
                    transfers.append(
                        {
                            "client": f"{group['group']}{client}",
                            "group": group["group"],
                            "ordinal": ordinal,
                            "circuit": client,
                            "size_bytes": size,
                            "received_bytes": size if outcome == "ok" else size // 3,
                            "start_ns": round(now * 1e9),
                            "connected_ns": round((now + first / 2) * 1e9),
                            "first_byte_ns": round((now + first) * 1e9) if now + first < duration else None,
                            "last_byte_ns": round(end * 1e9) if outcome == "ok" else None,
                            "end_ns": round(ended * 1e9),
                            "outcome": outcome,
                        }
                    )
                    now, ordinal = end + rng.uniform(0.5, 3.0), ordinal + 1
        frame = pl.DataFrame(transfers, schema=TRANSFERS)
        return {
            "transfers": frame,
            "circuits": pl.DataFrame(schema={"circuit": pl.UInt32, "client": pl.String, "group": pl.String}),
            "channels": pl.DataFrame(schema={"channel": pl.UInt32, "opener": pl.String, "peer": pl.String}),
            "relays": pl.DataFrame(schema={"time_ns": pl.Int64, "relay": pl.String, "class": pl.String}),
            "network": self._network(frame, duration, rng, scenario),
            "run": pl.DataFrame(
                {
                    "scenario": [text],
                    "treatment": [treatment["name"]],
                    "treatment_json": [json.dumps(treatment, sort_keys=True)],
                    "network": [network],
                    "network_seed": [int(world.integers(2**63))],
                    "seed": [seed],
                    "version": [self.version_text],
                    "build": [self.build_text],
                    "sim_seconds": [duration],
                    "events": [1000 * self.steps],
                    "cell_hops": [frame.height * 700],
                    "wall_seconds": [1.25],
                    "cpu_seconds": [treatment.get("fake-cost", 1.0)],
                    "peak_memory_bytes": [200_000_000],
                    "relays": [100],
                    "clients": [sum(group["members"]["count"]["count"] for group in scenario["clients"])],
                    "divergence_json": ["null"],
                },
                schema=RUN,
            ),
        }

    def _network(
        self, transfers: pl.DataFrame, duration: float, rng: np.random.Generator, scenario: dict[str, Any]
    ) -> pl.DataFrame:
        times = np.arange(1, int(duration) + 1)
        starts = transfers["start_ns"].to_numpy() / 1e9
        ends = transfers["end_ns"].to_numpy() / 1e9
        outcomes = transfers["outcome"].to_numpy()
        busy = np.array([int(((starts < time) & (ends > time - 1)).sum()) for time in times])
        samples = pl.DataFrame(
            {
                "time_ns": times * 1_000_000_000,
                "goodput_bytes": (busy * rng.normal(50_000, 4_000, times.size).clip(0)).astype(np.int64),
                "relay_bytes_sent": busy * 160_000,
                "transfers_ok": [int(((outcomes == "ok") & (ends <= time)).sum()) for time in times],
                "transfers_failed": [int(((outcomes == "timeout") & (ends <= time)).sum()) for time in times],
                "active_circuits": busy,
                "utilisation_guard": (0.5 + 0.05 * rng.standard_normal(times.size)).clip(0, 1),
                "utilisation_middle": (0.95 + 0.02 * rng.standard_normal(times.size)).clip(0, 1),
                "utilisation_exit": (0.4 + 0.05 * rng.standard_normal(times.size)).clip(0, 1),
                "utilisation_guard_exit": (0.3 + 0.05 * rng.standard_normal(times.size)).clip(0, 1),
            },
            schema=NETWORK,
        )
        if scenario["network"].get("no-exits"):
            return samples.with_columns(utilisation_exit=pl.lit(None, dtype=pl.Float64))
        return samples


TRANSFERS = {
    "client": pl.String,
    "group": pl.String,
    "ordinal": pl.UInt32,
    "circuit": pl.UInt32,
    "size_bytes": pl.UInt64,
    "received_bytes": pl.UInt64,
    "start_ns": pl.Int64,
    "connected_ns": pl.Int64,
    "first_byte_ns": pl.Int64,
    "last_byte_ns": pl.Int64,
    "end_ns": pl.Int64,
    "outcome": pl.String,
}

NETWORK = {
    "time_ns": pl.Int64,
    "goodput_bytes": pl.UInt64,
    "relay_bytes_sent": pl.UInt64,
    "transfers_ok": pl.UInt64,
    "transfers_failed": pl.UInt64,
    "active_circuits": pl.UInt32,
    "utilisation_guard": pl.Float64,
    "utilisation_middle": pl.Float64,
    "utilisation_exit": pl.Float64,
    "utilisation_guard_exit": pl.Float64,
}

RUN = {
    "scenario": pl.String,
    "treatment": pl.String,
    "treatment_json": pl.String,
    "network": pl.UInt32,
    "network_seed": pl.UInt64,
    "seed": pl.UInt64,
    "version": pl.String,
    "build": pl.String,
    "sim_seconds": pl.Float64,
    "events": pl.UInt64,
    "cell_hops": pl.UInt64,
    "wall_seconds": pl.Float64,
    "cpu_seconds": pl.Float64,
    "peak_memory_bytes": pl.UInt64,
    "relays": pl.UInt32,
    "clients": pl.UInt32,
    "divergence_json": pl.String,
}
