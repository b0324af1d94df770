"""Which topics there are, told to every shard of the coordinator: one image for all of them (KIP-848)."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.assignor.server import TopicShape
from kohort.broker.config import RACK_AWARE
from kohort.coordinator import MetadataImage, Topic
from kohort.log.api import Topic as LogTopic
from kohort.model import UUID
from kohort.recorder import JOURNAL_TOPIC

if TYPE_CHECKING:
    from kohort.broker.server import Broker


class TopicsImage:
    """Made anew once per turn of the event loop in which topics came, grew or went, however many did."""

    def __init__(self, broker: "Broker", loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._known: dict[UUID, Topic] = {}
        self.is_due = False
        """There is something to tell."""
        self.current = self._made(0)

    def changed(self) -> None:
        """Topics are not what they were."""
        if not self.is_due:
            self.is_due = True
            self._loop.call_soon(self.tell)

    def tell(self) -> None:
        """Tell the shards now, if there is something to tell: before a request that must not miss it."""
        if self.is_due:
            self.is_due = False
            self.current = self._made(self.current.version)
            self._broker.groups.topics_changed(self.current)

    def _made(self, after_version: int) -> MetadataImage:
        # A version is kept with what was resolved at it, so it rises over restarts, too.
        # Kafka has no journal of rebalances: a member that subscribes to every topic does not expect to read one.
        return MetadataImage(self._topics(), max(after_version + 1, self._broker.now()), hidden=(JOURNAL_TOPIC,))

    def _topics(self) -> Iterator[Topic]:
        """Values that did not change are the same objects, which know their hashes already."""
        before, self._known = self._known, {}
        for one in self._broker.topics.all().values():
            shape = TopicShape(one.partitions, self._racks(one), one.name)
            topic = before.get(one.topic_id)
            if topic is None or topic.shape != shape:
                topic = Topic(one.name, one.topic_id, shape)
            self._known[one.topic_id] = topic
            yield topic

    def _racks(self, topic: LogTopic) -> tuple[frozenset[str], ...] | None:
        """Of each partition the racks in which it can be read: its leader's, or those of its replicas in sync."""
        leadership = self._broker.leadership
        rack_of = {node.node_id: frozenset((node.rack,)) for node in leadership.nodes if node.rack is not None}
        if not rack_of:
            return None
        if self._broker.config.text("replica.selector.class") == RACK_AWARE:
            replicas = (leadership.replicas(topic, partition).in_sync for partition in range(topic.partitions))
            return tuple(frozenset[str]().union(*(rack_of.get(one, ()) for one in nodes)) for nodes in replicas)
        leaders = (leadership.leader(topic, partition).node_id for partition in range(topic.partitions))
        return tuple(rack_of.get(node_id, frozenset()) for node_id in leaders)
