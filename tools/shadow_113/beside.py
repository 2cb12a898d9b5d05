# ruff: noqa: E501  (sentences)
"""Runs the networks of `make.py` here, beside what real tor in Shadow 1.13 has made of them, and writes ``docs/results/shadow-113.md``.

    .venv/bin/python tools/shadow_113/beside.py
    .venv/bin/python tools/shadow_113/beside.py --shadow FOLDER --name two-exits-4 --middles 40 --exits 2 --clients 11 --interval 8053692 --seed 1

The second form takes what Shadow has left in a folder into ``measured/`` before. It needs tgen's Markov models (``../shared/data/network``). Markov clients ask for the same streams here as there, at the same times.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import one_by_one
import polars as pl
from make import LATENCY_MS, LOAD, RATE
from ours import BEGIN, imported, spread
from ours import downloads as downloads_of
from shadow import SCHEMA, connections, take

import onionlab
from onionlab.charts.export import to_svg
from onionlab.charts.theme import config

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: Runs here of each network.
SEEDS = 10
#: Downloads and outbufs are compared from so many seconds of load on, for as long as Shadow's runs go.
SETTLED = 120
#: Connections that are followed were opened from one second of load to another, and are followed to a third, by so many seeds here.
FROM, TO, AT, FEW = 120, 240, 480, 4
#: A faster exit fills in a minute and a half; it is looked at for so long, by so many seeds here.
FAST_FROM, FAST_TO, FAST_EACH, FAST_SEEDS = 100, 200, 20, 5
#: Clients that measure begin each minute; at a full link they are looked at so long, by so many seeds here.
MINUTE, FULL_TO, FULL_SEEDS = 60, 600, 10
#: Sizes of downloads; how a network is called whose clients have another exit to go to.
SIZES_CALLED = ((51_200, "50 KiB"), (1 << 20, "1 MiB"), (5 << 20, "5 MiB"))
ANOTHER = "another exit"


@dataclass(frozen=True)
class Run:
    """One run: downloads by when they began, since the load did, and the outbufs of the exit's channels by the same time."""

    downloads: pl.DataFrame
    outbufs: list[tuple[float, float]]

    @property
    def failed(self) -> float:
        """Of its downloads, in percent."""
        return 100 * float((~self.downloads["ok"]).mean())  # type: ignore[arg-type]

    def outbuf(self, minute: float) -> float:
        """MB in the exit's outbufs about then."""
        near = [size for time, size in self.outbufs if abs(time - 60 * minute) <= 30]
        return statistics.fmean(near) / 1e6 if near else float("nan")


def measured(file: Path) -> tuple[dict[str, Any], Run]:
    """A run of Shadow's."""
    kept = json.loads(file.read_text())
    frame = pl.DataFrame(kept["downloads"], schema=SCHEMA, orient="row").filter(pl.col("time") >= SETTLED)
    return kept["setting"], Run(frame, [(row[0], row[2]) for row in kept["exit"]])


@dataclass(frozen=True)
class Lives:
    """What became of the connections that the exit opened from second `FROM` to `TO` of the load, by second `AT`."""

    opened: int
    left: int
    lasted: tuple[float, ...]

    @classmethod
    def of(cls, times: Sequence[tuple[float, float]]) -> Lives:
        """`times`: when each was opened and when it was over."""
        cohort = [(begin, min(end, AT)) for begin, end in times if FROM <= begin < TO]
        over = [end - begin for begin, end in cohort if end < AT]
        return cls(len(cohort), len(cohort) - len(over), tuple(np.quantile(over, [0.5, 0.75, 0.9]).tolist()))


def lives(setting: dict[str, Any], folder: Path) -> list[Lives]:
    """The same here, by `FEW` seeds."""
    file = imported(setting, folder, AT, FEW, record=True)
    results = onionlab.run(file, folder / "results", report=False)
    over = results.circuits.filter(pl.col("exit") == "exita").select("seed", "circuit")
    streams = results.transfers.join(over, on=["seed", "circuit"])
    return [
        Lives.of([(begin / 1e9 - BEGIN, AT if outcome == "unfinished" else end / 1e9 - BEGIN) for begin, end, outcome in rows])
        for rows in (
            streams.filter(pl.col("seed") == seed).select("connected_ns", "end_ns", "outcome").drop_nulls().rows()
            for seed in range(1, FEW + 1)
        )
    ]


