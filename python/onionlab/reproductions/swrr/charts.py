"""Charts of `onionlab.reproductions.swrr` in the forms of the SWRR paper's figures 2 to 13."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from onionlab.charts.bands import Axis, band_chart
from onionlab.reproductions.panels import whole
from onionlab.reproductions.swrr.measure import STEP, Measured, bands

if TYPE_CHECKING:
    from onionlab.reproductions.swrr.assumptions import Variant

#: Size of a panel, in pixels.
SIZE = (300, 210)

#: Treatments of figures 2 to 7 and of figures 8 to 13, for file names, and the paper's numbers of the figures by middles.
COMPARISONS = {
    "weights": ("SWRR linear", "SWRR proportional", "SWRR logarithmic"),
    "schedulers": ("RR", "EWMA", "SWRR linear"),
}
FIGURES = {
    "weights": {"over-time": {20: 2, 10: 3, 5: 4}, "times": {20: 5, 10: 6, 5: 7}},
    "schedulers": {"over-time": {20: 8, 10: 9, 5: 10}, "times": {20: 11, 10: 12, 5: 13}},
}

WORDS = {"weights": "three weight functions", "schedulers": "RR, EWMA and SWRR"}


def stem(form: str, comparison: str, prefix: str = "swrr") -> str:
    """File name of a chart, without extension."""
    return f"{prefix}-{comparison}-{form}"


def over_time(measured: Measured, variant: Variant, comparison: str, around: str = "") -> dict[str, Any]:
    """Throughput of the whole network and time-outs so far, over time; a row for each number of middles.

    ``around`` says which tor stands around the schedulers where it is not the paper's; then it is none of the paper's figures.
    """
    series = measured.series.filter(pl.col("variant") == variant.name)
    rows = []
    data: dict[str, pl.DataFrame] = {}
    for middles in variant.middles:
        own = series.filter(pl.col("middles") == middles)
        panels, begin = [], variant.load.measure_from / 60
        for column, what in (("throughput", "throughput (Mbit/s)"), ("timeouts", "download time-outs so far")):
            curves = bands(own, "time", column, COMPARISONS[comparison])
            name = f"{column}-{middles}"
            data[name] = curves
            time = Axis("time", "simulated time (min)", {"domain": [0, variant.load.duration / 60], "nice": False})
            data[name] = curves.with_columns(pl.col("time") / 60)
            panels.append(
                _panel(
                    name,
                    data[name],
                    variant,
                    comparison,
                    time,
                    Axis("mean", what, _domain(data[name])),
                    spread="y",
                    measured_from=begin,
                )
            )
        rows.append(alt.hconcat(*panels, spacing=28, title=_heading(comparison, "over-time", middles, around)))
    about = [
        f"mean over {variant.networks} sampled networks; band: 95 % t interval over them, point by point",
        f"throughput: payload reaching clients, mean of {STEP} s; shaded: not measured",
    ]
    return whole(rows, f"Throughput and time-outs: {WORDS[comparison]}{around}", about, data)


def times(measured: Measured, variant: Variant, comparison: str, around: str = "") -> dict[str, Any]:
    """Distribution functions of web clients' times to the first and last byte; a row for each number of middles."""

    def panel(own: pl.DataFrame, name: str, what: str, _: float) -> tuple[pl.DataFrame, alt.LayerChart]:
        curves = bands(own, "quantile", "value", COMPARISONS[comparison])
        x = Axis("mean", what, _domain(curves))
        y = Axis("quantile", "share of downloads", {"domain": [0, 1]}, {"format": "%", "tickCount": 5})
        return curves, _panel(name, curves, variant, comparison, x, y, spread="x")

    rows, data = _of_times(measured.times, variant, comparison, "times", around, panel)
    about = [
        f"web clients; mean quantile function of {variant.networks} sampled networks; band: 95 % t interval over them",
        "first byte: downloads that got one; 320 KiB: downloads that were finished in time",
    ]
    return whole(rows, f"Download times: {WORDS[comparison]}{around}", about, data)


