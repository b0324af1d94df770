"""Record that a consumer returns."""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.model import Millis
from kohort.wire.batches import Header


class ConsumerRecord(NamedTuple):
    """Record with its topic, partition and offset. A value of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: Millis
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
