"""Names of metrics, and the mapping that `metrics()` returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kohort.client.metrics.measurements import Measurements

MetricValue = float | int | str
"""Value of a metric: text only in the group `app-info`."""


@dataclass(frozen=True, slots=True)
class MetricName:
    """Name of a metric, as in Java: two names are equal if `name`, `group` and `tags` are.

    `tags` has `client-id`, and `topic`, `partition` or `node-id` where the metric is about one.
    """

    name: str
    group: str
    description: str = field(compare=False, repr=False)
    tags: Mapping[str, str]

    def __hash__(self) -> int:
        return hash((self.name, self.group, frozenset(self.tags.items())))


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric made from measured values: `read` returns it, given the values and the time."""

    name: str
    description: str
    read: Callable[[Measurements, float], float]


Definitions = Mapping[str, tuple[Definition, ...]]
"""The metrics of an object, by its attribute that has the measured values."""


def rate_and_total(name: str, what: str) -> tuple[Definition, Definition]:
    """Define how many values there are."""
    return (
        Definition(f"{name}-rate", f"Number of {what} per second.", Measurements.count_rate),
        Definition(f"{name}-total", f"Total number of {what}.", _count),
    )


def sum_rate_and_total(name: str, what: str) -> tuple[Definition, Definition]:
    """Define the sum of the values."""
    return (
        Definition(f"{name}-rate", f"Number of {what} per second.", Measurements.rate),
        Definition(f"{name}-total", f"Total number of {what}.", total),
    )


def average_and_max(name: str, what: str) -> tuple[Definition, Definition]:
    """Define the average and the largest value."""
    return (
        Definition(f"{name}-avg", f"Average {what}.", Measurements.average),
        Definition(f"{name}-max", f"Largest {what}.", Measurements.largest),
    )


def _count(values: Measurements, now: float) -> float:
    return float(values.count)


def total(values: Measurements, now: float) -> float:
    """Return the sum of all values since the beginning."""
    return values.total


def total_ns(values: Measurements, now: float) -> float:
    """Return the sum of all values since the beginning, which are seconds, in nanoseconds."""
    return values.total * 1e9


def seconds_ago(values: Measurements, now: float) -> float:
    """Return the time since the last value in whole seconds; -1 before the first, as in Java."""
    return -1.0 if values.last_at is None else float(int(now - values.last_at))


class Report:
    """Metrics of one client at the time `now`."""

    def __init__(self, client_id: str, now: float) -> None:
        self.now = now
        self.values: dict[MetricName, MetricValue] = {}
        self._client = {"client-id": client_id}

    def add(self, group: str, name: str, description: str, value: MetricValue, **tags: str) -> None:
        """Add a metric. Underscores in the names of tags stand for hyphens."""
        more = {tag.replace("_", "-"): text for tag, text in tags.items()}
        self.values[MetricName(name, group, description, MappingProxyType(self._client | more))] = value

    def add_all(self, group: str, owner: object, definitions: Definitions, **tags: str) -> None:
        """Add the metrics that are made from the attributes of `owner`."""
        for attribute, defined in definitions.items():
            values = getattr(owner, attribute)
            for one in defined:
                self.add(group, one.name, one.description, float(one.read(values, self.now)), **tags)

    def finished(self) -> dict[MetricName, MetricValue]:
        """Return all metrics and, as Java does, their number."""
        self.add("kafka-metrics-count", "count", "Number of metrics.", float(len(self.values) + 1))
        return self.values
