"""The leaders of partitions and the brokers of the cluster, as Metadata and FindCoordinator return them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from kohort.broker.logs.topics import Topics
from kohort.log import LogStore, Topic
from kohort.log.cluster import NOBODY, Leader, Node, PartitionId, Placement, Replicas


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    node_id: int
    store: LogStore
    topics: Topics

    @property
    def own_node(self) -> Node: ...


class Leadership(Protocol):
    """A broker's view of its cluster."""

    @property
    def nodes(self) -> Sequence[Node]:
        """The live brokers."""
        ...

    def node(self, node_id: int) -> Node | None:
        """Return a live broker; None if there is none with that ID."""
        ...

    @property
    def registered(self) -> Collection[int]:
        """Brokers that may be replicas: the live ones, and those that joined earlier."""
        ...

    @property
    def controller_id(self) -> int:
        """A broker that answers requests to change the cluster; every broker does."""
        ...

    def leads(self, topic: Topic, partition: int) -> bool:
        """Return whether this broker leads the partition, so that its log may be opened."""
        ...

    def leader(self, topic: Topic, partition: int) -> Leader:
        """Return the leader of a partition; its node may be NOBODY, or a broker that no longer lives."""
        ...

    def replicas(self, topic: Topic, partition: int) -> Replicas:
        """Return the brokers that may lead a partition, the preferred one first."""
        ...

    def create(self, topic: Topic, placement: Placement) -> None:
        """Create a topic, durably. Raise TopicExists, TooFewBrokers or OSError."""
        ...

    def grow(self, topic: Topic, placement: Placement) -> None:
        """Create the topic's new partitions, durably. Raise TooFewBrokers or OSError."""
        ...

    def reassign(self, wanted: Mapping[PartitionId, tuple[int, ...]], over: Iterable[PartitionId]) -> None:
        """Begin, durably, to reassign partitions to these replicas, and cancel those in `over`. Raise OSError."""
        ...

    def elect(self, ones: Iterable[PartitionId]) -> None:
        """Elect the preferred replicas of these partitions as their leaders, durably. Raise OSError."""
        ...

    def catch_up(self) -> None:
        """Apply other brokers' latest changes, so that a change by this one does not undo them. Raise OSError."""
        ...

    async def join(self) -> None:
        """Join the cluster: the broker listens, so it may lead."""
        ...

    async def leave(self) -> None:
        """Leave the cluster: the broker stops, and nothing is queued, so others may lead."""
        ...


class SingleBroker:
    """The view of a broker without a cluster."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self.unavailable: set[PartitionId] = set()
        """Partitions without a leader: there are none, unless a test kit takes it away."""

    @property
    def nodes(self) -> Sequence[Node]:
        return (self._broker.own_node,)

    @property
    def registered(self) -> Collection[int]:
        return (self._broker.node_id,)

    def node(self, node_id: int) -> Node | None:
        return self.nodes[0] if node_id == self._broker.node_id else None

    @property
    def controller_id(self) -> int:
        return self._broker.node_id

    def leads(self, topic: Topic, partition: int) -> bool:
        return (topic.topic_id, partition) not in self.unavailable

    def leader(self, topic: Topic, partition: int) -> Leader:
        log = self._broker.topics.log(topic, partition)
        if log is None and not self.leads(topic, partition):
            return Leader(NOBODY, -1)
        return Leader(self._broker.node_id, -1 if log is None else log.leader_epoch)

    def replicas(self, topic: Topic, partition: int) -> Replicas:
        me = (self._broker.node_id,)
        return Replicas(me, me)

    def create(self, topic: Topic, placement: Placement) -> None:
        self._broker.store.create_topic(topic)

    def grow(self, topic: Topic, placement: Placement) -> None:
        self._broker.store.alter_topic(topic)

    def reassign(self, wanted: Mapping[PartitionId, tuple[int, ...]], over: Iterable[PartitionId]) -> None:
        """Do nothing: the only replica has every partition already."""

    def elect(self, ones: Iterable[PartitionId]) -> None:
        """Do nothing: the only replica leads every partition already."""

    def catch_up(self) -> None:
        """Do nothing: no other broker changes anything."""

    async def join(self) -> None:
        """Do nothing: no other broker needs to know."""

    async def leave(self) -> None:
        """Do nothing: no other broker takes over."""
