"""Partitions that are fetched next while other fetches return nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from kohort import Consumer, TopicPartition
from kohort.client import Cluster
from kohort.client.consume.fetcher import Fetcher
from kohort.client.options import ConsumerOptions
from kohort.log.memory import MemoryMedium
from kohort.testing import Broker
from kohort.wire.batches import BatchError
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.client.conftest import broker_with, eventually


def consumer_of(broker: Broker, **options: Any) -> Consumer:
    return Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **options)


async def test_fetches_that_only_repeat_themselves_leave_room_for_a_partition_that_was_drained() -> None:
    # There are two fetches at a broker. Each of them repeats itself for as long as it brings nothing and nothing
    # changes, so that with both at quiet partitions a third would never be fetched again.
    full, quiet, other = (TopicPartition("t", number) for number in range(3))
    sizes: dict[str, Any] = {"max_partition_fetch_bytes": 1, "fetch_max_wait_ms": 20}
    async with broker_with(0, partitions=3) as broker:
        for number in range(3):  # each in its own batch; a fetch returns one batch
            broker.topic("t").produce(str(number), partition=full.partition)
        async with consumer_of(broker, **sizes) as consumer:
            consumer.assign([full])
            await eventually(lambda: consumer.lag(full) == 3)  # fetched: no more of it until it is taken
            for partition in (quiet, other):
                consumer.incremental_assign([partition])
                await eventually(lambda at=partition: at in consumer.positions())  # type: ignore[misc]
                await broker.fault(keys="Fetch", observe=True, count=-1).wait_async(hits=11)
            async with asyncio.timeout(10):
                values = [record.value for _ in range(3) for record in await consumer.poll(timeout=5.0)]
    assert values == [b"0", b"1", b"2"]


async def test_a_damaged_batch_keeps_no_other_partition_from_being_read() -> None:
    damaged, sound = TopicPartition("t", 0), TopicPartition("t", 1)
    async with broker_with(2, partitions=2) as broker:
        topic_id = broker.topic("t").topic_id
        medium = broker.node.store.partition(topic_id, 0).segments[0].medium  # type: ignore[attr-defined]
        assert isinstance(medium, MemoryMedium)
        medium._data[-2] ^= 1
        async with consumer_of(broker) as consumer:
            consumer.assign([damaged, sound])
            await eventually(lambda: consumer.lags() == {damaged: 1, sound: 1})
            with pytest.raises(BatchError, match="seek past it"):
                await consumer.poll()
            (record,) = await consumer.poll()
            assert (record.partition, record.value) == (1, b"1")
            for _ in range(2):  # and the application gets the error as long as it does nothing about it
                with pytest.raises(BatchError, match="seek past it"):
                    await consumer.poll()


def led_since(epoch: int) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=epoch, replica_nodes=[1], isr_nodes=[1]
    )
    return MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name="t", partitions=[partition])])


async def test_a_fetch_that_waits_for_its_connection_asks_for_the_leader_that_was_checked() -> None:
    # Metadata of a new leader may arrive while the request waits. Were its epoch in the request, the new leader would
    # be read from before anybody knows whether its log has what was read before (KIP-320).
    async with Cluster.of("127.0.0.1:1") as cluster:
        options = ConsumerOptions.read({"bootstrap_servers": "127.0.0.1:1"})
        fetcher = Fetcher(cluster, options, lambda: None, lambda: None, lambda partition: None)
        (state,) = fetcher.add([TopicPartition("t", 0)])
        state.move(5, 3)
        cluster._refresher.metadata = cluster.metadata.merged(led_since(3))
        (asked,) = fetcher._asked((1, 0), [state]).values()
        cluster._refresher.metadata = cluster.metadata.merged(led_since(4))
        assert fetcher._wanted(asked).leader_epoch == 3
        assert fetcher.must_check(state)
        await fetcher.close()


async def test_no_partition_waits_until_the_backlog_of_another_is_read() -> None:
    # A partition that is refilled while the application works on it is never empty.
    async with broker_with(0, partitions=3) as broker:
        for _ in range(100):
            broker.topic("t").produce(*["x" * 100] * 60)  # batches of 20 records; a fetch returns four
        async with consumer_of(broker, max_partition_fetch_bytes=10_000) as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(3)])
            await eventually(lambda: all(consumer.lag(TopicPartition("t", number)) for number in range(3)))
            counted: Counter[int] = Counter()
            while counted.total() < 3_000:
                counted.update(record.partition for record in await consumer.poll(20))
                await asyncio.sleep(0.001)  # the application's work, while more is fetched
    assert min(counted[number] for number in range(3)) > 700
