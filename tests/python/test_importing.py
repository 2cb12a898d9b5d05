"""Networks that were made elsewhere: what is read of each kind of source, what is written, and what is refused."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import onionlab
from fake_core import FakeCore
from onionlab import _core, cli, importing, unpacking, untrusted
from onionlab.errors import ScenarioError, UntrustedError
from onionlab.importing import ImportedError, Options, atlas, torrc
from onionlab.importing.model import VERSIONS, Times
from onionlab.importing.options import OF_MARKOV_CLIENTS, OF_PERF_CLIENTS, TorOptions
from onionlab.importing.write import document, experiment
from test_cli import call

DATA = Path(__file__).parent / "testdata" / "importing"
PUBLISHED = DATA / "small.network.json"
SHADOW_NETWORKS = Path(__file__).parents[2] / "../shared/data/reference/shadow-networks"


def golden(name: str, actual: str) -> None:
    """Compare with a file; with ``ONIONLAB_UPDATE_GOLDEN=1`` write it anew."""
    path = DATA / "expected" / name
    if os.environ.get("ONIONLAB_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(actual, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == actual


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tornettools to break."""
    return Path(shutil.copytree(DATA / "tornettools", tmp_path / "tornettools"))


def test_a_published_network_becomes_an_experiment() -> None:
    network = importing.read(PUBLISHED)
    golden("published.network.json", document(network))
    golden("published.toml", experiment(network, Options()))


def test_who_stands_in_a_country_that_is_none_stands_on_a_vertex_of_the_graph(tmp_path: Path) -> None:
    countries = [atlas.any_vertex(f"perfclient{number}") for number in range(1, 2001)]
    total = sum(atlas.VERTICES.values())
    assert total == 20
    assert {code for pair in atlas.ROUND_TRIPS for code in pair.split("-")} < {*atlas.VERTICES}
    for country, times in atlas.VERTICES.items():
        assert abs(countries.count(country) / 2000 - times / total) < 0.04, country
    given = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    given["perf_clients"] = [dict(given["perf_clients"][0], name=name, country=code) for name, code in (("a", "AB"), ("b", "HK"))]
    (tmp_path / "net.json").write_text(json.dumps(given), encoding="utf-8")
    (perf,) = importing.read(tmp_path / "net.json").perf
    assert [host.country for host in perf.hosts] == [atlas.any_vertex("a"), "HK"]


def test_known_round_trips_stand_beside_a_table_as_far_as_it_has_both_countries(tmp_path: Path) -> None:
    network = importing.read(PUBLISHED)
    table = tmp_path / "table.csv.gz"
    head = "cty1,cty2,rtt_cnt,rtt_avg,rtt_std,rtt_min,rtt_max\n"
    rows = "".join(f"{a},{b},9,40,1,39,41\n" for a, b in (("DE", "DE"), ("DE", "NL"), ("JP", "NL")))
    table.write_bytes(gzip.compress((head + rows).encode()))
    known = tomllib.loads(experiment(network, Options(latency=table)))["network"]["latency-between"]
    assert known == {pair: f"{atlas.ROUND_TRIPS[pair]:g} ms" for pair in ("DE-DE", "DE-JP", "JP-JP")}
    table.write_bytes(gzip.compress((head + "NL,NL,9,40,1,39,41\n").encode()))
    assert "latency-between" not in tomllib.loads(experiment(network, Options(latency=table)))["network"]


def test_a_table_of_latencies_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b\n1,2\n", encoding="utf-8")
    why = "`network.latency` names .*table.csv.*cannot be used .*line 1, column all: `a,b`"
    with pytest.raises(ImportedError, match=why):
        importing.import_network(PUBLISHED, tmp_path / "out", None, Options(latency=table))
    assert not (tmp_path / "out").exists()


def test_more_load_is_shorter_intervals() -> None:
    network = importing.read(PUBLISHED)
    text = experiment(network, Options(load=1.25))
    assert 'flow-interval = "1600000 us"' in text
    assert text.count("flow-interval") == experiment(network, Options()).count("flow-interval")
    for load in (0.0, -1.0, 101.0, float("nan")):
        with pytest.raises(ImportedError, match="more than 0 and at most 100"):
            experiment(network, Options(load=load))


