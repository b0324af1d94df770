"""Metrics of all groups for Prometheus and OpenMetrics.

`GroupMetrics` counts what happens, as a sink of `Live`, and makes the text of each scrape. docs/metrics.md
describes each name.
"""

from kohort.watch.metrics.lags import MetricNames
from kohort.watch.metrics.scrape import MOST_PARTITIONS, GroupMetrics, MetricsOptions

__all__ = ["MOST_PARTITIONS", "GroupMetrics", "MetricNames", "MetricsOptions"]
