"""How a held heartbeat ends without news: its time is over, a request waits behind it, or its client is gone."""

from kohort.coordinator.consumer.holding import SHORT, interval_after_release, nothing_new
from kohort.coordinator.effects import Effects, Token
from kohort.coordinator.groups import Groups
from kohort.coordinator.holds import Held
from kohort.coordinator.timers import HoldsEnd
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.heartbeat import HeartbeatResponse

_ALIVE = HeartbeatResponse()
_AS_USUAL: Millis = 1 << 31
"""As an interval: the one that the group is set to."""


def end_holds(groups: Groups, now: Millis, out: Effects) -> None:
    """Answer those whose time is over: the client has waited for them, so it may be made to wait again."""
    for held in groups.holds.take_due(now):
        groups.holds.paces.pop((held.request.group_id, held.request.member_id), None)
        out.replies[held.token] = _nothing(groups, held, SHORT)
    if groups.holds.ends_at is not None:
        out.timers[HoldsEnd()] = groups.holds.ends_at


def release(groups: Groups, token: Token, now: Millis, out: Effects, *, others: bool) -> None:
    """Answer one because another request waits behind it: of its own member, or of others on the same connection."""
    held = groups.holds.of_token(token)
    if held is not None:
        groups.holds.drop(held)
        groups.holds.paces.pop((held.request.group_id, held.request.member_id), None)
        out.replies[token] = _nothing(groups, held, _AS_USUAL if others else interval_after_release(held, now))


def given_up(groups: Groups, token: Token) -> None:
    """The connection of a held heartbeat is gone, be it that the member is dead or that its client would not wait."""
    held = groups.holds.of_token(token)
    if held is not None:
        groups.holds.drop(held)
        groups.holds.pace(held.request.group_id, held.request.member_id).strikes += 1


def refuse_held(groups: Groups, out: Effects) -> None:
    """The shard moves away: members shall look for their coordinator."""
    for held in groups.holds.take_all():
        out.replies[held.token] = _refused(held, ErrorCode.NOT_COORDINATOR)


def _nothing(groups: Groups, held: Held, interval_ms: Millis) -> Message:
    request = held.request
    if not isinstance(request, ConsumerGroupHeartbeatRequest):
        return _ALIVE
    group = groups.consumer(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if member is None:
        return _refused(held, ErrorCode.UNKNOWN_MEMBER_ID)
    return nothing_new(groups, request.group_id, member, interval_ms)


def _refused(held: Held, code: ErrorCode) -> Message:
    if isinstance(held.request, ConsumerGroupHeartbeatRequest):
        return ConsumerGroupHeartbeatResponse(error_code=code)
    return HeartbeatResponse(error_code=code)
