"""States of a group in which Kafka rejects a member's first join for good (S14)."""

from __future__ import annotations

from kohort.coordinator import MigrationPolicy
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import STATIC_LEAVE_EPOCH
from kohort.errors import ErrorCode
from kohort.wire.codec import DecodeError, Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.consumer_protocol import decode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest

EXPECTED = frozenset({ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL})
"""Errors that `expected_refusal` returns."""


def expected_refusal(
    group: ClassicGroup | ConsumerGroup | None, request: Message, policy: MigrationPolicy
) -> ErrorCode | None:
    """Return UNRELEASED_INSTANCE_ID or INCONSISTENT_GROUP_PROTOCOL if the state of the group gives it, else None.

    Another error may take precedence.
    """
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return ErrorCode.UNRELEASED_INSTANCE_ID if _is_in_use(group, request) else None
    if isinstance(request, JoinGroupRequest) and not _may_join(group, request, policy):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _is_in_use(group: ClassicGroup | ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a member that joins claims the instance id of another one that has not announced to be away.

    A member that uses the classic protocol cannot announce it, so its instance id is always free.
    """
    if not isinstance(group, ConsumerGroup) or request.instance_id is None or request.member_epoch != 0:
        return False
    holders = [
        member
        for member in group.members.values()
        if member.instance_id == request.instance_id and member.classic is None
    ]
    return any(holder.member_id != request.member_id and holder.epoch != STATIC_LEAVE_EPOCH for holder in holders)


def _may_join(group: ClassicGroup | ConsumerGroup | None, request: JoinGroupRequest, policy: MigrationPolicy) -> bool:
    if isinstance(group, ConsumerGroup) and group.members and not (policy.upgrades or policy.downgrades):
        return False
    offered = {protocol.name for protocol in request.protocols}
    if not offered or (request.protocol_type == "consumer" and not _are_readable(request)):
        return False
    if isinstance(group, ConsumerGroup):
        sides = [member.classic for member in group.members.values() if member.classic is not None]
        others = [{name for name, _ in side.protocols} for side in sides]
        kind: str | None = "consumer" if group.members else request.protocol_type
    else:
        members = [] if group is None else list(group.members.values())
        others = [set(member.protocols) for member in members]
        kind = request.protocol_type if group is None or not members else group.protocol_type
    # The assignors that all members offer include those of the member's last join, which this one replaces.
    return request.protocol_type == kind and bool(offered.intersection(*others))


def _are_readable(request: JoinGroupRequest) -> bool:
    try:
        for protocol in request.protocols:
            decode_subscription(protocol.metadata)
    except DecodeError:
        return False
    return True
