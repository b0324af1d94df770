"""Lines of a transcript about consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kohort.coordinator import Effects
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.states import MemberState
from kohort.errors import ErrorCode
from kohort.model import UUID, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tests.scenarios.hearing import listing

Names = Mapping[UUID, str]

_DEFAULT_INTERVAL = 5_000


def _places(topics: Iterable[Any], names: Names) -> str:
    """Partitions of topics as the wire and the log have them."""
    return listing(TopicPartition(names[topic.topic_id], number) for topic in topics for number in topic.partitions)


def reply(response: Message, names: Names) -> list[str]:
    """One answer in a line, or a few; none if it is of another kind."""
    match response:
        case ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=-1):
            return ["left"]
        case ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=-2):
            return ["left for a while"]
        case ConsumerGroupHeartbeatResponse(error_code=0):
            words = [f"at epoch {response.member_epoch}"]
            if response.assignment is not None:
                words.append(f"has {_places(response.assignment.topic_partitions, names)}")
            if response.heartbeat_interval_ms != _DEFAULT_INTERVAL:
                words.append(f"every {response.heartbeat_interval_ms} ms")
            return [" ".join(words)]
        case ConsumerGroupHeartbeatResponse():
            return [f"beat: {ErrorCode(response.error_code).name}"]
        case ConsumerGroupDescribeResponse():
            return [line for group in response.groups for line in _described(group)]
        case _:
            return []


def _described(group: DescribedGroup) -> Iterator[str]:
    if group.error_code:
        yield f"described {group.group_id}: {ErrorCode(group.error_code).name}"
        return
    epochs = f"epoch={group.group_epoch} target={group.assignment_epoch}"
    yield f"described {group.group_id}: {group.group_state} {epochs} {group.assignor_name}"
    for member in sorted(group.members, key=lambda each: each.member_id):
        has, target = ([TopicPartition(t.topic_name, p) for t in share.topic_partitions for p in t.partitions]
                       for share in (member.assignment, member.target_assignment))  # fmt: skip
        who = member.member_id + (f" ({member.instance_id})" if member.instance_id else "")
        asks = ",".join([*sorted(member.subscribed_topic_names), member.subscribed_topic_regex or ""]).strip(",")
        yield f"  {who} at {member.member_epoch} asks {asks} has {listing(has)} target {listing(target)}"


def written(effects: Effects, names: Names) -> Iterator[str]:
    """Return a line per record that is appended to the log."""
    for record in effects.records:
        line = _record(record.key, record.value, names)
        if line:
            yield f"log: {line}"


def _record(key: Message, value: Message | None, names: Names) -> str | None:
    match key:
        case ConsumerGroupMetadataKey():
            assert value is None or isinstance(value, ConsumerGroupMetadataValue)
            return f"{key.group_id} deleted" if value is None else f"{key.group_id} epoch {value.epoch}"
        case ConsumerGroupMemberMetadataKey():
            if value is None:
                return f"{key.group_id} without {key.member_id}"
            assert isinstance(value, ConsumerGroupMemberMetadataValue)
            asks = ",".join([*value.subscribed_topic_names, value.subscribed_topic_regex or ""]).strip(",")
            return f"{key.group_id} {key.member_id} asks {asks or 'nothing'}"
        case ConsumerGroupTargetAssignmentMetadataKey():
            assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
            return None if value is None else f"{key.group_id} target epoch {value.assignment_epoch}"
        case ConsumerGroupTargetAssignmentMemberKey():
            if value is None:
                return None
            assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
            return f"{key.group_id} {key.member_id} should have {_places(value.topic_partitions, names)}"
        case ConsumerGroupCurrentMemberAssignmentKey():
            assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            return None if value is None else f"{key.group_id} {key.member_id} {_current(value, names)}"
        case ConsumerGroupRegularExpressionKey():
            assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
            matches = "is asked for no more" if value is None else f"matches [{' '.join(value.topics)}]"
            return f"{key.group_id} {key.regular_expression} {matches}"
        case _:
            return None


def _current(value: ConsumerGroupCurrentMemberAssignmentValue, names: Names) -> str:
    words = [f"at {value.member_epoch} {MemberState(value.state).name}", _places(value.assigned_partitions, names)]
    if value.partitions_pending_revocation:
        words.append(f"gives up {_places(value.partitions_pending_revocation, names)}")
    return " ".join(words)


def state(group: ConsumerGroup, names: Names) -> str:
    """One group in a line."""
    members = " ".join(_member(member, names) for member in group.members.values())
    return f"state: {group.group_id} {group.state.value} epoch={group.epoch} target={group.target_epoch} {members}"


def _member(member: ConsumerMember, names: Names) -> str:
    has = listing(TopicPartition(names[t], p) for t, p in member.assigned)
    gives = f"-{listing(TopicPartition(names[t], p) for t, p in member.revoking)}" if member.revoking else ""
    return f"{member.member_id}={member.epoch}/{member.state.name}{has}{gives}"
