"""Topics to which a producer writes: looked up once, and followed while they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError, TopicPartition
from kohort.broker import Broker
from kohort.client import Cluster
from kohort.client.options import ProducerOptions
from kohort.client.produce.producer_topics import ProducerTopics
from kohort.errors import ConfigError
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker

METADATA = 3


@dataclass
class Topics:
    """Topics of a producer at a broker that has the topic t, of two partitions."""

    broker: Broker
    link: Link
    cluster: Cluster
    topics: ProducerTopics

    def change(self, **fields: Any) -> None:
        """Change each partition, or with `error` the topic, in what metadata tells."""
        error = fields.pop("error", None)

        def changed(answer: MetadataResponse, client: str | None) -> None:
            for topic in answer.topics:
                if error is not None:
                    topic.error_code, topic.partitions = error, []
                for partition in topic.partitions:
                    for name, value in fields.items():
                        setattr(partition, name, value)

        self.link.change[METADATA] = changed


@asynccontextmanager
async def topics(**options: Any) -> AsyncIterator[Topics]:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        given = {"retry_backoff_ms": 10, "allow_auto_create_topics": False, "max_block_ms": 300, **options}
        read = ProducerOptions.read({"bootstrap_servers": f"127.0.0.1:{link.port}", **given})
        async with Cluster(read) as cluster:
            made = ProducerTopics(cluster, read, nullcontext())
            yield Topics(broker, link, cluster, made)
            await made.close()


def searches() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("kohort-topic")]


async def test_a_topic_is_looked_up_once_and_has_a_queue_for_each_partition() -> None:
    async with topics() as here:
        assert here.topics.count("t") is None
        assert here.topics.refusal("t") is None
        searching = [asyncio.ensure_future(here.topics.find("t")) for _ in range(2)]
        await asyncio.sleep(0)
        assert len(searches()) == 1
        await asyncio.gather(*searching)
        assert here.topics.count("t") == 2
        known = here.topics.known["t"]
        assert [queue.partition for queue in known.queues] == [TopicPartition("t", 0), TopicPartition("t", 1)]
        assert here.topics.refusal("t") is None
        await here.topics.find("t")
        assert not searches()


@pytest.mark.parametrize("count", [1, 4])
async def test_a_topic_that_has_more_or_fewer_partitions_is_noticed(count: int) -> None:
    async with topics() as here:
        await here.topics.find("t")
        known = here.topics.known["t"]
        before = list(known.queues)
        here.broker.topics.delete(here.broker.topics.all()["t"])
        here.broker.topics.create("t", count)
        await here.cluster.refresh(["t"])
        await eventually(lambda: here.topics.count("t") == count)
        assert known.queues[:2] == before  # batches in them are still to be sent, or to fail
        assert len(known.queues) == max(2, count)
        assert {known.partitioner.choose(None, 100_000) for _ in range(50)} == set(range(count))


async def test_records_without_a_key_go_to_partitions_with_a_leader() -> None:
    def one_leader(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_id = partition.leader_id if partition.partition_index == leader else 9

    async with topics() as here:
        here.link.change[METADATA] = one_leader
        leader = 1
        await here.topics.find("t")
        partitioner = here.topics.known["t"].partitioner
        assert {partitioner.choose(None, 100_000) for _ in range(50)} == {1}
        leader = 0
        await here.cluster.refresh(["t"])
        await eventually(lambda: partitioner.choose(None, 100_000) == 0)
        assert {partitioner.choose(None, 100_000) for _ in range(50)} == {0}


async def test_a_topic_that_does_not_exist_is_an_error_with_its_reason() -> None:
    async with topics(max_block_ms=200) as here:
        with pytest.raises(KafkaError, match="missing: ") as raised:
            await here.topics.find("missing")
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused = here.topics.refusal("missing")
        assert refused is not None and refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not searches()
        here.broker.topics.create("missing", 1)
        await here.topics.find("missing")
        assert here.topics.refusal("missing") is None


async def test_a_topic_that_metadata_refuses_for_good_is_an_error_at_once() -> None:
    async with topics(max_block_ms=60_000) as here:
        here.change(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError) as raised:
            await here.topics.find("t")
        assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_topic_without_partitions_and_without_an_error_does_not_exist_yet() -> None:
    async with topics(max_block_ms=200) as here:
        here.change(error=ErrorCode.NONE)
        with pytest.raises(KafkaError) as raised:
            await here.topics.find("t")
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert here.topics.refusal("t") is None


async def test_a_name_that_no_topic_can_have_is_refused_without_a_request() -> None:
    async with topics() as here:
        with pytest.raises(ConfigError, match="is not a topic"):
            await here.topics.find("")
        assert not here.link.asked[METADATA]


async def test_a_task_that_stops_waiting_leaves_the_search_to_the_others() -> None:
    async with topics() as here:
        first, second = [asyncio.ensure_future(here.topics.find("t")) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert here.topics.count("t") == 2


async def test_a_lookup_that_fails_without_waiters_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    async with topics(max_block_ms=200) as here:
        waiting = asyncio.ensure_future(here.topics.find("missing"))
        await asyncio.sleep(0)
        waiting.cancel()
        await eventually(lambda: not searches())
        del waiting
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_closing_ends_searches_and_no_longer_asks_for_the_topics() -> None:
    asked: list[list[str | None]] = []

    def watch(request: MetadataRequest) -> None:
        asked.append([topic.name for topic in request.topics or ()])

    async with topics(max_block_ms=60_000) as here:
        await here.topics.find("t")
        waiting = asyncio.ensure_future(here.topics.find("missing"))
        await asyncio.sleep(0)
        (search,) = searches()
        await here.topics.close()
        assert search.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await here.cluster.refresh()  # a request from before the end may be on its way
        here.link.watch[METADATA] = watch
        await here.cluster.refresh()
        assert asked == [[]]
