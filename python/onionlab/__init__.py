"""onionlab: a laboratory for the performance of the Tor network.

In a notebook, the same as on the command line, with frames in and out:

>>> import onionlab
>>> exp = onionlab.run("experiments/swrr/demo.toml")   # doctest: +SKIP
>>> exp.summary                                        # doctest: +SKIP
>>> exp.transfers                                      # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from onionlab._core import version as _version
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

if TYPE_CHECKING:
    from onionlab.charts import Chart

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


def __getattr__(name: str) -> Any:
    """The kind of charts, with which what draws them is loaded: most that is done with onionlab needs none of it."""
    if name == "Chart":
        from onionlab.charts import Chart

        return Chart
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
