"""Process that writes records with production's `Producer`, in worlds that have records."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from kohort.client import KohortError, Producer
from kohort.model import TopicPartition
from kohort.sim.checks import Records
from kohort.sim.processes.killable_clients import KillableProducer

_CLOSES_WITHIN = 15.0


class Writer:
    """Idempotent producer that writes on request."""

    waits = 30.0
    """Maximum time that it waits for the result of a record, in seconds."""

    def __init__(self, name: str, bootstrap: str, records: Records, rng: Random, login: dict[str, Any]) -> None:
        self.name = name
        self.leaves = self.left = False
        self._bootstrap = bootstrap
        self._records = records
        self._rng = rng
        self._login = login
        self._orders: asyncio.Queue[tuple[str, int]] | None = None
        self._number = 0

    def produce(self, topic: str, count: int) -> None:
        """Write `count` records to each partition of the topic."""
        if self._orders is not None:
            self._orders.put_nowait((topic, count))

    def leave(self) -> None:
        """End after all records are written."""
        self.leaves = True
        self.produce("", 0)

    async def run(self) -> None:
        self._orders = asyncio.Queue()
        producer = KillableProducer(
            bootstrap_servers=self._bootstrap,
            client_id=self.name,
            request_timeout_ms=10_000,
            delivery_timeout_ms=int(self.waits * 1000),
            max_block_ms=10_000,
            linger_ms=self._rng.choice([0, 5, 50]),
            batch_size=self._rng.choice([100, 16_384]),
            **self._login,
        )
        while not self.leaves:
            topic, count = await self._orders.get()
            if topic:
                await self._write(producer, topic, count)
        await producer.close(timeout=_CLOSES_WITHIN)
        self.left = True

    async def _write(self, producer: Producer, topic: str, count: int) -> None:
        sent = []
        now = int(asyncio.get_running_loop().time() * 1000)
        try:
            partitions = await producer.partitions_for(topic)
            for _ in range(count):
                for number in range(partitions):
                    value = f"{self.name}#{self._number}".encode()
                    self._number += 1
                    delivery = await producer.send(topic, value, partition=number, timestamp=now)
                    sent.append((TopicPartition(topic, number), value, delivery))
        except KohortError as problem:
            # The topic was deleted, or the brokers accept no records for a while.
            self._records.errors.raised(problem)
        for partition, value, delivery in sent:
            try:
                written = await delivery
            except KohortError as problem:
                self._records.errors.raised(problem)
                continue
            if written.offset >= 0:  # a broker that already has the batch need not return its offset
                self._records.was_acknowledged(self.name, partition, written.offset, value)
