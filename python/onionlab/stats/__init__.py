"""Statistics of an experiment: from record tables to intervals.

The unit of replication is the sampled network, not the run: values are computed per run, averaged over the seeds within a
network, and only then summarised over networks (Jansen et al., "Once is Never Enough", USENIX Security 2021). Nothing is pooled
across networks. What each number means and how far it can be trusted: docs/statistics.md.
"""

from onionlab.stats.caveats import warnings
from onionlab.stats.compare import paired_differences, per_network, summarise
from onionlab.stats.curves import cdf_bands, quantile_bands, series_bands, tail_quantiles
from onionlab.stats.intervals import Interval, lower_quantile, t_interval
from onionlab.stats.metrics import METRICS, Metric, per_run
from onionlab.stats.multiple import holm
from onionlab.stats.power import detectable, networks_for_width, networks_needed
from onionlab.stats.skewed import geometric_interval, mean_interval
from onionlab.stats.steady import Settling, steady_state
from onionlab.stats.variance import variance_split

__all__ = [
    "METRICS",
    "Interval",
    "Metric",
    "Settling",
    "cdf_bands",
    "detectable",
    "geometric_interval",
    "holm",
    "lower_quantile",
    "mean_interval",
    "networks_for_width",
    "networks_needed",
    "paired_differences",
    "per_network",
    "per_run",
    "quantile_bands",
    "series_bands",
    "steady_state",
    "summarise",
    "t_interval",
    "tail_quantiles",
    "variance_split",
    "warnings",
]
