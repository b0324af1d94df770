"""Processes that copy records in transactions, and that read only committed ones, with production's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from kohort.client import ConsumerRecord, KohortError, OffsetAndMetadata
from kohort.model import Millis, TopicPartition
from kohort.sim.checks import CommittedReading, Records, TransactionChecks, value_in
from kohort.sim.plans import COPIES, Copying
from kohort.sim.processes.killable_clients import KillableConsumer, KillableProducer
from kohort.sim.processes.reader import fetching, rest_takes

GROUP = "copiers"
"""Group without members, whose offsets the transactions commit."""
_CLOSES_WITHIN = 15.0
_RECORD_BYTES = 125
"""Size of a record in bytes, if its batch has no other."""
_ABORTS, _SLEEPS = 0.2, 0.1
"""Probability that the application aborts a transaction, and that it pauses during one."""


Content = dict[TopicPartition, list[bytes]]
"""Values of the records of a transaction, by partition."""


class Abandoned(Exception):
    """The application decides against a transaction."""


class Copier:
    """Application that copies each record to all topics of `COPIES`, with the offset in the transaction."""

    waits = 30.0
    """Maximum time that it waits for the result of a record, in seconds."""

    def __init__(
        self,
        name: str,
        copying: Copying,
        bootstrap: str,
        timeout_ms: int,
        records: Records,
        checks: TransactionChecks,
        rng: Random,
        login: dict[str, Any],
    ) -> None:
        self.name = name
        self.leaves = self.left = False
        self.copying = copying
        self._login = login
        self._bootstrap = bootstrap
        self._timeout_ms = timeout_ms
        self._records = records
        self._checks = checks
        self._rng = rng
        self._number = 0
        self.calm = False
        """Whether it no longer pauses or decides against transactions."""

    async def run(self) -> None:
        while not self.leaves:
            producer = KillableProducer(
                bootstrap_servers=self._bootstrap,
                client_id=self.name,
                transactional_id=self.copying.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                request_timeout_ms=min(10_000, self._timeout_ms),
                delivery_timeout_ms=int(self.waits * 1000),
                max_block_ms=10_000,
                linger_ms=self._rng.choice([0, 5]),
                batch_size=self._rng.choice([100, 16_384]),
                **self._login,
            )
            consumer = self._new_consumer(
                {
                    **fetching(self._rng),
                    "bootstrap_servers": self._bootstrap,
                    "client_id": self.name,
                    "group_id": GROUP,
                    "enable_auto_commit": False,
                    "isolation_level": "read_committed",
                    "fetch_max_wait_ms": 1_000,
                    "request_timeout_ms": 10_000,
                    **self._login,
                }
            )
            try:
                await self._copy_all(producer, consumer)
            except KohortError as problem:
                self._records.errors.raised(problem)
            with suppress(KohortError):
                await consumer.close(timeout=_CLOSES_WITHIN)
            with suppress(KohortError):
                await producer.close(timeout=_CLOSES_WITHIN)
            await asyncio.sleep(self._rng.choice([0.1, 2.0, 8.0]))
        self.left = True

    def _new_consumer(self, options: dict[str, Any]) -> KillableConsumer:
        return KillableConsumer(**options)

    async def _copy_all(self, producer: KillableProducer, consumer: KillableConsumer) -> None:
        # Only then is the transaction of the process before over, and its offsets are what it committed.
        await producer.init_transactions()
        consumer.assign(self.copying.partitions)
        while not self.leaves:
            records = await consumer.poll(self._rng.choice([1, 5, 50]), 1.0)
            if not records:
                continue
            try:
                await self._copy(producer, records)
            except Abandoned:
                for partition, offset in _firsts(records).items():
                    consumer.seek(partition, offset)

    async def _copy(self, producer: KillableProducer, records: Sequence[ConsumerRecord]) -> None:
        name, content = self._new_name(), Content()
        offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        async with producer.transaction() as transaction:
            await self._send(producer, name, records, content)
            await self._pause()
            committed = {place: OffsetAndMetadata(offset, name) for place, offset in offsets.items()}
            await transaction.send_offsets(committed, GROUP)
            await self._pause()
            self._decide()
            self._checks.atomicity.asks(name, content, offsets)
        self._checks.atomicity.acknowledged(name)

    def _new_name(self) -> str:
        """Return the name of the next transaction."""
        self._number += 1
        return f"{self.name}/{self._number}"

    async def _send(
        self, producer: KillableProducer, name: str, records: Sequence[ConsumerRecord], content: Content
    ) -> None:
        """Send the copies of these records, and add them to the content of the transaction."""
        now = int(asyncio.get_running_loop().time() * 1000)
        for record in records:
            for topic, partitions in COPIES.items():
                partition = TopicPartition(topic, record.offset % partitions)
                value = value_in(name, bytes(record.value or b""))
                content.setdefault(partition, []).append(value)
                await producer.send(topic, value, partition=partition.partition, timestamp=now)

    def _decide(self) -> None:
        """Raise Abandoned if the application decides against the transaction."""
        if not self.calm and self._rng.random() < _ABORTS:
            raise Abandoned

    async def _pause(self) -> None:
        if not self.calm and self._rng.random() < _SLEEPS:
            await asyncio.sleep(self._rng.choice([0.05, 1.0, 2 * self._timeout_ms / 1000]))


def _firsts(records: Sequence[ConsumerRecord]) -> dict[TopicPartition, int]:
    """Return the first offset of each partition."""
    return {TopicPartition(record.topic, record.partition): record.offset for record in reversed(records)}


class CommittedReader:
    """Consumer without a group that reads only committed records of all copies."""

    waits = 0.0
    """It commits nothing."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        records: Records,
        checks: TransactionChecks,
        rng: Random,
        metadata_age: Millis,
        login: dict[str, Any],
    ) -> None:
        self.name = name
        self.leaves = self.left = False
        self.reading = CommittedReading(name, checks.logs)
        self._records = records
        self._options: dict[str, Any] = {
            **fetching(rng),
            "isolation_level": "read_committed",
            "bootstrap_servers": bootstrap,
            "client_id": name,
            "request_timeout_ms": 10_000,
            "metadata_max_age_ms": metadata_age,
            **login,
        }

    def rest_takes(self) -> float:
        """Return how long reading the rest may take because fetches are small, in seconds."""
        return rest_takes(self.reading.left() * _RECORD_BYTES, self._options)

    async def run(self) -> None:
        consumer = KillableConsumer(**self._options)
        consumer.assign([TopicPartition(topic, number) for topic, count in COPIES.items() for number in range(count)])
        while not self.leaves:
            try:
                records = await consumer.poll(100, 1.0)
            except KohortError as problem:
                self._records.errors.raised(problem)
                await asyncio.sleep(1.0)
                continue
            for record in records:
                self.reading.was_delivered(record)
        await consumer.close(timeout=_CLOSES_WITHIN)
        self.left = True
