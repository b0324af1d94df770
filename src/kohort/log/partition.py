"""Log of one partition over segments in any storage. Runs on the event loop and does not access files itself.

An append is queued and gets its offsets at once. Its bytes become part of a segment when the store
has synced and settled them. Until then they can be dropped, for example if the disk is full.
"""

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TypeVar

from kohort.log.api import OffsetAndTime, OffsetOutOfRange, PartitionStopped, StaleLeaderEpoch
from kohort.log.compaction import Compaction, CompactionFiles, cleanable
from kohort.log.config import LogConfig
from kohort.log.descriptors import FileSlice
from kohort.log.placing import place_batches
from kohort.log.producers import AbortedTransaction, Producer, ProducerStates
from kohort.log.reading import Reader, Take
from kohort.log.segment import Medium, Segment
from kohort.log.times import find_max_time, find_time
from kohort.model import Millis, TopicPartition
from kohort.wire.batches import BatchHeader, Buffer, Marker, read_marker

P = TypeVar("P", bound=Sized)


@dataclass(slots=True)
class Queued:
    """One queued append: its bytes for one segment, and the state to restore if it fails."""

    segment: Segment
    position: int
    parts: list[Buffer]
    headers: list[BatchHeader]
    size: int
    undo: list[tuple[int, Producer | None]]
    """Previous state of each producer."""
    aborted: list[AbortedTransaction]
    """Transactions that its markers abort."""


