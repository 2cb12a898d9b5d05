"""Which groups of clients measure: those that stand for OnionPerf's, or for tornettools' ``perfclient``s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def loads_from_onion_services(group: Mapping[str, Any]) -> bool:
    """Whether a group of a resolved scenario downloads from onion services.

    What is known of downloads on the live network, and what tornettools draws, are downloads from servers behind exits. Such a
    group has its services' circuits among its own, too.
    """
    return bool(group.get("onion"))


def measures(group: Mapping[str, Any]) -> bool:
    """Whether a group has load ``perf``, from servers."""
    return group.get("load", {}).get("kind") == "perf" and not loads_from_onion_services(group)
