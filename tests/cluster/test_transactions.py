"""Transactions whose coordinator and partitions are on several brokers, which die between two steps."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from kohort import (
    Admin,
    Consumer,
    NewTopic,
    Producer,
    TopicPartition,
    TransactionAbortableError,
    TransactionTimeoutError,
)
from kohort.broker.groups.coordinator import group_partition
from kohort.log.cluster.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.cluster.conftest import RunningCluster, StartCluster
from tests.interop.process import until

PATIENCE_S = 60.0
PARTITIONS = 6
GROUP = "readers"
NAMES = ["tx0", "tx1", "tx2"]


def leader(cluster: RunningCluster, topic: str, partition: int) -> int:
    image = cluster.image
    found = image.named(topic)
    assert found is not None
    return image.leaders[found.topic_id][partition].node_id


def coordinator(cluster: RunningCluster, transactional_id: str) -> int:
    return leader(cluster, TRANSACTIONS_TOPIC, group_partition(transactional_id, 50))


class Copier:
    """A producer that writes each number to all partitions, and commits it as an offset, in one transaction.

    It aborts a transaction before every third one, and begins again what fails.
    """

    def __init__(self, producer: Producer, name: str) -> None:
        self.producer, self.name = producer, name
        self.done = 0

    async def run(self, numbers: int) -> None:
        await self._insist(self.producer.init_transactions)
        for number in range(numbers):
            if number % 3 == 0:
                await self._write(number, b"aborted", 999_999, self.producer.abort_transaction)
            await self._write(number, f"{self.name}-{number}".encode(), number, self.producer.commit_transaction)
            self.done = number + 1

    async def _write(self, number: int, value: bytes, offset: int, end: Callable[[], Awaitable[None]]) -> None:
        while True:
            self.producer.begin_transaction()
            try:
                for partition in range(PARTITIONS):
                    await self.producer.send("t", value, partition=partition)
                offsets = {TopicPartition("t", 0): offset}
                await self._insist(lambda: self.producer.send_offsets_to_transaction(offsets, GROUP))  # noqa: B023
                await self.producer.flush()
                await self._insist(end)
                return
            except TransactionAbortableError:
                await self._insist(self.producer.abort_transaction)

    async def _insist(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
                return
            except TransactionTimeoutError:  # call it again
                pass


async def committed(cluster: RunningCluster) -> list[list[str]]:
    """Return the values of each partition for read_committed."""
    found: list[list[str]] = []
    async with Consumer(
        bootstrap_servers=cluster.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        for number in range(PARTITIONS):
            here = TopicPartition("t", number)
            consumer.assign([here])
            end = (await consumer.end_offsets([here]))[here]
            values: list[str] = []
            while await consumer.position(here) < end:
                values += [(record.value or b"").decode() for record in await consumer.poll(timeout=0.1)]
            found.append(values)
    return found


async def check(cluster: RunningCluster, numbers: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        seen = await committed(cluster)
        while min(map(len, seen)) < numbers * len(NAMES):  # the last markers are on their way
            seen = await committed(cluster)
    for values in seen:
        for name in NAMES:
            own = [value for value in values if value.startswith(name)]
            assert own == [f"{name}-{number}" for number in range(numbers)]
        assert len(values) == numbers * len(NAMES)
    async with Consumer(bootstrap_servers=cluster.bootstrap, group_id=GROUP) as consumer:
        here = TopicPartition("t", 0)
        offset = (await consumer.committed([here]))[here]
        assert offset is not None
        assert offset.offset == numbers - 1


async def copying(cluster: RunningCluster, numbers: int, meanwhile: Callable[[list[Copier]], None]) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic("t", PARTITIONS, 1)])
    producers = [
        Producer(bootstrap_servers=cluster.bootstrap, transactional_id=name, transaction_timeout_ms=30_000)
        for name in NAMES
    ]
    copiers = [Copier(producer, name) for producer, name in zip(producers, NAMES, strict=True)]
    tasks = [asyncio.create_task(copier.run(numbers)) for copier in copiers]
    await asyncio.to_thread(meanwhile, copiers)
    await asyncio.gather(*tasks)
    for producer in producers:
        await producer.close()
    await check(cluster, numbers)


VERSIONS = pytest.mark.parametrize("version", ["1", "2"])


@VERSIONS
async def test_a_transaction_spans_brokers(start_over_either: StartCluster, version: str) -> None:
    def look(copiers: list[Copier]) -> None:
        until(PATIENCE_S, "some are copied", lambda: all(copier.done for copier in copiers))
        assert len({coordinator(cluster, name) for name in NAMES}) > 1, "choose other names"
        assert len({leader(cluster, "t", partition) for partition in range(PARTITIONS)}) == 3

    with start_over_either(transaction_version=version) as cluster:
        cluster.whole(3, PATIENCE_S)
        await copying(cluster, 10, look)


VICTIMS: dict[str, Callable[[RunningCluster], int]] = {
    "coordinator": lambda cluster: coordinator(cluster, "tx0"),
    "leader": lambda cluster: leader(cluster, "t", 0),
    "group": lambda cluster: leader(cluster, OFFSETS_TOPIC, group_partition(GROUP, 9)),
}


_MORE = pytest.mark.long("the same with another broker killed, or the other version")
DEATHS = [
    pytest.param(victim, version, marks=() if (victim, version) in {("coordinator", "2"), ("leader", "2")} else _MORE)
    for victim in VICTIMS
    for version in ("1", "2")
]


@pytest.mark.parametrize(("victim", "version"), DEATHS)
async def test_transactions_survive_a_killed_broker(start_over_either: StartCluster, victim: str, version: str) -> None:
    def kill(copiers: list[Copier]) -> None:
        for at in (5, 25):
            until(PATIENCE_S, "some are copied", lambda: copiers[0].done >= at)  # noqa: B023
            node = VICTIMS[victim](cluster)
            before = cluster.process_id(node)
            cluster.signal(node, signal.SIGKILL)
            cluster.came_back(node, before)

    with start_over_either("--restart", transaction_version=version) as cluster:
        await copying(cluster, 60, kill)
