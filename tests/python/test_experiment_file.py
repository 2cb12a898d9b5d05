"""The page on the experiment file says what the program reads."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from onionlab import _core

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("experiment_file", ROOT / "tools" / "experiment_file.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_of_this_schema(tool: ModuleType) -> None:
    text = tool.Page(json.loads(_core.schema())).text()
    assert tool.PAGE.read_text(encoding="utf-8") == text, "python tools/experiment_file.py writes it anew"


def test_every_key_and_every_value_is_there(tool: ModuleType) -> None:
    page = tool.PAGE.read_text(encoding="utf-8")
    schema = json.loads(_core.schema())
    for name, definition in [("the file", schema), *schema["$defs"].items()]:
        for key in definition.get("properties", {}):
            assert f"`{key}`" in page, f"{key} of {name}"
        for one in definition.get("oneOf", []):
            if "const" in one:
                assert f'`"{one["const"]}"`' in page, f"{one['const']} of {name}"
    headings = {tool.anchor(line.removeprefix("## ")) for line in page.splitlines() if line.startswith("## ")}
    links = {part.split(")")[0] for part in page.split("](#")[1:]}
    assert links <= headings
