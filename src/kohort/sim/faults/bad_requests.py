"""Requests that must be rejected: from non-members, with an old epoch, or with invalid contents.

Each is sent unchanged to a group's coordinator, in the name of a member where it needs one. It must
change nothing in a group (S5, S13), and its response is one of Kafka's (S14). Members and
coordinators never send such requests, even if they malfunction. Without these clients, most error
codes would never be returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kohort.model import UUID
from kohort.sim.bad_request_names import BadRequest
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.wire.messages.sync_group import SyncGroupRequest

NOBODY = "nobody"
FAR = 1_000
"""Number of generations ahead that no group can reach while the request is in transit."""


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """Group, one of its members if there is one, and a topic."""

    group: str
    member_id: str = NOBODY
    generation: int = 1
    instance_id: str | None = None
    in_epochs: bool = False
    """Whether the member has an instance id and uses the consumer protocol.

    A first heartbeat with the instance id of any other member would replace that member.
    """
    topic: str = "orders"


def _join(group: str, **said: object) -> JoinGroupRequest:
    metadata = encode_subscription(Subscription(topics=("orders",)), 3)
    given: dict[str, object] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=metadata)],
        "member_id": NOBODY,
    }
    return JoinGroupRequest(group_id=group, **(given | said))  # type: ignore[arg-type]  # of its own fields


def _sync(victim: TargetGroup, **said: object) -> SyncGroupRequest:
    given: dict[str, object] = {
        "generation_id": victim.generation,
        "member_id": victim.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    return SyncGroupRequest(group_id=victim.group, **(given | said))  # type: ignore[arg-type]  # of its own fields


def _beat(victim: TargetGroup, **said: object) -> HeartbeatRequest:
    given: dict[str, object] = {"generation_id": victim.generation, "member_id": victim.member_id}
    return HeartbeatRequest(group_id=victim.group, **(given | said))  # type: ignore[arg-type]  # of its own fields


def _epoch(victim: TargetGroup, epoch: int, **said: object) -> ConsumerGroupHeartbeatRequest:
    given: dict[str, object] = {"member_id": victim.member_id}
    return ConsumerGroupHeartbeatRequest(
        group_id=victim.group,
        member_epoch=epoch,
        **(given | said),  # type: ignore[arg-type]  # of its own fields
    )


def _new(victim: TargetGroup, **said: object) -> ConsumerGroupHeartbeatRequest:
    """Return a valid first heartbeat except for the given fields."""
    given: dict[str, object] = {
        "member_id": NOBODY,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": [victim.topic],
        "topic_partitions": [],
    }
    return _epoch(victim, 0, **(given | said))


def _commit(victim: TargetGroup, generation: int, **said: object) -> OffsetCommitRequest:
    metadata = said.pop("metadata", "")
    topic = said.pop("topic", victim.topic)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=str(metadata))
    given: dict[str, object] = {"member_id": victim.member_id}
    return OffsetCommitRequest(
        group_id=victim.group,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=str(topic), partitions=[partition])],
        **(given | said),  # type: ignore[arg-type]  # of its own fields
    )


REQUESTS: Mapping[BadRequest, Callable[[TargetGroup], Message]] = {
    BadRequest.JOIN_EMPTY_GROUP_ID: lambda v: _join(""),
    BadRequest.JOIN_SHORT_SESSION: lambda v: _join(v.group, session_timeout_ms=1),
    BadRequest.JOIN_WITHOUT_ASSIGNORS: lambda v: _join(v.group, protocols=[]),
    BadRequest.JOIN_UNKNOWN_MEMBER: lambda v: _join(v.group),
    BadRequest.JOIN_OTHER_INSTANCE: lambda v: _join(v.group, group_instance_id=v.instance_id or "i0"),
    BadRequest.SYNC_EMPTY_GROUP_ID: lambda v: _sync(TargetGroup("")),
    BadRequest.SYNC_UNKNOWN_MEMBER: lambda v: _sync(v, member_id=NOBODY),
    BadRequest.SYNC_OLD_GENERATION: lambda v: _sync(v, generation_id=v.generation - 1),
    BadRequest.SYNC_OTHER_ASSIGNOR: lambda v: _sync(v, protocol_name="mine"),
    BadRequest.SYNC_OTHER_INSTANCE: lambda v: _sync(v, member_id=NOBODY, group_instance_id=v.instance_id or "i0"),
    BadRequest.HEARTBEAT_EMPTY_GROUP_ID: lambda v: _beat(TargetGroup("")),
    BadRequest.HEARTBEAT_UNKNOWN_MEMBER: lambda v: _beat(v, member_id=NOBODY),
    BadRequest.HEARTBEAT_OLD_GENERATION: lambda v: _beat(v, generation_id=v.generation - 1),
    BadRequest.HEARTBEAT_OTHER_INSTANCE: lambda v: _beat(v, member_id=NOBODY, group_instance_id=v.instance_id or "i0"),
    BadRequest.LEAVE_EMPTY_GROUP_ID: lambda v: LeaveGroupRequest(
        group_id="", members=[MemberIdentity(member_id=NOBODY)]
    ),
    BadRequest.LEAVE_UNKNOWN_MEMBER: lambda v: LeaveGroupRequest(
        group_id=v.group, members=[MemberIdentity(member_id=NOBODY)]
    ),
    BadRequest.LEAVE_OTHER_INSTANCE: lambda v: LeaveGroupRequest(
        group_id=v.group, members=[MemberIdentity(member_id=NOBODY, group_instance_id=v.instance_id or "i0")]
    ),
    BadRequest.CONSUMER_HEARTBEAT_EMPTY_GROUP_ID: lambda v: _new(TargetGroup("")),
    BadRequest.CONSUMER_HEARTBEAT_UNKNOWN_MEMBER: lambda v: _epoch(v, 3, member_id=NOBODY),
    BadRequest.CONSUMER_HEARTBEAT_FUTURE_EPOCH: lambda v: _epoch(v, v.generation + FAR),
    BadRequest.CONSUMER_HEARTBEAT_OLD_EPOCH: lambda v: _epoch(v, max(v.generation - 7, 1)),
    BadRequest.CONSUMER_HEARTBEAT_INVALID_EPOCH: lambda v: _epoch(v, -3),
    BadRequest.CONSUMER_HEARTBEAT_LIVE_INSTANCE: lambda v: (
        _new(v, instance_id=v.instance_id) if v.in_epochs else _epoch(v, -3)
    ),
    BadRequest.CONSUMER_HEARTBEAT_OTHER_INSTANCE: lambda v: _epoch(
        v, v.generation, member_id=NOBODY, instance_id=v.instance_id or "i0"
    ),
    BadRequest.CONSUMER_HEARTBEAT_LEAVE_UNKNOWN_MEMBER: lambda v: _epoch(v, -1, member_id=NOBODY),
    BadRequest.CONSUMER_HEARTBEAT_JOIN_WITH_PARTITIONS: lambda v: _new(
        v, topic_partitions=[TopicPartitions(partitions=[0])]
    ),
    BadRequest.CONSUMER_HEARTBEAT_UNKNOWN_ASSIGNOR: lambda v: _new(v, server_assignor="nonsense"),
    BadRequest.CONSUMER_HEARTBEAT_INVALID_EXPRESSION: lambda v: _new(v, subscribed_topic_regex="("),
    BadRequest.COMMIT_UNKNOWN_MEMBER: lambda v: _commit(v, 3, member_id=NOBODY),
    # These are generations at which no partition was ever assigned: a commit is valid from the generation of
    # the assignment on (KIP-1251). Partitions that a static member took over count as assigned since the
    # first generation.
    BadRequest.COMMIT_OLD_GENERATION: lambda v: _commit(v, 0 if v.instance_id is None else v.generation + FAR),
    BadRequest.COMMIT_FUTURE_GENERATION: lambda v: _commit(v, v.generation + FAR),
    BadRequest.COMMIT_OTHER_INSTANCE: lambda v: _commit(
        v, 3, member_id=NOBODY, group_instance_id=v.instance_id or "i0"
    ),
    BadRequest.COMMIT_LARGE_METADATA: lambda v: _commit(v, v.generation, metadata="x" * 5_000),
    BadRequest.COMMIT_UNKNOWN_TOPIC: lambda v: _commit(v, v.generation, topic="no-such-topic"),
    BadRequest.COMMIT_UNKNOWN_GROUP: lambda v: _commit(TargetGroup("no-such-group"), 3),
    BadRequest.DELETE_LIVE_GROUP: lambda v: DeleteGroupsRequest(groups_names=[v.group]),
    BadRequest.DELETE_UNKNOWN_GROUP: lambda v: DeleteGroupsRequest(groups_names=["no-such-group"]),
    BadRequest.DELETE_OFFSETS_LIVE_GROUP: lambda v: OffsetDeleteRequest(
        group_id=v.group,
        topics=[OffsetDeleteRequestTopic(name=v.topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
    ),
    BadRequest.DELETE_OFFSETS_UNKNOWN_GROUP: lambda v: OffsetDeleteRequest(group_id="no-such-group"),
    BadRequest.DELETE_OFFSETS_EMPTY_GROUP_ID: lambda v: OffsetDeleteRequest(group_id=""),
    BadRequest.FETCH_OFFSETS_UNKNOWN_MEMBER: lambda v: OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=v.group, member_id=NOBODY, member_epoch=3, topics=[])]
    ),
    BadRequest.FETCH_OFFSETS_WRONG_EPOCH: lambda v: OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=v.group, member_id=v.member_id, member_epoch=999, topics=[])]
    ),
    BadRequest.CONSUMER_HEARTBEAT_PREVIOUS_EPOCH: lambda v: _epoch(
        v,
        v.generation - 1 if v.generation > 1 else -3,
        topic_partitions=[TopicPartitions(topic_id=UUID(int=1), partitions=[0])],
    ),
    BadRequest.DESCRIBE_UNKNOWN_GROUP: lambda v: ConsumerGroupDescribeRequest(group_ids=["no-such-group"]),
}
"""Functions that make the requests."""
assert list(REQUESTS) == list(BadRequest)

CLAIM = BadRequest.CONSUMER_HEARTBEAT_LIVE_INSTANCE
"""Request that takes over a member's instance id if the member's session has just ended."""

HARMLESS = [name for name in REQUESTS if name != CLAIM]
"""Requests that can never count as a member's."""


def commit_without_member(group: str, topic: str) -> OffsetCommitRequest:
    """Return a commit from a client outside of a group, for a group without members: it is accepted and written."""
    return _commit(TargetGroup(group, member_id="", topic=topic), -1)
