"""Requests of members that use the classic protocol in a consumer group, while the group migrates.

The coordinator acts as the leader for these members. It answers a JoinGroup immediately, with the
member epoch as the generation, and a SyncGroup with the partitions that the member may own now. It
asks a member to rejoin in three cases: the member must give up partitions (its next join proves
that it did), the partitions that it waits for are free, or there is a new target.
"""

from collections.abc import Mapping
from dataclasses import replace

from kohort.coordinator.classic import JoinAttempt, join_refused, sync_refused
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import JOIN_EPOCH, ClassicProtocolState, ConsumerMember, Subscription
from kohort.coordinator.consumer.member_update import MemberUpdate
from kohort.coordinator.consumer.migration import assignment_of, downgrade_for, partitions_by_id
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.target import is_due
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.rejections import TOO_LARGE, RefusingGroup, join_refused_because, subscription_size
from kohort.coordinator.subscriptions import CONSUMER, are_readable, read_subscription
from kohort.coordinator.timers import SessionTimeout
from kohort.coordinator.topic_metadata import UNKNOWN
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis
from kohort.wire.messages.consumer_protocol import Subscription as ConsumerSubscription
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBER_ID_REQUIRED = 4
"""First version of JoinGroup in which a member's first join only returns a member ID (KIP-394)."""


# JoinGroup


def join_as_classic_member(groups: ConsumerGroups, group: ConsumerGroup, attempt: JoinAttempt, out: Effects) -> bool:
    """Answer one JoinGroup whose session timeout is valid.

    Returns False if the group has become a classic group instead, which the member then has to join.
    """
    holder = _last_consumer_member(groups, group, attempt.request, attempt.protocols)
    if holder is None:
        _join(groups, group, attempt, out)
        return True
    side = ClassicProtocolState(attempt.request.session_timeout_ms, tuple(attempt.protocols.items()))
    downgrade_for(groups, group, holder, side, attempt.context, attempt.now, out)
    return False


def _join(groups: ConsumerGroups, group: ConsumerGroup, attempt: JoinAttempt, out: Effects) -> None:
    request, protocols, context, now = attempt.request, attempt.protocols, attempt.context, attempt.now
    try:
        _check_join(groups, group, request, protocols)
        member_id = request.member_id or f"{context.client_id}-{groups.fresh_id()}"
        if context.api_version >= _MEMBER_ID_REQUIRED and not request.member_id and request.group_instance_id is None:
            _issue_member_id(groups, group, member_id)
            out.replies[context.token] = join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.api_version)
            return
        before = _joining(group, request, member_id)
    except KafkaError as refused:
        out.replies[context.token] = join_refused(refused.code, request.member_id, context.api_version)
        config = groups.config
        common = [name for name, count in group.classic_protocols.items() if count == group.classic_members]
        refusing = RefusingGroup(
            config.consumer_max_size, "group.consumer.max.size", CONSUMER, common, config.consumer_migration_policy
        )
        join_refused_because(config, refusing, request, protocols, refused.code, context, out)
        return
    subscription = read_subscription(next(iter(protocols.values())))
    assert subscription is not None, "it was checked"
    after = _updated_member(before, member_id, request, protocols, subscription, context)
    after = replace(after, rebalance_timeout_ms=attempt.rebalance_timeout_ms)
    update = MemberUpdate(groups, group, before, before if after == before else after, {}, now, out)
    epoch = update.change_member()
    target_epoch, target = update.update_target(epoch)
    owned = Partitions.of(
        (topic_id, [n]) for topic_id, n in partitions_by_id(groups.metadata, subscription.owned_partitions)
    )
    moved = update.move(target_epoch, target, owned)
    _expect_sync(group, moved, now, out)
    assert moved.classic is not None
    out.replies[context.token] = JoinGroupResponse(
        generation_id=moved.epoch,
        protocol_type=CONSUMER,
        protocol_name=moved.classic.protocol,
        leader="",  # none: a leader would compute an assignment
        member_id=member_id,
    )


