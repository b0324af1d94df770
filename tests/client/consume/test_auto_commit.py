"""Auto commits: what moved since the last one, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kohort import Admin, Consumer, TopicPartition, testing
from kohort.client import CommitFailedError
from kohort.testing import Invariant
from tests.client.conftest import NewTopicName, broker_with
from tests.client.consume.test_consumer import consumer_of, fill, take
from tests.interop.broker import Broker
from tests.interop.mixed.offsets_log import java_hash


async def offset_of(consumer: Consumer, partition: TopicPartition) -> int | None:
    found = (await consumer.committed([partition]))[partition]
    return None if found is None else found.offset


async def polls_until_committed(consumer: Consumer, partition: TopicPartition, offset: int) -> None:
    async with asyncio.timeout(10):
        while await offset_of(consumer, partition) != offset:
            await consumer.poll(timeout=0.05)


async def test_an_idle_consumer_writes_no_commits(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    # Each would be a record per partition again and again; Java's consumer writes them.
    topic = await new_topic(3)
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 5)
    async with consumer_of(any_broker, topic, group_id=fresh, auto_commit_interval_ms=20) as consumer:
        await take(consumer, 5)
        await polls_until_committed(consumer, here, 5)
        count = await consumer.partitions_for("__consumer_offsets")
        log = TopicPartition("__consumer_offsets", java_hash(fresh) % count)
        await consumer.poll(timeout=0.1)
        before = await consumer.end_offsets([log])
        for _ in range(10):
            await consumer.poll(timeout=0.05)
        assert await consumer.end_offsets([log]) == before
        await fill(any_broker.bootstrap, topic, 1)
        await take(consumer, 1)
        await polls_until_committed(consumer, here, 6)
        assert (await consumer.end_offsets([log]))[log] == before[log] + 1


async def test_a_position_that_the_application_set_back_is_committed_again(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 5)
    async with consumer_of(any_broker, topic, group_id=fresh, auto_commit_interval_ms=50) as consumer:
        await take(consumer, 5)
        await polls_until_committed(consumer, here, 5)
        await consumer.commit({here: 2})
        await polls_until_committed(consumer, here, 5)


def options_of(broker: testing.Broker, **options: Any) -> dict[str, Any]:
    given = {"group_id": "g", "auto_offset_reset": "earliest", "auto_commit_interval_ms": 600_000}
    return {"bootstrap_servers": broker.bootstrap_servers, **given, **options}


@pytest.mark.parametrize("manual_is_lost", [True, False])
async def test_after_a_commit_whose_answer_was_lost_the_position_is_committed_again(manual_is_lost: bool) -> None:
    # The coordinator has the offset of the manual commit, whichever of the two answers did not arrive.
    here = TopicPartition("t", 0)
    async with broker_with(5) as broker:
        broker.allow(Invariant.FORWARD_COMMITS)
        options = options_of(broker, auto_commit_interval_ms=50, request_timeout_ms=2_000)
        async with Consumer("t", **options) as consumer:
            await take(consumer, 5)
            if manual_is_lost:
                await polls_until_committed(consumer, here, 5)
            held = broker.fault(keys="OffsetCommit", hold=True, when="after", count=-1)
            if manual_is_lost:
                with pytest.raises(CommitFailedError):
                    await consumer.commit({here: 2}, timeout=0.2)
                assert broker.group("g").committed == {here: 2}
            else:
                async with asyncio.timeout(10):
                    while not held.hits:
                        await consumer.poll(timeout=0.05)
                manual = consumer.commit_nowait({here: 2})
                for connection in consumer.cluster.connections:
                    connection.abort("the answer is lost")
                held.remove()
                await manual
            held.remove()
            await polls_until_committed(consumer, here, 5)


@pytest.mark.parametrize("way", ["classic", "consumer", "assign"])
async def test_closing_does_not_wait_for_a_topic_that_was_deleted(
    any_broker: Broker, new_topic: NewTopicName, fresh: str, way: str
) -> None:
    kept, deleted = await new_topic(), await new_topic()
    for topic in (kept, deleted):
        await fill(any_broker.bootstrap, topic, 3)
    options: dict[str, Any] = {"bootstrap_servers": any_broker.bootstrap, "group_id": fresh}
    options |= {"auto_offset_reset": "earliest", "allow_auto_create_topics": False, "auto_commit_interval_ms": 600_000}
    if way == "assign":
        consumer = Consumer(**options)
        consumer.assign([TopicPartition(kept, 0), TopicPartition(deleted, 0)])
    else:
        consumer = Consumer(kept, deleted, group_protocol=way, **options)
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        await take(consumer, 6)
        await admin.delete_topics([deleted])
        async with asyncio.timeout(15):  # of the 30 s that it may take to leave
            await consumer.close()
        assert [
            (partition.topic, at and at.offset) for partition, at in (await admin.group_offsets(fresh)).items()
        ] == [(kept, 3)]


@pytest.mark.parametrize(("way", "goodbye"), [("classic", "LeaveGroup"), ("consumer", "ConsumerGroupHeartbeat")])
async def test_closing_shares_its_time_between_the_last_commit_and_the_goodbye(way: str, goodbye: str) -> None:
    revoked: list[TopicPartition] = []
    async with broker_with(5) as broker:
        consumer = Consumer("t", group_protocol=way, on_revoked=revoked.extend, **options_of(broker))
        await take(consumer, 5)
        broker.fault(keys=["OffsetCommit", goodbye], hold=True, when="after", count=-1)
        async with asyncio.timeout(9):  # twice the time would be 10 s
            await consumer.close(timeout=5.0)
        assert revoked == [TopicPartition("t", 0)]
        await broker.group("g").wait_rebalance_async("member left")


async def test_a_callback_that_takes_longer_than_closing_may_take_is_waited_for_and_the_goodbye_is_sent() -> None:
    async with broker_with(5) as broker:
        goodbye = broker.fault(keys="LeaveGroup", observe=True, count=-1)
        went_on = asyncio.Event()

        async def revoked(_: object) -> None:
            await went_on.wait()

        consumer = Consumer("t", on_revoked=revoked, **options_of(broker))
        while not consumer.assignment:
            await consumer.poll(timeout=0.05)
        closing = asyncio.create_task(consumer.close(timeout=0.2))
        done, _ = await asyncio.wait([closing], timeout=1.0)  # the limit is over, and the callback is not
        assert not done
        went_on.set()
        await closing
        assert goodbye.hits == 1


async def test_a_commit_in_flight_when_the_partition_was_revoked_is_void_after_it_returns() -> None:
    here = TopicPartition("t", 0)
    async with broker_with(5) as broker:
        async with Consumer(**options_of(broker)) as consumer:
            consumer.assign([here])
            await take(consumer, 5)
            held = broker.fault(keys="OffsetCommit", hold=True)
            first = consumer.commit_nowait()
            await held.wait_async()
            consumer.assign([])
            consumer.assign([here])
            held.release()
            await first
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                await admin.alter_group_offsets("g", {here: 2})  # as another member would, meanwhile
            consumer.seek(here, 0)
            await take(consumer, 5)
            await consumer._commits.commit_automatically()
            assert broker.group("g").committed == {here: 5}
