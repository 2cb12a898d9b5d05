"""Writes docs/experiment-file.md: every key of an experiment file, from the schema that the program itself reads files by.

python tools/experiment_file.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onionlab import _core
from onionlab.files import write_text

PAGE = Path(__file__).parents[1] / "docs" / "experiment-file.md"

Schema = dict[str, Any]

#: Texts with a unit: what a pattern's or a definition's are called, and where it is said how they are written.
TEXTS = {"Duration": "duration", "Bytes": "amount of data", "Bandwidth": "rate"}
#: What follows a digit in the pattern of such a text tells which it is.
UNITS = {"ns|us|ms": "duration", "bit/s": "rate", "B|kB": "amount of data"}

#: The tables of a file in the order in which one writes them, then what their keys refer to in the order in which they do.
FIRST = ("Network", "Clients", "LoadModel", "Treatment", "LoadTarget", "Sweep")

#: Of these two all keys are alike, so that they are written once.
SAME = {"Base": "Treatment"}

HEAD = """\
# The experiment file, key by key

Written by `python tools/experiment_file.py` from the JSON Schema that `onionlab schema` prints, by which files are read too:
change the comments in `crates/lab/src/scenario` and `crates/load/src`, not this page. A first file, line by line, is in the
[README](../README.md); [sweeps](sweeps.md), [networks made elsewhere](import.md), [loads](models/load.md) and
[policies of your own](own-scheduler.md) have pages of their own; a network by hand is in
[`no-dropping.toml`](../experiments/cci/no-dropping.toml). An experiment has at most 10,000 runs.

A key that does not exist, a value that is not allowed, and a key that has no effect where it stands are refused before anything
runs, with their line; what only a sampled network can tell, as that it has too few guards for so many `conflux-legs`, fails its
run.

**Quantities** are texts with their unit. A *duration*: `"250 ms"`, `"1 h 30 min"` (ns, us, ms, s, min, h, d). An *amount of
data*: `"320 KiB"` (B; kB or KB, MB, GB in powers of 1000; KiB, MiB, GiB in powers of 1024). A *rate*: `"10 Mbit/s"` (bit/s,
kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, KiB/s, MiB/s). Keys in **bold** must be there.

