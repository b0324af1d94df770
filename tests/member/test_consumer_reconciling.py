"""From what a member owns to its target, one step at a time, and what it tells the coordinator after each."""

from __future__ import annotations

from kohort.errors import ErrorCode
from kohort.member import Phase, Subscribe
from kohort.model import UUID
from kohort.wire.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from tests.member.consumer_by_hand import IDS, T0, T1, U0, ConsumerByHand, owned_in, phase_of, stable

NOTHING: frozenset[object] = frozenset()


def test_a_revocation_is_acknowledged_before_partitions_are_assigned() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    assert hand.beat([T1]).revoke == frozenset({T0})
    hand.done()
    assert (owned_in(hand.heartbeat), hand.last.assign) == (set(), None)
    assert hand.beat().assign == frozenset({T1})
    hand.done()
    assert (owned_in(hand.heartbeat), phase_of(hand)) == ({T1}, Phase.STABLE)


def test_nothing_is_taken_while_a_heartbeat_that_does_not_list_it_is_under_way() -> None:
    # The coordinator may give it to another when that arrives.
    hand = stable(T0)
    hand.wait(5_000)
    hand.beat([])
    hand.done()
    hand.beat()
    assert hand.last.assign == NOTHING
    hand.done()
    assert owned_in(hand.heartbeat) == set()
    hand.beat([T0])
    assert hand.last.assign == frozenset({T0})


def test_after_a_rejection_nothing_is_assigned_before_a_complete_heartbeat() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    hand.beat([])
    hand.done()
    hand.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert hand.last.assign is None  # the end of the rebalance is reported when the coordinator knows it
    hand.now += 100
    hand.name_topics()
    assert owned_in(hand.heartbeat) == set()
    assert hand.last.assign is None
    assert hand.beat().assign == NOTHING


def test_the_same_target_once_more_changes_nothing() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    actions = hand.beat([T0])
    assert (actions.assign, phase_of(hand), len(hand.heartbeats)) == (None, Phase.STABLE, 0)


def test_a_target_that_comes_back_while_the_application_gives_up_is_taken_afterwards() -> None:
    hand = stable(T0, T1)
    hand.wait(5_000)
    assert hand.beat([T0]).revoke == frozenset({T1})
    hand.wait(5_000)
    actions = hand.beat([T0, T1])
    assert (actions.assign, actions.revoke) == (None, None)  # one callback at a time
    hand.done()
    assert owned_in(hand.heartbeat) == {T0}
    assert hand.beat().assign == frozenset({T1})


def test_a_topic_without_a_name_is_waited_for_without_a_stream_of_heartbeats() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    hand.name_topics({"t": IDS["t"]})
    assert hand.beat([T0, U0]).assign == frozenset({T0})
    assert hand.last.topic_ids == frozenset({IDS["u"]})
    hand.done()
    assert (owned_in(hand.heartbeat), phase_of(hand)) == ({T0}, Phase.RECONCILING)
    actions = hand.beat()
    assert (actions.assign, len(hand.heartbeats), phase_of(hand)) == (None, 0, Phase.RECONCILING)
    hand.wait(5_000)
    hand.beat()
    assert (hand.last.assign, len(hand.heartbeats)) == (None, 0)
    assert hand.name_topics().assign == frozenset({U0})
    hand.done()
    assert (owned_in(hand.heartbeat), phase_of(hand)) == ({T0, U0}, Phase.STABLE)


def test_a_target_of_nameless_topics_alone_is_acknowledged_once_and_ends_when_they_have_names() -> None:
    # The coordinator may wait for the report that a partition is no longer owned.
    hand = ConsumerByHand()
    hand.start("t")
    hand.name_topics({})
    hand.beat([U0])
    assert (owned_in(hand.heartbeat), hand.last.assign, phase_of(hand)) == (set(), None, Phase.RECONCILING)
    hand.beat()
    assert (len(hand.heartbeats), phase_of(hand)) == (0, Phase.RECONCILING)
    assert hand.name_topics().assign == frozenset({U0})


def test_a_new_target_after_the_first_was_acknowledged_is_acknowledged_too() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    hand.name_topics({})
    hand.beat([U0])
    hand.beat()
    hand.wait(5_000)
    hand.beat([T0])
    assert owned_in(hand.heartbeat) == set()


