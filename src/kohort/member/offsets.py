"""The committed position of a partition."""

from typing import NamedTuple

from kohort.model import UUID


class OffsetAndMetadata(NamedTuple):
    """Committed position: the offset of the next record to read, not of the last one processed."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    topic_id: UUID | None = None
    """ID of the topic, which distinguishes it from a recreated topic of the same name. A commit without it applies to
    the topic that currently has the name."""
