"""Reading from a replica in the reader's rack (KIP-392): what a leader and what the other brokers do for it.

The leader names such a replica to a consumer that has a rack, and from then on tells the other brokers how far the
partition can be read. They serve it from the shared files while they are replicas, and until another broker leads it.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from kohort.broker.config import RACK_AWARE
from kohort.log import ClusterStore
from kohort.log.api import PartitionLog, Topic
from kohort.log.cluster import PartitionId
from kohort.log.cluster.followed import FollowedLog
from kohort.log.cluster.marks import Mark, MarkWriter

if TYPE_CHECKING:
    from kohort.broker.server import Broker

log = logging.getLogger("kohort.broker")

LEADER = -1
"""The preferred replica where that is the leader."""
_IDLE_S = 60.0
"""A log that nobody fetches from for longer is closed."""


class FollowerReads:
    """A broker's part in it."""

    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._store = broker.store if isinstance(broker.store, ClusterStore) else None
        self._selects = broker.config.text("replica.selector.class") == RACK_AWARE
        self._told: dict[PartitionId, tuple[PartitionLog, MarkWriter]] = {}
        """What others read that this broker leads."""
        self._of_log: dict[PartitionLog, PartitionId] = {}
        self._followed: dict[PartitionId, FollowedLog] = {}
        self._used: dict[PartitionId, float] = {}
        """When each was fetched from."""
        self._closed: list[FollowedLog] = []
        """Fetches may still wait for these."""
        self._troubled: dict[PartitionId, str] = {}
        """What is wrong with a partition, so that it is logged once and not at each look."""

    @property
    def following(self) -> Collection[PartitionId]:
        """What readers fetch here that other brokers lead."""
        return self._followed.keys()

    def _trouble(self, partition: PartitionId, sentence: str, error: OSError) -> None:
        if self._troubled.get(partition) != str(error):
            self._troubled[partition] = str(error)
            log.warning(sentence, partition, error)

    def _cured(self, partition: PartitionId) -> None:
        if self._troubled.pop(partition, None) is not None:
            log.info("%s can be read from its replicas again", partition)

    # The leader's half

    def preferred(self, topic: Topic, partition: int, one: PartitionLog, rack: str) -> int:
        """The replica that a consumer in that rack is to read from; LEADER where that is this broker."""
        if not self._selects or self._store is None or not rack or rack == self._broker.rack:
            return LEADER
        leadership, here = self._broker.leadership, self._broker.node_id
        nodes = [leadership.node(node_id) for node_id in leadership.replicas(topic, partition).in_sync]
        near = [node.node_id for node in nodes if node is not None and node.rack == rack and node.node_id != here]
        if not near or not self._tell(PartitionId(topic.topic_id, partition), one):
            return LEADER
        return near[partition % len(near)]

    def _tell(self, partition: PartitionId, one: PartitionLog) -> bool:
        """Tell the others how far it can be read, from now on."""
        assert self._store is not None
        known = self._told.get(partition)
        if known is not None and known[0] is one:
            return True
        if known is not None:
            self._forget(partition)
        try:
            writer = self._store.mark_writer(partition)
        except OSError as error:
            self._trouble(partition, "%s cannot be read from its replicas, only from its leader: %s", error)
            return False
        self._told[partition], self._of_log[one] = (one, writer), partition
        return self._write(partition)

    def settled(self, logs: Iterable[PartitionLog]) -> None:
        """There is more to read in these logs: the other brokers learn it before any client does."""
        if self._of_log:
            for one in logs:
                partition = self._of_log.get(one)
                if partition is not None:
                    self._write(partition)

    def _write(self, partition: PartitionId) -> bool:
        one, writer = self._told[partition]
        try:
            writer.write(Mark(partition.topic_id, one.leader_epoch, one.start_offset, one.stable_offset))
        except OSError as error:
            self._trouble(partition, "cannot tell the replicas of %s how far it can be read, trying again: %s", error)
            return False
        self._cured(partition)
        return True

    def _forget(self, partition: PartitionId) -> None:
        one, writer = self._told.pop(partition)
        del self._of_log[one]
        writer.close()

    # The other brokers' half

    def log(self, topic: Topic, partition: int) -> FollowedLog | None:
        """What can be read of a partition that another broker leads; None where only the leader may be asked."""
        one = PartitionId(topic.topic_id, partition)
        if self._store is None or not self._may_read(topic, one):
            return None
        found = self._refreshed(topic, one)
        if found is not None:
            self._used[one] = self.clock()
        return found

    def _refreshed(self, topic: Topic, one: PartitionId) -> FollowedLog | None:
        assert self._store is not None
        found = self._followed.get(one)
        if found is not None and found.leader_epoch != self._broker.leadership.leader(topic, one.partition).epoch:
            self._close(one)
            found = None
        try:
            if found is None:
                found = self._followed[one] = self._store.follow_log(one)
                self._used[one] = self.clock()
            if found.refresh():
                self._cured(one)
                return found
        except FileNotFoundError:  # its leader has told nothing yet
            return None
        except OSError as error:
            self._trouble(one, "%s cannot be read here, only from its leader: %s", error)
        self._close(one)
        return None

    def _may_read(self, topic: Topic, one: PartitionId) -> bool:
        exists = 0 <= one.partition < topic.partitions
        return exists and self._broker.node_id in self._broker.leadership.replicas(topic, one.partition).in_sync

    def look(self) -> None:
        """From time to time: tell what moved, wake those that wait for it, and close what nobody reads."""
        for one, (led, _) in list(self._told.items()):
            if self._led(one) is led:
                self._write(one)
            else:
                self._forget(one)
        parked = self._broker.parked_fetches
        woken, self._closed = self._closed, []
        for one, followed in list(self._followed.items()):
            before = followed.stable_offset, followed.start_offset
            topic = self._broker.topics.with_id(one.topic_id)
            if topic is None or not self._may_read(topic, one) or self._refreshed(topic, one) is not followed:
                self._close(one)
            elif followed.is_behind or (followed.stable_offset, followed.start_offset) != before:
                woken.append(followed)
            elif self.clock() - self._used[one] > _IDLE_S and not parked.watches(followed):
                self._close(one)
        parked.moved([*woken, *self._closed])
        self._closed = []

    def _led(self, one: PartitionId) -> PartitionLog | None:
        topic = self._broker.topics.with_id(one.topic_id)
        return None if topic is None else self._broker.topics.log(topic, one.partition)

    def _close(self, one: PartitionId) -> None:
        found = self._followed.pop(one, None)
        if found is not None:
            found.close()
            self._used.pop(one, None)
            self._closed.append(found)

    def close(self) -> None:
        """Close all files."""
        for one in list(self._told):
            self._forget(one)
        for one in list(self._followed):
            self._close(one)
