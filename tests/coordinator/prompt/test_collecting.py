"""When the members of an eager group learn of a rebalance, by the clocks of their clients."""

from __future__ import annotations

import pytest

from kohort.coordinator import ClientKind, HeldHeartbeat, WaitingRequest
from kohort.coordinator.prompt.held_heartbeats import HeldHeartbeats
from kohort.coordinator.prompt.rebalance_notification import next_heartbeat_at
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.coordinator.held_group import HeldGroup

RHYTHM = 3_000


def group_of(client: ClientKind, members: int = 4) -> HeldGroup:
    """A group long after its last change, whose members send heartbeats at one time."""
    group = HeldGroup()
    for _ in range(members):
        group.join()
        group.share()
        group.beat(*group.members)
    for member in group.shell.shard.groups["g"].members.values():
        member.client = client
    for _ in range(2):
        group.wait(RHYTHM)
        for member_id in group.members:
            group.release(member_id, WaitingRequest.OWN_HEARTBEAT)
            group.beat(member_id)
    return group


def test_a_member_whose_hold_outlasted_its_rhythm_is_waited_for_until_its_client_sends_the_next() -> None:
    # librdkafka looks at its clock every 3 s and leaves out the heartbeat that is due while another is under way. So
    # the member is not overdue though its last heartbeat was 4 s ago: the next one is due 6 s after that.
    group = group_of(ClientKind.OTHER)
    late, leaver, *others = group.members
    group.wait(3_600)
    group.release(late)
    group.wait(400)
    group.leave(leaver)
    assert group.notified() == []
    group.wait(1_900)
    assert group.notified() == []
    group.wait(100)
    group.beat(late)
    assert set(group.notified()) == {late, *others}


def test_a_member_that_is_late_is_no_longer_awaited() -> None:
    group = group_of(ClientKind.OTHER)
    late, leaver, *others = group.members
    group.wait(3_600)
    group.release(late)
    group.leave(leaver)
    group.wait(2_400 + 150)
    assert group.notified() == []
    group.wait(100)
    assert set(group.notified()) == set(others)


def test_without_held_heartbeats_the_first_one_waits_for_the_last() -> None:
    group = group_of(ClientKind.OTHER)
    leaver, *others = group.members
    group.release(leaver)
    for member_id in others:
        group.wait(100)
        group.release(member_id)
    group.leave(leaver)
    group.wait(2_700)
    first, *rest = others
    group.beat(first)
    assert group.notified() == []
    for member_id in rest:
        group.beat(member_id)
    assert set(group.notified()) == set(others)


def test_librdkafka_members_are_notified_when_they_may_rejoin() -> None:
    # It sends one JoinGroup a second, and has given up everything before it finds out that it has to wait.
    group = group_of(ClientKind.LIBRDKAFKA)
    assert set(told_after_a_leave(group, 0)) == set(group.members)
    for member_id in group.notified():
        group.join(member_id)
    group.share()
    for member in group.shell.shard.groups["g"].members.values():
        member.client = ClientKind.LIBRDKAFKA
    group.beat(*group.members)
    assert told_after_a_leave(group, 400) == []
    group.wait(599)
    assert group.notified() == []
    group.wait(1)
    assert set(group.notified()) == set(group.members)


def told_after_a_leave(group: HeldGroup, milliseconds: int) -> list[str]:
    group.wait(milliseconds)
    group.leave(group.members[0])
    return group.notified()


@pytest.mark.parametrize(("later_by", "hears"), [(0, ErrorCode.NONE), (300, ErrorCode.REBALANCE_IN_PROGRESS)])
def test_a_commit_while_the_last_is_awaited_does_not_notify_early(later_by: int, hears: ErrorCode) -> None:
    # Told now, it gives up everything and waits for the last. Its next heartbeat may be in time to be told with them.
    group = group_of(ClientKind.OTHER)
    late, leaver, commits, *others = group.members
    group.wait(RHYTHM)
    for member_id in (late, leaver, *others, commits):
        group.wait(later_by if member_id == commits else 0)
        group.release(member_id, WaitingRequest.OWN_HEARTBEAT)
        group.beat(member_id)
    group.wait(100)
    group.release(late)
    group.leave(leaver)
    group.release(commits)
    assert group.answer_to(commits) == hears


