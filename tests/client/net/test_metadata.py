"""What a client makes of the answers to Metadata."""

from __future__ import annotations

from kohort.client import ClusterMetadata
from kohort.model import TopicPartition
from kohort.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ORDERS = MetadataResponseTopic(
    name="orders",
    partitions=[
        MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2]),
        MetadataResponsePartition(partition_index=1, leader_id=2, replica_nodes=[2, 3]),
    ],
)


def broker(node: int, rack: str | None) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node, host="h", port=node, rack=rack)


def test_partitions_are_in_the_racks_of_their_replicas_even_while_a_broker_is_gone() -> None:
    # Were the racks of a broker forgotten when it restarts, each restart would move partitions (KIP-881).
    brokers = [broker(1, "A"), broker(2, "B"), broker(3, None)]
    known = ClusterMetadata().merged(MetadataResponse(brokers=brokers, topics=[ORDERS]))
    near = {TopicPartition("orders", 0): frozenset("AB"), TopicPartition("orders", 1): frozenset("B")}
    assert known.racks_of(["orders", "no-such-topic"]) == near
    assert known.merged(MetadataResponse(brokers=[broker(1, "A")], topics=[ORDERS])).racks_of(["orders"]) == near
    moved = known.merged(MetadataResponse(brokers=[broker(1, "A"), broker(2, "C")], topics=[ORDERS]))
    assert moved.racks_of(["orders"])[TopicPartition("orders", 1)] == frozenset("C")


def test_without_racks_metadata_has_none() -> None:
    known = ClusterMetadata().merged(MetadataResponse(brokers=[broker(1, None)], topics=[ORDERS]))
    assert known.racks_of(["orders"]) == {}
