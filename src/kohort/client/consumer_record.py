"""What a consumer hands out."""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.model import Millis
from kohort.wire.records import Header


class ConsumerRecord(NamedTuple):
    """A record and where it came from; a value of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: Millis
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
