"""What becomes of the options of a torrc: what is taken in, what means nothing here, and what a user is told of.

Three kinds. Options that the simulator has are in `TorOptions` or are read by name in `tornettools` and `common`. Options that
cannot matter here, or say what is so here anyway, are in `WITHOUT_MEANING` and `AS_HERE`. Every other one is a note: it was read
and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from onionlab.errors import ImportedError
from onionlab.importing import exit_policy
from onionlab.importing.torrc import Line, Torrc
from onionlab.untrusted import clipped

#: Longest time that an experiment file takes, which no run outlasts: seconds of a week.
WEEK = 7 * 86_400

#: Most notes about options of their own, and most options or values that are counted.
MOST_NOTES, MOST_KINDS = 40, 10_000

#: Most parameters of a consensus that an authority votes for; tor knows about a hundred.
MOST_PARAMS = 1_000

#: tor's units of time, in seconds (``time_units``).
SECONDS = {"": 1}
for _unit, _length in (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", WEEK), ("month", 2_629_728)):
    SECONDS |= {_unit: _length, f"{_unit}s": _length}

#: The same for options in milliseconds (``time_msec_units``).
MILLISECONDS = dict.fromkeys(("", "msec", "millisecond", "milliseconds"), 1)
MILLISECONDS |= {unit: 1000 * length for unit, length in SECONDS.items() if unit}

#: Channel schedulers by their names in ``Schedulers``.
SCHEDULERS = {"kist": "kist", "kistlite": "kist-lite", "vanilla": "vanilla"}

#: tor's units of size, in bytes (``memory_units``).
BYTES = dict.fromkeys(("", "b", "byte", "bytes"), 1) | {"m": 2**20}
for _power, _letter, _name in ((10, "k", "kilo"), (20, "m", "mega"), (30, "g", "giga"), (40, "t", "tera")):
    _of_bytes = (f"{_letter}b", f"{_letter}byte", f"{_letter}bytes", f"{_name}byte", f"{_name}bytes")
    BYTES |= dict.fromkeys(_of_bytes, 2**_power)
    BYTES |= dict.fromkeys((f"{_letter}bit", f"{_letter}bits", f"{_name}bit", f"{_name}bits"), 2 ** (_power - 3))


#: ``BandwidthBurst`` where nobody says it, in bytes.
DEFAULT_BURST = 2**30


@dataclass(frozen=True)
class TorOptions:
    """Options of a client's tor that are keys of a group of clients; None: tor's default.

    Attributes
    ----------
    circuit_lifetime, circuit_stream_timeout, socks_timeout, new_circuit_period
        ``MaxCircuitDirtiness``, ``CircuitStreamTimeout``, ``SocksTimeout``, ``NewCircuitPeriod`` in seconds.
    max_client_circuits_pending
        ``MaxClientCircuitsPending``.
    """

    circuit_lifetime: int | None = None
    circuit_stream_timeout: int | None = None
    socks_timeout: int | None = None
    max_client_circuits_pending: int | None = None
    new_circuit_period: int | None = None

    def lines(self) -> list[str]:
        """As an experiment file has them."""
        times = {
            "circuit-lifetime": (self.circuit_lifetime, "MaxCircuitDirtiness"),
            "circuit-stream-timeout": (self.circuit_stream_timeout, "CircuitStreamTimeout"),
            "socks-timeout": (self.socks_timeout, "SocksTimeout"),
            "new-circuit-period": (self.new_circuit_period, "NewCircuitPeriod"),
        }
        lines = [f'{key} = "{seconds} s" # {option}' for key, (seconds, option) in times.items() if seconds is not None]
        if self.max_client_circuits_pending is not None:
            lines.append(f"max-client-circuits-pending = {self.max_client_circuits_pending} # MaxClientCircuitsPending")
        return lines

    def rank(self) -> tuple[int, ...]:
        """What they are sorted by."""
        return tuple(-1 if value is None else value for value in astuple(self))


#: What tornettools, and tornetgen before it, writes for clients that make load and for those that measure (``generate_tor.py``,
#: unchanged since 2020).
OF_MARKOV_CLIENTS = TorOptions(circuit_stream_timeout=120, socks_timeout=120, max_client_circuits_pending=1024)
OF_PERF_CLIENTS = TorOptions(circuit_lifetime=10)


def seconds(line: Line) -> int:
    """The value of a line as seconds, at most a week."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)\s*([a-z]*)", line.value.lower())
    if found is None or found[2] not in SECONDS:
        raise ImportedError(f'{line.where}: `{line.name} {clipped(line.value, 40)}` is no time such as "120" or "10 seconds"')
    return min(int(float(found[1]) * SECONDS[found[2]]), WEEK)


def milliseconds(line: Line) -> int:
    """The value of a line as milliseconds."""
    found = re.fullmatch(r"(\d{1,9})\s*([a-z]*)", line.value.lower())
    if found is None or found[2] not in MILLISECONDS:
        raise ImportedError(f'{line.where}: `{line.name} {clipped(line.value, 40)}` is no time such as "10" or "10 msec"')
    return int(found[1]) * MILLISECONDS[found[2]]