def test_a_configuration_of_tornettools_becomes_an_experiment() -> None:
    network = importing.read(DATA / "tornettools", DATA / "relayinfo.json")
    golden("tornettools.network.json", document(network))
    golden("tornettools.toml", experiment(network, Options(tor="0.3.5", models=DATA, seeds=3)))
    assert network.notes == ("1 clients and servers of onion services are left out.",)
    assert network.times.stop == 2700
    exit_ = network.relays[2]
    assert exit_.address == "198.51.100.9", "of the staged information, by fingerprint"
    assert exit_.country == "NL", "of the graph, which comes first"
    assert network.relays[4].up == 20_000_000 // 8, "of the vertex, where the host has none"
    assert network.relays[1].rate == 5 * 2**20, "torrc comes before torrc-defaults"


def test_what_few_hosts_say_is_not_said_of_all(folder: Path) -> None:
    for host in ("relay3guard", "relay4middle"):
        torrc_of(folder, host, "/CircuitPriorityHalflife\n")
    torrc_of(folder, "relay1exitguard", "/CircuitPriorityHalflife\nSchedulers Vanilla\n")
    torrc_of(folder, "relay3guard", "/CircuitPriorityHalflife\nSchedulers Vanilla\n")
    torrc_of(folder, "relay2exit", "CircuitPriorityHalflife 5\nSchedulers Vanilla\n")
    network = importing.read(folder)
    assert network.half_life is None
    assert any("`CircuitPriorityHalflife 5` of relay2exit is not taken in" in note for note in network.notes)
    assert network.scheduler == "vanilla"
    assert any(note.endswith("without `Schedulers`: what most hosts say is taken for all.") for note in network.notes), (
        network.notes
    )


def torrc_of(folder: Path, host: str, text: str, name: str = "torrc") -> None:
    """Give a host a torrc."""
    (folder / "shadow.data.template/hosts" / host / name).write_text(text)


def test_the_torrc_of_clients_is_taken_in() -> None:
    network = importing.read(DATA / "tornettools")
    assert [markov.options for markov in network.markov] == [OF_MARKOV_CLIENTS]
    assert [perf.options for perf in network.perf] == [OF_PERF_CLIENTS]
    assert (network.guards, network.distinct_subnets, network.half_life, network.conflux) == (0, False, 30.0, None)
    published = importing.read(PUBLISHED)
    assert {markov.options for markov in published.markov} == {OF_MARKOV_CLIENTS}, "their generator wrote the same"
    assert [perf.options for perf in published.perf] == [OF_PERF_CLIENTS]


def test_clients_with_another_torrc_are_a_group_of_their_own(folder: Path) -> None:
    torrc_of(
        folder,
        "markovclient2exit",
        'circuitstreamtimeout "1 minute" # a quarter\nMaxCircuitDirtiness 5\nSocksTimeout 40\nNewCircuitPeriod 0\n',
    )
    network = importing.read(folder)
    assert [markov.options for markov in network.markov] == [
        OF_MARKOV_CLIENTS,
        TorOptions(10, 60, 40, 1024, 1),
    ], "tor raises a lifetime to 10 s; what the torrc is silent about stays as by default"
    text = experiment(network, Options())
    second = text[text.index('group = "markov2"') :]
    assert 'circuit-lifetime = "10 s"' in second
    assert 'circuit-stream-timeout = "60 s"' in second
    groups = {client["name"]: client["group"] for client in json.loads(document(network))["clients"]}
    assert groups == {"markovclient1exit": "markov1", "markovclient2exit": "markov2", "perfclient1exit": "perf"}


