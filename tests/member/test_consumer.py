"""Members of consumer groups against the coordinator itself (KIP-848)."""

from __future__ import annotations

from typing import NoReturn

import pytest

from kohort.assignor import Assignor, find_assignor
from kohort.assignor.range import RangeAssignor
from kohort.errors import ErrorCode
from kohort.member import (
    CallbackDone,
    CommitRequested,
    ConsumerMember,
    ConsumerMemberConfig,
    CoordinatorFound,
    Leave,
    OffsetAndMetadata,
    Phase,
    PollStarted,
    RequestFailed,
    Responded,
    Send,
    Subscribe,
)
from kohort.member.consumer.phases import BEFORE
from kohort.model import UUID, TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    Computation,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    MemberToAssign,
    TopicPartitions,
    TopicToAssign,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.member.world import SESSION_MS, Host, World, tps


def phase_of(host: Host) -> Phase:
    """Read anew: it changes while time passes."""
    return host.member.phase


def said(heartbeat: ConsumerGroupHeartbeatRequest) -> set[str]:
    """The fields that are not left out."""
    optional = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
    return {name for name, absent in optional.items() if getattr(heartbeat, name) != absent}


ALL_FIELDS = {"rebalance_timeout_ms", "subscribed_topic_names", "topic_partitions"}


def test_the_only_member_gets_everything_and_acknowledges_it() -> None:
    world = World({"t": 3})
    one = world.consumer("one", "t")
    world.settle()
    assert one.told == ["assigned 0,1,2"]
    join, acknowledgement = one.heartbeats
    assert (join.member_epoch, said(join), join.topic_partitions) == (0, ALL_FIELDS, [])
    assert said(acknowledgement) == {"topic_partitions"}
    world.run(60_000)
    assert {frozenset(said(heartbeat)) for heartbeat in one.heartbeats[2:]} == {frozenset()}
    assert len(one.heartbeats) == 2 + 60 // 5


def test_moving_partitions_are_revoked_before_another_member_gets_them() -> None:
    world = World({"t": 4})
    one = world.consumer("one", "t", callback_ms=20_000)
    world.run_until(lambda: one.is_settled)
    two = world.consumer("two", "t")
    world.run_until(lambda: "revoked 2,3" in one.told)
    epoch = one.member.generation
    world.run(19_000)
    assert (two.told, one.member.generation) == (["assigned -"], epoch)  # heartbeats go on meanwhile
    assert len(one.heartbeats) > 4
    world.settle()
    assert one.told == ["assigned 0,1,2,3", "revoked 2,3", "assigned -"]
    assert two.told == ["assigned -", "assigned 2,3"]


def test_a_target_that_changes_while_the_application_is_busy_is_reconciled_next() -> None:
    world = World({"t": 6})
    one = world.consumer("one", "t")
    world.settle()
    one.callback_ms = 30_000
    two = world.consumer("two", "t")
    world.run_until(lambda: "revoked 3,4,5" in one.told)
    two.leave()
    world.run_until(lambda: one.is_settled, within=120_000)
    assert one.member.owned == tps("t", 0, 1, 2, 3, 4, 5)
    assert one.told[1:] == ["revoked 3,4,5", "assigned 3,4,5"]


def test_after_a_lost_answer_a_heartbeat_is_complete() -> None:
    world = World({"t": 2})
    one = world.consumer("one", "t")
    world.settle()
    world.run(10_000)
    one.heartbeats.clear()
    world.run_until(lambda: bool(one.heartbeats))
    one.reset_connection()
    world.run(1_000)
    assert [said(heartbeat) for heartbeat in one.heartbeats] == [set(), ALL_FIELDS]
    assert world.consumer_group.members["one"].epoch == one.member.generation
    assert one.told == ["assigned 0,1"]


def test_a_lost_answer_to_a_join_is_asked_for_again_and_leaves_no_ghost() -> None:
    world = World({"t": 2})
    one = world.consumer("one", "t")
    world.run_until(lambda: len(one.heartbeats) == 1)
    world.run(6)
    one.reset_connection()
    world.settle()
    assert list(world.consumer_group.members) == ["one"]


