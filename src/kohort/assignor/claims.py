"""Whose claim to a partition counts when members disagree."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.assignor.user_data import Claim
from kohort.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Settled:
    """Claims without contradiction: no partition is owned twice."""

    owned: Mapping[str, list[TopicPartition]]
    """By member id, for every member, in the order of its claim."""
    owner: Mapping[TopicPartition, str]
    """The same, by partition. One claimed twice in its newest generation is nobody's, though both may process it."""


def settle(
    claims: Mapping[str, Claim], topics: Mapping[str, Collection[str]], partitions: Mapping[str, int]
) -> Settled:
    """Keep each partition with the member whose claim is the newest, if that is one member.

    A member that missed generations claims what others were given meanwhile (KAFKA-12984, KAFKA-14639), so the
    highest generation wins, partition by partition. Two claims of the same generation cannot both be true, and no
    one can say which is: both lose it (KAFKA-13419). Claims to what does not exist, or to topics that the member no
    longer asks for, fall away.
    """
    owner: dict[TopicPartition, str] = {}
    since: dict[TopicPartition, int] = {}
    disputed: set[TopicPartition] = set()
    for member_id, claim in claims.items():
        asked = topics[member_id]
        for partition in dict.fromkeys(claim.partitions):
            topic, number = partition
            if topic not in asked or not 0 <= number < partitions.get(topic, 0):
                continue
            rival = since.get(partition)
            if rival is None or claim.generation > rival:
                owner[partition], since[partition] = member_id, claim.generation
                disputed.discard(partition)
            elif claim.generation == rival:
                disputed.add(partition)
    for partition in disputed:
        del owner[partition]

    owned = {
        member_id: [partition for partition in dict.fromkeys(claim.partitions) if owner.get(partition) == member_id]
        for member_id, claim in claims.items()
    }
    return Settled(owned, owner)
