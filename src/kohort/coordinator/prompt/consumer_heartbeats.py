"""Which heartbeats of a consumer group's members are held, and when a member sends its next one.

Members obey the interval in each answer. A client that sleeps while its heartbeat is held
(`ClientTimings.sleeps_while_held`) gets a short one, because the duration of the hold replaces it: its
member almost always has a heartbeat that can be answered. The heartbeat of any other client is held
until shortly before the interval in its last answer ends. If a commit cuts that hold short, the member
has no held heartbeat until then. So its interval is short in a group that has just changed and may
change again soon. A heartbeat is never held for a member that must acknowledge a change of its
partitions, because the member cannot do so while a heartbeat is in flight.
"""

from __future__ import annotations

from copy import copy
from zlib import crc32

from kohort.coordinator.effects import Effects, RequestContext, Token
from kohort.coordinator.heartbeat_contents import reports_nothing
from kohort.coordinator.prompt.client_timings import (
    ANSWERS_WITHOUT_ACKNOWLEDGEMENT,
    CLIENT_TIMINGS,
    HEARTBEAT_AFTER_COMMIT,
    HEARTBEAT_AFTER_COMMIT_MAX,
    HOLD_EMPTY_HANDED,
    HOLDS_NOT_AWAITED,
    INTERVAL_AFTER_TARGET,
    INTERVAL_ASSIGNED,
    INTERVAL_EMPTY_HANDED,
    INTERVAL_MIN_WITH_TIMEOUT,
    INTERVAL_RELEASED,
    INTERVAL_RESTLESS,
    INTERVAL_SLEEPING,
    RESTLESS_CONSUMER_GROUP,
    TARGET_IS_RECENT,
    hold_within,
)
from kohort.coordinator.prompt.facts import ConsumerGroupFacts, ConsumerMemberFacts
from kohort.coordinator.prompt.held_heartbeats import HeartbeatState, HeldHeartbeat
from kohort.coordinator.prompt.room_state import RoomState
from kohort.coordinator.timers import HeldHeartbeatsDue, TargetDue
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_JOIN_EPOCH = 0


def answer_or_hold(
    room: RoomState,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    response: ConsumerGroupHeartbeatResponse,
    now: Millis,
    out: Effects,
    again: HeldHeartbeat | None = None,
    *,
    repeats_offers: bool = False,
) -> None:
    """Answer a heartbeat, or hold it if the answer contains no news; `again` is its previous hold, if any.

    `repeats_offers`: the heartbeat contains nothing but the ways in which its member can compute a
    target, which were answered before.
    """
    out.replies[context.token] = response
    if not context.may_hold or response.error_code or request.member_epoch < 0:
        return
    group_id, member_id = request.group_id, response.member_id or ""
    client = CLIENT_TIMINGS[context.client]
    if client.sleeps_while_held:
        room.held.sleeping.add((group_id, member_id))
    if client.times_out_with_interval:
        room.held.timing_out.add((group_id, member_id))
    state = room.held.state(group_id, member_id)
    _count(state, request, response, acknowledges_nothing=client.sleeps_while_held)
    if client.ignores_answer_to_empty_report and request.topic_partitions == []:
        request = _without_report(request)
    group = room.groups.consumer(group_id)
    silent = not out.records and (repeats_offers or reports_nothing(request)) and not _has_news(response)
    member = None if group is None else group.members.get(member_id)
    must_revoke = member is not None and member.must_revoke
    if state.unacknowledged > ANSWERS_WITHOUT_ACKNOWLEDGEMENT and not must_revoke:
        state.unacknowledged = 0
    # The answer may not be recorded yet: a member that only gets another epoch may have to wait, too.
    waits = _is_empty(response) or request.member_epoch != response.member_epoch
    waits |= member is not None and member.waits_for_others
    interval = _next_interval(room, group_id, member_id, now, waits=waits, changes=bool(out.records))
    if state.failed_holds >= HOLDS_NOT_AWAITED:
        interval = room.groups.settings(group_id).heartbeat_interval_ms
    elif state.unacknowledged or must_revoke:
        interval = _interval_until_acknowledged(room, group_id, member_id, state)
    elif (
        group is not None
        and member is not None
        and silent
        and request.member_epoch == response.member_epoch
        and (hold := _hold_ms(room, group_id, member_id)) > 0
    ):
        del out.replies[context.token]
        _answer_earlier(room, member, request, out)
        arrived_at, due_at = (now, now + hold) if again is None else (again.arrived_at, again.due_at)
        waits_for = group.waits_for(member_id)
        held = HeldHeartbeat(context.token, request, context.api_version, arrived_at, due_at, waits_for)
        _hold(room, group, held, now, out)
        room.held.drop_state_if_default(group_id, member_id)
        return
    _set_interval(room, group_id, response, interval)
    room.held.drop_state_if_default(group_id, member_id)


