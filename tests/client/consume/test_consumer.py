"""Records in: alone, in a group, from where they should, and each once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kohort import (
    Admin,
    ConfigError,
    Consumer,
    ErrorCode,
    KafkaError,
    KohortError,
    NewTopic,
    Producer,
    TopicPartition,
    testing,
)
from kohort.client import ClosedError, ConsumerRecord, FoundOffset, NoOffsetError, Phase
from tests.client.conftest import NewTopicName, eventually
from tests.interop.broker import Broker
from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort_to_kill, running_kohort

COOPERATIVE = "cooperative-sticky"


async def fill(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    """Write "0", "1", ... in turn to the partitions."""
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(count):
            await producer.send(topic, b"%d" % n, partition=n % partitions)


def consumer_of(broker: Broker, *topics: str, **options: Any) -> Consumer:
    given = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **options}
    return Consumer(*topics, bootstrap_servers=broker.bootstrap, **given)


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(20):
        while len(records) < count:
            records += await consumer.poll()
    return records


async def test_records_arrive_in_order_and_the_position_is_known(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 1000)
    async with consumer_of(any_broker) as consumer:
        consumer.assign([here])
        assert [record.offset for record in await consumer.poll(10)] == list(range(10))
        assert (await consumer.position(here), consumer.lag(here), consumer.lags()) == (10, 990, {here: 990})
        assert [int(record.value or b"") for record in await take(consumer, 990)] == list(range(10, 1000))
        assert await consumer.poll(timeout=0.05) == []
        consumer.seek(here, 500)
        assert [record.offset for record in await consumer.poll(2)] == [500, 501]
        consumer.seek_to_end()
        assert await consumer.position(here) == 1000
        consumer.seek_to_beginning([here])
        assert [record.offset for record in await consumer.poll(1)] == [0]
        assert await consumer.beginning_offsets([here]) == {here: 0}
        assert await consumer.end_offsets([here]) == {here: 1000}
        consumer.pause([here])
        assert consumer.paused == {here}
        assert await consumer.poll(timeout=0.1) == []
        consumer.resume([here])
        assert [record.offset for record in await consumer.poll(1)] == [1]


async def test_a_seek_right_behind_the_first_record_is_heeded(any_broker: Broker, new_topic: NewTopicName) -> None:
    # The next fetch is prepared by then, and has not begun.
    here = TopicPartition(await new_topic(), 0)
    await fill(any_broker.bootstrap, here.topic, 5)
    async with consumer_of(any_broker) as consumer:
        consumer.assign([here])
        assert (await take(consumer, 1))[0].offset == 0
        consumer.seek(here, 3)
        assert [record.offset for record in await take(consumer, 2)] == [3, 4]


async def test_iteration_commits_only_what_was_handed_out(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 100)
    async with consumer_of(any_broker, topic, group_id=fresh, enable_auto_commit=False) as consumer:
        async for record in consumer:
            if record.offset == 41:
                await consumer.commit()
                break
        committed = (await consumer.committed([here]))[here]
        assert committed is not None
        assert committed.offset == 42
        assert [record.offset for record in await consumer.poll(2)] == [42, 43]
    async with consumer_of(any_broker, topic, group_id=fresh) as consumer:
        assert (await take(consumer, 1))[0].offset == 42


async def test_closing_ends_an_iteration(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic()
    consumer = consumer_of(any_broker)
    consumer.assign([TopicPartition(topic, 0)])

    async def iterate() -> int:
        return len([record async for record in consumer])

    iteration = asyncio.ensure_future(iterate())
    await eventually(lambda: bool(consumer.positions()))  # it waits for records
    await consumer.close()
    await consumer.close()
    assert await iteration == 0
    with pytest.raises(ClosedError):
        await consumer.poll()


@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
async def test_each_record_is_processed_once_while_members_join_and_leave(
    any_broker: Broker, new_topic: NewTopicName, fresh: str, assignor: str
) -> None:
    # Commit before revoke: what was counted is committed before another may have the partition.
    partitions, total = 6, 6_000
    topic = await new_topic(partitions)
    await fill(any_broker.bootstrap, topic, total, partitions)
    counted: Counter[bytes | None] = Counter()

    async def work(until: asyncio.Event) -> None:
        async def revoked(gone: frozenset[TopicPartition]) -> None:
            positions = consumer.positions()
            await consumer.commit({partition: positions[partition] for partition in gone if partition in positions})

        consumer = consumer_of(
            any_broker, group_id=fresh, enable_auto_commit=False, partition_assignment_strategy=assignor
        )
        consumer.subscribe([topic], on_revoked=revoked)
        async with consumer:
            # One that closes with its JoinGroup under way commits in a generation that may be over by then.
            while not until.is_set() or consumer.state is not Phase.STABLE:
                counted.update(record.value for record in await consumer.poll(20, timeout=0.05))
                # Stands for work, so that the rebalances come while there are records left.
                await asyncio.sleep(0.002)

    ends = [asyncio.Event() for _ in range(4)]
    workers = [asyncio.ensure_future(work(end)) for end in ends[:2]]
    await eventually(lambda: counted.total() > 500)
    workers.append(asyncio.ensure_future(work(ends[2])))
    await eventually(lambda: counted.total() > 1500)
    ends[0].set()
    await workers[0]
    workers.append(asyncio.ensure_future(work(ends[3])))
    await eventually(lambda: counted.total() >= total, within=60)
    for end in ends:
        end.set()
    await asyncio.gather(*workers)
    assert set(counted.values()) == {1}
    assert len(counted) == total


async def test_callbacks_run_in_poll_with_moving_partitions_only(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic(4)
    told: list[str] = []

    async def assigned(partitions: frozenset[TopicPartition]) -> None:
        told.append(f"assigned {len(partitions)}")

    options = {"group_id": fresh, "partition_assignment_strategy": COOPERATIVE}
    one = consumer_of(any_broker, **options)
    one.subscribe([topic], on_assigned=assigned, on_revoked=lambda gone: told.append(f"revoked {len(gone)}"))
    two = consumer_of(any_broker, topic, **options)
    await eventually(lambda: one.state is two.state is Phase.STABLE)
    assert told == []  # the application did not poll
    while len(one.assignment) != 2 or len(two.assignment) != 2:
        await one.poll(timeout=0.05)
        await two.poll(timeout=0.05)
    assert set(told) <= {"assigned 4", "revoked 2", "assigned 0", "assigned 2"}
    assert one.assignment | two.assignment == {TopicPartition(topic, n) for n in range(4)}
    await two.close()
    while len(one.assignment) != 4:
        await one.poll(timeout=0.05)
    await one.unsubscribe()
    assert (one.assignment, one.subscription, one.member_id) == (frozenset(), frozenset(), "")
    one.assign([TopicPartition(topic, 0)])
    await one.close()


async def test_an_error_in_a_callback_comes_out_of_poll_and_breaks_nothing(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    await fill(any_broker.bootstrap, topic, 3)

    def broken(partitions: frozenset[TopicPartition]) -> None:
        raise ZeroDivisionError

    consumer = consumer_of(any_broker, group_id=fresh)
    consumer.subscribe([topic], on_assigned=broken)
    async with consumer:
        with pytest.raises(ZeroDivisionError):
            await take(consumer, 1)
        assert len(await take(consumer, 3)) == 3


async def test_a_poll_that_is_cancelled_loses_nothing(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()
    await fill(any_broker.bootstrap, topic, 500)
    async with consumer_of(any_broker, topic, group_id=fresh) as consumer:
        seen: list[int] = []
        async with asyncio.timeout(20):
            while len(seen) < 500:
                polling = asyncio.ensure_future(consumer.poll(7, timeout=5))
                await asyncio.sleep(0.002)  # any moment: joining, fetching, handing out
                polling.cancel()
                try:
                    seen += [record.offset for record in await polling]
                except asyncio.CancelledError:
                    continue
        assert seen == list(range(500))


async def test_processed_records_are_committed_automatically(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 50)
    async with consumer_of(any_broker, topic, group_id=fresh, auto_commit_interval_ms=100) as consumer:
        assert len(await take(consumer, 50)) == 50
        async with asyncio.timeout(10):
            while (await consumer.committed([here]))[here] is None:
                await consumer.poll(timeout=0.05)
    async with consumer_of(any_broker, topic, group_id=fresh) as consumer:
        await fill(any_broker.bootstrap, topic, 5)
        assert (await take(consumer, 5))[0].offset == 50  # close made the last commit
    async with consumer_of(any_broker, topic, group_id=fresh) as consumer:
        await consumer.poll(timeout=0.5)
        committed = (await consumer.committed([here]))[here]
        assert committed is not None
        assert committed.offset == 55


async def test_without_a_committed_offset_the_policy_decides(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    here = TopicPartition(topic, 0)
    await fill(any_broker.bootstrap, topic, 5)
    async with consumer_of(any_broker, auto_offset_reset="latest") as consumer:
        consumer.assign([here])
        assert await consumer.position(here) == 5
    async with consumer_of(any_broker, topic, group_id=fresh, auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetError, match="no committed offset"):
            await take(consumer, 1)
        consumer.seek(here, 2)
        assert (await take(consumer, 3))[0].offset == 2
    async with consumer_of(any_broker, auto_offset_reset="none") as consumer:
        consumer.assign([here])
        consumer.seek(here, 99)
        with pytest.raises(KafkaError) as raised:
            await take(consumer, 1)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    async with consumer_of(any_broker) as consumer:
        consumer.assign([here])
        consumer.seek(here, 99)  # earliest, where that is out of range
        assert (await take(consumer, 1))[0].offset == 0


async def test_a_group_continues_when_its_broker_returns(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    broker = ("--data", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    with kohort_to_kill(*broker, group_initial_rebalance_delay_ms="0") as first:
        async with Admin(bootstrap_servers=first.bootstrap) as admin:
            await admin.create_topics([NewTopic("t", 3)])
        await fill(first.bootstrap, "t", 300, 3)
        consumer = consumer_of(first, "t", group_id="g", enable_auto_commit=False)
        records = await take(consumer, 300)
        await consumer.commit()
        generation = consumer.generation
        first.process.kill()
    assert await consumer.poll(timeout=0.3) == []
    with running_kohort(*broker) as again:
        await fill(again.bootstrap, "t", 300, 3)
        records += await take(consumer, 300)
        await consumer.commit()
        assert consumer.generation == generation  # L2: a broker that returns in time causes no rebalance
        ends = await consumer.end_offsets(consumer.assignment)
        committed = await consumer.committed(consumer.assignment)
        assert {partition: at.offset for partition, at in committed.items() if at} == ends
        await consumer.close()
    assert len({(record.partition, record.offset) for record in records}) == len(records) == 600


async def test_closing_without_a_broker_gives_up_in_time() -> None:
    async with testing.Broker(topics={"t": 1}) as broker:
        broker.topic("t").produce("x")
        options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
        consumer = Consumer("t", bootstrap_servers=broker.bootstrap_servers, **options)
        await take(consumer, 1)
    async with asyncio.timeout(5):
        await consumer.close(timeout=0.5)


async def test_a_callback_may_close_its_consumer(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    topic = await new_topic()
    await fill(any_broker.bootstrap, topic, 3)
    told: list[str] = []
    consumer = consumer_of(any_broker, group_id=fresh)

    async def close(partitions: frozenset[TopicPartition]) -> None:
        await consumer.close()
        told.append(f"closing {len(partitions)}")

    consumer.subscribe([topic], on_assigned=close, on_revoked=lambda gone: told.append(f"revoked {len(gone)}"))
    assert [record async for record in consumer] == []
    assert told == ["closing 1", "revoked 1"]  # it leaves after the callback, as the member that it was in it
    with pytest.raises(ClosedError):
        await consumer.poll()
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        assert (await admin.describe_groups([fresh]))[fresh].members == ()


async def test_a_callback_cannot_unsubscribe_its_consumer(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    topic = await new_topic()
    consumer = consumer_of(any_broker, group_id=fresh)

    async def unsubscribe(partitions: frozenset[TopicPartition]) -> None:
        await consumer.unsubscribe()

    consumer.subscribe([topic], on_assigned=unsubscribe)
    with pytest.raises(KohortError, match="do so after poll"):
        await take(consumer, 1)
    await consumer.close()


async def test_subscribing_again_and_to_other_topics(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    one, two = await new_topic(), await new_topic()
    async with consumer_of(any_broker, one, group_id=fresh) as consumer:
        while consumer.assignment != {TopicPartition(one, 0)}:
            await consumer.poll(timeout=0.05)
        consumer.subscribe([two])
        while consumer.assignment != {TopicPartition(two, 0)}:
            await consumer.poll(timeout=0.05)
        await consumer.unsubscribe()
        consumer.subscribe([one])
        while consumer.assignment != {TopicPartition(one, 0)}:
            await consumer.poll(timeout=0.05)


async def test_a_topic_that_is_deleted_is_given_up(
    any_broker: Broker, admin: Admin, new_topic: NewTopicName, fresh: str
) -> None:
    gone, stays = await new_topic(), await new_topic()
    options: dict[str, Any] = {"group_id": fresh, "allow_auto_create_topics": False, "metadata_max_age_ms": 200}
    async with consumer_of(any_broker, gone, stays, **options) as consumer:
        async with asyncio.timeout(20):
            while len(consumer.assignment) != 2:
                await consumer.poll(timeout=0.05)
            await admin.delete_topics([gone])
            while consumer.assignment != {TopicPartition(stays, 0)}:
                await consumer.poll(timeout=0.05)
        await fill(any_broker.bootstrap, stays, 5)
        assert len(await take(consumer, 5)) == 5


async def test_a_partition_without_a_leader_does_not_block_others(any_broker: Broker, new_topic: NewTopicName) -> None:
    present, late = await new_topic(1), await new_topic(1)
    for topic in (present, late):
        await fill(any_broker.bootstrap, topic, 5)
    async with consumer_of(any_broker) as consumer:
        consumer.assign([TopicPartition(present, 7), TopicPartition(present, 0)])
        assert len(await take(consumer, 5)) == 5
        consumer.incremental_assign([TopicPartition(late, 0)])
        assert {record.topic for record in await take(consumer, 5)} == {late}


async def test_large_records_and_small_limits(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(2)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for n in range(20):
            await producer.send(topic, bytes(50_000) + b"%d" % n, partition=n % 2)
    async with consumer_of(any_broker, max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        records = await take(consumer, 20)
    assert sorted(int((record.value or b"")[50_000:]) for record in records) == list(range(20))


async def test_a_topic_made_after_subscribing_is_found(any_broker: Broker, admin: Any, fresh: str) -> None:
    options = {"group_id": fresh, "allow_auto_create_topics": False, "metadata_max_age_ms": 200}
    async with consumer_of(any_broker, fresh, **options) as consumer:
        assert await consumer.poll(timeout=0.3) == []
        await admin.create_topics([NewTopic(fresh, 2)])
        await fill(any_broker.bootstrap, fresh, 10, 2)
        assert len(await take(consumer, 10)) == 10


async def test_invalid_calls_are_rejected(any_broker: Broker, new_topic: NewTopicName, fresh: str) -> None:
    here = TopicPartition(await new_topic(), 0)
    async with consumer_of(any_broker) as consumer:
        with pytest.raises(ConfigError, match="group_id is missing: only a member of a group has callbacks"):
            consumer.subscribe([here.topic], on_assigned=print)
        with pytest.raises(ConfigError, match="group_id is missing"):
            await consumer.commit()
        with pytest.raises(KohortError, match="the consumer has neither subscribed nor been assigned partitions"):
            await consumer.poll()
        with pytest.raises(KohortError, match="is not assigned"):
            consumer.seek(here, 0)
        consumer.assign([here])
        with pytest.raises(ConfigError, match="the offset is -1, but must be at least 0"):
            consumer.seek(here, -1)
        polling = asyncio.ensure_future(consumer.poll(timeout=0.2))
        await asyncio.sleep(0)
        with pytest.raises(KohortError, match="already running"):
            await consumer.poll()
        assert await polling == []
    async with consumer_of(any_broker, here.topic, group_id=fresh) as consumer:
        with pytest.raises(KohortError, match="excludes assign"):
            consumer.assign([here])
        with pytest.raises(ConfigError, match="at least one topic"):
            consumer.subscribe([])


async def test_partitions_are_assigned_and_given_up_one_by_one(any_broker: Broker, new_topic: NewTopicName) -> None:
    one, two, three = (TopicPartition(topic, n) for topic in [await new_topic(3)] for n in range(3))
    await fill(any_broker.bootstrap, one.topic, 30, 3)
    async with consumer_of(any_broker) as consumer:
        consumer.incremental_assign([one])
        assert {record.partition for record in await take(consumer, 10)} == {0}
        consumer.incremental_assign([two, three])
        assert consumer.assignment == {one, two, three}
        assert len(await take(consumer, 20)) == 20  # and nothing of the first again
        consumer.incremental_unassign([one, two])
        assert consumer.assignment == {three}
        with pytest.raises(KohortError, match="is not assigned"):
            consumer.incremental_unassign([one])


async def test_offsets_are_found_by_time(any_broker: Broker, new_topic: NewTopicName) -> None:
    here = TopicPartition(await new_topic(), 0)
    now = int(time.time() * 1000)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for seconds in (30, 20, 10):
            await producer.send(here.topic, b"x", timestamp=now - seconds * 1000)
    async with consumer_of(any_broker) as consumer:
        found = await consumer.offsets_for_times({here: now - 25_000})
        assert found[here] == FoundOffset(1, now - 20_000, 0)
        assert await consumer.offsets_for_times({here: now}) == {here: None}


async def test_prefetched_records_are_bounded_while_the_application_sleeps(
    any_broker: Broker, new_topic: NewTopicName
) -> None:
    topic = await new_topic(4)
    # Small batches: one that is larger than the limits is returned all the same (KIP-74).
    async with Producer(bootstrap_servers=any_broker.bootstrap, max_request_size=50_000) as producer:
        for n in range(2_000):
            await producer.send(topic, bytes(10_000), partition=n % 4)
    async with consumer_of(any_broker, fetch_max_bytes=1_000_000, max_partition_fetch_bytes=200_000) as consumer:
        consumer.assign(TopicPartition(topic, n) for n in range(4))
        assert await consumer.poll(1, timeout=20)
        received = {connection: connection.received for connection in consumer.cluster.connections}
        while True:  # until no more records arrive although there are many more
            await asyncio.sleep(0.3)
            now = {connection: connection.received for connection in consumer.cluster.connections}
            if now == received:
                break
            received = now
        # Of 20 MB: what may wait of each partition, one answer more, and what else was said.
        assert 200_000 < sum(received.values()) < 2_000_000
