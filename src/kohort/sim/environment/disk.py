"""Disk, and the log store of one broker process on it: production's log in memory; only synced data is durable.

The disk outlives processes. It belongs to the process that opened it last: a sync of an earlier
owner fails, as an append with an old epoch does with PostgreSQL. A power failure during a sync
leaves any part of the data.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Protocol

from kohort.log import LogStore, MemoryStore, Pending, PendingAppends, Topic
from kohort.model import UUID
from kohort.wire.batches import HEADER_SIZE, crc_matches, read_header
from kohort.wire.batches import batches as split

CLUSTER_ID = "simulation-of-a-kohor1"
PartitionId = tuple[UUID, int]


class SimulatedStore(LogStore, Protocol):
    """Log store of one run of a broker, with additions for the simulation."""

    epoch: int
    """Number of times that the disk had been opened, including for this store."""

    @property
    def stopped(self) -> bool:
        """Return whether a partition no longer accepts appends."""
        ...

    def power_lost(self) -> None:
        """Simulate the end of the process, whatever it was doing."""
        ...


@dataclass(slots=True)
class Disk:
    """Durable state, and its current faults."""

    topics: dict[UUID, Topic] = field(default_factory=dict)
    logs: dict[PartitionId, bytearray] = field(default_factory=dict)
    configs: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    epoch: int = 0
    """Number of times that it was opened; the last process that opened it owns it."""
    failure: int | None = None
    """errno with which every sync currently fails."""
    slowness: float = 0.0005
    """Maximum duration of a sync, in seconds."""
    torn: int = 0
    """Number of torn tails that were truncated when the disk was opened."""
    written: Callable[[PartitionId, bytes, int], None] = lambda partition, batches, epoch: None
    """Callback for everything that becomes durable, with the epoch at which the writer opened the disk."""
    deleted: Callable[[Topic], None] = lambda topic: None
    """Callback for each deleted topic."""
    is_exclusive: ClassVar[bool] = False
    """Whether a process that has it open must end before another one can open it."""

    def open(self, rng: Random, node_id: int, clock: Callable[[], float]) -> SimulatedStore:
        """Return the store for the broker's next run; `clock` returns seconds."""
        return DiskStore(self, rng)

    @property
    def is_free(self) -> bool:
        """Return whether another broker may take over from one that does not run."""
        return True

    @property
    def has_lapsed(self) -> bool:
        """Return whether its owner has lost it although it runs."""
        return False

    def left(self) -> None:
        """Record that the owner has shut down cleanly."""

    def newest(self, partition: PartitionId) -> int:
        """Return the only epoch at which that partition may be written."""
        return self.epoch

    def is_newest(self, partition: PartitionId, leader_epoch: int) -> bool:
        """Return whether no later broker has opened the partition than the one with this leader epoch."""
        return True

    def sound(self, partition: PartitionId) -> bytes:
        """Return the partition's complete batches. A torn tail after them is removed from the disk."""
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
    """Log store of one process. Its memory is lost with the process; what `sync` wrote is on the disk."""

    def __init__(self, disk: Disk, rng: Random) -> None:
        super().__init__(cluster_id=CLUSTER_ID)
        self._rng = rng
        disk.epoch += 1
        self.disk = disk
        self.epoch = self.leader_epoch = disk.epoch
        self._stopped = False
        self._under_way: PendingAppends | None = None
        for topic in disk.topics.values():
            super().create_topic(topic)
        for kind, name in disk.configs:
            super().keep_configs(kind, name, disk.configs[kind, name])
        for partition in list(disk.logs):
            self._load(partition)

    @property
    def stopped(self) -> bool:
        """Return whether a partition no longer accepts appends."""
        return self._stopped

    def _load(self, partition: PartitionId) -> None:
        if partition[0] not in self.disk.topics:
            del self.disk.logs[partition]
            return
        batches = self.disk.sound(partition)
        if batches:
            log = self.partition(*partition)
            # Each batch keeps the leader epoch at which it was written: readers request the end of an epoch
            # (KIP-320).
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
        self.disk.deleted(self.disk.topics.pop(topic_id))
        for partition in [place for place in self.disk.logs if place[0] == topic_id]:
            del self.disk.logs[partition]

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        self._check_owner()
        super().keep_configs(kind, name, configs)
        self.disk.configs[kind, name] = configs

    # Appends are durable when they are synced

    def take(self) -> PendingAppends | None:
        self._under_way = super().take()
        return self._under_way

    def sync(self, pending: Pending) -> None:
        """Write the appends to the disk. Raises OSError if the disk belongs to another process, or fails."""
        assert isinstance(pending, PendingAppends)
        self._check_owner()
        if self.disk.failure is not None:
            raise OSError(self.disk.failure, "the simulated disk fails")
        for partition, data in self._writes(pending):
            self.disk.logs.setdefault(partition, bytearray()).extend(data)
            self.disk.written(partition, data, self.epoch)
        self._under_way = None

    def fail(self, pending: Pending, error: OSError) -> None:
        """Fail an append, as on files.

        After ENOSPC the log recovers. Any other error stops the partitions for the life of the
        process.
        """
        assert isinstance(pending, PendingAppends)
        super().fail(pending, error)
        self._under_way = None
        if error.errno != errno.ENOSPC:
            self._stopped = True
            for log, _ in pending.logs:
                log.stopped = error

    def power_lost(self) -> None:
        """Simulate the end of the process. Part of a sync in progress may be on the disk."""
        if self._under_way is None or self.epoch != self.disk.epoch:
            return
        for partition, data in self._writes(self._under_way):
            torn = data[: self._rng.randrange(len(data) + 1)]
            self.disk.logs.setdefault(partition, bytearray()).extend(torn)
            whole = _whole(torn)
            if whole:
                self.disk.written(partition, torn[:whole], self.epoch)

    def _writes(self, taken: PendingAppends) -> list[tuple[PartitionId, bytes]]:
        # Find the topic by the log, not by its name: it may have been deleted and recreated since.
        places = {log: place for place, log in self._logs.items() if place[0] in self.disk.topics}
        return [
            (places[log], b"".join(bytes(part) for batch in queued for part in batch.parts))
            for log, queued in taken.logs
            if log in places and queued
        ]

    def _check_owner(self) -> None:
        if self.epoch != self.disk.epoch:
            raise OSError(errno.ESTALE, "another broker owns the disk now")


def _whole(data: bytes) -> int:
    """Return the number of bytes in complete batches."""
    at = 0
    while at + HEADER_SIZE <= len(data) and at + (size := read_header(data, at).size) <= len(data):
        at += size
    return at
