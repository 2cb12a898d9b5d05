# ruff: noqa: E501  (sentences and command lines)
"""Measures downloads of real tor over two legs of Conflux beside the simulator's, and writes ``docs/results/tor-conflux.md``.

    .venv/bin/python tools/measure_tor/conflux.py

Two guards have limits and distances of their own, each setting another; the same downloads go over either guard alone and over
both. It needs the programs ``tor`` and ``tor-gencert`` (tor 0.4.9; Debian: package tor) and Linux. It takes a quarter of an hour, starts
seven processes at a time in temporary folders and ends them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import altair as alt
import load
import polars as pl
from control import Control
from network import Network, Plan, Refused, Relay, find, running, version
from page import machine

import onionlab
from onionlab.charts.export import to_svg
from onionlab.charts.theme import config

ROOT = Path(__file__).resolve().parents[2]

#: Bytes of a download.
SIZE = 5 << 20
#: Seconds between two downloads, in which buckets fill up and sets are built.
PAUSE = 5.0
#: Seconds for which sets are waited for.
PATIENCE = 30

CLIENT = """
ConfluxEnabled 1
EnforceDistinctSubnets 0
EntryNodes guard1,guard2
MiddleNodes middle1,middle2
ExitNodes exit
"""

#: Who downloads.
WHO = ["tor", "onionlab"]
#: Over what a download goes.
OVER = ("guard 1", "guard 2", "both")


@dataclass(frozen=True)
class Setting:
    """What the two guards are like."""

    name: str
    #: Milliseconds one way between client and guard.
    delays: tuple[int, int]
    #: `BandwidthRate` and `BandwidthBurst`, KiB a second and KiB.
    rates: tuple[int, int]


SETTINGS = (
    Setting("alike", (20, 20), (1000, 1000)),
    Setting("near and far", (10, 80), (1000, 1000)),
    Setting("fast and slow", (20, 20), (1000, 250)),
    Setting("near and slow, far and fast", (10, 80), (250, 1000)),
)


@dataclass(frozen=True)
class Download:
    """One download."""

    setting: str
    over: str
    who: str
    seconds: float
    #: Of the bytes that came, those over guard 1.
    first: float


def real(tor: str, setting: Setting, repeats: int) -> Iterator[Download]:
    """Downloads with tor."""
    limits = [f"BandwidthRate {rate} KBytes\nBandwidthBurst {rate} KBytes\nCountPrivateBandwidth 1\n" for rate in setting.rates]
    guards = [Relay(f"guard{n + 1}", limits[n], delay=setting.delays[n] / 1000) for n in range(2)]
    plan = Plan((*guards, Relay("middle1"), Relay("middle2"), Relay("exit", exits=True)), CLIENT)
    with running(tor, plan) as network:
        server = load.Server()
        client = network.controls["client"]
        _first_download(network, server)
        for over in OVER:
            for _ in range(repeats):
                time.sleep(PAUSE)
                if over == "both":
                    _next_set(client)
                    seconds, first = _with_sets(network, server)
                else:
                    seconds, first = _by_hand(network, server, over[-1]), float(over == OVER[0])
                yield Download(setting.name, over, "tor", seconds, first)
        server.close()


def _first_download(network: Network, server: load.Server) -> None:
    """So that what comes once is over. While a young network still votes, a stream may be refused."""
    for attempt in range(5):
        _next_set(network.controls["client"])
        try:
            load.download(network.socks_port, server.port, 1000)
            return
        except ConnectionError:
            if attempt == 4:
                raise
            time.sleep(PAUSE)


def _by_hand(network: Network, server: load.Server, number: str) -> float:
    client = network.controls["client"]
    client.ask("SETCONF __LeaveStreamsUnattached=1")
    path = [network.nodes[name].fingerprint for name in (f"guard{number}", f"middle{number}", "exit")]
    circuit = client.circuit(path)
    client.attach_streams_to(circuit)
    seconds = load.download(network.socks_port, server.port, SIZE)
    client.ask("SETEVENTS")
    client.ask(f"CLOSECIRCUIT {circuit}")
    client.ask("RESETCONF __LeaveStreamsUnattached")
    return seconds


def _with_sets(network: Network, server: load.Server) -> tuple[float, float]:
    """Seconds, and the share of guard 1; the set is closed then."""
    client = network.controls["client"]
    read: Counter[str] = Counter()

    def notice(event: str) -> None:
        words = dict(word.split("=", 1) for word in event.split()[2:] if "=" in word)
        read[words["ID"]] += int(words["READ"])

    client.on_event = notice
    client.ask("SETEVENTS CIRC_BW")
    seconds = load.download(network.socks_port, server.port, SIZE)
    # Said once a second.
    time.sleep(1.5)
    client.ask("SETEVENTS")
    legs = _legs(client)
    used = max(
        (legs[circuit][0] for circuit in read if circuit in legs), key=lambda of: sum(read[c] for c in legs if legs[c][0] == of)
    )
    own = {circuit: guard for circuit, (of, guard) in legs.items() if of == used}
    for circuit in own:
        client.ask(f"CLOSECIRCUIT {circuit}")
    bytes_of = {guard: read[circuit] for circuit, guard in own.items()}
    return seconds, bytes_of.get("guard1", 0) / sum(bytes_of.values())


def _legs(client: Control) -> dict[str, tuple[str, str]]:
    """Set and guard of each leg that is linked, by circuit."""
    legs = {}
    for line in client.info("circuit-status").splitlines():
        words = line.split()
        named = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        if named.get("PURPOSE") == "CONFLUX_LINKED":
            legs[words[0]] = (named["CONFLUX_ID"], words[2].split(",")[0].partition("~")[2])
    return legs


def _next_set(client: Control) -> None:
    """Waits until a set is linked."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if max(Counter(of for of, _ in _legs(client).values()).values(), default=0) >= 2:
            return
        time.sleep(0.2)
    raise Refused(f"tor has linked no set of circuits within {PATIENCE} seconds.")


