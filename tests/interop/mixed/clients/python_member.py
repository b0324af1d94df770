"""One member of a group in a process of its own, by one of the Python clients; it commits what it read at once.

    python -m tests.interop.mixed.clients.python_member CLIENT BOOTSTRAP GROUP TOPIC STRATEGY NAME SESSION_MS CHOICES

SIGTERM makes it leave. It offers STRATEGY alone, so the other members decide with it by Kafka's rules or not at all.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable
from itertools import chain
from typing import Any

from tests.interop.mixed.clients.said import Pause, Said, Spot
from tests.interop.mixed.kinds import Choices, Place

HEARTBEAT_MS = 400
POLL_S = 0.2


def spots(partitions: Iterable[Any]) -> list[Spot]:
    return [(one.topic, one.partition) for one in partitions]


def first(partitions: Iterable[Any]) -> list[Any]:
    """What a pause is about."""
    return [one for one in partitions if one.partition == 0]


def confluent(place: Place, said: Said) -> None:
    import confluent_kafka

    pause = Pause(place.choices.pause_ms)
    unsaid: list[tuple[Spot, int, bytes | None]] = []

    def settle() -> None:
        if unsaid:
            said.read(unsaid)
            ends = {spot: offset + 1 for spot, offset, _ in unsaid}
            unsaid.clear()
            offsets = [
                confluent_kafka.TopicPartition(topic, number, end, metadata=place.choices.note)
                for (topic, number), end in ends.items()
            ]
            try:
                done = consumer.commit(offsets=offsets, asynchronous=False)
                refused = [one.error for one in done or () if one.error]
                said.committed(RuntimeError(str(refused)) if refused else None)
            except confluent_kafka.KafkaException as error:
                said.committed(error)

    def assigned(_: object, partitions: list[Any]) -> None:
        said.assigned(spots(partitions))
        if pause.begins():
            consumer.assign(partitions)
            consumer.pause(first(partitions))

    def revoked(_: object, partitions: list[Any]) -> None:
        # Called inside poll, while records of the polls before are still in hand.
        settle()
        said.revoked(spots(partitions))

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": place.bootstrap,
            "client.id": place.name,
            "group.id": place.group,
            "auto.offset.reset": place.choices.reset,
            "topic.metadata.refresh.interval.ms": place.choices.metadata_ms,
            "enable.auto.commit": False,
            **(
                {"group.protocol": "consumer", "group.remote.assignor": place.strategy}
                if place.choices.protocol == "consumer"
                else {
                    "partition.assignment.strategy": place.strategy,
                    "heartbeat.interval.ms": HEARTBEAT_MS,
                    "session.timeout.ms": place.session_ms,
                }
            ),
            **({"group.instance.id": place.choices.instance} if place.choices.instance else {}),
        }
    )
    consumer.subscribe(
        # librdkafka takes a name that begins so for an expression.
        [f"^{place.topic}" if place.choices.pattern else place.topic],
        on_assign=assigned,
        on_revoke=revoked,
        on_lost=lambda _, partitions: said.lost(spots(partitions)),
    )
    while not said.stopping.is_set():
        record = consumer.poll(POLL_S)
        while record is not None:
            topic, number, offset = record.topic(), record.partition(), record.offset()
            assert record.error() is None and topic and number is not None and offset is not None, record.error()
            unsaid.append(((topic, number), offset, record.value()))
            record = consumer.poll(0) if len(unsaid) < 500 else None
        settle()
        if pause.ends():
            consumer.resume(first(consumer.assignment()))
    said.leaves()
    consumer.close()


def kafka_python(place: Place, said: Said) -> None:
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    pause = Pause(place.choices.pause_ms)

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            said.assigned(spots(assigned))
            if pause.begins():
                consumer.pause(*first(assigned))

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            said.revoked(spots(revoked))
            if place.strategy != "cooperative-sticky":
                # Version 3.0.12 keeps its position in what it has given up, and goes on from there if it gets it back:
                # what another member read in between it reads again. Java forgets all of it here, as this does.
                consumer._subscription.assign_from_subscribed([])

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            said.lost(spots(lost))

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        group_id=place.group,
        auto_offset_reset=place.choices.reset,
        metadata_max_age_ms=place.choices.metadata_ms,
        group_instance_id=place.choices.instance or None,
        enable_auto_commit=False,
        partition_assignment_strategy=[
            {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[place.strategy]
        ],
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=place.session_ms,
    )
    if place.choices.pattern:
        consumer.subscribe(pattern=place.topic, listener=Listener())
    else:
        consumer.subscribe([place.topic], listener=Listener())
    while not said.stopping.is_set():
        polled = consumer.poll(timeout_ms=POLL_S * 1000)
        if polled:
            said.read(((one.topic, one.partition), one.offset, one.value) for one in chain(*polled.values()))
            offsets = {
                one: kafka.OffsetAndMetadata(records[-1].offset + 1, place.choices.note, -1)
                for one, records in polled.items()
            }
            try:
                consumer.commit(offsets)
                said.committed()
            except KafkaError as error:
                said.committed(error)
        if pause.ends():
            consumer.resume(*first(consumer.assignment()))
    said.leaves()
    consumer.close()


async def aiokafka(place: Place, said: Said) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    # Its rebalances run in a task of their own: the lock lets them wait for a commit that is under way.
    working = asyncio.Lock()
    pause = Pause(place.choices.pause_ms)

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            said.assigned(spots(assigned))
            if pause.begins():
                consumer.pause(*first(assigned))

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            async with working:
                said.revoked(spots(revoked))

    consumer: Any = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        group_id=place.group,
        auto_offset_reset=place.choices.reset,
        metadata_max_age_ms=place.choices.metadata_ms,
        group_instance_id=place.choices.instance or None,
        enable_auto_commit=False,
        partition_assignment_strategy=(
            {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[place.strategy],
        ),
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=place.session_ms,
    )
    if place.choices.pattern:
        consumer.subscribe(pattern=place.topic, listener=Listener())
    else:
        consumer.subscribe([place.topic], listener=Listener())
    await consumer.start()
    while not said.stopping.is_set():
        polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        if polled:
            async with working:
                said.read(((one.topic, one.partition), one.offset, one.value) for one in chain(*polled.values()))
                ends = {one: (records[-1].offset + 1, place.choices.note) for one, records in polled.items()}
                try:
                    await consumer.commit(ends)
                    said.committed()
                except KafkaError as error:
                    said.committed(error)
        if pause.ends():
            consumer.resume(*first(consumer.assignment()))
    said.leaves()
    await consumer.stop()


def kohort(place: Place, said: Said) -> None:
    from kohort import KafkaError, OffsetAndMetadata, SubscriptionPattern, TopicPartition, blocking
    from kohort.client import CommitFailedError

    pause = Pause(place.choices.pause_ms)

    def assigned(partitions: Iterable[TopicPartition]) -> None:
        said.assigned(spots(partitions))
        if pause.begins():
            consumer.pause(first(partitions))

    newer = place.choices.protocol == "consumer"
    classic = {
        "partition_assignment_strategy": place.strategy,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "session_timeout_ms": place.session_ms,
    }
    consumer = blocking.Consumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        group_id=place.group,
        auto_offset_reset=place.choices.reset,
        metadata_max_age_ms=place.choices.metadata_ms,
        group_instance_id=place.choices.instance or None,
        enable_auto_commit=False,
        **({"group_protocol": "consumer", "group_remote_assignor": place.strategy} if newer else classic),
    )
    wanted: list[str] | re.Pattern[str] | SubscriptionPattern = [place.topic]
    if place.choices.pattern:
        wanted = SubscriptionPattern(place.topic) if newer else re.compile(place.topic)
    consumer.subscribe(
        wanted,
        on_assigned=assigned,
        on_revoked=lambda partitions: said.revoked(spots(partitions)),
        on_lost=lambda partitions: said.lost(spots(partitions)),
    )
    while not said.stopping.is_set():
        records = consumer.poll(timeout=POLL_S)
        if records:
            said.read(((one.topic, one.partition), one.offset, one.value) for one in records)
            ends = {
                TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset + 1, place.choices.note)
                for one in records
            }
            try:
                consumer.commit(ends)
                said.committed()
            except (KafkaError, CommitFailedError) as error:
                said.committed(error)
        if pause.ends():
            consumer.resume(first(consumer.assignment))
    said.leaves()
    consumer.close()


def main(client: str, *where: str) -> None:
    bootstrap, group, topic, strategy, name, session_ms, choices = where
    place = Place(bootstrap, group, topic, strategy, name, int(session_ms), Choices(**json.loads(choices)))
    said = Said()
    if client == "aiokafka":
        asyncio.run(aiokafka(place, said))
    else:
        {"librdkafka": confluent, "kafka-python": kafka_python, "kohort": kohort}[client](place, said)


if __name__ == "__main__":
    main(*sys.argv[1:])
