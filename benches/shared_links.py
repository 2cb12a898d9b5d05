"""Shared links through the Python binding against plain NumPy that does the same, in one run.

Usage: python benches/shared_links.py [--consensus FILE] [--out target/bench-shared-links.json]

The NumPy side is what one writes without further thought: chances by relay, `searchsorted` for a draw, `unique` to count links; a
sum over all pairs of relays for the expectation. Reading the document is left aside on both sides. Both must agree, or the run
fails.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onionlab import _core
from onionlab.shared_links import Method, Question, shared_links

Chances = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]

#: Repetitions, of which the shortest counts: what else the machine does makes times longer, never shorter.
REPEAT = 5


def chances(document: str) -> Chances:
    """Chance of each relay in the first, second and last position of external circuits, from the text of a consensus."""
    factors: dict[str, float] = {}
    relays: list[tuple[set[str], int]] = []
    for line in document.splitlines():
        words = line.split()
        if line.startswith("bandwidth-weights "):
            factors = {name: float(value) for name, value in (word.split("=") for word in words[1:])}
        elif line.startswith("s "):
            relays.append((set(words[1:]), 0))
        elif line.startswith("w "):
            relays[-1] = (relays[-1][0], int(words[1].removeprefix("Bandwidth=")))
    weights = np.zeros((3, len(relays)))
    for number, (flags, weight) in enumerate(relays):
        guard, leaves = "Guard" in flags, "Exit" in flags and "BadExit" not in flags
        kind = {(True, True): "d", (True, False): "g", (False, True): "e", (False, False): "m"}[guard, leaves]
        if guard:
            weights[0, number] = weight * factors["W" + "g" + kind]
        weights[1, number] = weight * factors["W" + "m" + kind]
        if leaves:
            weights[2, number] = weight * factors["W" + "e" + kind]
    first, second, last = weights / weights.sum(axis=1, keepdims=True)
    return first, second, last


def numpy_draw(positions: Chances, circuits: int, seed: int) -> float:
    """Share of shared links of so many circuits drawn at random."""
    generator = np.random.default_rng(seed)
    relays = len(positions[0])
    first, second, last = (np.searchsorted(np.cumsum(p), generator.random(circuits) * (1 - 1e-12)) for p in positions)
    _, counts = np.unique(np.concatenate([first * relays + second, second * relays + last]), return_counts=True)
    return float((counts > 1).mean())


def numpy_expectation(positions: Chances, circuits: int) -> float:
    """The same on average: a sum over all pairs of relays."""
    first, second, last = positions
    pairs = np.outer(first, second) + np.outer(second, last)
    # A circuit of a single relay uses the link from it to itself twice; no term of this formula, and of no weight.
    unused = np.exp(circuits * np.log1p(-pairs))
    links = (1 - unused).sum()
    single = (circuits * pairs * unused / (1 - pairs)).sum()
    return float((links - single) / links)


def shortest(run: Callable[[], float]) -> float:
    """Seconds of the shortest run, as the run itself gives them."""
    return min(run() for _ in range(REPEAT))


def timed(run: Callable[[], object]) -> Callable[[], float]:
    """A run that gives its wall time in seconds."""

    def clocked() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return clocked


def main() -> int:
    """Measure, print, write."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--consensus", type=Path, help="a plain document; default: a synthetic one of 2021")
    arguments.add_argument("--out", type=Path, default=Path("target/bench-shared-links.json"))
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        document: Path = given.consensus if given.consensus is not None else Path(folder) / "consensus"
        if given.consensus is None:
            document.write_text(_core.synth('{"year": 2021}'), encoding="utf-8")
        raw = document.read_bytes()
        text = (lzma.decompress(raw) if raw[:1] == b"\xfd" else raw).decode()
        positions = chances(text)
        million, usual = Question(circuits=1_000_000), Question(circuits=96_000)

        def ours(question: Question, method: Method) -> Callable[[], float]:
            # `seconds` leaves reading the document aside.
            return lambda: float(shared_links(document, question, method=method)["seconds"][0])

        rows = []
        for name, mine, plain in (
            ("draw of 1,000,000", ours(million, "draw"), lambda: numpy_draw(positions, million.circuits, 1)),
            ("draw of 96,000", ours(usual, "draw"), lambda: numpy_draw(positions, usual.circuits, 1)),
            ("expectation, 96,000", ours(usual, "expectation"), lambda: numpy_expectation(positions, usual.circuits)),
        ):
            rows.append((name, shortest(mine), shortest(timed(plain))))
        expected = shared_links(document, usual)["shared_percent"][0]
        theirs = 100 * numpy_expectation(positions, 96_000)
        drawn = shared_links(document, million, method="draw")["shared_percent"][0]
        theirs_drawn = 100 * statistics.fmean(numpy_draw(positions, 1_000_000, seed) for seed in (1, 2))
    print(f"{len(positions[0]):,} relays; shortest of {REPEAT} runs, reading the document left aside")
    print(f"{'':22}{'onionlab':>12}{'NumPy':>12}{'ratio':>9}")
    for name, compiled, numpy in rows:
        print(f"{name:22}{1e3 * compiled:>9.2f} ms{1e3 * numpy:>9.1f} ms{numpy / compiled:>8.1f}x")
    print(f"96,000 expected: {expected:.3f} % and {theirs:.3f} %; 1,000,000 drawn: {drawn:.3f} % and {theirs_drawn:.3f} %")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    measured = [
        {"name": name, "onionlab_seconds": compiled, "numpy_seconds": numpy, "ratio": numpy / compiled}
        for name, compiled, numpy in rows
    ]
    result = {"relays": len(positions[0]), "repeat": REPEAT, "measured": measured}
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if abs(expected - theirs) > 0.01 or abs(drawn - theirs_drawn) > 0.2:
        print("the two do not agree", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
