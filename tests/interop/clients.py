"""Clients behind one small interface, other people's and our own, so that each test is written once for all of them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.cimpl
import kafka
import pytest

from kohort import NewTopic, blocking
from tests.interop.kafka import java, run_tool
from tests.interop.kohort import kohort

# Generous: a loaded machine with two cores starts a JVM in several seconds. Nothing waits this long when all is well.
DEADLINE = 40.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as a client's tools describe it: state, number of members, committed offset by partition."""

    state: str
    members: int
    committed: dict[int, int]


class Client(Protocol):
    """One client library or tool set. Every call opens its own connections and closes them."""

    @property
    def name(self) -> str: ...

    @property
    def codecs(self) -> Sequence[str]: ...

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None: ...

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        """Write the values as records without a key and wait for every acknowledgement."""

    def consume(self, bootstrap: str, group: str, topic: str, count: int) -> list[str]:
        """As the group's only member: read exactly `count` records from the committed offset, commit, leave."""

    def describe(self, bootstrap: str, group: str, topic: str) -> GroupView: ...


class Java:
    """The console tools of the Apache Kafka distribution: each call is a JVM's start, so few of them."""

    name = "java"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        run_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", str(partitions)),
        )

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        run_tool(
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec),
            stdin="".join(f"{value}\n" for value in values),
        )

    def consume(self, bootstrap: str, group: str, topic: str, count: int) -> list[str]:
        read = run_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
            *("--max-messages", str(count), "--timeout-ms", str(int(DEADLINE * 1000))),
        )
        return read.splitlines()

    def describe(self, bootstrap: str, group: str, topic: str) -> GroupView:
        command = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        # Two JVMs at once: they mostly wait.
        offsets_of = subprocess.Popen(java(tool, *command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            state_of = run_tool(tool, *command, "--state")
            offsets, errors = offsets_of.communicate(timeout=DEADLINE)
        finally:
            offsets_of.kill()
        assert offsets_of.returncode == 0, errors
        state = re.search(rf"^{re.escape(group)} .* (\w+) +(\d+) *$", state_of, re.MULTILINE)
        assert state is not None, state_of
        rows = re.findall(rf"^{re.escape(group)} +{re.escape(topic)} +(\d+) +(\d+) ", offsets, re.MULTILINE)
        return GroupView(state[1], int(state[2]), {int(partition): int(offset) for partition, offset in rows})


class Confluent:
    """confluent-kafka: librdkafka, which most languages but Java's use."""

    name = "confluent-kafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
        new = confluent_kafka.cimpl.NewTopic(topic, num_partitions=partitions)
        admin.create_topics([new])[topic].result(DEADLINE)

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        failed: list[Any] = []

        def delivered(error: Any, record: Any) -> None:
            if error is not None:
                failed.append(error)

        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "compression.codec": codec, "enable.idempotence": True, "linger.ms": 5}
        )
        for value in values:
            producer.produce(
                topic, value.encode(), on_delivery=lambda error, _: failed.append(error) if error else None
            )
        assert producer.flush(DEADLINE) == 0, "not every record was acknowledged"
        assert not failed, failed

    def consume(self, bootstrap: str, group: str, topic: str, count: int) -> list[str]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([topic])
            read: list[str] = []
            deadline = time.monotonic() + DEADLINE
            while len(read) < count:
                assert time.monotonic() < deadline, f"{len(read)} of {count} records"
                record = consumer.poll(1.0)
                if record is None:
                    continue
                assert record.error() is None, record.error()
                value = record.value()
                assert value is not None
                read.append(value.decode())
            consumer.commit(asynchronous=False)
            return read
        finally:
            consumer.close()

    def describe(self, bootstrap: str, group: str, topic: str) -> GroupView:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
        group_of = admin.describe_consumer_groups([group], request_timeout=DEADLINE)[group].result(DEADLINE)
        asked = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
        offsets = admin.list_consumer_group_offsets(asked, request_timeout=DEADLINE)[group].result(DEADLINE)
        committed = {row.partition: row.offset for row in offsets.topic_partitions if row.topic == topic}
        return GroupView(_camel(group_of.state.name), len(group_of.members), committed)


class KafkaPython:
    """kafka-python 3: pure Python, blocking."""

    name = "kafka-python"
    # The other codecs need packages that nothing else here wants.
    codecs = ("none", "gzip")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            admin.create_topics({topic: {"num_partitions": partitions}}, timeout_ms=int(DEADLINE * 1000))
        finally:
            admin.close()

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=5
        )
        try:
            sent = [producer.send(topic, value.encode()) for value in values]
            for acknowledgement in sent:
                acknowledgement.get(timeout=DEADLINE)
        finally:
            producer.close(timeout=DEADLINE)

    def consume(self, bootstrap: str, group: str, topic: str, count: int) -> list[str]:
        consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        try:
            read: list[str] = []
            deadline = time.monotonic() + DEADLINE
            while len(read) < count:
                assert time.monotonic() < deadline, f"{len(read)} of {count} records"
                polled = consumer.poll(timeout_ms=1000, max_records=count - len(read))
                read += [record.value.decode() for records in polled.values() for record in records]
            consumer.commit()
            return read
        finally:
            consumer.close()

    def describe(self, bootstrap: str, group: str, topic: str) -> GroupView:
        admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            group_of = admin.describe_groups([group])[group]
            offsets = admin.list_group_offsets(group)[group]
        finally:
            admin.close()
        committed = {place.partition: at.offset for place, at in offsets.items() if place.topic == topic}
        return GroupView(group_of["group_state"], len(group_of["members"]), committed)


