"""The queue of a member's commits: what is sent next, what an answer settles, and what is given up."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.errors import ErrorCode
from kohort.member import CommitSettled, OffsetAndMetadata
from kohort.member.commits import CommitQueue, commit_request
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID = UUID(int=7)


def queue_of(*commits: Mapping[TopicPartition, int], deadline_at: int = 1_000) -> CommitQueue:
    """A queue of commits with the numbers 1, 2, ..."""
    queue = CommitQueue()
    for number, offsets in enumerate(commits, 1):
        queue.add(number, {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}, deadline_at)
    return queue


def answer(codes: Mapping[TopicPartition, ErrorCode]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=partition.topic,
                partitions=[OffsetCommitResponsePartition(partition_index=partition.partition, error_code=code)],
            )
            for partition, code in codes.items()
        ]
    )


def test_a_commit_holds_a_rebalance_up_until_its_first_answer() -> None:
    queue = CommitQueue()
    assert not queue.blocks_rejoining
    queue = queue_of({T0: 5})
    assert queue.blocks_rejoining  # not sent yet
    queue.sent_with(1)
    assert queue.blocks_rejoining
    queue.answered(1, answer({T0: ErrorCode.REBALANCE_IN_PROGRESS}))
    assert not queue.blocks_rejoining  # it was refused, and is tried again
    queue.sent_with(2)
    assert not queue.blocks_rejoining


def test_at_its_deadline_a_commit_fails_with_what_its_last_attempt_was_refused_for() -> None:
    queue = queue_of({T0: 5, T1: 6})
    queue.sent_with(1)
    assert queue.answered(1, answer({T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})) == {
        T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    }
    queue.expire(999)
    assert queue.settled() == []
    queue.expire(1_000)
    assert queue.settled() == [
        CommitSettled(1, {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, T1: ErrorCode.REQUEST_TIMED_OUT})
    ]
    assert queue.next_deadline() is None


def test_the_answer_to_an_expired_commit_does_not_complete_the_next_one() -> None:
    queue = queue_of({T0: 5})
    queue.add(2, {T0: OffsetAndMetadata(6)}, 2_000)
    queue.sent_with(1)
    queue.expire(1_000)
    assert [outcome.commit for outcome in queue.settled()] == [1]
    queue.sent_with(2)  # it may go out at once
    assert queue.answered(1, answer({T0: ErrorCode.NONE})) == {}
    assert not queue.unanswered(1)
    assert queue.settled() == []  # were it settled by that answer, offset 6 would count as committed
    queue.answered(2, answer({T0: ErrorCode.NONE}))
    assert queue.settled() == [CommitSettled(2, {})]


def test_an_answer_without_a_commit_in_flight_is_ignored() -> None:
    queue = CommitQueue()
    assert queue.answered(1, answer({T0: ErrorCode.UNKNOWN_MEMBER_ID})) == {}
    assert not queue.unanswered(1)


def test_a_lost_answer_has_the_commit_sent_again_except_for_what_was_given_up() -> None:
    queue = queue_of({T0: 5, T1: 6})
    queue.sent_with(1)
    queue.drop(frozenset({T0}), ErrorCode.ILLEGAL_GENERATION)
    assert queue.partitions == {T0, T1}  # the request that is out may succeed
    assert queue.unanswered(1)
    assert (queue.sent, queue.partitions) == (None, frozenset({T1}))
    queue.sent_with(2)
    queue.answered(2, answer({T1: ErrorCode.NONE}))
    assert queue.settled() == [CommitSettled(1, {T0: ErrorCode.ILLEGAL_GENERATION})]


def test_revoked_partitions_are_committed_if_the_request_in_flight_succeeds() -> None:
    queue = queue_of({T0: 5, T1: 6})
    queue.sent_with(1)
    queue.drop(frozenset({T0, T1, U0}), ErrorCode.ILLEGAL_GENERATION)
    # A rejected commit fails with its reason and is not sent again.
    assert queue.answered(1, answer({T0: ErrorCode.NONE, T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})) == {}
    assert queue.settled() == [CommitSettled(1, {T1: ErrorCode.ILLEGAL_GENERATION})]


def test_commits_of_revoked_partitions_that_were_not_sent_fail_at_once() -> None:
    queue = queue_of({T0: 5}, {T0: 6, T1: 7})
    queue.sent_with(1)
    queue.drop(frozenset({T0}), ErrorCode.ILLEGAL_GENERATION)
    queue.answered(1, answer({T0: ErrorCode.NONE}))
    assert queue.settled() == [CommitSettled(1, {})]
    assert queue.partitions == {T1}


def test_when_the_generation_is_gone_nothing_is_sent_again() -> None:
    queue = queue_of({T0: 5}, {T1: 6})
    queue.sent_with(1)
    queue.drop_all(ErrorCode.UNKNOWN_MEMBER_ID)
    assert queue.settled() == []  # the first may have reached the coordinator
    queue.unanswered(1)
    lost = ErrorCode.UNKNOWN_MEMBER_ID
    assert queue.settled() == [CommitSettled(1, {T0: lost}), CommitSettled(2, {T1: lost})]


def test_answers_by_topic_id_concern_the_topic_that_was_sent() -> None:
    queue = CommitQueue()
    queue.add(1, {T0: OffsetAndMetadata(5, topic_id=ID), T1: OffsetAndMetadata(6, topic_id=ID)}, 1_000)
    queue.sent_with(1)
    partitions = [
        OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.NONE),
        OffsetCommitResponsePartition(partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    topics = [
        OffsetCommitResponseTopic(topic_id=ID, partitions=partitions),
        OffsetCommitResponseTopic(topic_id=UUID(int=8), partitions=partitions),  # no caller waits for it
    ]
    assert queue.answered(1, OffsetCommitResponse(topics=topics)) == {T1: ErrorCode.UNKNOWN_TOPIC_ID}
    assert queue.partitions == {T1}


def test_commits_wait_for_the_rebalance_only_until_it_is_over() -> None:
    queue = queue_of({T0: 5}, {T1: 6})
    assert queue.head is not None
    queue.head.waits_for_rebalance = True
    queue.rebalanced()
    assert not queue.head.waits_for_rebalance


def accepted(partition: int) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition, error_code=ErrorCode.NONE)


def test_the_requests_say_all_that_is_known_of_each_position_and_go_by_id_or_by_name() -> None:
    queue = CommitQueue()
    offsets = {
        T0: OffsetAndMetadata(5, "why", leader_epoch=3, topic_id=ID),
        T1: OffsetAndMetadata(6, leader_epoch=0, topic_id=ID),
        U0: OffsetAndMetadata(7),
    }
    queue.add(1, offsets, 1_000)
    assert queue.head is not None
    requests = [commit_request(queue.head, "g", "m", 4, "i")]
    queue.sent_with(1)
    topic = OffsetCommitResponseTopic(topic_id=ID, partitions=[accepted(0), accepted(1)])
    assert queue.answered(1, OffsetCommitResponse(topics=[topic])) == {}
    # By name, the offset of a deleted topic would be committed for the next of its name.
    requests.append(commit_request(queue.head, "g", "m", 4, "i"))
    request = requests[0]
    said = (request.group_id, request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    assert said == ("g", "m", 4, "i")
    assert [
        (
            topic.name,
            topic.topic_id,
            [
                (
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
                for partition in topic.partitions
            ],
        )
        for request in requests
        for topic in request.topics
    ] == [("t", ID, [(0, 5, 3, "why"), (1, 6, 0, "")]), ("u", NO_TOPIC_ID, [(0, 7, -1, "")])]
    assert [len(request.topics) for request in requests] == [1, 1]


def test_outside_a_generation_the_request_names_no_instance() -> None:
    # KAFKA-14201: the coordinator would fence it.
    head = queue_of({T0: 5}).head
    assert head is not None
    request = commit_request(head, "g", "", None, "i")
    assert (request.generation_id_or_member_epoch, request.group_instance_id) == (-1, None)
