"""Readers with `kafka.isolation.level=read_committed`: records of committed transactions only, each once."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.interop.process import until
from tests.spark.conftest import Member, Topic, rows
from tests.spark.query import COMMITTED, Query, read_once, reader

NewTopic = Callable[[int], Topic]
Places = set[tuple[int, int]]


class Writer:
    """A producer that writes to all partitions of a topic, in transactions."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        options = {"transactional.id": f"writer-{uuid.uuid4().hex[:8]}", "log_level": 0}
        self._producer = Producer({"bootstrap.servers": topic.bootstrap} | options)
        self._producer.init_transactions(20)

    def begin(self, kind: bytes) -> None:
        """Write some batches in a transaction, and leave it open."""
        self._producer.begin_transaction()
        for _ in range(3):
            for partition, key, _ in rows(20, self._topic.partitions):
                self._producer.produce(self._topic.name, key=key, value=kind, partition=partition)
            self._producer.flush(20)

    def commit(self) -> None:
        self._producer.commit_transaction(20)

    def abort(self) -> None:
        self._producer.abort_transaction(20)


def places(topic: Topic, *kinds: bytes) -> Places:
    """Return where the records with these values are, in transactions of any state."""
    return {(partition, offset) for partition, offset, value in read_once(topic) if value in kinds}


def steps_until(query: Query, count: int) -> None:
    """Run batches until the sink has that many records. A commit is visible some milliseconds after it returns."""

    def enough() -> bool:
        query.step()
        return query.sink.total() >= count

    until(20, f"{count} records are read", enough)
    assert query.sink.total() == count


@pytest.fixture
def topic(new_topic: NewTopic) -> Topic:
    """A topic with transactions that are committed, aborted, and mixed with those of another producer."""
    topic = new_topic(2)
    one, other = Writer(topic), Writer(topic)
    one.begin(b"kept")
    other.begin(b"gone")
    one.commit()
    one.begin(b"gone")
    other.abort()
    one.abort()
    other.begin(b"kept")
    other.commit()
    topic.produce(rows(10, 2))
    return topic


def test_a_batch_has_what_is_committed_however_it_is_cut(topic: Topic) -> None:
    everything = read_once(topic)
    kept = sorted(row for row in everything if row[2] != b"gone")
    assert len(everything) == 250
    assert len(kept) == 130
    assert sorted(read_once(topic, **COMMITTED)) == kept
    # A task then begins in the middle of a transaction, whose beginning it does not see.
    assert sorted(read_once(topic, minPartitions="60", **COMMITTED)) == kept
    assert sorted(read_once(topic, **{"kafka.max.partition.fetch.bytes": "600"}, **COMMITTED)) == kept


def test_a_batch_ends_before_the_first_open_transaction(topic: Topic) -> None:
    before = sorted(read_once(topic, **COMMITTED))
    open_one = Writer(topic)
    open_one.begin(b"kept")
    topic.produce(rows(10, 2))
    assert sorted(read_once(topic, **COMMITTED)) == before
    open_one.commit()
    until(10, "all is committed", lambda: len(read_once(topic, **COMMITTED)) == len(before) + 70)


def test_a_stream_waits_for_an_open_transaction(topic: Topic) -> None:
    writer = Writer(topic)
    query = Query(lambda: reader(topic, **COMMITTED))
    writer.begin(b"late")
    topic.produce(rows(10, 2))
    query.drain()
    assert query.sink.total() == 130
    assert not query.plan()
    writer.commit()
    steps_until(query, 200)
    query.reader.stop()
    assert query.sink == dict.fromkeys({row[:2] for row in read_once(topic) if row[2] != b"gone"}, 1)


def test_a_member_waits_for_an_open_transaction_and_leaves_out_aborted_ones(topic: Topic, member: Member) -> None:
    writer = Writer(topic)
    query = Query(lambda: member(topic, **COMMITTED))
    writer.begin(b"gone")
    topic.produce(rows(10, 2))
    steps_until(query, 130)
    assert not query.plan()
    writer.abort()
    steps_until(query, 140)
    assert not query.step()
    query.reader.stop()
    assert query.sink == dict.fromkeys({row[:2] for row in read_once(topic) if row[2] != b"gone"}, 1)


def test_a_query_that_is_ahead_of_an_open_transaction_is_not_cut_off(topic: Topic) -> None:
    # It read uncommitted records until it was restarted with read_committed. The end that it may read is before
    # its position, and so it is after a topic was truncated.
    writer = Writer(topic)
    writer.begin(b"seen")
    first = Query(lambda: reader(topic))
    first.drain()
    first.reader.stop()
    assert first.sink.total() == 310
    later = Query(lambda: reader(topic, **COMMITTED), logged=[first.offset(first.done)])
    assert not later.plan()
    topic.produce(rows(10, 2))
    assert not later.plan()
    writer.commit()
    steps_until(later, 10)
    later.reader.stop()
    assert not later.sink.keys() & places(topic, b"seen", b"kept")
