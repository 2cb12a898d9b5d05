"""The page of `onionlab.reproductions.cci`: claims, the testbeds beside the paper's table 4, the sampled network, assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onionlab.quantity import format_duration, format_fixed
from onionlab.reproductions import claims_table
from onionlab.reproductions.cci import network, testbeds
from onionlab.reproductions.cci.charts import TITLES
from onionlab.reproductions.claims import Comparison, Judged, Rule, difference
from onionlab.reproductions.figures import change, level, mean
from onionlab.reproductions.kept import Made, took
from onionlab.results.describe import plural
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
> **This is the quick run:** {seeds} seeds of {bed} s on the testbeds instead of ten of five minutes{network}.
> It shows large differences and that everything works; "undecided" says nothing here.
"""

QUICK_NETWORK = """, {sampled.networks} sampled
> networks of {sampled.relays} relays and {sampled.minutes:g} simulated minutes instead of ten of 2 % of Tor and twenty minutes"""

LACKING = """\
> **Not on this page yet**, because this command runs nothing of it and not all of it is kept: {parts}. What each takes is in
> [the folder of the experiments](../../experiments/cci/README.md)."""

WHAT_IS_COUNTED = """\
*Links shared* counts pairs of relays on which several circuits have open streams, whatever their connections, for both ways
alike: under PCTLS such circuits meet on a pair of relays and share no connection, which is what the paper calls no shared
links. *Busy ones* counts likewise, by direction, circuits of which a cell passed their client, either way, since the sample
before, here within a second; the paper logs cells from the client on alone. *Held up* is not nothing under PCTLS because a
client's own circuits share its connection to the guard there as well, as tor's do; between relays nothing is held up. *Idle
connections* are what a kernel, TLS and tor need for open connections while nothing is in them, 20.4 kB each
([measured](../models/links.md)), of all relays together; *in sockets* is payload in the kernel's buffers on top. The paper's
memory holds both. *Circuit* is the time of circuits that were built; those given up or cut off by the end have none."""

EXPECTED = """\
What each part of the whole, without `--quick`, takes is in [its folder](../../experiments/cci/README.md). It can be made at
several times and on several machines: `--kept DIR` keeps what each finished experiment came to in a small folder, and goes on
from there; `--parts` says which parts are run."""

QUARTER = "The same at the paper's size, once, with 0.5 % lost: `onionlab reproduce cci --quarter`{below}."


@dataclass(frozen=True)
class Found:
    """What there is for the page.

    Attributes
    ----------
    beds, sampled
        The testbeds and the sampled network, reduced; None where that was not run.
    judged
        The claims on both.
    left_out
        What else the paper says of them: ``where``, what it ``says``, ``why`` it is not judged.
    further, quarter
        Lines of the page on what the paper leaves open, and on a quarter of Tor, as far as they were run.
    large
        A quarter of Tor, reduced; None where that was not run.
    made
        The runs of these, by part.
    lacking
        The parts that were not run, whole or in part.
    options
        What follows the command that the page names.
    """

    beds: testbeds.Measured
    sampled: network.Measured | None
    judged: Sequence[Judged]
    further: Sequence[str]
    quarter: Sequence[str]
    made: Mapping[str, Sequence[Made]]
    large: network.Measured | None = None
    lacking: Sequence[str] = ()
    left_out: Sequence[Mapping[str, str]] = ()
    options: str = ""


