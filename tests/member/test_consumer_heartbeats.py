"""Heartbeats of a member of a consumer group: when they are sent, their contents, and the effect of the responses."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kohort.assignor.range import RangeAssignor
from kohort.errors import ErrorCode
from kohort.member import (
    CoordinatorFound,
    CoordinatorUnavailable,
    Leave,
    MemberTimer,
    Phase,
    Rejoin,
    Subscribe,
    Weigh,
)
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import Computation
from tests.member.consumer_by_hand import IDS, INTERVAL_MS, T0, T1, ConsumerByHand, owned_in, phase_of, stable

GONE = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
]


def test_a_join_is_complete_and_the_next_heartbeat_has_only_changes() -> None:
    hand = ConsumerByHand(
        instance_id="i", rack_id="r", server_assignor="uniform", max_poll_interval_ms=60_000, weight=2.0
    )
    hand.start("t")
    join = hand.heartbeat
    assert (join.member_epoch, join.member_id, join.instance_id) == (0, "m", "i")
    assert (join.rebalance_timeout_ms, join.rack_id, join.server_assignor, join.weight) == (60_000, "r", "uniform", 2.0)
    assert (join.subscribed_topic_names, owned_in(join), join.subscribed_topic_regex) == (["t"], set(), None)
    hand.beat([T0], takes_weights=True)
    hand.done()
    told = hand.heartbeat
    assert (told.member_epoch, owned_in(told)) == (5, {T0})
    assert (told.rebalance_timeout_ms, told.rack_id, told.server_assignor, told.weight) == (-1, None, None, -1.0)
    assert told.subscribed_topic_names is None
    hand.beat()
    hand.handle(Weigh(3.0))
    assert (hand.heartbeat.weight, hand.heartbeat.subscribed_topic_names) == (3.0, None)
    hand.beat()
    hand.wait(5_000)
    assert (hand.heartbeat.weight, owned_in(hand.heartbeat), hand.heartbeat.offered_assignors) == (-1.0, None, None)


def test_a_change_counts_as_sent_only_when_its_heartbeat_is_answered() -> None:
    hand = stable(T0)
    assert hand.member.is_answered
    hand.wait(5_000)
    assert hand.member.is_answered  # a heartbeat that says nothing new changes nothing
    hand.handle(Subscribe(frozenset({"t", "u"})))
    assert len(hand.heartbeats) == 2 and not hand.member.is_answered
    hand.beat()  # the first, which was sent before
    assert (phase_of(hand), hand.member.is_answered) == (Phase.STABLE, False)
    hand.beat()
    assert hand.member.is_answered


def test_a_change_sent_by_a_member_that_is_fenced_meanwhile_counts_as_not_sent() -> None:
    hand = stable()
    hand.handle(Subscribe(frozenset({"t", "u"})))
    hand.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    hand.beat([])
    hand.done()
    assert (phase_of(hand), hand.member.is_answered) == (Phase.STABLE, True)


def test_after_a_rejection_a_complete_heartbeat_follows_the_one_in_flight() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    hand.handle(Subscribe(frozenset({"t", "u"})))
    hand.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    hand.wait(100, MemberTimer.RETRY)
    assert len(hand.heartbeats) == 1  # that one may say something of an epoch that is over when this would arrive
    hand.beat()
    assert (hand.heartbeat.subscribed_topic_names, owned_in(hand.heartbeat)) == (["t", "u"], {T0})
    assert hand.heartbeat.rebalance_timeout_ms == 300_000


def test_while_the_coordinator_loads_the_pauses_grow_until_it_answers() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    for pause in (100, 200, 400):
        actions = hand.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert not hand.heartbeats
        assert actions.timers[MemberTimer.RETRY] == hand.now + pause
        hand.wait(pause, MemberTimer.RETRY)
        assert owned_in(hand.heartbeat) == {
            T0
        }  # all fields again: the member does not know what the coordinator received
    hand.beat()
    hand.wait(5_000)
    actions = hand.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert actions.timers[MemberTimer.RETRY] == hand.now + 100


@pytest.mark.parametrize("code", GONE)
def test_a_heartbeat_that_reaches_no_coordinator_is_sent_to_the_next_one_as_soon_as_it_is_found(
    code: ErrorCode,
) -> None:
    hand = stable(T0)
    hand.wait(5_000)
    assert not hand.refuse(code).find_coordinator
    assert hand.wait(100, MemberTimer.RETRY).find_coordinator
    hand.handle(CoordinatorFound())
    assert (hand.heartbeat.member_epoch, owned_in(hand.heartbeat)) == (5, {T0})


def test_a_commit_that_reaches_no_coordinator_makes_the_member_contact_the_next_one_at_once() -> None:
    # The session may be nearly over when the next coordinator is found.
    hand = stable(T0)
    hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.NOT_COORDINATOR})
    hand.wait(100, MemberTimer.RETRY)
    hand.handle(CoordinatorFound())
    assert len(hand.heartbeats) == 1


def test_a_look_up_that_fails_is_repeated_after_a_pause() -> None:
    hand = ConsumerByHand()
    assert hand.handle(Subscribe(frozenset({"t"}))).find_coordinator
    actions = hand.handle(CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert not actions.find_coordinator
    assert actions.timers[MemberTimer.RETRY] == hand.now + 100
    assert hand.wait(100, MemberTimer.RETRY).find_coordinator


def test_a_look_up_that_is_refused_for_good_ends_the_member() -> None:
    hand = ConsumerByHand()
    hand.handle(Subscribe(frozenset({"t"})))
    error = hand.handle(CoordinatorUnavailable(ErrorCode.GROUP_AUTHORIZATION_FAILED)).error
    assert error is not None and error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert phase_of(hand) is Phase.FATAL


def test_a_member_that_may_no_longer_describe_a_topic_tries_until_it_may_again() -> None:
    hand = stable(T0)
    hand.wait(INTERVAL_MS)
    warned = [hand.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not t").warning]
    for _ in range(2):
        hand.wait(1_000, MemberTimer.RETRY)
        warned.append(hand.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not t").warning)
    assert warned == ["its heartbeats are rejected until that changes: not t", None, None]
    hand.wait(1_000, MemberTimer.RETRY)
    hand.beat()
    assert phase_of(hand) is Phase.STABLE and hand.member.owned == {T0}
    hand.wait(INTERVAL_MS)
    assert hand.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not t").warning is not None


def test_a_member_that_may_not_describe_a_topic_when_it_joins_first_ends() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    error = hand.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not t").error
    assert error is not None and error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert phase_of(hand) is Phase.FATAL


def test_the_coordinator_sets_the_interval_and_leaves_it_as_it_is_by_saying_nothing() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    actions = hand.beat(heartbeat_interval_ms=1_000)
    assert actions.timers[MemberTimer.HEARTBEAT] == hand.now + 1_000
    hand.wait(1_000)
    actions = hand.beat(heartbeat_interval_ms=0)
    assert not hand.heartbeats
    assert actions.timers[MemberTimer.HEARTBEAT] == hand.now + 1_000


def test_an_answer_without_an_epoch_does_not_complete_a_join() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    hand.beat([T0], member_epoch=0)
    assert (phase_of(hand), hand.member.generation, hand.last.assign) == (Phase.JOINING, None, None)
    assert not hand.heartbeats
    hand.wait(5_000)  # and it asks again in time
    hand.beat([T0])
    assert hand.last.assign == frozenset({T0})


def test_heartbeats_go_on_while_the_application_gives_up_before_the_member_leaves() -> None:
    # Otherwise a callback that takes longer than the session would lose its commits.
    hand = stable(T0)
    assert hand.handle(Leave()).revoke == frozenset({T0})
    hand.wait(5_000)
    assert (hand.heartbeat.member_epoch, hand.heartbeat.subscribed_topic_names) == (5, None)
    hand.epoch = 6
    hand.beat([T0, T1])  # another target does not concern it any more
    assert (hand.last.assign, phase_of(hand)) == (None, Phase.PREPARE_LEAVING)
    hand.commit(T0)
    assert hand.commits[0][1].generation_id_or_member_epoch == 6
    hand.answer_commit({T0: ErrorCode.NONE})
    hand.done()
    assert hand.heartbeat.member_epoch == -1


def test_a_member_that_leaves_computes_no_target() -> None:
    hand = _offering()
    hand.wait(5_000)
    hand.handle(Leave())
    hand.beat(takes_offers=True, computation=Computation(group_epoch=6, assignor="range", topics=[], members=[]))
    hand.wait(5_000)
    assert hand.heartbeat.computed is None


def test_a_member_that_leaves_before_its_join_is_answered_sends_only_the_leave_request() -> None:
    hand = ConsumerByHand()
    hand.commit(T0)  # as a consumer without a group, whose answer it waits for
    hand.start("t")
    hand.handle(Leave())
    assert phase_of(hand) is Phase.PREPARE_LEAVING
    hand.beat([T0])
    hand.wait(10_000)
    assert not hand.heartbeats
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.heartbeat.member_epoch == -1


def test_a_join_waits_until_the_application_has_given_up_what_it_owned() -> None:
    # Epoch 0 says that the member owns nothing.
    hand = stable(T0)
    hand.wait(5_000)
    assert hand.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED).lost == frozenset({T0})
    hand.handle(Subscribe(frozenset({"t"})))
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.JOINING, 0)
    hand.done()
    assert (hand.heartbeat.member_epoch, owned_in(hand.heartbeat)) == (0, set())


def test_a_member_joins_a_deleted_group_again() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    assert hand.refuse(ErrorCode.GROUP_ID_NOT_FOUND).lost == frozenset({T0})
    hand.done()
    assert (phase_of(hand), hand.heartbeat.member_epoch) == (Phase.JOINING, 0)
    assert "the group was deleted" in hand.member.reason


def test_a_group_that_is_not_found_at_a_join_ends_the_member() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    error = hand.refuse(ErrorCode.GROUP_ID_NOT_FOUND).error
    assert error is not None and error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert phase_of(hand) is Phase.FATAL


def test_the_brokers_own_words_are_in_the_error() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    error = hand.refuse(ErrorCode.UNSUPPORTED_VERSION, "not before version 4.0").error
    assert error is not None and error.sentence == "not before version 4.0"


class Telling(RangeAssignor):
    """Tells which topics, partitions and generation it was asked for."""

    def user_data(
        self, topics: Collection[str], last: Collection[TopicPartition] | None, generation: int
    ) -> bytes | None:
        return f"{sorted(topics)} {sorted(last or ())} {generation}".encode()


def _offering() -> ConsumerByHand:
    """A member that owns t-0 and offers an assignor."""
    hand = ConsumerByHand(client_assignors=(Telling(),))
    hand.start("t")
    hand.beat([T0], takes_offers=True)
    hand.done()
    hand.beat()
    return hand


def test_every_heartbeat_has_the_current_user_data() -> None:
    hand = ConsumerByHand(client_assignors=(Telling(),))
    hand.start("t")
    [offer] = hand.heartbeat.offered_assignors or []
    assert offer.user_data == b"['t'] [] -1"
    hand.beat([T0], takes_offers=True)
    hand.done()
    [offer] = hand.heartbeat.offered_assignors or []
    assert offer.user_data == f"['t'] {[T0]} 5".encode()


def test_changed_user_data_is_sent_at_once_and_requests_a_target_if_asked() -> None:
    hand = _offering()
    hand.handle(Rejoin(None))
    assert (hand.heartbeat.asks_anew, len(hand.heartbeat.offered_assignors or [])) == (None, 1)
    hand.beat()
    hand.handle(Rejoin("a standby is warm"))
    assert hand.heartbeat.asks_anew == "a standby is warm"
    hand.beat()
    hand.wait(5_000)
    assert hand.heartbeat.asks_anew is None


def test_the_topics_of_a_target_are_known_by_their_ids() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    hand.name_topics({})
    assert hand.beat([T0]).topic_ids == frozenset({IDS["t"]})
