"""The networks of `make.py`, run here."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from make import LATENCY_MS, RATE, document, network, tgenrcs
from tgen import traffic

import onionlab
from onionlab.importing import import_network
from onionlab.importing.model import Options

MODELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "network"

#: In an imported network load begins then, and clients that measure a minute later.
BEGIN = 300
#: What the Markov clients do, beside the experiment.
TRAFFIC = "traffic.json"


def imported(setting: dict[str, Any], folder: Path, load: int, seeds: int, record: bool = False) -> Path:
    """The experiment of a network, with so many seconds of load; ``record``: what Markov clients do is kept too."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "small.network.json"
    relays = network(setting["middles"], setting["exits"], setting.get("short", "rate"), setting.get("rate", RATE))
    place.write_text(json.dumps(document(relays, setting["clients"], setting["interval_us"])))
    options = Options(models=MODELS, duration=f"{BEGIN + load} s", seeds=seeds)
    shutil.rmtree(folder / "imported", ignore_errors=True)
    import_network(place, folder / "imported", options=options)
    file = folder / "imported" / "experiment.toml"
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    tgenrcs(conf, MODELS, setting["clients"], setting["interval_us"], setting["seed"])
    (file.parent / TRAFFIC).write_text(json.dumps(traffic(conf, load), separators=(",", ":")))
    text = file.read_text()
    for pattern, instead in (
        (r"\[network\.latency-between\].*?\n\n", f'[network.latency-between]\nUS-US = "{2 * LATENCY_MS:g} ms"\n\n'),
        # tgen begins with its load, and waits by itself for up to a minute.
        (r"start = \{ from[^\n]*", f'start = "{BEGIN} s"'),
        (r'load = \{ kind = "markov"[^\n]*', f'load = {{ kind = "replay", path = "{TRAFFIC}" }}'),
        (r"\[\[clients\]\][^\n]*\n", "\\g<0>" if setting["patient"] else '\\g<0>server-stall = "30 s"\n'),
    ):
        text, found = re.subn(pattern, instead, text, flags=re.DOTALL)
        assert found, pattern
    if setting.get("spread"):
        text, found = re.subn(f'start = "{BEGIN + 60} s"', f'start = {{ from = "{BEGIN + 60} s", to = "{BEGIN + 120} s" }}', text)
        assert found
    if record:
        text, found = re.subn("record = false", "record = true", text)
        assert found
    file.write_text(text)
    return file


def downloads(results: onionlab.Experiment, group: str | None = None) -> pl.DataFrame:
    """As `shadow.SCHEMA` has them, of every seed; of one group of clients, or of all that are recorded."""
    since = (pl.col("start_ns") / 1e9 - BEGIN).alias("time")
    times = [
        ((pl.col(f"{column}_ns") - pl.col("start_ns")) / 1e9).alias(name)
        for column, name in (("connected", "connected"), ("first_byte", "first"), ("last_byte", "last"))
    ]
    ended = (pl.col("outcome") == "ok").alias("ok")
    of = results.transfers if group is None else results.transfers.filter(pl.col("group") == group)
    return of.select("seed", since, pl.col("size_bytes").alias("size"), ended, *times)


def spread(values: Sequence[float], digits: int) -> str:
    """The mean over runs, with the least and the most of them."""
    few = f"{statistics.fmean(values):.{digits}f}"
    return few if len(values) == 1 else f"{few} ({min(values):.{digits}f} – {max(values):.{digits}f})"
