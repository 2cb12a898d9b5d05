"""Fixtures: a stand-in simulator, and experiments made with it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import vl_convert
from hypothesis import settings

import onionlab.charts.export
import onionlab.report.write
from fake_core import FakeCore
from onionlab import _core

# How long an example takes says nothing on a busy machine.
settings.register_profile("onionlab", deadline=None)
settings.load_profile("onionlab")

# A shell that runs the tests in the background has them, and what they start, ignore Ctrl-C; some of them are about it.
signal.signal(signal.SIGINT, signal.default_int_handler)

EXPERIMENT = """\
title = "Round robin against EWMA"
duration = "60 s"
measure-from = "10 s"
networks = 3
seeds = [1, 2]

[[clients]]
group = "web"
count = 12
size = "320 KiB"

[[clients]]
group = "bulk"
count = 3
size = "5120 KiB"

[[treatments]]
name = "round robin"

[[treatments]]
name = "EWMA"
fake-factor = 0.7
"""


def tool_called(name: str) -> ModuleType:
    """A program of the folder ``tools``, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> FakeCore:
    """The stand-in simulator in place of the compiled one."""
    fake = FakeCore()
    for name in ("version", "build", "schema", "network_schema", "resolve", "plan", "try_policies", "run_one", "synth"):
        monkeypatch.setattr(_core, name, getattr(fake, name))
    return fake


def once(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A function that draws what it has drawn before by looking it up: the reports of most tests have the same charts."""
    drawn: dict[bytes, Any] = {}

    def picture(of: Any, **options: Any) -> Any:
        key = hashlib.sha256(json.dumps([of, options]).encode()).digest()
        if key not in drawn:
            drawn[key] = draw(of, **options)
        return drawn[key]

    return picture


ONCE = {name: once(getattr(vl_convert, name)) for name in ("vegalite_to_svg", "svg_to_png", "svg_to_pdf")}


@pytest.fixture(autouse=True)
def quick_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw each chart once, and leave out its PNG file, which takes as long, where a test is not about pictures."""
    if "real_pictures" in request.keywords:
        return
    for name, draw in ONCE.items():
        monkeypatch.setattr(vl_convert, name, draw)
    for module in (onionlab.report.write, onionlab.charts.export):
        monkeypatch.setattr(module, "to_png", lambda _: b"\x89PNG left out")


@pytest.fixture
def experiment_file(tmp_path: Path) -> Path:
    """An experiment of three networks, two seeds and two treatments."""
    path = tmp_path / "pair.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path
