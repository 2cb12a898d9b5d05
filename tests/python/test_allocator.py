"""The simulator's memory: asked for in huge pages where Linux gives them to those who ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")

#: Counts the areas of memory for which huge pages were asked, before and after the simulator drew a network in a second thread.
COUNT = """
import threading
from onionlab import _core

def asked():
    with open("/proc/self/smaps") as areas:
        return sum(line.startswith("VmFlags:") and " hg" in line for line in areas)

print(asked())
thread = threading.Thread(target=_core.synth, args=('{"year": 2024, "seed": 1}',))
thread.start()
thread.join()
print(asked())
"""


@pytest.mark.skipif(
    not SETTING.is_file() or "[madvise]" not in SETTING.read_text(), reason="this system gives huge pages to all or none"
)
def test_huge_pages_are_asked_for_from_any_thread() -> None:
    counted = subprocess.run([sys.executable, "-c", COUNT], check=True, capture_output=True, text=True).stdout
    before, after = (int(number) for number in counted.split())
    assert after > before
