"""Values of aiokafka: its field names and order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort import client


class TopicPartition(client.TopicPartition):
    """Partition of a topic, printed as aiokafka prints it."""

    __slots__ = ()

    def __str__(self) -> str:
        return repr(self)


class OffsetAndMetadata(NamedTuple):
    """Committed offset."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """Offset of the first record at or after a point in time."""

    offset: int
    timestamp: int | None


class RecordMetadata(NamedTuple):
    """Place of a record that was written. `log_start_offset` is not known."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None


@dataclass(slots=True)
class ConsumerRecord:
    """Record that a consumer returns."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[tuple[str, bytes | None]]


def partition_set(partitions: Iterable[client.TopicPartition]) -> set[TopicPartition]:
    """Return partitions as a set of this module's class."""
    return {TopicPartition(*partition) for partition in partitions}


def consumer_record(record: client.ConsumerRecord) -> ConsumerRecord:
    """Return the record in aiokafka's form."""
    return ConsumerRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        int(record.timestamp_type),
        record.key,
        record.value,
        None,
        record.serialized_key_size,
        record.serialized_value_size,
        tuple(record.headers),
    )