class SegmentedLog:
    """The `PartitionLog` of the memory store and the file stores."""

    def __init__(
        self,
        name: TopicPartition,
        config: LogConfig,
        leader_epoch: int,
        new_medium: Callable[[int], Medium],
        on_queued: Callable[["SegmentedLog", int], None],
        new_workshop: Callable[[], CompactionFiles],
        *,
        segments: Sequence[Segment] = (),
        start_offset: int = 0,
        compacted_to: int = 0,
        producers: ProducerStates | None = None,
        keep_start: Callable[[int], None] = lambda offset: None,
    ) -> None:
        self.name = name
        self.config = config
        self.producers = producers if producers is not None else ProducerStates()
        self.queue: list[Queued] = []
        """Appends that the store has not taken yet."""
        self.unsettled = 0
        """Number of appends that are queued or taken, but not settled."""
        self.deleted = False
        """Whether the topic is deleted, so that queued appends need not be written."""
        self.stopped: OSError | None = None
        self.is_synced_first = False
        """Whether the next sync includes its appends, whatever else waits."""
        self.compacting = False
        """Whether a compaction is running, during which nothing else may remove full segments."""
        self._leader_epoch = leader_epoch
        self._new_medium = new_medium
        self._on_queued = on_queued
        self._new_workshop = new_workshop
        self._keep_start = keep_start
        self._segments = list(segments) or [Segment(start_offset, new_medium(start_offset))]
        self._start_offset = max(start_offset, self._segments[0].base_offset)
        self._stable_offset = self._end_offset = max(start_offset, self._segments[-1].end_offset)
        self.compacted_to = compacted_to if compacted_to <= self._stable_offset else 0
        """Offset below which the log is compacted."""
        self._settled_in = self._segments[-1]
        """Segment that contains the end of the settled bytes; later segments contain only pending appends."""
        self._open = self.producers.open_transactions()
        """First offsets of open transactions by producer ID, up to the stable offset; the oldest first."""
        self._reader = Reader(name, self._segments)

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._end_offset

    @property
    def stable_offset(self) -> int:
        return self._stable_offset

    @property
    def last_stable_offset(self) -> int:
        # As in Kafka: a transaction whose first records are deleted begins at the start of the log.
        return max(self._start_offset, next(iter(self._open.values()), self._stable_offset))

    def aborted(self, offset: int, end: int) -> list[AbortedTransaction]:
        found = [
            each
            for segment in self._segments
            if segment.aborted and segment.end_offset > offset
            for each in segment.aborted
            if each.last_offset >= offset and each.first_offset < end
        ]
        return sorted(found, key=lambda each: each.first_offset)

    @property
    def leader_epoch(self) -> int:
        return self._leader_epoch

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """Segments, oldest first; the last one grows."""
        return self._segments

    @property
    def settled_in(self) -> Segment:
        """Segment that contains the end of the settled bytes; later segments contain only pending appends."""
        return self._settled_in

    def settled_producers(self) -> dict[int, Producer]:
        """Return the producers as of the stable offset, without pending appends, which a crash would undo."""
        producers = ProducerStates(self.producers.snapshot())
        self._take_back(producers, self.queue)
        return producers.snapshot()

    @property
    def full_segments(self) -> Sequence[Segment]:
        """Segments that no append changes any more, not even a pending one."""
        return self._segments[: self._segments.index(self._settled_in)]

    def segment_after(self, segment: Segment) -> Segment:
        """Return the segment after a full segment."""
        return self._segments[self._segments.index(segment) + 1]

    # Appending

    def sync_first(self) -> None:
        assert self.is_synced_first or not self.unsettled, "its appends may be divided from each other"
        self.is_synced_first = True

    def append(self, batches: Buffer, leader_epoch: int) -> int:
        if leader_epoch != self._leader_epoch:
            detail = f"{self.name} is at leader epoch {self._leader_epoch}, the append has {leader_epoch}"
            raise StaleLeaderEpoch(detail)
        if self.stopped is not None:
            raise PartitionStopped(self.stopped.errno, f"{self.name} takes no appends until a restart: {self.stopped}")
        base_offset = self._end_offset
        parts, headers = place_batches(batches, base_offset, leader_epoch)
        assert headers and sum(header.size for header in headers) == len(batches), "an append is whole batches"
        segment = self._segment_for(len(batches), headers[0].max_timestamp)
        undo, aborted, position = [], [], 0
        for header in headers:
            if header.producer_id >= 0:
                undo.append((header.producer_id, self.producers.get(header.producer_id)))
                marker = read_marker(memoryview(batches)[position:]) if header.is_control else None
                ended = self.producers.update(header, marker)
                if ended is not None:
                    aborted.append(ended)
            position += header.size
        self.queue.append(Queued(segment, segment.planned, parts, headers, len(batches), undo, aborted))
        segment.planned += len(batches)
        self._end_offset = headers[-1].next_offset
        self.unsettled += 1
        self._on_queued(self, len(batches))
        return base_offset

    def settle(self, queued: Sequence[Queued]) -> list[Segment]:
        """Make synced appends readable. Returns the segments that are full now."""
        full = []
        for append in queued:
            if append.segment is not self._settled_in:
                if self._settled_in in self._segments:
                    full.append(self._settled_in)
                self._settled_in = append.segment
            assert append.position == append.segment.size
            append.segment.medium.settle(append.parts)
            for header in append.headers:
                append.segment.note(header)
                if header.is_control:
                    self._open.pop(header.producer_id, None)
                elif header.is_transactional:
                    self._open.setdefault(header.producer_id, header.base_offset)
            append.segment.aborted += append.aborted
            self._stable_offset = append.segment.end_offset
        self.unsettled -= len(queued)
        return full

    def drop_unsettled(self, queued: Sequence[Queued]) -> None:
        """Undo everything after the stable offset: `queued`, which a sync failed to write, and pending appends."""
        self._take_back(self.producers, [*queued, *self.queue])
        self.queue = []
        self.unsettled = 0
        self._end_offset = self._stable_offset
        while self._segments[-1] is not self._settled_in:
            self._segments.pop().medium.remove()
        growing = self._segments[-1]
        growing.producers_at_end = None
        growing.planned = growing.size
        growing.medium.truncate(growing.size)

    @staticmethod
    def _take_back(producers: ProducerStates, queued: Sequence[Queued]) -> None:
        for append in reversed(queued):
            for producer_id, producer in reversed(append.undo):
                producers.restore(producer_id, producer)

    def _segment_for(self, size: int, timestamp: Millis) -> Segment:
        """Return the growing segment, or a new one if that is full."""
        growing = self._segments[-1]
        if not growing.planned:
            growing.first_timestamp = timestamp
            return growing
        age = timestamp - growing.first_timestamp
        if growing.planned + size <= self.config.segment_bytes and age <= self.config.roll_ms:
            return growing
        fresh = self._roll()
        fresh.first_timestamp = timestamp
        return fresh

    def _roll(self) -> Segment:
        self._segments[-1].producers_at_end = self.producers.snapshot()
        self._segments.append(Segment(self._end_offset, self._new_medium(self._end_offset)))
        return self._segments[-1]

    # Reading

    def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
        return self._read(offset, max_bytes, Segment.read)

    def send(self, offset: int, max_bytes: int) -> Sequence[Buffer | FileSlice]:
        return self._read(offset, max_bytes, Segment.send)

    def _read(self, offset: int, max_bytes: int, take: Take[P]) -> list[P]:
        self._check_in_range(offset)
        return [] if offset == self._stable_offset else self._reader.read(offset, max_bytes, take)

    @property
    def has_transactions(self) -> bool:
        return bool(self._open) or any(segment.aborted for segment in self._segments)

    def send_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Sequence[Buffer | FileSlice], Sequence[AbortedTransaction]]:
        if not self.has_transactions:
            return self.send(offset, max_bytes), []
        self._check_in_range(offset)
        until = self.last_stable_offset
        if offset >= until:
            return [], []
        parts = self._reader.read(offset, max_bytes, Segment.send, until)
        return parts, self.aborted(offset, self._reader.ended_at)

    def find_time(self, timestamp: Millis) -> OffsetAndTime | None:
        return find_time(self._segments, self._start_offset, timestamp)

    def find_max_time(self) -> OffsetAndTime | None:
        return find_max_time(self._segments, self._start_offset)

    def _check_in_range(self, offset: int) -> None:
        if not self._start_offset <= offset <= self._stable_offset:
            detail = f"{self.name} holds offsets {self._start_offset} to {self._stable_offset}, not {offset}"
            raise OffsetOutOfRange(detail)

    # Dropping

    def truncate(self, offset: int) -> None:
        assert not self.unsettled, "truncate with appends under way"
        assert not self.compacting, "truncate while it is compacted"
        if offset >= self._end_offset:
            return
        self._reader.forget()
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop().medium.remove()
        growing = self._segments[-1]
        position = growing.locate(offset)
        if position is not None:
            growing.drop_from(position)
        growing.producers_at_end = None
        growing.medium.truncate(growing.size)
        self._end_offset = self._stable_offset = growing.end_offset
        if self._end_offset < self._start_offset:  # the removed batch began before the start offset
            self._start_offset = self._end_offset
            self._keep_start(self._start_offset)
        self._settled_in = growing
        self.producers.replace({}, self._marked_headers())
        self._open = self.producers.open_transactions()

    def delete_before(self, offset: int) -> int:
        target = min(offset, self._stable_offset)
        if target > self._start_offset:
            self._start_offset = target
            self._keep_start(target)
            self.drop_segments_below_start()
        return self._start_offset

    def apply_retention(self, written_before: Callable[[Millis], Millis]) -> int:
        self.producers.expire(written_before(self.config.producer_expiration_ms))
        if self.config.deletes and not self.compacting and (count := self._expired(written_before)):
            if count == len(self._segments):
                self._settled_in = self._roll()
                self._settled_in.medium.create()  # so that the end offset survives after all other segments are removed
            self._start_offset = max(self._start_offset, self._segments[count].base_offset)
            self.drop_segments_below_start()
        return self._start_offset

    def _expired(self, written_before: Callable[[Millis], Millis]) -> int:
        """Return the number of the oldest segments that retention does not retain."""
        oldest_kept = written_before(self.config.retention_ms) if self.config.retention_ms >= 0 else None
        excess = self.size - self.config.retention_bytes if self.config.retention_bytes >= 0 else 0
        count = 0
        for segment in self._segments:
            if segment.planned != segment.size or (not segment.size and segment is self._segments[-1]):
                break  # appends to it are pending, or may follow
            too_old = oldest_kept is not None and segment.max_timestamp < oldest_kept
            if not too_old and (self.config.retention_bytes < 0 or excess < segment.size):
                break
            excess -= segment.size
            count += 1
        return count

    def drop_segments_below_start(self) -> None:
        """Remove segments that are entirely below the start offset, unless a compaction is running."""
        if self.compacting:
            return
        # If the pending appends in later segments fail, this segment must grow again.
        while self._segments[0] is not self._settled_in and self._segments[1].base_offset <= self._start_offset:
            self._segments.pop(0).medium.remove()
        self._reader.forget()

    # Compacting

    def cleanable_ratio(self, now: Millis) -> float:
        if not self.config.compacts or self.compacting:
            return 0.0
        found = cleanable(self, now)
        if found.overdue:
            return 1.0
        return found.ratio if found.ratio > self.config.min_cleanable_ratio else 0.0

    def compact(self, now: Millis, max_map_bytes: int) -> Compaction:
        assert not self.compacting
        compaction = Compaction(self, cleanable(self, now), self._new_workshop(), now, max_map_bytes)
        self.compacting = True
        return compaction

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace the full segments `old` by `new`, which contains the records that compaction kept."""
        at = self._segments.index(old[0])
        assert self.compacting and self._segments[at : at + len(old)] == old
        self._segments[at : at + len(old)] = [new]
        self._reader.forget()

    def _marked_headers(self) -> Iterator[tuple[BatchHeader, Marker | None]]:
        for segment in self._segments:
            yield from segment.marked_headers()
