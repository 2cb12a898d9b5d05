"""SALSA made again: how many links of the Tor network are shared, each published number beside ours.

The paper is about every day of November 2021 and of all 2021. Where its documents are not given, others stand in
(`salsa_documents`); what then differs too much is undecided, not refuted. Everything is computed, nothing simulated: the whole
takes a minute or two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from onionlab import _core
from onionlab.charts import export
from onionlab.errors import ResultsError
from onionlab.files import write_text
from onionlab.quantity import format_fixed
from onionlab.reproductions.salsa import charts as salsa_charts
from onionlab.reproductions.salsa import documents as salsa_documents
from onionlab.reproductions.salsa.documents import Document, Documents
from onionlab.reproductions.salsa.measurement import SAMPLES, SEED, Measured, Step, measure

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"

#: Where real consensuses are looked for.
DEFAULT_CONSENSUSES = Path("../shared/data/consensus")


@dataclass(frozen=True)
class Claim:
    """A published number, or a bound.

    Attributes
    ----------
    key
        Name of our value in `Measured.values`.
    where, what, unit
        Section and figure; the claim in words; the unit of its number.
    data
        The documents that it is about: november, year, policies, or none.
    value
        The number; None for a bound.
    within, stand_in_within
        How much ours may differ: with the paper's own data, and with a stand-in.
    above, below
        A bound instead of a number.
    """

    key: str
    where: str
    what: str
    unit: str
    data: str
    value: float | None = None
    within: float = 0.0
    stand_in_within: float = 0.0
    above: float | None = None
    below: float | None = None

    def verdict(self, ours: float, original: bool) -> str:
        """Whether the claim holds; what differs with a stand-in decides nothing."""
        if self.value is not None:
            fine = abs(ours - self.value) <= (self.within if original else self.stand_in_within)
        else:
            fine = (self.above is None or ours > self.above) and (self.below is None or ours < self.below)
        return HOLDS if fine else FAILS if original else UNDECIDED


@dataclass(frozen=True)
class Published:
    """The file ``published.json``."""

    source: str
    circuits: dict[str, Any]
    claims: tuple[Claim, ...]

    @property
    def values(self) -> dict[str, float]:
        """The numbers, by key."""
        return {claim.key: claim.value for claim in self.claims if claim.value is not None}


@dataclass(frozen=True)
class Finding:
    """A claim and what became of it."""

    claim: Claim
    ours: float
    original: bool

    @property
    def verdict(self) -> str:
        """One of `HOLDS`, `FAILS`, `UNDECIDED`."""
        return self.claim.verdict(self.ours, self.original)


def load_published(path: Path) -> Published:
    """Read ``published.json``.

    Raises
    ------
    ResultsError
        If the file is missing or is not what it should be.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        claims = tuple(Claim(**{key.replace("-", "_"): value for key, value in row.items()}) for row in content["claims"])
        return Published(content["source"], content["circuits"], claims)
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror}; --experiments names the folder that holds it") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ResultsError(f"{path} is not a list of published claims: {error!r}") from error


def reproduce(
    experiments: Path, consensuses: Sequence[Path], out: Path, docs: Path, step: Step = lambda _: None
) -> tuple[Path, list[str]]:
    """Answer the paper's questions and write the page; return its path and what does not hold.

    Parameters
    ----------
    experiments : path
        The folder with ``published.json``.
    consensuses : paths
        Documents and folders of them; without any, `DEFAULT_CONSENSUSES` if that exists, else synthetic networks.
    out, docs : path
        Documents and numbers that are made go into ``out``, the page and its charts into ``docs``.
    step : callable, optional
        Is told what is being measured.
    """
    published = load_published(experiments / "published.json")
    given = consensuses or ([DEFAULT_CONSENSUSES] if DEFAULT_CONSENSUSES.is_dir() else [])
    step("documents")
    documents = salsa_documents.gather(given, out)
    measured = measure(documents, published.circuits, step)
    findings = judge(published, documents, measured)
    numbers = {"values": measured.values, "figures": {name: frame.to_dicts() for name, frame in measured.frames.items()}}
    write_text(out / "measured.json", json.dumps(numbers, indent=1, sort_keys=True) + "\n")
    step("charts")
    return write(published, documents, measured, findings, docs), violations(findings)


