"""The rules of committed offsets: each finds its bug, and leaves an honest client alone."""

import pytest

from kohort.coordinator import Record
from kohort.errors import ErrorCode
from kohort.group_events import Cause
from kohort.model import UUID, TopicPartition
from kohort.testing.invariants import Invariant
from kohort.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tests.testing.invariants.stream import GROUP, SESSION_MS, TOPIC, Peer, Stream, commit, committed, offset_record, tp


def member(stream: Stream, client_id: str = "a", member_id: str = "a-1") -> Peer:
    """Return a member of generation 1 with partition 0, which has read 100 records."""
    peer = stream.peer(client_id)
    peer.joins(member_id, 1, leader=member_id)
    peer.syncs(member_id, 1, tp(0))
    peer.fetches(0, 100)
    return peer


def listed(offset: int) -> ListOffsetsResponse:
    part = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[part])])


def test_commits_of_what_was_delivered_are_honest() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    a.commits(100, "a-1", 1)
    a.finds(100)
    assert stream.broken() == []


def test_a_commit_behind_an_acknowledged_one_is_found() -> None:
    # franz-go issue 2947, Sarama: a retry that overtakes a later commit.
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    a.commits(20, "a-1", 1)
    assert stream.broken() == [(Invariant.FORWARD_COMMITS, "client")]
    assert "offset 20" in stream.found[0].what and "offset 50" in stream.found[0].what


def test_a_group_may_be_allowed_to_commit_backwards() -> None:
    stream = Stream(allowed={Invariant.FORWARD_COMMITS: [GROUP]})
    a = member(stream)
    a.commits(50, "a-1", 1)
    a.commits(20, "a-1", 1)
    assert stream.broken() == []


def test_a_commit_behind_one_whose_answer_was_lost_or_in_flight_is_not_held_against_the_client() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1, lost=True)
    a.commits(20, "a-1", 1)
    assert stream.broken() == []

    later = a.sends(commit(70, "a-1", 1))
    a.commits(90, "a-1", 1)  # is answered before the one that was sent first
    stream.stores(offset_record(70))
    a.gets(later, committed())
    assert stream.broken() == []


def test_an_administrator_may_set_any_offset() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    stream.peer("admin").commits(3)
    a.commits(5, "a-1", 1)
    assert stream.broken() == []


def test_offsets_that_were_deleted_may_begin_anew() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    deleted = OffsetDeleteResponseTopic(name=TOPIC, partitions=[OffsetDeleteResponsePartition()])
    a.asks(OffsetDeleteRequest(group_id=GROUP), OffsetDeleteResponse(topics=[deleted]))
    a.commits(1, "a-1", 1)
    stream.stores(offset_record(None))
    a.commits(0, "a-1", 1)
    a.asks(
        DeleteGroupsRequest(groups_names=[GROUP]),
        DeleteGroupsResponse(results=[DeletableGroupResult(group_id=GROUP)]),
    )
    a.finds(-1)
    assert stream.broken() == []


def test_a_topic_that_is_made_anew_begins_anew() -> None:
    stream = Stream()
    stream.describes()
    a = member(stream)
    a.commits(50, "a-1", 1)
    stream.describes(topic_id=UUID(int=8))
    a.commits(1, "a-1", 1)
    a.commits(60, "a-1", 1)  # it read the earlier topic, and cannot know
    a.finds(60)
    assert stream.broken() == []


def test_a_commit_that_is_answered_after_its_topic_was_made_anew_is_forgotten_with_it() -> None:
    stream = Stream()
    stream.describes()
    a = member(stream)
    answered_late = a.sends(commit(50, "a-1", 1))
    stream.stores(offset_record(50))
    stream.describes(topic_id=UUID(int=8))
    a.gets(answered_late, committed())
    a.commits(0, "a-1", 1)
    assert stream.broken() == []
    a.commits(50, "a-1", 1)
    a.commits(20, "a-1", 1)
    assert stream.broken() == [(Invariant.FORWARD_COMMITS, "client")]


def test_a_position_that_is_out_of_range_may_be_set_back() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    a.fetches(50, code=ErrorCode.OFFSET_OUT_OF_RANGE)
    a.commits(1, "a-1", 1)
    assert stream.broken() == []


