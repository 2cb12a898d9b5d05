"""The page of `onionlab.reproductions.shadow_networks`: what was run, what lies within the spread, time and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from onionlab.quantity import format_bytes, format_fixed, format_size
from onionlab.reproductions.kept import code, together
from onionlab.reproductions.published import differences_section
from onionlab.reproductions.shadow_networks import charts as shadow_networks_charts
from onionlab.reproductions.shadow_networks.more_load import MORE_LOAD, QUANTILES, Effect, Ratio
from onionlab.reproductions.shadow_networks.spread import SPREAD, Placed
from onionlab.reproductions.shadow_networks.transfer_times import FIRST_BYTE, HOUR, SIZES, TIMES
from onionlab.stats.intervals import lower_quantile

if TYPE_CHECKING:
    from onionlab.reproductions.shadow_networks import Comparison
    from onionlab.reproductions.shadow_networks.by_place import Place

#: What their runs took, by scale: medians of Shadow 1.13, and where known of Shadow 2 on 32 cores.
COSTS = {"1%": "4 h 47 min, 35 GiB", "10%": "19 h 24 min, 355 GiB (Shadow 2: 9.5 h, 325 GiB)"}

#: Quantiles of the times by place.
OF_PLACES = (0.1, 0.25, 0.5, 0.75, 0.9)

INTRODUCTION = """\
# Whole networks of real tor in Shadow

The networks of "Once is Never Enough" (Jansen, Tracey, Goldberg, USENIX Security 2021), each run here as it was given: relays
with their links, limits and weights, clients that stand for about a hundred users each, perf clients that download 50 KiB, 1
MiB and 5 MiB.

- Theirs: real tor 0.3.5 in Shadow 1.13, one simulated hour, statistics from minute 20; no packet loss, no entry guards, every
  exit takes every port.
- Ours: `tor = "0.3.5"` on links and TCP as Shadow models them, one run of each network. Clients are Tor's users by {models},
  latencies come from {latency}.

This page was written by

{commands}