def judge(published: Published, documents: Documents, measured: Measured) -> list[Finding]:
    """Every claim with ours. A claim about no document is about this program and always decided."""
    return [
        Finding(claim, measured.values[claim.key], claim.data == "none" or claim.data in documents.original)
        for claim in published.claims
    ]


def violations(findings: Sequence[Finding]) -> list[str]:
    """What does not hold, a sentence each."""
    return [
        f"{one.claim.what}: published {_published(one.claim)}, here {_number(one.ours, one.claim.unit)}"
        for one in findings
        if one.verdict == FAILS
    ]


def write(published: Published, documents: Documents, measured: Measured, findings: Sequence[Finding], docs: Path) -> Path:
    """Write ``salsa.md`` and its charts as SVG and PNG into ``docs``; return the page."""
    for name, specification in salsa_charts.charts(measured, published.values, _about(documents)).items():
        export.write(docs, f"salsa-{name}", specification)
    path = docs / "salsa.md"
    write_text(path, page(published, documents, measured, findings))
    return path


def page(published: Published, documents: Documents, measured: Measured, findings: Sequence[Finding]) -> str:
    """The page as Markdown."""
    count = {verdict: sum(one.verdict == verdict for one in findings) for verdict in (HOLDS, FAILS, UNDECIDED)}
    summary = f"{count[HOLDS]} hold, {count[FAILS]} do not hold, {count[UNDECIDED]} are undecided"
    lines = [
        "# Shared links: SALSA",
        "",
        "How many links between relays carry more than one circuit at a time, and what makes them more.",
        "",
        f"- Theirs: {published.source}.",
        *_ours(measured),
        "- What the paper leaves open, and what was chosen: `experiments/salsa/assumptions.toml`.",
        "",
        "This page was written by",
        "",
        "    onionlab reproduce salsa",
        "",
        *_documents(documents),
        "",
        f"**Of {len(findings)} claims: {summary}.** A claim holds if ours differs by no more than is allowed in",
        "`experiments/salsa/published.json`, which is less with the paper's own documents than with one that stands in for them.",
        "What differs more with a stand-in is undecided.",
        "",
        "| section | claim | published | ours | difference | allowed | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
        *(_row(one) for one in findings),
        "",
        "## What differs, and why",
        "",
        *_differences(findings, documents, measured),
        "",
    ]
    for name, title in salsa_charts.TITLES.items():
        lines += [f"## {title}", "", *_comment(name, measured), f"![{title}](salsa-{name}.svg)", ""]
    return "\n".join(lines)


def _about(documents: Documents) -> dict[str, str]:
    """The data in a line, for each chart where it is another than for the rest."""
    made = f"onionlab {_core.version()}"
    if documents.synthetic:
        return {"": f"{made}; synthetic networks made by onionlab, no real consensus at hand"}
    main = f"{made}; {_few(documents.november)}, in place of those of the paper"
    if "november" in documents.original:
        main = f"{made}; {len(documents.november)} consensus documents of November 2021"
    about = {"": main, "years": f"{made}; consensus documents of {len(documents.over_time)} days"}
    if documents.policies is None:
        about["classes"] = f"{made}; the built-in synthetic network, because no document has exit policies"
    elif documents.policies_from is not None:
        about["classes"] = f"{made}; consensus of {documents.main.day} with exit policies of {documents.policies_from.day}"
    return about


def _documents(documents: Documents) -> list[str]:
    """Which documents were used, in words."""
    if documents.synthetic:
        return [
            "**No real consensus was at hand: synthetic networks, made by onionlab to resemble those of the years, stand in.**",
            "Their numbers test the program, not the paper.",
        ]
    policies = documents.policies_from
    found = []
    if "november" in documents.original:
        found.append(f"Documents of November 2021: {len(documents.november)}.")
    else:
        found.append(f"**{_stand(documents.november)} in for those of all days of November 2021**, which were not at hand.")
    if "year" in documents.original:
        found.append(f"Documents of 2021: {len(documents.year)}.")
    else:
        found.append(f"**{_stand(documents.year)} in for those of all days of 2021.**")
    if documents.policies is None:
        found.append("No document has exit policies: the built-in synthetic network answers for the traffic classes.")
    elif policies is not None:
        lacks = "It has" if len(documents.november) == 1 else f"That of {documents.main.day} has"
        found.append(f"{lacks} no exit policies: its exits got those of {policies.day}, as the assumptions say.")
    if not documents.original >= {"november", "year"}:
        found.append("`onionlab fetch consensus --date 2021-11-15T12` gets one of the right ones, --consensus takes them.")
    return found


