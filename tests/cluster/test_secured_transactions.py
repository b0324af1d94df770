"""Transactions of a cluster whose brokers connect to each other with TLS and SASL, and need a permission there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kohort import Consumer, ErrorCode, KafkaError, Producer, TopicPartition
from kohort.broker import Broker
from kohort.log.cluster import Placement
from kohort.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.cluster.test_inter_broker import secured
from tests.cluster.test_shared_broker import leaders, so, two_brokers

CLUSTER_ACTION = Acl(
    ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL),
    "User:broker",
    "*",
    Operation.CLUSTER_ACTION,
    Permission.ALLOW,
)
DENIED = "does not let this broker take part in transactions"
GROUP = "g"


class Secured:
    """Two brokers, and a producer whose transactions reach over both."""

    def __init__(self, brokers: tuple[Broker, Broker], producer: Producer) -> None:
        self.brokers = brokers
        self.producer = producer
        self.bootstrap = address(brokers[0])

    async def allow(self) -> None:
        """Give the brokers' principal its permission, and wait until both know."""
        access = self.brokers[0].access_control
        assert access is not None
        access.add([CLUSTER_ACTION])
        await so(lambda: all(found(one) == (CLUSTER_ACTION,) for one in self.brokers))

    async def forbid(self) -> None:
        access = self.brokers[0].access_control
        assert access is not None
        access.remove([CLUSTER_ACTION])
        await so(lambda: all(found(one) == () for one in self.brokers))

    async def write(self, value: bytes, offset: int) -> None:
        """Begin a transaction with a record in a partition of each broker, and an offset."""
        self.producer.begin_transaction()
        for partition in range(2):
            await (await self.producer.send("t", value, partition=partition))
        await self.producer.send_offsets_to_transaction({TopicPartition("t", 0): offset}, GROUP)

    async def committed(self, count: int) -> list[bytes | None]:
        """Read so many records of committed transactions, and whatever is there with them."""
        reading = Consumer(
            "t", bootstrap_servers=self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        async with reading as consumer, asyncio.timeout(30):
            values: list[bytes | None] = []
            while len(values) < count:
                values += [record.value for record in await consumer.poll(timeout=1.0)]
            return sorted(values, key=str)


def address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.port}"


def found(broker: Broker) -> tuple[Acl, ...]:
    assert broker.access_control is not None
    return tuple(broker.access_control.acls.all)


@asynccontextmanager
async def running(data: Path, settings: dict[str, str]) -> AsyncIterator[Secured]:
    """Both brokers with a topic of which each leads a partition."""
    named = {name.replace(".", "_"): value for name, value in settings.items()}
    async with two_brokers(data, transaction_state_log_num_partitions="4", **named) as brokers:
        brokers[0].topics.create("t", 2, placement=Placement(1, [[1], [2]]))
        await so(lambda: all(leaders(one, "t") == [1, 2] for one in brokers))
        async with Producer(bootstrap_servers=address(brokers[0]), transactional_id="tx", max_block_ms=15_000) as one:
            yield Secured(brokers, one)


async def test_a_transaction_reaches_over_brokers_that_log_in_to_each_other(tmp_path: Path) -> None:
    async with running(tmp_path / "data", secured(tmp_path)) as cluster:
        await cluster.allow()
        await cluster.producer.init_transactions()
        await cluster.write(b"a", 1)
        await cluster.producer.commit_transaction()
        await cluster.write(b"b", 2)
        await cluster.producer.abort_transaction()
        await cluster.write(b"c", 3)
        await cluster.producer.commit_transaction()
        assert await cluster.committed(4) == [b"a", b"a", b"c", b"c"]
        principals = {
            connection.principal
            for broker in cluster.brokers
            for connection in broker.sockets
            if connection.listener == "OWN"
        }
        assert principals == {"User:broker"}


async def test_markers_are_written_once_the_brokers_have_the_permission_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path / "data", secured(tmp_path)) as cluster:
        await cluster.allow()
        await cluster.producer.init_transactions()
        await cluster.write(b"a", 1)
        await cluster.forbid()
        await cluster.producer.commit_transaction()
        await so(lambda: any(DENIED in message for message in caplog.messages))
        await cluster.allow()
        assert await cluster.committed(2) == [b"a", b"a"]
        told = [message for message in caplog.messages if DENIED in message]
        assert len(told) == 1, "it is asked many times, and says so once"
    assert "hunter" not in caplog.text


async def test_records_are_refused_without_the_permission(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path / "data", secured(tmp_path)) as cluster:
        await cluster.producer.init_transactions()
        with pytest.raises(KafkaError) as refused:
            await cluster.write(b"a", 1)
        assert refused.value.code is ErrorCode.INVALID_TXN_STATE, "as in Kafka: the client lacks no permission"
        assert any(DENIED in message for message in caplog.messages)
