"""Charts of `onionlab.reproductions.swrr` in the forms of the SWRR paper's figures 2 to 13."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from onionlab.charts import theme
from onionlab.charts.bands import Axis, band_chart, values
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
    return _whole(rows, f"Throughput and time-outs: {WORDS[comparison]}{around}", about, data)


def times(measured: Measured, variant: Variant, comparison: str, around: str = "") -> dict[str, Any]:
    """Distribution functions of web clients' times to the first and last byte; a row for each number of middles."""
    all_times = measured.times.filter(pl.col("variant") == variant.name)
    rows = []
    data: dict[str, pl.DataFrame] = {}
    for middles in variant.middles:
        panels = []
        for which, what in (("first-byte", "time to the first byte (s)"), ("last-byte", "time for 320 KiB (s)")):
            own = all_times.filter(pl.col("middles") == middles, pl.col("which") == which)
            if own.is_empty():
                continue
            name = f"{which}-{middles}"
            data[name] = bands(own, "quantile", "value", COMPARISONS[comparison])
            x = Axis("mean", what, _domain(data[name]))
            y = Axis("quantile", "share of downloads", {"domain": [0, 1]}, {"format": "%", "tickCount": 5})
            panels.append(_panel(name, data[name], variant, comparison, x, y, spread="x"))
        rows.append(alt.hconcat(*panels, spacing=28, title=_heading(comparison, "times", middles, around)))
    about = [
        f"web clients; mean quantile function of {variant.networks} sampled networks; band: 95 % t interval over them",
        "first byte: downloads that got one; 320 KiB: downloads that were finished in time",
    ]
    return _whole(rows, f"Download times: {WORDS[comparison]}{around}", about, data)


def all_times(measured: Measured, variant: Variant, comparison: str, around: str = "") -> dict[str, Any]:
    """Which share of all web downloads had its first and its last byte within a time; a row for each number of middles."""
    all_shares = measured.shares.filter(pl.col("variant") == variant.name)
    rows = []
    data: dict[str, pl.DataFrame] = {}
    for middles in variant.middles:
        panels = []
        for which, what, end in (
            ("first-byte", "time to the first byte (s)", variant.load.stall),
            ("last-byte", "time for 320 KiB (s)", variant.load.timeout),
        ):
            own = all_shares.filter(pl.col("middles") == middles, pl.col("which") == which, pl.col("time") <= end)
            if own.is_empty():
                continue
            name = f"{which}-{middles}"
            data[name] = bands(own, "time", "share", COMPARISONS[comparison]).with_columns(pl.col("high").clip(upper_bound=1.0))
            x = Axis("time", what, {"domain": [0, end], "nice": False})
            y = Axis("mean", "share of all downloads", {"domain": [0, 1]}, {"format": "%", "tickCount": 5})
            panels.append(_panel(name, data[name], variant, comparison, x, y, spread="y"))
        rows.append(alt.hconcat(*panels, spacing=28, title=_heading(comparison, "all", middles, around)))
    about = [
        f"web clients; mean over {variant.networks} sampled networks; band: 95 % t interval over them, point by point",
        "share of all downloads that ended, those that timed out included: a curve levels off at the share that was done",
    ]
    return _whole(rows, f"Downloads done in time: {WORDS[comparison]}{around}", about, data)


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


def _whole(rows: Sequence[alt.HConcatChart], title: str, about: list[str], data: dict[str, pl.DataFrame]) -> dict[str, Any]:
    drawn = alt.vconcat(*rows, spacing=26, title=alt.TitleParams(title, subtitle=about, frame="bounds", offset=16))
    specification: dict[str, Any] = drawn.to_dict()
    specification["config"] = theme.config()
    specification.setdefault("datasets", {}).update({name: values(curves) for name, curves in data.items()})
    return specification
