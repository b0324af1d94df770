"""Which heartbeats of a classic group's members are held, and for how long.

A held heartbeat is answered when there is news, when its member sends another request on that
connection, or at the end of its hold. Ending the hold when the member's next heartbeat is due would
gain nothing: the Java client sends that one anyway, and other clients send it as soon as the last is
answered. So holds are long, and a member almost always has a heartbeat that can be answered.
"""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.membership import heartbeat
from kohort.coordinator.effects import Token
from kohort.coordinator.groups import Groups
from kohort.coordinator.prompt.client_kind import ClientKind
from kohort.coordinator.prompt.gathering import next_heartbeat_at, tell_when_all_are_in_hand
from kohort.coordinator.prompt.holds import PLAIN_AFTER, HeldHeartbeat, WaitingRequest
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.heartbeat import HeartbeatRequest

_RESTLESS: Millis = 60_000
"""Time after a generation in which another one is likely."""
_NOT_SOONER: Millis = 500
"""Minimum interval at which heartbeats are repeatedly requested from a member; see `asks_again`."""
_AFTER_A_STRIKE: Millis = 3_000
"""Maximum hold for a member whose client closed its connection during the last hold."""


def heartbeat_or_hold(
    groups: Groups, request: HeartbeatRequest, now: Millis, token: Token | None
) -> ErrorCode | HeldHeartbeat:
    """Renew a member's session, and answer its heartbeat or, with a token and without news, hold it."""
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
        return code  # that one is on a connection that its client has left
    held = HeldHeartbeat(token, request, 0, now, now + patience)
    groups.holds.add(held)
    if collects:
        tell_when_all_are_in_hand(groups, group, now)
    return held


def hears_by_its_next(
    groups: Groups, held: HeldHeartbeat, behind: WaitingRequest | None, code: ErrorCode, now: Millis
) -> bool:
    """Return whether a member's last heartbeat need not report the rebalance, since its next one arrives in time.

    All members are notified together: a member that is notified before the others gives up everything and
    waits. Kohort's client sends a heartbeat after a commit in the first minute after a generation.
    """
    group = groups.classic(held.request.group_id)
    if code is not ErrorCode.REBALANCE_IN_PROGRESS or group is None or not group.rebalance.collecting:
        return False
    if behind is not WaitingRequest.REQUEST:
        return behind is WaitingRequest.OWN_HEARTBEAT
    member = group.members[held.request.member_id]
    if member.client is ClientKind.KOHORT and group.stored is not None:
        return abs(now - group.stored.current_state_timestamp) < _RESTLESS
    return next_heartbeat_at(member) < group.rebalance.collects_until


def asks_again(
    groups: Groups, held: HeldHeartbeat, behind: WaitingRequest | None, code: ErrorCode, now: Millis
) -> bool:
    """Return whether a heartbeat is refused instead of answered with `code`, after a commit cut its hold short.

    The Java client and librdkafka send the next heartbeat by their timer, and cannot be notified
    earlier. After an error that they do not expect here, they send one after retry.backoff.ms (100),
    without logging it. So the coordinator requests one in this way in a group that has just rebalanced
    and may soon do so again, or that waits to notify all members together. If a member commits all the
    time, it does so less often and not for long, because clients count the session from the last
    heartbeat that was answered without an error.
    """
    group = groups.classic(held.request.group_id)
    member = None if group is None else group.members.get(held.request.member_id)
    if group is None or member is None or not member.client.refusals or group.stored is None:
        return False
    if behind is not WaitingRequest.REQUEST:
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
    """Update the inferred heartbeat interval. A hold can make heartbeats rarer, but not more frequent.

    The gap before the first heartbeat of a generation is ignored: librdkafka sends one as soon as it has
    its assignment, others do not. A longer gap after a hold of more than one interval is ignored, too:
    librdkafka skips the heartbeats that were due during the hold.
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
