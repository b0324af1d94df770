"""Interface between a broker and the storage of its partitions' logs: memory, local files, PostgreSQL.

A store has no threads of its own. The broker appends on its event loop, takes the pending appends,
syncs them in its single writer thread, and settles them on the event loop: one sync covers all
appends of the meantime.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kohort.errors import KohortError
from kohort.log.descriptors import FileSlice
from kohort.log.producers import AbortedTransaction, ProducerStates
from kohort.model import UUID, Millis
from kohort.wire.batches import Buffer


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as stored."""

    topic_id: UUID
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetAndTime:
    """Result of a look-up by time."""

    offset: int
    timestamp: Millis
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes that recovery cut from a log: they follow the last valid batch after a crash or disk damage."""

    topic: str
    partition: int
    offset: int
    """First offset that was lost."""
    bytes_cut: int
    reason: str


class Compaction(Protocol):
    """One pass over a partition's full segments: call `work` and `swap` alternately until `swap` returns False."""

    bytes_before: int
    bytes_after: int
    """Sizes of the processed segments before and after, in bytes."""

    def work(self) -> Iterator[None]:
        """In a worker thread: prepare a swap, in small steps.

        Raises OSError and BatchError; call `close` in that case.
        """
        ...

    def swap(self) -> bool:
        """On the event loop: replace the segments that `work` rewrote; return False when the pass is complete."""
        ...

    def close(self) -> None:
        """On the event loop: discard work that is not swapped. Must not be called while `work` runs."""
        ...


class PartitionLog(Protocol):
    """One partition: record batches v2, addressed by offset."""

    @property
    def start_offset(self) -> int:
        """First offset that can be read."""
        ...

    @property
    def end_offset(self) -> int:
        """Offset of the next record. Records from `stable_offset` up to this offset are not synced yet."""
        ...

    @property
    def stable_offset(self) -> int:
        """High watermark: all records below it are on disk, and may be read and acknowledged."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, or else `stable_offset`: the end for read_committed (KIP-98).

        It is never less than `start_offset`.
        """
        ...

    def aborted(self, offset: int, end: int) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions with records from `offset` up to `end`, in the order of their first records.

        A reader skips the records of their producers from there up to the marker.
        """
        ...

    @property
    def leader_epoch(self) -> int:
        """Leader epoch in which this process owns the partition."""
        ...

    @property
    def stopped(self) -> OSError | None:
        """Error after which the partition rejects appends until the store is reopened; None if there was none."""
        ...

    def sync_first(self) -> None:
        """Include this partition's appends in every next sync, whatever else waits; call before the first append."""
        ...

    @property
    def producers(self) -> ProducerStates:
        """State of idempotent producers, including queued appends; check it before `append`, which updates it."""
        ...

    def append(self, batches: Buffer, leader_epoch: int) -> int:
        """Queue one or several complete batches, set their base offsets and leader epoch; return the first base offset.

        The caller has checked each batch's header and CRC. Takes ownership of the bytes: a
        bytearray is modified in place. Raises StaleLeaderEpoch, PartitionStopped.
        """
        ...

    def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
        """Return complete batches below `stable_offset`, from the batch that contains `offset`.

        Returns at least one batch, further ones up to `max_bytes` in total, and nothing at the end
        of the log. Raises OffsetOutOfRange below `start_offset` or above `stable_offset`, and
        CorruptBatch if the first batch is damaged.
        """
        ...

    def send(self, offset: int, max_bytes: int) -> Sequence[Buffer | FileSlice]:
        """Like `read`, for sending to a socket: large parts may be slices of files, for `os.sendfile`."""
        ...

    @property
    def has_transactions(self) -> bool:
        """Whether the log has an open or an aborted transaction, so that `send_committed` differs from `send`."""
        ...

    def send_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Sequence[Buffer | FileSlice], Sequence[AbortedTransaction]]:
        """Like `send`, but only up to `last_stable_offset`, with the aborted transactions among what is returned."""
        ...

    def find_time(self, timestamp: Millis) -> OffsetAndTime | None:
        """Return the first record at or after that time; None if all records are older."""
        ...

    def find_max_time(self) -> OffsetAndTime | None:
        """Return the record with the largest timestamp; None if the partition is empty."""
        ...

    def truncate(self, offset: int) -> None:
        """Remove all batches from `offset` on, including one that contains `offset`. No appends may be queued.

        Not supported over PostgreSQL, where every committed row was acknowledged.
        """
        ...

    def delete_before(self, offset: int) -> int:
        """Advance the start offset to `offset`, durably; return the new start offset."""
        ...

    def apply_retention(self, written_before: Callable[[Millis], Millis]) -> int:
        """Remove segments that retention.ms and retention.bytes do not retain; return the start offset.

        `written_before` returns the timestamp at which a record now has a given age, in milliseconds.
        """
        ...

    @property
    def size(self) -> int:
        """Size of the log in bytes."""
        ...

    def cleanable_ratio(self, now: Millis) -> float:
        """Return the fraction of the log that was never compacted.

        Returns 1 if max.compaction.lag.ms has passed, and 0 if no compaction should run.
        """
        ...

    def compact(self, now: Millis, max_map_bytes: int) -> Compaction:
        """Start a compaction whose map uses at most `max_map_bytes` of memory.

        Only one may run at a time, and none while `cleanable_ratio` is 0.
        """
        ...