def page(assumptions: Sequence[Mapping[str, str]], published: Mapping[str, Any], rule: Rule, found: Found, *, quick: bool) -> str:
    """The page as Markdown, of what the files beside the experiments say and what was found."""
    beds, sampled, judged = found.beds, found.sampled, found.judged
    lines = [INTRODUCTION.format(options=found.options)]
    if quick:
        extent = "" if sampled is None else QUICK_NETWORK.format(sampled=sampled)
        seconds = testbeds.QUICK_DURATION.partition(" ")[0]
        lines.append(QUICK.format(seeds=beds.seeds, bed=seconds, network=extent))
    if found.lacking:
        lines += [LACKING.format(parts=", ".join(found.lacking)), ""]
    lines += ["## In short", ""]
    lines += claims_table.short(judged, "claims" if sampled is not None else "claims about the testbeds")
    lines += ["## The claims", ""]
    replicates = f"{beds.seeds} seeds" if sampled is None else f"{beds.seeds} seeds or {plural(sampled.networks, 'network')}"
    lines += claims_table.explanation(rule, judged, replicates, "What each figure is: `experiments/cci/claims.toml`.")
    lines += claims_table.table(judged, WORDS)
    lines += claims_table.left_out(found.left_out)
    lines += _nagle(beds, judged, rule)
    if sampled is not None:
        lines += _loss(sampled, found.large, judged, rule)
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
    if sampled is not None:
        lines += ["## A sampled network", ""]
        lines += _network(published["network"], sampled, rule, has_quarter=bool(found.quarter))
        lines += ["![Times to the last byte by size and loss](cci-network-times.svg)", ""]
        lines += ["![Times to build a circuit by loss](cci-network-build.svg)", ""]
    lines += found.quarter
    if found.further:
        lines += ["## What the paper leaves open", "", *found.further]
    lines += ["## What the paper does not say", "", "| what | chosen | why |", "| --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['chosen']} | {row['why']} |" for row in assumptions]
    lines += ["", "## Runs", ""]
    parts = {"the testbeds": beds.made, **({} if sampled is None else {"the sampled network": sampled.made}), **found.made}
    lines.append(took(parts, "A run's records are the same bytes on any machine."))
    lines += ["", EXPECTED]
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
        treatments = (testbeds.VANILLA, testbeds.PCTLS)
        for treatment in (*treatments, *testbeds.WITHOUT_NAGLE.values()) if place == testbeds.PLAIN else treatments:
            case = printed.get((place, treatment))
            speed = "{:.2f} ± {:.2f}".format(*case["throughput"]) if case else ""
            trip = "{:.0f} ± {:.1f}".format(*case["latency"]) if case else ""
            theirs, ours = "", ""
            if case and place != testbeds.PLAIN:
                part = Comparison("throughput", treatment, None, place, "no-dropping", "less")
                found = difference(beds.figures, part, CONFIDENCE, rule)
                theirs = f"{case['throughput-degradation']} %"
                ours = "" if found is None or found.percent is None else f"{format_fixed(-found.percent, 0)} %"
            shown = [
                level(beds.figures, places, place=place, treatment=treatment, metric=metric)
                for metric, places in (("throughput", 2), ("round-trip", 1), ("held", 0))
            ]
            yield (
                f"| {TITLES[place]} | {treatment} | {speed} | {shown[0]} | {theirs} | {ours} | {trip} | {shown[1]} | {shown[2]} |"
            )
    yield ""


def _nagle(beds: testbeds.Measured, judged: Sequence[Judged], rule: Rule) -> Iterator[str]:
    """Which claims Nagle's algorithm decides, and what is left without it."""
    parts = {
        metric: [
            Comparison(metric, of, to, testbeds.PLAIN, None, "equal")
            for to, of in ((testbeds.VANILLA, testbeds.PCTLS), tuple(testbeds.WITHOUT_NAGLE.values()))
        ]
        for metric in ("throughput", "round-trip")
    }
    shown = {metric: [change(beds.figures, part, rule, 2) for part in both] for metric, both in parts.items()}
    numbers = [str(number) for number, one in enumerate(judged, 1) if any(meets_nagle(part) for part in one.claim.parts)]
    which = f"Claims {', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) > 1 else f"Claim {''.join(numbers)}"
    meet = f"{which} {'meet' if len(numbers) > 1 else 'meets'}" if numbers else "No claim meets"
    yield (
        f"{meet} Nagle's algorithm, which holds back a short segment until the one before it is acknowledged, and which "
        "tor leaves on. A connection that one circuit has to itself waits so more often than one on which the cells of others "
        "complete a segment. NoDropping without it (`nagle = false`), PCTLS less vanilla: throughput "
        f"{shown['throughput'][1]} instead of {shown['throughput'][0]} (MB/s), round trip {shown['round-trip'][1]} instead of "
        f"{shown['round-trip'][0]} (ms), with 95 % intervals. Linux "
        "itself delays so: bursts of cells each 10 ms over a path of 12.5 ms take 22.5 ms in the median with "
        "Linux's own TCP, and 12.5 ms without Nagle's algorithm (`tools/measure_tcp.py`; tests hold ours against its "
        "quantiles, within 1 ms, and within 3 ms where writes are rarer or go both ways)."
    )
    yield ""


def _loss(sampled: network.Measured, large: network.Measured | None, judged: Sequence[Judged], rule: Rule) -> Iterator[str]:
    """Which claims hang on a loss that is not published, and how building circuits goes with it and with the size."""
    numbers = [
        str(number)
        for number, one in enumerate(judged, 1)
        if any(part.at in network.LOSSES[1:] or part.against in network.LOSSES[1:] for part in one.claim.parts)
    ]
    if not numbers:
        return
    building = Comparison("build", testbeds.PCTLS, testbeds.VANILLA, "", None, "greater")
    by_loss = (
        f"{change(sampled.figures, replace(building, at=loss), rule, 3, ' s')} with {loss} lost" for loss in sampled.places
    )
    text = (
        f"Claims {', '.join(numbers)} hang on a loss that the paper does not print, and on the network's size. Building a "
        f"circuit, PCTLS less vanilla: {'; '.join(by_loss)}."
    )
    if large is not None:
        (loss,) = large.places
        text += (
            f" In a quarter of Tor with {loss} lost, once: {change(large.figures, replace(building, at=loss), rule, 3, ' s')}."
        )
    yield from (text, "")


