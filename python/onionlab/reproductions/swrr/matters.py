"""What the figures of `onionlab.reproductions.swrr` come to, in sentences: whether SWRR matters, and what it can choose from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from onionlab.quantity import format_duration, format_fixed, format_number
from onionlab.reproductions.claims import Judged, Rule, judge
from onionlab.reproductions.figures import mean
from onionlab.reproductions.swrr.assumptions import Assumptions, Variant
from onionlab.reproductions.swrr.measure import CELL_PAYLOAD, Measured
from onionlab.reproductions.swrr.rivalry import OURS, Effect, effects
from onionlab.stats import steady_state

#: How often a first byte waits at a middle: a stream is opened, then asked over, each there and back.
PASSES = 4


def answer(measured: Measured, variant: Variant, rule: Rule, who: str) -> Iterator[str]:
    """Whether SWRR matters, from intervals that hold together."""
    found = effects(measured.of(variant.name), variant, rule)
    large = [one for one in found if one.large]
    sure = [one for one in found if one.sure and not one.large]
    alike = [one for one in found if one.alike and not one.sure]
    margin = f"{100 * rule.margin:g} %"
    if large:
        good = sum(one.better for one in large)
        sides = {len(large): "for the better", 0: "for the worse"}.get(good, f"for the better in {good} of them")
        verdict = (
            f"SWRR (linear) matters {who}: {len(large)} of {len(found)} figures differ by surely more than {margin}, {sides}."
        )
    elif sure:
        verdict = f"SWRR (linear) makes some difference {who}, but none that is surely above {margin}."
    elif len(alike) == len(found):
        verdict = f"SWRR (linear) does not matter {who}: nothing differs by {margin}."
    else:
        verdict = f"That SWRR (linear) matters {who} is not shown: no difference is sure with {variant.networks} networks."
    left = len(found) - len(large) - len(sure) - len(alike)
    counts = (
        (large, f"surely differ by more than {margin}"),
        (sure, "surely differ, by less or by not surely more"),
        (alike, f"surely differ by less than {margin}, if at all"),
    )
    parts = [f"{len(ones)} {words}" for ones, words in counts if ones]
    if left:
        parts.append(f"{left} are open")
    yield f"**{verdict}** Of {len(found)} differences to RR and EWMA, intervals at 95 % together, {', '.join(parts)}."
    shown = sorted(large or sure or found, key=lambda one: -abs(one.found.percent or 0.0))
    if shown:
        yield _largest(shown, certain=bool(large or sure))
    yield ""


def _largest(shown: Sequence[Effect], *, certain: bool) -> str:
    if certain:
        return f"The largest of those that are sure: {'; '.join(one.words for one in shown[:3])}."
    return f"The largest, which chance may have made: {shown[0].words}."


def choice(measured: Measured, variant: Variant) -> Iterator[str]:
    """How long cells wait where a scheduler of circuits chooses, beside what users wait for."""
    parts = []
    for middles in variant.middles:
        figures = measured.of(variant.name).filter(middles=middles)
        waits = [mean(figures.filter(treatment=name, metric="queue-wait")["value"]) for name in variant.treatments]
        byte = mean(figures.filter(metric="first-byte")["value"])
        known = [wait for wait in waits if wait is not None]
        if not known or not byte:
            continue
        share = 100 * PASSES * sum(known) / len(known) / 1000 / byte
        parts.append(
            f"with {middles} middles {span([format_number(wait, 2) for wait in (min(known), max(known))])} ms, {PASSES} times "
            f"which is {format_number(share, 2)} % of the median time to the first byte, {format_number(byte, 2)} s"
        )
    yield (
        "A scheduler of circuits can only choose among cells that wait in circuit queues. In the mean a cell waits there, "
        f"at a middle and by the scheduler, {'; '.join(parts)}. (A first byte waits there {PASSES} times: a stream is "
        "opened, then asked over, each there and back.) This is of middles alone: at exits whose way to a middle is full a cell "
        "waits longer, and there the scheduler chooses too."
    )
    yield ""


def span(ends: Sequence[str]) -> str:
    """From the least to the greatest, or the one where they read alike."""
    return " to ".join(dict.fromkeys(ends))


def capacity(measured: Measured, variant: Variant) -> Iterator[str]:
    """Where the rest of what the middles' links carry goes."""
    parts = []
    for middles in variant.middles:
        figures = measured.of(variant.name).filter(middles=middles, treatment=OURS)
        sent, payload, size, useful = (
            mean(figures.filter(metric=metric)["value"]) for metric in ("sent", "throughput", "cell-bytes", "payload-cells")
        )
        if sent is not None and payload is not None and size is not None and useful is not None:
            parts.append(
                f"with {middles} middles, {format_fixed(payload, 1)} of {format_fixed(sent, 1)} Mbit/s arrive, at "
                f"{format_fixed(size, 0)} B a cell, {format_fixed(100 - useful, 0)} % of which bring a client nothing"
            )
    yield (
        f"Where links are full, not all that they send is payload. A cell brings {CELL_PAYLOAD} B of it and takes more: "
        "headers of cell, TLS, TCP and IP, and what is sent twice. And some cells bring a client nothing: SENDMEs, circuits "
        "and streams being built, and what still comes for downloads that were given up. "
        f"Under {OURS}, {'; '.join(parts)}."
    )
    yield ""


