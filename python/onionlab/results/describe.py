"""An experiment in words: what was run, and what to keep in mind when reading the figures."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import polars as pl

from onionlab.quantity import format_duration, format_number
from onionlab.stats import warnings as statistics_warnings
from onionlab.stats.caveats import until_note, warm_up_warnings
from onionlab.stats.metrics import FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onionlab.results.experiment import Experiment

#: From this share of unfinished transfers on, times to last byte lean towards the quick ones.
MANY_UNFINISHED = 0.05

#: From this share of what arrived on, the goodput of a kind is marked if it leaves that out.
MUCH_LEFT_OUT = 0.10

#: The mark.
LEFT_OUT = "†"

#: What the tor of the PredicTor paper's simulator has under any flow control.
NSTOR_TOR = {"tls": "none", "circuitmux": "round-robin", "channel-scheduler": "vanilla"}


def plural(count: int, noun: str) -> str:
    """``1 network``, ``3 networks``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def scale(experiment: Experiment) -> float | None:
    """Share of the original network's relays that was sampled; None for a network by hand or where it is not recorded."""
    size = experiment.plan.scenario.get("network", {}).get("size")
    if isinstance(size, dict) and isinstance(size.get("scale"), int | float):
        return float(size["scale"])
    for text in experiment.runs["divergence_json"]:
        report = json.loads(text) if text else None
        if isinstance(report, dict) and isinstance(report.get("scale"), int | float):
            return float(report["scale"])
    return None


def network(experiment: Experiment) -> str:
    """The network in words."""
    what, _, relays = _network(experiment)
    return f"{what}, {relays}"


def _network(experiment: Experiment) -> tuple[str, str, str]:
    """What the network is, the same as the beginning of a sentence, and how many relays it has."""
    described = experiment.plan.scenario.get("network", {})
    counts = sorted({int(relays) for relays in experiment.runs["relays"]})
    count = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    share = scale(experiment)
    sampled = f"{count} relays" + (f" ({format_number(100 * share, 2)} % of the original)" if share is not None else "")
    match described.get("kind"):
        case "consensus":
            name = PurePath(str(described.get("document", {}).get("path", ""))).name
            return f"consensus {name}", f"The network is sampled from the consensus {name}", sampled
        case "synthetic":
            year = described.get("year")
            of = f" of {year:g}" if isinstance(year, int | float) else ""
            return f"synthetic network{of}", f"The network is a synthetic one{of}", sampled
        case "file":
            name = PurePath(str(described.get("document", {}).get("path", ""))).name
            return f"network document {name}", f"The network is that of the document {name}", f"{count} relays"
        case _:
            return "network by hand", "The network is written by hand", f"{count} relays"


def _pause(pause: Any) -> str:
    """A pause between transfers in words."""
    if isinstance(pause, str):
        pause = {"fixed": pause}
    match pause:
        case {"fixed": str(length)}:
            return "" if length.split()[0] == "0" else f", pause {length}"
        case {"uniform": [low, high]}:
            return f", pauses of {low} to {high}"
        case {"exponential": mean}:
            return f", pauses of {mean} on average"
        case _:
            return ""


def load(experiment: Experiment) -> str:
    """The load in words, one part per group of clients."""
    target = _load_target(experiment)
    return "; ".join([*_groups(experiment), *([f"load {target}"] if target else [])])


def _load_target(experiment: Experiment) -> str:
    """At what the load is aimed, in words; nothing where clients are counted."""
    target = experiment.plan.scenario.get("load-target")
    return f"aimed at {100 * target['utilisation']:g} % of {target['position']} capacity" if target else ""


