"""When a member of a classic group sends its commits, and which of them it repeats."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.member import (
    CallbackDone,
    CoordinatorFound,
    CoordinatorUnavailable,
    Leave,
    MemberTimer,
    Phase,
    Subscribe,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
)
from tests.member.by_hand import T0, T1, ByHand, phase_of, rebalancing, stable
from tests.member.world import tps

# Commits


def test_a_static_member_commits_under_its_instance_id() -> None:
    hand = stable(T0, instance_id="i")
    hand.commit(T0)
    request = hand.request(OffsetCommitRequest)
    assert (request.group_instance_id, request.member_id, request.generation_id_or_member_epoch) == ("i", "m", 1)


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_static_member_that_is_unknown_to_a_commit_joins_again_as_itself(is_fenced: bool) -> None:
    # In a consumer group, a coordinator does not compare the instance ID of a commit.
    hand = stable(T0, instance_id="i")
    hand.answer(HeartbeatRequest, HeartbeatResponse())
    number = hand.commit(T0)
    assert hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID}).lost == tps("t", 0)
    assert hand.settled == {number: {T0: ErrorCode.UNKNOWN_MEMBER_ID}}
    hand.handle(CallbackDone())
    assert hand.request(JoinGroupRequest).member_id == "m"
    code = ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID
    hand.answer(JoinGroupRequest, JoinGroupResponse(error_code=code))
    assert (phase_of(hand) is Phase.FATAL) == is_fenced
    if not is_fenced:
        assert hand.request(JoinGroupRequest).member_id == ""


def test_a_dynamic_member_that_is_unknown_to_a_commit_joins_again_as_a_new_one() -> None:
    hand = stable(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse())
    hand.commit(T0)
    assert hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID}).lost == tps("t", 0)
    hand.handle(CallbackDone())
    assert hand.request(JoinGroupRequest).member_id == ""


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_commit_that_may_succeed_later_is_sent_again_after_a_while(code: ErrorCode) -> None:
    hand = stable(T0)
    number = hand.commit(T0)
    hand.answer_commit({T0: code})
    assert hand.member.link.known
    assert OffsetCommitRequest not in hand.open
    hand.wait(100, MemberTimer.RETRY)
    assert hand.committing == {T0: 5}
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {number: {}}


def test_a_commit_of_an_unknown_topic_is_given_up_at_the_fifth_refusal() -> None:
    hand = stable(T0)
    number = hand.commit(T0)
    for _ in range(4):
        hand.answer_commit({T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        hand.wait(1_000, MemberTimer.RETRY)
    assert hand.settled == {}
    hand.answer_commit({T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert hand.settled == {number: {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}


def test_a_coordinator_that_is_gone_is_looked_for_before_a_commit_is_sent_again() -> None:
    hand = stable(T0)
    hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.NOT_COORDINATOR})
    assert not hand.member.link.known
    hand.wait(100, MemberTimer.RETRY)
    assert hand.last.find_coordinator
    hand.handle(CoordinatorFound())
    assert hand.committing == {T0: 5}


def test_only_what_failed_is_committed_again() -> None:
    hand = stable(T0, T1)
    number = hand.commit(T0, T1)
    hand.answer_commit({T0: ErrorCode.NONE, T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    hand.wait(100, MemberTimer.RETRY)
    assert hand.committing == {T1: 5}
    hand.answer_commit({T1: ErrorCode.NONE})
    assert hand.settled == {number: {}}


def test_a_good_answer_to_a_commit_ends_the_backing_off() -> None:
    hand = stable(T0)
    hand.commit(T0)
    for pause in (100, 200):
        hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
        assert hand.member.link.retry_at == hand.now + pause
        hand.wait(pause, MemberTimer.RETRY)
    hand.answer_commit({T0: ErrorCode.NONE})
    hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    assert hand.member.link.retry_at == hand.now + 100


def test_a_commit_that_a_rebalance_refused_fails_while_partitions_are_given_up() -> None:
    # The callback may wait for the commit, and the rebalance waits for the callback.
    hand = stable(T0, assignors="range")
    number = hand.commit(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert hand.last.revoke == tps("t", 0)
    hand.answer_commit({T0: ErrorCode.REBALANCE_IN_PROGRESS})
    assert hand.settled == {number: {T0: ErrorCode.REBALANCE_IN_PROGRESS}}


def test_a_commit_that_a_rebalance_refused_waits_for_its_end() -> None:
    hand = stable(T0)
    number = hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.REBALANCE_IN_PROGRESS})
    assert phase_of(hand) is Phase.JOINING  # it told the member of the rebalance, too
    assert OffsetCommitRequest not in hand.open
    hand.join(generation=2)
    assert OffsetCommitRequest not in hand.open
    hand.assign(T0)
    assert hand.request(OffsetCommitRequest).generation_id_or_member_epoch == 2
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {number: {}}


def committing_across_a_rebalance() -> tuple[ByHand, int]:
    """The member is in generation 2, and a commit that it sent in generation 1 is not answered yet."""
    hand = stable(T0)
    number = hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    hand.wait(100, MemberTimer.RETRY)
    assert hand.committing == {T0: 5}
    rebalancing(hand)  # a commit that was refused once does not hold the join up
    hand.join(generation=2)
    hand.assign(T0)
    hand.handle(CallbackDone())
    return hand, number


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_commit_rejected_for_the_old_generation_is_sent_in_the_new_one(code: ErrorCode) -> None:
    # KAFKA-8104
    hand, number = committing_across_a_rebalance()
    hand.answer_commit({T0: code})
    assert phase_of(hand) is Phase.STABLE
    assert hand.member.generation == 2
    assert hand.request(OffsetCommitRequest).generation_id_or_member_epoch == 2
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {number: {}}


def test_a_commit_of_the_generation_before_that_can_never_succeed_fails() -> None:
    hand, number = committing_across_a_rebalance()
    hand.answer_commit({T0: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    assert hand.settled == {number: {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}}
    assert phase_of(hand) is Phase.STABLE


def test_a_commit_of_the_old_generation_may_reveal_that_the_coordinator_moved() -> None:
    hand, _ = committing_across_a_rebalance()
    hand.answer_commit({T0: ErrorCode.NOT_COORDINATOR})
    assert not hand.member.link.known


def test_a_commit_that_waited_for_one_rebalance_does_not_wait_for_the_next() -> None:
    hand = stable(T0)
    hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.REBALANCE_IN_PROGRESS})
    hand.join(generation=2)
    hand.assign(T0)
    hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    hand.handle(CallbackDone())
    hand.handle(Subscribe(frozenset({"u"})))
    assert hand.last.revoke == tps("t", 0)
    hand.wait(100, MemberTimer.RETRY)
    assert hand.committing == {T0: 5}  # the callback may wait for it


def test_no_commit_is_sent_between_a_join_and_its_assignment() -> None:
    hand = stable(T0)
    rebalancing(hand)
    hand.commit(T0)
    assert OffsetCommitRequest not in hand.open
    hand.join(generation=2)
    assert OffsetCommitRequest not in hand.open
    hand.assign(T0)
    assert hand.committing == {T0: 5}


def test_commits_dropped_behind_one_in_flight_fail_at_once_and_the_rest_succeeds() -> None:
    hand = stable(T0, T1, assignors="range")
    first, second = hand.commit(T0, T1, offset=5), hand.commit(T0, offset=6)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    hand.handle(CallbackDone())  # T0 and T1 are given up
    assert hand.settled == {}
    hand.answer_commit({T0: ErrorCode.NONE, T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    assert hand.settled == {first: {T1: ErrorCode.REBALANCE_IN_PROGRESS}, second: {T0: ErrorCode.REBALANCE_IN_PROGRESS}}


@pytest.mark.parametrize("in_join", [True, False])
def test_a_member_between_generations_may_not_commit(in_join: bool) -> None:
    hand = ByHand()
    hand.handle(Subscribe(frozenset({"t"})))
    if in_join:
        hand.handle(CoordinatorFound())
    number = hand.commit(T0)
    assert hand.settled == {number: {T0: ErrorCode.ILLEGAL_GENERATION}}


# Leaving in the middle of a rebalance


def leaving_in_a_join() -> tuple[ByHand, int]:
    """The member leaves while its JoinGroup is out, and commits in its callback."""
    hand = stable(T0)
    rebalancing(hand)
    hand.handle(Leave())
    assert hand.last.revoke == tps("t", 0)
    return hand, hand.commit(T0)


def test_the_last_commit_is_sent_while_the_join_is_held() -> None:
    hand, number = leaving_in_a_join()
    assert hand.committing == {T0: 5}
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {number: {}}
    assert LeaveGroupRequest not in hand.open
    hand.handle(CallbackDone())
    assert LeaveGroupRequest in hand.open


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION])
def test_a_last_commit_too_late_for_the_old_generation_is_sent_in_the_new_one(code: ErrorCode) -> None:
    hand, number = leaving_in_a_join()
    hand.answer_commit({T0: code})
    assert hand.settled == {}
    assert OffsetCommitRequest not in hand.open
    hand.join(generation=2)
    assert OffsetCommitRequest not in hand.open and LeaveGroupRequest not in hand.open
    hand.assign(T0)
    assert hand.last.assign is None  # it has been told to give everything up
    assert hand.request(OffsetCommitRequest).generation_id_or_member_epoch == 2
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {number: {}}
    hand.handle(CallbackDone())
    assert LeaveGroupRequest in hand.open


def test_a_member_that_is_thrown_out_while_it_leaves_does_not_repeat_its_commit() -> None:
    hand, number = leaving_in_a_join()
    hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID})
    assert hand.settled == {number: {T0: ErrorCode.UNKNOWN_MEMBER_ID}}


def test_the_last_commit_waits_for_the_assignment_that_is_on_its_way() -> None:
    hand = stable(T0)
    rebalancing(hand)
    hand.join(generation=2)
    hand.handle(Leave())
    hand.commit(T0)
    assert OffsetCommitRequest not in hand.open
    hand.assign(T0)
    assert hand.request(OffsetCommitRequest).generation_id_or_member_epoch == 2


def test_an_unknown_topic_beside_a_waiting_commit_is_retried_after_a_pause() -> None:
    hand = stable(T0, T1)
    rebalancing(hand)
    hand.handle(Leave())
    hand.commit(T0, T1)
    hand.answer_commit({T0: ErrorCode.ILLEGAL_GENERATION, T1: ErrorCode.UNKNOWN_TOPIC_ID})
    assert hand.settled == {}
    assert hand.member.link.retry_at == hand.now + 100


def test_a_commit_that_waits_for_the_coordinator_is_sent_although_the_consumer_subscribes_meanwhile() -> None:
    hand = ByHand()
    number = hand.commit(T0)
    hand.start("t")
    commit = hand.request(OffsetCommitRequest)
    assert (commit.member_id, commit.generation_id_or_member_epoch) == ("", -1)
    assert JoinGroupRequest not in hand.open  # as a member it could not commit this any more
    hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID})  # the group has members
    assert hand.settled == {number: {T0: ErrorCode.UNKNOWN_MEMBER_ID}}
    hand.join()
    hand.assign(T0)
    assert hand.last.assign == frozenset({T0}) and hand.last.error is None


@pytest.mark.parametrize("times", [1, 2])
def test_a_member_that_may_no_longer_read_its_group_looks_for_no_coordinator(times: int) -> None:
    hand = stable(T0)
    number = hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.NOT_COORDINATOR})
    hand.wait(100, MemberTimer.RETRY)
    assert hand.last.find_coordinator
    for _ in range(times):  # another look-up may have been under way
        hand.handle(CoordinatorUnavailable(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        assert phase_of(hand) is Phase.FATAL
        assert not hand.last.find_coordinator
    assert hand.settled == {number: {T0: ErrorCode.GROUP_AUTHORIZATION_FAILED}}
