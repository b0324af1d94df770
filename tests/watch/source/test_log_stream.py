"""The stream of a log: how it reads a long history."""

from __future__ import annotations

import pytest

from kohort import Admin, ConsumerRecord, Producer, TopicPartition
from kohort.testing import Workspace
from kohort.watch.source.clients import columns_are_installed
from kohort.watch.source.log_stream import LogStream

RECORDS = 100_000
"""Number from which a history is read as columns."""


@pytest.mark.skipif(not columns_are_installed(), reason="columns need the extra `fast`")
async def test_a_long_history_is_read_as_columns_to_its_end_though_the_broker_pauses(kohort: Workspace) -> None:
    topic, options = kohort.topic("log"), {"bootstrap_servers": kohort.bootstrap_servers}
    async with Producer(bootstrap_servers=kohort.bootstrap_servers, linger_ms=50) as producer:
        for _ in range(RECORDS):
            last = await producer.send(topic, b"value")
        await last
    async with Admin(bootstrap_servers=kohort.bootstrap_servers) as admin:
        stream = LogStream(topic, options, admin)
        try:
            with kohort.fault(keys="Fetch", topic=topic, hold=True, count=-1):
                assert await stream.open(0)
                assert await stream.read_columns(1_000, 0.1) == []
            read = 0
            while read < RECORDS:
                assert stream.has_much()
                read += sum(batch.records.num_rows for batch in await stream.read_columns(30_000, 5.0))
            assert not stream.has_much()
        finally:
            await stream.close()


async def test_new_partitions_are_read_from_their_beginning_once(kohort: Workspace) -> None:
    topic, options = kohort.topic("log", partitions=1), {"bootstrap_servers": kohort.bootstrap_servers}
    async with Admin(bootstrap_servers=kohort.bootstrap_servers) as admin:
        stream = LogStream(topic, options, admin)
        try:
            assert await stream.open(None)
            await admin.create_partitions(topic, 2)
            async with Producer(bootstrap_servers=kohort.bootstrap_servers) as producer:
                await (await producer.send(topic, b"value", partition=1))
            await stream.add_partitions()
            assert dict(await stream.ends()) == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 1}
            read: list[ConsumerRecord] = []
            while not read:
                read += await stream.read(10, 1.0)
            await stream.add_partitions()
            assert await stream.read(10, 0.1) == []
            assert [(record.partition, record.offset) for record in read] == [(1, 0)]
            assert not stream.behind(await stream.ends())
        finally:
            await stream.close()
