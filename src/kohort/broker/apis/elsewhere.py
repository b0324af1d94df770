"""What Produce and Fetch say of a partition that another broker leads: who, and where that is (KIP-951)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.log.api import Topic
from kohort.wire.current_leader import LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from kohort.broker.server import Broker


def current_leader(broker: "Broker", topic: Topic, partition: int) -> LeaderIdAndEpoch | None:
    """Who leads it; None where there is no such partition."""
    if not 0 <= partition < topic.partitions:
        return None
    leader = broker.leadership.leader(topic, partition)
    return LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch)


def endpoints(broker: "Broker", leaders: Iterable[LeaderIdAndEpoch | None]) -> list[NodeEndpoint]:
    """Where the brokers listen that are named in an answer, each once."""
    named = dict.fromkeys(leader.leader_id for leader in leaders if leader is not None)
    nodes = (broker.leadership.node(node_id) for node_id in named)
    return [
        NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in nodes
        if node is not None
    ]
