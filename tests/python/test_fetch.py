"""Fetching a consensus, from a stand-in for CollecTor on this machine."""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import random
import tarfile
import threading
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from onionlab import _core, cli
from onionlab.live_network import fetch
from onionlab.live_network.fetch import FetchError
from onionlab.terminal import transfer

HOUR = datetime(2025, 6, 15, 17, tzinfo=UTC)
RECENT = "/recent/relay-descriptors/microdescs/consensus-microdesc/2025-06-15-17-00-00-consensus-microdesc"
ARCHIVE = "/archive/relay-descriptors/microdescs/microdescs-2025-06.tar.xz"
UNFLAVOURED = "/recent/relay-descriptors/consensuses/2025-06-15-17-00-00-consensus"


class Collector:
    """Files by address path, and how many bytes of them are really sent."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.lengths = True
        self.status = 404
        self.asked: list[str] = []
        self.base = ""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    state = Collector()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            content = state.files.get(self.path)
            if content is None:
                self.send_error(state.status)
                return
            self.send_response(200)
            if state.lengths:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # The reader may leave once it has what it wants.
            with contextlib.suppress(OSError):
                self.wfile.write(content[: state.cut])

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    state.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def document() -> bytes:
    text = _core.synth(json.dumps({"relays": 40, "year": 2025}))
    assert "valid-after 2025-06-15 17:00:00" in text
    return b"@type network-status-microdesc-consensus-3 1.0\n" + text.encode()


def archive(**members: bytes) -> bytes:
    """A monthly archive with documents by their hour, amid other files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("microdescs-2025-06/micro"), None)
        for hour, content in members.items():
            entry = tarfile.TarInfo(f"microdescs-2025-06/consensus-microdesc/15/2025-06-15-{hour[1:]}-00-00-consensus-microdesc")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return lzma.compress(packed.getvalue())


def get(collector: Collector, output: Path, flavour: str = "microdesc") -> fetch.Fetched:
    return fetch.consensus(HOUR, flavour, output, base=collector.base)


def refused(collector: Collector, folder: Path, flavour: str = "microdesc") -> str:
    """The sentence with which a document is refused; an older file stays as it is, and nothing else is left."""
    output = folder / "document"
    output.write_text("older", encoding="utf-8")
    with pytest.raises(FetchError) as error:
        get(collector, output, flavour)
    assert [path.name for path in folder.iterdir()] == ["document"]
    assert output.read_text(encoding="utf-8") == "older"
    return str(error.value)


def test_folders_of_what_is_refused_are_not_left(collector: Collector, tmp_path: Path) -> None:
    collector.files[RECENT] = b"<html>not what you want</html>"
    with pytest.raises(FetchError):
        get(collector, tmp_path / "new" / "deep" / "document", "microdesc")
    assert list(tmp_path.iterdir()) == []


def test_recent_document(collector: Collector, document: bytes, tmp_path: Path) -> None:
    collector.files[RECENT] = document
    told: list[tuple[int, int | None]] = []
    output = tmp_path / "new" / "document"
    found = fetch.consensus(
        HOUR, "microdesc", output, base=collector.base + "/", tell=lambda received, total: told.append((received, total))
    )
    assert found == fetch.Fetched(output, collector.base + RECENT, "2025-06-15 17:00:00", 40)
    assert output.read_bytes() == document.partition(b"\n")[2]
    assert told[-1] == (len(document), len(document))
    assert collector.asked == [RECENT]


def test_document_from_the_archive(collector: Collector, document: bytes, tmp_path: Path) -> None:
    collector.files[ARCHIVE] = archive(h16=b"another", h17=document, h18=b"another")
    output = tmp_path / "document.xz"
    assert get(collector, output).url == collector.base + ARCHIVE
    assert lzma.decompress(output.read_bytes()) == document.partition(b"\n")[2]
    assert json.loads(_core.consensus_summary(str(output)))["relays"] == 40
    assert collector.asked == [RECENT, ARCHIVE]


