"""A member that computes its group's target with its own assignor, which KIP-848 planned and Kafka omitted.

The interface is that of classic groups, so one assignor works under both protocols (docs/decisions/005).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kohort.assignor import Assignor, RebalanceProtocol
from kohort.member.consumer.state import ConsumerState
from kohort.model import UUID, TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import (
    Computation,
    Computed,
    MemberTarget,
    OfferedAssignor,
    TopicPartitions,
)
from kohort.wire.messages.consumer_protocol import Subscription


def offers(member: ConsumerState) -> list[OfferedAssignor] | None:
    """Return the assignors with which the member can compute, in order of preference; None if it has none."""
    generation = -1 if member.generation is None else member.generation
    return [
        OfferedAssignor(
            name=assignor.name,
            user_data=assignor.user_data(member.wanted_subscription.topics, member.owned, generation),
        )
        for assignor in member.config.client_assignors
    ] or None


def compute(assignors: Iterable[Assignor], asked: Computation) -> Computed:
    """Return the target that the coordinator requests, or an error."""
    assignor = next((assignor for assignor in assignors if assignor.name == asked.assignor), None)
    if assignor is None:
        return Computed(group_epoch=asked.group_epoch, error=f"the member has no assignor {asked.assignor!r}")
    names = {topic.topic_id: topic.name for topic in asked.topics}
    subscriptions = {
        peer.member_id: Subscription(
            topics=[names[topic_id] for topic_id in peer.topic_ids if topic_id in names],
            user_data=peer.user_data,
            owned_partitions=_named(peer.owned, names),
            generation_id=asked.group_epoch,
            rack_id=peer.rack_id,
        )
        for peer in asked.members
    }
    partitions = {topic.name: topic.partitions for topic in asked.topics}
    instance_ids = {peer.member_id: peer.instance_id for peer in asked.members}
    try:
        shares = assignor.assign(partitions, subscriptions, instance_ids)
        if assignor.protocol is RebalanceProtocol.COOPERATIVE:
            # The first result omits partitions that move until a second rebalance. In a consumer group, the coordinator
            # withholds a partition until its owner has given it up. So the result of that rebalance is computed now.
            for member_id, share in shares.items():
                subscriptions[member_id] = replace(subscriptions[member_id], owned_partitions=share.partitions)
            shares = assignor.assign(partitions, subscriptions, instance_ids)
        ids = {name: topic_id for topic_id, name in names.items()}
        targets = [
            MemberTarget(member_id=member_id, topic_partitions=_by_id(share.partitions, ids))
            for member_id, share in shares.items()
        ]
    except Exception as problem:  # noqa: BLE001  a user's own assignor may fail in any way
        error = f"the assignor {assignor.name!r} failed: {type(problem).__name__}: {problem}"
        return Computed(group_epoch=asked.group_epoch, error=error)
    return Computed(group_epoch=asked.group_epoch, targets=targets)


def _named(partitions: Iterable[TopicPartitions], names: Mapping[UUID, str]) -> list[TopicPartition]:
    return [
        TopicPartition(names[topic.topic_id], n)
        for topic in partitions
        if topic.topic_id in names
        for n in topic.partitions
    ]


def _by_id(partitions: Iterable[TopicPartition], ids: Mapping[str, UUID]) -> list[TopicPartitions]:
    numbers = defaultdict[UUID, list[int]](list)
    for topic, number in partitions:
        numbers[ids[topic]].append(number)
    return [TopicPartitions(topic_id=topic_id, partitions=some) for topic_id, some in numbers.items()]
