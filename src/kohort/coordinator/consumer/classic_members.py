"""Members of a consumer group that speak the classic protocol, while the group migrates: their requests, translated.

To such a member the coordinator is a leader that nobody sees: its JoinGroup is answered at once, with the member epoch
as generation, and its SyncGroup with what it may own now. Where it has to do something it is told to join again: to
give up (its next join proves it), to get what others gave up, or to follow a new target.
"""

from collections.abc import Mapping
from dataclasses import replace

from kohort.coordinator.consumer.beat import Beat
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ClassicSide, ConsumerMember, Subscription
from kohort.coordinator.consumer.metadata import UNKNOWN
from kohort.coordinator.consumer.migration import assignment_of, partitions_by_id
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.target import is_due
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Groups
from kohort.coordinator.refusing import TOO_LARGE, join_refused_because, subscription_size
from kohort.coordinator.replies import join_refused, sync_refused
from kohort.coordinator.subscriptions import CONSUMER, are_readable, read_subscription
from kohort.coordinator.timers import SessionTimeout
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis
from kohort.wire.consumer_protocol import Subscription as Said
from kohort.wire.heartbeat import HeartbeatRequest
from kohort.wire.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBER_ID_REQUIRED = 4
"""From this version of JoinGroup on, a first join only hands out a member id (KIP-394)."""


# JoinGroup


def join_as_classic_member(
    groups: Groups,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    protocols: Mapping[str, bytes],
    rebalance_timeout_ms: Millis,
    context: RequestContext,
    now: Millis,
    out: Effects,
) -> None:
    """Answer one JoinGroup, whose session timeout is allowed."""
    try:
        _check_join(groups, group, request, protocols)
        member_id = request.member_id or f"{context.client_id}-{groups.fresh_id()}"
        if context.api_version >= _MEMBER_ID_REQUIRED and not request.member_id and request.group_instance_id is None:
            _hand_out(groups, group, member_id)
            out.replies[context.token] = join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version)
            return
        before = _joining(group, request, member_id)
    except KafkaError as refused:
        out.replies[context.token] = join_refused(refused.code, request.member_id, context.api_version)
        join_refused_because(groups, group, request, protocols, refused.code, context, out)
        return
    said = read_subscription(next(iter(protocols.values())))
    assert said is not None, "it was checked"
    after = _as_said(before, member_id, request, protocols, said, context)
    after = replace(after, rebalance_timeout_ms=rebalance_timeout_ms)
    beat = Beat(groups, group, before, before if after == before else after, {}, now, out)
    epoch = beat.change_member()
    target_epoch, target = beat.update_target(epoch)
    owned = Partitions.of((topic_id, [n]) for topic_id, n in partitions_by_id(groups.metadata, said.owned_partitions))
    moved = beat.move(target_epoch, target, owned)
    _expect_sync(group, moved, now, out)
    assert moved.classic is not None
    out.replies[context.token] = JoinGroupResponse(
        generation_id=moved.epoch,
        protocol_type=CONSUMER,
        protocol_name=moved.classic.protocol,
        leader="",  # nobody's: a member that led would compute an assignment
        member_id=member_id,
    )


def last_place(
    groups: Groups, group: ConsumerGroup, request: JoinGroupRequest, protocols: Mapping[str, bytes]
) -> ConsumerMember | None:
    """The member of the consumer protocol that this join is the next life of, if there is no other of its protocol.

    Then the group becomes a classic one, where it may.
    """
    holder = None if request.group_instance_id is None else group.static_member(request.group_instance_id)
    if holder is None or holder.classic is not None or request.member_id:
        return None
    alone = group.classic_members == len(group.members) - 1 and len(group.members) <= groups.config.max_size
    if not (alone and groups.config.consumer_migration_policy.downgrades):
        return None
    fits = subscription_size(protocols) <= groups.config.max_subscription_bytes
    fits = (
        fits and request.protocol_type == CONSUMER and are_readable(CONSUMER, protocols) and group.supports(protocols)
    )
    return holder if fits else None