def hold_without_effects(
    room: RoomState, request: ConsumerGroupHeartbeatRequest, token: Token, now: Millis
) -> HeldHeartbeat | None:
    """Hold a heartbeat without Effects; return None if there is news, Effects are needed or it may not be held."""
    group_id, member_id = request.group_id, request.member_id
    state = room.held.states.get((group_id, member_id))
    if state is not None and (state.unacknowledged or state.failed_holds >= HOLDS_NOT_AWAITED):
        return None
    if room.held.of_member(group_id, member_id) is not None:
        return None
    hold = _hold_ms(room, group_id, member_id)
    if not hold:
        return None
    held = HeldHeartbeat(token, request, 0, now, now + hold)
    room.held.add(held)
    return held


def answer_at_end(
    room: RoomState, member: ConsumerMemberFacts, held: HeldHeartbeat, now: Millis, *, released: bool
) -> ConsumerGroupHeartbeatResponse:
    """Return the answer at the end of a hold, or when another request of the member cut it short."""
    group_id, member_id = held.request.group_id, member.member_id
    interval = _next_interval(room, group_id, member_id, now, waits=member.waits_for_others)
    usual = room.groups.settings(group_id).heartbeat_interval_ms
    if released and (group_id, member_id) in room.held.sleeping:
        interval = min(
            usual, max(interval, _min_interval_released(room, group_id, member_id, now) - (now - held.arrived_at))
        )
    elif released:
        after_commit = _interval_after_commit(room.held.state(group_id, member_id), held, usual, now)
        interval = after_commit if interval >= usual else interval
    response = _without_news(member, held, interval)
    _set_interval(room, group_id, response, interval)
    room.held.drop_state_if_default(group_id, member_id)
    return response


def answer_with_usual_interval(
    room: RoomState, member: ConsumerMemberFacts, held: HeldHeartbeat
) -> ConsumerGroupHeartbeatResponse:
    """Return the answer for members that release each other or whose client left."""
    return _without_news(member, held, room.groups.settings(held.request.group_id).heartbeat_interval_ms)


def only_epoch_is_new(group: ConsumerGroupFacts, member: ConsumerMemberFacts) -> bool:
    """Return whether the only news for a held member is another epoch, while other members still have to move.

    If it were answered at once, it would have no held heartbeat for a moment, and the news that follows
    would not reach it. Also, all members would be answered while some of them have to move quickly.
    """
    others = len(group.moving) - (member.member_id in group.moving)
    if not others or group.awaits_target or member.must_revoke:
        return False
    return not group.would_move(member.member_id)


# Holds


def _hold(room: RoomState, group: ConsumerGroupFacts, held: HeldHeartbeat, now: Millis, out: Effects) -> None:
    if room.held.add(held):
        out.timers[HeldHeartbeatsDue()] = room.held.ends_at
    if group.awaits_target:
        # No other request may trigger the computation.
        out.timers[TargetDue(group.group_id)] = max(now, room.groups.next_target_at(group.group_id))


