"""PredicTor's evaluation: its files, its networks, its figures by hand, and a small one from end to end."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from onionlab import _core
from onionlab.errors import ResultsError
from onionlab.predictor import Network, max_min
from onionlab.reproductions import predictor
from onionlab.reproductions.claims import judge
from onionlab.reproductions.figures import Figure, frame
from onionlab.reproductions.kept import Made, Reduced
from onionlab.reproductions.predictor import cells, charts, measure, networks, page, single
from onionlab.reproductions.predictor.asked import METRICS, TOYS, Asked, Conditions, Study, read
from onionlab.reproductions.predictor.cells import Cell
from onionlab.reproductions.predictor.measured import Measured
from onionlab.running.runner import Silent

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "predictor"


@pytest.fixture(scope="module")
def asked() -> Asked:
    return read(FOLDER, quick=False)


@pytest.fixture(scope="module")
def quick() -> Asked:
    return read(FOLDER, quick=True)


def test_the_files_are_there_and_every_claim_is_about_what_is_run(asked: Asked, quick: Asked) -> None:
    assert len(asked.claims) == 23
    assert quick.claims == asked.claims
    assert len(quick.studies) == len(asked.studies)
    places = {place for study in asked.studies for _, _, place in study.places()} | set(TOYS)
    for claim in asked.claims:
        for part in claim.parts:
            assert part.metric in page.WORDS
            assert {part.at, part.against or part.at} <= places
    assert {metric for metric, _ in page.COLUMNS.values()} | set(page.READINGS.values()) | set(page.WORDS) <= set(METRICS)


def test_a_folder_without_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"assumptions\.toml"):
        read(tmp_path, quick=False)
    for name in ("claims.toml", "differences.toml", "published.json"):
        (tmp_path / name).write_text((FOLDER / name).read_text(encoding="utf-8"), encoding="utf-8")
    text = (FOLDER / "assumptions.toml").read_text(encoding="utf-8")
    (tmp_path / "assumptions.toml").write_text(text.replace('system = "linux"', 'system = "bsd"'), encoding="utf-8")
    with pytest.raises(ResultsError, match="bsd"):
        read(tmp_path, quick=True)


@pytest.mark.parametrize("stem", TOYS.values())
def test_the_toy_network_can_be_run_and_is_the_one_of_the_figures(stem: str) -> None:
    assert _core.resolve(str(FOLDER / f"{stem}.toml"))
    content = tomllib.loads((FOLDER / f"{stem}.toml").read_text(encoding="utf-8"))
    rates = {host["name"]: float(host["up"].split()[0]) * 1e6 for host in content["network"]["hosts"] if "relay" not in host}
    assert {name: rates[name] for name in measure.TOY_RATES} == measure.TOY_RATES
    paths = {group["group"]: tuple(reversed(group["path"])) for group in content["clients"]}
    assert paths == measure.TOY_CIRCUITS
    for pattern in predictor.QUICK_TOY.always:
        assert len(re.findall(pattern, (FOLDER / f"{stem}.toml").read_text(encoding="utf-8"))) == 1


def test_every_treatment_and_condition_gives_an_experiment_that_can_be_run(asked: Asked, tmp_path: Path) -> None:
    seen = set()
    for study in asked.studies:
        for _, conditions, place in study.places():
            kind = (conditions.system, conditions.web > 0, conditions.throttle > 0, conditions.fuzziness > 0, study.treatments)
            if kind in seen:
                continue
            seen.add(kind)
            file = tmp_path / "experiment.toml"
            file.write_text(networks.experiment(asked, study.treatments, conditions, 12, 0), encoding="utf-8")
            scenario = _core.resolve(str(file))
            assert scenario, place
            assert scenario.count('"group"') == 12


def test_networks_are_drawn_once_and_sizes_share_circuits(asked: Asked) -> None:
    small, large = (networks.draw(asked.network, Conditions(), size, 3) for size in (20, 50))
    assert large.circuits[:20] == small.circuits
    assert all(len(set(path)) == 3 for path in large.circuits)
    assert networks.draw(asked.network, Conditions(), 20, 4).circuits != small.circuits
    assert set(small.shares) == {1.0}
    uneven = networks.draw(asked.network, Conditions(capacity=(0.2, 1.0)), 20, 3)
    assert uneven.circuits == small.circuits
    assert min(uneven.shares) >= 0.2
    assert len(set(uneven.shares)) == 50
    assert [networks.is_web(Conditions(web=0.9), circuit, 10) for circuit in range(10)] == [False] + [True] * 9


def test_capacities_by_hand(asked: Asked) -> None:
    """10 Mbit/s: 1,250,000 bytes a second, 498 of 593 of them payload; of a limit of a tenth 498 of 514 are."""
    drawn, fair = networks.draw(asked.network, Conditions(), 1, 0), asked.fair["nstor"]
    assert networks.capacities(asked.network, Conditions(), drawn, fair)[0] == pytest.approx(1_250_000 * 498 / 593)
    throttled = networks.capacities(asked.network, Conditions(throttle=0.9), drawn, fair)
    assert throttled[0] == pytest.approx(125_000 * 498 / 514)
    # Controllers plan with 85 % of either: 498 of 605.
    for throttle, bytes_ in ((0.0, 1_250_000), (0.9, 125_000)):
        planned = networks.capacities(asked.network, Conditions(throttle=throttle), drawn, measure._planned(fair))
        assert planned[0] == pytest.approx(bytes_ * 498 / 605)
        assert planned[0] == pytest.approx(measure.PLANNED * bytes_ * 498 / 514, rel=1e-3)
    # The paper prints 136.7 KiB/s for each of three circuits.
    assert [rate / 1024 for rate in measure.toy_fair(fair)] == pytest.approx([136.7] * 3, abs=0.05)


def test_what_a_cell_takes_of_linux_s_links_by_hand(asked: Asked) -> None:
    """Full records, full segments, half an acknowledgement for each of these."""
    fair = asked.fair["linux"]
    assert fair.wire == round(514 * (4048 + 22) / 4048 * (1448 + 52 + 52 / 2) / 1448)
    assert (fair.payload, fair.cell) == (asked.fair["nstor"].payload, asked.fair["nstor"].cell)


def test_a_cell_is_run_once_with_the_treatments_of_all_studies(asked: Asked) -> None:
    planned = cells.plan(asked)
    found = [one for own in planned for one in own]
    assert len({(one.conditions, one.circuits, one.number) for one in found}) == len(found)
    assert len({one.name for one in found}) == len(found)
    both = next(one for one in found if one.place == "100 circuits" and one.number == 0)
    assert set(both.treatments) >= {"vanilla", "PCTCP", "PredicTor", "PredicTor, in band", "PredicTor, limit 10"}
    last = next(one for one in found if one.place == "100 circuits" and one.number == 24)
    assert last.treatments == ("vanilla", "PCTCP", "PredicTor")


def test_what_all_will_take_by_hand(quick: Asked) -> None:
    """One network with 10 and one with 30 circuits: 1 s and 3 s as on the line, and 5 s and 15 s of one that was never run."""
    study = replace(quick.studies[0], networks=1, circuits=(10, 30), treatments=("vanilla", "PredicTor, in band"))
    one = replace(quick, studies=(study,))
    costs = [("vanilla", 10, 1.0), ("vanilla", 20, 2.0), ("PCTCP", 4, 2.0)]
    assert cells.processor_time(one, costs) == pytest.approx(1 + 3 + 5 + 15)
    assert cells.processor_time(one, []) == 0.0


def latency_table(rows: list[tuple[str, int, int, float, int]]) -> pl.DataFrame:
    """Group, time in ms, bytes read, byte seconds, bytes in flight."""
    return pl.DataFrame(
        [("one", 1, group, time * 10**6, read, wait, flight) for group, time, read, wait, flight in rows],
        schema={
            "treatment": pl.String,
            "seed": pl.UInt64,
            "group": pl.String,
            "time_ns": pl.Int64,
            "read_bytes": pl.UInt64,
            "latency": pl.Float64,
            "in_flight_bytes": pl.UInt64,
        },
        orient="row",
    )


def test_what_circuits_carried_by_hand() -> None:
    """From 1 s to 3 s: a reads 1,000 and 3,000 bytes in 0.1 and 0.3 s each, b nothing, c begins later than the window ends."""
    table = latency_table(
        [("a", 1000, 9999, 1e6, 0), ("a", 2000, 1000, 100.0, 5), ("a", 3000, 3000, 900.0, 7), ("c", 3100, 50, 5.0, 0)]
    )
    found = measure.carried(table, ["a", "b", "c"], 1.0, 3.0)
    assert found.rates.tolist() == [2000.0, 0.0, 0.0]
    assert found.latency == pytest.approx(250.0)
    assert found.latencies[0] == pytest.approx(250.0)
    assert np.isnan(found.latencies[1:]).all()
    assert measure.carried(table, ["b"], 1.0, 3.0).latency is None


def test_what_is_left_behind_by_hand() -> None:
    """Measured from 8 to 10 s: one object of three is old and not whole, and its circuit is quiet; a bulk circuit is not."""
    transfers = pl.DataFrame(
        [
            ("web1", 1, 0, "ok"),
            ("web1", 5000, 5000, "ok"),
            ("web1", 5000, 7000, "unfinished"),
            ("web2", 5000, 7500, "ok"),
            ("web2", 5000, 9000, "unfinished"),
            ("bulk1", 10**9, 4000, "unfinished"),
        ],
        schema=["group", "size_bytes", "start_ms", "outcome"],
        orient="row",
    ).with_columns(start_ns=pl.col("start_ms") * 1_000_000)
    latency = latency_table([("web1", 8500, 100, 10.0, 0), ("web1", 9500, 0, 0.0, 5), ("bulk1", 9500, 100, 10.0, 0)])
    found = measure.left_behind(transfers, latency, 4, 8.0, 10.0)
    assert found == {"stalled": 25.0, "unfinished": pytest.approx(100 / 3)}
    bulk = transfers.filter(pl.col("group") == "bulk1")
    assert measure.left_behind(bulk, latency, 1, 8.0, 10.0) == {"stalled": 0.0, "unfinished": None}


def test_fairness_by_links_by_hand(asked: Asked) -> None:
    """A circuit alone could have all of its links; two that meet where one ends and the other begins take a way each."""
    whole = 1_250_000 * 498 / 593 / 1024
    cell = Cell(Conditions(), 1, 0, ("vanilla",))
    rows = {"place": "1 circuits", "treatment": ["fair", "vanilla"], "network": 0, "seed": 0, "what": "rate"}
    rates = pl.DataFrame({**rows, "value": [whole, whole / 2]})
    assert measure.by_links(asked, cell, rates) == [(cell.place, "vanilla", 0, "served-links", pytest.approx(0.5))]
    throttled = Cell(Conditions(throttle=0.4), 1, 0, ("vanilla",))
    assert measure.by_links(asked, throttled, rates) == []
    # Of many circuits the paper's fair rates are lower: they share one capacity whether they begin or end there.
    many = Cell(Conditions(), 200, 0, ("paper",))
    drawn = networks.draw(asked.network, Conditions(), 200, 0)
    paper = max_min(Network(networks.capacities(asked.network, Conditions(), drawn, asked.fair["nstor"]), drawn.circuits)) / 1024
    rates = pl.DataFrame({"treatment": "paper", "what": "rate", "value": paper})
    [(*_, served)] = measure.by_links(asked, many, rates)
    assert 0.6 < served < 0.9


def test_what_is_kept_is_held_against_the_fair_rates_of_its_own_links(asked: Asked) -> None:
    """A circuit alone that has half of its link: figures against fair rates are new, by each system's links; others stay."""
    half = 1_250_000 * 498 / 593 / 1024 / 2
    for conditions, served, planned in (
        (Conditions(), 0.5, 0.5 * 605 / 593),
        (Conditions(system="linux"), 0.5 * 545 / 593, 0.5 * 605 / 593),
        (Conditions(throttle=0.5), 514 / 593, 605 / 593),
    ):
        one = Cell(conditions, 1, 0, ("vanilla",))
        figures = frame([(one.place, "vanilla", 0, "latency", 7.0), (one.place, "vanilla", 0, "served", 0.1)])
        rates = pl.concat(
            measure._values(one, name, "rate", np.array([rate])) for name, rate in (("fair", 1.0), ("vanilla", half))
        )
        found = measure.held_against_fair(asked, one, Reduced({"figures": figures, "rates": rates}, ()))
        values = dict(found.frames["figures"].select("metric", "value").iter_rows())
        assert values["latency"] == 7.0
        assert values["served"] == pytest.approx(served, rel=1e-3)
        assert values["served-85"] == pytest.approx(min(planned, 1.0), rel=1e-3)
        assert ("served-links" in values) == (not conditions.throttle)
        assert {*values} <= {"latency", *measure.AGAINST_FAIR}
        [fair] = found.frames["rates"].filter(treatment="fair")["value"]
        assert half / fair == pytest.approx(served, rel=1e-3)
    # Circuits of a web mix pause, so that nothing is fair there.
    mix = Cell(Conditions(web=0.9), 1, 0, ("vanilla",))
    kept = Reduced({"figures": figures.filter(metric="latency"), "rates": measure._values(mix, "fair", "rate", np.ones(1))}, ())
    found = measure.held_against_fair(asked, mix, kept)
    assert (found.frames["figures"].height, found.frames["rates"].height) == (1, 0)