def test_an_accepted_commit_of_an_old_generation_is_found() -> None:
    stream = Stream()
    a = member(stream)
    stream.stores(Record(GroupMetadataKey(group=GROUP), GroupMetadataValue(generation=2)))
    a.commits(50, "a-1", 1)
    assert stream.broken() == [(Invariant.NO_FENCED_COMMIT, "broker")]


def test_an_accepted_commit_of_a_member_that_is_gone_is_found() -> None:
    stream = Stream()
    a = member(stream)
    stream.gone("a-1", Cause.STATIC_MEMBER_RETURNED)
    a.commits(50, "a-1", 1)
    assert stream.broken() == [(Invariant.NO_FENCED_COMMIT, "broker")]


def test_a_commit_that_was_in_flight_when_the_generation_changed_may_be_accepted_or_refused() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    stream.stores(Record(GroupMetadataKey(group=GROUP), GroupMetadataValue(generation=2)))
    a.commits(60, "a-1", 1, code=ErrorCode.ILLEGAL_GENERATION)
    assert stream.broken() == []


def test_an_acknowledged_commit_that_is_not_stored_is_found() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(10, "a-1", 1)
    a.commits(50, "a-1", 1, stored=False)
    assert stream.broken() == [(Invariant.KEPT_COMMITS, "broker")]


def test_a_committed_offset_that_nobody_wrote_is_found() -> None:
    # Bufstream: a spurious zero.
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    a.finds(0)
    assert stream.broken() == [(Invariant.KEPT_COMMITS, "broker")]


def test_an_offset_that_is_read_while_commits_are_under_way_may_be_any_of_them() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", 1)
    a.commits(60, "a-1", 1, lost=True)
    a.finds(60)
    a.commits(70, "a-1", 1)
    stream.stores(offset_record(80))  # not acknowledged: a crash may take it back
    a.finds(70)
    a.finds(80)
    assert stream.broken() == []


def test_a_commit_beyond_what_was_delivered_is_found() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(101, "a-1", 1)
    assert stream.broken() == [(Invariant.FETCHED_COMMITS, "client")]
    assert "up to offset 100 only" in stream.found[0].what


def test_records_of_a_lost_answer_were_not_delivered() -> None:
    stream = Stream()
    a = member(stream)
    a.fetches(100, 50, lost=True)
    a.commits(150, "a-1", 1)
    assert stream.broken() == [(Invariant.FETCHED_COMMITS, "client")]


def test_offsets_that_a_client_found_or_sought_may_be_committed() -> None:
    stream = Stream()
    a = member(stream)
    a.asks(ListOffsetsRequest(), listed(500))
    a.commits(500, "a-1", 1)
    a.fetches(700)
    a.commits(700, "a-1", 1)
    stream.peer("admin").commits(900)
    a.finds(900)
    a.commits(900, "a-1", 1)
    assert stream.broken() == []


def test_a_member_whose_records_others_read_is_not_accused() -> None:
    # Spark's executors read, the driver commits.
    stream = Stream()
    stream.peer("executor").fetches(0, 100)
    driver = stream.peer("driver")
    driver.joins("a-1", 1)
    driver.syncs("a-1", 1, tp(0))
    driver.finds(20)
    driver.commits(100, "a-1", 1)
    assert stream.broken() == []
    driver.commits(101, "a-1", 1)
    assert stream.broken() == [(Invariant.FETCHED_COMMITS, "client")]


def test_a_client_whose_beginning_was_not_seen_is_not_accused() -> None:
    stream = Stream()
    late = Peer(stream, "a", 4_711)
    late.joins("a-1", 1)
    late.syncs("a-1", 1, tp(0))
    late.commits(5_000, "a-1", 1)
    assert stream.broken() == []


def test_a_member_that_gets_a_partition_back_and_commits_what_it_read_before_is_found() -> None:
    stream = Stream()
    a, b = member(stream), stream.peer("b")
    a.commits(50, "a-1", 1)
    a.joins("a-1", 2, known=True)
    b.joins("b-1", 2)
    b.syncs("b-1", 2, tp(0))
    a.syncs("a-1", 2, tp(1))
    b.joins("b-1", 3, known=True)
    a.joins("a-1", 3, known=True)
    b.syncs("b-1", 3, tp(1))
    a.syncs("a-1", 3, tp(0))
    a.commits(100, "a-1", 3)
    assert stream.broken() == [(Invariant.FETCHED_COMMITS, "client")]