@pytest.mark.parametrize(
    ("defaults", "own", "arguments", "expected"),
    [
        ("A 1\nA 2\n", "", "", ["2"]),
        ("A 1\n", "a 2\n", "", ["2"]),
        ("A 1\n", "a 2\n", "--a 3", ["3"]),
        ("A 1\n", "+A 2\n", "", ["1", "2"]),
        ("A 1\n", "/A\n", "", None),
        ("A 1\n", 'A "2 # 3" # 4\n', "", ["2 # 3"]),
        ("A 1 # 2\n", "# A 3\n", "", ["1"]),
        ("A 1 \\\n  2\n", "", "", ["1   2"]),
        ("A 1 \\\n# A 3\n  2\n", "", "", ["1   2"]),
        ("A 1\n", "", "--/A --b 5", None),
        ("A 1\n%include ../../more\nA 3\n", "", "", ["3"]),
        ("%include ../../more\n", "", "", ["2"]),
        ("%include /somewhere/else/far.torrc\n", "", "", ["far"]),
        ("A 1\n", "A 2\n", "--defaults-torrc ../../more/one -f torrc-defaults --hush --b 5", ["1"]),
    ],
)
def test_what_counts_is_what_tor_takes(
    defaults: str, own: str, arguments: str, expected: list[str] | None, tmp_path: Path
) -> None:
    home = tmp_path / "hosts/one"
    for path, text in (
        (home / "torrc-defaults", defaults),
        (home / "torrc", own),
        (tmp_path / "more/one", "A 2\n"),
        (tmp_path / "more/.hidden", "A 9\n"),
        (tmp_path / "conf/far.torrc", "A far\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lines = torrc.read(tmp_path, home, arguments).options.get("a")
    values = [line.value for line in lines] if lines is not None else None
    assert (values[-1:] if values and len(expected or []) == 1 else values) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("%include nowhere\n", "line 1 includes 'nowhere', which is not there"),
        ("%include ../../../../outside\n", "leads out of"),
        ("%include torrc\n", "more than 31 deep"),
        ('Log "notice\n', "does not end its quotes"),
        ("MaxCircuitDirtiness soon\n", r"line 1: `MaxCircuitDirtiness soon` is no time"),
        ("MaxClientCircuitsPending 2000\n", "must be a whole number from 1 to 1024"),
    ],
)
def test_a_broken_torrc_is_one_sentence(text: str, sentence: str, folder: Path) -> None:
    (folder.parent / "outside").write_text("A 1\n")
    torrc_of(folder, "perfclient1exit", text)
    with pytest.raises(ImportedError, match=sentence) as refused:
        importing.read(folder)
    assert len(str(refused.value)) < 500


def test_options_that_are_not_modelled_are_noted_and_none_that_means_nothing(folder: Path) -> None:
    assert not [note for note in importing.read(folder).notes if note.startswith("torrc:")]
    torrc_of(folder, "perfclient1exit", "NumEntryGuards 3\nSocksPort 9050 IsolateDestPort\nLog debug file x\nUseEntryGuards 1\n")
    torrc_of(
        folder,
        "relay2exit",
        "BandwidthRate 3 MBits\nKISTSchedRunInterval 4 msec\nExitPolicy reject *:80, accept *:*\nConfluxEnabled 0\n",
    )
    for host in ("relay3guard", "relay4middle"):
        torrc_of(folder, host, "RelayBandwidthRate 1 MB\nDoSConnectionEnabled 1\nCircuitPriorityHalflife 30\n")
    torrc_of(folder, "relay4middle", "RelayBandwidthRate 1 MB\nDoSConnectionEnabled 1\nCircuitPriorityHalflife 10\n")
    network = importing.read(folder)
    left_out = "is not modelled and left out."
    differs = "is not taken in: most hosts have another value."
    assert [note for note in network.notes if note.startswith("torrc:")] == [
        f"torrc: `CircuitPriorityHalflife 10` of relay4middle {differs}",
        f"torrc: `ConfluxEnabled 0` of relay2exit {differs}",
        f"torrc: `DoSConnectionEnabled 1` of 2 hosts (relay3guard, ...) {left_out}",
        f"torrc: `KISTSchedRunInterval 4 msec` of relay2exit {differs}",
        f"torrc: `NumEntryGuards 3` of perfclient1exit {differs}",
        f"torrc: `SocksPort 9050 IsolateDestPort` of perfclient1exit {left_out}",
        f"torrc: `UseEntryGuards 1` of perfclient1exit {differs}",
    ]