def test_a_topic_that_metadata_forgets_stays_owned() -> None:
    hand = stable(T0)
    hand.name_topics({})
    hand.wait(5_000)
    assert hand.beat([T0, T1]).assign == frozenset({T1})
    hand.done()
    assert owned_in(hand.heartbeat) == {T0, T1}
    hand.beat()
    assert phase_of(hand) is Phase.STABLE


def test_a_recreated_topic_is_assigned_when_the_old_one_is_revoked() -> None:
    new = UUID(int=99)
    hand = stable(T0)
    hand.name_topics({"t": new})
    hand.wait(5_000)
    assert hand.beat([]).lost == frozenset({T0})  # what it was read to means nothing for the new topic
    hand.done()
    hand.beat()
    hand.done()
    assert hand.member.ids == {}


def test_the_new_topic_of_a_name_waits_until_the_old_one_is_given_up() -> None:
    new = UUID(int=99)
    hand = stable(T0)
    hand.name_topics({"t": new})
    hand.wait(5_000)
    old = TopicPartitions(topic_id=IDS["t"], partitions=[0])
    both = Assignment(topic_partitions=[old, TopicPartitions(topic_id=new, partitions=[0, 1])])
    assert hand.beat(assignment=both).assign is None  # t-0 is a partition of the old topic
    hand.beat()
    hand.wait(5_000)
    alone = Assignment(topic_partitions=[TopicPartitions(topic_id=new, partitions=[0, 1])])
    assert hand.beat(assignment=alone).lost == frozenset({T0})
    hand.done()
    assert hand.beat().assign == frozenset({T0, T1})
    assert hand.member.ids == {"t": new}


def losing_t_and_giving_u_up() -> ConsumerByHand:
    """A member whose application is in a callback for the loss of t, recreated; the revocation of u waits behind it."""
    hand = ConsumerByHand()
    hand.start("t", "u")
    hand.beat([T0, U0])
    hand.done()
    hand.beat()
    hand.name_topics({"t": UUID(int=99), "u": IDS["u"]})
    hand.wait(5_000)
    assert hand.beat([]).lost == frozenset({T0})
    return hand


def test_lost_and_revoked_partitions_are_acknowledged_once() -> None:
    hand = losing_t_and_giving_u_up()
    assert hand.done().revoke == frozenset({U0})
    assert not hand.heartbeats
    hand.done()
    assert owned_in(hand.heartbeat) == set()


def test_partitions_to_be_revoked_are_lost_when_the_member_is_fenced() -> None:
    hand = losing_t_and_giving_u_up()
    hand.commit(U0)
    hand.answer_commit({U0: ErrorCode.UNKNOWN_MEMBER_ID})
    actions = hand.done()
    assert (actions.revoke, actions.lost) == (None, frozenset({U0}))


def test_a_member_that_is_fenced_by_a_commit_waits_for_no_report_and_no_answer_of_its_former_self() -> None:
    hand = stable()
    hand.wait(5_000)
    hand.beat([T0])
    hand.done()
    assert owned_in(hand.heartbeat) == {T0}
    hand.handle(Subscribe(frozenset({"t", "u"})))
    assert len(hand.heartbeats) == 2 and not hand.member.is_answered
    hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID})
    hand.done()
    assert hand.heartbeats[-1][1].member_epoch == 0
    while len(hand.heartbeats) > 1:
        hand.beat()
    assert hand.beat([T0]).assign == frozenset({T0})
    hand.done()
    assert hand.member.is_answered


def test_a_fenced_member_accepts_the_same_target_again() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    assert hand.refuse(ErrorCode.FENCED_MEMBER_EPOCH).lost == frozenset({T0})
    hand.done()
    assert (hand.heartbeat.member_epoch, owned_in(hand.heartbeat)) == (0, set())
    assert hand.beat([T0]).assign == frozenset({T0})
    hand.done()
    assert owned_in(hand.heartbeat) == {T0}


def test_a_member_fenced_while_it_reports_reports_again_only_after_the_next_callback() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    hand.beat([T0, T1])
    hand.done()
    assert hand.refuse(ErrorCode.UNKNOWN_MEMBER_ID).lost == frozenset({T0, T1})
    hand.done()
    hand.beat([T0])
    assert hand.last.assign == frozenset({T0})  # no report of its former self is waited for


def test_while_the_member_reconciles_it_is_not_answered() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    hand.beat([T0, T1])
    assert not hand.member.is_answered
    hand.done()
    assert hand.member.is_answered
