"""The exceptions that onionlab raises on purpose.

Each carries ``code``, a stable word that scripts can compare; its text is one sentence for people.
"""

from onionlab._core import Cancelled, DocumentError, OnionlabError, QuestionError, RunError, ScenarioError

__all__ = [
    "Cancelled",
    "ClusterError",
    "DocumentError",
    "OnionlabError",
    "QuestionError",
    "ResultsError",
    "RunError",
    "ScenarioError",
]


class ResultsError(OnionlabError):
    """A results directory is missing, empty, locked by another process, or not what it should be."""

    code = "results"


class ClusterError(OnionlabError):
    """A cluster cannot be used: it cannot be reached, has gone away, or one of its workers has another onionlab."""

    code = "cluster"
