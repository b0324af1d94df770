"""Basic types shared by all parts of Kohort."""

from typing import NamedTuple
from uuid import UUID

__all__ = ["NO_TOPIC_ID", "NO_UUID", "UUID", "Millis", "TopicPartition"]

NO_UUID = UUID(int=0)
"""Value of an absent ID on the wire."""

NO_TOPIC_ID = NO_UUID
"""Value of an absent topic ID on the wire."""

Millis = int
"""Milliseconds: since the epoch for a point in time, otherwise a duration."""


class TopicPartition(NamedTuple):
    """Partition of a topic, identified by name and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
