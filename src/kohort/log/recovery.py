"""Open one partition's directory: find its segments, and cut invalid bytes after the last valid batch.

Only the last segment can be torn, because a full segment is synced before the next one is written.
Data that a sidecar describes was synced before, and is checked when it is first read. Recovery
reads the data that follows: all bytes of the last segment, the headers of older ones. Damage in an
older segment is skipped and not cut, because the records after it were acknowledged.
"""

import logging
import os
import shutil
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from kohort.log.api import TornTail
from kohort.log.directory import sync_directory
from kohort.log.names import (
    CLEANED,
    COMPACTED_TO,
    DELETED,
    START_OFFSET,
    base_offset_of,
    segment_path,
    sidecar_path,
    swap_of,
)
from kohort.log.producers import ProducerStates
from kohort.log.segment import Medium, Segment
from kohort.log.sidecar import Sidecar, decode_sidecar
from kohort.model import TopicPartition
from kohort.wire.batches import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, read_header, read_marker

_CHUNK = 1 << 20
_MAGIC_AT = 16
_MAX_OFFSET = 2**62
log = logging.getLogger("kohort.log")


@dataclass(slots=True)
class Recovered:
    """Contents of a partition's directory."""

    segments: list[Segment] = field(default_factory=list)
    start_offset: int = 0
    compacted_to: int = 0
    producers: ProducerStates = field(default_factory=ProducerStates)
    tails: list[TornTail] = field(default_factory=list)


def recover(
    directory: Path, name: TopicPartition, new_medium: Callable[[int], Medium], *, may_have_gaps: bool
) -> Recovered:
    """Read the directory; invalid bytes are removed from the last file when this returns."""
    found = Recovered(
        start_offset=_read_offset(directory / START_OFFSET), compacted_to=_read_offset(directory / COMPACTED_TO)
    )
    bases = _segment_bases(directory)
    while len(bases) > 1 and bases[1] <= found.start_offset:
        _remove_segment(directory, bases.pop(0))  # its removal was interrupted
    # There is no segment if the broker was killed after it had made the directory and before it made the file.
    for base_offset, following in zip_longest(bases, bases[1:]):
        path = segment_path(directory, base_offset)
        segment = Segment(base_offset, new_medium(base_offset))
        found.segments.append(segment)
        sidecar, producers_before = _read_sidecar(path, base_offset), found.producers
        if sidecar is not None:
            sidecar.apply(segment)
            found.producers = ProducerStates(sidecar.producers)
            if segment.size == path.stat().st_size:
                continue
        # Compaction leaves gaps in full segments, and the topic's cleanup policy may have changed since.
        gaps = may_have_gaps or following is not None
        reason = _read_segment(path, segment, found.producers, following, may_have_gaps=gaps)
        if reason is not None and sidecar is not None and following is not None:
            # A crash does not tear a full segment. The sidecar belongs to a file that compaction
            # has replaced by this one, so it can end anywhere.
            segment = found.segments[-1] = Segment(base_offset, new_medium(base_offset))
            found.producers = producers_before
            reason = _read_segment(path, segment, found.producers, following, may_have_gaps=gaps)
        if following is not None:
            segment.producers_at_end = found.producers.snapshot()  # it needs a new sidecar
        if reason is not None:
            found.tails.append(_tail(name, path, segment, reason))
            if following is None:
                _set_aside(path, segment.size)
                _cut(path, segment.size)
    if found.segments and found.segments[-1].end_offset < found.start_offset:
        # The cut reached below the start offset: all remaining records are deleted, and new offsets
        # begin at the start.
        for segment in found.segments:
            _remove_segment(directory, segment.base_offset)
        found.segments = []
    return found


def valid_batches(
    descriptor: int, size: int, position: int, first_offset: int, following: int | None, *, may_have_gaps: bool
) -> Generator[BatchHeader, None, str | None]:
    """Yield headers of complete batches in order from `position`; return why they end before `size`, or None.

    `following` is the base offset of the next segment. Checksums are verified in the last segment
    only, which has none.
    """
    check_crc = following is None
    chunk = _CHUNK if check_crc else 32 * 1024
    window, window_at, expected = memoryview(b""), position, first_offset
    while position < size:
        at = position - window_at
        if at + HEADER_SIZE > len(window):
            window, window_at, at = memoryview(os.pread(descriptor, chunk, position)), position, 0
            if len(window) < HEADER_SIZE:
                return "the last batch's header is incomplete"
        header = read_header(window, at)
        if header.magic != MAGIC or header.size < HEADER_SIZE or header.last_offset_delta < 0:
            return "the bytes are not a record batch"
        if header.base_offset < expected or (header.base_offset > expected and not may_have_gaps):
            return f"a batch has offset {header.base_offset} where {expected} was expected"
        if following is not None and header.next_offset > following:
            return "the next segment begins before it ends"  # left by a failed append whose truncation a crash undid
        if position + header.size > size:
            return "the last batch is incomplete"
        if check_crc:
            if at + header.size > len(window):
                window, at = memoryview(os.pread(descriptor, max(chunk, header.size), position)), 0
                window_at = position
            if not crc_matches(window, header, at):
                return "a batch's checksum is wrong"
        yield header
        position += header.size
        expected = header.next_offset
    return None


