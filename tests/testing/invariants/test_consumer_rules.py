"""The rules of consumer groups (KIP-848): each finds its bug, and leaves an honest client alone."""

import pytest

from kohort.coordinator import Record
from kohort.errors import ErrorCode
from kohort.group_events import Cause
from kohort.testing import RequestReceived
from kohort.testing.invariants import Invariant, Limits
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.messages.consumer_group_heartbeat import TopicPartitions as HeartbeatPartitions
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    TopicPartitions,
)
from tests.testing.invariants.stream import GROUP, SESSION_MS, TOPIC_ID, Peer, Stream


def group_record(epoch: int | None) -> Record:
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch)
    return Record(ConsumerGroupMetadataKey(group_id=GROUP), value)


def member_record(member_id: str, epoch: int, *partitions: int, since: int | None = None) -> Record:
    epochs = [epoch if since is None else since] * len(partitions)
    owned = TopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions), assignment_epochs=epochs)
    return Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(member_epoch=epoch, assigned_partitions=[owned]),
    )


def removed(member_id: str) -> Record:
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id), None)


def test_an_honest_group_breaks_nothing() -> None:
    stream = Stream()
    stream.describes(2)
    a, b = stream.peer("a"), stream.peer("b")
    stream.stores(group_record(1), member_record("a", 1, 0, 1))
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.heartbeats("a", 1, owned=[0, 1])
    stream.stores(group_record(2))
    b.heartbeats("b", 0, 2, assigned=[])
    a.heartbeats("a", 1, assigned=[0])
    stream.stores(member_record("a", 2, 0, since=1))
    a.heartbeats("a", 1, 2, owned=[0])
    stream.stores(member_record("b", 2, 1))
    b.heartbeats("b", 2, assigned=[1])
    b.heartbeats("b", 2, owned=[1])
    a.fetches(0, 10)
    a.commits(10, "a", 1)  # from the epoch on at which the partition was assigned (KIP-1251)
    a.heartbeats("a", -1)
    stream.ends()
    assert stream.broken() == []


def test_two_owners_of_a_partition_are_found() -> None:
    # KAFKA-16147.
    stream = Stream()
    stream.stores(group_record(2), member_record("a", 1, 0), member_record("b", 2, 0))
    assert stream.broken() == [(Invariant.ONE_OWNER, "broker")]


def test_two_owners_at_one_epoch_are_found_even_one_after_the_other() -> None:
    # KAFKA-19974.
    stream = Stream()
    stream.stores(group_record(2), member_record("a", 2, 0))
    stream.stores(member_record("a", 2))
    stream.stores(member_record("b", 2, 0))
    assert stream.broken() == [(Invariant.ONE_OWNER, "broker")]


def test_partitions_may_change_hands_within_one_batch_and_to_the_same_instance() -> None:
    stream = Stream()
    stream.stores(group_record(2), member_record("a", 1, 0))
    stream.stores(member_record("b", 2, 0), member_record("a", 2))
    static = ConsumerGroupMemberMetadataValue(instance_id="i")
    for member_id in ("s-1", "s-2"):
        key = ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=member_id)
        stream.stores(Record(key, static), member_record(member_id, 2, 1))
        stream.stores(removed(member_id))
    assert stream.broken() == []


def described(member_id: str, instance_id: str | None) -> Record:
    key = ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=member_id)
    return Record(key, ConsumerGroupMemberMetadataValue(instance_id=instance_id))


@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        ([], "i", False),  # since the coordinator moved, nothing described the former owner: it may be the same
        ([], None, True),
        ([None], "i", True),
        (["i"], "i", False),
        (["i"], "j", True),
    ],
)
def test_a_new_owner_at_the_same_epoch_must_be_the_same_instance(
    before: list[str | None], after: str | None, is_found: bool
) -> None:
    stream = Stream()
    stream.stores(group_record(2), *(described("a", instance_id) for instance_id in before), member_record("a", 2, 0))
    stream.stores(removed("a"), described("b", after), member_record("b", 2, 0))
    assert stream.broken() == ([(Invariant.ONE_OWNER, "broker")] if is_found else [])


def test_epochs_that_fall_are_found() -> None:
    for records in (
        (group_record(5), group_record(4)),
        (group_record(5), member_record("a", 5), member_record("a", 4)),
        (group_record(5), member_record("a", 6)),
    ):
        stream = Stream()
        for record in records:
            stream.stores(record)
        assert stream.broken() == [(Invariant.RISING_EPOCHS, "broker")]


def test_epochs_may_begin_anew_with_a_new_group_or_member() -> None:
    stream = Stream()
    stream.stores(group_record(5), member_record("a", 5))
    stream.stores(removed("a"), group_record(None))
    stream.stores(group_record(1), member_record("a", 1))
    assert stream.broken() == []


