"""Charts of `onionlab.reproductions.cci` in the forms of the paper's figures 9, 10, 13 and 14."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.charts.bands import Axis, band_chart, values
from onionlab.reproductions.cci import network, testbeds
from onionlab.stats import quantile_bands

#: Size of a panel, in pixels.
SIZE = (230, 170)

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


def drawings(beds: testbeds.Measured, sampled: network.Measured) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and specifications of all charts."""
    over_seeds = f"mean quantile function over {beds.seeds} seeds; band: 95 % t interval"
    yield (
        "cci-eight-clients",
        _grid(
            beds.times,
            [[(place, what, TITLES[place], WORDS[what]) for place in testbeds.EIGHT] for what in ("time", "round-trip")],
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
                (place, what, f"{TITLES[place.partition('-')[0]]}, {load}", WORDS[what])
                for place in places
                if place in testbeds.TESTBEDS
            ]
            rows.append(row)
        yield (
            f"cci-two-clients-{what}",
            _grid(beds.times, rows, "Two clients: the one beside the bulk client (the paper's figure 14)", [over_seeds, about]),
        )
    over_networks = f"mean quantile function over {sampled.networks} sampled networks; band: 95 % t interval"
    words = "time to last byte (s)"
    downloads = [[(loss, size, f"{size}, {loss} lost", words) for size in network.SIZES] for loss in sampled.places]
    title = "Downloads on a sampled network (the paper's figure 9)"
    yield "cci-network-times", _grid(sampled.times, downloads, title, [over_networks])
    builds = [[(loss, "build", f"{loss} lost", "time to build a circuit (s)") for loss in sampled.places]]
    yield "cci-network-build", _grid(sampled.times, builds, "Building circuits (the paper's figure 10)", [over_networks])


def _grid(
    times: pl.DataFrame,
    rows: Sequence[Sequence[tuple[str, str, str, str]]],
    title: str,
    about: list[str],
) -> dict[str, Any]:
    """Distribution functions in rows of panels, each ``(place, what, title, words)``."""
    data: dict[str, pl.DataFrame] = {}
    drawn = []
    for row in rows:
        panels = []
        for place, what, heading, words in row:
            own = times.filter(pl.col("place") == place, pl.col("what") == what)
            if own.is_empty():
                continue
            name = f"{place}-{what}"
            data[name] = quantile_bands(own, "value", TREATMENTS)
            x = Axis("mean", words, _domain(data[name]), {"tickCount": 5})
            y = Axis("quantile", "share", {"domain": [0, 1]}, {"format": "%", "tickCount": 5})
            banded = data[name]["low"].null_count() < data[name].height
            panel = band_chart(name, TREATMENTS, x, y, spread="x", banded=banded, size=SIZE)
            panels.append(panel.properties(title=alt.TitleParams(heading, fontSize=12, offset=4)))
        if panels:
            drawn.append(alt.hconcat(*panels, spacing=22))
    whole = alt.vconcat(*drawn, spacing=20, title=alt.TitleParams(title, subtitle=about, frame="bounds", offset=14))
    specification: dict[str, Any] = whole.to_dict()
    specification["config"] = theme.config()
    specification.setdefault("datasets", {}).update({name: values(curves) for name, curves in data.items()})
    return specification


def _domain(curves: pl.DataFrame) -> dict[str, Any]:
    """From zero (or, where times hardly vary, from near the least) to a little above the lines."""
    means = curves["mean"].drop_nulls().to_numpy()
    if not means.size:
        return {}
    least, most = float(means.min()), float(means.max())
    begin = 0.0 if least < 0.6 * most else 0.95 * least
    return {"domain": [begin, 1.02 * most or 1.0], "nice": False, "zero": False}