def _check_join(
    groups: Groups, group: ConsumerGroup, request: JoinGroupRequest, protocols: Mapping[str, bytes]
) -> None:
    if groups.metadata is UNKNOWN:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    policy = groups.config.consumer_migration_policy
    if not (policy.upgrades or policy.downgrades):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    holder = None if request.group_instance_id is None else group.static_member(request.group_instance_id)
    is_new = request.member_id not in group.members and holder is None
    if is_new and len(group.members) >= groups.config.consumer_max_size:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if subscription_size(protocols) > groups.config.max_subscription_bytes:
        raise KafkaError(TOO_LARGE)
    speaks = request.protocol_type == CONSUMER and are_readable(CONSUMER, protocols)
    if not (speaks and group.supports(protocols)):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _joining(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> ConsumerMember:
    """The member as it is on record, or a new one; a static one that starts again may be there under another id.

    One whose id nobody knows was put out of the group, and may not know yet that others have what it holds. (Kafka
    takes it for a new one.)
    """
    instance_id = request.group_instance_id
    if instance_id is None:
        known = group.members.get(member_id)
        if known is None and request.member_id and request.member_id not in group.handed_out:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group.handed_out.pop(member_id, None)
        return known or ConsumerMember(member_id)
    holder = group.static_member(instance_id)
    if holder is None and request.member_id:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if holder is not None and request.member_id not in ("", holder.member_id):
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return holder or ConsumerMember(member_id)


def _hand_out(groups: Groups, group: ConsumerGroup, member_id: str) -> None:
    if len(group.handed_out) >= groups.config.max_pending_members:
        del group.handed_out[next(iter(group.handed_out))]
    group.handed_out[member_id] = None


def _as_said(
    before: ConsumerMember,
    member_id: str,
    request: JoinGroupRequest,
    protocols: Mapping[str, bytes],
    said: Said,
    context: RequestContext,
) -> ConsumerMember:
    after = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=said.rack_id or before.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        subscription=Subscription(frozenset(said.topics)),
        weight=None,  # its protocol has no word for it; an operator may give it one
        classic=ClassicSide(request.session_timeout_ms, tuple(protocols.items())),
    )
    if before.member_id != member_id:
        after = replace(after, member_id=member_id, epoch=0, previous_epoch=0)
    return after


def _expect_sync(group: ConsumerGroup, moved: ConsumerMember, now: Millis, out: Effects) -> None:
    assert moved.classic is not None
    deadline = now + moved.classic.session_timeout_ms
    known = group.members.get(moved.member_id)
    due_at = group.answers_due[moved.member_id] = now + max(moved.rebalance_timeout_ms, 0)
    if known is None:
        out.timers[SessionTimeout(group.group_id, moved.member_id)] = min(deadline, due_at)
    else:
        known.session_deadline = deadline


# SyncGroup


def sync_as_classic_member(
    groups: Groups,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    context: RequestContext,
    now: Millis,
    out: Effects,
) -> None:
    """Answer one SyncGroup with what the member may own."""
    try:
        member, classic = _find(group, request.member_id, request.group_instance_id)
        if request.generation_id != member.epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, classic.protocol):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if member.state is not MemberState.UNREVOKED_PARTITIONS and _is_behind(groups, group, member, now):
            _expect_join(group, member, now)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    except KafkaError as refused:
        out.replies[context.token] = sync_refused(refused.code)
        return
    member.session_deadline = now + classic.session_timeout_ms
    group.answers_due.pop(member.member_id, None)
    out.replies[context.token] = SyncGroupResponse(
        protocol_type=CONSUMER,
        protocol_name=classic.protocol,
        assignment=assignment_of(groups, member, member.assigned),
    )


# Heartbeat


def heartbeat_of_classic_member(
    groups: Groups, group: ConsumerGroup, request: HeartbeatRequest, now: Millis
) -> ErrorCode:
    """Keep its session, and say whether it has to join again."""
    try:
        member, classic = _find(group, request.member_id, request.group_instance_id)
    except KafkaError as refused:
        return refused.code
    if request.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    member.session_deadline = now + classic.session_timeout_ms
    if _is_behind(groups, group, member, now) or _has_something_to_do(group, member):
        _expect_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[ConsumerMember, ClassicSide]:
    """Raises KafkaError UNKNOWN_MEMBER_ID, also for a member of the consumer protocol, or FENCED_INSTANCE_ID."""
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is not None and member.member_id != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if member is None or member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _is_behind(groups: Groups, group: ConsumerGroup, member: ConsumerMember, now: Millis) -> bool:
    """Whether there is a newer target than the member's, or its next join would have one computed."""
    return member.epoch < group.target_epoch or (group.epoch > group.target_epoch and is_due(groups, group, now))


def _has_something_to_do(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether it must give up something, or everything is free that it waits for."""
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not group.taken(group.target_of(member.member_id) - member.assigned)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _expect_join(group: ConsumerGroup, member: ConsumerMember, now: Millis) -> None:
    group.answers_due.setdefault(member.member_id, now + max(member.rebalance_timeout_ms, 0))
