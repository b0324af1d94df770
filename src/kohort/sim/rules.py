"""What is expected of a request to a classic group, by Kafka's rules and not by the coordinator's code."""

from __future__ import annotations

from copy import copy

from kohort.coordinator import GroupState
from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.member import Member
from kohort.errors import ErrorCode
from kohort.wire.codec import DecodeError, Message
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.join_group import JoinGroupRequest
from kohort.wire.leave_group import LeaveGroupRequest
from kohort.wire.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.sync_group import SyncGroupRequest


def codes(reply: Message) -> list[ErrorCode]:
    """Every error code that stands in the answer."""
    code = getattr(reply, "error_code", None)
    if code is not None:
        return [ErrorCode(code)]
    if isinstance(reply, OffsetCommitResponse):
        return [ErrorCode(one.error_code) for topic in reply.topics for one in topic.partitions]
    return []


def must_refuse(group: ClassicGroup | None, member_id: str, instance_id: str | None, generation: int) -> bool:
    """Kafka's rule for who speaks as a member."""
    if group is None or member_id not in group.members:
        return True
    if instance_id is not None and group.static_ids.get(instance_id) != member_id:
        return True
    return generation != group.generation


def is_stale(group: ClassicGroup | None, request: Message, version: int) -> bool:
    """Whether it comes from who is no member, or from an older generation (S5, S6)."""
    match request:
        case SyncGroupRequest():
            return must_refuse(group, request.member_id, request.group_instance_id, request.generation_id)
        case OffsetCommitRequest():
            if request.generation_id_or_member_epoch < 0:
                # Whoever is no member may commit for a group without members.
                return group is not None and group.state is not GroupState.EMPTY
            generation = request.generation_id_or_member_epoch
            return must_refuse(group, request.member_id, request.group_instance_id, generation)
        case LeaveGroupRequest():
            known = () if group is None else (*group.members, *group.pending)
            if version < 3:
                return request.member_id not in known
            return all(one.member_id and one.member_id not in known for one in request.members)
        case _:
            return False


def holder_of(group: ClassicGroup, request: Message) -> Member | None:
    """The life before of the static member that joins, if it is one that starts anew."""
    if not isinstance(request, JoinGroupRequest) or request.member_id:
        return None
    old = group.static_ids.get(request.group_instance_id or "")
    return None if old is None else copy(group.members[old])


def returning(group: ClassicGroup | None, request: Message) -> str | None:
    """The member that a JoinGroup takes over from without a rebalance (KIP-345), if it is such a one."""
    if group is None or not isinstance(request, JoinGroupRequest) or request.member_id or not request.protocols:
        return None
    old = group.static_ids.get(request.group_instance_id or "")
    if old is None or group.state is not GroupState.STABLE:
        return None
    said = {one.name: bytes(one.metadata) for one in request.protocols}
    member = group.members[old]
    if gives_up(member):
        return None  # others wait for what it was to give up, so everybody joins again
    same_names = list(said) == list(member.protocols)
    return old if same_names and request.session_timeout_ms == member.session_timeout_ms else None


def gives_up(member: Member) -> bool:
    """Whether what it said to own when it joined is more than what it was then given."""
    try:
        has = set(decode_assignment(member.assignment).partitions) if member.assignment else set()
        owned = {tp for said in member.protocols.values() for tp in decode_subscription(said).owned_partitions}
    except DecodeError:
        return False
    return bool(owned - has)


def fingerprint(group: ClassicGroup | None) -> object:
    """What of a group somebody could notice, beside when sessions end."""
    if group is None:
        return None
    rebalance = group.rebalance
    return (
        group.state,
        group.generation,
        group.leader_id,
        tuple(group.members),
        tuple(group.pending),
        tuple(rebalance.joining),
        tuple(rebalance.syncing),
        group.stored,
    )
