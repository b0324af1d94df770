"""Interceptors of producers and consumers of both faces."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from kohort import (
    ConfigError,
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerInterceptor,
    ProducerOptions,
    ProducerRecord,
    RecordMetadata,
    SerializationError,
    TopicPartition,
    blocking,
)
from kohort.new_clients import intercept_new_clients
from tests.client.conftest import NewTopicName
from tests.interop.broker import Broker


class Traced(ProducerInterceptor):
    """Adds a header, and keeps what it learns."""

    def __init__(self, name: str = "trace") -> None:
        self.name = name
        self.seen: list[ProducerRecord] = []
        self.results: list[tuple[Any, int | None, str | None]] = []
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.seen.append(record)
        return record._replace(headers=[*record.headers, (self.name, b"1")])

    def on_acknowledgement(
        self, record: ProducerRecord, metadata: RecordMetadata | None, error: Exception | None
    ) -> None:
        offset = None if metadata is None else metadata.offset
        self.results.append((record.value, offset, None if error is None else type(error).__name__))

    def close(self) -> None:
        self.closed += 1


class Doubled(ConsumerInterceptor):
    """Drops records of value "drop", doubles the others, and keeps what is committed."""

    def __init__(self) -> None:
        self.lists: list[int] = []
        self.commits: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
        self.closed = 0

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self.lists.append(len(records))
        return [record for record in records for _ in range(2) if record.value != "drop"]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits.append(offsets)

    def close(self) -> None:
        self.closed += 1


async def test_records_pass_the_interceptors_in_order(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    first, second = Traced("a"), Traced("b")
    async with Producer(
        bootstrap_servers=any_broker.bootstrap, value_serializer=str.encode, interceptors=[first, second]
    ) as producer:
        delivery = await producer.send(topic, "x", key=b"k", headers=[("h", b"0")])
        await delivery
        assert producer.send_nowait(topic, "y") is not None
        await producer.flush()
        assert first.results == [("x", 0, None), ("y", 1, None)] == second.results
    await producer.close()
    assert (first.closed, second.closed) == (1, 1)
    assert first.seen[0] == ProducerRecord(topic, "x", b"k", None, [("h", b"0")], None)
    assert second.seen[0].headers == [("h", b"0"), ("a", b"1")]
    async with Consumer(bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(20):
            record = await anext(consumer)
    assert record.headers == [("h", b"0"), ("a", b"1"), ("b", b"1")]


async def test_errors_of_send_are_acknowledged(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    traced = Traced()
    async with Producer(
        bootstrap_servers=any_broker.bootstrap, value_serializer=str.encode, interceptors=[traced]
    ) as producer:
        await producer.ready(topic)
        with pytest.raises(SerializationError):
            await producer.send(topic, 7)
        with pytest.raises(SerializationError):
            producer.send_nowait(topic, 7)
        with pytest.raises(KafkaError):
            await producer.send(topic, "x", partition=9)
    assert traced.results == [(7, None, "SerializationError")] * 2 + [("x", None, "KafkaError")]


async def test_a_failed_delivery_is_acknowledged_and_still_unchecked(
    any_broker: Broker, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await new_topic(max_message_bytes="200")
    traced = Traced()
    async with Producer(bootstrap_servers=any_broker.bootstrap, interceptors=[traced]) as producer:
        await producer.send(topic, bytes(1000))
    assert [result[1:] for result in traced.results] == [(None, "KafkaError")]
    assert "1 record was not written, and the application did not check the result" in caplog.text


async def test_poll_returns_what_interceptors_make(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for value in (b"1", b"drop", b"3"):
            await producer.send(topic, value)
    doubled = Doubled()
    async with Consumer(
        bootstrap_servers=any_broker.bootstrap,
        group_id=fresh,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        value_deserializer=bytes.decode,
        interceptors=[doubled],
    ) as consumer:
        consumer.assign([here])
        values: list[str] = []
        async with asyncio.timeout(20):
            while len(values) < 4:
                values += [record.value for record in await consumer.poll()]
        assert values == ["1", "1", "3", "3"] and sum(doubled.lists) == 3
        assert await consumer.position(here) == 3
        await consumer.commit()
        assert [offsets[here].offset for offsets in doubled.commits] == [3]
        consumer.seek(here, 0)
        async with asyncio.timeout(20):
            assert [(await anext(consumer)).value for _ in range(4)] == values
        assert doubled.lists[-3:] == [1, 1, 1]
    assert doubled.closed == 1


def test_the_blocking_faces_call_interceptors(kohort_broker: Broker, fresh: str) -> None:
    traced, doubled = Traced(), Doubled()
    with blocking.Producer(
        bootstrap_servers=kohort_broker.bootstrap, value_serializer=str.encode, interceptors=[traced]
    ) as producer:
        for value in ("1", "drop", "3"):
            producer.send(fresh, value)
        with pytest.raises(SerializationError):
            producer.send(fresh, 7)
    assert sorted(map(str, traced.results)) == sorted(
        map(str, [("1", 0, None), ("drop", 1, None), ("3", 2, None), (7, None, "SerializationError")])
    )
    assert traced.closed == 1
    with blocking.Consumer(
        fresh,
        bootstrap_servers=kohort_broker.bootstrap,
        group_id=fresh,
        auto_offset_reset="earliest",
        value_deserializer=bytes.decode,
        interceptors=[doubled],
        consumer_timeout_ms=20_000,
    ) as consumer:
        values: list[str] = []
        while len(values) < 4:
            values += [record.value for record in consumer.poll()]
        assert values == ["1", "1", "3", "3"]
        consumer.seek_to_beginning()
        assert [next(consumer).value for _ in range(4)] == values
    assert doubled.commits[-1][TopicPartition(fresh, 0)].offset == 3
    assert doubled.closed == 1


class Failing:
    """Fails as `problem` says. It has only some of the methods, and no base."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.result: Any = None

    def on_send(self, record: ProducerRecord) -> Any:
        if self.problem is not None:
            raise self.problem
        return self.result


