"""ConsumerGroupHeartbeat: members join, report changes and owned partitions, and receive assignments (KIP-848).

`member_update` applies what a heartbeat reports to the group.
"""

from collections.abc import Mapping
from dataclasses import replace

from kohort.assignor.server import Target
from kohort.coordinator.consumer.admission import find_group, find_member, updated_member
from kohort.coordinator.consumer.conversion import replace_classic_group
from kohort.coordinator.consumer.fencing import leave
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember
from kohort.coordinator.consumer.member_update import MemberUpdate
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.request_checks import check_request
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.subscribing import is_viewer_missing, look_up, note_viewer
from kohort.coordinator.consumer.target import is_due
from kohort.coordinator.effects import Effects, RequestContext, Token
from kohort.coordinator.heartbeat_contents import reports_at_most_offers, reports_nothing
from kohort.coordinator.prompt import HeldHeartbeat
from kohort.coordinator.rejections import heartbeat_refused_because
from kohort.coordinator.timers import SessionTimeout
from kohort.coordinator.topic_metadata import UNKNOWN
from kohort.errors import AssignorError, ErrorCode, KafkaError
from kohort.group_events import Refused, TargetRefused
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def consumer_heartbeat(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
) -> None:
    """Answer one heartbeat, or hold it."""
    prompt, repeats_offers = groups.prompt, _repeats_offers(groups, request)
    response = _answered(groups, request, context, now, out)
    if prompt is None:
        out.replies[context.token] = response
    else:
        prompt.answer_or_hold(request, context, response, now, out, repeats_offers=repeats_offers)


def _answered(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
) -> ConsumerGroupHeartbeatResponse:
    try:
        return _heartbeat(groups, request, context, now, out)
    except KafkaError as refused:
        heartbeat_refused_because(request, refused.code, refused.sentence, context, out)
        return ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.sentence)


