"""States of a group in which Kafka rejects a member for good, or because another took over its instance id (S14)."""

from __future__ import annotations

from collections.abc import Set

from kohort.coordinator import GroupConfig, GroupState, MigrationPolicy
from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import STATIC_LEAVE_EPOCH, ConsumerGroup
from kohort.errors import ErrorCode
from kohort.wire.codec import DecodeError, Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.consumer_protocol import decode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest

EXPECTED = frozenset(
    {
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Errors that `expected_refusals` returns."""


def expected_refusals(
    group: ClassicGroup | ConsumerGroup | None, request: Message, config: GroupConfig
) -> Set[ErrorCode]:
    """Return the errors of `EXPECTED` that the state of the group gives to a request of a member.

    Another error may take precedence.
    """
    expected = set()
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        if _is_in_use(group, request):
            expected.add(ErrorCode.UNRELEASED_INSTANCE_ID)
        if _is_full_for_heartbeat(group, request, config.consumer_max_size):
            expected.add(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if _is_no_consumer_group(group, request, config):
            expected.add(ErrorCode.GROUP_ID_NOT_FOUND)
    elif isinstance(request, JoinGroupRequest):
        if not _may_join(group, request, config.consumer_migration_policy):
            expected.add(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if _is_full(group, request, config):
            expected.add(ErrorCode.GROUP_MAX_SIZE_REACHED)
    return expected


def names_replaced_member(group: ClassicGroup | ConsumerGroup | None, request: Message) -> bool:
    """Return whether another member has the instance id that the request names: FENCED_INSTANCE_ID."""
    if group is None or not group.static_ids:
        return False
    if isinstance(request, LeaveGroupRequest):
        senders = [(member.member_id, member.group_instance_id) for member in request.members]
    else:
        instance_id = getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None)
        senders = [(getattr(request, "member_id", ""), instance_id)]
    return any(group.static_ids.get(instance_id or "", member_id) != member_id for member_id, instance_id in senders)


def _is_full(group: ClassicGroup | ConsumerGroup | None, request: JoinGroupRequest, config: GroupConfig) -> bool:
    """Return whether a group has no room for the member that joins.

    While a classic group rebalances, only members that have joined count, as in Kafka. A static member
    that returns takes its own place.
    """
    if group is None or not group.members:
        return False
    member_id = request.member_id or group.static_ids.get(request.group_instance_id or "", "")
    if isinstance(group, ConsumerGroup):
        return member_id not in group.members and len(group.members) >= config.consumer_max_size
    if group.state is GroupState.PREPARING_REBALANCE:
        joining = group.rebalance.joining
        return member_id not in joining and len(joining) >= config.max_size
    return member_id not in group.members and len(group.members) >= config.max_size


def _is_full_for_heartbeat(
    group: ClassicGroup | ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest, most: int
) -> bool:
    """Return whether a group has no room for a member that it does not have; a classic group becomes a consumer group.

    Kafka rejects such a member for the size before it looks at its epoch.
    """
    if group is None or request.member_epoch < 0:
        return False
    is_known = request.member_id in group.members or (request.instance_id or "") in group.static_ids
    return not is_known and len(group.members) >= most


def _is_no_consumer_group(
    group: ClassicGroup | ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest, config: GroupConfig
) -> bool:
    """Return whether there is no consumer group, and the heartbeat does not make one."""
    if isinstance(group, ConsumerGroup):
        return False
    if request.member_epoch != 0:
        return True
    if group is None or group.state is GroupState.EMPTY:
        return False
    upgrades = config.consumer_migration_policy.upgrades and group.protocol_type == "consumer"
    return not upgrades or len(group.members) > config.consumer_max_size


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
