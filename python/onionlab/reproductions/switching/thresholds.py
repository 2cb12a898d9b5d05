"""Where alpha and beta can decide something in `onionlab.reproductions.switching`: without the socket's writability.

With it an outbuf that is not empty counts as congested whatever beta is (`testbed.toml`). Here beta is asked alone, and each
pair of thresholds comes twice: SWITCHED_CONN together with SWITCH, and when SWITCH has left the outbuf, the paper's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onionlab.reproductions.claims import Comparison, Rule
from onionlab.reproductions.figures import level, percent
from onionlab.reproductions.switching import testbeds
from onionlab.reproductions.switching.study import Study
from onionlab.results.experiment import Experiment

#: What the whole is called in the figures.
PLACE = "thresholds"

#: Ends the names of treatments that ask the new path when the old one is drained.
DRAINED = ", drained"
ORDERS = {"": "together with SWITCH", DRAINED: "when SWITCH has left"}
TREATMENTS = (testbeds.MULTIPLEXED, *(pair + order for order in ORDERS for pair in testbeds.PAIRS))

#: Columns: metric and places. Those compared are set against no switching.
COLUMNS = {
    "switches": ("switches", 1),
    "least share of an outbuf at a move": ("least-occupancy", 2),
    "decision to SWITCH_ACK, s": ("switch-time", 3),
    "until SWITCH has left, s": ("drain-time", 3),
    "from then to SWITCH_ACK, s": ("answer-time", 3),
    "KB/s": ("throughput", 1),
    "latency, s": ("latency", 2),
}
COMPARED = ("throughput", "latency")


def measure(experiment: Experiment) -> Study:
    """Reduce the results: as a testbed's, of which the whole alone counts."""
    return testbeds.measure(experiment, place=PLACE).without_times()


def page(measured: Study, published: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    """The section of the page."""
    yield from ("### Where thresholds can decide (figure 4)", "")
    yield (
        "The same without the socket's writability, so that beta alone decides, and both orders of asking the new path. "
        f"Times are medians of a run, mean over {measured.replicates} seeds. A new exit that is asked together with SWITCH may "
        "answer before that has left the outbuf: then the last time is negative. In brackets the paired difference to no "
        "switching, an asterisk where its 95 % interval excludes zero."
    )
    yield from ("", f"| alpha and beta | asked | the paper's median | {' | '.join(COLUMNS)} |")
    yield f"| --- | --- | ---: |{' ---: |' * len(COLUMNS)}"
    below = published["switch-time"]["median-below"]
    rows = [(testbeds.MULTIPLEXED, "no switching", "", "")]
    rows += [
        (pair + order, pair, asked, f"below {below[pair]:g} s") for order, asked in ORDERS.items() for pair in testbeds.PAIRS
    ]
    for treatment, *head in rows:
        cells = [_cell(measured, treatment, metric, places, rule) for metric, places in COLUMNS.values()]
        yield f"| {' | '.join(head)} | {' | '.join(cells)} |"
    yield ""


def _cell(measured: Study, treatment: str, metric: str, places: int, rule: Rule) -> str:
    text = level(measured.figures, places, place=PLACE, treatment=treatment, metric=metric)
    if metric not in COMPARED or treatment == testbeds.MULTIPLEXED:
        return text
    differs = percent(measured.figures, Comparison(metric, treatment, testbeds.MULTIPLEXED, PLACE, None, "equal"), rule)
    return f"{text} ({differs})" if differs else text
