"""The topic metadata of the coordinator's shards: one image for all of them (KIP-848)."""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from kohort.assignor.server import TopicShape
from kohort.broker.config import BrokerConfig
from kohort.broker.groups.coordinator import GroupCoordinator
from kohort.broker.logs import Leadership, Topics
from kohort.coordinator import MetadataImage, Topic
from kohort.log import Topic as LogTopic
from kohort.model import UUID, Millis
from kohort.recorder import JOURNAL_TOPIC
from kohort.telemetry import TELEMETRY_TOPIC


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    groups: GroupCoordinator
    leadership: Leadership
    topics: Topics

    def now(self) -> Millis: ...


class TopicsImage:
    """The current image; topics that were created, grown or deleted in one turn of the event loop cause one rebuild."""

    def __init__(self, broker: Dependencies, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._known: dict[UUID, Topic] = {}
        self.is_due = False
        """Whether the shards do not have the latest topics yet."""
        self.current = self._made(0)

    def changed(self) -> None:
        """Schedule a new image after a change of the topics."""
        if not self.is_due:
            self.is_due = True
            self._loop.call_soon(self.tell)

    def tell(self) -> None:
        """Give the shards a new image now if one is due: called before a request that must see the change."""
        if self.is_due:
            self.is_due = False
            self.current = self._made(self.current.version)
            self._broker.groups.topics_changed(self.current)

    def _made(self, after_version: int) -> MetadataImage:
        # The version is stored with the topics that a group resolved at it, so it must rise over restarts, too.
        # Kafka has no such topics, so a member that subscribes to every topic does not expect to read them.
        hidden = (JOURNAL_TOPIC, TELEMETRY_TOPIC)
        return MetadataImage(self._topics(), max(after_version + 1, self._broker.now()), hidden)

    def _topics(self) -> Iterator[Topic]:
        """Yield all topics. An unchanged topic is the same object as before, which has already computed its hash."""
        before, self._known = self._known, {}
        for current in self._broker.topics.all().values():
            shape = TopicShape(current.partitions, self._racks(current), current.name)
            topic = before.get(current.topic_id)
            if topic is None or topic.shape != shape:
                topic = Topic(current.name, current.topic_id, shape)
            self._known[current.topic_id] = topic
            yield topic

    def _racks(self, topic: LogTopic) -> tuple[frozenset[str], ...] | None:
        """Return the racks in which each partition can be read: its leader's, or those of its in-sync replicas."""
        leadership = self._broker.leadership
        rack_of = {node.node_id: frozenset((node.rack,)) for node in leadership.nodes if node.rack is not None}
        if not rack_of:
            return None
        if self._broker.config.reads_in_rack:
            replicas = (leadership.replicas(topic, partition).in_sync for partition in range(topic.partitions))
            return tuple(
                frozenset[str]().union(*(rack_of.get(broker_id, ()) for broker_id in nodes)) for nodes in replicas
            )
        leaders = (leadership.leader(topic, partition).node_id for partition in range(topic.partitions))
        return tuple(rack_of.get(node_id, frozenset()) for node_id in leaders)
