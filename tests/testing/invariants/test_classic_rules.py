"""The rules of classic groups: each finds its bug, and leaves an honest client alone."""

from collections.abc import Sequence

import pytest

from kohort.coordinator import Record
from kohort.errors import ErrorCode
from kohort.group_events import Cause
from kohort.model import TopicPartition
from kohort.testing.invariants import Invariant, Limits
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.testing.invariants.stream import SESSION_MS, Peer, Stream, assigned, tp

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


def test_an_honest_group_breaks_nothing() -> None:
    stream = Stream()
    stream.describes(2)
    a, b = stream.peer("a"), stream.peer("b")
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0), tp(1), plan={"a-1": [tp(0), tp(1)]})
    a.beats("a-1", 1)
    a.beats("a-1", 1, REBALANCE)
    a.joins("a-1", 2, known=True)
    b.joins("b-1", 2)
    a.syncs("a-1", 2, tp(0), plan={"a-1": [tp(0)], "b-1": [tp(1)]})
    b.syncs("b-1", 2, tp(1))
    for _ in range(20):
        a.beats("a-1", 2)
        b.beats("b-1", 2)
        stream.passes(3_000)
    stream.ends()
    assert stream.broken() == []


def test_a_leader_that_assigns_a_partition_twice_is_found() -> None:
    # KAFKA-7026: after a missed generation, the sticky assignor gave one partition to two members.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0), plan={"a-1": [tp(0)], "b-1": [tp(0)]})
    assert stream.broken() == [(Invariant.ONE_OWNER, "client")]


def generation(number: int, **owned: TopicPartition) -> Record:
    members = [MemberMetadata(member_id=name, assignment=assigned(place)) for name, place in owned.items()]
    return Record(
        GroupMetadataKey(group="g"),
        GroupMetadataValue(generation=number, protocol_type="consumer", members=members),
    )


def test_a_stored_generation_with_two_owners_is_the_fault_of_who_computed_it() -> None:
    stream = Stream()
    stream.stores(generation(1, a=tp(0), b=tp(0)))
    assert stream.broken() == [(Invariant.ONE_OWNER, "undecided")]
    for second, fault in ((tp(0), "client"), (tp(1), "broker")):
        stream = Stream()
        leader = stream.peer()
        leader.joins("a", 1, leader="a")
        request = SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id="a",
            assignments=[
                SyncGroupRequestAssignment(member_id="a", assignment=assigned(tp(0))),
                SyncGroupRequestAssignment(member_id="b", assignment=assigned(second)),
            ],
        )
        leader.sends(request)
        stream.stores(generation(1, a=tp(0), b=tp(0)))
        assert stream.broken() == [(Invariant.ONE_OWNER, fault)]


def test_a_coordinator_that_changes_an_assignment_is_found() -> None:
    stream = Stream()
    a, b = stream.peer("a"), stream.peer("b")
    a.joins("a-1", 1)
    b.joins("b-1", 1)
    a.syncs("a-1", 1, tp(0), plan={"a-1": [tp(0)], "b-1": [tp(1)]})
    b.syncs("b-1", 1, tp(0))
    assert stream.broken() == [(Invariant.COMPUTED_ASSIGNMENT, "broker")]


def test_a_leader_that_assigns_what_nobody_subscribes_to_is_found() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0, "other"), plan={"a-1": [tp(0, "other")]})
    assert stream.broken() == [(Invariant.SUBSCRIBED_ASSIGNMENT, "client")]


@pytest.mark.parametrize(("assigned_topic", "broken"), [("orders", True), ("other", False)])
def test_a_leader_is_judged_by_the_subscriptions_that_it_received(assigned_topic: str, broken: bool) -> None:
    stream = Stream()
    a, b = stream.peer("a"), stream.peer("b")
    b.joins("b-1", 1)
    a.joins("a-1", 2, others={"b-1": ["other"]})  # the answer to b's second JoinGroup, for another topic, is lost
    a.syncs("a-1", 2, plan={"a-1": [], "b-1": [tp(0, assigned_topic)]})
    assert stream.broken() == ([(Invariant.SUBSCRIBED_ASSIGNMENT, "client")] if broken else [])


