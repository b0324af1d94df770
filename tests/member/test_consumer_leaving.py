"""Leaving a consumer group and joining again: revocations, requests, and the effect of each response."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.member import (
    CommitRequested,
    CoordinatorFound,
    CoordinatorUnavailable,
    Leave,
    MemberTimer,
    OffsetAndMetadata,
    Phase,
    PollEnded,
    PollStarted,
    RequestFailed,
    Subscribe,
)
from tests.member.consumer_by_hand import IDS, T0, T1, U0, ConsumerByHand, owned_in, phase_of, stable

GONE = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
]
HERE = frozenset({T0})


def leaving() -> ConsumerByHand:
    """A member whose goodbye is under way."""
    hand = stable(T0)
    hand.handle(Leave())
    hand.done()
    assert (phase_of(hand), hand.heartbeat.member_epoch) == (Phase.LEAVING, -1)
    return hand


# The application leaves


def test_a_member_revokes_everything_before_it_sends_its_leave_request() -> None:
    hand = stable(T0)
    assert hand.handle(Leave()).revoke == HERE
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.PREPARE_LEAVING, 0)
    hand.done()
    assert hand.member.owned == frozenset()
    assert (hand.heartbeat.member_epoch, owned_in(hand.heartbeat)) == (-1, None)
    hand.wait(60_000)
    assert len(hand.heartbeats) == 1  # nothing follows a goodbye
    hand.beat(member_epoch=-1)
    assert (phase_of(hand), hand.member.generation) == (Phase.UNSUBSCRIBED, None)


def test_a_goodbye_waits_for_the_commit_of_the_last_callback() -> None:
    hand = stable(T0)
    hand.handle(Leave())
    hand.commit(T0)
    hand.done()
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.PREPARE_LEAVING, 0)
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {1: {}}
    assert hand.heartbeat.member_epoch == -1


def test_a_commit_that_was_refused_once_gets_its_last_chance_ahead_of_the_goodbye() -> None:
    hand = stable(T0)
    hand.commit(T0, U0)
    hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, U0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    hand.handle(Leave())
    hand.done()
    hand.wait(100, MemberTimer.RETRY)
    assert [topic.name for topic in hand.commits[0][1].topics] == ["u"]  # t-0 was given up
    assert hand.heartbeat.member_epoch == -1
    hand.answer_commit({U0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    # Behind the goodbye no commit can succeed.
    assert hand.settled == {1: {T0: ErrorCode.REBALANCE_IN_PROGRESS, U0: ErrorCode.UNKNOWN_MEMBER_ID}}


def test_a_member_that_never_joined_sends_no_leave_request() -> None:
    hand = ConsumerByHand()
    hand.handle(Subscribe(frozenset({"t"})))
    hand.handle(Leave())
    assert (phase_of(hand), hand.last.find_coordinator) == (Phase.UNSUBSCRIBED, False)
    hand.handle(CoordinatorFound())
    assert not hand.heartbeats


def test_a_member_that_was_fenced_gives_up_what_it_lost_once() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    assert hand.refuse(ErrorCode.FENCED_MEMBER_EPOCH).lost == HERE
    hand.handle(Leave())
    hand.done()
    assert hand.last.revoke is None and hand.last.lost is None
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.UNSUBSCRIBED, 0)


@pytest.mark.parametrize("code", GONE)
def test_a_leave_request_that_reaches_no_coordinator_is_sent_to_the_next_one(code: ErrorCode) -> None:
    hand = leaving()
    hand.refuse(code)
    assert hand.wait(100, MemberTimer.RETRY).find_coordinator
    hand.handle(CoordinatorFound())
    assert hand.heartbeat.member_epoch == -1
    hand.beat(member_epoch=-1)
    assert phase_of(hand) is Phase.UNSUBSCRIBED


def test_a_leave_request_to_a_loading_coordinator_is_repeated_after_a_pause() -> None:
    hand = leaving()
    hand.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not hand.heartbeats
    assert not hand.wait(100, MemberTimer.RETRY).find_coordinator
    assert hand.heartbeat.member_epoch == -1


def test_a_lost_leave_request_is_repeated() -> None:
    hand = leaving()
    hand.lose_heartbeat()
    hand.wait(100, MemberTimer.RETRY)
    hand.handle(CoordinatorFound())
    assert hand.heartbeat.member_epoch == -1


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_whatever_else_a_goodbye_is_refused_for_the_member_is_out(code: ErrorCode) -> None:
    hand = leaving()
    assert hand.refuse(code).error is None
    assert (phase_of(hand), hand.member.generation) == (Phase.UNSUBSCRIBED, None)


def test_a_member_that_subscribes_while_it_leaves_joins_when_it_is_out() -> None:
    hand = leaving()
    hand.handle(Subscribe(frozenset({"u"})))
    assert len(hand.heartbeats) == 1
    hand.beat(member_epoch=-1)
    assert (phase_of(hand), hand.heartbeat.member_epoch) == (Phase.JOINING, 0)
    assert hand.heartbeat.subscribed_topic_names == ["u"]


def test_a_member_that_subscribes_by_an_expression_while_it_leaves_joins_when_it_is_out() -> None:
    hand = leaving()
    hand.handle(Subscribe(frozenset(), "u.*"))
    hand.beat(member_epoch=-1)
    assert (hand.heartbeat.member_epoch, hand.heartbeat.subscribed_topic_regex) == (0, "u.*")


def test_a_member_that_left_joins_again_without_old_state() -> None:
    hand = leaving()
    hand.beat(member_epoch=-1)
    hand.start("t")
    assert (hand.heartbeat.member_epoch, owned_in(hand.heartbeat)) == (0, set())
    hand.beat([T0])
    assert hand.last.assign == HERE  # though it is the same target as before


# The application does not poll


def stuck(**config: object) -> ConsumerByHand:
    """A member whose application went to work 10 s ago, just before its time is over."""
    hand = stable(T0, max_poll_interval_ms=10_000, **config)
    hand.handle(PollEnded())
    assert hand.last.timers[MemberTimer.POLL] == hand.now + 10_000
    hand.wait(9_999, MemberTimer.POLL)
    assert phase_of(hand) is Phase.STABLE
    hand.heartbeats.clear()
    return hand


def test_a_member_whose_application_does_not_poll_leaves_with_a_warning() -> None:
    hand = stuck()
    actions = hand.wait(1, MemberTimer.POLL)
    assert (phase_of(hand), hand.member.generation, actions.lost) == (Phase.STALE, None, HERE)
    assert "has not polled for max_poll_interval_ms (10000 ms)" in (actions.warning or "")
    assert hand.heartbeat.member_epoch == -1


def test_a_stuck_member_sends_its_leave_request_only_if_it_can() -> None:
    hand = stuck()
    hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.NOT_COORDINATOR})
    hand.wait(1, MemberTimer.POLL)
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.STALE, 0)
    assert hand.settled == {1: {T0: ErrorCode.UNKNOWN_MEMBER_ID}}


def test_a_stuck_member_that_never_joined_sends_no_leave_request() -> None:
    hand = ConsumerByHand(max_poll_interval_ms=10_000)
    hand.commit(U0)
    hand.handle(CoordinatorFound())
    hand.answer_commit({U0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    hand.handle(Subscribe(frozenset({"t"})))
    hand.handle(PollEnded())
    hand.wait(10_000, MemberTimer.POLL)
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.STALE, 0)


def test_a_stuck_member_joins_again_when_its_application_polls_and_has_given_up() -> None:
    hand = stuck()
    hand.wait(1, MemberTimer.POLL)
    hand.heartbeats.clear()
    hand.wait(60_000)
    assert not hand.heartbeats
    hand.done()  # what it lost
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.STALE, 0)
    hand.handle(PollStarted())
    assert (phase_of(hand), hand.heartbeat.member_epoch, owned_in(hand.heartbeat)) == (Phase.JOINING, 0, set())
    assert "polls again" in hand.member.reason


def test_a_stuck_member_whose_application_polls_joins_only_when_it_has_given_up() -> None:
    hand = stuck()
    hand.wait(1, MemberTimer.POLL)
    hand.heartbeats.clear()
    hand.handle(PollStarted())
    hand.handle(PollEnded())
    assert (phase_of(hand), len(hand.heartbeats)) == (Phase.STALE, 0)
    hand.done()
    assert (phase_of(hand), hand.heartbeat.member_epoch) == (Phase.JOINING, 0)


def test_a_member_that_was_stuck_once_may_be_stuck_again() -> None:
    hand = stuck()
    hand.wait(1, MemberTimer.POLL)
    hand.heartbeats.clear()
    hand.handle(PollStarted())
    hand.handle(PollEnded())
    hand.done()
    hand.beat([])
    hand.done()
    hand.beat()
    hand.wait(10_000, MemberTimer.POLL)
    hand.heartbeats.clear()
    assert phase_of(hand) is Phase.STALE
    assert not hand.heartbeats  # it waits for the application once more


def test_a_callback_that_takes_too_long_makes_the_member_leave_until_it_is_done() -> None:
    hand = ConsumerByHand(max_poll_interval_ms=10_000)
    hand.start("t")
    assert hand.beat([T0]).assign == HERE
    actions = hand.wait(10_000, MemberTimer.POLL)
    assert "the assign callback has taken longer than" in (actions.warning or "")
    assert (phase_of(hand), hand.heartbeats.pop()[1].member_epoch) == (Phase.STALE, -1)
    hand.heartbeats.clear()
    assert hand.done().lost == HERE
    hand.done()
    assert (phase_of(hand), hand.heartbeat.member_epoch) == (Phase.JOINING, 0)


def test_a_callback_that_was_waiting_is_not_made_after_the_member_lost_everything() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    assert hand.beat([T1]).revoke == HERE
    hand.commit(T0)
    actions = hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID})
    assert actions.lost is None  # the callback that runs gives it up already
    assert "(while the revoke callback runs)" in hand.member.reason
    actions = hand.done()
    assert (actions.lost, actions.assign) == (None, None)
    assert hand.heartbeat.member_epoch == 0


# Commits beside all that


def test_a_commit_whose_time_is_over_fails_whatever_the_coordinator_does() -> None:
    hand = stable(T0)
    actions = hand.handle(CommitRequested(7, {T0: OffsetAndMetadata(5)}, hand.now + 1_000))
    assert actions.timers[MemberTimer.COMMIT] == hand.now + 1_000
    hand.wait(1_000, MemberTimer.COMMIT)
    assert hand.settled == {7: {T0: ErrorCode.REQUEST_TIMED_OUT}}


def test_a_commit_whose_answer_is_lost_goes_to_the_next_coordinator() -> None:
    hand = stable(T0)
    hand.commit(T0)
    hand.handle(RequestFailed(hand.commits.popleft()[0]))
    assert hand.wait(100, MemberTimer.RETRY).find_coordinator
    hand.handle(CoordinatorFound())
    assert len(hand.commits) == 1 and not hand.settled


def test_an_answer_that_is_no_longer_awaited_changes_nothing() -> None:
    hand = stable(T0)
    actions = hand.handle(RequestFailed(99))
    assert not actions.find_coordinator and hand.member.link.known


def test_while_the_member_is_out_a_lost_heartbeat_looks_for_no_coordinator() -> None:
    hand = stuck()
    hand.wait(1, MemberTimer.POLL)
    hand.lose_heartbeat()  # its goodbye
    hand.done()
    assert not hand.wait(1_000, MemberTimer.RETRY).find_coordinator


def test_a_member_that_is_out_looks_for_no_coordinator_while_its_application_gives_up() -> None:
    hand = stable(T0)
    hand.wait(5_000)
    hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    hand.refuse(ErrorCode.NOT_COORDINATOR)
    assert hand.wait(100, MemberTimer.RETRY).find_coordinator
    assert hand.handle(CoordinatorUnavailable(ErrorCode.GROUP_AUTHORIZATION_FAILED)).lost == HERE
    hand.handle(Leave())
    assert phase_of(hand) is Phase.PREPARE_LEAVING
    assert not hand.wait(60_000, MemberTimer.RETRY).find_coordinator
    hand.done()
    assert (phase_of(hand), hand.last.find_coordinator) == (Phase.UNSUBSCRIBED, False)


def test_a_member_that_leaves_asks_for_no_names_of_topics() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    hand.name_topics({})
    assert hand.beat([U0]).topic_ids == frozenset({IDS["u"]})
    assert hand.handle(Leave()).topic_ids == frozenset()


def test_a_timer_that_fires_too_early_is_set_again() -> None:
    hand = stable(T0)
    actions = hand.wait(4_999)
    assert (len(hand.heartbeats), actions.timers) == (0, {MemberTimer.HEARTBEAT: hand.now + 1})
    hand.wait(1)
    assert len(hand.heartbeats) == 1


def test_a_poll_that_ends_while_a_callback_runs_gives_the_callback_all_its_time() -> None:
    hand = ConsumerByHand(max_poll_interval_ms=10_000)
    hand.start("t")
    hand.handle(PollStarted())
    hand.beat([T0])
    hand.wait(9_000, MemberTimer.RETRY)
    assert hand.handle(PollEnded()).timers[MemberTimer.POLL] == hand.now + 10_000
