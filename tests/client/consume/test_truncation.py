"""A log that lost records which a consumer has read: it notices by the leader's epoch (KIP-320), and says so."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, NewTopic, Producer, TopicPartition
from kohort.client import LogTruncatedError
from tests.client.consume.test_consumer import consumer_of, fill, take
from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort_to_kill, running_kohort

HERE = TopicPartition("t", 0)


class Restored:
    """A broker on a directory with a backup from before the last five records."""

    def __init__(self, tmp_path: Path) -> None:
        self.data, self.backup = tmp_path / "data", tmp_path / "backup"
        (port,) = free_ports(1)
        self.options = ("--data", str(self.data), "--listen", f"127.0.0.1:{port}")

    async def prepare(self) -> None:
        with running_kohort(*self.options) as broker:
            async with Admin(bootstrap_servers=broker.bootstrap) as admin:
                await admin.create_topics([NewTopic("t", 1)])
            await fill(broker.bootstrap, "t", 5)
        shutil.copytree(self.data, self.backup)

    def restore(self) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(self.backup, self.data)
        # The broker counts epochs on the disk: one more life, or it would lead in the epoch of what was lost.
        with running_kohort(*self.options):
            pass


@pytest.fixture
async def disk(tmp_path: Path) -> Restored:
    made = Restored(tmp_path)
    await made.prepare()
    return made


async def write(bootstrap: str, *values: bytes) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send("t", value)


async def read_ten_and_lose_five(disk: Restored, policy: str) -> tuple[Consumer, str]:
    """A consumer that has read ten records; after a restore, the broker has five of them and seven others."""
    with kohort_to_kill(*disk.options) as first:
        await write(first.bootstrap, *(b"%d" % n for n in range(5, 10)))
        consumer = consumer_of(first, auto_offset_reset=policy, retry_backoff_max_ms=100)
        consumer.assign([HERE])
        consumer.seek(HERE, 0)
        assert [record.value for record in await take(consumer, 10)] == [b"%d" % n for n in range(10)]
    disk.restore()
    return consumer, first.bootstrap


async def test_with_a_policy_it_returns_to_where_the_logs_diverge(disk: Restored) -> None:
    consumer, bootstrap = await read_ten_and_lose_five(disk, "latest")
    with running_kohort(*disk.options):
        # Without the epoch it would go on at offset 10, and never see the first five of these.
        await write(bootstrap, *(b"new %d" % n for n in range(7)))
        records = await take(consumer, 7)
        assert [(record.offset, record.value) for record in records] == [(5 + n, b"new %d" % n) for n in range(7)]
        await consumer.close()


async def test_without_a_policy_it_is_an_error_until_somebody_seeks(disk: Restored) -> None:
    consumer, bootstrap = await read_ten_and_lose_five(disk, "none")
    with running_kohort(*disk.options):
        await write(bootstrap, *(b"new %d" % n for n in range(7)))
        for _ in range(2):
            with pytest.raises(LogTruncatedError, match="Seek to continue") as raised:
                await take(consumer, 1)
            assert (raised.value.partition, raised.value.position, raised.value.end) == (HERE, 10, 5)
        consumer.seek(HERE, 5)
        assert (await take(consumer, 7))[0].value == b"new 0"
        await consumer.close()


async def test_a_committed_offset_is_checked_too(disk: Restored) -> None:
    options: dict[str, Any] = {"group_id": "g"}
    with running_kohort(*disk.options, group_initial_rebalance_delay_ms="0") as first:
        await write(first.bootstrap, *(b"%d" % n for n in range(5, 10)))
        async with Admin(bootstrap_servers=first.bootstrap) as admin:
            async with consumer_of(first, "t", **options) as consumer:
                await take(consumer, 10)
                await consumer.commit()
            committed = await admin.group_offsets("g")
    disk.restore()
    with running_kohort(*disk.options, group_initial_rebalance_delay_ms="0") as again:
        await write(again.bootstrap, *(b"new %d" % n for n in range(7)))
        async with Admin(bootstrap_servers=again.bootstrap) as admin:
            # The group's offsets were on another disk.
            await admin.alter_group_offsets("g", {partition: at for partition, at in committed.items() if at})
        async with consumer_of(again, "t", **options) as consumer, asyncio.timeout(20):
            assert [record.value for record in await take(consumer, 7)] == [b"new %d" % n for n in range(7)]


async def test_a_broker_that_comes_back_with_everything_changes_nothing(disk: Restored) -> None:
    with kohort_to_kill(*disk.options) as first:
        consumer = consumer_of(first, retry_backoff_max_ms=100, auto_offset_reset="none")
        consumer.assign([HERE])
        consumer.seek(HERE, 0)
        await take(consumer, 5)
    with running_kohort(*disk.options) as again:
        await write(again.bootstrap, b"5")
        assert [record.offset for record in await take(consumer, 1)] == [5]
        await consumer.close()
