"""The few values that every part of Kohort shares."""

from typing import NamedTuple
from uuid import UUID

__all__ = ["NO_TOPIC_ID", "UUID", "Millis", "TopicPartition"]

NO_TOPIC_ID = UUID(int=0)
"""What stands on the wire where a topic id is absent."""

Millis = int
"""Milliseconds: since the epoch where it is a point in time, else a duration."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
