"""Compaction of one partition: rewrites its full segments with the last record of each key (KIP-58).

The event loop starts it and swaps segments; a worker thread does the long work. The steps run one
after the other:

    compaction = log.compact(now, max_map_bytes)      event loop
    for _ in compaction.work(): ...                   worker thread, a batch per step
    compaction.swap()                                 event loop; again from `work` until it returns False

Nothing else changes full segments meanwhile: retention and DeleteRecords wait
(`SegmentedLog.compacting`). If the process dies at any step, the log is in its state before or
after the last swap.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kohort.log.cleaning import Cleaning, EmptyTransactions
from kohort.log.config import LogConfig
from kohort.log.newest import NewestOffsets
from kohort.log.producers import AbortedTransaction, Producer, ProducerStates
from kohort.log.segment import Segment
from kohort.model import Millis
from kohort.wire.batches import HEADER_SIZE, BatchHeader, Buffer, read_header
from kohort.wire.batches.scanning import decode_pairs, scan_records

_WINDOW = 1 << 20
_MOST_IN_A_SWAP = 200
"""Maximum number of old segments that one new one replaces: the event loop renames each."""


@dataclass(frozen=True, slots=True)
class Cleanable:
    """Sizes of the compacted and the dirty part of a log."""

    dirty_from: int
    """Offset below which all segments have been compacted before."""
    end: int
    """Offset from which segments must not be compacted: they still grow, or are younger than min.compaction.lag.ms."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether max.compaction.lag.ms has passed, in which case the ratio is irrelevant."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0


class CompactableLog(Protocol):
    """Log as a compaction uses it; `SegmentedLog` implements it."""

    config: LogConfig
    producers: ProducerStates
    compacted_to: int
    """Offset below which the log is compacted."""
    compacting: bool
    """Whether a compaction is running, during which nothing else may remove full segments."""
    deleted: bool

    @property
    def start_offset(self) -> int: ...

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, or the end of what is on disk."""
        ...

    @property
    def segments(self) -> Sequence[Segment]:
        """Segments, oldest first; the last one grows."""
        ...

    @property
    def full_segments(self) -> Sequence[Segment]:
        """Segments that no append changes any more."""
        ...

    def segment_after(self, segment: Segment) -> Segment:
        """Return the next segment."""
        ...

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace the full segments `old` by `new`."""
        ...

    def drop_segments_below_start(self) -> None:
        """Remove segments that are entirely below the start offset."""
        ...


class CompactionFiles(Protocol):
    """Storage access of a compaction.

    It reads old segments and writes a new one, in the worker thread except for `put_in_place`.
    """

    def read(self, segment: Segment, position: int, size: int) -> Buffer:
        """Return bytes of a full segment; fewer at its end."""
        ...

    def begin(self, base_offset: int) -> Segment:
        """Create a new, empty segment that is not part of its log."""
        ...

    def write(self, parts: Sequence[Buffer]) -> None:
        """Append to the new segment."""
        ...

    def producers_at_end(self, segment: Segment) -> Mapping[int, Producer] | None:
        """Return the stored producer state at the end of this segment; None if it is unknown."""
        ...

    def commit(self, end_offset: int) -> None:
        """Durably decide that the new segment replaces all segments from its base offset to `end_offset`."""
        ...

    def put_in_place(self, old: Sequence[Segment], new: Segment) -> None:
        """On the event loop: carry out the replacement. If it raises OSError, nothing has changed."""
        ...

    def finish(self) -> None:
        """Record that `put_in_place` is complete and need not be repeated after a crash."""
        ...

    def keep_progress(self, offset: int) -> None:
        """Store the offset below which everything is compacted."""
        ...

    def discard(self) -> None:
        """Discard the new segment, which is not committed."""
        ...

    def close(self) -> None:
        """Close all open files."""
        ...


