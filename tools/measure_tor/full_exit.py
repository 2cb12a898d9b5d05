# ruff: noqa: E501  (sentences and command lines)
"""Measures what becomes of downloads at an exit whose rate is never enough, with real tor beside the simulator, and writes ``docs/results/tor-full-exit.md``.

    .venv/bin/python tools/measure_tor/full_exit.py

Large downloads that never end keep an exit with a limit of its own full, and clients load small ones beside them. Who gets tokens then, and
who gets none? It needs the programs ``tor`` and ``tor-gencert`` (tor 0.4.9; Debian: package tor) and Linux. It takes half
an hour, starts 15 processes at a time in temporary folders and ends them.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import altair as alt
import load
import polars as pl
from network import Network, Plan, Refused, Relay, find, running, version
from page import machine

import onionlab
from onionlab.charts.export import to_svg
from onionlab.charts.theme import config

ROOT = Path(__file__).resolve().parents[2]

#: The exit's `BandwidthRate` and `BandwidthBurst`, KiB a second and KiB.
RATE = 500
#: Relays that are guards and middles: the exit has a channel with each.
RELAYS = 12
#: Clients that load small files one after the other, each over a circuit of its own.
SMALL_CLIENTS = 10
SMALL = 50 << 10
#: Seconds: after which a small download is given up, between two of a client, before the first.
TIMEOUT, PAUSE, BEFORE_SMALL = 15.0, 2.0, 10.0
#: Seconds for which large downloads go on, and within which a circuit must be built.
DURATION, PATIENCE = 120.0, 15.0
#: More than can come.
LARGE = 1 << 33
#: Where the chart's times begin, and what its axis names.
LEAST, TICKS = 0.001, [0.001, 0.01, 0.1, 1, 10]

#: Who downloads.
WHO = ["tor", "onionlab"]


@dataclass(frozen=True)
class Setting:
    """What fills the exit."""

    name: str
    #: Large downloads.
    large: int
    #: Lines of the authority's torrc.
    authority: str
    #: Lines of `[base]` here.
    base: str


WINDOWS = ("ConsensusParams cc_alg=0\n", 'flow-control = "windows"\n')
SETTINGS = (
    Setting("8, fixed windows", 8, *WINDOWS),
    Setting("20, fixed windows", 20, *WINDOWS),
    Setting("60, fixed windows", 60, *WINDOWS),
    Setting("20, congestion control", 20, "", "conflux = false\n"),
)


@dataclass(frozen=True)
class Small:
    """One small download; times since its request, none for what did not come in time."""

    first: float | None
    last: float | None


@dataclass
class Run:
    """What became of one run's downloads."""

    setting: str
    who: str
    small: list[Small] = field(default_factory=list)
    #: Bytes of each large download, those that were never connected included.
    large: list[int] = field(default_factory=list)


class Downloads:
    """Circuits and streams of the client, put together by hand: each stream goes over the circuit that was built for it."""

    def __init__(self, network: Network, port: int) -> None:
        self._network, self._port = network, port
        self._control = network.controls["client"]
        self._changed = threading.Condition()
        self._circuits: dict[str, str] = {}
        #: The circuit for a stream that comes from this port.
        self._meant: dict[int, str] = {}
        self._control.on_event = self._notice
        self._control.ask("SETEVENTS CIRC STREAM")

    def _notice(self, event: str) -> None:
        words = event.split()
        if words[1] == "CIRC" and words[3] in {"BUILT", "FAILED", "CLOSED"}:
            with self._changed:
                self._circuits.setdefault(words[2], words[3])
                self._changed.notify_all()
        elif words[1] == "STREAM" and words[3] == "NEW":
            source = next((word.rpartition(":")[2] for word in words if word.startswith("SOURCE_ADDR=")), "0")
            self._control.send(f"ATTACHSTREAM {words[2]} {self._meant.get(int(source), 0)}")

    def circuit(self, random_numbers: random.Random) -> str | None:
        """A circuit over two of the relays and the exit; none if it is not built in time."""
        names = [f"relay{number}" for number in random_numbers.sample(range(RELAYS), 2)] + ["exit"]
        path = ",".join("$" + self._network.nodes[name].fingerprint for name in names)
        circuit = self._control.ask(f"EXTENDCIRCUIT 0 {path}")[0].split()[-1]
        with self._changed:
            self._changed.wait_for(lambda: circuit in self._circuits, timeout=PATIENCE)
            return circuit if self._circuits.get(circuit) == "BUILT" else None

    def close(self, circuit: str) -> None:
        """The circuit is not needed any more."""
        self._control.send(f"CLOSECIRCUIT {circuit}")

    def download(self, circuit: str, size: int, patience: float, came: Callable[[int], object]) -> Small | None:
        """Loads `size` bytes within `patience` seconds from the request; tells of what came. None if the stream was not connected."""
        first = last = None
        with socket.socket() as connection:
            connection.bind(("127.0.0.1", 0))
            self._meant[connection.getsockname()[1]] = circuit
            connection.settimeout(patience)
            try:
                load.connect(connection, self._network.socks_port, self._port)
            except OSError:
                return None
            start = time.monotonic()
            try:
                connection.sendall(load.REQUEST.pack(size, 1 << 16, 0.0))
                left = size
                while left > 0:
                    connection.settimeout(max(0.001, start + patience - time.monotonic()))
                    data = connection.recv(min(left, 1 << 18))
                    if not data:
                        break
                    first = first or time.monotonic() - start
                    left -= len(data)
                    came(len(data))
                else:
                    last = time.monotonic() - start
            except OSError:
                pass
        return Small(first, last)


