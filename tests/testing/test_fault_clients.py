"""Faults as tests of applications use them, with real clients of several libraries."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest

import kohort
from kohort import blocking
from kohort.errors import ErrorCode, KafkaError
from kohort.testing import Broker, Cluster, WaitTimeoutError
from kohort.testing.rules import rule_of
from tests.broker.security.certificates import new_certificates


def consumer(broker: Broker, **options: str) -> blocking.Consumer:
    return blocking.Consumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        group_protocol=options.get("group_protocol", "consumer"),
        client_id=options.get("client_id", "app"),
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
        with pytest.raises(WaitTimeoutError, match=r"This call blocks the event loop .* await its _async form\."):
            fault.wait(timeout_s=0.01)
        async with kohort.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            listing = asyncio.create_task(admin.list_groups())
            assert await fault.wait_async() == 1
            assert await listing == []
        with pytest.raises(WaitTimeoutError, match="have 1"):
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


@pytest.mark.interop
def test_librdkafka_gives_up_a_partition_although_the_answer_that_told_it_was_lost() -> None:
    # Its heartbeat times out, and it sends the same one again instead of a full request.
    often = {"group.consumer.heartbeat.interval.ms": "200", "group.consumer.min.heartbeat.interval.ms": "100"}
    with Broker(topics={"orders": 2}, settings=often) as broker:
        members = [
            confluent_kafka.Consumer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "client.id": name,
                    "group.id": "g",
                    "group.protocol": "consumer",
                }
            )
            for name in ("first", "second")
        ]

        def poll_until(reached: Callable[[], bool]) -> None:
            end = time.monotonic() + 30
            while not reached():
                assert time.monotonic() < end, [member.assignment() for member in members]
                for member in members:
                    member.poll(0.01)

        try:
            first, second = members
            first.subscribe(["orders"])
            poll_until(lambda: len(first.assignment()) == 2)
            held = broker.fault(keys="ConsumerGroupHeartbeat", client_id="first", hold=True)
            lost = broker.fault(keys="ConsumerGroupHeartbeat", client_id="first", drop=True, when="after")
            held.wait()
            second.subscribe(["orders"])
            poll_until(lambda: len(broker.group("g").members) == 2)
            held.release()
            poll_until(lambda: len(second.assignment()) == 1)
            assert lost.hits == 1
        finally:
            for member in members:
                member.close()


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


def test_faults_affect_clients_with_tls(tmp_path: Path) -> None:
    certificates = new_certificates(tmp_path)
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(certificates.key_store())}
    with Broker(topics={"orders": 1}, settings=settings) as broker:
        with blocking.Producer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SSL",
            ssl_cafile=str(certificates.ca_file),
        ) as producer:
            cut, closed = broker.fault(keys="Produce", cut=True), broker.fault(keys="Produce", close=True, nth=2)
            for number in range(3):
                assert producer.send("orders", b"x").result().offset == number
            assert (cut.hits, closed.hits) == (1, 1)


def test_a_held_member_keeps_its_partitions_while_the_other_member_waits() -> None:
    # The usual use: freeze one client in a rebalance, and look at what the others do meanwhile.
    with Broker(topics={"orders": 2}) as broker, consumer(broker, client_id="first") as first:
        while len(first.assignment) < 2:
            first.poll(timeout=0.05)
        fault = broker.fault(keys="ConsumerGroupHeartbeat", client_id="first", hold=True, count=-1)
        with consumer(broker, client_id="second") as second:
            fault.wait()
            second.poll(timeout=0.2)
            assert len(first.assignment) == 2 and not second.assignment
            fault.remove()
            while not (len(first.assignment) == len(second.assignment) == 1):
                first.poll(timeout=0.05)
                second.poll(timeout=0.05)
