"""A consumer reads from the replica in its rack (KIP-392), for a time, and from the leader when that fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort import Admin, Consumer, ErrorCode, NewTopic, Producer, TopicPartition
from kohort.client.consume import read_replicas
from kohort.wire.messages.fetch import FetchRequest, FetchResponse
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.client.conftest import eventually
from tests.client.consume.test_consumer import fill, take
from tests.client.link import Link, another_link, linked_broker
from tests.conftest import need_jars
from tests.interop.kafka import free_ports, running_kafka_pair

FETCH, METADATA = 1, 3
HERE = TopicPartition("t", 0)
FOLLOWER = 7


@dataclass
class Racks:
    """A leader that sends readers of rack b to broker 7, and links to both."""

    leader: Link
    follower: Link
    follower_port: int
    rack: str = ""
    racks: list[str] = field(default_factory=list)
    """Of each fetch at the leader."""

    def __post_init__(self) -> None:
        self.leader.watch[FETCH] = self._asked
        self.leader.change = {FETCH: self._redirect, METADATA: self._tell}
        self.follower.change[METADATA] = self._tell

    def _asked(self, request: FetchRequest) -> None:
        self.racks.append(request.rack_id)

    def _redirect(self, answer: FetchResponse, client: str | None) -> None:
        if self.racks[-1] == "b":
            for topic in answer.responses:
                for partition in topic.partitions:
                    partition.preferred_read_replica, partition.records = FOLLOWER, None

    def _tell(self, answer: MetadataResponse, client: str | None) -> None:
        answer.brokers.append(
            MetadataResponseBroker(node_id=FOLLOWER, host="127.0.0.1", port=self.follower_port, rack="b")
        )

    def consumer(self, **options: Any) -> Consumer:
        quick: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20, "retry_backoff_ms": 20}
        return Consumer(bootstrap_servers=f"127.0.0.1:{self.leader.port}", client_rack="b", **{**quick, **options})


@asynccontextmanager
async def two_racks() -> AsyncIterator[Racks]:
    async with linked_broker() as (broker, leader), another_link(leader) as follower:
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{leader.port}", "t", 5)
        yield Racks(leader, follower, follower.port)


async def test_records_come_from_the_follower_that_the_leader_names() -> None:
    async with two_racks() as racks, racks.consumer() as consumer:
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5
        await eventually(lambda: racks.follower.asked[FETCH] > 5)
        assert racks.racks == ["b"]


async def test_after_metadata_max_age_the_leader_is_asked_again_even_while_nothing_is_written() -> None:
    async with two_racks() as racks, racks.consumer(metadata_max_age_ms=100) as consumer:
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5
        await eventually(lambda: len(racks.racks) > 2)
        assert len(racks.racks) < 50


async def test_a_new_leader_is_asked_where_to_read_from() -> None:
    def under_a_new_leader(answer: MetadataResponse, client: str | None) -> None:
        racks._tell(answer, client)
        for topic in answer.topics:
            topic.partitions[0].leader_epoch += 1

    async with two_racks() as racks, racks.consumer() as consumer:
        consumer.assign([HERE])
        consumer.seek(HERE, 5)
        await eventually(lambda: racks.follower.asked[FETCH] > 2)
        assert racks.racks == ["b"]
        racks.leader.change[METADATA] = racks.follower.change[METADATA] = under_a_new_leader
        await consumer.partitions_for("t")
        await eventually(lambda: len(racks.racks) > 1)
        assert racks.racks[1] == "b"  # not because the follower failed


@pytest.mark.parametrize(
    "code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE]
)
async def test_an_error_of_the_follower_leads_back_to_the_leader(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.error_code, partition.records = code, None

    caplog.set_level(logging.WARNING, "kohort.client")
    async with two_racks() as racks, racks.consumer() as consumer:
        racks.follower.change[FETCH] = refuse
        await consumer.partitions_for("t")
        before = racks.leader.asked[METADATA]
        consumer.assign([HERE])
        # An offset that only the follower does not have resets nothing: all five are read.
        assert [record.offset for record in await take(consumer, 5)] == list(range(5))
        assert racks.racks[0] == "b" and set(racks.racks[1:]) == {""}  # it would send us back at once
        asked = racks.leader.asked[METADATA] + racks.follower.asked[METADATA]
        assert asked > before  # the follower may be none any more
    assert [record.getMessage() for record in caplog.records] == [
        f"fetched from the leader again: broker 7 answered {code.name}: {code.sentence}: t-0"
    ]


async def test_some_time_after_an_error_the_leader_is_told_the_rack_again_even_while_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.error_code, partition.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, None

    monkeypatch.setattr(read_replicas, "_AVOIDS_S", 0.2)
    async with two_racks() as racks, racks.consumer() as consumer:
        racks.follower.change[FETCH] = refuse
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5
        del racks.follower.change[FETCH]
        await eventually(lambda: racks.racks.count("b") > 1)
        assert racks.racks.count("") > 1


async def test_a_follower_that_dies_is_one_line_whatever_is_read_from_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kohort.client.consume.read_replicas")
    caplog.set_level(logging.WARNING, "kohort.client.consume.fetch_errors")
    async with two_racks() as racks:
        async with Admin(bootstrap_servers=f"127.0.0.1:{racks.leader.port}") as admin:
            await admin.create_topics([NewTopic("many", 20)])
        async with racks.consumer() as consumer:
            consumer.assign([TopicPartition("many", number) for number in range(20)])
            await eventually(lambda: racks.follower.asked[FETCH] > 3)
            [racks.follower_port] = free_ports(1)
            racks.follower.cut_at[FETCH] = [False] * 10
            await eventually(lambda: len(racks.racks) > 10)
    assert 1 <= len(caplog.records) <= 2  # two fetches at a broker
    named = [record.getMessage() for record in caplog.records]
    assert all(line.startswith("fetched from the leader again: broker 7 failed: ") for line in named)


async def test_a_leader_that_names_itself_is_read_from() -> None:
    def itself(answer: FetchResponse, client: str | None) -> None:
        if racks.racks[-1] == "b":
            for topic in answer.responses:
                for partition in topic.partitions:
                    partition.preferred_read_replica, partition.records = 1, None

    async with two_racks() as racks, racks.consumer() as consumer:
        racks.leader.change[FETCH] = itself
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5
        assert racks.racks[:2] == ["b", ""]


async def test_records_that_come_with_the_name_of_a_follower_count() -> None:
    def both(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.preferred_read_replica = FOLLOWER

    async with two_racks() as racks, racks.consumer() as consumer:
        racks.leader.change[FETCH] = both
        racks.follower.held[FETCH] = asyncio.Event()  # it never answers
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5


async def test_the_leader_of_a_quiet_partition_is_asked_for_a_follower_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.client.consume.read_replicas._AVOIDS_S", 0.3)
    async with two_racks() as racks, racks.consumer() as consumer:
        racks.follower.cut_at[FETCH] = [False]
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5
        await eventually(lambda: racks.racks[-1] == "b")
        assert set(racks.racks[1:3]) == {""}


async def test_a_follower_that_cannot_be_reached_leads_back_to_the_leader() -> None:
    async with two_racks() as racks, racks.consumer() as consumer:
        [racks.follower_port] = free_ports(1)
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5
        assert len(racks.racks) < 50


async def test_a_follower_that_metadata_does_not_know_leads_back_to_the_leader() -> None:
    async with two_racks() as racks, racks.consumer() as consumer:
        racks.leader.change.pop(METADATA)
        consumer.assign([HERE])
        assert len(await take(consumer, 5)) == 5
        assert len(racks.racks) < 50


@pytest.mark.kafka
async def test_with_two_apache_kafka_brokers_of_which_one_dies(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    need_jars(request.config)
    caplog.set_level(logging.INFO, "kohort.client")
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with running_kafka_pair(("a", "b"), {"replica.selector.class": selector}) as (first, second):
        async with Admin(bootstrap_servers=first.bootstrap) as admin:
            await eventually_two_brokers(admin)
            await admin.create_topics([NewTopic("t", 4, 2)])
            leaders = (await admin.describe_topics(["t"]))["t"].leaders
        here = TopicPartition("t", next(number for number, leader in leaders.items() if leader.node_id == 1))
        await write(first.bootstrap, here, 100)
        async with Consumer(
            bootstrap_servers=first.bootstrap, client_rack="b", auto_offset_reset="earliest", metadata_max_age_ms=5_000
        ) as consumer:
            consumer.assign([here])
            assert len(await take(consumer, 100)) == 100
            [line] = lines(caplog, "fetched from a follower")
            assert "broker=2 " in line and str(here) in line
            second.process.kill()
            consumer.seek(here, 0)
            # Long before the controller notices, which takes 9 s: the leader would send us back there until then.
            async with asyncio.timeout(8):
                assert len(await take(consumer, 100)) == 100
            assert lines(caplog, "fetched from the leader again")
            await write(first.bootstrap, here, 10, acks=1, enable_idempotence=False)
            async with asyncio.timeout(60):  # what the dead replica lacks can be read when it is out of the ISR
                assert len(await take_within(consumer, 10, 60)) == 10
            caplog.clear()
            second.start_again()
            async with asyncio.timeout(60):
                while not lines(caplog, "fetched from a follower"):
                    await write(first.bootstrap, here, 1)
                    await consumer.poll(timeout=0.5)


async def eventually_two_brokers(admin: Admin) -> None:
    async with asyncio.timeout(30):
        while len((await admin.describe_cluster()).brokers) < 2:  # noqa: ASYNC110  a broker registers without an event
            await asyncio.sleep(0.1)


async def write(bootstrap: str, partition: TopicPartition, count: int, **options: Any) -> None:
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:
        for n in range(count):
            await producer.send(partition.topic, b"%d" % n, partition=partition.partition)


async def take_within(consumer: Consumer, count: int, seconds: float) -> list[Any]:
    records: list[Any] = []
    async with asyncio.timeout(seconds):
        while len(records) < count:
            records += await consumer.poll()
    return records


def lines(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(start)]