def test_a_subscription_changed_during_the_join_is_sent_afterwards() -> None:
    # Found by the simulation: a second heartbeat at epoch 0 told only what had changed, and was refused for good.
    world = World({"t": 1, "u": 1})
    one = world.consumer("one", "t")
    world.run_until(lambda: len(one.heartbeats) == 1)
    one.handle(Subscribe(frozenset({"u"})))
    world.run_until(lambda: one.processing == tps("u", 0))
    assert not one.errors
    assert [heartbeat.member_epoch > 0 for heartbeat in one.heartbeats[:2]] == [False, True]


def test_a_member_that_leaves_before_its_join_is_answered_withdraws_it() -> None:
    world = World({"t": 2})
    one = world.consumer("one", "t")
    world.run_until(lambda: len(one.heartbeats) == 1)
    one.leave()
    world.run_until(lambda: phase_of(one) is Phase.UNSUBSCRIBED)
    assert [heartbeat.member_epoch for heartbeat in one.heartbeats] == [0, -1]
    assert not world.consumer_group.members


def test_a_fenced_member_loses_everything_and_comes_back_at_epoch_0_under_its_id() -> None:
    world = World({"t": 2})
    one, two = world.consumer("one", "t"), world.consumer("two", "t")
    world.settle()
    one.may_be_a_zombie = True
    one.stopped = True  # its process is suspended
    world.run(SESSION_MS + 1_000)
    assert two.processing == tps("t", 0, 1)
    one.stopped = False
    one.reset_connection()
    world.run(1_000)
    assert any(line.startswith("lost") for line in one.told)
    assert [heartbeat.member_epoch for heartbeat in one.heartbeats[-3:]].count(0) == 1
    world.settle()
    one.may_be_a_zombie = False
    world.run(10_000)
    assert sorted(len(host.processing) for host in (one, two)) == [1, 1]


def test_a_slow_callback_keeps_its_commits_until_the_rebalance_timeout() -> None:
    world = World({"t": 2})
    one = world.consumer("one", "t", max_poll_interval_ms=20_000)
    world.settle()
    one.on_revoked = lambda partitions: one.commit(dict.fromkeys(partitions, 5))
    one.callback_ms = 10_000
    two = world.consumer("two", "t")
    world.run_until(lambda: two.processing == tps("t", 1))
    assert world.committed == {TopicPartition("t", 1): 5}


