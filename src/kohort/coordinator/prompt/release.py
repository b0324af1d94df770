"""Ends of holds: news, the end of the hold's time, a request behind the heartbeat, or a closed connection."""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.membership import heartbeat, standing
from kohort.coordinator.consumer.heartbeat import tell
from kohort.coordinator.effects import Effects, Token
from kohort.coordinator.groups import Groups
from kohort.coordinator.prompt.classic import asks_again, hears_by_its_next
from kohort.coordinator.prompt.consumer import held_for_nothing, served_plainly
from kohort.coordinator.prompt.holds import HeldHeartbeat, WaitingRequest
from kohort.coordinator.timers import HoldsEnd
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def tell_next(groups: Groups, now: Millis, out: Effects) -> None:
    """Answer held heartbeats for which there is news, until an answer needs records, which must be replayed first."""
    while not out.records and (held := groups.holds.next_news()) is not None:
        if isinstance(held.request, HeartbeatRequest):
            code = _code(groups, held.request, now)
            if code is not ErrorCode.NONE:
                groups.holds.drop(held)
                out.replies[held.token] = HeartbeatResponse(error_code=code)
        else:
            tell(groups, held, held.request, now, out)


def end_holds(groups: Groups, now: Millis, out: Effects) -> None:
    """Answer heartbeats whose hold is over: their clients waited, so later ones may be held as well."""
    for held in groups.holds.take_due(now):
        _waited_for(groups, held, now)
        out.replies[held.token] = _now(groups, held, now)
    if groups.holds.ends_at is not None:
        out.timers[HoldsEnd()] = groups.holds.ends_at


def release(groups: Groups, token: Token, behind: WaitingRequest, now: Millis, out: Effects) -> None:
    """Answer a held heartbeat because another request waits behind it."""
    held = groups.holds.of_token(token)
    if held is not None:
        groups.holds.drop(held)
        _waited_for(groups, held, now)
        out.replies[token] = _now(groups, held, now, behind)


def given_up(groups: Groups, token: Token) -> None:
    """Drop a held heartbeat whose connection is closed: the member died, or its client did not wait."""
    held = groups.holds.of_token(token)
    if held is not None:
        groups.holds.drop(held)
        group_id, member_id = held.request.group_id, held.request.member_id
        group = groups.classic(group_id)
        if group is None:
            groups.holds.pace(group_id, member_id).strikes += 1
        elif member_id in group.members:
            group.members[member_id].strikes += 1


def refuse_held(groups: Groups, out: Effects) -> None:
    """Refuse all held heartbeats with NOT_COORDINATOR, because the shard moves away."""
    for held in groups.holds.take_all():
        out.replies[held.token] = _refused(held, ErrorCode.NOT_COORDINATOR)


def _waited_for(groups: Groups, held: HeldHeartbeat, now: Millis) -> None:
    """Record that the member's client waited for the end of a hold."""
    group_id, member_id = held.request.group_id, held.request.member_id
    pace = groups.holds.paces.get((group_id, member_id))
    if pace is not None:
        pace.strikes = 0
        groups.holds.forget_pace(group_id, member_id)
    group = groups.classic(group_id)
    if group is not None and member_id in group.members:
        group.members[member_id].strikes = 0
        group.members[member_id].released_at = now


def _now(groups: Groups, held: HeldHeartbeat, now: Millis, behind: WaitingRequest | None = None) -> Message:
    request = held.request
    if isinstance(request, HeartbeatRequest):
        code = _code(groups, request, now)
        if asks_again(groups, held, behind, code, now):
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        elif hears_by_its_next(groups, held, behind, code, now):
            code = ErrorCode.NONE
        return HeartbeatResponse(error_code=code)
    group = groups.consumer(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if member is None:
        return _refused(held, ErrorCode.UNKNOWN_MEMBER_ID)
    if behind is WaitingRequest.OTHERS_HEARTBEAT:
        return served_plainly(groups, member, held)
    return held_for_nothing(groups, member, held, now, released=behind is not None)


def _code(groups: Groups, request: HeartbeatRequest, now: Millis) -> ErrorCode:
    """Return the current answer. The session is not renewed: it counts from the arrival of the heartbeat."""
    if isinstance(groups.by_id.get(request.group_id), ClassicGroup):
        return standing(groups, request)
    return heartbeat(groups, request, now)  # the group was converted to the consumer protocol


def _refused(held: HeldHeartbeat, code: ErrorCode) -> Message:
    if isinstance(held.request, ConsumerGroupHeartbeatRequest):
        return ConsumerGroupHeartbeatResponse(error_code=code)
    return HeartbeatResponse(error_code=code)
