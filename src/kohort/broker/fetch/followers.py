"""Reads from a replica in the consumer's rack (KIP-392): the parts of the leader and of the other brokers.

The leader names such a replica to a consumer that has a rack. From then on it tells the other brokers the offset up to
which the partition can be read. They serve it from the shared files while they are replicas, until another broker
becomes its leader.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.fetch.waiting import WaitingFetches
from kohort.broker.logs import Leadership, Topics
from kohort.log import ClusterStore, LogStore, PartitionLog, Topic
from kohort.log.cluster import FollowerLog, PartitionId, PublishedOffsets, PublishedOffsetsWriter


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    leadership: Leadership
    node_id: int
    waiting_fetches: WaitingFetches
    rack: str | None
    store: LogStore
    topics: Topics


log = logging.getLogger("kohort.broker")

LEADER = -1
"""The preferred replica in a Fetch response if it is the leader."""
_IDLE_S = 60.0
"""Time without fetches after which a log is closed, in seconds."""


class FollowerReads:
    """One broker's part in reads from replicas, as a leader and as a follower."""

    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._store = broker.store if isinstance(broker.store, ClusterStore) else None
        self._selects = broker.config.reads_in_rack
        self._told: dict[PartitionId, tuple[PartitionLog, PublishedOffsetsWriter]] = {}
        """Partitions that this broker leads and that others read, with their logs."""
        self._of_log: dict[PartitionLog, PartitionId] = {}
        self._followed: dict[PartitionId, FollowerLog] = {}
        self._used: dict[PartitionId, float] = {}
        """When each partition was last fetched from."""
        self._closed: list[FollowerLog] = []
        """Logs that were closed while fetches may still wait for them."""
        self._troubled: dict[PartitionId, str] = {}
        """The last error of each partition, so that it is logged once and not on each attempt."""
        if self._selects and self._store is None:
            log.warning(
                "replica.selector.class has no effect: consumers read from replicas only where brokers share a"
                " directory; all read from the leader"
            )

    @property
    def following(self) -> Collection[PartitionId]:
        """Partitions that other brokers lead and that clients read here."""
        return self._followed.keys()

    def _trouble(self, partition: PartitionId, sentence: str, error: OSError) -> None:
        if self._troubled.get(partition) != str(error):
            self._troubled[partition] = str(error)
            log.warning(sentence, partition, error)

    def _readable_again(self, partition: PartitionId) -> None:
        if self._troubled.pop(partition, None) is not None:
            log.info("%s can be read from its replicas again", partition)

    # The leader's part

    def preferred(self, topic: Topic, partition: int, partition_log: PartitionLog, rack: str) -> int:
        """Return the replica that a consumer in that rack should read from; LEADER if that is this broker."""
        if not self._selects or self._store is None or not rack or rack == self._broker.rack:
            return LEADER
        leadership, here = self._broker.leadership, self._broker.node_id
        nodes = [leadership.node(node_id) for node_id in leadership.replicas(topic, partition).in_sync]
        near = [node.node_id for node in nodes if node is not None and node.rack == rack and node.node_id != here]
        if not near or not self._tell(PartitionId(topic.topic_id, partition), partition_log):
            return LEADER
        return near[partition % len(near)]

    def _tell(self, partition: PartitionId, partition_log: PartitionLog) -> bool:
        """Publish how far the partition can be read, now and whenever that changes."""
        assert self._store is not None
        known = self._told.get(partition)
        if known is not None and known[0] is partition_log:
            return True
        if known is not None:
            self._forget(partition)
        try:
            writer = self._store.mark_writer(partition)
        except OSError as error:
            self._trouble(partition, "%s cannot be read from its replicas, only from its leader: %s", error)
            return False
        self._told[partition], self._of_log[partition_log] = (partition_log, writer), partition
        return self._write(partition)

    def settled(self, logs: Iterable[PartitionLog]) -> None:
        """Publish how far these logs can now be read, so that the other brokers know it before any client does."""
        if self._of_log:
            for partition_log in logs:
                partition = self._of_log.get(partition_log)
                if partition is not None:
                    self._write(partition)

    def _write(self, partition: PartitionId) -> bool:
        partition_log, writer = self._told[partition]
        try:
            writer.write(
                PublishedOffsets(
                    partition.topic_id,
                    partition_log.leader_epoch,
                    partition_log.start_offset,
                    partition_log.stable_offset,
                    partition_log.has_transactions,
                )
            )
        except OSError as error:
            self._trouble(partition, "cannot tell the replicas of %s how far it can be read, trying again: %s", error)
            return False
        self._readable_again(partition)
        return True

    def _forget(self, partition: PartitionId) -> None:
        partition_log, writer = self._told.pop(partition)
        del self._of_log[partition_log]
        writer.close()

    # The other brokers' part

    def log(self, topic: Topic, partition: int) -> FollowerLog | None:
        """Return the readable log of a partition that another broker leads; None if only its leader can serve it."""
        partition_id = PartitionId(topic.topic_id, partition)
        if self._store is None or not self._may_read(topic, partition_id):
            return None
        found = self._refreshed(topic, partition_id)
        if found is not None:
            self._used[partition_id] = self.clock()
        return found

    def _refreshed(self, topic: Topic, partition: PartitionId) -> FollowerLog | None:
        assert self._store is not None
        found = self._followed.get(partition)
        if found is not None and found.leader_epoch != self._broker.leadership.leader(topic, partition.partition).epoch:
            self._close(partition)
            found = None
        try:
            if found is None:
                found = self._followed[partition] = self._store.follow_log(partition)
                self._used[partition] = self.clock()
            if found.refresh():
                self._readable_again(partition)
                return found
        except FileNotFoundError:  # its leader has not published a mark yet
            return None
        except OSError as error:
            self._trouble(partition, "%s cannot be read here, only from its leader: %s", error)
        self._close(partition)
        return None

    def _may_read(self, topic: Topic, partition: PartitionId) -> bool:
        exists = 0 <= partition.partition < topic.partitions
        return exists and self._broker.node_id in self._broker.leadership.replicas(topic, partition.partition).in_sync

    def look(self) -> None:
        """Publish changed offsets, wake the fetches that wait for them, and close unread logs. Called periodically."""
        for partition, (led, _) in list(self._told.items()):
            if self._led(partition) is led:
                self._write(partition)
            else:
                self._forget(partition)
        parked = self._broker.waiting_fetches
        woken, self._closed = self._closed, []
        for partition, followed in list(self._followed.items()):
            before = followed.stable_offset, followed.start_offset
            topic = self._broker.topics.with_id(partition.topic_id)
            if (
                topic is None
                or not self._may_read(topic, partition)
                or self._refreshed(topic, partition) is not followed
            ):
                self._close(partition)
            elif followed.is_behind or (followed.stable_offset, followed.start_offset) != before:
                woken.append(followed)
            elif self.clock() - self._used[partition] > _IDLE_S and not parked.watches(followed):
                self._close(partition)
        parked.moved([*woken, *self._closed])
        self._closed = []

    def _led(self, partition: PartitionId) -> PartitionLog | None:
        topic = self._broker.topics.with_id(partition.topic_id)
        return None if topic is None else self._broker.topics.log(topic, partition.partition)

    def _close(self, partition: PartitionId) -> None:
        found = self._followed.pop(partition, None)
        if found is not None:
            found.close()
            self._used.pop(partition, None)
            self._closed.append(found)

    def close(self) -> None:
        """Close all files."""
        for partition in list(self._told):
            self._forget(partition)
        for partition in list(self._followed):
            self._close(partition)