def test_archive_is_left_once_the_document_is_there(collector: Collector, document: bytes, tmp_path: Path) -> None:
    # What cannot be compressed stands for the rest of the month.
    rest = random.Random(1).randbytes(3_000_000)
    collector.files[ARCHIVE] = archive(h17=document, h18=rest)
    received = []
    fetch.consensus(HOUR, "microdesc", tmp_path / "x", base=collector.base, tell=lambda now, _: received.append(now))
    assert received[-1] < len(collector.files[ARCHIVE]) / 2


def test_name_without_output(collector: Collector, document: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    collector.files[RECENT] = document
    found = fetch.consensus(HOUR, "microdesc", base=collector.base)
    assert found.path == Path("2025-06-15-17-00-00-consensus-microdesc")
    assert found.path.is_file()


def test_neither_recent_nor_archived(collector: Collector, tmp_path: Path) -> None:
    told = refused(collector, tmp_path)
    assert told.startswith("there is no consensus of 2025-06-15 17:00 UTC: neither http://127.0.0.1")
    assert told.endswith(f"{ARCHIVE} exists")


def test_hour_that_the_archive_lacks(collector: Collector, document: bytes, tmp_path: Path) -> None:
    collector.files[ARCHIVE] = archive(h18=document, h16=document)
    assert refused(collector, tmp_path).endswith("has no consensus of 2025-06-15 17:00 UTC; of that day it has 16:00, 18:00")
    collector.files[ARCHIVE] = archive()
    assert refused(collector, tmp_path).endswith("it has none of that day")


def test_server_that_refuses(collector: Collector, tmp_path: Path) -> None:
    collector.status = 503
    assert "the server refuses with 503" in refused(collector, tmp_path)


def test_cut_off(collector: Collector, document: bytes, tmp_path: Path) -> None:
    collector.files[RECENT] = document
    collector.cut = len(document) // 2
    assert f"broke off after {collector.cut:,} of {len(document):,} bytes" in refused(collector, tmp_path)
    # Without a length, only the document itself can tell.
    collector.lengths = False
    told = refused(collector, tmp_path)
    assert "gave no usable consensus" in told
    assert ".document." not in told
    del collector.files[RECENT]
    collector.files[ARCHIVE] = archive(h16=lzma.compress(document) * 5, h17=document)
    collector.cut = len(collector.files[ARCHIVE]) // 2
    assert "is cut off" in refused(collector, tmp_path)


@pytest.mark.parametrize("garbage", [b"", b"<html>not what you want</html>\n" * 50, b"@type something\n", bytes(range(256))])
def test_garbage(collector: Collector, tmp_path: Path, garbage: bytes) -> None:
    collector.files[RECENT] = garbage
    assert "gave no usable consensus" in refused(collector, tmp_path)
    del collector.files[RECENT]
    collector.files[ARCHIVE] = garbage
    told = refused(collector, tmp_path)
    assert "not an archive" in told or "cut off" in told
    collector.files[ARCHIVE] = lzma.compress(garbage)
    told = refused(collector, tmp_path)
    assert "not an archive" in told or "it has none" in told


def test_another_document_than_asked_for(collector: Collector, document: bytes, tmp_path: Path) -> None:
    collector.files[RECENT] = document.replace(b"valid-after 2025-06-15 17", b"valid-after 2025-06-15 16")
    assert "consensus of 2025-06-15 16:00:00 UTC instead of the microdesc one of 2025-06-15 17:00" in refused(collector, tmp_path)
    collector.files[UNFLAVOURED] = document
    assert "gave the microdesc consensus" in refused(collector, tmp_path, "ns")


def test_bounds(collector: Collector, document: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector.files[RECENT] = document
    monkeypatch.setattr(fetch, "MAX_DOCUMENT", len(document) - 1)
    assert "more than the" in refused(collector, tmp_path)
    collector.lengths = False
    assert "more than the" in refused(collector, tmp_path)
    del collector.files[RECENT]
    collector.files[ARCHIVE] = archive(h17=document)
    assert "consensus-microdesc has" in refused(collector, tmp_path)
    monkeypatch.setattr(fetch, "MAX_UNPACKED", 100)
    assert "unpacks to more than the 100 bytes" in refused(collector, tmp_path)
    monkeypatch.setattr(fetch, "MAX_ARCHIVE", 100)
    assert "more than the 100 bytes" in refused(collector, tmp_path)


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    """One header of an archive."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    # `tobuf` makes no header of type x by itself.
    return entry.create_ustar_header(entry.get_info(), "utf-8", "strict")


def sized(size: bytes) -> bytes:
    """A header of a member with a size in binary form, such as -1, over which `tarfile` would go backwards; with its checksum."""
    made = bytearray(header(b"0", 0))
    made[124:136] = size
    made[148:156] = b" " * 8
    made[148:156] = f"{sum(made):06o}\0 ".encode()
    return bytes(made)


def long_header(kind: bytes, content: bytes) -> bytes:
    """A header with what belongs to it."""
    return header(kind, len(content)) + content + bytes(-len(content) % 512)


def pax(**values: str) -> bytes:
    """Values of an extended header."""
    return b"".join(
        f"{length} {key}={value}\n".encode()
        for key, value in ((key.replace("_", "."), value) for key, value in values.items())
        for length in range(len(key) + len(value) + 4, len(key) + len(value) + 10)
        if len(f"{length} {key}={value}\n".encode()) == length
    )


#: An archive is read for its long names and extended headers; each of these would take memory, or be a traceback.
HARMFUL = {
    "long name": (long_header(b"L", b"n" * 70_000), "a header has 70,000 bytes, more than the 65,536"),
    "long link": (long_header(b"K", b"n" * 70_000), "a header has 70,000 bytes"),
    "extended": (long_header(b"x", b"n" * 70_000), "a header has 70,000 bytes"),
    "for all": (long_header(b"g", b"n" * 70_000), "a header has 70,000 bytes"),
    "Solaris": (long_header(b"X", b"n" * 70_000), "a header has 70,000 bytes"),
    "less than nothing": (sized(b"\xff" * 12), "a member has -1 bytes"),
    "without end": (sized(b"\x80" + b"\xff" * 11), "a member has 309,485,009,821,345,068,724,781,055 bytes"),
    "without end, extended": (long_header(b"x", pax(size="9" * 30)) + header(b"0", 0), "a member has 999,999,999,999,"),
    "not there": (sized(b"\x80" + bytes(6) + b"\x0f" + b"\xff" * 4), "is cut off"),
    "chain": (long_header(b"x", pax(a="b")) * 3_000, "its headers are about each other"),
    "values for all": (
        b"".join(long_header(b"g", b"".join(pax(**{f"k{n}_{m}": "v"}) for m in range(50))) for n in range(5)) + header(b"0", 0),
        "more than 100 values",
    ),
    "long number": (long_header(b"x", b"9" * 5_000 + b" a=b\n"), "not an archive"),
    "sparse": (header(b"S", 0), "it has sparse files"),
    "sparse 0.0": (long_header(b"x", pax(GNU_sparse_size="many")) + header(b"0", 0), "it has sparse files"),
    "sparse 0.1": (long_header(b"x", pax(GNU_sparse_map="many")) + header(b"0", 0), "it has sparse files"),
    "sparse 1.0": (
        long_header(b"x", pax(GNU_sparse_major="1", GNU_sparse_minor="0")) + header(b"0", 2**20) + b"9" * 4000 + b"\n1" * 2**19,
        "it has sparse files",
    ),
}


@pytest.mark.parametrize("kind", HARMFUL)
def test_headers_that_take_memory(kind: str, collector: Collector, document: bytes, tmp_path: Path) -> None:
    content, sentence = HARMFUL[kind]
    collector.files[ARCHIVE] = lzma.compress(content + bytes(10_240))
    told = refused(collector, tmp_path)
    assert sentence in told
    assert "\n" not in told


def test_long_names_within_bounds(collector: Collector, document: bytes, tmp_path: Path) -> None:
    name = f"{'long/' * 50}2025-06-15-17-00-00-consensus-microdesc"
    member = document + bytes(-len(document) % 512)
    for before in (long_header(b"L", name.encode() + b"\0"), long_header(b"g", pax(a="b")) + long_header(b"x", pax(path=name))):
        collector.files[ARCHIVE] = lzma.compress(before + header(b"0", len(document)) + member)
        assert get(collector, tmp_path / "document").relays == 40


def test_an_archive_that_asks_for_memory(collector: Collector, tmp_path: Path) -> None:
    packed = bytearray(archive())
    # The byte about the dictionary's size in the header of the first block, which comes with a checksum: 4 GiB.
    packed[16] = 40
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    collector.files[ARCHIVE] = bytes(packed)
    assert "Memory usage limit" in refused(collector, tmp_path)


def test_an_archive_of_many_members(collector: Collector, tmp_path: Path) -> None:
    collector.files[ARCHIVE] = lzma.compress(b"") * 20_000
    assert "packed files one after the other" in refused(collector, tmp_path)


def test_many_lines_about_the_type_take_no_time(collector: Collector, tmp_path: Path) -> None:
    collector.files[RECENT] = b"@\n" * 2_000_000
    assert "gave no usable consensus" in refused(collector, tmp_path)


@pytest.mark.parametrize("output", [".", "/", "folder"])
def test_output_that_is_a_folder(output: str, collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(FetchError, match="it is a folder, but the document needs the name of a file"):
        get(collector, Path(output))
    assert collector.asked == []


def test_no_network(tmp_path: Path, collector: Collector) -> None:
    collector.base = "http://127.0.0.1:1"
    assert "cannot reach http://127.0.0.1:1/recent" in refused(collector, tmp_path)
    collector.base = "file:///etc"
    assert "starts with http:// or https://" in refused(collector, tmp_path)


def test_output_that_cannot_be_written(collector: Collector, document: bytes, tmp_path: Path) -> None:
    collector.files[RECENT] = document
    (tmp_path / "file").touch()
    with pytest.raises(FetchError, match="cannot write"):
        get(collector, tmp_path / "file" / "document")


@pytest.mark.parametrize(("text", "hour"), [("2025-06-15", 0), ("2025-06-15T17", 17)])
def test_hours(text: str, hour: int) -> None:
    assert fetch.parse_hour(text) == datetime(2025, 6, 15, hour, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "2025-06", "2025-02-30", "2025-06-15T24", "yesterday"])
def test_bad_hours(text: str) -> None:
    with pytest.raises(ValueError, match="is not a date"):
        fetch.parse_hour(text)


def test_command_line(
    collector: Collector, document: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> object:
        monkeypatch.setattr("sys.argv", ["onionlab", "fetch", "consensus", *words])
        try:
            cli.main()
        except SystemExit as left:
            return left.code
        return 0

    output = tmp_path / "document"
    wanted = ("--flavour", "microdesc", "-o", str(output), "--url", collector.base)
    assert call("--date", "2025-06-15T17", *wanted) == 1
    assert capsys.readouterr().err.startswith("onionlab: there is no consensus of 2025-06-15 17:00 UTC")
    collector.files[RECENT] = document
    assert call("--date", "2025-06-15T17", *wanted) == 0
    told = capsys.readouterr()
    assert "40 relays" in told.out
    assert "signatures were not verified" in told.out
    assert output.is_file()
    assert call("--date", "soon", *wanted) == 2
    assert call("--date", "2025-06-15T17", "--flavour", "vanilla") == 2


def test_bar_appears_only_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(transfer.time, "monotonic", lambda: clock[0])
    shown = io.StringIO()
    with transfer.FetchDisplay(Console(file=shown, force_terminal=True, width=100)) as display:
        display.moved(1_000_000, 4_000_000)
        assert shown.getvalue() == ""
        clock[0] = 2.5
        display.moved(2_000_000, 4_000_000)
    assert "fetching" in shown.getvalue()
    assert "1.9/3.8 MiB" in shown.getvalue()