EXPERIMENT = """
title = "Two legs"
duration = "{duration:.0f} s"
[network]
kind = "explicit"
default-latency = "50 us"
hosts = [
{guards}
  {{ name = "middle1", role = "middle", {wide} }},
  {{ name = "middle2", role = "middle", {wide} }},
  {{ name = "exit", role = "exit", {wide} }},
  {{ name = "server", role = "server", {wide} }},
  {{ name = "client", role = "client", {wide} }},
]
links = [
  {{ between = ["client", "guard1"], latency = "{delays[0]} ms" }},
  {{ between = ["client", "guard2"], latency = "{delays[1]} ms" }},
]
[[clients]]
group = "downloads"
hosts = ["client"]
start = "30 s"
boot-before = "30 s"
circuit-per-transfer = true
{path}load = {{ kind = "web", size = "{size} B", pause = "{pause:g} s" }}
[base]
# The listener that delays takes whatever it is sent; the others are on one machine.
tcp = "unlimited"
# A set lives no longer than its download, as there.
circuit-lifetime = "1 s"
optimistic-data = false
[[treatments]]
name = "tor 0.4.9"
"""


def simulated(setting: Setting, repeats: int) -> Iterator[Download]:
    """The same downloads here."""
    wide = 'up = "10 Gbit/s", down = "10 Gbit/s"'
    guard = '  {{ name = "guard{n}", role = "guard", {wide}, rate = "{rate} bit/s", burst = "{burst} B" }},'
    guards = "\n".join(
        guard.format(n=n, wide=wide, rate=rate * 1024 * 8, burst=rate * 1024) for n, rate in enumerate(setting.rates, start=1)
    )
    duration = 30 + repeats * (1.5 * SIZE / 1024 / min(setting.rates) + PAUSE + 2)
    for over in OVER:
        path = "" if over == "both" else f'path = ["guard{over[-1]}", "middle{over[-1]}", "exit"]\n'
        text = EXPERIMENT.format(
            duration=duration, guards=guards, wide=wide, delays=setting.delays, path=path, size=SIZE, pause=PAUSE
        )
        with tempfile.TemporaryDirectory(prefix="onionlab-") as folder:
            file = Path(folder) / "legs.toml"
            file.write_text(text, encoding="utf-8")
            experiment = onionlab.run(file, Path(folder) / "out")
            legs = experiment.circuits.filter(purpose="leg").group_by("guard").agg(pl.col("cells_in").sum())
            by_guard = dict(legs.iter_rows())
            share = by_guard.get("guard1", 0) / sum(by_guard.values()) if over == "both" else float(over == OVER[0])
            ended = experiment.transfers.filter(outcome="ok").head(repeats)
            seconds = (ended["last_byte_ns"] - ended["start_ns"]) / 1e9
            yield from (Download(setting.name, over, "onionlab", value, share) for value in seconds)