def test_a_callback_beyond_the_rebalance_timeout_loses_the_partitions() -> None:
    world = World({"t": 2})
    one = world.consumer("one", "t", max_poll_interval_ms=10_000)
    world.settle()
    one.may_be_a_zombie = True
    one.callback_ms = 60_000
    two = world.consumer("two", "t")
    world.run_until(lambda: two.processing == tps("t", 0, 1))
    assert phase_of(one) is Phase.STALE
    number = one.commit({TopicPartition("t", 0): 7})
    assert one.settled[number] == {TopicPartition("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    one.callback_ms = 0
    world.run_until(lambda: one.is_settled and two.is_settled and len(one.processing) == 1, within=120_000)
    assert one.told[:3] == ["assigned 0,1", "revoked 1", "lost 0"]


def test_an_application_that_does_not_poll_makes_the_member_leave_at_once() -> None:
    world = World({"t": 2})
    one, two = world.consumer("one", "t", max_poll_interval_ms=30_000), world.consumer("two", "t")
    world.run(10_000)
    one.poll()
    one.wants_in = False
    world.run_until(lambda: phase_of(one) is Phase.STALE, within=30_100)
    assert one.heartbeats[-1].member_epoch == -1
    world.run(10_000)
    assert two.processing == tps("t", 0, 1)  # without waiting for the session to end
    assert phase_of(one) is Phase.STALE
    one.handle(PollStarted())
    one.wants_in = True
    world.run(10_000)
    assert one.told[-3:-1] == ["lost 0", "assigned -"]
    assert len(one.processing) == 1


def test_a_static_member_leaves_for_a_while_or_for_good() -> None:
    world = World({"t": 2})
    one, two = world.consumer("one", "t", instance_id="1"), world.consumer("two", "t", instance_id="2")
    world.run(10_000)
    its, epoch = set(two.processing), world.consumer_group.epoch
    two.leave()
    world.run(1_000)
    assert two.heartbeats[-1].member_epoch == -2
    again = world.consumer("two again", "t", instance_id="2")
    world.settle()
    assert (again.processing, world.consumer_group.epoch) == (its, epoch)
    assert one.told == ["assigned 0,1", "revoked 1", "assigned -"]
    again.wants_in = False
    again.handle(Leave(for_good=True))
    world.run(10_000)
    assert again.heartbeats[-1].member_epoch == -1
    assert one.processing == tps("t", 0, 1)


def test_an_instance_id_in_use_ends_the_second_member() -> None:
    world = World({"t": 2})
    world.consumer("one", "t", instance_id="1")
    world.settle()
    second = world.consumer("two", "t", instance_id="1")
    world.run(1_000)
    assert [error.code for error in second.errors] == [ErrorCode.UNRELEASED_INSTANCE_ID]
    assert phase_of(second) is Phase.FATAL


def test_a_topic_without_a_name_waits_for_metadata_while_the_others_continue() -> None:
    world = World({"t": 2})
    one = world.consumer("one", expression="t|u")
    world.settle()
    one.is_blind = True
    world.add_partitions("u", 2)
    world.run(20_000)
    assert phase_of(one) is Phase.RECONCILING
    assert one.processing == tps("t", 0, 1)
    one.is_blind = False
    one.tell_metadata()
    world.settle()
    assert one.processing == tps("t", 0, 1) | tps("u", 0, 1)


def test_partitions_of_a_recreated_topic_are_lost_and_assigned_again() -> None:
    world = World({"t": 1, "u": 1})
    one = world.consumer("one", "t", "u")
    world.settle()
    world.delete_topic("u")
    world.add_partitions("u", 1)
    world.run(20_000)
    world.settle()
    assert one.told == ["assigned 0,0", "deleted 0", "assigned 0"]
    assert one.processing == tps("t", 0) | tps("u", 0)


def test_a_changed_subscription_is_sent_at_once_without_other_fields() -> None:
    world = World({"t": 1, "u": 1})
    one = world.consumer("one", "t")
    world.settle()
    world.run(100)
    one.heartbeats.clear()
    one.handle(Subscribe(frozenset({"u"})))
    assert [said(heartbeat) for heartbeat in one.heartbeats] == [{"subscribed_topic_names"}]
    world.run(10_000)
    assert one.told == ["assigned 0", "revoked 0", "assigned 0"]
    one.handle(Subscribe(frozenset(), "t"))
    world.run(10_000)
    one.handle(Subscribe(frozenset({"u"})))  # an expression is taken back by an empty one
    assert one.heartbeats[-1].subscribed_topic_regex == ""
    world.run(20_000)
    assert one.processing == tps("u", 0)


def test_an_expression_that_is_none_ends_the_member_with_the_brokers_sentence() -> None:
    world = World({"t": 1})
    one = world.consumer("one", expression="(")
    world.run(1_000)
    [error] = one.errors
    assert error.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert error.sentence != error.code.sentence


def test_a_commit_is_sent_in_the_middle_of_a_reconciliation() -> None:
    world = World({"t": 4})
    one = world.consumer("one", "t")
    world.settle()
    one.callback_ms = 20_000
    world.consumer("two", "t")
    world.run_until(lambda: one.callback_runs)
    number = one.commit(dict.fromkeys(one.processing, 3))
    world.run(100)
    assert one.callback_runs
    assert one.settled[number] == {}
    assert len(world.committed) == 4


# Responses that no coordinator of ours sends, made by hand


def joined(epoch: int = 5) -> ConsumerMember:
    """A member at that epoch which owns nothing, at time 100, with no heartbeat under way."""
    member = ConsumerMember(ConsumerMemberConfig(group_id="g", member_id="m"))
    member.handle(Subscribe(frozenset({"t"})), 100)
    [send] = member.handle(CoordinatorFound(), 100).send
    answer = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=Assignment()
    )
    member.handle(Responded(send.request, answer), 100)
    [acknowledgement] = member.handle(CallbackDone(), 100).send
    answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=epoch, heartbeat_interval_ms=5_000)
    member.handle(Responded(acknowledgement.request, answer), 100)
    return member


