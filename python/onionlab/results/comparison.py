"""Comparing finished experiments: what differs between them, which of them can be paired, and what came out.

Every treatment of every results directory, and of every point of a sweep, is a variant; the first one is the base of comparison.
Two variants are paired where they ran on the same sampled networks with the same seeds: then common random numbers make them
alike in everything but the keys in which their scenarios differ. Otherwise their networks are independent samples, and
differences have Welch's interval.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from onionlab.errors import ResultsError
from onionlab.plan import in_words
from onionlab.results.describe import repeated
from onionlab.results.experiment import Experiment, load
from onionlab.results.written import CONTENT, NONE, are_told_apart, of_scenario, of_treatment
from onionlab.stats import per_network, summarise
from onionlab.stats.compare import correct_for_number, more_missing_apart, not_judged, seeds_as_networks, verdict
from onionlab.stats.metrics import WHOLE
from onionlab.stats.welch import welch_interval, welch_p_value, welch_ratio

#: Keys that decide which networks are sampled; and those that say what happens to packets between the same hosts.
_OF_NETWORK = ("network.", "base-seed")
_OF_PATHS = ("network.loss", "network.jitter", "network.latency-")

#: Values of a setting that a variant does not have.
ABSENT = (None, NONE)

#: First column of `Comparison.differing`.
_KEY = "key"


@dataclass(frozen=True)
class Variant:
    """One treatment of one experiment."""

    #: What it is called in tables and charts; unlike all others.
    label: str
    #: The experiment; of a sweep, that at one point.
    experiment: Experiment
    treatment: str
    #: Every setting by its dotted key in an experiment file (a treatment's own as in its table), as text.
    settings: Mapping[str, str]
    #: The same as the plan has it, which leaves open what depends on the version of tor or on the consensus.
    planned: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> set[tuple[int, int]]:
        """Finished runs, as (network, seed)."""
        return {(run.network, run.seed) for run in self.experiment.finished if run.treatment == self.treatment}

    @property
    def network_seeds(self) -> dict[int, int]:
        """Seed from which each network was sampled."""
        own: pl.DataFrame = (
            self.experiment.runs.filter(pl.col("treatment") == self.treatment).select("network", "network_seed").unique()
        )
        return {int(network): int(seed) for network, seed in own.iter_rows()}

    def labelled(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The variant's rows of a frame of its experiment, with its label as the treatment."""
        return frame.filter(pl.col("treatment") == self.treatment).with_columns(treatment=pl.lit(self.label))


def settings(experiment: Experiment, treatment: str) -> dict[str, str]:
    """Every setting of one treatment of an experiment: its scenario's, the treatment's own, and which simulator ran it.

    The treatment's are those that its runs had: a version of tor that brings Conflux with Vegas differs in both.
    """
    return _settings(experiment, experiment.in_force.get(treatment, {}))


def _planned(experiment: Experiment, treatment: str) -> dict[str, str]:
    """`settings` as the plan has them."""
    entries = experiment.plan.scenario.get("treatments", [])
    return _settings(experiment, next((entry for entry in entries if entry.get("name") == treatment), {}))


def _settings(experiment: Experiment, own: Mapping[str, Any]) -> dict[str, str]:
    """Every setting of an experiment with those of one treatment."""
    found = of_scenario(experiment.plan.scenario) | of_treatment(own)
    chosen = experiment.evaluation.measure_from
    if chosen is not None:
        found["measure-from"] = chosen
    return found | {"onionlab": f"{experiment.plan.version}, build {experiment.plan.build or 'unknown'}"}


def variants(directories: Sequence[Path]) -> list[Variant]:
    """Every treatment of every directory that has a finished run.

    Raises
    ------
    ResultsError
        If a directory is no results directory, is named twice, or there are fewer than two variants.
    """
    twice = [str(path) for path, count in Counter(path.resolve() for path in directories).items() if count > 1]
    if twice:
        raise ResultsError(f"{twice[0]} is named twice; a comparison needs different experiments")
    found: list[tuple[Path, str, str, Experiment]] = []
    for path in directories:
        whole = load(path)
        numbers = range(len(whole.plan.points))
        parts = [(in_words(whole.plan.points[n]), whole.at(n)) for n in numbers] if whole.swept else [("", whole)]
        for at, experiment in parts:
            there = {run.treatment for run in experiment.finished}
            found += [(path, at, name, experiment) for name in experiment.treatments if name in there]
    if len(found) < 2:
        raise ResultsError("there is only one treatment of one experiment; a comparison needs two")
    labels = _labels([(path, at, name) for path, at, name, _ in found])
    return [
        Variant(label, experiment, name, settings(experiment, name), _planned(experiment, name))
        for label, (_, _, name, experiment) in zip(labels, found, strict=True)
    ]