def test_limits_and_exit_policies_are_those_of_the_torrc(folder: Path) -> None:
    written = {row["name"]: row for row in json.loads(document(importing.read(folder)))["relays"]}
    assert not [name for name, row in written.items() if "exit-policy" in row or "relay-rate" in row], "as tornettools has them"
    torrc_of(folder, "relay2exit", "BandwidthRate 3 MBits\nExitPolicy reject *:80\nExitPolicy reject *:1000-2000,accept *:*\n")
    torrc_of(folder, "relay3guard", "BandwidthRate 2 MB\nBandwidthBurst 3 MB\nRelayBandwidthRate 1 MB\n")
    torrc_of(folder, "relay4middle", "/BandwidthRate\n/BandwidthBurst\nRelayBandwidthBurst 4 MB\nExitRelay 0\n")
    written = {row["name"]: row for row in json.loads(document(importing.read(folder)))["relays"]}

    def of(name: str) -> dict[str, str]:
        keys = ("exit-policy", "rate", "burst", "relay-rate", "relay-burst")
        return {key: written[name][key] for key in keys if key in written[name]}

    mega = 2**20
    assert of("relay2exit") == {
        "exit-policy": "reject 80,1000-2000",
        "rate": f"{3 * 2**17} B/s",
        "burst": f"{2**30} B",
    }
    assert of("relay3guard") == {
        "rate": f"{2 * mega} B/s",
        "burst": f"{3 * mega} B",
        "relay-rate": f"{mega} B/s",
        "relay-burst": f"{mega} B",
    }
    assert of("relay4middle") == {"relay-rate": f"{4 * mega} B/s", "relay-burst": f"{4 * mega} B"}


def test_everything_s_limit_is_raised_to_that_of_what_is_relayed(folder: Path) -> None:
    torrc_of(folder, "relay3guard", "BandwidthRate 1 MB\nBandwidthBurst 1 MB\nRelayBandwidthRate 2 MB\n")
    (relay,) = (relay for relay in importing.read(folder).relays if relay.name == "relay3guard")
    assert (relay.rate, relay.burst, relay.relay_rate, relay.relay_burst) == (2 * 2**20,) * 4


DEFAULT_REJECTS = "25,119,135-139,445,563,1214,4661-4666,6346-6429,6699,6881-6999"


@pytest.mark.parametrize(
    ("policy", "summary"),
    [
        ("ExitPolicy accept *:*", "accept 1-65535"),
        ("ExitPolicy reject *:*", "reject 1-65535"),
        ("ExitPolicy accept *:80, accept *:443, reject *:*", "accept 80,443"),
        ("ExitPolicy accept *:80\nExitPolicy reject *", "accept 80"),
        # What the torrc leaves open is tor's own policy.
        ("ExitPolicy reject *:22", f"reject 22,{DEFAULT_REJECTS}"),
        ("/ExitPolicy\nExitRelay 1", f"reject {DEFAULT_REJECTS}"),
        ("ExitRelay 0\nExitPolicy accept *:*", "reject 1-65535"),
        # A port is rejected where more than two networks of eight bits are.
        ("ExitPolicy reject 1.0.0.0/7:80, accept *:*", "accept 1-65535"),
        ("ExitPolicy reject 1.0.0.0/7:80, reject 9.0.0.0/32:80, accept *:*", "reject 80"),
        ("ExitPolicy reject 10.0.0.0/8:80, reject private:80, reject6 *:80, accept *:*", "accept 1-65535"),
        # Some addresses are not most of them.
        ("ExitPolicy accept 1.2.3.4:25, reject *:*", "reject 1-65535"),
        # The first that fits counts.
        ("ExitPolicy accept *:80, reject *:1-100, accept *:*", "accept 80,101-65535"),
    ],
)
def test_exit_policies_are_summarised_as_authorities_do(policy: str, summary: str, folder: Path) -> None:
    torrc_of(folder, "relay4middle", f"{policy}\n")
    (relay,) = (relay for relay in importing.read(folder).relays if relay.name == "relay4middle")
    assert (relay.exit_policy or "reject 1-65535") == summary


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("accept everything", "has an address that is none"),
        ("perhaps *:80", "is no entry such as"),
        ("accept *:0-80", "has ports that are none"),
        ("accept *:80-70", "has ports that are none"),
        (",".join(["accept *:80"] * 1_000), "1,011 entries"),
    ],
)
def test_a_broken_exit_policy_is_one_sentence(policy: str, sentence: str, folder: Path) -> None:
    torrc_of(folder, "relay2exit", f"ExitPolicy {policy}\n")
    with pytest.raises(ImportedError, match=sentence) as refused:
        importing.read(folder)
    assert len(str(refused.value)) < 500


