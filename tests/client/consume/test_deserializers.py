"""Keys and values that the application's deserializers make, and records that they reject."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from kohort import ConfigError, Consumer, Producer, TopicPartition, blocking
from kohort.client import ConsumerRecord, RecordDeserializationError, TimestampType
from tests.client.conftest import NewTopicName
from tests.interop.broker import Broker


@pytest.fixture
async def producer(any_broker: Broker) -> AsyncIterator[Producer]:
    async with Producer(bootstrap_servers=any_broker.bootstrap) as made:
        yield made


def options_of(broker: Broker, **options: Any) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest", **options}


async def poll_some(consumer: Consumer, limit: int | None = None) -> list[ConsumerRecord]:
    async with asyncio.timeout(20):
        while not (records := await consumer.poll(limit)):
            pass
    return records


async def test_functions_get_bytes_and_null_stays_none(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer
) -> None:
    topic = await new_topic()
    await producer.send(topic, b'{"n": 1}', key=b"7")
    await producer.send(topic, None, key=b"8")
    await producer.send(topic, b"[]")
    await producer.flush()
    async with Consumer(**options_of(any_broker, key_deserializer=int, value_deserializer=json.loads)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[ConsumerRecord] = []
        while len(found) < 3:
            found += await poll_some(consumer)
    assert [(record.key, record.value) for record in found] == [(7, {"n": 1}), (8, None), (None, [])]
    sizes = [(record.serialized_key_size, record.serialized_value_size) for record in found]
    assert sizes == [(1, 8), (1, -1), (-1, 2)]


class Tagged:
    """Deserializer that needs the topic and the headers."""

    def deserialize(self, topic: str, headers: Sequence[tuple[str, bytes | None]], data: bytes) -> Any:
        return topic, dict(headers), data


async def test_objects_get_topic_and_headers(any_broker: Broker, new_topic: NewTopicName, producer: Producer) -> None:
    topic = await new_topic()
    await producer.send(topic, b"v", key=b"k", headers=[("format", b"text")])
    await producer.flush()
    async with Consumer(**options_of(any_broker, key_deserializer=Tagged(), value_deserializer=Tagged())) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        [record] = await poll_some(consumer)
    assert record.key == (topic, {"format": b"text"}, b"k")
    assert record.value == (topic, {"format": b"text"}, b"v")


async def test_a_rejected_record_is_raised_until_the_application_seeks_past_it(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    for value in (b"0", b"1", b"x", b"3", b"4"):
        await producer.send(topic, value, key=b"k", headers=[("h", b"1")])
    await producer.flush()
    async with Consumer(**options_of(any_broker, value_deserializer=int)) as consumer:
        consumer.assign([here])
        records: list[ConsumerRecord] = []
        with pytest.raises(RecordDeserializationError, match=f"{here} at offset 2: value_deserializer") as found:
            while True:
                records += await poll_some(consumer)
        assert [record.value for record in records] == [0, 1]
        error = found.value
        assert (error.partition, error.offset, error.part, type(error.__cause__)) == (here, 2, "value", ValueError)
        assert (error.record.key, error.record.value, error.record.headers) == (b"k", b"x", [("h", b"1")])
        with pytest.raises(RecordDeserializationError):
            await consumer.poll()
        assert await consumer.position(here) == 2
        consumer.seek(here, error.offset + 1)
        records = await poll_some(consumer)
        while len(records) < 2:
            records += await poll_some(consumer)
        assert [record.value for record in records] == [3, 4]
        assert await consumer.position(here) == 5


async def test_the_commit_of_a_rejected_record_is_its_own_offset(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    for value in (b"0", b"x"):
        await producer.send(topic, value)
    await producer.flush()
    async with Consumer(**options_of(any_broker, group_id=fresh, value_deserializer=int)) as consumer:
        consumer.assign([here])
        with pytest.raises(RecordDeserializationError):
            while True:
                await poll_some(consumer)
        await consumer.commit()
        committed = (await consumer.committed([here]))[here]
    assert committed is not None and committed.offset == 1


async def test_iterating_raises_at_the_record_and_again_after_it_was_caught(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    for value in (b"0", b"x", b"2"):
        await producer.send(topic, value)
    await producer.flush()
    async with Consumer(**options_of(any_broker, value_deserializer=int)) as consumer, asyncio.timeout(20):
        consumer.assign([here])
        assert (await anext(consumer)).value == 0
        for _ in range(2):
            with pytest.raises(RecordDeserializationError):
                await anext(consumer)
            assert await consumer.position(here) == 1
        consumer.seek(here, 2)
        assert (await anext(consumer)).value == 2


async def test_a_rejected_record_of_a_paused_partition_does_not_hold_up_the_others(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer
) -> None:
    topic = await new_topic(2)
    poisoned, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await producer.send(topic, b"x", partition=0)
    await producer.send(topic, b"7", partition=0)
    await producer.flush()
    async with Consumer(**options_of(any_broker, value_deserializer=int)) as consumer:
        consumer.assign([poisoned, other])
        with pytest.raises(RecordDeserializationError):
            while True:
                await poll_some(consumer)
        consumer.pause([poisoned])
        await producer.send(topic, b"1", partition=1)
        await producer.flush()
        assert [(record.partition, record.value) for record in await poll_some(consumer)] == [(1, 1)]
        assert await consumer.position(poisoned) == 0
        consumer.resume([poisoned])
        with pytest.raises(RecordDeserializationError):
            await consumer.poll()
        consumer.seek(poisoned, 1)
        assert [(record.partition, record.value) for record in await poll_some(consumer)] == [(0, 7)]


async def test_columns_are_bytes_whatever_the_deserializers(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer
) -> None:
    topic = await new_topic()
    for value in (b"0", b"x", b"2"):
        await producer.send(topic, value)
    await producer.flush()
    async with Consumer(**options_of(any_broker, value_deserializer=int)) as consumer, asyncio.timeout(20):
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(RecordDeserializationError):
            while True:
                await poll_some(consumer)
        table = await consumer.poll_arrow()
    assert table["value"].to_pylist() == [b"x", b"2"]


def test_the_blocking_consumer_deserializes_in_the_calling_thread(kohort_broker: Broker, fresh: str) -> None:
    import threading

    threads = []

    def read(data: bytes) -> int:
        threads.append(threading.current_thread())
        return int(data)

    with blocking.Producer(bootstrap_servers=kohort_broker.bootstrap) as producer:
        for value in (b"0", b"x", b"2", b"y", b"4"):
            producer.send(fresh, value)
    here = TopicPartition(fresh, 0)
    with blocking.Consumer(**options_of(kohort_broker, value_deserializer=read)) as consumer:
        consumer.assign([here])
        values: list[Any] = []
        for rejected in (1, 3):
            with pytest.raises(RecordDeserializationError) as found:
                while True:
                    values += [record.value for record in consumer.poll()]
            assert found.value.offset == rejected
            assert consumer.position(here) == rejected
            consumer.seek(here, rejected + 1)
        assert next(consumer).value == 4
        consumer.seek(here, 1)
        with pytest.raises(RecordDeserializationError):
            next(consumer)
        assert consumer.position(here) == 1
    assert values == [0, 2]
    assert set(threads) == {threading.current_thread()}


async def test_keys_alone_may_be_deserialized_and_everything_else_is_kept(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer
) -> None:
    topic = await new_topic(message_timestamp_type="LogAppendTime")
    here = TopicPartition(topic, 0)
    await producer.send(topic, b"v", key=b"1", headers=[("h", b"x")])
    await producer.send(topic, b"v", key=b"x")
    await producer.flush()
    async with Consumer(**options_of(any_broker, key_deserializer=int)) as consumer:
        consumer.assign([here])
        [record] = await poll_some(consumer, 1)
        with pytest.raises(RecordDeserializationError, match="at offset 1: key_deserializer raised") as found:
            await poll_some(consumer)
    assert (record.topic, record.partition, record.offset, record.key, record.value) == (topic, 0, 0, 1, b"v")
    assert (record.headers, record.timestamp_type, record.leader_epoch) == (
        [("h", b"x")],
        TimestampType.LOG_APPEND_TIME,
        0,
    )
    assert found.value.part == "key"


async def test_an_interrupted_deserializer_loses_no_record(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer
) -> None:
    topic = await new_topic()
    for value in (b"0", b"1", b"2"):
        await producer.send(topic, value)
    await producer.flush()
    interrupts = iter((False, True))

    class Stop(BaseException):
        pass

    def read(data: bytes) -> int:
        if next(interrupts, False):
            raise Stop
        return int(data)

    async with Consumer(**options_of(any_broker, value_deserializer=read)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[int] = []
        with pytest.raises(Stop):
            while True:
                values += [record.value for record in await poll_some(consumer)]
        while len(values) < 3:
            values += [record.value for record in await poll_some(consumer)]
    assert values == [0, 1, 2]


async def test_a_deserializer_must_be_callable(kohort_broker: Broker) -> None:
    await Consumer(**options_of(kohort_broker, value_deserializer=None)).close()
    with pytest.raises(ConfigError, match="value_deserializer is 'json', but must be a function of bytes"):
        Consumer(**options_of(kohort_broker, value_deserializer="json"))


async def test_a_record_knows_its_timestamp_type_and_leader_epoch(
    any_broker: Broker, new_topic: NewTopicName, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = {
        await new_topic(message_timestamp_type="CreateTime"): TimestampType.CREATE_TIME,
        await new_topic(message_timestamp_type="LogAppendTime"): TimestampType.LOG_APPEND_TIME,
    }
    for topic in topics:
        for _ in range(500):
            await producer.send(topic, b"v" * 100, timestamp=1_000)
    await producer.flush()
    for fast in ("0", "1"):
        monkeypatch.setenv("KOHORT_FAST", fast)
        for topic, kind in topics.items():
            async with Consumer(**options_of(any_broker)) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                records = await poll_some(consumer)
            assert {(record.timestamp_type, record.leader_epoch) for record in records} == {(kind, 0)}
            assert (records[0].timestamp == 1_000) == (kind is TimestampType.CREATE_TIME)