def test_a_stale_commit_is_repeated_with_the_epoch_of_the_next_heartbeat() -> None:
    member = joined(epoch=5)
    asked = CommitRequested(1, {TopicPartition("t", 0): OffsetAndMetadata(7)}, 10_000)
    [commit] = member.handle(asked, 200).send
    stale = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.STALE_MEMBER_EPOCH)
    refusal = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[stale])])
    [heartbeat] = member.handle(Responded(commit.request, refusal), 210).send  # at once, to learn of the epoch
    assert isinstance(heartbeat.message, ConsumerGroupHeartbeatRequest)
    answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=6, heartbeat_interval_ms=5_000)
    [again] = member.handle(Responded(heartbeat.request, answer), 220).send
    assert isinstance(again.message, OffsetCommitRequest)
    assert again.message.generation_id_or_member_epoch == 6


def test_a_change_is_sent_although_a_heartbeat_is_held() -> None:
    member = joined()
    [held] = member.handle(Subscribe(frozenset({"t"})), 5_200).send
    [second] = member.handle(Subscribe(frozenset({"t", "u"})), 5_300).send
    assert isinstance(second.message, ConsumerGroupHeartbeatRequest)
    # It may arrive at an epoch that the held one's answer brings, and is taken then only with what is owned.
    assert (second.message.subscribed_topic_names, second.message.topic_partitions) == (["t", "u"], [])
    assert member.handle(Subscribe(frozenset({"u"})), 5_400).send == []  # two are enough
    fenced = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
    [join] = member.handle(Responded(held.request, fenced), 5_500).send
    assert isinstance(join.message, ConsumerGroupHeartbeatRequest) and join.message.member_epoch == 0
    assert member.handle(Responded(second.request, fenced), 5_510).send == []  # it speaks of who we no longer are
    assert member.phase is Phase.JOINING


def test_a_broker_without_the_protocol_ends_the_member_with_advice() -> None:
    member = ConsumerMember(ConsumerMemberConfig(group_id="g", member_id="m"))
    member.handle(Subscribe(frozenset({"t"})), 100)
    [send] = member.handle(CoordinatorFound(), 100).send
    error = member.handle(RequestFailed(send.request, ErrorCode.UNSUPPORTED_VERSION), 110).error
    assert error is not None and "group_protocol=classic" in error.sentence


@pytest.mark.parametrize("phase", list(BEFORE))
def test_every_phase_can_be_left_and_entered(phase: Phase) -> None:
    assert BEFORE[phase] <= BEFORE.keys()
    assert phase not in BEFORE[phase]
    assert any(phase in before for before in BEFORE.values())


def test_a_classic_member_keeps_its_partitions_while_its_group_migrates_repeatedly() -> None:
    # The group is a classic one again before the classic member learned that it should revoke partitions.
    world = World({"t": 4})
    classic = world.host("classic", "t")
    world.settle()
    world.run(100)
    passing = world.consumer("passing", "t")
    world.run_until(lambda: passing.member.generation is not None)
    passing.leave()
    world.run_until(lambda: phase_of(passing) is Phase.UNSUBSCRIBED)
    staying = world.consumer("staying", "t")
    world.run(50)
    assert len(classic.processing) == 4 and not staying.processing
    world.run(20_000)
    assert sorted(len(host.processing) for host in (classic, staying)) == [2, 2]


def test_a_commit_of_a_member_that_the_group_does_not_know_fences_it_at_once() -> None:
    # Were it to wait for its next heartbeat, it would go on with what is another's by now.
    member = joined(epoch=5)
    [commit] = member.handle(CommitRequested(1, {TopicPartition("t", 0): OffsetAndMetadata(7)}, 10_000), 200).send
    unknown = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    refusal = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[unknown])])
    [join] = member.handle(Responded(commit.request, refusal), 210).send
    assert isinstance(join.message, ConsumerGroupHeartbeatRequest)
    assert (join.message.member_epoch, join.message.member_id) == (0, "m")


# Members that compute