def real(tor: str, setting: Setting, repeat: int) -> Run:
    """A run with tor."""
    limit = f"BandwidthRate {RATE} KBytes\nBandwidthBurst {RATE} KBytes\nCountPrivateBandwidth 1\n"
    relays = (*(Relay(f"relay{number}") for number in range(RELAYS)), Relay("exit", limit, exits=True))
    run = Run(setting.name, "tor")
    large: Counter[int] = Counter(dict.fromkeys(range(setting.large), 0))
    with running(tor, Plan(relays, authority=setting.authority)) as network:
        server = load.Server()
        # So that the young network's last votes are over.
        time.sleep(12)
        downloads = Downloads(network, server.port)
        end = time.monotonic() + DURATION

        def load_large(number: int) -> None:
            random_numbers = random.Random(f"large {repeat} {number}")
            while (left := end - time.monotonic()) > 0:
                if (circuit := downloads.circuit(random_numbers)) is not None:
                    downloads.download(circuit, LARGE, left, lambda count: large.update({number: count}))
                time.sleep(0.1)

        def load_small(number: int) -> None:
            random_numbers = random.Random(f"small {repeat} {number}")
            time.sleep(BEFORE_SMALL + 4 * random_numbers.random())
            while time.monotonic() + TIMEOUT < end:
                if (circuit := downloads.circuit(random_numbers)) is not None:
                    small = downloads.download(circuit, SMALL, TIMEOUT, lambda _: None)
                    if small is not None:
                        run.small.append(small)
                    downloads.close(circuit)
                time.sleep(PAUSE)

        threads = [threading.Thread(target=load_large, args=(number,), daemon=True) for number in range(setting.large)]
        threads += [threading.Thread(target=load_small, args=(number,), daemon=True) for number in range(SMALL_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=max(0.0, end + PATIENCE + 5 - time.monotonic()))
        server.close()
    run.large = list(large.values())
    return run


EXPERIMENT = """
title = "A full exit"
duration = "{duration:g} s"
seeds = {seeds}
[network]
kind = "explicit"
default-latency = "50 us"
hosts = [
{hosts}
]
[[clients]]
group = "large"
hosts = {large}
start = "{warm:g} s"
boot-before = "{warm:g} s"
timeout = "1 h"
stall = "1 h"
load = {{ kind = "bulk", size = "{size} B", request = "20 B" }}
[[clients]]
group = "small"
hosts = {small}
start = {{ from = "{first:g} s", to = "{last:g} s" }}
boot-before = "{warm:g} s"
load = {{ kind = "perf", pause = "{pause:g} s", pause-from = "end", request = "20 B", sizes = [{{ size = "50 KiB", weight = 1.0, timeout = "{timeout:g} s" }}] }}
[base]
guards = 0
# What a process on the same machine is sent, its kernel takes at once.
tcp = "unlimited"
optimistic-data = false
{base}
[[treatments]]
name = "tor 0.4.9"
"""
#: Simulated seconds before the large downloads.
WARM = 10.0


def simulated(setting: Setting, seeds: int) -> list[Run]:
    """The same runs here."""
    wide = 'up = "10 Gbit/s", down = "10 Gbit/s"'
    names = {role: [f"{role}{number}" for number in range(RELAYS)] for role in ("guard", "middle")}
    large = [f"large{number}" for number in range(setting.large)]
    small = [f"small{number}" for number in range(SMALL_CLIENTS)]
    hosts = [f'  {{ name = "{name}", role = "{role}", {wide} }},' for role, of in names.items() for name in of]
    hosts += [f'  {{ name = "{name}", role = "client", {wide} }},' for name in (*large, *small)]
    hosts.append(f'  {{ name = "exit", role = "exit", {wide}, rate = "{RATE * 8192} bit/s", burst = "{RATE * 1024} B" }},')
    hosts.append(f'  {{ name = "server", role = "server", {wide} }},')
    text = EXPERIMENT.format(
        duration=WARM + DURATION,
        seeds=list(range(1, seeds + 1)),
        hosts="\n".join(hosts),
        large=json.dumps(large),
        small=json.dumps(small),
        warm=WARM,
        size=LARGE,
        first=WARM + BEFORE_SMALL,
        last=WARM + BEFORE_SMALL + 4,
        pause=PAUSE,
        timeout=TIMEOUT,
        base=setting.base,
    )
    with tempfile.TemporaryDirectory(prefix="onionlab-") as folder:
        file = Path(folder) / "full-exit.toml"
        file.write_text(text, encoding="utf-8")
        transfers = onionlab.run(file, Path(folder) / "out", report=False).transfers
    runs = []
    for _, of in transfers.sort("seed").group_by("seed", maintain_order=True):
        run = Run(setting.name, "onionlab")
        # One that is begun too late to be given up in time is not counted, there as here.
        begun = (
            of.filter(pl.col("group") == "small", pl.col("connected_ns").is_not_null())
            .filter(pl.col("connected_ns") < (WARM + DURATION - TIMEOUT) * 1e9)
            .select((pl.col("first_byte_ns", "last_byte_ns") - pl.col("connected_ns")) / 1e9)
        )
        run.small = [Small(first, last) for first, last in begun.iter_rows()]
        received = of.filter(pl.col("group") == "large").group_by("client").agg(pl.col("received_bytes").sum())
        run.large = [int(count) for count in received["received_bytes"]]
        run.large += [0] * (setting.large - len(run.large))
        runs.append(run)
    return runs


def main() -> int:
    """The command; 1 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tor", default="tor", help="the tor program to measure")
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each setting with tor (3); here there are five times as many"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "results" / "tor-full-exit.md", help="the page; its chart lies beside it"
    )
    arguments = parser.parse_args()
    found: list[Run] = []
    try:
        tor = find(arguments.tor)
        for setting in SETTINGS:
            found += simulated(setting, 5 * arguments.repeats)
            for repeat in range(arguments.repeats):
                found.append(real(tor, setting, repeat))
                print(f"{setting.name}, {repeat + 1} of {arguments.repeats}: {_said(found[-1:])}", file=sys.stderr, flush=True)
            print(f"{setting.name}, here: {_said(_of(found, setting, 'onionlab'))}", file=sys.stderr, flush=True)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    write(arguments.out, version(tor), found)
    print(arguments.out, file=sys.stderr)
    return 0


def _of(found: Sequence[Run], setting: Setting, who: str) -> list[Run]:
    return [run for run in found if (run.setting, run.who) == (setting.name, who)]


def _answered(run: Run) -> float:
    return statistics.mean(small.first is not None for small in run.small) if run.small else 0.0


def _ended(run: Run) -> float:
    return statistics.mean(small.last is not None for small in run.small) if run.small else 0.0


def _starved(run: Run) -> float:
    """The share of large downloads that got less than a twentieth of an equal share."""
    return statistics.mean(count < sum(run.large) / len(run.large) / 20 for count in run.large)


def _rate(run: Run) -> float:
    return sum(run.large) / 1024 / DURATION


def _first(runs: Sequence[Run]) -> float:
    return statistics.median(small.first for run in runs for small in run.small if small.first is not None)


def _said(runs: Sequence[Run]) -> str:
    answered, ended, starved = (statistics.mean(of(run) for run in runs) for of in (_answered, _ended, _starved))
    return f"{100 * answered:.0f} % answered, {100 * ended:.0f} % ended, {100 * starved:.0f} % of the large ones starved"


def _percent(runs: Sequence[Run], of: Callable[[Run], float]) -> str:
    values = [100 * of(run) for run in runs]
    return f"{statistics.mean(values):.0f} ({min(values):.0f} – {max(values):.0f})"


def write(out: Path, what: str, found: Sequence[Run]) -> None:
    """Writes ``out`` and, beside it, the chart."""
    runs = [len(_of(found, SETTINGS[0], who)) for who in WHO]
    lines = [
        "# An exit whose rate is never enough, beside real tor",
        "",
        f"A private network of real tor on one machine (an authority, {RELAYS} relays, an exit, a client and a server) and the same network here. The exit",
        f"passes {RATE} KiB a second (`BandwidthRate`, with a second's worth of `BandwidthBurst`). Large downloads, each over a circuit of its own by way of two of the",
        f"relays, fill it for {DURATION:.0f} s. Beside them {SMALL_CLIENTS} clients load {SMALL >> 10} KiB each time, over a new circuit, {PAUSE:g} s after the last, and give up {TIMEOUT:g} s after the request.",
        "",
        "Tokens come in steps and are taken in order of who asks first. KIST's writes may ask at any time; a connection that has found none is watched again after 100 ms with",
        "all others, in one order, and the same ones come last each time (`reenable_blocked_connections_cb`). So a full exit does not slow all down: it serves some and starves the rest.",
        "",
        f"- {what}",
        f"- {machine()}; what other programs do beside it adds to tor's times, not to ours",
        f"- {runs[0]} runs of each with tor, {runs[1]} here; means over runs, with the least and the most",
        "",
        "This page was written by",
        "",
        "    .venv/bin/python tools/measure_tor/full_exit.py",
        "",
        "![Times to the first byte, and bytes of large downloads](tor-full-exit.svg)",
        "",
        "| large downloads | who | small ones with a first byte, % | first byte, median, s | small ones that ended, % | large ones that starved, % | all large ones, KiB/s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for setting in SETTINGS:
        for who in WHO:
            of = _of(found, setting, who)
            lines.append(
                f"| {setting.name} | {who} | {_percent(of, _answered)} | {_first(of):.2g} | {_percent(of, _ended)} | {_percent(of, _starved)} | {statistics.mean(map(_rate, of)):.0f} |"
            )
    lines += [
        "",
        "Starved: less than a twentieth of an equal share. A small download counts once its stream is connected; circuits that are not built in time are tried again.",
        "",
    ]
    out.write_text("\n".join(lines), encoding="utf-8")
    _chart(out.with_suffix(".svg"), found)


def _chart(path: Path, found: Sequence[Run]) -> None:
    color = alt.Color("who:N", scale=alt.Scale(domain=WHO), title=None)
    dash = alt.StrokeDash("who:N", scale=alt.Scale(domain=WHO), title=None)
    rows = []
    for setting in SETTINGS:
        small, large = [], []
        for who in WHO:
            of = _of(found, setting, who)
            times = [one.first for run in of for one in run.small]
            came = sorted(one for one in times if one is not None)
            small += [{"who": who, "x": max(at, LEAST), "y": 100 * (rank + 1) / len(times)} for rank, at in enumerate(came)]
            shares = [sorted((count / 1024 / DURATION for count in run.large), reverse=True) for run in of]
            large += [
                {"who": who, "x": 100 * (rank + 0.5) / setting.large, "y": statistics.mean(run[rank] for run in shares)}
                for rank in range(setting.large)
            ]
        first = (
            alt.Chart(alt.InlineData(values=small), width=300, height=150, title=f"{setting.name}: small downloads")
            .mark_line(interpolate="step-after")
            .encode(
                x=alt.X(
                    "x:Q",
                    scale=alt.Scale(type="log", domain=[LEAST, TIMEOUT], nice=False),
                    axis=alt.Axis(values=TICKS),
                    title="time to the first byte, s",
                ),
                y=alt.Y("y:Q", scale=alt.Scale(domain=[0, 100]), title="% of those begun"),
                color=color,
                strokeDash=dash,
            )
        )
        bytes_of = (
            alt.Chart(alt.InlineData(values=large), width=300, height=150, title=f"{setting.name}: large downloads")
            .mark_line()
            .encode(
                x=alt.X("x:Q", scale=alt.Scale(domain=[0, 100]), title="% of downloads, from the largest"),
                y=alt.Y("y:Q", title="KiB/s"),
                color=color,
                strokeDash=dash,
            )
        )
        rows.append(alt.hconcat(first, bytes_of))
    chart = alt.vconcat(*rows)
    path.write_text(to_svg({**chart.to_dict(), "config": config()}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