def _last_consumer_member(
    groups: ConsumerGroups, group: ConsumerGroup, request: JoinGroupRequest, protocols: Mapping[str, bytes]
) -> ConsumerMember | None:
    """Return the only member that uses the consumer protocol, if this join is its restarted process.

    The group then becomes a classic group, if the migration policy allows a downgrade.
    """
    holder = None if request.group_instance_id is None else group.static_member(request.group_instance_id)
    if holder is None or holder.classic is not None or request.member_id or groups.metadata is UNKNOWN:
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
    groups: ConsumerGroups, group: ConsumerGroup, request: JoinGroupRequest, protocols: Mapping[str, bytes]
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
    """Return the recorded member, or a new one. A restarted static member may be recorded under another ID.

    A member with an unknown ID was removed from the group, and may not know yet that its partitions
    were reassigned, so it is rejected. (Kafka treats it as a new member.)
    """
    instance_id = request.group_instance_id
    if instance_id is None:
        known = group.members.get(member_id)
        if known is None and request.member_id and request.member_id not in group.pending_ids:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        group.pending_ids.pop(member_id, None)
        return known or ConsumerMember(member_id)
    holder = group.static_member(instance_id)
    if holder is None and request.member_id:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if holder is not None and request.member_id not in ("", holder.member_id):
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    return holder or ConsumerMember(member_id)


def _issue_member_id(groups: ConsumerGroups, group: ConsumerGroup, member_id: str) -> None:
    if len(group.pending_ids) >= groups.config.max_pending_members:
        del group.pending_ids[next(iter(group.pending_ids))]
    group.pending_ids[member_id] = None


def _updated_member(
    before: ConsumerMember,
    member_id: str,
    request: JoinGroupRequest,
    protocols: Mapping[str, bytes],
    subscription: ConsumerSubscription,
    context: RequestContext,
) -> ConsumerMember:
    after = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        subscription=Subscription(frozenset(subscription.topics)),
        weight=None,  # the classic protocol has no weight; an operator may set one
        classic=ClassicProtocolState(request.session_timeout_ms, tuple(protocols.items())),
    )
    if before.member_id != member_id:
        after = replace(after, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    return after


def _expect_sync(group: ConsumerGroup, moved: ConsumerMember, now: Millis, out: Effects) -> None:
    assert moved.classic is not None
    deadline = now + moved.classic.session_timeout_ms
    known = group.members.get(moved.member_id)
    due_at = group.classic_deadlines[moved.member_id] = now + max(moved.rebalance_timeout_ms, 0)
    if known is None:
        out.timers[SessionTimeout(group.group_id, moved.member_id)] = min(deadline, due_at)
    else:
        known.session_deadline = deadline


# SyncGroup


def sync_as_classic_member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    context: RequestContext,
    now: Millis,
    out: Effects,
) -> None:
    """Answer one SyncGroup with the partitions that the member may own."""
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
    group.classic_deadlines.pop(member.member_id, None)
    out.replies[context.token] = SyncGroupResponse(
        protocol_type=CONSUMER,
        protocol_name=classic.protocol,
        assignment=assignment_of(groups, member, member.assigned),
    )


# Heartbeat


def heartbeat_of_classic_member(
    groups: ConsumerGroups, group: ConsumerGroup, request: HeartbeatRequest, now: Millis
) -> ErrorCode:
    """Extend the member's session, and return REBALANCE_IN_PROGRESS if it must rejoin."""
    try:
        member, classic = _find(group, request.member_id, request.group_instance_id)
    except KafkaError as refused:
        return refused.code
    if request.generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    member.session_deadline = now + classic.session_timeout_ms
    if _is_behind(groups, group, member, now) or _must_rejoin(group, member):
        _expect_join(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[ConsumerMember, ClassicProtocolState]:
    """Return a classic member and its protocol state.

    Raises KafkaError FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID; the latter also for a member that
    uses the consumer protocol.
    """
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is not None and member.member_id != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if member is None or member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _is_behind(groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, now: Millis) -> bool:
    """Return whether the target is newer than the member's epoch, or its next join would compute a new one."""
    return member.epoch < group.target_epoch or (group.epoch > group.target_epoch and is_due(groups, group, now))


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether the member must give up partitions, or all partitions that it waits for are free."""
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not group.taken(group.target_of(member.member_id) - member.assigned)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _expect_join(group: ConsumerGroup, member: ConsumerMember, now: Millis) -> None:
    group.classic_deadlines.setdefault(member.member_id, now + max(member.rebalance_timeout_ms, 0))
