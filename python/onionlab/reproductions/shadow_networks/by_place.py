"""First bytes by where a perf client stands: what base latencies do, apart from what relays do.

The reference's lists name no client, but their order does: client by client, alphabetically, and for each the sizes one after
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onionlab.reproductions.shadow_networks.transfer_times import SIZES
from onionlab.stats.intervals import Floats


@dataclass(frozen=True)
class Place:
    """The clients of one country.

    Attributes
    ----------
    country
        Its code, as the reference has it.
    clients
        How many there are.
    ours, theirs
        Times of all sizes in seconds, sorted.
    """

    country: str
    clients: int
    ours: Floats
    theirs: Floats


def by_place(
    countries: Mapping[str, str], theirs: Mapping[str, Sequence[float]], ours: Mapping[str, Sequence[float] | Floats]
) -> tuple[Place, ...]:
    """Times by the countries of clients; nothing where the reference's lists are not of as many clients.

    Parameters
    ----------
    countries
        Of each client.
    theirs
        Times by size, in the reference's order, and of all sizes.
    ours
        Times of all sizes by client.
    """
    listed = _by_client(theirs)
    if len(listed) != len(countries):
        return ()
    of_client = dict(zip(sorted(countries), listed, strict=True))
    return tuple(
        Place(
            country,
            len(clients),
            np.sort(np.asarray([time for client in clients for time in ours.get(client, ())], dtype=np.float64)),
            np.sort(np.asarray([time for client in clients for time in of_client[client]], dtype=np.float64)),
        )
        for country in sorted(set(countries.values()))
        if (clients := [client for client, its in countries.items() if its == country])
    )


def _by_client(times: Mapping[str, Sequence[float]]) -> list[list[float]]:
    """The list of all sizes in parts: a client begins where no later size has what comes next. Nothing where no list has it."""
    whole, *sizes = SIZES
    lists = [times[size] for size in sizes]
    taken, size = [0] * len(lists), 0
    parts: list[list[float]] = [[]] if times[whole] else []
    for time in times[whole]:
        having = [number for number, own in enumerate(lists) if taken[number] < len(own) and own[taken[number]] == time]
        later = [number for number in having if number >= size]
        if not having:
            return []
        if not later:
            parts.append([])
        size = min(later or having)
        taken[size] += 1
        parts[-1].append(float(time))
    return parts
