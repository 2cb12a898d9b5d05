"""Loads in words, as they stand over a report."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onionlab.results import describe
from test_cli import call
from test_report import Page


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"kind": "bulk", "size": "5 MiB"}, "5 MiB"),
        ({"kind": "web", "size": "320 KiB", "pause": {"uniform": ["1 s", "20 s"]}}, "320 KiB, pauses of 1 s to 20 s"),
        (
            {"kind": "sequence", "transfers": [{"size": "50 kB", "count": 2}, {"size": "1 MB", "count": 1}]},
            "2 × 50 kB + 1 × 1 MB",
        ),
        ({"kind": "audio"}, "audio of 50 kB/s"),
        ({"kind": "video", "rate": "2 Mbit/s", "pause": "1 min"}, "video of 2 Mbit/s, pause 1 min"),
        ({"kind": "page", "pause": {"exponential": "40 s"}}, "pages of many objects, pauses of 40 s on average"),
        ({"kind": "perf"}, "50 KiB or 1 MiB or 5 MiB, one each 1 min"),
        ({"kind": "perf", "pause": "10 s", "sizes": [{"size": "2 MB"}]}, "2 MB, one each 10 s"),
        ({"kind": "markov"}, "Tor's users by hidden Markov models"),
        ({"kind": "tor-users"}, "Tor's users by the compact model"),
        ({"kind": "replay", "path": "there/traffic.json"}, "what traffic.json says of each client"),
    ],
)
def test_every_kind_of_load_has_words(load: dict[str, Any], words: str) -> None:
    assert describe.pattern(load) == words


def test_links_of_another_simulator_without_its_tor_are_pointed_out() -> None:
    nstor = {"net": "nstor", "tls": "none", "circuitmux": "round-robin", "channel-scheduler": "vanilla"}
    treatments = [
        {**nstor, "name": "vanilla", "flow-control": "windows"},
        {**nstor, "name": "planned", "flow-control": "predictor"},
        {**nstor, "name": "as the version", "flow-control": None},
        {**nstor, "name": "encrypted", "flow-control": "windows", "tls": "1.3"},
        {"name": "linux", "net": "linux", "flow-control": None},
    ]
    experiment: Any = SimpleNamespace(plan=SimpleNamespace(scenario={"treatments": treatments}))
    (sentence,) = describe.links_alone(experiment)
    assert sentence.startswith('as the version, encrypted: `net = "nstor"` is that simulator\'s links and TCP alone')
    experiment.plan.scenario["treatments"] = treatments[:2] + treatments[4:]
    assert describe.links_alone(experiment) == []


@pytest.mark.parametrize(("kind", "drawn"), [("synthetic", True), ("consensus", True), ("explicit", False), ("file", False)])
def test_only_networks_that_are_drawn_are_called_sampled(kind: str, drawn: bool) -> None:
    plan = SimpleNamespace(scenario={"network": {"kind": kind}}, networks=1, seeds=(1, 2))
    experiment: Any = SimpleNamespace(plan=plan, measure_from=0.0, duration=60.0)
    assert describe.sampled(experiment) is drawn
    assert ("1 sampled network × 2 seeds" in describe.extent(experiment)) is drawn
    assert "1 " in describe.extent(experiment)


def test_why_there_are_no_figures_of_clients_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
title = "Load alone"
duration = "3 s"

[network]
kind = "synthetic"
relays = 12

[[clients]]
group = "bulk"
count = 2
record = false
load = { kind = "bulk", size = "50 KiB" }

[[treatments]]
name = "one"
"""
    monkeypatch.chdir(tmp_path)
    Path("load.toml").write_text(text, encoding="utf-8")
    assert call(monkeypatch, "run", "load.toml") == 0
    sentence = "All groups of clients have `record = false`"
    assert sentence in capsys.readouterr().out
    assert sentence in Page(Path("out/load/report.html").read_text(encoding="utf-8")).text
    measured = '[[clients]]\ngroup = "web"\ncount = 2\nload = { kind = "bulk", size = "50 KiB" }\n'
    Path("load.toml").write_text(text + measured, encoding="utf-8")
    assert call(monkeypatch, "run", "load.toml", "--out", "out/both", "--no-report") == 0
    assert sentence not in capsys.readouterr().out


def test_many_users_behind_one_guard_are_pointed_out() -> None:
    scenario = {
        "network": {"kind": "synthetic"},
        "clients": [{"group": "users", "users": 100}, {"group": "measure", "users": 1}],
        "treatments": [{"name": "as usual", "guards": None}, {"name": "two", "guards": 2}, {"name": "none", "guards": 0}],
    }
    experiment: Any = SimpleNamespace(plan=SimpleNamespace(scenario=scenario))
    (sentence,) = describe.behind_one_guard(experiment)
    assert sentence.startswith("as usual, two: all users that a client stands for (users: 100) go over its guard")
    for spared in (
        {"treatments": scenario["treatments"][2:]},
        {"clients": scenario["clients"][1:]},
        {"network": {"kind": "explicit"}},
    ):
        experiment.plan.scenario = {**scenario, **spared}
        assert describe.behind_one_guard(experiment) == []


@pytest.mark.parametrize(
    ("onion", "words"),
    [
        (None, ""),
        ({"services": {"services": 4, "rate": "1 Gbit/s"}}, " from 4 onion services"),
        ({"hosts": [7]}, " from 1 onion service"),
    ],
)
def test_onion_services_have_words(onion: dict[str, Any] | None, words: str) -> None:
    assert describe.services(onion) == words
