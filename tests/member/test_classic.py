"""Members of classic groups against the coordinator itself."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.member import Phase, PollStarted, Subscribe
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.member.world import Host, World, tps

EAGER = "range"


def phase_of(host: Host) -> Phase:
    """Read anew: it changes while time passes."""
    return host.member.phase


def test_the_only_member_gets_everything() -> None:
    world = World({"t": 3})
    one = world.host("one", "t")
    world.settle()
    assert one.member.owned == tps("t", 0, 1, 2)
    assert one.told == ["assigned 0,1,2"]
    assert one.sent[:3] == [JoinGroupRequest, JoinGroupRequest, SyncGroupRequest]  # KIP-394: the first gives an id
    assert one.member.is_leader


def test_a_cooperative_member_gives_up_only_what_moves() -> None:
    world = World({"t": 4})
    one = world.host("one", "t")
    world.settle()
    two = world.host("two", "t")
    world.settle()
    world.run(10_000)
    assert one.told == ["assigned 0,1,2,3", "revoked 2,3", "assigned -", "assigned -"]
    assert two.told == ["assigned -", "assigned 2,3"]
    assert world.generation == 3


def test_an_eager_member_gives_up_everything_before_it_joins() -> None:
    world = World({"t": 4})
    one = world.host("one", "t", assignors=EAGER)
    world.settle()
    two = world.host("two", "t", assignors=EAGER)
    world.run_until(lambda: "revoked 0,1,2,3" in one.told)
    assert one.member.phase is Phase.PREPARING
    assert one.sent.count(JoinGroupRequest) == 2  # not yet a third
    world.settle()
    assert one.told == ["assigned 0,1,2,3", "revoked 0,1,2,3", "assigned 0,1"]
    assert two.told == ["assigned 2,3"]
    assert world.generation == 2


@pytest.mark.parametrize("assignors", ["cooperative-sticky", EAGER])
def test_while_a_callback_takes_longer_than_the_session_the_member_stays_and_its_commits_work(assignors: str) -> None:
    world = World({"t": 2})
    one = world.host("one", "t", assignors=assignors, callback_ms=100_000)
    world.run_until(lambda: one.is_settled, within=200_000)
    two = world.host("two", "t", assignors=assignors)
    world.run_until(lambda: any(line.startswith("revoked") for line in one.told))
    member_id = one.member.member_id
    world.run(90_000)
    assert one.callback_runs
    number = one.commit({TopicPartition("t", 1): 7})
    world.run(1_000)
    assert one.settled[number] == {}
    assert two.member.owned == tps("t")
    world.run_until(lambda: one.is_settled and bool(two.processing), within=300_000)
    assert one.member.member_id == member_id
    assert world.committed[TopicPartition("t", 1)] == 7


def test_a_callback_beyond_the_rebalance_timeout_loses_the_partitions() -> None:
    world = World({"t": 2})
    one = world.host("one", "t", assignors=EAGER, max_poll_interval_ms=10_000)
    world.settle()
    one.callback_ms = 30_000
    one.may_be_a_zombie = True  # it says so itself: its callback is too slow
    two = world.host("two", "t", assignors=EAGER, max_poll_interval_ms=10_000)
    world.run_until(lambda: two.processing == tps("t", 0, 1))
    assert one.callback_runs
    one.callback_ms = 0
    number = one.commit({TopicPartition("t", 0): 7})
    world.run(1_000)
    assert one.settled[number] == {TopicPartition("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert world.committed == {}
    world.run_until(lambda: one.is_settled and two.is_settled, within=200_000)
    assert world.members == 2


def test_a_commit_of_kept_partitions_waits_for_the_rebalance_and_succeeds() -> None:
    world = World({"t": 4})
    one = world.host("one", "t")
    world.settle()
    world.host("two", "t")
    world.run_until(lambda: one.member.phase is Phase.JOINING)
    kept = one.commit({TopicPartition("t", 0): 5})
    world.settle()
    assert one.settled[kept] == {}
    assert world.committed == {TopicPartition("t", 0): 5}


def test_a_commit_of_revoked_partitions_never_succeeds() -> None:
    # Another may be ahead of it by the time that it would arrive.
    world = World({"t": 2})
    one = world.host("one", "t", assignors=EAGER)
    world.settle()
    world.host("two", "t", assignors=EAGER)
    world.run_until(lambda: one.member.phase is Phase.JOINING)
    number = one.commit({TopicPartition("t", 0): 5, TopicPartition("t", 1): 5})
    assert set(one.settled[number].values()) == {ErrorCode.REBALANCE_IN_PROGRESS}
    world.settle()
    assert world.committed == {}


def test_commits_reach_the_log_in_the_order_in_which_they_were_asked_for() -> None:
    world = World({"t": 1})
    one = world.host("one", "t")
    world.settle()
    numbers = [one.commit({TopicPartition("t", 0): offset}) for offset in (1, 2, 3)]
    world.fail_over()  # the first of them is answered with NOT_COORDINATOR, or not at all
    one.reset_connection()
    world.run(5_000)
    assert [one.settled[number] for number in numbers] == [{}, {}, {}]
    assert world.committed == {TopicPartition("t", 0): 3}


def test_a_commit_of_what_does_not_exist_fails_with_the_reason_at_its_deadline() -> None:
    world = World({"t": 1})
    one = world.host("one", "t")
    world.settle()
    world.coordinator_is_lost = True
    one.reset_connection()
    number = one.commit({TopicPartition("t", 0): 1}, within=2_000)
    world.run(3_000)
    assert one.settled[number] == {TopicPartition("t", 0): ErrorCode.REQUEST_TIMED_OUT}


def test_a_commit_without_membership_is_sent_as_a_simple_consumers() -> None:
    world = World({"t": 1})
    alone = world.host("alone")
    alone.wants_in = False
    number = alone.commit({TopicPartition("t", 0): 3})
    world.run(1_000)
    assert alone.settled[number] == {}
    assert world.committed == {TopicPartition("t", 0): 3}


def test_the_leader_joins_again_when_a_topic_grows() -> None:
    world = World({"t": 2})
    one, two = world.host("one", "t"), world.host("two", "t")
    world.settle()
    world.run(10_000)
    world.add_partitions("t", 6)
    world.run_until(lambda: len(world.owners()) == 6)
    world.settle()
    assert sorted(len(host.member.owned) for host in (one, two)) == [3, 3]
    leader = one if one.member.is_leader else two
    assert "t" in leader.member.reason or "number of partitions" in leader.member.reason


def test_the_leader_learns_of_topics_that_only_others_want() -> None:
    world = World({"a": 1, "b": 2})
    world.host("one", "a")
    world.settle()
    world.host("two", "b")
    world.settle()
    world.run(10_000)
    assert world.owners() == {
        TopicPartition("a", 0): "one",
        TopicPartition("b", 0): "two",
        TopicPartition("b", 1): "two",
    }


def test_a_changed_subscription_revokes_unwanted_partitions() -> None:
    world = World({"a": 1, "b": 1})
    one = world.host("one", "a")
    world.settle()
    one.handle(Subscribe(frozenset({"b"})))
    world.run_until(lambda: one.processing == tps("b", 0))
    world.settle()
    assert one.told == ["assigned 0", "revoked 0", "assigned 0"]
    assert one.member.reason == "the subscription changed"


def test_an_eager_member_gives_up_what_it_wins_when_it_wants_other_topics_already() -> None:
    # Found by the simulation: the request arrived just before the assignment, and the member kept its partitions.
    world = World({"a": 1, "b": 1})
    one = world.host("one", "a", assignors=EAGER, callback_ms=50)
    world.run_until(lambda: phase_of(one) is Phase.SYNCING)
    one.handle(Subscribe(frozenset({"b"})))
    world.run_until(lambda: one.told == ["assigned 0", "revoked 0"])
    assert one.sent.count(JoinGroupRequest) == 2  # for an id and for the first generation; not yet for the next


def test_a_member_without_partitions_stays() -> None:
    world = World({"t": 1})
    world.host("one", "t")
    two = world.host("two", "t")
    world.settle()
    world.run(120_000)
    assert world.members == 2
    assert two.member.phase is Phase.STABLE
    assert two.sent.count(HeartbeatRequest) > 30


def test_members_take_the_assignor_that_all_of_them_have() -> None:
    world = World({"t": 2})
    one = world.host("one", "t", assignors="range,roundrobin")
    two = world.host("two", "t", assignors="roundrobin")
    world.settle()
    assert world.shell.shard.groups["g"].protocol == "roundrobin"
    assert sorted(len(host.processing) for host in (one, two)) == [1, 1]


def test_a_member_without_a_common_assignor_gets_an_error() -> None:
    world = World({"t": 2})
    world.host("one", "t", assignors="range")
    world.settle()
    two = world.host("two", "t", assignors="roundrobin")
    world.run(1_000)
    assert [error.code for error in two.errors] == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert two.member.phase is Phase.FATAL


# Leaving


def test_leaving_revokes_first_so_that_the_last_commit_succeeds() -> None:
    world = World({"t": 2})
    one, two = world.host("one", "t"), world.host("two", "t")
    world.settle()
    world.run(10_000)
    mine = next(iter(two.member.owned))
    two.on_revoked = lambda partitions: two.commit(dict.fromkeys(partitions, 9))
    two.leave()
    world.run_until(lambda: two.member.phase is Phase.UNSUBSCRIBED)
    assert world.committed == {mine: 9}
    world.run_until(lambda: one.processing == tps("t", 0, 1))
    assert world.members == 1


def test_leaving_while_the_join_is_parked_gets_through() -> None:
    world = World({"t": 2})
    one = world.host("one", "t", callback_ms=20_000)
    world.run_until(lambda: one.is_settled)
    two = world.host("two", "t", assignors="cooperative-sticky")
    world.run_until(lambda: two.member.phase is Phase.JOINING and two.member.member_id != "")
    two.leave()
    two.reset_connection()  # the shell sends LeaveGroup on another connection; here the one there is breaks
    world.run_until(lambda: two.member.phase is Phase.UNSUBSCRIBED)
    world.run_until(lambda: one.is_settled)
    assert world.members == 1


@pytest.mark.parametrize("leaves_after", range(0, 40, 3))
def test_leaving_at_any_moment_of_a_join_does_not_delay_others(leaves_after: int) -> None:
    # An id that was handed out and never used would hold the next rebalance up until its session ended.
    world = World({"t": 2})
    one = world.host("one", "t")
    world.settle()
    two = world.host("two", "t")
    world.run(leaves_after)
    two.leave()
    world.host("three", "t")
    world.run(15_000)
    assert two.member.phase is Phase.UNSUBSCRIBED
    assert world.members == 2
    assert one.is_settled
    assert len(one.member.owned) == 1


@pytest.mark.parametrize("leader", [True, False])
@pytest.mark.parametrize("leaves_after", range(0, 60, 4))
def test_the_last_commit_succeeds_at_any_moment_of_a_rebalance_at_which_a_member_leaves(
    leaves_after: int, leader: bool
) -> None:
    # Once all have joined, the coordinator takes commits of neither generation until all are synced.
    world = World({"t": 6})
    hosts = [world.host("one", "t"), world.host("two", "t")]
    world.settle()
    world.run(10_000)
    goes = next(host for host in hosts if host.member.is_leader is leader)
    goes.callback_ms = 2_000
    mine = set(goes.member.owned)
    goes.on_revoked = lambda partitions: goes.asked.append(goes.commit(dict.fromkeys(partitions, 9)))
    world.host("three", "t")
    world.run_until(lambda: goes.member.phase is not Phase.STABLE)
    world.run(leaves_after)
    given = set(goes.member.owned)
    goes.leave()
    world.run_until(lambda: goes.member.phase is Phase.UNSUBSCRIBED)
    assert given <= mine
    assert world.committed == dict.fromkeys(given, 9)
    assert all(goes.settled[number] == {} for number in goes.asked)
    world.run(15_000)
    assert world.members == 2
    assert world.owners().keys() == tps("t", *range(6))


def test_leaving_with_an_unreachable_coordinator_tries_again() -> None:
    world = World({"t": 1})
    one = world.host("one", "t")
    world.settle()
    world.coordinator_is_lost = True
    one.leave()
    world.run(5_000)
    assert one.member.phase is Phase.LEAVING
    world.coordinator_is_lost = False
    world.run_until(lambda: one.member.phase is Phase.UNSUBSCRIBED)
    assert world.members == 0


def test_a_member_that_left_can_join_again() -> None:
    world = World({"t": 1})
    one = world.host("one", "t")
    world.settle()
    first = one.member.member_id
    one.leave()
    one.handle(Subscribe(frozenset({"t"})))  # while it still leaves
    one.wants_in = True
    world.settle()
    assert one.processing == tps("t", 0)
    assert one.member.member_id != first
    assert world.members == 1


# Static members


def test_a_static_member_that_returns_in_time_keeps_its_partitions_without_a_rebalance() -> None:
    world = World({"t": 4})
    one = world.host("one", "t", instance_id="i1")
    two = world.host("two", "t", instance_id="i2")
    world.settle()
    world.run(10_000)
    generation, owned = world.generation, two.member.owned
    two.crash()
    world.run(20_000)
    again = world.host("two again", "t", instance_id="i2")
    world.settle()
    assert world.generation == generation
    assert again.member.owned == owned
    assert one.told.count("assigned -") <= 1


def test_a_static_member_leaves_nothing_but_silence() -> None:
    world = World({"t": 1})
    one = world.host("one", "t", instance_id="i1")
    world.settle()
    one.leave()
    world.run_until(lambda: one.member.phase is Phase.UNSUBSCRIBED)
    assert LeaveGroupRequest not in one.sent
    assert world.members == 1
    world.run(50_000)
    assert world.members == 0


def test_the_older_of_two_members_with_one_instance_id_is_fenced() -> None:
    world = World({"t": 1})
    one = world.host("one", "t", instance_id="i")
    world.settle()
    one.may_be_a_zombie = True
    two = world.host("two", "t", instance_id="i")
    world.run_until(lambda: bool(two.processing))
    world.run(5_000)
    assert [error.code for error in one.errors] == [ErrorCode.FENCED_INSTANCE_ID]
    assert one.member.phase is Phase.FATAL
    assert one.told[-1] == "lost 0"
    number = one.commit({TopicPartition("t", 0): 1})
    assert one.settled[number] == {TopicPartition("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert two.processing == tps("t", 0)


# Faults


def test_no_ghost_is_left_when_the_answer_to_the_first_join_is_lost() -> None:
    # KAFKA-7610
    world = World({"t": 1})
    one = world.host("one", "t")
    world.run_until(lambda: JoinGroupRequest in one.sent)
    world.run(6)
    one.reset_connection()
    world.settle()
    assert world.members == 1
    assert one.processing == tps("t", 0)


def test_a_coordinator_that_moves_causes_no_rebalance() -> None:
    # L2: sessions hold over a broker's failure.
    world = World({"t": 4})
    one, two = world.host("one", "t"), world.host("two", "t")
    world.settle()
    world.run(10_000)
    generation, told = world.generation, (list(one.told), list(two.told))
    world.coordinator_is_lost = True
    world.run(10_000)
    world.fail_over()
    world.coordinator_is_lost = False
    world.run(60_000)
    assert world.generation == generation
    assert (one.told, two.told) == told
    assert one.lookups > 1


def test_looking_for_a_coordinator_backs_off() -> None:
    world = World({"t": 1})
    world.coordinator_is_lost = True
    one = world.host("one", "t")
    world.run(60_000)
    assert 40 < one.lookups < 80


@pytest.mark.parametrize("cut_at", range(0, 60, 3))
def test_a_connection_may_break_at_any_moment_of_a_rebalance(cut_at: int) -> None:
    world = World({"t": 4})
    one = world.host("one", "t")
    world.settle()
    two = world.host("two", "t")
    world.run(cut_at)
    two.reset_connection()
    world.run(1_500)
    one.reset_connection()
    world.run_until(lambda: one.is_settled and two.is_settled and len(world.owners()) == 4)
    world.run(10_000)
    assert sorted(len(host.member.owned) for host in (one, two)) == [2, 2]
    assert world.members == 2


def test_a_member_whose_session_ended_unnoticed_loses_its_partitions_and_returns() -> None:
    world = World({"t": 2})
    one, two = world.host("one", "t"), world.host("two", "t")
    world.settle()
    world.run(10_000)
    one.may_be_a_zombie = True
    one.callback_ms = 0
    # The process is suspended: nothing arrives, nothing is sent.
    one.stopped = True
    world.run(60_000)
    assert two.processing == tps("t", 0, 1)
    one.stopped = False
    one.reset_connection()
    one.poll()
    world.run(10_000)
    assert any(line.startswith("lost") for line in one.told)
    world.settle()
    one.may_be_a_zombie = False
    world.run(10_000)
    assert sorted(len(host.processing) for host in (one, two)) == [1, 1]


# The application


def test_an_application_that_does_not_poll_makes_the_member_leave_at_once() -> None:
    world = World({"t": 2})
    one, two = world.host("one", "t", max_poll_interval_ms=30_000), world.host("two", "t")
    world.settle()
    one.poll()
    world.run(29_000)
    assert one.member.phase is Phase.STABLE
    one.may_be_a_zombie = True
    one.wants_in = False
    world.run(8_000)
    assert phase_of(one) is Phase.STALE
    assert two.processing == tps("t", 0, 1)  # without waiting for the session to end
    number = one.commit(dict.fromkeys(one.member.owned, 5))
    assert set(one.settled[number].values()) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert not any(line.startswith("lost") for line in one.told)  # it gets the error when it returns
    one.poll()
    one.wants_in = True
    world.settle()
    one.may_be_a_zombie = False
    world.run(10_000)
    assert any(line.startswith("lost") for line in one.told)
    assert sorted(len(host.processing) for host in (one, two)) == [1, 1]


def test_a_callback_that_takes_longer_than_max_poll_interval_puts_a_cooperative_member_out() -> None:
    # The coordinator would wait forever: a cooperative member revokes partitions after its rebalance.
    world = World({"t": 4})
    one = world.host("one", "t", max_poll_interval_ms=10_000)
    world.settle()
    one.callback_ms = 60_000
    one.may_be_a_zombie = True
    two = world.host("two", "t")
    world.run_until(lambda: two.processing == tps("t", 0, 1, 2, 3), within=20_000)
    assert phase_of(one) is Phase.STALE
    one.callback_ms = 0
    world.run_until(lambda: one.is_settled and two.is_settled and len(one.processing) == 2, within=100_000)
    assert one.told[:3] == ["assigned 0,1,2,3", "revoked 2,3", "lost 0,1"]


def test_an_application_that_waits_in_a_poll_is_not_late() -> None:
    world = World({"t": 1})
    one = world.host("one", "t", max_poll_interval_ms=30_000)
    world.settle()
    one.handle(PollStarted())
    world.run(100_000)
    assert one.member.phase is Phase.STABLE


def test_only_one_commit_is_under_way_at_a_time() -> None:
    world = World({"t": 1})
    one = world.host("one", "t")
    world.settle()
    for offset in range(5):
        one.commit({TopicPartition("t", 0): offset})
    assert one.sent.count(OffsetCommitRequest) == 1
    world.run(1_000)
    assert one.sent.count(OffsetCommitRequest) == 5


def test_a_leader_reads_a_subscription_that_lacks_fields_of_its_version() -> None:
    # Some clients name version 1 and end where version 0 does; one of them must not end the whole group.
    world = World({"t": 2})
    one = world.host("one", "t", assignors="range")
    world.settle()
    short = b"\0\1" + encode_subscription(Subscription(["t"]), 0)[2:]
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=20_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=short)],
    )
    world.shell.handle(join, -1, 3, "old")
    world.run_until(lambda: "revoked 0,1" in one.told)
    world.run_until(lambda: one.is_settled)
    assert one.errors == []
    assert one.member.is_leader and one.member.owned == tps("t", 1)
