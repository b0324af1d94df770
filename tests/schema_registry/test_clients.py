"""Serializers and deserializers in producers and consumers of both faces."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kohort import (
    BufferFullError,
    Consumer,
    ConsumerRecord,
    Producer,
    RecordDeserializationError,
    SerializationError,
    TopicPartition,
    blocking,
)
from kohort.compat import confluent as adapter
from kohort.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaMismatchError,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from kohort.testing import Topic, Workspace
from tests.schema_registry.messages import Customer
from tests.schema_registry.registry_server import Hold, Served

NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}]}


@pytest.fixture
def topic(kohort: Workspace) -> Topic:
    return kohort.topic()


def consumer_of(kohort: Workspace, **options: Any) -> dict[str, Any]:
    return {"bootstrap_servers": kohort.bootstrap_servers, "auto_offset_reset": "earliest", **options}


async def read(consumer: Consumer, topic: str, count: int) -> list[ConsumerRecord]:
    consumer.assign([TopicPartition(topic, 0)])
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await consumer.poll()
    return found


@pytest.mark.parametrize("place", ["prefix", "header"])
async def test_keys_and_values_have_their_own_subjects(
    place: Any, kohort: Workspace, topic: str, served: Served, registry: SchemaRegistryClient
) -> None:
    both = AvroSerializer(registry, NUMBER, schema_id_in=place)
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, key_serializer=both, value_serializer=both
    ) as producer:
        await producer.send(topic, {"n": 1}, key={"n": 7})
        await producer.send(topic, None, key={"n": 8})
    assert sorted(served.registry.subjects) == [f"{topic}-key", f"{topic}-value"]
    reader = AvroDeserializer(registry)
    async with Consumer(**consumer_of(kohort, key_deserializer=reader, value_deserializer=reader)) as consumer:
        records = await read(consumer, topic, 2)
    assert [(record.key, record.value) for record in records] == [({"n": 7}, {"n": 1}), ({"n": 8}, None)]


async def test_each_schema_is_requested_once(
    kohort: Workspace, topic: str, served: Served, registry: SchemaRegistryClient
) -> None:
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, value_serializer=AvroSerializer(registry, NUMBER)
    ) as producer:
        await asyncio.gather(*(producer.send(topic, {"n": n}) for n in range(50)))
    assert len(served.registry.requests) == 1
    async with Consumer(**consumer_of(kohort, value_deserializer=AvroDeserializer(registry))) as consumer:
        records = await read(consumer, topic, 50)
    assert sorted(record.value["n"] for record in records) == list(range(50))
    assert len(served.registry.requests) == 2


async def test_a_slow_registry_does_not_block_the_event_loop(
    kohort: Workspace, topic: str, served: Served, registry: SchemaRegistryClient
) -> None:
    hold = served.registry.hold = Hold()
    serializer = AvroSerializer(registry, NUMBER)
    async with Producer(bootstrap_servers=kohort.bootstrap_servers, value_serializer=serializer) as producer:
        sending = asyncio.create_task(producer.send(topic, {"n": 1}))
        assert await asyncio.to_thread(hold.arrived.wait, 20)
        assert not sending.done()
        hold.released.set()
        await (await sending)
    hold = served.registry.hold = Hold()
    async with Consumer(**consumer_of(kohort, value_deserializer=AvroDeserializer(registry))) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        polling = asyncio.create_task(consumer.poll(timeout=20))
        assert await asyncio.to_thread(hold.arrived.wait, 20)
        assert not polling.done() and await consumer.position(TopicPartition(topic, 0)) == 0
        hold.released.set()
        assert [record.value for record in await polling] == [{"n": 1}]


async def test_a_cancelled_poll_loses_no_record(
    kohort: Workspace, topic: str, served: Served, registry: SchemaRegistryClient
) -> None:
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, value_serializer=AvroSerializer(registry, NUMBER)
    ) as producer:
        await producer.send(topic, {"n": 1})
    hold = served.registry.hold = Hold()
    async with Consumer(**consumer_of(kohort, value_deserializer=AvroDeserializer(registry))) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        polling = asyncio.create_task(consumer.poll(timeout=20))
        assert await asyncio.to_thread(hold.arrived.wait, 20)
        polling.cancel()
        await asyncio.wait([polling])
        hold.released.set()
        assert [record.value for record in await read(consumer, topic, 1)] == [{"n": 1}]


async def test_send_nowait_asks_to_await_ready(kohort: Workspace, topic: str, registry: SchemaRegistryClient) -> None:
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, value_serializer=AvroSerializer(registry, NUMBER)
    ) as producer:
        await producer.ready(topic)
        with pytest.raises(BufferFullError, match=f"await ready\\(.*'{topic}'"):
            producer.send_nowait(topic, {"n": 1})
        await producer.ready(topic)
        assert (await producer.send_nowait(topic, {"n": 1})).offset == 0


async def test_a_poison_record_is_raised_with_its_place_and_can_be_skipped(
    kohort: Workspace, topic: Topic, registry: SchemaRegistryClient
) -> None:
    here = TopicPartition(topic, 0)
    written = AvroSerializer(registry, NUMBER).serialize(topic, [], {"n": 1})
    assert written is not None
    poison = [b"{}", b"\0\0\0\3\xe7x", written[:5]]
    topic.produce(*poison, written)
    found = []
    async with Consumer(**consumer_of(kohort, value_deserializer=AvroDeserializer(registry))) as consumer:
        consumer.assign([here])
        for offset in range(3):
            for _ in range(2):  # the position stays
                with pytest.raises(RecordDeserializationError, match=f"{here} at offset {offset}") as raised:
                    async with asyncio.timeout(20):
                        while True:
                            await consumer.poll()
            found.append(raised.value)
            consumer.seek(here, offset + 1)
        assert [record.value for record in await read(consumer, topic, 1)] == [{"n": 1}]
    assert [type(error.__cause__) for error in found] == [SchemaMismatchError, SchemaRegistryError, SchemaMismatchError]
    assert "byte 0x7b instead of magic byte 0 or 1" in str(found[0])
    assert "40403 (Schema not found)" in str(found[1]) and not found[1].retriable
    assert "cannot be read with the Avro schema Number (ID 1)" in str(found[2])


async def test_a_registry_that_fails_is_a_retriable_error_and_the_record_remains(
    kohort: Workspace, topic: str, served: Served
) -> None:
    once = SchemaRegistryClient(served.url, max_retries=0)
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, value_serializer=AvroSerializer(once, NUMBER)
    ) as producer:
        served.registry.failing = 1
        with pytest.raises(SerializationError, match="50301 \\(Leader not known\\)") as refused:
            await producer.send(topic, {"n": 1})
        assert refused.value.retriable
        await producer.send(topic, {"n": 1})
        with pytest.raises(SerializationError, match="does not match the Avro schema Number") as wrong:
            await producer.send(topic, {"m": 1})
        assert not wrong.value.retriable
    async with Consumer(**consumer_of(kohort, value_deserializer=AvroDeserializer(once))) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        served.registry.failing = 1
        with pytest.raises(RecordDeserializationError, match="Poll again to repeat it, or seek to offset 1") as failed:
            async with asyncio.timeout(20):
                while True:
                    await consumer.poll()
        assert failed.value.retriable
        assert [record.value for record in await read(consumer, topic, 1)] == [{"n": 1}]


async def test_iteration_loads_schemas(kohort: Workspace, topic: str, registry: SchemaRegistryClient) -> None:
    async with Producer(
        bootstrap_servers=kohort.bootstrap_servers, value_serializer=ProtobufSerializer(registry)
    ) as producer:
        await producer.send(topic, Customer(name="Ada"))
    async with Consumer(**consumer_of(kohort, value_deserializer=ProtobufDeserializer(registry, Customer))) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(20):
            assert (await anext(consumer)).value == Customer(name="Ada")


def test_serializers_of_confluent_kafka_work_with_the_adapter(
    kohort: Workspace, topic: str, confluent: ConfluentClient, registry: SchemaRegistryClient
) -> None:
    context = SerializationContext(topic, MessageField.VALUE, [])
    options = {"bootstrap.servers": kohort.bootstrap_servers}
    adapted = adapter.Producer(options)
    adapted.produce(topic, value=ConfluentAvroSerializer(confluent, json.dumps(NUMBER))({"n": 1}, context))
    adapted.flush()
    consumer = adapter.Consumer({**options, "group.id": kohort.group(), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while (message := consumer.poll(10.0)) is None:
        pass
    consumer.close()
    assert ConfluentAvroDeserializer(confluent)(message.value(), context) == {"n": 1}
    assert AvroDeserializer(registry).deserialize(topic, [], message.value()) == {"n": 1}


def test_the_blocking_face(kohort: Workspace, topic: str, registry: SchemaRegistryClient) -> None:
    schema = json.dumps({"title": "Order", "type": "object", "required": ["id"]})
    with blocking.Producer(
        bootstrap_servers=kohort.bootstrap_servers, value_serializer=JSONSerializer(registry, schema)
    ) as producer:
        for number in range(3):
            producer.send(topic, {"id": number})
        with pytest.raises(SerializationError, match="Order at \\$: 'id' is a required property"):
            producer.send(topic, {})
    for iterate in (False, True):
        with blocking.Consumer(
            **consumer_of(kohort, value_deserializer=JSONDeserializer(registry), consumer_timeout_ms=20_000)
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            values: list[Any] = []
            while len(values) < 3:
                values += [next(consumer).value] if iterate else [record.value for record in consumer.poll()]
        assert values == [{"id": 0}, {"id": 1}, {"id": 2}]
