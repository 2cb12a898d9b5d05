"""onionlab: a laboratory for the performance of the Tor network.

In a notebook, the same as on the command line, with frames in and out:

>>> import onionlab
>>> exp = onionlab.run("experiments/swrr/demo.toml")   # doctest: +SKIP
>>> exp.summary                                        # doctest: +SKIP
>>> exp.transfers                                      # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onionlab._core import version as _version

if TYPE_CHECKING:
    from onionlab.charts import Chart
    from onionlab.errors import (
        Cancelled,
        ClusterError,
        DocumentError,
        ImportedError,
        OnionlabError,
        QuestionError,
        ResultsError,
        RunError,
        ScenarioError,
        UntrustedError,
    )
    from onionlab.results.comparison import Comparison, Variant, compare
    from onionlab.results.experiment import Experiment, Failure, load
    from onionlab.running.observer import Observer, Replaced
    from onionlab.running.run import run
    from onionlab.running.until import UntilCi
    from onionlab.stats import METRICS

__version__ = _version()

__all__ = [
    "METRICS",
    "Cancelled",
    "Chart",
    "ClusterError",
    "Comparison",
    "DocumentError",
    "Experiment",
    "Failure",
    "ImportedError",
    "Observer",
    "OnionlabError",
    "QuestionError",
    "Replaced",
    "ResultsError",
    "RunError",
    "ScenarioError",
    "UntilCi",
    "UntrustedError",
    "Variant",
    "__version__",
    "compare",
    "load",
    "run",
]


#: Where what is offered lies. It is loaded when it is asked for: a command line that only says its version, or is stopped as it
#: starts, needs none of it.
_HOMES = {
    "charts": ("Chart",),
    "errors": (
        "Cancelled",
        "ClusterError",
        "DocumentError",
        "ImportedError",
        "OnionlabError",
        "QuestionError",
        "ResultsError",
        "RunError",
        "ScenarioError",
        "UntrustedError",
    ),
    "results.comparison": ("Comparison", "Variant", "compare"),
    "results.experiment": ("Experiment", "Failure", "load"),
    "running.observer": ("Observer", "Replaced"),
    "running.run": ("run",),
    "running.until": ("UntilCi",),
    "stats": ("METRICS",),
}


def __getattr__(name: str) -> Any:
    """What is offered, out of the module in which it lies; it stays here, so that this is asked once for each."""
    for home, names in _HOMES.items():
        if name in names:
            offered = globals()[name] = getattr(import_module(f"onionlab.{home}"), name)
            return offered
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
