"""Metrics of the clients, with the names and groups of Apache Kafka's Java clients.

`Measurements` are taken where things happen, at most once for each request or batch; `metrics()`
computes rates and averages from them.
"""

from kohort.client.metrics.measurements import Measurements, Sampling
from kohort.client.metrics.names import (
    Definition,
    Definitions,
    MetricName,
    MetricValue,
    Report,
    average_and_max,
    rate_and_total,
    seconds_ago,
    sum_rate_and_total,
    total,
    total_ns,
)
from kohort.client.metrics.network import NetworkMetrics, NodeMetrics
from kohort.client.metrics.statistics import (
    NO_OFFSET,
    PARTITION,
    Document,
    StatisticsTimer,
    message_totals,
    named,
    since_ms,
    since_us,
    totals,
    window,
)

__all__ = [
    "NO_OFFSET",
    "PARTITION",
    "Definition",
    "Definitions",
    "Document",
    "Measurements",
    "MetricName",
    "MetricValue",
    "NetworkMetrics",
    "NodeMetrics",
    "Report",
    "Sampling",
    "StatisticsTimer",
    "average_and_max",
    "message_totals",
    "named",
    "rate_and_total",
    "seconds_ago",
    "since_ms",
    "since_us",
    "sum_rate_and_total",
    "total",
    "total_ns",
    "totals",
    "window",
]
