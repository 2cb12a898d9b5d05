"""Folders that are made for a file and go again if it does not come."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from onionlab.errors import ResultsError
from onionlab.files import ABANDONED, REPLACED, draft_of_file, folders_above, write_directory, write_output, write_text


def begun(path: Path, beside: Path | None = None) -> None:
    """The folders above ``path`` are made, and then it does not come; ``beside`` does."""
    with folders_above(path):
        assert path.parent.is_dir()
        if beside is not None:
            beside.touch()
        raise ValueError("no")


def test_folders_are_gone_again_if_nothing_comes_to_lie_in_them(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    path = there / "a" / "b" / "file"
    with pytest.raises(ValueError, match="no"):
        begun(path)
    assert list(tmp_path.iterdir()) == [there]
    assert list(there.iterdir()) == []
    with folders_above(path):
        path.touch()
    assert path.is_file()
    with pytest.raises(ValueError, match="no"):
        begun(path.with_name("other"))
    assert path.is_file()


def test_a_folder_that_others_have_put_something_into_stays(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"):
        begun(tmp_path / "a" / "b" / "file", beside=tmp_path / "a" / "else")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["else"]


def test_a_directory_that_cannot_be_written_leaves_none_above_it(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot write"):
        write_directory(tmp_path / "a" / "b", [("x" * 300, b"")])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match="cannot write"):
        write_directory(tmp_path / "file" / "b", [("x", b"")])
    write_directory(tmp_path / "a" / "b", [("x/y", b"z")])
    assert (tmp_path / "a" / "b" / "x" / "y").read_bytes() == b"z"


def test_a_directory_is_written_after_a_process_was_killed_that_wrote_it(tmp_path: Path) -> None:
    place, older = tmp_path / "results", tmp_path / f".results{REPLACED}"
    write_directory(place, [("a", b"newer")])
    write_directory(older, [("a", b"older")])
    drafts = [tmp_path / f".results.{'0' * 8}.1.{digit * 32}.partial" for digit in "ab"]
    for draft in drafts:
        draft.mkdir()
    before = time.time() - 2 * ABANDONED
    os.utime(drafts[0], (before, before))
    write_directory(place, [("a", b"newest")])
    assert (place / "a").read_bytes() == b"newest"
    assert sorted(path.name for path in tmp_path.iterdir()) == [drafts[1].name, "results"]


@pytest.mark.parametrize("hidden", [".net.txt.20240501", ".net.txt.bad", ".net.txt.cafe.1.0", ".net.txt.0123abcd.7.a"])
def test_what_is_hidden_beside_a_file_and_no_draft_of_ours_stays(hidden: str, tmp_path: Path) -> None:
    """Editors and people keep older versions so."""
    own = tmp_path / hidden
    own.write_text("mine", encoding="utf-8")
    old = draft_of_file(tmp_path / "net.txt")
    old.touch()
    before = time.time() - 2 * ABANDONED
    for path in (own, old):
        os.utime(path, (before, before))
    write_text(tmp_path / "net.txt", "new")
    assert own.read_text(encoding="utf-8") == "mine"
    assert not old.exists()


def test_a_directory_is_written_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("there", "to come"):
        link = tmp_path / f"link to {name}"
        link.symlink_to(name)
        for content in (b"new", b"newer", b"newest"):
            write_directory(link, [("a", content)])
            assert link.is_symlink()
            assert (tmp_path / name / "a").read_bytes() == content
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(ResultsError, match=r"cannot write .*circle"):
        write_directory(circle, [("a", b"new")])
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_stepped_aside_and_is_no_directory_is_in_no_way(kind: str, tmp_path: Path) -> None:
    aside = tmp_path / f".results{REPLACED}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").touch()
    write_directory(tmp_path / "results", [("a", b"new")])
    if kind == "link":
        aside.symlink_to(elsewhere)
    else:
        aside.touch()
    write_directory(tmp_path / "results", [("a", b"newer")])
    assert (tmp_path / "results" / "a").read_bytes() == b"newer"
    assert not list(tmp_path.glob(".*"))
    assert (elsewhere / "a").is_file()


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/outside"])
def test_no_file_is_written_out_of_its_directory(name: str, tmp_path: Path) -> None:
    named = str(tmp_path / name[1:]) if name.startswith("/") else name
    with pytest.raises(ResultsError, match="is no name within it"):
        write_directory(tmp_path / "results", [(named, b"x")])
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_names_is_written_behind_a_link(tmp_path: Path) -> None:
    for name in ("there", "to come"):
        link = tmp_path / f"link to {name}"
        link.symlink_to(name)
        if name == "there":
            (tmp_path / name).write_text("old", encoding="utf-8")
        write_output(link, b"new")
        assert link.is_symlink()
        assert (tmp_path / name).read_bytes() == b"new"
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(ResultsError, match=r"cannot write .*circle"):
        write_output(circle, b"new")
    # A results directory may come from somebody else: what is written there is never written elsewhere.
    write_text(tmp_path / "link to there", "own")
    assert (tmp_path / "there").read_bytes() == b"new"


def test_a_pipe_and_a_device_stay_what_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_output(pipe, b"new")
    reader.join(10)
    assert found == [b"new"]
    assert pipe.is_fifo()
    write_output(Path("/dev/null"), b"new")
    assert Path("/dev/null").is_char_device()


def test_an_open_file_is_added_to(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log:
        log.write("before\n")
        log.flush()
        write_output(Path(f"/dev/fd/{log.fileno()}"), b"new")
    assert (tmp_path / "log").read_bytes() == b"before\nnew"
