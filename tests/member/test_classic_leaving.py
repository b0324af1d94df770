"""How a member of a classic group leaves, and what it keeps of itself afterwards: each answer is made by hand."""

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
    PollEnded,
    PollStarted,
    Subscribe,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.member.by_hand import T0, T1, ByHand, phase_of, rebalancing, stable
from tests.member.world import tps


def saying_goodbye() -> ByHand:
    hand = stable(T0)
    hand.handle(Leave())
    hand.handle(CallbackDone())
    assert LeaveGroupRequest in hand.open
    return hand


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_whose_leave_request_arrived_has_left_whatever_the_answer_is(code: ErrorCode) -> None:
    hand = saying_goodbye()
    hand.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=code))
    assert phase_of(hand) is Phase.UNSUBSCRIBED
    assert hand.member.member_id == ""
    assert hand.member.generation is None
    hand.handle(Subscribe(frozenset({"t"})))
    assert (hand.request(JoinGroupRequest).member_id, hand.joining.generation_id) == ("", -1)
    assert hand.request(JoinGroupRequest).reason == "the member is new"


def test_a_leave_request_is_repeated_to_a_loading_coordinator() -> None:
    hand = saying_goodbye()
    hand.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert phase_of(hand) is Phase.LEAVING
    hand.wait(100, MemberTimer.RETRY)
    assert LeaveGroupRequest in hand.open


def test_a_leave_request_is_repeated_to_the_next_coordinator() -> None:
    hand = saying_goodbye()
    hand.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    hand.wait(100, MemberTimer.RETRY)
    assert hand.last.find_coordinator
    hand.handle(CoordinatorFound())
    assert LeaveGroupRequest in hand.open


def test_the_goodbye_waits_for_the_first_answer_to_the_last_commit_and_no_longer() -> None:
    hand = stable(T0)
    hand.handle(Leave())
    number = hand.commit(T0)
    assert OffsetCommitRequest in hand.open
    hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    assert LeaveGroupRequest not in hand.open  # the callback still runs
    hand.handle(CallbackDone())
    assert hand.settled == {number: {T0: ErrorCode.REBALANCE_IN_PROGRESS}}
    hand.wait(100, MemberTimer.RETRY)
    assert LeaveGroupRequest in hand.open


def test_an_assignment_that_waits_for_a_callback_is_forgotten_when_the_member_leaves() -> None:
    hand = stable(T0)
    hand.handle(Subscribe(frozenset({"t", "u"})))
    hand.join(generation=2)
    hand.assign(T0, *tps("u", 0))
    assert hand.last.assign == tps("u", 0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.NONE))
    rebalancing(hand)
    hand.join(generation=3)
    hand.assign(T0, *tps("u", 0, 1))
    assert hand.last.assign is None  # the application is still busy with the first
    hand.handle(Leave())
    hand.handle(CallbackDone())
    assert hand.last.assign is None
    assert hand.last.revoke == tps("t", 0) | tps("u", 0)


def test_leaving_twice_gives_up_once() -> None:
    hand = stable(T0)
    hand.handle(Leave())
    hand.handle(Leave(reason="again"))
    hand.handle(CallbackDone())
    assert hand.last.revoke is None
    assert hand.request(LeaveGroupRequest).members[0].reason == "the member closes"


def test_leaving_without_a_group_does_nothing() -> None:
    hand = ByHand()
    hand.handle(Leave())
    assert phase_of(hand) is Phase.UNSUBSCRIBED
    assert hand.member.leave is None


