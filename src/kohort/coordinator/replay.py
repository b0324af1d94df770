"""Apply records to the state of a shard: the only code that writes durable state.

A shard replays its own records as it appends them and, after a failover, the records in the log. So
a group's state does not depend on whether it was built or loaded.
"""

from collections.abc import Iterable

from kohort.coordinator.classic import ClassicGroup, GroupState, Member
from kohort.coordinator.consumer import CONSUMER_GROUP_KEYS, replay_consumer_group
from kohort.coordinator.groups import Groups
from kohort.coordinator.pending_offsets import Place
from kohort.wire.codec import Message
from kohort.wire.group_log import CommittedOffset, GroupRecord, group_record
from kohort.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)


def replay_all(groups: Groups, records: Iterable[GroupRecord]) -> None:
    """Apply records in order. Commits arrive in runs of one topic, which is looked up once per run."""
    group_id = topic = None
    stored: dict[int, CommittedOffset] = {}
    pending = bool(groups.pending)  # records outside of transactions add none
    for record in records:
        if type(record) is not CommittedOffset or pending:
            group_id = None  # the record may remove the dictionary that the run writes to
            replay(groups, record)
        elif record.topic is topic and record.group is group_id:
            stored[record.partition] = record
        else:
            group_id, topic = record.group, record.topic
            stored = _offsets_of(groups, group_id, topic)
            stored[record.partition] = record


def replay_pending(groups: Groups, record: GroupRecord, producer_id: int) -> None:
    """Apply one record of an open transaction. Only offsets are written in transactions; other records are ignored."""
    if type(record) is CommittedOffset:
        if groups.by_id.get(record.group) is None:
            groups.make_classic(record.group)
        groups.pending.add(producer_id, record)
    elif type(record.key) is OffsetCommitKey:
        replay(groups, record)


def replay_end(groups: Groups, producer_id: int, *, committed: bool) -> None:
    """Apply a marker: the offsets of the producer's transaction are committed, or never were."""
    ended = groups.pending.groups_of(producer_id)
    groups.hold_ups.ended(producer_id, committed=committed)
    for record in groups.pending.end(producer_id, committed=committed):
        _store_offset(groups, record)
    for group_id in ended:
        group = groups.by_id.get(group_id)
        if group is not None:
            groups.drop_if_forgettable(group)


def replay(groups: Groups, record: GroupRecord) -> None:
    """Apply one record. Records of unsupported kinds of groups are ignored."""
    if type(record) is CommittedOffset:
        _store_offset(groups, record)
        if groups.pending:
            groups.pending.committed(record)
        return
    key = record.key
    if type(key) is OffsetCommitKey:
        assert record.value is None, "an offset is recorded as a CommittedOffset"
        _delete_offset(groups, key)
    elif type(key) is LegacyOffsetCommitKey:
        replay(groups, _modernised(key, record.value))
    elif type(key) is GroupMetadataKey:
        value = record.value
        assert value is None or isinstance(value, GroupMetadataValue)
        _replay_group(groups, key.group, value)
    elif isinstance(key, CONSUMER_GROUP_KEYS):
        replay_consumer_group(groups, key, record.value)


def _modernised(key: LegacyOffsetCommitKey, old: Message | None) -> GroupRecord:
    """Convert a record of a broker older than 0.9 to its current form."""
    modern = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if old is None:
        return group_record(modern, None)
    assert isinstance(old, LegacyOffsetCommitValue)
    value = OffsetCommitValue(offset=old.offset, metadata=old.metadata, commit_timestamp=old.commit_timestamp)
    return group_record(modern, value)


def _delete_offset(groups: Groups, key: OffsetCommitKey) -> None:
    if groups.pending:
        groups.pending.deleted(Place(key.group, key.topic, key.partition))
        groups.hold_ups.forget_deleted(groups.pending)
    group = groups.by_id.get(key.group)
    if group is not None:
        stored = group.offsets.get(key.topic, {})
        stored.pop(key.partition, None)
        if not stored:
            group.offsets.pop(key.topic, None)
        groups.drop_if_forgettable(group)


def _store_offset(groups: Groups, committed: CommittedOffset) -> None:
    _offsets_of(groups, committed.group, committed.topic)[committed.partition] = committed


def _offsets_of(groups: Groups, group_id: str, topic: str) -> dict[int, CommittedOffset]:
    """Return the offsets of a group for one topic, to add one; makes the group and the dictionary if necessary."""
    group = groups.by_id.get(group_id)
    if group is None:
        group = groups.make_classic(group_id)  # a simple consumer's group, which has no members
    stored = group.offsets.get(topic)
    if stored is None:
        stored = group.offsets[topic] = {}
    return stored


def _replay_group(groups: Groups, group_id: str, value: GroupMetadataValue | None) -> None:
    if value is None:
        group = groups.classic(group_id)
        if group is not None:
            _forget_generation(groups, group)
        return
    group = groups.classic(group_id) or groups.make_classic(group_id)
    group.stored = value
    if group.state is GroupState.PREPARING_REBALANCE and value.generation <= group.generation:
        return  # the first record of a group that its first member is joining, or a static member's new ID
    if group.state is GroupState.COMPLETING_REBALANCE and value.generation < group.generation:
        return  # the new ID of a static member that was the last to join the rebalance
    _adopt(group, value)


def _forget_generation(groups: Groups, group: ClassicGroup) -> None:
    """Remove a deleted group; if offsets remain, they belong to a simple consumer's group from now on."""
    assert not group.rebalance.joining and not group.rebalance.syncing
    group.transition_to(GroupState.DEAD)
    del groups.by_id[group.group_id]
    if group.offsets:
        groups.make_classic(group.group_id).offsets = group.offsets


def _adopt(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Set the group to the generation in the record."""
    state = GroupState.STABLE if value.members else GroupState.EMPTY
    if group.is_in(GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        group.transition_to(state)
    else:
        group.state = state  # the group is loading, or a static member got a new ID
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    group.leader_id = value.leader
    group.empty_since = None if value.current_state_timestamp < 0 else value.current_state_timestamp
    group.restore({stored.member_id: _member(group, stored) for stored in value.members})


def _member(group: ClassicGroup, stored: MemberMetadata) -> Member:
    """Return the member as recorded. State that is not in the log survives: its session, its other protocols."""
    member = group.members.get(stored.member_id)
    protocol = group.protocol or ""
    if member is None or member.protocols.get(protocol) != stored.subscription:
        member = Member(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout_ms=stored.session_timeout,
            rebalance_timeout_ms=stored.rebalance_timeout,
            protocols={protocol: stored.subscription},
        )
    member.client_id, member.client_host = stored.client_id, stored.client_host
    member.session_timeout_ms = stored.session_timeout
    member.rebalance_timeout_ms = stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout
    member.assignment = stored.assignment
    return member
