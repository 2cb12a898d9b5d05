"""The plan of an experiment: which runs it consists of, and when a directory on disk already holds one of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from onionlab import _core
from onionlab.errors import ResultsError, ScenarioError
from onionlab.quantity import seconds
from onionlab.records import CONTROL, check_columns, read_parquet, texts

#: The record tables of a run, one Parquet file each.
TABLES = ("transfers", "circuits", "channels", "relays", "network", "run")

#: Tables that a run leaves only where its experiment asks for them.
OPTIONAL_TABLES = ("vegas", "latency", "switches", "switching_samples", "probes", "controllers", "plans")

#: Bytes of a plan that are read; a run takes some two hundred of them.
MOST_OF_A_PLAN = 64 * 1024**2

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
    #: The point of the sweep, by its number; 0 without a sweep.
    point: int = 0
    #: Further points that the run serves: they differ only in keys of other treatments.
    also: tuple[int, ...] = ()
    #: The point in words; empty without a sweep, and where the run serves several points.
    at: str = ""

    @property
    def label(self) -> str:
        """How the run is called in messages."""
        where = f"{self.at}, " if self.at else ""
        return f"{self.treatment}, {where}network {self.network}, seed {self.seed}"

    def to_fields(self) -> dict[str, Any]:
        """What `Plan.to_json` keeps: every field that is not its default."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.default is MISSING or getattr(self, field.name) != field.default
        }


