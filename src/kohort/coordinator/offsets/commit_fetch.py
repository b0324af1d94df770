"""OffsetCommit and OffsetFetch: write and read a group's offsets, with the checks of who may do so."""

from collections.abc import Iterable, Mapping
from sys import intern

from kohort.coordinator.classic import ClassicGroup, GroupState
from kohort.coordinator.consumer import ConsumerGroup
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Groups
from kohort.coordinator.offsets.member_epochs import commit_refusal, fetch_refusal
from kohort.coordinator.pending_offsets import Place
from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID, Millis
from kohort.wire.commits import RepeatedCommit
from kohort.wire.group_log import CommittedOffset, committed_offsets
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_GROUP_ID_NOT_FOUND = 9
"""First version of OffsetCommit that reports a missing group as such to its members (KIP-848)."""
_MANY_GROUPS = 8
"""First version of OffsetFetch that names several groups."""
_NO_OFFSET = -1
_DEFAULT_RETENTION = -1
_LATEST_EXPIRY = 2**63 - 1


def commit(groups: Groups, request: OffsetCommitRequest, context: RequestContext, now: Millis, out: Effects) -> None:
    """Write a group's offsets: of all partitions, except those with metadata that is too long, or of none.

    This is the most frequent request that writes: one record and one shared answer per partition.
    """
    group = groups.by_id.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        error = commit_refusal(groups, group, request, context)
    else:
        error = _commit_refusal(group, request, context)
    if error:
        out.replies[context.token] = commit_refused(request, error)
        return
    if isinstance(group, ClassicGroup) and request.member_id in group.members:
        member = group.members[request.member_id]
        member.session_deadline = now + member.session_timeout_ms
    # Each offset keeps the names of its group and topic, so all of them share one string.
    group_id = request.group_id if group is None else group.group_id
    if isinstance(request, RepeatedCommit):
        _commit_repeated(request, group_id, context, now, out)
        return
    limit = groups.config.offset_metadata_max_bytes
    # An expiry time from the client, below version 5, takes precedence over offsets.retention.minutes (KIP-211).
    retention = request.retention_time_ms
    expires_at = -1 if retention == _DEFAULT_RETENTION else min(now + max(retention, 0), _LATEST_EXPIRY)
    records = out.records
    topics = []
    for topic in request.topics:
        name, topic_id = intern(topic.name), topic.topic_id
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            if metadata and metadata_is_too_long(metadata, limit):
                answers.append(
                    OffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE)
                )
                continue
            records.append(
                CommittedOffset(
                    group_id,
                    name,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now,
                    expires_at,
                    topic_id,
                )
            )
            answers.append(_ACCEPTED[index] if 0 <= index < len(_ACCEPTED) else _accepted(index))
        topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=answers))
    out.replies[context.token] = OffsetCommitResponse(topics=topics)


def _commit_repeated(
    request: RepeatedCommit, group_id: str, context: RequestContext, now: Millis, out: Effects
) -> None:
    """Write the offsets of a commit that has neither metadata nor an expiry time; its answer exists already."""
    for topic in request.shape.topics:
        part = slice(topic.start, topic.end)
        columns = topic.partitions, request.offsets[part], request.epochs[part]
        out.records += committed_offsets(group_id, topic.name, topic.topic_id, *columns, now)
    out.replies[context.token] = request.shape.accepted


_NOTHING: Mapping[int, CommittedOffset] = {}


def metadata_is_too_long(metadata: str, limit: int) -> bool:
    """Return whether the metadata is longer than `limit`, as a Java string."""
    return len(metadata) * 2 > limit and _java_length(metadata) > limit


