"""The effect of each response on a member of a classic group: heartbeats, rejections, leading."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.member import (
    CallbackDone,
    CoordinatorFound,
    MemberTimer,
    MetadataChanged,
    Phase,
    Subscribe,
)
from kohort.wire.messages.consumer_protocol import (
    Subscription,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.member.by_hand import T0, T1, ByHand, phase_of, rebalancing, stable
from tests.member.world import tps

# Heartbeats


@pytest.mark.parametrize("lost", [True, False])
def test_after_a_coordinator_is_gone_the_next_heartbeat_does_not_wait_for_its_interval(lost: bool) -> None:
    hand = stable(T0)
    hand.now += 1_500
    if lost:
        hand.fail(HeartbeatRequest)
    else:
        hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))
    assert not hand.member.link.known
    assert hand.last.timers.get(MemberTimer.HEARTBEAT) is None  # until a coordinator is known
    hand.wait(100, MemberTimer.RETRY)
    assert hand.last.find_coordinator
    hand.handle(CoordinatorFound())
    assert HeartbeatRequest in hand.open


def test_a_commit_without_a_heartbeat_in_flight_brings_no_further_heartbeat() -> None:
    hand = stable(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse())
    hand.now += 500
    hand.commit(T0)
    hand.wait(500)
    assert HeartbeatRequest not in hand.open
    hand.wait(2_000)
    assert HeartbeatRequest in hand.open


@pytest.mark.parametrize(("since_assigned", "follows"), [(59_999, True), (60_000, False)])
def test_for_a_minute_after_an_assignment_a_heartbeat_follows_a_commit(since_assigned: int, follows: bool) -> None:
    hand = stable(T0)
    hand.now += since_assigned - 1_000
    hand.answer(HeartbeatRequest, HeartbeatResponse())
    assert HeartbeatRequest in hand.open  # it was due long before
    hand.now += 1_000
    hand.commit(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse())
    assert (HeartbeatRequest in hand.open) is follows


def test_a_coordinator_that_loads_is_asked_again_after_a_while() -> None:
    hand = stable(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert hand.member.link.known
    assert hand.member.link.retry_at == hand.now + 100


def test_an_answer_to_a_heartbeat_of_an_earlier_generation_is_ignored() -> None:
    hand = stable(T0)
    hand.handle(Subscribe(frozenset({"t", "u"})))
    hand.join(generation=2)
    hand.assign(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert hand.member.phase is Phase.STABLE
    assert hand.member.owned == {T0}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_during_a_join_a_heartbeats_answer_is_ignored(code: ErrorCode) -> None:
    hand = stable(T0)
    hand.handle(Subscribe(frozenset({"t", "u"})))
    assert hand.member.phase is Phase.JOINING
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=code))
    assert hand.member.phase is Phase.JOINING
    assert hand.member.member_id == "m"


def test_a_good_answer_ends_the_backing_off() -> None:
    hand = stable(T0)
    for pause in (100, 200):
        hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        assert hand.member.link.retry_at == hand.now + pause
        hand.wait(3_000)
    hand.answer(HeartbeatRequest, HeartbeatResponse())
    hand.wait(3_000)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert hand.member.link.retry_at == hand.now + 100


# Refusals and what a join says after them


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_after_a_generation_was_lost_the_join_names_no_generation_and_no_partitions(code: ErrorCode) -> None:
    hand = stable(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=code))
    assert hand.last.lost == tps("t", 0)
    hand.handle(CallbackDone())
    assert hand.joining.generation_id == -1
    assert hand.joining.owned_partitions == []
    assert hand.request(JoinGroupRequest).member_id == ("" if code is ErrorCode.UNKNOWN_MEMBER_ID else "m")


def test_a_join_within_a_generation_names_it_and_what_is_owned() -> None:
    hand = stable(T0)
    rebalancing(hand)
    assert hand.joining.generation_id == 1
    assert hand.joining.owned_partitions == [T0]


def test_a_member_refused_during_a_revocation_joins_with_the_reason() -> None:
    hand = stable(T0, assignors="range")
    number = hand.commit(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert hand.last.revoke == tps("t", 0)
    assert hand.member.phase is Phase.PREPARING
    hand.answer_commit({T0: ErrorCode.UNKNOWN_MEMBER_ID})
    assert hand.settled[number] == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    hand.handle(CallbackDone())
    reason = "the coordinator does not know the member (while the revoke callback runs)"
    assert hand.request(JoinGroupRequest).reason == reason


def test_commits_that_wait_when_a_generation_is_lost_fail() -> None:
    hand = stable(T0)
    first, second = hand.commit(T0), hand.commit(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    hand.answer_commit({T0: ErrorCode.ILLEGAL_GENERATION})
    assert hand.settled == {first: {T0: ErrorCode.ILLEGAL_GENERATION}, second: {T0: ErrorCode.ILLEGAL_GENERATION}}
    assert OffsetCommitRequest not in hand.open


def test_a_malformed_assignment_ends_the_member() -> None:
    hand = ByHand()
    hand.start("t")
    hand.join()
    hand.answer(SyncGroupRequest, SyncGroupResponse(assignment=b"\0"))
    assert hand.last.error is not None and hand.last.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert hand.member.phase is Phase.FATAL


def test_an_assignor_that_the_member_did_not_offer_ends_it() -> None:
    hand = ByHand()
    hand.start("t")
    answer = JoinGroupResponse(generation_id=1, protocol_name="range", leader="other", member_id="m")
    hand.answer(JoinGroupRequest, answer)
    assert hand.last.error is not None and hand.last.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert hand.member.phase is Phase.FATAL


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_refused_sync_leads_to_another_join(code: ErrorCode) -> None:
    hand = stable(T0)
    rebalancing(hand)
    hand.join(generation=2)
    hand.answer(SyncGroupRequest, SyncGroupResponse(error_code=code))
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        assert hand.last.lost == tps("t", 0)
        hand.handle(CallbackDone())
        assert hand.request(JoinGroupRequest).member_id == ""
    else:
        assert hand.request(JoinGroupRequest).member_id == "m"
        assert hand.joining.generation_id == 1  # KAFKA-13891: of the last assignment that arrived


def test_an_empty_assignment_is_delivered() -> None:
    hand = ByHand()
    hand.start("t")
    hand.join()
    hand.answer(SyncGroupRequest, SyncGroupResponse(assignment=b""))
    assert hand.last.assign == frozenset()
    assert phase_of(hand) is Phase.STABLE


def test_partitions_missing_in_an_assignment_are_revoked_before_the_member_rejoins() -> None:
    hand = stable(T0, T1)
    rebalancing(hand)
    hand.join(generation=2)
    hand.assign(T0)
    assert hand.last.revoke == tps("t", 1)
    assert JoinGroupRequest not in hand.open
    hand.handle(CallbackDone())
    assert hand.request(JoinGroupRequest).reason == "gave up 1 partitions that the assignment moves"
    assert hand.joining.owned_partitions == [T0]


# Leading


def leading() -> ByHand:
    """A member that leads generation 1 and does not know yet how many partitions there are."""
    hand = ByHand()
    hand.start("t")
    hand.join(leader="m", members={"m": Subscription(["t"])})
    assert phase_of(hand) is Phase.ASSIGNING
    return hand


def test_a_leader_that_waits_for_metadata_sends_heartbeats_at_the_interval() -> None:
    hand = leading()
    assert HeartbeatRequest not in hand.open  # its join has just been answered
    assert hand.last.timers[MemberTimer.HEARTBEAT] == hand.now + 3_000
    hand.wait(3_000)
    assert HeartbeatRequest in hand.open


def test_a_leader_notified_of_another_rebalance_before_it_assigned_rejoins() -> None:
    hand = leading()
    hand.wait(3_000)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert hand.request(JoinGroupRequest).reason == "another rebalance began before the assignment was computed"


def test_a_leader_that_had_to_wait_syncs_afterwards_and_the_next_failure_is_the_first() -> None:
    hand = leading()
    hand.wait(3_000)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    hand.handle(MetadataChanged({"t": 1}, frozenset({"t"})))
    assert SyncGroupRequest not in hand.open
    hand.wait(100, MemberTimer.RETRY)
    hand.assign(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert hand.member.link.retry_at == hand.now + 100


def test_a_subscription_that_the_leader_cannot_read_ends_it() -> None:
    hand = ByHand()
    hand.start("t")
    broken = JoinGroupResponseMember(member_id="n", metadata=b"\0")
    name = hand.member.config.assignors[0].name
    answer = JoinGroupResponse(generation_id=1, protocol_name=name, leader="m", member_id="m", members=[broken])
    hand.answer(JoinGroupRequest, answer)
    assert hand.last.error is not None and hand.last.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert phase_of(hand) is Phase.FATAL


def test_an_assignor_that_fails_ends_the_leader() -> None:
    hand = ByHand("range")
    hand.start("t")
    hand.join(leader="m", members={"m": Subscription(["t"])})
    # A topic's count that is no number: no cluster says so, and it makes any assignor fail.
    hand.handle(MetadataChanged({"t": "one"}, frozenset({"t"})))  # type: ignore[dict-item]
    assert hand.last.error is not None and hand.last.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert phase_of(hand) is Phase.FATAL


def test_a_member_that_no_longer_leads_watches_its_own_topics_only() -> None:
    hand = ByHand()
    hand.start("t")
    hand.join(leader="m", members={"m": Subscription(["t"]), "n": Subscription(["u"])})
    assert hand.last.metadata == frozenset({"t", "u"})
    hand.handle(MetadataChanged({"t": 1, "u": 1}, frozenset({"t", "u"})))
    hand.assign(T0)
    hand.handle(CallbackDone())
    rebalancing(hand)
    hand.join(generation=2)
    assert hand.last.metadata == frozenset({"t"})
    hand.assign(T0)
    hand.handle(CallbackDone())
    hand.handle(MetadataChanged({"t": 4}, frozenset({"t"})))
    assert hand.member.phase is Phase.STABLE  # how many partitions there are is the other leader's matter


def test_a_leader_whose_topics_grow_before_all_have_their_assignment_joins_again() -> None:
    hand = ByHand()
    hand.start("t")
    hand.join(leader="m", members={"m": Subscription(["t"])})
    hand.handle(MetadataChanged({"t": 1}, frozenset({"t"})))
    hand.handle(MetadataChanged({"t": 2}, frozenset({"t"})))
    assert phase_of(hand) is Phase.SYNCING
    hand.assign(T0)
    assert hand.request(JoinGroupRequest).reason == "the number of partitions changed: t"
