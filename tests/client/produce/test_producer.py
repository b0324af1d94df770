"""Records that are sent are written, once and in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kohort import Admin, ConfigError, Consumer, ErrorCode, KafkaError, NewTopic, Producer, TopicPartition, testing
from kohort.client import BufferFullError, ClosedError, ConsumerRecord, DeliveryFailedError, InvalidRecordError
from tests.client.conftest import NewTopicName
from tests.interop.broker import Broker
from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort_to_kill, running_kohort


async def read(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    """Return the first `count` records of a topic."""
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        number = await consumer.partitions_for(topic)
        consumer.assign(TopicPartition(topic, n) for n in range(number))
        records: list[ConsumerRecord] = []
        async with asyncio.timeout(20):
            while len(records) < count:
                records += await consumer.poll()
        return records


@pytest.mark.parametrize("compression_type", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_sent_records_can_be_read(any_broker: Broker, new_topic: NewTopicName, compression_type: str) -> None:
    topic = await new_topic(2)
    async with Producer(bootstrap_servers=any_broker.bootstrap, compression_type=compression_type) as producer:
        sent = await producer.send(
            topic, b"value", key=b"key", timestamp=1_790_000_000_000, headers=[("h", b"1"), ("n", None)], partition=1
        )
        written = await sent
        assert written[:3] == (topic, 1, 0)
        tombstone = await (await producer.send(topic, None, partition=1))
        assert (tombstone.offset, tombstone.timestamp) == (1, None)
    first, second = await read(any_broker.bootstrap, topic, 2)
    assert first[:6] == (topic, 1, 0, 1_790_000_000_000, b"key", b"value")
    assert list(first.headers) == [("h", b"1"), ("n", None)]
    assert (second.key, second.value) == (None, None)


async def test_many_records_arrive_once_and_in_order(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(3)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        sent = [await producer.send(topic, b"%d" % n, key=b"%d" % (n % 20)) for n in range(20_000)]
        await producer.flush()
        assert all(delivery.done() for delivery in sent)
        offsets = {(delivery.result().partition, delivery.result().offset) for delivery in sent}
    assert len(offsets) == 20_000
    records = await read(any_broker.bootstrap, topic, 20_000)
    by_key: dict[bytes | None, list[int]] = {}
    for record in records:
        assert record.value is not None
        by_key.setdefault(record.key, []).append(int(record.value))
    assert all(values == sorted(values) for values in by_key.values())
    assert sum(map(len, by_key.values())) == len(records) == 20_000


async def test_values_alone_arrive_once_and_in_order(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(2)
    values = [b"%d" % n for n in range(30_000)]
    async with Producer(bootstrap_servers=any_broker.bootstrap, buffer_memory=200_000) as producer:
        await producer.ready(topic)
        sent = await producer.send_values(topic, values, partition=1)
        sent += await producer.send_values(topic, [b"x" * 100_000, b""], partition=1)
        assert await producer.send_values(topic, []) == []
        await producer.flush()
        assert [delivery.result().offset for _, delivery in sent][-1] == 30_001
    assert sum(count for count, _ in sent) == 30_002
    records = await read(any_broker.bootstrap, topic, 30_002)
    assert [record.value for record in records] == [*values, b"x" * 100_000, b""]
    assert {(record.partition, record.key, *record.headers) for record in records} == {(1, None)}


async def test_values_that_cannot_be_sent_leave_nothing_queued(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(1)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.send_values(topic, [b"a", b"x" * 2_000_000])
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send_values(topic, [b"a"] * 10_000, partition=3)
        with pytest.raises(InvalidRecordError, match="takes a list of bytes"):
            await producer.send_values(topic, [b"a", "b"])  # type: ignore[list-item]
        assert (await (await producer.send(topic, b"first"))).offset == 0


async def test_pairs_go_where_their_keys_belong_in_order(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic, other = await new_topic(3), await new_topic(1)
    keys, values = [b"%d" % (n % 50) for n in range(20_000)], [b"%d" % n for n in range(20_000)]
    async with Producer(bootstrap_servers=any_broker.bootstrap, buffer_memory=200_000) as producer:
        sent = await producer.send_pairs(topic, keys, values)
        alone = [await producer.send(topic, b"alone", key=key) for key in keys[:50]]
        assert await producer.send_pairs(topic, [], []) == []
        fixed = await producer.send_pairs(other, keys[:10], values[:10], partition=0)
        await producer.flush()
        place = {key: delivery.result().partition for key, delivery in zip(keys, alone, strict=False)}
        assert [count for count, _ in fixed] == [10]
        assert {delivery.result().offset for _, delivery in fixed} == {9}
    assert sum(count for count, _ in sent) == 20_000
    records = await read(any_broker.bootstrap, topic, 20_050)
    by_key = {key: [record.value for record in records if record.key == key][:-1] for key in place}
    assert by_key == {key: values[number::50] for number, key in enumerate(keys[:50])}
    assert all(record.partition == place[record.key] for record in records)


async def test_pairs_that_cannot_be_sent_leave_nothing_queued(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(1)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.send_pairs(topic, [b"a", b"k" * 1_000_000], [b"a", b"x" * 1_000_000])
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send_pairs(topic, [b"k"] * 10_000, [b"a"] * 10_000, partition=3)
        with pytest.raises(InvalidRecordError, match="takes lists of bytes"):
            await producer.send_pairs(topic, ["k"], [b"a"])  # type: ignore[list-item]
        with pytest.raises(InvalidRecordError, match="as many keys as values, not 1 and 2"):
            await producer.send_pairs(topic, [b"k"], [b"a", b"b"])
        assert (await (await producer.send(topic, b"first"))).offset == 0


async def test_batches_leave_when_they_have_lingered(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=50) as producer:
        first = await producer.send(topic, b"1")
        second = await producer.send(topic, b"2")
        assert not first.done()
        assert [(await first).offset, (await second).offset] == [0, 1]
        heard: list[int] = []
        third = await producer.send(topic, b"3")
        third.add_done_callback(lambda delivery: heard.append(delivery.result().offset))
        await third
        await asyncio.sleep(0)
        assert heard == [2]


@pytest.mark.parametrize("acks", [0, 1])
async def test_weaker_acknowledgements(any_broker: Broker, new_topic: NewTopicName, acks: int) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap, acks=acks, enable_idempotence=False) as producer:
        written = await (await producer.send(topic, b"x"))
    assert written.offset == (-1 if acks == 0 else 0)
    assert len(await read(any_broker.bootstrap, topic, 1)) == 1


async def test_a_full_buffer_makes_send_wait(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap, buffer_memory=50_000) as producer:
        with pytest.raises(BufferFullError, match="ready"):
            producer.send_nowait(topic, b"x")
        await producer.ready(topic)
        refused = 0
        for _ in range(200):
            try:
                producer.send_nowait(topic, bytes(1000))
            except BufferFullError:
                refused += 1
                await producer.ready(topic)
        assert refused > 0
        for _ in range(200):
            last = await producer.send(topic, bytes(1000))
        assert (await last).offset == 400 - refused - 1


async def test_records_that_can_never_be_sent_are_rejected_at_once(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap, max_request_size=1000) as producer:
        with pytest.raises(KafkaError) as raised:
            await producer.send(topic, bytes(1000))
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(KafkaError, match="has only partition 0, not 5"):
            await producer.send(topic, b"x", partition=5)
        with pytest.raises(TypeError):
            await producer.send(topic, "text")
        assert (await (await producer.send(topic, b"x"))).offset == 0


async def test_a_batch_that_the_broker_refuses_fails_alone(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(max_message_bytes="500")
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        large = await producer.send(topic, bytes(1000))
        with pytest.raises(KafkaError) as raised:
            await large
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert [(await (await producer.send(topic, b"x"))).offset for _ in range(3)] == [0, 1, 2]


async def test_a_topic_that_does_not_exist(any_broker: Broker, fresh: str) -> None:
    at = any_broker.bootstrap
    async with Producer(bootstrap_servers=at, max_block_ms=500, allow_auto_create_topics=False) as producer:
        with pytest.raises(KafkaError) as raised:
            await producer.send(fresh, b"x")
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_no_broker_listens() -> None:
    async with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=300) as producer:
        with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1|no room"):
            await producer.send("t", b"x")


async def test_a_closed_producer_takes_nothing(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    producer = Producer(bootstrap_servers=any_broker.bootstrap)
    sent = await producer.send(topic, b"x")
    await producer.close()
    await producer.close()
    assert sent.result().offset == 0
    with pytest.raises(ClosedError):
        await producer.send(topic, b"x")


async def test_an_error_in_the_block_does_not_wait_for_deliveries(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    with pytest.raises(ZeroDivisionError):
        async with Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=60_000) as producer:
            sent = await producer.send(topic, b"x")
            raise ZeroDivisionError
    with pytest.raises(KafkaError) as raised:
        sent.result()
    assert raised.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED


def test_idempotence_needs_all_acknowledgements() -> None:
    async def make() -> None:
        Producer(bootstrap_servers="127.0.0.1:1", acks=1, enable_idempotence=True)

    with pytest.raises(ConfigError, match="needs acks=all"):
        asyncio.run(make())


async def test_nothing_is_lost_or_doubled_over_the_death_of_a_broker(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    broker = ("--data", str(tmp_path), "--listen", address)
    with kohort_to_kill(*broker) as first:
        async with Admin(bootstrap_servers=address) as admin:
            await admin.create_topics([NewTopic("t", 3)])
        producer = Producer(bootstrap_servers=address)
        sent = [await producer.send("t", b"%d" % n, key=b"%d" % n) for n in range(2_000)]
        await sent[500]
        first.process.kill()
    sent += [await producer.send("t", b"%d" % n, key=b"%d" % n) for n in range(2_000, 4_000)]
    with running_kohort(*broker):
        await producer.close()
        written = {(delivery.result().partition, delivery.result().offset) for delivery in sent}
        records = await read(address, "t", 4_000)
    assert len(written) == 4_000
    assert sorted(int(record.value or b"") for record in records) == list(range(4_000))


async def test_without_a_broker_records_fail_when_their_time_is_over() -> None:
    async with testing.Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=400)
        assert (await (await producer.send("t", b"x"))).offset == 0
    late = [await producer.send("t", b"y") for _ in range(3)]
    async with asyncio.timeout(5):
        with pytest.raises(DeliveryFailedError, match="3 records were not written"):
            await producer.flush()
    for delivery in late:
        with pytest.raises(KafkaError) as raised:
            await delivery
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
    unsent = await producer.send("t", b"z")
    async with asyncio.timeout(5):
        await producer.close(timeout=0.1)
    with pytest.raises(KafkaError):
        unsent.result()