def meets_nagle(part: Comparison) -> bool:
    """Whether a comparison of the two ways is about short cells or about a network that loses nothing."""
    between = part.to is not None and part.against is None
    return between and (part.metric == "round-trip" or part.at == testbeds.PLAIN)


def _two(beds: testbeds.Measured, rule: Rule) -> Iterator[str]:
    yield (
        "One client loads 5 MB again and again, the other has what the row says; its times are shown. One: 0.1 % lost between "
        "middle and exit, 300 Mbit/s, 50 ms. Two: four TCP streams beside, 300 Mbit/s, no delay. Three: the same with 2 Mbit/s. "
        "Changes are those from vanilla to PCTLS. Times are of transfers that began as long before the end as the slowest "
        "such took, so that none is cut off; of Three's bulk transfers that is each client's first."
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


#: Said where an interval would stand.
NO_SPREAD = " (one network has none: what is said of it may be otherwise in the next)"


def _network(printed: Mapping[str, Any], sampled: network.Measured, rule: Rule, *, has_quarter: bool) -> Iterator[str]:
    without, lossy = printed["faster"]["without loss"], printed["faster"]["with loss"]
    slower = printed["building-slower"]
    yield (
        f"{sampled.relays} relays and Tor's users for them, tor 0.3.5, links and TCP as Shadow models them; "
        f"{plural(sampled.networks, 'sampled network')} of {sampled.minutes:g} simulated minutes. PCTLS less vanilla, means over "
        f"networks with their 95 % intervals{NO_SPREAD if sampled.networks == 1 else ''}. The paper, with a quarter of Tor in "
        f"Shadow: without loss {_less(without)} for the three "
        f"sizes and +{slower['without loss']} ms for a circuit; with a loss that is not published {_less(lossy)}, and "
        f"+{slower['with loss']} ms."
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
        "busy ones, %": ("busy-shared", 1),
        "most sockets of a relay": ("sockets", 0),
        "idle connections, MB": ("connection-megabytes", 1),
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
    yield WHAT_IS_COUNTED
    yield ""
    yield from beyond(sampled, printed)
    shared, memory = printed["shared-links"], printed["memory"]
    yield (
        f"In the paper {shared['vanilla']:g} % of vanilla's active links are shared, since fewer circuits meet on a pair of "
        f"relays in a quarter of Tor than in a fiftieth; its simulation took {memory['vanilla']} GB of memory with vanilla and "
        f"{memory['PCTLS']} GB with PCTLS. {QUARTER.format(below=' (below)' if has_quarter else '')}"
    )
    yield ""


def beyond(sampled: network.Measured, printed: Mapping[str, Any]) -> Iterator[str]:
    """Why shared connections of a sampled network are full where packets are lost, from the runs where none is."""
    unlost = sampled.figures.filter(place=network.LOSSES[0], treatment=testbeds.VANILLA)
    asked = {loss: mean(unlost.filter(metric=metric)["value"]) for metric, loss in network.BEYOND.items()}
    shares = [
        f"{share:.0f} % if {network.percent(loss)} of the packets are lost ({8 * network.reno(loss) / 1e6:.1f} Mbit/s)"
        for loss, share in asked.items()
        if share is not None
    ]
    if not shares:
        return
    yield (
        "*A sampled network makes sharing look worse than it is in Tor.* Without loss, so much of what relays send each other "
        f"goes over connections that carry more than TCP Reno could: {', '.join(shares)}, over a round trip of 100 ms "
        "(Mathis, Semke, Mahdavi and Ott 1997). With that loss these connections are full, whatever relays and links have left, "
        "and the circuits on them wait; a circuit has two connections between relays. A network sampled to a share of Tor's "
        "relays and users has the square of that share of its pairs of relays: each pair of the "
        f"{sampled.relays} relays here is asked for {printed['relays'] / sampled.relays:.0f} times as much as one of the paper's "
        f"{printed['relays']:,}."
    )
    yield ""


def _less(faster: Mapping[str, int]) -> str:
    """How much less time each size takes, in ms."""
    sizes = [f"−{faster[size]}" for size in network.SIZES]
    return f"{', '.join(sizes[:-1])} and {sizes[-1]} ms"
