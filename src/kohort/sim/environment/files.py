"""Disk of a world whose brokers keep their log on files: production's `FileStore`, its recovery and its compaction.

The files are real, in a directory of the world. A crash leaves any part of the data of a sync in
progress, possibly with flipped bits. At each opening, the recovered log is compared with what was
acknowledged before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from kohort.log import CorruptBatch, FileStore, PartitionFiles, Pending, PendingAppends, SegmentedLog, Topic
from kohort.log.cluster import OFFSETS_TOPIC
from kohort.model import UUID
from kohort.sim.environment.disk import CLUSTER_ID, Disk, PartitionId, SimulatedStore
from kohort.sim.environment.failing_writer import FailingWriter, PowerLostError, change_a_bit
from kohort.sim.plans import VAULT
from kohort.sim.violation import Violation
from kohort.wire.batches import batches

_READ = 1 << 20


class FilesDisk(Disk):
    """State of the files."""

    is_exclusive = True

    def __init__(self) -> None:
        super().__init__()
        self.path = Path()
        """Directory; it exists by the time a broker starts."""
        self.ends: dict[PartitionId, int] = {}
        """First offset of each partition that was never durable."""
        self.bits_to_flip = 0
        """Number of bits to flip when the files are opened next."""
        self.watches = frozenset({OFFSETS_TOPIC})
        """Topics whose partitions are checked when they are opened; if empty, all are checked."""
        self.flipped: set[PartitionId] = set()
        """Partitions in which a bit was flipped: the data found at each opening counts as what is left."""
        self.damaged: Callable[[PartitionId, bytes], None] = lambda partition, batches: None
        """Callback with the remaining data of a partition that has lost some."""

    def open(self, rng: Random, node_id: int, clock: Callable[[], float]) -> SimulatedStore:
        for _ in range(self.bits_to_flip):
            self._flip_a_bit(rng)
        self.bits_to_flip = 0
        return FilesStore(self, rng)

    def looks_at(self, topic: str) -> bool:
        """Return whether the recovered data of the topic is checked."""
        return topic in self.watches or not self.watches

    def flip_a_bit_in_records(self, rng: Random) -> PartitionId | None:
        """Flip a bit of `VAULT`, while a broker may have it open. Return the partition, or None if all are empty."""
        ids = {topic.name: topic.topic_id for topic in self.topics.values() if topic.name == VAULT}
        files = [path for path in sorted(self.path.glob("*/*.log")) if path.stat().st_size]
        files = [path for path in files if path.parent.name.rpartition("-")[0] in ids]
        if not files:
            return None
        path = rng.choice(files)
        change_a_bit(path, rng.randrange(path.stat().st_size), rng)
        name, _, number = path.parent.name.rpartition("-")
        self.flipped.add((ids[name], int(number)))
        return ids[name], int(number)

    def _flip_a_bit(self, rng: Random) -> None:
        files = [path for path in sorted(self.path.glob(f"{OFFSETS_TOPIC}-*/*.log")) if path.stat().st_size]
        if files:
            path = rng.choice(files)
            change_a_bit(path, rng.randrange(path.stat().st_size), rng)
            ids = {topic.name: topic.topic_id for topic in self.topics.values()}
            self.flipped.add((ids[OFFSETS_TOPIC], int(path.parent.name.rpartition("-")[2])))


class ObservedFiles(PartitionFiles):
    """Log store of one process on files, which reports durable data to its disk."""

    disk: FilesDisk
    epoch: int

    def begin(self, disk: FilesDisk, rng: Random) -> None:
        """Write through the simulated disk from now on."""
        self.files.disk.close()
        self.files.disk = self._writer = FailingWriter(disk, rng)
        disk.epoch += 1
        self.disk = disk
        self.epoch = disk.epoch
        self._under_way: PendingAppends | None = None
        self._lives = True

    @property
    def stopped(self) -> bool:
        """Return whether a partition no longer accepts appends."""
        return any(log.stopped for log in self._logs.values())

    def look_at(self, partition: PartitionId, log: SegmentedLog) -> None:
        """Check that recovery kept all acknowledged data. It may also keep data of a sync in progress."""
        disk = self.disk
        end = disk.ends.get(partition, 0)
        if partition in disk.flipped:
            disk.damaged(partition, b"".join(_sound(log, log.start_offset)))
        elif log.stable_offset < end:
            raise Violation("S7", f"{log.name} ended at {end}, and after recovery at {log.stable_offset}")
        else:
            for data in _sound(log, end):
                disk.written(partition, data, self.epoch_of(log))
        disk.ends[partition] = log.stable_offset

    def epoch_of(self, log: SegmentedLog) -> int:
        """Return the epoch at which this process writes to that log."""
        return self.epoch

    # Appends

    def take(self) -> PendingAppends | None:
        self._under_way = super().take()
        return self._under_way

    def sync(self, pending: Pending) -> None:
        """Sync. Raises OSError if the disk fails; later, any part of the data may be found."""
        assert isinstance(pending, PendingAppends)
        super().sync(pending)
        # Find the topic by the log, not by its name: it may have been deleted and recreated since.
        places = {log: place for place, log in self._logs.items()}
        for log, queued in pending.logs:
            assert isinstance(log, SegmentedLog)
            if log in places and queued:
                partition = places[log]
                data = b"".join(bytes(part) for batch in queued for part in batch.parts)
                self.disk.written(partition, data, self.epoch_of(log))
                self.disk.ends[partition] = queued[-1].headers[-1].next_offset
        self._under_way = None

    def fail(self, pending: Pending, error: OSError) -> None:
        super().fail(pending, error)
        self._under_way = None

    def close(self) -> None:
        self._lives = False
        super().close()

    def power_lost(self) -> None:
        """Simulate the end of the process. Part of a sync in progress may be on the disk, possibly corrupted."""
        if not self._lives:
            return
        self._lives = False
        if self._under_way is not None:
            self._writer.dies = True
            with suppress(PowerLostError):
                super().sync(self._under_way)
        self._release(clean=False)


class FilesStore(ObservedFiles, FileStore):
    """Log store of a broker that has exclusive use of the disk."""

    def __init__(self, disk: FilesDisk, rng: Random) -> None:
        FileStore.__init__(self, disk.path, cluster_id=CLUSTER_ID)
        self.begin(disk, rng)
        for topic in disk.topics.values():
            if topic.name not in self.topics():
                super().create_topic(topic)
        for kind, resource in disk.configs.keys() if disk.epoch == 1 else ():
            super().keep_configs(kind, resource, disk.configs[kind, resource])
        for name, topic in self.topics().items():
            for number in range(topic.partitions if disk.looks_at(name) else 0):
                self.look_at((topic.topic_id, number), self.partition(topic.topic_id, number))

    # Topics and configs

    def create_topic(self, topic: Topic) -> None:
        super().create_topic(topic)
        self.disk.topics[topic.topic_id] = topic

    def alter_topic(self, topic: Topic) -> None:
        super().alter_topic(topic)
        self.disk.topics[topic.topic_id] = topic

    def delete_topic(self, topic_id: UUID) -> None:
        super().delete_topic(topic_id)
        self.disk.deleted(self.disk.topics.pop(topic_id))

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        super().keep_configs(kind, name, configs)
        self.disk.configs[kind, name] = configs


def _behind(offset: int, base_offset: int, next_offset: int, end: int, count: int) -> int:
    """Return the offset of the next batch; header fields without a checksum are used only if they are plausible."""
    return next_offset if offset <= base_offset < next_offset <= end else offset + count


def _sound(log: SegmentedLog, offset: int) -> Iterator[bytes]:
    """Yield the readable batches from that offset on."""
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
