"""Fits the sizes of families to real consensuses: prints the two numbers in `crates/directory/src/families.rs`.

A consensus does not say who runs a relay, but operators of many relays number them: relays whose nicknames differ only in
digits at the end count as one family (stems of fewer than four letters and the default nickname do not). The sizes are taken
as those of a Pitman-Yor process, whose discount and concentration are found by maximum likelihood on a grid.

    python tools/fit_families.py ../shared/data/consensus/md-2025-06-15.xz ...
"""

import lzma
import sys
from collections import Counter
from math import lgamma, log


def family_sizes(path: str) -> list[int]:
    """Number of relays by stem of their nickname."""
    sizes: Counter[str] = Counter()
    with lzma.open(path, "rt", encoding="utf-8") as document:
        names = [line.split()[1] for line in document if line.startswith("r ")]
    for index, name in enumerate(names):
        stem = name.rstrip("0123456789").lower()
        sizes[stem if len(stem) >= 4 and stem != "unnamed" else f"{name}#{index}"] += 1
    return list(sizes.values())


def log_likelihood(sizes: list[int], discount: float, concentration: float) -> float:
    """Of these sizes under the process, up to what does not depend on its parameters."""
    relays = sum(sizes)
    founded = sum(log(concentration + i * discount) for i in range(1, len(sizes)))
    joined = sum(n * (lgamma(k - discount) - lgamma(1 - discount)) for k, n in Counter(sizes).items())
    return founded + joined - lgamma(concentration + relays) + lgamma(concentration + 1)


def main() -> None:
    """Prints the best fit for each document."""
    for path in sys.argv[1:]:
        sizes = family_sizes(path)
        grid = [(d / 200, c) for d in range(150, 199) for c in (0, 5, 10, 20, 30, 40, 60, 80, 120)]
        discount, concentration = max(grid, key=lambda point: log_likelihood(sizes, *point))
        shared = sum(size for size in sizes if size > 1) / sum(sizes)
        print(
            f"{path}: {sum(sizes)} relays, {len(sizes)} families, {shared:.0%} of the relays in one of two or more, "
            f"largest {max(sizes)}: discount {discount}, concentration {concentration}"
        )


if __name__ == "__main__":
    main()
