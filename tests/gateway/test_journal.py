"""The journal of a gateway says what the journal of the coordinator's own broker says."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kohort.client import Admin, Consumer, NewTopic
from kohort.client.keywords import ConsumerKeywords
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.lab import ApacheKafka
from kohort.model import TopicPartition
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord
from kohort.testing import Broker

pytestmark = pytest.mark.timeout(55)
SETTINGS = {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        yield broker


def through(servers: str, journal: Path | None, *, topic: bool = False) -> GatewayOptions:
    host, _, port = servers.rpartition(":")
    return GatewayOptions([Address(host, int(port))], Address("127.0.0.1", 0), journal=journal, journal_topic=topic)


class Process:
    """A member that polls all the time, and tells when it has."""

    def __init__(self, gateway: Gateway, consumer: Consumer) -> None:
        self.gateway = gateway
        self.consumer = consumer
        self.polled = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self.consumer.poll(timeout=0.05)
            self.polled.set()

    async def has(self, count: int) -> None:
        """Wait until it owns so many partitions, and the gateway has seen all owners fetch."""
        assert self.gateway.journal is not None
        while len(self.consumer.assignment) != count or self.gateway.journal.watching:
            self.polled.clear()
            await self.polled.wait()


@asynccontextmanager
async def member(gateway: Gateway, protocol: str, client_id: str, topic: str = "orders") -> AsyncIterator[Process]:
    options: ConsumerKeywords = {
        "group_id": "g",
        "group_protocol": protocol,
        "client_id": client_id,
        "bootstrap_servers": str(gateway.address),
    }
    if protocol == "classic":
        options["partition_assignment_strategy"] = "cooperative-sticky"
    async with Consumer(topic, **options) as consumer:
        process = Process(gateway, consumer)
        running = asyncio.create_task(process.run())
        try:
            yield process
        finally:
            running.cancel()


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_both_journals_have_the_same_causes_members_and_moves(
    broker: Broker, tmp_path: Path, protocol: str
) -> None:
    broker.create_topic("orders", partitions=4)
    path = tmp_path / "journal"
    async with Gateway(through(broker.bootstrap_servers, path)) as gateway, member(gateway, protocol, "one") as first:
        await first.has(4)
        async with member(gateway, protocol, "two") as second:
            await second.has(2)
            await first.has(2)
        await first.has(4)
    ours = [RebalanceRecord.from_json(line) for line in path.read_bytes().splitlines()]
    theirs = await of_topic(broker.bootstrap_servers)
    assert [told(record) for record in ours[:3]] == [told(record) for record in theirs[:3]]
    assert {record.group_id for record in ours} == {"g"}
    (joined,) = [record for record in ours if record.cause == "member joined"]
    assert [facts.client_id for facts in joined.came] == ["two"]
    (left,) = [record for record in ours if record.cause == "member left" and record.members_after]
    gone = [change for change in left.partitions if change.moved]
    assert len(gone) == 2
    assert all(change.dark_ms is not None and 0 <= change.dark_ms < 10_000 for change in gone)


def told(record: RebalanceRecord) -> object:
    """Return what both journals know exactly."""
    return record.cause, {facts.client_id for facts in record.came}, {(c.topic, c.partition) for c in record.moved}


async def of_topic(servers: str) -> list[RebalanceRecord]:
    partition = TopicPartition(JOURNAL_TOPIC, 0)
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        ends = await consumer.end_offsets([partition])
        records = []
        while await consumer.position(partition) < ends[partition]:
            records += [record.value for record in await consumer.poll() if record.value is not None]
    return [RebalanceRecord.from_json(value) for value in records]


@pytest.mark.kafka
async def test_the_journal_is_written_to_a_topic_of_apache_kafka(apache_kafka: ApacheKafka) -> None:
    async with Admin(bootstrap_servers=apache_kafka.bootstrap) as admin:
        await admin.create_topics([NewTopic("of-a-journal", 4)])
    async with Gateway(through(apache_kafka.bootstrap, None, topic=True)) as gateway:
        async with member(gateway, "consumer", "one", "of-a-journal") as only:
            await only.has(4)
        written = gateway.journal.written if gateway.journal is not None else 0
    records = await of_topic(apache_kafka.bootstrap)
    assert len(records) >= written >= 1
    assert records[0].cause == "first member"


async def test_a_kohort_broker_writes_its_own_topic(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.create_topic("orders", partitions=4)
    async with Gateway(through(broker.bootstrap_servers, None, topic=True)) as gateway:
        async with member(gateway, "consumer", "one") as only:
            await only.has(4)
    assert "the journal's topic cannot be written" in caplog.text
