"""The table of `docs/fidelity.md` names tests; each of them must exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: A test's name as the table writes it: words joined by underscores, at least two.
NAME = re.compile(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`")


def named_in_the_table() -> set[str]:
    rows = [line for line in (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return {name for row in rows for name in NAME.findall(row.rsplit("|", 2)[1])}


def test_every_test_that_the_table_names_exists() -> None:
    sources = [path.read_text(encoding="utf-8") for path in ROOT.glob("crates/*/**/*.rs") if "target" not in path.parts]
    defined = {name for text in sources for name in re.findall(r"fn ([a-z0-9_]+)\(", text)}
    named = named_in_the_table()
    assert len(named) > 40
    assert sorted(named - defined) == []


def test_every_mechanism_has_a_test() -> None:
    text = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
    for line in text.split("## Left out")[0].splitlines():
        if line.startswith("| ") and not line.startswith(("| ---", "| mechanism", "| what ")):
            assert NAME.search(line.rsplit("|", 2)[1]), f"no test holds this: {line}"
