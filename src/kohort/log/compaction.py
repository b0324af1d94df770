"""Compaction of one partition: its full segments are written anew with each key's last record (KIP-58).

The event loop begins it and swaps segments, a worker thread does what takes long, one after the other:

    compaction = log.compact(now, max_map_bytes)      event loop
    for _ in compaction.work(): ...                   worker thread, a batch per step
    compaction.swap()                                 event loop; again from `work` until it returns False

Nobody else touches full segments meanwhile: retention and DeleteRecords wait with theirs (`SegmentedLog.compacting`).
Killed at any step, the log is what it was before the last swap or after it.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kohort.log.cleaning import Cleaning
from kohort.log.newest import NewestOffsets
from kohort.log.producers import Producer
from kohort.log.segment import Segment
from kohort.model import Millis
from kohort.wire.batch import HEADER_SIZE, BatchHeader, read_header
from kohort.wire.compression import Buffer
from kohort.wire.record_filter import scan_records
from kohort.wire.record_pairs import decode_pairs

if TYPE_CHECKING:
    from kohort.log.partition import SegmentedLog

_WINDOW = 1 << 20
_MOST_IN_A_SWAP = 200
"""Old segments that one new one replaces: the event loop renames each."""


@dataclass(frozen=True, slots=True)
class Cleanable:
    """What compaction would find in a log."""

    dirty_from: int
    """All below has been compacted before."""
    end: int
    """From here on nothing may be touched: it grows, or is younger than min.compaction.lag.ms."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether max.compaction.lag.ms has passed, so that the ratio does not count."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0


