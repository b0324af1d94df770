"""File operations of compaction, for a partition on files.

New segments are written beside the partition's segments, under names that recovery recognizes. All
operations except `put_in_place` use a descriptor of the directory. If the topic is deleted and
created again with the same name meanwhile, none of them affects the files of the new topic.
"""

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kohort.log.disk import write_all
from kohort.log.names import (
    CLEANED,
    COMPACTED_TO,
    base_offset_of,
    segment_name,
    segment_path,
    sidecar_path,
    swap_name,
    swap_of,
)
from kohort.log.producers import Producer
from kohort.log.segment import Segment
from kohort.log.segment_files import FileMedium, SegmentFiles
from kohort.log.sidecar import decode_sidecar
from kohort.wire.batches import Buffer

_FLUSH_BYTES = 1 << 20

log = logging.getLogger("kohort.log")


class FileCompaction:
    """Implementation of `CompactionFiles` for a partition on files."""

    def __init__(self, files: SegmentFiles, directory: Path, keep_sidecar: Callable[[Segment], None]) -> None:
        self._files = files
        self._path = directory
        self._keep_sidecar = keep_sidecar
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._reading: tuple[int, int] | None = None
        """Base offset and descriptor of the segment that is being read."""
        self._writing: tuple[int, int] | None = None
        self._waiting: list[Buffer] = []
        self._waiting_size = 0
        self._written = 0
        self._swap: str | None = None
        """Name of the swap file of a compaction that is committed but not finished."""
        self._placed = False

    def read(self, segment: Segment, position: int, size: int) -> Buffer:
        if self._reading is None or self._reading[0] != segment.base_offset:
            self._stop_reading()
            self._reading = segment.base_offset, self._open(segment_name(segment.base_offset), os.O_RDONLY)
        return os.pread(self._reading[1], min(size, segment.size - position), position)

    def begin(self, base_offset: int) -> Segment:
        self._end_swaps()
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self._writing = base_offset, self._open(segment_name(base_offset) + CLEANED, flags)
        self._written = 0
        return Segment(base_offset, FileMedium(self._files, segment_path(self._path, base_offset), exists=True))

    def write(self, parts: Sequence[Buffer]) -> None:
        self._waiting += parts
        self._waiting_size += sum(map(len, parts))
        if self._waiting_size >= _FLUSH_BYTES:
            self._flush()

    def producers_at_end(self, segment: Segment) -> Mapping[int, Producer] | None:
        name = sidecar_path(Path(segment_name(segment.base_offset))).name
        try:
            descriptor = self._open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            sidecar = decode_sidecar(file.read(), segment.base_offset, segment.size)
        return None if sidecar is None or sidecar.size != segment.size else sidecar.producers

    def commit(self, end_offset: int) -> None:
        assert self._writing is not None
        self._flush()
        base_offset, descriptor = self._writing
        os.fsync(descriptor)
        os.fsync(self._directory)  # make its name durable before the name that commits it
        self._swap, self._placed = swap_name(base_offset, end_offset), False
        os.close(self._open(self._swap, os.O_WRONLY | os.O_CREAT))
        os.fsync(self._directory)
        self._stop_writing()

    def put_in_place(self, old: Sequence[Segment], new: Segment) -> None:
        assert isinstance(new.medium, FileMedium)
        path = new.medium.file.path
        for segment in old:
            if segment.base_offset == new.base_offset and isinstance(segment.medium, FileMedium):
                segment.medium.file.exists = False  # pending writes for the old file must not affect the new one
        sidecar_path(path).unlink(missing_ok=True)
        path.with_name(path.name + CLEANED).replace(path)
        self._placed = True
        for segment in old:
            assert isinstance(segment.medium, FileMedium)
            if segment.base_offset == new.base_offset:
                self._files.forget(segment.medium.file)
                continue
            try:
                segment.medium.remove()
            except OSError as error:
                log.error("%s cannot be removed: %s", segment.medium.file.path, error)
                self._swap = None  # so recovery or the next compaction still finds it
        if new.producers_at_end is not None:
            self._keep_sidecar(new)

    def finish(self) -> None:
        if self._swap is not None:
            os.fsync(self._directory)  # make the renames durable before removing the file that would repeat them
            os.unlink(self._swap, dir_fd=self._directory)
            self._swap = None

    def keep_progress(self, offset: int) -> None:
        fresh = COMPACTED_TO + ".new"
        with os.fdopen(self._open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(str(offset).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, COMPACTED_TO, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def discard(self) -> None:
        if self._writing is not None:
            name = segment_name(self._writing[0]) + CLEANED
            self._stop_writing()
            os.unlink(name, dir_fd=self._directory)

    def close(self) -> None:
        try:
            self.discard()
            if self._swap is not None and not self._placed:
                self._end_swaps()
        except OSError as error:
            if error.errno != errno.ENOENT:  # a deleted topic has no directory
                log.warning("compaction in %s leaves files behind: %s", self._path, error)
        finally:
            self._stop_reading()
            os.close(self._directory)

    def _end_swaps(self) -> None:
        """Finish or undo an earlier compaction that failed. No old swap file may commit files written from now on."""
        with os.scandir(self._directory) as entries:
            names = {entry.name for entry in entries}
        for name in names:
            swap = swap_of(name)
            if swap is None:
                continue
            cleaned = segment_name(swap[0]) + CLEANED
            if cleaned in names:  # never put in place
                leftovers = [name, cleaned]
            else:
                inside = [name for name in names if swap[0] < (base_offset_of(name) or 0) < swap[1]]
                leftovers = [*inside, name]
            for leftover in leftovers:
                os.unlink(leftover, dir_fd=self._directory)
                os.fsync(self._directory)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o644, dir_fd=self._directory)

    def _flush(self) -> None:
        assert self._writing is not None
        write_all(self._writing[1], self._waiting, self._written)
        self._written += self._waiting_size
        self._waiting, self._waiting_size = [], 0

    def _stop_reading(self) -> None:
        if self._reading is not None:
            os.close(self._reading[1])
            self._reading = None

    def _stop_writing(self) -> None:
        self._waiting, self._waiting_size = [], 0
        if self._writing is not None:
            os.close(self._writing[1])
            self._writing = None