def test_the_id_that_a_leaving_member_is_handed_is_given_back() -> None:
    # KIP-394: an unused id delays rebalances until its session would have ended.
    hand = ByHand()
    hand.start("t")
    hand.handle(Leave())
    assert phase_of(hand) is Phase.LEAVING
    assert LeaveGroupRequest not in hand.open
    hand.answer(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m"))
    assert [member.member_id for member in hand.request(LeaveGroupRequest).members] == ["m"]
    hand.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert phase_of(hand) is Phase.UNSUBSCRIBED


@pytest.mark.parametrize("for_good", [True, False])
def test_a_static_member_sends_a_leave_request_only_if_it_leaves_for_good(for_good: bool) -> None:
    hand = stable(T0, instance_id="i")
    hand.handle(Leave(for_good=for_good))
    hand.handle(CallbackDone())
    assert (LeaveGroupRequest in hand.open) is for_good
    assert phase_of(hand) is (Phase.LEAVING if for_good else Phase.UNSUBSCRIBED)


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_member_whose_application_does_not_poll_is_out_at_that_very_moment(instance_id: str | None) -> None:
    hand = stable(T0, instance_id=instance_id)
    hand.handle(PollEnded())
    hand.wait(299_999, MemberTimer.POLL)
    assert phase_of(hand) is Phase.STABLE
    hand.wait(1, MemberTimer.POLL)
    assert phase_of(hand) is Phase.STALE
    assert (LeaveGroupRequest in hand.open) is (instance_id is None)
    assert hand.last.warning is not None and "has not polled for max_poll_interval_ms" in hand.last.warning
    assert hand.member.generation is None
    hand.handle(PollStarted())
    assert hand.last.lost == tps("t", 0)
    hand.handle(CallbackDone())
    assert hand.request(JoinGroupRequest).member_id == ""
    assert hand.request(JoinGroupRequest).reason == "the application polls again after max.poll.interval.ms"


def test_the_goodbye_waits_for_the_answer_to_the_last_commit() -> None:
    hand = stable(T0)
    hand.handle(Leave())
    number = hand.commit(T0)
    hand.handle(CallbackDone())
    assert LeaveGroupRequest not in hand.open
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {number: {}}
    assert LeaveGroupRequest in hand.open


def test_a_commit_that_was_refused_once_does_not_delay_the_goodbye_and_fails_with_it() -> None:
    hand = stable(T0)
    number = hand.commit(T1)  # a partition that it never gives up, since it does not own it
    hand.answer_commit({T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    hand.handle(Leave())
    hand.handle(CallbackDone())
    hand.wait(100, MemberTimer.RETRY)
    assert LeaveGroupRequest in hand.open
    hand.answer_commit({T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    assert hand.settled == {number: {T1: ErrorCode.UNKNOWN_MEMBER_ID}}


def test_the_rebalance_is_left_once_the_repeated_commit_is_answered() -> None:
    hand = stable(T0)
    rebalancing(hand)
    hand.handle(Leave())
    number = hand.commit(T0)
    hand.answer_commit({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    hand.wait(100, MemberTimer.RETRY)
    assert hand.committing == {T0: 5}
    hand.handle(CallbackDone())
    assert LeaveGroupRequest not in hand.open
    hand.answer_commit({T0: ErrorCode.NONE})
    assert hand.settled == {number: {}}
    assert LeaveGroupRequest in hand.open


def test_a_commit_that_waited_for_a_rebalance_is_sent_again_by_a_leaving_member() -> None:
    # It no longer waits for the rebalance, in which it takes no part.
    hand = stable(T0, T1)
    hand.commit(T0, T1)
    hand.answer_commit({T0: ErrorCode.REBALANCE_IN_PROGRESS, T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    assert JoinGroupRequest not in hand.open
    hand.handle(Leave())
    hand.wait(100, MemberTimer.RETRY)
    assert hand.committing == {T0: 5, T1: 5}


def test_a_member_that_is_thrown_out_does_not_wait_for_the_answer_to_its_goodbye() -> None:
    hand = saying_goodbye()
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert phase_of(hand) is Phase.UNSUBSCRIBED
    hand.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert phase_of(hand) is Phase.UNSUBSCRIBED


def test_a_member_that_has_no_id_leaves_without_a_coordinator() -> None:
    hand = ByHand()
    hand.handle(Subscribe(frozenset({"t"})))
    hand.handle(Leave())
    assert phase_of(hand) is Phase.UNSUBSCRIBED


def test_a_static_member_that_leaves_during_its_first_join_does_not_wait_for_the_answer() -> None:
    hand = ByHand(instance_id="i")
    hand.start("t")
    assert JoinGroupRequest in hand.open
    hand.handle(Leave())
    assert phase_of(hand) is Phase.UNSUBSCRIBED


def test_a_member_that_leaves_after_it_was_put_out_has_lost_its_partitions() -> None:
    hand = stable(T0)
    hand.handle(PollEnded())
    hand.wait(300_000, MemberTimer.POLL)
    assert phase_of(hand) is Phase.STALE
    hand.handle(Leave())
    assert (hand.last.lost, hand.last.revoke) == (tps("t", 0), None)


def late_without_a_coordinator() -> ByHand:
    hand = stable(T0)
    hand.handle(PollEnded())
    hand.wait(299_000)
    hand.fail(HeartbeatRequest)
    hand.wait(1_000, MemberTimer.POLL)
    assert phase_of(hand) is Phase.STALE
    assert LeaveGroupRequest not in hand.open
    return hand


def test_a_late_member_that_has_no_coordinator_leaves_when_it_has_one() -> None:
    hand = late_without_a_coordinator()
    assert hand.last.find_coordinator
    hand.handle(CoordinatorFound())
    assert [member.member_id for member in hand.request(LeaveGroupRequest).members] == ["m"]
    hand.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert not hand.last.send and not hand.last.find_coordinator


def test_a_late_member_leaves_before_it_joins_again_so_that_the_group_need_not_wait_for_its_old_id() -> None:
    hand = late_without_a_coordinator()
    hand.handle(PollStarted())
    hand.handle(CallbackDone())
    assert JoinGroupRequest not in hand.open
    sent = [send.message for send in hand.handle(CoordinatorFound()).send]
    assert [type(message) for message in sent] == [LeaveGroupRequest, JoinGroupRequest]
    assert hand.request(JoinGroupRequest).member_id == ""


@pytest.mark.parametrize("code", [None, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_the_leave_request_of_a_late_member_is_repeated_until_it_arrives(code: ErrorCode | None) -> None:
    hand = stable(T0)
    hand.handle(PollEnded())
    hand.wait(300_000, MemberTimer.POLL)
    hand.handle(PollStarted())
    hand.handle(CallbackDone())
    assert JoinGroupRequest in hand.open
    if code is None:
        hand.fail(LeaveGroupRequest)
    else:
        hand.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=code))
    assert LeaveGroupRequest not in hand.open
    hand.wait(100, MemberTimer.RETRY)
    if hand.last.find_coordinator:
        hand.handle(CoordinatorFound())
    assert [member.member_id for member in hand.request(LeaveGroupRequest).members] == ["m"]
    hand.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    hand.wait(100, MemberTimer.RETRY)
    assert LeaveGroupRequest not in hand.open


def test_a_late_member_that_may_not_leave_is_not_in_the_group() -> None:
    hand = stable(T0)
    hand.handle(PollEnded())
    hand.wait(300_000, MemberTimer.POLL)
    hand.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert (phase_of(hand), hand.last.error, hand.last.send) == (Phase.STALE, None, [])


@pytest.mark.parametrize("has_coordinator", [True, False])
def test_a_member_late_before_its_first_join_is_answered_sends_no_leave_request(has_coordinator: bool) -> None:
    hand = ByHand()
    hand.handle(Subscribe(frozenset({"t"})))
    if has_coordinator:
        hand.handle(CoordinatorFound())
    hand.handle(PollEnded())
    hand.wait(300_000, MemberTimer.POLL)
    assert phase_of(hand) is Phase.STALE
    assert LeaveGroupRequest not in hand.open


# Errors that end a member for good


@pytest.mark.parametrize(
    ("code", "kept_id"),
    # The group waits for the ID of a member that lost its rights until its session ends.
    [(ErrorCode.GROUP_AUTHORIZATION_FAILED, "m"), (ErrorCode.FENCED_INSTANCE_ID, "")],
)
def test_after_an_error_that_repeating_cannot_cure_the_member_is_out_of_its_generation(
    code: ErrorCode, kept_id: str
) -> None:
    hand = stable(T0)
    first, second = hand.commit(T0), hand.commit(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=code))
    assert hand.last.error is not None and hand.last.error.code is code
    assert hand.last.lost == tps("t", 0)
    hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID})
    assert hand.settled.keys() == {first, second}
    assert hand.settled[second] == {T0: code}
    hand.handle(CallbackDone())
    assert phase_of(hand) is Phase.FATAL
    hand.handle(Subscribe(frozenset({"t"})))
    assert (hand.request(JoinGroupRequest).member_id, hand.joining.generation_id) == (kept_id, -1)


def test_a_member_that_may_not_leave_either_is_out_of_the_group() -> None:
    hand = stable(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    hand.handle(CallbackDone())
    hand.handle(Leave())
    assert [member.member_id for member in hand.request(LeaveGroupRequest).members] == ["m"]
    hand.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    hand.wait(100, MemberTimer.RETRY)
    hand.handle(CoordinatorUnavailable(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert phase_of(hand) is Phase.UNSUBSCRIBED
    assert hand.member.member_id == ""


def test_only_answers_for_the_current_subscription_count() -> None:
    hand = stable(T0)
    assert hand.member.is_answered
    hand.handle(Subscribe(frozenset({"t", "u"})))
    assert not hand.member.is_answered
    hand.handle(Subscribe(frozenset({"t"})))  # while the join for both is under way
    hand.join(generation=2)
    assert not hand.member.is_answered
    hand.answer(SyncGroupRequest, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    hand.join(generation=3)
    hand.assign(T0)
    hand.handle(CallbackDone())
    assert hand.member.is_answered
