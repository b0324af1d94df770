"""Guards of requests about groups and their offsets."""

from typing import TypeVar

from kohort.broker.access.request_access import RequestAccess
from kohort.broker.groups import refusal
from kohort.errors import ErrorCode
from kohort.security import Operation
from kohort.wire.commits import RepeatedCommit
from kohort.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kohort.wire.messages.sync_group import SyncGroupRequest

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TRANSACTION = 1
"""Type of a key in FindCoordinator that is a transactional ID."""
_SYNC_NAMES_ITS_PROTOCOL_FROM = 5  # KIP-559
_JOIN_MAY_NAME_NO_PROTOCOL_FROM = 7

_R = TypeVar("_R", JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)


def member(access: RequestAccess, request: _R) -> _R | None:
    """Let a member of a classic group take part if it may read the group."""
    version = access.call.version
    if (
        isinstance(request, SyncGroupRequest)
        and version >= _SYNC_NAMES_ITS_PROTOCOL_FROM
        and (request.protocol_type is None or request.protocol_name is None)
    ):
        # Kafka checks this before the permission.
        access.refuse(refusal(request, version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return None
    if access.group(Operation.READ, request.group_id):
        return request
    refused = refusal(request, version, _DENIED)
    if isinstance(refused, JoinGroupResponse) and version >= _JOIN_MAY_NAME_NO_PROTOCOL_FROM:
        refused.protocol_name = None
    access.refuse(refused)
    return None


def consumer_group_heartbeat(
    access: RequestAccess, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatRequest | None:
    """Let a member take part if it may read the group and describe the topics that it names."""
    version = access.call.version
    if not access.group(Operation.READ, request.group_id):
        access.refuse(refusal(request, version, _DENIED))
        return None
    names = request.subscribed_topic_names or ()
    if not all(access.topic(Operation.DESCRIBE, name) for name in names):
        access.refuse(refusal(request, version, _TOPIC_DENIED))
        return None
    return request


def consumer_group_describe(
    access: RequestAccess, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeRequest | None:
    """Describe the groups that the client may describe, if it may describe all of their topics, too."""

    def amend(response: ConsumerGroupDescribeResponse) -> None:
        for at, group in enumerate(response.groups):
            if group.error_code != ErrorCode.NONE:
                continue
            if not all(access.topic(Operation.DESCRIBE, name) for name in _topics(group)):
                response.groups[at] = DescribedConsumerGroup(
                    group_id=group.group_id,
                    error_code=_TOPIC_DENIED,
                    error_message="The group has described topic(s) that the client is not authorized to describe.",
                )
            elif request.include_authorized_operations:
                group.authorized_operations = access.group_bits(group.group_id)

    access.amend(amend)
    return access.keep_allowed(
        request,
        "group_ids",
        lambda group_id: access.group(Operation.DESCRIBE, group_id),
        lambda group_id: DescribedConsumerGroup(group_id=group_id, error_code=_DENIED),
        ConsumerGroupDescribeResponse(),
        "groups",
    )


def _topics(group: DescribedConsumerGroup) -> set[str]:
    names = {name for member in group.members for name in member.subscribed_topic_names}
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            names.update(partitions.topic_name for partitions in assignment.topic_partitions)
    return names


def find_coordinator(access: RequestAccess, request: FindCoordinatorRequest) -> FindCoordinatorRequest | None:
    """Find the coordinators of groups that the client may describe."""
    transaction = request.key_type == _TRANSACTION
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if transaction else _DENIED

    def allowed(key: str) -> bool:
        return (
            access.transactional_id(Operation.DESCRIBE, key) if transaction else access.group(Operation.DESCRIBE, key)
        )

    def refused(key: str) -> Coordinator:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.sentence)

    if access.call.version >= 4:
        return access.keep_allowed(
            request, "coordinator_keys", allowed, refused, FindCoordinatorResponse(), "coordinators"
        )
    if allowed(request.key):
        return request
    access.refuse(FindCoordinatorResponse(error_code=code, error_message=code.sentence, node_id=-1, host="", port=-1))
    return None


def describe_groups(access: RequestAccess, request: DescribeGroupsRequest) -> DescribeGroupsRequest | None:
    """Describe the groups that the client may describe."""
    if request.include_authorized_operations:

        def amend(response: DescribeGroupsResponse) -> None:
            for group in response.groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = access.group_bits(group.group_id)

        access.amend(amend)
    return access.keep_allowed(
        request,
        "groups",
        lambda group_id: access.group(Operation.DESCRIBE, group_id),
        lambda group_id: DescribedGroup(group_id=group_id, error_code=_DENIED),
        DescribeGroupsResponse(),
        "groups",
    )


def list_groups(access: RequestAccess, request: ListGroupsRequest) -> ListGroupsRequest | None:
    """List all groups if the client may describe the cluster, otherwise those that it may describe."""
    if not access.cluster(Operation.DESCRIBE):

        def hide(response: ListGroupsResponse) -> None:
            response.groups = [group for group in response.groups if access.group(Operation.DESCRIBE, group.group_id)]

        access.amend(hide)
    return request


def delete_groups(access: RequestAccess, request: DeleteGroupsRequest) -> DeleteGroupsRequest | None:
    """Delete the groups that the client may delete."""
    return access.keep_allowed(
        request,
        "groups_names",
        lambda group_id: access.group(Operation.DELETE, group_id),
        lambda group_id: DeletableGroupResult(group_id=group_id, error_code=_DENIED),
        DeleteGroupsResponse(),
        "results",
    )


def offset_delete(access: RequestAccess, request: OffsetDeleteRequest) -> OffsetDeleteRequest | None:
    """Delete offsets of a group that the client may delete, for topics that it may read."""
    if not access.group(Operation.DELETE, request.group_id):
        access.refuse(OffsetDeleteResponse(error_code=_DENIED))
        return None

    def refused(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
        return OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=_TOPIC_DENIED)
                for partition in topic.partitions
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.READ, topic.name),
        refused,
        OffsetDeleteResponse(),
        "topics",
        refused_first=True,
    )


def offset_commit(access: RequestAccess, request: OffsetCommitRequest) -> OffsetCommitRequest | None:
    """Commit offsets in a group that the client may read, for topics that it may read."""
    if not access.group(Operation.READ, request.group_id):
        access.refuse(refusal(request, access.call.version, _DENIED))
        return None
    if isinstance(request, RepeatedCommit):
        if all(access.topic(Operation.READ, topic.name) for topic in request.shape.topics):
            return request
        request = request.plain()

    def refused(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
        return OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=_TOPIC_DENIED)
                for partition in topic.partitions
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic_or_id(Operation.READ, topic.name, topic.topic_id),
        refused,
        OffsetCommitResponse(),
        "topics",
        refused_first=True,
    )


