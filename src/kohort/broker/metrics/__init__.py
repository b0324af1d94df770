"""Metrics of one broker for Prometheus and OpenMetrics; docs/metrics.md describes each name.

A broker without `BrokerMetrics` measures nothing. `MetricsEndpoint` serves them where there is no web page.
`ClusterMetrics` has those of several brokers. `RequestTrace` is for the laboratory.
"""

from kohort.broker.metrics.broker_metrics import BrokerMetrics, add_process
from kohort.broker.metrics.endpoint import MetricsEndpoint
from kohort.broker.metrics.of_cluster import ClusterMetrics
from kohort.broker.metrics.request_trace import RequestTrace

__all__ = ["BrokerMetrics", "ClusterMetrics", "MetricsEndpoint", "RequestTrace", "add_process"]
