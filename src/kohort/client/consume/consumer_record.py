"""Record that a consumer returns."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kohort.model import Millis
from kohort.wire.batches import Header

NULL_SIZE = -1
"""Size of a key or value that is null, as in Java."""


class TimestampType(IntEnum):
    """Origin of a record's timestamp, with Kafka's numbers."""

    CREATE_TIME = 0
    """Set by the producer."""
    LOG_APPEND_TIME = 1
    """Set by the broker when it appended the record (message.timestamp.type of the topic)."""


class ConsumerRecord(NamedTuple):
    """Record with its topic, partition and offset. A value of None is a tombstone.

    Key and value are bytes or None, or the results of key_deserializer and value_deserializer.
    """

    topic: str
    partition: int
    offset: int
    timestamp: Millis
    key: Any
    value: Any
    headers: Sequence[Header]
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    leader_epoch: int | None = None
    """Epoch of the leader that appended the record; None if unknown."""

    @property
    def serialized_key_size(self) -> int:
        """Size of the key in bytes as it was sent; -1 if it is null."""
        return NULL_SIZE if self.key is None else len(self.key)

    @property
    def serialized_value_size(self) -> int:
        """Size of the value in bytes as it was sent; -1 if it is null."""
        return NULL_SIZE if self.value is None else len(self.value)