and shows the networks that have been run. Times count from the moment at which the request leaves, when the stream is
connected, as theirs do. A figure is a quantile of a time. It is *within* if it lies within {spread:g} standard deviations
between their networks of the mean over their networks ({networks}); that is the question whether ours could be
one of theirs. The figure of the same network there stands beside it; the ratio of ours to it, the median over the quantiles of
all sizes together, says how near ours is. **Look at the ratio before the count**: their networks differ so much
among each other that for {wide} no time is too short to be within.
A network of 1 % has about 40 downloads of 1 MiB and 20 of 5 MiB: their outer quantiles are single downloads. Where ours differ,
and why, stands [at the end](#what-differs-and-why).

At the end of an hour downloads are cut off, here as there. Of a run that ended sooner those count that began a time-out (15, 60
or 120 s, by size) before its end, whatever became of them; of later ones only the fast would be seen to end.
"""

MODEL = """\
## What differs from the reference by design

- **Latency.** The graph of RIPE Atlas measurements that they ran on cannot be had as a whole. Here the latency between two hosts
  is that between their countries, times 1.76, which is what a published piece of that graph has in the median of 42 pairs of
  countries ([latency](../latency.md)); between eight countries it is what that piece has, and nowhere less than 29 ms. Hosts of
  one country are equally far from all others; there, cities differ.
- **Links.** Shadow 1.13 is not Shadow 3, which the profile `shadow` follows. What is set besides: segments of 1434 B with 66 B of
  headers; links that pass what has waited for them together, 5 ms of it at a time; a time-out that follows the round trips told
  by segments that leave while another is being processed, and all that a time-out does there
  ([how](../../crates/net/README.md#shadow-113)); a window that begins with one segment;
  buffers that begin with what the path holds and a quarter more;
  connections that are ready in the order of GLib's hash table; a receive queue that practically never drops (Shadow 3: CoDel),
  because that Shadow counts packets into its 1,024,000 B without headers and out of them with headers; and a KIST that is told of
  no unsent data, because it answers `SIOCOUTQNSD` with a number that tor takes for success. What differs still: sockets' buffers
  grow to 4 and 6 MiB (sending, receiving), there to the product of link rate and round trip if that is larger, at most ten
  times as much.
- **Tor.** No directory traffic, no padding, no processor time; Shadow 1.13 counts no processor time either.
"""


def page(
    comparisons: list[Comparison],
    effects: list[Effect],
    differences: list[dict[str, str]],
    unlike: Mapping[str, bool] = MappingProxyType({}),
    shorter: Sequence[Comparison] = (),
) -> str:
    """The page as Markdown.

    ``unlike``: networks whose runs with both loads do not compare, and whether for want of one build; ``shorter``: runs with the
    usual load that have no section of their own, because they stand beside more load or another build made a longer one.
    """
    settings = zip(*(one.observed.settings for one in comparisons), strict=True)
    latency, models = (" and ".join(dict.fromkeys(found)) for found in settings)
    lines = [
        INTRODUCTION.format(
            models=models,
            latency=latency,
            spread=SPREAD,
            commands="\n".join(_commands([*comparisons, *shorter], effects)),
            networks="; ".join(_networks(comparisons)),
            wide=" and ".join(_wide(comparisons)),
        )
    ]
    inside, all_ = (sum(counts) for counts in zip(*(one.within for one in comparisons), strict=True))
    lines += [f"**Of {all_} figures of {len(comparisons)} network{'s' * (len(comparisons) != 1)}, {inside} are within.**", ""]
    lines += _overview([*comparisons, *shorter])
    # A run that stands beside more load is in both.
    parts = [*(one.made for one in (*comparisons, *shorter)), *(one.made for one in effects)]
    runs = dict.fromkeys(made for part in parts for made in part)
    lines += [
        "",
        f"By {code(together(runs))}. Memory is the most that the whole program had until the run's end, other runs beside it and "
        "before it included; with `--jobs 1` and one network it is that network's.",
    ]
    lines += ["", MODEL]
    for effect in effects:
        lines += _effect(effect)
    for name, of_other_builds in unlike.items():
        lines += _not_compared(name, of_other_builds)
    for one in comparisons:
        lines += _section(one)
    lines += differences_section(differences)
    return "\n".join(lines)


def _networks(comparisons: list[Comparison]) -> Iterator[str]:
    """How many networks of theirs there are, by scale and size."""
    for one in {one.scale: one for one in comparisons}.values():
        by_size = {size: one.targets[FIRST_BYTE, size][0].networks for size in SIZES}
        fewer = [f"{count} with {format_size(int(size))}" for size, count in by_size.items() if count < by_size["all"]]
        missing = (
            f", {' and '.join(fewer)}: those without such a download that was completed, presumably the fullest, are missing"
        )
        yield f"{by_size['all']} of {one.scale.replace('%', ' %')}{missing if fewer else ''}"


def _wide(comparisons: list[Comparison]) -> Iterator[str]:
    """How far their networks differ, by scale: of how many figures no fast one could be outside."""
    for one in {one.scale: one for one in comparisons}.values():
        figures = [target for row in one.targets.values() for target in row]
        below_zero = sum(target.mean <= SPREAD * target.sd for target in figures)
        yield f"{below_zero} of the {len(figures)} figures of {one.scale.replace('%', ' %')}"


def _commands(comparisons: list[Comparison], effects: list[Effect]) -> Iterator[str]:
    """What to run for these networks: a line for each simulated time and load, the usual load first."""
    usual = [(one.observed.duration, one.observed.measure_from, one.name) for one in comparisons]
    beside, more = ([(60 * one.lasted[i], 60 * one.measure_from, one.name) for one in effects] for i in (0, 1))
    for load, runs in ((1.0, dict.fromkeys(usual + beside)), (MORE_LOAD, dict.fromkeys(more))):
        by_length: dict[str, list[str]] = {}
        for length, measure_from, name in runs:
            by_length.setdefault(_length(length, measure_from), []).append(name)
        for option, names in by_length.items():
            words = [f"--networks {','.join(names)}", f"--load {load:g}" if load != 1 else "", option]
            yield " ".join(["    onionlab reproduce shadow-networks", *filter(None, words)])


def _length(duration: float, measure_from: float) -> str:
    """How a command says for how long it runs: an hour that ended sooner counts downloads from later on than half of its time."""
    if duration == HOUR:
        return ""
    ended_sooner = measure_from > duration / 2
    return f"--at-most TIME   # until minute {duration / 60:g}" if ended_sooner else f'--duration "{duration / 60:g} min"'


def _overview(comparisons: list[Comparison]) -> Iterator[str]:
    """A line for each network: figures, errors, cost."""
    yield "| network | within | first byte, ratio | last byte, ratio | failed, theirs / ours |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for one in comparisons:
        inside, all_ = one.within
        ratios = (_ratio_of(one.ratio(metric)) for metric in ("time_to_first_byte_recv", "time_to_last_byte_recv"))
        failed = f"{_percent(one.their_errors)} / {_percent(one.our_errors)}"
        yield f"| {_named(one)} | {inside} of {all_} | {' | '.join(ratios)} | {failed} |"
    yield ""
    # Of one core either way; the processor's clock does not count what other work on the machine took.
    clock, title = ("cpu_seconds", "processor time")
    if any(one.observed.run["cpu_seconds"] is None for one in comparisons):
        clock, title = ("wall_seconds", "wall time, one core")
    yield f"| network | simulated | {title} | memory | cell-hops/s | theirs took, for an hour |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for one in comparisons:
        run, seconds = one.observed.run, float(one.observed.run[clock])
        cells = (
            _named(one),
            f"{one.observed.duration / 60:g} min",
            f"{seconds / 60:.1f} min",
            format_bytes(float(run["peak_memory_bytes"])),
            f"{run['cell_hops'] / seconds / 1e6:.2f} million",
            COSTS.get(one.scale, ""),
        )
        yield f"| {' | '.join(cells)} |"


def _named(one: Comparison) -> str:
    """A network, and until when it was run if that is not the hour."""
    minutes = one.observed.duration / 60
    return one.name if one.observed.duration >= HOUR else f"{one.name}, until minute {minutes:g}"


def _ratio_of(value: float) -> str:
    return "–" if math.isnan(value) else format_fixed(value, 2)


def _not_compared(name: str, of_other_builds: bool) -> Iterator[str]:
    """A network whose two loads were run by different codes, or measured from different minutes."""
    yield from (f"## {100 * (MORE_LOAD - 1):.0f} % more load: {name}", "")
    if of_other_builds:
        yield "Run by another build than the usual load, so that more than the load may differ: not compared."
    else:
        yield "Its downloads count from another minute than with the usual load, as of a run of another duration: not compared."
    yield ""


def _effect(one: Effect) -> Iterator[str]:
    """What more load changes in one network."""
    inside, all_ = one.agreeing
    ours, theirs = one.moved
    yield from (f"## {100 * (MORE_LOAD - 1):.0f} % more load: {one.name}", "")
    yield (
        f"The same network with {MORE_LOAD:g} times the circuits, {one.minutes:g} simulated minutes each, downloads from minute "
        f"{one.measure_from:g} on. A quantile with more load over the same quantile with the usual one: ours with 95 % intervals "
        "(bootstrap over clients), theirs the ratio of the means over their networks, plus or minus two standard errors. "
        f"**{inside} of {all_} agree**: they do not differ by Welch's test of the logarithms at 95 %. That it has any effect, so "
        f"that 1 is outside the interval, {ours} of ours say and {theirs} of theirs."
    )
    yield ""
    yield f"| time to | of | | {' | '.join(f'p{100 * q:g}' for q in QUANTILES)} |"
    yield f"| --- | --- | --- |{' ---: |' * len(QUANTILES)}"
    for (metric, size), ratios in one.ratios.items():
        name = "all sizes" if size == "all" else format_size(int(size))
        yield f"| {TIMES[metric]} | {name} | ours | {' | '.join(_ratio(ratio) for ratio in ratios)} |"
        yield f"| | | theirs | {' | '.join(f'{ratio.theirs:.2f} ± {2 * ratio.error:.2f}' for ratio in ratios)} |"
    before, after = (f"{100 * share:.1f} % in {minutes:g} minutes" for share, minutes in zip(one.failed, one.lasted, strict=True))
    yield from ("", f"Bold: they differ. Failed downloads: {before}, with more load {after}.", "")
    inside, all_ = one.within
    yield (
        "No network of theirs was run with both loads: the ratio says how the mean of their networks moves, not how far one "
        f"of them may. Whether ours with more load, in all {one.lasted[1]:g} minutes of it, could be one of theirs with more "
        f"load is the same question as with the usual one: **{inside} of {all_} figures are within** {SPREAD:g} standard "
        "deviations between their networks of the mean over them."
    )
    yield from ("", f"| time to | of | | {' | '.join(f'p{100 * q:g}' for q in QUANTILES)} |")
    yield f"| --- | --- | --- |{' ---: |' * len(QUANTILES)}"
    for (metric, size), placed in one.loaded.items():
        name = "all sizes" if size == "all" else format_size(int(size))
        yield f"| {TIMES[metric]} | {name} | ours | {' | '.join(_ours(figure) for figure in placed)} |"
        yield f"| | | their networks | {' | '.join(_spread(figure) for figure in placed)} |"
    yield from ("", "In seconds. Bold: outside.", "")


def _ratio(ratio: Ratio) -> str:
    text = f"{ratio.ours:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
    return text if ratio.agrees else f"**{text}**"


def _section(one: Comparison) -> Iterator[str]:
    """One network: its table and its chart."""
    own, run = one.observed, one.observed.run
    yield from (f"## {one.name}", "")
    yield (
        f"{run['relays']} relays, {run['clients']} clients; {own.duration / 60:g} simulated minutes, downloads from minute "
        f"{own.measure_from / 60:g} on. All relays together send {own.goodput / 1e9:.2f} Gbit/s."
    )
    yield ""
    head = [f"p{100 * q:g}" for q in one.quantiles]
    yield f"| time to | of | downloads, theirs / ours | | {' | '.join(head)} |"
    yield f"| --- | --- | ---: | --- |{' ---: |' * len(head)}"
    for (metric, size), figures in one.figures.items():
        count = f"{len(one.theirs[metric, size])} / {len(one.ours[metric, size])}"
        name = "all sizes" if size == "all" else format_size(int(size))
        yield f"| {TIMES[metric]} | {name} | {count} | theirs | {' | '.join(_seconds(figure.theirs) for figure in figures)} |"
        yield f"| | | | ours | {' | '.join(_ours(figure) for figure in figures)} |"
        yield f"| | | | their networks | {' | '.join(_spread(figure) for figure in figures)} |"
    stem = shadow_networks_charts.stem(one)
    yield from ("", "In seconds. Bold: outside.", "", f"![{one.name}: ours beside theirs]({stem}.svg)", "")
    if one.places:
        yield from _places(one.places)


def _places(places: Sequence[Place]) -> Iterator[str]:
    """First bytes by where clients stand."""
    yield (
        "First bytes of all sizes by the country of the perf client, as the reference has it (AB is none: Shadow put such "
        "clients on any vertex of its graph):"
    )
    head = [f"p{100 * q:g}" for q in OF_PLACES]
    yield from ("", f"| | clients | downloads, theirs / ours | | {' | '.join(head)} |")
    yield f"| --- | ---: | ---: | --- |{' ---: |' * len(head)}"
    for place in places:
        rows = (("theirs", place.theirs), ("ours", place.ours))
        for number, (whose, times) in enumerate(rows):
            count = f"{len(place.theirs)} / {len(place.ours)}"
            start = f"| {place.country} | {place.clients} | {count} |" if number == 0 else "| | | |"
            quantiles = (_seconds(lower_quantile(times, q)) if len(times) else "–" for q in OF_PLACES)
            yield f"{start} {whose} | {' | '.join(quantiles)} |"
    yield ""


def _ours(figure: Placed) -> str:
    text = _seconds(figure.ours)
    return text if figure.within else f"**{text}**"


def _spread(figure: Placed) -> str:
    return f"{_seconds(figure.target.mean)} ± {_seconds(figure.target.sd)}"


def _seconds(value: float) -> str:
    return format_fixed(value, 2 if value < 9.995 else 1)


def _percent(shares: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    return f"{100 * float(np.mean(shares)):.1f} %" if len(shares) else "none"
