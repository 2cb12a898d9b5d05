"""Published results made again: an experiment file, the published numbers, and what comes out here beside them.

A reproduction lives in ``experiments/<name>/``: the experiment files, ``published.json`` (the numbers, with their source) and
``assumptions.toml`` (what the source does not say, and what was chosen). The module of the same name here runs them and writes
the page.
"""

from collections.abc import Callable
from pathlib import Path

from onionlab.reproductions import cci, live, predictor, salsa, shadow_networks, shadow_tor, switching, swrr

#: Names on the command line. Each has a function `reproduce` that takes the folder of ``published.json``, what it needs of the
#: world outside, the folder for results and that for the page; it returns the page's path and a sentence for each figure that
#: should agree and does not.
PAPERS: dict[str, Callable[..., tuple[Path, list[str]]]] = {
    "shadow-tor": shadow_tor.reproduce,
    "shadow-networks": shadow_networks.reproduce,
    "live": live.reproduce,
}
COMPUTED = {"salsa": salsa.reproduce}

#: Those that have no measurements of others beside them, and a quick form.
SELF_CONTAINED = {
    "swrr": swrr.reproduce,
    "cci": cci.reproduce,
    "predictor": predictor.reproduce,
    "switching": switching.reproduce,
}

#: Those that can go on from what was kept elsewhere (`onionlab.reproductions.kept`).
KEPT = ("swrr", "cci", "predictor", "shadow-networks")

__all__ = [
    "COMPUTED",
    "KEPT",
    "PAPERS",
    "SELF_CONTAINED",
    "cci",
    "live",
    "predictor",
    "salsa",
    "shadow_networks",
    "shadow_tor",
    "switching",
    "swrr",
]
