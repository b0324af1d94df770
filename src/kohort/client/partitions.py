"""What a consumer's callbacks are told: partitions that come or go, and where each stands."""

from collections.abc import Awaitable, Callable, Mapping

from kohort.model import TopicPartition


class Partitions(frozenset[TopicPartition]):
    """The partitions, as a set; `offsets` has the next offset to read of each.

    Of partitions that are won it is what the group has committed, None where it has committed nothing (or its
    coordinator did not say in time); of those that are revoked or lost, the position: what `commit` would commit, None
    where it was not found yet.
    """

    __slots__ = ("offsets",)

    offsets: Mapping[TopicPartition, int | None]

    def __new__(cls, offsets: Mapping[TopicPartition, int | None]) -> "Partitions":
        made = super().__new__(cls, offsets)
        made.offsets = offsets
        return made


OffsetsCallback = Callable[[Partitions], Awaitable[None] | None]
"""Told the partitions that come or go; plain or async. While it runs, heartbeats go on and commits work."""
