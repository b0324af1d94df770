"""What a group remembers of a partition."""

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, not the last one processed."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