def _groups(experiment: Experiment) -> list[str]:
    """Each group of clients in words."""
    counts = (
        experiment.transfers.group_by("group", *("treatment", "network", "seed"))
        .agg(pl.col("client").n_unique())
        .group_by("group")
        .agg(low=pl.col("client").min(), high=pl.col("client").max())
    )
    seen = {group: (low, high) for group, low, high in counts.iter_rows()}
    parts = []
    for group in experiment.plan.scenario.get("clients", []):
        members = group.get("members", {})
        if "count" in members and "count" in members["count"]:
            number = plural(members["count"]["count"], "client")
        elif "document" in members:
            number = plural(members["document"]["clients"], "client")
        elif "scaled" in members:
            number = f"the sample's share of {members['scaled']['users-at-full-scale']:,} users as"
        elif "hosts" in members:
            number = plural(len(members["hosts"]["hosts"]), "client")
        elif group["group"] in seen:
            low, high = seen[group["group"]]
            number = plural(low, "client") if low == high else f"{low:,} to {high:,} clients"
        else:
            number = "clients"
        each = f", {group['users']:,} users each" if group.get("users", 1) > 1 else ""
        parts.append(f"{number} “{group['group']}” ({pattern(group.get('load', {}))}{services(group.get('onion'))}{each})")
    return parts


def services(onion: Mapping[str, Any] | None) -> str:
    """The onion services that a group loads from, in words; nothing where it loads from servers."""
    if onion is None:
        return ""
    count = onion["services"]["services"] if "services" in onion else len(onion["hosts"])
    return f" from {plural(count, 'onion service')}"


def pattern(load: Mapping[str, Any]) -> str:
    """What a client loads, in words."""
    pause = _pause(load.get("pause"))
    match load.get("kind"):
        case "sequence":
            return " + ".join(f"{step['count']} × {step['size']}" for step in load.get("transfers", []))
        case "audio" | "video" as kind:
            return f"{kind} of {load.get('rate', {'audio': '50 kB/s', 'video': '1 MB/s'}[kind])}{pause}"
        case "page":
            return f"pages of many objects{pause}"
        case "perf":
            sizes = [size["size"] for size in load.get("sizes", [])] or ["50 KiB", "1 MiB", "5 MiB"]
            return f"{' or '.join(map(str, sizes))}, one each {load.get('pause', '1 min')}"
        case "markov":
            return "Tor's users by hidden Markov models"
        case "tor-users":
            return "Tor's users by the compact model"
        case "replay":
            return f"what {Path(str(load.get('path', '?'))).name} says of each client"
        case _:
            return f"{load.get('size', '?')}{pause}"


def sampled(experiment: Experiment) -> bool:
    """Whether its networks are drawn, so that there can be more of them; not those written by hand or made elsewhere."""
    return experiment.plan.scenario.get("network", {}).get("kind") not in ("explicit", "file")


def repeated(experiment: Experiment) -> str:
    """What means are taken over, in words."""
    if experiment.by_seed:
        return "seeds"
    return "sampled networks" if sampled(experiment) else "networks"


def extent(experiment: Experiment) -> str:
    """Duration, networks and seeds in words."""
    start = f", measured from {format_duration(experiment.measure_from)}" if experiment.measure_from else ""
    networks = plural(experiment.plan.networks, "sampled network" if sampled(experiment) else "network")
    return f"{format_duration(experiment.duration)} simulated{start}; {networks} × {plural(len(experiment.plan.seeds), 'seed')}"


def over_points(experiment: Experiment, words: Callable[[Experiment], str], everywhere: str = "") -> str:
    """What is said of all points of a sweep that have a finished run, ``everywhere`` behind it; or of the first one alone."""
    points = (experiment.at(point) for point in range(len(experiment.plan.points)))
    said = list(dict.fromkeys(words(point) for point in points if point.finished))
    return said[0] + (everywhere if len(said) == 1 else ", at the first point that is finished")


def headline(experiment: Experiment) -> str:
    """All of it on one line."""
    return f"{network(experiment)}; {load(experiment)}; {extent(experiment)}; onionlab {experiment.plan.version}"


def chart_lines(experiment: Experiment) -> list[str]:
    """The subtitle of every chart, in lines short enough for it."""
    return [
        network(experiment),
        load(experiment),
        f"{extent(experiment)}; onionlab {experiment.plan.version}",
    ]


def network_sentence(experiment: Experiment) -> str:
    """The network as a sentence, as the two below without its full stop."""
    _, begin, relays = _network(experiment)
    return f"{begin} and has {relays}"


