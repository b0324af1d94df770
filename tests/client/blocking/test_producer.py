"""The blocking producer, used by a thread: what it checks at once, what it copies, and how long it waits."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.blocking import Producer
from kohort.client import ClosedError, ConfigError, DeliveryFailedError, InvalidRecordError
from kohort.client.blocking import producer as blocking_producer
from kohort.client.produce import unclosed
from kohort.testing import Broker, FaultHandle
from tests.interop.process import until


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with the topic t, of two partitions."""
    with Broker(topics={"t": 2}) as broker:
        yield broker


def sending(broker: Broker, **options: Any) -> Producer:
    given: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 10, "allow_auto_create_topics": False, **options}
    return Producer(bootstrap_servers=broker.bootstrap_servers, **given)


def hold(broker: Broker, key: str) -> FaultHandle:
    """Hold all answers of an API until the fault is removed."""
    return broker.fault(keys=key, hold=True, when="after", count=-1)


def written(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.topic("t").records()]


def test_a_record_is_written_as_it_was_when_it_was_sent(broker: Broker) -> None:
    with sending(broker) as producer:
        value, key, headers = bytearray(b"value"), bytearray(b"key"), [("h", b"x")]
        given: Any = {"value": value, "key": key}
        held = hold(broker, "Metadata")
        sent = producer.send("t", **given, headers=headers, timestamp=7, partition=1)
        value[:], key[:] = b"other", b"xxx"
        headers.clear()
        held.remove()
        found = sent.result()
        assert (found.topic, found.partition, found.offset) == ("t", 1, 0)
        (record,) = broker.topic("t").records()
        assert (record.partition, record.timestamp, record.key, record.value) == (1, 7, b"key", b"value")
        assert [tuple(header) for header in record.headers] == [("h", b"x")]


def test_a_record_without_a_time_has_that_at_which_it_was_sent(broker: Broker) -> None:
    with sending(broker) as producer:
        before = time.time_ns() // 1_000_000
        sent = producer.send("t", None)
        after = time.time_ns() // 1_000_000
        sent.result()
        (record,) = broker.topic("t").records()
        assert before <= record.timestamp <= after and (record.key, record.value) == (None, None)


def test_what_can_be_known_at_once_is_raised_at_once(broker: Broker) -> None:
    with sending(broker, max_request_size=1_000) as producer:
        wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
            (InvalidRecordError, "t", {"value": "text"}),
            (KafkaError, "t", {"value": bytes(1_000)}),
            (ConfigError, "t", {"value": b"x", "timestamp": -1}),
            (ConfigError, "", {"value": b"x"}),
            (ConfigError, 7, {"value": b"x"}),  # type: ignore[list-item]
            (ConfigError, "t", {"value": b"x", "partition": -1}),
        ]
        for error, topic, record in wrong:
            with pytest.raises(error):
                producer.send(topic, **record)
        later = producer.send("t", b"x", partition=77)  # nobody knows how many there are
        with pytest.raises(KafkaError, match="77"):
            later.result()
        assert producer.partitions_for("t") == 2
        with pytest.raises(KafkaError, match="77"):
            producer.send("t", b"x", partition=77)
        producer.flush()


def test_a_result_may_be_waited_for_in_vain_and_again(broker: Broker) -> None:
    with sending(broker) as producer:
        held = hold(broker, "Produce")
        sent = producer.send("t", b"x")
        with pytest.raises(KafkaError, match=r"neither written nor failed after 0\.02 s; it may still") as raised:
            sent.result(0.02)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT and not sent.done()
        with pytest.raises(ConfigError):
            sent.result(-1.0)
        held.remove()
        assert sent.result().offset == 0
        producer.close()
        assert sent.done() and sent.result().offset == 0


def test_a_flush_is_as_long_as_it_is_told_and_raises_what_failed(broker: Broker) -> None:
    with sending(broker, retry_backoff_ms=1, delivery_timeout_ms=30_100) as producer:
        held = hold(broker, "Produce")
        producer.send("t", b"x")
        with pytest.raises(KafkaError, match=r"after 0\.02 s"):
            producer.flush(timeout=0.02)
        held.remove()
        producer.flush()
        assert len(written(broker)) == 1
        broker.fault(keys="Produce", error="TOPIC_AUTHORIZATION_FAILED", count=-1)
        producer.send("t", b"x")
        with pytest.raises(DeliveryFailedError):
            producer.flush()


def test_a_thread_that_is_far_ahead_of_the_loop_waits(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_producer, "_MOST_HANDED_OVER", 10)
    with sending(broker) as producer, ThreadPoolExecutor() as pool:
        held = hold(broker, "Metadata")
        sent = 0

        def send() -> None:
            nonlocal sent
            for _ in range(30):
                producer.send("t", b"x")
                sent += 1

        sending_all = pool.submit(send)
        held.wait()
        until(20, "the thread waits", lambda: sent == 10)
        assert not sending_all.done()
        held.remove()
        sending_all.result(20)
        producer.flush()
        assert len(written(broker)) == 30


def threads() -> set[threading.Thread]:
    """Threads of producers. Fixtures of a session may have some, too, so tests compare with those before."""
    return {thread for thread in threading.enumerate() if thread.name == "kohort-producer"}