def test_a_kohort_member_is_notified_by_the_heartbeat_behind_its_commit() -> None:
    group = group_of(ClientKind.KOHORT)
    late, leaver, commits, *others = group.members
    group.release(late)
    group.leave(leaver)
    group.release(commits)
    assert group.answer_to(commits) == ErrorCode.NONE
    group.beat(commits)
    group.beat(late)
    assert set(group.notified()) == {late, commits, *others}


def test_a_held_heartbeat_ends_with_its_generation() -> None:
    # Its client has joined by another connection, so no request of its own waits behind the heartbeat.
    group = group_of(ClientKind.OTHER, members=3)
    late, leaver, joins = group.members
    group.release(late)
    group.leave(leaver)
    group.join(joins)
    assert joins not in group.answers
    group.join(late)
    assert group.answer_to(joins) == ErrorCode.ILLEGAL_GENERATION


def test_a_member_whose_heartbeat_is_answered_does_not_wait_for_partitions() -> None:
    holds = HeldHeartbeats()
    place = ("g", UUID(int=1), 0)
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
    held = HeldHeartbeat("token", request, 1, arrived_at=0, due_at=5_000, waits_for=[place])
    holds.add(held)
    assert holds.waits_for_partitions
    holds.drop(held)
    assert not holds.waits_for_partitions


def just_joined(client: ClientKind) -> tuple[HeldGroup, str, str, list[str]]:
    """A group whose members have joined a moment ago: one without a heartbeat in hand, one to leave, the others."""
    group = group_of(client)
    group.leave(group.members[0])
    for member_id in group.notified():
        group.join(member_id)
    group.share()
    for member in group.shell.shard.groups["g"].members.values():
        member.client = client
    late, leaver, *others = group.members
    group.beat(leaver, *others)
    del group.answers[late]
    group.wait(400)
    group.leave(leaver)
    return group, late, leaver, others


def test_librdkafka_members_that_are_all_held_are_notified_when_they_may_rejoin() -> None:
    group, late, _, others = just_joined(ClientKind.LIBRDKAFKA)
    group.beat(late)
    group.wait(599)
    assert group.notified() == []
    group.wait(1)
    assert set(group.notified()) == {late, *others}


def test_members_by_librdkafka_that_may_join_again_still_wait_for_the_last() -> None:
    group, late, _, others = just_joined(ClientKind.LIBRDKAFKA)
    group.wait(700)
    assert group.notified() == []
    group.beat(late)
    assert set(group.notified()) == {late, *others}


def test_members_by_librdkafka_that_may_join_again_do_not_wait_for_one_that_is_overdue() -> None:
    group, _, _, others = just_joined(ClientKind.LIBRDKAFKA)
    group.wait(RHYTHM + 300)
    assert set(group.notified()) == set(others)


def test_an_overdue_member_is_notified_by_its_next_heartbeat_although_another_is_overdue() -> None:
    group = group_of(ClientKind.OTHER)
    late, later, leaver, other = group.members
    group.release(late)
    group.release(later)
    group.leave(leaver)
    group.wait(RHYTHM + 300)
    assert group.notified() == [other]
    beat = HeartbeatRequest(group_id="g", generation_id=group.generation, member_id=late)
    (answer,) = group.shell.beat(beat, late).replies.values()
    assert answer == HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def test_members_of_groups_other_than_consumers_are_notified_at_once() -> None:
    # Whether the workers of Kafka Connect stop everything while they rebalance is not known to the coordinator.
    group = HeldGroup(protocol_type="connect").at_rest()
    late, leaver, other = group.members
    group.release(late)
    group.leave(leaver)
    assert group.notified() == [other]


def test_newcomers_of_a_cooperative_group_are_not_waited_for_once_a_member_has_left() -> None:
    # Nobody processes its partitions, so the rest is told although a member has no heartbeat in hand.
    group = HeldGroup("cooperative-sticky").at_rest(4)
    late, leaver, *others = group.members
    group.release(late)
    group.join()
    assert group.notified() == []
    group.leave(leaver)
    assert set(group.notified()) == set(others)


def test_a_heartbeat_that_another_client_repeats_puts_off_the_next() -> None:
    group = group_of(ClientKind.JAVA, members=1)
    [member] = group.shell.shard.groups["g"].members.values()
    due = next_heartbeat_at(member)
    group.release(member.member_id)
    assert group.answer_to(member.member_id) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group.wait(100)
    group.beat(member.member_id)
    assert next_heartbeat_at(member) == due + 100