def answer_earlier_heartbeat(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
) -> ConsumerGroupHeartbeatResponse:
    """Return the response to a heartbeat that arrived earlier and was held. Its session is not renewed."""
    group = groups.consumer(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if member is None:
        return _answered(groups, request, context, now, out)
    # The heartbeat reported no change, so the member's recorded facts apply.
    context = replace(context, client_id=member.client_id, client_host=member.client_host)
    deadline = member.session_deadline
    response = _answered(groups, request, context, now, out)
    member.session_deadline = deadline
    return response


def _repeats_offers(groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the heartbeat only repeats offers of assignors that the coordinator has acknowledged."""
    if request.offered_assignors is None or not reports_at_most_offers(request):
        return False
    group = groups.consumer(request.group_id)
    return group is not None and group.computing.knows(request.member_id, request.offered_assignors)


def quiet_heartbeat(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, now: Millis, token: Token | None = None
) -> ConsumerGroupHeartbeatResponse | HeldHeartbeat | None:
    """Answer a heartbeat without news in either direction, as most are. Return None if there may be news.

    With a token, the heartbeat is held if holding is possible.
    """
    group = groups.by_id.get(request.group_id)
    if type(group) is not ConsumerGroup:
        return None
    member_id = request.member_id
    member = group.members.get(member_id)
    if (
        member is None
        or request.member_epoch != member.epoch
        or member.epoch != group.target_epoch
        or member.epoch != group.epoch
        or member.state is not MemberState.STABLE
        or not reports_nothing(request)
        or (request.instance_id is not None and group.static_ids.get(request.instance_id) != member_id)
        or is_viewer_missing(groups, group, member)
        or (group.unreported and group.is_report_overdue(member_id, now))
    ):
        return None
    settings = groups.settings(request.group_id)
    member.session_deadline = now + settings.session_timeout_ms
    if groups.prompt is not None:
        # Without a token, return None: the caller must take the path with Effects, which can still
        # hold the heartbeat.
        return None if token is None else groups.prompt.hold_without_effects(request, token, now)
    answer, interval = member.last_answer, settings.heartbeat_interval_ms
    if answer is None or answer.member_epoch != member.epoch or answer.heartbeat_interval_ms != interval:
        answer = member.last_answer = ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=interval
        )
    return answer


def _heartbeat(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
) -> ConsumerGroupHeartbeatResponse:
    """Return the response. Raises KafkaError before any effect."""
    check_request(request, context.api_version, groups.assignors, groups.config.max_subscription_bytes)
    if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        return leave(groups, request, now, out)
    if groups.metadata is UNKNOWN:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator does not know the topics yet")
    group = find_group(groups, request)
    member_id = request.member_id or groups.fresh_id()
    owned = _owned(request)
    before = find_member(groups, group, member_id, request, owned)
    after = updated_member(before, member_id, request, context)
    resolved = look_up(groups, group, before, after, context.viewer, now)

    replaced = before.member_id if before.member_id != member_id else None
    needs_target = replace_classic_group(groups, group, replaced, now, out)
    update = MemberUpdate(groups, group, before, after, resolved, now, out, needs_target)
    epoch = update.change_member()
    if request.asks_anew is not None and request.offered_assignors:
        epoch = update.compute_anew(request.asks_anew)
    computed, refused = _computed(update, request, epoch)
    target_epoch, target = update.update_target(epoch, computed)
    moved = update.move(target_epoch, target, owned)
    response = _answer(update, request, moved, repeats=update.repeats_assignment())
    note_viewer(groups, group, before, after, context.viewer, now, out)
    response.refused = refused
    if update.changed_member is None and computed is None and is_due(groups, group, now):
        weights = groups.settings(group.group_id).weights
        response.computation = group.computing.ask(
            group, groups.metadata, weights, member_id, now, again=_is_full(request)
        )
    return response


def _computed(
    update: MemberUpdate, request: ConsumerGroupHeartbeatRequest, epoch: int
) -> tuple[Mapping[str, Target] | None, str | None]:
    """Return the targets that change according to a member's computation, or the reason why it is rejected."""
    member_id, computing = update.after.member_id, update.group.computing
    if request.offered_assignors is not None or _is_full(request):
        computing.offered(member_id, request.offered_assignors or [])
    if request.computed is None:
        return None, None
    try:
        return computing.take(
            update.group, update.groups.metadata, member_id, request.computed, epoch, update.now
        ), None
    except KafkaError as refused:
        return None, refused.sentence
    except AssignorError as refused:
        why = Refused(computing.asked_assignor, member_id, str(refused))
        update.out.events.append(TargetRefused(update.group.group_id, epoch, why))
        # The member itself reported that its assignor failed, so it does not need the reason.
        return None, str(refused) if request.computed.error is None else None


def _answer(
    update: MemberUpdate, request: ConsumerGroupHeartbeatRequest, moved: ConsumerMember, *, repeats: bool
) -> ConsumerGroupHeartbeatResponse:
    """Return the response to the member, and restart its session."""
    group_id, member_id = update.group.group_id, moved.member_id
    settings = update.groups.settings(group_id)
    deadline = update.now + settings.session_timeout_ms
    known = update.group.members.get(member_id)
    if known is None:
        update.out.timers[SessionTimeout(group_id, member_id)] = deadline
    else:
        known.session_deadline = deadline
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=moved.epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
    )
    response.takes_offers = request.offered_assignors is not None
    response.takes_weights = request.weight != -1
    # The member joins, or did not receive the last response.
    missed = request.member_epoch == JOIN_EPOCH or request.member_epoch != update.before.epoch
    if missed or repeats or _is_full(request) or moved.assigned != update.before.assigned:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in moved.assigned.by_topic.items()
            ]
        )
    return response


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    reported = request.topic_partitions
    return None if reported is None else Partitions.of((topic.topic_id, topic.partitions) for topic in reported)


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the heartbeat is a full request.

    A member sends all fields if it joins, or if it is not sure what the last response was.
    """
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
