"""The adapter's producer: callbacks, the queue's limit, and failures."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kohort.compat.confluent import KafkaError, KafkaException, Message, Producer
from kohort.testing import Workspace

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 300}


@pytest.fixture
def topic(kohort: Workspace) -> str:
    return kohort.topic(partitions=3)


def test_callbacks_run_in_the_thread_that_polls(kohort: Workspace, topic: str) -> None:
    seen: list[tuple[str, KafkaError | None, bytes]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        seen.append((threading.current_thread().name, error, message.value()))

    with Producer({"bootstrap.servers": kohort.bootstrap_servers, "on_delivery": delivered}) as producer:
        for number in range(30):
            producer.produce(topic, str(number), partition=number % 3)
        assert len(producer) == 30 and producer
        while len(seen) < 30:
            assert producer.poll(10) > 0
        assert len(producer) == 0
        assert {(name, error) for name, error, _ in seen} == {(threading.current_thread().name, None)}
        for partition in range(3):  # the order of each partition
            values = [int(value) for _, _, value in seen if int(value) % 3 == partition]
            assert values == sorted(values)


def test_a_callback_may_produce_and_flush_waits_for_that_too(kohort: Workspace, topic: str) -> None:
    left = [3]
    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:

        def again(error: KafkaError | None, message: Message) -> None:
            if left[0]:
                left[0] -= 1
                producer.produce(topic, message.value(), callback=again)

        producer.produce(topic, b"again", callback=again)
        assert producer.flush(30) == 0
    assert left == [0]


def test_a_callback_that_raises_leaves_the_others_for_the_next_call(kohort: Workspace, topic: str) -> None:
    told: list[int | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        told.append(message.offset())
        if message.offset() == 2:
            raise ZeroDivisionError("of the application")

    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:
        for _ in range(6):
            producer.produce(topic, b"v", partition=0, callback=delivered)
        with pytest.raises(ZeroDivisionError):
            producer.flush()
        assert producer.flush() == 0
    assert told == list(range(6))


def test_threads_may_share_a_producer(kohort: Workspace, topic: str) -> None:
    lock, offsets = threading.Lock(), []

    def delivered(error: KafkaError | None, message: Message) -> None:
        with lock:
            offsets.append((message.partition(), message.offset()))

    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:

        def send() -> None:
            for number in range(200):
                producer.produce(topic, str(number), on_delivery=delivered)
                producer.poll(0)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert producer.flush() == 0
    assert len(offsets) == len(set(offsets)) == 800


def test_a_full_queue_is_a_buffer_error_until_the_callbacks_are_called(kohort: Workspace, topic: str) -> None:
    options = {"bootstrap.servers": kohort.bootstrap_servers, "queue.buffering.max.messages": 2}
    with Producer(options) as producer:
        for _ in range(2):
            producer.produce(topic, b"v", callback=lambda error, message: None)
        with pytest.raises(BufferError, match="Queue full"):
            producer.produce(topic, b"v")
        while not producer.poll(10):
            pass
        producer.produce(topic, b"v")


def test_messages_without_a_callback_leave_the_queue_without_a_poll(kohort: Workspace, topic: str) -> None:
    with Producer({"bootstrap.servers": kohort.bootstrap_servers, "queue.buffering.max.messages": 50}) as producer:
        sent = 0
        while sent < 200:
            try:
                producer.produce(topic, b"v")
                sent += 1
            except BufferError:
                producer.flush(1)


def test_flush_returns_how_many_messages_are_left_after_its_time(kohort: Workspace, topic: str) -> None:
    answer = kohort.fault(keys="Produce", hold=True)
    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:
        producer.produce(topic, b"v")
        assert producer.flush(0.01) == 1
        answer.remove()  # it may not have held the request yet
        assert producer.flush(30) == 0


def test_a_message_that_is_not_written_in_time_fails(caplog: pytest.LogCaptureFixture) -> None:
    failed: list[Any] = []
    with Producer(NOWHERE) as producer:
        producer.produce("t", b"v", key=b"k", callback=lambda error, message: failed.append((error, message)))
        assert producer.flush(30) == 0
        [(error, message)] = failed
        assert error == KafkaError._MSG_TIMED_OUT and message.error() == error
        assert (message.topic(), message.offset(), message.key(), message.value()) == ("t", None, b"k", b"v")
        with caplog.at_level(logging.ERROR):
            producer.produce("t", b"nobody asks")
            assert producer.flush(30) == 0
    assert "not written" in caplog.text


def test_error_cb_learns_that_no_broker_responds() -> None:
    problems: list[KafkaError] = []
    with Producer({**NOWHERE, "error_cb": problems.append}) as producer:
        producer.produce("t", b"v", callback=lambda error, message: None)
        producer.flush()
        producer.poll(0)
    assert problems and problems[0].code() == KafkaError._ALL_BROKERS_DOWN


def test_only_failures_are_reported_if_asked(kohort: Workspace, topic: str) -> None:
    told: list[Message] = []
    options = {"bootstrap.servers": kohort.bootstrap_servers, "delivery.report.only.error": True}
    with Producer(options) as producer:
        producer.produce(topic, b"v", callback=lambda error, message: told.append(message))
        assert producer.flush() == 0
    assert not told


@pytest.mark.parametrize("value", [5, ["a"], 1.5])
def test_a_value_that_is_not_text_or_bytes_is_a_type_error(value: Any) -> None:
    with Producer(NOWHERE) as producer, pytest.raises(TypeError, match="bytes-like"):
        producer.produce("t", value)


def test_a_record_that_cannot_be_written_raises_at_once(kohort: Workspace, topic: str) -> None:
    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:
        with pytest.raises(KafkaException) as refused:
            producer.produce(topic, b"x" * 2_000_000)
        assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
        producer.produce(topic, b"v")
        producer.flush()
        with pytest.raises(KafkaException) as unknown:
            producer.produce(topic, b"v", partition=77)
        assert unknown.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
        with pytest.raises(KafkaException):
            producer.produce(topic, b"v", timestamp=-5)
        with pytest.raises(TypeError):
            producer.produce(topic, b"v", headers={"name": 5})  # type: ignore[dict-item]


def test_a_batch_of_messages(kohort: Workspace, topic: str) -> None:
    told: list[tuple[bytes, int | None]] = []
    messages: list[dict[str, Any]] = [
        {"value": "a", "key": "k", "partition": 2},
        {"value": "b", "timestamp": 5},
        {"value": "x" * 2_000_000},
    ]
    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:
        queued = producer.produce_batch(
            topic, messages, partition=1, on_delivery=lambda e, m: told.append((m.value(), m.partition()))
        )
        assert queued == 2 and messages[2]["_error"].code() == KafkaError.MSG_SIZE_TOO_LARGE
        producer.flush()
    assert sorted(told) == [(b"a", 2), (b"b", 1)]


def test_statistics_are_json(kohort: Workspace) -> None:
    documents: list[str] = []
    options = {
        "bootstrap.servers": kohort.bootstrap_servers,
        "statistics.interval.ms": 20,
        "stats_cb": documents.append,
    }
    with Producer(options) as producer:
        while not documents:
            producer.poll(0.05)
    assert json.loads(documents[0])["type"] == "producer"


def test_what_is_left_out_says_so(kohort: Workspace) -> None:
    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:
        calls: tuple[Callable[[], object], ...] = (producer.purge, lambda: producer.set_sasl_credentials("a", "b"))
        for call in calls:
            with pytest.raises(KafkaException) as refused:
                call()
            assert refused.value.args[0].code() == KafkaError._NOT_IMPLEMENTED
        assert producer.cluster_id(10) == producer.list_topics(timeout=10).cluster_id
    with pytest.raises(RuntimeError):
        producer.produce("t")
    assert producer.close()


def test_each_callback_gets_its_own_message(kohort: Workspace) -> None:
    topic = kohort.topic(partitions=2)
    told: dict[bytes, Message] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        told[message.value()] = message

    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:
        for number in range(300):
            producer.produce(topic, b"%d" % number, b"key", partition=number % 2, on_delivery=delivered, timestamp=7)
            producer.produce(topic, b"silent", partition=number % 2)
            producer.poll(0)
        assert len(producer) <= 600
        assert producer.flush() == len(producer) == 0
    assert list(map(int, sorted(told, key=int))) == [*range(300)]
    for value, message in told.items():
        assert (message.topic(), message.partition(), message.key()) == (topic, int(value) % 2, b"key")
        assert message.offset() == int(value) // 2 * 2
        assert (message.timestamp(), message.error(), message.headers(), len(message)) == (
            (1, 7),
            None,
            None,
            len(value),
        )
        latency = message.latency()
        assert latency is not None and latency > 0
    message = told[b"7"]
    message.set_value("changed")
    assert (message.value(), message.offset(), message.latency() is not None) == ("changed", 6, True)


def test_the_latency_is_in_seconds_from_produce_to_the_callback(kohort: Workspace, topic: str) -> None:
    told: list[float | None] = []
    with Producer({"bootstrap.servers": kohort.bootstrap_servers}) as producer:
        producer.produce(topic, b"first", on_delivery=lambda error, message: None)
        producer.flush()
        began = time.perf_counter()
        producer.produce(topic, b"x", on_delivery=lambda error, message: told.append(message.latency()))
        producer.flush()
        passed = time.perf_counter() - began
    assert [latency is not None and 0 < latency <= passed for latency in told] == [True]