def settled(measured: Measured, variant: Variant) -> Iterator[str]:
    """Whether the goodput is steady while it is measured, at every number of middles."""
    begin = variant.load.measure_from
    for middles in variant.middles:
        rows = measured.goodput.filter(pl.col("variant") == variant.name, pl.col("middles") == middles)
        found = steady_state(rows.with_columns(seed=pl.lit(0)), list(variant.treatments), begin)
        text = []
        if all(one.short for one in found):
            text.append("the series is too short for MSER-5")
        elif open_ := [one.treatment for one in found if one.settled_at is None]:
            text.append(f"the goodput of {', '.join(open_)} does not settle in the first half of the time (MSER-5)")
        else:
            latest = max(one.settled_at or 0.0 for one in found)
            early = [one.treatment for one in found if one.too_early]
            late = f"; measured too early: {', '.join(early)}" if early else ""
            text.append(f"the goodput of all schedulers has settled by {format_duration(latest)} (MSER-5){late}")
        drifts = [100 * one.drift.mean for one in found if one.drift is not None]
        if drifts:
            low, high = (format_fixed(bound, 1, signed=True) for bound in (min(drifts), max(drifts)))
            text.append(
                f"the second half of the measurement differs from the first by {low} to {high} % in the mean over networks"
            )
            moving = [one.treatment for one in found if one.moving]
            text.append(f"it **still moves** under {', '.join(moving)}" if moving else "none moves by more than 5 % for sure")
        yield f"- {middles} middles, measured from {format_duration(begin)}: {'; '.join(text)}."
    yield ""


def failures(assumptions: Assumptions, measured: Measured, judged: Sequence[Judged]) -> Iterator[str]:
    """What times leave out, and whether the claims about them come out otherwise with it."""
    main = assumptions.main
    shares = []
    for middles in main.middles:
        figures = measured.of(main.name).filter(middles=middles, metric="timeout-share")
        known = [share for name in main.treatments if (share := mean(figures.filter(treatment=name)["value"])) is not None]
        if known:
            shares.append(f"{span([format_fixed(share, 0) for share in (min(known), max(known))])} % with {middles} middles")
    of_times = [number for number, one in enumerate(judged) if any(part.metric.endswith("-byte") for part in one.claim.parts)]
    everything = measured.of(main.name)
    with_failures = everything.filter(~pl.col("metric").is_in(["first-byte", "last-byte"])).with_columns(
        pl.col("metric").str.replace("-all$", "")
    )
    again = judge(with_failures, assumptions.claims, assumptions.rule)
    changed = [
        f"{number + 1} ({again[number].verdict})" for number in of_times if again[number].verdict != judged[number].verdict
    ]
    yield (
        "**Times are of downloads that came to something:** to the first byte of those that got one, which after "
        f"{main.load.stall} s without any were given up, and for 320 KiB of those complete within {main.load.timeout} s. "
        f"By the scheduler {'; '.join(shares)} of all downloads timed out, and a scheduler that gives up more of the slow "
        "ones has the better median of the rest. So *of all* has the mean over all web downloads, in which a failure counts "
        f"as {main.load.timeout} s. Judged by it, of the {len(of_times)} claims about times "
        f"{'these come out otherwise: ' + ', '.join(changed) if changed else 'none comes out otherwise'}."
    )
    yield ""
