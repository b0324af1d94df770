"""The seam between a broker and where its partitions' logs lie: memory, local files, PostgreSQL.

A store has no threads of its own. The shell appends on its event loop, takes what waits, syncs it in its one writer
thread, and settles it on the event loop again: one sync serves everything that was appended meanwhile.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kohort.errors import KohortError
from kohort.log.descriptors import FileSlice
from kohort.log.producers import ProducerStates
from kohort.model import UUID, Millis
from kohort.wire.compression import Buffer


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the store keeps it."""

    topic_id: UUID
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetAndTime:
    """The answer to a look-up by time."""

    offset: int
    timestamp: Millis
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TornTail:
    """What recovery cut from a log: bytes behind the last sound batch, which a crash left or a disk damaged."""

    topic: str
    partition: int
    offset: int
    """The first offset that is gone."""
    bytes_cut: int
    reason: str


class Compaction(Protocol):
    """One pass over a partition's full segments: `work` and `swap` in turn, until `swap` returns False."""

    bytes_before: int
    bytes_after: int
    """Of the segments that it has been over."""

    def work(self) -> Iterator[None]:
        """In a worker thread, in small steps: prepare a swap. Raises OSError and BatchError: `close` it then."""
        ...

    def swap(self) -> bool:
        """On the event loop: let the log have what is prepared; False when all is done."""
        ...

    def close(self) -> None:
        """On the event loop: give up what is not swapped; never while `work` runs."""
        ...


class PartitionLog(Protocol):
    """One partition: whole record batches v2, addressed by offset."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets; what lies between `stable_offset` and this is not synced yet."""
        ...

    @property
    def stable_offset(self) -> int:
        """All below is on disk and may be read and acknowledged (the high watermark)."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch at which this process owns the partition."""
        ...

    @property
    def stopped(self) -> OSError | None:
        """Why the partition takes no appends until the store is opened again; None where it does."""
        ...

    def sync_first(self) -> None:
        """Take this partition's appends with the next sync, whatever else waits; called before the first append."""
        ...

    @property
    def producers(self) -> ProducerStates:
        """What idempotent producers appended, queued appends included: ask it before `append`, which updates it."""
        ...

    def append(self, batches: Buffer, leader_epoch: int) -> int:
        """Queue one or several whole batches, set their base offsets and leader epoch; return the first base offset.

        The caller has checked each batch's header and CRC. Takes ownership of the bytes: a bytearray is changed in
        place. Raises StaleLeaderEpoch, PartitionStopped.
        """
        ...

    def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
        """Whole batches from the one that holds `offset`, below `stable_offset`: at least one, then up to max_bytes.

        Empty at the end. Raises OffsetOutOfRange below start_offset or above stable_offset, CorruptBatch where the
        first of them is damaged.
        """
        ...

    def send(self, offset: int, max_bytes: int) -> Sequence[Buffer | FileSlice]:
        """`read` for a peer on a socket: what is large may come as places in files, for `os.sendfile`."""
        ...

    def find_time(self, timestamp: Millis) -> OffsetAndTime | None:
        """The first record at or after that time; None where all are older."""
        ...

    def find_max_time(self) -> OffsetAndTime | None:
        """The record with the largest timestamp; None for an empty partition."""
        ...

    def truncate(self, offset: int) -> None:
        """Drop everything from `offset` on, whole batches: one that holds `offset` goes too. Nothing may be queued.

        Not over PostgreSQL, where a row that is in was acknowledged.
        """
        ...

    def delete_before(self, offset: int) -> int:
        """Move the start offset up to `offset`, durably; return the new start."""
        ...

    def apply_retention(self, now: Millis) -> int:
        """Drop the segments that retention.ms and retention.bytes no longer keep; return the start offset."""
        ...

    @property
    def size(self) -> int:
        """Bytes held."""
        ...

    def cleanable_ratio(self, now: Millis) -> float:
        """Which part of it compaction has not seen, 1 where max.compaction.lag.ms has passed; 0 where it is to wait."""
        ...

    def compact(self, now: Millis, max_map_bytes: int) -> Compaction:
        """Begin to compact; `max_map_bytes` bounds its memory. One at a time, and not while `cleanable_ratio` is 0."""
        ...


