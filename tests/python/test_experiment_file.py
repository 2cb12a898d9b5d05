"""The page on the experiment file says what the program reads."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from conftest import tool_called
from onionlab import _core


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tool_called("experiment_file")


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
