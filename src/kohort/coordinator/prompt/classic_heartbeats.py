"""Which heartbeats of a classic group's members are held, and for how long.

A held heartbeat is answered when there is news, when its member sends another request on that
connection, or at the end of its hold. Ending the hold when the member's next heartbeat is due would
gain nothing: the Java client sends that one anyway, and other clients send it as soon as the last is
answered. So holds are long, and a member almost always has a heartbeat that can be answered. The
exception is a client that spins while its next heartbeat is due.
"""

from kohort.coordinator.effects import Token
from kohort.coordinator.prompt.client_timings import (
    CLIENT_TIMINGS,
    HOLD_AFTER_FAILURE,
    HOLDS_NOT_AWAITED,
    RESEND_INTERVAL,
    RESTLESS_CLASSIC_GROUP,
    USUAL_HEARTBEAT_INTERVAL,
    hold_within,
)
from kohort.coordinator.prompt.facts import ClassicGroupFacts, ClassicMemberFacts
from kohort.coordinator.prompt.held_heartbeats import ClassicHeartbeats, HeldHeartbeat, WaitingRequest
from kohort.coordinator.prompt.rebalance_notification import next_heartbeat_at, notify_if_possible
from kohort.coordinator.prompt.room_state import RoomState
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.heartbeat import HeartbeatRequest


def answer_or_hold(
    room: RoomState, request: HeartbeatRequest, code: ErrorCode, now: Millis, token: Token | None
) -> ErrorCode | HeldHeartbeat:
    """Answer a heartbeat with the code of the rules or, with a token and without news, hold it."""
    group = room.groups.classic(request.group_id)
    if code is not ErrorCode.NONE and code is not ErrorCode.REBALANCE_IN_PROGRESS:
        return ErrorCode.NONE if code is ErrorCode.ILLEGAL_GENERATION and _is_repeated(group, request) else code
    if group is None:
        return code
    member = group.members[request.member_id]
    _heartbeat_arrived(member.heartbeats, now)
    hold_ms = _hold_ms(room, member)
    delayed = group.notice.is_delayed
    if token is None or not hold_ms or (code is not ErrorCode.NONE and not delayed):
        return code
    if room.held.of_member(group.group_id, member.member_id) is not None:
        return code  # that one is on a connection that its client has left
    held = HeldHeartbeat(token, request, 0, now, now + hold_ms)
    room.held.add(held)
    if delayed:
        notify_if_possible(room, group, now)
    return held


def _is_repeated(group: ClassicGroupFacts | None, request: HeartbeatRequest) -> bool:
    """Return whether this heartbeat of an older generation was refused, so that its client repeats it."""
    member = None if group is None else group.members.get(request.member_id)
    return (
        member is not None
        and member.heartbeats.refused_generation == request.generation_id
        and CLIENT_TIMINGS[member.client].repeats_refused_heartbeats
    )


def answer_at_end(
    room: RoomState, held: HeldHeartbeat, request: HeartbeatRequest, behind: WaitingRequest | None, now: Millis
) -> ErrorCode:
    """Return the answer at the end of a hold, or when another request, `behind`, cut it short."""
    code = room.groups.classic_answer(request, now)
    if _requests_next_heartbeat(room, held, request, behind, code, now):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if _next_heartbeat_is_in_time(room, held, behind, code, now):
        return ErrorCode.NONE
    return code


def _next_heartbeat_is_in_time(
    room: RoomState, held: HeldHeartbeat, behind: WaitingRequest | None, code: ErrorCode, now: Millis
) -> bool:
    """Return whether a member's last heartbeat need not report the rebalance, since its next one arrives in time.

    All members are notified together: a member that is notified before the others gives up everything and
    waits.
    """
    group = room.groups.classic(held.request.group_id)
    if code is not ErrorCode.REBALANCE_IN_PROGRESS or group is None or not group.notice.is_delayed:
        return False
    if behind is not WaitingRequest.REQUEST:
        return behind is WaitingRequest.OWN_HEARTBEAT
    member = group.members[held.request.member_id]
    if CLIENT_TIMINGS[member.client].sends_heartbeat_after_commit and group.generation_at is not None:
        return abs(now - group.generation_at) < RESTLESS_CLASSIC_GROUP
    return next_heartbeat_at(member) < group.notice.due_at


def _requests_next_heartbeat(
    room: RoomState,
    held: HeldHeartbeat,
    request: HeartbeatRequest,
    behind: WaitingRequest | None,
    code: ErrorCode,
    now: Millis,
) -> bool:
    """Return whether a heartbeat is refused instead of answered with `code`, after a commit cut its hold short.

    The Java client and librdkafka send the next heartbeat by their timer, and cannot be notified
    earlier. After an error that they do not expect here, they send one after retry.backoff.ms (100),
    without logging it. So the coordinator requests one in this way in a group that has just rebalanced
    and may soon do so again, or that waits to notify all members together. If a member commits all the
    time, it does so less often and not for long, because clients count the session from the last
    heartbeat that was answered without an error.
    """
    group = room.groups.classic(held.request.group_id)
    member = None if group is None else group.members.get(held.request.member_id)
    if group is None or member is None or group.generation_at is None:
        return False
    limit, history = CLIENT_TIMINGS[member.client].resends_refused_heartbeats, member.heartbeats
    if not limit:
        return False
    if behind is not WaitingRequest.REQUEST:
        refuses = False
    elif code is ErrorCode.NONE:
        refuses = abs(now - group.generation_at) < RESTLESS_CLASSIC_GROUP
    else:
        refuses = code is ErrorCode.REBALANCE_IN_PROGRESS and group.notice.is_delayed
    if refuses and history.refused_since:
        refuses = (
            now - held.arrived_at >= RESEND_INTERVAL and now - history.refused_since < member.session_timeout_ms // 4
        )
        refuses = refuses and history.refusals < limit
    history.refused_since, history.refusals = (
        ((history.refused_since or now), history.refusals + 1) if refuses else (0, 0)
    )
    if refuses:
        history.refused_generation = request.generation_id
    return refuses


def session_started(history: ClassicHeartbeats, now: Millis) -> None:
    """Record that a member's session starts with an answer other than to a heartbeat."""
    history.heard_at, history.heartbeat_at = now, 0
    history.refused_since = history.refusals = 0


def _heartbeat_arrived(history: ClassicHeartbeats, now: Millis) -> None:
    """Update the inferred heartbeat interval. A hold can make heartbeats rarer, but not more frequent.

    The gap before the first heartbeat of a generation is ignored: librdkafka sends one as soon as it has
    its assignment, others do not. A longer gap after a hold of more than one interval is ignored, too:
    librdkafka skips the heartbeats that were due during the hold.
    """
    gap, interval = now - history.heartbeat_at, history.interval_ms
    if not history.refused_since:
        history.timer_at = now
    if history.heartbeat_at and gap > 0 and not history.refused_since:
        longest = interval if history.released_at - history.heartbeat_at >= interval else interval * 5 // 4
        history.interval_ms = min(gap, longest) if interval else gap
    history.heard_at = history.heartbeat_at = now


def _hold_ms(room: RoomState, member: ClassicMemberFacts) -> Millis:
    failed = member.heartbeats.failed_holds
    if failed >= HOLDS_NOT_AWAITED:
        return 0
    longest = min(room.hold_ms, member.session_timeout_ms // 3)
    if CLIENT_TIMINGS[member.client].spins_while_overdue:
        longest = min(longest, hold_within(member.heartbeats.interval_ms or USUAL_HEARTBEAT_INTERVAL))
    return min(longest, HOLD_AFTER_FAILURE) if failed else longest
