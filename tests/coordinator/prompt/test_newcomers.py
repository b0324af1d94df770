"""Members that join a cooperative group shortly one after another are one rebalance: told of the first, the others
would have shared with it by the time the second comes, and could not be told anything for a heartbeat interval."""

import pytest

from kohort.coordinator import GroupConfig, GroupState
from kohort.coordinator.timers import NotificationDue
from tests.coordinator.held_group import RESTART, HeldGroup
from tests.coordinator.shell import Shell

MOMENT, MOST = 300, 600


@pytest.fixture
def group() -> HeldGroup:
    return HeldGroup("cooperative-sticky").at_rest(members=1)


def test_the_members_are_notified_of_a_new_member_after_a_short_wait(group: HeldGroup) -> None:
    (owner,) = group.members
    group.join()
    group.wait(MOMENT - 1)
    assert not group.notified(), "it goes on processing, and may commit"
    group.wait(1)
    assert group.notified() == [owner]


def test_two_that_join_a_tenth_of_a_second_apart_are_one_rebalance(group: HeldGroup) -> None:
    before, (owner,) = group.generation, group.members
    group.join()
    group.wait(100)
    group.join()
    group.wait(MOMENT - 1)
    assert not group.notified()
    group.wait(1)
    assert group.notified() == [owner]
    group.share()
    assert (group.generation, len(group.members)) == (before + 1, 3)


def test_a_client_that_asked_for_a_member_id_is_awaited(group: HeldGroup) -> None:
    # KIP-394: the coordinator returns the id first, and the client joins again with it.
    group.join()
    group.wait(MOMENT - 1)
    group.join(version=4)
    group.wait(MOMENT - 1)
    assert not group.notified()
    group.wait(1)
    assert group.notified()


def test_the_first_newcomer_waits_for_two_moments_at_most_however_many_come(group: HeldGroup) -> None:
    for _ in range(MOST // 100):
        assert not group.notified()
        group.join()
        group.wait(100)
    assert group.notified() == group.members[:1]


def test_a_member_whose_heartbeat_arrives_during_the_wait_is_notified_with_the_others(group: HeldGroup) -> None:
    (owner,) = group.members
    group.release(owner)
    group.join()
    group.beat(owner)
    assert not group.notified()
    group.wait(MOMENT)
    assert group.notified() == [owner]


def test_a_member_that_is_notified_early_and_rejoins_ends_the_wait(group: HeldGroup) -> None:
    (owner,) = group.members
    group.join()
    group.release(owner)
    assert group.notified() == [owner]
    group.join(owner)
    assert group.shell.shard.groups["g"].state is GroupState.COMPLETING_REBALANCE
    assert NotificationDue("g") not in group.shell.timers


def test_members_that_do_not_process_yet_are_notified_of_a_new_member_at_once(group: HeldGroup) -> None:
    # They have joined, and wait for the leader's assignment.
    (owner,) = group.members
    group.join()
    group.wait(MOMENT)
    group.join(owner)
    assert group.shell.shard.groups["g"].state is GroupState.COMPLETING_REBALANCE
    group.beat(owner)
    group.join()
    assert group.notified() == [owner]


def test_a_leave_during_the_wait_notifies_the_others_at_once() -> None:
    # Nobody processes what it had.
    group = HeldGroup("cooperative-sticky").at_rest()
    leaver, *others = group.members
    group.join()
    group.leave(leaver)
    assert group.notified() == others


def test_a_returning_member_is_announced_at_once() -> None:
    # A restart: no other member joins with it.
    group = HeldGroup("cooperative-sticky").at_rest()
    group.leave(group.members[0])
    group.share()
    group.beat(*group.members)
    group.wait(10 * RESTART)
    survivors = group.members
    group.join()
    assert group.notified() == survivors


def test_a_group_that_grows_beyond_what_it_was_waits_again() -> None:
    group = HeldGroup("cooperative-sticky").at_rest()
    group.leave(group.members[0])
    group.share()
    group.beat(*group.members)
    group.join()
    assert group.notified(), "it may have come back"
    group.share()
    group.beat(*group.members)
    group.join()
    assert not group.notified()


def test_members_of_an_eager_assignor_are_notified_of_a_new_member_at_once() -> None:
    group = HeldGroup().at_rest()
    before = group.members
    group.join()
    assert group.notified() == before


def test_a_group_that_still_moves_partitions_does_not_wait(group: HeldGroup) -> None:
    # A released partition is dark until the next generation.
    owner, _ = group.at_rest(members=1).members
    group.shell.shard.groups["g"].rebalance.revoking_members = frozenset([owner])
    group.join()
    assert group.shell.shard.groups["g"].rebalance.notice.new_members_until is None


def test_the_wait_does_not_count_towards_a_short_rebalance_timeout(group: HeldGroup) -> None:
    (owner,) = group.members
    group.shell.shard.groups["g"].members[owner].rebalance_timeout_ms = MOMENT
    group.join()
    group.wait(MOMENT // 2 - 1)
    assert not group.notified()
    group.wait(1)
    assert group.notified() == [owner]


def test_without_holding_there_is_no_wait() -> None:
    group = HeldGroup("cooperative-sticky")
    group.shell = Shell(GroupConfig(initial_rebalance_delay_ms=0))
    group.join()
    group.share()
    group.join()
    assert group.shell.shard.groups["g"].rebalance.notice.new_members_until is None


MINUTE = 60_000


def leave_and_share(group: HeldGroup) -> None:
    """One member leaves, and the others are at rest without it."""
    group.leave(group.members[0])
    group.share()
    group.beat(*group.members)


def join_and_share(group: HeldGroup) -> None:
    group.join()
    group.share()
    group.beat(*group.members)


def rest(group: HeldGroup, milliseconds: int) -> None:
    """That time passes, and all members keep their sessions."""
    for _ in range(milliseconds // MINUTE):
        for _ in range(4):
            for member_id in group.members:
                group.release(member_id)
            group.beat(*group.members)
            group.wait(MINUTE // 4)


def waits_for_more(group: HeldGroup) -> bool:
    """Return whether a new member counts as one of several, and not as one that returns."""
    group.join()
    return not group.notified()


def test_a_group_that_was_larger_long_ago_remembers_how_large_it_was_lately() -> None:
    group = HeldGroup("cooperative-sticky").at_rest()
    leave_and_share(group)
    rest(group, 11 * MINUTE)
    leave_and_share(group)
    assert not waits_for_more(group), "the second that left may be back"


def test_a_group_that_shrinks_step_by_step_remembers_how_large_it_was_before_the_first() -> None:
    group = HeldGroup("cooperative-sticky").at_rest()
    leave_and_share(group)
    leave_and_share(group)
    join_and_share(group)
    assert not waits_for_more(group), "the first that left may be back"


def test_a_group_that_is_as_large_again_remembers_it_from_then_on() -> None:
    group = HeldGroup("cooperative-sticky").at_rest(members=2)
    leave_and_share(group)
    join_and_share(group)
    rest(group, 9 * MINUTE)
    leave_and_share(group)
    rest(group, 6 * MINUTE)
    assert not waits_for_more(group)
