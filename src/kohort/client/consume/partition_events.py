"""Arguments of rebalance callbacks: the affected partitions and their offsets."""

from collections.abc import Awaitable, Callable, Mapping

from kohort.model import TopicPartition


class Partitions(frozenset[TopicPartition]):
    """Set of partitions; `offsets` holds the next offset to read of each.

    For assigned partitions, it is the group's committed offset, or None if there is none or the
    coordinator did not answer in time. For revoked or lost partitions, it is the position, which
    `commit` would commit, or None if it was not found yet.
    """

    __slots__ = ("offsets",)

    offsets: Mapping[TopicPartition, int | None]

    def __new__(cls, offsets: Mapping[TopicPartition, int | None]) -> "Partitions":
        made = super().__new__(cls, offsets)
        made.offsets = offsets
        return made


OffsetsCallback = Callable[[Partitions], Awaitable[None] | None]
"""Callback, plain or async, that receives the assigned, revoked or lost partitions.

While it runs, heartbeats continue and commits work.
"""
