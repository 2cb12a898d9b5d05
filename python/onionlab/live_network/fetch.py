"""The consensus of an hour of the past, from CollecTor, the archive of the Tor project.

CollecTor keeps the documents of about three days as single files below ``recent`` and all others in monthly archives below
``archive``. An archive is read as it arrives and left as soon as the document has been found in it; nothing but the document
reaches the disk, and only once it has been read as a consensus of that hour. Its signatures are not verified.
"""

from __future__ import annotations

import json
import lzma
import os
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import IO, cast

from onionlab import _core
from onionlab.errors import DocumentError, OnionlabError, ResultsError
from onionlab.files import draft_of_file, file_behind, folders_above, is_folder, remove_drafts
from onionlab.unpacking import XZ, Unpacked

#: Where CollecTor is.
COLLECTOR = "https://collector.torproject.org"

#: Largest document that is accepted, in bytes; the largest consensus so far has 4 MB.
MAX_DOCUMENT = 32 * 2**20

#: How much of a monthly archive is read at most, in bytes: as it is sent, and unpacked.
MAX_ARCHIVE = 4 * 2**30
MAX_UNPACKED = 64 * 2**30

#: Largest header of an archive for a long name or with further values, in bytes, and most values that hold for all that follows.
MAX_HEADER, MAX_GLOBAL = 64 * 1024, 100

#: Types of such headers.
HEADERS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)

#: Seconds without a byte after which a server counts as gone.
PATIENCE = 60.0

#: What is read at once, in bytes.
PIECE = 64 * 1024

#: Is told how many bytes of how many have arrived; the latter is None where the server does not say.
Tell = Callable[[int, int | None], None]


class FetchError(OnionlabError):
    """A document could not be had: no network, no such document, or what came is not one."""

    code = "fetch"


class _NotThereError(FetchError):
    """The server says that it has no such file."""


@dataclass(frozen=True)
class Flavour:
    """One of the two forms of a consensus, and where CollecTor keeps it.

    Attributes
    ----------
    recent
        Folder of single documents, below ``recent/relay-descriptors``.
    archive
        Monthly archives, below ``archive/relay-descriptors``, without ``-YYYY-MM.tar.xz``.
    suffix
        End of a document's name.
    summary
        What `onionlab._core.consensus_summary` calls it.
    """

    recent: str
    archive: str
    suffix: str
    summary: str


#: By name on the command line. The unflavoured consensus has exit policies, the other one has not.
FLAVOURS = {
    "ns": Flavour("consensuses", "consensuses/consensuses", "consensus", "unflavoured"),
    "microdesc": Flavour("microdescs/consensus-microdesc", "microdescs/microdescs", "consensus-microdesc", "microdesc"),
}


@dataclass(frozen=True)
class Fetched:
    """A consensus that has been fetched.

    Attributes
    ----------
    path
        Where it is.
    url
        Where it came from.
    valid_after
        Its hour, as in the document.
    relays
        How many relays it lists.
    """

    path: Path
    url: str
    valid_after: str
    relays: int


def parse_hour(text: str) -> datetime:
    """Read ``YYYY-MM-DD`` (midnight) or ``YYYY-MM-DDTHH``, in UTC.

    Raises
    ------
    ValueError
        If the text is neither.
    """
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not a date such as 2021-11-15 or an hour such as 2021-11-15T13 (UTC)")


def document_name(hour: datetime, flavour: str) -> str:
    """CollecTor's name of a document."""
    return f"{hour:%Y-%m-%d-%H}-00-00-{FLAVOURS[flavour].suffix}"


def consensus(
    hour: datetime, flavour: str = "ns", output: Path | None = None, *, base: str = COLLECTOR, tell: Tell | None = None
) -> Fetched:
    """Fetch the consensus of an hour.

    Parameters
    ----------
    hour : datetime
        Its hour in UTC.
    flavour : str
        A key of `FLAVOURS`.
    output : path, optional
        The file; compressed if its name ends in ``.xz``. CollecTor's name in the working folder if absent.
    base : str
        Address of CollecTor or of a mirror of it.
    tell : callable, optional
        Is told how far the transfer is.

    Raises
    ------
    FetchError
        If it cannot be had; nothing is left on the disk then.
    """
    wanted = FLAVOURS[flavour]
    if not _is_address(base):
        raise FetchError(f"{base!r} is not an address that starts with http:// or https://")
    name = document_name(hour, flavour)
    path = output if output is not None else Path(name)
    place = _place_of(path)
    base = base.rstrip("/")
    report = tell if tell is not None else _silent
    url = f"{base}/recent/relay-descriptors/{wanted.recent}/{name}"
    try:
        text = _single(url, report)
    except _NotThereError:
        recent = url
        url = f"{base}/archive/relay-descriptors/{wanted.archive}-{hour:%Y-%m}.tar.xz"
        try:
            text = _from_archive(url, name, report)
        except _NotThereError:
            raise FetchError(f"there is no consensus of {hour:%Y-%m-%d %H}:00 UTC: neither {recent} nor {url} exists") from None
    return _keep(text, path, place, url, hour, wanted)


