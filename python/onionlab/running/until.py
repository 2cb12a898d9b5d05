"""Adding networks until the interval of a metric is narrow enough.

Looking at the interval after each network and stopping when it is narrow undercovers: one stops where the spread happens to look
small. The rule here is Stein's: the first networks, the pilot, give the spread and with it the number of networks once and for
all, ``k = (t s / (w * mean))^2`` with t of the pilot's degrees of freedom. If after these the interval over all of them is still
wider than w, networks are added until it is not. What counts as the result is the mean with w to each side, or the interval over
all networks where that reaches further: in simulated experiments it covers in 96 to 97 of 100 (docs/results/coverage.md), while
stopping at the first narrow interval covers in 87 to 93.

A begin of the measurement that is found (``auto``) is that of the pilot's networks: with more of them it would be another, and
with it the pilot's values.

Network k is the same network whatever the number of networks: finished runs are kept, the rule looks at the first k in their
order, and so an interrupted search goes on to the same end.

References
----------
Stein, "A two-sample test for a linear hypothesis whose power is independent of the variance", Annals of Mathematical Statistics
16 (1945); Chow and Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean" (1965), for
stopping at the first narrow interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from onionlab.errors import ScenarioError
from onionlab.plan import Plan, read_experiment
from onionlab.quantity import format_number
from onionlab.results.describe import plural
from onionlab.results.evaluation import AUTO, Evaluation
from onionlab.results.experiment import Experiment, load, recorded_groups
from onionlab.running.observer import Observer
from onionlab.running.place import Place
from onionlab.running.runner import run_once
from onionlab.stats import METRICS, mean_interval, networks_for_width, paired_differences, per_network
from onionlab.stats.intervals import difference_interval
from onionlab.stats.metrics import WHOLE
from onionlab.stats.skewed import relative_half_width

#: Networks of the pilot. Fewer estimate the spread too badly: the rule pays for it with a larger factor t.
PILOT = 10

#: Narrowest width that can be asked for, as a share of the mean: no number of networks that anybody simulates gives less.
LEAST_WIDTH = 1e-4

#: Most networks unless told otherwise.
AT_MOST = 100


@dataclass(frozen=True)
class UntilCi:
    """When an interval is narrow enough, and of what.

    Attributes
    ----------
    width
        Half width of the 95 % interval as a share of the mean (of the first treatment's mean for differences), such as 0.05.
    metric
        Key into `onionlab.METRICS`.
    kind
        Kind of client, or ``whole network``; None for the first kind of the experiment that has the metric.
    of
        ``mean``: the intervals of all treatments must be narrow enough; ``difference``: those of all paired differences to the
        first treatment.
    at_most
        Most networks.
    """

    width: float
    metric: str = "ttlb_median"
    kind: str | None = None
    of: Literal["mean", "difference"] = "mean"
    at_most: int = AT_MOST

    def __post_init__(self) -> None:
        """Refuse what cannot be fulfilled."""
        if not LEAST_WIDTH <= self.width < 1:
            raise ScenarioError(f"--until-ci is {100 * self.width:g} %; allowed is {100 * LEAST_WIDTH:g} % to less than 100 %")
        if self.metric not in METRICS:
            raise ScenarioError(f"--metric {self.metric!r} is not one of {', '.join(METRICS)}")
        if self.of not in ("mean", "difference"):
            raise ScenarioError(f"--of {self.of!r} is not one of mean, difference")
        if self.at_most < PILOT:
            raise ScenarioError(f"--max-networks is {self.at_most}; the rule needs a pilot of {PILOT} networks")

    @property
    def what(self) -> str:
        """The metric in words."""
        label = METRICS[self.metric].label
        of = f"{label} of {self.kind}" if self.kind else label
        return f"the difference of {of}" if self.of == "difference" else of


def parse_width(text: str) -> float:
    """Read a relative width such as ``5%`` or ``0.05``.

    Examples
    --------
    >>> parse_width("5%"), parse_width("2.5 %"), parse_width("0.05")
    (0.05, 0.025, 0.05)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
    if found is None:
        raise ScenarioError(f"--until-ci is {text!r}; allowed is a share of the mean such as 5%")
    return float(found[1]) / (100 if found[2] else 1)


def rule_from(given: UntilCi | str) -> UntilCi:
    """The rule itself, or that of a width such as ``5%``.

    Raises
    ------
    ScenarioError
        If it is neither.

    Examples
    --------
    >>> rule_from("5%").width
    0.05
    """
    if isinstance(given, UntilCi):
        return given
    if isinstance(given, str):
        return UntilCi(parse_width(given))
    raise ScenarioError(f"until_ci is {given!r}; allowed is a width such as '5%', or an onionlab.UntilCi")


def rule_of(width: str | None, *, metric: str | None, kind: str | None, of: str | None, at_most: int | None) -> UntilCi | None:
    """The rule that the options of a command line ask for; None without ``--until-ci``.

    Raises
    ------
    ScenarioError
        If an option cannot be used, or has no effect because there is no ``--until-ci``.
    """
    given: dict[str, Any] = {
        key: value for key, value in {"metric": metric, "kind": kind, "of": of, "at_most": at_most}.items() if value is not None
    }
    if width is None:
        if given:
            option = "--" + next(iter(given)).replace("at_most", "max-networks")
            raise ScenarioError(f"{option} belongs to --until-ci and has no effect without it")
        return None
    return UntilCi(parse_width(width), **given)


def samples(experiment: Experiment, rule: UntilCi, networks: int) -> list[tuple[list[float], float]]:
    """What the rule looks at, from the first ``networks`` networks.

    Returns
    -------
    list
        For each treatment (at each point of a sweep) the values, one per network, and the scale to which the width is relative:
        the mean, or that of the first treatment where the values are differences.
    """
    if experiment.swept:
        parts = [experiment.at(point) for point in range(len(experiment.plan.points))]
        return [found for part in parts if part.finished for found in samples(part, rule, networks)]
    figures = experiment.figures.filter(
        pl.col("network") < networks, pl.col("kind") == rule.kind, pl.col("metric") == rule.metric
    )
    means = per_network(figures).sort("network")
    found: list[tuple[list[float], float]] = []
    for treatment in experiment.treatments:
        values = means.filter(pl.col("treatment") == treatment)["value"].to_list()
        if rule.of == "mean":
            found.append((values, sum(values) / len(values) if values else 0.0))
        elif treatment != experiment.treatments[0]:
            pairs = paired_differences(figures, treatment, experiment.treatments[0]).sort("network")
            base = pairs["base"].mean()
            found.append((pairs["difference"].to_list(), float(base) if isinstance(base, int | float) else 0.0))
    return found


def relative_width(values: list[float], scale: float, of: str) -> float | None:
    """Half width of the interval of the values, as a share of the scale; None where it is not known."""
    if of == "mean":
        interval = mean_interval(values)
        return None if interval is None else relative_half_width(interval)
    interval = difference_interval(values)
    if interval is None or interval.low is None or interval.high is None or scale == 0:
        return None
    return (interval.high - interval.low) / 2 / abs(scale)


def stein(values: list[float], scale: float, width: float) -> int | None:
    """Networks that Stein's rule asks for after a pilot; None where it cannot say."""
    mean = sum(values) / len(values) if values else 0.0
    if scale == 0 or len(values) < 2:
        return None
    if mean == 0:
        # Differences that cancel: only the scale counts, not the mean.
        values, mean = [value + scale for value in values], scale
    return networks_for_width(values, width * abs(scale) / abs(mean))


def next_number(
    pilot: Sequence[tuple[list[float], float]], so_far: Sequence[tuple[list[float], float]], rule: UntilCi, networks: int
) -> tuple[int, float | None]:
    """How many networks the rule wants.

    Parameters
    ----------
    pilot, so_far : sequence of (values, scale)
        From `samples`, of the pilot's networks and of all ``networks`` that there are.
    rule : UntilCi
        When to stop.
    networks : int
        How many there are.

    Returns
    -------
    wanted : int
        ``networks`` if they are enough, more than the rule's maximum if no number is known.
    widest : float or None
        Half width of the widest interval, as a share; None where one is not known.
    """
    wanted = networks
    for values, scale in pilot:
        wanted = max(wanted, stein(values, scale, rule.width) or rule.at_most + 1)
    widths = [relative_width(values, scale, rule.of) for values, scale in so_far]
    known = [width for width in widths if width is not None]
    widest = max(known) if len(known) == len(widths) else None
    if wanted == networks and (widest is None or widest > rule.width):
        wanted = rule.at_most + 1 if widest is None else max(networks + 1, math.ceil(networks * (widest / rule.width) ** 2))
    return wanted, widest


def run_until(
    experiment: Path,
    root: Path,
    rule: UntilCi,
    *,
    tell: Callable[[str], None] = lambda _: None,
    place: Place | None = None,
    fresh: bool = False,
    report: bool = True,
    observer: Observer | None = None,
    measure_from: str | None = None,
) -> Experiment:
    """Run an experiment with as many networks as the rule asks for.

    Parameters
    ----------
    experiment, root : Path
        The experiment file and the results directory.
    rule : UntilCi
        When to stop.
    tell : callable
        Told a sentence at each step.
    place, fresh, report, observer, measure_from
        As for `onionlab.running.runner.run_once`.

    Returns
    -------
    Experiment
        Its ``evaluation.until_ci`` says by which rule the number was found and whether the width was reached: ``reached``,
        ``networks``, ``width`` (wished), ``found`` (the widest interval's half width as a share), and the rule's fields. A failed
        run ends the search.

    Raises
    ------
    ScenarioError
        If networks are not sampled, the metric or the kind has no values or a mean of zero, or each point of a sweep is to be
        measured from another time on.
    """
    pilot = networks = _pilot(experiment, rule, root, measure_from)
    # Where finished runs may be replaced, so may be those in the places of networks that are added later.
    renew = fresh
    while True:
        results = run_once(
            experiment,
            root,
            place=place,
            fresh=fresh,
            renew=renew,
            report=False,
            observer=observer,
            networks=networks,
            measure_from=measure_from,
        )
        # What was made anew once is not made anew at the next step.
        fresh = False
        if results.evaluation.measure_from == AUTO:
            measure_from = f"{results.measure_from:.15g} s"
            tell(f"measured from {measure_from} on, as the goodput of {networks} networks asks for")
            results = replace(results, evaluation=replace(results.evaluation, measure_from=measure_from))
        rule = _settled(rule, results)
        _refuse_hopeless(results, rule, pilot)
        more, found = _next(results, rule, pilot, networks)
        outcome = {**asdict(rule), "networks": networks, "found": found, "reached": more == networks and not results.failures}
        replace(results.evaluation, until_ci=outcome).write(root)
        if results.failures or more == networks or networks >= rule.at_most:
            break
        networks = min(more, rule.at_most)
        have = "not known" if found is None else f"±{format_number(100 * found, 2)} %"
        tell(f"{rule.what}: {have} with {results.plan.networks} networks; going on to {networks}")
    finished = replace(load(root), failures=results.failures)
    if report:
        finished.report()
    return finished


def _pilot(experiment: Path, rule: UntilCi, root: Path, measure_from: str | None) -> int:
    """Networks of the pilot; an experiment to which the rule cannot be applied is refused."""
    plan = Plan.of(experiment, read_experiment(experiment))
    if plan.scenario.get("network", {}).get("kind") in ("explicit", "file"):
        raise ScenarioError(
            f"{experiment}: --until-ci adds sampled networks, and this network is not sampled; "
            "more `seeds` in the file narrow its intervals"
        )
    if rule.of == "difference" and len(plan.treatments) < 2:
        raise ScenarioError(f"{experiment}: --of difference needs two treatments")
    _check_kind(rule, recorded_groups(plan))
    if plan.points and AUTO in (measure_from, Evaluation.read(root).measure_from if measure_from is None else None):
        raise ScenarioError(
            f"{experiment}: --until-ci needs one begin of the measurement for all points of the sweep; --measure-from auto finds "
            "one for each"
        )
    pilot = max(PILOT, plan.networks)
    if pilot > rule.at_most:
        raise ScenarioError(f"{experiment} asks for {pilot} networks; --max-networks {rule.at_most} is less")
    return pilot


def _check_kind(rule: UntilCi, groups: Sequence[str]) -> None:
    """Refuse a kind that no run can have: it is a group, a group with a size behind it, or the whole network."""
    if rule.kind in (None, WHOLE) or any(rule.kind == group or f"{rule.kind}".startswith(f"{group}, ") for group in groups):
        return
    raise ScenarioError(f"--kind {rule.kind!r} is not one of {_named([*groups, WHOLE])}")


def _named(kinds: Sequence[str]) -> str:
    """Names of kinds, in which there may be commas."""
    return ", ".join(f"'{kind}'" for kind in kinds)


def _settled(rule: UntilCi, results: Experiment) -> UntilCi:
    """The rule with its kind of client, the first that has the metric unless it names one; refuses one that does not exist."""
    kinds = [*results.kinds, WHOLE]
    if rule.kind is not None and rule.kind not in kinds:
        raise ScenarioError(
            f"--kind {rule.kind!r} is not one of {_named(kinds)}; "
            f"the {plural(results.plan.networks, 'network')} of the pilot are kept"
        )
    there = results.figures.filter(pl.col("metric") == rule.metric, pl.col("value").is_not_null())["kind"].unique()
    asked = kinds if rule.kind is None else [rule.kind]
    kind = next((kind for kind in asked if kind in there), None)
    if kind is None:
        raise ScenarioError(f"--metric {rule.metric} has no value for {' or '.join(asked)}")
    return replace(rule, kind=kind)


def _refuse_hopeless(results: Experiment, rule: UntilCi, pilot: int) -> None:
    """Refuse a rule that no number of networks fulfils: no width is a share of a mean that is zero."""
    if any(values and scale == 0 for values, scale in samples(results, rule, pilot)):
        where = " at some point of the sweep" if results.plan.points else ""
        raise ScenarioError(
            f"--metric {rule.metric} is 0 for {rule.kind} under some treatment{where}: no interval is as narrow as a share of "
            f"that; the {plural(pilot, 'network')} of the pilot are kept"
        )


def _next(results: Experiment, rule: UntilCi, pilot: int, networks: int) -> tuple[int, float | None]:
    """`next_number` of all treatments' values."""
    return next_number(samples(results, rule, pilot), samples(results, rule, networks), rule, networks)
