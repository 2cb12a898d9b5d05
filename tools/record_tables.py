"""Writes docs/records.md: every table that a run leaves, column by column, from what the program itself writes into its files.

python tools/record_tables.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from onionlab import _core
from onionlab.files import write_text

PAGE = Path(__file__).parents[1] / "docs" / "records.md"

Described = dict[str, Any]

HEAD = """\
# What a run leaves

Written by `python tools/record_tables.py` from what the program describes its files with: change the descriptions in
`crates/lab/src/records`, not this page.

A results directory holds `experiment.toml` (a copy of the file), `plan.json` (the runs, and the scenario with its defaults, but
for those that depend on the version of tor or on the consensus: what these came to is in [`run`](#run), `treatment_json`), for
each finished run a folder in `runs` with the tables below as Parquet, and what is drawn from them: `report.html`, `charts/`,
`tables/`, which are deleted as soon as runs begin that they do not show; `evaluation.json`, if there is one, is where the
measurement begins by `--measure-from` and what came of `--until-ci`. What a sweep draws of each point is in `points/`, what
`onionlab plot` draws in `paper/`. A folder of a run is there whole or not at all.

The folder of a run is called `TREATMENT--netNETWORK--seedSEED`, networks counted from 0. For TREATMENT stands the treatment's
name in small letters, with one hyphen for whatever is neither a letter from a to z nor a digit, none at its ends, and of a long
name its first 60 characters: `tor default` in network 0 with seed 1 lies in `runs/tor-default--net0--seed1`. In a sweep
`--KEY-VALUE...-HASH` comes behind it, for the swept keys that concern the treatment. Rather than put it together, read it from
`plan.json`: each entry of `runs` has `directory` beside `treatment`, `network` and `seed`.

```python
import onionlab

experiment = onionlab.load("out/first")
experiment.transfers  # a Polars frame of all runs
experiment.table("channels").collect()  # any other one: a lazy frame, of which only what is asked for is read
```

Both have the columns `treatment`, `network` and `seed` before those of the file, and of a [sweep](sweeps.md) `point`, counted
from 0. Whatever reads Parquet reads a single file: `polars.read_parquet`, `pandas.read_parquet`, DuckDB, R's arrow. Each file
says in its footer what stands here: `polars.read_parquet_metadata(FILE)["onionlab.columns"]`.

Instants and lengths of time are whole simulated nanoseconds (`_ns`), but for what tells how a run was made; amounts of data are
bytes (`_bytes`). A unit of 1 is a plain number. Where a row may have no value the type says *or none*. Columns marked † tell how
a run was made, and may differ between runs that are otherwise the same to the byte. A column's meaning does not change without a
word in the [changelog](../CHANGELOG.md).
"""


def page(tables: Sequence[Described]) -> str:
    """The whole page as Markdown."""
    parts = [HEAD, *_contents(tables)]
    for table in tables:
        parts += ["", f"## {table['name']}", "", _cell(table["description"]), "", *_columns(table["columns"])]
    return "\n".join(parts) + "\n"


def _contents(tables: Sequence[Described]) -> Iterator[str]:
    always, others = (", ".join(_link(table) for table in tables if table["always"] is wanted) for wanted in (True, False))
    yield f"Every run leaves {always}. Where something asks for them there are also {others}."


def _link(table: Described) -> str:
    return f"[`{table['name']}`](#{table['name']})"


def _columns(columns: Sequence[Described]) -> Iterator[str]:
    yield "| column | type | unit | |"
    yield "| --- | --- | --- | --- |"
    for column in columns:
        name = f"`{column['name']}`" + " †" * column["provenance"]
        kind = column["type"] + " or none" * column["nullable"]
        yield f"| {name} | {kind} | {column['unit']} | {_cell(column['description'])} |"


def _cell(text: str) -> str:
    """As it may stand in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    write_text(PAGE, page(json.loads(_core.record_tables())))
    print(f"page: {PAGE}")