def test_a_claim_that_is_judged_too_soon_says_so(asked: Asked) -> None:
    [number] = [number for number, claim in enumerate(asked.claims, 1) if claim.says == page.UNSTEADY]
    judged = judge(synthetic(asked).figures, asked.claims, asked.rule)
    assert judged[number - 1].verdict != "does not hold"
    assert list(page._unsteady(judged)) == []
    judged[number - 1] = replace(judged[number - 1], verdict="does not hold")
    assert next(page._unsteady(judged)).startswith(f"Claim {number} is judged after 14 s")


def test_fairness_by_hand() -> None:
    """Rates 1, 3 and 0 where 2, 2 and 2 are fair: 3 of 6 served; one of three starved; of half of the fair rates 2 of 3."""
    found = measure.against_fair([1.0, 3.0, 0.0], [2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    assert found["served"] == pytest.approx(0.5)
    assert found["served-85"] == pytest.approx(2 / 3)
    assert found["conforming"] == pytest.approx(0.75)
    assert found["deviation"] == pytest.approx(1 - 4 / 6)
    assert found["starved"] == pytest.approx(100 / 3)


def test_unsteadiness_by_hand() -> None:
    """100 and 300 bytes in two steps of 200 ms: mean 200, standard deviation 141.4."""
    table = latency_table([("a", 1100, 40, 1.0, 0), ("b", 1200, 60, 1.0, 0), ("a", 1300, 300, 1.0, 0), ("a", 1500, 999, 1.0, 0)])
    assert measure._unsteady(table, 1.0, 1.4) == pytest.approx(100 * 2**0.5 / 2)
    assert measure._unsteady(table.clear(), 1.0, 1.4) is None


def test_one_controller_sends_at_equal_rates(asked: Asked) -> None:
    """As the authors' program, and a plan keeps the capacity."""
    plans = single.plans(asked.single)
    printed = asked.published["single-first-outgoing"]["rates"]
    assert plans["conference"].rate_out[:, 0].tolist() == pytest.approx(printed, abs=2e-3)
    for plan in plans.values():
        assert plan.status == "solved"
        assert plan.rate_out.sum(axis=0).max() <= asked.single.capacity + 1e-6
    found = single.trajectories(asked.single)
    assert set(found["what"].to_list()) == {"taken in", "sent", "could send", "queue"}
    assert found.filter(form="conference", what="queue", circuit="circuit 2", time=0.0)["value"].to_list() == pytest.approx([4.0])


def synthetic(asked: Asked) -> Measured:
    """Figures in which PredicTor is in all as the paper says, two replicates or as many networks as there are."""

    def value(treatment: str, metric: str, place: str, replicate: int) -> float:
        ours = treatment.startswith("PredicTor")
        size = int(place.split()[0]) if place[0].isdigit() else 1
        by = {
            "latency": (90 if ours else 500 + size) + (300 if ours and "fuzzy" in place else 0) + 50 * ("throttled" in place),
            "throughput": 400 * (0.8 if ours and size >= 10 else 1),
            "served": 0.95 if ours else 0.9 - size / 5000,
        }
        return by.get(metric, 10.0 if ours else 30.0) * (1 + 0.0001 * replicate)

    metrics = (
        *page.WORDS,
        *page.READINGS.values(),
        "starved",
        *page.LEFT.values(),
        "wire",
        "finished",
        *(f"latency-{circuit}" for circuit in (1, 2, 3)),
    )
    figures: list[Figure] = []
    toys = {}
    for place in TOYS:
        own: list[Figure] = [
            (place, treatment, seed, metric, value(treatment, metric, place, seed))
            for treatment in charts.THREE
            for seed in (1, 2)
            for metric in dict.fromkeys(metrics)
        ]
        figures += own
        keys = [(treatment, circuit) for treatment in charts.THREE for circuit in measure.TOY_CIRCUITS]
        series = pl.DataFrame(
            [(*key, 0.1 * step, 100.0 + step, 5.0) for key in keys for step in range(1, 20)],
            schema=["treatment", "circuit", "time", "rate", "backlog"],
            orient="row",
        )
        latencies = pl.DataFrame(
            [(*key, 80.0 + step, 500) for key in keys for step in range(20)],
            schema=["treatment", "circuit", "latency", "bytes"],
            orient="row",
        )
        toys[place] = measure.Toy(own, series, latencies, list(charts.THREE))
    rates = []
    for own_cells in cells.plan(asked):
        for one in own_cells:
            for treatment in one.treatments:
                figures += [
                    (one.place, treatment, one.number, metric, value(treatment, metric, one.place, one.number))
                    for metric in dict.fromkeys(metrics)
                ]
            kinds = ("web", "bulk") if one.conditions.web else ("rate",)
            for treatment in (*one.treatments, "fair"):
                rates += [measure._values(one, treatment, kind, np.linspace(10, 90, 20)) for kind in kinds]
    return Measured(
        toys,
        frame(figures),
        pl.concat(rates),
        {"toy": [Made("0", "1", 6, 2.0)], "random": [Made("0", "1", 90, 60.0)]},
        [("vanilla", 10, 1.0), ("vanilla", 20, 2.0)],
    )


def test_the_page_and_the_charts_of_figures_that_agree_with_the_paper(
    asked: Asked, quick: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = synthetic(quick)
    path = predictor.write(quick, asked, measured, tmp_path, quick=True)
    text = path.read_text(encoding="utf-8")
    for claim in quick.claims:
        assert claim.says in text
    for row in (*quick.assumptions, *quick.differences):
        assert row["what"] in text
    assert len(quick.differences) >= 4
    assert "nan" not in text.lower().replace("finance", "")
    drawn = re.findall(r"\]\((predictor-[\w-]+)\.svg\)", text)
    assert sorted(drawn) == sorted(file.stem for file in tmp_path.glob("*.svg"))
    assert len(drawn) == len(set(drawn)) == 9
    for name in drawn:
        assert "NaN" not in (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
    verdicts = {one.claim.says: one.verdict for one in judge(measured.figures, quick.claims, quick.rule)}
    assert verdicts["Toy network: and of PCTCP's (94 against 635 ms; here: less than half)"] == "holds"
    assert verdicts["Random networks: the others' latency grows without end"] == "undecided"


def tiny(asked: Asked) -> Asked:
    """Two networks of eight relays, with as few circuits as there can be."""
    kept = [study for study in asked.studies if study.name in page.PAPERS]
    studies = [replace(study, networks=2, circuits=(6,), conditions=study.conditions[:1]) for study in kept]
    rules = replace(asked.network, relays=8, wait_ms=500, web_wait_ms=(500, 1000), duration_ms=6000)
    return replace(asked, studies=tuple(studies), network=rules)


@pytest.mark.timeout(600)
def test_a_small_one_from_end_to_end(quick: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has every claim, a second call changes nothing and makes no run."""
    monkeypatch.setattr(predictor, "read", lambda *_, **__: tiny(quick))
    pages, made = [], []

    class Counting(Silent):
        def finished(self, run: object, row: object) -> None:
            made.append((run, row))

    for kept in (None, tmp_path / "kept"):
        folders = FOLDER, tmp_path / "out", tmp_path / "docs"
        written, broken = predictor.reproduce(*folders, lambda: nullcontext(Counting()), quick=True, kept=kept)
        assert broken == []
        pages.append(written.read_text(encoding="utf-8"))
    assert pages[0] == pages[1]
    assert len(made) == len(set(map(repr, made)))
    # With what was kept nothing of the random networks is needed.
    shutil.rmtree(tmp_path / "out" / "quick" / "networks")
    before = len(made)
    written, _ = predictor.reproduce(*folders, lambda: nullcontext(Counting()), quick=True, kept=tmp_path / "kept")
    assert (len(made), written.read_text(encoding="utf-8")) == (before, pages[0])
    assert [place for place in places_with_numbers(pages[0]) if place.startswith("6 circuits")]


def places_with_numbers(text: str) -> Iterator[str]:
    for row in re.findall(r"(?m)^\| ([^|]+) \| (?:vanilla|PredicTor) \| \d", text):
        yield row.strip()


def test_places_have_names_of_their_own() -> None:
    study = Study("a", ("one",), 1, (10, 20), (Conditions(), Conditions(throttle=0.5), Conditions(system="linux")))
    names = [place for _, _, place in study.places()]
    assert names == [
        "10 circuits",
        "10 circuits, throttled 0.5",
        "10 circuits, linux",
        "20 circuits",
        "20 circuits, throttled 0.5",
        "20 circuits, linux",
    ]


def test_a_study_has_its_own_networks_alone() -> None:
    """Two networks of a question beside another question's third, in table and chart: a level is that of the two."""
    place = Conditions().place(10)
    values = {0: 100.0, 1: 200.0, 2: 900.0}
    figures = frame([(place, "PredicTor", network, metric, value) for network, value in values.items() for metric in METRICS])
    measured = Measured({}, figures, pl.DataFrame(), {}, [])
    study = Study("queue limit", ("PredicTor",), 2, (10,), (Conditions(),))
    assert measured.of(study).figures["replicate"].unique().sort().to_list() == [0, 1]
    row = next(line for line in page._table(study, measured, study.treatments) if line.startswith(f"| {place} "))
    assert row.split(" | ")[2].startswith("150 ")
    data = charts._trade(study, measured)["datasets"]["trade"]
    assert [one["latency"] for one in data] == [150.0]
