"""Metrics in the form of kafka-python: by group and name, or as objects with a method `value`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kohort.client import MetricName


@dataclass(frozen=True, slots=True)
class KafkaMetric:
    """One metric as it was when it was asked for."""

    metric_name: MetricName
    _value: float | int | str

    def value(self) -> float | int | str:
        """Return the value."""
        return self._value


def metrics_of(found: Mapping[MetricName, float | int | str], raw: bool) -> dict[Any, Any]:
    """Return the metrics, as objects by name if `raw`, else the values by group and name.

    Groups and names are those of kafka-python, and those of Java that kafka-python does not have.
    """
    named = {_of_library(name): value for name, value in found.items()}
    for name, value in found.items():
        if name.name in _SAME and name.group in _SHARED:
            named[MetricName(_SAME[name.name], _SHARED[name.group], name.description, name.tags)] = value
        if name.name == "record-send-rate" and name.group == "producer-metrics":
            rates = [rate for topic, rate in found.items() if topic.name == "byte-rate" and isinstance(rate, float)]
            text = "Number of bytes sent in batches per second."
            named[MetricName("byte-rate", name.group, text, name.tags)] = sum(rates)
    if raw:
        return {name: KafkaMetric(name, value) for name, value in named.items()}
    groups: dict[str, dict[str, float | int | str]] = {}
    for name, value in named.items():
        groups.setdefault(name.group, {})[name.name] = value
    return groups


_SAME = {
    "produce-throttle-time-avg": "throttle-time-avg",
    "produce-throttle-time-max": "throttle-time-max",
    "fetch-throttle-time-avg": "throttle-time-avg",
    "fetch-throttle-time-max": "throttle-time-max",
    "fetch-latency-avg": "request-latency-avg",
    "fetch-latency-max": "request-latency-max",
}
"""kafka-python's names of some metrics of Java."""
_SHARED = {"producer-metrics": "producer-metrics", "consumer-fetch-manager-metrics": "consumer-metrics"}
"""Group in which kafka-python has them, by their group in Java."""


def _of_library(name: MetricName) -> MetricName:
    """Return the name with the group that kafka-python uses: that of a topic or a node ends with its name."""
    tags = name.tags
    if "partition" in tags:
        place = f"{tags['topic']}-{tags['partition']}"
    elif "node-id" in tags:
        place = _node(int(tags["node-id"].removeprefix("node-")))
    elif "topic" in tags:
        place = tags["topic"]
    else:
        return name
    return replace(name, group=f"{name.group}.{place}")


def _node(number: int) -> str:
    if number < 0:
        return f"node-bootstrap-{-1 - number}"
    coordinator = 2**31 - 1 - number
    return f"node-coordinator-{coordinator}" if coordinator < _MANY else f"node-{number}"


_MANY = 2**30
"""Limit of the IDs of brokers. Java's number of a coordinator is 2147483647 minus its ID."""
