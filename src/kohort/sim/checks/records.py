"""Durable records of topics, and what readers and writers observe of them (S16, S17, L7).

Each record has a unique value, which identifies its log: it distinguishes topics that were deleted
and recreated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kohort.client import ConsumerRecord
from kohort.log import Topic
from kohort.model import UUID, TopicPartition
from kohort.sim.checks.reported_errors import ErrorChecks
from kohort.sim.environment import PartitionId
from kohort.sim.violation import Violation
from kohort.wire.batches import batches, decode_records


class Reading:
    """Progress of one reader by partition: the topic's id, and the next expected offset."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.next: dict[TopicPartition, tuple[UUID, int]] = {}
        self.starts: dict[TopicPartition, int] = {}
        """Start offset of each partition that was just assigned, if the reader knows it."""

    def begin(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """Record that these partitions were assigned."""
        self.end(starts)
        self.starts.update((partition, start) for partition, start in starts.items() if start is not None)

    def end(self, partitions: Mapping[TopicPartition, object] | frozenset[TopicPartition]) -> None:
        """Record that these partitions are no longer read."""
        for partition in partitions:
            self.next.pop(partition, None)
            self.starts.pop(partition, None)


class Records:
    """Logs of all topics with records, as stored on the disk."""

    def __init__(
        self,
        topics: Callable[[], Mapping[UUID, Topic]],
        deleted: frozenset[str],
        producers_expire: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the logs. `topics` returns the existing topics; those in `deleted` may be deleted at some time.

        `producers_expire` tells whether a broker's clock is so far ahead that it forgets producers while they write.
        """
        self.logs: dict[PartitionId, list[bytes]] = {}
        """Values of the records of each partition, by offset."""
        self.damaged: set[PartitionId] = set()
        """Partitions whose records are not checked: with a flipped bit, or a batch of a forgotten producer twice."""
        self.errors = ErrorChecks()
        self.delivered = 0
        self.acknowledged = 0
        self.names: dict[UUID, str] = {}
        """Names of all topics that have had records, including deleted ones."""
        self._topics = topics
        self._producers_expire = producers_expire
        self._deleted = deleted
        self._found: dict[bytes, tuple[PartitionId, int]] = {}
        self._written: dict[tuple[PartitionId, str], int] = {}
        """Number of the last record that each producer wrote to a partition."""

    def written(self, partition: PartitionId, topic: str, data: bytes) -> int:
        """Record durable batches; return the offset after them."""
        self.names[partition[0]] = topic
        log = self.logs.setdefault(partition, [])
        if partition in self.damaged:
            return len(log)
        buffer = bytearray(data)
        for position, header in batches(buffer):
            if header.base_offset != len(log):
                raise Violation(
                    "S16", f"{topic}-{partition[1]} ends at {len(log)}, but a batch is written at {header.base_offset}"
                )
            for record in decode_records(buffer, position):
                self._check_order(partition, topic, value := bytes(record.value or b""))
                self._found[value] = partition, len(log)
                log.append(value)
        return len(log)

    def _check_order(self, partition: PartitionId, topic: str, value: bytes) -> None:
        producer, _, number = value.decode().rpartition("#")
        last = self._written.get((partition, producer), -1)
        if int(number) <= last and value in self._found and self._producers_expire():
            self.damaged.add(partition)  # sent again, and written again, as by Apache Kafka
        elif int(number) <= last:
            raise Violation("S16", f"{topic}-{partition[1]}: {producer} wrote {number} after {last}")
        self._written[partition, producer] = int(number)

    def was_acknowledged(self, who: str, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Check a record that was acknowledged to a producer at that offset."""
        self.acknowledged += 1
        found = self._found.get(value)
        if found is None:
            # The record may have been appended to a topic that was deleted: it is acknowledged, but no longer
            # exists.
            if not self._is_doubted(partition) and partition.topic not in self._deleted:
                raise Violation(
                    "S16", f"{value!r} was acknowledged to {who} at {offset} of {partition}, but is not in the log"
                )
        elif (self.names[found[0][0]], found[0][1], found[1]) != (*partition, offset):
            raise Violation("S16", f"{value!r} was acknowledged to {who} at {offset} of {partition}, but is at {found}")

    def was_delivered(self, reading: Reading, record: ConsumerRecord) -> UUID | None:
        """Check a record that was delivered to a reader; return the id of its topic, if known."""
        self.delivered += 1
        partition = TopicPartition(record.topic, record.partition)
        who = f"{reading.name} read {record.offset} of {partition}"
        found = self._found.get(bytes(record.value or b""))
        if found is None or found[0] in self.damaged:
            if found is None and not self._is_doubted(partition):
                raise Violation("S17", f"{who}: {record.value!r}, which is not in the log")
            reading.end({partition: None})
            return None if found is None else found[0][0]
        (topic_id, index), offset = found
        if (self.names[topic_id], index, offset) != (*partition, record.offset):
            raise Violation("S17", f"{who}: {record.value!r}, which is at {offset} of {self.names[topic_id]}-{index}")
        start = reading.starts.pop(partition, None)
        before = reading.next.get(partition)
        if before is not None and before[0] == topic_id:
            start = before[1]
        if start is not None and start != offset and not self._is_another(partition, topic_id, before):
            raise Violation("S17", f"{who}, but the next offset is {start}")
        reading.next[partition] = topic_id, offset + 1
        return topic_id

    def _is_another(self, partition: TopicPartition, topic_id: UUID, before: tuple[UUID, int] | None) -> bool:
        """Return whether the topic was deleted and recreated since the reader began."""
        starts = [topic_id for topic_id, name in self.names.items() if name == partition.topic]
        return (before is None or before[0] != topic_id) and len(starts) > 1

    def _is_doubted(self, partition: TopicPartition) -> bool:
        return any((self.names.get(topic_id), index) == (*partition,) for topic_id, index in self.damaged)

    def end_of(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last record; None if the partition does not exist or is damaged."""
        for topic_id, topic in self._topics().items():
            if topic.name == partition.topic and partition.partition < topic.partitions:
                place = topic_id, partition.partition
                return None if place in self.damaged else len(self.logs.get(place, ()))
        return None