def computing(assignor: Assignor) -> tuple[ConsumerMember, Send]:
    """A member that offers an assignor, and its join."""
    config = ConsumerMemberConfig(group_id="g", member_id="m", client_assignors=(assignor,))
    member = ConsumerMember(config)
    member.handle(Subscribe(frozenset({"t"})), 100)
    [join] = member.handle(CoordinatorFound(), 100).send
    return member, join


def asked_to_compute(assignor: str = "range") -> ConsumerGroupHeartbeatResponse:
    """Two members; one of them has a partition of t."""
    t = UUID(int=7)
    members = [
        MemberToAssign(member_id="m", topic_ids=[t]),
        MemberToAssign(member_id="n", topic_ids=[t], owned=[TopicPartitions(topic_id=t, partitions=[1])]),
    ]
    topics = [TopicToAssign(topic_id=t, name="t", partitions=2)]
    return ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=5,
        heartbeat_interval_ms=5_000,
        assignment=Assignment(),
        takes_offers=True,
        computation=Computation(group_epoch=6, assignor=assignor, topics=topics, members=members),
    )


def test_a_member_asked_to_compute_answers_for_the_whole_group_at_once() -> None:
    member, join = computing(find_assignor("range"))
    assert isinstance(join.message, ConsumerGroupHeartbeatRequest)
    assert [assignor.name for assignor in join.message.offered_assignors or []] == ["range"]
    [told] = member.handle(Responded(join.request, asked_to_compute()), 110).send
    assert isinstance(told.message, ConsumerGroupHeartbeatRequest)
    computed = told.message.computed
    assert computed is not None and (computed.group_epoch, computed.error) == (6, None)
    shares = {target.member_id: target.topic_partitions for target in computed.targets}
    assert {name: [(topic.topic_id.int, topic.partitions) for topic in share] for name, share in shares.items()} == {
        "m": [(7, [0])],
        "n": [(7, [1])],
    }
    assert told.message.offered_assignors == join.message.offered_assignors  # the new coordinator receives it, too


def test_a_member_whose_assignor_fails_reports_the_reason_and_continues() -> None:
    class Failing(RangeAssignor):
        def assign(self, *arguments: object, **more: object) -> NoReturn:
            raise ZeroDivisionError("division by zero")

    member, join = computing(Failing())
    actions = member.handle(Responded(join.request, asked_to_compute()), 110)
    [told] = actions.send
    assert isinstance(told.message, ConsumerGroupHeartbeatRequest) and told.message.computed is not None
    assert told.message.computed.error == "the assignor 'range' failed: ZeroDivisionError: division by zero"
    assert actions.warning == told.message.computed.error
    assert member.generation == 5


def test_a_broker_without_client_side_assignors_is_detected_at_once() -> None:
    member, join = computing(find_assignor("range"))
    answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=5, assignment=Assignment())
    error = member.handle(Responded(join.request, answer), 110).error
    assert error is not None and error.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "remove group_local_assignors" in error.sentence


def test_a_rejected_target_is_a_warning() -> None:
    member, join = computing(find_assignor("range"))
    [told] = member.handle(Responded(join.request, asked_to_compute()), 110).send
    answer = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=6, heartbeat_interval_ms=5_000, refused="t-1 is given to two members"
    )
    assert "t-1 is given to two members" in (member.handle(Responded(told.request, answer), 120).warning or "")


def test_a_commit_is_given_up_when_the_epoch_was_stale_twenty_times() -> None:
    member = joined(epoch=5)
    partition = TopicPartition("t", 0)
    stale = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.STALE_MEMBER_EPOCH)
    refusal = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[stale])])
    actions = member.handle(CommitRequested(1, {partition: OffsetAndMetadata(7)}, 10_000), 200)
    for attempt in range(1, 21):
        [commit] = actions.send
        assert isinstance(commit.message, OffsetCommitRequest), attempt
        actions = member.handle(Responded(commit.request, refusal), 200)
        [heartbeat] = actions.send
        if attempt < 20:
            assert actions.settled == []
            answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=5, heartbeat_interval_ms=5_000)
            actions = member.handle(Responded(heartbeat.request, answer), 200)
    assert [settled.errors for settled in actions.settled] == [{partition: ErrorCode.STALE_MEMBER_EPOCH}]
