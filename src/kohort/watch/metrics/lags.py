"""Lags under the names of other exporters, so that their dashboards and rules go on working. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from kohort.exposition import Exposition, escaped, labels, number
from kohort.model import Millis, TopicPartition
from kohort.watch.group import WatchedGroup
from kohort.watch.snapshot import PartitionProgress


class MetricNames(Enum):
    """Exporter whose names are used for lags and offsets."""

    KAFKA_LAG_EXPORTER = "kafka-lag-exporter"
    """github.com/seglo/kafka-lag-exporter, archived in 2024."""
    KAFKA_EXPORTER = "kafka-exporter"
    """github.com/danielqsj/kafka_exporter."""
    KMINION = "kminion"
    """github.com/redpanda-data/kminion."""


class Lags(Protocol):
    """Families of one exporter."""

    def group(self, group: WatchedGroup, progress: Iterable[PartitionProgress], *, partitions: bool) -> None:
        """Add a group; without the series of single partitions if `partitions` is false."""

    def ends(self, ends: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the end offsets of partitions."""

    def starts(self, starts: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the earliest offsets of partitions."""


def _sums(progress: Iterable[PartitionProgress]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the lag and the committed offset of each topic, as far as they are known."""
    lag: defaultdict[str, int] = defaultdict(int)
    offset: defaultdict[str, int] = defaultdict(int)
    for each in progress:
        if each.committed is not None:
            offset[each.partition.topic] += each.committed
        if each.lag is not None:
            lag[each.partition.topic] += each.lag.records
    return lag, offset


class KafkaLagExporter:
    """Names of kafka-lag-exporter 0.8."""

    def __init__(self, text: Exposition, cluster: str, poll_ms: Millis | None) -> None:
        self._cluster = labels(cluster_name=cluster)
        group = "kafka_consumergroup_group"
        self._offset = text.gauge(f"{group}_offset", "Last group consumed offset of a partition.")
        self._lag = text.gauge(f"{group}_lag", "Group offset lag of a partition.")
        self._seconds = text.gauge(f"{group}_lag_seconds", "Group time lag of a partition.")
        self._max_lag = text.gauge(f"{group}_max_lag", "Max group offset lag.")
        self._max_seconds = text.gauge(f"{group}_max_lag_seconds", "Max group time lag.")
        self._sum_lag = text.gauge(f"{group}_sum_lag", "Sum of group offset lag.")
        self._topic_lag = text.gauge(f"{group}_topic_sum_lag", "Sum of group offset lag across topic partitions.")
        self._end = text.gauge("kafka_partition_latest_offset", "Latest offset of a partition.")
        self._start = text.gauge("kafka_partition_earliest_offset", "Earliest offset of a partition.")
        poll = text.gauge("kafka_consumergroup_poll_time_ms", "Group time poll time.")
        if poll_ms is not None:
            poll.add(self._cluster, poll_ms)

    def group(self, group: WatchedGroup, progress: Iterable[PartitionProgress], *, partitions: bool) -> None:
        """Add a group."""
        ours = f'{self._cluster},group="{escaped(group.group_id)}"'
        progress = list(progress)
        if partitions:
            self._partitions(group, ours, progress)
        lags = [each.lag for each in progress if each.lag is not None]
        if lags:
            self._max_lag.add(ours, max(lag.records for lag in lags))
            self._max_seconds.add(ours, max(lag.seconds for lag in lags))
            self._sum_lag.add(ours, sum(lag.records for lag in lags))
        for topic, lag in _sums(progress)[0].items():
            self._topic_lag.add(f'{ours},topic="{escaped(topic)}"', lag)

    def _partitions(self, group: WatchedGroup, ours: str, progress: Iterable[PartitionProgress]) -> None:
        owners: dict[str | None, str] = {
            member_id: labels(
                member_host=member.facts.client_host, consumer_id=member_id, client_id=member.facts.client_id
            )
            for member_id, member in group.members.items()
        }
        owners[None] = labels(member_host="", consumer_id="", client_id="")
        topics: dict[str, str] = {}
        for each in progress:
            if each.committed is None:
                continue
            topic, partition = each.partition
            shown = topics.get(topic) or topics.setdefault(topic, f'{ours},topic="{escaped(topic)}"')
            series = f'{{{shown},partition="{partition}",{owners[each.owner]}}}'
            self._offset.lines.append(f"kafka_consumergroup_group_offset{series} {each.committed}\n")
            if each.lag is not None:
                self._lag.lines.append(f"kafka_consumergroup_group_lag{series} {each.lag.records}\n")
                seconds = number(each.lag.seconds)
                self._seconds.lines.append(f"kafka_consumergroup_group_lag_seconds{series} {seconds}\n")

    def ends(self, ends: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the end offsets of partitions."""
        for (topic, partition), end in ends:
            series = f'{self._cluster},topic="{escaped(topic)}",partition="{partition}"'
            self._end.lines.append(f"kafka_partition_latest_offset{{{series}}} {end}\n")

    def starts(self, starts: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the earliest offsets of partitions."""
        for (topic, partition), start in starts:
            self._start.add(f'{self._cluster},topic="{escaped(topic)}",partition="{partition}"', start)


class _Seconds:
    """Lag in seconds of groups, beside the names of exporters that have none."""

    def __init__(self, text: Exposition, cluster: str) -> None:
        self._cluster = labels(cluster_name=cluster)
        self._max = text.gauge("kafka_consumergroup_group_max_lag_seconds", "Max group time lag.")

    def group(self, group: WatchedGroup, progress: Iterable[PartitionProgress]) -> None:
        seconds = [each.lag.seconds for each in progress if each.lag is not None]
        if seconds:
            self._max.add(f'{self._cluster},group="{escaped(group.group_id)}"', max(seconds))


class KafkaExporter:
    """Most used names of kafka_exporter 1.9: offsets, lags and members of groups, and ends of partitions."""

    def __init__(self, text: Exposition, cluster: str, poll_ms: Millis | None) -> None:
        del poll_ms  # kafka_exporter does not have it
        self._seconds = _Seconds(text, cluster)
        group = "kafka_consumergroup"
        self._offset = text.gauge(f"{group}_current_offset", "Current Offset of a ConsumerGroup at Topic/Partition.")
        self._offset_sum = text.gauge(
            f"{group}_current_offset_sum", "Current Offset of a ConsumerGroup at Topic for all partitions."
        )
        self._lag = text.gauge(f"{group}_lag", "Current Approximate Lag of a ConsumerGroup at Topic/Partition.")
        self._lag_sum = text.gauge(
            f"{group}_lag_sum", "Current Approximate Lag of a ConsumerGroup at Topic for all partitions."
        )
        self._members = text.gauge(f"{group}_members", "Amount of members in a consumer group.")
        self._end = text.gauge("kafka_topic_partition_current_offset", "Current Offset of a Broker at Topic/Partition.")
        self._start = text.gauge("kafka_topic_partition_oldest_offset", "Oldest Offset of a Broker at Topic/Partition.")

    def group(self, group: WatchedGroup, progress: Iterable[PartitionProgress], *, partitions: bool) -> None:
        """Add a group."""
        ours = f'consumergroup="{escaped(group.group_id)}"'
        progress = list(progress)
        for each in progress if partitions else ():
            topic, partition = each.partition
            series = f'{ours},partition="{partition}",topic="{escaped(topic)}"'
            if each.committed is not None:
                self._offset.add(series, each.committed)
            if each.lag is not None:
                self._lag.add(series, each.lag.records)
        lags, offsets = _sums(progress)
        for topic, offset in offsets.items():
            self._offset_sum.add(f'{ours},topic="{escaped(topic)}"', offset)
        for topic, lag in lags.items():
            self._lag_sum.add(f'{ours},topic="{escaped(topic)}"', lag)
        self._members.add(ours, len(group.members))
        self._seconds.group(group, progress)

    def ends(self, ends: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the end offsets of partitions."""
        for (topic, partition), end in ends:
            self._end.add(f'partition="{partition}",topic="{escaped(topic)}"', end)

    def starts(self, starts: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the earliest offsets of partitions."""
        for (topic, partition), start in starts:
            self._start.add(f'partition="{partition}",topic="{escaped(topic)}"', start)


class Kminion:
    """Most used names of kminion 2: lags and members of groups, and ends of partitions."""

    def __init__(self, text: Exposition, cluster: str, poll_ms: Millis | None) -> None:
        del poll_ms  # kminion does not have it
        self._seconds = _Seconds(text, cluster)
        group = "kminion_kafka_consumer_group"
        self._info = text.gauge(f"{group}_info", "1 if the group is in the stable state, otherwise 0.")
        self._members = text.gauge(f"{group}_members", "Number of members of a consumer group.")
        self._lag = text.gauge(f"{group}_topic_partition_lag", "Records that a group is behind in a partition.")
        self._topic_lag = text.gauge(f"{group}_topic_lag", "Records that a group is behind in a topic.")
        self._offset_sum = text.gauge(f"{group}_topic_offset_sum", "Sum of a group's committed offsets in a topic.")
        self._end = text.gauge("kminion_kafka_topic_partition_high_water_mark", "End offset of a partition.")
        self._start = text.gauge("kminion_kafka_topic_partition_low_water_mark", "Earliest offset of a partition.")

    def group(self, group: WatchedGroup, progress: Iterable[PartitionProgress], *, partitions: bool) -> None:
        """Add a group."""
        ours = f'group_id="{escaped(group.group_id)}"'
        about = labels(
            member_count=len(group.members),
            protocol=group.protocol or "",
            protocol_type=group.protocol_type or "",
            state=group.state,
        )
        self._info.add(f"{ours},{about}", int(group.state == "Stable"))
        self._members.add(ours, len(group.members))
        progress = list(progress)
        for each in progress if partitions else ():
            if each.lag is not None:
                topic, partition = each.partition
                self._lag.add(f'{ours},topic_name="{escaped(topic)}",partition_id="{partition}"', each.lag.records)
        lags, offsets = _sums(progress)
        for topic, offset in offsets.items():
            self._offset_sum.add(f'{ours},topic_name="{escaped(topic)}"', offset)
        for topic, lag in lags.items():
            self._topic_lag.add(f'{ours},topic_name="{escaped(topic)}"', lag)
        self._seconds.group(group, progress)

    def ends(self, ends: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the end offsets of partitions."""
        for (topic, partition), end in ends:
            self._end.add(f'topic_name="{escaped(topic)}",partition_id="{partition}"', end)

    def starts(self, starts: Iterable[tuple[TopicPartition, int]]) -> None:
        """Add the earliest offsets of partitions."""
        for (topic, partition), start in starts:
            self._start.add(f'topic_name="{escaped(topic)}",partition_id="{partition}"', start)


def lags_of(names: MetricNames, text: Exposition, cluster: str, poll_ms: Millis | None) -> Lags:
    """Return the families of an exporter. `poll_ms` is the time that the last questions to the cluster took."""
    kinds: dict[MetricNames, Callable[[Exposition, str, Millis | None], Lags]] = {
        MetricNames.KAFKA_LAG_EXPORTER: KafkaLagExporter,
        MetricNames.KAFKA_EXPORTER: KafkaExporter,
        MetricNames.KMINION: Kminion,
    }
    return kinds[names](text, cluster, poll_ms)
