"""When a held heartbeat of a classic member is answered though there is no news."""

from __future__ import annotations

from kohort.coordinator import HeldHeartbeatsDue
from kohort.errors import ErrorCode
from tests.coordinator.held_group import HeldGroup

HOLD = 9_000


def beat(group: HeldGroup, member_id: str) -> None:
    """The member sends a heartbeat, which is held; the shell sets the timer if its end is the first."""
    group.beat(member_id)
    at = group.shell.shard.holds_end_at
    assert at is not None
    group.shell.timers.setdefault(HeldHeartbeatsDue(), (at, 0))


def test_heartbeats_that_came_at_different_times_end_at_different_times() -> None:
    group = HeldGroup().at_rest(2)
    first, second = group.members
    group.release(first)
    group.release(second)
    beat(group, first)
    group.wait(500)
    beat(group, second)
    group.wait(HOLD - 500)
    assert (group.answer_to(first), second in group.answers) == (ErrorCode.NONE, False)
    group.wait(499)
    assert second not in group.answers
    group.wait(1)
    assert group.answer_to(second) == ErrorCode.NONE


def test_a_heartbeat_is_held_for_a_shorter_time_after_its_client_closed_the_connection_during_a_hold() -> None:
    group = HeldGroup().at_rest(1)
    (member,) = group.members
    group.shell.disconnect(member)
    beat(group, member)
    group.wait(2_999)
    assert member not in group.answers
    group.wait(1)
    assert group.answer_to(member) == ErrorCode.NONE
