"""Differences between two descriptions of a group, as the changes that a log would tell. Pure.

What happened between two polls and is over by the second one has no difference: it is missed.
"""

from collections.abc import Iterator, Mapping
from hashlib import md5

from kohort.model import UUID, Millis, TopicPartition
from kohort.watch.changes import (
    AssignmentWritten,
    Change,
    CommitDeleted,
    Committed,
    EpochRaised,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    IdPartition,
    MemberDeleted,
    MemberWritten,
    TargetComputed,
    TopicNamed,
)
from kohort.watch.group import GroupFound, WatchedMember

_WHOLE = ("Stable", "Empty")
"""States of a classic group in which its description has the assignment."""


def is_whole(group: GroupFound) -> bool:
    """Return whether the description has the assignment of all members."""
    return group.type != "classic" or group.state in _WHOLE


def differences(
    before: GroupFound | None,
    after: GroupFound,
    *,
    generation: int,
    rebalanced: bool,
    ids: Mapping[str, UUID],
    at: Millis,
) -> list[Change]:
    """Return the changes from one description of a group to the next one, both of them whole.

    - `generation`: Number for a new generation of a classic group, whose descriptions have none.
    - `rebalanced`: Whether the group was seen in a rebalance since `before`.
    - `ids`: IDs of topics by name, as far as they are known.
    """
    changes: list[Change] = []
    if before is not None and before.type != after.type:
        changes += deletion(before, at)
        before = None
    if after.type == "classic":
        changes += _classic(before, after, generation, rebalanced, at)
    else:
        changes += _consumer(before, after, ids, at)
    old = {} if before is None else before.commits
    for partition, offset in after.commits.items():
        if old.get(partition) != offset:
            changes.append(Committed(after.group_id, at, partition, offset))
    changes += [CommitDeleted(after.group_id, at, partition) for partition in old.keys() - after.commits.keys()]
    return changes


def deletion(group: GroupFound, at: Millis) -> list[Change]:
    """Return the changes that delete a group."""
    commits = [CommitDeleted(group.group_id, at, partition) for partition in group.commits]
    return [*commits, GroupDeleted(group.group_id, at, group.type)]


def _classic(
    before: GroupFound | None, after: GroupFound, generation: int, rebalanced: bool, at: Millis
) -> Iterator[Change]:
    if before is not None and not rebalanced and _shares(before) == _shares(after):
        return
    if before is None and not after.members and not after.protocol_type:
        return  # offsets without a group, such as those of manual assignments
    members = tuple(GenerationMember(member.facts, member.topics, member.owned) for member in after.members)
    yield GenerationWritten(after.group_id, at, generation, after.protocol_type or "", after.protocol, None, members)


def _shares(group: GroupFound) -> dict[str, tuple[frozenset[str], frozenset[TopicPartition]]]:
    return {member.facts.member_id: (member.topics, member.owned) for member in group.members}


def _consumer(before: GroupFound | None, after: GroupFound, ids: Mapping[str, UUID], at: Millis) -> Iterator[Change]:
    group_id = after.group_id
    old = {} if before is None else {member.facts.member_id: member for member in before.members}
    new = {member.facts.member_id: member for member in after.members}
    for member_id in old.keys() - new.keys():
        yield MemberDeleted(group_id, at, member_id)
    for member_id, member in new.items():
        known = old.get(member_id)
        if known is None or (known.topics, known.expression) != (member.topics, member.expression):
            yield MemberWritten(group_id, at, member.facts, member.topics, member.expression, after.protocol)
    if after.epoch is not None and (before is None or before.epoch != after.epoch):
        yield EpochRaised(group_id, at, after.epoch)
    if after.target_epoch is not None and (before is None or before.target_epoch != after.target_epoch):
        yield TargetComputed(group_id, at, after.target_epoch)
    for member_id, member in new.items():
        known = old.get(member_id)
        if known is None or _step(known) != _step(member):
            named = {partition.topic: _id_of(partition.topic, ids) for partition in member.owned}
            for name, topic_id in named.items():
                yield TopicNamed(topic_id, name)
            assigned: frozenset[IdPartition] = frozenset((named[topic], number) for topic, number in member.owned)
            previous = 0 if known is None or known.epoch is None else known.epoch
            epoch = 0 if member.epoch is None else member.epoch
            yield AssignmentWritten(
                group_id, at, member_id, epoch, previous, member.stable, assigned, revoking=frozenset()
            )


def _step(member: WatchedMember) -> tuple[int | None, bool, frozenset[TopicPartition]]:
    return member.epoch, member.stable, member.owned


def _id_of(topic: str, ids: Mapping[str, UUID]) -> UUID:
    """Return the topic's ID, or for an old broker one that is the same each time."""
    return ids.get(topic) or UUID(bytes=md5(topic.encode(), usedforsecurity=False).digest())
