"""A record that is not written is never silence: it is raised where it can be known, raised by flush, or logged."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kohort import Admin, KafkaError, NewTopic, Producer, TopicPartition, blocking, testing
from kohort.client import ClosedError, DeliveryFailedError, InvalidRecordError
from kohort.errors import ConfigError, ErrorCode, KohortError
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker

LOGGER = "kohort.client.produce.failed_deliveries"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


@pytest.fixture
def small(any_broker: Broker, fresh: str) -> str:
    """A topic that takes only small records."""

    async def create() -> None:
        async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
            await admin.create_topics([NewTopic(fresh, 1, configs={"max.message.bytes": "500"})])

    asyncio.run(create())
    return fresh


WRONG: dict[str, tuple[dict[str, object], type[Exception], str]] = {
    "a text": ({"value": "text"}, InvalidRecordError, "the value of a record is a str, but must be bytes"),
    "an empty text": ({"value": ""}, InvalidRecordError, "the value of a record is a str"),
    "a number": ({"value": 5}, TypeError, "the value of a record is a int"),
    "a text as key": ({"value": b"x", "key": "k"}, InvalidRecordError, "the key of a record is a str"),
    "wide items": ({"value": memoryview(b"12345678").cast("q")}, InvalidRecordError, "memoryview"),
    "headers by name": ({"value": b"x", "headers": {"a": b"b"}}, InvalidRecordError, "headers are a dict"),
    "a header of text": ({"value": b"x", "headers": [("a", "b")]}, InvalidRecordError, "header 'a'"),
    "a header that is no pair": ({"value": b"x", "headers": ["a"]}, InvalidRecordError, "'a' is not a header"),
    "a name that is no text": ({"value": b"x", "headers": [("\ud800", b"")]}, InvalidRecordError, "cannot be encoded"),
    "3 MB": ({"value": bytes(3_000_000)}, KafkaError, "does not fit into max_request_size"),
    "another partition": ({"value": b"x", "partition": 77}, KafkaError, "has only partition 0, not 77"),
    "a partition below 0": ({"value": b"x", "partition": -1}, KafkaError, "has only partition 0, not -1"),
    "half a partition": ({"value": b"x", "partition": 0.5}, ConfigError, "partition is 0.5"),
    "a time in seconds": ({"value": b"x", "timestamp": 1.5}, ConfigError, "timestamp is 1.5"),
    "a time before 1970": ({"value": b"x", "timestamp": -1}, ConfigError, "timestamp is -1"),
    "a time after all": ({"value": b"x", "timestamp": 1 << 63}, ConfigError, "timestamp is"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_record_is_refused_in_the_thread_that_sends_it(any_broker: Broker, small: str, what: str) -> None:
    record, error, sentence = WRONG[what]
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        assert producer.partitions_for(small) == 1
        with pytest.raises(error, match=sentence):
            producer.send(small, **record)  # type: ignore[arg-type]
        assert producer.send(small, b"good").result().offset == 0


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_record_is_refused_by_asyncio(any_broker: Broker, new_topic: NewTopicName, what: str) -> None:
    topic = await new_topic()
    record, error, sentence = WRONG[what]
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        with pytest.raises(error, match=sentence):
            await producer.send(topic, **record)  # type: ignore[arg-type]
        with pytest.raises(error, match=sentence):
            producer.send_nowait(topic, **record)  # type: ignore[arg-type]
        assert (await (await producer.send(topic, b"good"))).offset == 0


def test_a_topic_without_a_name_is_refused_in_the_thread_that_sends() -> None:
    with blocking.Producer(bootstrap_servers="127.0.0.1:1") as producer:
        for topic in ("", 5, None):
            with pytest.raises(ConfigError, match="is not a topic"):
                producer.send(topic, b"x")  # type: ignore[arg-type]


def test_a_record_is_what_it_was_when_it_was_sent(any_broker: Broker, small: str) -> None:
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        value = bytearray(b"before")
        headers = [("h", b"1")]
        sent = producer.send(small, value, headers=headers)
        value[:] = b"change"
        headers.clear()
        before = time.time_ns() // 1_000_000
        sent.result()
    with blocking.Consumer(bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(small, 0)])
        record = next(consumer)
    assert (record.value, list(record.headers)) == (b"before", [("h", b"1")])
    assert record.timestamp <= before


def test_flush_raises_unseen_failures_only_once(any_broker: Broker, small: str) -> None:
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=0) as producer:
        producer.send(small, b"good").result()
        producer.flush()
        held = [producer.send(small, bytes(1000)) for _ in range(3)]
        with pytest.raises(DeliveryFailedError, match=f"3 records were not written.*3 to {small}") as raised:
            producer.flush()
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert raised.value.count == 3
        assert not raised.value.retriable
        producer.flush()
        with pytest.raises(KafkaError):
            held[0].result()


def test_flush_does_not_raise_what_was_looked_at(any_broker: Broker, small: str) -> None:
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        held = [producer.send(small, bytes(1000)) for _ in range(3)]
        for delivery in held[:2]:
            with pytest.raises(KafkaError):
                delivery.result()
        with pytest.raises(DeliveryFailedError, match="1 record was not written"):
            producer.flush()
        producer.flush()


async def test_the_asyncio_producer_raises_the_same(
    any_broker: Broker, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await new_topic(max_message_bytes="500")
    async with Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=0) as producer:
        seen: list[Exception] = []

        def look(delivery: object) -> None:
            with pytest.raises(KafkaError) as raised:
                delivery.result()  # type: ignore[attr-defined]
            seen.append(raised.value)

        (await producer.send(topic, bytes(1000))).add_done_callback(look)
        with pytest.raises(KafkaError):
            await (await producer.send(topic, bytes(1000)))
        await producer.flush()
        assert len(seen) == 1
        for _ in range(2):
            await producer.send(topic, bytes(1000))
        with pytest.raises(DeliveryFailedError, match="2 records"):
            await producer.flush()
    assert lines(caplog) == []


def test_unseen_failures_are_logged_with_number_and_reason(
    any_broker: Broker, small: str, caplog: pytest.LogCaptureFixture
) -> None:
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=50) as producer:
        producer.partitions_for(small)
        for _ in range(5):
            producer.send(small, bytes(300))
        asyncio.run(eventually(lambda: bool(lines(caplog))))
    (line,) = lines(caplog)
    assert line.startswith(
        f"5 records were not written, and the application did not check the result: topic={small} MESSAGE_TOO_"
    )
    assert {record.levelno for record in caplog.records if record.name == LOGGER} == {logging.ERROR}


def test_closing_logs_what_it_could_not_write(caplog: pytest.LogCaptureFixture) -> None:
    with testing.Broker() as broker:
        producer = blocking.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000)
        producer.send("t", b"x")
        producer.flush()
    for _ in range(7):
        producer.send("t", b"x")
    for _ in range(4):
        producer.send("u", b"x")
    producer.close(timeout=0.2)
    told = sorted(lines(caplog))
    assert [line.partition(",")[0] for line in told] == ["4 records were not written", "7 records were not written"]
    assert all("closed before the record was written" in line for line in told)
    with pytest.raises(ClosedError):
        producer.send("t", b"x")


def test_a_held_delivery_is_logged_when_it_is_dropped(
    any_broker: Broker, small: str, caplog: pytest.LogCaptureFixture
) -> None:
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        held = producer.send(small, bytes(1000))
    assert lines(caplog) == []
    del held
    gc.collect()
    assert len(lines(caplog)) == 1


def test_without_its_topic_all_records_fail_together(any_broker: Broker, fresh: str, small: str) -> None:
    at = any_broker.bootstrap
    with blocking.Producer(bootstrap_servers=at, max_block_ms=400, allow_auto_create_topics=False) as producer:
        lost = [producer.send(f"{fresh}-missing", b"x") for _ in range(50)]
        kept = producer.send(small, b"x")
        began = time.monotonic()
        assert kept.result().offset == 0
        assert time.monotonic() - began < 5  # each would have waited for max_block_ms
        for delivery in lost[:49]:
            with pytest.raises(KafkaError) as raised:
                delivery.result()
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(DeliveryFailedError, match="1 record was"):
            producer.flush()


async def test_a_topic_that_the_broker_does_not_know_is_the_reason_though_its_next_answer_is_late(fresh: str) -> None:
    options: dict[str, Any] = {"max_block_ms": 300, "allow_auto_create_topics": False, "retry_backoff_ms": 1}
    async with testing.Broker() as broker:
        broker.fault(keys="Metadata", topic=fresh, hold=True, nth=2, count=-1)
        async with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
            with pytest.raises(KafkaError) as raised:
                await producer.send(fresh, b"x")
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_waiting_can_be_limited() -> None:
    with testing.Broker() as broker:
        producer = blocking.Producer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"x").result(timeout=20)
        producer.flush(timeout=20)
    sent = producer.send("t", b"x")
    unknown = producer.send("u", b"x")
    waits: list[Callable[[], object]] = [
        lambda: sent.result(timeout=0.1),
        lambda: unknown.result(timeout=0.1),
        lambda: producer.flush(timeout=0.1),
    ]
    for wait in waits:
        began = time.monotonic()
        with pytest.raises(KafkaError, match=r"after 0\.1 s") as raised:
            wait()
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert time.monotonic() - began < 5
    assert not sent.done()
    with pytest.raises(ConfigError, match="timeout"):
        producer.flush(timeout=-1)
    producer.close(timeout=0)
    with pytest.raises(KohortError):
        sent.result(timeout=0)


async def test_an_asyncio_flush_can_be_limited() -> None:
    async with testing.Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)
        await (await producer.send("t", b"x"))
    sent = await producer.send("t", b"x")
    with pytest.raises(KafkaError, match=r"1 records are not written after 0\.1 s"):
        await producer.flush(timeout=0.1)
    assert not sent.done()
    await producer.close(timeout=0)
    with pytest.raises(KafkaError):
        await sent


def test_flush_ends_while_another_thread_sends_on(any_broker: Broker, fresh: str) -> None:
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        over = threading.Event()

        def send() -> None:
            while not over.is_set():
                producer.send(fresh, b"x")

        thread = threading.Thread(target=send)
        thread.start()
        try:
            for _ in range(3):
                producer.flush(timeout=30)
        finally:
            over.set()
            thread.join()


def test_an_exception_in_the_block_does_not_wait_for_deliveries() -> None:
    with pytest.raises(ZeroDivisionError), testing.Broker() as broker:
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"x").result()
            broker.stop()
            sent = producer.send("t", b"x")
            began = time.monotonic()
            raise ZeroDivisionError
    assert time.monotonic() - began < 20  # delivery_timeout_ms is two minutes
    with pytest.raises(KafkaError):
        sent.result()
