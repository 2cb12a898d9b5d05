"""Held against real tor: the experiments of `experiments/shadow-tor`, run in full, against the published figures."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from onionlab import cli
from onionlab.errors import ResultsError
from onionlab.reproductions import PAPERS, shadow_tor
from onionlab.reproductions.published import Published, load_published, load_samples, quantiles
from onionlab.reproductions.shadow_tor import Comparison

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments" / "shadow-tor"
REFERENCE = ROOT.parent / "shared" / "data" / "reference" / "shadow-tor"

#: The medians that must agree with real tor within 2 %.
REQUIRED = [
    ("e0-samecirc", 50_000, "ttfb"),
    ("e0-samecirc", 50_000, "ttlb"),
    ("e0-samecirc", 1_000_000, "ttfb"),
    ("e0-samecirc", 5_000_000, "ttfb"),
    ("e0-freshcirc", 50_000, "ttfb"),
    ("e0-freshcirc", 50_000, "ttlb"),
    ("e0-freshcirc", 1_000_000, "ttfb"),
    ("e0-freshcirc", 5_000_000, "ttfb"),
    ("e1-noloss", 5_000_000, "ttfb"),
]


@pytest.fixture(scope="module")
def published() -> Published:
    return load_published(EXPERIMENTS / "published.json")


@pytest.fixture(scope="module")
def comparisons(published: Published, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    measured = shadow_tor.measure(EXPERIMENTS, published, None, tmp_path_factory.mktemp("shadow-tor"))
    return {comparison.case.name: comparison for comparison in measured}


@pytest.mark.parametrize(("case", "size", "metric"), REQUIRED)
def test_median_agrees_with_real_tor(comparisons: dict[str, Comparison], case: str, size: int, metric: str) -> None:
    ours = comparisons[case].figures[size, metric].median
    theirs = comparisons[case].case.figures[size, metric].median
    assert ours == pytest.approx(theirs, rel=0.02)


def test_every_required_median_is_marked(published: Published) -> None:
    marked = [(case.name, *figure) for case in published.cases for figure in case.figures if shadow_tor.required(*figure)]
    assert sorted(marked) == sorted(REQUIRED)


def test_as_many_transfers_as_the_reference(comparisons: dict[str, Comparison]) -> None:
    for name in ("e0-samecirc", "e0-freshcirc"):
        counts = {figure: values.count for figure, values in comparisons[name].figures.items()}
        assert counts == dict.fromkeys(comparisons[name].case.figures, 10)
    # Transfers back to back for a minute: their number is what their duration allows.
    bulk = comparisons["e1-noloss"]
    assert bulk.ours.height == pytest.approx(bulk.case.figures[5_000_000, "ttlb"].count, rel=0.05)


@pytest.mark.parametrize("only_published", [False, True])
def test_page_and_charts(comparisons: dict[str, Comparison], published: Published, tmp_path: Path, only_published: bool) -> None:
    chosen = list(comparisons.values())
    if not only_published:
        # In place of their transfers: our own a little later.
        late = [frame.ours.with_columns(ttfb=frame.ours["ttfb"] * 1.01, ttlb=frame.ours["ttlb"] * 1.01) for frame in chosen]
        chosen = [
            Comparison(one.case, one.ours, theirs, one.version, one.seeds) for one, theirs in zip(chosen, late, strict=True)
        ]
    page = shadow_tor.write(chosen, published.source, tmp_path).read_text(encoding="utf-8")
    for name in comparisons:
        assert f"## {name}" in page
        assert f"(shadow-tor-{name}.svg)" in page
        assert (tmp_path / f"shadow-tor-{name}.png").read_bytes().startswith(b"\x89PNG")
        drawing = (tmp_path / f"shadow-tor-{name}.svg").read_text(encoding="utf-8")
        assert "real tor" in drawing
        assert "onionlab" in drawing
        assert ("at hand" in drawing) == only_published
    assert page.count(" ● |") == len(REQUIRED)
    assert "All of them do." in page


def test_a_disagreement_is_told(comparisons: dict[str, Comparison], published: Published, tmp_path: Path) -> None:
    right = comparisons["e0-samecirc"]
    late = right.ours.with_columns(ttfb=right.ours["ttfb"] + 0.04)
    wrong = Comparison(right.case, late, None, right.version, right.seeds)
    found = shadow_tor.violations([wrong])
    assert found[0] == "e0-samecirc: first byte of 50 kB differs by +12.5 %"
    assert len(found) == 3
    assert found[0] in shadow_tor.page([wrong], published.source)


def test_published_figures_are_those_of_the_measurement(published: Published) -> None:
    if not REFERENCE.is_dir():
        pytest.skip("the reference's own measurements (shared/data/reference/shadow-tor) are not here")
    for case in published.cases:
        samples = load_samples(REFERENCE / case.folder)
        assert samples is not None, case.folder
        assert quantiles(samples) == case.figures, case.folder


def test_missing_or_broken_figures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot read"):
        load_published(tmp_path / "published.json")
    (tmp_path / "published.json").write_text('{"source": "nobody", "cases": [{"experiment": "x"}]}', encoding="utf-8")
    with pytest.raises(ResultsError, match="not a list of published figures"):
        load_published(tmp_path / "published.json")


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def call(*words: str) -> object:
        monkeypatch.setattr("sys.argv", ["onionlab", "reproduce", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code

    page = tmp_path / "page.md"
    for broken, code in (([], 0), (["one thing differs by +3 %"], 1)):
        monkeypatch.setitem(PAPERS, "shadow-tor", lambda *_, broken=broken: (page, broken))
        assert call("shadow-tor") == code
        told = capsys.readouterr()
        assert told.out == f"page: {page}\n"
        assert told.err == "".join(f"onionlab: {sentence}\n" for sentence in broken)
    assert call("no-such-paper") == 2
    assert "shadow-tor" in capsys.readouterr().err


def test_every_assumption_says_what_and_why() -> None:
    listed = tomllib.loads((EXPERIMENTS / "assumptions.toml").read_text(encoding="utf-8"))["assumption"]
    assert listed
    for assumption in listed:
        assert set(assumption) == {"what", "chosen", "why"}
        assert all(text.strip() for text in assumption.values())