@dataclass(frozen=True)
class FastExit:
    """What an exit of 10 MB/s holds by second of load: there its channels' outbufs, streams with something for their servers, and how much; here the outbufs of each run."""

    there: dict[int, tuple[int, int, int]]
    here: list[dict[int, int]]


def fast_exit(file: Path, folder: Path) -> FastExit:
    """Reads what Shadow's exit had, and runs the same here."""
    kept = json.loads(file.read_text())
    experiment = imported(kept["setting"], folder, FAST_TO + 5, FAST_SEEDS)
    relays = onionlab.run(experiment, folder / "results", report=False).relays.filter(pl.col("relay") == "exita")
    runs: list[dict[int, int]] = [{} for _ in range(FAST_SEEDS)]
    for seed, time, size in relays.select("seed", "time_ns", "outbuf_bytes").iter_rows():
        runs[seed - 1][round(time / 1e9) - BEGIN] = size
    return FastExit({row[0]: (row[2], row[4], row[5]) for row in kept["exit"]}, runs)


#: What is compared at a full link: from which time to which, and of which size.
MEASURED: dict[str, tuple[str, str, int | None]] = {
    "to be connected": ("", "connected", None),
    "to the first byte": ("connected", "first", None),
    "to the last": ("connected", "last", SIZES_CALLED[0][0]),
}


