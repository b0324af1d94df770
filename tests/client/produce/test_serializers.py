"""Keys and values that the application's serializers make, and those that they reject."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from kohort import ConfigError, Consumer, Producer, TopicPartition, blocking
from kohort.client import ConsumerRecord, InvalidRecordError, SerializationError
from kohort.wire.batches import Header
from tests.interop.broker import Broker


def to_json(data: Any) -> bytes:
    return json.dumps(data).encode()


async def read(broker: Broker, topic: str, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(20):
            while len(records) < count:
                records += await consumer.poll()
    return records


async def test_functions_make_bytes_and_none_stays_none(kohort_broker: Broker, fresh: str) -> None:
    options: Any = {"key_serializer": str.encode, "value_serializer": to_json}
    async with Producer(bootstrap_servers=kohort_broker.bootstrap, **options) as producer:
        await producer.send(fresh, {"n": 1}, key="k", partition=0)
        await producer.send(fresh, None, key="k", partition=0)
        await producer.ready(fresh)
        producer.send_nowait(fresh, [], partition=0)
        await producer.send_all(fresh, [("k", 5, 1_000)])
    found = [(record.key, record.value) for record in await read(kohort_broker, fresh, 4)]
    assert found == [(b"k", b'{"n": 1}'), (b"k", None), (None, b"[]"), (b"k", b"5")]


class Tagging:
    """Serializer that names its format in a header."""

    def serialize(self, topic: str, headers: list[Header], data: Any) -> bytes:
        headers.append(("format", b"text"))
        return f"{topic}:{data}".encode()


async def test_objects_get_the_topic_and_may_add_headers(kohort_broker: Broker, fresh: str) -> None:
    given = [("mine", b"1")]
    async with Producer(bootstrap_servers=kohort_broker.bootstrap, value_serializer=Tagging()) as producer:
        await producer.send(fresh, 1, headers=given)
        await producer.send(fresh, 2, headers=given)
    records = await read(kohort_broker, fresh, 2)
    assert [record.value for record in records] == [f"{fresh}:1".encode(), f"{fresh}:2".encode()]
    assert [record.headers for record in records] == [[("mine", b"1"), ("format", b"text")]] * 2
    assert given == [("mine", b"1")], "the caller's list is not changed"


async def test_a_rejected_value_is_raised_by_send_and_nothing_is_queued(kohort_broker: Broker, fresh: str) -> None:
    async with Producer(bootstrap_servers=kohort_broker.bootstrap, value_serializer=to_json) as producer:
        with pytest.raises(SerializationError, match=f"the value of a record for {fresh}: value_serializer raised"):
            await producer.send(fresh, {1, 2})
        await producer.send(fresh, 1)
        await producer.flush()
    assert [record.value for record in await read(kohort_broker, fresh, 1)] == [b"1"]


async def test_a_serializer_that_returns_no_bytes_is_an_error(kohort_broker: Broker, fresh: str) -> None:
    async with Producer(bootstrap_servers=kohort_broker.bootstrap, value_serializer=json.dumps) as producer:
        with pytest.raises(InvalidRecordError, match="the value of a record is a str, but must be bytes"):
            await producer.send(fresh, 1)


async def test_a_serializer_must_be_callable(kohort_broker: Broker) -> None:
    with pytest.raises(ConfigError, match="key_serializer is 'json', but must be a function or an object with a"):
        Producer(bootstrap_servers=kohort_broker.bootstrap, key_serializer="json")


async def test_the_blocking_producer_serializes_in_the_calling_thread(kohort_broker: Broker, fresh: str) -> None:
    threads = []

    def write(data: Any) -> bytes:
        threads.append(threading.current_thread())
        return to_json(data)

    def produce() -> None:
        with blocking.Producer(bootstrap_servers=kohort_broker.bootstrap, value_serializer=write) as producer:
            producer.send(fresh, [1]).result(20)
            with pytest.raises(SerializationError):
                producer.send(fresh, {1})

    await asyncio.to_thread(produce)
    assert [record.value for record in await read(kohort_broker, fresh, 1)] == [b"[1]"]
    assert len(set(threads)) == 1
    assert not threads[0].name.startswith("kohort")
