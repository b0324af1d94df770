"""Reading a run of segments by offset: whole batches up to a size, over gaps that compaction left."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

from kohort.log.segment import CorruptBatch, Segment
from kohort.model import TopicPartition

P = TypeVar("P", bound=Sized)

Take = Callable[[Segment, int, int], P]
"""How the bytes of a segment from one position to another are had: `Segment.read`, `Segment.send`."""

_MAX_HINTS = 64

log = logging.getLogger("kohort.log")


class Reader:
    """Reads one partition; remembers where readers in a row go on."""

    def __init__(self, name: TopicPartition, segments: Sequence[Segment]) -> None:
        """`segments` is the partition's own list, as it is at each read."""
        self._name = name
        self._segments = segments
        self._corrupt: set[int] = set()
        """Where batches begin that were reported to be damaged."""
        self._hints: dict[int, tuple[Segment, int]] = {}

    def forget(self) -> None:
        """Segments are others now."""
        self._hints.clear()

    def read(self, offset: int, max_bytes: int, take: Take[P]) -> list[P]:
        """From the batch that holds `offset`, or the next one: at least one batch, then up to `max_bytes`.

        Raises CorruptBatch where that one is damaged.
        """
        try:
            return self._read(offset, max_bytes, take)
        except CorruptBatch as error:
            self._report(error)
            raise

    def _read(self, offset: int, max_bytes: int, take: Take[P]) -> list[P]:
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
                    break  # only the very first batch may be larger than what was asked for
                part = take(segment, position, end) if end > position else None
            except CorruptBatch:
                if parts:
                    break  # what is sound before it is read first
                raise
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

    def _report(self, error: CorruptBatch) -> None:
        """Once for each batch: its readers come again and again."""
        if error.base_offset not in self._corrupt:
            self._corrupt.add(error.base_offset)
            log.error("%s is damaged: %s, and it is not served", self._name, error.strerror)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """The segment and position of the batch that holds `offset`, or the next one where compaction left a gap.

        None where only gaps follow.
        """
        at = max(0, bisect_right(self._segments, offset, key=_base) - 1)
        for segment in self._segments[at:]:
            position = segment.locate(offset)
            if position is not None:
                return segment, position
        return None

    def _following(self, segment: Segment) -> Segment | None:
        at = bisect_right(self._segments, segment.base_offset, key=_base)
        return next((one for one in self._segments[at:] if one.size), None)

    def _hint(self, offset: int, segment: Segment, position: int) -> None:
        """Remember where the next read in a row begins, so that it need not search."""
        if len(self._hints) >= _MAX_HINTS:
            del self._hints[next(iter(self._hints))]
        self._hints[offset] = (segment, position)


def _base(segment: Segment) -> int:
    return segment.base_offset