def test_a_commit_of_a_partition_that_the_member_gave_up_is_found() -> None:
    stream = Stream()
    a = member(stream)
    a.joins("a-1", 2, known=True)
    a.syncs("a-1", 2, tp(1))
    a.commits(100, "a-1", 2)
    assert stream.broken() == [(Invariant.OWNED_COMMITS, "client")]


def test_a_cooperative_member_may_commit_what_it_gives_up_until_it_joins_again() -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1, assignor="cooperative-sticky")
    a.syncs("a-1", 1, tp(0), tp(1))
    a.fetches(0, 100)
    a.joins("a-1", 2, known=True, assignor="cooperative-sticky", owned=[tp(0), tp(1)], owned_in=1)
    a.syncs("a-1", 2, tp(1))
    a.commits(100, "a-1", 2)
    assert stream.broken() == []
    a.joins("a-1", 3, known=True, assignor="cooperative-sticky", owned=[tp(1)], owned_in=2)
    a.syncs("a-1", 3, tp(1))
    a.commits(100, "a-1", 3)
    assert stream.broken() == [(Invariant.OWNED_COMMITS, "client")]


@pytest.mark.parametrize("owned", [[tp(0), tp(1)], [tp(1)]])
def test_a_member_whose_removal_was_lost_with_the_coordinator_may_commit_what_it_gives_up(
    owned: list[TopicPartition],
) -> None:
    stream = Stream()
    a = stream.peer()
    a.joins("a-1", 1, assignor="cooperative-sticky")
    a.syncs("a-1", 1, tp(0), tp(1))
    a.fetches(0, 100)
    stream.passes(SESSION_MS)
    stream.gone("a-1", Cause.SESSION_EXPIRED)
    a.joins("a-1", 1, known=True, assignor="cooperative-sticky", owned=owned, owned_in=1)
    a.syncs("a-1", 1, tp(1))
    a.commits(100, "a-1", 1)
    has_reported_it = tp(0) in owned
    assert stream.broken() == ([] if has_reported_it else [(Invariant.OWNED_COMMITS, "client")])


def test_a_member_whose_assignment_was_lost_on_the_way_cannot_know_it() -> None:
    stream = Stream()
    a = member(stream)
    a.joins("a-1", 2, known=True)
    a.syncs("a-1", 2, tp(1), lost=True)
    a.commits(100, "a-1", 2)
    assert stream.broken() == []


def test_a_member_that_commits_without_its_generation_is_found() -> None:
    stream = Stream()
    a = member(stream)
    a.commits(50, "a-1", -1)
    assert stream.broken() == [(Invariant.GIVEN_EPOCHS, "client")]


def test_a_client_that_commits_with_a_generation_and_no_member_id_is_found() -> None:
    # librdkafka pull request 5585: the commit of an assignment that was lost when the session timed out.
    stream = Stream()
    a = member(stream)
    a.commits(50, "", 1, code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert stream.broken() == [(Invariant.GIVEN_EPOCHS, "client")]


def test_a_client_that_commits_as_a_fenced_member_for_ever_is_found() -> None:
    stream = Stream()
    a = member(stream)
    for _ in range(100):  # prepared before the first answer arrived
        a.commits(50, "a-1", 1, code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert stream.broken() == []
    stream.passes(1_000)
    for _ in range(30):
        a.commits(50, "a-1", 1, code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert stream.broken() == [(Invariant.FENCED_MEMBERS_JOIN, "client")]


def test_a_member_that_resets_its_position_because_it_could_not_read_the_commit_is_found() -> None:
    # platformatic/kafka issue 267: STALE_MEMBER_EPOCH for the first OffsetFetch, then "latest".
    stream = Stream()
    stream.peer("admin").commits(40)
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    a.finds(-1, code=ErrorCode.STALE_MEMBER_EPOCH)
    a.asks(ListOffsetsRequest(), listed(90))
    a.fetches(90)
    assert stream.broken() == [(Invariant.LEARNED_POSITIONS, "client")]


def test_a_member_that_asks_again_for_the_commit_is_honest() -> None:
    stream = Stream()
    stream.peer("admin").commits(40)
    a = stream.peer()
    a.joins("a-1", 1)
    a.syncs("a-1", 1, tp(0))
    a.finds(-1, code=ErrorCode.STALE_MEMBER_EPOCH)
    a.finds(40)
    a.asks(ListOffsetsRequest(), listed(90))
    a.fetches(40)
    assert stream.broken() == []
