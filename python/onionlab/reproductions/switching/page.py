"""The page of `onionlab.reproductions.switching`: claims, each experiment beside the papers' figures, what they leave open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from onionlab.quantity import format_fixed
from onionlab.reproductions import claims_table
from onionlab.reproductions.claims import Comparison, Judged, Rule
from onionlab.reproductions.figures import NOTHING, change, level, percent
from onionlab.reproductions.kept import together, took
from onionlab.reproductions.published import differences_section
from onionlab.reproductions.switching import further, live, network, testbeds, thresholds
from onionlab.reproductions.switching.study import Study
from onionlab.stats.intervals import lower_quantile
from onionlab.stats.metrics import ordered

if TYPE_CHECKING:
    from onionlab.reproductions.switching import Asked, Measured

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
> and that everything works; "undecided" says nothing. The whole took 1 h 43 min of processor time, beside other work.
"""


def page(
    asked: Asked,
    measured: Measured,
    judged: Sequence[Judged],
    *,
    quick: bool,
    options: str = "",
) -> str:
    """The page as Markdown; ``options`` stand behind ``onionlab reproduce switching`` on it, and ``--quick``."""
    rule = asked.rule
    bed, on_live, sampled, others = measured.bed, measured.live, measured.network, measured.others
    lines = [INTRODUCTION.format(options=(" --quick" if quick else "") + options)]
    if quick:
        lines.append(QUICK.format(networks=sampled.replicates, minutes=sampled.minutes, seeds=on_live.replicates))
    lines += ["## In short", ""]
    lines += claims_table.short(judged)
    lines += ["## The claims", ""]
    replicates = f"{bed.replicates} seeds or {sampled.replicates} networks"
    nothing = f"Queues of less than {rule.nothing['queued']:g} cell on both sides are nothing to compare."
    what = "What each figure is: `experiments/switching/claims.toml`."
    lines += claims_table.explanation(rule, judged, replicates, nothing, what)
    lines += claims_table.table(judged, WORDS)
    lines += ["## The testbed", ""]
    lines += _averages(asked.published["testbed"], bed)
    lines += _switch_times(asked.published["testbed"], bed)
    lines += thresholds.page(measured.thresholds, asked.published["testbed"], rule)
    lines += _capacities(asked.published["testbed"], bed, rule)
    lines += _throughputs(asked.published["testbed"], bed, rule)
    lines += ["## Middles and exits of a real consensus", ""]
    lines += _live(asked.published["live"], on_live, rule)
    lines += ["## The simulated network", ""]
    lines += _network(asked.published["network"], sampled, rule)
    lines += differences_section(asked.differences)
    lines += ["## What the papers leave open", ""]
    lines += further.page(others, rule)
    lines += ["## What the papers do not say of their experiments", "", "| what | chosen | why |", "| --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['chosen']} | {row['why']} |" for row in asked.assumptions]
    lines += ["", "## Runs", ""]
    beds = (bed, measured.thresholds, on_live, *others.beds.values(), others.attacked)
    parts = {"the testbeds": beds, "the simulated networks": (sampled, *others.networks.values())}
    lines.append(took({name: together(made for one in own for made in one.made) for name, own in parts.items()}))
    return "\n".join([*lines, ""])


def _averages(published: Mapping[str, Any], bed: Study) -> Iterator[str]:
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


def _switch_times(published: Mapping[str, Any], bed: Study) -> Iterator[str]:
    yield from ("### Time to switch (figures 4 and 5)", "")
    yield (
        "From the entry's decision, with which SWITCH joins the outbuf behind the circuit's last cell on the old path, "
        "to the new "
        "exit's SWITCH_ACK, with which the first may follow on the new one. Medians of a run, mean over seeds; "
        "switches: of a run."
    )
    yield ""
    yield (
        "With another entry the same two instants enclose something else. No cell leaves the old path for the last time with the "
        "decision, and none is held: it is the round trip of SWITCHED_CONN alone, between relays, after which the client is told "
        "and goes on over the new path. That cannot be set beside the other rows, nor, as claim 3 does, beside the paper's "
        "figure 5, which ends with the first cell on the new path. Until then SWITCH's way to the client comes on top (10 to 120 "
        "ms of delay; `moved_ns` in the table `switches`), which was not kept."
    )
    yield from ("", "| alpha and beta | the paper's median | here, s | switches |", "| --- | ---: | ---: | ---: |")
    below = published["switch-time"]["median-below"]
    for treatment in (*testbeds.PAIRS, testbeds.OTHER):
        printed = f"below {below[treatment]:g} s" if treatment in below else ""
        at = {"place": testbeds.WHOLE, "treatment": treatment}
        time, count = (
            level(bed.figures, places, **at, metric=metric) for metric, places in (("switch-time", 3), ("switches", 0))
        )
        control = " (control alone)" if treatment == testbeds.OTHER else ""
        yield f"| {treatment} | {printed} | {time}{control} | {count} |"
    yield ""
    yield from ("![Times to switch by thresholds](switching-switch-time.svg)", "")
    yield from ("![Times from decision to SWITCH_ACK by entry](switching-entries.svg)", "")