def _few(documents: Sequence[Document]) -> str:
    """Which consensuses these are."""
    if len(documents) == 1:
        return f"consensus of {documents[0].day}"
    return (
        f"{len(documents)} consensuses of {salsa_documents.days(documents)} days from {documents[0].day} to {documents[-1].day}"
    )


def _stand(documents: Sequence[Document]) -> str:
    return f"The {_few(documents)} stand{'s' if len(documents) == 1 else ''}"


def _ours(measured: Measured) -> list[str]:
    """What our numbers are: which are drawn, with which seeds, and which are not exact."""
    rules = measured.frames["rules"]
    drawn, used = rules.n_unique("document"), sorted(set(rules["seed"]))
    seeds = f"seed {used[0]}" if len(used) == 1 else f"seeds {used[0]} to {used[-1]}"
    each = f" for each of {drawn} documents" if drawn > 1 else ""
    return [
        f"- Ours: onionlab {_core.version()}. Sampled: the networks of figures 4 and 6 below the whole one, {SAMPLES} of each "
        f"scale, seed {SEED}. Drawn: figure 6 below the whole network, once in each sampled network and with its seed; figure "
        f"11, {seeds}{each}; the million circuits that are timed, seed {SEED}. All else is expectation and needs no seed.",
        "- Expectations are exact but for the circuits with one and with two shared links, and what is added up of them: "
        "circuits on a shared link, parts. 2,500 draws of July 20, 2021 have 12,871 circuits with one and 835 with two on "
        "average, where 12,887 and 830 are expected.",
    ]


def _row(finding: Finding) -> str:
    claim, original = finding.claim, finding.original
    difference = allowed = "–"
    if claim.value is not None:
        difference = _number(finding.ours - claim.value, "points" if claim.unit == "%" else claim.unit, signed=True)
        allowed = f"{claim.within if original else claim.stand_in_within:,g}"
    verdict = f"**{finding.verdict}**" if finding.verdict == FAILS else finding.verdict
    if not original:
        verdict += " (stand-in)"
    cells = (claim.where, claim.what, _published(claim), _number(finding.ours, claim.unit), difference, allowed, verdict)
    return f"| {' | '.join(cells)} |"


def _published(claim: Claim) -> str:
    if claim.value is not None:
        return f"{claim.value:,.6g} {claim.unit}"
    return f"above {claim.above:g} {claim.unit}" if claim.above is not None else f"below {claim.below:g} {claim.unit}"


def _number(value: float, unit: str, *, signed: bool = False) -> str:
    places = {"%": 2, "points": 2, "s": 3}.get(unit, 0)
    if places == 0:
        return f"{'+' if signed and value > 0 else '−' if value < 0 else ''}{abs(value):,.0f} {unit}"
    return f"{format_fixed(value, places, signed=signed)} {unit}"


def _differences(findings: Sequence[Finding], documents: Documents, measured: Measured) -> list[str]:
    """What is known of the causes, for the claims that do not hold or are undecided."""
    open_ones = {one.claim.key: one for one in findings if one.verdict != HOLDS}
    if not open_ones:
        return ["Nothing beyond what is allowed."]
    lines = []
    explained: set[str] = set()
    for keys, reason in _reasons(measured):
        here = [key for key in keys if key in open_ones]
        if here:
            explained.update(here)
            lines.append(f"- {'; '.join(open_ones[key].claim.what for key in here)}. {reason}")
    lines += [f"- {one.claim.what}. No cause is known." for key, one in open_ones.items() if key not in explained]
    if documents.synthetic:
        lines.append("- All of these come from synthetic networks.")
    return lines


