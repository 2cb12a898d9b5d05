"""Charts of `onionlab.reproductions.cci` in the forms of the paper's figures 9, 10, 13 and 14."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from onionlab.quantity import format_duration
from onionlab.reproductions.cci import network, testbeds
from onionlab.reproductions.panels import Panel, grid, points_of

TREATMENTS = (testbeds.VANILLA, testbeds.PCTLS)
TITLES = {
    "no-dropping": "NoDropping",
    "shared-dropping": "SharedDropping",
    "dropping-remaining": "DroppingRemaining",
    "one": "Scenario One",
    "two": "Scenario Two",
    "three": "Scenario Three",
}
WORDS = {"time": "time of a transfer (s)", "round-trip": "circuit's round trip (ms)"}


def drawings(beds: testbeds.Measured, sampled: network.Measured | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and specifications of all charts."""
    over_seeds = f"mean quantile function over {beds.seeds} seeds; band: 95 % t interval"
    yield (
        "cci-eight-clients",
        grid(
            beds.times,
            TREATMENTS,
            [[Panel(place, what, TITLES[place], WORDS[what]) for place in testbeds.EIGHT] for what in ("time", "round-trip")],
            "Eight bulk clients (the paper's figure 13)",
            [over_seeds, "time: of 5 MB; round trip: from opening a stream to CONNECTED"],
        ),
    )
    abouts = {"time": "of 5 MB, of a second of audio or video, or of 2 MB (web)", "round-trip": "of the same client"}
    for what, about in abouts.items():
        rows = []
        for load in ("bulk", "audio", "video", "web"):
            places = [f"{scenario}-{load}" for scenario in ("one", "two", "three")]
            row = [
                Panel(place, what, f"{TITLES[place.partition('-')[0]]}, {load}", WORDS[what])
                for place in places
                if place in testbeds.TESTBEDS
            ]
            rows.append(row)
        pooled = points_of(beds.times, [panel for row in rows for panel in row], "seeds")
        yield (
            f"cci-two-clients-{what}",
            grid(
                beds.times,
                TREATMENTS,
                rows,
                "Two clients: the one beside the bulk client (the paper's figure 14)",
                [over_seeds, about, *pooled],
            ),
        )
    if sampled is None:
        return
    over_networks = f"mean quantile function over {sampled.networks} sampled networks; band: 95 % t interval"
    if sampled.networks == 1:
        over_networks = "quantile function, one sampled network"
    words = "time to last byte (s)"
    downloads = [
        [Panel(loss, size, f"{size}, {loss} lost", words, _most(sampled, loss, size)) for size in network.SIZES]
        for loss in sampled.places
    ]
    title = "Downloads on a sampled network (the paper's figure 9)"
    longest = format_duration(sampled.longest)
    failed = f"what failed counts as {longest}; axes end where 95 % of the slower treatment's are done"
    pooled = points_of(sampled.times, [panel for row in downloads for panel in row], "networks")
    yield "cci-network-times", grid(sampled.times, TREATMENTS, downloads, title, [over_networks, failed, *pooled])
    builds = [[Panel(loss, "build", f"{loss} lost", "time to build a circuit (s)") for loss in sampled.places]]
    title = "Building circuits (the paper's figure 10)"
    pooled = points_of(sampled.times, builds[0], "networks")
    yield "cci-network-build", grid(sampled.times, TREATMENTS, builds, title, [over_networks, *pooled])


def _most(sampled: network.Measured, place: str, what: str) -> dict[str, Any]:
    """The scale of a panel: up to where nineteen of twenty downloads of every treatment are done."""
    own = sampled.times.filter(place=place, what=what)
    most = own.group_by("treatment").agg(pl.col("value").quantile(0.95, "lower"))["value"].max()
    return {"domain": [0, 1.03 * most], "nice": False} if isinstance(most, float) else {}
