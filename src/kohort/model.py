"""The few values that every part of Kohort shares."""

from typing import NamedTuple

Millis = int
"""Milliseconds: since the epoch where it is a point in time, else a duration."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
