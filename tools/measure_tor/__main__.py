# ruff: noqa: E501  (sentences and command lines)
"""Measures what real tor's computing costs, on a private network on 127.0.0.1, and writes ``docs/results/tor-cpu.md``.

    .venv/bin/python tools/measure_tor

It needs the programs ``tor`` and ``tor-gencert`` (tor 0.4.9; Debian: package tor) and Linux. It takes five minutes, starts ten processes in
temporary folders and ends them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import measures
import page
from network import Refused, find, version

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """The command; 1 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tor", default="tor", help="the tor program to measure")
    parser.add_argument("--repeats", type=int, default=5, help="how often each load is measured (5)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "results" / "tor-cpu.md", help="the page; its chart lies beside it"
    )
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux"):
        print("This measurement reads CPU times from Linux's /proc: it needs Linux.", file=sys.stderr)
        return 1

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    try:
        tor = find(arguments.tor)
        wire = measures.wire(tor, say)
        downloads, handshakes = measures.cpu(tor, arguments.repeats, say)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    page.write(arguments.out, version(tor), ".venv/bin/python tools/measure_tor", downloads, handshakes, wire)
    say(f"{arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
