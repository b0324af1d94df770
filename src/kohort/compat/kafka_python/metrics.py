"""Metrics in the form of kafka-python: by group and name, or as objects with a method `value`."""

from collections.abc import Mapping
from dataclasses import dataclass
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

    The group of a metric of a topic, a partition or a node ends with its name, as in kafka-python:
    `consumer-node-metrics.node-1`.
    """
    if raw:
        return {name: KafkaMetric(name, value) for name, value in found.items()}
    groups: dict[str, dict[str, float | int | str]] = {}
    for name, value in found.items():
        groups.setdefault(".".join([name.group, *_place(name)]), {})[name.name] = value
    return groups


def _place(name: MetricName) -> list[str]:
    tags = name.tags
    if "partition" in tags:
        return [f"{tags['topic']}-{tags['partition']}"]
    return [tags[tag] for tag in ("topic", "node-id") if tag in tags]
