"""Comparing finished experiments: what differs, what is paired and why not, and what the page and the command say."""

from __future__ import annotations

import doctest
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import onionlab
import onionlab.results.written
import onionlab.stats.welch
from conftest import EXPERIMENT
from fake_core import FakeCore
from onionlab import _core
from onionlab.charts import theme
from onionlab.charts.comparison import comparison_charts
from onionlab.errors import OnionlabError, ResultsError
from onionlab.report.comparison import caveats, pairing
from onionlab.results import cost, written
from onionlab.results.drawn import MADE
from onionlab.stats import per_network
from onionlab.stats.welch import welch_interval, welch_p_value, welch_ratio
from test_cli import call
from test_report import Page

#: The two treatments of the experiment, each in an experiment of its own.
HEAD, _, TREATMENTS = EXPERIMENT.partition("[[treatments]]")
FIRST, SECOND = TREATMENTS.split("[[treatments]]")


def made(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    onionlab.run(path, folder / name, report=False)
    return folder / name


@pytest.fixture
def apart(core: FakeCore, tmp_path: Path) -> tuple[Path, Path]:
    """Two results directories of one treatment each, on the same networks."""
    return (
        made(tmp_path, "rr", f"{HEAD}[[treatments]]{FIRST}"),
        made(tmp_path, "ewma", f"# EWMA\n{HEAD}[[treatments]]{SECOND}"),
    )


@pytest.fixture
def by_hand(core: FakeCore, tmp_path: Path) -> list[Path]:
    """Two results directories on one network by hand, two seeds each, of which the second has no download in bulk."""

    def silence(directory: str) -> None:
        core.silent_groups = {"bulk"} if directory.endswith("seed2") else set()

    core.on_step = silence
    head = HEAD.replace("networks = 3", "networks = 1").replace("[[clients]]", '[network]\nkind = "explicit"\n\n[[clients]]', 1)
    directories = []
    for name, treatment in (("rr by hand", FIRST), ("ewma by hand", SECOND)):
        path = tmp_path / f"{name}.toml"
        path.write_text(f"{head}[[treatments]]{treatment}", encoding="utf-8")
        # One at a time: which group is silent is the same for all runs of a moment.
        onionlab.run(path, tmp_path / name, report=False, jobs=1)
        directories.append(tmp_path / name)
    return directories


@pytest.mark.parametrize("module", [onionlab.results.written, onionlab.stats.welch])
def test_examples_in_the_documentation(module: object) -> None:
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


def test_treatments_of_two_directories_are_paired_as_if_in_one(apart: tuple[Path, Path], core: FakeCore) -> None:
    comparison = onionlab.compare(apart)
    assert comparison.labels == ["round robin", "EWMA"]
    assert comparison.unpaired == {}
    assert comparison.pairs(comparison.variants[1]) == 3
    assert comparison.differing["key"].to_list() == ["fake-factor"]
    assert comparison.differing.row(0) == ("fake-factor", None, "0.7")
    together = onionlab.load(made(apart[0].parent, "both", EXPERIMENT)).summary
    assert comparison.summary.drop("pairing").equals(together)
    assert set(comparison.summary["pairing"].drop_nulls()) == {"paired"}
    assert "paired with “round robin” over 3 networks" in pairing(comparison)[0]
    assert core.made


def test_of_relays_left_alone_only_what_differs_is_listed(apart: tuple[Path, Path], core: FakeCore, tmp_path: Path) -> None:
    """A share of relays has a scheduler of one's own; the others have all else in common with them."""
    own = '{ python = { path = "/mine/shortest_queue.py", class = "Shortest", digest = "5c" }, parameters = { patience = 0.5 } }'
    others = '{ circuitmux = "ewma", mss = 1434, tls = "1.2" }'
    head = f'[[treatments]]\nname = "some"\ncircuitmux = {own}\nmss = 1434\ntls = "1.2"\n'
    some = made(tmp_path, "some", f"{HEAD}{head}relays = {{ share = 0.3, others = {others} }}\n")
    keys = dict(onionlab.compare([apart[0], some]).differing.select("key", "some").iter_rows())
    assert keys["circuitmux"] == "python shortest_queue.py:Shortest"
    assert keys["relays.others.circuitmux"] == "ewma"
    assert keys["relays.share"] == "0.3"
    assert not {"relays.others.mss", "relays.others.tls"} & set(keys)
    assert keys["circuitmux.parameters.patience"] == "0.5"
    assert keys["circuitmux (content)"] == "5c"
    assert not any(key.endswith((".path", ".class", ".digest")) for key in keys)


def test_networks_of_other_sizes_are_told_apart_by_the_key_that_one_writes(apart: tuple[Path, Path], core: FakeCore) -> None:
    size = "[network]\nsize = { relays = 50 }\n\n[[clients]]"
    other = made(apart[0].parent, "smaller", f"{HEAD.replace('[[clients]]', size, 1)}[[treatments]]{SECOND}")
    comparison = onionlab.compare([apart[0], other])
    assert comparison.unpaired == {"EWMA": "its networks are sampled otherwise: network.relays differs"}
    assert comparison.differing["key"].to_list() == ["network.relays", "fake-factor"]
    assert core.made


def test_a_document_at_another_place_is_the_same(core: FakeCore, tmp_path: Path) -> None:
    folders = []
    for name, digest in (("here", "5c"), ("there", "5c"), ("other", "6d")):
        core.documents = {"document": {"path": f"{name}/network.json", "digest": digest}}
        folders.append(made(tmp_path, name, f"# {name}\n{HEAD}[[treatments]]{SECOND}"))
    comparison = onionlab.compare(folders)
    assert set(comparison.differing["key"]) == {"network.path", "network.path (content)"}
    assert comparison.unpaired == {"other": "its networks are sampled otherwise: network.path (content) differs"}


def test_groups_that_have_changed_places_are_told_apart(core: FakeCore, tmp_path: Path) -> None:
    """Of some other groups there is no order to tell."""
    head, *groups = HEAD.split("[[clients]]")
    texts = {"one": HEAD, "two": "[[clients]]".join([head, *groups[::-1]]), "three": head + "[[clients]]" + groups[1]}
    folders = [made(tmp_path, name, f"{text}\n[[treatments]]{SECOND}") for name, text in texts.items()]
    assert onionlab.compare(folders[:2]).differing.rows() == [("clients (order)", "web, bulk", "bulk, web")]
    keys = [key for key, *_ in onionlab.compare([folders[0], folders[2]]).differing.iter_rows()]
    assert keys
    assert "clients (order)" not in keys
    assert "clients (order)" in onionlab.compare(folders).differing["key"].to_list()


HOSTS = """\
title = "By hand"
duration = "20 s"
[network]
kind = "explicit"
hosts = [
    { name = "g", role = "guard", up = "1 Mbit/s", down = "1 Mbit/s" },
    { name = "m", role = "middle", up = "1 Mbit/s", down = "1 Mbit/s" },
    { name = "e", role = "exit", up = "1 Mbit/s", down = "1 Mbit/s" },
    { name = "s", role = "server", up = "1 Mbit/s", down = "1 Mbit/s" },
    { name = "c", role = "client", up = "1 Mbit/s", down = "1 Mbit/s" },
    { name = "d", role = "client", up = "1 Mbit/s", down = "1 Mbit/s" },
]
links = [{ between = ["c", "g"], latency = "5 ms" }]
[[clients]]
group = "web"
hosts = ["c"]
path = ["g", "m", "e"]
server = "s"
load = { kind = "bulk", size = "1 MB" }
"""


def test_hosts_by_hand_go_by_their_names(tmp_path: Path) -> None:
    first, *others = [line for line in HOSTS.splitlines() if line.startswith("    {")]
    at_the_end = HOSTS.replace(f"{first}\n", "").replace(others[-1], f"{others[-1]}\n{first}")
    texts = (HOSTS, at_the_end, HOSTS.replace('["c"]', '["d"]'))
    settings = [written.of_run(json.loads(_core.resolve(str(tmp_path / "hosts.toml"), text)), "base") for text in texts]
    assert settings[0]["clients.web.path"] == '["g", "m", "e"]'
    assert settings[0]["clients.web.server"] == "s"
    assert '"between": ["c", "g"]' in settings[0]["network.links"]
    moved = written.differing(settings[0], settings[1])
    assert moved == {"network.hosts (order)": ("g, m, e, s, c, d", "m, e, s, c, d, g")}
    assert written.differing(settings[0], settings[2]) == {"clients.web.hosts": ('["c"]', '["d"]')}


def _properties(schema: Any) -> Iterator[str]:
    """Every key that a JSON Schema knows, wherever it belongs."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}) if isinstance(schema.get("properties"), dict) else ()
        for part in schema.values():
            yield from _properties(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _properties(part)


def test_settings_have_the_keys_of_an_experiment_file() -> None:
    """Each part of a key that is no name is one that the schema of the real simulator knows."""
    known = {*_properties(json.loads(_core.schema()))}
    looked_at = 0
    for path in sorted((Path(__file__).parents[2] / "experiments").glob("*/*.toml")):
        try:
            scenario = json.loads(_core.resolve(str(path)))
        except OnionlabError:
            continue  # no experiment, or one that rests on a file that is elsewhere
        found = written.of_scenario(scenario)
        for treatment in scenario["treatments"]:
            found |= written.of_treatment(treatment)
        for key in found:
            parts = key.removesuffix(written.CONTENT).removesuffix(written.ORDER).split(".")
            name = 1 if parts[0] == "clients" else 2 if parts[:2] == ["network", "hosts"] else None
            assert {part for place, part in enumerate(parts) if place != name} <= known, key
            looked_at += 1
    assert looked_at > 2000


def test_a_treatment_keeps_the_colour_of_its_own_report(core: FakeCore, tmp_path: Path) -> None:
    """EWMA is the first where it is alone; then the first of the other experiment has to take what is free."""
    both = made(tmp_path, "both", EXPERIMENT)
    alone = made(tmp_path, "alone", f"{HEAD}[[treatments]]{SECOND}")
    comparison = onionlab.compare([alone, both])
    assert comparison.labels == ["alone: EWMA", "both: round robin", "both: EWMA"]
    assert comparison.places == [0, 2, 1]
    assert onionlab.compare([both, alone]).places == [0, 1, 2]
    chart = next(chart for chart in comparison_charts(comparison) if chart.name == "network-throughput")
    assert chart.specification is not None
    encodings = [layer["encoding"] for layer in chart.specification["layer"]]
    (scale, *_) = [encoding["color"]["scale"] for encoding in encodings if "color" in encoding]
    assert scale["range"] == [theme.PALETTE[place] for place in comparison.places]


def test_charts_are_drawn_as_those_of_a_report(core: FakeCore, tmp_path: Path) -> None:
    """With both treatments in one directory they are the same; a report's subtitles only say before what was run."""
    for name, text in (("networks", EXPERIMENT), ("seeds", f'{EXPERIMENT}\n[network]\nkind = "explicit"\n')):
        text = text.replace("networks = 3", "networks = 1").replace("[1, 2]", "[1, 2, 3]") if name == "seeds" else text
        directory = made(tmp_path, name, text)
        alone = onionlab.load(directory).charts
        together = {chart.name: chart for chart in comparison_charts(onionlab.compare([directory]))}
        assert "network-throughput" in alone.keys() & together.keys()
        for chart in alone.keys() & together.keys():
            ours, theirs = (dict(charts[chart].specification or {}) for charts in (together, alone))
            titles = ours.pop("title"), theirs.pop("title")
            assert ours == theirs
            words = [" ".join(title["subtitle"]) for title in titles]
            assert f"line: mean over {name}; band: 95 % " in words[0]
            assert words[1].endswith(words[0])
    assert core.made


def test_a_treatment_may_be_called_key(core: FakeCore, tmp_path: Path) -> None:
    """The settings that differ have a column of that name."""
    comparison = onionlab.compare([made(tmp_path, "out", EXPERIMENT.replace("round robin", "key"))])
    assert comparison.labels == ["out: key", "out: EWMA"]
    assert comparison.differing.rows() == [("fake-factor", None, "0.7")]
    assert comparison.differing.columns == ["key", *comparison.labels]
    assert core.made


def test_groups_whose_names_look_alike_have_charts_of_their_own(core: FakeCore, tmp_path: Path) -> None:
    alike = EXPERIMENT.replace('"web"', '"Web"').replace('"bulk"', '"web"')
    charts = comparison_charts(onionlab.compare([made(tmp_path, "out", alike)]))
    names = {chart.name: chart.title for chart in charts}
    assert len(names) == len(charts)
    assert names["time-to-last-byte-web"] == "Time to last byte, Web"
    assert names["time-to-last-byte-web-2"] == "Time to last byte, web"
    assert core.made


def test_the_cost_is_beside_the_first_where_networks_are_the_same(
    apart: tuple[Path, Path], core: FakeCore, tmp_path: Path
) -> None:
    paired = cost.compared(onionlab.compare(apart))
    assert paired.startswith("processor time for each cell moved: “round robin” ")
    assert paired.endswith(" times)")
    other = made(tmp_path, "other", f"{HEAD}[network]\nyear = 2020\n\n[[treatments]]{SECOND}")
    unpaired = cost.compared(onionlab.compare([apart[0], other]))
    assert unpaired.endswith(" ns")
    assert "times" not in unpaired


def test_networks_of_other_losses_and_latencies_are_the_same(apart: tuple[Path, Path], core: FakeCore) -> None:
    paths = "[network]\nloss = 0.01\njitter = false\nlatency-factor = 1.5\n\n[[clients]]"
    lossy = made(apart[0].parent, "lossy", f"{HEAD.replace('[[clients]]', paths, 1)}[[treatments]]{SECOND}")
    comparison = onionlab.compare([apart[0], lossy])
    assert comparison.unpaired == {}
    assert {"network.loss", "network.jitter", "network.latency-factor"} <= set(comparison.differing["key"])
    assert comparison.pairs(comparison.variants[1]) > 0


def test_other_networks_are_two_samples(apart: tuple[Path, Path], core: FakeCore) -> None:
    year = "[network]\nyear = 2024\n\n[[clients]]"
    other = made(apart[0].parent, "later", f"{HEAD.replace('[[clients]]', year, 1)}[[treatments]]{SECOND}")
    comparison = onionlab.compare([apart[0], other])
    assert comparison.unpaired == {"EWMA": "its networks are sampled otherwise: network.year differs"}
    assert comparison.pairs(comparison.variants[1]) == 0
    assert comparison.differing["key"].to_list() == ["network.year", "fake-factor"]
    row = comparison.summary.filter(
        pl.col("treatment") == "EWMA", pl.col("kind") == "web", pl.col("metric") == "ttlb_median"
    ).row(0, named=True)
    assert row["pairing"] == "Welch"
    values = per_network(comparison.figures).filter(pl.col("kind") == "web", pl.col("metric") == "ttlb_median")
    ours, theirs = (values.filter(pl.col("treatment") == label)["value"].to_numpy() for label in ("EWMA", "round robin"))
    expected = stats.ttest_ind(ours, theirs, equal_var=False)
    assert row["p"] == pytest.approx(expected.pvalue)
    assert row["difference_low"] == pytest.approx(expected.confidence_interval().low)
    assert row["difference"] == pytest.approx(ours.mean() - theirs.mean())
    assert row["ratio"] == pytest.approx(stats.gmean(ours) / stats.gmean(theirs))
    assert row["networks_needed"] is None
    corrected = comparison.summary["p_holm"].drop_nulls()
    assert corrected.len() > 1
    assert (corrected >= comparison.summary.filter(pl.col("p_holm").is_not_null())["p"]).all()
    assert "is not paired" in pairing(comparison)[0]
    assert core.made


def test_two_samples_of_which_one_failed_more_are_not_judged(core: FakeCore, tmp_path: Path) -> None:
    """Times are of completed downloads: whose slow ones failed is not better for it, whether networks are paired or not."""
    head = HEAD.replace("networks = 3", "networks = 12")
    year = head.replace("[[clients]]", "[network]\nyear = 2024\n\n[[clients]]", 1)
    folders = [made(tmp_path, "rr", f"{head}[[treatments]]{FIRST}"), made(tmp_path, "later", f"{year}[[treatments]]{SECOND}")]
    faster, failing = (onionlab.compare(folders) for _ in range(2))
    counted = (pl.col("treatment") == "EWMA") & (pl.col("kind") == "web") & (pl.col("metric") == "failed_timeout")
    completed = (pl.col("kind") == "web") & (pl.col("metric") == "completed")
    worse = faster.figures.with_columns(
        value=pl.when(counted).then(pl.lit(40.0)).when(completed).then(pl.lit(60.0)).otherwise(pl.col("value"))
    )
    failing.__dict__["figures"] = worse
    of = (pl.col("treatment") == "EWMA") & (pl.col("kind") == "web") & (pl.col("metric") == "ttlb_median")
    before, after = (one.summary.filter(of).row(0, named=True) for one in (faster, failing))
    assert before["verdict"].startswith("better: ")
    assert before["p"] is not None
    assert after["verdict"].endswith("points more did not complete, hence neither better nor worse")
    assert [after[column] for column in ("p", "p_holm", "difference_low", "ratio")] == [None] * 4
    assert after["difference"] == before["difference"]


def test_no_network_in_common_is_said(apart: tuple[Path, Path], core: FakeCore) -> None:
    seeds = made(apart[0].parent, "seeds", f"{HEAD.replace('[1, 2]', '[3]')}[[treatments]]{SECOND}")
    assert onionlab.compare([apart[0], seeds]).unpaired == {"EWMA": "no network and seed has a finished run of both"}
    assert core.made


def test_only_common_networks_and_seeds_are_paired(apart: tuple[Path, Path], core: FakeCore) -> None:
    more = made(apart[0].parent, "more", f"{HEAD.replace('networks = 3', 'networks = 5')}[[treatments]]{SECOND}")
    comparison = onionlab.compare([apart[0], more])
    row = comparison.summary.filter(pl.col("treatment") == "EWMA", pl.col("metric") == "ttlb_median").row(0, named=True)
    assert (row["networks"], row["difference_networks"], row["pairing"]) == (5, 3, "paired")
    assert core.made


def test_where_seeds_are_repeated_a_figure_that_some_lack_says_so(
    by_hand: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = onionlab.compare(by_hand)
    assert [comparison.repeats(variant) for variant in comparison.variants] == [2, 2]
    assert comparison.repeated == "seeds"
    of_bulk = comparison.summary.filter(pl.col("kind") == "bulk", pl.col("metric") == "ttlb_median")
    assert of_bulk["networks"].to_list() == [1, 1]
    assert of_bulk["verdict"][1].endswith(" in the only seed with both, hence no interval")
    out = by_hand[0].parent / "compared"
    assert call(monkeypatch, "compare", *by_hand, "--out", out) == 0
    assert "95 % interval over seeds" in capsys.readouterr().out
    text = Page((out / "compare.html").read_text(encoding="utf-8")).text
    # Times and failures of each variant, and their differences; goodput is zero where nothing is loaded.
    assert text.count("no interval (1 of 2 seeds)") == 15
    for phrase in ("Bold: mean over seeds", "Seeds needed for this", "Ratio typical seed"):
        assert phrase in text, phrase
    # Alone, an experiment says the same.
    results = onionlab.load(by_hand[0])
    report = results.report(out)
    text = Page(report.read_text(encoding="utf-8")).text
    assert text.count("no interval (1 of 2 seeds)") == 5
    assert "Downloads per run, mean over seeds" in text
    assert "95 % interval over seeds" in results._repr_html_()


def test_what_is_repeated_has_one_name_in_a_comparison_if_it_is_the_same_everywhere(
    apart: tuple[Path, Path], by_hand: list[Path], core: FakeCore
) -> None:
    assert onionlab.compare(apart).repeated == "sampled networks"
    mixed = onionlab.compare([apart[0], by_hand[1]])
    assert mixed.repeated == "networks"
    assert [mixed.repeats(variant) for variant in mixed.variants] == [3, 1]
    assert "two samples of networks" in pairing(mixed)[0]


def test_variants_of_one_name_go_by_their_directory(apart: tuple[Path, Path], core: FakeCore, tmp_path: Path) -> None:
    again = made(tmp_path, "slow", f"{HEAD.replace('count = 12', 'count = 20')}[[treatments]]{FIRST}")
    comparison = onionlab.compare([apart[0], again])
    assert comparison.labels == ["rr", "slow"]
    assert comparison.differing["key"].to_list() == ["clients.web.count"]
    assert comparison.unpaired == {}
    both = onionlab.compare([made(tmp_path, "both", EXPERIMENT), apart[0]])
    assert both.labels == ["both: round robin", "both: EWMA", "rr: round robin"]
    assert core.made


def test_builds_are_told_apart(apart: tuple[Path, Path], core: FakeCore) -> None:
    core.build_text = "fedcba9876543210"
    newer = made(apart[0].parent, "newer", f"{HEAD}[[treatments]]{FIRST}")
    comparison = onionlab.compare([apart[0], newer])
    assert comparison.differing["key"].to_list() == ["onionlab"]
    assert any("same build" in sentence for sentence in caveats(comparison))
    assert comparison.unpaired == {}


def test_kinds_that_only_one_has_are_said_and_measurements_that_differ(apart: tuple[Path, Path], core: FakeCore) -> None:
    head = HEAD.replace('group = "bulk"', 'group = "video"').replace('"10 s"', '"20 s"')
    text = f"{head}[[treatments]]{SECOND}"
    comparison = onionlab.compare([apart[0], made(apart[0].parent, "video", text)])
    assert comparison.kinds == ["web", "bulk", "video"]
    said = " ".join(caveats(comparison))
    assert "“bulk”, “video”" in said
    assert "does not begin at the same time everywhere (10 s, 20 s)" in said
    assert "measure-from" in comparison.differing["key"].to_list()
    assert core.made


def test_page_charts_and_tables(
    apart: tuple[Path, Path], core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = apart[0].parent / "compared"
    assert call(monkeypatch, "compare", *apart, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "fake-factor" in printed
    assert "paired with" in printed
    assert "compare.html" in printed
    text = (out / "compare.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert all(resource.startswith(("#", "data:")) for resource in page.resources)
    for phrase in ("What differs", "fake-factor", "0.7", "How sure the differences are", "better: excludes zero"):
        assert phrase in page.text, phrase
    names = {
        "differences",
        "network-throughput",
        *(f"time-to-{which}-byte-{kind}" for which in ("first", "last") for kind in ("web", "bulk")),
    }
    assert {path.stem for path in (out / "charts").glob("*.svg")} == names
    tables = {path.name for path in (out / "tables").iterdir()}
    assert tables == {f"{name}.csv" for name in (*names, "summary", "figures-per-run", "differing")} | {"settings.json", MADE}
    assert pl.read_csv(out / "tables" / "differing.csv").height == 1
    assert core.made


def test_refusals_are_one_sentence(
    apart: tuple[Path, Path], core: FakeCore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, sentence in (
        ((apart[0],), "only one treatment of one experiment"),
        ((apart[0], apart[0]), "named twice"),
        ((apart[0], apart[0].parent / "absent"), "not a results directory"),
        ((*apart, "--out", apart[1]), "a comparison needs a folder of its own"),
    ):
        assert call(monkeypatch, "compare", *words) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert len(error.strip().splitlines()) == 1
    with pytest.raises(ResultsError):
        onionlab.compare([])
    assert core.made


def test_welch_against_scipy_and_its_limits() -> None:
    rng = np.random.default_rng(2)
    ours, theirs = rng.lognormal(0.5, 0.3, 6), rng.lognormal(0.0, 0.6, 9)
    expected = stats.ttest_ind(ours, theirs, equal_var=False)
    found = welch_interval(ours, theirs)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert found.count == 6
    assert welch_p_value(ours, theirs) == pytest.approx(expected.pvalue)
    ratio = welch_ratio(ours, theirs)
    assert ratio is not None
    assert ratio.mean == pytest.approx(stats.gmean(ours) / stats.gmean(theirs))
    assert welch_ratio([0.0, 1.0], theirs) is None
    assert welch_interval([], theirs) is None
    assert welch_interval([1.0], theirs).low is None  # type: ignore[union-attr]
    assert welch_interval([1.0, 1.0], [2.0, 2.0]).low is None  # type: ignore[union-attr]
    assert welch_p_value([1.0], theirs) is None


def test_labels_tell_variants_apart_without_a_stray_comma() -> None:
    label = onionlab.results.comparison._labels
    assert label([(Path("a"), "", "kist"), (Path("a"), "", "vanilla")]) == ["kist", "vanilla"]
    # A sweep beside a plain experiment: the same treatment at two points, and once without any.
    beside = label([(Path("sweep"), "relays = 50", "kist"), (Path("sweep"), "relays = 90", "kist"), (Path("plain"), "", "kist")])
    assert beside == ["sweep: relays = 50: kist", "sweep: relays = 90: kist", "plain: kist"]
