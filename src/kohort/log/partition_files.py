"""Partitions of a store in local files: segments of raw batches, and one sync for all pending appends.

Everything runs on the event loop except `sync`, which the broker calls in its single writer thread.
The two threads share what `take` returned, and the deferred clean-up tasks. Deletion of
a topic waits for a sync in progress.
"""

import logging
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from kohort.log.api import Pending, Topic, TornTail
from kohort.log.compaction_files import FileCompaction
from kohort.log.config import LogConfig
from kohort.log.descriptors import SegmentFile
from kohort.log.directory import write_durably
from kohort.log.disk import FilesNotSynced, Write
from kohort.log.names import START_OFFSET, segment_path, sidecar_path
from kohort.log.partition import Queued, SegmentedLog
from kohort.log.queue import AppendQueue, PendingAppends
from kohort.log.recovery import recover
from kohort.log.segment import Segment
from kohort.log.segment_files import FileMedium, SegmentFiles
from kohort.log.sidecar import encode_sidecar
from kohort.model import UUID, TopicPartition

MAX_OPEN_FILES = 256
"""Maximum number of files that are open for reading, and for writing; connections use the other descriptors."""

_SIDECAR_EVERY = 64 << 20
"""Growth of a segment in bytes after which its sidecar is rewritten: the most that is read again after a crash."""

log = logging.getLogger("kohort.log")


