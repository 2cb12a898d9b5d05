"""Numbers of somebody else's measurement, as single transfers or published quantiles; and the mechanisms by which ours differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from onionlab.quantity import format_size
from onionlab.reproductions import beside

#: Times of a transfer, and how a table calls them.
METRICS = {"ttfb": "first byte", "ttlb": "last byte"}


@dataclass(frozen=True)
class Quantiles:
    """What is published of a distribution, in seconds.

    Quantiles are interpolated linearly between order statistics, as the reference's own summary does: of ten values, the median
    is the middle of the fifth and the sixth. (The rest of onionlab takes the lower order statistic instead.)
    """

    count: int
    min: float
    p10: float
    median: float
    p90: float
    max: float

    @classmethod
    def of(cls, values: pl.Series) -> Quantiles:
        """Of a sample, rounded to the tenth of a millisecond."""
        cuts = np.quantile(values.to_numpy(), [0.0, 0.1, 0.5, 0.9, 1.0])
        return cls(values.len(), *(round(float(cut), 4) for cut in cuts))


@dataclass(frozen=True)
class Case:
    """One experiment and what was measured in it.

    Attributes
    ----------
    name
        Stem of the experiment file.
    folder
        Where the reference keeps the measurement.
    setting
        Network and load in words.
    figures
        By size of the transfer in bytes, without headers, and by key of `METRICS`.
    """

    name: str
    folder: str
    setting: str
    figures: dict[tuple[int, str], Quantiles]


@dataclass(frozen=True)
class Published:
    """The file ``published.json``."""

    source: str
    cases: tuple[Case, ...]


def load_published(path: Path) -> Published:
    """Read ``published.json``.

    Raises
    ------
    ResultsError
        If the file is missing or is not what it should be.
    """
    with beside.checked(f"{path} is not a list of published figures"):
        content = beside.published(path)
        cases = tuple(
            Case(
                name=case["experiment"],
                folder=case["folder"],
                setting=case["setting"],
                figures={(row["bytes"], row["metric"]): Quantiles(**row["seconds"]) for row in case["figures"]},
            )
            for case in content["cases"]
        )
        return Published(content["source"], cases)


def quantiles(samples: pl.DataFrame) -> dict[tuple[int, str], Quantiles]:
    """Quantiles of the columns ``ttfb`` and ``ttlb`` for each size in the column ``bytes``."""
    found = {}
    for (size,), rows in samples.sort("bytes", maintain_order=True).group_by("bytes", maintain_order=True):
        for metric in METRICS:
            found[int(size), metric] = Quantiles.of(rows[metric])
    return found


def load_samples(folder: Path) -> pl.DataFrame | None:
    """Every completed transfer of the reference as ``bytes, ttfb, ttlb`` (seconds); None without its ``results.csv``."""
    path = folder / "results.csv"
    if not path.is_file():
        return None
    kinds = {"ok": pl.Int64(), "bytes": pl.Int64(), "ttfb_s": pl.Float64(), "ttlb_s": pl.Float64()}
    rows = beside.table(path, kinds).filter(pl.col("ok") == 1)
    return rows.select("bytes", ttfb="ttfb_s", ttlb="ttlb_s")


def label(size: int, metric: str) -> str:
    """``last byte of 50 kB``."""
    return f"{METRICS[metric]} of {format_size(size)}"


def load_differences(path: Path) -> list[dict[str, str]]:
    """Read ``differences.toml``: mechanisms by which ours differ, each with ``what``, ``mechanism`` and ``evidence``.

    What takes more than a sentence or two to show has ``details`` too, in Markdown.
    """
    with beside.checked(f"{path} is not a list of differences"):
        document = {"difference": [], **beside.toml(path)}
        rows = beside.rows(document, "difference", ("what", "mechanism", "evidence"))
        for row, written in zip(rows, document["difference"], strict=True):
            if "details" in written:
                row["details"] = str(written["details"])
        return rows


def differences_section(differences: Sequence[Mapping[str, str]]) -> list[str]:
    """The section of a page that shows them, details below the table; nothing if there are none."""
    if not differences:
        return []
    lines = ["## What differs, and why", "", "| | what | mechanism | evidence |", "| ---: | --- | --- | --- |"]
    for number, row in enumerate(differences, 1):
        evidence = f"{row['evidence']} ([details](#difference-{number}))" if "details" in row else row["evidence"]
        lines.append(f"| {number} | {row['what']} | {row['mechanism']} | {evidence} |")
    lines.append("")
    for number, row in enumerate(differences, 1):
        if "details" in row:
            lines += [f'<a id="difference-{number}"></a>', "", f"### {number}. {row['what']}", "", row["details"].strip(), ""]
    return lines