def scheduler(line: Line) -> str:
    """The first of ``Schedulers``, by the name that it has here; on Linux tor can have each."""
    first = line.value.split(",")[0].strip().lower()
    if first not in SCHEDULERS:
        raise ImportedError(
            f"{line.where}: `{line.name}` begins with {clipped(first, 40)!r}; there are KIST, KISTLite and Vanilla"
        )
    return SCHEDULERS[first]


def size(line: Line) -> int:
    """The value of a line as bytes."""
    found = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", line.value.lower())
    if found is None or found[2] not in BYTES:
        raise ImportedError(f'{line.where}: `{line.name} {clipped(line.value, 40)}` is no amount such as "5242880" or "5 MBytes"')
    return int(found[1]) * BYTES[found[2]]


def whole(line: Line, least: int, most: int) -> int:
    """The value of a line as a whole number in a range."""
    if not re.fullmatch(r"\d{1,12}", line.value) or not least <= int(line.value) <= most:
        allowed = f"a whole number from {least} to {most}"
        raise ImportedError(f"{line.where}: `{line.name}` is {clipped(line.value, 40)!r}, but must be {allowed}")
    return int(line.value)


def of_client(torrc: Torrc) -> TorOptions:
    """The options of a client that its group has as keys; times are raised and cut as tor does it."""

    def time(option: str, least: int) -> int | None:
        line = torrc.last(option)
        return None if line is None else max(seconds(line), least)

    stream_timeout, pending = torrc.last("circuitstreamtimeout"), torrc.last("maxclientcircuitspending")
    # Zero stands for tor's own schedule.
    own_schedule = stream_timeout is not None and seconds(stream_timeout) == 0
    return TorOptions(
        circuit_lifetime=time("maxcircuitdirtiness", 10),
        circuit_stream_timeout=None if own_schedule else time("circuitstreamtimeout", 10),
        socks_timeout=time("sockstimeout", 1),
        max_client_circuits_pending=None if pending is None else whole(pending, 1, 1024),
        new_circuit_period=time("newcircuitperiod", 1),
    )


@dataclass(frozen=True)
class Limits:
    """A relay's limits in bytes/s and bytes, of everything and of what it relays; None: no limit of its own."""

    rate: int | None = None
    burst: int | None = None
    relay_rate: int | None = None
    relay_burst: int | None = None


def limits(torrc: Torrc) -> Limits:
    """``BandwidthRate``, ``RelayBandwidthRate`` and bursts, completed as tor does (``options_validate_relay_bandwidth``)."""

    def given(option: str) -> int | None:
        line = torrc.last(option)
        return (size(line) or None) if line is not None else None

    rate, burst = given("bandwidthrate"), given("bandwidthburst")
    relay_rate, relay_burst = given("relaybandwidthrate"), given("relaybandwidthburst")
    relay_rate, relay_burst = relay_rate or relay_burst, relay_burst or relay_rate
    if rate is None:
        return Limits(relay_rate=relay_rate, relay_burst=relay_burst)
    burst = burst or DEFAULT_BURST
    if relay_rate is not None and relay_burst is not None:
        rate, burst = max(rate, relay_rate), max(burst, relay_burst)
    return Limits(rate, burst, relay_rate, relay_burst)


def consensus_params(lines: Iterable[Line]) -> dict[str, int]:
    """``ConsensusParams`` of an authority: names and whole numbers."""
    params: dict[str, int] = {}
    for line in lines:
        for entry in line.value.split():
            found = re.fullmatch(r"([A-Za-z0-9_-]{1,64})=(-?\d{1,10})", entry)
            if found is None or not -(2**31) <= int(found[2]) < 2**31:
                raise ImportedError(f"{line.where}: {clipped(entry, 60)!r} is no parameter such as `cc_alg=2`")
            params[found[1]] = int(found[2])
            if len(params) > MOST_PARAMS:
                raise ImportedError(f"{line.where}: an authority votes for more than {MOST_PARAMS:,} parameters")
    return params


#: Read in `of_client`, or by name in `tornettools` and `common`: of clients, relays and all.
OF_CLIENTS = frozenset(
    (
        "maxcircuitdirtiness",
        "circuitstreamtimeout",
        "sockstimeout",
        "maxclientcircuitspending",
        "newcircuitperiod",
        "useentryguards",
        "numentryguards",
        "enforcedistinctsubnets",
    )
)
OF_RELAYS = frozenset({"bandwidthrate", "bandwidthburst", "relaybandwidthrate", "relaybandwidthburst"}) | exit_policy.OPTIONS
OF_ALL = frozenset({"circuitpriorityhalflife", "confluxenabled", "testingtornetwork", "schedulers", "kistschedruninterval"})