class Workshop(Protocol):
    """Where a compaction reads old segments and writes a new one. Used in the worker thread, but for `put_in_place`."""

    def read(self, segment: Segment, position: int, size: int) -> Buffer:
        """Those bytes of a full segment, fewer at its end."""
        ...

    def begin(self, base_offset: int) -> Segment:
        """A new segment, empty and unknown to its log."""
        ...

    def write(self, parts: Sequence[Buffer]) -> None:
        """Add to the new segment."""
        ...

    def producers_at_end(self, segment: Segment) -> Mapping[int, Producer] | None:
        """What was kept of the partition's producers when this segment was full; None where that is not known."""
        ...

    def commit(self, end_offset: int) -> None:
        """The new segment takes the place of all from its base to `end_offset`, even if the process dies now."""
        ...

    def put_in_place(self, old: Sequence[Segment], new: Segment) -> None:
        """On the event loop: do what `commit` decided. Raises OSError, and then nothing has changed."""
        ...

    def finish(self) -> None:
        """`put_in_place` is done and need not be done again."""
        ...

    def keep_progress(self, offset: int) -> None:
        """Everything below is compacted."""
        ...

    def discard(self) -> None:
        """The new segment is not wanted, nor committed."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


def cleanable(log: "SegmentedLog", now: Millis) -> Cleanable:
    """What there is to compact, by the sizes of whole segments."""
    config = log.config
    dirty_from = max(log.compacted_to, log.start_offset)
    clean = dirty = 0
    end, overdue = log.segments[0].base_offset, False
    for segment in log.full_segments:
        if config.min_compaction_lag_ms and segment.max_timestamp > now - config.min_compaction_lag_ms:
            break
        end = log.segment_after(segment).base_offset
        if end <= dirty_from:
            clean += segment.size
        else:
            dirty += segment.size
            overdue = overdue or now - segment.first_timestamp > config.max_compaction_lag_ms
    return Cleanable(dirty_from, end, clean, dirty, overdue)


class Compaction:
    """One pass over one log."""

    def __init__(
        self, log: "SegmentedLog", found: Cleanable, workshop: Workshop, now: Millis, max_map_bytes: int
    ) -> None:
        self.bytes_before = self.bytes_after = 0
        self._log = log
        self._found = found
        self._workshop = workshop
        self._now = now
        self._newest = NewestOffsets(max_map_bytes)
        self._todo = [
            (segment, log.segment_after(segment).base_offset)
            for segment in log.full_segments
            if segment.base_offset < found.end
        ]
        """Each with the offset at which its successor begins."""
        self._last_of_producer = {
            number: producer.batches[-1].last_offset
            for number, producer in log.producers.snapshot().items()
            if producer.batches
        }
        self._cleaning: Cleaning | None = None
        self._ready: tuple[list[Segment], Segment] | None = None

    def work(self) -> Iterator[None]:
        """Prepare the next swap; where none is prepared, all is done. Raises OSError and BatchError: close it then."""
        self._workshop.finish()
        if self._cleaning is None:
            self._cleaning = yield from self._learn()
            while self._todo and self._todo[-1][0].base_offset >= self._cleaning.end:
                self._todo.pop()
        if self._cleaning.end <= self._found.dirty_from:
            return  # a transaction, at once
        while self._todo and self._ready is None:
            yield from self._rewrite(self._cleaning)
        if self._ready is None:
            self._workshop.keep_progress(self._cleaning.end)

    def swap(self) -> bool:
        """Let the log have what `work` prepared; False where that was nothing, and the compaction is over."""
        if self._ready is None:
            if self._cleaning is not None:
                self._log.compacted_to = max(self._log.compacted_to, self._cleaning.end)
            self.close()
            return False
        old, new = self._ready
        self._ready = None
        if not self._log.deleted:
            self._workshop.put_in_place(old, new)
            self._log.replace(old, new)
        return not self._log.deleted

    def close(self) -> None:
        """Give up what is not swapped yet, and let retention go on. Calling it again does nothing."""
        if self._log.compacting:
            self._log.compacting = False
            self._workshop.close()
            self._log.drop_segments_below_start()

    def _learn(self) -> Generator[None, None, Cleaning]:
        """Which records of the dirty part are the last of their keys: as far as memory allows."""
        first, end = None, self._found.dirty_from
        for segment, after in self._todo:
            if after <= self._found.dirty_from:
                continue
            for batch, header in self._batches(segment, segment.index.position_of(self._found.dirty_from)):
                if header.next_offset <= self._found.dirty_from:
                    continue
                if header.is_transactional or header.is_control or self._newest.full:
                    # Which transactions were aborted is not known here, so nothing behind one's start is touched.
                    return self._cleaning_to(first, end)
                first = header.base_offset if first is None else first
                self._newest.add(*_keys(batch, header))
                end = header.next_offset
                yield
        return self._cleaning_to(first, self._found.end)

    def _cleaning_to(self, first: int | None, end: int) -> Cleaning:
        retention = self._log.config.delete_retention_ms
        dirty_from = self._found.dirty_from if first is None else first
        return Cleaning(self._newest, dirty_from, end, self._now, retention, self._last_of_producer)

    def _rewrite(self, cleaning: Cleaning) -> Iterator[None]:
        """One new segment of as many old ones as fit into it."""
        old: list[Segment] = []
        new = self._workshop.begin(self._todo[0][0].base_offset)
        changed, end = False, 0
        while self._todo and len(old) < _MOST_IN_A_SWAP:
            segment, after = self._todo[0]
            if old and new.size + segment.size > self._log.config.segment_bytes:
                break
            for batch, header in self._batches(segment):
                kept = cleaning.clean(batch, header)
                changed = changed or kept is not batch
                if kept is not None:
                    self._workshop.write([kept])
                    new.note(read_header(kept))
                yield
            old.append(segment)
            end = after
            del self._todo[0]
        self.bytes_before += sum(segment.size for segment in old)
        self.bytes_after += new.size
        if len(old) == 1 and not changed:
            self._workshop.discard()
            return
        new.planned = new.size
        producers = self._workshop.producers_at_end(old[-1])
        new.producers_at_end = None if producers is None else dict(producers)
        yield
        self._workshop.commit(end)
        self._ready = old, new

    def _batches(self, segment: Segment, position: int = 0) -> Iterator[tuple[Buffer, BatchHeader]]:
        """Every batch from a boundary on, whole; read in windows."""
        while position < segment.size:
            window = memoryview(self._workshop.read(segment, position, _WINDOW))
            at = 0
            while len(window) - at >= HEADER_SIZE:
                header = read_header(window, at)
                if header.size < HEADER_SIZE:
                    raise OSError(f"the log is damaged at byte {position + at} of its segment {segment.base_offset}")
                if len(window) - at < header.size:
                    break
                yield window[at : at + header.size], header
                at += header.size
            if not at:  # larger than the window
                size = read_header(window).size if len(window) >= HEADER_SIZE else HEADER_SIZE
                window = memoryview(self._workshop.read(segment, position, size))
                if len(window) < size:
                    raise OSError(f"the segment {segment.base_offset} ends inside a batch at byte {position}")
                yield window, read_header(window)
                at = size
            position += at


def _keys(batch: Buffer, header: BatchHeader) -> tuple[Sequence[tuple[bytes | None, bytes | None]], Sequence[int]]:
    """Key and value, and offset of each record; of values it matters only that they are there."""
    if not header.has_gaps:
        _, pairs = decode_pairs(batch)
        return pairs, range(header.base_offset, header.next_offset)
    _, _, records = scan_records(batch)
    return [(one.key, None) for one in records], [one.offset for one in records]