def _labels(parts: Sequence[tuple[Path, str, str]]) -> list[str]:
    """The shortest names that tell all variants apart: by treatment, by directory, or by all that there is.

    None of them is `_KEY`, beside which they are columns.
    """
    short = Counter(path.resolve().name for path in {path for path, _, _ in parts})

    def folder(path: Path) -> str:
        name = path.resolve().name
        return name if short[name] == 1 else str(path)

    forms = (
        [name for _, _, name in parts],
        [folder(path) for path, _, _ in parts],
        [at for _, at, _ in parts],
        [f"{folder(path)}: {name}" for path, _, name in parts],
        [f"{name}, {at}" if at else "" for _, at, name in parts],
    )
    for labels in forms:
        if all(labels) and _KEY not in labels and len(set(labels)) == len(labels):
            return labels
    return [": ".join(part for part in (folder(path), at, name) if part) for path, at, name in parts]


@dataclass(frozen=True)
class Comparison:
    """Variants of finished experiments side by side; the first is the base."""

    variants: tuple[Variant, ...]

    def report(self, into: str | Path) -> Path:
        """Draw charts, tables and ``compare.html`` into a folder; return the path of the page."""
        return _drawn(self, Path(into))

    @property
    def base(self) -> Variant:
        """What the others are compared with."""
        return self.variants[0]

    @property
    def labels(self) -> list[str]:
        """Names of the variants in their order."""
        return [variant.label for variant in self.variants]

    @cached_property
    def places(self) -> list[int]:
        """Each variant's place in the palette: that of its treatment in its own report, or the first that is free."""
        own = [variant.experiment.treatments.index(variant.treatment) for variant in self.variants]
        kept = [place not in own[:number] for number, place in enumerate(own)]
        free = (place for place in range(2 * len(own) + max(own)) if place not in own)
        return [place if keeps else next(free) for place, keeps in zip(own, kept, strict=True)]

    @cached_property
    def differing(self) -> pl.DataFrame:
        """Settings that are not the same everywhere: ``key``, then a column per variant; null where a variant has no such key."""
        keys = dict.fromkeys(key for variant in self.variants for key in variant.settings)
        rows = [
            (key, *(variant.settings.get(key) for variant in self.variants))
            for key in keys
            if are_told_apart(key, [variant.settings.get(key) for variant in self.variants])
        ]
        return pl.DataFrame(rows, schema=[(name, pl.String) for name in (_KEY, *self.labels)], orient="row")

    @cached_property
    def brought_along(self) -> set[str]:
        """Keys of `differing` that tell nothing new: no file says them, and all variants that have them have the same value.

        Such are the parameters of Vegas where only some variants have Vegas.
        """
        found = set()
        for key, *values in self.differing.iter_rows():
            there = {value for value in values if value not in ABSENT}
            alike = len({variant.planned.get(key) or NONE for variant in self.variants}) == 1
            if len(there) == 1 and alike:
                found.add(key)
        return found

    @cached_property
    def unpaired(self) -> dict[str, str]:
        """Variants that cannot be paired with the base, with the reason."""
        found = {}
        for variant in self.variants[1:]:
            reason = _why_unpaired(self.base, variant)
            if reason:
                found[variant.label] = reason
        return found

    def pairs(self, variant: Variant) -> int:
        """Networks (or seeds, where these are repeated) that a variant shares with the base; 0 where they are not paired."""
        return 0 if variant.label in self.unpaired else self._repeats_of(variant.runs & self.base.runs)

    def repeats(self, variant: Variant) -> int:
        """Over how many networks (or seeds, where these are repeated) a variant has figures, as its means are taken."""
        return self._repeats_of(variant.runs)

    def _repeats_of(self, runs: set[tuple[int, int]]) -> int:
        return len({seed if self.by_seed else network for network, seed in runs})

    @property
    def repeated(self) -> str:
        """What means are taken over, in words."""
        words = {repeated(variant.experiment) for variant in self.variants}
        return words.pop() if len(words) == 1 else "networks"

    @property
    def by_seed(self) -> bool:
        """Whether seeds, not networks, are what is repeated, in all variants."""
        return all(variant.experiment.by_seed for variant in self.variants)

    def over_repeats(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of runs with what is repeated in all variants as their ``network``."""
        return seeds_as_networks(rows) if self.by_seed else rows

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of client of all variants, in the order of their first appearance."""
        return list(dict.fromkeys(kind for variant in self.variants for kind in variant.experiment.kinds))

    @cached_property
    def figures(self) -> pl.DataFrame:
        """Every figure per run, the variant's label as treatment; see `onionlab.stats.per_run`."""
        return pl.concat(variant.labelled(variant.experiment.figures) for variant in self.variants)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """As `onionlab.stats.summarise` with the labels as treatments, and ``pairing``: how the difference was taken.

        ``paired`` over networks, or ``Welch`` over two samples of networks, which knows no number of networks needed.
        """
        figures = self.over_repeats(self.figures)
        frame = summarise(figures, self.labels, [*self.kinds, WHOLE], by_seed=self.by_seed)
        values = per_network(figures).partition_by("treatment", "kind", "metric", as_dict=True, maintain_order=True)
        rows = frame.to_dicts()
        for row in rows:
            row["pairing"] = None
            if row["verdict"] is None:
                continue
            row["pairing"] = "paired"
            if row["treatment"] in self.unpaired:
                row["pairing"] = "Welch"
                sides = (values.get((label, row["kind"], row["metric"])) for label in (row["treatment"], self.base.label))
                ours, theirs = ([] if side is None else side["value"].to_list() for side in sides)
                missing = more_missing_apart(figures, row["treatment"], self.base.label, row["kind"])
                row |= _unpaired_difference(row["metric"], ours, theirs, missing, by_seed=self.by_seed)
        correct_for_number(rows)
        return pl.DataFrame(rows, schema={**frame.schema, "pairing": pl.String}, orient="row")


def _drawn(comparison: Comparison, into: Path) -> Path:
    """Write the page of a comparison."""
    from onionlab.report.comparison import write_comparison

    return write_comparison(comparison, into)


def _why_unpaired(base: Variant, variant: Variant) -> str:
    """Why a variant's networks are not the base's; empty where they are."""
    # Of networks of different kinds all else differs, too.
    for key in sorted(dict.fromkeys([*base.settings, *variant.settings]), key=lambda key: key != "network.kind"):
        if not key.startswith(_OF_NETWORK) or key.startswith(_OF_PATHS):
            continue
        # The same document may lie elsewhere: its content counts.
        if f"{key}{CONTENT}" in base.settings and f"{key}{CONTENT}" in variant.settings:
            continue
        if are_told_apart(key, [base.settings.get(key), variant.settings.get(key)]):
            return f"its networks are sampled otherwise: {key} differs"
    common = base.runs & variant.runs
    if not common:
        return "no network and seed has a finished run of both"
    seeds, others = base.network_seeds, variant.network_seeds
    if any(seeds[network] != others[network] for network, _ in common):
        return "networks of the same number come from different seeds"
    return ""


def _unpaired_difference(metric: str, ours: list[float], theirs: list[float], missing: float, *, by_seed: bool) -> dict[str, Any]:
    """Columns of the difference of two independent samples, in place of the paired ones.

    ``missing``: by how many points more downloads did not complete; ``by_seed``: whether the samples are of seeds.
    """
    difference = welch_interval(ours, theirs)
    mean = sum(theirs) / len(theirs) if theirs else None
    words = None if difference is None else not_judged(metric, difference, mean, missing)
    if difference is not None and words is not None:
        bounds = ("difference_low", "difference_high", "ratio", "ratio_low", "ratio_high")
        return {
            **dict.fromkeys((*bounds, "p", "p_holm", "networks_needed", "detectable")),
            "difference": difference.mean,
            "difference_networks": difference.count,
            "difference_percent": 100 * difference.mean / abs(mean) if mean else None,
            "verdict": words,
        }
    ratio = welch_ratio(ours, theirs) if difference is not None else None
    return {
        "difference": None if difference is None else difference.mean,
        "difference_low": None if difference is None else difference.low,
        "difference_high": None if difference is None else difference.high,
        "difference_networks": None if difference is None else difference.count,
        "difference_percent": None if difference is None or not mean else 100 * difference.mean / abs(mean),
        "ratio": None if ratio is None else ratio.mean,
        "ratio_low": None if ratio is None else ratio.low,
        "ratio_high": None if ratio is None else ratio.high,
        "p": welch_p_value(ours, theirs),
        "p_holm": None,
        "networks_needed": None,
        "detectable": None,
        "verdict": "no value of both" if difference is None else verdict(metric, difference, mean, paired=False, by_seed=by_seed),
    }


def compare(directories: str | Path | Sequence[str | Path]) -> Comparison:
    """Compare finished experiments.

    Parameters
    ----------
    directories : path or sequence of paths
        Results directories of `onionlab run`; the first treatment of the first one is the base.

    Raises
    ------
    ResultsError
        If there is nothing to compare.

    Examples
    --------
    >>> onionlab.compare(["out/kist", "out/vanilla"]).summary  # doctest: +SKIP
    """
    named = [directories] if isinstance(directories, str | Path) else directories
    return Comparison(tuple(variants([Path(directory) for directory in named])))


def settings_json(comparison: Comparison) -> str:
    """All settings of all variants, as JSON."""
    return json.dumps({variant.label: dict(variant.settings) for variant in comparison.variants}, indent=1, ensure_ascii=False)
