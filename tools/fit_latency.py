#!/usr/bin/env python3
"""Fit the built-in latency table, the distributions of places and the access rates.

Reads the country-to-country round trips, the relay capacities of 2018, a published Shadow network and the access rates
by country; writes `crates/net/src/latency/builtin.rs` and the heat map of `docs/latency.md`. The method and its
numbers are described in `docs/latency.md`; the same cleaning in Rust is `crates/net/src/latency/clean.rs`, and a test
holds the two together. Standard library only.

    python3 tools/fit_latency.py            # from the repository root, data in ../shared/data
    python3 tools/fit_latency.py --check    # only compare with the committed files
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import math
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence

#: Country code -> (latitude, longitude, extent in km).
Centres = dict[str, tuple[float, float, float]]
#: Two country codes in the order of the alphabet.
Pair = tuple[str, str]

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTRIES = ROOT / "crates/net/src/latency/countries.csv"
GENERATED = ROOT / "crates/net/src/latency/builtin.rs"
PICTURE = ROOT / "docs/latency-heatmap.svg"

# The built-in places: countries that hold 1.5 % of relay capacity or of users, and one or two for each remaining part
# of the world. Every other country counts as the nearest of them. Order: by region, for the picture.
PLACES = (
    "US",
    "CA",
    "BR",
    "GB",
    "FR",
    "NL",
    "DE",
    "CH",
    "AT",
    "IT",
    "ES",
    "SE",
    "FI",
    "PL",
    "RO",
    "UA",
    "RU",
    "TR",
    "IR",
    "ZA",
    "IN",
    "SG",
    "ID",
    "JP",
    "AU",
)

EARTH_RADIUS_KM = 6371.0
FIBRE_KM_PER_MS = 2.0 / 3.0 * 299.792458
REGRESSION_MIN_PINGS = 1000
REGRESSION_BINS = 16
# Deviations over whole countries mix many paths: the lowest decile of deviation / round trip is what one path shows.
DEVIATION_CAP = 0.02
CLASS_PRIOR_RELAYS = 100


def read_centres() -> Centres:
    """Country code -> (latitude, longitude, extent in km)."""
    with COUNTRIES.open() as file:
        return {
            row["code"]: (float(row["latitude"]), float(row["longitude"]), float(row["extent_km"]))
            for row in csv.DictReader(file)
        }


def distance_km(centres: Centres, a: str, b: str) -> float:
    """Great circle between two centres (haversine); within a country its extent."""
    if a == b:
        return centres[a][2]
    (lat_a, lon_a), (lat_b, lon_b) = ((math.radians(centres[c][0]), math.radians(centres[c][1])) for c in (a, b))
    h = math.sin((lat_a - lat_b) / 2) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_a - lon_b) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(h)))


def floor_ms(centres: Centres, a: str, b: str) -> float:
    """Round trip of light in fibre between two centres; within a country over its extent."""
    return 2 * distance_km(centres, a, b) / FIBRE_KM_PER_MS


def without_maximum(count: int, mean: float, deviation: float, maximum: float) -> tuple[float, float]:
    """Mean and deviation of the sample without its greatest value (one lost ping of 301 s can double a deviation)."""
    if count <= 2:
        return mean, deviation
    rest = (count * mean - maximum) / (count - 1)
    variance = ((count - 1) * deviation**2 - (maximum - mean) ** 2 * count / (count - 1)) / (count - 2)
    return rest, math.sqrt(max(variance, 0.0))


def ordered(a: str, b: str) -> Pair:
    """Return the pair as tables have it."""
    return (a, b) if a <= b else (b, a)


class Table:
    """The cleaned table: (a, b) with a <= b -> (round trip, deviation) in whole microseconds."""

    def __init__(self, path: pathlib.Path, centres: Centres) -> None:
        self.centres = centres
        measured: dict[Pair, float] = {}
        spread: dict[Pair, float] = {}
        trusted: list[tuple[float, Pair, float]] = []
        self.relative: list[float] = []
        self.skipped = self.floored = self.capped_domestic = self.capped = 0
        with gzip.open(path, "rt") as file:
            for row in csv.DictReader(file):
                pair = ordered(row["cty1"], row["cty2"])
                if pair[0] not in centres or pair[1] not in centres:
                    self.skipped += 1
                    continue
                count = int(row["rtt_cnt"])
                mean, deviation = without_maximum(count, float(row["rtt_avg"]), float(row["rtt_std"] or 0), float(row["rtt_max"]))
                floor = floor_ms(centres, *pair)
                excess = mean - floor
                if excess <= 0:
                    self.floored += 1
                    measured[pair] = floor
                else:
                    # The median of a log-normal excess with this mean and deviation.
                    measured[pair] = floor + excess / math.sqrt(1 + (deviation / excess) ** 2)
                    if pair[0] != pair[1] and count >= REGRESSION_MIN_PINGS:
                        trusted.append((distance_km(centres, *pair), pair, measured[pair]))
                spread[pair] = deviation
                if pair[0] != pair[1] and count >= REGRESSION_MIN_PINGS:
                    self.relative.append(deviation / mean)
        self.measured = len(measured)
        self.fit(sorted(trusted))
        self.rtt: dict[Pair, int] = {}
        self.deviation: dict[Pair, int] = {}
        self.countries = sorted({country for pair in measured for country in pair})
        for i, a in enumerate(self.countries):
            for b in self.countries[i:]:
                line = max(self.line(distance_km(centres, a, b)), floor_ms(centres, a, b))
                rtt = measured.get((a, b), line)
                if a == b and rtt > line:
                    self.capped_domestic += 1
                    rtt = line
                cap = DEVIATION_CAP * rtt
                deviation = spread.get((a, b), cap)
                self.capped += deviation > cap
                self.rtt[a, b] = math.floor(rtt * 1000 + 0.5)
                self.deviation[a, b] = math.floor(min(deviation, cap) * 1000 + 0.5)
        self.filled = len(self.rtt) - self.measured

    def fit(self, trusted: list[tuple[float, Pair, float]]) -> None:
        """Fit round trip = scale * distance^exponent: least squares in logarithms through medians of equal bins."""
        points = []
        for i in range(REGRESSION_BINS):
            part = trusted[i * len(trusted) // REGRESSION_BINS : (i + 1) * len(trusted) // REGRESSION_BINS]
            points.append((statistics.median(math.log(p[0]) for p in part), statistics.median(math.log(p[2]) for p in part)))
        mean_x, mean_y = (sum(p[k] for p in points) / len(points) for k in (0, 1))
        self.exponent = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
        self.scale = math.exp(mean_y - self.exponent * mean_x)
        self.trusted = len(trusted)

    def line(self, distance: float) -> float:
        """Return the round trip in ms that the regression expects at a distance in km."""
        return float(self.scale * distance**self.exponent)


def nearest_place(centres: Centres, country: str) -> str:
    """Return the built-in place whose centre is nearest; a place is nearest to itself."""
    return min(PLACES, key=lambda place: (country != place, distance_km(centres, country, place)))


def place_shares(centres: Centres, weighted: Iterable[tuple[str, float]]) -> list[float]:
    """Share of each built-in place, of (country, weight) pairs; unknown countries are left out."""
    total = dict.fromkeys(PLACES, 0.0)
    for country, weight in weighted:
        if country in centres:
            total[nearest_place(centres, country)] += weight
    whole = sum(total.values())
    return [total[place] / whole for place in PLACES]


def relay_shares(centres: Centres, path: pathlib.Path) -> dict[str, list[float]]:
    """Shares by link capacity for the four classes of relays, each drawn towards the share of all of them."""
    with path.open() as file:
        relays = [
            (row["IsGuard"] == "True", row["IsExit"] == "True", row["CCode"], float(row["LinkUp(KiB/s)"]))
            for row in csv.DictReader(file)
        ]
    overall = place_shares(centres, [r[2:] for r in relays])
    shares = {}
    for name, guard, exit_ in (
        ("MIDDLES", False, False),
        ("GUARDS", True, False),
        ("EXITS", False, True),
        ("GUARD_EXITS", True, True),
    ):
        own = [r[2:] for r in relays if r[:2] == (guard, exit_)]
        n = len(own)
        shares[name] = [
            (n * mine + CLASS_PRIOR_RELAYS * all_) / (n + CLASS_PRIOR_RELAYS)
            for mine, all_ in zip(place_shares(centres, own), overall, strict=True)
        ]
    return shares


def rust_array(name: str, doc: str, numbers: Sequence[int], of: str = "u32") -> str:
    """Return a documented constant array as Rust source."""
    body = ", ".join(f"{n:_}" for n in numbers)
    return f"/// {doc}\npub(super) const {name}: [{of}; {len(numbers)}] = [{body}];\n"


def generate(data: pathlib.Path) -> tuple[Table, dict[str, list[float]], str, str]:
    """Return the cleaned table, the shares, the Rust source and the picture."""
    centres = read_centres()
    table = Table(data / "network/country-rtt-2025.csv.gz", centres)
    pairs = [ordered(PLACES[j], PLACES[i]) for i in range(len(PLACES)) for j in range(i + 1)]
    with lzma.open(data / "network/country-bandwidth-2020.json.xz") as file:
        access = json.load(file)["countries"]
    with lzma.open(data / "reference/shadow-networks/10pct-load1.0-1.network.json.xz") as file:
        shadow = json.load(file)
    users = [(c["country"], 1e6 / c["mean_flow_interval_us"]) for c in shadow["clients"]]
    servers = [(s["country"], 1.0) for s in shadow["servers"]]
    weights = dict(relay_shares(centres, data / "network/relay-capacities-2018.csv"))
    weights["USERS"] = place_shares(centres, users)
    weights["SERVERS"] = place_shares(centres, servers)
    docs = {
        "MIDDLES": "relays that are neither guard nor exit",
        "GUARDS": "relays that are guards and not exits",
        "EXITS": "relays that are exits and not guards",
        "GUARD_EXITS": "relays that are both guards and exits",
        "USERS": "users",
        "SERVERS": "the servers that users talk to",
    }
    quoted = ", ".join(f'"{p}"' for p in PLACES)
    text = (
        "//! The built-in numbers. Generated by `python3 tools/fit_latency.py`; do not edit.\n//!\n"
        "//! What they are and how they were fitted: `docs/latency.md`.\n\n"
        "/// The built-in places: country codes (ISO 3166).\n"
        f"pub(super) const PLACES: [&str; {len(PLACES)}] = [{quoted}];\n\n"
    )
    text += rust_array(
        "RTT_MICROS",
        "Round trips in microseconds; lower triangle with diagonal, row after row, in the order of [`PLACES`].",
        [table.rtt[p] for p in pairs],
    )
    text += "\n" + rust_array(
        "DEVIATION_MICROS",
        "Deviation of the round trips in microseconds; the same order.",
        [table.deviation[p] for p in pairs],
    )
    for name, what in docs.items():
        text += "\n" + rust_array(
            name,
            f"Shares of {what} by place, in hundred-thousandths.",
            [math.floor(1e5 * s + 0.5) for s in weights[name]],
        )
    text += "\n/// Consumer access by place, April 2020: up and down in kbit/s.\n"
    rates = ", ".join(f"({round(access[p]['up_mbits'] * 1000):_}, {round(access[p]['down_mbits'] * 1000):_})" for p in PLACES)
    text += f"pub(super) const ACCESS_KBITS: [(u32, u32); {len(PLACES)}] = [{rates}];\n"
    formatted = subprocess.run(
        ["rustfmt", "--edition", "2024", "--config-path", str(ROOT)],
        input=text,
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    return table, weights, formatted, heat_map(table)


def heat_map(table: Table) -> str:
    """Draw the built-in round trips as an SVG: one square a pair, dark = far, the number in ms."""
    cell, left, top = 26, 34, 46
    size = cell * len(PLACES)
    # From light yellow through green to dark blue: perceptually even enough to read, and in black and white too.
    stops = [(255, 250, 205), (120, 198, 121), (35, 120, 140), (30, 40, 100)]

    def colour(ms: float) -> str:
        x = min(math.sqrt(ms / 350), 1) * (len(stops) - 1)
        i = min(int(x), len(stops) - 2)
        return "#" + "".join(f"{round(p + (q - p) * (x - i)):02x}" for p, q in zip(stops[i], stops[i + 1], strict=True))

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + size + 8} {top + size + 8}" '
        f'font-family="sans-serif" font-size="10" text-anchor="middle">',
        f'<rect width="{left + size + 8}" height="{top + size + 8}" fill="white"/>',
        f'<text x="{left}" y="16" font-size="13" text-anchor="start">'
        "Round trip between places, ms (without access delays)</text>",
    ]
    for i, place in enumerate(PLACES):
        out.append(f'<text x="{left + cell * (i + 0.5)}" y="{top - 6}">{place}</text>')
        out.append(f'<text x="{left - 14}" y="{top + cell * (i + 0.5) + 4}">{place}</text>')
        for j, other in enumerate(PLACES):
            ms = table.rtt[ordered(place, other)] / 1000
            x, y = left + cell * j, top + cell * i
            ink = "white" if ms > 110 else "black"
            out.append(f'<rect x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}" fill="{colour(ms)}"/>')
            out.append(f'<text x="{x + cell / 2 - 0.5}" y="{y + cell / 2 + 3.5}" fill="{ink}">{ms:.0f}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> int:
    """Write the generated files, or compare them, and print what the cleaning did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the committed files differ")
    arguments = parser.parse_args()
    table, weights, rust, svg = generate(arguments.data)
    print(f"countries {len(table.countries)}, pairs {len(table.rtt)}: measured {table.measured}, filled {table.filled}")
    print(f"rows skipped {table.skipped}, floored {table.floored}, in-country capped {table.capped_domestic}")
    print(f"deviations capped {table.capped}; line from {table.trusted} pairs: {table.scale!r} ms * km^{table.exponent!r}")
    print("deciles of deviation / mean: " + ", ".join(f"{q:.3f}" for q in statistics.quantiles(table.relative, n=10)))
    for name, shares in weights.items():
        top = sorted(zip(shares, PLACES, strict=True), reverse=True)[:6]
        print(f"{name}: " + ", ".join(f"{place} {100 * share:.1f} %" for share, place in top))
    stale = [path for path, text in ((GENERATED, rust), (PICTURE, svg)) if not path.exists() or path.read_text() != text]
    if arguments.check:
        for path in stale:
            print(f"differs: {path.relative_to(ROOT)}", file=sys.stderr)
        return 1 if stale else 0
    GENERATED.write_text(rust)
    PICTURE.write_text(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
