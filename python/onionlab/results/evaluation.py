"""How an experiment's records are evaluated, where that is not written in its experiment file.

``evaluation.json`` in the results directory holds what the command line chose: from when on is measured, and by which rule the
number of networks was found. It is there only if something was chosen.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onionlab.errors import ResultsError, ScenarioError, UntrustedError
from onionlab.files import write_text
from onionlab.quantity import seconds
from onionlab.untrusted import read_text

if TYPE_CHECKING:
    from onionlab.plan import Plan

FILE = "evaluation.json"

#: Most bytes of it; what is written has a few hundred.
_MOST = 2**20

#: The begin of the measurement is found instead of given.
AUTO = "auto"

#: What takes a choice back.
FROM_FILE = "file"


@dataclass(frozen=True)
class Evaluation:
    """Choices about an experiment's evaluation."""

    #: ``auto`` or a time; None for that of the experiment file.
    measure_from: str | None = None
    #: The rule that found the number of networks, with what came out (`onionlab.running.until`); None where the file gives it.
    until_ci: dict[str, Any] | None = None
    #: What the experiment file said of the begin when another was chosen; where it says something else by now, that counts.
    instead_of: str | None = None

    def write(self, root: Path) -> None:
        """Write ``evaluation.json``, or remove it where nothing was chosen."""
        if self == Evaluation():
            (root / FILE).unlink(missing_ok=True)
        else:
            write_text(root / FILE, json.dumps(asdict(self), indent=2, sort_keys=True) + "\n")

    @classmethod
    def read(cls, root: Path) -> Evaluation:
        """Read what `write` left; nothing chosen where there is no file."""
        path = root / FILE
        if not path.exists():
            return cls()
        try:
            found = cls(**json.loads(read_text(path, _MOST)))
            found._check()
        except (UntrustedError, ValueError, TypeError, KeyError, RecursionError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ResultsError(f"{path} is not what onionlab wrote: {reason}; without it the experiment file counts") from error
        return found

    def _check(self) -> None:
        """Refuse what is of another kind, with a `ValueError`, `TypeError` or `KeyError`."""
        from onionlab.stats.metrics import METRICS

        if self.measure_from is not None and self.measure_from != AUTO:
            seconds(str(self.measure_from))
        if self.instead_of is not None:
            seconds(str(self.instead_of))
        if (outcome := self.until_ci) is not None:
            numbers = [outcome["networks"], outcome["width"], 0 if outcome["found"] is None else outcome["found"]]
            if not all(isinstance(number, int | float) for number in numbers) or outcome["metric"] not in METRICS:
                raise ValueError("`until_ci` is no outcome of a search")
            if not all(isinstance(outcome[key], str) for key in ("of", "kind")) or not isinstance(outcome["reached"], bool):
                raise ValueError("`until_ci` is no outcome of a search")


def beginning(chosen: str, plan: Plan) -> Evaluation:
    """What the option ``--measure-from`` chooses: ``auto``, a time, or ``file`` for what the experiment file says.

    Raises
    ------
    ScenarioError
        If it is none of these, or a time that is not before the end of the simulation at any point.
    """
    if chosen == FROM_FILE:
        return Evaluation()
    if chosen != AUTO:
        _check_time(chosen, plan)
    return Evaluation(chosen, instead_of=str(plan.scenario["measure-from"]))


def _check_time(chosen: str, plan: Plan) -> None:
    """Refuse a begin of the measurement that is no time before the end of the simulation, at any point."""
    try:
        if not isinstance(chosen, str):
            raise ValueError
        begin = seconds(chosen)
    except ValueError:
        raise ScenarioError(f"--measure-from is {chosen!r}; allowed are auto, file and a time such as '40 s'") from None
    durations = dict.fromkeys(str(scenario["duration"]) for scenario in (plan.scenario, *plan.scenarios))
    shortest = min(durations, key=seconds)
    if begin >= seconds(shortest):
        where = " at one point of the sweep" if len(durations) > 1 else ""
        raise ScenarioError(f"--measure-from is {chosen}; it must be less than the duration, which is {shortest}{where}")


def remember_measure_from(chosen: str, root: Path, plan: Plan) -> None:
    """Evaluate a results directory from ``chosen`` on, as `beginning` reads it.

    A number of networks that was found with another begin is no longer said to have been found.
    """
    begins, before = beginning(chosen, plan), Evaluation.read(root)
    until = before.until_ci if begins.measure_from == before.measure_from else None
    replace(begins, until_ci=until).write(root)


def still_chosen(kept: Evaluation, plan: Plan) -> Evaluation:
    """What was chosen before, without a begin of the measurement that was chosen while the experiment file said another."""
    if kept.instead_of in (None, str(plan.scenario["measure-from"])):
        return kept
    return Evaluation()
