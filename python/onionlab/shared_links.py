"""How many links of the Tor network carry more than one circuit, for any consensus; frames out.

A link is a pair of relays with at least one circuit between them; it is shared when there are two or more. The question is that
of SALSA (Pahl, Kaiser, Engel and Adamsky, "Examining the Hydra", PoPETs 2023).

>>> from onionlab.shared_links import Question, shared_links
>>> shared_links("consensuses/", Question(circuits=96_000, internal=True, directed=False))   # doctest: +SKIP
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import polars as pl

from onionlab import _core
from onionlab.errors import DocumentError, QuestionError

#: A document, or None for the built-in network.
Source = str | Path | None

Method = Literal["draw", "expectation"]

#: Kinds of traffic that can be asked by name: the classes of the paper's table 1, the classes in the proportions of its section
#: 4.1.7, and that together with nine internal circuits for each external one.
TRAFFIC = ("web", "bittorrent-base", "bittorrent-extended", "other-file-sharing", "various", "mixture", "everything")

#: Active circuits of the whole network in a second (section 4.1.1 of the paper).
PAPER_CIRCUITS = 96_876

#: When they were active.
PAPER_TIME = "2021-11-15 00:00:00"

#: What is written of each answer, in this order.
KEYS = (
    "consensus",
    "relays",
    "guards",
    "middles",
    "exits",
    "circuits",
    "kind",
    "directed",
    "method",
    "links",
    "shared_links",
    "shared_percent",
    "stddev_percent",
    "circuits_per_link",
    "shared_circuits",
    "seed",
    "seconds",
)

_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "file": pl.String,
    "scale": pl.Float64,
    "per_client": pl.UInt64,
    "repeat": pl.UInt64,
    "consensus": pl.String,
    "relays": pl.UInt64,
    "guards": pl.UInt64,
    "middles": pl.UInt64,
    "exits": pl.UInt64,
    "circuits": pl.UInt64,
    "kind": pl.String,
    "directed": pl.Boolean,
    "method": pl.String,
    "links": pl.Float64,
    "shared_links": pl.Float64,
    "shared_percent": pl.Float64,
    "stddev_percent": pl.Float64,
    "circuits_per_link": pl.List(pl.Float64),
    "shared_circuits": pl.Struct({"one": pl.Float64, "two": pl.Float64}),
    "seed": pl.UInt64,
    "seconds": pl.Float64,
}

#: In the column ``file``, where no file was given.
BUILT_IN = "built-in network"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a network.

    Attributes
    ----------
    circuits
        Active circuits at one time, of the whole network (N).
    internal
        Whether circuits stay within the network, their last relay chosen as a middle relay; a number between 0 and 1 is the share
        of circuits that do.
    directed
        Whether a link from A to B is another than one from B to A.
    per_client
        Circuits of one client, all over its guard or guards (k).
    guards_per_client
        Guards of a client among which each of its circuits chooses one at random; 3 is tor's guard set.
    ports
        Ports that an exit must all serve, such as ``"80,6881-6889"``; needs a consensus with exit policies.
    traffic
        In place of ports, one of `TRAFFIC`.
    filters
        Flags that a relay needs, or must not have, in a position: ``{"guard": {"needed": "Guard Fast", "refused": "Exit"}}``;
        positions are guard, middle and exit.
    exclude_same_relay, exclude_same_subnet
        No relay twice in a circuit; no two relays of one IPv4 /16. The paper excludes neither. Only with ``method="draw"``. Any
        exclusion, that of families too, includes that of the same relay.
    families
        A number for each relay of the consensus in the order of fingerprints, equal within a family and 0 for none: no two of one
        family in a circuit. Only with ``method="draw"``.
    """

    circuits: int = PAPER_CIRCUITS
    internal: bool | float = False
    directed: bool = True
    per_client: int = 1
    guards_per_client: int = 1
    ports: str | None = None
    traffic: str | None = None
    filters: Mapping[str, Mapping[str, str]] | None = None
    exclude_same_relay: bool = False
    exclude_same_subnet: bool = False
    families: Sequence[int] | None = None

    @property
    def excludes(self) -> bool:
        """Whether some relays may not be together, so that only the draw has an answer."""
        return self.exclude_same_relay or self.exclude_same_subnet or self.families is not None


