"""An eager group whose members have been restarting learns of a leave and of the next join at once."""

import pytest

from kohort.coordinator import WaitingRequest
from kohort.coordinator.prompt.restarting_members import RestartingMembers
from kohort.errors import ErrorCode
from kohort.wire.messages.join_group import JoinGroupResponse
from tests.coordinator.held_group import REBALANCE, RESTART, HeldGroup


@pytest.fixture
def group() -> HeldGroup:
    made = HeldGroup().at_rest()
    made.restart()
    return made


def test_the_first_leave_is_announced_at_once() -> None:
    group = HeldGroup().at_rest()
    group.leave(group.members[0])
    assert group.notified() == group.members


def test_after_a_successor_the_next_leave_is_announced_with_the_following_join(group: HeldGroup) -> None:
    before = group.generation
    group.leave(group.members[0])
    group.wait(RESTART)
    assert not group.notified(), "they go on processing"
    survivors = group.members
    group.join()
    assert group.notified() == survivors
    group.share()
    assert (group.generation, len(group.members)) == (before + 1, 3)


def test_a_successor_is_not_awaited_if_a_rebalance_more_costs_less() -> None:
    # Four members rebalance in 50 ms: in sum, all partitions wait for less than those of one member for 800 ms.
    group = HeldGroup().at_rest(4)
    group.restart(rebalance=50)
    group.leave(group.members[0])
    assert group.notified() == group.members


def test_a_larger_group_awaits_the_successor_longer() -> None:
    group = HeldGroup().at_rest(10)
    group.restart(rebalance=50)
    group.leave(group.members[0])
    assert not group.notified()


def test_the_last_rebalance_tells_what_the_next_would_cost(group: HeldGroup) -> None:
    group.wait(4_000)
    group.join()
    group.share(takes=10)
    group.beat(*group.members)
    group.leave(group.members[0])
    assert group.notified() == group.members


def test_a_rebalance_without_a_generation_costs_until_the_next() -> None:
    restarts = RestartingMembers(restart_ms=1_000)
    restarts.members_notified(500)
    restarts.generation_ended(began_at=400)
    restarts.members_notified(700)  # of another rebalance, before the first was over
    restarts.generation_ended(began_at=800)
    assert restarts.rebalance_ms == 300


def test_the_members_are_notified_when_the_successor_asks_for_an_id(group: HeldGroup) -> None:
    group.leave(group.members[0])
    group.join(version=4)
    assert group.notified() == group.members


def test_a_late_successor_is_not_awaited_and_neither_is_the_next(group: HeldGroup) -> None:
    group.leave(group.members[0])
    group.wait(2 * RESTART)
    assert group.notified() == group.members
    group.share()
    group.beat(*group.members)
    group.wait(4_000)
    group.leave(group.members[0])
    assert group.notified() == group.members


def test_a_member_that_joins_again_by_itself_does_not_wait_for_a_successor(group: HeldGroup) -> None:
    # It has given up everything.
    leaver, impatient, _ = group.members
    group.leave(leaver)
    group.release(impatient)
    group.join(impatient)
    group.wait(100)
    group.share()
    group.beat(*group.members)
    leader = group.shell.shard.groups["g"].leader_id
    assert leader is not None
    group.join(leader)
    assert set(group.notified()) == set(group.members)


def test_a_wait_ended_by_one_member_does_not_count_for_successors(group: HeldGroup) -> None:
    leaver, impatient, other = group.members
    group.leave(leaver)
    group.release(impatient)
    group.join(impatient)
    assert set(group.notified()) == {impatient, other}
    group.wait(4_000)
    group.join(other)
    group.share()
    group.beat(*group.members)
    group.leave(other)
    assert not group.notified(), "a successor is expected as before"