def test_closing_writes_what_was_sent_and_ends_the_thread(broker: Broker) -> None:
    before = threads()
    with sending(broker) as producer:
        sent = [producer.send("t", b"x") for _ in range(3)]
        producer.close()
        producer.close()
        assert len(written(broker)) == 3 and all(delivery.done() for delivery in sent)
        assert threads() <= before
        with pytest.raises(ClosedError):
            producer.send("t", b"x")
        with pytest.raises(ClosedError):
            producer.flush()


def test_a_block_that_ends_with_an_error_does_not_wait_for_records(broker: Broker) -> None:
    def block(error: bool) -> None:
        with sending(broker) as producer:
            sent.append(producer.send("t", b"x"))
            if error:
                raise ZeroDivisionError

    held = hold(broker, "Produce")
    sent: list[blocking_producer.BlockingDelivery] = []
    with pytest.raises(ZeroDivisionError):
        block(True)
    with pytest.raises(KafkaError):
        sent[0].result()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(block, False)
        held.wait()
        assert not waiting.done()
        held.remove()
        waiting.result(20)
    assert sent[1].result().topic == "t"


def test_a_producer_that_cannot_be_made_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **options: object) -> None:
        raise ZeroDivisionError

    before = threads()
    monkeypatch.setattr(blocking_producer, "ProducerCore", broken)
    with pytest.raises(ZeroDivisionError):
        Producer(bootstrap_servers="127.0.0.1:1")
    assert threads() <= before


def test_a_producer_that_is_dropped_warns_writes_what_it_has_and_ends_its_thread(broker: Broker) -> None:
    before = threads()
    producer = sending(broker)
    producer.send("t", b"x", partition=0).result()
    assert producer._records in unclosed._open and producer._core not in unclosed._open  # counted once
    producer.send("t", b"y", partition=0)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del producer
        gc.collect()
    broker.topic("t").wait_records(2)
    assert written(broker) == [b"x", b"y"]
    until(20, "its thread ends", lambda: threads() <= before)


def test_callbacks_run_when_the_record_is_written_and_at_once_after_that(broker: Broker) -> None:
    with sending(broker) as producer:
        held = hold(broker, "Metadata")
        seen: list[tuple[str, int]] = []
        sent = producer.send("t", b"v", partition=1)
        for name in ("first", "second"):  # while the record waits for metadata
            sent.add_done_callback(lambda delivery, name=name: seen.append((name, delivery.result().offset)))  # type: ignore[misc]
        until(20, "the record waits", lambda: len(producer._records) == 1)
        assert not seen
        held.remove()
        producer.flush()
        assert seen == [("first", 0), ("second", 0)] and not sent.failed()
        sent.add_done_callback(lambda delivery: seen.append(("late", threading.get_ident())))
        assert seen[2] == ("late", threading.get_ident())


def test_a_callback_that_asks_whether_a_record_failed_does_not_hide_the_failure(broker: Broker) -> None:
    with sending(broker, max_block_ms=50) as producer:
        hold(broker, "Metadata")
        seen: list[bool] = []
        sent = producer.send("t", b"v")
        sent.add_done_callback(lambda delivery: seen.append(delivery.failed()))
        until(20, "it is told", lambda: sent.done() and bool(seen))
        assert seen == [True] and sent.failed()
        with pytest.raises(DeliveryFailedError):
            producer.flush()


def test_the_records_of_each_thread_keep_their_order_and_get_their_own_offsets(broker: Broker) -> None:
    # Small batches and a small buffer, so that threads open batches, fill requests and wait for room all the time.
    with sending(broker, batch_size=300, buffer_memory=4_000, max_request_size=1_000) as producer:
        count = 400
        sent: dict[int, list[tuple[bytes, Any]]] = {number: [] for number in range(3)}

        def send(number: int) -> None:
            for n in range(count):
                value = b"%d %d" % (number, n)
                key = None if n % 3 else b"%d" % number
                headers = [("n", value)] if not n % 7 else []
                sent[number].append((value, producer.send("t", value, key=key, headers=headers, partition=n % 2)))

        with ThreadPoolExecutor() as pool:
            list(pool.map(send, sent))
        producer.flush()
        topic = broker.topic("t")
        there = {partition: [record.value for record in topic.records(partition)] for partition in (0, 1)}
        assert sorted(map(len, there.values())) == [3 * count / 2] * 2
        for number, deliveries in sent.items():
            for value, delivery in deliveries:
                found = delivery.result()
                assert there[found.partition][found.offset] == value
            for values in there.values():
                own = [value for value in values if value is not None and value.startswith(b"%d " % number)]
                assert own == [value for value, _ in deliveries if value in set(own)]


def test_a_value_that_changes_after_it_was_sent_is_written_as_it_was(broker: Broker) -> None:
    with sending(broker, linger_ms=60_000) as producer:
        producer.partitions_for("t")
        value, key = bytearray(b"value"), bytearray(b"key")
        given: Any = {"value": value, "key": key}
        sent = [producer.send("t", **given, partition=0) for _ in range(2)]
        value[:], key[:] = b"other", b"xxx"
        producer.flush()
        assert [(record.key, record.value) for record in broker.topic("t").records()] == [(b"key", b"value")] * 2
        assert [delivery.result().offset for delivery in sent] == [0, 1]


def test_a_batch_that_a_thread_opens_is_sent_after_linger_ms_without_a_flush(broker: Broker) -> None:
    with sending(broker, linger_ms=20) as producer:
        producer.partitions_for("t")
        for count in (1, 2):
            sent = producer.send("t", b"x", partition=0)
            broker.topic("t").wait_records(count)
            assert sent.result().offset == count - 1
