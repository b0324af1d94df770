"""Records as Arrow columns: the same ones, in the same order, with the same positions and commits."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from kohort import Producer, TopicPartition, blocking
from kohort.client import ConsumerRecord
from kohort.columns.schema import SCHEMA
from tests.client.conftest import NewTopicName
from tests.client.consume.test_consumer import consumer_of, fill
from tests.interop.broker import Broker


async def test_a_table_has_all_records_of_all_partitions_once(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(3)
    await fill(any_broker.bootstrap, topic, 3_000, 3)
    tables: list[pa.Table] = []
    async with consumer_of(any_broker, topic, group_id=fresh, enable_auto_commit=False) as consumer:
        async with asyncio.timeout(30):
            while sum(table.num_rows for table in tables) < 3_000:
                tables.append(await consumer.poll_arrow(700))
        assert all(table.num_rows <= 700 and table.schema.equals(SCHEMA) for table in tables)
        whole_number = pa.concat_tables(tables)
        assert sorted(int(value or b"") for value in whole_number["value"].to_pylist()) == list(range(3_000))
        for number in range(3):
            own = [row["offset"] for row in whole_number.to_pylist() if row["partition"] == number]
            assert own == list(range(1_000))
        assert (await consumer.poll_arrow(timeout=0.05)).num_rows == 0
        await consumer.commit()
        assert {offset.offset for offset in (await consumer.committed(consumer.assignment)).values() if offset} == {
            1_000
        }


async def test_batches_are_of_one_partition_each(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(2)
    await fill(any_broker.bootstrap, topic, 100, 2)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    async with consumer_of(any_broker) as consumer, asyncio.timeout(30):
        consumer.assign(both)
        seen = dict.fromkeys(both, 0)
        while set(seen.values()) != {50}:
            for partition, records in await consumer.poll_batches():
                assert set(records["partition"].to_pylist()) == {partition.partition}
                assert records["offset"][0].as_py() == seen[partition]
                seen[partition] += records.num_rows
        assert consumer.positions() == seen


@pytest.mark.parametrize("fast", ["0", "1"])
async def test_values_alone_are_those_of_the_records(
    any_broker: Broker, new_topic: NewTopicName, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    monkeypatch.setenv("KOHORT_FAST", fast)
    topic = await new_topic(2)
    here = TopicPartition(topic, 0)
    sent: list[bytes | None] = []
    async with Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=0) as producer:
        for n in range(300):
            value = None if n % 7 == 0 else b"v" * n * (50 if n % 50 == 0 else 1)
            headers = [("h", b"x")] if n > 280 else []
            delivery = await producer.send(topic, value, key=b"k" if n % 3 else None, headers=headers, partition=0)
            if n % 100 == 0:
                await delivery  # ends a batch
            sent.append(value)
        await (await producer.send(topic, b"other", partition=1))
    async with consumer_of(any_broker) as consumer, asyncio.timeout(30):
        consumer.assign([here])
        consumer.seek(here, 3)
        got: list[bytes | None] = []
        while len(got) < 297:
            for partition, values in await consumer.poll_values(40):
                assert partition == here and 0 < len(values) <= 40
                got += values
                assert consumer.positions() == {here: 3 + len(got)}
        assert got == sent[3:]
        assert await consumer.poll_values(timeout=0.05) == []


async def test_values_and_records_may_be_asked_for_in_turns(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    await fill(any_broker.bootstrap, topic, 60, 1)
    async with consumer_of(any_broker) as consumer, asyncio.timeout(30):
        consumer.assign([TopicPartition(topic, 0)])
        for start in range(0, 60, 15):
            [(_, values)] = await consumer.poll_values(5)
            records = await consumer.poll(5)
            table = await consumer.poll_arrow(5)
            assert [int(value or b"") for value in values] == list(range(start, start + 5))
            assert [int(record.value) for record in records] == list(range(start + 5, start + 10))
            assert table["offset"].to_pylist() == list(range(start + 10, start + 15))
        consumer.seek(TopicPartition(topic, 0), 50)
        await consumer.read_ahead()
        [(_, values)] = await consumer.poll_values()
        assert [int(value or b"") for value in values] == list(range(50, 60))


async def test_records_that_were_read_ahead_remain_the_first_when_more_is_read_ahead(
    any_broker: Broker, new_topic: NewTopicName
) -> None:
    topic = await new_topic()
    await fill(any_broker.bootstrap, topic, 60, 1)
    async with consumer_of(any_broker, max_poll_records=7) as consumer, asyncio.timeout(30):
        consumer.assign([TopicPartition(topic, 0)])
        seen: list[int] = []
        while len(seen) < 60:
            assert await consumer.read_ahead(5.0)
            assert await consumer.read_ahead(0.0)
            for _ in range(3):
                if (record := consumer.next_unread()) is not None:
                    seen.append(record.offset)
        assert seen == list(range(60))


async def test_records_and_columns_may_be_asked_for_in_turns(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap, compression_type="lz4") as producer:
        for n in range(50):
            await producer.send(topic, b"%d" % n, headers=[("h", b"x")] if n % 2 else ())
    async with consumer_of(any_broker) as consumer, asyncio.timeout(30):
        consumer.assign([TopicPartition(topic, 0)])
        async for record in consumer:
            if record.offset == 4:
                break
        table = await consumer.poll_arrow(10)  # some of what iterating had read ahead
        assert table["offset"].to_pylist() == list(range(5, 15))
        assert table["headers"].to_pylist() == [[{"key": "h", "value": b"x"}] if n % 2 else None for n in range(5, 15)]
        assert await consumer.position(TopicPartition(topic, 0)) == 15
        assert [record.offset for record in await consumer.poll(5)] == list(range(15, 20))
        offsets: list[int | None] = []
        while len(offsets) < 30:
            offsets += (await consumer.poll_arrow())["offset"].to_pylist()
        assert offsets == list(range(20, 50))


async def test_large_answers_are_unpacked_by_compiled_code_to_the_same_records(
    any_broker: Broker, new_topic: NewTopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await new_topic()
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for n in range(5_000):
            await producer.send(
                topic, b"%d" % n, key=b"%d" % (n % 7) if n % 3 else None, timestamp=1_700_000_000_000 + n
            )
    found = {}
    for fast in ("0", "1"):
        monkeypatch.setenv("KOHORT_FAST", fast)
        records: list[ConsumerRecord] = []
        async with consumer_of(any_broker) as consumer, asyncio.timeout(60):
            consumer.assign([TopicPartition(topic, 0)])
            while len(records) < 5_000:
                records += await consumer.poll()
        found[fast] = records
    assert found["0"] == found["1"]
    assert [int(record.value or b"") for record in found["1"]] == list(range(5_000))


def test_the_blocking_face_gives_columns(kohort_broker: Broker, fresh: str) -> None:
    with blocking.Producer(bootstrap_servers=kohort_broker.bootstrap) as producer:
        for n in range(10):
            producer.send(fresh, b"%d" % n)
        producer.flush()
    with blocking.Consumer(bootstrap_servers=kohort_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(fresh, 0)])
        rows = 0
        while rows < 10:
            rows += consumer.poll_arrow().num_rows
        consumer.seek(TopicPartition(fresh, 0), 9)
        [(partition, records)] = consumer.poll_batches(timeout=10.0)
        assert (partition, records["value"].to_pylist()) == (TopicPartition(fresh, 0), [b"9"])
