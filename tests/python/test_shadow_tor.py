"""Held against real tor: the experiments of `experiments/shadow-tor` on the empty network, against the published figures."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp

from onionlab import cli
from onionlab.errors import ResultsError
from onionlab.reproductions import REPRODUCTIONS, shadow_tor
from onionlab.reproductions.agreement import judge, median_interval, same_distribution
from onionlab.reproductions.published import Published, Quantiles, load_published, load_samples, quantiles
from onionlab.reproductions.shadow_tor import Comparison
from onionlab.reproductions.shadow_tor.page import Reasons

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments" / "shadow-tor"
REFERENCE = ROOT.parent / "shared" / "data" / "reference" / "shadow-tor"
NO_REASONS = Reasons({}, {})

#: Medians that must agree with real tor within 1 %: on the empty network, where nothing queues.
TIGHT = [
    (case, size, metric)
    for case in ("e0-samecirc", "e0-freshcirc", "e0-cc2-samecirc", "e0-cc2-freshcirc")
    for size, metric in ((50_000, "ttfb"), (50_000, "ttlb"), (1_000_000, "ttfb"), (5_000_000, "ttfb"))
]


@pytest.fixture(scope="module")
def published() -> Published:
    return load_published(EXPERIMENTS / "published.json")


@pytest.fixture(scope="module")
def comparisons(published: Published, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    """The settings on the empty network, which take a fraction of a second each, with two seeds."""
    short = Published(published.source, tuple(case for case in published.cases if case.name.startswith("e0")))
    measured = shadow_tor.measure(EXPERIMENTS, short, None, tmp_path_factory.mktemp("shadow-tor"), seeds=2)
    return {comparison.case.name: comparison for comparison in measured}


@pytest.mark.parametrize(("case", "size", "metric"), TIGHT)
def test_median_agrees_with_real_tor(comparisons: dict[str, Comparison], case: str, size: int, metric: str) -> None:
    verdict = comparisons[case].verdicts[size, metric]
    assert verdict.narrow
    assert verdict.limit == 0.01
    assert abs(verdict.difference) <= 0.01
    assert verdict.within


def test_both_profiles_were_run_with_every_seed(comparisons: dict[str, Comparison]) -> None:
    for one in comparisons.values():
        assert one.seeds == (1, 2)
        for treatment in ("shadow", "linux"):
            counts = {figure: values.count for figure, values in one.figures[treatment].items()}
            assert counts == dict.fromkeys(one.case.figures, 20)


def test_a_seed_matters_where_queues_fill(comparisons: dict[str, Comparison]) -> None:
    ours = comparisons["e0-samecirc"].of("shadow").filter(pl.col("bytes") == 5_000_000)
    by_seed = [group["ttlb"].to_list() for _, group in ours.group_by("seed", maintain_order=True)]
    assert by_seed[0] != by_seed[1]


def test_page_charts_and_what_differs(comparisons: dict[str, Comparison], published: Published, tmp_path: Path) -> None:
    one = comparisons["e0-samecirc"]
    late = one.of("shadow").select("bytes", ttfb=pl.col("ttfb") + 0.04, ttlb=pl.col("ttlb"))
    wrong = Comparison(one.case, one.ours.with_columns(ttfb=pl.col("ttfb") + 0.04), late, one.made, one.seeds)
    said = shadow_tor.violations([wrong], NO_REASONS)
    assert "e0-samecirc: first byte of 50 kB differs by +12.5 %, and nothing says why" in said
    reasons = Reasons({("e0-samecirc", size, "ttfb"): "a delay of 40 ms" for size in (50_000, 1_000_000, 5_000_000)}, {})
    assert not [sentence for sentence in shadow_tor.violations([wrong], reasons) if "first byte" in sentence]
    text = shadow_tor.write([wrong], published.source, reasons, tmp_path).read_text(encoding="utf-8")
    assert "| e0-samecirc | first byte of 50 kB | +12.5 % | a delay of 40 ms |" in text
    assert "## e0-samecirc" in text
    assert "(shadow-tor-e0-samecirc.svg)" in text
    assert (tmp_path / "shadow-tor-e0-samecirc.png").read_bytes().startswith(b"\x89PNG")
    assert "onionlab, linux" in (tmp_path / "shadow-tor-e0-samecirc.svg").read_text(encoding="utf-8")


def test_times_that_no_seed_changes_have_no_interval(
    comparisons: dict[str, Comparison], published: Published, tmp_path: Path
) -> None:
    one = comparisons["e0-samecirc"]
    assert one.verdicts[50_000, "ttlb"].runs == 1 < one.verdicts[5_000_000, "ttlb"].runs
    text = shadow_tor.write([one], published.source, NO_REASONS, tmp_path).read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(("| first byte |", "| last byte |"))]
    assert len(rows) == len(one.verdicts)
    for row, verdict in zip(rows, one.verdicts.values(), strict=True):
        assert ("[" in row[4], row[7] != "") == (verdict.runs > 1, verdict.runs > 1), row
    said = next(line for line in text.splitlines() if line.startswith("No random number takes part"))
    assert "last byte of 50 kB" in said
    assert "last byte of 5 MB" not in said
    assert "all 2 seeds give the very same" in said
    first = one.ours.filter(pl.col("seed") == 1)
    copies = dataclasses.replace(one, ours=pl.concat([first, first.with_columns(seed=pl.lit(2, first.schema["seed"]))]))
    text = shadow_tor.write([copies], published.source, NO_REASONS, tmp_path).read_text(encoding="utf-8")
    assert "No random number takes part in these times under `shadow`" in text
    assert "s [" not in text


def test_copies_of_a_run_make_no_interval_narrower() -> None:
    random = np.random.default_rng(7)
    different = [random.normal(1.0, 0.1, 20) for _ in range(3)]

    def runs(count: int) -> pl.DataFrame:
        return pl.concat([pl.DataFrame({"seed": seed, "time": different[seed % 3]}) for seed in range(count)])

    (low, high), (low_of_many, high_of_many) = median_interval(runs(3)), median_interval(runs(60))
    assert low_of_many == pytest.approx(low, abs=0.01)
    assert high_of_many == pytest.approx(high, abs=0.01)


def test_traces_become_a_table_and_a_chart(comparisons: dict[str, Comparison], published: Published, tmp_path: Path) -> None:
    one = comparisons["e0-cc2-samecirc"]
    assert one.our_trace is not None
    traced = dataclasses.replace(one, their_trace=one.our_trace.with_columns(cwnd=pl.col("cwnd") * 2))
    text = shadow_tor.write([traced], published.source, NO_REASONS, tmp_path).read_text(encoding="utf-8")
    assert "−50.0 % |" in next(line for line in text.splitlines() if line.startswith("| window |"))
    assert (tmp_path / "shadow-tor-e0-cc2-samecirc-vegas.png").is_file()


def test_wide_times_are_judged_by_their_distribution() -> None:
    theirs = pl.Series([1.0 + 0.01 * step for step in range(40)])
    wide = Quantiles.of(theirs)
    same = pl.DataFrame({"seed": [1, 2] * 20, "time": theirs})
    verdict = judge(wide, theirs, same, tight=False)
    assert (verdict.narrow, verdict.limit, verdict.within) == (False, 0.01, True)
    assert verdict.p == 1.0
    assert verdict.low <= theirs.median() <= verdict.high
    assert judge(wide, theirs, same.with_columns(time=pl.col("time") + 0.2), tight=False).within is False
    assert judge(wide, None, same, tight=False).within is None


def test_copies_of_a_run_are_no_evidence() -> None:
    theirs = pl.Series([1.0 + number / 40 for number in range(40)])
    wide = Quantiles.of(theirs)
    run = [1.15 + number / 50 for number in range(40)]
    once = pl.DataFrame({"seed": [1] * 40, "time": run})
    copies = pl.concat([once.with_columns(seed=pl.lit(seed, pl.Int64)) for seed in range(1, 51)])
    verdict = judge(wide, theirs, copies, tight=False)
    assert verdict == judge(wide, theirs, once, tight=False)
    assert verdict.runs == 1
    others = copies.with_columns(time=pl.col("time") + pl.col("seed") / 1e6)
    assert judge(wide, theirs, others, tight=False).runs == 50
    assert judge(wide, theirs, others, tight=False).p < verdict.p  # type: ignore[operator]


def test_how_often_a_run_comes_out_counts() -> None:
    """One of two kinds of run is three times as frequent: median and distance are of the mixture, the certainty of two runs."""
    theirs = pl.Series([1.0 + number / 40 for number in range(40)])
    kinds = {0: 0.0, 1: 0.0, 2: 0.0, 3: 1.0}
    rows = [(seed, 1.0 + number / 40 + kinds[seed % 4]) for seed in range(40) for number in range(40)]
    ours = pl.DataFrame(rows, schema={"seed": pl.Int64, "time": pl.Float64}, orient="row")
    verdict = judge(Quantiles.of(theirs), theirs, ours, tight=False)
    assert verdict.runs == 2
    assert verdict.low <= ours["time"].median() <= verdict.high  # type: ignore[operator]
    assert verdict.difference == pytest.approx(float(np.median(ours["time"])) / float(np.median(theirs)) - 1, abs=1e-4)
    assert same_distribution(theirs.to_numpy(), ours["time"].to_numpy(), 80) == verdict.p
    assert same_distribution(theirs.to_numpy(), ours["time"].to_numpy(), 1600) < verdict.p  # type: ignore[operator]


def test_p_is_that_of_the_field() -> None:
    """Without copies p is SciPy's own of two large samples."""
    draw = np.random.default_rng(1)
    theirs, ours = draw.exponential(size=300), draw.exponential(1.15, size=4000)
    assert same_distribution(theirs, ours, 4000) == pytest.approx(ks_2samp(theirs, ours, method="asymp").pvalue, rel=1e-6)


