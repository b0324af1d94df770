"""Records of transactions: with read_committed, none of an aborted one, and nothing beyond one that is open."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer as TransactionalProducer

from kohort import Admin, Consumer, NewTopic, TopicPartition
from kohort.client import ConsumerRecord
from tests.interop.broker import Broker

pytestmark = pytest.mark.interop

ISOLATIONS = ("read_committed", "read_uncommitted")
PADDING = b"." * 1000  # so that the answer is large enough for compiled code


def write(bootstrap: str, topic: str) -> None:
    """Four transactions of 20 records: aborted, committed, aborted, and one that stays open."""
    for number, ending in enumerate(("abort", "commit", "abort", "open")):
        producer = TransactionalProducer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}"})
        producer.init_transactions(20)
        producer.begin_transaction()
        for n in range(20):
            producer.produce(topic, b"%s %d" % (ending.encode(), n) + PADDING, partition=0)
        assert producer.flush(20) == 0
        if ending == "abort":
            producer.abort_transaction(20)
        elif ending == "commit":
            producer.commit_transaction(20)


@pytest.mark.parametrize("fast", ["0", "1"])
async def test_only_what_was_committed_is_read(
    any_broker: Broker, fresh: str, fast: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOHORT_FAST", fast)
    here = TopicPartition(fresh, 0)
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(fresh, 1)])
        await asyncio.to_thread(write, any_broker.bootstrap, fresh)
        [active] = [
            producer
            for producer in (await admin.describe_producers([here]))[here]
            if producer.transaction_start is not None
        ]
    committed = await read(any_broker, here, "read_committed")
    every = await read(any_broker, here, "read_uncommitted")
    assert [kind(record) for record in committed] == ["commit"] * 20
    endings = ("abort", "commit", "abort", "open")
    assert [kind(record) for record in every] == [ending for ending in endings for _ in range(20)]
    assert active.transaction_start == every[60].offset
    times = {isolation: await at_time(any_broker, here, every[-1].timestamp, isolation) for isolation in ISOLATIONS}
    assert times == {"read_committed": None, "read_uncommitted": every[-1].timestamp}


async def test_columns_and_values_have_what_was_committed(any_broker: Broker, fresh: str) -> None:
    here = TopicPartition(fresh, 0)
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(fresh, 1)])
    await asyncio.to_thread(write, any_broker.bootstrap, fresh)
    reading = Consumer(
        bootstrap_servers=any_broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    async with reading as consumer, asyncio.timeout(60):
        consumer.assign([here])
        end = (await consumer.end_offsets([here]))[here]
        rows: list[bytes | None] = []
        while await consumer.position(here) < end:
            rows += (await consumer.poll_arrow(timeout=0.1)).column("value").to_pylist()
        assert [(value or b"").split()[0] for value in rows] == [b"commit"] * 20
        assert consumer.lag(here) == 0
        consumer.seek(here, 0)
        values: list[bytes | None] = []
        while await consumer.position(here) < end:
            values += [value for run in await consumer.poll_values(timeout=0.1) for value in run.values]
        assert values == rows


async def at_time(broker: Broker, partition: TopicPartition, at: int, isolation: str) -> int | None:
    """Time of the first record from that time on that this isolation has."""
    async with Consumer(bootstrap_servers=broker.bootstrap, isolation_level=isolation) as consumer:
        found = (await consumer.offsets_for_times({partition: at}))[partition]
        return None if found is None else found.timestamp


async def read(broker: Broker, partition: TopicPartition, isolation: str) -> list[ConsumerRecord]:
    """All that there is to read; the position is then at the end that this isolation has."""
    reading = Consumer(bootstrap_servers=broker.bootstrap, isolation_level=isolation, auto_offset_reset="earliest")
    async with reading as consumer, asyncio.timeout(30):
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        records: list[ConsumerRecord] = []
        while await consumer.position(partition) < end:
            records += await consumer.poll(timeout=0.1)
        assert consumer.lag(partition) == 0
        return records


def kind(record: ConsumerRecord) -> str:
    return (record.value or b"").split()[0].decode()
