"""The page of `onionlab.reproductions.predictor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onionlab.quantity import format_duration, format_fixed
from onionlab.reproductions import claims_table
from onionlab.reproductions.claims import Comparison, Judged
from onionlab.reproductions.figures import NOTHING, level, percent
from onionlab.reproductions.kept import took
from onionlab.reproductions.predictor import cells, single
from onionlab.reproductions.predictor.asked import PAPERS_SYSTEM, PREDICTOR, Asked, Study
from onionlab.reproductions.predictor.measure import KIB, PLANNED, toy_fair
from onionlab.reproductions.predictor.measured import Measured
from onionlab.reproductions.published import differences_section
from onionlab.reproductions.scales import FAILS

INTRODUCTION = """# PredicTor, made again

"Optimization-Based Predictive Congestion Control for the Tor Network: Opportunities and Challenges" (ACM TOIT 2022) lets each
relay plan what its circuits will send, and tells its neighbours. Here its whole evaluation is made again: one controller
alone, the toy network, random networks of 50 relays, throttled relays, uncertain latencies, web and bulk together, always
against tor with one connection for each pair of relays ("vanilla") and with one for each circuit ("PCTCP"). Links and TCP are
those of the paper's simulator (link profile `nstor`), latency is the paper's: from the exit's write to the entry's read, a
mean over bytes. Then comes what the paper leaves open.

What PredicTor is here, what of it is certain and what is reconstructed: [models/predictor.md](../models/predictor.md). There
too: the paper's Theorem 3 is [not true](../models/predictor.md#theorem-3-does-not-hold) where bottlenecks overlap in part, so
fair rates are those of water-filling.

This page was written by

    onionlab reproduce predictor{options}
