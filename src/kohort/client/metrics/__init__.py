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

__all__ = [
    "Definition",
    "Definitions",
    "Measurements",
    "MetricName",
    "MetricValue",
    "NetworkMetrics",
    "NodeMetrics",
    "Report",
    "Sampling",
    "average_and_max",
    "rate_and_total",
    "seconds_ago",
    "sum_rate_and_total",
    "total",
    "total_ns",
]