def test_what_all_hosts_say_is_of_the_whole_experiment(folder: Path) -> None:
    for host in ("perfclient1exit", "markovclient1exit", "markovclient2exit"):
        torrc_of(folder, host, "UseEntryGuards 1\nEnforceDistinctSubnets 1\nConfluxEnabled 0\n")
    torrc_of(folder, "4uthority1", "ConsensusParams cc_alg=2 cfx_max_prebuilt_set=5\n")
    common = folder / "conf/tor.common.torrc"
    common.write_text(common.read_text().replace("CircuitPriorityHalflife 30", "CircuitPriorityHalflife 66.5"))
    network = importing.read(folder)
    text = experiment(network, Options())
    assert "guards" not in text
    assert 'ewma-half-life = "66.5 s"' in text
    assert "conflux = false" in text
    assert "conflux" not in experiment(network, Options(tor="0.3.5"))
    written = json.loads(document(network))
    assert (written["distinct-subnets"], written["consensus-params"]) == (True, {"cc_alg": 2, "cfx_max_prebuilt_set": 5})
    assert [note for note in network.notes if note.startswith("torrc:")] == [
        "torrc: ConsensusParams (cc_alg, cfx_max_prebuilt_set) are in network.json; what the simulator does not know "
        "changes nothing."
    ]
    torrc_of(folder, "4uthority1", "ConsensusParams cc_alg\n")
    with pytest.raises(ImportedError, match="'cc_alg' is no parameter"):
        importing.read(folder)


@pytest.mark.parametrize(
    ("relays", "clients", "lines"),
    [
        ("Schedulers KISTLite,Vanilla\n", "UseEntryGuards 1\n", ['channel-scheduler = "kist-lite" # Schedulers']),
        ("Schedulers kist\nKISTSchedRunInterval 0 msec\n", "UseEntryGuards 1\nNumEntryGuards 0\n", []),
        ("KISTSchedRunInterval 4\n", "NumEntryGuards 3\n", ['kist-interval = "4 ms" # KISTSchedRunInterval', "guards = 0"]),
        (
            "Schedulers Vanilla\nKISTSchedRunInterval 5 milliseconds\n",
            "UseEntryGuards 1\nNumEntryGuards 3\n",
            ["guards = 3 # NumEntryGuards", 'channel-scheduler = "vanilla" # Schedulers', 'kist-interval = "5 ms"'],
        ),
    ],
)
def test_schedulers_and_guards(relays: str, clients: str, lines: list[str], folder: Path) -> None:
    for host in ("4uthority1", "relay1exitguard", "relay2exit", "relay3guard", "relay4middle"):
        torrc_of(folder, host, relays)
    for host in ("perfclient1exit", "markovclient1exit", "markovclient2exit"):
        torrc_of(folder, host, clients)
    network = importing.read(folder)
    text = experiment(network, Options())
    found = [line for line in text.splitlines() if line.startswith(("guards", "channel-scheduler", "kist-interval"))]
    assert len(found) == len(lines)
    assert all(expected in "\n".join(found) for expected in lines)
    assert not [note for note in network.notes if note.startswith("torrc:")]


@pytest.mark.parametrize(
    ("host", "text", "sentence"),
    [
        ("relay2exit", "Schedulers FIFO\n", "there are KIST, KISTLite and Vanilla"),
        ("relay2exit", "KISTSchedRunInterval now\n", "is no time such as"),
        ("perfclient1exit", "NumEntryGuards 21\n", "must be a whole number from 0 to 20"),
    ],
)
def test_broken_schedulers_and_guards_are_one_sentence(host: str, text: str, sentence: str, folder: Path) -> None:
    torrc_of(folder, host, text)
    with pytest.raises(ImportedError, match=sentence):
        importing.read(folder)


def test_clients_without_a_torrc_get_that_of_tornettools(folder: Path) -> None:
    for name in ("torrc", "torrc-defaults"):
        (folder / "shadow.data.template/hosts/perfclient1exit" / name).unlink()
    config = folder / "shadow.config.yaml"
    words = " --Address perfclient1exit --Nickname perfclient1exit --defaults-torrc torrc-defaults -f torrc"
    config.write_text(config.read_text().replace(words, " ''"))
    network = importing.read(folder)
    assert [perf.options for perf in network.perf] == [OF_PERF_CLIENTS]
    assert "1 client has no torrc" in network.notes[1]