"""

QUICK = """
> **This is the quick run:** {networks} networks instead of 25, at most {circuits} circuits instead of 1,000, {seeds} seeds on
> the toy network instead of {all_seeds}. It shows large differences and that everything works; "undecided" says little here,
> and claims about what was not run are undecided.
"""

#: A metric in words, its unit and the places that are shown.
WORDS: Mapping[str, tuple[str, str, int]] = {
    "latency": ("latency", "ms", 0),
    "throughput": ("throughput", "KiB/s", 0),
    "served": ("fairness", "", 3),
    "web-latency": ("latency of web circuits", "ms", 0),
    "web-tail": ("90 % quantile of web circuits' latencies", "ms", 0),
    "bulk-latency": ("latency of bulk circuits", "ms", 0),
    "unsteady": ("unsteadiness", "%", 1),
    "rate-1": ("rate of circuit 1", "KiB/s", 1),
    "rate-2": ("rate of circuit 2", "KiB/s", 1),
    "rate-3": ("rate of circuit 3", "KiB/s", 1),
}

#: Columns of tables of random networks.
COLUMNS: Mapping[str, tuple[str, int]] = {
    "latency, ms": ("latency", 0),
    "throughput, KiB/s": ("throughput", 0),
    "fairness": ("served", 3),
    "by links": ("served-links", 3),
    "starved, %": ("starved", 1),
    "stalled, %": ("stalled", 1),
    "bytes sent for each of payload": ("wire", 2),
}

#: The same of throttled ones, where links are not what is narrow: fair rates of what controllers plan with, not those by links.
THROTTLED_COLUMNS: Mapping[str, tuple[str, int]] = {
    ("r* with 85 %" if metric == "served-links" else name): ("served-85" if metric == "served-links" else metric, places)
    for name, (metric, places) in COLUMNS.items()
}

#: A claim of ``claims.toml`` that is judged before what it is about is steady, and what is said of it if it does not hold.
UNSTEADY = "To throttle vanilla and PCTCP does not lower their latency but mostly raises it"
NOT_STEADY = (
    "Claim {number} is judged after 14 s, when with 500 circuits and a tenth of the bandwidth queues are still filling: in the "
    "one network that was run for longer it holds after two minutes (“What differs, and why”)."
)

#: Of a mix: what is left behind.
LEFT: Mapping[str, str] = {"stalled circuits, %": "stalled", "unfinished objects, %": "unfinished"}

#: The other readings of the fairness index.
READINGS: Mapping[str, str] = {
    "min(r, r*) / r*": "served",
    "the same, r* with 85 %": "served-85",
    "min(r, r*) / r": "conforming",
    "1 − abs(r − r*) / r*": "deviation",
    "shares": "shares",
}

#: Studies that have a section of their own.
PAPERS = ("random", "throttled", "fuzzy", "mix")


def page(asked: Asked, whole: Asked, measured: Measured, judged: Sequence[Judged], *, quick: bool, options: str = "") -> str:
    """The page as Markdown; ``whole`` is what is asked without ``quick``, ``options`` are of its command line."""
    studies = {study.name: study for study in asked.studies}
    lines = [INTRODUCTION.format(options=f"{' --quick' if quick else ''}{options}")]
    if quick:
        lines.append(_quick(asked, measured))
    lines += ["## In short", "", *claims_table.short(judged), *_unsteady(judged)]
    lines += ["## The claims", ""]
    replicates = f"{_seeds(measured)} seeds or {studies['random'].networks} networks"
    lines += claims_table.explanation(asked.rule, judged, replicates, "What each figure is: `experiments/predictor/claims.toml`.")
    lines += claims_table.table(judged, WORDS)
    lines += ["## One controller", "", *_single(asked)]
    lines += ["## The toy network", "", *_toy(asked, measured)]
    lines += ["## Random networks", "", *_random(asked, studies["random"], measured)]
    lines += ["## Throttled relays", "", *_throttled(asked, studies["throttled"], measured)]
    lines += ["## Uncertain latencies", "", *_fuzzy(studies["fuzzy"], measured)]
    lines += ["## Web and bulk", "", *_mix(studies["mix"], measured)]
    lines += differences_section(asked.differences)
    lines += ["## What the paper leaves open", "", *_further(asked, measured)]
    lines += ["## What the paper does not say", "", "| what | chosen | why |", "| --- | --- | --- |"]
    lines += [f"| {row['what']} | {row['chosen']} | {row['why']} |" for row in asked.assumptions]
    lines += ["", "## Runs", "", *_runs(whole, measured, quick=quick)]
    return "\n".join([*lines, ""])


def _quick(asked: Asked, measured: Measured) -> str:
    most = max(circuits for study in asked.studies for circuits in study.circuits)
    networks = next(study.networks for study in asked.studies if study.name == "random")
    return QUICK.format(networks=networks, circuits=most, seeds=_seeds(measured), all_seeds=10)


def _unsteady(judged: Sequence[Judged]) -> Iterator[str]:
    for number, one in enumerate(judged, 1):
        if one.claim.says == UNSTEADY and one.verdict == FAILS:
            yield from (NOT_STEADY.format(number=number), "")


def _seeds(measured: Measured) -> int:
    return len({replicate for _, _, replicate, _, _ in measured.toys["toy 2"].figures})


def _picture(name: str, words: str) -> list[str]:
    return [f"![{words}]({name}.svg)", ""]


def _single(asked: Asked) -> Iterator[str]:
    printed = asked.published["single-first-outgoing"]
    plan = single.plans(asked.single)["conference"]
    ours = ", ".join(f"{rate:.3f}" for rate in plan.rate_out[:, 0])
    theirs = ", ".join(f"{rate:.3f}" for rate in printed["rates"])
    yield (
        "The controller at the bottleneck, told once what its neighbours plan. The inputs of the paper's figure are not "
        "readable; "
        f"these are of the authors' script for the conference paper's. Their program sends {theirs} packets/s in the "
        "first step, "
        f"ours {ours}: equal, although 0, 50 and 10 packets/s were announced. It takes from circuit 1's source what that "
        "has although "
        "nothing was announced, and less of circuit 2 than was, so that their sources' queues will be others than they "
        "told. The "
        "journal form asks by its virtual rate; with the announced rates for the sources' own virtual rates it takes "
        "nothing of "
        "circuit 1."
    )
    yield ""
    yield from _picture("predictor-single", "Trajectories of a single controller")


def _toy(asked: Asked, measured: Measured) -> Iterator[str]:
    of_cells = asked.fair[PAPERS_SYSTEM]
    fair = [rate / KIB for rate in toy_fair(of_cells)]
    yield (
        "Three circuits over one relay of 4 Mbit/s, 80 ms from exit to entry; circuits 1 and 2 come from the same exit. "
        "Latency is of "
        "scenario 1, where circuit 2 loads 200 KiB at a time, throughput of scenario 2, as in the paper; both from 4 s "
        "on by the paper's clock, which begins when circuits are built. Means over "
        f"seeds, which draw the instants of the starts within 20 ms, with their 95 % intervals. Fair are {fair[0]:.1f} "
        "KiB/s each; with "
        "85 % of the links, which is what controllers plan with, "
        f"{PLANNED * 4e6 / 8 / of_cells.cell * of_cells.payload / 3 / KIB:.1f}."
    )
    yield ""
    yield "| | circuit | latency, ms, paper | here | KiB/s, paper | here |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    printed = asked.published["table-1"]
    for treatment in measured.toys["toy 1"].treatments:
        theirs = printed.get(treatment, {})
        for circuit in (1, 2, 3):
            cells = (
                _printed(theirs.get("latency-ms"), circuit - 1),
                _level(measured, "toy 1", treatment, f"latency-{circuit}", 1),
                _printed(theirs.get("throughput"), circuit - 1),
                _level(measured, "toy 2", treatment, f"rate-{circuit}", 1),
            )
            yield f"| {treatment if circuit == 1 else ''} | {circuit} | {' | '.join(cells)} |"
        cells = (
            _printed([theirs.get("latency-total-ms")], 0),
            _level(measured, "toy 1", treatment, "latency", 1),
            _printed([theirs.get("throughput-total")], 0),
            _level(measured, "toy 2", treatment, "throughput", 1),
        )
        yield f"| | all | {' | '.join(cells)} |"
    yield ""
    yield (
        "The fairness index is in the paper's words the share of the traffic that is as max-min fairness has it; its "
        "formula is lost. "
        "Readings of it, on scenario 2 and on the paper's own table 1:"
    )
    yield ""
    yield "| | " + " | ".join(READINGS) + " |"
    yield "| --- |" + " ---: |" * len(READINGS)
    for treatment in measured.toys["toy 2"].treatments:
        readings = [_level(measured, "toy 2", treatment, metric, 3) for metric in READINGS.values()]
        yield f"| {treatment} | {' | '.join(readings)} |"
        if treatment in printed:
            yield f"| the paper's | {' | '.join(_readings(printed[treatment]['throughput'], printed['fair']['throughput']))} |"
    yield ""
    yield from _picture("predictor-toy-rates", "Rates over time on the toy network")
    yield from _picture("predictor-toy-latency", "Backlog over time and the distribution of latencies on the toy network")


def _readings(rates: Sequence[float], fair: Sequence[float]) -> Iterator[str]:
    from onionlab.predictor import fairness

    read = fairness(rates, fair)
    for metric in READINGS.values():
        yield NOTHING if metric == "served-85" else format_fixed(getattr(read, metric), 3)


def _printed(values: Sequence[float | None] | None, index: int) -> str:
    value = values[index] if values is not None else None
    return NOTHING if value is None else f"{value:.1f}"


def _level(measured: Measured, place: str, treatment: str, metric: str, places: int) -> str:
    return level(measured.figures, places, place=place, treatment=treatment, metric=metric)


def _random(asked: Asked, study: Study, measured: Measured) -> Iterator[str]:
    loss = asked.published["random-throughput-loss-percent"]
    yield (
        f"Every relay has {asked.network.link_mbit:g} Mbit/s, any two are {asked.network.latency_ms:g} ms apart, every "
        "circuit has three of "
        f"them and loads without end; the last {asked.network.window_ms / 1000:g} s of "
        f"{asked.network.duration_ms / 1000:g} are measured. "
        "Curves of the paper's figures are not readable; in words it has PredicTor's latency low at any number of "
        f"circuits, its throughput about {loss} % "
        f"below the others', its fairness about {asked.published['random-fairness'][PREDICTOR]:g}. Starved: circuits with "
        "less than a "
        f"tenth of their fair rate. Means over {study.networks} networks with their 95 % intervals."
    )
    yield ""
    yield from _table(study, measured, study.treatments)
    yield from _picture("predictor-random", "Latency, throughput and fairness by number of circuits")
    yield from _picture("predictor-rates", "Rates of the circuits of one network beside the fair ones")


def _table(
    study: Study,
    measured: Measured,
    treatments: Sequence[str],
    base: str = "",
    rule: Any = None,
    columns: Mapping[str, tuple[str, int]] = COLUMNS,
) -> Iterator[str]:
    yield f"| | | {' | '.join(columns)} |"
    yield f"| --- | --- |{' ---: |' * len(columns)}"
    measured = measured.of(study)
    for _, _, place in study.places():
        for treatment in treatments:
            cells = []
            for metric, places in columns.values():
                text = _level(measured, place, treatment, metric, places)
                if base and treatment != base and metric in ("latency", "throughput", "served"):
                    differs = percent(measured.figures, Comparison(metric, treatment, base, place, None, "equal"), rule)
                    text += f" ({differs})" if differs else ""
                cells.append(text)
            yield f"| {place} | {treatment} | {' | '.join(cells)} |"
    yield ""


def _throttled(asked: Asked, study: Study, measured: Measured) -> Iterator[str]:
    fair = asked.fair[PAPERS_SYSTEM]
    free, limited = (PLANNED * taken / fair.cell for taken in (fair.wire, fair.cell))
    yield (
        "Is PredicTor's latency only that of lower rates? Relays may use a part of their bandwidth only (tor's own token "
        "buckets). The "
        "paper: latencies of vanilla and PCTCP do not fall but mostly rise."
    )
    yield ""
    yield from _picture("predictor-throttled", "Latency and throughput with throttled relays")
    yield (
        f"Fairness cannot be compared between relays with a limit and without. Of a link r* has what headers leave, {fair.cell} "
        f"of {fair.wire} bytes; a limit counts cells alone, so that r* has all of it. Controllers plan with {100 * PLANNED:g} % "
        f"of either, so that PredicTor's index is at most {free:.2f} without a limit and {limited:.2f} with one. The next column "
        f"has the index with r* of those {100 * PLANNED:g} % instead, for all alike."
    )
    yield ""
    yield from _table(study, measured, study.treatments, columns=THROTTLED_COLUMNS)


def _fuzzy(study: Study, measured: Measured) -> Iterator[str]:
    yield (
        "Fuzziness f: the latency of each access link is the one that controllers know times a factor from 1 − f (at "
        "least 0.01) to "
        "1 + f, so that beyond 1 latencies are longer on average. The paper: PredicTor loses much of its advantage in "
        "latency, and "
        "keeps throughput and fairness."
    )
    yield ""
    yield from _picture("predictor-fuzzy", "Latency, throughput and fairness with uncertain latencies")
    yield from _table(study, measured, study.treatments)


def _mix(study: Study, measured: Measured) -> Iterator[str]:
    yield (
        f"{100 * study.conditions[0].web:g} % of the circuits load 320 KiB, pause 1 to 2 s and load again; the others "
        "load without end and "
        "begin first. Latency: each circuit's mean over its bytes. Means over networks with their 95 % intervals."
    )
    yield ""
    yield from _web_table(study, measured)
    yield from _picture("predictor-mix", "Latencies of web and of bulk circuits")


def _web_table(study: Study, measured: Measured) -> Iterator[str]:
    columns = ("web-latency", "web-tail", "bulk-latency")
    heads = [*(f"{WORDS[metric][0]}, ms" for metric in columns), "throughput, KiB/s", "objects a web circuit finished", *LEFT]
    yield f"| | {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * len(heads)}"
    measured = measured.of(study)
    for treatment in study.treatments:
        cells = [_level(measured, "mix", treatment, metric, 0) for metric in (*columns, "throughput")]
        cells.append(_level(measured, "mix", treatment, "finished", 2))
        cells += [_level(measured, "mix", treatment, metric, 1) for metric in LEFT.values()]
        yield f"| {treatment} | {' | '.join(cells)} |"
    yield ""
    yield (
        "Stalled are circuits that wait for something asked for before the measurement and got nothing in its last second; "
        "unfinished are web objects asked for before it that are not whole at its end."
    )
    yield ""


def _further(asked: Asked, measured: Measured) -> Iterator[str]:
    for study in asked.studies:
        if study.name in PAPERS:
            continue
        yield f"### {study.heading}"
        yield ""
        if any(conditions.web for conditions in study.conditions):
            yield f"{study.says} {study.networks} networks."
            yield ""
            yield from _web_table(study, measured)
            continue
        yield (
            f"{study.says} {study.networks} networks; in brackets the paired difference to “{study.base}”, with an "
            "asterisk where its "
            "95 % interval excludes zero."
        )
        yield ""
        yield from _table(study, measured, study.treatments, study.base, asked.rule)
        if study.name == "queue limit":
            yield from _picture("predictor-queue-limit", "Latency against throughput for several queue limits")


def _runs(whole: Asked, measured: Measured, *, quick: bool) -> Iterator[str]:
    yield took(measured.made, "Networks are drawn from seeds; a run's records are the same bytes on any machine.")
    if quick:
        yield ""
        runs = sum(len(one.treatments) for own in cells.plan(whole) for one in own)
        expected = cells.processor_time(whole, measured.costs)
        yield (
            f"The whole reproduction is the same command without `--quick`: {runs:,} runs of random networks. By the "
            "processor time that "
            "these took, carried on in a straight line to its numbers of circuits, it needs about "
            f"{format_duration(round(expected), coarse=True)} of "
            f"one core, or {format_duration(round(expected / 2), coarse=True)} on two."
        )