def test_an_answer_with_an_older_epoch_is_found() -> None:
    stream = Stream()
    a = stream.peer()
    a.heartbeats("a", 0, 5)
    a.heartbeats("a", 5, 4)
    assert stream.broken() == [(Invariant.RISING_EPOCHS, "broker")]


@pytest.mark.parametrize("joins_again", [True, False])
@pytest.mark.parametrize(
    ("broker", "assigned", "is_found"),
    [
        (2, False, False),
        (1, False, True),  # one broker has an order
        (2, True, True),  # a held heartbeat is answered without news
    ],
)
def test_an_older_epoch_in_a_late_answer_is_found_unless_another_broker_took_over(
    broker: int, *, joins_again: bool, assigned: bool, is_found: bool
) -> None:
    stream = Stream()
    stream.describes()
    former = stream.peer()
    former.heartbeats("a", 0, 4, assigned=[0])
    held = former.sends(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=4))
    other = stream.peer(broker=broker)
    other.heartbeats("a", 0 if joins_again else 4, 6, assigned=[0])
    topics = [HeartbeatPartitions(topic_id=TOPIC_ID, partitions=[0])]
    late = ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=4)
    late.assignment = Assignment(topic_partitions=topics) if assigned else None
    former.gets(held, late)
    assert stream.broken() == ([(Invariant.RISING_EPOCHS, "broker")] if is_found else [])
    if not is_found:
        other.heartbeats("a", 6)  # the epoch that counts is still that of the other broker
        assert stream.broken() == []


def test_a_former_coordinator_may_not_answer_what_it_was_asked_later() -> None:
    stream = Stream()
    stream.peer(broker=2).heartbeats("a", 0, 6, assigned=[0])
    former = stream.peer()
    asked = former.sends(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=4))
    former.gets(asked, ConsumerGroupHeartbeatResponse(member_id="a", member_epoch=4))
    assert (Invariant.RISING_EPOCHS, "broker") in stream.broken()


def test_a_coordinator_that_took_over_may_not_tell_an_older_epoch() -> None:
    stream = Stream()
    stream.peer().heartbeats("a", 0, 6, assigned=[0])
    other = stream.peer(broker=2)
    other.heartbeats("a", 6, 5)
    assert stream.broken() == [(Invariant.RISING_EPOCHS, "broker")]


def test_a_member_that_joins_again_may_get_an_older_epoch() -> None:
    stream = Stream()
    a = stream.peer()
    a.heartbeats("a", 0, 5)
    a.heartbeats("a", 5, code=ErrorCode.FENCED_MEMBER_EPOCH)
    a.heartbeats("a", 0, 4)
    assert stream.broken() == []


def test_an_epoch_that_no_answer_had_is_found() -> None:
    # librdkafka issue 4672 applied the epoch of a heartbeat that was in flight.
    stream = Stream()
    a = stream.peer()
    a.heartbeats("a", 0, 5)
    a.heartbeats("a", 6, code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert stream.broken() == [(Invariant.GIVEN_EPOCHS, "client")]


def test_a_partition_that_was_never_assigned_is_found() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0])
    a.heartbeats("a", 1, owned=[0, 1])
    assert stream.broken() == [(Invariant.OWNED_FETCHES, "client")]


def test_a_member_that_never_gives_up_a_partition_is_found() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.heartbeats("a", 1, assigned=[0])
    for _ in range(4):
        a.heartbeats("a", 1)
        stream.passes(3_000)
    stream.gone("a", Cause.REBALANCE_TIMEOUT)
    assert stream.broken() == [(Invariant.JOINED_REBALANCES, "client")]


def test_a_member_that_was_not_told_to_give_up_is_not_blamed() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.heartbeats("a", 1, assigned=[0], lost=True)
    for _ in range(4):
        a.heartbeats("a", 1)
    stream.gone("a", Cause.REBALANCE_TIMEOUT)
    assert stream.broken() == []


def test_a_member_that_sends_its_old_epoch_for_ever_is_found() -> None:
    stream = Stream()
    a = stream.peer()
    a.heartbeats("a", 0, 5)
    for _ in range(11):
        a.heartbeats("a", 5, code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert stream.broken() == [(Invariant.FENCED_MEMBERS_JOIN, "client")]


def test_an_accepted_commit_of_an_older_epoch_is_found() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0])
    stream.stores(group_record(3), member_record("a", 3, 0, since=2))
    a.commits(0, "a", 2)
    assert stream.broken() == []
    a.commits(0, "a", 1)
    assert stream.broken() == [(Invariant.NO_FENCED_COMMIT, "broker")]


def test_a_client_that_fetches_what_its_member_gave_up_is_found() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.fetches(0, 10, number=1)
    a.heartbeats("a", 1, assigned=[0])
    a.heartbeats("a", 1, 2, owned=[0])
    a.fetches(10, number=1)  # in flight
    assert stream.broken() == []
    stream.passes(2_000)
    a.fetches(10, number=1)
    assert stream.broken() == [(Invariant.OWNED_FETCHES, "client")]


