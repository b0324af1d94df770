"""Which heartbeats of a consumer group's members are held, and how soon a member is to send its next one.

The members obey the interval in each answer. Where heartbeats are held that interval is short, because the hold sets
the pace: a member is hardly ever without a heartbeat that can be answered with news. A member that was told to give up
or take something is never held, since it cannot acknowledge while a heartbeat of it is under way.
"""

from __future__ import annotations

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.target import due_at
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Groups
from kohort.coordinator.holds import PLAIN_AFTER, Held, Place
from kohort.coordinator.timers import HoldsEnd, TargetDue
from kohort.model import Millis
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

SHORT: Millis = 50
"""After an answer that is not held the next heartbeat is to come so soon."""
_AT_MOST_EVERY: Millis = 1_000
"""A member whose other requests release its heartbeats sends one in so much time, however many requests it sends."""
_PATIENCE = 4
"""So many heartbeats of a member are answered at once while its acknowledgement is awaited; a client may send none."""


def hold_ms(groups: Groups, group_id: str) -> Millis:
    """How long a heartbeat is held: as long as the member would else wait, so that requests do not become more."""
    settings = groups.settings(group_id)
    return min(groups.config.heartbeat_hold_ms, settings.heartbeat_interval_ms, settings.session_timeout_ms // 3)


def usual_interval(groups: Groups, group_id: str, *, may_hold: bool) -> Millis:
    """What a member is told when there is no news."""
    interval = groups.settings(group_id).heartbeat_interval_ms
    return min(SHORT, interval) if may_hold and hold_ms(groups, group_id) else interval


def may_be_held(groups: Groups, group_id: str, member_id: str) -> bool:
    """Whether the member owes no acknowledgement, and its client lives with held heartbeats."""
    if not groups.config.heartbeat_hold_ms:
        return False
    pace = groups.holds.paces.get((group_id, member_id))
    return pace is None or (pace.owing == 0 and pace.strikes < PLAIN_AFTER)


def answer_or_hold(
    groups: Groups,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    response: ConsumerGroupHeartbeatResponse,
    now: Millis,
    out: Effects,
    again: Held | None = None,
) -> None:
    """Answer a heartbeat, or hold it where the answer says nothing; `again` where it was held until now."""
    out.replies[context.token] = response
    if not context.may_hold or not groups.config.heartbeat_hold_ms or response.error_code or request.member_epoch < 0:
        return
    group_id, member_id = request.group_id, response.member_id or ""
    pace = groups.holds.pace(group_id, member_id)
    if request.topic_partitions is not None:
        pace.owing = 0
    if response.assignment is not None or response.computation is not None:
        pace.owing = 1
    elif pace.owing:
        pace.owing += 1
    group, silent = groups.consumer(group_id), not out.records and is_silent(request) and not _says_anything(response)
    member = None if group is None else group.members.get(member_id)
    owes = member is not None and member.state is MemberState.UNREVOKED_PARTITIONS
    if pace.owing > _PATIENCE and not owes:
        pace.owing = 0
    settings = groups.settings(group_id)
    if pace.strikes >= PLAIN_AFTER:
        response.heartbeat_interval_ms = settings.heartbeat_interval_ms
    elif pace.owing or owes:
        # Ever more rarely, so that one that takes its time does not ask all the time whether it may.
        wait = SHORT << min(max(pace.owing - 1, 0), 16)
        response.heartbeat_interval_ms = min(wait, settings.heartbeat_interval_ms)
    else:
        if not pace.strikes:
            del groups.holds.paces[group_id, member_id]
        response.heartbeat_interval_ms = usual_interval(groups, group_id, may_hold=True)
        if group is not None and member is not None and silent and request.member_epoch == response.member_epoch:
            del out.replies[context.token]
            _give_up_earlier(groups, member, request, out)
            since, until = (now, now + hold_ms(groups, group_id)) if again is None else (again.since, again.until)
            waits_for = _waits_for(group, member)
            _hold(groups, group, Held(context.token, request, context.api_version, since, until, waits_for), now, out)


def _hold(groups: Groups, group: ConsumerGroup, held: Held, now: Millis, out: Effects) -> None:
    if groups.holds.add(held):
        out.timers[HoldsEnd()] = groups.holds.ends_at
    if group.epoch > group.target_epoch:
        # Nobody else may come to have it computed.
        out.timers[TargetDue(group.group_id)] = max(now, due_at(groups, group))


def hold_quietly(groups: Groups, request: ConsumerGroupHeartbeatRequest, token: object, now: Millis) -> Held | None:
    """Hold a heartbeat for which there is no news, without Effects; None where it needs some, or is not to be held."""
    holds, group_id, member_id = groups.holds, request.group_id, request.member_id
    if not may_be_held(groups, group_id, member_id) or holds.holds(group_id, member_id):
        return None
    until = now + hold_ms(groups, group_id)
    held = Held(token, request, 0, now, until)
    holds.add(held)
    return held


def _give_up_earlier(
    groups: Groups, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, out: Effects
) -> None:
    """An older heartbeat of the member is on a connection that its client has left, or it would not send another."""
    earlier = groups.holds.by_group.get(request.group_id, {}).get(member.member_id)
    if earlier is not None:
        groups.holds.drop(earlier)
        out.replies[earlier.token] = nothing_new(groups, request.group_id, member, SHORT)


def _waits_for(group: ConsumerGroup, member: ConsumerMember) -> list[Place]:
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return []
    return [(group.group_id, topic_id, n) for topic_id, n in group.target_of(member.member_id) - member.assigned]


def nothing_new(
    groups: Groups, group_id: str, member: ConsumerMember, interval_ms: Millis
) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat that was held for nothing."""
    usual = groups.settings(group_id).heartbeat_interval_ms
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=member.epoch, heartbeat_interval_ms=min(interval_ms, usual)
    )


def interval_after_release(held: Held, now: Millis) -> Millis:
    """When the next heartbeat is to come after another request of the member cut a hold short."""
    return max(SHORT, _AT_MOST_EVERY - (now - held.since))


def is_silent(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat leaves out all that it may leave out."""
    return (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and request.offered_assignors is None
        and request.computed is None
        and request.weight == -1
    )


def _says_anything(response: ConsumerGroupHeartbeatResponse) -> bool:
    return response.assignment is not None or response.computation is not None or response.refused is not None
