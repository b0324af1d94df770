"""Values of kafka-python: its field names, order and defaults."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from kohort import client


class TopicPartition(client.TopicPartition):
    """Partition of a topic, printed as kafka-python prints it."""

    __slots__ = ()

    def __str__(self) -> str:
        return repr(self)


class IsolationLevel(IntEnum):
    """Whether a consumer reads records of transactions that are not committed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetAndMetadata(NamedTuple):
    """Committed offset. The leader epoch is -1 if it is unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """Offset of the first record at or after a point in time."""

    offset: int
    timestamp: int | None
    leader_epoch: int


class ConsumerRecord(NamedTuple):
    """Record that a consumer returns."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class RecordMetadata(NamedTuple):
    """Place of a record that was written."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class MemberState:
    """Phases of a group membership."""

    UNJOINED = "<unjoined>"
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"


class ConsumerGroupMetadata(NamedTuple):
    """Membership of a consumer in its group."""

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = MemberState.UNJOINED


def positions(
    offsets: Mapping[client.TopicPartition, Any],
) -> dict[client.TopicPartition, client.OffsetAndMetadata | int]:
    """Return offsets, as numbers or OffsetAndMetadata, in Kohort's form."""
    return {partition: position_of(at) for partition, at in offsets.items()}


def position_of(at: Any) -> client.OffsetAndMetadata | int:
    """Return an offset, as number or OffsetAndMetadata, in Kohort's form."""
    if not isinstance(at, tuple):
        return int(at)
    epoch = at[2] if len(at) > 2 else None
    return client.OffsetAndMetadata(at[0], at[1] or "", None if epoch in (None, -1) else epoch)


def partition_set(partitions: Iterable[client.TopicPartition]) -> set[TopicPartition]:
    """Return partitions as a set of this module's class."""
    return {TopicPartition(*partition) for partition in partitions}


def consumer_record(record: client.ConsumerRecord) -> ConsumerRecord:
    """Return the record in kafka-python's form."""
    headers = list(record.headers)
    epoch = record.leader_epoch
    return ConsumerRecord(
        record.topic,
        record.partition,
        -1 if epoch is None else epoch,
        record.offset,
        record.timestamp,
        int(record.timestamp_type),
        record.key,
        record.value,
        headers,
        None,
        record.serialized_key_size,
        record.serialized_value_size,
        header_size(headers),
    )


def header_size(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return the size of headers in bytes; -1 if there are none."""
    sizes = [len(name.encode()) + len(value or b"") for name, value in headers]
    return sum(sizes) if sizes else -1