def test_seeds_are_put_into_the_experiment(tmp_path: Path) -> None:
    file = EXPERIMENTS / "e0-samecirc.toml"
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(shadow_tor.with_seeds(file, 3)) == {**tomllib.loads(text), "seeds": [1, 2, 3]}
    other = tmp_path / "other.toml"
    other.write_text(text.replace("[network]\n", "[network] # of the reference\n"), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"other\.toml: nothing there matches "):
        shadow_tor.with_seeds(other, 3)


def test_published_figures_are_those_of_the_measurement(published: Published) -> None:
    if not REFERENCE.is_dir():
        pytest.skip("the reference's own measurements (shared/data/reference/shadow-tor) are not here")
    there = {path.parent.relative_to(REFERENCE).as_posix() for path in REFERENCE.glob("*/*/meta.json")}
    assert {case.folder for case in published.cases} == there
    for case in published.cases:
        samples = load_samples(REFERENCE / case.folder)
        assert samples is not None, case.folder
        assert quantiles(samples) == case.figures, case.folder


def test_every_reason_belongs_to_a_figure(published: Published) -> None:
    reasons = shadow_tor.load_reasons(EXPERIMENTS / "differences.toml")
    figures = {(case.name, *figure) for case in published.cases for figure in case.figures}
    assert set(reasons.mechanisms) <= figures
    assert set(reasons.linux) <= {case.name for case in published.cases}


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
        reproduction = dataclasses.replace(REPRODUCTIONS["shadow-tor"], run=lambda _, broken=broken: (page, broken))
        monkeypatch.setitem(REPRODUCTIONS, "shadow-tor", reproduction)
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