def _capacities(published: Mapping[str, Any], bed: Study, rule: Rule) -> Iterator[str]:
    yield from ("### Capacities (figure 6)", "")
    yield (
        "What relays send while all four clients do, Mbit/s, and how much more than without switching. The paper gives its "
        "averages before and after the fourth client's move to another entry, for the second relays while they were "
        "idle, and the "
        "medians of the gains of all moves."
    )
    yield ""
    yield "| relay | the paper, before | after | median gain | here without switching | same entry, more | another entry, more |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    printed = published["capacity"]
    for relay in testbeds.RELAYS:
        before = level(bed.figures, 2, place=relay, treatment=testbeds.MULTIPLEXED, metric="capacity")
        more = [
            change(bed.figures, Comparison("capacity", treatment, testbeds.MULTIPLEXED, relay, None, "greater"), rule, 2)
            for treatment in (testbeds.CHOSEN, testbeds.OTHER)
        ]
        theirs = (printed["before"][relay], printed["after"][relay], published["capacity-gain"]["median"][relay])
        yield f"| {relay} | {' | '.join(f'{one:g}' for one in theirs)} | {before} | {' | '.join(more)} |"
    yield ""
    grown = [_grown(bed, treatment) for treatment in (testbeds.CHOSEN, testbeds.OTHER)]
    yield (
        f"Of the paper's measurements {published['capacity-gain']['above-none']} % show a gain; of those here, each "
        "relay in each "
        f"seed, {grown[0]} at one entry (without {testbeds.IDLE}, which is idle) and {grown[1]} with another."
    )
    yield ""
    one = testbeds.CLIENTS[3]
    (mean, uncertainty), (more_mean, more_uncertainty) = (published["fourth-client"][key] for key in ("before", "improved-by"))
    part = Comparison("throughput", testbeds.OTHER, testbeds.MULTIPLEXED, one, None, "greater")
    ours = level(bed.figures, 1, place=one, treatment=testbeds.MULTIPLEXED, metric="throughput")
    yield (
        f"The fourth client alone: in the paper {mean} ± {uncertainty} KB/s, improved by {more_mean} ± "
        f"{more_uncertainty} KB/s by "
        f"its move to another entry; here {ours} KB/s, changed by {change(bed.figures, part, rule, 1, ' KB/s')}."
    )
    yield ""
    yield from ("![Capacities after less before](switching-capacity.svg)", "")


def _throughputs(published: Mapping[str, Any], bed: Study, rule: Rule) -> Iterator[str]:
    yield from ("### Throughput, losses, latency (table 2, figures 7 and 8)", "")
    yield (
        "The paper's throughputs are read as of one client; they are above what all four have together here, and "
        "several times what one has. In brackets the "
        "difference to the first row, an asterisk where its 95 % interval excludes zero."
    )
    yield ""
    yield f"| | {' | '.join(BESIDE)} |"
    yield f"| --- |{' ---: |' * len(BESIDE)}"
    for treatment in (testbeds.MULTIPLEXED, *testbeds.PAIRS, testbeds.OTHER):
        key = {testbeds.MULTIPLEXED: "multiplexed", testbeds.CHOSEN: "switching"}.get(treatment)
        yield f"| {treatment} | {' | '.join(_beside(published, key, bed, testbeds.WHOLE, treatment, rule))} |"
    yield ""
    yield from ("![Throughput and latency](switching-throughput.svg)", "")


def _grown(bed: Study, treatment: str) -> str:
    """Of the gains of all relays that a treatment uses, those above none."""
    gains = bed.times.filter(what="capacity-gain", treatment=treatment)
    if treatment == testbeds.CHOSEN:
        gains = gains.filter(pl.col("place") != testbeds.IDLE)
    return f"{format_fixed(100 * gains.filter(pl.col('value') > 0).height / gains.height, 0)} %" if gains.height else NOTHING


#: Columns of `_beside`.
BESIDE = (
    "KB/s, paper",
    "here",
    "median, paper",
    "here",
    "all four together",
    "lost, %, paper",
    "here",
    "latency, s, paper's median",
    "here",
)


def _pooled(bed: Study, place: str, treatment: str, what: str, share: float, places: int) -> str:
    """A quantile of all values of all seeds."""
    values = ordered(bed.times.filter(place=place, treatment=treatment, what=what)["value"])
    return format_fixed(lower_quantile(values, share), places) if values.size else NOTHING


