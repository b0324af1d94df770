"""Names of files in a partition's directory.

The directory contains:

    <base>.log             raw batches; the name is the first offset
    <base>.index           its sidecar
    <base>.log.deleted     removed, its bytes not freed yet
    <base>.log.cleaned     new segment that compaction writes from several old ones
    <base>-<end>.swap      the new segment is complete: it replaces every segment from base to end
    start-offset           start offset that DeleteRecords set
    compacted-to           offset below which the log is compacted
"""

import re
from pathlib import Path

START_OFFSET = "start-offset"
COMPACTED_TO = "compacted-to"
CLEANED = ".cleaned"
DELETED = ".deleted"

_SWAP = re.compile(r"(\d{20})-(\d{20})\.swap")
_SEGMENT = re.compile(r"(\d{20})\.log")


def segment_path(directory: Path, base_offset: int) -> Path:
    """Return Kafka's path for the segment with that base offset."""
    return directory / segment_name(base_offset)


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def base_offset_of(name: str) -> int | None:
    """Return the base offset of the segment with that name; None if it is not a segment."""
    match = _SEGMENT.fullmatch(name)
    return None if match is None else int(match[1])


def sidecar_path(segment: Path) -> Path:
    return segment.with_suffix(".index")


def swap_name(base_offset: int, end_offset: int) -> str:
    return f"{base_offset:020d}-{end_offset:020d}.swap"


def swap_of(name: str) -> tuple[int, int] | None:
    """Return the base and end offsets in the name of a swap file; None for another name."""
    match = _SWAP.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))