def all_times(measured: Measured, variant: Variant, comparison: str, around: str = "") -> dict[str, Any]:
    """Which share of all web downloads had its first and its last byte within a time; a row for each number of middles."""

    def panel(own: pl.DataFrame, name: str, what: str, end: float) -> tuple[pl.DataFrame, alt.LayerChart]:
        shown = own.filter(pl.col("time") <= end)
        curves = bands(shown, "time", "share", COMPARISONS[comparison]).with_columns(pl.col("high").clip(upper_bound=1.0))
        x = Axis("time", what, {"domain": [0, end], "nice": False})
        y = Axis("mean", "share of all downloads", {"domain": [0, 1]}, {"format": "%", "tickCount": 5})
        return curves, _panel(name, curves, variant, comparison, x, y, spread="y")

    rows, data = _of_times(measured.shares, variant, comparison, "all", around, panel)
    about = [
        f"web clients; mean over {variant.networks} sampled networks; band: 95 % t interval over them, point by point",
        "share of all downloads that ended, those that timed out included: a curve levels off at the share that was done",
    ]
    return whole(rows, f"Downloads done in time: {WORDS[comparison]}{around}", about, data)


def _of_times(
    frame: pl.DataFrame,
    variant: Variant,
    comparison: str,
    form: str,
    around: str,
    panel: Callable[[pl.DataFrame, str, str, float], tuple[pl.DataFrame, alt.LayerChart]],
) -> tuple[list[alt.HConcatChart], dict[str, pl.DataFrame]]:
    """A row for each number of middles, in it a panel for the first and one for the last byte, and what they draw.

    ``panel`` makes one from its rows, its name, the words along its axis and the time (s) after which a client gives up.
    """
    own = frame.filter(pl.col("variant") == variant.name)
    rows = []
    data: dict[str, pl.DataFrame] = {}
    for middles in variant.middles:
        panels = []
        for which, what, end in (
            ("first-byte", "time to the first byte (s)", variant.load.stall),
            ("last-byte", "time for 320 KiB (s)", variant.load.timeout),
        ):
            found = own.filter(pl.col("middles") == middles, pl.col("which") == which)
            if found.is_empty():
                continue
            name = f"{which}-{middles}"
            data[name], drawn = panel(found, name, what, end)
            panels.append(drawn)
        rows.append(alt.hconcat(*panels, spacing=28, title=_heading(comparison, form, middles, around)))
    return rows, data


def _panel(
    name: str,
    curves: pl.DataFrame,
    variant: Variant,
    comparison: str,
    x: Axis,
    y: Axis,
    *,
    spread: Any,
    measured_from: float | None = None,
) -> alt.LayerChart:
    """One panel; a treatment has the colour and dash that it has in every chart, by its place among all."""
    return band_chart(
        name,
        list(variant.treatments),
        x,
        y,
        spread=spread,
        banded=curves["low"].null_count() < curves.height,
        dashed=True,
        drawn=COMPARISONS[comparison],
        cut_before=measured_from,
        size=SIZE,
    )


def _domain(curves: pl.DataFrame) -> dict[str, Any]:
    """From zero to a little above the lines; a band that is wider runs out of the picture."""
    means, highs = curves["mean"].max(), curves["high"].max()
    mean = float(means) if isinstance(means, int | float) else 0.0
    high = float(highs) if isinstance(highs, int | float) else 0.0
    return {"domain": [0, 1.04 * max(mean, min(high, 1.4 * mean)) or 1.0], "nice": False}


def _heading(comparison: str, form: str, middles: int, around: str) -> alt.TitleParams:
    number = None if around else FIGURES[comparison].get(form, {}).get(middles)
    text = f"{middles} middles" if number is None else f"{middles} middles (the paper's figure {number})"
    return alt.TitleParams(text, fontSize=13, offset=6)
