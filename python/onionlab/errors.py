"""The exceptions that onionlab raises on purpose.

Each carries ``code``, a stable word that scripts can compare; its text is one sentence for people.
"""

from onionlab._core import Cancelled, DocumentError, OnionlabError, QuestionError, RunError, ScenarioError

__all__ = [
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
]


class ResultsError(OnionlabError):
    """A results directory is missing, empty, locked by another process, or not what it should be."""

    code = "results"


class UntrustedError(DocumentError):
    """A document of others cannot be used: not readable, too large, not of a known form, or not sensible."""

    code = "document-untrusted"


class ImportedError(UntrustedError):
    """A network made elsewhere cannot be used."""

    code = "document-import"


class ClusterError(OnionlabError):
    """A cluster cannot be used: it cannot be reached, has gone away, or one of its workers has another onionlab."""

    code = "cluster"
