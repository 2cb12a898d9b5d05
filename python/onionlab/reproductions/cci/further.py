"""What the paper on shared links leaves open: other ways, the tor of today, more load, each circuit scheduler.

Its charts are in `onionlab.reproductions.cci.further_charts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onionlab.reproductions.cci import network
from onionlab.reproductions.claims import Comparison, Rule
from onionlab.reproductions.figures import level, percent
from onionlab.results.describe import plural


def _users(count: Any) -> str:
    return f"{int(count):,} users"


@dataclass(frozen=True)
class Question:
    """One experiment.

    Attributes
    ----------
    stem
        Name of its file.
    heading, says
        What is asked, in a heading and in words.
    short
        The same in a few words, within a list.
    place
        What a place is, as the head of a column.
    key, called
        What the file sweeps, and how a value of it is called.
    """

    stem: str
    heading: str
    says: str
    short: str
    place: str = "lost"
    key: str = network.LOSS
    called: Callable[[Any], str] = network.percent


QUESTIONS = (
    Question(
        "four-ways",
        "All four ways, with the tor of today",
        "tor 0.4.9 (congestion control, KIST each 3 ms as the consensus says), Linux's TCP with CUBIC: one connection for each "
        "pair of relays, one for each circuit, QUIC with a stream for each circuit, and a light and a heavy connection for each "
        "pair; the first two also without conflux. QUIC differs from TCP in more than losses: it has no Nagle's algorithm, and a "
        "connection's streams take turns by the packet whatever the circuit scheduler says. Nor does it shrink the "
        "window of an idle connection. So there are shared connections and one for each circuit without Nagle's, and shared ones "
        "that keep their window (with round robin: below): only what is left of QUIC's difference beside these comes from its "
        "losses holding up one circuit alone, and from its pacing and want of HyStart, which show where nothing is lost.",
        "all four ways with the tor of today",
    ),
    Question(
        "more-load",
        "What sharing costs as more is shared",
        "The tor of today (0.4.9) over Linux's TCP with 0.1 % lost, and an eighth to twice as many users as Tor had in 2018.",
        "more load",
        place="of all Tor",
        key="clients.users.users-at-full-scale",
        called=_users,
    ),
    Question(
        "policies",
        "With each circuit scheduler",
        "With a connection for each circuit its scheduler has nothing to choose; here is what each that onionlab has makes of "
        "shared connections. Round robin (0.2.4) is that of tor 0.2.4, which serves a circuit first when it gets cells.",
        "each circuit scheduler",
    ),
)

COLUMNS: Mapping[str, tuple[str, int]] = {
    "50 kB, s": ("50 kB", 2),
    "1 MB, s": ("1 MB", 2),
    "5 MB, s": ("5 MB", 2),
    "downloads": ("counted", 0),
    "failed, %": ("failed", 2),
    "circuit, s": ("build", 2),
    "links shared, %": ("shared", 1),
    "most sockets": ("sockets", 0),
    "held up, B": ("held", 0),
}


def page(measured: Mapping[str, network.Measured], rule: Rule) -> Iterator[str]:
    """A section for each question asked: means with their intervals, and differences to the first treatment in per cent."""
    for question in QUESTIONS:
        if question.stem not in measured:
            continue
        sampled = measured[question.stem]
        yield f"### {question.heading}"
        yield ""
        networks = plural(sampled.networks, "sampled network")
        extent = f"{networks} of {sampled.relays} relays and {sampled.minutes:g} simulated minutes"
        sure = "with an asterisk where its 95 % interval excludes zero"
        if sampled.networks == 1:
            sure = "without an interval, which one network has not: what is said of it may be otherwise in the next"
        yield f"{question.says} {extent}; in brackets the paired difference to “{sampled.treatments[0]}”, {sure}."
        yield ""
        yield f"| {question.place} | | {' | '.join(COLUMNS)} |"
        yield f"| ---: | --- |{' ---: |' * len(COLUMNS)}"
        for place in sampled.places:
            for treatment in sampled.treatments:
                cells = [_cell(sampled, place, treatment, metric, places, rule) for metric, places in COLUMNS.values()]
                yield f"| {place} | {treatment} | {' | '.join(cells)} |"
        yield ""
        yield f"![{question.heading}](cci-{question.stem}.svg)"
        yield ""


def _cell(sampled: network.Measured, place: str, treatment: str, metric: str, places: int, rule: Rule) -> str:
    text = level(sampled.figures, places, place=place, treatment=treatment, metric=metric)
    base = sampled.treatments[0]
    if treatment == base or metric not in (*network.SIZES, "build"):
        return text
    differs = percent(sampled.figures, Comparison(metric, treatment, base, place, None, "equal"), rule)
    return f"{text} ({differs})" if differs else text
