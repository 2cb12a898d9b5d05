"""Downloads over two legs of Conflux against those of real tor, which stand in ``docs/results/tor-conflux.md``."""

from __future__ import annotations

import importlib
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "measure_tor"
PAGE = ROOT / "docs" / "results" / "tor-conflux.md"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The measurement, whose modules lie in a folder and are no package."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(TOOL))
    yield importlib.import_module("conflux")
    own = {path.stem for path in TOOL.glob("*.py")}
    for name in own & (set(sys.modules) - before):
        del sys.modules[name]


def measured(setting: str, over: str) -> tuple[float, float]:
    """Seconds of real tor in the median, and the share of guard 1, as the page has them."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == setting and cells[3] == over:
            share = re.match(r"(\d+) %", cells[7])
            return float(cells[4].split()[0]), int(share[1]) / 100 if share else float(over == "guard 1")
    raise LookupError(f"{PAGE} has no row of {setting}, {over}")


@pytest.mark.parametrize("setting", ["alike", "fast and slow"])
def test_downloads_take_as_long_as_with_tor(setting: str, tool: ModuleType) -> None:
    (asked,) = (one for one in tool.SETTINGS if one.name == setting)
    found = list(tool.simulated(asked, 3))
    for over in tool.OVER:
        seconds, share = measured(setting, over)
        own = [one for one in found if one.over == over]
        assert len(own) == 3
        assert statistics.median(one.seconds for one in own) == pytest.approx(seconds, rel=0.15)
        assert own[0].first == pytest.approx(share, abs=0.05)
