"""Quantities with units as people write and read them: ``"10 min"``, ``"320 KiB"``, ``12.5 Mbit/s``.

Experiment files are read by the simulator (`crates/quantities`). What is read here, options and values of a resolved scenario,
has the same grammar, so that an option may say what a file may.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}

#: Digits, which strokes may group, and a point among them or at an end. Without a point nothing follows the first digits: could
#: they be parted anywhere, the time for a text would go with a power of its length.
_NUMBER = r"(?=[._]*[0-9])[0-9_]*(?:\.[0-9_]*)?"

#: One part of a duration: a number and a unit. Several parts, from large to small, make one duration, as in "2 h 30 min".
_PART = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)\s*", re.IGNORECASE)

#: Nothing, which is nothing in all units.
_ZERO = re.compile(r"(?=[_.]*0)[0_]*(?:\.[0_]*)?")


def seconds(text: str | float) -> float:
    """Read a duration.

    Parameters
    ----------
    text : str or float
        A number with a unit of time (ns, us, ms, s, min, h, d), or several from large to small; zero needs
        no unit. What is a number, not a text, counts as seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If the text is not a duration, or one without end.

    Examples
    --------
    >>> seconds("10 min"), seconds("2 h 30 min")
    (600.0, 9000.0)
    """
    try:
        length = float(text) if isinstance(text, int | float) else sum(_parts(text))
    except OverflowError:
        # A whole number of more digits than a float has, as JSON may have it.
        length = math.inf
    if not math.isfinite(length):
        raise ValueError(
            "a duration is longer than any" if isinstance(text, int) else f"{_shown(text)} is longer than any duration"
        )
    return length


def _shown(text: str | float) -> str:
    """A text as a message quotes it, of a long one its beginning."""
    return repr(text) if not isinstance(text, str) or len(text) <= 80 else f"{text[:80]!r}..."


def _parts(text: str) -> Iterator[float]:
    """Seconds of each part of a duration."""
    if _ZERO.fullmatch(text.strip()):
        return
    at, above = 0, math.inf
    while at < len(text) or at == 0:
        match = _PART.match(text, at)
        unit = _SECONDS.get(match[2]) if match else None
        if match is None or unit is None or unit >= above:
            raise ValueError(f"{_shown(text)} is not a duration such as '10 min', '1.5 s' or '2 h 30 min'")
        yield float(match[1].replace("_", "")) * unit
        at, above = match.end(), unit


#: A number and a unit that may hold a stroke.
_AMOUNT = re.compile(rf"({_NUMBER})\s*([a-z]+(?:/s)?)", re.IGNORECASE)

#: Units of data and of rates, as factors of a byte and of a bit per second.
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3, "KB": 1e3}
_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9} | {
    f"{unit}/s": 8 * factor for unit, factor in _BYTES.items() if not unit.startswith("G") and unit != "KB"
}

#: The units in which an axis may be, per kind of quantity, smallest first.
_AXES = {
    "time": {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0},
    "data": {"B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3},
    "rate": {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9},
}


def amount(text: str) -> tuple[float, str] | None:
    """Read a quantity: its amount in seconds, bytes or bits per second, and its kind (``time``, ``data``, ``rate``).

    None where the text is no quantity.

    Examples
    --------
    >>> amount("10ms"), amount("1 h 30 min"), amount("320 KiB"), amount("1.5 Mbit/s"), amount("reno")
    ((0.01, 'time'), (5400.0, 'time'), (327680.0, 'data'), (1500000.0, 'rate'), None)
    """
    with suppress(ValueError):
        return seconds(text.strip()), "time"
    if match := _AMOUNT.fullmatch(text.strip()):
        for kind, units in (("data", _BYTES), ("rate", _RATES)):
            if match[2] in units:
                return float(match[1].replace("_", "")) * units[match[2]], kind
    return None


def unit_for(largest: float, kind: str) -> tuple[float, str]:
    """The largest unit of a kind in which ``largest`` is at least 1: its factor and name.

    Examples
    --------
    >>> unit_for(0.05, "time"), unit_for(2e6, "rate")
    ((0.001, 'ms'), (1000000.0, 'Mbit/s'))
    """
    fitting = [(factor, unit) for unit, factor in _AXES[kind].items() if factor <= largest]
    return fitting[-1] if fitting else next((factor, unit) for unit, factor in _AXES[kind].items())


def format_number(value: float, digits: int = 3) -> str:
    """Print a number with about ``digits`` significant digits and never in scientific notation.

    Examples
    --------
    >>> format_number(3.14159), format_number(1234.5), format_number(0.0)
    ('3.14', '1,234', '0')
    """
    if not math.isfinite(value):
        return "–"
    return "0" if value == 0 else format_fixed(value, decimals(value, digits))


def decimals(magnitude: float, digits: int = 3) -> int:
    """Places after the point with which a number of this magnitude shows ``digits`` significant digits, at most six."""
    return 0 if magnitude == 0 else min(6, max(0, digits - 1 - math.floor(math.log10(abs(magnitude)))))


def format_fixed(value: float, places: int, *, signed: bool = False) -> str:
    """Print a number with ``places`` digits after the point and a real minus sign.

    Examples
    --------
    >>> format_fixed(-0.5, 2), format_fixed(3.0, 1, signed=True), format_fixed(-0.001, 2, signed=True)
    ('−0.50', '+3.0', '0.00')
    """
    text = f"{abs(value):,.{places}f}"
    if not any(digit in text for digit in "123456789"):
        return text
    return f"{'−' if value < 0 else '+' if signed else ''}{text}"


def format_bytes(count: float) -> str:
    """Print an amount of memory or data in binary units.

    Examples
    --------
    >>> format_bytes(320 * 1024), format_bytes(5_000_000)
    ('320 KiB', '4.77 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{format_number(count)} {unit}"
        count /= 1024
    return f"{format_number(count)} TiB"


def format_size(count: int) -> str:
    """Print a transfer size in the unit in which it is round: ``50 kB`` for 50,000 and ``320 KiB`` for 327,680.

    Examples
    --------
    >>> format_size(50_000), format_size(327_680), format_size(1_048_576)
    ('50 kB', '320 KiB', '1 MiB')
    """
    for step, unit in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= step and count % step == 0:
            return f"{count // step:,} {unit}"
    return format_bytes(count) if count >= 10_000 else f"{count:,} B"


def format_duration(length: float, *, coarse: bool = False) -> str:
    """Print a duration given in seconds, from a minute on in whole seconds.

    ``coarse`` is for what is estimated or was measured of a machine: from an hour on it leaves out the seconds.

    Examples
    --------
    >>> format_duration(75), format_duration(600), format_duration(0.25), format_duration(59.99)
    ('1 min 15 s', '10 min', '0.25 s', '1 min')
    >>> format_duration(3630), format_duration(3630, coarse=True)
    ('1 h 30 s', '1 h')
    """
    text = format_number(length)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    # What is rounded to a minute is one.
    if length < 60 and text != "60":
        return f"{text} s"
    hours, rest = divmod(round(length), 3600)
    minutes, secs = divmod(rest, 60)
    parts = [
        f"{hours} h" if hours else "",
        f"{minutes} min" if minutes else "",
        f"{secs} s" if secs and not (coarse and hours) else "",
    ]
    return " ".join(part for part in parts if part)
