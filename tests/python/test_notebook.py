"""The notebook of the documentation runs, and what it shows looks as it should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import onionlab
from fake_core import FakeCore
from onionlab.notebook import NotebookProgress

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.timeout(300)
def test_it_runs_and_shows_tables_and_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(onionlab.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    book = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(book, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert {output["output_type"] for output in shown} <= {"execute_result", "display_data"}
    pages = [str(output["data"].get("text/html", "")) for output in shown]
    assert any("8 of 8 runs · " in page for page in pages), "progress"
    assert any("paired difference to “round robin”" in page for page in pages), "summary"
    assert any('<svg class="chart"' in page for page in pages), "chart of the report"
    assert sum("image/svg+xml" in output["data"] for output in shown) == 1, "chart of one's own"
    assert "True)" in str(shown[-1]["data"]["text/plain"]), "what was loaded is what was run"
    assert (tmp_path / "out" / "notebook" / "first" / "plan.json").is_file()


def test_an_experiment_shows_its_figures(core: FakeCore, experiment_file: Path) -> None:
    core.failing = {"ewma--net1--seed1"}
    page = onionlab.run(experiment_file, experiment_file.parent / "out", report=False)._repr_html_()
    assert "<h4>Round robin against EWMA</h4>" in page
    assert "11 of 12 runs in" in page
    assert page.count("<table>") == page.count("</table>") == 2
    assert "failed: the event queue ran dry" in page


def test_markup_in_names_is_text(core: FakeCore, experiment_file: Path) -> None:
    text = experiment_file.read_text(encoding="utf-8").replace('"EWMA"', '"<b>EWMA"').replace('"Round robin against', '"<i>Round')
    experiment_file.write_text(text, encoding="utf-8")
    results = onionlab.run(experiment_file, experiment_file.parent / "out", report=False)
    assert "<b>EWMA" not in results._repr_html_()
    assert "<i>Round" not in results._repr_html_()


def test_charts_show_themselves_and_twice_on_a_page(core: FakeCore, experiment_file: Path) -> None:
    core.silent_groups = {"bulk"}
    charts = onionlab.run(experiment_file, experiment_file.parent / "out", report=False).charts
    chart = charts["time-to-last-byte-web"]
    one, two = chart._repr_html_(), chart._repr_html_()
    assert one.startswith('<div style="--faint:#8c959f"><svg class="chart" id="time-to-last-byte-web-')
    assert one != two
    empty = charts["time-to-last-byte-bulk"]._repr_html_()
    assert "<svg" not in empty
    assert "Nothing to draw" in empty or "No line" in empty


class Handle:
    """In the place of a display of IPython."""

    def __init__(self, shown: list[str]) -> None:
        self._shown = shown

    def update(self, page: str) -> None:
        self._shown.append(page)


def test_progress_is_one_line_that_changes(core: FakeCore, experiment_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def display(text: str) -> Any:
        shown.append(text)
        return Handle(shown)

    monkeypatch.setattr("onionlab.notebook._display", display)
    monkeypatch.setattr("onionlab.notebook._html", lambda text: text)
    core.failing = {"ewma--net1--seed1"}
    onionlab.run(experiment_file, experiment_file.parent / "out", report=False, observer=NotebookProgress())
    assert "0 of 12 runs · starting" in shown[0]
    assert "11 of 12 runs" in shown[-1]
    assert any("<strong>failed:</strong> EWMA, network 1, seed 1: the event queue ran dry" in line for line in shown)
    shown.clear()
    core.failing = set()
    progress = NotebookProgress()
    onionlab.run(experiment_file, experiment_file.parent / "out", report=False, observer=progress)
    assert "12 of 12 runs, 11 of them kept · " in shown[-1]
    assert 'value="1.0000"' in shown[-1]


def test_what_is_handed_in_and_given_back_can_be_named() -> None:
    """All of it is there under `onionlab`, of which loading it needs no charts."""
    for name in onionlab.__all__:
        assert getattr(onionlab, name) is not None
    assert {"Observer", "Replaced", "Failure", "METRICS", "Chart", "Variant"} <= set(onionlab.__all__)
    command = "import onionlab, sys; assert 'altair' not in sys.modules; onionlab.Chart; assert 'altair' in sys.modules"
    subprocess.run([sys.executable, "-c", command], check=True, timeout=100)
    with pytest.raises(AttributeError, match="has no attribute 'Charts'"):
        onionlab.Charts  # noqa: B018
