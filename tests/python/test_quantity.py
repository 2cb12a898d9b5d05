"""Quantities as they are printed."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import time

import pytest

from onionlab import _core, quantity
from onionlab.errors import ScenarioError
from onionlab.quantity import amount, format_duration, seconds


@pytest.mark.parametrize(
    ("length", "exact", "coarse"),
    [
        (0.0, "0 s", "0 s"),
        (59.9, "59.9 s", "59.9 s"),
        (59.95, "1 min", "1 min"),
        (59.99, "1 min", "1 min"),
        (60.4, "1 min", "1 min"),
        (119.7, "2 min", "2 min"),
        (3599.6, "1 h", "1 h"),
        (3630.0, "1 h 30 s", "1 h"),
        (3661.0, "1 h 1 min 1 s", "1 h 1 min"),
        (7200.0, "2 h", "2 h"),
    ],
)
def test_durations_lose_nothing_that_counts(length: float, exact: str, coarse: str) -> None:
    """A begin of the measurement of 3,630 s is no hour; what an experiment took of a machine is."""
    assert format_duration(length) == exact
    assert format_duration(length, coarse=True) == coarse
    assert seconds(exact) == pytest.approx(length, abs=0.5)


@pytest.mark.parametrize("length", [10**400, float("inf"), f"1{0:0309d} s"])
def test_what_is_longer_than_any_duration_is_refused(length: float | str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(length)


#: How numbers and zero were described before, which takes a time that goes with a power of a text's length.
NUMBER, ZERO = r"(?=[._]*[0-9])[0-9_]*\.?[0-9_]*", r"[0_]*0[0_]*\.?[0_]*|[0_]*\.[0_]*0[0_]*"


def test_numbers_are_the_same_texts_as_they_were_described_before() -> None:
    for length in range(8):
        for letters in itertools.product("01_.", repeat=length):
            text = "".join(letters)
            assert bool(re.fullmatch(quantity._NUMBER, text)) == bool(re.fullmatch(NUMBER, text)), text
            assert bool(quantity._ZERO.fullmatch(text)) == bool(re.fullmatch(ZERO, text)), text


@pytest.mark.parametrize("text", ["0", "1", "_", "0_", "1_"])
def test_long_texts_are_refused_at_once(text: str) -> None:
    began = time.process_time()
    for end in ("x", ".x", " s s", "..", ""):
        with contextlib.suppress(ValueError):
            seconds(text * 20_000 + end)
        assert amount(text * 20_000 + end) is None or not end
    assert time.process_time() - began < 5


def start_of(text: str) -> str:
    """When clients start whose experiment file says so, as the simulator reads and prints it."""
    experiment = (
        'title = "Forms"\nduration = "1 d"\n[base]\n[network]\nkind = "synthetic"\nrelays = 10\n'
        f'[[clients]]\ngroup = "all"\ncount = 1\nstart = {json.dumps(text)}\nload = {{ kind = "bulk", size = "1 MB" }}\n'
    )
    start: str = json.loads(_core.resolve("forms.toml", experiment))["clients"][0]["start"]["to"]
    return start


@pytest.mark.parametrize(
    "text", [".5 s", "1. s", "._1 s", "1_000 ms", "2 h 30 min", "2h30min", " 1 min\t", "0", "0.0", "0 s", "7 us"]
)
def test_an_option_may_say_what_an_experiment_may(text: str) -> None:
    assert seconds(text) == pytest.approx(seconds(start_of(text)), abs=1e-9)


@pytest.mark.parametrize(
    "text",
    ["1e1 min", "30 min 2 h", "1 h 1 h", "1 µs", "1 Min", "1.5.5 s", "_ s", ".", "", "5", "1 s 0", "--5 s", "-5 s", "3 s x"],
)
def test_what_an_experiment_may_not_say_no_option_may(text: str) -> None:
    with pytest.raises(ScenarioError, match="duration"):
        start_of(text)
    with pytest.raises(ValueError, match="duration"):
        seconds(text)