def cooperative(owned: int, moved_to: str) -> Stream:
    """Two members of which `a-1` owned a partition, which the leader gives to `moved_to` in the next generation."""
    stream = Stream()
    a, b = stream.peer("a"), stream.peer("b")
    a.joins("a-1", 2, assignor="cooperative-sticky", owned=[tp(owned)], owned_in=1)
    b.joins("b-1", 2, assignor="cooperative-sticky", owned_in=1)
    plan: dict[str, list[TopicPartition]] = {"a-1": [], "b-1": []}
    plan[moved_to].append(tp(0))
    a.syncs("a-1", 2, *plan["a-1"], plan=plan)
    return stream


def test_a_leader_that_moves_a_partition_in_one_step_is_found() -> None:
    assert cooperative(0, "b-1").broken() == [(Invariant.TWO_STEP_MOVES, "client")]
    assert cooperative(0, "a-1").broken() == []
    assert cooperative(1, "b-1").broken() == []


def test_a_client_that_goes_on_in_a_generation_that_is_over_is_found() -> None:
    # librdkafka issue 4059, Sarama: no join after ILLEGAL_GENERATION.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    for _ in range(11):
        a.beats("a-1", 1, ILLEGAL)
    assert stream.broken() == [(Invariant.FENCED_MEMBERS_JOIN, "client")]
    assert "11 times" in stream.found[0].what


def test_a_client_that_ignores_unknown_member_id_for_long_is_found() -> None:
    stream = Stream()
    a = stream.peer()
    for _ in range(4):
        a.beats("a-1", 1, UNKNOWN)
        stream.passes(SESSION_MS)
    assert stream.broken() == [(Invariant.FENCED_MEMBERS_JOIN, "client")]


def test_a_client_whose_application_is_busy_may_join_again_when_it_polls() -> None:
    stream = Stream()
    a = stream.peer()
    request = _join("")
    request.rebalance_timeout_ms = 6 * SESSION_MS
    a.asks(request, _joined("a-1", 1))
    for _ in range(6):
        a.beats("a-1", 1, ILLEGAL)
        stream.passes(SESSION_MS)
    assert stream.broken() == []
    a.beats("a-1", 1, ILLEGAL)
    assert stream.broken() == [(Invariant.FENCED_MEMBERS_JOIN, "client")]


def test_a_client_that_joins_again_after_a_refusal_is_honest() -> None:
    stream = Stream()
    a = stream.peer()
    for generation in range(1, 30):
        a.joins("a-1", generation, known=generation > 1)
        a.beats("a-1", generation, ILLEGAL)
    assert stream.broken() == []


def test_requests_that_were_sent_before_the_refusal_arrived_are_honest() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.commits(0, "a-1", 1, code=ILLEGAL)
    sent = [a.sends(commit) for commit in [_commit()] * 50]
    for request_id in sent:
        a.gets(request_id, _refused())
    assert stream.broken() == []


def test_a_refusal_whose_answer_was_lost_is_not_held_against_the_client() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    for _ in range(50):
        beat = a.sends(HeartbeatRequest(group_id="g", generation_id=1, member_id="a-1"))
        a.loses(beat, HeartbeatResponse(error_code=ILLEGAL))
    assert stream.broken() == []


def test_a_refusal_after_which_the_connection_ends_may_not_have_arrived() -> None:
    # The network was cut, and one answer after the other was lost in it: the broker knows only that it sent them.
    stream = Stream()
    for _ in range(4):
        a = stream.peer()
        a.beats("a-1", 1, UNKNOWN)
        a.closes()
        stream.passes(SESSION_MS)
    a = stream.peer()
    a.beats("a-1", 1, UNKNOWN)
    a.beats("a-1", 1, UNKNOWN)  # now the client has received one
    assert stream.broken() == []
    stream.passes(SESSION_MS)
    a.beats("a-1", 1, UNKNOWN)
    assert stream.broken() == [(Invariant.FENCED_MEMBERS_JOIN, "client")]
    assert "for 10003 ms after" in stream.found[0].what


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_member_that_another_coordinator_knows_may_go_on(code: ErrorCode) -> None:
    # A broker that had lost the group removed it, and the answer was lost with its connection.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.beats("a-1", 1, UNKNOWN)
    a.closes()
    b = stream.peer()
    for _ in range(12):
        b.beats("a-1", 1, code)
    assert (Invariant.FENCED_MEMBERS_JOIN, "client") not in stream.broken()


def test_a_client_that_connects_again_after_each_refusal_and_goes_on_is_found() -> None:
    stream = Stream()
    for _ in range(11):
        a = stream.peer()
        a.beats("a-1", 1, UNKNOWN)
        a.closes()
    assert stream.broken() == [(Invariant.FENCED_MEMBERS_JOIN, "client")]


