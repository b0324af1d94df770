"""A broker that remembers what is fetched is told the changes (KIP-227), and everything when it forgot."""

from __future__ import annotations

from uuid import UUID

from kohort import ErrorCode, TopicPartition
from kohort.client.consume.fetch_session import FetchSession
from kohort.client.options import ConsumerOptions
from kohort.requests import FetchRequestPartition
from kohort.wire.messages.fetch import FetchRequest

ID, OTHER_ID = UUID(int=1), UUID(int=2)
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def session(isolation_level: str = "read_uncommitted") -> FetchSession:
    options = {"bootstrap_servers": "127.0.0.1:9092", "isolation_level": isolation_level}
    return FetchSession(ConsumerOptions.read(options))


def at(offset: int, topic_id: UUID = ID, leader_epoch: int = 3) -> FetchRequestPartition:
    return FetchRequestPartition(topic_id, offset, 1 << 20, leader_epoch)


def contents(request: FetchRequest) -> tuple[int, int, dict[TopicPartition, int], list[tuple[UUID, int]]]:
    """Session id, epoch, what is to be fetched from where, what is to be forgotten."""
    fetched = {
        TopicPartition(topic.topic, partition.partition): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }
    forgotten = [(topic.topic_id, number) for topic in request.forgotten_topics_data for number in topic.partitions]
    return request.session_id, request.session_epoch, fetched, forgotten


def test_after_the_first_request_only_changes_are_sent() -> None:
    kept = session()
    assert contents(kept.request({ONE: at(5), TWO: at(0)})) == (0, 0, {ONE: 5, TWO: 0}, [])
    kept.succeeded(77)
    assert contents(kept.request({ONE: at(5), TWO: at(0)})) == (77, 1, {}, [])
    kept.succeeded(77)
    assert contents(kept.request({ONE: at(9), TWO: at(0)})) == (77, 2, {ONE: 9}, [])
    kept.succeeded(77)
    assert contents(kept.request({ONE: at(9)})) == (77, 3, {}, [(ID, 1)])
    kept.succeeded(77)
    assert contents(kept.request({ONE: at(9), TWO: at(4)})) == (77, 4, {TWO: 4}, [])
    kept.succeeded(77)
    assert contents(kept.request({ONE: at(9, leader_epoch=4), TWO: at(4)})) == (77, 5, {ONE: 9}, [])


def test_the_same_is_asked_for_again_by_the_epoch_alone() -> None:
    kept = session()
    kept.request({ONE: at(5), TWO: at(0)})
    assert contents(kept.again(500)) == (0, 0, {ONE: 5, TWO: 0}, [])  # before there is a session
    kept.succeeded(77)
    assert contents(kept.again(500)) == (77, 1, {}, [])
    kept.succeeded(77)
    assert contents(kept.request({TWO: at(0)})) == (77, 2, {}, [(ID, 0)])


def test_a_recreated_topic_is_forgotten_under_its_old_id() -> None:
    kept = session()
    kept.request({ONE: at(5)})
    kept.succeeded(77)
    assert contents(kept.request({ONE: at(0, OTHER_ID)})) == (77, 1, {ONE: 0}, [(ID, 0)])


def test_without_sessions_each_request_has_all_partitions() -> None:
    kept = session()
    for _ in range(3):
        assert contents(kept.request({ONE: at(5)})) == (0, 0, {ONE: 5}, [])
        kept.succeeded(0)


def test_a_session_that_the_broker_lost_restarts() -> None:
    kept = session()
    kept.request({ONE: at(5)})
    kept.succeeded(77)
    kept.request({ONE: at(5)})
    assert kept.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert contents(kept.request({ONE: at(5)})) == (0, 0, {ONE: 5}, [])
    kept.succeeded(78)
    assert kept.refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    # The request contains the id, so that the broker ends the old session.
    assert contents(kept.request({ONE: at(5)})) == (78, 0, {ONE: 5}, [])


def test_after_a_lost_answer_all_partitions_are_sent() -> None:
    kept = session()
    kept.request({ONE: at(5)})
    kept.succeeded(77)
    kept.request({ONE: at(6)})
    kept.failed()
    assert contents(kept.request({ONE: at(6), TWO: at(0)})) == (77, 0, {ONE: 6, TWO: 0}, [])
    assert not kept.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert contents(kept.request({ONE: at(6)})) == (77, 0, {ONE: 6}, [])


def test_a_broker_that_ends_its_sessions_gets_all_partitions_again() -> None:
    kept = session()
    kept.request({ONE: at(5)})
    kept.succeeded(77)
    kept.request({ONE: at(5)})
    kept.succeeded(0)
    assert contents(kept.request({ONE: at(5)})) == (0, 0, {ONE: 5}, [])


def test_a_broker_that_refuses_a_new_session_too_is_not_asked_again_at_once() -> None:
    kept = session()
    kept.request({ONE: at(5)})
    assert kept.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    kept.request({ONE: at(5)})
    assert not kept.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    kept.succeeded(77)
    assert kept.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_requests_carry_the_isolation_level_and_the_rack() -> None:
    assert session().request({ONE: at(5)}).isolation_level == 0
    kept = session("read_committed")
    assert (kept.request({ONE: at(5)}, "a").isolation_level, kept.again(500).rack_id) == (1, "a")
    assert kept.request({ONE: at(5)}).rack_id == ""


def test_epochs_begin_again_after_the_last() -> None:
    kept = session()
    kept.request({ONE: at(5)})
    kept.succeeded(77)
    kept._epoch = 0x7FFF_FFFF
    kept.request({ONE: at(5)})
    kept.succeeded(77)
    assert contents(kept.request({ONE: at(5)}))[1] == 1
