"""The page of `onionlab.reproductions.switching`: claims, each experiment beside the papers' figures, what they leave open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onionlab import _core
from onionlab.quantity import format_duration, format_fixed
from onionlab.reproductions import claims_table
from onionlab.reproductions.claims import Comparison, Judged, Rule
from onionlab.reproductions.figures import NOTHING, change, level, percent
from onionlab.reproductions.switching import further, live, network, testbeds

if TYPE_CHECKING:
    from onionlab.reproductions.switching import Asked

#: Metrics in words, with their unit and the places that are shown.
WORDS = {
    "share": ("share of the averages", "%", 1),
    "switch-time": ("time to switch", "s", 3),
    "capacity": ("capacity", "Mbit/s", 2),
    "throughput": ("throughput", "KB/s", 1),
    "drop-rate": ("lost", "%", 3),
    "latency": ("latency", "s", 3),
    "first-byte": ("first byte", "s", 2),
    "last-byte": ("last byte", "s", 2),
    "spread": ("spread", "s", 2),
    "cells": ("cells", "", 0),
    "queued": ("queued", "cells", 1),
}

INTRODUCTION = """\
# Circuit switching: does an entry that moves bulky circuits relieve congestion?

An entry that finds an outbuf congested moves its bulkiest circuits to other paths, which their clients built beforehand. Kale,
Ohzahata, Wu and Kato tried it on a testbed and partly on the live network, with clients that send ("Reducing Congestion in the
Tor Network with Circuit Switching", JIP 23(5), 2015), and on a simulated network of 150 relays, with clients that download
("Emulation Evaluations of Tor Schedulers with Active Circuit Switching", 2017). How it works here, cell by cell:
[models/switching.md](../models/switching.md).

This page was written by

    onionlab reproduce switching{options}
"""

QUICK = """
> **This is the quick run,** some four minutes on two idle cores. The testbed of the claims is whole. The simulated network is
> not: {networks} sampled networks of {minutes:g} simulated minutes instead of ten of a hundred; nor are the experiments with
> relays of a consensus ({seeds} seeds instead of ten) and those on what the papers leave open. There it shows large differences
> and that everything works; "undecided" says nothing. The whole is expected to take 67 minutes of one core, 35 minutes on two.
"""


def page(
    asked: Asked,
    bed: testbeds.Measured,
    on_live: testbeds.Measured,
    sampled: network.Measured,
    others: further.Measured,
    judged: Sequence[Judged],
    *,
    quick: bool,
) -> str:
    """The page as Markdown."""
    rule = asked.rule
    lines = [INTRODUCTION.format(options=" --quick" if quick else "")]
    if quick:
        lines.append(QUICK.format(networks=sampled.replicates, minutes=sampled.minutes, seeds=on_live.seeds))
    lines += ["## In short", ""]
    lines += claims_table.short(judged)
    lines += ["## The claims", ""]
    replicates = f"{bed.seeds} seeds or {sampled.replicates} networks"
    lines += claims_table.explanation(rule, len(judged), replicates, "What each figure is: `experiments/switching/claims.toml`.")
    lines += claims_table.table(judged, WORDS)
    lines += ["## The testbed", ""]
    lines += _averages(asked.published["testbed"], bed)
    lines += _switch_times(asked.published["testbed"], bed)
    lines += _capacities(asked.published["testbed"], bed, rule)
    lines += _throughputs(asked.published["testbed"], bed, rule)
    lines += ["## Middles and exits of a real consensus", ""]
    lines += _live(asked.published["live"], on_live, rule)
    lines += ["## The simulated network", ""]
    lines += _network(asked.published["network"], sampled, rule)
    lines += ["## What differs, and why", "", "| what | mechanism | evidence |", "| --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['mechanism']} | {row['evidence']} |" for row in asked.differences]
    lines += ["", "## What the papers leave open", ""]
    lines += further.page(others, rule)
    lines += ["## What the papers do not say of their experiments", "", "| what | chosen | why |", "| --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['chosen']} | {row['why']} |" for row in asked.assumptions]
    lines += ["", "## Runs", ""]
    on_beds = bed.seconds + sum(one.seconds for one in others.beds.values()) + others.attacked.seconds + on_live.seconds
    on_networks = sampled.seconds + sum(one.seconds for one in others.networks.values())
    lines.append(
        f"The testbeds took {format_duration(round(on_beds))}, the simulated networks {format_duration(round(on_networks))}, one "
        f"run after the other, whatever else the machine did included. onionlab {_core.version()}, build {_core.build()}. What "
        "is finished is kept: the same command goes on where it stopped."
    )
    return "\n".join([*lines, ""])


def _averages(published: Mapping[str, Any], bed: testbeds.Measured) -> Iterator[str]:
    yield from ("### Averages (table 1)", "")
    yield (
        "Each circuit's moving average of cells put into the outbuf, gamma 0.7, as its share of the four; the circuits are "
        "watched and not moved. The client's delay to the entry, one way, is 120, 60, 20 and 10 ms."
    )
    printed = published["average"]["mean-and-uncertainty"]
    total = sum(mean for mean, _ in printed.values())
    yield from ("", "| client | the paper | share there | here |", "| --- | ---: | ---: | ---: |")
    for client in testbeds.CLIENTS:
        mean, uncertainty = printed[client]
        ours = level(bed.figures, 1, place=client, treatment=testbeds.WATCHED, metric="share")
        yield f"| {client} | {mean:.3f} ± {uncertainty:.2f} | {format_fixed(100 * mean / total, 0)} % | {_unit(ours, '%')} |"
    yield ""


def _switch_times(published: Mapping[str, Any], bed: testbeds.Measured) -> Iterator[str]:
    yield from ("### Time to switch (figures 4 and 5)", "")
    yield "Medians of a run, mean over seeds; switches: of a run."
    yield from ("", "| alpha and beta | the paper's median | here, s | switches |", "| --- | ---: | ---: | ---: |")
    below = published["switch-time"]["median-below"]
    for treatment in (*testbeds.PAIRS, testbeds.OTHER):
        printed = f"below {below[treatment]:g} s" if treatment in below else ""
        at = {"place": testbeds.WHOLE, "treatment": treatment}
        time, count = (
            level(bed.figures, places, **at, metric=metric) for metric, places in (("switch-time", 3), ("switches", 0))
        )
        yield f"| {treatment} | {printed} | {time} | {count} |"
    yield ""
    yield from ("![Times to switch by thresholds](switching-switch-time.svg)", "")
    yield from ("![Times to switch by entry](switching-entries.svg)", "")


def _capacities(published: Mapping[str, Any], bed: testbeds.Measured, rule: Rule) -> Iterator[str]:
    yield from ("### Capacities (figure 6)", "")
    yield "What relays send while all four clients do, Mbit/s, and how much more than without switching."
    yield ""
    yield "| relay | the paper's median gain | without switching | same entry, more | another entry, more |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for relay in testbeds.RELAYS:
        before = level(bed.figures, 2, place=relay, treatment=testbeds.MULTIPLEXED, metric="capacity")
        more = [
            change(bed.figures, Comparison("capacity", treatment, testbeds.MULTIPLEXED, relay, None, "greater"), rule, 2)
            for treatment in (testbeds.CHOSEN, testbeds.OTHER)
        ]
        yield f"| {relay} | {published['capacity-gain']['median'][relay]:g} | {before} | {' | '.join(more)} |"
    yield ""
    yield from ("![Capacities after less before](switching-capacity.svg)", "")


def _throughputs(published: Mapping[str, Any], bed: testbeds.Measured, rule: Rule) -> Iterator[str]:
    yield from ("### Throughput, losses, latency (table 2, figures 7 and 8)", "")
    yield (
        "The paper's throughputs are read as of one client; they are near to what all four have together here. In brackets the "
        "difference to the first row, an asterisk where its 95 % interval excludes zero."
    )
    yield ""
    yield "| | KB/s, paper | here | all four together | lost, %, paper | here | latency, s, paper's median | here |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for treatment in (testbeds.MULTIPLEXED, *testbeds.PAIRS, testbeds.OTHER):
        key = {testbeds.MULTIPLEXED: "multiplexed", testbeds.CHOSEN: "switching"}.get(treatment)
        yield f"| {treatment} | {' | '.join(_beside(published, key, bed, testbeds.WHOLE, treatment, rule))} |"
    yield ""
    yield from ("![Throughput and latency](switching-throughput.svg)", "")


def _beside(
    published: Mapping[str, Any],
    key: str | None,
    bed: testbeds.Measured,
    place: str,
    treatment: str,
    rule: Rule,
    base: str = testbeds.MULTIPLEXED,
) -> Iterator[str]:
    """Cells of a row: the paper's and ours."""
    mean, uncertainty = published["throughput"]["mean-and-uncertainty"].get(key, (None, None))
    yield f"{mean} ± {uncertainty}" if mean is not None else ""
    yield from (_with_percent(bed, place, treatment, metric, 1, rule, base) for metric in ("throughput", "together"))
    yield f"{published['drop-rate'][key]}" if key is not None else ""
    yield level(bed.figures, 3, place=place, treatment=treatment, metric="drop-rate")
    yield f"{published['latency']['median-below'][key]}" if key is not None else ""
    yield _with_percent(bed, place, treatment, "latency", 2, rule, base)


def _with_percent(bed: testbeds.Measured, place: str, treatment: str, metric: str, places: int, rule: Rule, base: str) -> str:
    text = level(bed.figures, places, place=place, treatment=treatment, metric=metric)
    differs = "" if treatment == base else percent(bed.figures, Comparison(metric, treatment, base, place, None, "equal"), rule)
    return f"{text} ({differs})" if differs else text


def _live(published: Mapping[str, Any], on_live: testbeds.Measured, rule: Rule) -> Iterator[str]:
    gain = published["capacity-gain"]["median"][live.ENTRY]
    yield (
        "The same four clients send over an entry of their own and relays of the consensus of March 2017, which carry others' "
        f"traffic too; {on_live.seeds} seeds. Sockets are the testbed's 16 KiB, or with “usual sockets” those of Linux. In "
        "brackets the difference to the same without switching, an asterisk where its 95 % interval excludes zero. The paper's "
        f"entry forwards {gain} Mbit/s more with switching (median, figure 10)."
    )
    yield ""
    head = "| | KB/s, paper | here | all four together | lost, %, paper | here | latency, s, paper's median | here |"
    yield f"{head} entry sends, Mbit/s | switches |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for treatment in on_live.treatments:
        key = treatment if treatment in published["drop-rate"] else None
        cells = list(_beside(published, key, on_live, live.PLACE, treatment, rule, live.base(treatment)))
        cells.append(_with_percent(on_live, live.PLACE, treatment, "capacity", 2, rule, live.base(treatment)))
        cells.append(level(on_live.figures, 1, place=live.PLACE, treatment=treatment, metric="switches"))
        yield f"| {treatment} | {' | '.join(cells)} |"
    yield ""
    yield from ("![Throughput and latency, relays of a real consensus](switching-live.svg)", "")


def _network(published: Mapping[str, Any], sampled: network.Measured, rule: Rule) -> Iterator[str]:
    yield (
        f"150 relays, ten web and ten bulk clients, tor 0.2.4; {sampled.replicates} sampled networks of {sampled.minutes:g} "
        "simulated minutes. Medians of a run, means over networks with their 95 % intervals; in brackets the difference to "
        "“vanilla”."
    )
    columns = {
        "web first byte, s": ("web", "first-byte", 2),
        "320 KiB, s": ("web", "last-byte", 2),
        "bulk first byte, s": ("bulk", "first-byte", 2),
        "5 MiB, s": ("bulk", "last-byte", 2),
        "its spread, s": ("bulk", "spread", 2),
        "cells, web": ("web", "cells", 0),
        "cells, bulk": ("bulk", "cells", 0),
        "switches a minute": (network.WHOLE, "switches", 1),
    }
    yield from ("", f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}")
    for treatment in sampled.treatments:
        cells = []
        for place, metric, places in columns.values():
            text = level(sampled.figures, places, place=place, treatment=treatment, metric=metric)
            part = Comparison(metric, treatment, network.VANILLA, place, None, "equal")
            differs = percent(sampled.figures, part, rule) if treatment != network.VANILLA and metric != "switches" else ""
            cells.append(f"{text} ({differs})" if differs else text)
        yield f"| {treatment} | {' | '.join(cells)} |"
    yield ""
    printed = published["cells-queued"]["median-below"]
    positions = ("entries", "middles", "exits")
    yield ("Cells in a relay's circuit queues, mean over the relays of a position; the paper's are medians of its figure 4 (f).")
    yield ""
    yield f"| | the paper, web | bulk | here, {' | '.join(positions)} |"
    yield f"| --- | ---: | ---: |{' ---: |' * len(positions)}"
    for treatment in sampled.treatments:
        ours = [level(sampled.figures, 2, place=place, treatment=treatment, metric="queued") for place in positions]
        theirs = printed[treatment]
        yield f"| {treatment} | below {theirs['web']} | below {theirs['bulk']} | {' | '.join(ours)} |"
    yield ""
    yield from ("![The paper's figure 4](switching-network.svg)", "")


def _unit(text: str, unit: str) -> str:
    return text if text == NOTHING else f"{text} {unit}"
