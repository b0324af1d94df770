"""The records of topics that are durable, and what readers and writers see of them (S16, S17, L7).

A record's value is another one each time, so it says which log it belongs to: topics that were deleted and made anew
are told apart by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kohort.client import ConsumerRecord
from kohort.log import Topic
from kohort.model import UUID, TopicPartition
from kohort.sim.disk import PartitionId
from kohort.sim.violation import Violation
from kohort.wire.records import batches, decode_records


class Reading:
    """What one reader has been given, by partition: the topic's id, and the offset that must come next."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.next: dict[TopicPartition, tuple[UUID, int]] = {}
        self.starts: dict[TopicPartition, int] = {}
        """Where a partition that was just assigned must begin, as far as the reader was told."""

    def begin(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """These partitions are assigned."""
        self.end(starts)
        self.starts.update((partition, start) for partition, start in starts.items() if start is not None)

    def end(self, partitions: Mapping[TopicPartition, object] | frozenset[TopicPartition]) -> None:
        """These partitions are not read any more."""
        for partition in partitions:
            self.next.pop(partition, None)
            self.starts.pop(partition, None)


class Records:
    """All logs of topics with records, as the disk has them."""

    def __init__(self, topics: Callable[[], Mapping[UUID, Topic]], deleted: frozenset[str]) -> None:
        """`topics` are those that exist; `deleted` may be deleted at some time."""
        self.logs: dict[PartitionId, list[bytes]] = {}
        """The values of each partition, by offset."""
        self.damaged: set[PartitionId] = set()
        """Partitions in which a bit has changed: nothing is checked of their records."""
        self.delivered = 0
        self.acknowledged = 0
        self._names: dict[UUID, str] = {}
        self._topics = topics
        self._deleted = deleted
        self._found: dict[bytes, tuple[PartitionId, int]] = {}
        self._written: dict[tuple[PartitionId, str], int] = {}
        """The number of the last record that each producer wrote to a partition."""

    def written(self, partition: PartitionId, topic: str, data: bytes) -> int:
        """These batches are durable; returns the offset behind them."""
        self._names[partition[0]] = topic
        log = self.logs.setdefault(partition, [])
        if partition in self.damaged:
            return len(log)
        buffer = bytearray(data)
        for position, header in batches(buffer):
            if header.base_offset != len(log):
                raise Violation(
                    "S16", f"{topic}-{partition[1]} ends at {len(log)}, and {header.base_offset} is written"
                )
            for record in decode_records(buffer, position):
                self._check_order(partition, topic, value := bytes(record.value or b""))
                self._found[value] = partition, len(log)
                log.append(value)
        return len(log)

    def _check_order(self, partition: PartitionId, topic: str, value: bytes) -> None:
        producer, _, number = value.decode().rpartition("#")
        last = self._written.get((partition, producer), -1)
        if int(number) <= last:
            raise Violation("S16", f"{topic}-{partition[1]}: {producer} wrote {number} after {last}")
        self._written[partition, producer] = int(number)

    def was_acknowledged(self, who: str, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A producer was told that its record is at that offset."""
        self.acknowledged += 1
        found = self._found.get(value)
        if found is None:
            # A record that was appended when its topic was deleted is acknowledged, and gone.
            if not self._is_doubted(partition) and partition.topic not in self._deleted:
                raise Violation("S16", f"{who} was told that {value!r} is at {offset} of {partition}, unwritten")
        elif (self._names[found[0][0]], found[0][1], found[1]) != (*partition, offset):
            raise Violation("S16", f"{who} was told that {value!r} is at {offset} of {partition}, not {found}")

    def was_delivered(self, reading: Reading, record: ConsumerRecord) -> UUID | None:
        """A reader was given this record; returns the id of its topic, as far as that is known."""
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
        if (self._names[topic_id], index, offset) != (*partition, record.offset):
            raise Violation("S17", f"{who}: {record.value!r}, which is at {offset} of {self._names[topic_id]}-{index}")
        start = reading.starts.pop(partition, None)
        before = reading.next.get(partition)
        if before is not None and before[0] == topic_id:
            start = before[1]
        if start is not None and start != offset and not self._is_another(partition, topic_id, before):
            raise Violation("S17", f"{who}, and {start} comes next")
        reading.next[partition] = topic_id, offset + 1
        return topic_id

    def _is_another(self, partition: TopicPartition, topic_id: UUID, before: tuple[UUID, int] | None) -> bool:
        """Whether the topic was deleted and made anew since the reader began."""
        lives = [one for one, name in self._names.items() if name == partition.topic]
        return (before is None or before[0] != topic_id) and len(lives) > 1

    def _is_doubted(self, partition: TopicPartition) -> bool:
        return any((self._names.get(one), index) == (*partition,) for one, index in self.damaged)

    def end_of(self, partition: TopicPartition) -> int | None:
        """The offset behind the last record; None where there is no such partition, or it is damaged."""
        for topic_id, topic in self._topics().items():
            if topic.name == partition.topic and partition.partition < topic.partitions:
                place = topic_id, partition.partition
                return None if place in self.damaged else len(self.logs.get(place, ()))
        return None
