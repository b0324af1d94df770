"""DeleteGroups and OffsetDelete, and deletion of the offsets of deleted topics."""

from collections.abc import Collection, Iterable

from kohort.coordinator.classic import ClassicGroup, GroupState, tombstone
from kohort.coordinator.consumer import ConsumerGroup, ConsumerGroupState, no_group
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Group, Groups
from kohort.coordinator.pending_offsets import Place
from kohort.coordinator.subscriptions import CONSUMER
from kohort.coordinator.timers import PendingMemberTimeout
from kohort.errors import ErrorCode
from kohort.wire.group_log import Record
from kohort.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from kohort.wire.messages.group_records import OffsetCommitKey
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_groups(groups: Groups, request: DeleteGroupsRequest, out: Effects) -> list[DeletableGroupResult]:
    """Delete each group with all its offsets (KIP-229); a group that has members stays."""
    wanted = dict.fromkeys(request.groups_names)
    results = [
        DeletableGroupResult(group_id=name, error_code=_delete(groups, groups.get(name), out)) for name in wanted
    ]
    _end_hold_ups(groups, out)
    return results


def _delete(groups: Groups, group: Group | None, out: Effects) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state not in (GroupState.EMPTY, ConsumerGroupState.EMPTY):
        return ErrorCode.NON_EMPTY_GROUP
    out.records += [Record(record.key, None) for stored in group.offsets.values() for record in stored.values()]
    # Else the commit of an open transaction would create the group again.
    out.records += [
        Record(OffsetCommitKey(group=place.group_id, topic=place.topic, partition=place.partition), None)
        for place in groups.pending.places(group.group_id)
        if place.partition not in group.offsets.get(place.topic, {})
    ]
    out.records += deletion_records(group)
    if isinstance(group, ClassicGroup):
        for member_id in group.pending:
            out.timers[PendingMemberTimeout(group.group_id, member_id)] = None
    return ErrorCode.NONE


def deletion_records(group: Group) -> list[Record]:
    """Return the records that delete an empty group."""
    return no_group(group) if isinstance(group, ConsumerGroup) else [tombstone(group)]


def delete_offsets(groups: Groups, request: OffsetDeleteRequest, context: RequestContext, out: Effects) -> None:
    """Delete offsets of topics that no member subscribes to (KIP-496)."""
    group = groups.get(request.group_id)
    error = _refusal(group)
    if error:
        out.replies[context.token] = OffsetDeleteResponse(error_code=error)
        return
    assert group is not None
    topics = []
    is_subscribed = group.is_subscribed if isinstance(group, ConsumerGroup) else group.is_subscribed()
    for topic in request.topics:
        indexes = [partition.partition_index for partition in topic.partitions]
        subscribed = is_subscribed(topic.name)
        if not subscribed:
            out.records += _tombstones(groups, group, topic.name, indexes)
        answer = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=answer) for index in indexes]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    _end_hold_ups(groups, out)
    out.replies[context.token] = OffsetDeleteResponse(topics=topics)


def forget_topics(groups: Groups, names: Collection[str], out: Effects) -> None:
    """Delete all groups' offsets of deleted topics: a later topic with the same name is another one (KAFKA-19154)."""
    for group in groups.by_id.values():
        for name in names:
            pending = [place.partition for place in groups.pending.places(group.group_id) if place.topic == name]
            out.records += _tombstones(groups, group, name, [*group.offsets.get(name, {}), *pending])
    _end_hold_ups(groups, out)


def _end_hold_ups(groups: Groups, out: Effects) -> None:
    """Report that nobody waits any longer for the pending offsets that `out` deletes."""
    if groups.pending:
        keys = [record.key for record in out.records if record.value is None]
        places = [Place(key.group, key.topic, key.partition) for key in keys if isinstance(key, OffsetCommitKey)]
        out.events += groups.hold_ups.ended_by_deletion(groups.pending, places)


def _refusal(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ConsumerGroup):
        return ErrorCode.NONE
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP  # subscriptions of other protocol types are opaque
    return ErrorCode.NONE


def _tombstones(groups: Groups, group: Group, topic: str, indexes: Iterable[int]) -> list[Record]:
    """Return the records that delete committed offsets, and those that are pending in open transactions."""
    stored, deleted = group.offsets.get(topic, {}), []
    for index in dict.fromkeys(indexes):
        if index in stored:
            deleted.append(Record(stored[index].key, None))
        elif groups.pending.is_open(group.group_id, topic, index):
            deleted.append(Record(OffsetCommitKey(group=group.group_id, topic=topic, partition=index), None))
    return deleted
