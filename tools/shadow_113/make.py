# ruff: noqa: E501  (torrc, XML and command lines)
"""Makes one small network twice: for real tor in Shadow 1.13, and as the network document that `onionlab import` reads.

    python tools/shadow_113/make.py FOLDER --middles 40 --exits 2 --clients 11 --interval 8053692 --seed 1

All hosts are 29 ms from each other and have links of 1 Gbit/s. Four guards, some middles, an exit whose tor, or whose link, passes 2 MB/s, perhaps another that passes all; clients of tgen's Markov models, who ask the first exit for more than it passes, and
24 clients that measure, each with a download a minute. Names, options and times are those that the published networks have. What it needs besides stands in the README beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: The exit's ``BandwidthRate`` and ``BandwidthBurst``, or its link; all other links, bytes a second; from host to host.
RATE, LINK, LATENCY_MS = 2_000_000, 124_999_680, 29.0
#: Clients that measure; servers.
PERF, SERVERS = 24, 4
#: Simulated seconds until tor runs everywhere, and with load.
BEFORE, LOAD = 400, 1080
#: What is downloaded, how often, and when it is given up.
SIZES = (("50k", "50 KiB", "15 seconds", "12.0"), ("1m", "1 MiB", "60 seconds", "2.0"), ("5m", "5 MiB", "120 seconds", "1.0"))

Attributes = Mapping[str, object]


@dataclass(frozen=True)
class Relay:
    """A relay: what it is, its consensus weight, tor's own rate if it has one, and its link, both in bytes a second."""

    name: str
    role: str
    weight: int
    rate: int | None = None
    link: int = LINK


