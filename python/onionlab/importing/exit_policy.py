"""What an exit lets out, from its torrc to the summary that a consensus has of it.

Source: ``core/or/policies.c`` (``policies_parse_exit_policy``, ``policy_summarize``), for IPv4. The first entry that fits a port
counts. A summary has no addresses: an entry that accepts some of them adds nothing, and those that reject some take a port away
where they reject more than two networks of eight bits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

import numpy as np

from onionlab.errors import ImportedError
from onionlab.importing.torrc import Torrc
from onionlab.untrusted import clipped

#: What is read; a relay without any of it lets out what its name says.
OPTIONS = frozenset({"exitpolicy", "exitrelay"})

#: tor's own, behind what the torrc says (``DEFAULT_EXIT_POLICY``).
DEFAULT = (
    "reject *:25,reject *:119,reject *:135-139,reject *:445,reject *:563,reject *:1214,reject *:4661-4666,"
    "reject *:6346-6429,reject *:6699,reject *:6881-6999,accept *:*"
)

#: Most entries of a relay.
MOST_ENTRIES = 1_000

#: So many rejected addresses leave a port accepted (``REJECT_CUTOFF_COUNT_IPV4``).
CUTOFF = 2 ** (32 - 7)

#: Ports by number; the first stands for none.
PORTS = 2**16

ENTRY = re.compile(r"(accept|reject)(6?)\s+(\S+?)(?::(\*|\d{1,5}(?:-\d{1,5})?))?\Z")


def summary(torrc: Torrc) -> str | None:
    """As a ``p`` line of a consensus has it, such as ``accept 80,443``; None where the torrc says nothing.

    Raises
    ------
    ImportedError
        If an entry is none, or there are too many.
    """
    lines = torrc.options.get("exitpolicy", ())
    relays = torrc.last("exitrelay")
    switch = relays.value.strip().lower() if relays is not None else "auto"
    if switch == "0":
        return "reject 1-65535"
    if not lines and switch == "auto":
        return None
    where = lines[0].where if lines else (relays.where if relays is not None else "")
    return _summarised(where, ",".join(line.value for line in lines))


@lru_cache(maxsize=1024)
def _summarised(where: str, policy: str) -> str:
    """The summary of a policy with tor's default behind it; most relays of a network have one of a few."""
    entries = [entry.strip() for entry in f"{policy},{DEFAULT}".split(",") if entry.strip()]
    if len(entries) > MOST_ENTRIES:
        raise ImportedError(f"{where}: an exit policy of {len(entries):,} entries; at most {MOST_ENTRIES:,} are taken in")
    accepted = np.zeros(PORTS, dtype=bool)
    rejected = np.zeros(PORTS, dtype=np.int64)
    for entry in entries:
        found = ENTRY.match(entry.lower())
        if found is None:
            raise ImportedError(
                f"{where}: `ExitPolicy {clipped(entry, 60)}` is no entry such as `accept *:80` or `reject *:1-1023`"
            )
        ports = _ports(where, entry, found[4])
        count = 0 if found[2] else _addresses(where, entry, found[3])
        if found[1] == "reject":
            rejected[ports] += count
        elif count == 2**32:
            accepted[ports] |= rejected[ports] <= CUTOFF
    accepted[0] = False
    return _in_words(accepted)


def _ports(where: str, entry: str, given: str | None) -> slice:
    if given in (None, "*"):
        return slice(1, PORTS)
    first, _, last = given.partition("-")
    low, high = int(first), int(last or first)
    if not 1 <= low <= high < PORTS:
        raise ImportedError(f"{where}: `ExitPolicy {clipped(entry, 60)}` has ports that are none; allowed are 1 to 65535")
    return slice(low, high + 1)


def _addresses(where: str, entry: str, given: str) -> int:
    """How many addresses of the internet that is simulated an entry is about: none of IPv6, none that are private."""
    if given in ("*", "*4"):
        return 2**32
    if given in ("*6", "private") or given.startswith("["):
        return 0
    try:
        network = IPv4Network(given, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise ImportedError(f"{where}: `ExitPolicy {clipped(entry, 60)}` has an address that is none") from error
    return 0 if network.is_private and network.prefixlen > 0 else network.num_addresses


def _in_words(accepted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    """Ranges of ports, by the shorter of what is accepted and what is rejected."""
    if not accepted.any():
        return "reject 1-65535"
    if accepted[1:].all():
        return "accept 1-65535"
    words = {"accept": _ranges(accepted), "reject": _ranges(np.concatenate(([False], ~accepted[1:])))}
    kind = min(words, key=lambda word: len(words[word]))
    return f"{kind} {','.join(words[kind])}"


def _ranges(ports: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[str]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], ports, [False])).astype(np.int8)))
    pairs = edges.reshape(-1, 2)
    return [f"{low}" if low == high - 1 else f"{low}-{high - 1}" for low, high in pairs.tolist()]