def load_sentence(experiment: Experiment) -> str:
    """The load as a sentence."""
    *others, last = _groups(experiment)
    groups = f"{', '.join(others)} and {last}" if others else last
    target = _load_target(experiment)
    return f"The load comes from {groups}{f', and is {target}' if target else ''}"


def extent_sentence(experiment: Experiment) -> str:
    """Duration, networks and seeds as a sentence."""
    start = f" and is measured from {format_duration(experiment.measure_from)} on" if experiment.measure_from else ""
    networks = plural(experiment.plan.networks, "sampled network" if sampled(experiment) else "network")
    each = " each" if experiment.plan.networks > 1 else ""
    verb = "is" if experiment.plan.networks == 1 else "are"
    seeds = plural(len(experiment.plan.seeds), "seed")
    return f"A run simulates {format_duration(experiment.duration)}{start}, and there {verb} {networks} with {seeds}{each}"


def made_with(experiment: Experiment) -> str:
    """Which simulator made the runs, as a sentence."""
    return f"The simulator is onionlab {experiment.plan.version}"


def chart_sentences(experiment: Experiment) -> list[str]:
    """`chart_lines` as sentences, for the caption of a chart."""
    return [network_sentence(experiment), load_sentence(experiment), extent_sentence(experiment), made_with(experiment)]


def left_out(experiment: Experiment, kind: str, treatment: str) -> str:
    """Share of a kind's transfers that a chart of completed ones does not show, in a sentence; empty where it shows all."""
    rows = experiment.measured.filter(pl.col("kind") == kind, pl.col("treatment") == treatment)
    counts = dict(rows.group_by("outcome").len().iter_rows())
    failed = sum(counts.get(outcome, 0) for outcome in FAILURES)
    parts = [
        f"{format_number(100 * count / rows.height, 2)} % {what}"
        for count, what in ((failed, "failed"), (counts.get("unfinished", 0), "were unfinished at the end"))
        if count
    ]
    return f"Of the transfers of “{treatment}” {' and '.join(parts)}, which no curve shows." if parts else ""


def missing_runs(experiment: Experiment) -> list[str]:
    """A sentence about the runs that are not there, if any."""
    missing, planned = len(experiment.missing), len(experiment.plan.runs)
    return [f"{missing} of {planned} runs are missing; everything here rests on the others."] if missing else []


def warnings(experiment: Experiment) -> list[str]:
    """What to keep in mind when reading the figures."""
    found = missing_runs(experiment)
    found += [f"{failure.run.label} failed: {failure.reason}" for failure in experiment.failures]
    found += _unrecorded(experiment)
    found += statistics_warnings(
        networks=experiment.repeats,
        sampled=sampled(experiment),
        by_seed=experiment.by_seed,
        scale=scale(experiment),
        summary=experiment.summary,
    )
    found += until_note(experiment.evaluation.until_ci, experiment.plan.networks)
    found += warm_up_warnings(experiment.settlings, experiment.measure_from, experiment.duration, by_seed=experiment.by_seed)
    found += links_alone(experiment)
    found += behind_one_guard(experiment)
    found += _goodput_left_out(experiment)
    found += _unfinished(experiment)
    found += _unsolved(experiment)
    return found


def _unrecorded(experiment: Experiment) -> list[str]:
    """A warning where no client has records, so that all figures of clients are missing."""
    clients = experiment.plan.scenario["clients"]
    if not clients or any(group.get("record", True) for group in clients):
        return []
    return [
        "All groups of clients have `record = false`: their transfers and circuits leave no records, and there are no figures of "
        "clients, only those of the network. Leave it out of the groups that are to be measured."
    ]


