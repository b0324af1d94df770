"""Metrics of one broker for Prometheus and OpenMetrics; docs/metrics.md describes each name.

A broker without `BrokerMetrics` measures nothing. `MetricsEndpoint` serves them where there is no web page.
"""

from kohort.broker.metrics.broker_metrics import BrokerMetrics, add_process
from kohort.broker.metrics.endpoint import MetricsEndpoint

__all__ = ["BrokerMetrics", "MetricsEndpoint", "add_process"]
