"""The page on the record tables says what the program writes."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from conftest import EXPERIMENT, tool_called
from fake_core import FakeCore
from onionlab import _core
from onionlab.plan import OPTIONAL_TABLES, TABLES, Plan
from onionlab.records import COLUMNS, MAY_BE_NULL, MAY_LACK


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tool_called("record_tables")


def test_the_page_is_of_these_tables(tool: ModuleType) -> None:
    text = tool.page(json.loads(_core.record_tables()))
    assert tool.PAGE.read_text(encoding="utf-8") == text, "python tools/record_tables.py writes it anew"


def test_folders_of_runs_are_called_as_the_page_says(tmp_path: Path) -> None:
    """By a rule that is in the simulator, of which the page tells; whoever does not trust it reads `plan.json`."""
    names = {"RR": "rr", "tor default": "tor-default", "½ (Vegas, 0.4.9)!": "vegas-0-4-9", "x" * 70: "x" * 60}
    treatments = "".join(f'[[treatments]]\nname = "{name}"\n' for name in names)
    file = tmp_path / "names.toml"
    file.write_text(FILE[: FILE.index("[[treatments]]")].replace("OBSERVED", "false") + treatments, encoding="utf-8")
    plan = json.loads(Plan.of(file, file.read_text(encoding="utf-8")).to_json())
    found = {run["treatment"]: run["directory"] for run in plan["runs"]}
    assert found == {name: f"runs/{folder}--net0--seed1" for name, folder in names.items()}


def test_every_table_is_described() -> None:
    described = json.loads(_core.record_tables())
    assert tuple(table["name"] for table in described if table["always"]) == TABLES
    assert {table["name"] for table in described if not table["always"]} == set(OPTIONAL_TABLES)
    for table in described:
        assert table["description"].endswith(".")
        for column in table["columns"]:
            assert column["description"].endswith("."), (table["name"], column["name"])


Described = dict[str, dict[str, dict[str, object]]]


@pytest.fixture(scope="module")
def described() -> Described:
    """What is said of a column, by its name, by that of its table."""
    tables = json.loads(_core.record_tables())
    return {table["name"]: {column["name"]: column for column in table["columns"]} for table in tables}


def test_what_is_computed_with_is_what_is_written(described: Described) -> None:
    """The types of columns, and which of them may have no value: no version has written others. What older ones lack is named."""
    for table, columns in COLUMNS.items():
        of = described[table]
        assert {name: str(kind) for name, kind in columns.items()} == {name: of[name]["type"] for name in columns}, table
        assert MAY_BE_NULL.get(table, set()) == {name for name in columns if of[name]["nullable"]}, table
        assert MAY_LACK.get(table, set()) <= columns.keys(), table
    assert {*MAY_LACK, *MAY_BE_NULL} <= COLUMNS.keys()


@pytest.mark.parametrize("network", ["", "[network]\nno-exits = true\n"])
def test_the_stand_in_writes_what_the_simulator_would(network: str, described: Described, tmp_path: Path) -> None:
    """Some columns of each table, all that a report needs among them: of the type, without a value only where that may be."""
    file = tmp_path / "it.toml"
    file.write_text(EXPERIMENT + network, encoding="utf-8")
    FakeCore().run_one(str(file), 0, 0, 1, str(tmp_path), lambda _: True)
    paths = sorted(tmp_path.rglob("*.parquet"))
    assert {path.stem for path in paths} == set(TABLES)
    for path in paths:
        frame, columns = pl.read_parquet(path, hive_partitioning=False), described[path.stem]
        assert {name: str(kind) for name, kind in frame.schema.items()} == {name: columns[name]["type"] for name in frame.columns}
        assert set(COLUMNS[path.stem]) - MAY_LACK.get(path.stem, set()) <= set(frame.columns)
        without = {name for name in frame.columns if frame[name].has_nulls()}
        assert without <= {name for name in frame.columns if columns[name]["nullable"]}, path.stem
        assert not any(series.is_nan().any() for series in frame.select(pl.selectors.float())), path.stem


#: Whatever can be asked for is asked for, but for what circuits that move do not allow.
FILE = """\
title = "Every table"
duration = "20 s"

[network]
kind = "synthetic"
relays = 12

[[clients]]
group = "bulk"
count = 3
trace = OBSERVED
record-latency = OBSERVED
probe = "1 s"
load = { kind = "bulk", size = "1 MB" }

[[treatments]]
name = "it"
"""


def test_files_are_as_described(tmp_path: Path) -> None:
    """Names, types, units and what may be missing, in the files of runs that together leave every table."""
    described = {table["name"]: table for table in json.loads(_core.record_tables())}
    treatments = {
        "congestion control": ("true", ""),
        "switching": ("false", 'tor = "0.2.4"\nswitching = "active"\n'),
        "PredicTor": ("true", 'flow-control = "predictor"\n'),
    }
    for name, (observed, keys) in treatments.items():
        file = tmp_path / f"{name}.toml"
        file.write_text(FILE.replace("OBSERVED", observed) + keys, encoding="utf-8")
        _core.run_one(str(file), 0, 0, 1, str(tmp_path / name), lambda _: True)
    paths = sorted(tmp_path.rglob("*.parquet"))
    assert {path.stem for path in paths} == {*TABLES, *OPTIONAL_TABLES}
    for path in paths:
        columns = described[path.stem]["columns"]
        frame = pl.read_parquet(path)
        assert {name: str(kind) for name, kind in frame.schema.items()} == {row["name"]: row["type"] for row in columns}
        for row in columns:
            assert row["nullable"] or frame[row["name"]].null_count() == 0
        told = json.loads(pl.read_parquet_metadata(path)["onionlab.columns"])
        assert {name: about["unit"] for name, about in told.items()} == {row["name"]: row["unit"] for row in columns}
