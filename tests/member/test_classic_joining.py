"""When a member of a classic group joins, and what it makes of the answers: each answer is made by hand."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.member import CallbackDone, CoordinatorFound, MemberTimer, MetadataChanged, Phase, Subscribe
from kohort.wire.messages.consumer_protocol import Subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.member.by_hand import T0, T1, ByHand, phase_of, rebalancing, stable

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("code", [LOADING, ErrorCode.NOT_COORDINATOR])
def test_a_join_that_is_refused_for_now_is_sent_again_with_the_same_reason(code: ErrorCode) -> None:
    hand = stable(T0)
    rebalancing(hand)
    hand.answer(JoinGroupRequest, JoinGroupResponse(error_code=code))
    assert JoinGroupRequest not in hand.open
    hand.wait(100, MemberTimer.RETRY)
    if code is ErrorCode.NOT_COORDINATOR:
        assert hand.last.find_coordinator
        hand.handle(CoordinatorFound())
    assert hand.request(JoinGroupRequest).reason == "the group is rebalancing"


def test_a_join_that_succeeds_ends_the_backoff() -> None:
    hand = stable(T0)
    rebalancing(hand)
    for pause in (100, 200):
        hand.answer(JoinGroupRequest, JoinGroupResponse(error_code=LOADING))
        assert hand.member.link.retry_at == hand.now + pause
        hand.wait(pause, MemberTimer.RETRY)
    hand.join(generation=2)
    hand.answer(SyncGroupRequest, SyncGroupResponse(error_code=LOADING))
    assert hand.member.link.retry_at == hand.now + 100


@pytest.mark.parametrize(("protocol_type", "joins"), [(None, True), ("", True), ("consumer", True), ("connect", False)])
def test_a_consumer_cannot_join_a_group_of_another_type(protocol_type: str | None, joins: bool) -> None:
    hand = ByHand()
    hand.start("t")
    name = hand.member.config.assignors[0].name
    answer = JoinGroupResponse(
        generation_id=1, protocol_type=protocol_type, protocol_name=name, leader="other", member_id="m"
    )
    hand.answer(JoinGroupRequest, answer)
    assert phase_of(hand) is (Phase.SYNCING if joins else Phase.FATAL)
    assert joins or (hand.last.error is not None and hand.last.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_a_refused_commit_for_a_partition_of_another_member_does_not_survive_a_rebalance() -> None:
    # After it, the partition's owner may have committed a newer offset.
    hand = stable(T0)
    number = hand.commit(T1)
    hand.answer_commit({T1: ErrorCode.REBALANCE_IN_PROGRESS})
    assert JoinGroupRequest in hand.open
    assert hand.settled == {number: {T1: ErrorCode.REBALANCE_IN_PROGRESS}}
    hand.join(generation=2)
    hand.assign(T0)
    assert OffsetCommitRequest not in hand.open


@pytest.mark.parametrize("assignors", ["range", "cooperative-sticky"])
def test_a_member_that_owns_nothing_joins_while_its_callback_runs(assignors: str) -> None:
    hand = ByHand(assignors)
    hand.start("t")
    hand.join()
    hand.assign()
    assert hand.last.assign == frozenset()
    rebalancing(hand)


def test_an_eager_member_that_owns_partitions_joins_after_it_gave_them_up() -> None:
    hand = ByHand("range")
    hand.start("t")
    hand.join()
    hand.assign(T0)
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    hand.handle(CallbackDone())
    assert hand.last.revoke == frozenset({T0})
    assert JoinGroupRequest not in hand.open
    hand.handle(CallbackDone())
    assert JoinGroupRequest in hand.open


def leader_of_two_topics() -> ByHand:
    """A stable member that computed the assignment of one partition of `t` and one of `u`."""
    hand = ByHand()
    hand.start("t", "u")
    hand.join(leader="m", members={"m": Subscription(["t", "u"])})
    hand.handle(MetadataChanged({"t": 1, "u": 1}, frozenset({"t", "u"})))
    hand.assign(T0)
    hand.handle(CallbackDone())
    assert phase_of(hand) is Phase.STABLE
    return hand


def test_metadata_that_leaves_a_topic_out_does_not_mean_that_the_topic_is_gone() -> None:
    hand = leader_of_two_topics()
    hand.handle(MetadataChanged({"t": 1}, frozenset({"t"})))
    assert phase_of(hand) is Phase.STABLE
    hand.handle(MetadataChanged({"t": 1}, frozenset({"t", "u"})))
    assert hand.request(JoinGroupRequest).reason == "the number of partitions changed: u"


def test_a_member_that_subscribes_to_other_topics_and_back_joins_for_each() -> None:
    hand = stable(T0)
    hand.handle(Subscribe(frozenset({"t", "u"})))
    hand.handle(Subscribe(frozenset({"t"})))
    hand.join(generation=2)
    hand.assign(T0)
    hand.handle(CallbackDone())
    assert hand.joining.topics == ["t"]


def test_a_leader_that_is_thrown_out_no_longer_leads() -> None:
    hand = leader_of_two_topics()
    assert hand.member.is_leader
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert not hand.member.is_leader
