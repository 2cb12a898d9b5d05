"""The report of an experiment: one HTML page that needs nothing else, the same charts as pictures, the same numbers as tables."""

from onionlab.report.write import write_report

__all__ = ["write_report"]