class Pending(Protocol):
    """Appends that one sync will make durable; the shell needs to know only whether they are all of them."""

    @property
    def is_last(self) -> bool:
        """False if a later `take` has the rest of what was appended before this one, or before an earlier one."""
        ...


class LogStore(Protocol):
    """All topics and partitions of one broker."""

    @property
    def cluster_id(self) -> str:
        """22 characters, as Kafka's."""
        ...

    @property
    def queued_bytes(self) -> int:
        """Appended and not settled yet: what the shell bounds by holding back its readers."""
        ...

    @property
    def recovered(self) -> Sequence[TornTail]:
        """What had to be cut, of the partitions opened so far."""
        ...

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name."""
        ...

    def create_topic(self, topic: Topic) -> None:
        """Durable when it returns."""
        ...

    def alter_topic(self, topic: Topic) -> None:
        """Store new configs or a larger number of partitions for the topic of that id; durable when it returns."""
        ...

    def change_defaults(self, defaults: Mapping[str, str]) -> None:
        """From now on topics have these configs where they set none of their own; open partitions too."""
        ...

    def delete_topic(self, topic_id: UUID) -> None:
        """Durable when it returns; the partitions' logs are gone."""
        ...

    def configs(self, kind: str) -> Mapping[str, Mapping[str, str]]:
        """Configs of what is no topic: those that `keep_configs` kept for this kind of resource, by the name."""
        ...

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        """Keep these instead of what was kept under that name; none forgets the name. Durable when it returns."""
        ...

    def partition(self, topic_id: UUID, partition: int) -> PartitionLog:
        """The log of an existing partition, opened (and recovered) at first use. Raises KeyError."""
        ...

    def take(self) -> Pending | None:
        """On the event loop: everything appended since the last take, and what deletions left to clean up, or None.

        A store may divide appends that need many new files: the first take returns a part, the following takes return
        the rest. Until then they include later appends only of partitions with `sync_first`. The appends of one
        partition are never divided. At most one is under way: take, sync, then settle or fail, before the next.
        """
        ...

    def sync(self, pending: Pending) -> None:
        """In the writer thread: write it and make it durable. Raises OSError, SyncFailed where that is not retried."""
        ...

    def settle(self, pending: Pending) -> "Sequence[PartitionLog]":
        """On the event loop, after sync: what it holds may now be read. Returns the logs that have more to read."""
        ...

    def fail(self, pending: Pending, error: OSError) -> None:
        """On the event loop, after sync raised: drop what it held and all else that is not settled, everywhere.

        Every partition is back at its stable offset, its producers too. Later appends may succeed again, as on a disk
        that was full; after SyncFailed the partitions concerned are stopped.
        """
        ...

    def close(self) -> None:
        """Sync, mark the shutdown as clean, release the locks."""
        ...


class SyncFailed(OSError):
    """The disk did not confirm what was written to it.

    The kernel may take those pages for clean from now on, so that a second sync would succeed without having written
    them: nothing is tried again, and what the files hold is found out by the next start.
    """


class PartitionStopped(OSError):
    """An append to a partition whose disk failed it: it can be read, and written to again after a restart."""


class StaleLeaderEpoch(KohortError):
    """An append with an epoch that is not the partition's."""


class OffsetOutOfRange(KohortError):
    """A read outside start_offset to stable_offset."""


class TopicExists(KohortError):
    """Another broker of the cluster has just made a topic of that name."""


class DataDirectoryInUse(KohortError):
    """Another process holds the data directory."""


class BadDataDirectory(KohortError):
    """The data directory cannot be used: not ours, of a newer format, damaged."""
