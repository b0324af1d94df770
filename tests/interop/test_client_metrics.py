"""Clients that push metrics to our broker (KIP-714), Java's tool for subscriptions, and what `kohort watch` shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import confluent_kafka
import pytest

from kohort import Admin, ConfigKind, Consumer, NewTopic, Producer
from kohort.telemetry import ClientTelemetry
from kohort.watch import Live, Watching
from kohort.watch.telemetry import figures
from tests.interop.java_tools import JavaTools, running_java_tools
from tests.interop.kafka import java
from tests.interop.kohort import KohortBroker, running_kohort

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

CONSUMER = "org.apache.kafka.consumer."
IDLE, ASSIGNED = f"{CONSUMER}poll.idle.ratio.avg", f"{CONSUMER}coordinator.assigned.partitions"


@pytest.fixture(scope="module")
def receiving() -> Iterator[KohortBroker]:
    with running_kohort(telemetry_receiver_enable="true", group_initial_rebalance_delay_ms="0") as broker:
        yield broker


@pytest.fixture(scope="module")
def tools(kafka_tools: None) -> Iterator[JavaTools]:
    with running_java_tools() as running:
        yield running


@pytest.fixture
async def topic(receiving: KohortBroker, fresh: str) -> str:
    async with Admin(bootstrap_servers=receiving.bootstrap) as admin:
        await admin.create_topics([NewTopic(fresh, 2)])
    return fresh


async def subscribe(broker: KohortBroker, name: str, match: str) -> None:
    configs = {"metrics": CONSUMER, "interval.ms": "200", "match": match}
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.alter_configs(ConfigKind.CLIENT_METRICS, name, configs)


async def reported(live: Live, client_id: str, *names: str) -> ClientTelemetry:
    """What the member with that client ID reported, once it owns both partitions by its own account.

    `names` are further metrics that it must have reported.
    """
    changed = asyncio.Event()
    stop = live.subscribe(lambda _event, _now: changed.set())
    try:
        while True:
            found = [one for one in live.telemetry.values() if one.client_id == client_id]
            if found and found[0].metrics.get(ASSIGNED) == 2 and found[0].metrics.keys() >= set(names):
                return found[0]
            changed.clear()
            await changed.wait()
    finally:
        stop()


@contextlib.contextmanager
def librdkafka(broker: KohortBroker, topic: str, client_id: str, **options: str) -> Iterator[None]:
    """A member that polls."""
    configs = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "client.id": client_id, **options}
    consumer = confluent_kafka.Consumer(configs)
    consumer.subscribe([topic])
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.1)
        consumer.close()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def java_consumer(broker: KohortBroker, topic: str, client_id: str) -> Iterator[None]:
    """Kafka's console consumer, at its default settings."""
    more = ["--command-property", f"client.id={client_id}"]
    main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    command = java(main, "--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", topic, *more)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def producing(broker: KohortBroker, topic: str) -> AsyncIterator[None]:
    """Records all the time: the console consumer polls until there are some, and its ratio is known between polls."""
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:

        async def produce() -> None:
            while True:
                await producer.send(topic, b"record")
                await asyncio.sleep(0.05)

        task = asyncio.create_task(produce())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def watching(broker: KohortBroker) -> AsyncIterator[Live]:
    async with Watching({"bootstrap_servers": broker.bootstrap}, history_ms=0) as source:
        await source.caught_up()
        yield source.live


async def test_a_member_of_librdkafka_is_seen_with_its_own_figures(receiving: KohortBroker, topic: str) -> None:
    await subscribe(receiving, topic, f"client_id={topic}")
    with librdkafka(receiving, topic, topic):
        async with watching(receiving) as live:
            found = await reported(live, topic)
    assert "rdkafka" in found.client_software
    assert 0 <= figures(found)[IDLE] <= 1
    assert found.member_id is None, "if it says which member it is, docs/watch.md is wrong"


@pytest.mark.java
async def test_a_java_member_is_seen_with_its_own_figures(
    receiving: KohortBroker, topic: str, kafka_tools: None
) -> None:
    await subscribe(receiving, topic, f"client_software_name=apache-kafka-java,client_id={topic}")
    wanted = [IDLE, f"{CONSUMER}last.poll.seconds.ago", f"{CONSUMER}coordinator.rebalance.latency.max"]
    with java_consumer(receiving, topic, topic):
        async with watching(receiving) as live, producing(receiving, topic):
            found = await reported(live, topic, *wanted)
            assert found.member_id in live.telemetry
    assert found.client_software == "apache-kafka-java 4.3.1"
    assert set(wanted) <= figures(found).keys()


async def test_clients_that_push_nothing_are_not_affected(receiving: KohortBroker, topic: str) -> None:
    await subscribe(receiving, topic, f"client_id={topic}.*")
    async with Consumer(
        topic, bootstrap_servers=receiving.bootstrap, group_id=topic, client_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        assert await consumer.poll(timeout=0.2) == []
    with librdkafka(receiving, topic, f"{topic}-silent", **{"enable.metrics.push": "false"}):
        async with watching(receiving) as live:
            with librdkafka(receiving, topic, f"{topic}-loud", **{"group.id": f"{topic}-2"}):
                await reported(live, f"{topic}-loud")
            assert not any(one.client_id.endswith("-silent") for one in live.telemetry.values())


@pytest.mark.java
def test_javas_tool_creates_describes_lists_and_deletes_a_subscription(
    receiving: KohortBroker, tools: JavaTools, fresh: str
) -> None:
    def run(*arguments: str) -> str:
        return tools.succeed("kafka-client-metrics", "--bootstrap-server", receiving.bootstrap, *arguments)

    match = f"client_id={fresh}-none"
    run("--alter", "--name", fresh, "--metrics", f"{CONSUMER},a.", "--interval", "30000", "--match", match)
    assert fresh in run("--list").split()
    described = run("--describe", "--name", fresh)
    shown = dict(line.strip().partition("=")[::2] for line in described.splitlines()[1:])
    assert shown == {"interval.ms": "30000", "match": match, "metrics": f"{CONSUMER},a."}
    too_often = ["--alter", "--name", fresh, "--interval", "99"]
    refused = tools.run("kafka-client-metrics", "--bootstrap-server", receiving.bootstrap, *too_often)
    assert refused.code != 0 and "must be between 100 and 3600000" in refused.output
    run("--delete", "--name", fresh)
    assert fresh not in run("--list").split()


@pytest.mark.java
def test_our_command_and_javas_tool_see_the_same_subscriptions(
    receiving: KohortBroker, tools: JavaTools, fresh: str
) -> None:
    def java_tool(*arguments: str) -> str:
        return tools.succeed("kafka-client-metrics", "--bootstrap-server", receiving.bootstrap, *arguments)

    def ours(*arguments: str) -> str:
        command = [sys.executable, "-m", "kohort", "client-metrics", *arguments, "--bootstrap", receiving.bootstrap]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    ours("set", fresh, "--metrics", f"{CONSUMER},a.", "--interval", "30000", "--match", f"client_id={fresh}-none")
    described = java_tool("--describe", "--name", fresh)
    shown = dict(line.strip().partition("=")[::2] for line in described.splitlines()[1:])
    assert shown == {"interval.ms": "30000", "match": f"client_id={fresh}-none", "metrics": f"{CONSUMER},a."}
    java_tool("--alter", "--name", fresh, "--interval", "60000")
    assert json.loads(ours("show", fresh, "--json")) == {"name": fresh, **shown, "interval.ms": "60000"}
    ours("delete", fresh)
    assert fresh not in java_tool("--list").split()