def _reasons(measured: Measured) -> list[tuple[tuple[str, ...], str]]:
    """Causes, with the claims whose difference they explain."""
    undirected = measured.values["november-highest"]
    scaled = measured.values["everything-undirected"] * 6.4 / undirected
    return [
        (
            ("entry-lowest", "entry-highest", "last-lowest", "last-highest"),
            "How the parts divide the relays follows the weights by position of the document's hour. Where guards stand less "
            "often in the middle (a smaller Wmg), both move towards the paper's numbers; November's weights are not at hand.",
        ),
        (
            ("capacity-lowest", "capacity-highest"),
            "The paper says approximately 8 to 16 %, a grey rectangle around 290,000 circuits. "
            + _reached(measured, "external, directed", 8.0),
        ),
        (
            ("everything-undirected", "november-highest"),
            "Nine of ten of these circuits are internal, and the share of internal undirected ones moved most in the paper: "
            f"6.9 % in all 2021, 6.4 % in November. Here they have {undirected:.2f} %; scaled to 6.4 %, all influences together "
            f"would have {scaled:.2f} %.",
        ),
        (
            (*salsa_charts.CLASS_NAMES, "web-exits", "bittorrent-exits", "various-exits"),
            "A class depends on the few exits that serve its ports and on their weights; policies of another year stand in here.",
        ),
        (
            ("shadow-1", "shadow-10", "shadow-25"),
            "Shadow's networks of 1 and 10 % are one sample each; SALSA itself differs from the three by 0.97, −0.63 and 0.48.",
        ),
        (
            ("circuits-sharing", "circuits-one", "circuits-two", "parts"),
            "The counts go with the share of links. The paper's number of parts is that of "
            f"{_implied(measured):.1f} % shared links, if a shared link had as many parts as here; here "
            f"{measured.values['november-lowest']:.2f} % are shared.",
        ),
    ]


def _implied(measured: Measured, parts: float = 15_828, circuits: float = 96_876) -> float:
    """Share of links in percent that goes with so many parts of circuits on shared links."""
    shared = parts / measured.values["parts-per-shared-link"]
    return 100 * shared / (2 * circuits - parts + shared)


def _reached(measured: Measured, kind: str, percent: float) -> str:
    """At how many circuits a curve of figure 8 reaches a share, in words."""
    points = measured.frames["circuits"].filter(measured.frames["circuits"]["series"] == kind)
    pairs = list(zip(points["circuits"], points["shared_percent"], strict=True))
    for (left, low), (right, high) in pairwise(pairs):
        if low <= percent <= high:
            reached = left + (right - left) * (percent - low) / (high - low)
            return f"Our curve ({kind}) reaches {percent:g} % at {reached / 1000:.0f},000 circuits."
    return f"Our curve ({kind}) does not reach {percent:g} % in the range of the figure."


def _comment(name: str, measured: Measured) -> list[str]:
    """Numbers that go with a figure and are no claim."""
    if name == "rules":
        frame = measured.frames["rules"].group_by("rule", maintain_order=True).agg(pl.col("shared_percent").mean())
        means = ", ".join(f"{rule} {mean:.2f} %" for rule, mean in frame.iter_rows())
        return [
            f"Means: {means}.",
            "The paper's figure holds SALSA against a modified tor client (very similar) and against TorPS (0.2 points more).",
            "",
        ]
    return _years_table(measured) if name == "years" else []


def _years_table(measured: Measured) -> list[str]:
    frame = measured.frames["years"]
    names = list(dict.fromkeys(frame["series"]))
    at = {(row["series"], row["consensus"]): row for row in frame.iter_rows(named=True)}
    lines = [
        "Beyond the paper. Circuits by weight are in proportion to the total consensus weight: 96,876 in the document that",
        "stands for November 2021. Bandwidth scanners changed between 2017 and 2021: weights across that time do not compare.",
        "",
        f"| consensus | relays | guards | exits | {' | '.join(names)} | circuits by weight |",
        "| --- | ---: | ---: | ---: |" + " ---: |" * (len(names) + 1),
    ]
    for hour in dict.fromkeys(frame["consensus"]):
        one, weighed = at[names[0], hour], at[names[-1], hour]
        percents = " | ".join(f"{at[name, hour]['shared_percent']:.2f} %" for name in names)
        lines.append(
            f"| {hour[:10]} | {one['relays']:,} | {one['guards']:,} | {one['exits']:,} | {percents} | {weighed['circuits']:,} |"
        )
    return [*lines, ""]