#: As many external circuits as the paper's network had, each link in two directions.
DEFAULT = Question()


#: The greatest numbers that the compiled half answers, and the greatest that it reads.
MOST_CIRCUITS, MOST_GUARDS, MOST_REPETITIONS, LARGEST = 100_000_000, 20, 1_000_000, 2**64 - 1


def _whole(name: str, value: int, most: int, least: int = 1, *, readable: int = 0) -> int:
    """A number that can be handed on, where it may be refused for a better reason; here what cannot even be read."""
    if not isinstance(value, int) or isinstance(value, bool) or not readable <= value <= LARGEST:
        raise QuestionError(f"{name}: {value!r} is no whole number from {least} to {most}")
    return value


def _share_of_internal(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        raise QuestionError(f"the share of internal circuits is {shown}: write a number from 0 to 1")
    return float(value)


def _request(files: Sequence[str], question: Question, method: str, repeat: int, seed: int) -> str:
    """The question as the compiled half reads it."""
    if method not in ("draw", "expectation"):
        raise QuestionError(f"method {method!r} is not one of draw, expectation")
    if question.traffic is not None and question.traffic not in TRAFFIC:
        raise QuestionError(f"traffic {question.traffic!r} is not one of {', '.join(TRAFFIC)}")
    if question.traffic is not None and question.ports is not None:
        raise QuestionError("ports and traffic say the same thing twice: write one of them")
    internal = _share_of_internal(question.internal)
    if internal == 1 and (question.ports is not None or question.traffic is not None):
        raise QuestionError("internal circuits have no exit: leave ports and traffic out, or make only a share of them internal")
    if 0 < internal < 1 and question.traffic == "everything":
        raise QuestionError(
            'traffic "everything" has nine internal circuits of ten: for another share write "mixture" with a share of your own'
        )
    circuits = _whole("circuits", question.circuits, MOST_CIRCUITS)
    asked: dict[str, Any] = {
        "circuits": circuits,
        "directed": question.directed,
        "per-client": _whole("circuits per client", question.per_client, min(max(circuits, 1), MOST_CIRCUITS)),
        "guards-per-client": _whole("guards per client", question.guards_per_client, MOST_GUARDS),
        "exclusions": {
            "same-relay": question.exclude_same_relay,
            "same-subnet": question.exclude_same_subnet,
            "families": None if question.families is None else list(question.families),
        },
    }
    if internal == 1:
        asked["blend"] = [["internal", 1.0]]
    elif question.ports is not None:
        asked["blend"] = [[{"ports": question.ports}, 1.0]]
    if question.filters is not None:
        asked["filters"] = {position: dict(flags) for position, flags in question.filters.items()}
    request: dict[str, Any] = {
        "files": list(files),
        "question": asked,
        "traffic": question.traffic,
        "internal_share": internal if 0 < internal < 1 else None,
        "method": method,
        "repeat": _whole("repeat", repeat, MOST_REPETITIONS, readable=1),
        "seed": _whole("seed", seed, LARGEST, least=0),
    }
    return json.dumps(request)


def documents(sources: Source | Sequence[Source] = None) -> list[str]:
    """The documents of files and folders; a folder counts for all files in it but hidden ones and a README.

    Nothing at all stays an empty list, which means the built-in network.
    """
    found: list[str] = []
    for source in [sources] if sources is None or isinstance(sources, str | Path) else sources:
        if source is None:
            continue
        path = Path(source)
        if not path.is_dir():
            found.append(str(path))
            continue
        inside = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith((".", "README")))
        if not inside:
            raise DocumentError(f"{path}: the folder has no document in it")
        found += map(str, inside)
    return found


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([{column: row[column] for column in _SCHEMA} for row in rows], schema=_SCHEMA)


