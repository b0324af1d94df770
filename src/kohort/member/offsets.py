"""What a group remembers of a partition."""

from typing import NamedTuple

from kohort.model import UUID


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, not the last one processed."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    topic_id: UUID | None = None
    """Of which topic it is: one that is deleted and made again under its name is another. A commit without it is for
    whichever topic has the name."""
