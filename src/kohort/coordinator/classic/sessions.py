"""Sessions: a member that sends no request within its session timeout is removed.

A heartbeat moves the deadline without touching the timer. The timer checks the deadline when it
fires, and is set again if the deadline has moved.
"""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.member import Member
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import SessionTimeout
from kohort.model import Millis


def expect_heartbeat(groups: ClassicGroups, group: ClassicGroup, member: Member, now: Millis, out: Effects) -> None:
    """Start a new session."""
    expect_within(groups, group, member, member.session_timeout_ms, now, out)


def expect_within(
    groups: ClassicGroups, group: ClassicGroup, member: Member, timeout_ms: Millis, now: Millis, out: Effects
) -> None:
    """Set the deadline for the member's next heartbeat."""
    member.session_deadline = now + timeout_ms
    if groups.prompt is not None:
        groups.prompt.session_started(member, now)
    out.timers[SessionTimeout(group.group_id, member.member_id)] = member.session_deadline


def has_expired(group: ClassicGroup, member: Member, now: Millis, out: Effects) -> bool:
    """Return whether the session has ended, when its timer fires; if not, set the timer again if needed.

    A member that waits for an answer owes no heartbeat, and gets a full session with the answer. A
    new member does expire while it waits: it does not know its ID, so if its connection broke, it
    will never return for the answer.
    """
    rebalance = group.rebalance
    waits = member.member_id in rebalance.joining or member.member_id in rebalance.syncing
    if waits and not member.is_new:
        return False
    if member.session_deadline > now:
        out.timers[SessionTimeout(group.group_id, member.member_id)] = member.session_deadline
        return False
    return True