def cleanable(log: CompactableLog, now: Millis) -> Cleanable:
    """Return the compactable part of the log, by the sizes of whole segments."""
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
        self, log: CompactableLog, found: Cleanable, files: CompactionFiles, now: Millis, max_map_bytes: int
    ) -> None:
        self.bytes_before = self.bytes_after = 0
        self._log = log
        self._found = found
        self._files = files
        self._now = now
        self._newest = NewestOffsets(max_map_bytes)
        self._todo = [
            (segment, log.segment_after(segment).base_offset)
            for segment in log.full_segments
            if segment.base_offset < found.end
        ]
        """Segments to process, each with the base offset of its successor."""
        producers = log.producers.snapshot().items()
        self._last_of_producer = {
            number: producer.batches[-1].last_offset for number, producer in producers if producer.batches
        }
        self._epoch_of_producer = {number: producer.epoch for number, producer in producers if not producer.batches}
        self._empty = EmptyTransactions()
        self._decided = log.last_stable_offset
        """Offset below which every transaction has ended. Its records are not compacted before."""
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for each in sorted(each for segment in log.segments for each in segment.aborted):
            self._aborted.setdefault(each.producer_id, []).append(each)
        self._cleaning: Cleaning | None = None
        self._ready: tuple[list[Segment], Segment] | None = None

    def work(self) -> Iterator[None]:
        """Prepare the next swap, or none if the pass is complete. Raises OSError and BatchError; call `close` then."""
        self._files.finish()
        if self._cleaning is None:
            self._cleaning = yield from self._learn()
            while self._todo and self._todo[-1][0].base_offset >= self._cleaning.end:
                self._todo.pop()
        if self._cleaning.end <= self._found.dirty_from:
            return  # the log starts with a transaction
        while self._todo and self._ready is None:
            yield from self._rewrite(self._cleaning)
        if self._ready is None:
            self._files.keep_progress(self._cleaning.end)

    def swap(self) -> bool:
        """Replace the segments that `work` rewrote; return False if there are none, and end the compaction."""
        if self._ready is None:
            if self._cleaning is not None:
                self._log.compacted_to = max(self._log.compacted_to, self._cleaning.end)
            self.close()
            return False
        old, new = self._ready
        self._ready = None
        if not self._log.deleted:
            self._files.put_in_place(old, new)
            self._log.replace(old, new)
        return not self._log.deleted

    def close(self) -> None:
        """Discard work that is not swapped, and resume retention. May be called again."""
        if self._log.compacting:
            self._log.compacting = False
            self._files.close()
            self._log.drop_segments_below_start()

    def _learn(self) -> Generator[None, None, Cleaning]:
        """Find the last record of each key in the dirty part, as far as the memory limit allows."""
        first, end = None, self._found.dirty_from
        clean = self._cleaning_to(None, end)
        for segment, after in self._todo:
            if after <= self._found.dirty_from:
                continue
            for batch, header in self._batches(segment, segment.index.position_of(self._found.dirty_from)):
                if header.next_offset <= self._found.dirty_from:
                    continue
                if header.base_offset >= self._decided or self._newest.full:
                    return self._cleaning_to(first, end)
                first = header.base_offset if first is None else first
                if not header.is_control and not clean.is_aborted(header):
                    self._newest.add(*_keys(batch, header))
                end = header.next_offset
                yield
        return self._cleaning_to(first, self._found.end)

    def _cleaning_to(self, first: int | None, end: int) -> Cleaning:
        retention = self._log.config.delete_retention_ms
        dirty_from = self._found.dirty_from if first is None else first
        last, epochs = self._last_of_producer, self._epoch_of_producer
        return Cleaning(self._newest, dirty_from, end, self._now, retention, last, epochs, self._aborted)

    def _rewrite(self, cleaning: Cleaning) -> Iterator[None]:
        """Write one new segment from as many old ones as fit into it."""
        old: list[Segment] = []
        new = self._files.begin(self._todo[0][0].base_offset)
        changed, end = False, 0
        empty: set[int] = set()
        while self._todo and len(old) < _MOST_IN_A_SWAP:
            segment, after = self._todo[0]
            if old and new.size + segment.size > self._log.config.segment_bytes:
                break
            for batch, header in self._batches(segment):
                if self._empty.follow(header):
                    empty.add(header.base_offset)
                    kept = cleaning.clean_marker(batch, header)
                else:
                    kept = cleaning.clean(batch, header)
                changed = changed or kept is not batch
                if kept is not None:
                    self._files.write([kept])
                    new.note(read_header(kept))
                yield
            old.append(segment)
            end = after
            del self._todo[0]
        self.bytes_before += sum(segment.size for segment in old)
        self.bytes_after += new.size
        if len(old) == 1 and not changed:
            self._files.discard()
            return
        new.planned = new.size
        producers = self._files.producers_at_end(old[-1])
        new.producers_at_end = None if producers is None else dict(producers)
        # Without its marker, a reader would skip everything that the producer of an aborted transaction writes later.
        new.aborted = [each for segment in old for each in segment.aborted if each.last_offset not in empty]
        yield
        self._files.commit(end)
        self._ready = old, new

    def _batches(self, segment: Segment, position: int = 0) -> Iterator[tuple[Buffer, BatchHeader]]:
        """Yield every batch from a batch boundary on; reads in windows."""
        while position < segment.size:
            window = memoryview(self._files.read(segment, position, _WINDOW))
            at = 0
            while len(window) - at >= HEADER_SIZE:
                header = read_header(window, at)
                if header.size < HEADER_SIZE:
                    raise OSError(f"the log is damaged at byte {position + at} of its segment {segment.base_offset}")
                if len(window) - at < header.size:
                    break
                yield window[at : at + header.size], header
                at += header.size
            if not at:  # the batch is larger than the window
                size = read_header(window).size if len(window) >= HEADER_SIZE else HEADER_SIZE
                window = memoryview(self._files.read(segment, position, size))
                if len(window) < size:
                    raise OSError(f"the segment {segment.base_offset} ends inside a batch at byte {position}")
                yield window, read_header(window)
                at = size
            position += at


def _keys(batch: Buffer, header: BatchHeader) -> tuple[Sequence[tuple[bytes | None, bytes | None]], Sequence[int]]:
    """Return keys and values, and offsets, of the batch's records. The caller does not use the values."""
    if not header.has_gaps:
        _, pairs = decode_pairs(batch)
        return pairs, range(header.base_offset, header.next_offset)
    _, _, records = scan_records(batch)
    return [(record.key, None) for record in records], [record.offset for record in records]