_MANY_GROUPS_FROM = 8


def offset_fetch(access: RequestAccess, request: OffsetFetchRequest) -> OffsetFetchRequest | None:
    """Return offsets of groups and topics that the client may describe."""
    if access.call.version < _MANY_GROUPS_FROM:
        return _offset_fetch_of_one(access, request)
    by_group: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in request.groups:
        if group.topics is not None:
            denied = [topic for topic in group.topics if not _may_describe(access, topic)]
            if denied:
                group.topics = [topic for topic in group.topics if _may_describe(access, topic)]
                by_group.setdefault(group.group_id, []).extend(map(_refused_topics, denied))
    of_all = {group.group_id for group in request.groups if group.topics is None}

    def amend(response: OffsetFetchResponse) -> None:
        for group in response.groups:
            if group.error_code != ErrorCode.NONE:
                continue
            if group.group_id in of_all:
                group.topics = [
                    topic
                    for topic in group.topics
                    if access.topic_or_id(Operation.DESCRIBE, topic.name, topic.topic_id)
                ]
            group.topics.extend(by_group.get(group.group_id, ()))

    access.amend(amend)

    def refused(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=_DENIED)

    return access.keep_allowed(
        request,
        "groups",
        lambda group: access.group(Operation.DESCRIBE, group.group_id),
        refused,
        OffsetFetchResponse(),
        "groups",
    )


def _may_describe(access: RequestAccess, topic: OffsetFetchRequestTopics) -> bool:
    return access.topic_or_id(Operation.DESCRIBE, topic.name, topic.topic_id)


def _refused_topics(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=_TOPIC_DENIED)
            for index in topic.partition_indexes
        ],
    )


def _offset_fetch_of_one(access: RequestAccess, request: OffsetFetchRequest) -> OffsetFetchRequest | None:
    if not access.group(Operation.DESCRIBE, request.group_id):
        access.refuse(refusal(request, access.call.version, _DENIED))
        return None
    if request.topics is None:

        def hide(response: OffsetFetchResponse) -> None:
            response.topics = [topic for topic in response.topics if access.topic(Operation.DESCRIBE, topic.name)]

        access.amend(hide)
        return request

    def refused(topic: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
        return OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=_TOPIC_DENIED)
                for index in topic.partition_indexes
            ],
        )

    return access.keep_allowed(
        request,
        "topics",
        lambda topic: access.topic(Operation.DESCRIBE, topic.name),
        refused,
        OffsetFetchResponse(),
        "topics",
    )
