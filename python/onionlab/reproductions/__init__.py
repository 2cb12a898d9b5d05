"""Published results made again: an experiment file, the published numbers, and what comes out here beside them.

A reproduction lives in ``experiments/<name>/``: the experiment files, ``published.json`` (the numbers, with their source) and
``assumptions.toml`` (what the source does not say, and what was chosen). The module of the same name here runs them and writes
the page.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from onionlab.reproductions import cci, live, predictor, salsa, shadow_networks, shadow_tor, switching, swrr
from onionlab.reproductions.request import Outcome, Reproduction, Request
from onionlab.reproductions.runs import Observe

__all__ = [
    "REPRODUCTIONS",
    "Outcome",
    "Reproduction",
    "Request",
    "cci",
    "live",
    "predictor",
    "salsa",
    "shadow_networks",
    "shadow_tor",
    "switching",
    "swrr",
]


class _Keeping(Protocol):
    """A reproduction that keeps what its experiments came to, and has a small form."""

    def __call__(
        self, experiments: Path, out: Path, docs: Path, observe: Observe | None, *, quick: bool, kept: Path | None, as_kept: bool
    ) -> Outcome: ...


def _keeping(reproduce: _Keeping) -> Callable[[Request], Outcome]:
    def carried_out(asked: Request) -> Outcome:
        return reproduce(
            asked.experiments, asked.out, asked.docs, asked.observe, quick=asked.quick, kept=asked.kept, as_kept=asked.as_kept
        )

    return carried_out


def _cci(asked: Request) -> Outcome:
    return cci.reproduce(
        asked.experiments,
        asked.out,
        asked.docs,
        asked.observe,
        quick=asked.quick,
        kept=asked.kept,
        as_kept=asked.as_kept,
        quarter=asked.quarter,
        parts=asked.parts,
        networks=asked.network_count,
    )


def _salsa(asked: Request) -> Outcome:
    return salsa.reproduce(asked.experiments, asked.consensuses, asked.out, asked.docs, asked.step)


def _shadow_tor(asked: Request) -> Outcome:
    seeds = shadow_tor.SEEDS if asked.seeds is None else asked.seeds
    return shadow_tor.reproduce(asked.experiments, asked.reference, asked.out, asked.docs, asked.observe, seeds)


def _shadow_networks(asked: Request) -> Outcome:
    return shadow_networks.reproduce(
        asked.experiments,
        asked.reference,
        asked.out,
        asked.docs,
        asked.observe,
        networks=asked.networks,
        duration=asked.duration,
        load=asked.load,
        kept=asked.kept,
        at_most=asked.at_most,
    )


def _live(asked: Request) -> Outcome:
    return live.reproduce(asked.experiments, asked.reference, asked.out, asked.docs, asked.observe)


#: All, by their names on the command line.
REPRODUCTIONS = {
    "swrr": Reproduction(_keeping(swrr.reproduce), frozenset({"quick", "kept", "as-kept"})),
    "cci": Reproduction(_cci, frozenset({"quick", "kept", "as-kept", "quarter", "parts", "network-count"})),
    "predictor": Reproduction(_keeping(predictor.reproduce), frozenset({"quick", "kept", "as-kept"})),
    "switching": Reproduction(_keeping(switching.reproduce), frozenset({"quick", "kept", "as-kept"})),
    "salsa": Reproduction(_salsa, frozenset({"consensus"}), simulates=False),
    "shadow-tor": Reproduction(_shadow_tor, frozenset({"reference", "seeds"})),
    "shadow-networks": Reproduction(
        _shadow_networks, frozenset({"reference", "networks", "duration", "load", "at-most", "kept"})
    ),
    "live": Reproduction(_live, frozenset({"reference"})),
}