def _beside(
    published: Mapping[str, Any],
    key: str | None,
    bed: Study,
    place: str,
    treatment: str,
    rule: Rule,
    base: str = testbeds.MULTIPLEXED,
) -> Iterator[str]:
    """Cells of a row: the paper's and ours."""
    mean, uncertainty = published["throughput"]["mean-and-uncertainty"].get(key, (None, None))
    yield f"{mean} ± {uncertainty}" if mean is not None else ""
    yield _with_percent(bed, place, treatment, "throughput", 1, rule, base)
    below = published["throughput"]["median-below"].get(key)
    yield f"below {below}" if below is not None else ""
    yield _pooled(bed, place, treatment, "throughput", 0.5, 1)
    yield _with_percent(bed, place, treatment, "together", 1, rule, base)
    yield f"{published['drop-rate'][key]}" if key is not None else ""
    yield level(bed.figures, 3, place=place, treatment=treatment, metric="drop-rate")
    yield f"{published['latency']['median-below'][key]}" if key is not None else ""
    yield _with_percent(bed, place, treatment, "latency", 2, rule, base)


def _with_percent(bed: Study, place: str, treatment: str, metric: str, places: int, rule: Rule, base: str) -> str:
    text = level(bed.figures, places, place=place, treatment=treatment, metric=metric)
    differs = "" if treatment == base else percent(bed.figures, Comparison(metric, treatment, base, place, None, "equal"), rule)
    return f"{text} ({differs})" if differs else text


def _live(published: Mapping[str, Any], on_live: Study, rule: Rule) -> Iterator[str]:
    yield (
        "The same four clients send over an entry of their own and relays of the consensus of March 2017, which carry others' "
        f"traffic too; {on_live.replicates} seeds. Sockets are the testbed's 16 KiB, or with “usual sockets” those of Linux. In "
        "brackets the difference to the same without switching, an asterisk where its 95 % interval excludes zero."
    )
    yield ""
    columns = (*BESIDE, "entry sends, Mbit/s", "switches", "not ended well")
    yield f"| | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for treatment in on_live.treatments:
        key = treatment if treatment in published["drop-rate"] else None
        cells = list(_beside(published, key, on_live, live.PLACE, treatment, rule, live.base(treatment)))
        cells.append(_with_percent(on_live, live.PLACE, treatment, "capacity", 2, rule, live.base(treatment)))
        cells += [
            level(on_live.figures, 1, place=live.PLACE, treatment=treatment, metric=name) for name in ("switches", "undone")
        ]
        yield f"| {treatment} | {' | '.join(cells)} |"
    yield ""
    printed = published["capacity-gain"]["quantiles"]
    yield (
        "How much more the entry sends than without switching, Mbit/s (figure 10): so much at most in the share of the "
        "measurements in the head; here a seed is a measurement."
    )
    yield from ("", f"| | {' | '.join(f'{format_fixed(100 * float(share), 0)} %' for share in printed)} |")
    yield f"| --- |{' ---: |' * len(printed)}"
    yield f"| the paper | {' | '.join(f'{value:g}' for value in printed.values())} |"
    for treatment in on_live.treatments:
        if treatment != live.base(treatment):
            ours = [_pooled(on_live, live.PLACE, treatment, "capacity-gain", float(share), 2) for share in printed]
            yield f"| {treatment} | {' | '.join(ours)} |"
    yield ""
    yield from ("![Entry's gain, throughput and latency, relays of a real consensus](switching-live.svg)", "")


def _network(published: Mapping[str, Any], sampled: Study, rule: Rule) -> Iterator[str]:
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
        "switches a minute": (network.WHOLE, "switches", 1),
    }
    yield from ("", f"| | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}")
    for treatment in sampled.treatments:
        cells = [_to_vanilla(sampled, treatment, place, metric, places, rule) for place, metric, places in columns.values()]
        yield f"| {treatment} | {' | '.join(cells)} |"
    yield ""
    yield (
        f"DATA cells that reach a client in {sampled.minutes:g} minutes; the paper's are medians of its figure 4 (e), of cells "
        "processed in 100 minutes."
    )
    yield from ("", "| | the paper, web | bulk | here, web | bulk |", "| --- | ---: | ---: | ---: | ---: |")
    processed = published["cells-processed"]["median-below"]
    for treatment in sampled.treatments:
        below = [f"below {processed[treatment][group]:,}" if treatment in processed else "" for group in network.GROUPS]
        own = [_to_vanilla(sampled, treatment, group, "cells", 0, rule) for group in network.GROUPS]
        yield f"| {treatment} | {' | '.join([*below, *own])} |"
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


def _to_vanilla(sampled: Study, treatment: str, place: str, metric: str, places: int, rule: Rule) -> str:
    text = level(sampled.figures, places, place=place, treatment=treatment, metric=metric)
    if treatment == network.VANILLA or metric == "switches":
        return text
    differs = percent(sampled.figures, Comparison(metric, treatment, network.VANILLA, place, None, "equal"), rule)
    return f"{text} ({differs})" if differs else text


def _unit(text: str, unit: str) -> str:
    return text if text == NOTHING else f"{text} {unit}"
