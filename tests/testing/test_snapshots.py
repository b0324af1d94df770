"""Snapshots of a broker that clients use: an expensive set-up is paid once, and clients go on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import aiokafka
import pytest

from kohort import blocking
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.testing import Broker, Cluster, Event, KitActed

PATIENCE_S = 30.0


def until(reached: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < end, f"after {PATIENCE_S:.0f} s not yet: {what}"


def commits(consumer: blocking.Consumer) -> bool:
    """Poll once and commit; return False while the client learns that it must join again."""
    consumer.poll(timeout=0.01)
    try:
        consumer.commit()
    except KafkaError as error:
        # The last one comes from the member itself: it has learned that it is out, and has not joined again.
        assert error.code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_MEMBER_EPOCH,
        )
        return False
    return True


def test_records_offsets_topics_and_configs_are_as_they_were() -> None:
    seen: list[Event] = []
    with Broker(topics={"orders": 1, "quiet": 1}, observers=[seen.append]) as broker:
        servers = broker.bootstrap_servers
        with (
            blocking.Producer(bootstrap_servers=servers) as producer,
            blocking.Admin(bootstrap_servers=servers) as admin,
        ):
            producer.send("orders", b"one").result()
            admin.alter_group_offsets("g", {TopicPartition("orders", 0): 1})
            snapshot = broker.snapshot()
            for _ in range(2):
                assert producer.send("orders", b"two").result().offset == 1
                admin.alter_group_offsets("g", {TopicPartition("orders", 0): 2})
                admin.alter_group_offsets("h", {TopicPartition("orders", 0): 2})
                broker.create_topic("new")
                broker.grow_topic("orders", 3)
                broker.restore(snapshot)
                found = admin.group_offsets("g")[TopicPartition("orders", 0)]
                assert found is not None and found.offset == 1
                assert not admin.group_offsets("h")
                log = broker._run(lambda: broker.node.partition("orders", 0))
                assert log is not None and log.end_offset == 1
                topics = broker._run(lambda: dict(broker.node.topics.all()))
                assert topics["orders"].partitions == 1 and "new" not in topics
        acts = [event for event in seen if isinstance(event, KitActed) and event.what == "restored a snapshot"]
        assert [(act.groups, act.topics) for act in acts] == [(frozenset({"g", "h"}), frozenset({"orders", "new"}))] * 2


def test_the_history_of_a_group_that_was_deleted_since_begins_anew() -> None:
    seen: list[Event] = []
    with Broker(topics={"orders": 1}, observers=[seen.append]) as broker:
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.alter_group_offsets("g", {TopicPartition("orders", 0): 0})
            snapshot = broker.snapshot()
            admin.delete_groups(["g"])
            broker.restore(snapshot)
            assert TopicPartition("orders", 0) in admin.group_offsets("g")
    assert [event.groups for event in seen if isinstance(event, KitActed)] == [{"g"}]


def test_a_fetch_that_waits_for_more_sees_what_is_written_after_a_restore() -> None:
    with Broker(topics={"orders": 1}) as broker:
        orders = broker.topic("orders")
        snapshot = broker.snapshot()
        with blocking.Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_min_bytes=2_000,
            fetch_max_wait_ms=int(PATIENCE_S * 1000),
        ) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            fetched = broker.fault(keys="Fetch", observe=True)
            orders.produce("short")
            consumer.poll(timeout=0.1)
            fetched.wait()
            broker.restore(snapshot)
            orders.produce("long" * 1_000)
            found = consumer.poll(timeout=PATIENCE_S / 3)
            assert [record.offset for record in found] == [0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_joined_later_joins_again_and_reads_what_follows(protocol: str) -> None:
    with Broker(topics={"orders": 1}) as broker:
        servers = broker.bootstrap_servers
        snapshot = broker.snapshot()
        with (
            blocking.Consumer(
                "orders",
                bootstrap_servers=servers,
                group_id="g",
                group_protocol=protocol,
                auto_offset_reset="earliest",
            ) as consumer,
            blocking.Producer(bootstrap_servers=servers, enable_idempotence=True) as producer,
        ):
            producer.send("orders", b"before").result()
            assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"before"]
            consumer.commit()
            before = consumer.member_id
            broker.restore(snapshot)
            producer.send("orders", b"after").result()
            assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"after"]
            until(lambda: commits(consumer), "a member again")
            if protocol == "classic":
                assert consumer.member_id != before


def test_restored_members_without_a_client_do_not_keep_partitions() -> None:
    with Broker(topics={"orders": 2}, settings={"group.disconnect.grace.ms": "0"}) as broker:
        servers = broker.bootstrap_servers
        with blocking.Consumer("orders", bootstrap_servers=servers, group_id="g") as first:
            until(lambda: not first.poll(timeout=0.01) and len(first.assignment) == 2, "assigned")
            snapshot = broker.snapshot()
        broker.restore(snapshot)
        with blocking.Consumer("orders", bootstrap_servers=servers, group_id="g") as second:
            until(lambda: not second.poll(timeout=0.01) and len(second.assignment) == 2, "assigned at once")


async def test_a_producer_of_another_library_goes_on() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True)
        await producer.start()
        try:
            for value in (b"1", b"2"):
                await producer.send_and_wait("orders", value)
            snapshot = broker.snapshot()
            await producer.send_and_wait("orders", b"3")
            broker.restore(snapshot)
            assert (await producer.send_and_wait("orders", b"4")).offset == 2
        finally:
            await producer.stop()


def test_a_restore_takes_milliseconds() -> None:
    topics = {f"topic-{number}": 3 for number in range(100)}
    with Broker(topics=topics) as broker:
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for name in topics:
                producer.send(name, b"x" * 1_000, partition=0)
            producer.flush()
            began = time.perf_counter()
            snapshot = broker.snapshot()
            taken = time.perf_counter() - began
            times = []
            for _ in range(5):
                for name in list(topics)[:10]:
                    producer.send(name, b"y" * 1_000, partition=0)
                producer.flush()
                began = time.perf_counter()
                broker.restore(snapshot)
                times.append(time.perf_counter() - began)
    # A few milliseconds on an idle machine; the limits only notice what is slower by an order of magnitude.
    assert taken < 0.25
    assert statistics.median(times) < 0.25, times


def test_brokers_without_snapshots_say_so() -> None:
    with Cluster(2) as cluster, pytest.raises(KohortError, match="share a directory"):
        cluster.snapshot()
    with Broker() as one, Broker() as other:
        snapshot = one.snapshot()
        with pytest.raises(KohortError, match="of another broker"):
            other.restore(snapshot)
    with pytest.raises(KohortError, match="not running"):
        one.restore(snapshot)


def test_a_restore_ends_the_load_of_a_coordinator() -> None:
    with Broker(topics={"orders": 1}) as broker:
        with blocking.Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            until(lambda: not consumer.poll(timeout=0.01) and bool(consumer.assignment), "assigned")
            consumer.commit({TopicPartition("orders", 0): 0})
            snapshot = broker.snapshot()
            consumer.commit({TopicPartition("orders", 0): 0})
            with broker.load_coordinator("g"):
                broker.restore(snapshot)
                until(lambda: commits(consumer), "a member again")
            until(lambda: commits(consumer), "still a member")
