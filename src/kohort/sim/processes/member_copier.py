"""Group members that copy records in transactions with their offsets and their generation (KIP-447)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from kohort.client import NotAssignedError, OffsetAndMetadata, TransactionAbortableError
from kohort.model import TopicPartition
from kohort.sim.plans import COPIER_MAX_POLL_MS, SOURCE
from kohort.sim.processes.copier import Abandoned, Content, Copier
from kohort.sim.processes.killable_clients import KillableConsumer, KillableProducer

_SESSION_MS, _HEARTBEAT_MS = 6_000, 2_000
_GOES_ON = 0.3
"""Probability that the application polls again in a transaction, where its group may rebalance."""

_SENDS_EARLY = 0.5
"""Probability that it sends its offsets some time before the end, which sends them again."""


class _Consumer(KillableConsumer):
    """Production's consumer; the metadata of its offsets is the name of the transaction."""

    commits: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], str]
    """Callback with the offsets of a transaction, which returns the name of the transaction."""

    def transaction_offsets(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], Any]:
        offsets, group = super().transaction_offsets()
        name = self.commits(offsets)
        return {partition: position._replace(metadata=name) for partition, position in offsets.items()}, group


class MemberCopier(Copier):
    """Application that shares the records with other members of its group, and has a transactional id of its own."""

    def __init__(self, protocol: str, *given: Any) -> None:
        super().__init__(*given)
        self._protocol = protocol

    def _new_consumer(self, options: dict[str, Any]) -> KillableConsumer:
        options["max_poll_interval_ms"] = COPIER_MAX_POLL_MS
        if self._protocol == "consumer":
            options["group_protocol"] = "consumer"
        else:
            options["partition_assignment_strategy"] = self._protocol
            options["session_timeout_ms"], options["heartbeat_interval_ms"] = _SESSION_MS, _HEARTBEAT_MS
        return _Consumer(**options)

    async def _copy_all(self, producer: KillableProducer, consumer: KillableConsumer) -> None:
        assert isinstance(consumer, _Consumer)
        await producer.init_transactions()
        consumer.subscribe([SOURCE])
        while not self.leaves:
            # Afterwards, the consumer returns the records again, or another member has them.
            with suppress(Abandoned, TransactionAbortableError, NotAssignedError):
                await self._copy_polled(producer, consumer)

    async def _copy_polled(self, producer: KillableProducer, consumer: _Consumer) -> None:
        records = await consumer.poll(self._rng.choice([1, 5, 50]), 1.0)
        if not records:
            return
        name, content = self._new_name(), Content()

        def commits(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
            self._checks.atomicity.asks(name, content, {place: one.offset for place, one in offsets.items()})
            return name

        consumer.commits = commits
        async with producer.transaction(consumer) as transaction:
            while records:
                await self._send(producer, name, records, content)
                await self._pause()
                goes_on = self._rng.random() < _GOES_ON
                records = await consumer.poll(self._rng.choice([1, 5]), 0.2) if goes_on else []
            if self._rng.random() < _SENDS_EARLY:
                await transaction.send_offsets(consumer)
                await asyncio.sleep(0.0 if self.calm else self._rng.choice([0.0, 0.05, 1.0]))
            self._decide()
        self._checks.atomicity.acknowledged(name)
