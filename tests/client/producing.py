"""Producers at a broker whose answers a test holds back or changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kohort import ErrorCode, Producer
from kohort.broker import Broker
from kohort.client.options import ProducerOptions
from kohort.client.produce.batches import Delivery
from kohort.client.produce.producer_core import ProducerCore
from kohort.wire.batches import Record, batches, decode_records
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.client.link import Link, linked_broker

PRODUCE, METADATA = 0, 3
NOWHERE = "127.0.0.1:1"


@dataclass
class Producing:
    """A broker with the topic t, of two partitions, and what it is sent."""

    broker: Broker
    link: Link
    options: dict[str, Any]
    records: list[tuple[int, Record]] = field(default_factory=list)
    """Partition and record."""

    def watch(self, request: ProduceRequest) -> None:
        for partition in request.topic_data[0].partition_data:
            assert partition.records is not None
            data = bytes(partition.records)
            for at, _ in batches(data):
                self.records += [(partition.index, record) for record in decode_records(data, at)]

    def refuse(self, code: ErrorCode) -> None:
        def change(answer: ProduceResponse, client: str | None) -> None:
            for partition in answer.responses[0].partition_responses:
                partition.error_code, partition.base_offset = code, -1

        self.link.change[PRODUCE] = change

    def hold(self) -> None:
        self.link.held[PRODUCE] = asyncio.Event()

    def release(self) -> None:
        self.link.held.pop(PRODUCE).set()

    def producer(self, **options: Any) -> Producer:
        return Producer(**{**self.options, **options})

    def core(self, *, keep: bool = True, **options: Any) -> ProducerCore:
        return ProducerCore(ProducerOptions.read({**self.options, **options}), keep=keep)


@asynccontextmanager
async def producing() -> AsyncIterator[Producing]:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        quick = {"linger_ms": 0, "retry_backoff_ms": 10, "allow_auto_create_topics": False}
        here = Producing(broker, link, {"bootstrap_servers": f"127.0.0.1:{link.port}", **quick})
        link.watch[PRODUCE] = here.watch
        yield here


def append(core: ProducerCore, value: bytes = b"x", *, partition: int = 0) -> Delivery:
    return core.append("t", value, None, None, (), partition, len(value) + 24)


def tasks(name: str) -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == name]
