"""The page on the record tables says what the program writes."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from conftest import tool_called
from onionlab import _core
from onionlab.plan import OPTIONAL_TABLES, TABLES, Plan


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
