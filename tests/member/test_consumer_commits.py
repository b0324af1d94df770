"""Commits of a member of a consumer group: what each answer of the coordinator does to them, and to the member."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.member import CoordinatorFound, Leave, MemberTimer, Phase, PollEnded
from tests.member.consumer_by_hand import T0, T1, ConsumerByHand, phase_of, stable

GONE = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
]


def outside() -> ConsumerByHand:
    """A consumer without a subscription, whose first commit is under way."""
    hand = ConsumerByHand()
    hand.commit(T0)
    assert hand.last.find_coordinator
    hand.handle(CoordinatorFound())
    return hand


def test_a_consumer_that_is_not_a_member_commits_without_an_epoch() -> None:
    hand = outside()
    [(_, commit)] = hand.commits
    assert (commit.member_id, commit.generation_id_or_member_epoch) == ("", -1)
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {1: {}}


def test_a_commit_outside_of_any_epoch_that_is_stale_fails_at_once() -> None:
    # The group has members: no heartbeat brings an epoch with which it could succeed.
    hand = outside()
    hand.answer_commit({T0: ErrorCode.STALE_MEMBER_EPOCH})
    assert hand.settled == {1: {T0: ErrorCode.STALE_MEMBER_EPOCH}}


def test_a_commit_that_waits_for_the_coordinator_is_sent_although_the_consumer_subscribes_meanwhile() -> None:
    hand = ConsumerByHand()
    number = hand.commit(T0)
    hand.start("t")
    [(_, commit)] = hand.commits
    assert (commit.member_id, commit.generation_id_or_member_epoch) == ("", -1)
    # The group has members by now. That says nothing of the one that joins.
    hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID})
    assert hand.settled == {number: {T0: ErrorCode.UNKNOWN_MEMBER_ID}}
    hand.beat([T0])
    assert hand.last.assign == frozenset({T0})


@pytest.mark.parametrize("code", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID])
def test_a_commit_outside_of_any_epoch_that_is_refused_ends_that_commit_alone(code: ErrorCode) -> None:
    hand = outside()
    hand.commit(T1)
    actions = hand.answer_commit({T0: code})
    assert (hand.settled, actions.error) == ({1: {T0: code}}, None)
    assert len(hand.commits) == 1


def test_a_commit_before_the_join_is_answered_fails_at_once() -> None:
    hand = ConsumerByHand()
    hand.start("t")
    number = hand.commit(T0)
    assert hand.settled == {number: {T0: ErrorCode.FENCED_MEMBER_EPOCH}}


def test_a_commit_after_max_poll_interval_is_an_unknown_member_error() -> None:
    hand = stable(T0, max_poll_interval_ms=10_000)
    hand.handle(PollEnded())
    hand.wait(10_000, MemberTimer.POLL)
    assert phase_of(hand) is Phase.STALE
    number = hand.commit(T0)
    assert hand.settled == {number: {T0: ErrorCode.UNKNOWN_MEMBER_ID}}


def test_the_next_commit_is_sent_when_the_previous_one_is_answered() -> None:
    hand = stable(T0)
    first, second = hand.commit(T0, offset=5), hand.commit(T0, offset=6)
    assert len(hand.commits) == 1  # a retried older one could overwrite a newer one
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {first: {}}
    [(_, commit)] = hand.commits
    assert commit.topics[0].partitions[0].committed_offset == 6
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {first: {}, second: {}}


def test_a_commit_while_the_coordinator_loads_is_sent_again_after_a_pause_that_grows() -> None:
    hand = stable(T0)
    hand.commit(T0)
    for pause in (100, 200, 400):
        actions = hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
        assert not hand.commits and not hand.settled
        assert actions.timers[MemberTimer.RETRY] == hand.now + pause
        hand.wait(pause, MemberTimer.RETRY)
        assert len(hand.commits) == 1
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {1: {}}
    hand.commit(T0)
    actions = hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    assert actions.timers[MemberTimer.RETRY] == hand.now + 100  # one good answer ended the failures in a row


@pytest.mark.parametrize("code", GONE)
def test_a_commit_rejected_by_the_old_coordinator_is_sent_to_the_next_one(code: ErrorCode) -> None:
    hand = stable(T0)
    hand.commit(T0)
    hand.answer_commit({T0: code})
    assert hand.wait(100, MemberTimer.RETRY).find_coordinator
    hand.handle(CoordinatorFound())
    assert len(hand.commits) == 1 and not hand.settled
    assert (phase_of(hand), hand.member.generation) == (Phase.STABLE, 5)


def test_a_commit_for_a_missing_topic_is_tried_five_times_beside_the_others() -> None:
    hand = stable(T0, T1)
    hand.commit(T0, T1)
    hand.answer_commit({T0: ErrorCode.NONE, T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    attempts = 1
    while not hand.settled:
        hand.wait(1_000, MemberTimer.RETRY)
        assert [partition.partition_index for partition in hand.commits[0][1].topics[0].partitions] == [1]
        attempts += 1
        hand.answer_commit({T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert attempts == 5
    assert hand.settled == {1: {T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_an_error_of_one_commit_ends_that_commit_alone(code: ErrorCode) -> None:
    hand = stable(T0)
    hand.commit(T0)
    actions = hand.answer_commit({T0: code})
    assert hand.settled == {1: {T0: code}}
    assert (actions.error, phase_of(hand), hand.member.owned) == (None, Phase.STABLE, frozenset({T0}))
    hand.commit(T0)
    assert len(hand.commits) == 1  # at once: nothing says that the coordinator is busy


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND],
)
def test_an_error_of_a_commit_of_an_older_epoch_does_not_fence_the_member(code: ErrorCode) -> None:
    hand = stable(T0)
    hand.commit(T0)
    hand.wait(5_000)
    hand.epoch = 6
    hand.beat()
    assert hand.member.generation == 6
    hand.answer_commit({T0: code})
    assert hand.settled == {1: {T0: code}}
    assert (phase_of(hand), hand.member.owned) == (Phase.STABLE, frozenset({T0}))


@pytest.mark.parametrize(
    "code",
    [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND],
)
def test_an_error_of_a_commit_of_the_current_epoch_fences_the_member(code: ErrorCode) -> None:
    hand = stable(T0)
    hand.commit(T0)
    assert hand.answer_commit({T0: code}).lost == frozenset({T0})
    assert hand.settled == {1: {T0: code}}
    assert phase_of(hand) is Phase.FENCED


def test_a_stale_commit_of_an_older_epoch_is_sent_again_at_once_with_the_present_one() -> None:
    hand = stable(T0)
    hand.commit(T0)
    hand.wait(5_000)
    hand.epoch = 6
    hand.beat()
    hand.answer_commit({T0: ErrorCode.STALE_MEMBER_EPOCH})
    assert not hand.heartbeats  # which epoch it is at is known
    assert hand.commits[0][1].generation_id_or_member_epoch == 6


def test_after_the_leave_request_no_commit_is_sent() -> None:
    # The coordinator reads the goodbye first: it would refuse the commit, or take it while another owns the partition.
    hand = stable(T0)
    hand.handle(Leave())
    hand.done()
    assert hand.heartbeat.member_epoch == -1
    number = hand.commit(T0)
    assert not hand.commits
    hand.beat(member_epoch=-1)
    assert hand.settled == {number: {T0: ErrorCode.UNKNOWN_MEMBER_ID}}