@dataclass(frozen=True)
class Plan:
    """All runs of an experiment with the scenario they come from, every default filled in."""

    #: The scenario; with a sweep, that of its first point.
    scenario: dict[str, Any]
    version: str
    #: Identity of the code, `onionlab._core.build`; empty in results that an older version left.
    build: str
    runs: tuple[PlannedRun, ...]
    #: The values of each point of the sweep by dotted key, in the order of the file; empty without a sweep.
    points: tuple[dict[str, Any], ...] = ()
    #: The scenario of each point.
    scenarios: tuple[dict[str, Any], ...] = ()

    def scenario_of(self, run: PlannedRun) -> dict[str, Any]:
        """The scenario of a run's point."""
        return self.scenarios[run.point] if self.points else self.scenario

    def identity_of(self, run: PlannedRun) -> str:
        """What tells a run from all others, as `fingerprint` has it."""
        return fingerprint(self.scenario_of(run), (self.version, self.build), run.treatment, run.network, run.seed)

    def at(self, point: int) -> Plan:
        """The plan of one point, as if a file of its own had asked for it."""
        if not self.points:
            raise ValueError(f"the experiment holds no sweep, and so no point {point}")
        if not 0 <= point < len(self.points):
            raise ValueError(f"there is no point {point}; the sweep has {len(self.points)}, counted from 0")
        runs = tuple(run for run in self.runs if point == run.point or point in run.also)
        return Plan(scenario=self.scenarios[point], version=self.version, build=self.build, runs=runs)

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
        text = {
            "version": self.version,
            "build": self.build,
            "scenario": self.scenario,
            "runs": [run.to_fields() for run in self.runs],
        }
        if self.points:
            text["points"] = [
                {"values": list(values.items()), "scenario": scenario}
                for values, scenario in zip(self.points, self.scenarios, strict=True)
            ]
        # No indent, which would be a half of it where a scenario has long lists.
        return json.dumps(text, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read what `to_json` wrote."""
        try:
            kept = json.loads(text)
            runs = tuple(PlannedRun(**{**run, "also": tuple(run.get("also", ()))}) for run in kept["runs"])
            points = kept.get("points", [])
            plan = cls(
                scenario=kept["scenario"],
                version=kept["version"],
                build=kept.get("build", ""),
                runs=runs,
                points=tuple(dict(point["values"]) for point in points),
                scenarios=tuple(point["scenario"] for point in points),
            )
            plan._check()
            # JSON can have halves of characters, which can be neither printed nor written.
            json.dumps(kept, ensure_ascii=False).encode()
            # Lines end in texts of the file; whatever else controls a terminal is not printed.
            if any(CONTROL.search(text.translate(_LINES)) for text in texts(kept)):
                raise ValueError("a text has control characters")
        except KeyError as error:
            raise ResultsError(f"not a plan that onionlab wrote: {error} is missing") from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ResultsError(f"not a plan that onionlab wrote: {_in_short(error)}") from error
        return plan

    def _check(self) -> None:
        """Refuse a plan whose parts are not of their kind with a `ValueError`: anything can lie in a folder."""
        if not all(isinstance(scenario, dict) for scenario in (self.scenario, *self.scenarios)):
            raise ValueError("a scenario is no object")
        for scenario in (self.scenario, *self.scenarios):
            _check_scenario(scenario)
            seconds(scenario.get("measure-from") or 0)
            treatments = scenario.get("treatments", [])
            if not isinstance(treatments, list) or not all(
                isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in treatments
            ):
                raise ValueError("`treatments` is no list of objects with names")
        if not isinstance(self.version, str) or not isinstance(self.build, str):
            raise ValueError("`version` or `build` is no text")
        if len({run.directory for run in self.runs}) < len(self.runs):
            raise ValueError("two runs have one directory")
        most = max(1, len(self.points))
        for number, run in enumerate(self.runs):
            texts, numbers = (run.treatment, run.directory, run.at), (run.treatment_index, run.network, run.seed)
            places = (run.point, *run.also)
            if not all(isinstance(text, str) for text in texts) or not all(
                type(one) is int and 0 <= one < 2**64 for one in numbers
            ):
                raise ValueError(f"a value of runs[{number}] is of another kind")
            if not all(type(place) is int and 0 <= place < most for place in places):
                raise ValueError(f"runs[{number}] is of a point that there is not")
            parts = PurePosixPath(run.directory).parts
            if len(parts) < 2 or parts[0] != "runs" or ".." in parts or "\0" in run.directory:
                raise ValueError(f"the directory of runs[{number}] is not one within runs/")

    @classmethod
    def of(cls, experiment: Path, text: str) -> Plan:
        """List the runs of the experiment file ``text``, which was read from ``experiment``."""
        planned = json.loads(_core.plan(str(experiment), text))
        swept = any(run.get("point") is not None for run in planned)
        points = json.loads(_core.points(str(experiment), text)) if swept else []
        values = tuple(dict(point["values"]) for point in points)
        runs = tuple(
            PlannedRun(
                treatment=run["treatment"],
                treatment_index=run["treatment_index"],
                network=run["network"],
                seed=run["seed"],
                directory=f"runs/{run['directory']}",
                point=run["point"] if swept else 0,
                also=tuple(run["also"]) if swept else (),
                at=in_words(values[run["point"]]) if swept and not run["also"] else "",
            )
            for run in planned
        )
        return cls(
            scenario=json.loads(_core.resolve(str(experiment), text)),
            version=_core.version(),
            build=_core.build(),
            runs=runs,
            points=values,
            scenarios=tuple(point["scenario"] for point in points),
        )

    @classmethod
    def together(cls, plans: Sequence[Plan]) -> Plan:
        """Several experiments as one that has them as its points: how long and how many its runs are."""
        scenarios = [plan.scenarios if plan.points else (plan.scenario,) for plan in plans]
        before = [sum(len(own) for own in scenarios[:number]) for number in range(len(plans))]
        return cls(
            scenario=plans[0].scenario,
            version=plans[0].version,
            build=plans[0].build,
            runs=tuple(
                replace(run, point=first + run.point, also=tuple(first + other for other in run.also))
                for plan, first in zip(plans, before, strict=True)
                for run in plan.runs
            ),
            points=tuple({} for own in scenarios for _ in own),
            scenarios=tuple(scenario for own in scenarios for scenario in own),
        )


#: Takes tabs and ends of lines out of a text.
_LINES = str.maketrans("", "", "\t\n\r")


def _check_scenario(scenario: dict[str, Any]) -> None:
    """Refuse a scenario whose keys that are looked at here are not of their kind, with a `ValueError` or `KeyError`."""

    def need(fits: bool, key: str, kind: str) -> None:
        if not fits:
            raise ValueError(f"`{key}` of a scenario is no {kind}")

    need(seconds(scenario["duration"]) > 0, "duration", "duration above 0")
    need(isinstance(scenario.get("title"), str | None), "title", "text")
    need(isinstance(scenario.get("network", {}), dict), "network", "object")
    need(isinstance(scenario.get("load-target"), dict | None), "load-target", "object")
    groups = scenario["clients"]
    need(isinstance(groups, list) and all(isinstance(group, dict) for group in groups), "clients", "list of objects")
    for group in groups:
        need(isinstance(group.get("group"), str), "group", "text")
        need(isinstance(group.get("load", {}), dict), "load", "object")
        need(_is_count(group.get("users", 1)), "users", "whole number")
        members = group.get("members", {})
        need(isinstance(members, dict) and all(isinstance(one, dict) for one in members.values()), "members", "object of objects")
        for way, key in (("count", "count"), ("document", "clients"), ("scaled", "users-at-full-scale")):
            need(_is_count(members.get(way, {}).get(key, 0)), f"{way}.{key}", "whole number")
        need(isinstance(members.get("hosts", {}).get("hosts", []), list), "hosts", "list")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _in_short(error: Exception) -> str:
    """What is wrong, on one line that is not long."""
    line = " ".join(str(error).split())
    return line if len(line) <= 200 else f"{line[:199]}…"


def value_text(value: Any) -> str:
    """A swept value as it stands in tables: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def in_words(values: dict[str, Any]) -> str:
    """A point in words, such as ``relays = 50, tcp = reno``: each key by its last part, or whole where two would be alike."""
    short = [key.rsplit(".", 1)[-1] for key in values]
    names = short if len(set(short)) == len(short) else list(values)
    return ", ".join(f"{name} = {value_text(value)}" for name, value in zip(names, values.values(), strict=True))


def read_experiment(experiment: Path) -> str:
    """Text of an experiment file, once it is known that it can be run; raises `ScenarioError` otherwise."""
    if experiment.exists() and not experiment.is_file() and not experiment.is_dir():
        raise ScenarioError(
            f"{experiment}: a pipe or a device; an experiment is read several times, so it must be an ordinary file"
        )
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


#: Columns that say which run it is, and how long it was.
_OF_A_RUN = ("scenario", "treatment", "network", "seed", "version", "build", "sim_seconds")


def read_run_table(directory: Path) -> dict[str, Any] | None:
    """Which run it is, of the single row of a finished run's ``run`` table; None where the run is not whole."""
    if not all((directory / f"{table}.parquet").is_file() for table in TABLES):
        return None
    try:
        frame = read_parquet(directory / "run.parquet", most=1, only=_OF_A_RUN)
    except ResultsError:
        return None
    return frame.row(0, named=True) if frame.height == 1 else None


def is_readable(root: Path, run: PlannedRun) -> bool:
    """Whether each table of a finished run is one: cut off, emptied or of something else, it is to be made again."""
    tables = ((table, root / run.directory / f"{table}.parquet") for table in (*TABLES, *OPTIONAL_TABLES))
    try:
        for table, path in tables:
            if table in TABLES or path.is_file():
                check_columns(path, table)
    except ResultsError:
        return False
    return True


def is_finished(root: Path, plan: Plan, run: PlannedRun) -> bool:
    """Whether the results directory ``root`` already holds this very run: all tables, the same scenario, the same code."""
    row = read_run_table(root / run.directory)
    return row is not None and is_of(plan, run, row)


def is_of(plan: Plan, run: PlannedRun, row: dict[str, Any]) -> bool:
    """Whether ``row`` of a ``run`` table belongs to this very run."""
    try:
        scenario = json.loads(row["scenario"])
        found = fingerprint(scenario, _code(row), row["treatment"], row["network"], row["seed"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return found == plan.identity_of(run)


def what_differs(root: Path, plan: Plan, run: PlannedRun) -> Literal["code", "experiment"] | None:
    """In what a finished run that ``root`` holds in the place of this one is another.

    Returns
    -------
    str or None
        ``code``: another version or build of the simulator made it; ``experiment``: the same code made it, of another scenario;
        None where no finished run is there, or this very one.
    """
    row = read_run_table(root / run.directory)
    if row is None or is_of(plan, run, row):
        return None
    return "experiment" if _code(row) == (plan.version, plan.build) else "code"


def _code(row: dict[str, Any]) -> tuple[str, str]:
    """Version and build of the simulator that made a run, by its ``run`` table."""
    return str(row.get("version")), str(row.get("build") or "")
