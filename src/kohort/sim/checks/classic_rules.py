"""Expected results of requests to a classic group, by Kafka's rules and not by the coordinator's code."""

from __future__ import annotations

from copy import copy

from kohort.coordinator import GroupState
from kohort.coordinator.classic import ClassicGroup, Member
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError, Message
from kohort.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.sync_group import SyncGroupRequest

ACCEPTED = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""Codes of responses to a member at its generation: a member that is to join again is still one."""


def codes(reply: Message) -> list[ErrorCode]:
    """Return every error code in the response."""
    if isinstance(reply, LeaveGroupResponse) and reply.members and not reply.error_code:
        return [ErrorCode(member.error_code) for member in reply.members]
    code = getattr(reply, "error_code", None)
    if code is not None:
        return [ErrorCode(code)]
    if isinstance(reply, OffsetCommitResponse):
        return [ErrorCode(partition.error_code) for topic in reply.topics for partition in topic.partitions]
    return []


def must_refuse(group: ClassicGroup | None, member_id: str, instance_id: str | None, generation: int) -> bool:
    """Return whether Kafka's rule for requests of members rejects this sender."""
    if group is None or member_id not in group.members:
        return True
    if instance_id is not None and group.static_ids.get(instance_id) != member_id:
        return True
    return generation != group.generation


def is_stale(group: ClassicGroup | None, request: Message, version: int) -> bool:
    """Return whether the request is from a non-member, or of an older generation (S5, S6)."""
    match request:
        case SyncGroupRequest():
            return must_refuse(group, request.member_id, request.group_instance_id, request.generation_id)
        case OffsetCommitRequest():
            if request.generation_id_or_member_epoch < 0:
                # A non-member may commit for a group without members.
                return group is not None and group.state is not GroupState.EMPTY
            generation = request.generation_id_or_member_epoch
            return must_refuse(group, request.member_id, request.group_instance_id, generation)
        case JoinGroupRequest():
            return _is_strange_join(group, request)
        case LeaveGroupRequest():
            known = () if group is None else (*group.members, *group.pending)
            if version < 3:
                return request.member_id not in known
            return all(member.member_id and member.member_id not in known for member in request.members)
        case _:
            return False


def _is_strange_join(group: ClassicGroup | None, request: JoinGroupRequest) -> bool:
    """Return whether a join names a member id that the group does not have, or that lost its instance id."""
    member_id, instance_id = request.member_id, request.group_instance_id
    if not member_id:
        return False
    if group is None:
        return True
    if member_id in group.pending and instance_id is None:
        return False
    return member_id not in group.members or (
        instance_id is not None and group.static_ids.get(instance_id) != member_id
    )


def holder_of(group: ClassicGroup, request: Message) -> Member | None:
    """Return the previous incarnation of the static member that joins, if it was restarted."""
    if not isinstance(request, JoinGroupRequest) or request.member_id:
        return None
    old = group.static_ids.get(request.group_instance_id or "")
    return None if old is None else copy(group.members[old])


def returning(group: ClassicGroup | None, request: Message) -> str | None:
    """Return the member that a JoinGroup replaces without a rebalance (KIP-345), if any."""
    if group is None or not isinstance(request, JoinGroupRequest) or request.member_id or not request.protocols:
        return None
    old = group.static_ids.get(request.group_instance_id or "")
    if old is None or group.state is not GroupState.STABLE:
        return None
    said = {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}
    member = group.members[old]
    if gives_up(member):
        return None  # others wait for the partitions that it was to give up, so all members join again
    same_names = list(said) == list(member.protocols)
    return old if same_names and request.session_timeout_ms == member.session_timeout_ms else None


def gives_up(member: Member) -> bool:
    """Return whether the member claimed more partitions when it joined than it was then assigned."""
    try:
        has = set(decode_assignment(member.assignment).partitions) if member.assignment else set()
        owned = {tp for said in member.protocols.values() for tp in decode_subscription(said).owned_partitions}
    except DecodeError:
        return False
    return bool(owned - has)


def kept_partitions(group: ClassicGroup | None, request: Message) -> frozenset[TopicPartition]:
    """Return what a member of the group keeps processing while it joins again: the partitions that it claims."""
    if group is None or not isinstance(request, JoinGroupRequest) or request.member_id not in group.members:
        return frozenset()
    try:
        said = [decode_subscription(protocol.metadata) for protocol in request.protocols]
    except DecodeError:
        return frozenset()
    return frozenset(tp for subscription in said for tp in subscription.owned_partitions)


def asked_topics(member: Member) -> list[frozenset[str]] | None:
    """Return the topics of each of the member's subscriptions, without what it owns; None if one is unreadable."""
    try:
        return [frozenset(decode_subscription(said).topics) for said in member.protocols.values()]
    except DecodeError:
        return None


def fingerprint(group: ClassicGroup | None) -> object:
    """Return the state of a group that no rejected request may change, with the sessions of its members."""
    if group is None:
        return None
    rebalance = group.rebalance
    return (
        group.state,
        group.generation,
        group.leader_id,
        {member_id: member.session_deadline for member_id, member in group.members.items()},
        tuple(group.pending),
        tuple(rebalance.joining),
        tuple(rebalance.syncing),
        group.stored,
    )
