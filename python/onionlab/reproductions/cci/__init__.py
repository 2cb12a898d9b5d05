"""What shared connections cost, and what it costs not to share them: the second half of the paper on shared links.

Pahl, Kaiser, Engel and Adamsky, "Examining the Hydra" (PoPETs 2023), sections 4.3, 4.5 and 4.6: tor's one TLS connection for each
pair of relays ("vanilla") against one for each circuit ("PCTLS") on testbeds of a few hosts and on a sampled network. What the
paper leaves open is in ``assumptions.toml``, its claims as comparisons are in ``claims.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from onionlab.charts import export
from onionlab.files import write_text
from onionlab.reproductions import beside
from onionlab.reproductions.cci import charts as cci_charts
from onionlab.reproductions.cci import further, further_charts, network, testbeds
from onionlab.reproductions.cci import page as cci_page
from onionlab.reproductions.cci import quarter as of_quarter
from onionlab.reproductions.claims import Claim, Judged, Rule, judge, read_claims
from onionlab.reproductions.figures import SCHEMA, VALUES
from onionlab.reproductions.kept import Form, Kept, Reduced, identity, kept_options, made_together, opened, work_off
from onionlab.reproductions.runs import Ahead, Observe, watching
from onionlab.results.experiment import Experiment
from onionlab.running.place import chosen, made_at


def _check(facts: Mapping[str, Any]) -> None:
    """A testbed has no facts, a sampled network those of its runs, the quarter also what they took."""
    if facts:
        network.facts([facts])
        of_quarter.costs(facts)


#: What is kept of each experiment.
FORM = Form(1, {"figures": SCHEMA, "times": VALUES}, _check)


@dataclass(frozen=True)
class Asked:
    """The files beside the experiments, read and checked.

    Attributes
    ----------
    assumptions
        What the paper leaves open: ``what``, ``chosen``, ``why``.
    published
        Its numbers.
    testbed_claims, network_claims
        Its claims about testbeds and about the sampled network.
    left_out
        What else it says of them, ``where`` and ``why`` it is not judged.
    rule
        When they hold.
    """

    assumptions: list[dict[str, str]]
    published: Mapping[str, Any]
    testbed_claims: tuple[Claim, ...]
    network_claims: tuple[Claim, ...]
    left_out: Sequence[Mapping[str, str]]
    rule: Rule


def read(experiments: Path) -> Asked:
    """Read the files of ``experiments/cci``; one that is not as it must be is refused."""
    with beside.checked(f"{experiments} has not the files of this reproduction"):
        claims = beside.toml(experiments / "claims.toml")
        rows = claims["claim"]
        verdict = claims["verdict"]
        of_testbeds = [row for row in rows if not row.get("network", False)]
        of_network = [row for row in rows if row.get("network", False)]
        treatments = (testbeds.PCTLS, testbeds.VANILLA)
        return Asked(
            assumptions=beside.assumptions(beside.toml(experiments / "assumptions.toml")),
            published=beside.published(experiments / "published.json"),
            testbed_claims=read_claims(of_testbeds, testbeds.METRICS, treatments, testbeds.TESTBEDS),
            network_claims=read_claims(of_network, network.METRICS, treatments, network.LOSSES),
            left_out=[{key: str(row[key]) for key in ("where", "says", "why")} for row in claims["left-out"]],
            rule=Rule(float(verdict["confidence"]), float(verdict["margin"]), place="place", replicate="replicate"),
        )


@dataclass(frozen=True)
class Planned:
    """One experiment: what is run, its part of the page, how it is reduced, and of which sampled network it is."""

    part: str
    ahead: Ahead
    reduce: Callable[[Experiment], Reduced]
    network: int = 0


#: Parts of the page but for the questions that the paper leaves open, which are called as their files.
TESTBEDS, NETWORK = "testbeds", "network"

#: Those that can be left for another time, and what the page calls them.
LATER = {NETWORK: "the sampled network", **{question.stem: question.short for question in further.QUESTIONS}}


def plan(experiments: Path, out: Path, *, quick: bool) -> list[Planned]:
    """Every experiment; files that are not in the folder as they are run are written below ``out``."""
    planned = [
        Planned(TESTBEDS, ahead, partial(testbeds.reduce, ahead[0])) for ahead in testbeds.prepare(experiments, out, quick=quick)
    ]
    for stem, key, called in (
        (NETWORK, network.LOSS, network.percent),
        *((question.stem, question.key, question.called) for question in further.QUESTIONS),
    ):
        for cell in network.prepare(experiments, out, stem, key, quick=quick):
            reduce = partial(network.reduce, first=cell.number, key=key, called=called)
            planned.append(Planned(stem, cell.ahead, reduce, cell.number))
    return planned


def reproduce(
    experiments: Path,
    out: Path,
    docs: Path,
    observe: Observe | None = None,
    *,
    quick: bool = False,
    kept: Path | None = None,
    as_kept: bool = False,
    quarter: bool = False,
    parts: Collection[str] | None = None,
    networks: int | None = None,
) -> tuple[Path, list[str]]:
    """Run what is missing and write the page; return its path and no complaints: a claim that does not hold is a result.

    Parameters
    ----------
    experiments : path
        The folder with the experiment files.
    out, docs : path
        Runs go below ``out``, the page and its charts into ``docs``. Finished runs are kept.
    observe : callable, optional
        Gives a context with an observer of all runs.
    quick : bool
        Fewer seeds, shorter runs and a smaller network; its runs are kept apart.
    kept : path, optional
        A folder of experiments that are finished and reduced (`onionlab.reproductions.kept.Kept`), which are not run again.
    as_kept : bool
        What is kept is taken with whatever settings it was made, and none of it is run.
    parts : collection of str, optional
        Those of `LATER` that are run besides the testbeds, instead of all. The page has also those that are kept, and says
        which it lacks.
    networks : int, optional
        So many sampled networks of each part that is run, the first ones, instead of all. The page has also those that are kept,
        and says how many it lacks.
    quarter : bool
        A quarter of Tor too, once, one run after the other in the end; the page has it without that where it is kept.
    """
    asked = read(experiments)
    folder = out / ("quick" if quick else "full")
    store = opened(kept, FORM, quick=quick, as_kept=as_kept)
    everything = plan(experiments, folder, quick=quick)
    planned = _present(everything, parts, networks, store)
    found_by_part: dict[str, list[Reduced]] = {}
    with watching(observe) as observer:
        found = work_off([one.ahead for one in planned], lambda number, results: planned[number].reduce(results), observer, store)
        for one, reduced in zip(planned, found, strict=True):
            found_by_part.setdefault(one.part, []).append(reduced)
    beds = testbeds.together(found_by_part.pop(TESTBEDS))
    measured = {part: network.together(found) for part, found in found_by_part.items()}
    sampled, others = measured.get(NETWORK), {part: found for part, found in measured.items() if part != NETWORK}
    large = _quarter(experiments, folder, store, observe, run=quarter)
    judged = judge_all(asked, beds, sampled)
    for name, specification in (*cci_charts.drawings(beds, sampled), *further_charts.drawings(others)):
        export.write_with_data(docs, name, specification)
    path = docs / "cci.md"
    lacking = _lacking(everything, planned)
    made = {stem: other.made for stem, other in others.items()} | ({of_quarter.STEM: made_together(large)} if large else {})
    found_all = cci_page.Found(
        beds=beds,
        sampled=sampled,
        judged=judged,
        further=list(further.page(others, asked.rule)),
        quarter=list(of_quarter.section(large, asked.published["network"])) if large else [],
        large=network.together(large) if large else None,
        made=made,
        lacking=lacking,
        left_out=asked.left_out,
        options=options(quick=quick, kept=kept, as_kept=as_kept, parts=parts, networks=networks)
        if lacking or as_kept
        else " --quick" * quick,
    )
    write_text(path, cci_page.page(asked.assumptions, asked.published, asked.rule, found_all, quick=quick))
    return path, []


def options(*, quick: bool, kept: Path | None, parts: Collection[str] | None, networks: int | None, as_kept: bool = False) -> str:
    """What follows ``onionlab reproduce cci`` on the command line of a page that lacks something, or is of what is kept."""
    given = [
        "--quick" if quick else "",
        "" if parts is None else f"--parts {','.join(parts) or 'none'}",
        "" if networks is None else f"--networks {networks}",
    ]
    return "".join(f" {one}" for one in given if one) + kept_options(kept, as_kept=as_kept)


def _quarter(experiments: Path, folder: Path, store: Kept | None, observe: Observe | None, *, run: bool) -> list[Reduced]:
    """A quarter of Tor, run or as it is kept; nothing if neither."""
    ahead = of_quarter.prepare(experiments, folder)
    if not run:
        found = [None if store is None else store.take(name, identity(file)) for name, file, _ in ahead]
        return [one for one in found if one is not None] if None not in found else []
    with watching(observe) as observer, made_at(replace(chosen(None, None), jobs=1)):
        return list(work_off(ahead, lambda _, one: of_quarter.reduce(one), observer, store))


def _present(
    planned: Sequence[Planned], parts: Collection[str] | None, networks: int | None, store: Kept | None
) -> list[Planned]:
    """The testbeds, what is asked for, and the other sampled networks of which everything is kept."""

    def asked_for(one: Planned) -> bool:
        return (parts is None or one.part in parts) and (networks is None or one.network < networks)

    left = [one for one in planned if one.part in LATER and not asked_for(one)]
    lacking = {
        (one.part, one.network) for one in left if store is None or store.take(one.ahead[0], identity(one.ahead[1])) is None
    }
    return [one for one in planned if (one.part, one.network) not in lacking]


def _lacking(everything: Sequence[Planned], present: Sequence[Planned]) -> list[str]:
    """The parts that are not there, and those that have not all their sampled networks, in words."""
    words = []
    for part, name in LATER.items():
        asked, there = (len({one.network for one in planned if one.part == part}) for planned in (everything, present))
        if there < asked:
            words.append(f"{name} ({asked - there} of {asked} networks)" if there else name)
    return words


def judge_all(asked: Asked, beds: testbeds.Measured, sampled: network.Measured | None) -> list[Judged]:
    """Every claim, with one correction for all of them together; without the sampled network those about the testbeds."""
    if sampled is None:
        return judge(beds.figures, asked.testbed_claims, asked.rule)
    claims = (*asked.testbed_claims, *asked.network_claims)
    on_testbeds = judge(beds.figures, claims, asked.rule)[: len(asked.testbed_claims)]
    on_network = judge(sampled.figures, claims, asked.rule)[len(asked.testbed_claims) :]
    return [*on_testbeds, *on_network]
