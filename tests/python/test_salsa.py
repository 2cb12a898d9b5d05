"""SALSA made again: claims, documents, the formula by parts, page and charts."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from onionlab import _core, cli
from onionlab.errors import DocumentError, ResultsError
from onionlab.reproductions import REPRODUCTIONS, Request, salsa
from onionlab.reproductions.salsa import FAILS, HOLDS, UNDECIDED, Claim, Finding, load_published
from onionlab.reproductions.salsa import documents as salsa_documents
from onionlab.reproductions.salsa import measurement as salsa_measure
from onionlab.reproductions.salsa import parts as salsa_parts
from onionlab.reproductions.salsa.charts import TITLES
from onionlab.shared_links import Question, shared_links

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments" / "salsa"
CONSENSUSES = ROOT.parent / "shared" / "data" / "consensus"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic network of 2021, large enough for every scale."""
    path = tmp_path_factory.mktemp("small") / "2021.txt"
    path.write_text(_core.synth(json.dumps({"year": 2021, "relays": 1500})), encoding="utf-8")
    return path


@pytest.fixture
def july() -> Path:
    path = CONSENSUSES / "md-2021-07-20.xz"
    if not path.is_file():
        pytest.skip("the consensus of July 20, 2021 (shared/data/consensus) is not here")
    return path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer samples, draws, scales and points, and no PNG."""
    monkeypatch.setattr(salsa_measure, "SAMPLES", 1)
    monkeypatch.setattr(salsa_measure, "DRAWS", 2)
    monkeypatch.setattr(salsa_measure, "SCALES", (0.01, 0.1, 0.25, 1.0))
    monkeypatch.setattr(salsa_measure, "CIRCUITS", (10_000, 96_000, 290_000))
    monkeypatch.setattr(salsa_measure, "CLIENTS", (1, 64))


def test_published_claims_are_whole() -> None:
    published = load_published(EXPERIMENTS / "published.json")
    assert len({claim.key for claim in published.claims}) == len(published.claims)
    assert published.circuits["network"] == 4 * 24_219
    for claim in published.claims:
        assert (claim.value is None) == (claim.above is not None or claim.below is not None), claim.key
        assert claim.data in {"november", "year", "policies", "none"}, claim.key
        if claim.value is not None:
            assert 0 < claim.within <= claim.stand_in_within, claim.key


def test_every_assumption_says_what_and_why() -> None:
    listed = tomllib.loads((EXPERIMENTS / "assumptions.toml").read_text(encoding="utf-8"))["assumption"]
    assert listed
    for assumption in listed:
        assert set(assumption) == {"what", "chosen", "why"}
        assert all(text.strip() for text in assumption.values())


def test_verdicts() -> None:
    claim = Claim("x", "4.1", "x", "%", "november", value=4.0, within=0.1, stand_in_within=0.5)
    assert claim.verdict(4.05, original=True) == HOLDS
    assert claim.verdict(4.2, original=True) == FAILS
    assert claim.verdict(4.2, original=False) == HOLDS
    assert claim.verdict(4.6, original=False) == UNDECIDED
    bound = Claim("x", "4.1", "x", "%", "november", below=300.0)
    assert [bound.verdict(ours, original=True) for ours in (299.0, 300.0)] == [HOLDS, FAILS]
    assert Claim("x", "4.1", "x", "%", "november", above=0.0).verdict(0.1, original=True) == HOLDS
    told = salsa.violations([Finding(claim, 4.2, True), Finding(claim, 4.6, False)])
    assert told == ["x: published 4 %, here 4.20 %"]


def test_missing_or_broken_claims_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot read"):
        load_published(tmp_path / "published.json")
    (tmp_path / "published.json").write_text('{"source": "x", "circuits": {}, "claims": [{"key": "x"}]}', encoding="utf-8")
    with pytest.raises(ResultsError, match="not a list of published claims"):
        load_published(tmp_path / "published.json")


def dated(text: str, hour: str, path: Path) -> Path:
    """A consensus of another hour."""
    path.write_text(text.replace("valid-after 2021-07-20 19:00:00", f"valid-after {hour}"), encoding="utf-8")
    return path


def test_which_document_stands_for_which_month(tmp_path: Path) -> None:
    text = _core.synth(json.dumps({"year": 2021, "relays": 60}))
    assert "valid-after 2021-07-20 19:00:00" in text
    folder = tmp_path / "in"
    folder.mkdir()
    dated(text, "2021-07-20 19:00:00", folder / "a")
    dated(text, "2023-01-01 00:00:00", folder / "b")
    (folder / "README.md").write_text("Where these are from", encoding="utf-8")
    found = salsa_documents.gather([folder], tmp_path)
    assert found.main.day == "July 20, 2021"
    assert found.original == frozenset()
    assert [one.valid_after.year for one in found.over_time] == [2021, 2023]
    november = [dated(text, f"2021-11-{day:02} 12:00:00", folder / f"n{day}") for day in (1, 15, 30)]
    found = salsa_documents.gather([folder, november[0]], tmp_path)
    assert found.original == frozenset()
    assert [one.path for one in found.november] == november
    assert len(found.year) == 4
    assert salsa._documents(found)[:2] == [
        "**The 3 consensuses of 3 days from November 1, 2021 to November 30, 2021 stand in for those of all days of November "
        "2021**, which were not at hand.",
        "**The 4 consensuses of 4 days from July 20, 2021 to November 30, 2021 stand in for those of all days of 2021.**",
    ]
    for month in range(1, 13):
        dated(text, f"2021-{month:02}-10 00:00:00", folder / f"m{month}")
    assert salsa_documents.gather([folder], tmp_path).original == frozenset()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DocumentError, match="empty: the folder has no document in it"):
        salsa_documents.gather([empty], tmp_path)
    (empty / "letter").write_text("Dear reader", encoding="utf-8")
    with pytest.raises(DocumentError, match="not a consensus"):
        salsa_documents.gather([empty], tmp_path)


def test_nearly_all_days_are_the_papers_own(tmp_path: Path) -> None:
    def of_days(first: datetime, days: int, hours: int = 1) -> list[salsa_documents.Document]:
        step = timedelta(hours=24 // hours)
        return [salsa_documents.Document(tmp_path, first + number * step, 60, policies=True) for number in range(days * hours)]

    def original(found: list[salsa_documents.Document]) -> frozenset[str]:
        return salsa_documents._arrange(found, tmp_path).original

    november, year = datetime(2021, 11, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    assert original(of_days(november, 25)) == {"november", "policies"}
    assert original(of_days(november, 24, hours=24)) == frozenset()
    assert original(of_days(year, 299)) == frozenset()
    assert original(of_days(year, 300)) == {"year"}
    assert original(of_days(year, 365)) == {"november", "year", "policies"}
    # November alone: what stands for the year is said.
    told = salsa._documents(salsa_documents._arrange(of_days(november, 30), tmp_path))
    assert told[0] == "Documents of November 2021: 30."
    assert told[1] == (
        "**The 30 consensuses of 30 days from November 1, 2021 to November 30, 2021 stand in for those of all days of 2021.**"
    )
    told = salsa._documents(salsa_documents._arrange(of_days(year, 365), tmp_path))
    assert told[:2] == ["Documents of November 2021: 30.", "Documents of 2021: 365."]
    assert not any("fetch" in line for line in told)


def test_the_page_names_what_is_drawn_and_with_which_seeds() -> None:
    def rules(documents: int, draws: int) -> str:
        rows = [{"document": f"{day}", "seed": 1 + draw} for day in range(documents) for draw in range(draws)]
        return " ".join(salsa._ours(salsa_measure.Measured(frames={"rules": pl.DataFrame(rows)})))

    assert "figure 6 below the whole network, once in each sampled network" in rules(1, 20)
    assert "figure 11, seeds 1 to 20; the" in rules(1, 20)
    assert "figure 11, seed 1 for each of 30 documents; the" in rules(30, 1)


@pytest.mark.parametrize(
    ("policy", "port", "served"),
    [
        ("p accept 80,443,6000-7000", 6881, True),
        ("p accept 80,443,6000-7000", 25, False),
        ("p reject 25,6881-6889", 6885, False),
        ("p reject 25,6881-6889", 443, True),
        ("p reject 1-65535", 443, False),
        ("", 443, False),
    ],
)
def test_policies(policy: str, port: int, served: bool) -> None:
    assert salsa_documents.serves(policy, port) == served


def consensus_of(*relays: tuple[str, str, int, str], microdesc: bool) -> str:
    """Lines of a consensus with relays of these identities, flags, weights and policies."""
    lines = ["network-status-version 3 microdesc" if microdesc else "network-status-version 3", "valid-after then"]
    for identity, flags, weight, policy in relays:
        digest = "" if microdesc else " digest"
        lines += [f"r name {identity}{digest} day hour 1.2.3.4 443 0", f"s {flags}", f"w Bandwidth={weight}"]
        lines += ["m something"] if microdesc else [f"p {policy}"]
    return "\n".join([*lines, "directory-footer", "bandwidth-weights x"])


def test_exits_get_their_own_policy_or_that_of_the_next_lighter_one() -> None:
    one, two, three, four = ("A" * 26 + letter for letter in "AEIM")
    main = consensus_of(
        (one, "Exit Fast", 30, ""), (two, "Exit", 10, ""), (three, "Exit", 20, ""), (four, "Guard", 99, ""), microdesc=True
    )
    donor = consensus_of((two, "Exit", 1, "accept 80,443"), (one, "Exit", 1, "reject 443"), microdesc=False)
    made = salsa_documents.graft(main, donor).splitlines()
    assert made[0] == "network-status-version 3"
    assert made[-2:] == ["directory-footer", "bandwidth-weights x"]
    assert not any(line.startswith("m ") for line in made)
    policies = [line for line in made if line.startswith("p ")]
    # The first refuses the web in the other document, and the third is unknown there.
    assert policies == ["p accept 80,443", "p accept 80,443", "p accept 80,443", "p reject 1-65535"]
    assert all(len(line.split()) == 9 for line in made if line.startswith("r "))


def given_policies(path: Path) -> str:
    """A document in which every second exit of another serves the web alone, and the others everything."""
    exits = [one[0].split(" ")[2] for one in salsa_documents.entries(path.read_text(encoding="utf-8"))[1]]
    chosen = [(name, "Exit", 1, "accept 80,443" if number % 2 else "accept 1-65535") for number, name in enumerate(exits)]
    return consensus_of(*chosen, microdesc=False)


def test_grafted_document_is_the_same_network(small: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_text(salsa_documents.graft(small.read_text(encoding="utf-8"), given_policies(small)), encoding="utf-8")
    assert salsa_documents.read(made).policies
    for question in (Question(circuits=2000), Question(circuits=2000, internal=True, directed=False)):
        before, after = (shared_links(path, question)["shared_percent"][0] for path in (small, made))
        assert after == pytest.approx(before, rel=1e-9)
    exits = [shared_links(made, Question(circuits=2000, traffic=name))["exits"][0] for name in ("web", "bittorrent-base")]
    assert exits[0] > exits[1] > 0


def check_formula(path: Path, circuits: int) -> salsa_parts.Chances:
    network = salsa_parts.chances(salsa_documents.read(path))
    for part in (network.guard, network.middle, network.exit):
        assert float(sum(part * network.count)) == pytest.approx(1.0)
    for internal, directed in salsa_measure.KINDS.values():
        ours = salsa_parts.shares(network, circuits, internal=internal, directed=directed)
        other = shared_links(path, Question(circuits=circuits, internal=internal, directed=directed))["shared_percent"][0]
        assert ours["whole"] == pytest.approx(other, abs=0.001)
    return network


def test_formula_by_parts_agrees_with_the_simulators(small: Path) -> None:
    check_formula(small, 3000)


def test_formula_by_parts_in_a_real_network(july: Path) -> None:
    network = check_formula(july, 96_000)
    assert 1e5 * network.one_relay_twice < 300


def test_july_2021(july: Path) -> None:
    percents = {
        kind: shared_links(july, Question(circuits=96_000, internal=internal, directed=directed))["shared_percent"][0]
        for kind, (internal, directed) in salsa_measure.KINDS.items()
    }
    published = dict(zip(percents, (3.7, 4.6, 4.0, 6.9), strict=True))
    assert percents == pytest.approx(published, abs=0.1)


def test_page_and_charts(quick: None, small: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    page, broken = salsa.reproduce(EXPERIMENTS, [small], tmp_path / "out", tmp_path / "docs", steps.append)
    text = page.read_text(encoding="utf-8")
    published = load_published(EXPERIMENTS / "published.json")
    assert broken == []
    assert text.count("(stand-in) |") == len(published.claims) - 1
    assert "stands in for those of all days of November 2021" in text
    assert "the built-in synthetic network answers" in text
    for claim in published.claims:
        assert f"| {claim.what} |" in text
    for name, title in TITLES.items():
        assert f"## {title}" in text
        assert (tmp_path / "docs" / f"salsa-{name}.png").is_file()
        drawing = (tmp_path / "docs" / f"salsa-{name}.svg").read_text(encoding="utf-8")
        assert "black diamond" in drawing
    numbers = json.loads((tmp_path / "out" / "measured.json").read_text(encoding="utf-8"))
    assert {claim.key for claim in published.claims} <= set(numbers["values"])
    assert steps[0] == "documents"
    assert steps[-1] == "charts"


def test_without_consensuses_synthetic_networks_serve(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _core.synth

    def smaller(options: str) -> str:
        return real(json.dumps({"relays": 800, **json.loads(options)}))

    monkeypatch.setattr(_core, "synth", smaller)
    monkeypatch.setattr(salsa, "DEFAULT_CONSENSUSES", tmp_path / "nowhere")
    page, broken = salsa.reproduce(EXPERIMENTS, [], tmp_path / "out", tmp_path / "docs")
    assert broken == []
    assert "No real consensus was at hand" in page.read_text(encoding="utf-8")
    assert "synthetic networks made by onionlab" in (tmp_path / "docs" / "salsa-years.svg").read_text(encoding="utf-8")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    def run(*words: str) -> object:
        monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code

    return run


def test_command_line(
    call: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Request] = []
    for broken, code in (([], 0), (["one thing differs"], 1)):
        run = lambda one, broken=broken: asked.append(one) or (tmp_path, broken)  # noqa: E731
        monkeypatch.setitem(REPRODUCTIONS, "salsa", replace(REPRODUCTIONS["salsa"], run=run))
        assert call("salsa", "--consensus", "one", "--consensus", "two", "--out", "o", "--docs", "d") == code
        told = capsys.readouterr()
        assert told.out == f"page: {tmp_path}\n"
        assert told.err == "".join(f"onionlab: {sentence}\n" for sentence in broken)
    assert (asked[0].experiments, asked[0].out, asked[0].docs) == (Path("experiments/salsa"), Path("o"), Path("d"))
    assert asked[0].consensuses == [Path("one"), Path("two")]
    assert call("salsa", "--reference", "x") == 2
    assert call("shadow-tor", "--consensus", "x") == 2