def test_a_member_without_its_generation_is_found() -> None:
    # aiokafka issue 727: heartbeats and commits with generation -1 after the SyncGroup.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    a.beats("a-1", -1, ILLEGAL)
    assert stream.broken() == [(Invariant.GIVEN_EPOCHS, "client")]


def test_a_member_that_uses_a_generation_before_it_has_it_is_found() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.beats("a-1", 2, ILLEGAL)
    assert stream.broken() == [(Invariant.GIVEN_EPOCHS, "client")]


def test_a_generation_that_falls_is_found() -> None:
    stream = Stream()
    key = GroupMetadataKey(group="g")
    stream.stores(Record(key, GroupMetadataValue(generation=5)))
    stream.peer().joins("a-1", 4)
    assert stream.broken() == [(Invariant.RISING_EPOCHS, "broker")]
    stream = Stream()
    stream.stores(Record(key, GroupMetadataValue(generation=5)))
    stream.stores(Record(key, GroupMetadataValue(generation=4)))
    assert stream.broken() == [(Invariant.RISING_EPOCHS, "broker")]


def join_while_another_generation_is_stored(
    generation: int, *members: str, first: bool = False, leader: str | None = "b-1"
) -> Stream:
    """Let member a-1 join in generation 4, while (or, with `first`, before) the coordinator stores another one."""
    stream = Stream()
    value = GroupMetadataValue(
        generation=generation, leader=leader, members=[MemberMetadata(member_id=member) for member in members]
    )
    record, peer = Record(GroupMetadataKey(group="g"), value), stream.peer()
    if first:
        stream.stores(record)
    request_id = peer.sends(JoinGroupRequest(group_id="g", session_timeout_ms=SESSION_MS))
    if not first:
        stream.stores(record)
    peer.gets(request_id, JoinGroupResponse(generation_id=4, leader="a-1", member_id="a-1"))
    return stream


def test_an_answer_may_be_on_its_way_while_its_member_is_removed() -> None:
    assert join_while_another_generation_is_stored(5).broken() == []
    assert join_while_another_generation_is_stored(5, "b-1").broken() == []


def test_an_answer_may_be_on_its_way_while_its_consumer_group_becomes_a_classic_one() -> None:
    assert join_while_another_generation_is_stored(5, "a-1", leader=None).broken() == []


def test_an_older_generation_is_found_unless_its_member_has_just_been_removed() -> None:
    broken = [(Invariant.RISING_EPOCHS, "broker")]
    assert join_while_another_generation_is_stored(5, "a-1").broken() == broken, "it is a member of the later one"
    assert join_while_another_generation_is_stored(6).broken() == broken, "there was another one in between"
    assert join_while_another_generation_is_stored(5, first=True).broken() == broken, "it asked afterwards"


def test_a_generation_may_begin_anew_after_the_group_was_deleted_or_restored() -> None:
    stream = Stream()
    key = GroupMetadataKey(group="g")
    stream.stores(Record(key, GroupMetadataValue(generation=5)))
    stream.stores(Record(key, None))
    stream.stores(Record(key, GroupMetadataValue(generation=1)))
    stream.acts("a snapshot is restored", groups=["g"])
    stream.stores(Record(key, GroupMetadataValue(generation=0)))
    assert stream.broken() == []


def test_a_client_that_never_uses_the_member_id_that_it_was_handed_is_found() -> None:
    # KAFKA-7610: every retry without a member id leaves another ghost.
    stream = Stream()
    a = stream.peer()
    for number in range(12):
        a.joins(f"a-{number}", -1, code=ErrorCode.MEMBER_ID_REQUIRED)
    assert stream.broken() == [(Invariant.KEPT_MEMBER_ID, "client")]


def test_a_client_that_joins_with_the_id_that_it_was_handed_is_honest() -> None:
    stream = Stream()
    a = stream.peer()
    for number in range(12):
        a.joins(f"a-{number}", -1, code=ErrorCode.MEMBER_ID_REQUIRED)
        a.joins(f"a-{number}", number, known=True)
    assert stream.broken() == []


def test_a_client_that_joins_under_a_new_id_and_leaves_its_old_member_behind_is_found() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.joins("a-2", 2)
    stream.passes(SESSION_MS)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == [(Invariant.KEPT_MEMBER_ID, "client")]