def _read_segment(
    path: Path, segment: Segment, producers: ProducerStates, following: int | None, *, may_have_gaps: bool
) -> str | None:
    """Read the segment's batches after those in its sidecar; return the reason if they end early."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        begun = segment.size, segment.end_offset
        batches = valid_batches(descriptor, size, *begun, following, may_have_gaps=may_have_gaps)
        while True:
            try:
                header = next(batches)
            except StopIteration as end:
                segment.planned = segment.size
                reason: str | None = end.value
                return reason
            position = segment.size
            segment.note(header)
            marker = read_marker(os.pread(descriptor, header.size, position)) if header.is_control else None
            aborted = producers.update(header, marker)
            if aborted is not None:
                segment.aborted.append(aborted)
            if following is not None:
                segment.doubtful_to = segment.size  # only the headers of older segments were read
    finally:
        os.close(descriptor)


def _read_sidecar(path: Path, base_offset: int) -> Sidecar | None:
    """Return the sidecar, or None if it is missing, damaged or describes another file.

    It describes another file if the last batch in its index is not in the segment.
    """
    try:
        sidecar = decode_sidecar(sidecar_path(path).read_bytes(), base_offset, path.stat().st_size)
    except FileNotFoundError:
        return None
    if sidecar is not None and (last := sidecar.index.last) is not None:
        offset, position = last
        with path.open("rb", buffering=0) as file:
            head = os.pread(file.fileno(), HEADER_SIZE, position)
        if len(head) < HEADER_SIZE or (read_header(head).base_offset, read_header(head).magic) != (offset, MAGIC):
            return None
    return sidecar


def _tail(name: TopicPartition, path: Path, segment: Segment, reason: str) -> TornTail:
    size = path.stat().st_size
    tail = TornTail(name.topic, name.partition, segment.end_offset, size - segment.size, reason)
    log.warning("%s: dropped %d bytes from offset %d on: %s (%s)", name, tail.bytes_cut, tail.offset, reason, path)
    return tail


def _set_aside(path: Path, size: int) -> None:
    """Save the cut bytes if they may be more than one torn append: damage in the middle also cuts valid batches."""
    with path.open("rb") as file:
        file.seek(size)
        tail = file.read(_CHUNK)
        if len(tail) < _CHUNK and not _holds_a_batch(tail):
            return
        with path.with_name(path.name + ".cut").open("ab") as aside:
            aside.write(tail)
            shutil.copyfileobj(file, aside, _CHUNK)


def _holds_a_batch(tail: bytes) -> bool:
    """Return whether a valid batch begins anywhere after the first byte."""
    at = tail.find(MAGIC, HEADER_SIZE)
    while at >= 0:
        start = at - _MAGIC_AT
        header = read_header(tail, start) if start + HEADER_SIZE <= len(tail) else None
        if header is not None and HEADER_SIZE <= header.size <= len(tail) - start and crc_matches(tail, header, start):
            return True
        at = tail.find(MAGIC, at + 1)
    return False


def _cut(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, size)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _segment_bases(directory: Path) -> list[int]:
    """Return the valid segments; finishes or undoes an interrupted compaction or removal."""
    names = {entry.name for entry in os.scandir(directory)}
    bases = {base for base in map(base_offset_of, names) if base is not None}
    for name in sorted(names):
        if (swap := swap_of(name)) is not None:
            bases = _finish_swap(directory, *swap, bases)
            (directory / name).unlink()
    for name in names:
        if name.endswith((CLEANED, DELETED)):
            (directory / name).unlink(missing_ok=True)
    return sorted(bases)


def _finish_swap(directory: Path, base_offset: int, end_offset: int, bases: set[int]) -> set[int]:
    """Finish a committed compaction: only its new segment stays of the segments between these offsets."""
    path = segment_path(directory, base_offset)
    cleaned = path.with_name(path.name + CLEANED)
    if cleaned.exists():
        sidecar_path(path).unlink(missing_ok=True)
        cleaned.replace(path)
        bases = bases | {base_offset}
    replaced = {base for base in bases if base_offset < base < end_offset}
    for base in replaced:
        _remove_segment(directory, base)
    sync_directory(directory)
    return bases - replaced


def _remove_segment(directory: Path, base_offset: int) -> None:
    path = segment_path(directory, base_offset)
    sidecar_path(path).unlink(missing_ok=True)
    path.unlink()


def _read_offset(path: Path) -> int:
    try:
        offset = int(path.read_text())
    except FileNotFoundError:
        return 0
    except ValueError:
        offset = -1
    if 0 <= offset <= _MAX_OFFSET:
        return offset
    log.warning("%s is damaged; 0 is assumed", path)
    return 0
