"""Huge pages: asked for where they are to be had, and never against the user."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from onionlab.running.huge_pages import VARIABLE, WANTED, environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="only glibc on Linux has the setting"
)


def setting(directory: Path, text: str) -> Path:
    file = directory / "enabled"
    file.write_text(text)
    return file


def test_asked_for_where_linux_gives_them_to_those_who_ask(tmp_path: Path) -> None:
    assert environment({"A": "1"}, setting(tmp_path, "always [madvise] never\n")) == {"A": "1", VARIABLE: WANTED}


@pytest.mark.parametrize("text", ["[always] madvise never\n", "always madvise [never]\n"])
def test_not_where_all_or_none_have_them(tmp_path: Path, text: str) -> None:
    assert environment({}, setting(tmp_path, text)) is None


def test_not_twice_nor_against_settings_of_the_user(tmp_path: Path) -> None:
    given = {VARIABLE: "glibc.malloc.arena_max=1"}
    assert environment(given, setting(tmp_path, "always [madvise] never\n")) is None
    assert environment({}, tmp_path / "missing") is None
