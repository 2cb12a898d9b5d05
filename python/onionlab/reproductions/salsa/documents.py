"""The consensus documents of the reproduction of SALSA: which stands for which month, and policies where a document has none."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from onionlab import _core, shared_links
from onionlab.errors import DocumentError
from onionlab.files import write_text
from onionlab.untrusted import read_bytes

#: The middle of the paper's month.
NOVEMBER = datetime(2021, 11, 15, 12, tzinfo=UTC)

#: The paper averages the documents of every day. Fewer days than these do not stand for a month, or for a year.
DAYS_OF_MONTH, DAYS_OF_YEAR = 25, 300

#: Exits without a policy of their own serve nothing.
NOTHING = "p reject 1-65535"


@dataclass(frozen=True)
class Document:
    """A consensus: its file, hour, number of relays, and whether it has exit policies."""

    path: Path
    valid_after: datetime
    relays: int
    policies: bool

    @property
    def day(self) -> str:
        """Its day in words."""
        return f"{self.valid_after:%B} {self.valid_after.day}, {self.valid_after.year}"


@dataclass(frozen=True)
class Documents:
    """Which documents answer which claims.

    Attributes
    ----------
    over_time
        One for each hour, by time.
    november, year
        Those of November 2021 and of 2021, however few, or the one that stands in.
    policies
        The one with exit policies, for the traffic classes; None is the built-in network.
    policies_from
        The one whose policies were given to the document of ``policies``; None if that has its own.
    original
        Of ``november``, ``year`` and ``policies`` those which are the paper's own: of nearly all days.
    synthetic
        Whether all of them are made by onionlab.
    """

    over_time: tuple[Document, ...]
    november: tuple[Document, ...]
    year: tuple[Document, ...]
    policies: Document | None
    policies_from: Document | None
    original: frozenset[str]
    synthetic: bool = False

    @property
    def main(self) -> Document:
        """The one nearest to the middle of November 2021."""
        return self.november[len(self.november) // 2]


def read(path: Path) -> Document:
    """What a file is.

    Raises
    ------
    DocumentError
        If it is no consensus.
    """
    summary = json.loads(_core.consensus_summary(str(path)))
    hour = datetime.strptime(summary["valid_after"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return Document(path, hour, int(summary["relays"]), bool(summary["policies"]))


def text_of(path: Path) -> str:
    """The text of a document, unpacked.

    Raises
    ------
    DocumentError
        If it cannot be read or unpacked, or is too large.
    """
    return read_bytes(path).decode("utf-8", errors="replace")


def gather(paths: Iterable[Path], scratch: Path) -> Documents:
    """Read files and folders, and find out which stands for what.

    Parameters
    ----------
    paths : paths
        Files, and folders of files (`onionlab.shared_links.documents`). Without any, synthetic networks take their place.
    scratch : path
        Folder for documents that are made here.

    Raises
    ------
    DocumentError
        If a folder has no document in it, or a file does not exist or is no consensus.
    """
    files = [Path(name) for name in shared_links.documents(list(paths))]
    if not files:
        return _synthetic(scratch)
    found = sorted((read(path) for path in files), key=lambda one: (one.valid_after, one.policies, one.path))
    return _arrange(found, scratch)


def _arrange(found: Sequence[Document], scratch: Path, synthetic: bool = False) -> Documents:
    hours = {one.valid_after: one for one in found}
    over_time = tuple(hours.values())
    of_year = tuple(one for one in over_time if one.valid_after.year == NOVEMBER.year)
    of_month = tuple(one for one in of_year if one.valid_after.month == NOVEMBER.month)
    nearest = min(over_time, key=_distance)
    november = of_month or (nearest,)
    main = november[len(november) // 2]
    own = {"november": days(of_month) >= DAYS_OF_MONTH, "year": days(of_year) >= DAYS_OF_YEAR}
    original = {name for name, whole in own.items() if whole and not synthetic}
    donor = policies = None
    if main.policies:
        policies = main
        if "november" in original:
            original.add("policies")
    else:
        donors = [one for one in found if one.policies]
        if donors:
            donor = min(donors, key=_distance)
            policies = _with_policies(main, donor, scratch)
    return Documents(over_time, november, of_year or (nearest,), policies, donor, frozenset(original), synthetic)


def days(documents: Iterable[Document]) -> int:
    """Of how many days they are."""
    return len({one.valid_after.date() for one in documents})


def _distance(document: Document) -> float:
    return abs((document.valid_after - NOVEMBER).total_seconds())


def _synthetic(scratch: Path) -> Documents:
    """Networks made by onionlab, one for each year that it can imitate."""
    found = []
    for year in range(2017, 2036):
        try:
            text = _core.synth(json.dumps({"year": year}))
        except DocumentError:
            continue
        path = scratch / f"synthetic-{year}.txt"
        write_text(path, text)
        found.append(read(path))
    return _arrange(found, scratch, synthetic=True)


def _with_policies(main: Document, donor: Document, scratch: Path) -> Document:
    path = scratch / f"{main.valid_after:%Y-%m-%d-%H}-with-policies-of-{donor.valid_after:%Y-%m-%d}.txt"
    write_text(path, graft(text_of(main.path), text_of(donor.path)))
    return read(path)


def graft(text: str, donor: str) -> str:
    """An unflavoured consensus with the relays of one document and the exit policies of another.

    An exit keeps its own policy of the donor if it is there and serves the web. Others get the policy of the exit with the next
    lower weight that has one.
    """
    policies = {entry[0].split(" ")[2]: _line(entry, "p ") for entry in entries(donor)[1] if _line(entry, "p ")}
    head, relays, foot = entries(text)
    exits = [number for number, entry in enumerate(relays) if "Exit" in _line(entry, "s ").split()]
    exits.sort(key=lambda number: (weight(relays[number]), base64.b64decode(relays[number][0].split(" ")[2] + "=")))
    chosen, last = {}, NOTHING
    for number in exits:
        own = policies.get(relays[number][0].split(" ")[2], "")
        if serves(own, 443):
            last = own
        chosen[number] = last
    made = ["network-status-version 3", *(line for line in head if not line.startswith("network-status-version "))]
    flavoured = any(line.startswith("network-status-version 3 microdesc") for line in head)
    for number, entry in enumerate(relays):
        for line in entry:
            if line.startswith("r ") and flavoured:
                # The unflavoured form has the digest of the descriptor after the identity; nobody reads it here.
                words = line.split(" ")
                made.append(" ".join([*words[:3], "A" * 27, *words[3:]]))
            elif not line.startswith(("m ", "p ")):
                made.append(line)
        made.append(chosen.get(number, NOTHING))
    return "\n".join([*made, *foot]) + "\n"


def entries(text: str) -> tuple[list[str], list[list[str]], list[str]]:
    """The lines of a document: those before its relays, those of each relay, and those after."""
    head: list[str] = []
    relays: list[list[str]] = []
    foot: list[str] = []
    # Other ends of lines than this one may stand within a line, such as that of tor's version.
    for line in text.removesuffix("\n").split("\n"):
        if foot or line == "directory-footer":
            foot.append(line)
        elif line.startswith("r "):
            relays.append([line])
        else:
            (relays[-1] if relays else head).append(line)
    return head, relays, foot


def weight(entry: list[str]) -> int:
    """Consensus weight of a relay; 0 without one."""
    words = _line(entry, "w ").split()
    return next((int(word.removeprefix("Bandwidth=")) for word in words if word.startswith("Bandwidth=")), 0)


def flags(entry: list[str]) -> frozenset[str]:
    """Flags of a relay."""
    return frozenset(_line(entry, "s ").split()[1:])


def serves(policy: str, port: int) -> bool:
    """Whether a policy summary such as ``p accept 80,443,6000-7000`` lets a port through."""
    words = policy.split()
    if len(words) != 3:
        return False
    ranges = [part.partition("-") for part in words[2].split(",")]
    inside = any(int(low) <= port <= int(high or low) for low, _, high in ranges)
    return inside == (words[1] == "accept")


def _line(entry: list[str], start: str) -> str:
    return next((line for line in entry if line.startswith(start)), "")
