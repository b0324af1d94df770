"""A refused group request says its error where that version of its answer has a place for it."""

import pytest

from kohort.broker.groups.error_answers import refusal
from kohort.errors import ErrorCode
from kohort.wire.codec import Message, encode
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.list_groups import ListGroupsRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_delete import OffsetDeleteRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from kohort.wire.messages.sync_group import SyncGroupRequest

COMMIT = OffsetCommitRequest(
    topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=3)])]
)
FETCH = OffsetFetchRequest(topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[3])])
FETCH_MANY = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")])


@pytest.mark.parametrize(
    ("request_", "versions"),
    [
        (JoinGroupRequest(member_id="m"), range(10)),
        (SyncGroupRequest(), range(6)),
        (HeartbeatRequest(), range(5)),
        (LeaveGroupRequest(), range(6)),
        (COMMIT, range(2, 11)),
        (FETCH, range(1, 8)),
        (FETCH_MANY, range(8, 11)),
        (DescribeGroupsRequest(groups=["g"]), range(7)),
        (ListGroupsRequest(), range(6)),
        (DeleteGroupsRequest(groups_names=["g"]), range(3)),
        (OffsetDeleteRequest(group_id="g"), range(1)),
        (ConsumerGroupHeartbeatRequest(group_id="g"), range(2)),
        (ConsumerGroupDescribeRequest(group_ids=["g"]), range(2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_version_can_express_the_refusal(request_: Message, versions: range) -> None:
    for version in versions:
        refused = encode(refusal(request_, version, ErrorCode.NOT_COORDINATOR), version)
        assert ErrorCode.NOT_COORDINATOR.to_bytes(2, "big") in refused
