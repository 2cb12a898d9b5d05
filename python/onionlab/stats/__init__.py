"""Statistics of an experiment: from record tables to intervals.

The unit of replication is the sampled network, not the run: values are computed per run, averaged over the seeds within a
network, and only then summarised over networks (Jansen et al., "Once is Never Enough", USENIX Security 2021). Nothing is pooled
across networks.
"""

from onionlab.stats.compare import paired_differences, per_network, summarise
from onionlab.stats.curves import cdf_bands, series_bands
from onionlab.stats.intervals import Interval, lower_quantile, t_interval
from onionlab.stats.metrics import METRICS, Metric, per_run

__all__ = [
    "METRICS",
    "Interval",
    "Metric",
    "cdf_bands",
    "lower_quantile",
    "paired_differences",
    "per_network",
    "per_run",
    "series_bands",
    "summarise",
    "t_interval",
]
