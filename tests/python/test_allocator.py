"""The simulator's memory: in huge pages where Linux has them for who asks, kept from run to run, given back after the last."""

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


EXPERIMENT = """
title = "Something large for a while"
duration = "12 s"
networks = 1

[network]
kind = "synthetic"
year = 2021
relays = 134

[[clients]]
group = "users"
users = 100
users-at-full-scale = 792_000
start = { from = "1 s", to = "2 s" }
load = { kind = "tor-users" }

[base]
tor = "0.3.5"
guards = 0
"""

#: Says, in kB, what the process had before a run, has after it, the most that it had, and what it has when it has rested.
MEASURE = """
import sys, time
from onionlab import _core

def kilobytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))

before = kilobytes("VmRSS")
_core.run_one(sys.argv[1], 0, 0, 1, sys.argv[2], lambda progress: True)
after, most = kilobytes("VmRSS"), kilobytes("VmHWM")
deadline = time.monotonic() + 60
while kilobytes("VmRSS") - before > 0.6 * (most - before) and time.monotonic() < deadline:
    time.sleep(0.1)
print(before, after, most, kilobytes("VmRSS"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have their own allocators")
def test_what_a_run_took_is_there_for_the_next_one_and_then_given_back(tmp_path: Path) -> None:
    """Given back at once, it was there for the next run in small pages."""
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(EXPERIMENT)
    command = [sys.executable, "-c", MEASURE, str(experiment), str(tmp_path)]
    measured = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    before, after, most, rested = (int(number) for number in measured.split())
    assert most - before > 10_000, "a run that takes next to nothing shows nothing"
    assert after - before > 0.8 * (most - before)
    assert rested - before < 0.6 * (most - before)