def main() -> int:
    """The command; 1 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tor", default="tor", help="the tor program to measure")
    parser.add_argument("--repeats", type=int, default=5, help="how often each download is made (5)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "results" / "tor-conflux.md", help="the page; its chart lies beside it"
    )
    arguments = parser.parse_args()
    found: list[Download] = []
    try:
        tor = find(arguments.tor)
        for setting in SETTINGS:
            for download in chain(real(tor, setting, arguments.repeats), simulated(setting, arguments.repeats)):
                print(
                    f"{setting.name}, {download.who}, over {download.over}: {download.seconds:.2f} s", file=sys.stderr, flush=True
                )
                found.append(download)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    write(arguments.out, version(tor), found)
    print(arguments.out, file=sys.stderr)
    return 0


def _of(found: Sequence[Download], setting: Setting, over: str, who: str) -> list[Download]:
    return [one for one in found if (one.setting, one.over, one.who) == (setting.name, over, who)]


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} – {max(values):.2f})"


def write(out: Path, what: str, found: Sequence[Download]) -> None:
    """Writes ``out`` and, beside it, the chart."""
    lines = [
        "# Two legs of Conflux, beside real tor",
        "",
        "A private network of real tor on one machine (an authority, two guards, two middles, an exit, a client and a server) and the",
        "same network here. Each guard has a limit of its own (`BandwidthRate`, with a second's worth of `BandwidthBurst`); what a client",
        "and a guard send each other arrives later by the guard's delay, each way; everything else is near and wide. A client downloads",
        f"{SIZE >> 20} MiB over either guard alone, on a circuit that was built for it, and over both: a set of two circuits, as tor builds it.",
        "",
        f"- {what}",
        f"- {machine()}; what other programs do beside it adds to tor's times, not to ours",
        f"- {len(_of(found, SETTINGS[0], OVER[0], 'tor'))} downloads each, {PAUSE:g} s apart; medians, with the least and the most",
        "",
        "This page was written by",
        "",
        "    .venv/bin/python tools/measure_tor/conflux.py",
        "",
        "![Time to the last byte](tor-conflux.svg)",
        "",
        "| guards | delay, ms | limit, KiB/s | over | tor, s | onionlab, s | onionlab / tor | over guard 1: tor | onionlab |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    logs = []
    for setting in SETTINGS:
        for over in OVER:
            theirs, ours = (_of(found, setting, over, who) for who in WHO)
            ratio = statistics.median(one.seconds for one in ours) / statistics.median(one.seconds for one in theirs)
            logs.append(abs(math.log(ratio)))
            shares = [
                f"{100 * statistics.mean(one.first for one in of):.0f} %" if over == "both" else "" for of in (theirs, ours)
            ]
            lines.append(
                f"| {setting.name} | {setting.delays[0]}, {setting.delays[1]} | {setting.rates[0]}, {setting.rates[1]} | {over} "
                f"| {_spread([one.seconds for one in theirs])} | {_spread([one.seconds for one in ours])} | {ratio:.2f} | {shares[0]} | {shares[1]} |"
            )
    lines += [
        "",
        f"Times here and there differ by {100 * (math.exp(statistics.mean(logs)) - 1):.0f} % on average, by {100 * (math.exp(max(logs)) - 1):.0f} % at most.",
        "",
    ]
    out.write_text("\n".join(lines), encoding="utf-8")
    _chart(out.with_suffix(".svg"), found)


def _chart(path: Path, found: Sequence[Download]) -> None:
    numbers = dict(zip(OVER, ("1", "2", "both"), strict=True))
    data = [{"guards": one.setting, "over": numbers[one.over], "who": one.who, "seconds": one.seconds} for one in found]
    names = [setting.name for setting in SETTINGS]
    points = (
        alt.Chart(alt.InlineData(values=data), width=150, height=200)
        .mark_point(size=36)
        .encode(
            x=alt.X("over:N", sort=[*numbers.values()], title="over guard", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("who:N", sort=WHO),
            y=alt.Y("seconds:Q", scale=alt.Scale(type="log", domain=[2, 40], nice=False), title="time to the last byte, s"),
            color=alt.Color("who:N", scale=alt.Scale(domain=WHO), title="5 MiB with"),
            shape=alt.Shape("who:N", scale=alt.Scale(domain=WHO), title="5 MiB with"),
        )
    )
    chart = points.facet(column=alt.Column("guards:N", sort=names, title=None))
    path.write_text(to_svg({**chart.to_dict(), "config": config()}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