def _java_length(text: str) -> int:
    """Return the length of a Java string: the number of UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _accepted(index: int) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=index)


_ACCEPTED = [_accepted(index) for index in range(1024)]
"""Shared, immutable answers: creating one would cost as much as the look-up."""


def _commit_refusal(group: ClassicGroup | None, request: OffsetCommitRequest, context: RequestContext) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE  # a simple consumer or an admin, whose first commit creates the group
        if context.api_version >= _GROUP_ID_NOT_FOUND:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        # A consumer that assigns itself may have an instance ID configured, which is irrelevant here (KAFKA-14201).
        return ErrorCode.NONE
    # A commit without a member ID would overwrite the offsets of the group's members.
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the new generation, but not its partitions in it.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return the same error for every partition: the response has no field for an error of the group."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetch(groups: Groups, request: OffsetFetchRequest, context: RequestContext, now: Millis, out: Effects) -> None:
    """Return the offsets of groups; -1 for partitions without a commit and for groups that do not exist."""
    stable = request.require_stable and bool(groups.pending)
    if context.api_version >= _MANY_GROUPS:
        found = [_fetch_group(groups, wanted) for wanted in request.groups]
        for group in found if stable else ():
            _mark_unstable(groups, group.group_id, group.topics, now, out)
        response = OffsetFetchResponse(groups=found)
    else:
        response = OffsetFetchResponse(topics=_fetch_one_group(groups, request))
        if stable:
            _mark_unstable(groups, request.group_id, response.topics, now, out)
    out.replies[context.token] = response


def _mark_unstable(
    groups: Groups,
    group_id: str,
    topics: Iterable[OffsetFetchResponseTopic | OffsetFetchResponseTopics],
    now: Millis,
    out: Effects,
) -> None:
    """Replace the offsets of partitions that an open transaction has committed (KIP-447): the client asks again."""
    waits_for: set[int] = set()
    for topic in topics:
        for partition in topic.partitions:
            producers = groups.pending.producers_of(Place(group_id, topic.name, partition.partition_index))
            if producers:
                waits_for.update(producers)
                partition.committed_offset, partition.committed_leader_epoch = _NO_OFFSET, -1
                partition.metadata, partition.error_code = "", ErrorCode.UNSTABLE_OFFSET_COMMIT
    out.events += groups.hold_ups.rejected(groups.pending, group_id, sorted(waits_for), now)


def _fetch_group(groups: Groups, wanted: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    group = groups.get(wanted.group_id)
    error = fetch_refusal(group, wanted) if isinstance(group, ConsumerGroup) else ErrorCode.NONE
    if error:
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error)
    offsets = {} if group is None else group.offsets
    if wanted.topics is None:
        topics = [_all_of_topic(name, stored) for name, stored in offsets.items()]
    else:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=_positions(offsets.get(topic.name, _NOTHING), topic.partition_indexes, topic.topic_id),
            )
            for topic in wanted.topics
        ]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics)


def _all_of_topic(name: str, stored: Mapping[int, CommittedOffset]) -> OffsetFetchResponseTopics:
    topic_id = next((one.topic_id for one in stored.values() if one.topic_id != NO_TOPIC_ID), None)
    topic_id = topic_id or NO_TOPIC_ID
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=_positions(stored, stored, topic_id))


def _fetch_one_group(groups: Groups, request: OffsetFetchRequest) -> list[OffsetFetchResponseTopic]:
    group = groups.get(request.group_id)
    offsets = {} if group is None else group.offsets
    if request.topics is None:
        wanted: Iterable[tuple[str, Iterable[int]]] = offsets.items()
    else:
        wanted = ((topic.name, topic.partition_indexes) for topic in request.topics)
    return [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                )
                for partition in _positions(offsets.get(name, _NOTHING), indexes, NO_TOPIC_ID)
            ],
        )
        for name, indexes in wanted
    ]


def _positions(
    stored: Mapping[int, CommittedOffset], wanted: Iterable[int], topic_id: UUID
) -> list[OffsetFetchResponsePartitions]:
    return [_position(index, stored.get(index), topic_id) for index in wanted]


def _position(index: int, committed: CommittedOffset | None, topic_id: UUID) -> OffsetFetchResponsePartitions:
    if committed is None or _is_of_another_topic(committed.topic_id, topic_id):
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=_NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _is_of_another_topic(stored: UUID, wanted: UUID) -> bool:
    """Return whether an offset was committed for a deleted topic with the name of the wanted one (KAFKA-19154)."""
    return stored != wanted and NO_TOPIC_ID not in (stored, wanted)
