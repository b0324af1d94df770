"""Keys and values that the application's serializers make, and those that they reject."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from kohort import ConfigError, Producer, blocking
from kohort.client import InvalidRecordError, SerializationError
from kohort.testing import Topic, Workspace
from kohort.wire.batches import Header


def to_json(data: Any) -> bytes:
    return json.dumps(data).encode()


@pytest.fixture
def topic(kohort: Workspace) -> Topic:
    return kohort.topic()


async def test_functions_make_bytes_and_none_stays_none(kohort: Workspace, topic: Topic) -> None:
    options: Any = {"key_serializer": str.encode, "value_serializer": to_json}
    async with Producer(bootstrap_servers=kohort.bootstrap_servers, **options) as producer:
        await producer.send(topic, {"n": 1}, key="k", partition=0)
        await producer.send(topic, None, key="k", partition=0)
        await producer.ready(topic)
        producer.send_nowait(topic, [], partition=0)
        await producer.send_all(topic, [("k", 5, 1_000)])
    found = [(record.key, record.value) for record in topic.records()]
    assert found == [(b"k", b'{"n": 1}'), (b"k", None), (None, b"[]"), (b"k", b"5")]


class Tagging:
    """Serializer that names its format in a header."""

    def serialize(self, topic: str, headers: list[Header], data: Any) -> bytes:
        headers.append(("format", b"text"))
        return f"{topic}:{data}".encode()


async def test_objects_get_the_topic_and_may_add_headers(kohort: Workspace, topic: Topic) -> None:
    given = [("mine", b"1")]
    async with Producer(bootstrap_servers=kohort.bootstrap_servers, value_serializer=Tagging()) as producer:
        await producer.send(topic, 1, headers=given)
        await producer.send(topic, 2, headers=given)
    records = topic.records()
    assert [record.value for record in records] == [f"{topic}:1".encode(), f"{topic}:2".encode()]
    assert [record.headers for record in records] == [[("mine", b"1"), ("format", b"text")]] * 2
    assert given == [("mine", b"1")], "the caller's list is not changed"


async def test_a_rejected_value_is_raised_by_send_and_nothing_is_queued(kohort: Workspace, topic: Topic) -> None:
    async with Producer(bootstrap_servers=kohort.bootstrap_servers, value_serializer=to_json) as producer:
        with pytest.raises(SerializationError, match=f"the value of a record for {topic}: value_serializer raised"):
            await producer.send(topic, {1, 2})
        await producer.send(topic, 1)
        await producer.flush()
    assert [record.value for record in topic.records()] == [b"1"]


async def test_a_serializer_that_returns_no_bytes_is_an_error(kohort: Workspace, topic: Topic) -> None:
    async with Producer(bootstrap_servers=kohort.bootstrap_servers, value_serializer=json.dumps) as producer:
        with pytest.raises(InvalidRecordError, match="the value of a record is a str, but must be bytes"):
            await producer.send(topic, 1)


async def test_a_serializer_must_be_callable(kohort: Workspace) -> None:
    with pytest.raises(ConfigError, match="key_serializer is 'json', but must be a function or an object with a"):
        Producer(bootstrap_servers=kohort.bootstrap_servers, key_serializer="json")


def test_the_blocking_producer_serializes_in_the_calling_thread(kohort: Workspace, topic: Topic) -> None:
    threads = []

    def write(data: Any) -> bytes:
        threads.append(threading.current_thread())
        return to_json(data)

    with blocking.Producer(bootstrap_servers=kohort.bootstrap_servers, value_serializer=write) as producer:
        producer.send(topic, [1]).result(20)
        with pytest.raises(SerializationError):
            producer.send(topic, {1})
    assert [record.value for record in topic.records()] == [b"[1]"]
    assert len(set(threads)) == 1
    assert not threads[0].name.startswith("kohort")
