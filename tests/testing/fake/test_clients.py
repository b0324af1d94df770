"""Clients of today with brokers that announce what an older release does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest

from kohort.blocking import Consumer, Producer
from kohort.testing.fake import FakeCluster, FakeOptions
from kohort.testing.releases import RELEASES

PATIENCE_S = 60.0
FEW = ("2.0", "2.8", "3.9")
_OF_MANY = pytest.mark.long("the same with each other release")


def kohort(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"1")
    with Consumer("t", bootstrap_servers=servers, group_id="kohort", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(timeout=PATIENCE_S)
        consumer.commit()


def librdkafka(servers: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    producer.produce("t", b"1")
    assert producer.flush(PATIENCE_S) == 0
    options = {"bootstrap.servers": servers, "group.id": "librdkafka", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(options)
    consumer.subscribe(["t"])
    message = consumer.poll(PATIENCE_S)
    assert message is not None and not message.error()
    consumer.commit(message=message, asynchronous=False)
    consumer.close()


def kafka_python(servers: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    producer.send("t", b"1").get(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "t", bootstrap_servers=servers, group_id="kafka-python", auto_offset_reset="earliest",
        consumer_timeout_ms=int(PATIENCE_S * 1000),
    )  # fmt: skip
    assert next(iter(consumer))
    consumer.commit()
    consumer.close()


def aiokafka_(servers: str) -> None:
    async def consume() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        await producer.send_and_wait("t", b"1")
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            "t", bootstrap_servers=servers, group_id="aiokafka", auto_offset_reset="earliest"
        )
        await consumer.start()
        await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        await consumer.commit()
        await consumer.stop()

    asyncio.run(consume())


CLIENTS: tuple[Callable[[str], None], ...] = (kohort, librdkafka, kafka_python, aiokafka_)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets that a client leaves open
@pytest.mark.parametrize(
    "release", [pytest.param(release, marks=() if release in FEW else _OF_MANY) for release in RELEASES]
)
def test_each_client_writes_reads_and_commits(release: str) -> None:
    with FakeCluster(FakeOptions(ports=[0], release=release, topics={"t": 1})) as cluster:
        for client in CLIENTS:
            client(cluster.bootstrap_servers)
