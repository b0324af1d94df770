"""Sticky, balanced assignment for members with equal subscriptions: shares differ by at most one.

This is Java's constrained assignment (KAFKA-9987): each member keeps its partitions up to its
quota, and the rest is assigned in turn. The cost is linear in partitions and members.
"""

from collections.abc import Iterator, Mapping, Sequence

from kohort.model import TopicPartition


def assign_uniformly(
    partitions: Mapping[str, int], owned: Mapping[str, Sequence[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Give each member floor(P/n) partitions, and P mod n members one more, with as few moves as possible.

    `owned` has an entry for every member and no conflicts. A member that owns more than its share
    keeps the first ones.
    """
    if not owned:
        return {}
    quota, spare = divmod(sum(partitions.values()), len(owned))
    shares = _keep(owned, quota, spare)
    kept = {partition for share in shares.values() for partition in share}
    left = (
        partition
        for topic in sorted(partitions)
        for number in range(partitions[topic])
        if (partition := TopicPartition(topic, number)) not in kept
    )
    _deal(left, shares, quota)
    return shares


def _keep(owned: Mapping[str, Sequence[TopicPartition]], quota: int, spare: int) -> dict[str, list[TopicPartition]]:
    shares: dict[str, list[TopicPartition]] = {}
    for member_id in sorted(owned):
        larger = spare > 0 and len(owned[member_id]) > quota
        spare -= larger
        shares[member_id] = list(owned[member_id][: quota + larger])
    return shares


def _deal(left: Iterator[TopicPartition], shares: Mapping[str, list[TopicPartition]], quota: int) -> None:
    """Assign in turn to members below the quota until none is left; then one each to members at the quota.

    Members that were at the quota from the start come first.
    """
    short = [member_id for member_id in shares if len(shares[member_id]) < quota]
    at_quota = [member_id for member_id in shares if len(shares[member_id]) == quota]
    while short:
        for member_id in short:
            # The other members keep at most the quota, or have a reserved extra partition, so
            # enough are left.
            shares[member_id].append(next(left))
        at_quota += [member_id for member_id in short if len(shares[member_id]) == quota]
        short = [member_id for member_id in short if len(shares[member_id]) < quota]
    for member_id, partition in zip(at_quota, left, strict=False):
        shares[member_id].append(partition)