#: Options that say what nothing here depends on: who a host is and where its files are, logs, statistics, controllers, how the
#: consensus comes about (flags, weights and addresses are read elsewhere), name resolution (servers are addresses), descriptors.
_WITHOUT_MEANING = """
    address contactinfo nickname datadirectory keydirectory cachedirectory pidfile user runasdaemon geoipfile geoipv6file
    log logmessagedomains logtimegranularity safelogging protocolwarnings heartbeatperiod truncatelogfile mainloopstats
    cellstatistics paddingstatistics dirreqstatistics entrystatistics exitportstatistics conndirectionstatistics
    hiddenservicestatistics extrainfostatistics overloadstatistics bridgerecordusagebycountry
    controlport controlsocket cookieauthentication cookieauthfile hashedcontrolpassword metricsport metricsportpolicy
    testingenableconnbwevent testingenablecellstatsevent testingenabletbemptyevent
    disabledebuggerattachment sandbox noexec avoiddiskwrites disableallswap __disablesignalhandlers __owningcontrollerprocess
    orport dirport clientonly dirauthority fallbackdir dircache dirpolicy authoritativedirectory v3authoritativedirectory
    v3bandwidthsfile v3authvotinginterval v3authvotedelay v3authdistdelay v3authnintervalsvalid
    testingv3authinitialvotinginterval testingv3authinitialvotedelay testingv3authinitialdistdelay testingv3authvotingstartoffset
    testingdirauthvoteguard testingdirauthvoteguardisstrict testingdirauthvoteexit testingdirauthvoteexitisstrict
    testingdirauthvotehsdir testingdirauthvotehsdirisstrict testingauthdirtimetolearnreachability testingmintimetoreportbandwidth
    minmeasuredbwsforauthtoignoreadvertised assumereachable assumereachableipv6 publishserverdescriptor
    fetchdirinfoearly fetchdirinfoextraearly fetchuselessdescriptors fetchserverdescriptors downloadextrainfo usemicrodescriptors
    serverdnsresolvconffile serverdnstestaddresses serverdnsallowbrokenconfig serverdnsdetecthijacking
    serverdnsallownonrfc953hostnames serverdnsrandomizecase serverdnssearchdomains
    dirallowprivateaddresses extendallowprivateaddresses exitpolicyrejectprivate countprivatebandwidth
    clientrejectinternaladdresses clientdnsrejectinternaladdresses refuseunknownexits authdirmaxserversperaddr
    maxadvertisedbandwidth shutdownwaitlength numcpus hardwareaccel dosrefusesinglehopclientrendezvous
    safesocks testsocks warnplaintextports
"""
WITHOUT_MEANING = frozenset(_WITHOUT_MEANING.split())

#: Options with values at which tor does what is done here anyway.
AS_HERE = {
    "socksport": r"\d+|auto|[\d.]+:\d+|",
    "doscircuitcreationenabled": "0",
    "dosconnectionenabled": "0",
    "dosstreamcreationenabled": "0",
    # So many circuits are not built, and paths are never found wanting.
    "pathbiasusethreshold": r"\d{4,}",
    "pathbiascircthreshold": r"\d{4,}",
    "connectionpadding": "0|auto",
    "circuitpadding": "0",
    "learncircuitbuildtimeout": "1",
    "disablenetwork": "0",
    "__disablepredictedcircuits": "0",
    "__leavestreamsunattached": "0",
    "exitpolicy": r"reject \*:\*",
    "exitrelay": "auto|0",
    "relaybandwidthrate": "0",
    "relaybandwidthburst": "0",
    "perconnbwrate": "0",
    "perconnbwburst": "0",
    "accountingmax": "0( .*)?",
    "maxmeminqueues": "0",
    "kistsockbufsizefactor": r"1(\.0*)?",
    "usebridges": "0",
    "bridgerelay": "0",
}


class Notes:
    """Options that were read and change nothing, with the hosts that have them."""

    def __init__(self) -> None:
        # By option, value and reason: the first host, and how many there are.
        self._found: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._names: dict[str, str] = {}
        self._full = False

    def add(self, line: Line, host: str, why: str = "is not modelled and left out") -> None:
        """An option of a host that is not taken in, and why."""
        key = line.option, line.value, why
        if key not in self._found and len(self._found) >= MOST_KINDS:
            self._full = True
            return
        self._names.setdefault(line.option, line.name.lstrip("+/"))
        first, count = self._found.get(key, (host, 0))
        self._found[key] = first, count + 1

    def look(self, torrc: Torrc, host: str, taken: frozenset[str]) -> None:
        """Note all options of a host but those in ``taken``, those without a meaning, and those that say what is so here."""
        for option, lines in torrc.options.items():
            if option in taken or option in WITHOUT_MEANING:
                continue
            for line in lines:
                allowed = AS_HERE.get(option)
                if allowed is not None and re.fullmatch(allowed, line.value.strip().lower()):
                    continue
                self.add(line, host)

    def sentences(self) -> list[str]:
        """One for each option and value, sorted."""
        sentences = []
        for (option, value, why), (first, count) in sorted(self._found.items()):
            who = first if count == 1 else f"{count} hosts ({first}, ...)"
            setting = f"{self._names[option]} {clipped(value, 60)}".strip()
            sentences.append(f"torrc: `{clipped(setting, 100)}` of {clipped(who, 80)} {why}.")
        more = len(sentences) - MOST_NOTES
        if more > 0:
            least = "at least " if self._full else ""
            sentences[MOST_NOTES:] = [f"torrc: {least}{more:,} more options or values are not modelled and left out."]
        return sentences
