"""A log that lost records which a consumer has read: it notices by the leader's epoch (KIP-320), and says so."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, TopicPartition
from kohort.client import LogTruncatedError
from kohort.testing import Broker
from tests.client.consume.test_consumer import take
from tests.interop.kafka import free_ports

HERE = TopicPartition("t", 0)


class Disk:
    """A directory with the topic t and five records, of which there is a backup."""

    def __init__(self, tmp_path: Path) -> None:
        self.data, self.backup = tmp_path / "data", tmp_path / "backup"
        (self.port,) = free_ports(1)
        with self.broker(topics={"t": 1}) as broker:
            broker.topic("t").produce(*map(str, range(5)))
        shutil.copytree(self.data, self.backup)

    def broker(self, **options: Any) -> Broker:
        return Broker(data=self.data, port=self.port, **options)

    def restore(self) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(self.backup, self.data)
        # The broker counts epochs on the disk: one more life, or it would lead in the epoch of what was lost.
        with self.broker():
            pass

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        given = {"auto_offset_reset": "earliest", "retry_backoff_max_ms": 100, **options}
        return Consumer(*topics, bootstrap_servers=f"127.0.0.1:{self.port}", **given)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def write_new(broker: Broker) -> None:
    broker.topic("t").produce(*(f"new {n}" for n in range(7)))


async def read_ten_and_lose_five(disk: Disk, policy: str) -> Consumer:
    """A consumer that has read ten records; after a restore, the broker has five of them."""
    async with disk.broker() as first:
        first.topic("t").produce(*map(str, range(5, 10)))
        consumer = disk.consumer(auto_offset_reset=policy)
        consumer.assign([HERE])
        consumer.seek(HERE, 0)
        assert [record.value for record in await take(consumer, 10)] == [b"%d" % n for n in range(10)]
    disk.restore()
    return consumer


async def test_with_a_policy_it_returns_to_where_the_logs_diverge(disk: Disk) -> None:
    consumer = await read_ten_and_lose_five(disk, "latest")
    async with disk.broker() as again:
        # Without the epoch it would go on at offset 10, and never see the first five of these.
        write_new(again)
        records = await take(consumer, 7)
        assert [(record.offset, record.value) for record in records] == [(5 + n, b"new %d" % n) for n in range(7)]
        await consumer.close()


async def test_without_a_policy_it_is_an_error_until_somebody_seeks(disk: Disk) -> None:
    consumer = await read_ten_and_lose_five(disk, "none")
    async with disk.broker() as again:
        write_new(again)
        for _ in range(2):
            with pytest.raises(LogTruncatedError, match="Seek to continue") as raised:
                await take(consumer, 1)
            assert (raised.value.partition, raised.value.position, raised.value.end) == (HERE, 10, 5)
        consumer.seek(HERE, 5)
        assert (await take(consumer, 7))[0].value == b"new 0"
        await consumer.close()


async def test_a_committed_offset_is_checked_too(disk: Disk) -> None:
    async with disk.broker() as first:
        first.topic("t").produce(*map(str, range(5, 10)))
        async with Admin(bootstrap_servers=first.bootstrap_servers) as admin:
            async with disk.consumer("t", group_id="g") as consumer:
                await take(consumer, 10)
                await consumer.commit()
            committed = await admin.group_offsets("g")
    disk.restore()
    async with disk.broker() as again:
        write_new(again)
        async with Admin(bootstrap_servers=again.bootstrap_servers) as admin:
            # The group's offsets were on another disk.
            await admin.alter_group_offsets("g", {partition: at for partition, at in committed.items() if at})
        async with disk.consumer("t", group_id="g") as consumer, asyncio.timeout(20):
            assert [record.value for record in await take(consumer, 7)] == [b"new %d" % n for n in range(7)]


async def test_a_broker_that_comes_back_with_everything_changes_nothing(disk: Disk) -> None:
    consumer = disk.consumer(auto_offset_reset="none")
    async with disk.broker():
        consumer.assign([HERE])
        consumer.seek(HERE, 0)
        await take(consumer, 5)
    async with disk.broker() as again:
        again.topic("t").produce("5")
        assert [record.offset for record in await take(consumer, 1)] == [5]
        await consumer.close()
