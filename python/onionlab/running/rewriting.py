"""An experiment file's text with another value of one key at its top; everything else stays, comments included."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from onionlab.errors import ScenarioError


def with_networks(text: str, networks: int) -> str:
    r"""The text of an experiment file with another number of networks.

    Raises
    ------
    ScenarioError
        If the number is written in a form that cannot be replaced safely, or the file in what TOML 1.0 has not.

    Examples
    --------
    >>> with_networks('title = "x"  # mine\nnetworks = 3 # few\n[network]\nnetworks = 1\n', 12)
    'title = "x"  # mine\nnetworks = 12 # few\n[network]\nnetworks = 1\n'
    """
    return _with(text, "networks", networks, "[0-9_]+", "the number of networks")


def with_duration(text: str, seconds: float) -> str:
    r"""The text of an experiment file with another duration, in whole simulated seconds.

    Raises
    ------
    ScenarioError
        As `with_networks`.

    Examples
    --------
    >>> with_duration('duration = "1 h" # long\n[a]\nduration = "2 h"\n', 120.0)
    'duration = "120 s" # long\n[a]\nduration = "2 h"\n'
    """
    return _with(text, "duration", f"{seconds:.0f} s", r'"[^"\\\n]*"|' + r"'[^'\n]*'", "the duration")


def _with(text: str, key: str, value: int | str, written: str, what: str) -> str:
    """The text with a value for a key at its top, in place of one that is ``written`` so; refused if it means anything else."""
    before = _values(text, what)
    head, rest = _head(text)
    line = rf"(?m)^(\s*(?:{key}|\"{key}\"|'{key}')\s*=\s*)(?:{written})"
    changed, count = re.subn(line, lambda found: f"{found[1]}{json.dumps(value)}", head, count=1)
    if not count:
        changed = f"{key} = {json.dumps(value)}\n{head}"
    changed += rest
    try:
        sound = tomllib.loads(changed) == {**before, key: value}
    except tomllib.TOMLDecodeError:
        sound = False
    if not sound:
        raise ScenarioError(f"{what} cannot be replaced: write `{key} = ...` on a line of its own at the top")
    return changed


def _values(text: str, what: str) -> dict[str, Any]:
    """What an experiment file says, where ``what`` is to be changed."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = f"it must be TOML 1.0, without a byte-order mark: {error}"
        raise ScenarioError(f"{what} cannot be replaced in this experiment file; for that {reason}") from None


def _head(text: str) -> tuple[str, str]:
    """Split a document before its first table."""
    table = re.search(r"(?m)^\s*\[", text)
    return (text, "") if table is None else (text[: table.start()], text[table.start() :])