def test_a_wait_ended_by_all_members_does_not_count_for_successors(group: HeldGroup) -> None:
    leaver, *others = group.members
    for member_id in others:
        group.release(member_id)
    group.leave(leaver)
    for member_id in others:
        group.join(member_id)
    group.share()
    group.wait(4_000)
    group.beat(*others)
    group.leave(others[0])
    assert not group.notified(), "a successor is expected as before"


def test_the_successors_of_two_leaving_members_are_both_awaited(group: HeldGroup) -> None:
    first, second, survivor = group.members
    group.leave(first)
    group.leave(second)
    group.join()
    assert not group.notified()
    group.join()
    assert group.notified() == [survivor]


def test_if_one_member_must_be_notified_all_are(group: HeldGroup) -> None:
    # It gives up everything and waits for the others.
    leaver, impatient, other = group.members
    group.leave(leaver)
    group.release(impatient)
    assert group.notified() == [impatient]
    group.join(impatient)
    assert set(group.notified()) == {impatient, other}


def test_a_member_is_notified_with_the_others_by_its_next_heartbeat(group: HeldGroup) -> None:
    # The Java client sends them by the clock, answered or not: of ten members, one always does.
    leaver, punctual, other = group.members
    group.leave(leaver)
    group.release(punctual, WaitingRequest.OWN_HEARTBEAT)
    assert group.answer_to(punctual) == ErrorCode.NONE
    group.beat(punctual)
    assert not group.notified()
    group.join()
    assert set(group.notified()) == {punctual, other}


def test_members_of_a_cooperative_assignor_are_notified_at_once() -> None:
    # They go on processing what they have, so only what the one that left had would wait.
    group = HeldGroup("cooperative-sticky").at_rest()
    group.restart()
    group.leave(group.members[0])
    assert group.notified() == group.members


def test_a_short_rebalance_timeout_removes_only_notified_members() -> None:
    group = HeldGroup().at_rest()
    group.restart()
    for member in group.shell.shard.groups["g"].members.values():
        member.rebalance_timeout_ms = RESTART
    group.leave(group.members[0])
    group.wait(RESTART // 2 - 1)
    assert not group.notified()
    group.wait(1)
    survivors = group.members
    assert group.notified() == survivors
    group.share()
    assert group.members == survivors
    assert isinstance(group.answers[f"join of {survivors[-1]} at {group.shell.now}"], JoinGroupResponse)


def test_a_wait_that_ends_before_the_successor_is_due_does_not_count(group: HeldGroup) -> None:
    for member in group.shell.shard.groups["g"].members.values():
        member.rebalance_timeout_ms = RESTART
    group.leave(group.members[0])
    group.wait(RESTART // 2)
    group.share(RESTART // 2)
    group.beat(*group.members)
    group.join()  # as late as the one before
    group.share(REBALANCE)
    group.beat(*group.members)
    group.leave(group.members[0])
    assert not group.notified(), "its successor is awaited, too"


def test_a_quick_successor_does_not_make_the_next_one_late() -> None:
    restarts = RestartingMembers()
    for takes in (2_000, 100):
        restarts.member_left(0)
        restarts.member_arrived(takes)
    restarts.member_left(10_000)
    assert restarts.awaits_until(10_000) == 10_000 + 1_500 * 3 // 2 + 200


def test_a_successor_is_awaited_for_three_seconds_at_most() -> None:
    restarts = RestartingMembers()
    restarts.member_left(0)
    restarts.member_arrived(2_900)
    restarts.member_left(10_000)
    assert restarts.awaits_until(10_000) == 13_000


def test_a_rebalance_without_a_leave_does_not_count_for_successors(group: HeldGroup) -> None:
    leader = group.shell.shard.groups["g"].leader_id
    assert leader is not None
    late, other = (member for member in group.members if member != leader)
    group.release(late)
    group.join(leader)  # it knows of something new
    group.wait(4_000)
    assert other in group.notified(), "the late one is waited for no longer"
    group.join(late)
    group.join(other)
    group.share()
    group.beat(*group.members)
    group.leave(group.members[0])
    assert not group.notified(), "a successor is expected as before"
