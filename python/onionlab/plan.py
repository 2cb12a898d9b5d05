"""The plan of an experiment: which runs it consists of, and when a directory on disk already holds one of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from onionlab import _core
from onionlab.errors import ResultsError

#: The record tables of a run, one Parquet file each.
TABLES = ("transfers", "circuits", "channels", "relays", "network", "run")

#: Tables that a run leaves only where its experiment asks for them.
OPTIONAL_TABLES = ("vegas",)

#: Parts of a scenario that say how often it is run or how it is evaluated, but not what happens within one run.
_NOT_OF_A_RUN = ("title", "networks", "seeds", "treatments", "measure-from")


@dataclass(frozen=True)
class PlannedRun:
    """One combination of treatment, sampled network and seed."""

    treatment: str
    treatment_index: int
    network: int
    seed: int
    #: Where its tables lie, relative to the results directory.
    directory: str

    @property
    def label(self) -> str:
        """How the run is called in messages."""
        return f"{self.treatment}, network {self.network}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """All runs of an experiment with the scenario they come from, every default filled in."""

    scenario: dict[str, Any]
    version: str
    #: Identity of the code, `onionlab._core.build`; empty in results that an older version left.
    build: str
    runs: tuple[PlannedRun, ...]

    @property
    def treatments(self) -> list[str]:
        """Names of the treatments in the order of the experiment file."""
        return list(dict.fromkeys(run.treatment for run in self.runs))

    @property
    def networks(self) -> int:
        """Number of sampled networks."""
        return len({run.network for run in self.runs})

    @property
    def seeds(self) -> list[int]:
        """Seeds within each network."""
        return sorted({run.seed for run in self.runs})

    def to_json(self) -> str:
        """Text that `from_json` reads back."""
        return json.dumps(
            {
                "version": self.version,
                "build": self.build,
                "scenario": self.scenario,
                "runs": [vars(run) for run in self.runs],
            },
            indent=2,
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(text)
            runs = tuple(PlannedRun(**run) for run in fields["runs"])
            return cls(scenario=fields["scenario"], version=fields["version"], build=fields.get("build", ""), runs=runs)
        except (ValueError, TypeError, KeyError) as error:
            raise ResultsError(f"not a plan that onionlab wrote: {error}") from error

    @classmethod
    def of(cls, experiment: Path, text: str) -> Plan:
        """List the runs of the experiment file ``text``, which was read from ``experiment``."""
        scenario = json.loads(_core.resolve(str(experiment), text))
        runs = tuple(
            PlannedRun(
                treatment=run["treatment"],
                treatment_index=run["treatment_index"],
                network=run["network"],
                seed=run["seed"],
                directory=f"runs/{run['directory']}",
            )
            for run in json.loads(_core.plan(str(experiment), text))
        )
        return cls(scenario=scenario, version=_core.version(), build=_core.build(), runs=runs)


def read_experiment(experiment: Path) -> str:
    """Text of an experiment file, once it is known that it can be run; raises `ScenarioError` otherwise."""
    _core.resolve(str(experiment))
    return experiment.read_bytes().decode("utf-8")


def fingerprint(scenario: dict[str, Any], code: tuple[str, str], treatment: str, network: int, seed: int) -> str:
    """Hash of everything that determines the records of one run; ``code`` is the simulator's version and build.

    Two runs with the same fingerprint have the same records, even if one belongs to an experiment with more networks, seeds or
    treatments: so an experiment can be extended without repeating what is there.
    """
    common = {key: value for key, value in scenario.items() if key not in _NOT_OF_A_RUN}
    own = [entry for entry in scenario.get("treatments", []) if entry.get("name") == treatment]
    text = json.dumps([common, own, code, treatment, network, seed], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_run_table(directory: Path) -> dict[str, Any] | None:
    """The single row of a finished run's ``run`` table; None where the run is not whole."""
    if not all((directory / f"{table}.parquet").is_file() for table in TABLES):
        return None
    try:
        frame = pl.read_parquet(directory / "run.parquet", hive_partitioning=False)
    except (pl.exceptions.PolarsError, OSError):
        return None
    return frame.row(0, named=True) if frame.height == 1 else None


def is_finished(root: Path, plan: Plan, run: PlannedRun) -> bool:
    """Whether the results directory ``root`` already holds this very run: all tables, the same scenario, the same code."""
    row = read_run_table(root / run.directory)
    return row is not None and is_of(plan, run, row)


def is_of(plan: Plan, run: PlannedRun, row: dict[str, Any]) -> bool:
    """Whether ``row`` of a ``run`` table belongs to this very run."""
    return _has_fingerprint(plan, run, row, (str(row.get("version")), str(row.get("build") or "")))


def is_outdated(root: Path, plan: Plan, run: PlannedRun) -> bool:
    """Whether ``root`` holds this run as another version or build of the simulator made it."""
    row = read_run_table(root / run.directory)
    return row is not None and not is_of(plan, run, row) and _has_fingerprint(plan, run, row, (plan.version, plan.build))


def _has_fingerprint(plan: Plan, run: PlannedRun, row: dict[str, Any], code: tuple[str, str]) -> bool:
    """Whether ``row`` would belong to this run if ``code`` had made it."""
    try:
        scenario = json.loads(row["scenario"])
        found = fingerprint(scenario, code, row["treatment"], row["network"], row["seed"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return found == fingerprint(plan.scenario, (plan.version, plan.build), run.treatment, run.network, run.seed)
