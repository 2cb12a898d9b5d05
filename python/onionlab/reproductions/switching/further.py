"""What the papers on circuit switching leave open: other rules, what is narrow, other traffic, the tor of today, more load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from onionlab.reproductions.claims import Comparison, Rule
from onionlab.reproductions.figures import level, percent
from onionlab.reproductions.switching import attack, network, testbeds
from onionlab.reproductions.switching.study import Study
from onionlab.results.experiment import Experiment


@dataclass(frozen=True)
class Question:
    """One experiment.

    Attributes
    ----------
    stem
        Name of its file.
    heading, says
        What is asked, in a heading and in words.
    columns
        Of its table: place, metric and places shown, by heading. An empty place is the whole.
    key, called
        What it sweeps, and what is said before and after a value of that.
    """

    stem: str
    heading: str
    says: str
    columns: Mapping[str, tuple[str, str, int]]
    key: str | None = None
    called: str = "{}"


#: Heading of the times of a switch.
TIME = "decision to SWITCH_ACK, s"

BED = {
    "KB/s": ("", "throughput", 1),
    "all four, KB/s": ("", "together", 1),
    "entry 1 sends, Mbit/s": ("entry1", "capacity", 2),
    "latency, s": ("", "latency", 2),
    "switches": ("", "switches", 1),
    TIME: ("", "switch-time", 2),
    "not ended well": ("", "undone", 1),
    "lost, %": ("", "drop-rate", 2),
}
NET = {
    "web first byte, s": ("web", "first-byte", 2),
    "320 KiB, s": ("web", "last-byte", 2),
    "bulk first byte, s": ("bulk", "first-byte", 2),
    "5 MiB, s": ("bulk", "last-byte", 1),
    "failed, %": (network.WHOLE, "failed", 2),
    "switches a minute": (network.WHOLE, "switches", 1),
    "not ended well, %": (network.WHOLE, "undone", 1),
}
#: Cells in a relay's circuit queues.
QUEUES = {f"queued at {place}": (place, "queued", 1) for place in dict.fromkeys(network.POSITIONS.values())}

ON_TESTBEDS = (
    Question(
        "variants",
        "Other rules",
        "The testbed with one rule after the other another: what counts as congestion, when the new path is asked, which "
        "circuits move, how often the entry looks; and with what the papers do not have, hysteresis and a limit of moves.",
        BED,
    ),
    Question(
        "fast-entries",
        "If the entries are not what is narrow",
        "Entries of 100 Mbit/s, middles and exits of 1.5 as before: what an entry moves then leaves what is narrow.",
        BED,
    ),
    Question(
        "large-sockets",
        "If sockets are as large as Linux makes them",
        "The testbed without the limit of 16 KiB.",
        BED,
    ),
    Question(
        "downloads",
        "Beside circuits that download",
        "Two clients send 12.3 MB, two receive as much over the same path.",
        {"sent, KB/s": ("uploads", "throughput", 1), "received, KB/s": ("downloads", "throughput", 1)}
        | {name: column for name, column in BED.items() if name != "KB/s"},
    ),
    Question(
        "today",
        "With the tor of today",
        "The testbed with tor 0.4.9 (congestion control, KIST) and the sockets of Linux.",
        BED,
    ),
)
ON_NETWORKS = (
    Question(
        "narrow",
        "The network with small sockets and narrow relays",
        "The simulated network has nothing to relieve (see above). Here its sockets are the testbed's 16 KiB, and its relays "
        "have all or a small part of their bandwidth.",
        NET | QUEUES,
        "network.capacity.factor",
        "bandwidths times {:g}",
    ),
    Question(
        "one-path",
        "All circuits on one path",
        "The network's twenty clients on one entry, middle and exit, with four more of each to move to, as the Shadow paper says "
        "of its circuits before switching. Receive buffers of 16 KiB make the connections between relays narrow, 1 MiB does not.",
        NET | QUEUES,
        "base.receive-buffer",
        "receive buffers of {}",
    ),
    Question(
        "today-network",
        "The network with the tor of today",
        "tor 0.4.9 with fifty bulk clients (ten in the quick form); switching has no conflux, hence the second row.",
        NET,
    ),
)


@dataclass(frozen=True)
class Measured:
    """All of them, by the names of their files, and the guard under attack."""

    beds: Mapping[str, Study]
    attacked: Study
    networks: Mapping[str, Study]

    @classmethod
    def of(cls, studies: Mapping[str, Study]) -> Measured:
        """From all experiments, by the names of their files."""
        beds, networks = ({one.stem: studies[one.stem] for one in questions} for questions in (ON_TESTBEDS, ON_NETWORKS))
        return cls(beds, studies[ATTACK], networks)


#: Name of the file of `onionlab.reproductions.switching.attack`.
ATTACK = "attack"


#: From an experiment's results to what is taken of them.
Measure = Callable[[Experiment], Study]


def asked() -> list[tuple[str, Measure]]:
    """Names of the files, and how each is reduced."""
    return [
        *((question.stem, _testbed) for question in ON_TESTBEDS),
        (ATTACK, attack.measure),
        *((question.stem, partial(_network, question)) for question in ON_NETWORKS),
    ]


def _testbed(experiment: Experiment) -> Study:
    return testbeds.measure(experiment).without_times()


def _network(question: Question, experiment: Experiment) -> Study:
    def called(value: Any) -> str:
        return question.called.format(value)

    return network.measure(experiment, question.key, called).without_times()


def page(measured: Measured, rule: Rule) -> Iterator[str]:
    """A section for each question: means with their intervals, and differences to the first treatment in per cent."""
    for question in ON_TESTBEDS:
        bed = measured.beds[question.stem]
        yield from _section(question, bed, testbeds.WHOLE, [""], f"{bed.replicates} seeds", rule)
    yield from attack.page(measured.attacked, rule)
    for question in ON_NETWORKS:
        net = measured.networks[question.stem]
        extent = f"{net.replicates} sampled networks or seeds of {net.minutes:g} simulated minutes"
        yield from _section(question, net, network.WHOLE, list(net.points), extent, rule)


def _section(
    question: Question,
    measured: Study,
    whole: str,
    points: list[str],
    extent: str,
    rule: Rule,
) -> Iterator[str]:
    yield f"### {question.heading}"
    yield ""
    columns = {
        name: column
        for name, column in question.columns.items()
        if not measured.figures.filter(metric=column[1]).drop_nulls("value").is_empty()
    }
    elsewhere = TIME in columns and any("another entry" in treatment for treatment in measured.treatments)
    alone = (
        " With another entry decision to SWITCH_ACK is the round trip of control alone (“Time to switch”)." if elsewhere else ""
    )
    yield (
        f"{question.says} {extent}; in brackets the paired difference to “{measured.treatments[0]}”, with an asterisk where its "
        f"95 % interval excludes zero.{alone}"
    )
    yield ""
    swept = points != [""]
    yield f"|{' |' if swept else ''} | {' | '.join(columns)} |"
    yield f"| --- |{' --- |' if swept else ''}{' ---: |' * len(columns)}"
    for point in points:
        prefix = f"{point}: " if point else ""
        for treatment in measured.treatments:
            cells = [
                _cell(measured, treatment, prefix + (place or whole), metric, places, rule)
                for place, metric, places in columns.values()
            ]
            yield f"|{f' {point} |' if swept else ''} {treatment} | {' | '.join(cells)} |"
    yield ""


#: Figures whose differences to the first treatment are shown.
COMPARED = ("throughput", "together", "latency", "first-byte", "last-byte")


def _cell(measured: Study, treatment: str, place: str, metric: str, places: int, rule: Rule) -> str:
    text = level(measured.figures, places, place=place, treatment=treatment, metric=metric)
    base = measured.treatments[0]
    if treatment == base or metric not in COMPARED:
        return text
    differs = percent(measured.figures, Comparison(metric, treatment, base, place, None, "equal"), rule)
    return f"{text} ({differs})" if differs else text