**What comes along.** `flow-control = "vegas"` turns on Conflux too where tor "0.4.9" draws paths: to see Vegas alone, add
`conflux = false` ([why](models/versions.md#vegas-alone)).
"""


class Page:
    """The page as it grows, and the definitions that it has still to explain."""

    def __init__(self, schema: Schema) -> None:
        self._definitions: dict[str, Schema] = schema["$defs"]
        self._waiting: list[str] = []
        self._said: set[str] = set()
        self._lines = [HEAD, "## The file itself", ""]
        self._keys(schema)

    def text(self) -> str:
        """The whole page."""
        self._waiting = [*FIRST, *self._waiting]
        while self._waiting:
            name = self._waiting.pop(0)
            if name not in self._said:
                self._said.add(name)
                self._definition(name, self._definitions[name])
        return "\n".join(self._lines).rstrip() + "\n"

    def _definition(self, name: str, schema: Schema) -> None:
        self._lines += [f"## {title(name)}", "", *paragraphs(schema.get("description", ""))]
        if "properties" in schema:
            self._keys(schema)
        for values in grouped(schema.get("oneOf") or schema.get("anyOf") or []):
            self._values(values)
        if name == "Sweep":
            self._lines += ["| value | |", "| --- | --- |"]
            for one in schema["additionalProperties"]["anyOf"]:
                self._lines.append(f"| {self._type(one)} | {cell(one.get('description', ''))} |")
            self._lines.append("")

    def _values(self, values: list[Schema]) -> None:
        """What a definition with a choice can be: texts, or tables."""
        if "const" in values[0]:
            self._lines += ["| value | |", "| --- | --- |"]
            self._lines += [f'| `"{one["const"]}"` | {cell(one.get("description", ""))} |' for one in values]
            self._lines.append("")
        elif "kind" in values[0].get("properties", {}):
            for one in values:
                self._lines += [f'**`kind = "{one["properties"]["kind"]["const"]}"`** {one.get("description", "")}', ""]
                self._keys(one, without=("kind",))
        else:
            self._lines += ["| form | |", "| --- | --- |"]
            self._lines += [f"| {self._type(one)} | {cell(one.get('description', ''))} |" for one in values]
            self._lines.append("")

    def _keys(self, schema: Schema, without: tuple[str, ...] = ()) -> None:
        """A table of the keys of a table."""
        required = schema.get("required", [])
        self._lines += ["| key | value | |", "| --- | --- | --- |"]
        for key, value in sorted(schema["properties"].items(), key=lambda item: (item[0] not in required, item[0])):
            if key not in without:
                name = f"**`{key}`**" if key in required else f"`{key}`"
                self._lines.append(f"| {name} | {self._type(value)} | {cell(value.get('description', ''))} |")
        self._lines.append("")

    def _type(self, schema: Schema) -> str:
        """What a value may be, in a few words."""
        if "$ref" in schema:
            return self._reference(schema["$ref"].rsplit("/", 1)[1])
        if "enum" in schema:
            return " or ".join(f'`"{value}"`' for value in schema["enum"])
        if "anyOf" in schema or "oneOf" in schema:
            return " or ".join(self._type(one) for one in schema.get("anyOf") or schema["oneOf"])
        kind = schema.get("type")
        if isinstance(kind, list):
            return " or ".join({"number": "number", "string": "text"}[one] for one in kind)
        if kind == "array":
            return self._list(schema)
        if kind == "object":
            return self._table(schema)
        if kind == "string":
            return next((name for units, name in UNITS.items() if units in schema.get("pattern", "")), "text")
        return {"boolean": "`true` or `false`", "integer": "whole number", "number": "number"}[str(kind)] + limits(schema)

    def _reference(self, name: str) -> str:
        if name in TEXTS:
            return TEXTS[name]
        name = SAME.get(name, name)
        if name not in self._waiting and name not in FIRST:
            self._waiting.append(name)
        return f"[{title(name).lower()}](#{anchor(title(name))})"

    def _list(self, schema: Schema) -> str:
        if "prefixItems" in schema:
            return "[" + ", ".join(self._type(one) for one in schema["prefixItems"]) + "]"
        of = self._type(schema["items"]) if "items" in schema else "value"
        least, most = schema.get("minItems"), schema.get("maxItems")
        return f"list of {least} x {of}" if least == most and least else f"list of {of}"

    def _table(self, schema: Schema) -> str:
        if "properties" not in schema:
            of = schema.get("additionalProperties")
            return f"table of {self._type(of)} by name" if isinstance(of, dict) else "table"
        return "`{` " + ", ".join(f"`{key}` = {self._type(value)}" for key, value in schema["properties"].items()) + " `}`"


def title(name: str) -> str:
    """A definition's name as words: `LoadModel` is "Load model"."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("-", " ").lower()
    return words[0].upper() + words[1:]


def anchor(heading: str) -> str:
    """What a link to a heading ends with."""
    return heading.lower().replace(" ", "-")


def limits(schema: Schema) -> str:
    """From what to what a number may be."""
    least, most = schema.get("minimum", 0), schema.get("maximum")
    if most is None or most >= 2**31:
        return ""
    return f", {number(least)} to {number(most)}"


def number(value: float) -> str:
    """A number as one writes it."""
    return f"{value:g}" if value < 10_000 else f"{int(value):,}"


def cell(text: str) -> str:
    """A description in one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def paragraphs(text: str) -> list[str]:
    """A description above a table."""
    return [text, ""] if text else []


def grouped(values: list[Schema]) -> Iterator[list[Schema]]:
    """Texts apart from tables."""
    texts = [one for one in values if "const" in one]
    others = [one for one in values if "const" not in one]
    yield from (group for group in (texts, others) if group)


def main() -> None:
    """Write the page."""
    write_text(PAGE, Page(json.loads(_core.schema())).text())


if __name__ == "__main__":
    main()
