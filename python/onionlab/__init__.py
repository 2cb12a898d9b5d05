"""onionlab: a laboratory for the performance of the Tor network.

In a notebook, the same as on the command line, with frames in and out:

>>> import onionlab
>>> exp = onionlab.run("experiments/swrr/demo.toml")   # doctest: +SKIP
>>> exp.summary                                        # doctest: +SKIP
>>> exp.transfers                                      # doctest: +SKIP
"""

from onionlab._core import version as _version
from onionlab.errors import (
    Cancelled,
    ClusterError,
    DocumentError,
    OnionlabError,
    QuestionError,
    ResultsError,
    RunError,
    ScenarioError,
)
from onionlab.results.comparison import Comparison, compare
from onionlab.results.experiment import Experiment, load
from onionlab.running.run import run
from onionlab.running.until import UntilCi

__version__ = _version()

__all__ = [
    "Cancelled",
    "ClusterError",
    "Comparison",
    "DocumentError",
    "Experiment",
    "OnionlabError",
    "QuestionError",
    "ResultsError",
    "RunError",
    "ScenarioError",
    "UntilCi",
    "__version__",
    "compare",
    "load",
    "run",
]