def test_on_tornettools_own_graph_latencies_are_the_graph_s(folder: Path) -> None:
    assert importing.read(folder).latency_factor == 1.0
    config = folder / "shadow.config.yaml"
    name = "atlas_v201801.shadow_v2.gml"
    (folder / "conf/small.gml").rename(folder / "conf" / name)
    config.write_text(config.read_text().replace("conf/small.gml", f"conf/{name}"))
    network = importing.read(folder)
    assert (network.latency_factor, network.latency_floor) == (1.76, 29)
    text = experiment(network, Options())
    assert 'DE-FR = "66.2 ms"' in text
    assert "latency-factor = 1.76" in text


def test_without_the_graph_places_are_drawn_and_that_is_said(folder: Path) -> None:
    (folder / "conf/small.gml").unlink()
    config = folder / "shadow.config.yaml"
    middle = "    ip_addr: 192.0.2.6\n"
    config.write_text(config.read_text().replace(middle, f"{middle}    bandwidth_up: 1 Mbit\n    bandwidth_down: 1 Mbit\n"))
    network = importing.read(folder)
    assert {relay.country for relay in network.relays} == {None}
    assert "small.gml" in network.notes[0]
    assert "drawn" in network.notes[-1]


def test_packed_files_are_read_whatever_their_name(tmp_path: Path) -> None:
    raw = PUBLISHED.read_bytes()
    for name, packed in (
        ("a.json.xz", lzma.compress(raw)),
        ("b", gzip.compress(raw)),
        ("c", gzip.compress(raw[:9]) + gzip.compress(raw[9:])),
    ):
        path = tmp_path / name
        path.write_bytes(packed)
        assert importing.read(path) == importing.read(PUBLISHED)


def test_bombs_are_refused_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "PIECE_OUT", 2**16)
    for name, packed in (("bomb.xz", lzma.compress(bytes(2**26))), ("bomb.gz", gzip.compress(bytes(2**26)))):
        path = tmp_path / name
        path.write_bytes(packed)
        with pytest.raises(UntrustedError, match="has more than 1 MiB"):
            untrusted.read_bytes(path, 2**20)
    path = tmp_path / "cut.xz"
    path.write_bytes(lzma.compress(os.urandom(9999))[:5000])
    with pytest.raises(UntrustedError, match="cannot be unpacked"):
        untrusted.read_bytes(path)
    path.write_bytes(gzip.compress(os.urandom(9999))[:5000])
    with pytest.raises(UntrustedError, match="cannot be unpacked"):
        untrusted.read_bytes(path)
    with pytest.raises(UntrustedError, match="no ordinary file"):
        untrusted.read_bytes(Path("/dev/zero"))


