"""Quantities as they are printed."""

from __future__ import annotations

import pytest

from onionlab.quantity import format_duration, seconds


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


@pytest.mark.parametrize("length", [10**400, float("inf"), "1e309 s"])
def test_what_is_longer_than_any_duration_is_refused(length: float | str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(length)
