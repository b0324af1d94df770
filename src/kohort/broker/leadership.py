"""Who leads which partition, and which brokers there are: what Metadata and FindCoordinator tell."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kohort.log.api import Topic
from kohort.log.cluster import Leader, Node, PartitionId, Placement, Replicas

if TYPE_CHECKING:
    from kohort.broker.server import Broker


class Leadership(Protocol):
    """A broker's view of its cluster."""

    @property
    def nodes(self) -> Sequence[Node]:
        """The brokers that live."""
        ...

    def node(self, node_id: int) -> Node | None:
        """A broker that lives."""
        ...

    @property
    def controller_id(self) -> int:
        """A broker that answers requests to change the cluster: each of them does."""
        ...

    def leads(self, topic: Topic, partition: int) -> bool:
        """Whether this broker leads a partition, so that its log may be opened."""
        ...

    def leader(self, topic: Topic, partition: int) -> Leader:
        """Who leads a partition; its node may be NOBODY, or not live any more."""
        ...

    def replicas(self, topic: Topic, partition: int) -> Replicas:
        """The brokers that may lead a partition, the preferred one first."""
        ...

    def create(self, topic: Topic, placement: Placement) -> None:
        """Make a topic, durably. Raises TopicExists, TooFewBrokers, OSError."""
        ...

    def grow(self, topic: Topic, placement: Placement) -> None:
        """Make the topic's new partitions, durably. Raises TooFewBrokers, OSError."""
        ...

    def reassign(self, wanted: Mapping[PartitionId, tuple[int, ...]], over: Iterable[PartitionId]) -> None:
        """Begin, durably, to give partitions these replicas, and end other reassignments. Raises OSError."""
        ...

    def elect(self, ones: Iterable[PartitionId]) -> None:
        """Have the preferred replicas of these partitions lead them, durably. Raises OSError."""
        ...

    async def join(self) -> None:
        """The broker listens: it may lead."""
        ...

    async def leave(self) -> None:
        """The broker stops and nothing is queued any more: others may lead."""
        ...


class Alone:
    """The view of a broker that is all there is."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    @property
    def nodes(self) -> Sequence[Node]:
        broker = self._broker
        return (Node(broker.node_id, broker.host, broker.port, broker.rack),)

    def node(self, node_id: int) -> Node | None:
        return self.nodes[0] if node_id == self._broker.node_id else None

    @property
    def controller_id(self) -> int:
        return self._broker.node_id

    def leads(self, topic: Topic, partition: int) -> bool:
        return True

    def leader(self, topic: Topic, partition: int) -> Leader:
        log = self._broker.topics.log(topic, partition)
        return Leader(self._broker.node_id, -1 if log is None else log.leader_epoch)

    def replicas(self, topic: Topic, partition: int) -> Replicas:
        me = (self._broker.node_id,)
        return Replicas(me, me)

    def create(self, topic: Topic, placement: Placement) -> None:
        self._broker.store.create_topic(topic)

    def grow(self, topic: Topic, placement: Placement) -> None:
        self._broker.store.alter_topic(topic)

    def reassign(self, wanted: Mapping[PartitionId, tuple[int, ...]], over: Iterable[PartitionId]) -> None:
        """Its only replica has every partition already."""

    def elect(self, ones: Iterable[PartitionId]) -> None:
        """Its only replica leads every partition already."""

    async def join(self) -> None:
        """Nobody has to know."""

    async def leave(self) -> None:
        """Nobody follows."""