class PartitionFiles(ABC):
    """The part of a `LogStore` that all stores in local files share; subclasses manage the topics."""

    def __init__(
        self, path: Path, defaults: Mapping[str, str] | None, max_open_files: int, *, durable: bool = True
    ) -> None:
        """Open the store's files. If `durable`, they must survive a crash and are synced."""
        self.path = path
        self.files = SegmentFiles(path, max_open_files, durable=durable)
        self.recovered: list[TornTail] = []
        self._defaults = dict(defaults or {})
        self._logs: dict[tuple[UUID, int], SegmentedLog] = {}
        self._queue = AppendQueue(_new_files)

    @abstractmethod
    def _topic(self, topic_id: UUID) -> Topic:
        """Return the topic. Raises KeyError."""

    @abstractmethod
    def _leader_epoch(self, topic_id: UUID, partition: int) -> int:
        """Return the leader epoch in which this process owns the partition."""

    @abstractmethod
    def _lies_there(self, directory: Path) -> bool:
        """Return whether the partition's directory exists, and note that it does from now on."""

    @abstractmethod
    def _release(self, *, clean: bool) -> None:
        """Release what the store holds."""

    @property
    def queued_bytes(self) -> int:
        return self._queue.queued_bytes

    # Topics

    def change_defaults(self, defaults: Mapping[str, str]) -> None:
        self._defaults = dict(defaults)
        for (topic_id, _), partition_log in self._logs.items():
            partition_log.config = self._config(self._topic(topic_id))

    def _reconfigure(self, topic: Topic) -> None:
        """Apply a topic's configs to its open partitions."""
        config = self._config(topic)
        for (topic_id, _), partition_log in self._logs.items():
            if topic_id == topic.topic_id:
                partition_log.config = config

    def _remove(self, topic: Topic, partitions: Iterable[int]) -> None:
        """Close partitions of a deleted topic and drop their queued appends. The caller holds `files.writing`."""
        for partition in partitions:
            partition_log = self._logs.pop((topic.topic_id, partition), None)
            if partition_log is not None:
                partition_log.deleted = True
                self._queue.forget(partition_log)
                self._close(partition_log)

    def _close(self, partition_log: SegmentedLog) -> None:
        for segment in partition_log.segments:
            self.files.close_file(_file(segment))

    def _move_aside(self, directory: Path) -> None:
        """Rename a deleted topic's directory; the writer thread frees its bytes later."""
        gone = _unused(directory)
        directory.rename(gone)
        self.files.cleanup_tasks.append(partial(shutil.rmtree, gone))

    # Partitions

    def partition(self, topic_id: UUID, partition: int) -> SegmentedLog:
        partition_log = self._logs.get((topic_id, partition))
        if partition_log is None:
            partition_log = self._open(self._topic(topic_id), partition)
            self._logs[topic_id, partition] = partition_log
        return partition_log

    def _open(self, topic: Topic, partition: int) -> SegmentedLog:
        if not 0 <= partition < topic.partitions:
            raise KeyError(partition)
        name = TopicPartition(topic.name, partition)
        directory = self._directory(name)
        config = self._config(topic)
        new = partial(SegmentedLog, name, config, self._leader_epoch(topic.topic_id, partition))
        keep_start = partial(_write_start_offset, directory)
        new_workshop = partial(FileCompaction, self.files, directory, self._keep_sidecar)
        if not self._lies_there(directory):
            medium = self._new_medium(directory, exists=False)
            return new(medium, self._queue.note, new_workshop, keep_start=keep_start)
        found = recover(
            directory,
            name,
            self._new_medium(directory, exists=True),
            may_have_gaps=config.compacts,
        )
        self.recovered += found.tails
        for segment in found.segments:
            if segment.producers_at_end is not None:
                self._keep_sidecar(segment)
        return new(
            self._new_medium(directory, exists=False),
            self._queue.note,
            new_workshop,
            segments=found.segments,
            start_offset=found.start_offset,
            compacted_to=found.compacted_to,
            producers=found.producers,
            keep_start=keep_start,
        )

    def _new_medium(self, directory: Path, *, exists: bool) -> Callable[[int], FileMedium]:
        return lambda base_offset: FileMedium(self.files, segment_path(directory, base_offset), exists=exists)

    def _directory(self, name: TopicPartition) -> Path:
        return self.path / str(name)

    def _config(self, topic: Topic) -> LogConfig:
        return LogConfig.of({**self._defaults, **topic.configs})

    # Durability

    def take(self) -> PendingAppends | None:
        return self._queue.take() if self._queue.waits or self.files.cleanup_tasks else None

    def sync(self, pending: Pending) -> None:
        assert isinstance(pending, PendingAppends)
        try:
            self._write(pending)
        finally:
            self.files.run_cleanup_tasks()  # on a full disk, they free space

    def _write(self, pending: PendingAppends) -> None:
        with self.files.writing:
            last: list[Write] = []
            for partition_log, queued in pending.logs:
                if not partition_log.deleted:
                    *full, growing = _writes(queued)
                    # Recovery looks for a torn tail in the last segment only.
                    for write in full:
                        self.files.disk.write([write])
                    last.append(growing)
            self.files.disk.write(last)

    def settle(self, pending: Pending) -> Sequence[SegmentedLog]:
        assert isinstance(pending, PendingAppends)
        for partition_log, queued in pending.logs:
            full = partition_log.settle(queued)
            if partition_log.deleted:
                continue  # another topic may have its name by now
            for segment in full:
                self._keep_sidecar(segment)
            growing = partition_log.settled_in
            if growing.size - growing.in_sidecar >= _SIDECAR_EVERY:
                growing.producers_at_end = partition_log.settled_producers()
                self._keep_sidecar(growing)
        self._queue.finish(pending)
        return [partition_log for partition_log, _ in pending.logs]

    def fail(self, pending: Pending, error: OSError) -> None:
        assert isinstance(pending, PendingAppends)
        log.error("cannot write to %s: %s; dropped what was not acknowledged", self.path, error)
        if isinstance(error, FilesNotSynced):
            for partition_log, queued in pending.logs:
                if not error.files.isdisjoint(_file(append.segment) for append in queued):
                    partition_log.stopped = error
                    log.error("%s takes no appends until a restart, which will check what it holds", partition_log.name)
        self._queue.drop(pending)

    def close(self) -> None:
        try:
            self._sync_what_waits()
            for partition_log in self._logs.values():
                self._finish(partition_log)
            self.files.run_cleanup_tasks()
        except BaseException:
            self._release(clean=False)
            raise
        self._release(clean=not any(partition_log.stopped for partition_log in self._logs.values()))

    def _finish(self, partition_log: SegmentedLog) -> None:
        """Write a sidecar, so that the next start need not read the segment."""
        growing = partition_log.segments[-1]
        if partition_log.stopped is None and growing.size and not growing.has_sidecar:
            growing.producers_at_end = partition_log.producers.snapshot()
            self._keep_sidecar(growing)

    def _sync_what_waits(self) -> None:
        pending = self.take()
        while pending is not None:
            try:
                self.sync(pending)
            except OSError as error:
                self.fail(pending, error)
                raise
            self.settle(pending)
            pending = self.take() if self._queue.waits else None

    def _keep_sidecar(self, segment: Segment) -> None:
        assert segment.producers_at_end is not None
        content = encode_sidecar(segment, segment.producers_at_end)
        self.files.cleanup_tasks.append(partial(_write_sidecar, _file(segment), content))
        segment.has_sidecar = True
        segment.in_sidecar = segment.size
        segment.producers_at_end = None


def _file(segment: Segment) -> SegmentFile:
    assert isinstance(segment.medium, FileMedium)
    return segment.medium.file


def _new_files(queued: Sequence[Queued]) -> int:
    return len({file for append in queued if not (file := _file(append.segment)).exists})


def _writes(queued: Sequence[Queued]) -> list[Write]:
    """Return one write per segment, in order."""
    writes: list[Write] = []
    for append in queued:
        file = _file(append.segment)
        if not writes or writes[-1][0] is not file:
            writes.append((file, append.position, []))
        writes[-1][2].extend(append.parts)
    return writes


def _write_sidecar(segment: SegmentFile, content: bytes) -> None:
    """Write a sidecar file, unless the segment was removed.

    This runs as a chore. Compaction may have put another file at the segment's path, which this
    sidecar does not describe.
    """
    if segment.exists and segment.path.exists():
        fresh = sidecar_path(segment.path).with_suffix(".index.new")
        fresh.write_bytes(content)
        fresh.replace(sidecar_path(segment.path))


def _write_start_offset(directory: Path, offset: int) -> None:
    write_durably(directory / START_OFFSET, str(offset).encode())


def _unused(directory: Path) -> Path:
    number = 0
    while (gone := directory.with_name(f"{directory.name}.{number}-delete")).exists():
        number += 1
    return gone