class Aiokafka:
    """aiokafka: asyncio."""

    name = "aiokafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        async def create() -> None:
            admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                await admin.create_topics([aiokafka.admin.NewTopic(topic, partitions, 1)])
            finally:
                await admin.close()

        _run(create())

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        async def produce() -> None:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=True,
                linger_ms=5,
            )
            await producer.start()
            try:
                sent = [await producer.send(topic, value.encode()) for value in values]
                await asyncio.gather(*sent)
            finally:
                await producer.stop()

        _run(produce())

    def consume(self, bootstrap: str, group: str, topic: str, count: int) -> list[str]:
        async def consume() -> list[str]:
            consumer = aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            try:
                read = [(await consumer.getone()).value.decode() for _ in range(count)]
                await consumer.commit()
                return read
            finally:
                await consumer.stop()

        return _run(consume())

    def describe(self, bootstrap: str, group: str, topic: str) -> GroupView:
        async def describe() -> GroupView:
            admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                (answer,) = await admin.describe_consumer_groups([group])
                offsets = await admin.list_consumer_group_offsets(group)
            finally:
                await admin.close()
            (row,) = answer.groups
            # By position: the fields that follow the members differ between versions of the answer.
            error_code, _, state, _, _, members = row[:6]
            assert error_code == 0, row
            committed = {place.partition: at.offset for place, at in offsets.items() if place.topic == topic}
            return GroupView(state, len(members), committed)

        return _run(describe())


class Kohort:
    """Our own client, its blocking face."""

    name = "kohort"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        with blocking.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(topic, partitions)])

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        with blocking.Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for delivery in [producer.send(topic, value.encode()) for value in values]:
                delivery.result()

    def consume(self, bootstrap: str, group: str, topic: str, count: int) -> list[str]:
        with blocking.Consumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            read: list[str] = []
            deadline = time.monotonic() + DEADLINE
            while len(read) < count:
                assert time.monotonic() < deadline, f"{len(read)} of {count} records"
                records = consumer.poll(max_records=count - len(read))
                read += [record.value.decode() for record in records if record.value is not None]
            consumer.commit()
            return read

    def describe(self, bootstrap: str, group: str, topic: str) -> GroupView:
        with blocking.Admin(bootstrap_servers=bootstrap) as admin:
            description = admin.describe_groups([group])[group]
            offsets = admin.group_offsets(group)
        committed = {place.partition: at.offset for place, at in offsets.items() if place.topic == topic and at}
        return GroupView(description.state, len(description.members), committed)


class KohortCommand:
    """Our own client, from the command line."""

    name = "kohort-command"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._run("topic", "create", topic, "--partitions", str(partitions), bootstrap=bootstrap)

    def produce(self, bootstrap: str, topic: str, values: Sequence[str], codec: str) -> None:
        lines = "".join(f"{value}\n" for value in values)
        self._run("produce", topic, "--compression", codec, bootstrap=bootstrap, stdin=lines)

    def consume(self, bootstrap: str, group: str, topic: str, count: int) -> list[str]:
        asked = ("--group", group, "--from-beginning", "--max", str(count))
        return self._run("consume", topic, *asked, bootstrap=bootstrap).splitlines()

    def describe(self, bootstrap: str, group: str, topic: str) -> GroupView:
        told = json.loads(self._run("group", "describe", group, "--json", bootstrap=bootstrap))
        rows = [row for row in told["offsets"] if row["topic"] == topic and row["committed"] is not None]
        return GroupView(told["state"], len(told["members"]), {row["partition"]: row["committed"] for row in rows})

    def _run(self, *arguments: str, bootstrap: str, stdin: str = "") -> str:
        command = kohort(*arguments, "--bootstrap", bootstrap)
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


CLIENTS: tuple[Client, ...] = (Java(), Confluent(), KafkaPython(), Aiokafka(), Kohort(), KohortCommand())
OF_EACH_CLIENT = [
    pytest.param(
        client,
        id=client.name,
        marks=pytest.mark.long("starts a program for each step") if isinstance(client, Java | KohortCommand) else (),
    )
    for client in CLIENTS
]
"""Parameters for a test that other tests of `make test` resemble."""


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in a loop of its own, bounded in time."""

    async def bounded() -> T:
        async with asyncio.timeout(DEADLINE):
            return await work

    return asyncio.run(bounded())


def _camel(state: str) -> str:
    return "".join(word.capitalize() for word in state.split("_"))
