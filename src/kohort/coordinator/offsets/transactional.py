"""TxnOffsetCommit: write a group's offsets as part of a transaction (KIP-98, KIP-447)."""

from kohort.coordinator.classic import ClassicGroup, GroupState
from kohort.coordinator.consumer import ConsumerGroup
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Group, Groups
from kohort.coordinator.offsets.commit_fetch import metadata_is_too_long
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.group_log import CommittedOffset
from kohort.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def commit_in_transaction(
    groups: Groups, request: TxnOffsetCommitRequest, context: RequestContext, now: Millis, out: Effects
) -> None:
    """Write offsets that become visible if the transaction commits: of all partitions, except those with
    metadata that is too long, or of none.
    """
    error = _refusal(groups.get(request.group_id), request)
    if error:
        out.replies[context.token] = transactional_commit_refused(request, error)
        return
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            code = ErrorCode.NONE
            if metadata_is_too_long(metadata, groups.config.offset_metadata_max_bytes):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                out.records.append(
                    CommittedOffset(
                        group=request.group_id,
                        topic=topic.name,
                        partition=partition.partition_index,
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now,
                    )
                )
            answers.append(TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    if out.records:
        groups.hold_ups.named(request.producer_id, request.transactional_id)
        out.producer = request.producer_id, request.producer_epoch
    out.replies[context.token] = TxnOffsetCommitResponse(topics=topics)


def transactional_commit_refused(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the same error for every partition: the response has no field for an error of the group."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refusal(group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Return why the request is rejected.

    Producers before KIP-447 name no member: the transactional ID fences them. A rebalance in progress
    is no obstacle, because the transaction has read the partitions in the generation that it names.
    """
    generation, named = request.generation_id, bool(request.member_id) or request.group_instance_id is not None
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ConsumerGroup):
        return _refusal_of_consumer_group(group, request)
    assert isinstance(group, ClassicGroup)
    if generation < 0 and (group.state is GroupState.EMPTY or not named):
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    return ErrorCode.NONE if generation == group.generation else ErrorCode.ILLEGAL_GENERATION


def _refusal_of_consumer_group(group: ConsumerGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    epoch = request.generation_id
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if epoch == -1 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # An epoch is told to nobody but its member, so an old one is answered as an old generation.
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.ILLEGAL_GENERATION
