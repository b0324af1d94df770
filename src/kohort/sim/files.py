"""The disk of a world whose brokers keep their log on files: production's `FileStore`, its recovery and its compaction.

The files are real, in a directory of the world. What a crash leaves is made from what a sync had under way: any part of
it, with bits flipped in it. At each opening the recovered log is held to what was acknowledged before.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from kohort.broker.topics import OFFSETS_TOPIC
from kohort.log import CorruptBatch, FileStore, Topic
from kohort.log.api import Pending
from kohort.log.disk import Disk as FileWriter
from kohort.log.disk import FilesNotSynced, Write
from kohort.log.partition import SegmentedLog
from kohort.log.partition_files import MAX_OPEN_FILES
from kohort.log.queue import Taken
from kohort.model import UUID
from kohort.sim.disk import CLUSTER_ID, Disk, PartitionId
from kohort.sim.violation import Violation
from kohort.wire.records import batches

_READ = 1 << 20
_LIKELY_DAMAGED = 0.3
"""How often what a crash leaves of a write is not what was written."""


class FilesDisk(Disk):
    """What is known of the files."""

    is_exclusive = True

    def __init__(self) -> None:
        super().__init__()
        self.path = Path()
        """The directory, there by the time when a broker starts."""
        self.ends: dict[PartitionId, int] = {}
        """The first offset that was never durable."""
        self.rot = 0
        """How many bits will have changed when the files are opened next."""
        self.flipped: set[PartitionId] = set()
        """Partitions in which a bit has changed: what each opening finds is taken for what is left."""
        self.damaged: Callable[[PartitionId, bytes], None] = lambda partition, batches: None
        """Told of all that is left of a partition that lost some."""

    def open(self, dice: Random) -> FilesStore:
        for _ in range(self.rot):
            self._flip_a_bit(dice)
        self.rot = 0
        return FilesStore(self, dice)

    def _flip_a_bit(self, dice: Random) -> None:
        files = [path for path in sorted(self.path.glob(f"{OFFSETS_TOPIC}-*/*.log")) if path.stat().st_size]
        if files:
            path = dice.choice(files)
            _change(path, dice.randrange(path.stat().st_size), dice)
            ids = {one.name: one.topic_id for one in self.topics.values()}
            self.flipped.add((ids[OFFSETS_TOPIC], int(path.parent.name.rpartition("-")[2])))


class FilesStore(FileStore):
    """The store of one process."""

    def __init__(self, disk: FilesDisk, dice: Random) -> None:
        super().__init__(disk.path, cluster_id=CLUSTER_ID)
        self.files.disk.close()
        self.files.disk = self._writer = _Writer(disk, dice)
        disk.epoch += 1
        self.disk = disk
        self.epoch = disk.epoch
        self._under_way: Taken | None = None
        self._lives = True
        for topic in disk.topics.values():
            if topic.name not in self.topics():
                super().create_topic(topic)
        offsets = self.topics().get(OFFSETS_TOPIC)
        for number in range(0 if offsets is None else offsets.partitions):
            assert offsets is not None
            self._look_at(offsets, number)

    @property
    def stopped(self) -> bool:
        """Some partition takes no appends any more."""
        return any(log.stopped for log in self._logs.values())

    def _look_at(self, topic: Topic, number: int) -> None:
        """What recovery left is all that was ever acknowledged, and perhaps what was under way."""
        partition = topic.topic_id, number
        log, disk = self.partition(*partition), self.disk
        end = disk.ends.get(partition, 0)
        if partition in disk.flipped:
            disk.damaged(partition, b"".join(_sound(log, log.start_offset)))
        elif log.stable_offset < end:
            raise Violation("S7", f"{topic.name}-{number} ended at {end}, and after recovery at {log.stable_offset}")
        else:
            for data in _sound(log, end):
                disk.written(partition, data, self.epoch)
        disk.ends[partition] = log.stable_offset

    # Topics and configs

    def create_topic(self, topic: Topic) -> None:
        super().create_topic(topic)
        self.disk.topics[topic.topic_id] = topic

    def alter_topic(self, topic: Topic) -> None:
        super().alter_topic(topic)
        self.disk.topics[topic.topic_id] = topic

    def delete_topic(self, topic_id: UUID) -> None:
        super().delete_topic(topic_id)
        del self.disk.topics[topic_id]

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        super().keep_configs(kind, name, configs)
        self.disk.configs[kind, name] = configs

    # Appends

    def take(self) -> Taken | None:
        self._under_way = super().take()
        return self._under_way

    def sync(self, pending: Pending) -> None:
        """Raises OSError where the disk fails: then anything of it may be found later."""
        assert isinstance(pending, Taken)
        super().sync(pending)
        for log, queued in pending.logs:
            topic = self.topics().get(log.name.topic)
            if topic is not None and queued:
                partition = topic.topic_id, log.name.partition
                self.disk.written(partition, b"".join(bytes(part) for one in queued for part in one.parts), self.epoch)
                self.disk.ends[partition] = queued[-1].headers[-1].next_offset
        self._under_way = None

    def fail(self, pending: Pending, error: OSError) -> None:
        super().fail(pending, error)
        self._under_way = None

    def close(self) -> None:
        self._lives = False
        super().close()

    def power_lost(self) -> None:
        """The process is gone. If a sync was under way, some of its bytes are on the disk, or others in their place."""
        if not self._lives:
            return
        self._lives = False
        if self._under_way is not None:
            self._writer.dies = True
            with suppress(_PowerLostError):
                super().sync(self._under_way)
        self.abandon()


class _PowerLostError(OSError):
    """Nothing behind this byte was written."""


class _Writer(FileWriter):
    """Production's writes and syncs, and what goes wrong with them."""

    def __init__(self, disk: FilesDisk, dice: Random) -> None:
        super().__init__(disk.path, MAX_OPEN_FILES)
        self.dies = False
        """The next write is the last one, and not whole."""
        self._disk = disk
        self._dice = dice

    def write(self, writes: Sequence[Write]) -> None:
        failure = self._disk.failure
        if self.dies:
            self._write_some(writes)
            raise _PowerLostError
        if failure == errno.ENOSPC:
            self._write_some(writes)
            raise OSError(failure, "the simulated disk is full")
        super().write(writes)
        if failure is not None:
            raise FilesNotSynced(OSError(failure, "the simulated disk fails"), [file for file, _, _ in writes])

    def _write_some(self, writes: Sequence[Write]) -> None:
        """Some whole, one in part; of what a crash leaves, a part may be something else."""
        dice = self._dice
        whole = dice.randrange(len(writes) + 1)
        super().write(writes[:whole])
        for file, position, parts in writes[whole : whole + 1]:
            data = b"".join(bytes(part) for part in parts)
            size = dice.randrange(len(data))
            super().write([(file, position, [data[:size]])])
            if size and dice.random() < _LIKELY_DAMAGED:
                _change(file.path, position + dice.randrange(size), dice)


def _behind(offset: int, base_offset: int, next_offset: int, end: int, count: int) -> int:
    """Where the next batch begins; what no checksum covers is believed only where it can be true."""
    return next_offset if offset <= base_offset < next_offset <= end else offset + count


def _change(path: Path, position: int, dice: Random) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << dice.randrange(8)]))


def _sound(log: SegmentedLog, offset: int) -> Iterator[bytes]:
    """The batches from that offset on that can be read."""
    while offset < log.stable_offset:
        try:
            found = log.read(offset, _READ)
        except CorruptBatch as error:
            offset = _behind(offset, error.base_offset, error.next_offset, log.stable_offset, 1)
            continue
        if not found:
            return
        for buffer in found:
            for position, header in batches(buffer):
                yield bytes(buffer[position : position + header.size])
                count = header.last_offset_delta + 1
                offset = _behind(offset, header.base_offset, header.next_offset, log.stable_offset, count)
