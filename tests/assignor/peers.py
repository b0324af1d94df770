"""The assignors of kafka-python and aiokafka behind our interface, as oracles and for the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PythonCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PythonSticky
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription

KAFKA_PYTHON = {
    "range": PythonRange,
    "roundrobin": PythonRoundRobin,
    "sticky": PythonSticky,
    "cooperative-sticky": PythonCooperative,
}
AIOKAFKA = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}


@dataclass(frozen=True)
class Cluster:
    """As much of the peers' ClusterMetadata as their assignors read."""

    counts: Mapping[str, int]

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        return set(self.counts)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.counts[topic])) if topic in self.counts else None


def kafka_python(
    name: str,
    partitions: Mapping[str, int],
    members: Mapping[str, Subscription],
    instance_ids: Mapping[str, str | None] | None = None,
) -> dict[str, list[TopicPartition]]:
    """Return the assignment that a leader with kafka-python computes for the same group."""
    listed = [
        SimpleNamespace(
            member_id=member_id,
            group_instance_id=(instance_ids or {}).get(member_id),
            metadata=_python_subscription(subscription),
        )
        for member_id, subscription in members.items()
    ]
    return _plain(KAFKA_PYTHON[name]().assign(Cluster(partitions), listed))


def aiokafka(
    name: str, partitions: Mapping[str, int], members: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    """Return the assignment that a leader with aiokafka computes for the same group; it has no static members."""
    metadata = {
        member_id: ConsumerProtocolMemberMetadata(0, list(subscription.topics), subscription.user_data or b"")
        for member_id, subscription in members.items()
    }
    return _plain(AIOKAFKA[name].assign(Cluster(partitions), metadata))


def _python_subscription(subscription: Subscription) -> Any:
    kind = ConsumerProtocolSubscription
    owned: dict[str, list[int]] = {}
    for topic, number in subscription.owned_partitions:
        owned.setdefault(topic, []).append(number)
    return kind(
        version=2,
        topics=list(subscription.topics),
        # kafka-python 3.0 wraps the sticky assignor's user data in a version of its own; Java and aiokafka do not.
        user_data=b"\x00\x01" + subscription.user_data if subscription.user_data else b"",
        owned_partitions=[kind.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in owned.items()],
        generation_id=subscription.generation_id,
    )


def _plain(made: Mapping[str, Any]) -> dict[str, list[TopicPartition]]:
    return {
        member_id: [TopicPartition(*partition) for partition in assignment.partitions()]
        for member_id, assignment in made.items()
    }
