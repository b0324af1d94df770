"""Comparison of two coordinators: the state of a group as far as its records determine it (S10).

Both have replayed the same records. One of them executed the requests that wrote them, or loaded
them in different pieces, or loaded only the newest record of each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kohort.coordinator import GroupRecord, GroupShard, GroupState
from kohort.coordinator.classic import ClassicGroup, Member
from kohort.coordinator.consumer import ConsumerGroup
from kohort.sim.violation import Violation
from kohort.wire.group_log import CommittedOffset
from kohort.wire.messages.group_records import OffsetCommitKey

Facts = dict[str, object]
"""Properties of a group or a member by descriptive names."""

_SETTLED = (GroupState.EMPTY, GroupState.STABLE)


def group_of(shard: GroupShard, group_id: str) -> ClassicGroup | ConsumerGroup | None:
    """Return the group of that id, of either type.

    The public view of a shard's groups is a copy, which would be too expensive here.
    """
    return shard._groups.get(group_id)


def same(live: GroupShard, loaded: GroupShard, how: str) -> None:
    """Check that both have the same groups."""
    for group_id in sorted(live._groups.by_id.keys() | loaded._groups.by_id.keys()):
        mine, theirs = (_whole(group_of(shard, group_id)) for shard in (live, loaded))
        _compare(f"{group_id} {how}", mine, theirs)


def same_at(live: GroupShard, loaded: GroupShard, record: GroupRecord) -> None:
    """Check that the live shard has the durable state at the record's key."""
    key = record.key
    if isinstance(key, OffsetCommitKey):
        mine, theirs = (_offset_at(group_of(shard, key.group), key) for shard in (live, loaded))
        _compare(f"{key.group} at {key.topic}-{key.partition}", mine, theirs)
        return
    group_id: str = getattr(key, "group", "") or getattr(key, "group_id", "")
    actual, replayed = group_of(live, group_id), group_of(loaded, group_id)
    if isinstance(actual, ConsumerGroup) and isinstance(replayed, ConsumerGroup):
        member_id: str = getattr(key, "member_id", "")
        _compare(group_id, _epochs(actual), _epochs(replayed))
        if member_id:
            _compare(f"{member_id} of {group_id}", _member(actual, member_id), _member(replayed, member_id))
    elif isinstance(actual, ClassicGroup) and isinstance(replayed, ClassicGroup):
        _compare(group_id, {"stored": actual.stored}, {"stored": replayed.stored})
        if actual.state in _SETTLED and actual.generation == replayed.generation:
            _compare(group_id, _generation(actual), _generation(replayed))
    elif _is_stored(actual) or _is_stored(replayed):
        raise Violation("S10", f"{group_id} is {_kind(actual)}, but according to the log it is {_kind(replayed)}")


def _kind(group: ClassicGroup | ConsumerGroup | None) -> str:
    return "absent" if group is None else type(group).__name__


def _is_stored(group: ClassicGroup | ConsumerGroup | None) -> bool:
    return isinstance(group, ConsumerGroup) or (group is not None and bool(group.stored is not None or group.offsets))


def _compare(what: str, mine: Facts, theirs: Facts) -> None:
    if mine == theirs:
        return
    name = next(name for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name))
    raise Violation("S10", f"{what}: {name} is {mine.get(name)}, but according to the log it is {theirs.get(name)}")


def _whole(group: ClassicGroup | ConsumerGroup | None) -> Facts:
    if group is None or not _is_stored(group):
        return {}
    offsets: Facts = {f"{topic}-{number}": value for topic, number, value in _offsets(group.offsets)}
    if isinstance(group, ClassicGroup):
        return offsets | _generation(group) | {"stored": group.stored}
    members: Facts = {
        f"{name} of {member_id}": fact
        for member_id in group.members.keys() | group.targets.keys()
        for name, fact in _member(group, member_id).items()
    }
    return offsets | members | _epochs(group)


def _generation(group: ClassicGroup) -> Facts:
    return {
        "generation": group.generation,
        "protocol type": group.protocol_type,
        "assignor": group.protocol,
        "leader": group.leader_id,
        "instance ids": dict(group.static_ids),
        "members": {member.member_id: _classic(member, group.protocol) for member in group.members.values()},
    }


def _classic(member: Member, protocol: str | None) -> Facts:
    """Return what a generation's record stores of a member; assignors that were not selected are missing."""
    return {
        "instance id": member.instance_id,
        "client": (member.client_id, member.client_host),
        "timeouts": (member.session_timeout_ms, member.rebalance_timeout_ms),
        "subscription": bytes(member.protocols.get(protocol or "", b"")),
        "assignment": bytes(member.assignment),
    }


def _epochs(group: ConsumerGroup) -> Facts:
    """Return the properties of a consumer group that do not belong to a single member."""
    return {
        "epoch": group.epoch,
        "target epoch": group.target_epoch,
        "hash of its topics": group.metadata_hash,
        "state": group.state,
        "members": group.members.keys(),
        "instance ids": dict(group.static_ids),
        "topics": {topic: count for topic, count in group.topics.counts.items() if count},
        "expressions": dict(group.topics.resolved),
        "assignors": {name: count for name, count in group.assignors.items() if count},
        "classic members": group.classic_members,
        "classic assignors": {name: count for name, count in group.classic_protocols.items() if count},
        "members on their way": group.moving.keys(),
        "partitions with an owner": len(group.owners),
    }


def _member(group: ConsumerGroup, member_id: str) -> Facts:
    member = group.members.get(member_id)
    places = () if member is None else (*member.assigned, *member.revoking)
    return {
        "value": member,
        "target": group.target_of(member_id),
        "owners": {place: group.owner(*place) for place in places},
    }


def _offsets(offsets: Mapping[str, Mapping[int, CommittedOffset]]) -> Iterator[tuple[str, int, object]]:
    for topic, stored in offsets.items():
        yield from ((topic, number, record.value) for number, record in stored.items())


def _offset_at(group: ClassicGroup | ConsumerGroup | None, key: OffsetCommitKey) -> Facts:
    record = None if group is None else group.offsets.get(key.topic, {}).get(key.partition)
    return {"offset": None if record is None else record.value}