def test_the_time_of_a_loss_is_that_of_an_event_of_the_proof() -> None:
    stream = Stream()
    stream.describes(3)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1, 2])
    a.fetches(0, 10, number=2)
    a.heartbeats("a", 1, assigned=[0, 1])
    a.heartbeats("a", 1, 2, owned=[0, 1])
    stream.passes(2_000)
    a.heartbeats("a", 2, assigned=[0])
    stream.passes(1_500)
    a.fetches(10, number=2)
    report, assignment, fetch = stream.found[0].events
    assert fetch.at - assignment.at < 2_000 < fetch.at - report.at
    assert f" {fetch.at - assignment.at} ms after " in stream.found[0].what


def gives_up(stream: Stream, a: Peer) -> None:
    """Let a member with two partitions be told to give one up, commit it, and report that it gave it up."""
    a.fetches(0, 10, number=1)
    a.heartbeats("a", 1)
    a.heartbeats("a", 1, assigned=[0])
    a.commits(10, "a", 1, number=1)
    a.heartbeats("a", 1, owned=[0])
    assert stream.broken() == []


def test_a_member_commits_what_it_gives_up_before_it_reports_that() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    gives_up(stream, a)
    a.commits(10, "a", 1, number=1)
    assert stream.broken() == [(Invariant.OWNED_COMMITS, "client")]


def test_the_proof_of_a_commit_shows_the_report_also_after_another_assignment() -> None:
    stream = Stream()
    stream.describes(3)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1, 2])
    a.heartbeats("a", 1, assigned=[0, 2])
    a.heartbeats("a", 1, 2, owned=[0, 2])
    a.heartbeats("a", 2, assigned=[0])
    a.commits(10, "a", 2, number=1)
    (violation,) = [found for found in stream.found if found.invariant is Invariant.OWNED_COMMITS]
    assert [
        [number for topic in event.request.topic_partitions or () for number in topic.partitions]
        for event in violation.events
        if isinstance(event, RequestReceived) and isinstance(event.request, ConsumerGroupHeartbeatRequest)
    ] == [[0, 2]]


def test_an_assignment_counts_as_soon_as_the_names_of_its_topics_are_known() -> None:
    # librdkafka's member is assigned partitions before any client has asked for the topic.
    stream = Stream()
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.heartbeats("a", 1, owned=[0, 1])
    stream.describes(2)
    gives_up(stream, a)
    a.commits(10, "a", 1, number=1)
    assert stream.broken() == [(Invariant.OWNED_COMMITS, "client")]


def test_a_member_is_not_blamed_after_two_assignments_without_names() -> None:
    stream = Stream()
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.heartbeats("a", 1, assigned=[0])
    stream.describes(2)
    a.fetches(0, 10, number=1)
    a.heartbeats("a", 1)
    a.commits(10, "a", 1, number=1)
    assert stream.broken() == []


def test_a_member_whose_new_assignment_was_lost_commits_when_it_receives_it() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.heartbeats("a", 1, assigned=[0], lost=True)
    gives_up(stream, a)


def test_another_consumer_with_the_same_client_id_may_fetch_anything() -> None:
    stream = Stream()
    stream.describes(2)
    a, free = stream.peer("a"), stream.peer("a")
    a.heartbeats("a", 0, 1, assigned=[0])
    free.fetches(0, 10, number=1)
    free.fetches(0, 10, number=0)
    a.heartbeats("a", 1, assigned=[])
    a.heartbeats("a", 1, 2, owned=[])
    stream.passes(2_000)
    free.fetches(10, number=0)
    late = stream.peer("a")
    late.fetches(10, number=0)
    assert stream.broken() == []


def test_a_member_that_was_fenced_and_not_told_may_go_on() -> None:
    stream = Stream()
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0])
    a.fetches(0, 10)
    stream.passes(SESSION_MS)
    stream.gone("a", Cause.SESSION_EXPIRED)
    for offset in range(10, 20):
        stream.passes(SESSION_MS)
        a.fetches(offset)
    assert stream.broken() == []


def test_a_coordinator_that_leaves_a_partition_unassigned_is_found() -> None:
    stream = Stream(Limits(unassigned_ms=5_000))
    stream.describes(2)
    a = stream.peer()
    a.heartbeats("a", 0, 1, assigned=[0, 1])
    a.heartbeats("a", 1, 2, assigned=[0])
    a.heartbeats("a", 2, owned=[0])
    for _ in range(4):
        stream.passes(2_000)
        a.heartbeats("a", 2)
    assert stream.broken() == [(Invariant.ASSIGNED_PARTITIONS, "broker")]
