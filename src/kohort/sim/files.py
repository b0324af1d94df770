"""The disk of a world whose brokers keep their log on files: production's `FileStore`, its recovery and its compaction.

The files are real, in a directory of the world. What a crash leaves is made from what a sync had under way: any part of
it, with bits flipped in it. At each opening the recovered log is held to what was acknowledged before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from kohort.broker.topics import OFFSETS_TOPIC
from kohort.log import CorruptBatch, FileStore, Topic
from kohort.log.api import Pending
from kohort.log.partition import SegmentedLog
from kohort.log.partition_files import PartitionFiles
from kohort.log.queue import Taken
from kohort.model import UUID
from kohort.sim.disk import CLUSTER_ID, Disk, PartitionId, SimulatedStore
from kohort.sim.failing_writer import FailingWriter, PowerLostError, change_a_bit
from kohort.sim.violation import Violation
from kohort.wire.records import batches

_READ = 1 << 20
VAULT = "vault"
"""A topic with records that no group reads. Its bits flip."""


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
        self.watches = frozenset({OFFSETS_TOPIC})
        """Topics whose partitions are looked at when they are opened; of none, all are."""
        self.flipped: set[PartitionId] = set()
        """Partitions in which a bit has changed: what each opening finds is taken for what is left."""
        self.damaged: Callable[[PartitionId, bytes], None] = lambda partition, batches: None
        """Told of all that is left of a partition that lost some."""

    def open(self, dice: Random, node_id: int, clock: Callable[[], float]) -> SimulatedStore:
        for _ in range(self.rot):
            self._flip_a_bit(dice)
        self.rot = 0
        return FilesStore(self, dice)

    def looks_at(self, topic: str) -> bool:
        """Whether what recovery leaves of the topic is checked."""
        return topic in self.watches or not self.watches

    def spoil(self, dice: Random) -> PartitionId | None:
        """Flip a bit of `VAULT`, under whoever has it open. Returns whose partition's, None where all are empty."""
        ids = {one.name: one.topic_id for one in self.topics.values() if one.name == VAULT}
        files = [path for path in sorted(self.path.glob("*/*.log")) if path.stat().st_size]
        files = [path for path in files if path.parent.name.rpartition("-")[0] in ids]
        if not files:
            return None
        path = dice.choice(files)
        change_a_bit(path, dice.randrange(path.stat().st_size), dice)
        name, _, number = path.parent.name.rpartition("-")
        self.flipped.add((ids[name], int(number)))
        return ids[name], int(number)

    def _flip_a_bit(self, dice: Random) -> None:
        files = [path for path in sorted(self.path.glob(f"{OFFSETS_TOPIC}-*/*.log")) if path.stat().st_size]
        if files:
            path = dice.choice(files)
            change_a_bit(path, dice.randrange(path.stat().st_size), dice)
            ids = {one.name: one.topic_id for one in self.topics.values()}
            self.flipped.add((ids[OFFSETS_TOPIC], int(path.parent.name.rpartition("-")[2])))


class WitnessedFiles(PartitionFiles):
    """The store of one process on files, which tells its disk what is durable."""

    disk: FilesDisk
    epoch: int

    def begin(self, disk: FilesDisk, dice: Random) -> None:
        """Write by what the disk does from now on."""
        self.files.disk.close()
        self.files.disk = self._writer = FailingWriter(disk, dice)
        disk.epoch += 1
        self.disk = disk
        self.epoch = disk.epoch
        self._under_way: Taken | None = None
        self._lives = True

    @property
    def stopped(self) -> bool:
        """Some partition takes no appends any more."""
        return any(log.stopped for log in self._logs.values())

    def look_at(self, partition: PartitionId, log: SegmentedLog) -> None:
        """What recovery left is all that was ever acknowledged, and perhaps what was under way."""
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
        """The epoch at which this process writes to that log."""
        return self.epoch

    # Appends

    def take(self) -> Taken | None:
        self._under_way = super().take()
        return self._under_way

    def sync(self, pending: Pending) -> None:
        """Raises OSError where the disk fails: then anything of it may be found later."""
        assert isinstance(pending, Taken)
        super().sync(pending)
        # By the log, not by its name: the topic may have been deleted and created again since.
        places = {log: place for place, log in self._logs.items() if place[0] in self.disk.topics}
        for log, queued in pending.logs:
            assert isinstance(log, SegmentedLog)
            if log in places and queued:
                partition = places[log]
                data = b"".join(bytes(part) for one in queued for part in one.parts)
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
        """The process is gone. If a sync was under way, some of its bytes are on the disk, or others in their place."""
        if not self._lives:
            return
        self._lives = False
        if self._under_way is not None:
            self._writer.dies = True
            with suppress(PowerLostError):
                super().sync(self._under_way)
        self._release(clean=False)


class FilesStore(WitnessedFiles, FileStore):
    """The store of a broker that has the disk alone."""

    def __init__(self, disk: FilesDisk, dice: Random) -> None:
        FileStore.__init__(self, disk.path, cluster_id=CLUSTER_ID)
        self.begin(disk, dice)
        for topic in disk.topics.values():
            if topic.name not in self.topics():
                super().create_topic(topic)
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
        del self.disk.topics[topic_id]

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        super().keep_configs(kind, name, configs)
        self.disk.configs[kind, name] = configs


def _behind(offset: int, base_offset: int, next_offset: int, end: int, count: int) -> int:
    """Where the next batch begins; what no checksum covers is believed only where it can be true."""
    return next_offset if offset <= base_offset < next_offset <= end else offset + count


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