@pytest.mark.parametrize("client", ClientKind)
def test_the_first_heartbeat_is_due_a_rhythm_after_the_member_has_its_assignment(client: ClientKind) -> None:
    group = HeldGroup()
    group.wait(1_234)
    group.join()
    group.share()
    [member] = group.shell.shard.groups["g"].members.values()
    member.client = client
    assert next_heartbeat_at(member) == group.shell.now + RHYTHM


def test_a_heartbeat_that_librdkafka_repeats_does_not_put_off_the_next() -> None:
    group = group_of(ClientKind.LIBRDKAFKA, members=1)
    [member] = group.shell.shard.groups["g"].members.values()
    due = next_heartbeat_at(member)
    group.release(member.member_id)
    group.wait(100)
    group.beat(member.member_id)
    assert next_heartbeat_at(member) == due


def test_a_heartbeat_that_was_left_out_during_a_hold_does_not_make_the_rhythm_longer() -> None:
    group = group_of(ClientKind.OTHER, members=1)
    [member] = group.shell.shard.groups["g"].members.values()
    group.wait(4_000)
    group.release(member.member_id)
    group.wait(2_000)
    group.beat(member.member_id)
    assert member.heartbeats.interval_ms == RHYTHM


def test_a_generation_restarts_the_count_of_refusals() -> None:
    group = group_of(ClientKind.LIBRDKAFKA, members=1)
    [member_id] = group.members
    for _ in range(2):
        group.wait(900)
        group.release(member_id)
        group.beat(member_id)
    group.join(member_id)
    group.share()
    group.shell.shard.groups["g"].members[member_id].client = ClientKind.LIBRDKAFKA
    for _ in range(2):
        group.beat(member_id)
        group.wait(900)
        group.release(member_id)
        assert group.answer_to(member_id) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_rhythm_grows_by_a_quarter_at_most_with_each_heartbeat_that_comes_late() -> None:
    group = group_of(ClientKind.OTHER, members=1)
    [member] = group.shell.shard.groups["g"].members.values()
    group.release(member.member_id)
    for gap, rhythm in ((3_500, 3_500), (6_000, 4_375), (3_000, 3_000)):
        group.wait(gap)
        group.beat(member.member_id)
        assert member.heartbeats.interval_ms == rhythm
        group.release(member.member_id)


def test_the_heartbeat_of_a_classic_member_is_answered_at_once_after_its_group_became_a_consumer_group() -> None:
    group = HeldGroup("cooperative-sticky").at_rest(members=1)
    [member_id] = group.members
    group.shell.set_topics({"t": 1})
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="c", rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_names=["t"]
    )
    group.shell.handle(joining, "c joins", 1)
    assert group.shell.shard.consumer_groups["g"].members.keys() == {member_id, "c"}
    generation = group.shell.shard.consumer_groups["g"].members[member_id].epoch
    group.wait(0)
    beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert group.shell.beat(beat, "another").replies.keys() == {"another"}


def test_a_member_is_waited_for_by_its_own_rhythm() -> None:
    group = group_of(ClientKind.OTHER)
    late, leaver, *others = group.members
    group.release(late)
    group.shell.shard.groups["g"].members[late].heartbeats.interval_ms = 5_000
    group.leave(leaver)
    group.wait(4_999)
    assert group.notified() == []
    group.wait(1)
    assert set(group.notified()) == set(others)


def test_a_member_of_which_no_rhythm_is_known_is_waited_for_by_that_of_most_clients() -> None:
    group = group_of(ClientKind.OTHER)
    late, leaver, *others = group.members
    group.release(late)
    group.shell.shard.groups["g"].members[late].heartbeats.interval_ms = 0
    group.leave(leaver)
    group.wait(2_999)
    assert group.notified() == []
    group.wait(1)
    assert set(group.notified()) == set(others)


def test_two_heartbeats_at_one_time_say_nothing_of_a_members_rhythm() -> None:
    group = group_of(ClientKind.OTHER)
    member_id = group.members[0]
    history = group.shell.shard.groups["g"].members[member_id].heartbeats
    before = history.interval_ms
    group.release(member_id, WaitingRequest.OWN_HEARTBEAT)
    group.beat(member_id)
    assert history.interval_ms == before > 0
