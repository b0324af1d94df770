"""Permission to commit and fetch a consumer group's offsets, by a member's epoch (KIP-848, KIP-1251)."""

from kohort.coordinator.consumer import ConsumerGroup, ConsumerMember
from kohort.coordinator.effects import RequestContext
from kohort.coordinator.groups import Groups
from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kohort.wire.messages.offset_fetch import OffsetFetchRequestGroup

_MEMBER_EPOCH = 9
"""First version of OffsetCommit in which a member sends its epoch."""


def commit_refusal(
    groups: Groups, group: ConsumerGroup, request: OffsetCommitRequest, context: RequestContext
) -> ErrorCode:
    """Return the error for the whole commit, or NONE if it is accepted."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE  # a simple consumer or an admin
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if context.api_version < _MEMBER_EPOCH and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch < member.epoch and all(_had_all(groups, group, member, topic, epoch) for topic in request.topics):
        return ErrorCode.NONE
    return _old(member)


def _old(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _had_all(
    groups: Groups, group: ConsumerGroup, member: ConsumerMember, topic: OffsetCommitRequestTopic, epoch: int
) -> bool:
    """Return whether the member has owned these partitions without interruption since that epoch.

    Its epoch may change while a commit is in flight. No other member can have committed for
    partitions that it owned all the time.
    """
    topic_id = _topic_id(groups, topic)
    owners = (group.owner(topic_id, partition.partition_index) for partition in topic.partitions)
    return all(o is not None and o.member_id == member.member_id and o.since_epoch <= epoch for o in owners)


def _topic_id(groups: Groups, topic: OffsetCommitRequestTopic) -> UUID:
    if topic.topic_id != NO_TOPIC_ID:
        return topic.topic_id
    known = groups.metadata.by_name.get(topic.name)
    return NO_TOPIC_ID if known is None else known.topic_id


def fetch_refusal(group: ConsumerGroup, wanted: OffsetFetchRequestGroup) -> ErrorCode:
    """Return the error for a fetch: a request without member and epoch is accepted, else the epoch must match."""
    if wanted.member_id is None and wanted.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(wanted.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if wanted.member_epoch == member.epoch else _old(member)
