"""When a held heartbeat of a classic member is answered though there is no news."""

from __future__ import annotations

import pytest

from kohort.coordinator import ClientKind, HeldHeartbeatsDue
from kohort.errors import ErrorCode
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.coordinator.held_group import HeldGroup

HOLD = 9_000


def beat(group: HeldGroup, member_id: str) -> None:
    """The member sends a heartbeat, which is held; the shell sets the timer to the first end."""
    group.beat(member_id)
    at = group.shell.shard.holds_end_at
    assert at is not None
    group.shell.timers[HeldHeartbeatsDue()] = at, 0


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


def leave_hold(group: HeldGroup, member_id: str) -> None:
    """Its client closes the connection while its heartbeat is held."""
    beat(group, member_id)
    group.shell.disconnect(member_id)
    group.wait(100)


def test_the_heartbeat_of_a_client_that_left_two_holds_in_a_row_is_answered_at_once() -> None:
    group = HeldGroup().at_rest(1)
    (member,) = group.members
    group.release(member)
    leave_hold(group, member)
    leave_hold(group, member)
    request = HeartbeatRequest(group_id="g", generation_id=group.generation, member_id=member)
    assert group.shell.beat(request, member).replies == {member: HeartbeatResponse()}


def test_a_client_that_waits_for_a_hold_is_forgiven_the_one_that_it_left() -> None:
    group = HeldGroup().at_rest(1)
    (member,) = group.members
    group.release(member)
    for _ in range(3):
        leave_hold(group, member)
        beat(group, member)
        group.wait(3_000)
        assert group.answer_to(member) == ErrorCode.NONE


@pytest.mark.parametrize(("interval", "hold"), [(0, 2_900), (3_000, 2_900), (2_000, 1_920), (10_000, HOLD)])
def test_a_client_that_spins_while_its_next_heartbeat_is_due_is_answered_before(interval: int, hold: int) -> None:
    group = HeldGroup().at_rest(1)
    (member_id,) = group.members
    group.release(member_id)
    member = group.shell.shard.groups["g"].members[member_id]
    member.client = ClientKind.KAFKA_PYTHON
    group.wait(interval)
    member.heartbeats.interval_ms = interval
    beat(group, member_id)
    group.wait(hold - 10)
    assert member_id not in group.answers
    group.wait(10)
    assert group.answer_to(member_id) == ErrorCode.NONE
