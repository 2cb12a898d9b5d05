"""The graph of RIPE Atlas measurements of January 2018, on which Tor networks in Shadow have run since.

As a whole it cannot be had here; what a published piece of it tells stands for it (docs/latency.md).
"""

from __future__ import annotations

from hashlib import blake2b

#: How the names of its files begin; tornettools takes one unless it is told another (``atlas_v201801.shadow_v2.gml``).
FILES = "atlas_v201801"

#: Its round trips over those of our table: the median of 42
#: pairs of nine countries, from a published piece of that graph with 20 vertices (quartiles 1.55 and 1.97).
LATENCY_FACTOR = 1.76

#: What that piece has between the eight of its countries that are among the built-in places, and within each, in ms: the mean
#: over its vertices. Within a country, and between neighbours, it is far above the table times the factor: its probes stand in
#: homes, with a last mile each.
ROUND_TRIPS = {
    "AT-AT": 27.2,
    "AT-DE": 44.6,
    "AT-FI": 63.3,
    "AT-FR": 69.1,
    "AT-IT": 58.2,
    "AT-JP": 281.0,
    "AT-PL": 50.4,
    "AT-US": 148.6,
    "DE-DE": 38.2,
    "DE-FI": 54.8,
    "DE-FR": 66.2,
    "DE-IT": 53.6,
    "DE-JP": 272.7,
    "DE-PL": 47.5,
    "DE-US": 154.2,
    "FI-FI": 25.4,
    "FI-FR": 80.9,
    "FI-IT": 75.1,
    "FI-JP": 318.4,
    "FI-PL": 53.1,
    "FI-US": 167.1,
    "FR-FR": 62.2,
    "FR-IT": 69.3,
    "FR-JP": 290.0,
    "FR-PL": 67.9,
    "FR-US": 156.6,
    "IT-IT": 38.4,
    "IT-JP": 287.1,
    "IT-PL": 56.1,
    "IT-US": 160.4,
    "JP-JP": 9.7,
    "JP-PL": 265.2,
    "JP-US": 170.5,
    "PL-PL": 17.7,
    "PL-US": 156.8,
    "US-US": 60.2,
}

#: The shortest of all other round trips in ms: the median of what the piece has within its nine countries (10 to 62).
LATENCY_FLOOR = 29

#: How often a country has one of the 20 vertices of that piece. Shadow 1.13 puts a host whose country has no vertex on any
#: (`_topology_findAttachmentVertex`), each of them equally likely, and most of them are in Europe.
VERTICES = {"DE": 6, "US": 4, "IT": 3, "JP": 2, "AT": 1, "BE": 1, "FI": 1, "FR": 1, "PL": 1}


def any_vertex(host: str) -> str:
    """Tell the country of the vertex that a host stands on whose own country has none; always the same one for a host's name."""
    countries = [country for country, times in VERTICES.items() for _ in range(times)]
    return countries[int.from_bytes(blake2b(host.encode(), digest_size=8).digest()) % len(countries)]