class Pending(Protocol):
    """Appends that one sync makes durable; the broker only needs to know whether they are all appends."""

    @property
    def is_last(self) -> bool:
        """False if a later `take` returns the rest of what was appended before this one, or before an earlier one."""
        ...


class LogStore(Protocol):
    """All topics and partitions of one broker."""

    @property
    def cluster_id(self) -> str:
        """Cluster ID of 22 characters, like Kafka's."""
        ...

    @property
    def queued_bytes(self) -> int:
        """Bytes appended and not settled yet. The broker pauses its connections if there are too many."""
        ...

    @property
    def recovered(self) -> Sequence[TornTail]:
        """Tails that recovery cut, of the partitions opened so far."""
        ...

    def topics(self) -> Mapping[str, Topic]:
        """Return all topics by name."""
        ...

    def create_topic(self, topic: Topic) -> None:
        """Create a topic. It is durable when this returns."""
        ...

    def alter_topic(self, topic: Topic) -> None:
        """Store new configs or a larger partition count for the topic with that ID; durable when this returns."""
        ...

    def change_defaults(self, defaults: Mapping[str, str]) -> None:
        """Change the configs of topics that do not set their own, including open partitions."""
        ...

    def delete_topic(self, topic_id: UUID) -> None:
        """Delete a topic and its partitions' logs; durable when this returns."""
        ...

    def configs(self, kind: str) -> Mapping[str, Mapping[str, str]]:
        """Return the configs of non-topic resources of that kind, by name, as `keep_configs` stored them."""
        ...

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a resource; an empty mapping removes the resource. Durable when this returns."""
        ...

    def update_configs(self, kind: str, name: str, update: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace the configs of a resource by what `update` makes of the current ones; durable when this returns.

        No other broker of the cluster changes them meanwhile. If `update` raises, they stay unchanged.
        """
        ...

    def change_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        """Set and remove (None) configs of a resource, and keep its others; durable when this returns.

        What another broker of the cluster changes at the same time is kept, too.
        """
        ...

    def partition(self, topic_id: UUID, partition: int) -> PartitionLog:
        """Return the log of an existing partition, which is opened and recovered at first use. Raises KeyError."""
        ...

    def take(self) -> Pending | None:
        """On the event loop: return all appends since the last take, and the clean-up of deletions, or None.

        A store may divide appends that need many new files: the first take returns a part, and the
        following takes return the rest. Until then, only partitions with `sync_first` contribute
        later appends. The appends of one partition are never divided. At most one take may be in
        progress: take, sync, and then settle or fail, before the next take.
        """
        ...

    def sync(self, pending: Pending) -> None:
        """In the writer thread: write the appends and make them durable.

        Raises OSError, or SyncFailed if a retry is not possible.
        """
        ...

    def settle(self, pending: Pending) -> "Sequence[PartitionLog]":
        """On the event loop, after sync: make the appends readable. Returns the logs that have new records."""
        ...

    def fail(self, pending: Pending, error: OSError) -> None:
        """On the event loop, after sync raised: drop all appends that are not settled, of all partitions.

        Every partition and its producers return to the stable offset. Later appends may succeed,
        for example after a full disk; after SyncFailed, the affected partitions are stopped.
        """
        ...

    def close(self) -> None:
        """Sync, mark the shutdown as clean, and release the locks."""
        ...


class SyncFailed(OSError):
    """The disk did not confirm a write.

    The kernel may consider these pages clean from now on, so a second sync could succeed without
    writing them. Therefore nothing is retried, and the next start determines the contents of the
    files.
    """


class PartitionStopped(OSError):
    """Append to a partition after a disk error: it stays readable, and accepts appends after a restart."""


class StaleLeaderEpoch(KohortError):
    """Append with an epoch that is not the partition's."""


class OffsetOutOfRange(KohortError):
    """Read outside `start_offset` to `stable_offset`."""


class TopicExists(KohortError):
    """Another broker of the cluster has just created a topic with that name."""


class DataDirectoryInUse(KohortError):
    """Another process holds the data directory."""


class BadDataDirectory(KohortError):
    """The data directory cannot be used: it is not Kohort's, has a newer format, or is damaged."""
