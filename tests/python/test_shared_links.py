"""Shared links: the notebook's functions, the command, and its refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from onionlab import _core, cli
from onionlab.charts.shared_links import all_charts, per_link_chart, time_chart, write
from onionlab.errors import DocumentError, OnionlabError, QuestionError
from onionlab.shared_links import (
    KEYS,
    TRAFFIC,
    Question,
    by_circuits,
    by_clients,
    by_scale,
    documents,
    over_time,
    shared_links,
    to_json,
)

CONSENSUSES = Path(__file__).parents[3] / "shared" / "data" / "consensus"

real_documents = pytest.mark.skipif(not CONSENSUSES.is_dir(), reason=f"no real consensus documents at {CONSENSUSES}")


@pytest.fixture(scope="module")
def consensus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic microdescriptor consensus of 400 relays."""
    path = tmp_path_factory.mktemp("documents") / "consensus"
    path.write_text(_core.synth('{"relays": 400, "seed": 3}'), encoding="utf-8")
    return path


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["onionlab", "shared-links", *map(str, words)])
    try:
        cli.main()
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else (0 if leave.code is None else 1)
    return 0


@real_documents
@pytest.mark.parametrize(
    ("internal", "directed", "percent"), [(False, True, 3.7), (False, False, 4.6), (True, True, 4.0), (True, False, 6.9)]
)
def test_july_2021(internal: bool, directed: bool, percent: float) -> None:
    question = Question(circuits=96_000, internal=internal, directed=directed)
    frame = shared_links(CONSENSUSES / "md-2021-07-20.xz", question)
    assert frame["shared_percent"][0] == pytest.approx(percent, abs=0.1)
    assert frame["kind"][0] == ("internal" if internal else "external")
    drawn = shared_links(CONSENSUSES / "md-2021-07-20.xz", question, method="draw", repeat=3)
    assert drawn["shared_percent"][0] == pytest.approx(frame["shared_percent"][0], abs=5 * frame["stddev_percent"][0])


@real_documents
def test_a_folder_over_time() -> None:
    fixed = over_time(CONSENSUSES, Question(circuits=96_000))
    assert fixed["consensus"].is_sorted()
    assert fixed.height == len(documents(CONSENSUSES))
    grown = over_time(CONSENSUSES, Question(circuits=96_000), growth="weight")
    at_reference = grown.filter(pl.col("circuits") == 96_000)
    assert at_reference["consensus"].str.head(10).to_list() == ["2021-07-20"]
    assert grown["shared_percent"].to_list() != fixed["shared_percent"].to_list()


@real_documents
def test_traffic_classes_want_exit_policies() -> None:
    with pytest.raises(QuestionError, match="microdescriptor consensus") as refused:
        shared_links(CONSENSUSES / "md-2021-07-20.xz", Question(ports="6881-6889"))
    assert refused.value.code == "question-policies"
    shares = {
        name: shared_links(CONSENSUSES / "ns-2022-11-19.xz", Question(traffic=name))["shared_percent"][0] for name in TRAFFIC
    }
    assert shares["web"] < shares["bittorrent-base"] < shares["various"]


def test_json_has_exactly_the_promised_keys(
    consensus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, consensus, consensus, "--circuits", 2000, "--format", "json", "--method", "draw", "--seed", 7) == 0
    answers = json.loads(capsys.readouterr().out)
    assert len(answers) == 2
    assert tuple(answers[0]) == ("file", "scale", "per_client", "repeat", *KEYS)
    answer = answers[0]
    assert (answer["circuits"], answer["kind"], answer["directed"]) == (2000, "external", True)
    assert (answer["method"], answer["seed"]) == ("draw", 7)
    assert answer["relays"] == 400
    assert set(answer["shared_circuits"]) == {"one", "two"}
    assert sum(answer["circuits_per_link"]) == pytest.approx(answer["links"])
    assert sum(n * links for n, links in enumerate(answer["circuits_per_link"], 1)) == pytest.approx(4000)
    assert answer["shared_percent"] == pytest.approx(100 * answer["shared_links"] / answer["links"])
    assert 0 < answer["seconds"] < 10
    same = [{key: value for key, value in one.items() if key != "seconds"} for one in answers]
    assert same[0] == same[1]


