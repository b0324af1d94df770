"""Members of a group that keep polling in a thread of their own, each by another client library."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import aiokafka
import aiokafka.coordinator.assignors.range as aiokafka_range
import confluent_kafka
import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor

from kohort import blocking

# Short, so that a member learns of a rebalance soon whether or not the broker holds heartbeats.
HEARTBEAT_INTERVAL_MS = 300
SESSION_TIMEOUT_MS = 10_000


class Member(Protocol):
    """A member in the background; `stop` leaves the group and raises what went wrong in it."""

    @property
    def name(self) -> str: ...

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that it may process now."""

    @property
    def values(self) -> list[str]:
        """Return all records that it has read since its start."""

    def stop(self) -> None: ...


class _Polling:
    """The thread and what it has seen; a subclass joins, polls until told to stop, and leaves."""

    name = ""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.given_up: list[int] = []
        """Partitions that were taken from it while it stayed."""
        self.owned: frozenset[int] = frozenset()
        self.values: list[str] = []
        self._stopping = threading.Event()
        self._executor = ThreadPoolExecutor(1)
        self._polling = self._executor.submit(self._poll_until_stopped, bootstrap, group, topic)

    def stop(self) -> None:
        self._stopping.set()
        self._polling.result(30.0)
        self._executor.shutdown()

    def _poll_until_stopped(self, bootstrap: str, group: str, topic: str) -> None:
        raise NotImplementedError


class ConfluentMember(_Polling):
    name = "confluent-kafka"
    strategy = "range"

    def _poll_until_stopped(self, bootstrap: str, group: str, topic: str) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "partition.assignment.strategy": self.strategy,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
            }
        )
        try:
            consumer.subscribe([topic], on_revoke=self._revoked)
            while not self._stopping.is_set():
                record = consumer.poll(0.1)
                self.owned = frozenset(place.partition for place in consumer.assignment())
                if record is None:
                    continue
                value = record.value()
                assert record.error() is None and value is not None, record.error()
                self.values.append(value.decode())
        finally:
            self.owned = frozenset()
            consumer.close()

    def _revoked(self, consumer: object, places: list[confluent_kafka.TopicPartition]) -> None:
        if not self._stopping.is_set():
            self.given_up += [place.partition for place in places]


class CooperativeMember(ConfluentMember):
    name = "confluent-kafka, cooperative-sticky"
    strategy = "cooperative-sticky"


class KafkaPythonMember(_Polling):
    name = "kafka-python"

    def _poll_until_stopped(self, bootstrap: str, group: str, topic: str) -> None:
        consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=True,
            partition_assignment_strategy=[RangePartitionAssignor],
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        try:
            while not self._stopping.is_set():
                polled = consumer.poll(timeout_ms=100)
                self.owned = frozenset(place.partition for place in consumer.assignment())
                self.values += [record.value.decode() for records in polled.values() for record in records]
        finally:
            self.owned = frozenset()
            consumer.close()


class AiokafkaMember(_Polling):
    name = "aiokafka"

    def _poll_until_stopped(self, bootstrap: str, group: str, topic: str) -> None:
        asyncio.run(self._poll(bootstrap, group, topic))

    async def _poll(self, bootstrap: str, group: str, topic: str) -> None:
        consumer: Any = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=True,
            partition_assignment_strategy=(aiokafka_range.RangePartitionAssignor,),
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        await consumer.start()
        try:
            while not self._stopping.is_set():
                polled = await consumer.getmany(timeout_ms=100)
                self.owned = frozenset(place.partition for place in consumer.assignment())
                self.values += [record.value.decode() for records in polled.values() for record in records]
        finally:
            self.owned = frozenset()
            await consumer.stop()


class KohortMember(_Polling):
    name = "kohort"

    def _poll_until_stopped(self, bootstrap: str, group: str, topic: str) -> None:
        with blocking.Consumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            partition_assignment_strategy="range",
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        ) as consumer:
            while not self._stopping.is_set():
                records = consumer.poll(timeout=0.1)
                self.owned = frozenset(place.partition for place in consumer.assignment)
                self.values += [record.value.decode() for record in records if record.value is not None]
            self.owned = frozenset()


MEMBERS = (ConfluentMember, KafkaPythonMember, AiokafkaMember, KohortMember)
