"""Fixtures: a stand-in simulator, and experiments made with it."""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

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


@pytest.fixture(autouse=True)
def quick_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the drawing of PNG files, which takes most of a report's time, where a test does not look at them."""
    if "real_pictures" not in request.keywords:
        monkeypatch.setattr(onionlab.report.write, "to_png", lambda _: b"\x89PNG left out")


@pytest.fixture
def experiment_file(tmp_path: Path) -> Path:
    """An experiment of three networks, two seeds and two treatments."""
    path = tmp_path / "pair.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path
