"""Every number of the reproduction of SALSA: one value for each published claim, and the curves of the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from onionlab.reproductions.salsa.documents import Document, Documents
from onionlab.reproductions.salsa.parts import chances, shares
from onionlab.shared_links import Question, by_circuits, by_clients, by_scale, over_time, shared_links

#: Of sampled networks and draws.
SEED = 1

#: The four kinds of figures 4 and 8: whether internal, whether directed.
KINDS = {
    "external, directed": (False, True),
    "external, undirected": (False, False),
    "internal, directed": (True, True),
    "internal, undirected": (True, False),
}

#: Figure 5, and whether a class is one of table 1.
CLASSES = ("web", "mixture", "bittorrent-base", "bittorrent-extended", "other-file-sharing", "various")

SCALES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
CIRCUITS = (10_000, 25_000, 50_000, 96_000, 150_000, 200_000, 250_000, 290_000, 400_000, 500_000)
CLIENTS = (1, 16, 32, 64)

#: Sampled networks for each scale, and draws for figure 11.
SAMPLES = 10
DRAWS = 20

Step = Callable[[str], None]


@dataclass
class Measured:
    """What was measured.

    Attributes
    ----------
    values
        Ours for each claim, by its key.
    frames
        The data of each figure, by its name.
    """

    values: dict[str, float] = field(default_factory=dict)
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)


def measure(documents: Documents, circuits: dict[str, Any], step: Step) -> Measured:
    """Ask all questions of the paper.

    Parameters
    ----------
    documents
        Which stand for which months.
    circuits
        Active circuits ``network``, ``year`` and ``capacity``, from ``published.json``.
    step
        Is told what is being measured.
    """
    measured = Measured()
    whole = Question(circuits=circuits["network"])
    step("the four kinds, now and at capacity")
    _four_kinds(documents, circuits, measured)
    step("smaller networks")
    _scales(documents, whole, measured)
    step("traffic classes")
    _classes(documents, whole, measured)
    step("circuits per client")
    _clients(documents, whole, measured)
    step("parts of circuits")
    _parts(documents, whole, measured)
    step("circuits and links")
    _counts(documents, whole, measured)
    step("tor's own rules")
    _rules(documents, whole, measured)
    step("the years")
    _years(documents, whole, measured)
    return measured


def _paths(documents: Sequence[Document]) -> list[Path]:
    return [one.path for one in documents]


def _percent(documents: Sequence[Document], question: Question) -> float:
    """Mean share over documents."""
    return fmean(shared_links(_paths(documents), question)["shared_percent"])


def _of(question: Question, kind: str) -> Question:
    internal, directed = KINDS[kind]
    return replace(question, internal=internal, directed=directed)


def _four_kinds(documents: Documents, circuits: dict[str, Any], measured: Measured) -> None:
    year = {kind: _percent(documents.year, _of(Question(circuits=circuits["year"]), kind)) for kind in KINDS}
    november = {kind: _percent(documents.november, _of(Question(circuits=circuits["network"]), kind)) for kind in KINDS}
    full = {kind: _percent(documents.year, _of(Question(circuits=circuits["capacity"]), kind)) for kind in KINDS}
    by_document = [
        _percent([one], _of(Question(circuits=circuits["year"]), "internal, directed"))
        - _percent([one], _of(Question(circuits=circuits["year"]), "external, directed"))
        for one in documents.year
    ]
    measured.values |= {
        "year-external-directed": year["external, directed"],
        "year-internal-undirected": year["internal, undirected"],
        "year-internal-above-external": min(by_document),
        "november-lowest": min(november.values()),
        "november-highest": max(november.values()),
        "capacity-lowest": min(full.values()),
        "capacity-highest": max(full.values()),
    }
    measured.frames["kinds"] = pl.DataFrame(
        {"kind": list(KINDS), "year": list(year.values()), "november": list(november.values()), "capacity": list(full.values())}
    )
    rows = []
    for kind in KINDS:
        curves = [by_circuits(one.path, CIRCUITS, _of(Question(), kind))["shared_percent"].to_list() for one in documents.year]
        rows += [
            {"series": kind, "circuits": number, "shared_percent": fmean(points)}
            for number, points in zip(CIRCUITS, zip(*curves, strict=True), strict=True)
        ]
    measured.frames["circuits"] = pl.DataFrame(rows)


def _scales(documents: Documents, whole: Question, measured: Measured) -> None:
    frames = []
    for kind in KINDS:
        frame = by_scale(documents.main.path, SCALES, _of(whole, kind), samples=SAMPLES, seed=SEED)
        frames.append(frame.select(pl.lit(kind).alias("series"), "scale", "shared_percent", "stddev_percent"))
    measured.frames["scale"] = pl.concat(frames)
    plain = dict(zip(frames[0]["scale"], frames[0]["shared_percent"], strict=True))
    measured.values |= {f"shadow-{percent}": plain[percent / 100] for percent in (1, 10, 25)}


def _classes(documents: Documents, whole: Question, measured: Measured) -> None:
    sources: list[Path | None] = [documents.policies.path if documents.policies is not None else None]
    if "policies" in documents.original:
        sources = [one.path for one in documents.november if one.policies]
    everything = replace(whole, traffic="everything")
    percents, exits = {}, {}
    for name in CLASSES:
        frame = shared_links(sources, replace(whole, traffic=name))
        percents[name], exits[name] = fmean(frame["shared_percent"]), fmean(frame["exits"])
    measured.frames["classes"] = pl.DataFrame(
        {"class": list(CLASSES), "shared_percent": list(percents.values()), "exits": list(exits.values())}
    )
    measured.values |= percents
    measured.values |= {
        "web-exits": exits["web"],
        "bittorrent-exits": exits["bittorrent-base"],
        "various-exits": exits["various"],
        "everything-directed": fmean(shared_links(sources, everything)["shared_percent"]),
        "everything-undirected": fmean(shared_links(sources, replace(everything, directed=False))["shared_percent"]),
    }


def _clients(documents: Documents, whole: Question, measured: Measured) -> None:
    path = documents.main.path
    full = by_clients(path, CLIENTS, whole)["shared_percent"].to_list()
    rows = []
    for number, at_full in zip(CLIENTS, full, strict=True):
        # Below the whole network the draw is faster, and the spread between samples is larger than its noise.
        frame = by_scale(path, SCALES[:-1], replace(whole, per_client=number), samples=SAMPLES, method="draw", seed=SEED)
        rows += [
            {"clients": number, "scale": scale, "shared_percent": percent}
            for scale, percent in zip(frame["scale"], frame["shared_percent"], strict=True)
        ]
        rows.append({"clients": number, "scale": 1.0, "shared_percent": at_full})
    measured.frames["clients"] = pl.DataFrame(rows)
    measured.values |= {f"clients-{number}": percent for number, percent in zip(CLIENTS, full, strict=True)}


def _parts(documents: Documents, whole: Question, measured: Measured) -> None:
    """Mean over the documents of each kind; then the lowest and the highest of the four."""
    networks = [chances(one) for one in documents.november]
    for part in ("entry", "last"):
        means = [
            fmean(shares(network, whole.circuits, internal=internal, directed=directed)[part] for network in networks)
            for internal, directed in KINDS.values()
        ]
        measured.values |= {f"{part}-lowest": min(means), f"{part}-highest": max(means)}
    measured.values["relay-twice"] = 100_000 * fmean(network.one_relay_twice for network in networks)


def _counts(documents: Documents, whole: Question, measured: Measured) -> None:
    frame = shared_links(_paths(documents.november), whole)
    one = fmean(row["one"] for row in frame["shared_circuits"])
    two = fmean(row["two"] for row in frame["shared_circuits"])
    measured.values |= {"circuits-one": one, "circuits-two": two, "circuits-sharing": one + two, "parts": one + 2 * two}
    measured.values["parts-per-shared-link"] = (one + 2 * two) / fmean(frame["shared_links"])
    year = shared_links(_paths(documents.year), whole)
    lengths = max(len(counts) for counts in year["circuits_per_link"])
    links = [
        fmean(
            100 * (counts[number] if number < len(counts) else 0.0) / total
            for counts, total in zip(year["circuits_per_link"].to_list(), year["links"], strict=True)
        )
        for number in range(lengths)
    ]
    measured.values |= {"links-two": links[1], "links-more": sum(links[2:])}
    measured.frames["per-link"] = pl.DataFrame({"circuits": list(range(1, lengths + 1)), "links_percent": links})


def _rules(documents: Documents, whole: Question, measured: Measured) -> None:
    settings = {
        "as in the paper": whole,
        "no relay twice": replace(whole, exclude_same_relay=True),
        "and no two of a /16": replace(whole, exclude_same_relay=True, exclude_same_subnet=True),
    }
    rows = []
    for name, question in settings.items():
        for one in documents.november:
            draws = DRAWS if len(documents.november) == 1 else 1
            for number in range(draws):
                percent = shared_links(one.path, question, method="draw", seed=SEED + number)["shared_percent"][0]
                rows.append({"rule": name, "document": one.day, "seed": SEED + number, "shared_percent": percent})
    frame = pl.DataFrame(rows)
    means = dict(frame.group_by("rule").agg(pl.col("shared_percent").mean()).iter_rows())
    measured.frames["rules"] = frame
    measured.values["filters"] = means["and no two of a /16"] - means["as in the paper"]
    million = shared_links(documents.main.path, Question(circuits=1_000_000), method="draw", seed=SEED)
    measured.values["seconds"] = million["seconds"][0]


def _years(documents: Documents, whole: Question, measured: Measured) -> None:
    paths = _paths(documents.over_time)
    series = {
        "96,876 circuits, external, directed": over_time(paths, whole),
        "96,876 circuits, internal, undirected": over_time(paths, _of(whole, "internal, undirected")),
        "circuits by weight, external, directed": over_time(paths, whole, growth="weight", reference=documents.main.path),
    }
    columns = ["consensus", "relays", "guards", "exits", "circuits", "shared_percent"]
    measured.frames["years"] = pl.concat([frame.select(pl.lit(name).alias("series"), *columns) for name, frame in series.items()])
