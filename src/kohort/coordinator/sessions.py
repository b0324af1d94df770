"""Sessions: a member that is not heard of for its session timeout is gone.

A heartbeat moves a deadline and touches no timer. The timer looks at the deadline when it fires and arms itself again.
"""

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.effects import Effects
from kohort.coordinator.member import Member
from kohort.coordinator.timers import SessionTimeout
from kohort.model import Millis


def expect_heartbeat(group: ClassicGroup, member: Member, now: Millis, out: Effects) -> None:
    """Start a session anew."""
    expect_within(group, member, member.session_timeout_ms, now, out)


def expect_within(group: ClassicGroup, member: Member, timeout_ms: Millis, now: Millis, out: Effects) -> None:
    """Give a member so much time to be heard of."""
    member.session_deadline, member.heard_at, member.beat_at = now + timeout_ms, now, 0
    member.asked_since = member.refusals = 0
    out.timers[SessionTimeout(group.group_id, member.member_id)] = member.session_deadline


def has_expired(group: ClassicGroup, member: Member, now: Millis, out: Effects) -> bool:
    """Whether the session is over, asked when its timer fires; if not, the timer is armed again where it must be.

    Who waits for an answer of ours owes no heartbeat, and gets a whole session with the answer. A new member does
    expire while it waits: it does not know its id, so if its connection broke it will never come for the answer.
    """
    rebalance = group.rebalance
    waits = member.member_id in rebalance.joining or member.member_id in rebalance.syncing
    if waits and not member.is_new:
        return False
    if member.session_deadline > now:
        out.timers[SessionTimeout(group.group_id, member.member_id)] = member.session_deadline
        return False
    return True
