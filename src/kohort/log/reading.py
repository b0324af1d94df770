"""Read complete batches from a sequence of segments by offset, up to a size, across compaction gaps."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

from kohort.log.segment import CorruptBatch, Segment
from kohort.model import TopicPartition

P = TypeVar("P", bound=Sized)

Take = Callable[[Segment, int, int], P]
"""Function that returns a segment's bytes between two positions: `Segment.read`, `Segment.send`."""

_MAX_HINTS = 64

log = logging.getLogger("kohort.log")


class Reader:
    """Reads one partition, and remembers positions for sequential readers."""

    def __init__(self, name: TopicPartition, segments: Sequence[Segment]) -> None:
        """Create a reader. `segments` is the partition's own list, whose content changes between reads."""
        self._name = name
        self._segments = segments
        self._corrupt: set[int] = set()
        """Base offsets of damaged batches that were already logged."""
        self._hints: dict[int, tuple[Segment, int]] = {}
        self.ended_at = 0
        """Offset after the batches that the last read returned."""

    def forget(self) -> None:
        """Discard positions after the segments have changed."""
        self._hints.clear()

    def read(self, offset: int, max_bytes: int, take: Take[P], until: int | None = None) -> list[P]:
        """Read from the batch that contains `offset`, or the next one: at least one batch, then up to `max_bytes`.

        `until` is the base offset of a batch at which the read ends. Raises CorruptBatch if the first batch is damaged.
        """
        try:
            return self._read(offset, max_bytes, take, until)
        except CorruptBatch as error:
            self._report(error)
            raise

    def _read(self, offset: int, max_bytes: int, take: Take[P], until: int | None) -> list[P]:
        self.ended_at = offset
        hint = self._hints.pop(offset, None)
        found = hint if hint is not None else self._locate(offset)
        if found is None:
            return []
        segment, position = found
        parts: list[P] = []
        left = max_bytes
        while True:
            try:
                end, next_offset = segment.cut(position, position + left)
                if parts and end - position > left:
                    self._hint(segment.base_offset, segment, 0)
                    break  # only the very first batch may exceed the requested size
                if until is not None and next_offset > until:
                    end, next_offset, left = self._position(segment, until), until, 0
                part = take(segment, position, end) if end > position else None
            except CorruptBatch:
                if parts:
                    break  # return the valid batches before the damaged one
                raise
            self.ended_at = next_offset
            if part is not None:
                parts.append(part)
                if len(part) < end - position:
                    break
                left -= end - position
            following = self._following(segment) if end == segment.size else None
            if following is None or left <= 0:
                self._hint(next_offset, segment, end)
                break
            segment, position = following, 0
        return parts

    @staticmethod
    def _position(segment: Segment, offset: int) -> int:
        """Return the position of the batch that begins at `offset`."""
        position = segment.locate(offset) if offset > segment.base_offset else 0
        assert position is not None
        return position

    def _report(self, error: CorruptBatch) -> None:
        """Log each damaged batch once, because consumers retry."""
        if error.base_offset not in self._corrupt:
            self._corrupt.add(error.base_offset)
            log.error("%s is damaged: %s, and it is not supported", self._name, error.strerror)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Return segment and position of the batch that contains `offset`, or of the next one after a gap.

        Returns None if only gaps follow.
        """
        at = max(0, bisect_right(self._segments, offset, key=_base) - 1)
        for segment in self._segments[at:]:
            position = segment.locate(offset)
            if position is not None:
                return segment, position
        return None

    def _following(self, segment: Segment) -> Segment | None:
        at = bisect_right(self._segments, segment.base_offset, key=_base)
        return next((segment for segment in self._segments[at:] if segment.size), None)

    def _hint(self, offset: int, segment: Segment, position: int) -> None:
        """Remember the position at which the next sequential read starts, so that it needs no search."""
        if len(self._hints) >= _MAX_HINTS:
            del self._hints[next(iter(self._hints))]
        self._hints[offset] = (segment, position)


def _base(segment: Segment) -> int:
    return segment.base_offset
