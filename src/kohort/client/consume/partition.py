"""State of one partition in a consumer: its position and the records fetched ahead."""

from collections import deque
from typing import TYPE_CHECKING, TypeVar

from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.unpacking import Chunk, Unpacked
from kohort.client.reset import Reset
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, TopicPartition
from kohort.wire.batches import BatchError

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

FetchSlot = tuple[int, int]
"""Broker ID and index of a fetch connection."""


class PartitionState:
    """Position and buffered records of one partition.

    Positions change only here. `turn` changes when fetched data is no longer valid (a seek, a
    reset).
    """

    __slots__ = (
        "_broken",
        "_chunks",
        "_unpacked",
        "buffered",
        "checked_epoch",
        "committed",
        "end",
        "failures",
        "fetch_at",
        "fetch_epoch",
        "granted",
        "high_watermark",
        "leader_epoch",
        "partition",
        "paused",
        "position",
        "reset",
        "restart",
        "retry_at",
        "slot",
        "stable",
        "start",
        "topic_id",
        "turn",
        "uncounted",
        "unmeasured",
    )

    def __init__(self, partition: TopicPartition, granted: UUID | None = None) -> None:
        self.partition = partition
        self.granted = granted
        """ID of the topic that the coordinator assigned; None if only its name was assigned.

        Another topic of this name is not read, because it may belong to another member.
        """
        self.position: int | None = None
        """Offset of the next record to hand out; None until it is found."""
        self.fetch_at = 0
        self.fetch_epoch: int | None = None
        """Leader epoch of the record before `fetch_at`; None if unknown."""
        self.checked_epoch: int | None = None
        """Epoch of a leader that was verified to have that record."""
        self.leader_epoch: int | None = None
        """Leader epoch of the last record handed out."""
        self.reset: Reset | None = None
        """Where the application wants to continue if there is no position; None for the committed offset."""
        self.topic_id = granted
        """ID of the topic to which the position belongs, set with the position or by the first fetch."""
        self.committed: OffsetAndMetadata | None = None
        """The group's committed offset when the position was looked up."""
        self.restart: int | None = None
        """Offset at which reading begins again after an aborted transaction: of the last commit, or of the first
        record to read."""
        self.paused = False
        self.start: int | None = None
        self.high_watermark: int | None = None
        """As of the last fetch."""
        self.stable: int | None = None
        """Last stable offset as of the last fetch."""
        self.end: int | None = None
        """High watermark, or last stable offset with read_committed, as of the last fetch."""
        self.slot: FetchSlot | None = None
        """Where the partition is being fetched; a response from elsewhere is discarded."""
        self.failures = 0
        """Number of failed fetches since the last success."""
        self.retry_at = 0.0
        self.turn = 0
        self.buffered = 0
        """Number of bytes fetched and not handed out."""
        self.uncounted = 0
        """Number of records handed out that the metrics do not count yet."""
        self.unmeasured = False
        """Whether a fetch arrived since the metrics last measured the lag."""
        self._chunks: deque[Chunk] = deque()
        self._unpacked: Unpacked | None = None
        """Records of the first chunk to hand out next."""
        self._broken: BatchError | None = None
        """Error that blocks the partition until its position is moved."""

    def move(self, position: int, epoch: int | None = None, topic_id: UUID | None = None) -> None:
        """Continue from this position.

        `epoch` is the leader epoch of the record before it, if known. `topic_id` is the ID of the
        topic for which the position was found; None if it is that of the position before.
        """
        self._forget()
        self.topic_id = self.granted or topic_id or self.topic_id
        self.position = self.fetch_at = self.restart = position
        self.leader_epoch = self.fetch_epoch = epoch

    def unfetch(self) -> None:
        """Drop the records that were fetched and not handed out."""
        assert self.position is not None
        restart = self.restart
        self.move(self.position, self.leader_epoch)
        self.restart = restart

    def lose(self, reset: Reset | None) -> None:
        """Discard the position, so that it is looked up again."""
        self._forget()
        self.position, self.restart, self.topic_id = None, None, self.granted
        self.reset = reset

    def _forget(self) -> None:
        self.turn += 1
        self.slot = None
        self.buffered = 0
        self.leader_epoch = self.fetch_epoch = self.checked_epoch = None
        self.retry_at = 0.0
        self._chunks.clear()
        self._unpacked = None
        self._broken = None

    def add(self, chunk: Chunk) -> None:
        """Add the result of a fetch from `fetch_at`."""
        if chunk.next_offset is None:
            return
        self._chunks.append(chunk)
        self.buffered += chunk.size
        if chunk.next_offset > self.fetch_at:
            self.fetch_at, self.fetch_epoch = chunk.next_offset, chunk.last_epoch

    def must_check(self, epoch: int | None) -> bool:
        """Return whether a leader of this epoch may lack records before `fetch_at` (KIP-320)."""
        if self.position is None or self.fetch_epoch is None or epoch in (None, self.fetch_epoch):
            return False
        return epoch != self.checked_epoch

    @property
    def has_records(self) -> bool:
        """Whether `take` may return records."""
        return bool(self._chunks)

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to `most` records and move the position after them.

        Raises BatchError while the next bytes are not a valid batch, until the position is moved.
        """
        taken: list[ConsumerRecord] = []
        while len(taken) < most and (unpacked := self._next()):
            some = unpacked.records(most - len(taken))
            taken = taken + some if taken else some
            self._handed_out(unpacked)
        return self._or_broken(taken)

    def take_values(self, most: int) -> list[bytes | None]:
        """Return only the values of up to `most` records and move the position after them."""
        taken: list[bytes | None] = []
        while len(taken) < most and (unpacked := self._next(values_only=True)):
            some = unpacked.values(most - len(taken))
            taken = taken + some if taken else some
            self._handed_out(unpacked)
        return self._or_broken(taken)

    def take_columns(self, most: int) -> "list[pa.RecordBatch]":
        """Return up to `most` records as Arrow batches and move the position after them."""
        taken: list[pa.RecordBatch] = []
        left = most
        while left > 0 and (unpacked := self._next()):
            taken.append(unpacked.columns(left))
            left -= taken[-1].num_rows
            self._handed_out(unpacked)
        return self._or_broken(taken)

    def _handed_out(self, unpacked: Unpacked) -> None:
        self.position, self.leader_epoch = unpacked.next_offset, unpacked.leader_epoch
        if not unpacked.left:
            self._unpacked = None

    def _or_broken(self, taken: list[_T]) -> list[_T]:
        if not taken and self._broken is not None:
            where = f"{self.partition} at offset {self.position}"
            raise BatchError(self._broken.code, f"{where}: {self._broken.sentence}; seek past it to skip it")
        return taken

    def _next(self, *, values_only: bool = False) -> Unpacked | None:
        """Return the next records to hand out; None if there are none or the next batch is damaged."""
        if self._unpacked is not None:
            return self._unpacked
        assert self.position is not None
        while self._chunks and self._broken is None:
            chunk = self._chunks[0]
            try:
                unpack = chunk.unpack_values if values_only else chunk.unpack
                self._unpacked = unpack(self.position)
            except BatchError as problem:
                self._broken = problem
                return None
            if self._unpacked is not None:
                return self._unpacked
            self._chunks.popleft()
            self.buffered -= chunk.size
            assert chunk.next_offset is not None
            # Move past control markers, aborted records and compacted offsets, too.
            self.position = max(self.position, chunk.next_offset)
        return None
