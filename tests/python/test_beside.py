"""Files that are written by hand: what is wrong with one is said in one sentence."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from onionlab.errors import DocumentError, ResultsError
from onionlab.reproductions import beside, published, salsa, shadow_tor
from onionlab.reproductions.kept import INDEX, Form, Kept
from onionlab.reproductions.salsa import documents
from onionlab.reproductions.shadow_tor import vegas_trace


def read(folder: Path) -> list[dict[str, str]]:
    with beside.checked(f"{folder} is no folder of a reproduction"):
        return beside.assumptions(beside.toml(folder / "assumptions.toml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, r"cannot read .*assumptions\.toml: No such file.*--experiments names the folder"),
        ("[[assumption]]\nwhat = 'rates'\nchosen = '1'\n", "is no folder of a reproduction: 'why' is missing"),
        ("other = 1\n", "'assumption' is missing"),
        ("a = 1\n[[assumption", "is no folder of a reproduction: Expected"),
        ("assumption = 3\n", "is no folder of a reproduction: .*iterable"),
        (f"a = {'[' * 100_000}", "is no folder of a reproduction: maximum recursion"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "assumptions.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError, match=sentence) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot read .*: there is no such file"),
        (b"", "is no table with the columns `ok`, `t`: empty CSV"),
        (b"a,b\n1,2\n", "is no table with the columns `ok`, `t`: unable to find column"),
        (b"ok,t\n1,soon\n", "is no table with the columns"),
        (b"\xff\xfe\x00", "is no table with the columns"),
        (b"\xfd7zXZ\x00not packed", "cannot be unpacked"),
        (lzma.compress(bytes(2**27)), "has more than 64 MiB"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(content: bytes | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv.xz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ResultsError, match=sentence) as caught:
        beside.table(path, {"ok": pl.Int64(), "t": pl.Float64()})
    assert "\n" not in str(caught.value)
    path.write_bytes(lzma.compress(b"t,ok,more\n1,2,x\n"))
    assert beside.table(path, {"ok": pl.Int64(), "t": pl.Float64()}).rows() == [(2, 1.0)]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("results.csv", published.load_samples),
        ("vegas_trace_exit.csv.xz", vegas_trace.load_theirs),
        ("differences.toml", lambda folder: shadow_tor.load_reasons(folder / "differences.toml")),
        ("published.json", lambda folder: salsa.load_published(folder / "published.json")),
        (INDEX, lambda folder: Kept(folder, Form(1, {}))),
    ],
)
@pytest.mark.parametrize(
    "content", [b"", b"caf\xe9 = '\xe9'", b"difference = 3", b"[" * 100_000, b'{"claims": ["a"]}', b"a,b\n1,2\n"]
)
def test_files_of_something_else_are_one_sentence(
    name: str, read: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    if name == "differences.toml" and content == b"":
        # No difference at all.
        assert read(tmp_path)
        return
    with pytest.raises(ResultsError) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def test_lines_of_a_consensus_end_where_tor_ends_them(tmp_path: Path) -> None:
    text = "head\nr a b c\nv Tor\u2028r a\n\x85r a\np accept 80\ndirectory-footer\nlast\n"
    head, relays, foot = documents.entries(text)
    assert (head, foot) == (["head"], ["directory-footer", "last"])
    assert relays == [["r a b c", "v Tor\u2028r a", "\x85r a", "p accept 80"]]


def test_a_consensus_that_cannot_be_unpacked_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "consensus.xz"
    for content in (b"\xfd7zXZ\x00aaa", b"\x1f\x8baaa", lzma.compress(bytes(2**27))):
        path.write_bytes(content)
        with pytest.raises(DocumentError, match=r"cannot be unpacked|has more than 64 MiB"):
            documents.text_of(path)


def test_assumptions_are_texts(tmp_path: Path) -> None:
    (tmp_path / "assumptions.toml").write_text("[[assumption]]\nwhat = 'a'\nchosen = 3\nwhy = 'b'\nmore = 1\n", encoding="utf-8")
    assert read(tmp_path) == [{"what": "a", "chosen": "3", "why": "b"}]
