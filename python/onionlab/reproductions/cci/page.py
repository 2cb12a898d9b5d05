"""The page of `onionlab.reproductions.cci`: claims, the testbeds beside the paper's table 4, the sampled network, assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onionlab import _core
from onionlab.quantity import format_duration, format_fixed
from onionlab.reproductions import claims_table
from onionlab.reproductions.cci import network, testbeds
from onionlab.reproductions.cci.charts import TITLES
from onionlab.reproductions.claims import Comparison, Judged, Rule, difference
from onionlab.reproductions.figures import change, level
from onionlab.stats.intervals import CONFIDENCE

#: Metrics in words, with their unit and the places that are shown.
WORDS = {
    "throughput": ("throughput", "MB/s", 2),
    "round-trip": ("round trip", "ms", 1),
    "time": ("time", "s", 3),
    "build": ("building a circuit", "s", 3),
    "50 kB": ("50 kB", "s", 3),
    "1 MB": ("1 MB", "s", 3),
    "5 MB": ("5 MB", "s", 2),
}

INTRODUCTION = """\
# Connections: shared by circuits, or one for each

Circuits of different people share tor's one TLS connection between two relays. What is lost of one of them holds up the others
(head-of-line blocking), and they share one congestion window. Pahl, Kaiser, Engel and Adamsky, "Examining the Hydra" (PoPETs
2023), measured what that costs: tor ("vanilla") against tor with a TLS connection for each circuit ("PCTLS", after PCTCP by
AlSabah and Goldberg), on testbeds of eight and of two clients and in a simulation of a quarter of the network. How the
connections are modelled here: [models/links.md](../models/links.md).

This page was written by

    onionlab reproduce cci{options}
