"""Decide between members that claim the same partition."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kohort.assignor.user_data import Claim
from kohort.model import TopicPartition


@dataclass(frozen=True, slots=True)
class ResolvedClaims:
    """Claims without conflicts: no partition has two owners."""

    owned: Mapping[str, list[TopicPartition]]
    """Partitions of every member by member ID, in the order of its claim."""
    owner: Mapping[TopicPartition, str]
    """Owner of each partition: the inverse of `owned`.

    A partition that two members claim in its newest generation has no owner, although both may
    process it.
    """


def settle(
    claims: Mapping[str, Claim], topics: Mapping[str, Collection[str]], partitions: Mapping[str, int]
) -> ResolvedClaims:
    """Keep each partition with the one member whose claim is the newest.

    A member that missed generations claims partitions that others have received since (KAFKA-12984,
    KAFKA-14639), so the claim with the highest generation wins, per partition. Of two claims in the
    same generation one must be wrong, and it is unknown which: both members lose the partition
    (KAFKA-13419). Claims to partitions that do not exist, or to topics to which the member no
    longer subscribes, are ignored.
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
    return ResolvedClaims(owned, owner)
