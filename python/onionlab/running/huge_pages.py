"""Huge pages for large simulations: glibc's allocator must be told to ask for them before a program starts.

A large world waits for address translation (docs/performance.md). Where Linux gives transparent huge pages to those who ask,
glibc 2.35 and later asks if ``GLIBC_TUNABLES`` says so at the start; so a command that simulates starts itself again, once, with
that in its environment. Results are the same.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "GLIBC_TUNABLES"
WANTED = "glibc.malloc.hugetlb=1"
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def environment(given: Mapping[str, str], setting: Path = SETTING) -> dict[str, str] | None:
    """The environment to start again with; none where nothing is to be gained, or the user has settings of their own."""
    if VARIABLE in given or platform.libc_ver()[0] != "glibc":
        return None
    try:
        to_those_who_ask = "[madvise]" in setting.read_text()
    except OSError:
        return None
    return {**given, VARIABLE: WANTED} if to_those_who_ask else None


def start_again() -> None:
    """Start this process again with huge pages; returns where that is of no use or was done already."""
    again = environment(os.environ)
    if again is not None:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], again)
