"""The rooms of the Python package are those of ``docs/architecture.md``: nothing is loaded from a room above."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "onionlab"
PAGE = ROOT / "docs" / "architecture.md"


def rooms() -> dict[str, int]:
    """The row of each room in the page's table, from the top."""
    section = PAGE.read_text(encoding="utf-8").split("## The rooms of the Python package")[1].split("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`[^|]+) \|", section)
    return {name.removesuffix(".py"): row for row, cell in enumerate(rows) for name in re.findall(r"`([^`]+)`", cell)}


def loaded(tree: ast.AST) -> Iterator[ast.ImportFrom | ast.Import]:
    """The imports that are carried out as a module is loaded: not those in functions, not those for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from loaded(node)


def used(source: str) -> set[str]:
    """The rooms that a module of this text loads."""
    found = set()
    for node in loaded(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif node.module == "onionlab":
            names = [f"onionlab.{name.name}" for name in node.names]
        else:
            names = [node.module or ""]
        found |= {name.split(".")[1] for name in names if name.startswith("onionlab.")}
    return found


def test_imports_by_hand() -> None:
    text = "from onionlab import _core, files\nimport onionlab.plan\nimport os\ndef f():\n    import onionlab.report\n"
    text += "if TYPE_CHECKING:\n    from onionlab.charts import build\nclass A:\n    from onionlab.stats.power import power\n"
    assert used(text) == {"_core", "files", "plan", "stats"}


def test_every_room_is_in_the_table_and_nothing_else() -> None:
    there = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(rooms()) == there - {"__init__", "__main__"} | {"_core"}


def modules(source: str) -> set[str]:
    """All modules that may be loaded while a module of this text is, or what it has is called; not those for types alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name for node in named for name in (f"{node.module}", *(f"{node.module}.{one.name}" for one in node.names))}


def test_no_module_that_makes_runs_needs_one_that_needs_it() -> None:
    paths = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in (PACKAGE / "running").rglob("*.py")
    }
    names = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    needed = {name: (modules(path.read_text(encoding="utf-8")) & set(names)) - {name} for name, path in names.items()}
    # A package's folder is named on the way to what lies in it; that is no use of its face.
    for name, found in needed.items():
        needed[name] = {one for one in found if not any(other.startswith(f"{one}.") for other in found)}
    assert len(tuple(TopologicalSorter(needed).static_order())) == len(names)


#: What is declared under another name than it is imported by.
CALLED = {"yaml": "pyyaml", "vl_convert": "vl-convert-python"}

#: What is there where it is used: the rest of `onionlab[cluster]`, and the notebook's own.
THERE = {"distributed", "IPython"}


def test_every_package_that_is_imported_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split("[^A-Za-z0-9_-]", one)[0] for one in declared}
    imported: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert {CALLED.get(name, name) for name in imported - sys.stdlib_module_names - THERE - {"onionlab"}} <= names


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_loaded_from_a_room_above(path: Path) -> None:
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    if inside[0] in ("__init__", "__main__"):
        # The package's face and the command line's start: they show what is inside.
        return
    row = rooms()
    above = {room for room in used(path.read_text(encoding="utf-8")) if row[room] < row[inside[0]]}
    assert not above