"""

QUICK = """
> **This is the quick run:** {seeds} seeds of {bed} s on the testbeds instead of ten of five minutes, {networks} sampled
> networks of {relays} relays and {minutes:g} simulated minutes instead of ten of 2 % of Tor and twenty minutes. It shows large
> differences and that everything works; "undecided" says nothing here.
"""


def page(
    assumptions: Sequence[Mapping[str, str]],
    published: Mapping[str, Any],
    rule: Rule,
    beds: testbeds.Measured,
    sampled: network.Measured,
    judged: Sequence[Judged],
    further: Sequence[str],
    *,
    quick: bool,
) -> str:
    """The page as Markdown; ``further`` are the lines on what the paper leaves open."""
    lines = [INTRODUCTION.format(options=" --quick" if quick else "")]
    if quick:
        seconds = testbeds.QUICK_DURATION.partition(" ")[0]
        lines.append(
            QUICK.format(seeds=beds.seeds, bed=seconds, networks=sampled.networks, relays=sampled.relays, minutes=sampled.minutes)
        )
    lines += ["## In short", ""]
    lines += claims_table.short(judged)
    lines += ["## The claims", ""]
    replicates = f"{beds.seeds} seeds or {sampled.networks} networks"
    lines += claims_table.explanation(rule, judged, replicates, "What each figure is: `experiments/cci/claims.toml`.")
    lines += claims_table.table(judged, WORDS)
    lines += ["## Eight clients", ""]
    lines += _table_4(published, beds, rule)
    lines += ["![Times of 5 MB and round trips, eight clients](cci-eight-clients.svg)", ""]
    lines += ["## Two clients", ""]
    lines += _two(beds, rule)
    lines += [
        "![Times, two clients](cci-two-clients-time.svg)",
        "",
        "![Round trips, two clients](cci-two-clients-round-trip.svg)",
        "",
    ]
    lines += ["## A sampled network", ""]
    lines += _network(sampled, rule)
    lines += ["![Times to the last byte by size and loss](cci-network-times.svg)", ""]
    lines += ["![Times to build a circuit by loss](cci-network-build.svg)", ""]
    lines += ["## What the paper leaves open", "", *further]
    lines += ["## What the paper does not say", "", "| what | chosen | why |", "| --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['chosen']} | {row['why']} |" for row in assumptions]
    lines += ["", "## Runs", ""]
    lines.append(
        f"The testbeds took {format_duration(round(beds.seconds))}, the sampled networks "
        f"{format_duration(round(sampled.seconds))}, one run after the other, whatever else the machine did included. "
        f"onionlab {_core.version()}, build {_core.build()}. What is finished is kept: the same command goes on where it stopped."
    )
    return "\n".join([*lines, ""])


def _table_4(published: Mapping[str, Any], beds: testbeds.Measured, rule: Rule) -> Iterator[str]:
    yield (
        "Four entries, one middle, one exit, 300 Mbit/s, 50 ms of round trip between entry and exit, tor 0.3.5, TCP CUBIC; eight "
        "clients load 5 MB again and again. Means over seeds with their 95 % intervals; the paper's as printed in its table 4. "
        "Less: than in NoDropping. Held up: bytes at a time that have arrived at a relay and wait for a lost segment of other "
        "circuits."
    )
    yield ""
    yield "| scenario | | MB/s, paper | here | less, paper | here | round trip, ms, paper | here | held up, B |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    printed = {(case["experiment"], case["treatment"]): case for case in published["eight"]["cases"]}
    for place in testbeds.EIGHT:
        for treatment in (testbeds.VANILLA, testbeds.PCTLS):
            case = printed[place, treatment]
            speed, trip = case["throughput"], case["latency"]
            theirs, ours = "", ""
            if place != "no-dropping":
                part = Comparison("throughput", treatment, None, place, "no-dropping", "less")
                found = difference(beds.figures, part, CONFIDENCE, rule)
                theirs = f"{case['throughput-degradation']} %"
                ours = "" if found is None or found.percent is None else f"{format_fixed(-found.percent, 0)} %"
            shown = [
                level(beds.figures, places, place=place, treatment=treatment, metric=metric)
                for metric, places in (("throughput", 2), ("round-trip", 1), ("held", 0))
            ]
            yield (
                f"| {TITLES[place]} | {treatment} | {speed[0]:.2f} ± {speed[1]:.2f} | {shown[0]} | {theirs} | {ours} "
                f"| {trip[0]:.0f} ± {trip[1]:.1f} | {shown[1]} | {shown[2]} |"
            )
    yield ""


def _two(beds: testbeds.Measured, rule: Rule) -> Iterator[str]:
    yield (
        "One client loads 5 MB again and again, the other has what the row says; its times are shown. One: 0.1 % lost between "
        "middle and exit, 300 Mbit/s, 50 ms. Two: four TCP streams beside, 300 Mbit/s, no delay. Three: the same with 2 Mbit/s. "
        "Changes are those from vanilla to PCTLS."
    )
    yield ""
    yield "| scenario | beside bulk | vanilla, s | PCTLS, s | change, s | round trip, vanilla, ms | PCTLS, ms | change, ms |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for place in testbeds.TWO:
        scenario, _, load = place.partition("-")
        cells = []
        for metric, places in (("time", 3), ("round-trip", 1)):
            cells += [
                level(beds.figures, places, place=place, treatment=treatment, metric=metric)
                for treatment in (testbeds.VANILLA, testbeds.PCTLS)
            ]
            part = Comparison(metric, testbeds.PCTLS, testbeds.VANILLA, place, None, "less")
            cells.append(change(beds.figures, part, rule, places))
        yield f"| {scenario.capitalize()} | {load} | {' | '.join(cells)} |"
    yield ""


def censoring(sampled: network.Measured) -> str:
    """Which downloads a mean is of."""
    longest = format_duration(sampled.longest)
    return (
        f"Counted are all downloads that began at least {longest} before the end, after which a client gives up; one that failed "
        f"counts as {longest}. A mean of what ended would leave out what is slow, and so favour the slower way; in this one a "
        "difference can still be too small where many time out."
    )


def _network(sampled: network.Measured, rule: Rule) -> Iterator[str]:
    yield (
        f"{sampled.relays} relays and Tor's users for them, tor 0.3.5, links and TCP as Shadow models them; {sampled.networks} "
        f"sampled networks of {sampled.minutes:g} simulated minutes. PCTLS less vanilla, means over networks "
        "with their 95 % intervals. The paper, with a quarter of Tor in Shadow: without loss −39, −150 and −703 ms for the three "
        "sizes and +725 ms for a circuit; with a loss that is not published −172, −1764 and −5696 ms, and +495 ms."
    )
    yield ""
    yield censoring(sampled)
    yield ""
    yield "| lost | 50 kB, s | 1 MB, s | 5 MB, s | building a circuit, s |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for loss in sampled.places:
        parts = [Comparison(metric, testbeds.PCTLS, testbeds.VANILLA, loss, None, "less") for metric in (*network.SIZES, "build")]
        yield f"| {loss} | {' | '.join(change(sampled.figures, part, rule, 3) for part in parts)} |"
    yield ""
    columns = {
        "50 kB, s": ("50 kB", 2),
        "1 MB, s": ("1 MB", 2),
        "5 MB, s": ("5 MB", 2),
        "downloads": ("counted", 0),
        "failed, %": ("failed", 2),
        "circuit, s": ("build", 2),
        "links shared, %": ("shared", 1),
        "most sockets of a relay": ("sockets", 0),
        "in sockets, B": ("socket-bytes", 0),
        "of these held up, B": ("held", 0),
    }
    yield f"| lost | | {' | '.join(columns)} |"
    yield f"| ---: | --- |{' ---: |' * len(columns)}"
    for loss in sampled.places:
        for treatment in (testbeds.VANILLA, testbeds.PCTLS):
            cells = [
                level(sampled.figures, places, place=loss, treatment=treatment, metric=metric)
                for metric, places in columns.values()
            ]
            yield f"| {loss} | {treatment} | {' | '.join(cells)} |"
    yield ""