def test_a_fault_of_the_kit_does_not_excuse_a_client_that_leaves_its_member_behind() -> None:
    # kafka-python pull request 2614: it forgets its member id after REBALANCE_IN_PROGRESS.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    stream.acts("answered OffsetCommit with REBALANCE_IN_PROGRESS")
    a.joins("a-2", 2)
    stream.passes(SESSION_MS)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == [(Invariant.KEPT_MEMBER_ID, "client")]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_client_whose_membership_is_over_may_take_another(leaves: bool) -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    stream.acts("answers an error")
    if leaves:
        leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="a-1")])
        a.asks(leave, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    else:
        a.beats("a-1", 1, UNKNOWN)
    a.joins("a-2", 2)
    stream.passes(SESSION_MS)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == []


def test_members_that_share_a_connection_are_not_ghosts() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.joins("a-2", 2)
    a.beats("a-1", 1, REBALANCE)
    a.closes()
    stream.passes(SESSION_MS)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == []


def test_a_member_that_never_sends_sync_group_is_found() -> None:
    # KAFKA-12890 is the coordinator's side of it.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.fetches(0)
    stream.gone("a-1", Cause.SYNC_MISSED)
    assert stream.broken() == [(Invariant.SYNC_AFTER_JOIN, "client")]


def test_a_member_that_is_silent_after_its_join_may_be_suspended_or_dead() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    stream.gone("a-1", Cause.SYNC_MISSED)
    assert stream.broken() == [(Invariant.SYNC_AFTER_JOIN, "undecided")]
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.closes()
    stream.gone("a-1", Cause.SYNC_MISSED)
    assert stream.broken() == []


def test_a_member_that_sends_heartbeats_and_ignores_a_rebalance_is_found() -> None:
    # kafka-python issue 1628: the heartbeat thread lives, the consumer is in a deadlock.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    for _ in range(4):
        a.beats("a-1", 1, REBALANCE)
        stream.passes(3_000)
    stream.gone("a-1", Cause.REBALANCE_TIMEOUT)
    assert stream.broken() == [(Invariant.JOINED_REBALANCES, "client")]


def test_a_member_that_was_not_told_of_the_rebalance_is_not_blamed() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    stream.passes(SESSION_MS)
    stream.gone("a-1", Cause.REBALANCE_TIMEOUT)
    assert stream.broken() == []


def test_a_member_that_is_expired_although_it_sends_heartbeats_is_found() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.beats("a-1", 1)
    stream.passes(SESSION_MS // 2)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == [(Invariant.LIVING_MEMBERS, "broker")]


def test_an_answer_that_leaves_late_does_not_begin_the_session() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id="a-1")
    request_id = a.sends(sync)
    stream.passes(50)  # a slow disk
    a.gets(request_id, SyncGroupResponse(assignment=assigned(tp(0))))
    stream.passes(SESSION_MS - 50)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == []


def test_a_member_that_the_kit_expires_is_nobodys_fault() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.beats("a-1", 1)
    stream.acts("expires member a-1")
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == []


def test_a_client_that_reads_and_sends_no_heartbeats_is_found() -> None:
    # kafka-python issue 2064: the heartbeat thread waits for a lock for ever.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    for offset in range(10):
        stream.passes(SESSION_MS // 10)
        a.fetches(offset, 1)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == [(Invariant.HEARTBEATS, "client")]


def test_a_client_that_died_while_another_reads_is_not_blamed() -> None:
    stream = Stream()
    a, other = stream.peer("a"), stream.peer("b")
    a.joins("a-1", 1)
    a.closes()
    for offset in range(10):
        stream.passes(SESSION_MS // 10)
        other.fetches(offset, 1)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    assert stream.broken() == []


def takes_turns(stream: Stream, *, living: bool) -> None:
    """Let two clients replace each other under one instance ID; those that live learn that they are fenced."""
    peers = [stream.peer("a"), stream.peer("b")]
    for number in range(5):
        peers[number % 2].joins(f"m-{number}", 1, instance_id="i")
        if number and living:
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=f"m-{number - 1}", group_instance_id="i")
            peers[(number - 1) % 2].asks(beat, HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))


def test_two_clients_with_one_instance_id_are_found() -> None:
    # KAFKA-8500.
    stream = Stream()
    takes_turns(stream, living=True)
    assert stream.broken() == [(Invariant.ONE_INSTANCE, "client")]


def test_two_clients_with_one_instance_id_are_found_if_their_heartbeats_do_not_contain_it() -> None:
    # aiokafka issue 1186 and its like: heartbeats of version 1 get UNKNOWN_MEMBER_ID.
    stream = Stream()
    peers = [stream.peer("a"), stream.peer("b")]
    for number in range(4):
        peers[number % 2].joins(f"m-{number}", 1, instance_id="i")
        if number:
            stream.gone(f"m-{number - 1}", Cause.STATIC_MEMBER_RETURNED, instance_id="i")
            peers[(number - 1) % 2].beats(f"m-{number - 1}", 1, UNKNOWN)
    assert stream.broken() == [(Invariant.ONE_INSTANCE, "client")]


@pytest.mark.parametrize(
    ("speaks_on", "found"), [("nothing", False), ("the same", True), ("an older one", True), ("a newer one", False)]
)
def test_a_member_whose_heartbeat_waited_when_it_was_replaced_counts_only_if_it_goes_on(
    speaks_on: str, *, found: bool
) -> None:
    # A machine that loses its power leaves its connections open, and the next process has the same client ID.
    stream = Stream()
    last: dict[str, Peer] = {}
    waits = 0
    for number in range(4):
        connections = {"an older one": stream.peer(), "the same": stream.peer()}
        for peer in connections.values():
            peer.fetches(0)
        connections["the same"].joins(f"m-{number}", 1, instance_id="i")
        if last:
            stream.gone(f"m-{number - 1}", Cause.STATIC_MEMBER_RETURNED, instance_id="i")
            last["the same"].gets(waits, HeartbeatResponse(error_code=UNKNOWN))
            last["a newer one"] = connections["the same"]
            if speaks_on in last:
                last[speaks_on].fetches(0)
        last = connections
        waits = last["the same"].sends(HeartbeatRequest(group_id="g", generation_id=1, member_id=f"m-{number}"))
    assert stream.broken() == ([(Invariant.ONE_INSTANCE, "client")] if found else [])


def test_a_static_member_that_restarts_or_joins_again_after_a_lost_answer_is_honest() -> None:
    stream = Stream()
    takes_turns(stream, living=False)
    assert stream.broken() == []


def test_a_rebalance_without_a_join_is_found() -> None:
    stream = Stream()
    stream.peer().joins("a-1", 1)
    stream.rebalances(Cause.MEMBER_JOINED)
    assert stream.broken() == [(Invariant.CAUSED_REBALANCES, "broker")]


def test_a_member_that_causes_one_rebalance_after_the_other_is_found() -> None:
    # KAFKA-12898: owned partitions in another order looked like a change each time.
    stream = Stream()
    a = stream.peer()
    for generation in range(1, 12):
        asking = generation > 1
        if asking:
            request_id = a.sends(_join("a-1"))
            stream.rebalances(Cause.OWNED_CHANGED, "a-1")
            a.gets(request_id, _joined("a-1", generation))
        else:
            a.joins("a-1", generation)
    assert stream.broken() == [(Invariant.NO_STORM, "client")]


def changes_its_subscription(*choices: Sequence[str]) -> Stream:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    for generation, topics in enumerate(choices, 2):
        request = _join("a-1")
        request.protocols = [
            JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(topics), 3))
        ]
        request_id = a.sends(request)
        stream.rebalances(Cause.SUBSCRIPTION_CHANGED, "a-1")
        a.gets(request_id, _joined("a-1", generation))
    return stream


