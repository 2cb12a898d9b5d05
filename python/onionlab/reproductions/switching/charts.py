"""Charts of `onionlab.reproductions.switching` in the forms of the papers' figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from onionlab.reproductions.panels import Panel, extent, grid, points_of
from onionlab.reproductions.switching import live, network, testbeds
from onionlab.reproductions.switching.study import Study

#: What is said of throughputs.
POOLED = "throughput: each upload of all seeds"

#: What the time to switch is.
DECIDED = "decision to the new exit's SWITCH_ACK (s)"

#: Size of a panel, in pixels.
SIZE = (300, 190)


def drawings(bed: Study, on_live: Study, sampled: Study, published: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and specifications of all charts; ``published`` is what the papers have of the simulated network."""
    seeds = f"mean quantile function over {bed.replicates} seeds; band: 95 % t interval"
    yield "switching-switch-time", _switch_times(bed, seeds)
    yield "switching-entries", _entries(bed, seeds)
    yield "switching-capacity", _capacities(bed)
    shown = (testbeds.MULTIPLEXED, testbeds.CHOSEN, testbeds.OTHER)
    panels = [
        Panel(testbeds.WHOLE, "throughput", "Throughput (figure 7)", "12.3 MB over the time of an upload (KB/s)"),
        Panel(testbeds.WHOLE, "latency", "Latency (figure 8)", "a cell from client to server (s)"),
    ]
    title = "Four clients that send, without and with switching"
    yield "switching-throughput", grid(bed.times, shown, [panels], title, [POOLED, seeds.replace("mean", "latency: mean")], SIZE)
    yield "switching-live", _live(on_live)
    yield "switching-network", _network(sampled, published)


def _switch_times(bed: Study, about: str) -> dict[str, Any]:
    panel = Panel(testbeds.WHOLE, "switch-time", "By alpha and beta (figure 4)", DECIDED)
    return grid(bed.times, testbeds.PAIRS, [[panel]], "Time to switch", [about], SIZE)


def _entries(bed: Study, about: str) -> dict[str, Any]:
    """Figure 5: the curves are entries."""
    entries = testbeds.RELAYS[0], testbeds.RELAYS[3]
    own = bed.times.filter(pl.col("treatment") == testbeds.OTHER, pl.col("what") == "switch-time", pl.col("place").is_in(entries))
    times = own.with_columns(treatment="place", place=pl.lit(testbeds.WHOLE))
    panel = Panel(testbeds.WHOLE, "switch-time", "By entry (figure 5)", DECIDED)
    if points_of(times, [panel], "seeds"):
        about = f"each switch a point, those of all {bed.replicates} seeds together"
    control = [
        f"{testbeds.CHOSEN}; the round trip of control between relays",
        "alone, after which the client is told and goes on",
    ]
    return grid(times, entries, [[panel]], "Decision to SWITCH_ACK, another entry", [*control, about], SIZE)


def _capacities(bed: Study) -> dict[str, Any]:
    """Figure 6: the curves are relays, the sample is of all seeds."""
    shown = (testbeds.CHOSEN, testbeds.OTHER)
    gains = bed.times.filter(pl.col("what") == "capacity-gain", pl.col("treatment").is_in(shown))
    idle = (pl.col("treatment") == testbeds.CHOSEN) & (pl.col("place") == testbeds.IDLE)
    times = gains.filter(~idle).with_columns(treatment="place", place="treatment")
    scale = extent(times.select(mean="value"))
    panels = [Panel(name, "capacity-gain", name, "more than without switching (Mbit/s)", scale) for name in shown]
    about = [
        "what a relay sends while all four clients upload, less what it sends in the run of the same seed without switching,",
        f"which stands for “before”; a seed a value, {bed.replicates} seeds. Entry 2 is idle where circuits stay at one entry",
    ]
    return grid(times, testbeds.RELAYS, [panels], "Capacities after less before (the paper's figure 6)", about, SIZE)


def _live(on_live: Study) -> dict[str, Any]:
    about = f"latency: mean quantile function over {on_live.replicates} seeds; band: 95 % t interval"
    panels = [
        Panel(live.PLACE, "capacity-gain", "Entry (figure 10)", "more than without switching (Mbit/s)"),
        Panel(live.PLACE, "throughput", "Throughput (figure 11)", "12.3 MB over the time of an upload (KB/s)"),
        Panel(live.PLACE, "latency", "Latency (figure 12)", "a cell from client to server (s)"),
    ]
    pooled = f"{POOLED}; entry: what it sends more than in the run of the same seed without switching"
    return grid(on_live.times, live.SHOWN, [panels], "Middles and exits of a real consensus", [pooled, about], SIZE)


def _network(sampled: Study, published: Mapping[str, Any]) -> dict[str, Any]:
    medians = [value for of in published["cells-queued"]["median-below"].values() for value in of.values()]
    about = [
        f"mean quantile function over {sampled.replicates} sampled networks; band: 95 % t interval",
        f"the paper's medians of queues (figure 4 f) are {min(medians)} to {max(medians)} cells",
    ]
    sizes = {"web": "320 KiB", "bulk": "5 MiB"}
    # One scale for all positions, so that they can be compared; where all queues are empty any scale will do.
    queues = extent(sampled.times.filter(what="queued").select(mean="value"))
    rows = [
        [
            Panel(group, "first-byte", f"First byte, {group} (figure 4 {mark})", "time to first byte (s)")
            for group, mark in (("web", "a"), ("bulk", "b"))
        ],
        [
            Panel(group, "last-byte", f"{sizes[group]} (figure 4 {mark})", "time to last byte (s)")
            for group, mark in (("web", "c"), ("bulk", "d"))
        ],
        [Panel(group, "cells", f"Cells, {group} (figure 4 e)", "DATA cells that reached a client") for group in network.GROUPS],
        [
            Panel(place, "queued", f"In queues, {place} (figure 4 f)", "cells in circuit queues of a relay, mean", queues)
            for place in dict.fromkeys(network.POSITIONS.values())
        ],
    ]
    about += points_of(sampled.times, [panel for row in rows for panel in row], "networks")
    return grid(sampled.times, sampled.treatments, rows, "150 relays, ten web and ten bulk clients", about, SIZE)
