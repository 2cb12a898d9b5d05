"""The networks of "Once is Never Enough" in distilled form: ``NAME.network.json``, packed or not.

Each object has ``relays`` (``name``, ``role``, ``country``, ``address``, ``up_bytes_s``, ``down_bytes_s``, ``weight``, and
``rate_bytes_s`` and ``burst_bytes_s``, tor's ``BandwidthRate`` and ``BandwidthBurst``), ``servers``, ``perf_clients`` and
``clients`` (the latter with ``mean_flow_interval_us``). Shadow ran them for an hour; statistics began at minute 20. They have no
torrc: clients have the options that their generator writes for all (`options.OF_MARKOV_CLIENTS`, `options.OF_PERF_CLIENTS`).
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from onionlab.errors import ImportedError, UntrustedError
from onionlab.importing.atlas import LATENCY_FACTOR, LATENCY_FLOOR, ROUND_TRIPS, any_vertex
from onionlab.importing.model import MOST_HOSTS, ROLES, SOURCES, Host, Markov, Network, Perf, Relay
from onionlab.untrusted import Fields, clipped, read_json

#: Fastest link that is taken in, in bytes/s.
FASTEST = 10**11

#: The tor that ran there.
TOR = "0.3.5"

#: What Shadow 1.13.2, which ran them, does otherwise than Shadow 3 (`shd-tcp.c`, `shd-network-interface.c`, `shd-options.c`), and
#: the tor that its plugin builds otherwise than one of today.
LINKS = (
    'tls = "1.2" # shadow-plugin-tor builds tor with OpenSSL 1.1.0h',
    "mss = 1434 # 1500 less 66 of headers",
    'packet-header = "66 B"',
    "kist-knows-unsent = false # it answers SIOCOUTQNSD with a number that tor takes for success and leaves the count at nothing",
    'link-shaping = "bursts" # what waits for a link passes together, 5 ms of it',
    'round-trips = "released" # only what leaves while a segment is being processed echoes its time; time-outs are as there too',
    "initial-window = 1 # a SYN has no number, so that its acknowledgement opens no window",
    'min-rto = "200 ms"',
    'downlink-queue = "drop-tail"',
    'downlink-queue-size = "1 GiB" # its 1,024,000 B never fill: packets are counted in without headers and out with them',
)
#: Bytes, 66 of headers for each segment included, after which the loopback pauses for a nanosecond: it passes 2**32 - 1 KiB/s
#: (`host_setup`, `_networkinterface_scheduleNextSend`).
PAUSE_AFTER = (2**32 - 1) * 1024e-9
#: tgen writes a request at once, in three segments, and tor wakes up within a nanosecond (`_epoll_scheduleNotification`): if a
#: pause falls behind the first or the second, tor reads that part alone.
SPLIT_REQUESTS = tuple((sum(parts), (parts[-1] + 66) / PAUSE_AFTER) for parts in ((222,), (222, 1000)))
#: What stands for a country and is none: perf clients are placed as OnionPerf's instances are, and one of these is called op-ab.
NO_COUNTRY = frozenset({"AB"})
#: And if a relay has a rate of its own.
LIMITED = ('epoll = "shadow-1.13" # what is ready is in a hash table, by descriptor',)


def read(path: Path) -> Network:
    """Read one.

    Raises
    ------
    ImportedError, UntrustedError
        If it is not of this form.
    """
    try:
        content = read_json(path)
    except UntrustedError as error:
        raise ImportedError(f"{error}; {SOURCES}") from error
    if not isinstance(content, dict) or "relays" not in content or "clients" not in content:
        raise ImportedError(f"{path} is no network of this form: it has no `relays` or no `clients`; {SOURCES}")
    document = Fields(str(path), content)
    rows = enumerate(document.rows("relays", MOST_HOSTS))
    relays = tuple(_relay(Fields(f"{path}, relays[{index}]", row)) for index, row in rows)
    servers = _hosts(document, "servers")
    perf = _hosts(document, "perf_clients")
    by_interval: dict[int, list[Host]] = {}
    for index, row in enumerate(document.rows("clients", MOST_HOSTS)):
        fields = Fields(f"{document.where}, clients[{index}]", row)
        by_interval.setdefault(fields.whole("mean_flow_interval_us", 1, 10**13), []).append(_host(fields))
    source = document.text("source") if "source" in document else path.name
    return Network(
        source=f"the published network {clipped(source)}",
        relays=relays,
        servers=servers,
        markov=tuple(Markov(interval, tuple(hosts)) for interval, hosts in sorted(by_interval.items())),
        perf=(Perf(perf),) if perf else (),
        tor=TOR,
        latency_factor=LATENCY_FACTOR,
        latency_floor=LATENCY_FLOOR,
        round_trips=ROUND_TRIPS,
        split_requests=SPLIT_REQUESTS,
        links=LINKS + (LIMITED if any(relay.rate for relay in relays) else ()),
    )


def _relay(fields: Fields) -> Relay:
    role = fields.text("role")
    if role not in ROLES:
        raise fields.refuse("role", f"one of {', '.join(ROLES)}")
    try:
        address = str(IPv4Address(fields.text("address")))
    except AddressValueError as error:
        raise fields.refuse("address", "an IPv4 address") from error
    limited = "rate_bytes_s" in fields
    return Relay(
        name=fields.text("name", 64),
        role=role,
        weight=fields.whole("weight", 0, 2**32 - 1),
        address=address,
        country=_country(fields),
        up=fields.whole("up_bytes_s", 125, FASTEST),
        down=fields.whole("down_bytes_s", 125, FASTEST),
        rate=fields.whole("rate_bytes_s", 125, FASTEST) if limited else None,
        burst=fields.whole("burst_bytes_s", 16_384, 2**40) if limited else None,
    )


def _hosts(document: Fields, key: str) -> tuple[Host, ...]:
    rows = document.rows(key, MOST_HOSTS)
    return tuple(_host(Fields(f"{document.where}, {key}[{index}]", row)) for index, row in enumerate(rows))


def _host(fields: Fields) -> Host:
    rates = [fields.whole(key, 125, FASTEST) for key in ("up_bytes_s", "down_bytes_s")]
    name, country = fields.text("name", 64), _country(fields)
    return Host(name, any_vertex(name) if country in NO_COUNTRY else country, *rates)


def _country(fields: Fields) -> str | None:
    if "country" not in fields:
        return None
    code = fields.text("country", 2)
    if len(code) != 2 or not code.isascii() or not code.isalpha():
        raise fields.refuse("country", "two letters")
    return code.upper()
