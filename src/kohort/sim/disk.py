"""A disk, and the log store of one broker process on it: production's log in memory, durable only what a sync wrote.

The disk outlives processes. It belongs to whoever opened it last: an older owner's sync fails, as an append with an old
epoch does over PostgreSQL. Losing power in the middle of a sync leaves any part of what it wrote.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Protocol

from kohort.log import LogStore, MemoryStore, Topic
from kohort.log.api import Pending
from kohort.log.queue import Taken
from kohort.model import UUID
from kohort.wire.batch import HEADER_SIZE, crc_matches, read_header
from kohort.wire.batch import batches as split

CLUSTER_ID = "simulation-of-a-kohor1"
PartitionId = tuple[UUID, int]


class SimulatedStore(LogStore, Protocol):
    """What the store of one broker's life has beside production's."""

    epoch: int
    """How often the disk had been opened when it was."""

    @property
    def stopped(self) -> bool:
        """Whether some partition takes no appends any more."""
        ...

    def power_lost(self) -> None:
        """The process is gone, whatever it was doing."""
        ...


@dataclass(slots=True)
class Disk:
    """What is durable, and what goes wrong with it."""

    topics: dict[UUID, Topic] = field(default_factory=dict)
    logs: dict[PartitionId, bytearray] = field(default_factory=dict)
    configs: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    epoch: int = 0
    """How often it was opened; the last opener owns it."""
    failure: int | None = None
    """The errno with which every sync fails at the moment."""
    slowness: float = 0.0005
    """Seconds that a sync takes at most."""
    torn: int = 0
    """Tails cut at an opening so far."""
    written: Callable[[PartitionId, bytes, int], None] = lambda partition, batches, epoch: None
    """Told of everything that became durable, and at which epoch its writer opened the disk."""
    is_exclusive: ClassVar[bool] = False
    """Whether whoever has it open must die before another can open it."""

    def open(self, dice: Random, node_id: int, clock: Callable[[], float]) -> SimulatedStore:
        """The store of that broker's next life; its clock is in seconds."""
        return DiskStore(self, dice)

    @property
    def is_free(self) -> bool:
        """Whether another broker may take over from one that does not run."""
        return True

    @property
    def has_lapsed(self) -> bool:
        """Whether its owner has lost it though it runs."""
        return False

    def left(self) -> None:
        """Its owner has ended in order."""

    def newest(self, partition: PartitionId) -> int:
        """The epoch at which alone that partition may be written."""
        return self.epoch

    def sound(self, partition: PartitionId) -> bytes:
        """The partition's whole batches; what a crash tore behind them is gone from the disk when this returns."""
        data = self.logs.get(partition, bytearray())
        at = 0
        while at + HEADER_SIZE <= len(data):
            header = read_header(data, at)
            if header.size < HEADER_SIZE or at + header.size > len(data) or not crc_matches(data, header, at):
                break
            at += header.size
        if at < len(data):
            self.torn += 1
            del data[at:]
        return bytes(data)


class DiskStore(MemoryStore):
    """The store of one process. What it holds dies with it; what `sync` wrote is on the disk."""

    def __init__(self, disk: Disk, dice: Random) -> None:
        super().__init__(cluster_id=CLUSTER_ID)
        self._dice = dice
        disk.epoch += 1
        self.disk = disk
        self.epoch = self.leader_epoch = disk.epoch
        self._stopped = False
        self._under_way: Taken | None = None
        for topic in disk.topics.values():
            super().create_topic(topic)
        for kind, name in disk.configs:
            super().keep_configs(kind, name, disk.configs[kind, name])
        for partition in list(disk.logs):
            self._load(partition)

    @property
    def stopped(self) -> bool:
        """Some partition takes no appends any more."""
        return self._stopped

    def _load(self, partition: PartitionId) -> None:
        if partition[0] not in self.disk.topics:
            del self.disk.logs[partition]
            return
        batches = self.disk.sound(partition)
        if batches:
            log = self.partition(*partition)
            # Each batch keeps the leader epoch at which it was written: readers ask where an epoch ends (KIP-320).
            for position, header in split(batches):
                log._leader_epoch = header.leader_epoch
                log.append(bytearray(batches[position : position + header.size]), header.leader_epoch)
            log._leader_epoch = self.epoch
            pending = super().take()
            assert pending is not None
            super().settle(pending)

    # Topics and configs are durable at once

    def create_topic(self, topic: Topic) -> None:
        self._check_owner()
        super().create_topic(topic)
        self.disk.topics[topic.topic_id] = topic

    def alter_topic(self, topic: Topic) -> None:
        self._check_owner()
        super().alter_topic(topic)
        self.disk.topics[topic.topic_id] = topic

    def delete_topic(self, topic_id: UUID) -> None:
        self._check_owner()
        super().delete_topic(topic_id)
        del self.disk.topics[topic_id]
        for partition in [one for one in self.disk.logs if one[0] == topic_id]:
            del self.disk.logs[partition]

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        self._check_owner()
        super().keep_configs(kind, name, configs)
        self.disk.configs[kind, name] = configs

    # Appends when they are synced

    def take(self) -> Taken | None:
        self._under_way = super().take()
        return self._under_way

    def sync(self, pending: Pending) -> None:
        """Raises OSError when the disk is another's by now, or fails."""
        assert isinstance(pending, Taken)
        self._check_owner()
        if self.disk.failure is not None:
            raise OSError(self.disk.failure, "the simulated disk fails")
        for partition, data in self._writes(pending):
            self.disk.logs.setdefault(partition, bytearray()).extend(data)
            self.disk.written(partition, data, self.epoch)
        self._under_way = None

    def fail(self, pending: Pending, error: OSError) -> None:
        """As on files: a full disk is got over, anything else stops the partitions for the life of the process."""
        assert isinstance(pending, Taken)
        super().fail(pending, error)
        self._under_way = None
        if error.errno != errno.ENOSPC:
            self._stopped = True
            for log, _ in pending.logs:
                log.stopped = error

    def power_lost(self) -> None:
        """The process is gone. If a sync was under way, some of its bytes are on the disk."""
        if self._under_way is None or self.epoch != self.disk.epoch:
            return
        for partition, data in self._writes(self._under_way):
            torn = data[: self._dice.randrange(len(data) + 1)]
            self.disk.logs.setdefault(partition, bytearray()).extend(torn)
            whole = _whole(torn)
            if whole:
                self.disk.written(partition, torn[:whole], self.epoch)

    def _writes(self, taken: Taken) -> list[tuple[PartitionId, bytes]]:
        # By the log, not by its name: the topic may have been deleted and created again since.
        places = {log: place for place, log in self._logs.items() if place[0] in self.disk.topics}
        return [
            (places[log], b"".join(bytes(part) for one in queued for part in one.parts))
            for log, queued in taken.logs
            if log in places and queued
        ]

    def _check_owner(self) -> None:
        if self.epoch != self.disk.epoch:
            raise OSError(errno.ESTALE, "the disk belongs to another broker by now")


def _whole(data: bytes) -> int:
    """How many bytes of it are whole batches."""
    at = 0
    while at + HEADER_SIZE <= len(data) and at + (size := read_header(data, at).size) <= len(data):
        at += size
    return at
