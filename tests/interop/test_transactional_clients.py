"""Transactional producers of each client: records and offsets become visible together, or never."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.cimpl
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from kohort.broker.config import SINGLE_CONNECTION
from tests.interop.broker import Broker
from tests.interop.kafka import java
from tests.interop.kohort import KohortBroker, running_kohort

pytestmark = pytest.mark.interop

PATIENCE_S = 60.0


@pytest.fixture
def topic(any_broker: Broker, fresh: str) -> str:
    """A topic with two partitions."""
    create(any_broker.bootstrap, fresh)
    return fresh


def create(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([confluent_kafka.cimpl.NewTopic(name, 2, 1) for name in names]).values():
        created.result(PATIENCE_S)


def values(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Return what a consumer of librdkafka finds from the beginning to the end of both partitions."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(2)])
    found: list[bytes] = []
    ends = 0
    while ends < 2:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "no end of the partitions"
        error = message.error()
        if error is None:
            found.append(message.value() or b"")
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ends += 1
    consumer.close()
    return found


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    [found] = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=PATIENCE_S)
    consumer.close()
    return int(found.offset)


def with_librdkafka(bootstrap: str, topic: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-group"})
    offsets = [confluent_kafka.TopicPartition(topic, 0, 7)]
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(PATIENCE_S)
    for name, commit in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, f"{name}{partition}".encode(), partition=partition)
        producer.flush(PATIENCE_S)
        offsets[0].offset = {"a": 1, "b": 2, "c": 3}[name]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)
    consumer.close()


def with_kafka_python(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for name, commit in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        for partition in range(2):
            producer.send(topic, f"{name}{partition}".encode(), partition=partition).get(PATIENCE_S)
        offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata({"a": 1, "b": 2, "c": 3}[name], "", -1)}
        producer.send_offsets_to_transaction(offsets, f"{topic}-group")
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()


async def with_aiokafka(bootstrap: str, topic: str) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    for name, commit in (("a", True), ("b", False), ("c", True)):
        await producer.begin_transaction()
        for partition in range(2):
            await producer.send_and_wait(topic, f"{name}{partition}".encode(), partition=partition)
        offsets = {aiokafka.TopicPartition(topic, 0): {"a": 1, "b": 2, "c": 3}[name]}
        await producer.send_offsets_to_transaction(offsets, f"{topic}-group")
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
    await producer.stop()


@pytest.mark.parametrize("client", [with_librdkafka, with_kafka_python, with_aiokafka])
async def test_committed_records_and_offsets_are_visible_and_aborted_ones_are_not(
    client: Callable[[str, str], Any], any_broker: Broker, topic: str
) -> None:
    done = client(any_broker.bootstrap, topic)
    if done is not None:
        await done
    assert sorted(values(any_broker.bootstrap, topic)) == [b"a0", b"a1", b"c0", b"c1"]
    everything = sorted(values(any_broker.bootstrap, topic, "read_uncommitted"))
    assert everything == [b"a0", b"a1", b"b0", b"b1", b"c0", b"c1"]
    assert committed(any_broker.bootstrap, f"{topic}-group", topic) == 3


@pytest.fixture(scope="module")
def single_connections() -> Iterator[KohortBroker]:
    """A broker that takes requests on an older connection of a producer for late ones (decision 016)."""
    with running_kohort(transaction_version="1", **{SINGLE_CONNECTION.replace(".", "_"): "true"}) as broker:
        yield broker


@pytest.mark.parametrize("client", [with_librdkafka, with_kafka_python, with_aiokafka])
async def test_no_client_is_hurt_by_the_order_of_its_connections(
    client: Callable[[str, str], Any], single_connections: KohortBroker, fresh: str
) -> None:
    create(single_connections.bootstrap, fresh)
    done = client(single_connections.bootstrap, fresh)
    if done is not None:
        await done
    assert sorted(values(single_connections.bootstrap, fresh)) == [b"a0", b"a1", b"c0", b"c1"]
    assert committed(single_connections.bootstrap, f"{fresh}-group", fresh) == 3
    assert "late" not in single_connections.process.output()


def test_a_new_producer_of_librdkafka_fences_the_old_one(any_broker: Broker, topic: str) -> None:
    def started() -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer({"bootstrap.servers": any_broker.bootstrap, "transactional.id": topic})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(topic, b"old", partition=0)
        producer.flush(PATIENCE_S)
        return producer

    old = started()
    new = started()
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        old.commit_transaction(PATIENCE_S)
    assert raised.value.args[0].fatal()
    new.commit_transaction(PATIENCE_S)
    assert values(any_broker.bootstrap, topic) == [b"old"]


RECORDS = 60


def copied(bootstrap: str, fresh: str) -> None:
    """Copy a topic with the clients of Apache Kafka; an assertion unless each record is there exactly once."""
    source, copy = f"{fresh}-in", f"{fresh}-out"
    create(bootstrap, source, copy)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(source, f"{number}".encode(), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    command = java(str(Path(__file__).with_name("Transactions.java")), bootstrap, source, copy, str(RECORDS))
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    *seen, aborted = done.stdout.splitlines()
    assert sorted(seen, key=int) == [str(number) for number in range(RECORDS)]
    assert int(aborted.removeprefix("aborted ")) > 0
    assert len(values(bootstrap, copy, "read_uncommitted")) > RECORDS


def test_java_copies_a_topic_exactly_once(any_broker: Broker, kafka_tools: None, fresh: str) -> None:
    copied(any_broker.bootstrap, fresh)


@pytest.fixture(scope="module")
def without_epochs() -> Iterator[KohortBroker]:
    """A broker whose feature transaction.version is at 1."""
    with running_kohort(transaction_version="1") as broker:
        yield broker


def test_java_copies_a_topic_exactly_once_without_an_epoch_per_transaction(
    without_epochs: KohortBroker, kafka_tools: None, fresh: str
) -> None:
    copied(without_epochs.bootstrap, fresh)


@pytest.mark.long("starts another JVM")
def test_java_is_not_hurt_by_the_order_of_its_connections(
    single_connections: KohortBroker, kafka_tools: None, fresh: str
) -> None:
    copied(single_connections.bootstrap, fresh)
    assert "late" not in single_connections.process.output()