def _row(answer: Mapping[str, Any], file: str, scale: float = 1.0) -> dict[str, Any]:
    return {**answer, "file": file, "scale": scale}


def _one(source: Source) -> tuple[list[str], str]:
    """The single document of a series, and its name."""
    files = documents(source)
    if len(files) > 1:
        raise DocumentError(f"{source}: this series wants one document, the folder has {len(files)}")
    return files, files[0] if files else BUILT_IN


def _mean_of_samples(point: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """One answer for several sampled networks: means, and what does not differ between them."""
    samples = point["samples"]

    def mean(column: str) -> float:
        return fmean(sample[column] for sample in samples)

    longest = max(len(sample["circuits_per_link"]) for sample in samples)
    padded = [sample["circuits_per_link"] + [0.0] * (longest - len(sample["circuits_per_link"])) for sample in samples]
    return {
        **samples[0],
        **{column: round(mean(column)) for column in ("guards", "middles", "exits")},
        **{column: mean(column) for column in ("links", "shared_links")},
        "shared_percent": point["shared_percent"],
        "stddev_percent": samples[0]["stddev_percent"] if len(samples) == 1 else point["stddev_percent"],
        "circuits_per_link": [fmean(column) for column in zip(*padded, strict=True)],
        "shared_circuits": {part: fmean(sample["shared_circuits"][part] for sample in samples) for part in ("one", "two")},
        "repeat": len(samples),
        # The relays are drawn even where the answer is an expectation.
        "seed": seed,
        "seconds": sum(sample["seconds"] for sample in samples),
    }


def shared_links(
    sources: Source | Sequence[Source] = None,
    question: Question = DEFAULT,
    *,
    scale: float = 1.0,
    method: Method = "expectation",
    repeat: int = 1,
    seed: int = 1,
) -> pl.DataFrame:
    """How many links are shared in each network.

    Parameters
    ----------
    sources : path, sequence of paths, or None
        Consensus documents and folders of them; None is the built-in network, which has exit policies.
    question : Question
        What is asked.
    scale : float
        Above 0 and at most 1: relays are sampled as for a simulation, and circuits taken in proportion.
    method : {"draw", "expectation"}
        Circuits drawn at random and counted, or what that gives on average, in closed form.
    repeat : int
        Draws, of which the answer is the mean; with a scale, sampled networks.
    seed : int
        Of the draws and samples.

    Returns
    -------
    polars.DataFrame
        A row for each document: ``file``, ``scale``, ``per_client``, ``repeat``, then `KEYS`. ``stddev_percent`` is the standard
        deviation of ``shared_percent`` between draws (approximated by the expectation) or between samples, in percent points;
        ``circuits_per_link`` counts links with 1, 2, 3... circuits; ``seconds`` is the time of the computation without reading.

    Raises
    ------
    QuestionError
        The question has no answer.
    DocumentError
        A document cannot be read.
    """
    files = documents(sources)
    request = _request(files, question, method, repeat, seed)
    names = files or [BUILT_IN]
    if not 0 < scale <= 1:
        raise QuestionError(f"scale {scale:g}: write a number above 0 and at most 1")
    if scale < 1:
        series = json.loads(_core.shared_links_by_scale(request, [float(scale)]))
        points = [_mean_of_samples(points[0], seed) for points in series]
        return _frame([_row(point, name, scale) for point, name in zip(points, names, strict=True)])
    answers = json.loads(_core.shared_links(request))
    return _frame([_row(answer, name) for answer, name in zip(answers, names, strict=True)])


def by_circuits(source: Source, circuits: Sequence[int], question: Question = DEFAULT) -> pl.DataFrame:
    """The share against the number of active circuits (figure 8 of the paper); expectation, columns as of `shared_links`."""
    files, name = _one(source)
    numbers = [_whole("circuits", number, MOST_CIRCUITS) for number in circuits]
    series = json.loads(_core.shared_links_by_circuits(_request(files, question, "expectation", 1, 0), numbers))
    return _frame([_row(answer, name) for answer in series[0]])


def by_clients(source: Source, per_client: Sequence[int], question: Question = DEFAULT) -> pl.DataFrame:
    """The share against the number of circuits per client; columns as of `shared_links`.

    Each is an expectation, which takes up to a second for up to 64 circuits per client.
    """
    files, name = _one(source)
    numbers = [_whole("circuits per client", number, MOST_CIRCUITS) for number in per_client]
    series = json.loads(_core.shared_links_by_clients(_request(files, question, "expectation", 1, 0), numbers))
    return _frame([_row(answer, name) for answer in series[0]])


def by_scale(
    source: Source,
    scales: Sequence[float],
    question: Question = DEFAULT,
    *,
    samples: int = 5,
    method: Method = "expectation",
    seed: int = 1,
) -> pl.DataFrame:
    """The share against the scale of the network (figures 4 and 6 of the paper).

    Returns
    -------
    polars.DataFrame
        A row for each scale: ``scale``, ``circuits``, ``per_client``, ``shared_percent`` (mean over the sampled networks),
        ``stddev_percent`` (between them, null for one), ``samples`` (the percentage of each).
    """
    files, _ = _one(source)
    request = _request(files, question, method, samples, seed)
    series = json.loads(_core.shared_links_by_scale(request, [float(scale) for scale in scales]))
    rows = [
        {
            "scale": point["scale"],
            "circuits": point["samples"][0]["circuits"],
            "per_client": point["samples"][0]["per_client"],
            "shared_percent": point["shared_percent"],
            "stddev_percent": point["stddev_percent"],
            "samples": [sample["shared_percent"] for sample in point["samples"]],
        }
        for point in series[0]
    ]
    schema = {"scale": pl.Float64, "circuits": pl.UInt64, "per_client": pl.UInt64, "shared_percent": pl.Float64}
    return pl.DataFrame(rows, schema={**schema, "stddev_percent": pl.Float64, "samples": pl.List(pl.Float64)})


def over_time(
    sources: Source | Sequence[Source],
    question: Question = DEFAULT,
    *,
    growth: Literal["fixed", "weight"] = "fixed",
    reference: Source = None,
) -> pl.DataFrame:
    """The share in each of several documents; expectation, columns as of `shared_links`, in order of time.

    Parameters
    ----------
    sources : path or sequence of paths
        Documents and folders of them.
    question : Question
        What is asked.
    growth : {"fixed", "weight"}
        Whether every network has the question's circuits, or as many as its total consensus weight has room for. Bandwidth
        scanners changed between 2017 and 2021: across that time weights do not compare.
    reference : path, optional
        With growth by weight, the document whose network has the question's circuits; else the one next to November 2021, from
        which the paper's number of circuits is.
    """
    if growth not in ("fixed", "weight"):
        raise QuestionError(f"growth is {growth!r}; it is 'fixed' or 'weight'")
    files = documents(sources)
    request = _request(files, question, "expectation", 1, 0)
    names = files or [BUILT_IN]

    def ask(reference: str | None) -> pl.DataFrame:
        answers = json.loads(_core.shared_links_over_time(request, reference))
        return _frame([_row(answer, name) for answer, name in zip(answers, names, strict=True)])

    frame = ask(None)
    if growth == "weight":
        if reference is None:
            distance = (pl.col("consensus").str.to_datetime() - pl.lit(PAPER_TIME).str.to_datetime()).abs()
            reference = frame.sort(distance)["file"][0] if files else None
        if reference is not None:
            frame = ask(str(reference))
    return frame.sort("consensus", maintain_order=True)


def to_json(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Answers as plain data: what was asked of each (`file`, `scale`, `per_client`, `repeat`), and `KEYS`; NaN never occurs."""
    return frame.select("file", "scale", "per_client", "repeat", *KEYS).to_dicts()
