"""The adapter's consumer: callbacks, commits, ends of partitions, errors."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.compat.confluent import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from kohort.testing import Topic, Workspace


@pytest.fixture
def topic(kohort: Workspace) -> Topic:
    """A topic of two partitions with ten messages each."""
    topic = kohort.topic(partitions=2)
    topic.produce(*map(str, range(20)))
    return topic


@pytest.fixture
def options(kohort: Workspace) -> dict[str, Any]:
    return {
        "bootstrap.servers": kohort.bootstrap_servers,
        "group.id": kohort.group(),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }


def messages(consumer: Consumer, count: int) -> Iterator[Message]:
    deadline = time.monotonic() + 60
    while count:
        assert time.monotonic() < deadline
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            count -= 1
            yield message


def test_an_exception_of_a_callback_is_raised_by_poll(options: dict[str, Any], topic: str) -> None:
    def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError("of the application")

    with Consumer(options) as consumer:
        consumer.subscribe([topic], on_assign=assigned)
        with pytest.raises(ZeroDivisionError):
            list(messages(consumer, 1))


def test_offsets_set_in_on_assign_are_where_reading_starts(options: dict[str, Any], topic: str) -> None:
    def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = 8 if partition.partition else OFFSET_END
        consumer.assign(partitions)

    with Consumer(options) as consumer:
        consumer.subscribe([topic], on_assign=assigned)
        found = list(messages(consumer, 2))
        assert [(message.partition(), message.offset()) for message in found] == [(1, 8), (1, 9)]
        consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
        assert next(messages(consumer, 1)).offset() == 0


def test_stored_offsets_are_committed_when_partitions_are_revoked(
    options: dict[str, Any], topic: str, kohort: Workspace
) -> None:
    given: list[TopicPartition] = []
    storing = {**options, "enable.auto.commit": True, "enable.auto.offset.store": False}
    with Consumer(storing) as consumer:
        consumer.subscribe([topic], on_revoke=lambda _, partitions: given.extend(partitions))
        for number, message in enumerate(messages(consumer, 12)):
            if number < 5:
                consumer.store_offsets(message=message)
        stored = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert [each.partition for each in given] == [0, 1]
    assert sum(kohort.group().committed.values()) == 5
    assert sum(max(0, each.offset) for each in stored) <= 5


def test_stored_offsets_are_committed_while_no_message_arrives(
    options: dict[str, Any], topic: str, kohort: Workspace
) -> None:
    storing = {
        **options,
        "enable.auto.commit": True,
        "enable.auto.offset.store": False,
        "auto.commit.interval.ms": 100,
    }
    with Consumer(storing) as consumer:
        consumer.subscribe([topic])
        for message in messages(consumer, 20):
            consumer.store_offsets(message)
        consumer.poll(2)  # nothing more arrives
        assert list(kohort.group().committed.values()) == [10, 10]


def test_storing_offsets_needs_the_option_and_an_assignment(options: dict[str, Any], topic: str) -> None:
    with Consumer(options) as consumer:
        with pytest.raises(KafkaException, match="requires enable"):
            consumer.store_offsets(offsets=[TopicPartition(topic, 0, 1)])
    with Consumer({**options, "enable.auto.offset.store": False}) as consumer:
        with pytest.raises(KafkaException) as refused:
            consumer.store_offsets(offsets=[TopicPartition(topic, 0, 1)])
        assert refused.value.args[0].code() == KafkaError._STATE
        with pytest.raises(ValueError, match="either"):
            consumer.store_offsets()
        with pytest.raises(ValueError, match="exclusive"):
            consumer.commit(message=Message(), offsets=[])


def test_a_commit_without_news_has_no_offset(options: dict[str, Any], topic: str) -> None:
    with Consumer(options) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.commit() is None
        next(messages(consumer, 1))
        committed = consumer.commit(asynchronous=False)
        assert committed is not None and committed[0].offset == 1
        with pytest.raises(KafkaException) as refused:
            consumer.commit(asynchronous=False)
        assert refused.value.args[0].code() == KafkaError._NO_OFFSET


def test_an_asynchronous_commit_is_reported_by_poll(options: dict[str, Any], topic: str) -> None:
    reported: list[tuple[KafkaError | None, list[TopicPartition]]] = []
    with Consumer({**options, "on_commit": lambda error, partitions: reported.append((error, partitions))}) as consumer:
        consumer.assign([TopicPartition(topic, 1, 0)])
        message = next(messages(consumer, 1))
        consumer.commit(message)
        while not reported:
            consumer.poll(0.1)
    assert (reported[0][0], reported[0][1][0].offset) == (None, 1)


def test_each_end_of_a_partition_is_reported_once(options: dict[str, Any], topic: Topic) -> None:
    with Consumer({**options, "enable.partition.eof": True}) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        ends: list[tuple[int | None, int | None]] = []
        seen = 0
        while len(ends) < 2 or seen < 20:
            message = consumer.poll(10)
            assert message is not None
            if (error := message.error()) is None:
                seen += 1
            else:
                assert error == KafkaError._PARTITION_EOF
                ends.append((message.partition(), message.offset()))
        assert sorted(ends) == [(0, 10), (1, 10)]
        assert consumer.poll(0.3) is None
        topic.produce("more", partition=0)
        assert next(messages(consumer, 1)).value() == b"more"
        again = consumer.poll(10)
        assert again is not None and (again.partition(), again.offset()) == (0, 11)


def test_a_consumer_without_a_start_position_gets_an_error_message(options: dict[str, Any], topic: str) -> None:
    with Consumer({**options, "auto.offset.reset": "error"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        message = consumer.poll(10)
        assert message is not None and message.error() == KafkaError._AUTO_OFFSET_RESET
        assert consumer.poll(0) is None  # not over and over


def test_a_position_that_the_partition_does_not_have_is_an_error_message_with_its_place(
    options: dict[str, Any], topic: str
) -> None:
    with Consumer({**options, "auto.offset.reset": "error"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 99)])
        message = consumer.poll(10)
        assert message is not None and message.error() == KafkaError._AUTO_OFFSET_RESET
        assert (message.topic(), message.partition(), message.offset()) == (topic, 0, 99)
        consumer.seek(TopicPartition(topic, 0, 9))
        assert next(messages(consumer, 1)).offset() == 9


def test_a_subscribed_topic_that_does_not_exist_is_an_error_until_it_does(
    options: dict[str, Any], kohort: Workspace
) -> None:
    topic = f"{kohort.prefix}topic"
    with Consumer({**options, "topic.metadata.refresh.interval.ms": 100}) as consumer:
        consumer.subscribe([topic])
        while (message := consumer.poll(0.1)) is None:
            pass
        assert message.error() == KafkaError.UNKNOWN_TOPIC_OR_PART and message.topic() == topic
        assert consumer.poll(0.3) is None
        kohort.topic().produce("first")
        assert next(messages(consumer, 1)).value() == b"first"


def test_a_consumer_with_nothing_to_read_waits(options: dict[str, Any]) -> None:
    with Consumer(options) as consumer:
        began = time.monotonic()
        assert consumer.poll(0.2) is None
        assert time.monotonic() - began >= 0.2
        assert consumer.consume(5, timeout=0) == []
        assert (consumer.assignment(), consumer.memberid()) == ([], None)
        consumer.pause([TopicPartition("t", 0)])
        consumer.resume([TopicPartition("t", 0)])
        assert consumer.position([TopicPartition("t", 0)])[0].offset == OFFSET_INVALID
        with pytest.raises(ValueError, match="num_messages"):
            consumer.consume(-1)


def test_a_member_that_is_slow_with_each_message_stays_in_its_group(
    options: dict[str, Any], topic: str, kohort: Workspace
) -> None:
    lost: list[TopicPartition] = []
    slow = {**options, "max.poll.interval.ms": 1500, "session.timeout.ms": 6000}
    with Consumer(slow) as consumer:
        consumer.subscribe([topic], on_lost=lambda _, partitions: lost.extend(partitions))
        # Ten messages take twice the interval, and all of them arrive with the first.
        offsets = []
        for message in messages(consumer, 10):
            offsets.append((message.partition(), message.offset()))
            time.sleep(0.3)
        assert [member.member_id for member in kohort.group().members] == [consumer.memberid()]
        assert not lost and len(offsets) == len(set(offsets))
        for partition in (0, 1):
            of_partition = [offset for number, offset in offsets if number == partition]
            assert of_partition == list(range(len(of_partition)))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_read_each_message_once(options: dict[str, Any], topic: str, protocol: str) -> None:
    options["group.protocol"] = protocol
    seen: list[tuple[int | None, int | None]] = []
    with Consumer(options) as one, Consumer(options) as other:
        for consumer in (one, other):
            consumer.subscribe([topic], on_revoke=lambda consumer, _: consumer.commit())
        deadline = time.monotonic() + 60
        while len(seen) < 20 or not (one.assignment() and other.assignment()):
            assert time.monotonic() < deadline
            for consumer in (one, other):
                message = consumer.poll(0.05)
                if message is not None:
                    assert message.error() is None
                    seen.append((message.partition(), message.offset()))
                    consumer.commit(message, asynchronous=False)
    assert len(seen) == len(set(seen)) == 20


def test_statistics_have_the_lag(options: dict[str, Any], topic: str) -> None:
    documents: list[str] = []
    with Consumer({**options, "statistics.interval.ms": 50, "stats_cb": documents.append}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        list(messages(consumer, 4))
        documents.clear()
        while not documents:
            consumer.pause([TopicPartition(topic, 0)])
            consumer.poll(0.1)
    partition = json.loads(documents[-1])["topics"][topic]["partitions"]["0"]
    assert (partition["app_offset"], partition["stored_offset"], partition["hi_offset"]) == (4, 4, 10)
    assert (partition["consumer_lag_stored"], partition["consumer_lag"]) == (6, -1)  # nothing is committed


def test_error_cb_learns_that_no_broker_responds(options: dict[str, Any]) -> None:
    problems: list[KafkaError] = []
    with Consumer({**options, "bootstrap.servers": "127.0.0.1:1", "error_cb": problems.append}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        deadline = time.monotonic() + 30
        while not problems:
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        with pytest.raises(KafkaException) as refused:
            consumer.list_topics(timeout=0.2)
        assert refused.value.args[0].code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
    assert problems[0].code() == KafkaError._ALL_BROKERS_DOWN


def test_polls_that_do_not_wait_receive_messages_as_soon_as_they_arrive(options: dict[str, Any], topic: str) -> None:
    with Consumer(options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        list(messages(consumer, 10))
        consumer.seek(TopicPartition(topic, 0, 0))
        polls = 0
        while consumer.poll(0) is None:
            polls += 1
            assert polls < 20_000  # as many as there are in half a second if they do not look


def test_a_second_thread_gets_an_exception(options: dict[str, Any], topic: str) -> None:
    caught: list[KafkaException] = []
    with Consumer(options) as consumer:

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            thread = threading.Thread(target=poll)
            thread.start()
            thread.join()

        def poll() -> None:
            try:
                consumer.poll(0.1)
            except KafkaException as problem:
                caught.append(problem)

        consumer.subscribe([topic], on_assign=assigned)
        list(messages(consumer, 1))
    assert "one thread at a time" in str(caught[0])


@pytest.mark.parametrize("topics", ["name", [1], None])
def test_topics_must_be_a_list_of_text(options: dict[str, Any], topics: Any) -> None:
    with Consumer(options) as consumer, pytest.raises(TypeError):
        consumer.subscribe(topics)


def test_a_closed_consumer_raises_a_runtime_error(options: dict[str, Any]) -> None:
    consumer = Consumer(options)
    consumer.close()
    consumer.close()
    for call in (lambda: consumer.poll(0), consumer.commit, consumer.assignment, lambda: consumer.list_topics()):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            call()


def test_position_and_stored_offsets_follow_each_message(options: dict[str, Any], topic: str) -> None:
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(options) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        received = {0: OFFSET_INVALID, 1: OFFSET_INVALID}

        def read(count: int) -> None:
            for message in messages(consumer, count):
                partition, offset = message.partition(), message.offset()
                assert partition is not None and offset is not None
                received[partition] = offset + 1
                assert [each.offset for each in consumer.position([zero, one])] == [received[0], received[1]]

        read(3)
        consumer.pause([zero, one])  # in the middle of what is buffered
        read(0)
        assert [each.offset for each in consumer.position([zero, one])] == [received[0], received[1]]
        consumer.resume([zero, one])
        read(4)
        consumer.seek(TopicPartition(topic, 0, 1))
        assert [each.offset for each in consumer.position([zero, one])] == [received[0], received[1]]
        read(10)
        consumer.commit(asynchronous=False)
        assert [each.offset for each in consumer.committed([zero, one])] == [received[0], received[1]]


def test_consume_returns_the_rest_of_what_is_buffered(options: dict[str, Any], topic: str) -> None:
    with Consumer(options) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        first = consumer.consume(4, 30)
        rest = consumer.consume(6, 30)
        assert [message.offset() for message in (*first, *rest)] == [*range(10)]
        assert consumer.position([TopicPartition(topic, 0)])[0].offset == 10
        assert consumer.consume(1, 0) == []


def test_the_commit_of_a_message_has_its_leader_epoch(options: dict[str, Any], topic: str) -> None:
    with Consumer(options) as consumer:
        consumer.subscribe([topic])
        (message,) = messages(consumer, 1)
        assert message.leader_epoch() == 0
        consumer.commit(message=message, asynchronous=False)
        number, offset = message.partition(), message.offset()
        assert number is not None and offset is not None
        (committed,) = consumer.committed([TopicPartition(topic, number)], timeout=20)
        assert (committed.offset, committed.leader_epoch) == (offset + 1, 0)