def test_a_client_that_subscribes_to_one_topic_after_the_other_is_honest() -> None:
    assert changes_its_subscription(*([f"t{number}"] for number in range(20))).broken() == []


def test_a_client_that_wavers_between_two_subscriptions_is_found() -> None:
    stream = changes_its_subscription(*([["t0"], ["t1"]][number % 2] for number in range(14)))
    assert stream.broken() == [(Invariant.NO_STORM, "client")]


def test_a_leader_that_joins_again_for_each_new_partition_is_honest() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    for generation in range(2, 20):
        stream.describes(generation)
        request_id = a.sends(_join("a-1"))
        stream.rebalances(Cause.LEADER_REJOINED, "a-1")
        a.gets(request_id, _joined("a-1", generation))
    assert stream.broken() == []


def comes_and_goes(*, removed: bool) -> Stream:
    """A member joins and leaves, or is removed by an administrator, six times."""
    stream = Stream()
    a = stream.peer()
    leaver = stream.peer("admin") if removed else a
    for number in range(6):
        request_id = a.sends(_join(""))
        stream.rebalances(Cause.MEMBER_JOINED, f"a-{number}")
        a.gets(request_id, _joined(f"a-{number}", number + 1))
        request_id = leaver.sends(LeaveGroupRequest(group_id="g", member_id=f"a-{number}"))
        stream.gone(f"a-{number}", Cause.MEMBER_LEFT)
        stream.rebalances(Cause.MEMBER_LEFT, f"a-{number}")
        leaver.gets(request_id, LeaveGroupResponse())
    return stream


