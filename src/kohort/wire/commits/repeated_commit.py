"""Commits of a known shape: a client commits offsets of the same partitions again and again.

From one commit to the next, only the offsets and their leader epochs change. A `CommitShape` is all the rest: with it,
one `unpack` reads the next commit, and all commits share one answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

AFTER_CORRELATION_ID = 8
"""Position in a frame behind what differs between any two requests."""


@dataclass(frozen=True, slots=True)
class CommittedTopic:
    """One topic of a shape."""

    name: str
    topic_id: UUID
    partitions: tuple[int, ...]
    """Partitions in the order of the request; each occurs once."""
    largest: int
    """Largest partition."""
    start: int
    """Number of partitions of the topics before it."""
    end: int
    """`start` and the number of its own partitions."""


@dataclass(frozen=True, slots=True)
class CommitShape:
    """What commits have in common. `shape_of` learns it from one of them."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: Sequence[CommittedTopic]
    metadata: str | None
    """Metadata of each offset: none or an empty string."""
    accepted: OffsetCommitResponse
    """The answer to each commit whose offsets are all accepted. Nobody may change it."""
    by_id: bool
    """Whether the version of the request identifies topics by ID."""
    has_epochs: bool
    """Whether the version of the request has leader epochs."""
    size: int
    """Size of each frame, in bytes."""
    unpack: Callable[[bytes, int], tuple[Any, ...]]
    """Returns the bytes that are the same in each frame, and the numbers between them."""
    same: tuple[bytes, ...]
    """The bytes that are the same in each frame, from AFTER_CORRELATION_ID on."""

    def read(self, frame: bytes) -> "RepeatedCommit | None":
        """Decode a frame with the API key and version of this shape; None if it has another shape."""
        if len(frame) != self.size:
            return None
        values = self.unpack(frame, AFTER_CORRELATION_ID)
        if self.has_epochs:
            return RepeatedCommit(self, values[1::3], values[2::3]) if values[::3] == self.same else None
        offsets = values[1::2]
        return RepeatedCommit(self, offsets, (-1,) * len(offsets)) if values[::2] == self.same else None


class RepeatedCommit(OffsetCommitRequest):
    """A commit of a known shape, with its numbers as columns. Nobody may change it."""

    __slots__ = ("epochs", "offsets", "shape")

    def __init__(self, shape: CommitShape, offsets: tuple[int, ...], epochs: tuple[int, ...]) -> None:
        self.group_id = shape.group_id
        self.generation_id_or_member_epoch = shape.generation_id_or_member_epoch
        self.member_id = shape.member_id
        self.group_instance_id = shape.group_instance_id
        self.retention_time_ms = -1
        self.shape = shape
        self.offsets = offsets
        """Offset of each partition, in the order of the shape."""
        self.epochs = epochs
        """Leader epoch of each partition."""

    @property
    def topics(self) -> list[OffsetCommitRequestTopic]:  # type: ignore[override]
        """The topics with names and IDs, as new objects."""
        return [
            OffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=self.shape.metadata,
                    )
                    for index, offset, epoch in zip(
                        topic.partitions,
                        self.offsets[topic.start : topic.end],
                        self.epochs[topic.start : topic.end],
                        strict=True,
                    )
                ],
            )
            for topic in self.shape.topics
        ]

    def __copy__(self) -> OffsetCommitRequest:
        """Return a request that may be changed."""
        return self.plain()

    def plain(self) -> OffsetCommitRequest:
        """Return the request as it is decoded without a shape, with either names or IDs of topics."""
        request = self.named()
        for topic in request.topics:
            if self.shape.by_id:
                topic.name = ""
            else:
                topic.topic_id = NO_TOPIC_ID
        return request

    def named(self) -> OffsetCommitRequest:
        """Return the request as it is once it was handled without a shape, with names and IDs of topics."""
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id_or_member_epoch,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            retention_time_ms=self.retention_time_ms,
            topics=self.topics,
        )
