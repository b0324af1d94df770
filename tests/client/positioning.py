"""A positioner at a broker whose answers a test holds back or changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort import ErrorCode, TopicPartition
from kohort.broker import Broker
from kohort.client import Cluster
from kohort.client.consume.fetcher import Fetcher
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.positioner import Positioner
from kohort.client.options import ConsumerOptions
from kohort.wire.messages.list_offsets import ListOffsetsResponse
from kohort.wire.messages.metadata import MetadataResponse
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker

FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, EPOCH_END = 1, 2, 3, 9, 23
ZERO, ONE, MISSING = (TopicPartition("t", number) for number in (0, 1, 5))
LONG: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 600_000}


@dataclass
class Positioning:
    """A positioner at a broker with the topic t, of two partitions, whose metadata is known."""

    broker: Broker
    link: Link
    cluster: Cluster
    options: ConsumerOptions
    news: list[None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fetcher = Fetcher(self.cluster, self.options, lambda: None, self._lost, lambda partition: None)
        self.positioner = Positioner(self.cluster, self.options, self.fetcher, lambda: self.news.append(None))

    def _lost(self) -> None:
        self.positioner.find_positions()

    def add(self, *partitions: TopicPartition) -> list[PartitionState]:
        """Add partitions that are not fetched, because they are paused."""
        states = self.fetcher.add(partitions)
        for state in states:
            state.paused = True
        return states

    def go_on(self, *partitions: TopicPartition, paused: bool = True) -> list[PartitionState]:
        states = self.add(*partitions)
        for state in states:
            state.paused = paused
        self.positioner.find_positions()
        return states

    async def asked(self, key: int, times: int = 1) -> None:
        await eventually(lambda: self.link.asked[key] >= times)

    def refuse(self, code: ErrorCode, *partitions: TopicPartition) -> None:
        """Answer ListOffsets with this code for these partitions."""

        def change(answer: ListOffsetsResponse, client: str | None) -> None:
            for topic in answer.topics:
                for partition in topic.partitions:
                    if TopicPartition(topic.name, partition.partition_index) in partitions:
                        partition.error_code = code

        self.link.change[LIST_OFFSETS] = change

    def pause_of(self, state: PartitionState) -> float:
        return state.retry_at - asyncio.get_running_loop().time()


@asynccontextmanager
async def positioning(**options: Any) -> AsyncIterator[Positioning]:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        quick: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "retry_backoff_max_ms": 20}
        given = {"bootstrap_servers": f"127.0.0.1:{link.port}", **quick, **options}
        # The cluster looks up metadata again after half of its retry_backoff_ms.
        async with Cluster(ConsumerOptions.read({**given, **quick})) as cluster:
            await cluster.refresh(["t"])
            here = Positioning(broker, link, cluster, ConsumerOptions.read(given))
            yield here
            await here.positioner.close()
            await here.fetcher.close()


def fails(answer: MetadataResponse, client: str | None) -> None:
    answer.error_code = ErrorCode.UNKNOWN_SERVER_ERROR


def found(*states: PartitionState) -> Callable[[], bool]:
    return lambda: all(state.position is not None for state in states)


def waiting() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "kohort-positions"]


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith("positioner")]