def network(middles: int, exits: int, short: str, rate: int = RATE) -> list[Relay]:
    """The relays; ``short``: what the first exit is short of, its tor's ``rate`` or its ``link``, each of so many bytes a second; ``links``: all exits have short links, and weights that fall from one to the next. Guards and middles have more weight than exits, so that no exit is anything else."""
    names = [f"exit{letter}" for letter in "abcde"[:exits]]
    # Shadow has links in KiB.
    link = rate // 1024 * 1024
    if short == "links":
        relays = [Relay(name, "exit", 1500 - 250 * n, link=link) for n, name in enumerate(names)]
    else:
        first = {"rate": Relay(names[0], "exit", 1000, rate=rate), "link": Relay(names[0], "exit", 1000, link=link)}[short]
        relays = [first, *(Relay(name, "exit", 1000) for name in names[1:])]
    relays += [Relay(f"guard{n + 1}", "guard", 3000) for n in range(4)]
    relays += [Relay(f"middle{n + 1}", "middle", 12_000 // middles) for n in range(middles)]
    return relays


def graphml(path: Path, nodes: Sequence[tuple[str, Attributes]], edges: Sequence[tuple[str, str, Attributes]]) -> None:
    """Writes a graph as tgen reads it: numbers as numbers, all else as text."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    keys: dict[tuple[str, str], str] = {}
    kinds = (("node", [of for _, of in nodes]), ("edge", [of for *_, of in edges]))
    for kind, owners in kinds:
        for name in sorted({name for of in owners for name in of}):
            number = any(isinstance(of.get(name), float) for of in owners)
            keys[kind, name] = f"d{len(keys)}"
            lines.append(
                f'<key attr.name="{name}" attr.type="{"double" if number else "string"}" for="{kind}" id="{keys[kind, name]}" />'
            )
    lines.append('<graph edgedefault="directed">')

    def data(kind: str, of: Attributes) -> str:
        return "".join(f'<data key="{keys[kind, name]}">{value}</data>' for name, value in of.items())

    lines += [f'<node id="{node}">{data("node", of)}</node>' for node, of in nodes]
    lines += [f'<edge source="{a}" target="{b}">{data("edge", of)}</edge>' for a, b, of in edges]
    path.write_text("\n".join([*lines, "</graph></graphml>", ""]))


def model(path: Path, source: Path, key: str) -> None:
    """A hidden Markov model of tgen's: log-normal delays, or exponential ones where a rate is given."""
    chain = json.loads(source.read_text())[key]
    observations = {name: f"o{n}" for n, name in enumerate(chain["observation_space"])}
    nodes: list[tuple[str, Attributes]] = [("start", {"type": "state", "name": "start"})]
    nodes += [(state, {"type": "state", "name": state}) for state in chain["state_space"]]
    nodes += [(node, {"type": "observation", "name": "+" if name == "$" else name}) for name, node in observations.items()]
    steps = {"start": chain["start_probability"], **chain["transition_probability"]}
    edges: list[tuple[str, str, Attributes]] = [
        (a, b, {"type": "transition", "weight": float(weight)})
        for a, row in steps.items()
        for b, weight in row.items()
        if weight > 0
    ]
    for state, row in chain["emission_probability"].items():
        for name, (weight, *delay) in row.items():
            if delay and delay[2] == 0:
                law = {"distribution": "lognormal", "param_location": float(delay[0]), "param_scale": float(delay[1])}
            else:
                law = {"distribution": "exponential", "param_rate": float(delay[2]) if delay else 1.0}
            edges.append((state, observations[name], {"type": "emission", "weight": float(weight), **law}))
    graphml(path, nodes, edges)


def torrcs(conf: Path, template: Path, fingerprints: Mapping[str, str]) -> None:
    """The options of each kind of host; the authority's keys are those of shadow-plugin-tor's minimal example."""
    directory = "DirServer 4uthority v3ident=BA3FDA7CE3B41FBF9BB3615BE6ACD28D883E694B orport=9111 100.0.0.1:9112 A52CA5B56C64D864F6AE43E56F29ACBD5706DDA1"
    relay = "ORPort 9111\nDirPort 9112\nSocksPort 0\nExitPolicy {} *:*\n"
    client = "ClientOnly 1\nSocksPort 9000\n"
    guards = ",".join(of for name, of in fingerprints.items() if name.startswith("guard"))
    texts = {
        "common": f"{directory}\nTestingTorNetwork 1\nServerDNSResolvConfFile conf/shadowresolv.conf\nServerDNSTestAddresses 4uthority\n"
        "ServerDNSAllowBrokenConfig 1\nServerDNSDetectHijacking 0\nNumCPUs 1\nSafeLogging 0\nLog notice stdout\nLogTimeGranularity 1\nUseEntryGuards 0\n",
        "authority": relay.format("reject")
        + "AuthoritativeDirectory 1\nV3AuthoritativeDirectory 1\nV3BandwidthsFile shadow.data/hosts/v3bw\n"
        f"TestingDirAuthVoteGuard {guards}\nTestingDirAuthVoteGuardIsStrict 1\n",
        "relay": relay.format("reject"),
        "exit": relay.format("accept"),
        "markov": client + "CircuitStreamTimeout 120\nSocksTimeout 120\nMaxClientCircuitsPending 1024\n",
        "perf": client + "MaxCircuitDirtiness 10\n",
    }
    for name, text in texts.items():
        (conf / f"tor.{name}.torrc").write_text(text)
    shutil.copy(template / "conf" / "shadowresolv.conf", conf)


def tgenrcs(conf: Path, models: Path, clients: int, interval_us: int, seed: int, spread: bool = False) -> None:
    """What servers and clients do. ``spread``: those that measure begin one after the other over a minute, not all at once."""
    model(conf / "stream.graphml", models / "stream-model-2018.json", "stream_model")
    model(conf / "packet.graphml", models / "packet-model-2018.json", "packet_model")
    law = {"type": "emission", "weight": 1.0, "distribution": "exponential", "param_rate": 1.0 / interval_us}
    graphml(
        conf / "flow.graphml",
        [("start", {"type": "state", "name": "start"}), ("o", {"type": "observation", "name": "+"})],
        [("start", "start", {"type": "transition", "weight": 1.0}), ("start", "o", law)],
    )
    # As tornettools has it from its first version on: servers never give a stream up.
    patience = {"stallout": "0 seconds", "timeout": "0 seconds"}
    graphml(conf / "tgen.server.graphml", [("start", {"serverport": "80", "loglevel": "message", **patience})], [])
    to = {"peers": ",".join(f"server{n + 1}:80" for n in range(SERVERS)), "socksproxy": "localhost:9000", "heartbeat": "1 second"}
    for n in range(clients):
        paths = {f"{kind}modelpath": f"conf/{kind}.graphml" for kind in ("flow", "stream", "packet")}
        seeds = {"socksauthseed": str(1000 + n), "markovmodelseed": str(seed * 7919 + n)}
        ends = {"packetmodelmode": "path", "stallout": "5 minutes", "timeout": "10 minutes"}
        start = {**to, "time": f"{1 + n * 59 // clients} seconds", "loglevel": "error"}
        graphml(
            conf / f"tgen.markov{n + 1}.graphml",
            [("start", start), ("traffic", {**paths, **seeds, **ends})],
            [("start", "traffic", {})],
        )
    for n in range(PERF):
        begin = f"{n * 60 // PERF} seconds" if spread else "0"
        nodes: list[tuple[str, Attributes]] = [("start", {**to, "time": begin, "loglevel": "message"})]
        nodes += [(pause, {"time": "60 seconds"}) for pause in ("pause_first", "pause")]
        edges: list[tuple[str, str, Attributes]] = [
            ("start", "pause_first", {}),
            ("pause_first", "pause", {}),
            ("pause", "pause", {}),
        ]
        for name, size, timeout, weight in SIZES:
            request = {"socksauthseed": str(5000 + n), "sendsize": "1000 bytes", "packetmodelmode": "path"}
            nodes.append((f"stream_{name}", {**request, "recvsize": size, "timeout": timeout, "stallout": "0"}))
            edges += [(pause, f"stream_{name}", {"weight": weight}) for pause in ("pause_first", "pause")]
        graphml(conf / f"tgen.perf{n + 1}.graphml", nodes, edges)


def configuration(relays: Sequence[Relay], clients: int, root: str) -> str:
    """Shadow's own file. `root` is where its programs are installed."""
    kib = LINK // 1024

    def tor(kind: str, start: int, rate: int | None = None) -> str:
        limit = f" --BandwidthRate {rate or 10**9} --BandwidthBurst {rate or 10**9}"
        return (
            f'<process plugin="tor" preload="tor-preload" starttime="{start}" arguments="--Address ${{NODEID}} --Nickname ${{NODEID}} '
            f"--DataDirectory shadow.data/hosts/${{NODEID}} --GeoIPFile {root}/share/geoip --defaults-torrc conf/tor.common.torrc "
            f'-f conf/tor.{kind}.torrc{limit}" />'
        )

    def tgen(kind: str, start: int) -> str:
        return f'<process plugin="tgen" starttime="{start}" arguments="conf/tgen.{kind}.graphml" />'

    def host(name: str, *processes: str, hint: str = "", link: int = LINK) -> str:
        width = f'bandwidthdown="{link // 1024}" bandwidthup="{link // 1024}"'
        return f'<host id="{name}" {width}{hint}>{"".join(processes)}</host>'

    fields = {"d7": ("latency", "double", "edge"), "d8": ("jitter", "double", "edge"), "d9": ("packetloss", "double", "edge")}
    fields |= {"d0": ("packetloss", "double", "node"), "d1": ("ip", "string", "node"), "d2": ("countrycode", "string", "node")}
    fields |= {"d3": ("bandwidthdown", "int", "node"), "d4": ("bandwidthup", "int", "node"), "d5": ("type", "string", "node")}
    keys = "".join(f'<key attr.name="{a}" attr.type="{b}" for="{c}" id="{key}" />' for key, (a, b, c) in fields.items())
    values = {"d0": "0.0", "d1": "0.0.0.0", "d2": "US", "d3": kib, "d4": kib, "d5": "net"}
    node = "".join(f'<data key="{key}">{value}</data>' for key, value in values.items())
    edge = "".join(f'<data key="{key}">{value}</data>' for key, value in {"d7": LATENCY_MS, "d8": 0.0, "d9": 0.0}.items())
    topology = (
        f'<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}'
        f'<graph edgedefault="undirected"><node id="poi-1">{node}</node><edge source="poi-1" target="poi-1">{edge}</edge></graph></graphml>'
    )
    libevent = ";".join(f"EVENT_NO{kind}=1" for kind in ("SELECT", "POLL", "KQUEUE", "DEVPOLL", "EVPORT", "WIN32"))
    lines = [
        f'<shadow stoptime="{BEFORE + LOAD}" preload="{root}/lib/libshadow-interpose.so" environment="OPENSSL_ia32cap=~0x200000200000000;{libevent}">',
        f"<topology><![CDATA[{topology}]]></topology>",
        f'<plugin id="tgen" path="{root}/bin/tgen" /><plugin id="tor" path="{root}/lib/libshadow-plugin-tor.so" />',
        f'<plugin id="tor-preload" path="{root}/lib/libshadow-preload-tor.so" />',
        host("4uthority", tor("authority", 1), hint=' iphint="100.0.0.1"'),
        *(host(of.name, tor("exit" if of.role == "exit" else "relay", 60, of.rate), link=of.link) for of in relays),
        *(host(f"server{n + 1}", tgen("server", 1)) for n in range(SERVERS)),
        *(
            host(f"{kind}client{n + 1}", tor(kind, BEFORE - 60), tgen(f"{kind}{n + 1}", BEFORE))
            for kind, count in (("markov", clients), ("perf", PERF))
            for n in range(count)
        ),
        "</shadow>",
    ]
    text = "\n".join([*lines, ""])
    # Exits say what they send, the first one what its sockets hold besides: its connections to servers are counted by that.
    beats = 'loglevel="message" heartbeatloglevel="message" heartbeatfrequency="15" heartbeatloginfo='
    text = text.replace('<host id="exita" ', f'<host id="exita" {beats}"node,socket" ')
    return re.sub('<host id="(exit[b-e])" ', f'<host id="\\1" {beats}"node" ', text)


def document(relays: Sequence[Relay], clients: int, interval_us: int) -> dict[str, object]:
    """The same network as `onionlab import` reads it."""
    link = {"country": "US", "up_bytes_s": LINK, "down_bytes_s": LINK}
    return {
        "relays": [
            {"name": of.name, "role": of.role, "weight": of.weight, "address": f"{20 + n}.1.1.1"}
            | {"country": "US", "up_bytes_s": of.link, "down_bytes_s": of.link}
            | ({} if of.rate is None else {"rate_bytes_s": of.rate, "burst_bytes_s": of.rate})
            for n, of in enumerate(relays)
        ],
        "clients": [{"name": f"markovclient{n + 1}", "mean_flow_interval_us": interval_us, **link} for n in range(clients)],
        "perf_clients": [{"name": f"perfclient{n + 1}", **link} for n in range(PERF)],
        "servers": [{"name": f"server{n + 1}", **link} for n in range(SERVERS)],
    }


def main() -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="is made")
    parser.add_argument("--middles", type=int, default=40)
    parser.add_argument("--exits", type=int, default=2, choices=range(1, 6))
    parser.add_argument(
        "--short",
        default="rate",
        choices=("rate", "link", "links"),
        help="what the first exit is short of; links: all are, of their links",
    )
    parser.add_argument(
        "--rate", type=int, default=RATE, help="of the first exit's tor, or of its link or all their links, bytes a second"
    )
    parser.add_argument("--clients", type=int, default=11)
    parser.add_argument("--interval", type=int, default=8_053_692, help="between circuits of a client, us")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spread", action="store_true", help="clients that measure begin one after the other over a minute")
    parser.add_argument(
        "--models", type=Path, required=True, help="the folder with stream-model-2018.json and packet-model-2018.json"
    )
    parser.add_argument("--example", type=Path, required=True, help="shadow-plugin-tor's shadowtor-minimal-config, unpacked")
    parser.add_argument("--tor", type=Path, required=True, help="the program tor 0.3.5, which makes the relays' keys")
    parser.add_argument("--root", default="/usr/local", help="where Shadow, its plug-ins and tgen are installed")
    given = parser.parse_args()
    conf, hosts = given.folder / "conf", given.folder / "shadow.data.template" / "hosts"
    conf.mkdir(parents=True)
    hosts.mkdir(parents=True)
    shutil.copytree(given.example / "shadow.data.template" / "hosts" / "4uthority", hosts / "4uthority")
    relays = network(given.middles, given.exits, given.short, given.rate)
    empty = given.folder / "empty.torrc"
    empty.touch()
    fingerprints = {}
    for name in (of.name for of in relays):
        options = ["--DataDirectory", hosts / name, "--Nickname", name, "--ORPort", "9111", "-f", empty, "--Address", "20.1.1.1"]
        subprocess.run([given.tor, "--list-fingerprint", *options], check=True, capture_output=True)
        fingerprints[name] = (hosts / name / "fingerprint").read_text().split()[-1]
        # Simulated time begins in 2000: certificates of today would not be valid yet.
        for file in (hosts / name / "keys").glob("ed25519*"):
            file.unlink()
    bandwidths = [f"node_id=${fingerprints[of.name]}\tbw={of.weight}\tnick={of.name}\n" for of in relays]
    (hosts / "v3bw").write_text("".join(["946684801\n", *bandwidths]))
    torrcs(conf, given.example, fingerprints)
    tgenrcs(conf, given.models, given.clients, given.interval, given.seed, given.spread)
    (given.folder / "shadow.config.xml").write_text(configuration(relays, given.clients, given.root))
    (given.folder / "small.network.json").write_text(json.dumps(document(relays, given.clients, given.interval), indent=1) + "\n")
    print(f"{given.folder}: `shadow -w 0 shadow.config.xml` runs it there")


if __name__ == "__main__":
    main()
