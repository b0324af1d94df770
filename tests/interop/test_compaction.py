"""A compacted topic as other people's clients read it, and beside Apache Kafka's cleaner: batch by batch the same."""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple

import aiokafka
import confluent_kafka
import kafka
import pytest

from kohort.errors import ErrorCode
from kohort.wire.batches import Codec, Record, batches, decode_records, encode_batch
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import Peer, connected
from tests.interop.kafka import running_kafka
from tests.interop.kohort import running_kohort

pytestmark = pytest.mark.interop

NOW = 1_700_000_000_000
TABLE = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),  # the least that Apache Kafka takes
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(86_400_000),
    "retention.ms": "-1",
}
SOON = {"log.cleaner.backoff.ms": "100"}


class Left(NamedTuple):
    """A batch as compaction left it. Its base timestamp is the broker's own affair, its bytes are the codec's."""

    base_offset: int
    last_offset: int
    producer: tuple[int, int, int]
    codec: Codec
    has_horizon: bool
    max_timestamp: int | None
    records: tuple[Record, ...]


def history() -> list[bytes]:
    """Four segments of a table: rows that are written again, deleted, or never touched; two producers."""
    chance = random.Random(3)
    made = []
    sequence = 0
    for number in range(500):
        records = [
            Record(
                at,
                NOW + number * 10 + at,
                b"row %d" % chance.randrange(20 if number < 250 else 30),
                None if chance.random() < 0.2 else chance.randbytes(5_000),
                [("h", b"x")] if chance.random() < 0.3 else [],
            )
            for at in range(chance.randint(1, 5))
        ]
        idempotent = {} if number % 3 == 2 else {"producer_id": 4_000, "producer_epoch": 0, "base_sequence": sequence}
        sequence += len(records) if idempotent else 0
        made.append(bytes(encode_batch(records, chance.choice([Codec.NONE, Codec.GZIP]), **idempotent)))  # type: ignore[arg-type]
    last = [Record(0, NOW, b"last of its producer", b"1")]
    made.append(bytes(encode_batch(last, producer_id=5_000, producer_epoch=3, base_sequence=0)))
    made.append(bytes(encode_batch([Record(0, NOW, b"last of its producer", b"2")])))
    return made + [bytes(encode_batch([Record(0, NOW, b"filler %d" % n, bytes(600_000))])) for n in range(4)]


async def compacted(bootstrap: str, topic: str) -> list[Left]:
    """Write the history and wait until nothing changes any more."""
    async with connected(bootstrap) as peer:
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in TABLE.items()]
        new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
        created = await peer.ask(CreateTopicsRequest(topics=[new], timeout_ms=10_000), 5, CreateTopicsResponse)
        assert created.topics[0].error_code == ErrorCode.NONE
        for batch in history():
            await produce(peer, topic, batch)
        found = await contents(peer, topic)
        full = sum(len(batch.records) for batch in found)
        while True:
            await asyncio.sleep(1)
            before, found = found, await contents(peer, topic)
            if found == before and sum(len(batch.records) for batch in found) < full / 5:
                return found


async def produce(peer: Peer, topic: str, batch: bytes) -> None:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    while True:
        answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 7, ProduceResponse)
        code = answer.responses[0].partition_responses[0].error_code
        if code == ErrorCode.NONE:
            return
        assert code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER), code
        await asyncio.sleep(0.05)  # the topic is new


async def contents(peer: Peer, topic: str) -> list[Left]:
    found: list[Left] = []
    offset = 0
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 22)
        request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])])
        part = (await peer.ask(request, 4, FetchResponse)).responses[0].partitions[0]
        assert part.error_code == ErrorCode.NONE
        if not part.records:
            return found
        assert isinstance(part.records, bytes | bytearray | memoryview)
        for at, header in batches(part.records):
            records = tuple(
                record._replace(headers=tuple(record.headers)) for record in decode_records(part.records, at)
            )
            found.append(
                Left(
                    header.base_offset,
                    header.last_offset,
                    (header.producer_id, header.producer_epoch, header.base_sequence),
                    header.codec,
                    header.delete_horizon is not None,
                    header.max_timestamp if records else None,
                    records,
                )
            )
            offset = header.next_offset


@pytest.mark.kafka
async def test_compaction_leaves_the_same_records_as_kafkas_cleaner(fresh: str) -> None:
    with running_kohort(**{name.replace(".", "_"): value for name, value in SOON.items()}) as ours:
        left = await compacted(ours.bootstrap, fresh)
    with running_kafka(SOON) as apache:
        expected = await compacted(apache.bootstrap, fresh)
    assert any(not batch.records for batch in left)
    assert any(batch.has_horizon for batch in left)
    assert left == expected


async def test_every_client_reads_what_is_left(fresh: str) -> None:
    with running_kohort(**{name.replace(".", "_"): value for name, value in SOON.items()}) as broker:
        left = await compacted(broker.bootstrap, fresh)
        expected = [
            (record.offset, record.timestamp, record.key, record.value) for batch in left for record in batch.records
        ]
        end = left[-1].last_offset + 1
        loop = asyncio.get_running_loop()
        read = {
            "librdkafka": await loop.run_in_executor(None, by_librdkafka, broker.bootstrap, fresh),
            "kafka-python": await loop.run_in_executor(None, by_kafka_python, broker.bootstrap, fresh, end),
            "aiokafka": await by_aiokafka(broker.bootstrap, fresh, end),
        }
    assert {client: found == expected for client, found in read.items()} == dict.fromkeys(read, True)


Found = list[tuple[int, int, bytes | None, bytes | None]]


def by_librdkafka(bootstrap: str, topic: str) -> Found:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "check.crcs": True, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: Found = []
    while (message := consumer.poll(20)) is not None and not message.error():
        found.append((message.offset() or 0, message.timestamp()[1], message.key(), message.value()))
    consumer.close()
    return found


def by_kafka_python(bootstrap: str, topic: str, end: int) -> Found:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning()
    found: Found = []
    while consumer.position(place) < end:
        for messages in consumer.poll(1000).values():
            found += [(message.offset, message.timestamp, message.key, message.value) for message in messages]
    consumer.close()
    return found


async def by_aiokafka(bootstrap: str, topic: str, end: int) -> Found:
    place = aiokafka.TopicPartition(topic, 0)
    found: Found = []
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([place])
        await consumer.seek_to_beginning()
        while await consumer.position(place) < end:
            for messages in (await consumer.getmany(timeout_ms=1000)).values():
                found += [(message.offset, message.timestamp, message.key, message.value) for message in messages]
    return found