def links_alone(experiment: Experiment) -> list[str]:
    """A warning about treatments with the links of the PredicTor paper's simulator and another tor."""
    found = [
        treatment["name"]
        for treatment in experiment.plan.scenario.get("treatments", [])
        if treatment.get("net") == "nstor"
        and (
            any(treatment.get(key) != value for key, value in NSTOR_TOR.items())
            or treatment.get("flow-control") not in ("windows", "predictor")
        )
    ]
    if not found:
        return []
    return [
        f'{", ".join(found)}: `net = "nstor"` is that simulator\'s links and TCP alone, with a tor that it does not have; '
        '`simulator = "nstor"` sets both.'
    ]


def behind_one_guard(experiment: Experiment) -> list[str]:
    """A warning about clients that stand for many users and have guards like one."""
    scenario = experiment.plan.scenario
    users = {group["group"]: group["users"] for group in scenario.get("clients", []) if group.get("users", 1) > 1}
    of = [treatment["name"] for treatment in scenario.get("treatments", []) if treatment.get("guards") != 0]
    if not users or not of or scenario.get("network", {}).get("kind") == "explicit":
        return []
    return [
        f"{', '.join(of)}: all users that a client stands for ({', '.join(f'{name}: {count}' for name, count in users.items())}) "
        "go over its guard and one connection to it, which can hold them back, above all where packets are lost. "
        "`guards = 0` spreads them by weight, as in Shadow's networks."
    ]


def goodput_mark(experiment: Experiment, treatment: str, kind: str) -> str:
    """A mark for the goodput of a kind that much of what arrived is not in; empty otherwise. `warnings` say what it means."""
    return LEFT_OUT if experiment.begun_before.get((treatment, kind), 0.0) >= MUCH_LEFT_OUT else ""


def _goodput_left_out(experiment: Experiment) -> list[str]:
    """Warnings about kinds of which much arrived by transfers that began before the measurement."""
    found = []
    for kind in experiment.kinds:
        share = max((experiment.begun_before.get((treatment, kind), 0.0) for treatment in experiment.treatments), default=0.0)
        if share >= MUCH_LEFT_OUT:
            found.append(
                f"{kind}: {LEFT_OUT} up to about {format_number(100 * share, 2)} % of what these clients received in the "
                f"measured time came by downloads that began before {format_duration(experiment.measure_from)}. Their goodput "
                "leaves it out, and only that of the whole network has it. A longer measurement helps."
            )
    return found


def _unfinished(experiment: Experiment) -> list[str]:
    """Warnings about transfers that the end of the simulation cut off."""
    shares = (
        experiment.measured.group_by("kind", "treatment")
        .agg(share=(pl.col("outcome") == "unfinished").mean(), begun=pl.col("first_byte_ns").is_not_null().any())
        .filter(pl.col("share") > MANY_UNFINISHED)
        .group_by("kind")
        .agg(pl.col("share").max(), pl.col("begun").any())
        .sort("kind")
    )
    return [
        f"{kind}: up to {format_number(100 * share, 2)} % of the transfers were unfinished when the simulation ended; "
        + (
            "times to last byte leave out the slow ones among them. A longer duration helps."
            if begun
            else "none of them had a first byte. Does any exit of the network serve their port?"
        )
        for kind, share, begun in shares.iter_rows()
    ]


def _unsolved(experiment: Experiment) -> list[str]:
    """Warnings about plans of relays (PredicTor) that are not the optimum, or not the fast solver's."""
    treatments = experiment.plan.scenario.get("treatments", [])
    planned = {treatment["name"] for treatment in treatments if treatment.get("predictor")}
    if not any(run.treatment in planned for run in experiment.finished):
        return []
    counts = (
        experiment.collected("controllers")
        .group_by("treatment")
        .agg(pl.col("trusted", "old_plans").sum(), steps=pl.sum_horizontal(pl.col("solved", "trusted", "old_plans").sum()))
        .sort("treatment")
    )
    found = []
    for treatment, trusted, old, steps in counts.iter_rows():
        if trusted:
            found.append(
                f"{treatment}: in {trusted:,} of {steps:,} plans of relays the fast solver did not converge; "
                "they are the trusted one's."
            )
        if old:
            found.append(
                f"{treatment}: in {old:,} of {steps:,} plans of relays no solver converged; "
                "the relay went on with the plan before."
            )
    return found
