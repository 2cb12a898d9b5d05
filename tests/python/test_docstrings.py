"""Every example in a docstring gives what stands below it."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import onionlab


def test_examples_are_true() -> None:
    """In every module but the one that runs the command line, and those that need Dask where that is not there."""
    tried = 0
    for found in pkgutil.walk_packages(onionlab.__path__, "onionlab."):
        if found.name == "onionlab.__main__":
            continue
        try:
            module = importlib.import_module(found.name)
        except ModuleNotFoundError as lacking:
            if (lacking.name or "").partition(".")[0] not in ("dask", "distributed"):
                raise
            continue
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
        assert result.failed == 0, found.name
        tried += result.attempted
    assert tried > 20