def _hold_ms(room: RoomState, group_id: str, member_id: str) -> Millis:
    """Return how long a heartbeat is held: for the member's usual wait, so that holding adds no requests."""
    settings = room.groups.settings(group_id)
    longest = min(room.hold_ms, settings.session_timeout_ms // 3)
    if (group_id, member_id) in room.held.sleeping:
        return min(longest, settings.heartbeat_interval_ms)
    state = room.held.states.get((group_id, member_id))
    interval = settings.heartbeat_interval_ms if state is None or not state.interval_ms else state.interval_ms
    times_out = (group_id, member_id) in room.held.timing_out
    if interval == INTERVAL_EMPTY_HANDED and not times_out:
        return min(longest, HOLD_EMPTY_HANDED)
    return max(0, min(longest, hold_within(interval, times_out=times_out)))


def _answer_earlier(
    room: RoomState, member: ConsumerMemberFacts, request: ConsumerGroupHeartbeatRequest, out: Effects
) -> None:
    """Answer an older held heartbeat of the member: its client left that connection, or it would not send another."""
    earlier = room.held.of_member(request.group_id, member.member_id)
    if earlier is not None:
        room.held.drop(earlier)
        out.replies[earlier.token] = answer_with_usual_interval(room, member, earlier)


def _count(
    state: HeartbeatState,
    request: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
    *,
    acknowledges_nothing: bool,
) -> None:
    """Update the number of answers since one that the member has to acknowledge.

    `acknowledges_nothing`: the client acknowledges even an empty assignment, which a member gets that
    joins and has to wait. The Java client does not; it waits for the next news.
    """
    if request.topic_partitions is not None:
        state.unacknowledged = 0
    if _is_empty(response) and request.member_epoch == _JOIN_EPOCH and not acknowledges_nothing:
        return
    if response.assignment is not None or response.computation is not None:
        state.unacknowledged = 1
    elif state.unacknowledged:
        state.unacknowledged += 1


# Intervals


def _next_interval(
    room: RoomState, group_id: str, member_id: str, now: Millis, *, waits: bool, changes: bool = False
) -> Millis:
    """Return the interval until a member's next heartbeat if it has nothing to acknowledge.

    `waits`: the member waits for partitions of others. `changes`: its answer is not recorded yet.
    """
    usual = room.groups.settings(group_id).heartbeat_interval_ms
    if (group_id, member_id) in room.held.sleeping:
        return min(INTERVAL_SLEEPING, usual)
    group = room.groups.consumer(group_id)
    if group is None or not (changes or _is_restless(group, member_id, now)):
        state = room.held.states.get((group_id, member_id))
        return usual if state is None else max(usual, state.interval_ms)
    elapsed = 0 if changes else abs(now - group.target_at)
    short = INTERVAL_AFTER_TARGET if elapsed < TARGET_IS_RECENT else INTERVAL_RESTLESS
    if waits:
        short = min(short, max(INTERVAL_EMPTY_HANDED, elapsed // 2))
    return min(usual, max(short, len(group.members) // 2, _min_interval(room, group_id, member_id)))


def _interval_until_acknowledged(room: RoomState, group_id: str, member_id: str, state: HeartbeatState) -> Millis:
    """Return the interval for a member that owes an acknowledgement; it doubles with every answer.

    The answer that requests the acknowledgement has a shorter one if the interval wakes the application of the client.
    """
    usual, group = room.groups.settings(group_id).heartbeat_interval_ms, room.groups.consumer(group_id)
    if (group_id, member_id) in room.held.sleeping:
        first = INTERVAL_SLEEPING
    else:
        first = INTERVAL_ASSIGNED if state.unacknowledged == 1 else INTERVAL_AFTER_TARGET
    first = max(first, 0 if group is None else len(group.members) // 2, _min_interval(room, group_id, member_id))
    return min(first << min(max(state.unacknowledged - 1, 0), 16), usual)


def _min_interval(room: RoomState, group_id: str, member_id: str) -> Millis:
    return INTERVAL_MIN_WITH_TIMEOUT if (group_id, member_id) in room.held.timing_out else 0


def _is_restless(group: ConsumerGroupFacts, member_id: str, now: Millis) -> bool:
    if group.awaits_target:
        return True
    for_ms = RESTLESS_CONSUMER_GROUP + crc32(member_id.encode()) % RESTLESS_CONSUMER_GROUP
    return abs(now - group.target_at) < for_ms


def _min_interval_released(room: RoomState, group_id: str, member_id: str, now: Millis) -> Millis:
    """Return the minimum time between two heartbeats of a member whose other requests release them."""
    group = room.groups.consumer(group_id)
    if group is None or not _is_restless(group, member_id, now):
        return INTERVAL_RELEASED
    return min(INTERVAL_RELEASED, max(INTERVAL_RESTLESS, len(group.members) // 2))


def _interval_after_commit(state: HeartbeatState, held: HeldHeartbeat, usual: Millis, now: Millis) -> Millis:
    """Return the interval for a member of a stable group that commits about as often as it sends heartbeats.

    A commit ends a hold, so the member's heartbeats should arrive just after its commits. The
    client's timer restarts when its interval changes. So the interval becomes the time to the next
    commit plus a little, and stays while heartbeats arrive soon after commits. Only the member's next
    heartbeat arrives late.
    """
    last, passed = max(usual, state.interval_ms), now - state.released_at
    known, state.released_at = state.released_at > 0, now
    period = passed // max(1, round(passed / usual))  # commits without a held heartbeat were not counted
    if not known or passed > 3 * usual or not usual * 19 // 20 <= period <= usual * 3 // 2:
        return last
    if 0 <= held.arrived_at - (now - period) <= HEARTBEAT_AFTER_COMMIT_MAX:
        return last
    wanted = period + HEARTBEAT_AFTER_COMMIT
    return wanted if wanted != last else wanted + 1


def _set_interval(
    room: RoomState, group_id: str, response: ConsumerGroupHeartbeatResponse, interval_ms: Millis
) -> None:
    """Set the interval in the answer, and remember it while it differs from the usual one."""
    usual, member_id = room.groups.settings(group_id).heartbeat_interval_ms, response.member_id or ""
    response.heartbeat_interval_ms = interval_ms
    if (group_id, member_id) not in room.held.sleeping:
        if interval_ms != usual:
            room.held.state(group_id, member_id).interval_ms = interval_ms
        elif (state := room.held.states.get((group_id, member_id))) is not None:
            state.interval_ms = 0


# Contents


def _without_news(
    member: ConsumerMemberFacts, held: HeldHeartbeat, interval_ms: Millis
) -> ConsumerGroupHeartbeatResponse:
    request = held.request
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        takes_offers=request.offered_assignors is not None,
    )


def _without_report(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    """Return a member's acknowledgement of no partitions without its report, so that it may be held."""
    silent = copy(request)
    silent.topic_partitions = None
    return silent


def _is_empty(response: ConsumerGroupHeartbeatResponse) -> bool:
    return response.assignment is not None and not response.assignment.topic_partitions


def _has_news(response: ConsumerGroupHeartbeatResponse) -> bool:
    return response.assignment is not None or response.computation is not None or response.refused is not None
