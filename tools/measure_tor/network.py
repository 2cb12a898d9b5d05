"""A private tor network on 127.0.0.1: a directory authority, relays and a client, each a process, in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from control import Control
from tap import Tap

#: The relays of a network of which nothing else is said.
RELAYS = ("guard", "middle", "exit")
#: Seconds within which the network must be up; it takes half a minute on an idle machine.
PATIENCE = 180


class Refused(Exception):
    """What is missing, in one sentence."""


@dataclass(frozen=True)
class Relay:
    """A relay, and what sets it apart from the others."""

    name: str
    #: Further lines of its torrc.
    torrc: str = ""
    #: Whether it lets streams out.
    exits: bool = False
    #: Seconds that each way takes over a connection that somebody opened to it.
    delay: float = 0.0


#: A client whose circuits and streams are put together by hand.
BY_HAND = "ConfluxEnabled 0\n__LeaveStreamsUnattached 1\n__DisablePredictedCircuits 1\n"


@dataclass(frozen=True)
class Plan:
    """What a network is made of."""

    relays: tuple[Relay, ...] = tuple(Relay(name, exits=name == "exit") for name in RELAYS)
    #: Further lines of the client's torrc.
    client: str = BY_HAND
    #: Further lines of the authority's.
    authority: str = ""
    #: Whether a listener before each relay notes what passes.
    tapped: bool = False


@dataclass
class Node:
    """One tor process and where to reach it."""

    name: str
    folder: Path
    or_port: int = 0
    listen_port: int = 0
    control_port: int = 0
    process: subprocess.Popen[bytes] | None = None
    fingerprint: str = ""
    tap: Tap | None = None

    @property
    def pid(self) -> int:
        """The process that this program started."""
        assert self.process is not None
        return self.process.pid


@dataclass
class Network:
    """All processes, and the ports of those that somebody talks to."""

    folder: Path
    tor: str
    nodes: dict[str, Node] = field(default_factory=dict)
    socks_port: int = 0
    controls: dict[str, Control] = field(default_factory=dict)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find(program: str) -> str:
    """The path of a program, or a refusal."""
    path = shutil.which(program)
    if path is None:
        raise Refused(f"No program `{program}` on this machine: install tor 0.4.9 (Debian: package tor), or name it with --tor.")
    return path


def version(tor: str) -> str:
    """What `tor --version` says first."""
    return subprocess.run([tor, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


COMMON = """
TestingTorNetwork 1
RunAsDaemon 0
ShutdownWaitLength 0
AssumeReachable 1
SafeLogging 0
HeartbeatPeriod 0
Log notice file {folder}/notice.log
DataDirectory {folder}
Nickname {name}
ControlPort 127.0.0.1:{control_port}
DirAuthority {authority}
"""
RELAY = """
{ports}
SocksPort 0
Address 127.0.0.1
ContactInfo nobody
ExitPolicyRejectPrivate 0
ServerDNSDetectHijacking 0
ServerDNSAllowBrokenConfig 1
DoSCircuitCreationEnabled 0
DoSConnectionEnabled 0
MaxMemInQueues 1 GB
"""
AUTHORITY = """
ORPort 127.0.0.1:{or_port} IPv4Only
DirPort 127.0.0.1:{dir_port} IPv4Only
SocksPort 0
Address 127.0.0.1
ContactInfo nobody
ExitPolicy reject *:*
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
TestingV3AuthInitialVotingInterval 20
TestingV3AuthInitialVoteDelay 4
TestingV3AuthInitialDistDelay 4
V3AuthVotingInterval 20
V3AuthVoteDelay 4
V3AuthDistDelay 4
TestingDirAuthVoteExit *
TestingDirAuthVoteGuard *
TestingMinExitFlagThreshold 0
"""
CLIENT = """
SocksPort 127.0.0.1:{socks_port}
ClientOnly 1
ClientRejectInternalAddresses 0
ClientDNSRejectInternalAddresses 0
SocksTimeout 10
"""


def _authority_keys(tor: str, node: Node, address: str) -> str:
    """Makes the authority's keys; returns the line for `DirAuthority`."""
    beside = Path(tor).with_name("tor-gencert")
    gencert = str(beside) if beside.exists() else find("tor-gencert")
    keys = node.folder / "keys"
    keys.mkdir(mode=0o700)
    read, write = os.pipe()
    os.write(write, b"loopback\n")
    os.close(write)
    names = [str(keys / f"authority_{part}") for part in ("identity_key", "signing_key", "certificate")]
    arguments = [gencert, "--create-identity-key", "--passphrase-fd", str(read), "-i", names[0], "-s", names[1], "-c", names[2]]
    subprocess.run([*arguments, "-m", "12", "-a", address], pass_fds=(read,), capture_output=True, check=True)
    os.close(read)
    certificate = Path(names[2]).read_text()
    identity = next(line.split()[1] for line in certificate.splitlines() if line.startswith("fingerprint"))
    placeholder = f"authority orport={node.or_port} v3ident={identity} {address} {'F' * 40}"
    torrc = node.folder / "torrc"
    torrc.write_text(
        f"DataDirectory {node.folder}\nORPort 127.0.0.1:{node.or_port}\nNickname authority\nDirAuthority {placeholder}\n"
    )
    listed = subprocess.run(
        [tor, "-f", str(torrc), "--list-fingerprint", "--quiet", "--defaults-torrc", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    )
    fingerprint = "".join(listed.stdout.split()[1:])
    return f"authority orport={node.or_port} no-v2 v3ident={identity} {address} {fingerprint}"


def _start(network: Network, node: Node, text: str) -> None:
    torrc = node.folder / "torrc"
    torrc.write_text(text)
    node.process = subprocess.Popen(
        [network.tor, "-f", str(torrc), "--defaults-torrc", "/dev/null"],
        stdout=(node.folder / "output.log").open("wb"),
        stderr=subprocess.STDOUT,
    )


def _set_up(network: Network, plan: Plan) -> None:
    relays = {relay.name: relay for relay in plan.relays}
    for name in ("authority", *relays, "client"):
        folder = network.folder / name
        folder.mkdir(mode=0o700)
        network.nodes[name] = Node(name, folder, free_port(), free_port(), free_port())
    authority = network.nodes["authority"]
    dir_port = authority.listen_port
    line = _authority_keys(network.tor, authority, f"127.0.0.1:{dir_port}")
    network.socks_port = free_port()
    for name, node in network.nodes.items():
        text = COMMON.format(folder=node.folder, name=name, control_port=node.control_port, authority=line)
        if name == "authority":
            text += AUTHORITY.format(or_port=node.or_port, dir_port=dir_port) + plan.authority
        elif name == "client":
            text += CLIENT.format(socks_port=network.socks_port) + plan.client
        else:
            relay = relays[name]
            ports = f"ORPort 127.0.0.1:{node.or_port} IPv4Only"
            if plan.tapped or relay.delay > 0:
                ports = (
                    f"ORPort 127.0.0.1:{node.or_port} NoListen IPv4Only\nORPort 127.0.0.1:{node.listen_port} NoAdvertise IPv4Only"
                )
                node.tap = Tap(node.or_port, node.listen_port, relay.delay)
            text += RELAY.format(ports=ports) + relay.torrc
            text += "ExitPolicy accept *:*\nExitRelay 1\n" if relay.exits else "ExitPolicy reject *:*\nExitRelay 0\n"
        _start(network, node, text)


def _wait(network: Network, relays: Sequence[str]) -> None:
    """Until the client knows these relays."""
    deadline = time.monotonic() + PATIENCE
    for name, node in network.nodes.items():
        network.controls[name] = Control.open(node.control_port, deadline)
    client = network.controls["client"]
    while time.monotonic() < deadline:
        known = client.info("ns/all")
        ready = client.info("status/circuit-established")
        names = {words[1]: words[2] for words in (row.split() for row in known.splitlines() if row.startswith("r "))}
        if (
            all(name in names for name in relays)
            and ready is not None
            and client.info("dir/status-vote/current/consensus") is not None
        ):
            for name in relays:
                network.nodes[name].fingerprint = network.controls[name].info("fingerprint")
            if all(client.has_descriptor(network.nodes[name].fingerprint) for name in relays):
                return
        time.sleep(0.5)
    raise Refused(f"The private network was not up after {PATIENCE} seconds; the logs are in {network.folder}.")


@contextlib.contextmanager
def running(tor: str, plan: Plan = Plan()) -> Iterator[Network]:
    """A network that is up; its processes end with the block, each by its own process id."""
    folder = Path(tempfile.mkdtemp(prefix="measure-tor-"))
    network = Network(folder, find(tor))
    succeeded = False
    try:
        _set_up(network, plan)
        _wait(network, [relay.name for relay in plan.relays])
        yield network
        succeeded = True
    finally:
        for node in network.nodes.values():
            if node.process is not None:
                node.process.terminate()
        for node in network.nodes.values():
            if node.process is not None:
                try:
                    node.process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    node.process.kill()
                    node.process.wait()
            if node.tap is not None:
                node.tap.close()
        if succeeded:
            shutil.rmtree(folder)
