"""Faults as tests of applications use them, with real clients of several libraries."""

import asyncio
import threading

import aiokafka
import confluent_kafka
import pytest

import kohort
from kohort import blocking
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.testing import Broker, Cluster
from kohort.testing.rules import rule_of


def consumer(broker: Broker, **options: str) -> blocking.Consumer:
    return blocking.Consumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        group_protocol=options.get("group_protocol", "consumer"),
    )


def produce(broker: Broker, *values: bytes) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value).result()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_blocking_consumer_survives_a_coordinator_that_loads(protocol: str) -> None:
    with Broker(topics={"orders": 1}) as broker:
        produce(broker, b"first")
        keys = "JoinGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
        fault = broker.fault(keys=keys, error="COORDINATOR_LOAD_IN_PROGRESS", count=2)
        with consumer(broker, group_protocol=protocol) as reader:
            found: list[kohort.ConsumerRecord] = []
            while not found:
                found = reader.poll()
            assert [record.value for record in found] == [b"first"]
            assert fault.wait(hits=2) == 2
            broker.fault(keys="OffsetCommit", error="REQUEST_TIMED_OUT")
            reader.commit()  # it is sent again
        assert fault.left == 0


def test_a_commit_that_is_refused_reaches_the_application() -> None:
    with Broker(topics={"orders": 1}) as broker:
        produce(broker, b"first")
        with consumer(broker) as reader:
            while not reader.poll():
                pass
            with (
                broker.fault(keys="OffsetCommit", error="GROUP_AUTHORIZATION_FAILED", count=-1),
                pytest.raises(KafkaError) as refused,
            ):
                reader.commit()
            assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
            reader.commit()  # the fault was removed
        assert broker.faults == []


def test_a_producer_repeats_a_request_whose_answer_is_cut_and_the_broker_keeps_one_record() -> None:
    with Broker(topics={"orders": 1}) as broker:
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True) as producer:
            fault = broker.fault(keys="Produce", cut=True)
            assert producer.send("orders", b"first").result().offset == 0
            assert fault.hits == 1
            assert producer.send("orders", b"second").result().offset == 1


def test_a_thread_waits_for_a_request_that_is_held() -> None:
    with Broker(topics={"orders": 1}) as broker, blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        fault = broker.fault(keys="CreateTopics", hold=True)
        thread = threading.Thread(target=lambda: admin.create_topics([kohort.NewTopic("new", 1)]))
        thread.start()
        fault.wait()
        assert fault.held == 1
        assert broker._run(lambda: broker.node.topics.named("new")) is None
        fault.release()
        thread.join()
        assert broker._run(lambda: broker.node.topics.named("new")) is not None


async def test_an_event_loop_waits_for_hits_without_blocking() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        fault = broker.fault(keys="ListGroups", error="COORDINATOR_NOT_AVAILABLE")
        with pytest.raises(KohortError, match=r"use `await fault\.wait_async"):
            fault.wait()
        async with kohort.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            listing = asyncio.create_task(admin.list_groups())
            assert await fault.wait_async() == 1
            assert await listing == []
        with pytest.raises(TimeoutError, match="have 1"):
            await fault.wait_async(2, timeout_s=0.01)
        waiting = asyncio.create_task(fault.wait_async(2))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.interop
async def test_aiokafka_reads_on_after_a_fetch_that_fails() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        async with kohort.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await (await producer.send("orders", b"first"))
        failing = broker.fault(keys="Fetch", topic="orders", partitions=0, error="NOT_LEADER_OR_FOLLOWER", count=2)
        fetching = broker.fault(keys="OffsetFetch", group="g", error="COORDINATOR_LOAD_IN_PROGRESS")
        client = aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            retry_backoff_ms=10,
        )
        await client.start()
        try:
            assert (await client.getone()).value == b"first"
        finally:
            await client.stop()
        assert (failing.hits, fetching.hits) == (2, 1)


@pytest.mark.interop
def test_librdkafka_tells_the_application_of_a_commit_that_is_fenced() -> None:
    with Broker(topics={"orders": 1}) as broker:
        produce(broker, b"first")
        client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            client.subscribe(["orders"])
            message = None
            while message is None:
                message = client.poll(1.0)
            assert message.value() == b"first"
            fault = broker.fault(keys="OffsetCommit", group="g", error="ILLEGAL_GENERATION")
            with pytest.raises(confluent_kafka.KafkaException) as refused:
                client.commit(message=message, asynchronous=False)
            assert refused.value.args[0].code() == confluent_kafka.KafkaError.ILLEGAL_GENERATION
            assert fault.hits == 1
        finally:
            client.close()


def test_a_fault_affects_one_broker_of_a_cluster() -> None:
    with Cluster(2, topics={"orders": 4}) as cluster:
        fault = cluster.fault(keys="Produce", nodes=2, error="NOT_LEADER_OR_FOLLOWER")
        with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(4):
                producer.send("orders", b"x", partition=number).result()
        assert fault.hits == 1


def test_faults_are_listed_and_removed() -> None:
    with Broker() as broker:
        one = broker.fault(keys="Fetch", drop=True)
        two = broker.add_faults([rule_of(keys="Produce"), rule_of(keys="Fetch", observe=True, count=-1)])
        assert [fault.id for fault in broker.faults] == [one.id, two.id]
        assert (one.left, two.left, two.hits, len(two.rules)) == (1, -1, 0, 2)
        assert repr(one) == "<Fault 1: drop, Fetch>"
        assert one.remove() and not one.remove()
        assert broker.clear_faults() == 1
        assert broker.faults == []
        with pytest.raises(kohort.ConfigError, match="did you mean `error`"):
            broker.fault(eror="x")  # type: ignore[call-arg]