@dataclass(frozen=True)
class FullLink:
    """What clients measure that all begin at the same moments and have one exit, whose link is full: there, and here by seed. See `SCHEMA`."""

    there: pl.DataFrame
    here: list[pl.DataFrame]

    def _at(self, moment: int) -> list[pl.DataFrame]:
        """The downloads that began then, there and of each seed."""
        return [frame.filter((pl.col("time") / MINUTE).round() == moment // MINUTE) for frame in (self.there, *self.here)]

    def rows(self) -> Iterator[str]:
        """A line of the table for each moment: how many fail, and medians of those that do not."""
        for moment in range(MINUTE, FULL_TO + 1, MINUTE):
            there, *here = self._at(moment)
            cells = [f"{_failed(there)}", spread([_failed(frame) for frame in here], 0)]
            for of in MEASURED.values():
                cells += [spread(known, 2) if known else "-" for known in (_medians([there], *of), _medians(here, *of))]
            yield f"| {moment} | {' | '.join(cells)} |"

    def agreement(self) -> str:
        """How many medians of there lie between the least and the most of here."""
        counts = []
        for what, of in MEASURED.items():
            pairs = [
                (known[0], others)
                for there, *here in map(self._at, range(MINUTE, FULL_TO + 1, MINUTE))
                if (known := _medians([there], *of)) and (others := _medians(here, *of))
            ]
            counts.append(f"{sum(min(others) <= value <= max(others) for value, others in pairs)} of {len(pairs)} {what}")
        return f"Of the medians there, {', '.join(counts)} lie between the least and the most of here."


def _failed(downloads: pl.DataFrame) -> int:
    return int((~downloads["ok"]).sum())


def _medians(runs: Sequence[pl.DataFrame], begin: str, end: str, size: int | None) -> list[float]:
    """Of each run in which any download ended: seconds from one time of it (the start, if it has no name) to another; of a size, if it is given."""
    chosen = [run.filter(pl.col("ok") & (pl.lit(True) if size is None else pl.col("size") == size)) for run in runs]
    return [float(np.median(run[end] - run[begin] if begin else run[end])) for run in chosen if len(run)]


def full_link(file: Path, folder: Path) -> FullLink:
    """Reads what clients had in Shadow, and runs the same here."""
    kept = json.loads(file.read_text())
    there = pl.DataFrame(kept["downloads"], schema=SCHEMA, orient="row")
    # The last of them are given up after two minutes.
    experiment = imported(kept["setting"], folder, FULL_TO + 125, FULL_SEEDS)
    downloads = downloads_of(onionlab.run(experiment, folder / "results", report=False))
    return FullLink(there, [downloads.filter(pl.col("seed") == seed) for seed in range(1, FULL_SEEDS + 1)])


def here(setting: dict[str, Any], folder: Path) -> list[Run]:
    """The same network, by as many seeds."""
    file = imported(setting, folder, LOAD, SEEDS)
    results = onionlab.run(file, folder / "results", report=False)
    downloads = downloads_of(results).filter((pl.col("time") >= SETTLED) & (pl.col("time") < LOAD - 15))
    exits = results.relays.filter(pl.col("relay") == "exita")
    return [
        Run(
            downloads.filter(pl.col("seed") == seed),
            [
                (time / 1e9 - BEGIN, size)
                for time, size in exits.filter(pl.col("seed") == seed).select("time_ns", "outbuf_bytes").iter_rows()
            ],
        )
        for seed in sorted(downloads["seed"].unique())
    ]


def _quantiles(runs: Sequence[Run], size: int, what: str) -> str:
    """From the request to the first or the last byte: p10, p25, p50 of all downloads of a size that ended."""
    frame = pl.concat([run.downloads for run in runs]).filter((pl.col("size") == size) & pl.col("ok"))
    times = (frame[what] - frame["connected"]).to_numpy()
    return ", ".join(f"{value:.2f}" for value in np.quantile(times, [0.1, 0.25, 0.5]))


def _paused(runs: Sequence[Run], size: int) -> str:
    """From the first to the last byte, median, of downloads whose request stood still for a second."""
    frame = pl.concat([run.downloads for run in runs]).filter((pl.col("size") == size) & pl.col("ok"))
    times = frame.filter((pl.col("first") - pl.col("connected")).is_between(1.2, 1.3)).select(pl.col("last") - pl.col("first"))
    return f"{np.median(times.to_series()):.2f}" if len(times) else "-"


def _row(who: str, runs: Sequence[Lives]) -> str:
    """A line of the table of connections: sums and the means of quantiles over runs."""
    opened, left = (sum(getattr(of, name) for of in runs) for name in ("opened", "left"))
    lasted = " | ".join(f"{statistics.fmean(of.lasted[place] for of in runs):.0f}" for place in range(3))
    return f"| {who} | {len(runs)} | {opened} | {left} | {lasted} |"


def _name(setting: dict[str, Any]) -> str:
    """What tells a network and its load from others."""
    exits = "one exit" if setting["exits"] == 1 else ANOTHER
    clients = f"{setting['clients']} clients{'' if setting['seed'] == 1 else ' with other streams'}"
    return f"{setting['middles']} middles, {exits}, {clients}{'' if setting['patient'] else ', servers that give up'}"


def _is_within(value: float, others: Sequence[float]) -> bool:
    """Whether it is one that the others might have: from the least to the most of them, as they are printed."""
    return round(min(others), 1) <= round(value, 1) <= round(max(others), 1)


def page(
    networks: Sequence[tuple[str, list[Run], list[Run]]],
    fast: FastExit,
    alone: FullLink,
    one_after_another: Sequence[one_by_one.Runs],
    followed: Sequence[tuple[str, list[Lives]]],
) -> str:
    """The page."""
    lines = [
        "# An exit short of tokens, in Shadow 1.13",
        "",
        "The [published networks](shadow-networks.md) are of real tor 0.3.5 in Shadow 1.13. What that does at an exit that is asked for more than its tor passes was measured with the programs themselves, on networks small enough to look into: "
        "tor 0.3.5.8, tgen 1.0.0 and Shadow at the commit that they had ([how](../../tools/shadow_113/README.md)). Four guards, some middles, an exit with `BandwidthRate` 2 MB/s, perhaps another without; clients of tgen's Markov models, "
        f"and 24 that download 50 KiB, 1 MiB or 5 MiB each minute, for {LOAD // 60} minutes; links of 1 Gbit/s, {LATENCY_MS:g} ms from host to host.",
        "",
        "**The Markov clients ask for the same here as there**, byte for byte and at the same times: what tgen draws depends on its seeds alone, and is [replayed](../models/load.md#what-was-recorded). Paths are drawn, and what the measuring clients ask for.",
        "",
        "This page was written by",
        "",
        "    .venv/bin/python tools/shadow_113/beside.py",
        "",
        "![What waits in the exit's outbufs, there and here](shadow-113.svg)",
        "",
        "| network | who | runs | downloads that fail, % | MB in the exit's outbufs after 8 min of load | after 12 | after 16 |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, there, ours in networks:
        for who, runs in (("Shadow 1.13", there), ("onionlab", ours)):
            grown = " | ".join(spread([run.outbuf(minute) for run in runs], 1) for minute in (8, 12, 16))
            lines.append(f"| {name} | {who} | {len(runs)} | {spread([run.failed for run in runs], 1)} | {grown} |")
    within = [_is_within(run.failed, [of.failed for of in ours]) for _, there, ours in networks for run in there]
    names = [
        name
        for name, there, ours in networks
        if not _is_within(statistics.fmean(run.failed for run in there), [run.failed for run in ours])
    ]
    apart = f" In the mean apart: {'; '.join(names)}. Why is not known." if names else ""
    outbufs = [
        _is_within(run.outbuf(minute), [of.outbuf(minute) for of in ours])
        for _, there, ours in networks
        for run in there
        for minute in (8, 12, 16)
    ]
    lines += [
        "",
        f"Means over runs, the least and the most of them; downloads that began {SETTLED} s after the load or later. Of {len(within)} runs of Shadow's {sum(within)} have as many downloads that fail as runs here have (between the least and the most of them), and {sum(outbufs)} of {len(outbufs)} sizes of outbufs lie so.{apart}",
        "",
        "With one exit nobody can leave it, and how many fail is steep: a second more or less in its outbufs decides who has an answer within 15 s. Clients of the network with 3 clients have enough circuits each to learn a time-out for building them, and leave the full exit by that.",
        "",
        "## Times of downloads",
        "",
        "From the request to the first and to the last byte, p10, p25, p50 in seconds, of all downloads that ended, whichever exit they had:",
        "",
        "| network | size | who | first byte | last byte |",
        "| --- | ---: | --- | --- | --- |",
    ]
    for name, there, ours in networks:
        for size, called in SIZES_CALLED:
            for who, runs in (("Shadow 1.13", there), ("onionlab", ours)):
                lines.append(
                    f"| {name} | {called} | {who} | {_quantiles(runs, size, 'first')} | {_quantiles(runs, size, 'last')} |"
                )
    there, ours = ([run for name, *kinds in networks if ANOTHER in name for run in kinds[which]] for which in (0, 1))
    lines += [
        "",
        "Where tor reads a request in two parts, its exit holds back the second until the first is acknowledged, which takes a second, and the server's time-out ends meanwhile ([whole networks](shadow-networks.md#difference-4)). Its window is ten then and its threshold one, and the first acknowledgement makes it five. "
        "From the first byte to the last, medians in seconds over all networks with another exit:",
        "",
        "| size | Shadow 1.13 | onionlab |",
        "| ---: | ---: | ---: |",
        *(f"| {called} | {_paused(there, size)} | {_paused(ours, size)} |" for size, called in SIZES_CALLED),
        "",
        "Before this was measured the window became eleven here, as Linux would have it: 0.18, 1.77 and 5.30 s.",
        "",
        "## Who has the tokens",
        "",
        "With four middles the exit has four channels that carry streams, and it does not matter who comes first. With forty it does, and that is how it was found what the simulator had wrong: channels came first at each wake-up here, requests to servers had no tokens until their clients gave up "
        "(in a run that was looked into 700 of them waited after ten minutes, with 8 MB, and 5 MB at the most in the channels' outbufs), and 37 to 75 of 408 downloads failed in four runs.",
        "",
        "Shadow's epoll says what is ready in the order of a hash table over descriptors. tor's callbacks there were noted for a second: its channels had descriptors 807 to 1,543, its streams up to 236,558, and in the table they lay mixed. Shadow was asked which calls take so many: of the 55,000 that its exit took in starting and in the first two minutes of "
        "load 51,960 were timers, one for each time that tor waits for its sockets, of which nearly none was free again. Here connections alone had descriptors, the lowest first, so that channels lay at the beginning. Now each wait takes one (`crates/tor/src/connections.rs`). "
        "The callbacks also say that the order is the table's in each pass of tor's event loop, and so it is here (`World::order_pass`).",
        "",
        "That was not all, and an exit of 2 MB/s does not show the rest. One of 10 MB/s has several hundred streams at a time that wait for tokens, and a table of a thousand places for them. Channels had 10 to 276 here, since a relay here has nothing to do before the first circuits come; there a relay has taken some eight hundred descriptors in starting, and takes one each second. "
        "So all channels lay in the first quarter of the table here, took the tokens at each wake-up, and requests to servers piled up instead of what comes from them. Now the first connection has the 794th here, and each second takes one. The same with 30 clients, one run there; here in brackets the least and the most of "
        f"{FAST_SEEDS} runs:",
        "",
        "| s of load | MB in the exit's outbufs there | here | streams with something for their servers, there | MB of it |",
        "| ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {second} | {fast.there[second][0] / 1e6:.1f} | {spread([run[second] / 1e6 for run in fast.here], 1)} | {fast.there[second][1]} | {fast.there[second][2] / 1e6:.1f} |"
            for second in range(FAST_FROM, FAST_TO + 1, FAST_EACH)
        ),
        "",
        "Before, one run had 3.7, 3.0, 2.9, 3.5, 1.1 and 1.5 MB in the outbufs here, and after 165 s 916 streams with 7.7 MB for their servers, where there were 301 with 3.0 MB there.",
        "",
        "## An exit whose link is full",
        "",
        "Here it is the exit's link that passes 2 MB/s, each way, and its tor passes all. It is the only exit, of five Markov clients; four guards, forty middles, servers that wait for ever. The 24 clients that measure begin at the same moments, so that these can be looked at one by one: how many of 24 fail, "
        f"and medians of those that do not, in seconds, to be connected, from then to the first byte, and to the last of 50 KiB. One run there, {FULL_SEEDS} seeds here (the least and the most in brackets); what they ask for is drawn, and is a tenth of what the link carries.",
        "",
        "| s of load | fail there | here | connected there | here | first byte there | here | last byte there | here |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *alone.rows(),
        "",
        alone.agreement(),
        "",
        "What waits before the exit's downlink was noted each 20 ms in a second run there, with other paths, and in one seed here. From the 20th to the 40th second of load it is 15.2 KB in the mean there and 14.9 here, 51.9 and 50.9 to the 60th, 74.7 and 73.7 from the 100th to the 120th, "
        "with 99 of 100 below 166, 343 and 424 KB there and 173, 315 and 402 here. In a third run there packets were noted: two Markov streams bring 330 KB within the quarter of a second in which the requests of second 120 come, which then wait 100 ms before the exit; in the second run, and in the seed here, they do not. Whether that is why the first run is slower there than all ten seeds here is not known.",
        "",
        *one_by_one.section(one_after_another),
        "## Servers that give up",
        "",
        'tgen\'s servers close a connection on which they have neither received nor written anything for 30 s (`DEFAULT_STREAM_STALLOUT_NSEC`), unless they are told otherwise. tornettools tells them to wait for ever (`stallout`, `timeout`: "0 seconds", from its first version on), and so do the published networks; some of the small ones here were not told, and have `server-stall` here. '
        "It makes much of a difference where an exit is full: what stands still goes away.",
        "",
        "The same with an exit whose link, not its tor, passes 2 MB/s, and 16 clients, who ask for much more than that. Each connection to a server that the exit opened from the 120th to the 240th second of load was followed to the 480th; Shadow looks each 15 s, so that a lifetime there may be up to 15 s short:",
        "",
        "| who | runs | connections | still open | lasted, s: p50 | p75 | p90 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_row(who, of) for who, of in followed),
        "",
    ]
    return "\n".join(lines)


def chart(networks: Sequence[tuple[str, list[Run], list[Run]]]) -> alt.ConcatChart:
    """MB in outbufs over time."""
    panels = []
    for name, there, ours in networks:
        rows = [
            {"minutes": time / 60, "MB": size / 1e6, "who": who, "run": f"{who} {number}"}
            for who, runs in (("onionlab", ours), ("Shadow 1.13", there))
            for number, run in enumerate(runs)
            for time, size in run.outbufs
            if time >= 0 and round(time) % 15 == 0
        ]
        panels.append(
            alt.Chart(pl.DataFrame(rows), title=textwrap.wrap(name, 44), width=290, height=190)
            .mark_line(strokeWidth=1.5)
            .encode(
                x=alt.X("minutes:Q", title="minutes of load"),
                y=alt.Y("MB:Q", title="MB in the exit's outbufs"),
                color=alt.Color("who:N", title=None, sort=["Shadow 1.13", "onionlab"]),
                strokeOpacity=alt.condition("datum.who == 'onionlab'", alt.value(0.35), alt.value(1)),
                detail="run:N",
            )
        )
    return alt.concat(*panels, columns=2)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shadow", type=Path, help="a folder in which Shadow has run: kept first, under --name")
    parser.add_argument("--name", default="two-exits-1")
    parser.add_argument(
        "--short",
        default="rate",
        choices=("rate", "link", "links"),
        help="of a link, with another exit, what is kept is the exit's connections",
    )
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--spread", action="store_true", help="clients that measure begin one after the other")
    parser.add_argument("--until", type=int, default=240, help="with --spread: the second of load until which downloads are kept")
    parser.add_argument("--middles", type=int, default=40)
    parser.add_argument("--exits", type=int, default=2)
    parser.add_argument("--clients", type=int, default=11)
    parser.add_argument("--interval", type=int, default=8_053_692)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers-give-up", action="store_true", help="tgen's servers were not told to wait for ever")
    parser.add_argument("--work", type=Path, help="a folder in which runs stay, so that the same command goes on where it ended")
    parser.add_argument("--no-page", action="store_true", help="keep what Shadow has left, and no more")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "results" / "shadow-113.md", help="the page; its chart lies beside it"
    )
    given = parser.parse_args()
    if given.shadow is not None:
        setting = {"middles": given.middles, "exits": given.exits, "clients": given.clients, "interval_us": given.interval}
        setting |= {"seed": given.seed, "patient": not given.servers_give_up}
        if given.spread:
            setting |= {"short": given.short, "rate": given.rate, "spread": True, "until": given.until}
            one_by_one.take(given.shadow, HERE / "measured" / "one-by-one" / f"{given.name}.json", setting)
        elif given.short == "link" and given.exits == 1:
            take(given.shadow, HERE / "measured" / "streams" / "full-link-alone.json", setting | {"short": "link"})
        elif given.short == "link":
            kept = {"setting": setting | {"short": "link"}, "connections": connections(given.shadow / "shadow.log")}
            (HERE / "measured" / "streams" / "full-link.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n")
        else:
            take(given.shadow, HERE / "measured" / f"{given.name}.json", setting)
        if given.no_page:
            return
    by_setting: dict[str, tuple[dict[str, Any], list[Run]]] = {}
    for file in sorted((HERE / "measured").glob("*.json")):
        setting, run = measured(file)
        by_setting.setdefault(_name(setting), (setting, []))[1].append(run)
    temporary = tempfile.TemporaryDirectory(prefix="onionlab-") if given.work is None else nullcontext(str(given.work))
    with temporary as folder:
        networks = [
            (name, there, here(setting, Path(folder) / str(number)))
            for number, (name, (setting, there)) in enumerate(by_setting.items())
        ]
        one_after_another = one_by_one.both(HERE / "measured" / "one-by-one", Path(folder) / "one-by-one")
        fast = fast_exit(HERE / "measured" / "streams" / "fast-exit.json", Path(folder) / "fast")
        alone = full_link(HERE / "measured" / "streams" / "full-link-alone.json", Path(folder) / "alone")
        setting, times = json.loads((HERE / "measured" / "streams" / "full-link.json").read_text()).values()
        followed = [
            ("Shadow 1.13", [Lives.of(times)]),
            ("onionlab", lives(setting, Path(folder) / "link")),
            ("onionlab, servers that wait for ever", lives(setting | {"patient": True}, Path(folder) / "link-patient")),
        ]
    given.out.write_text(page(networks, fast, alone, one_after_another, followed))
    given.out.with_suffix(".svg").write_text(to_svg({**chart(networks).to_dict(), "config": config()}), encoding="utf-8")
    print(given.out)


if __name__ == "__main__":
    main()