def test_of_a_wrong_source_it_is_said_what_would_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text('title = "Small"\n', encoding="utf-8")
    Path("plan.json").write_text("[1]", encoding="utf-8")
    Path("folder").mkdir()
    for source, what in (
        ("folder", "folder has no shadow.config.yaml"),
        ("small.toml", "small.toml is no JSON ("),
        ("plan.json", "plan.json is no network of this form"),
        ("nothing", "cannot read nothing: there is no such file"),
    ):
        assert call(monkeypatch, "import", source, "--out", "new") == 2
        said = capsys.readouterr().err
        assert said.startswith(f"onionlab: {what}")
        assert said.endswith(
            "; what can be imported is a folder that tornettools generated, with its shadow.config.yaml, or a published "
            "NAME.network.json, plain, .xz or .gz\n"
        )
        assert said.count("\n") == 1
    assert not Path("new").exists()


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda it: it.pop("relays"), "no network of this form"),
        (lambda it: it.update(relays={}), "`relays` is {}, but must be a list"),
        (lambda it: it["relays"][0].update(role="bridge"), r"relays\[0\]: `role` is 'bridge', but must be one of guard"),
        (lambda it: it["relays"][0].update(weight=-1), "`weight` is -1, but must be a whole number"),
        (lambda it: it["relays"][0].update(weight=True), "`weight` is True"),
        (lambda it: it["relays"][1].update(address="localhost"), r"relays\[1\]: `address`"),
        (lambda it: it["relays"][0].update(up_bytes_s=10**15), "`up_bytes_s` is 1000000000000000"),
        (lambda it: it["relays"][0].update(country="D1"), "`country` is 'D1', but must be two letters"),
        (lambda it: it["clients"][0].update(mean_flow_interval_us=0), r"clients\[0\]: `mean_flow_interval_us` is 0"),
        (lambda it: it["clients"].append(7), r"clients\[2\]: an object is needed, not 7"),
        (lambda it: it["perf_clients"][0].pop("name"), r"perf_clients\[0\]: `name` is missing"),
        (lambda it: it["servers"][0].update(name="x" * 65), "`name` is 'xxx"),
    ],
)
def test_a_broken_network_is_one_sentence(change: Change, sentence: str, tmp_path: Path) -> None:
    content = json.loads(PUBLISHED.read_text())
    change(content)
    path = tmp_path / "broken.network.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ImportedError, match=sentence) as refused:
        importing.read(path)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("shadow.config.yaml", "general:", "general: {", "is no YAML"),
        ("shadow.config.yaml", "hosts:\n", "hosts: [1, 2]\nx:\n", "an object is needed"),
        ("shadow.config.yaml", "  use_shortest_path: false", "  a: &a [1]\n  b: [*a, *a]", "YAML aliases"),
        ("shadow.config.yaml", "relay4middle", "webserver", "'webserver' is none that tornettools makes"),
        ("shadow.config.yaml", "10 Mbit", "10 MB/h", "relay2exit: `bandwidth_up` is '10 MB/h'"),
        ("shadow.config.yaml", "100.0.0.1", "fe80::1", "4uthority1: `ip_addr` is 'fe80::1'"),
        ("shadow.config.yaml", "45 min", "forever", "`stop_time` is 'forever'"),
        ("shadow.config.yaml", "network_node_id: 3", "network_node_id: many", "`network_node_id` is 'many'"),
        ("shadow.data.template/hosts/bwauthority/v3bw.init.consensus", "nick=relay3guard", "", "has no weight of relay3guard"),
        ("shadow.data.template/hosts/bwauthority/v3bw.init.consensus", "bw=9000", "bw=1e9", "line 3: `bw` is '1e9'"),
        ("shadow.data.template/hosts/relay1exitguard/torrc", "5 MBytes", "lots", "line 2: `BandwidthRate lots`"),
        ("shadow.data.template/hosts/markovclient2exit/tgenrc.graphml", "flowmodelpath", "other", "names 0 flow models"),
        ("shadow.data.template/hosts/markovclient1exit/tgenrc.graphml", "<graphml", "<!DOCTYPE x>\n<graphml", "document type"),
        ("shadow.data.template/hosts/markovclient1exit/tgenrc.graphml", "</graph>", "", "is no XML"),
        ("conf/flow.graphml", "2.5e-07", "0", "no flow model"),
        ("conf/flow.graphml", "2.5e-07", "nan", "no flow model"),
        ("conf/small.gml", "    id 0", "    id zero", "`id` is 'zero'"),
        ("conf/small.gml", "node [", "knot [", "it has no nodes"),
    ],
)
def test_a_broken_configuration_is_one_sentence(file: str, old: str, new: str, sentence: str, folder: Path) -> None:
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ImportedError, match=sentence) as refused:
        importing.read(folder)
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


