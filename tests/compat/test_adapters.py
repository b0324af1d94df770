"""What the adapters raise that the libraries report in another way."""

from __future__ import annotations

import json
import time
import uuid

import pytest

from kohort import NewTopic, RecordDeserializationError, blocking, testing
from kohort.compat import aiokafka, kafka_python
from tests.interop.broker import Broker


@pytest.fixture
def topic(any_broker: Broker) -> str:
    """A topic whose second record is not JSON."""
    name = uuid.uuid4().hex
    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1)])
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for value in (b"1", b"x", b"3"):
            producer.send(name, value)
    return name


def test_a_consumer_of_kafka_python_can_seek_past_it(any_broker: Broker, topic: str) -> None:
    with kafka_python.KafkaConsumer(
        topic, bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest", value_deserializer=json.loads
    ) as consumer:
        assert next(consumer).value == 1
        with pytest.raises(kafka_python.errors.KafkaError) as raised:
            next(consumer)
        assert isinstance(raised.value, RecordDeserializationError) and raised.value.record.value == b"x"
        consumer.seek(raised.value.partition, raised.value.offset + 1)
        (records,) = consumer.poll(timeout_ms=10_000).values()
        assert [record.value for record in records] == [3]


async def test_a_consumer_of_aiokafka_can_seek_past_it(any_broker: Broker, topic: str) -> None:
    async with aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=any_broker.bootstrap, auto_offset_reset="earliest", value_deserializer=json.loads
    ) as consumer:
        assert (await consumer.getone()).value == 1
        with pytest.raises(aiokafka.errors.KafkaError) as raised:
            await consumer.getmany(timeout_ms=10_000)
        assert isinstance(raised.value, RecordDeserializationError)
        consumer.seek(raised.value.partition, raised.value.offset + 1)
        assert (await consumer.getone()).value == 3


async def test_a_client_that_cannot_connect_says_so_at_its_start() -> None:
    nowhere = "127.0.0.1:1"
    consumer = aiokafka.AIOKafkaConsumer("t", bootstrap_servers=nowhere)
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=nowhere)
    for start in (consumer.start, producer.start):
        with pytest.raises(aiokafka.errors.KafkaConnectionError, match="cannot connect to 127"):
            await start()
    await consumer.stop()
    await producer.stop()


async def test_a_consumer_without_a_group_says_that_its_topic_does_not_exist() -> None:
    async with testing.Broker(settings={"auto.create.topics.enable": "false"}) as broker:
        options = {"bootstrap_servers": broker.bootstrap_servers, "request_timeout_ms": 300}
        consumer = aiokafka.AIOKafkaConsumer("missing", **options)
        with pytest.raises(aiokafka.errors.UnknownTopicOrPartitionError, match="not found: missing"):
            await consumer.start()
        await consumer.stop()


def test_poll_of_kafka_python_waits_for_its_milliseconds(any_broker: Broker, topic: str) -> None:
    with kafka_python.KafkaConsumer(topic, bootstrap_servers=any_broker.bootstrap) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        consumer.seek_to_end()
        began = time.monotonic()
        assert consumer.poll(timeout_ms=600) == {}
        assert 0.5 < time.monotonic() - began < 5


async def test_a_poll_returns_as_many_records_as_the_options_allow(any_broker: Broker, topic: str) -> None:
    options = {"bootstrap_servers": any_broker.bootstrap, "auto_offset_reset": "earliest", "max_poll_records": 2}
    async with aiokafka.AIOKafkaConsumer(topic, **options) as consumer:
        (records,) = (await consumer.getmany(timeout_ms=20_000)).values()
        assert [record.value for record in records] == [b"1", b"x"]
        (records,) = (await consumer.getmany(timeout_ms=20_000)).values()
        assert [record.value for record in records] == [b"3"]
    with kafka_python.KafkaConsumer(topic, **options) as blocking_consumer:
        (polled,) = blocking_consumer.poll(timeout_ms=20_000).values()
        assert [record.value for record in polled] == [b"1", b"x"]


def test_a_timestamp_of_zero_is_one(any_broker: Broker, topic: str) -> None:
    with kafka_python.KafkaProducer(bootstrap_servers=any_broker.bootstrap) as producer:
        assert producer.send(topic, b"4", timestamp_ms=0).get(timeout=20).timestamp == 0
