"""Metrics of a consumer's fetches: of all, of each topic and of each partition."""

from collections.abc import Callable, Iterable

from kohort.client.consume.partition import PartitionState
from kohort.client.metrics import (
    Definition,
    Definitions,
    Measurements,
    NetworkMetrics,
    Report,
    Sampling,
    average_and_max,
    sum_rate_and_total,
)
from kohort.model import TopicPartition

GROUP = "consumer-fetch-manager-metrics"

_CONSUMED: Definitions = {
    "records": sum_rate_and_total("records-consumed", "records consumed"),
    "consumed_bytes": sum_rate_and_total("bytes-consumed", "bytes consumed"),
    "fetched_bytes": average_and_max("fetch-size", "size of the records in a fetch response, in bytes"),
}

_OF_ALL: Definitions = {
    **_CONSUMED,
    "lag": (Definition("records-lag-max", "Largest lag of any partition, in records.", Measurements.largest),),
    "lead": (
        Definition(
            "records-lead-min",
            "Smallest lead of any partition: the number of records from its beginning to the position.",
            Measurements.smallest,
        ),
    ),
}

_OF_PARTITION: Definitions = {
    "lag": (
        Definition("records-lag-avg", "Average lag of the partition, in records.", Measurements.average),
        Definition("records-lag-max", "Largest lag of the partition, in records.", Measurements.largest),
    ),
    "lead": (
        Definition("records-lead-avg", "Average lead of the partition, in records.", Measurements.average),
        Definition("records-lead-min", "Smallest lead of the partition, in records.", Measurements.smallest),
    ),
}

_LATENCY: Definitions = {
    "latency": (
        *average_and_max("fetch-latency", "time of a fetch request, in milliseconds"),
        Definition("fetch-rate", "Number of fetch requests per second.", Measurements.count_rate),
        Definition("fetch-total", "Total number of fetch requests.", lambda values, now: float(values.count)),
    ),
    "throttle": average_and_max("fetch-throttle-time", "time for which a quota delayed a fetch, in milliseconds"),
}

_PER_REQUEST = "Average number of records in a fetch response that has records."


class _Consumed:
    def __init__(self, sampling: Sampling) -> None:
        self.records = Measurements(sampling)
        self.consumed_bytes = Measurements(sampling)
        self.fetched_bytes = Measurements(sampling)

    def add_to(self, report: Report, definitions: Definitions, **tags: str) -> None:
        report.add_all(GROUP, self, definitions, **tags)
        responses = self.fetched_bytes.window_count(report.now)
        records = self.records.window_total(report.now)
        average = records / responses if responses else float("nan")
        report.add(GROUP, "records-per-request-avg", _PER_REQUEST, average, **tags)


class PartitionMetrics:
    """Metrics of one assigned partition."""

    def __init__(self, sampling: Sampling) -> None:
        self.records = self.consumed_bytes = 0
        self.lag = Measurements(sampling)
        self.lead = Measurements(sampling)


class FetchMetrics(_Consumed):
    """Metrics of one consumer's fetches."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self.lag = Measurements(sampling)
        self.lead = Measurements(sampling)
        self._sampling = sampling
        self._topics: dict[str, _Consumed] = {}
        self._partitions: dict[TopicPartition, PartitionMetrics] = {}

    def _topic(self, name: str) -> _Consumed:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _Consumed(self._sampling)
        return found

    def fetched(self, sizes: dict[str, int], now: float) -> None:
        """Count a response with this number of bytes of records of each topic."""
        self.fetched_bytes.add(sum(sizes.values()), now)
        for topic, size in sizes.items():
            self._topic(topic).fetched_bytes.add(size, now)

    def consumed(self, state: PartitionState, size: int, now: float) -> None:
        """Count the records that were handed out since the last call, from `size` bytes, and measure the lag."""
        if size:
            of_partition = self.partition(state.partition)
            of_partition.records += state.uncounted
            of_partition.consumed_bytes += size
            of_topic = self._topic(state.partition.topic)
            for counts in (self, of_topic):
                counts.records.add(state.uncounted, now)
                counts.consumed_bytes.add(size, now)
            state.uncounted = 0
        if state.position is None:
            return
        of_partition = self.partition(state.partition)
        if state.end is not None:
            lag = max(0, state.end - state.position)
            self.lag.add(lag, now)
            of_partition.lag.add(lag, now)
        if state.start is not None:
            lead = max(0, state.position - state.start)
            self.lead.add(lead, now)
            of_partition.lead.add(lead, now)

    def partition(self, partition: TopicPartition) -> PartitionMetrics:
        """Return the metrics of a partition."""
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = PartitionMetrics(self._sampling)
        return found

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the metrics of partitions that are no longer assigned."""
        for partition in partitions:
            self._partitions.pop(partition, None)

    def report(
        self,
        report: Report,
        network: NetworkMetrics,
        states: Iterable[PartitionState],
        follower: Callable[[PartitionState], int | None],
    ) -> None:
        """Add all metrics. `follower` returns the broker that a partition is read from instead of its leader."""
        self.add_to(report, _OF_ALL)
        report.add_all(GROUP, network, _LATENCY)
        for topic, consumed in self._topics.items():
            consumed.add_to(report, _CONSUMED, topic=topic)
        for state in states:
            tags = {"topic": state.partition.topic, "partition": str(state.partition.partition)}
            measured = self.partition(state.partition)
            report.add_all(GROUP, measured, _OF_PARTITION, **tags)
            report.add(GROUP, "records-lag", "Latest lag of the partition, in records.", measured.lag.last, **tags)
            report.add(GROUP, "records-lead", "Latest lead of the partition, in records.", measured.lead.last, **tags)
            text = "Follower that the partition is read from; -1 for its leader."
            replica = follower(state)
            report.add(GROUP, "preferred-read-replica", text, -1 if replica is None else replica, **tags)