def test_a_client_that_leaves_and_joins_for_ever_is_found() -> None:
    # kafkajs issue 1362: members without partitions leave, and join again.
    assert comes_and_goes(removed=False).broken() == [(Invariant.NO_STORM, "client")]


def test_a_member_that_an_administrator_removes_again_and_again_is_not_blamed() -> None:
    assert comes_and_goes(removed=True).broken() == []


def test_a_client_that_goes_on_reading_after_it_was_removed_is_found() -> None:
    # librdkafka and others: a zombie consumes after a fatal error of a commit.
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    a.fetches(0, 10)
    stream.passes(SESSION_MS)
    stream.gone("a-1", Cause.REBALANCE_TIMEOUT)
    a.fetches(10, 10)
    a.commits(10, "a-1", 1, code=UNKNOWN)
    a.fetches(20, 10)
    assert stream.broken() == []
    stream.passes(SESSION_MS)
    a.fetches(30, 10)
    assert stream.broken() == [(Invariant.OWNED_FETCHES, "client")]


def test_a_client_that_left_may_read_what_it_had() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    a.fetches(0, 10)
    a.asks(LeaveGroupRequest(group_id="g", member_id="a-1"), LeaveGroupResponse())
    a.beats("a-1", 1, UNKNOWN)
    stream.passes(10 * SESSION_MS)
    a.fetches(10)
    assert stream.broken() == []


def test_members_that_start_one_after_the_other_are_no_storm() -> None:
    stream = Stream()
    for number in range(20):
        peer = stream.peer(f"c{number}")
        request_id = peer.sends(_join(""))
        stream.rebalances(Cause.MEMBER_JOINED, f"m-{number}")
        peer.gets(request_id, _joined(f"m-{number}", number + 1))
    assert stream.broken() == []


def test_a_partition_that_stays_unassigned_is_found() -> None:
    stream = Stream(Limits(unassigned_ms=5_000))
    stream.describes(2)
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0), tp(1))
    a.joins("a-1", 2, known=True)
    a.syncs("a-1", 2, tp(0), plan={"a-1": [tp(0)]})
    for _ in range(4):
        stream.passes(2_000)
        a.beats("a-1", 2)
    assert stream.broken() == [(Invariant.ASSIGNED_PARTITIONS, "undecided")]


def test_a_new_partition_may_wait_until_members_learn_of_it() -> None:
    stream = Stream(Limits(unassigned_ms=5_000))
    stream.describes(1)
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    stream.describes(2)
    for _ in range(10):
        stream.passes(2_000)
        a.beats("a-1", 1)
    assert stream.broken() == []


def test_time_that_the_kit_advances_leaves_no_partition_unassigned() -> None:
    stream = Stream(Limits(unassigned_ms=5_000))
    stream.describes(2)
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0), tp(1))
    a.joins("a-1", 2, known=True)
    stream.passes(60_000)
    stream.acts("the clock advances by 60 s")
    a.syncs("a-1", 2, tp(0), tp(1))
    stream.ends()
    assert stream.broken() == []


def test_the_time_of_the_events_after_the_kits_action_may_be_the_advanced_one() -> None:
    stream = Stream(Limits(unassigned_ms=5_000))
    stream.describes(2)
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0), tp(1))
    a.joins("a-1", 2, known=True)
    stream.passes(2_000)
    stream.acts("the clock advances by 60 s")
    stream.passes(60_000)
    stream.peer("b").beats("b-1", 1, UNKNOWN)
    assert stream.broken() == []
    stream.passes(6_000)
    stream.ends()
    assert stream.broken() == [(Invariant.ASSIGNED_PARTITIONS, "client")]


def _commit() -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=partitions)]
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id="a-1", topics=topics)


def _refused() -> OffsetCommitResponse:
    partitions = [OffsetCommitResponsePartition(partition_index=0, error_code=ILLEGAL)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=partitions)])


def _join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(group_id="g", session_timeout_ms=SESSION_MS, member_id=member_id, protocol_type="consumer")


def _joined(member_id: str, generation: int) -> JoinGroupResponse:
    return JoinGroupResponse(generation_id=generation, member_id=member_id)
