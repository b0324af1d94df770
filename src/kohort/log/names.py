"""The names of files in a partition's directory.

<base>.log             raw batches; the name is the first offset
<base>.index           its sidecar
<base>.log.deleted     removed, its bytes not freed yet
<base>.log.cleaned     what compaction makes of several segments, while it is written
<base>-<end>.swap      it is whole: it takes the place of every segment from base to end
start-offset           where DeleteRecords moved the start to
compacted-to           below this offset compaction has been already
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
    """Kafka's name for the segment that begins with that offset."""
    return directory / segment_name(base_offset)


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def base_offset_of(name: str) -> int | None:
    """The first offset of the segment of that name; None where it is no segment."""
    match = _SEGMENT.fullmatch(name)
    return None if match is None else int(match[1])


def sidecar_path(segment: Path) -> Path:
    return segment.with_suffix(".index")


def swap_name(base_offset: int, end_offset: int) -> str:
    return f"{base_offset:020d}-{end_offset:020d}.swap"


def swap_of(name: str) -> tuple[int, int] | None:
    """Base and end of the swap of that name; None where it is none."""
    match = _SWAP.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))
