"""The current leader of a partition that another broker leads, for Produce and Fetch responses (KIP-951)."""

from collections.abc import Iterable
from typing import Protocol

from kohort.broker.logs import Leadership
from kohort.log import Topic
from kohort.log.cluster import Node
from kohort.wire.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    leadership: Leadership


def current_leader(broker: Dependencies, topic: Topic, partition: int) -> LeaderIdAndEpoch | None:
    """Return the partition's leader; None if the partition does not exist."""
    if not 0 <= partition < topic.partitions:
        return None
    leader = broker.leadership.leader(topic, partition)
    return LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch)


def endpoints(broker: Dependencies, leaders: Iterable[LeaderIdAndEpoch | None], listener: str) -> list[NodeEndpoint]:
    """Return the addresses of the brokers that are among `leaders`, each once, for clients of the listener."""
    named = dict.fromkeys(leader.leader_id for leader in leaders if leader is not None)
    nodes = (broker.leadership.node(node_id) for node_id in named)
    return [
        NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in at_listener((node for node in nodes if node is not None), listener)
    ]


def at_listener(nodes: Iterable[Node], listener: str) -> list[Node]:
    """Return the brokers that have the listener, with their addresses for its clients, as Kafka does."""
    return [found for node in nodes if (found := node.at(listener)) is not None]