def test_nothing_outside_the_folder_is_read(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("BandwidthRate 1\n")
    own = folder / "shadow.data.template/hosts/relay2exit/torrc"
    own.unlink()
    own.symlink_to(elsewhere)
    with pytest.raises(ImportedError, match="leads out of"):
        importing.read(folder)


def test_the_command_writes_a_folder_whole_or_not_at_all(
    core: FakeCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[list[str]] = []

    def resolve(path: str, text: str | None = None) -> str:
        seen.append(sorted(file.name for file in Path(path).parent.iterdir()))
        return "{}"

    monkeypatch.setattr(_core, "resolve", resolve)
    out = tmp_path / "new" / "net"
    monkeypatch.setattr("sys.argv", ["onionlab", "import", str(PUBLISHED), "--out", str(out)])
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code in (None, 0)
    assert seen == [["experiment.toml", "network.json"]]
    assert sorted(file.name for file in out.iterdir()) == seen[0]
    printed = capsys.readouterr()
    assert f"onionlab run {out / 'experiment.toml'}" in printed.out
    assert "--models" in printed.err
    with pytest.raises(SystemExit) as leave:
        cli.main()
    assert leave.value.code == cli.EXIT_REFUSED
    assert "not empty" in capsys.readouterr().err

    def refuse(path: str, text: str | None = None) -> str:
        raise ScenarioError(
            f'{path}: line 9: `network.path` names the file "network.json", which cannot be used (it has 0 servers)'
        )

    monkeypatch.setattr(_core, "resolve", refuse)
    with pytest.raises(ImportedError, match=r"^this network cannot be simulated: it has 0 servers$"):
        importing.import_network(PUBLISHED, tmp_path / "other" / "below")
    assert not (tmp_path / "other").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert core.made == []


def test_an_import_is_an_experiment(tmp_path: Path) -> None:
    for name, source, info in (("a", PUBLISHED, None), ("b", DATA / "tornettools", DATA / "relayinfo.json")):
        written = importing.import_network(source, tmp_path / name, info)
        scenario = json.loads(_core.resolve(str(written.experiment)))
        assert scenario["network"]["kind"] == "file"
        assert {group["group"] for group in scenario["clients"]} >= {"perf"}


def test_an_import_runs(tmp_path: Path) -> None:
    options = Options(duration="8 min", tor="0.3.5")
    written = importing.import_network(DATA / "tornettools", tmp_path / "net", DATA / "relayinfo.json", options)
    results = onionlab.run(written.experiment, tmp_path / "out", report=False)
    perf = results.transfers.filter(pl.col("group") == "perf")
    # The first of them starts a minute after its program, and then there is one a minute.
    assert perf["start_ns"].to_list() == [360 * 10**9, 420 * 10**9]
    assert perf["outcome"].to_list() == ["ok", "ok"]
    circuits = results.circuits.filter(pl.col("circuit").is_in(perf["circuit"].to_list()))
    assert circuits["exit"].str.contains("exit").all()
    assert circuits["guard"].str.contains("guard").all()
    assert results.network["goodput_bytes"].sum() > perf["received_bytes"].sum(), "the Markov clients load too"
    assert set(results.transfers["group"]) == {"perf"}, "and leave no records"


@pytest.mark.parametrize("duration", ["2 min", "6 min"])
def test_an_import_ends_after_its_clients_start(duration: str, tmp_path: Path) -> None:
    with pytest.raises(ImportedError, match="is not allowed; allowed is more than 360 s, when the last clients start"):
        importing.import_network(DATA / "tornettools", tmp_path / "net", DATA / "relayinfo.json", Options(duration=duration))


def test_the_published_networks(tmp_path: Path) -> None:
    if not SHADOW_NETWORKS.is_dir():
        pytest.skip(f"{SHADOW_NETWORKS} is not here")
    for name, relays, clients in (("1pct-load1.0-1", 65, 100), ("1pct-load1.0-3", 64, 100), ("10pct-load1.0-1", 649, 792)):
        network = importing.read(SHADOW_NETWORKS / f"{name}.network.json.xz")
        assert (len(network.relays), sum(len(markov.hosts) for markov in network.markov)) == (relays, clients)
        importing.import_network(SHADOW_NETWORKS / f"{name}.network.json.xz", tmp_path / name)


def test_only_versions_of_tor_that_there_are_can_be_asked_for() -> None:
    for asked in ("0.5", '0.4.9"\nnet = "linux'):
        with pytest.raises(
            ImportedError, match=r"there is no version .* of tor here; there are 0\.2\.4, 0\.3\.5, 0\.4\.9"
        ) as refused:
            Options(tor=asked)
        assert "\n" not in str(refused.value)
    schema = json.loads(_core.schema())
    assert list(VERSIONS) == [one["const"] for one in schema["$defs"]["TorVersion"]["oneOf"]]


def test_nothing_is_measured_before_all_clients_have_started() -> None:
    for stop in (420, 500, 600, 700, 1200, 2399):
        times = Times().until(stop)
        assert times.traffic + 60 <= times.measure_from < stop
    assert Times().until(3600).measure_from == 1200