def _is_address(base: str) -> bool:
    try:
        return urllib.parse.urlsplit(base).scheme in ("http", "https")
    except ValueError:
        # As with brackets that hold no address of IPv6.
        return False


def _silent(_received: int, _total: int | None) -> None:
    pass


class _Arriving:
    """A reader of what a server sends: counts it, bounds it, and notices when the server stops early."""

    def __init__(self, url: str, limit: int, tell: Tell) -> None:
        self._url, self._limit, self._tell = url, limit, tell
        request = urllib.request.Request(url, headers={"User-Agent": f"onionlab/{_core.version()}"})
        try:
            self._answer = urllib.request.urlopen(request, timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise _NotThereError(f"{url} does not exist") from None
            raise FetchError(f"{url}: the server refuses with {error.code} {error.reason}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise FetchError(f"cannot reach {url}: {_reason(error)}; is there a network, and is the address right?") from error
        length = self._answer.headers.get("Content-Length", "")
        self._total = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
        self._received = 0
        if self._total is not None and self._total > limit:
            self.close()
            raise FetchError(f"{url} has {self._total:,} bytes, more than the {limit:,} that are accepted")

    def read(self, size: int = PIECE) -> bytes:
        """At most so many bytes; none at the end."""
        try:
            piece = cast(bytes, self._answer.read(max(1, min(size, PIECE))))
        except (OSError, HTTPException, ValueError) as error:
            raise FetchError(f"{self._url}: the transfer broke off after {self._received:,} bytes: {_reason(error)}") from error
        self._received += len(piece)
        if self._received > self._limit:
            raise FetchError(f"{self._url} has more than the {self._limit:,} bytes that are accepted")
        if not piece and self._total is not None and self._received < self._total:
            raise FetchError(f"{self._url}: the transfer broke off after {self._received:,} of {self._total:,} bytes")
        self._tell(self._received, self._total)
        return piece

    def close(self) -> None:
        """Hang up."""
        self._answer.close()


class _Bounded:
    """A reader of unpacked bytes that ends at a bound, and does not let itself be asked for ever for more than there is."""

    def __init__(self, stream: Unpacked, url: str) -> None:
        self._stream, self._url, self._left = stream, url, MAX_UNPACKED
        self._after_the_end = 0

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        piece = self._stream.read(size) or b""
        self._after_the_end += not piece
        if self._after_the_end > 100:
            raise EOFError
        self._left -= len(piece)
        if self._left < 0:
            raise FetchError(f"{self._url} unpacks to more than the {MAX_UNPACKED:,} bytes that are accepted")
        return piece


class _Entry(tarfile.TarInfo):
    """A header of an archive, which is not read where it can make `tarfile` take any amount of memory.

    Long names and extended headers are read as a whole, extended headers for all that follows (``g``) are kept, and the map of a
    sparse file is as long as it says itself.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._check_size(self)
        if self.type in HEADERS and self.size > MAX_HEADER:
            raise tarfile.ReadError(f"a header has {self.size:,} bytes, more than the {MAX_HEADER:,} that are accepted")
        if self.type == tarfile.XGLTYPE and len(archive.pax_headers) > MAX_GLOBAL:
            raise tarfile.ReadError(f"it has headers with more than {MAX_GLOBAL} values for all that follows")
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        # Which an extended header may have changed.
        self._check_size(member)
        return member

    @staticmethod
    def _check_size(member: tarfile.TarInfo) -> None:
        # `tarfile` goes over all of it in small steps, whether it is there or not.
        if not 0 <= member.size <= MAX_UNPACKED:
            raise tarfile.ReadError(f"a member has {member.size:,} bytes")

    def _refuse_sparse(self, *_: object) -> None:
        raise tarfile.ReadError("it has sparse files")

    # The three forms of sparse files by extended headers.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def _reason(error: Exception) -> str:
    """What went wrong, without the names of classes around it."""
    inner = getattr(error, "reason", None) or error
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def _single(url: str, tell: Tell) -> bytes:
    """The document behind an address."""
    with closing(_Arriving(url, MAX_DOCUMENT, tell)) as arriving:
        return b"".join(iter(arriving.read, b""))


def _from_archive(url: str, name: str, tell: Tell) -> bytes:
    """A document out of a monthly archive, which is read no further than to its end."""
    day, others = name[: len("YYYY-MM-DD")], set[str]()
    of_day = {f"{day}-{hour:02}{name[len('YYYY-MM-DD-HH') :]}": f"{hour:02}:00" for hour in range(24)}
    with closing(_Arriving(url, MAX_ARCHIVE, tell)) as arriving:
        try:
            unpacked = cast(IO[bytes], _Bounded(Unpacked(iter(arriving.read, b""), XZ), url))
            with tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Entry) as archive:
                for member in archive:
                    found = member.name.rpartition("/")[2]
                    if found == name and member.isfile():
                        return _member(archive, member, url)
                    if found in of_day:
                        others.add(of_day[found])
                    # The list of all members would grow with the archive.
                    archive.members = []  # type: ignore[attr-defined]
        except EOFError:
            raise FetchError(f"{url} is cut off: the compressed data ends early") from None
        except RecursionError:
            raise FetchError(f"{url} is not an archive of consensus documents: its headers are about each other") from None
        except (lzma.LZMAError, tarfile.TarError, ValueError) as error:
            # The latter comes of numbers in extended headers.
            raise FetchError(f"{url} is not an archive of consensus documents: {error}") from error
    there = f"of that day it has {', '.join(sorted(others))}" if others else "it has none of that day"
    raise FetchError(f"{url} has no consensus of {day} {name[11:13]}:00 UTC; {there}")


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, url: str) -> bytes:
    if member.size > MAX_DOCUMENT:
        raise FetchError(f"{url}: {member.name} has {member.size:,} bytes, more than the {MAX_DOCUMENT:,} that are accepted")
    stream = archive.extractfile(member)
    text = stream.read() if stream is not None else b""
    if len(text) != member.size:
        raise FetchError(f"{url} is cut off within {member.name}")
    return text


def _place_of(path: Path) -> Path:
    """The file that a document will be, which is found out before it is fetched."""
    if is_folder(path):
        raise FetchError(f"cannot write {path}: it is a folder, but the document needs the name of a file")
    try:
        place = file_behind(path)
    except ResultsError as error:
        raise FetchError(str(error)) from error
    if place is None:
        raise FetchError(f"cannot write {path}: it is no ordinary file")
    above = next(folder for folder in place.absolute().parents if os.path.lexists(folder))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise FetchError(f"cannot write {path}: {above} is no folder into which anything can be written")
    return place


def _keep(text: bytes, path: Path, place: Path, url: str, hour: datetime, wanted: Flavour) -> Fetched:
    """Read the document as a consensus, and put it into its place only if it is the one that was asked for."""
    # CollecTor puts a line such as "@type network-status-consensus-3 1.0" before it, which is no part of the document.
    start = 0
    while text.startswith(b"@", start):
        start = text.find(b"\n", start) + 1 or len(text)
    text = text[start:]
    draft = draft_of_file(place)
    try:
        with folders_above(place):
            remove_drafts(place.parent, (place.name,))
            try:
                draft.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)
                summary = _check(draft, url, hour, wanted)
                draft.replace(place)
            finally:
                with suppress(OSError):
                    draft.unlink()
    except OSError as error:
        raise FetchError(f"cannot write {path}: {error.strerror}") from error
    return Fetched(path, url, str(summary["valid_after"]), int(str(summary["relays"])))


def _check(draft: Path, url: str, hour: datetime, wanted: Flavour) -> dict[str, object]:
    """What the document says of itself; one that is not the one that was asked for is refused."""
    try:
        summary = json.loads(_core.consensus_summary(str(draft)))
    except DocumentError as error:
        reason = str(error).replace(str(draft), "the document").replace(draft.name, "the document")
        raise FetchError(f"{url} gave no usable consensus: {reason}") from error
    if summary["valid_after"] != f"{hour:%Y-%m-%d %H}:00:00" or summary["flavour"] != wanted.summary:
        raise FetchError(
            f"{url} gave the {summary['flavour']} consensus of {summary['valid_after']} UTC "
            f"instead of the {wanted.summary} one of {hour:%Y-%m-%d %H}:00 UTC"
        )
    return dict(summary)
