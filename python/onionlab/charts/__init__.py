"""The charts of a report."""

from onionlab.charts.build import Chart, all_charts
from onionlab.charts.theme import colours

__all__ = ["Chart", "all_charts", "colours"]
