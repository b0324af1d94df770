"""A fetcher at a broker whose answers a test holds back or changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from kohort import ErrorCode, TopicPartition
from kohort.broker import Broker
from kohort.client import Cluster
from kohort.client.consume.fetcher import Fetcher
from kohort.client.consume.partition import PartitionState
from kohort.client.options import ConsumerOptions
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tests.client.conftest import eventually
from tests.client.consume.test_consumer import fill
from tests.client.link import Link, linked_broker

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class _OneByOne(asyncio.Event):
    """Lets one task through each time that it is set."""

    async def wait(self) -> Literal[True]:
        await super().wait()
        self.clear()
        return True


@dataclass
class Fetching:
    """A fetcher at a broker with the topic t, of two partitions, and its requests."""

    broker: Broker
    link: Link
    cluster: Cluster
    options: ConsumerOptions
    news: list[None] = field(default_factory=list)
    lost: list[None] = field(default_factory=list)
    requests: list[FetchRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.link.watch[FETCH] = self.requests.append
        told = (lambda: self.news.append(None)), (lambda: self.lost.append(None)), lambda partition: None
        self.fetcher = Fetcher(self.cluster, self.options, *told)

    def fetch(self, *partitions: TopicPartition, position: int = 0) -> list[PartitionState]:
        states = self.fetcher.add(partitions)
        for state in states:
            state.move(position)
        self.fetcher.fetch_more()
        return states

    async def asked(self, more: int = 1) -> None:
        """Wait for that many requests after this call."""
        before = len(self.requests)
        await eventually(lambda: len(self.requests) >= before + more)

    def answer(self, change: Callable[[PartitionData], object], partition: TopicPartition = ZERO) -> None:
        """Change what each answer has of a partition."""

        def changed(answer: FetchResponse, client: str | None) -> None:
            for topic in answer.responses:
                for answered in topic.partitions:
                    if answered.partition_index == partition.partition:
                        change(answered)

        self.link.change[FETCH] = changed

    def answer_all(self, **fields: Any) -> None:
        """Change each answer as a whole."""

        def changed(answer: FetchResponse, client: str | None) -> None:
            for name, value in fields.items():
                setattr(answer, name, value)

        self.link.change[FETCH] = changed

    def hold(self) -> None:
        """Hold back the answers to fetches from now on."""
        self.link.held[FETCH] = _OneByOne()

    def release_one(self) -> None:
        self.link.held[FETCH].set()

    def release(self) -> None:
        self.link.held.pop(FETCH).set()

    async def write(self, count: int, partitions: int = 1) -> None:
        await fill(f"127.0.0.1:{self.link.port}", "t", count, partitions)


@asynccontextmanager
async def fetching(*, versions: dict[int, int] | None = None, **options: Any) -> AsyncIterator[Fetching]:
    def old(answer: ApiVersionsResponse, client: str | None) -> None:
        for api in answer.api_keys:
            api.max_version = min(api.max_version, (versions or {}).get(api.api_key, api.max_version))

    async with linked_broker() as (broker, link):
        if versions:
            link.change[API_VERSIONS] = old
        broker.topics.create("t", 2)
        quick: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "retry_backoff_max_ms": 20}
        given = {"bootstrap_servers": f"127.0.0.1:{link.port}", **quick, "fetch_max_wait_ms": 20, **options}
        read = ConsumerOptions.read(given)
        async with Cluster(ConsumerOptions.read({**given, **quick})) as cluster:
            await cluster.refresh(["t"])
            here = Fetching(broker, link, cluster, read)
            yield here
            await here.fetcher.close()


def partitions_of(request: FetchRequest) -> list[int]:
    return [partition.partition for topic in request.topics for partition in topic.partitions]


def fetches() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("kohort-fetch")]


def refuse(code: ErrorCode) -> Callable[[PartitionData], None]:
    def change(data: PartitionData) -> None:
        data.error_code, data.records = code, None

    return change


LONG: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 600_000}