def test_every_option_has_an_effect(consensus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def percent(*words: object) -> float:
        assert call(monkeypatch, consensus, "--circuits", 2000, "--format", "json", *words) == 0
        return float(json.loads(capsys.readouterr().out)[0]["shared_percent"])

    plain, drawn = percent(), percent("--method", "draw")
    changed = [
        percent("--internal"),
        percent("--internal-share", 0.5),
        percent("--undirected"),
        percent("--per-client", 10),
        percent("--per-client", 10, "--guard-set"),
        percent("--scale", 0.5),
        percent("--scale", 0.5, "--seed", 2),
        percent("--scale", 0.5, "--repeat", 2),
        percent("--seed", 2),
        percent("--repeat", 2),
        percent("--exclude", "relay"),
        percent("--exclude", "subnet"),
    ]
    assert len({plain, drawn, *changed}) == 14
    assert percent("--ports", "80,443") == percent("--traffic", "web") == plain
    assert percent("--method", "draw", "--seed", 1) == drawn


def test_the_built_in_network_knows_ports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for words in ((), ("--traffic", "various"), ("--ports", "25,119,135-139,445,563"), ("--traffic", "everything")):
        assert call(monkeypatch, "--format", "json", *words) == 0
        found.append(json.loads(capsys.readouterr().out)[0])
    assert found[0]["circuits"] == 96_876
    assert found[1]["exits"] < found[0]["exits"]
    assert found[1]["shared_percent"] == found[2]["shared_percent"]
    assert found[3]["kind"] == "mixed"


def test_the_built_in_network_is_not_called_a_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the hour of a real consensus, which has about as many links."""
    assert call(monkeypatch) == 0
    output = capsys.readouterr().out
    (row,) = [line for line in output.splitlines() if "96,876" in line]
    assert row.split()[0] == "built-in"
    assert "built-in: the model of Tor's network of 2025-06, no document." in " ".join(output.split())


def without(consensus: Path, flag: str) -> str:
    lines = consensus.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line.replace(f" {flag}", "") if line.startswith("s ") else line for line in lines)


REFUSED = {
    "no circuits": (["--circuits", "0"], "from 1 to 100000000"),
    "negative circuits": (["--circuits", "-5"], "circuits: -5 is no whole number from 1 to 100000000"),
    "too many circuits": (["--circuits", "1000000000"], "too many"),
    "more per client than there are": (["--circuits", "10", "--per-client", "11"], "from 1 to 10"),
    "none per client": (["--per-client", "0"], "0 circuits per client"),
    "port 0": (["--ports", "0"], "from 1 to 65535"),
    "port 65536": (["--ports", "80,65536"], "'65536'|\"65536\""),
    "no port": (["--ports", "http"], "http"),
    "ports without policies": (["--ports", "6881-6889"], "microdescriptor consensus"),
    "class without policies": (["--traffic", "mixture"], "microdescriptor consensus"),
    "unknown traffic": (["--traffic", "torrents"], "bittorrent-base"),
    "ports of internal circuits": (["--internal", "--ports", "80"], "have no exit"),
    "ports and traffic": (["--ports", "80", "--traffic", "web"], "one of them"),
    "internal twice": (["--internal", "--internal-share", "0.5"], "one of them"),
    "impossible share": (["--internal-share", "1.5"], "from 0 to 1"),
    "scale 0": (["--scale", "0"], "above 0"),
    "scale 2": (["--scale", "2"], "at most 1"),
    "scale too small": (["--scale", "0.001"], "at least 4"),
    "exclusions in closed form": (["--exclude", "relay", "--method", "expectation"], "use the draw"),
    "unknown exclusion": (["--exclude", "country"], "relay, subnet"),
    "unknown method": (["--method", "guess"], "draw, expectation"),
    "unknown format": (["--format", "xml"], "table, json, parquet"),
    "parquet to the terminal": (["--format", "parquet"], "--out"),
    "no repetition": (["--repeat", "0"], "repeat: 0"),
    "negative seed": (["--seed", "-1"], "seed: -1 is no whole number from 0 to 18446744073709551615"),
    "unwritable": (["--format", "json", "--out", "/dev/null/x"], "cannot write"),
}


@pytest.mark.parametrize(("words", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, consensus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, consensus, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1, captured.err
    assert any(part in captured.err for part in sentence.split("|")), captured.err
    assert "line 1 column" not in captured.err


def test_bad_documents_are_one_sentence_and_exit_code_2(
    consensus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "nonsense").write_text("lorem ipsum\n", encoding="utf-8")
    (tmp_path / "no-exits").write_text(without(consensus, "Exit"), encoding="utf-8")
    (tmp_path / "no-guards").write_text(without(consensus, "Guard"), encoding="utf-8")
    sentences = {
        "absent": "absent",
        "empty": "no document",
        "nonsense": "nonsense",
        "no-exits": "exit position",
        "no-guards": "guard",
    }
    for name, sentence in sentences.items():
        assert call(monkeypatch, tmp_path / name) == 2, name
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.strip().splitlines()) == 1, captured.err
        assert name in captured.err
        assert sentence in captured.err
    with pytest.raises(DocumentError, match="nonsense"):
        shared_links(tmp_path / "nonsense")
    # Internal circuits need no exit.
    assert shared_links(tmp_path / "no-exits", Question(internal=True))["shared_percent"][0] > 0


def test_table_and_parquet(
    consensus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    assert call(monkeypatch, consensus, "--circuits", 2000, "--undirected", "--repeat", 3) == 0
    output = capsys.readouterr().out
    assert "external circuits, links undirected; 3 drawn" in output
    assert "±" in output
    assert "2,000" in output
    assert call(monkeypatch, consensus, "--out", tmp_path / "table.txt") == 0
    assert "shared" in (tmp_path / "table.txt").read_text(encoding="utf-8")
    assert call(monkeypatch, consensus, consensus, "--format", "parquet", "--out", tmp_path / "answers.parquet") == 0
    frame = pl.read_parquet(tmp_path / "answers.parquet")
    assert frame.columns == ["file", "scale", "per_client", "repeat", *KEYS]
    assert frame.height == 2
    assert frame["file"].to_list() == [str(consensus)] * 2
    assert frame.schema["circuits_per_link"] == pl.List(pl.Float64)
    assert capsys.readouterr().out == ""


def test_help_has_an_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert call(monkeypatch, "--help") == 0
    assert "Example: onionlab shared-links" in capsys.readouterr().out


def test_everything_has_its_own_share_of_internal_circuits() -> None:
    with pytest.raises(QuestionError, match="mixture"):
        shared_links(question=Question(traffic="everything", internal=0.5))


def test_series(consensus: Path) -> None:
    more = by_circuits(consensus, [100, 1000, 10_000])
    assert more["circuits"].to_list() == [100, 1000, 10_000]
    assert more["shared_percent"].is_sorted()
    assert more["shared_percent"][1] == shared_links(consensus, Question(circuits=1000))["shared_percent"][0]
    clients = by_clients(consensus, [1, 5], Question(circuits=1000))
    assert clients["shared_percent"].is_sorted()
    scales = by_scale(consensus, [0.25, 1.0], Question(circuits=1000), samples=3)
    assert scales["circuits"].to_list() == [250, 1000]
    assert scales["samples"].list.len().to_list() == [3, 3]
    merged = shared_links(consensus, Question(circuits=1000), scale=0.25, repeat=3)
    assert merged["shared_percent"][0] == pytest.approx(scales["shared_percent"][0])
    assert merged["stddev_percent"][0] == pytest.approx(scales["stddev_percent"][0])
    assert (merged["relays"][0], merged["circuits"][0]) == (100, 250)
    assert 0 < merged["circuits_per_link"][0][1] < merged["links"][0]
    with pytest.raises(QuestionError, match="at least one") as refused:
        by_circuits(consensus, [])
    assert refused.value.code == "question-series"


def test_filters_and_families(consensus: Path) -> None:
    question = Question(circuits=1000, filters={"guard": {"needed": "Guard", "refused": "Exit"}})
    assert shared_links(consensus, question)["guards"][0] <= shared_links(consensus, Question(circuits=1000))["guards"][0]
    with pytest.raises(QuestionError, match="Speedy"):
        shared_links(consensus, Question(filters={"exit": {"needed": "Speedy"}}))
    apart = shared_links(consensus, Question(circuits=1000, families=[0] * 400), method="draw")
    assert apart["shared_percent"][0] > 0
    with pytest.raises(QuestionError, match="2 family numbers for 400 relays"):
        shared_links(consensus, Question(circuits=1000, families=[1, 1]), method="draw")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"internal": "yes"}, "the share of internal circuits is 'yes': write a number from 0 to 1"),
        ({"internal": None}, "the share of internal circuits is None: write a number from 0 to 1"),
        ({"internal": float("nan")}, "the share of internal circuits is nan: write a number from 0 to 1"),
        ({"internal": 10**400}, "from 0 to 1"),
        ({"circuits": -3}, "circuits: -3 is no whole number from 1 to 100000000"),
        ({"circuits": 10**8 + 1}, "100000001 circuits are too many: from 1 to 100000000 are allowed"),
        ({"circuits": 50, "per_client": -1}, "circuits per client: -1 is no whole number from 1 to 50"),
        ({"guards_per_client": 2.5}, "guards per client: 2.5 is no whole number from 1 to 20"),
        ({"guards_per_client": 21}, "21 guards per client are impossible: from 1 to 20 are allowed"),
        ({"filters": {"exit": {"needed": "", "refused": "Running"}}}, "exit position (flags refused: Running)"),
    ],
)
def test_what_is_allowed_is_told(question: dict[str, Any], sentence: str, consensus: Path) -> None:
    with pytest.raises(QuestionError, match=re.escape(sentence)):
        shared_links(consensus, Question(**question))


def test_repetitions_have_the_bounds_that_are_told(consensus: Path) -> None:
    for repeat, sentence in ((-1, "repeat: -1 is no whole number from 1 to 1000000"), (10**6 + 1, "at most 1000000 are allowed")):
        with pytest.raises(QuestionError, match=sentence):
            shared_links(consensus, Question(circuits=10), method="draw", repeat=repeat)


def test_guard_sets_share_more_than_a_guard_for_each_circuit(consensus: Path) -> None:
    """As many circuits as guards: some of a client's are over the same one."""
    one, three, single = (
        shared_links(consensus, Question(circuits=60, per_client=per_client, guards_per_client=guards))["shared_percent"][0]
        for per_client, guards in ((3, 1), (3, 3), (1, 3))
    )
    assert single < three < one


def test_frames_and_plain_data_agree(consensus: Path) -> None:
    frame = shared_links([consensus], Question(circuits=500))
    (plain,) = to_json(frame)
    assert tuple(plain) == ("file", "scale", "per_client", "repeat", *KEYS)
    assert plain["seed"] is None
    assert plain["circuits_per_link"] == frame["circuits_per_link"][0].to_list()
    assert issubclass(QuestionError, OnionlabError)


def test_charts(consensus: Path, tmp_path: Path) -> None:
    charts = all_charts([consensus, consensus], Question(circuits=9688))
    assert len(charts) == 7
    few = all_charts(consensus, Question(circuits=20))
    assert [chart.name for chart in few if chart.specification is None][-1] == "shared-links-by-clients"
    missing = [chart.name for chart in charts if chart.specification is None]
    assert missing == ["shared-links-by-traffic"]
    written = write([chart for chart in charts if chart.name == "shared-links-circuits-per-link"], tmp_path)
    assert [path.suffix for path in written] == [".png", ".svg"]
    assert written[0].read_bytes().startswith(b"\x89PNG")
    assert "of links have more than two circuits" in written[1].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("internal", "directed", "crosses"),
    [
        (False, True, ["3.7 %, the paper, 2021", "3.5 %"]),
        (0.0, True, ["3.7 %, the paper, 2021", "3.5 %"]),
        (1.0, False, ["6.9 %, the paper, 2021"]),
        (True, False, ["6.9 %, the paper, 2021"]),
        (1.0, True, []),
        (0.5, True, []),
        (False, False, []),
    ],
)
def test_the_paper_s_numbers_stand_beside_what_they_are_of(
    internal: bool | float, directed: bool, crosses: list[str], consensus: Path
) -> None:
    question = Question(circuits=96_000, internal=internal, directed=directed)
    charts = (time_chart([consensus], question), per_link_chart(consensus, question))
    texts = [json.dumps(chart.specification) for chart in charts]
    shown = ("3.7 %, the paper, 2021", "6.9 %, the paper, 2021", "3.5 %")
    assert [label for label in shown if any(f'"label": "{label}"' in text for text in texts)] == crosses
    assert ("the paper's 3.5 %" in texts[1]) == ("3.5 %" in crosses)


def test_the_paper_has_no_number_of_other_circuits(consensus: Path) -> None:
    for other in (Question(circuits=9688), Question(circuits=96_000, per_client=4)):
        text = json.dumps(per_link_chart(consensus, other).specification)
        assert "3.5 %" not in text
        assert "the paper" not in text
        assert "% of links have more than two circuits" in text


def test_charts_of_several_documents_are_of_the_one_next_to_the_paper(
    consensus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_2021 = tmp_path / "of-2021"
    of_2021.write_text(_core.synth('{"relays": 300, "year": 2021}'), encoding="utf-8")
    folder = tmp_path / "charts"
    assert call(monkeypatch, consensus, of_2021, "--format", "json", "--circuits", 5000, "--charts", folder) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)) == 2
    assert "No chart of traffic classes" in captured.err
    drawn = {path.name: path for path in folder.iterdir()}
    assert len(drawn) == 2 * 6
    assert "of-2021: consensus of 2021" in drawn["shared-links-by-scale.svg"].read_text(encoding="utf-8")
    assert "2 consensuses" in drawn["shared-links-over-time.svg"].read_text(encoding="utf-8")
