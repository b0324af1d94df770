"""One member of a group in a process of its own, by one of the Python clients; it commits what it read at once.

    python -m tests.interop.mixed.clients.python_member CLIENT BOOTSTRAP GROUP TOPIC STRATEGY NAME SESSION_MS

SIGTERM makes it leave. It offers STRATEGY alone, so the other members decide with it by Kafka's rules or not at all.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.interop.mixed.clients.said import Said

HEARTBEAT_MS = 400
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Place:
    """Where the member is to join, and as whom."""

    bootstrap: str
    group: str
    topic: str
    strategy: str
    name: str
    session_ms: int


def confluent(place: Place, said: Said) -> None:
    import confluent_kafka

    unsaid: list[tuple[int, int, bytes | None]] = []

    def numbers(partitions: Iterable[Any]) -> list[int]:
        return [partition.partition for partition in partitions]

    def settle() -> None:
        if unsaid:
            said.read(unsaid)
            ends = {partition: offset + 1 for partition, offset, _ in unsaid}
            unsaid.clear()
            offsets = [confluent_kafka.TopicPartition(place.topic, number, end) for number, end in ends.items()]
            try:
                done = consumer.commit(offsets=offsets, asynchronous=False)
                refused = [one.error for one in done or () if one.error]
                said.committed(RuntimeError(str(refused)) if refused else None)
            except confluent_kafka.KafkaException as error:
                said.committed(error)

    def revoked(_: object, partitions: list[Any]) -> None:
        # Called inside poll, while records of the polls before are still in hand.
        settle()
        said.revoked(numbers(partitions))

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": place.bootstrap,
            "client.id": place.name,
            "group.id": place.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": place.strategy,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "session.timeout.ms": place.session_ms,
        }
    )
    consumer.subscribe(
        [place.topic],
        on_assign=lambda _, partitions: said.assigned(numbers(partitions)),
        on_revoke=revoked,
        on_lost=lambda _, partitions: said.lost(numbers(partitions)),
    )
    while not said.stopping.is_set():
        record = consumer.poll(POLL_S)
        while record is not None and len(unsaid) < 500:
            number, offset = record.partition(), record.offset()
            assert record.error() is None and number is not None and offset is not None, record.error()
            unsaid.append((number, offset, record.value()))
            record = consumer.poll(0)
        settle()
    said.revoked()
    consumer.close()


def kafka_python(place: Place, said: Said) -> None:
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            said.assigned(one.partition for one in assigned)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            said.revoked(one.partition for one in revoked)

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            said.lost(one.partition for one in lost)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        group_id=place.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[
            {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[place.strategy]
        ],
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=place.session_ms,
    )
    consumer.subscribe([place.topic], listener=Listener())
    while not said.stopping.is_set():
        polled = consumer.poll(timeout_ms=POLL_S * 1000)
        if polled:
            said.read((one.partition, one.offset, one.value) for records in polled.values() for one in records)
            try:
                consumer.commit()
                said.committed()
            except KafkaError as error:
                said.committed(error)
    said.revoked()
    consumer.close()


async def aiokafka(place: Place, said: Said) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    # Its rebalances run in a task of their own: the lock lets them wait for a commit that is under way.
    working = asyncio.Lock()

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            said.assigned(one.partition for one in assigned)

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            async with working:
                said.revoked(one.partition for one in revoked)

    consumer: Any = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        group_id=place.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(
            {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[place.strategy],
        ),
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=place.session_ms,
    )
    consumer.subscribe([place.topic], listener=Listener())
    await consumer.start()
    while not said.stopping.is_set():
        polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        if polled:
            async with working:
                said.read((one.partition, one.offset, one.value) for records in polled.values() for one in records)
                try:
                    await consumer.commit()
                    said.committed()
                except KafkaError as error:
                    said.committed(error)
    said.revoked()
    await consumer.stop()


def kohort(place: Place, said: Said) -> None:
    from kohort import KafkaError, blocking
    from kohort.client import CommitFailedError
    from kohort.model import TopicPartition

    def numbers(partitions: Iterable[TopicPartition]) -> list[int]:
        return [one.partition for one in partitions]

    consumer = blocking.Consumer(
        place.topic,
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        group_id=place.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=place.strategy,
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=place.session_ms,
        on_assigned=lambda partitions: said.assigned(numbers(partitions)),
        on_revoked=lambda partitions: said.revoked(numbers(partitions)),
        on_lost=lambda partitions: said.lost(numbers(partitions)),
    )
    while not said.stopping.is_set():
        records = consumer.poll(timeout=POLL_S)
        if records:
            said.read((one.partition, one.offset, one.value) for one in records)
            try:
                consumer.commit()
                said.committed()
            except (KafkaError, CommitFailedError) as error:
                said.committed(error)
    said.revoked()
    consumer.close()


def main(client: str, *where: str) -> None:
    *names, session_ms = where
    bootstrap, group, topic, strategy, name = names
    place = Place(bootstrap, group, topic, strategy, name, int(session_ms))
    said = Said(place.topic)
    if client == "aiokafka":
        asyncio.run(aiokafka(place, said))
    else:
        {"librdkafka": confluent, "kafka-python": kafka_python, "kohort": kohort}[client](place, said)


if __name__ == "__main__":
    main(*sys.argv[1:])
