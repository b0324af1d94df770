"""Which heartbeats of a classic group's members are held, and for how long.

A held heartbeat is answered when there is news, when its member sends something else on that connection, or at the end
of its hold. Nothing is gained by ending it when the member's next heartbeat is due: the Java client sends that one all
the same, and other clients send it as soon as the last is answered. So a hold is long, and its member is hardly ever
without a heartbeat that can be answered.
"""

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.collecting import next_heartbeat_at, tell_when_all_are_in_hand
from kohort.coordinator.effects import Token
from kohort.coordinator.groups import Groups
from kohort.coordinator.holds import PLAIN_AFTER, Behind, Held
from kohort.coordinator.member import Member
from kohort.coordinator.membership import heartbeat
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.heartbeat import HeartbeatRequest

_RESTLESS: Millis = 60_000
"""After a generation the next is likely for so long."""
_NOT_SOONER: Millis = 500
"""A member that is asked for its next heartbeat again and again is asked so often at most."""
_AFTER_A_STRIKE: Millis = 3_000
"""How long the heartbeat of a member is held whose client left its connection during the last hold."""


def heartbeat_or_hold(groups: Groups, request: HeartbeatRequest, now: Millis, token: Token | None) -> ErrorCode | Held:
    """Keep a member's session and answer its heartbeat; with a token, hold it if there is nothing to say."""
    code = heartbeat(groups, request, now)
    if code is not ErrorCode.NONE and code is not ErrorCode.REBALANCE_IN_PROGRESS:
        return code
    group = groups.by_id.get(request.group_id)
    if type(group) is not ClassicGroup or not groups.config.heartbeat_hold_ms:
        return code
    member = group.members[request.member_id]
    _learn(member, now)
    patience = _patience(groups, member)
    collects = code is not ErrorCode.NONE and group.rebalance.collecting
    if token is None or not patience or (code is not ErrorCode.NONE and not collects):
        return code
    if groups.holds.holds(group.group_id, member.member_id):
        return code  # on a connection that its client has left
    held = Held(token, request, 0, now, now + patience)
    groups.holds.add(held)
    if collects:
        tell_when_all_are_in_hand(groups, group, now)
    return held


def hears_by_its_next(groups: Groups, held: Held, behind: Behind | None, code: ErrorCode, now: Millis) -> bool:
    """Whether a member need not hear of the rebalance by its last heartbeat, since its next one is here in time.

    All hear together: one that hears before the others has given up everything, and waits. Our client sends a heartbeat
    behind a commit in the first minute after a generation.
    """
    group = groups.classic(held.request.group_id)
    if code is not ErrorCode.REBALANCE_IN_PROGRESS or group is None or not group.rebalance.collecting:
        return False
    if behind is not Behind.REQUEST:
        return behind is Behind.OWN_HEARTBEAT
    member = group.members[held.request.member_id]
    if member.client is ClientKind.KOHORT and group.stored is not None:
        return abs(now - group.stored.current_state_timestamp) < _RESTLESS
    return next_heartbeat_at(member) < group.rebalance.collects_until


def asks_again(groups: Groups, held: Held, behind: Behind | None, code: ErrorCode, now: Millis) -> bool:
    """Whether a heartbeat that would be answered `code` is refused, because a commit of its member cut its hold short.

    The Java client and librdkafka send the next one by the clock, and cannot be told anything before. After an error
    that they do not know in this place they send one after retry.backoff.ms (100), and say nothing of it. So they are
    asked to, in a group that has just rebalanced and may soon again, or that waits to tell all members together; not
    all the time, if they commit all the time, and not for long, as they count the session from the last heartbeat that
    was no error.
    """
    group = groups.classic(held.request.group_id)
    member = None if group is None else group.members.get(held.request.member_id)
    if group is None or member is None or not member.client.refusals or group.stored is None:
        return False
    if behind is not Behind.REQUEST:
        may = False
    elif code is ErrorCode.NONE:
        may = abs(now - group.stored.current_state_timestamp) < _RESTLESS
    else:
        may = code is ErrorCode.REBALANCE_IN_PROGRESS and group.rebalance.collecting
    if may and member.asked_since:
        may = now - held.since >= _NOT_SOONER and now - member.asked_since < member.session_timeout_ms // 4
        may = may and member.refusals < member.client.refusals
    member.asked_since, member.refusals = ((member.asked_since or now), member.refusals + 1) if may else (0, 0)
    return may


def _learn(member: Member, now: Millis) -> None:
    """How often the client sends heartbeats. A hold can make it rarer, but not more often.

    The first of a generation says nothing: librdkafka sends one as soon as it has its assignment, others do not. After
    a hold that was longer than the rhythm a longer gap says nothing: librdkafka leaves out those that were due in it.
    """
    gap, rhythm = now - member.beat_at, member.rhythm_ms
    if not member.asked_since:
        member.ticked_at = now
    if member.beat_at and gap > 0 and not member.asked_since:
        longest = rhythm if member.released_at - member.beat_at >= rhythm else rhythm * 5 // 4
        member.rhythm_ms = min(gap, longest) if rhythm else gap
    member.heard_at = member.beat_at = now


def _patience(groups: Groups, member: Member) -> Millis:
    if member.strikes >= PLAIN_AFTER:
        return 0
    longest = min(groups.config.heartbeat_hold_ms, member.session_timeout_ms // 3)
    return min(longest, _AFTER_A_STRIKE) if member.strikes else longest