async def test_a_failure_is_logged_when_it_begins_changes_and_ends(
    any_broker: Broker, new_topic: NewTopicName, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await new_topic()
    failing, after = Failing(), Traced()
    async with Producer(bootstrap_servers=any_broker.bootstrap, interceptors=[failing, after]) as producer:
        for problem in (ValueError("no header"), ValueError("again"), KeyError("k"), None, None):
            failing.problem = problem
            await producer.send(topic, b"x")
        failing.result = {"value": b"y"}
        await producer.send(topic, b"x")
    assert after.results == [(b"x", offset, None) for offset in range(6)]
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == [
        "interceptor failed: Failing.on_send raised ValueError: no header; the client continues",
        "interceptor failed: Failing.on_send raised KeyError: 'k'; the client continues",
        "interceptor works again: Failing.on_send",
        "interceptor failed: Failing.on_send raised TypeError: on_send returned dict, but must return a ProducerRecord"
        " or None; the client continues",
    ]


class Asynchronous:
    async def on_send(self, record: ProducerRecord) -> None: ...

    async def on_commit(self, offsets: object) -> None: ...


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("audit.Interceptor", "must be a list of objects"),
        ("", "must be a list of objects"),
        (Traced(), "must be a list of objects"),
        (["audit.Interceptor"], "has 'audit.Interceptor', but each must be an object with methods of"),
        ([Traced], "each must be an object"),
        ([object()], "each must be an object with methods of: on_"),
        ([Asynchronous()], r"Asynchronous.on_\w+ of interceptors is async"),
    ],
)
async def test_wrong_interceptors_are_a_sentence(given: Any, text: str) -> None:
    for kind in (Producer, Consumer, blocking.Producer, blocking.Consumer):
        with pytest.raises(ConfigError, match=text):
            kind(bootstrap_servers="127.0.0.1:1", interceptors=given)


def test_javas_option_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError, match=r"no option interceptor\.classes: did you mean interceptors\?"):
        ProducerOptions.read({"bootstrap_servers": "127.0.0.1:1", "interceptor.classes": "audit.Interceptor"})


async def test_none_is_no_interceptor() -> None:
    async with Producer(bootstrap_servers="127.0.0.1:1", interceptors=None):  # type: ignore[arg-type]
        pass


class Watching(ConsumerInterceptor):
    """Notes what the application asks for, and the results of commits."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.results: list[tuple[dict[TopicPartition, int], str | None]] = []
        self.values: list[Any] = []

    def on_poll(self, most: int) -> None:
        self.asked.append(most)

    def on_consume(self, records: list[ConsumerRecord]) -> None:
        self.values += [record.value for record in records]

    def on_commit_done(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None, seconds: float
    ) -> None:
        assert seconds >= 0
        shown = {partition: position.offset for partition, position in offsets.items()}
        self.results.append((shown, None if error is None else type(error).__name__))


async def test_an_interceptor_learns_of_polls_and_of_all_results_of_commits(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here, nowhere = TopicPartition(topic, 0), TopicPartition(f"{topic}-unknown", 0)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for value in (b"1", b"2"):
            await producer.send(topic, value)
    watching = Watching()
    async with Consumer(
        bootstrap_servers=any_broker.bootstrap,
        group_id=fresh,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=7,
        interceptors=[watching],
    ) as consumer:
        consumer.assign([here])
        async with asyncio.timeout(20):
            await anext(consumer)
            assert watching.asked == [1]
            await consumer.poll()
            assert watching.asked == [1, 7]
        await consumer.commit({here: 1})
        with pytest.raises(KafkaError):
            await consumer.commit({nowhere: 3})
    assert watching.asked[-1] == 1  # the consumer closes
    assert watching.results == [({here: 1}, None), ({nowhere: 3}, "CommitFailedError")]


async def test_interceptors_can_be_added_to_a_client_that_exists(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    traced, watching = Traced(), Watching()
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await producer.send(topic, b"1")
        producer.intercept(lambda options: traced)
        assert producer.interceptors == (traced,)
        await producer.send(topic, b"2")
    assert [value for value, _, _ in traced.results] == [b"2"]
    async with Consumer(
        bootstrap_servers=any_broker.bootstrap, group_id=fresh, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign([here])
        async with asyncio.timeout(20):
            assert (await anext(consumer)).value == b"1"
            consumer.intercept(lambda options: watching)
            assert (await anext(consumer)).value == b"2"
        await consumer.commit()
    assert watching.values == [b"2"]
    assert watching.results == [({here: 2}, None)]


def test_new_clients_get_interceptors_of_the_process(any_broker: Broker) -> None:
    made: list[Watching] = []

    def make(options: Any) -> Watching:
        assert options.client_id == "mine"
        made.append(Watching())
        return made[-1]

    stop = intercept_new_clients(ConsumerInterceptor, make)
    try:
        with blocking.Consumer(bootstrap_servers=any_broker.bootstrap, client_id="mine") as consumer:
            assert consumer.interceptors == tuple(made)
        with blocking.Producer(bootstrap_servers=any_broker.bootstrap, client_id="mine") as producer:
            assert producer.interceptors == ()
    finally:
        stop()
    with blocking.Consumer(bootstrap_servers=any_broker.bootstrap) as consumer:
        assert consumer.interceptors == ()
    assert len(made) == 1
