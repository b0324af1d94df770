"""Partitions that are fetched ahead, and the order in which their records are returned, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from kohort import ErrorCode, KafkaError, TopicPartition
from kohort.client import Cluster
from kohort.client.consume.fetcher import Fetcher
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.unpacking import PlainChunk
from kohort.client.options import ConsumerOptions
from kohort.requests import ClusterMetadata
from kohort.wire.batches import BatchError, Record, encode_batch
from kohort.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.conftest import eventually

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))
ID, OTHER_ID = UUID(int=1), UUID(int=2)
EPOCH = 3


@dataclass
class Fetching:
    """A fetcher of the topic t, of three partitions, whose leader cannot be reached."""

    cluster: Cluster
    options: ConsumerOptions
    news: list[None] = field(default_factory=list)
    lost: list[None] = field(default_factory=list)
    renewed: list[TopicPartition] = field(default_factory=list)

    def __post_init__(self) -> None:
        told = (lambda: self.news.append(None)), (lambda: self.lost.append(None)), self.renewed.append
        self.fetcher = Fetcher(self.cluster, self.options, *told)

    def learn(self, *, epoch: int = EPOCH, topic_id: UUID = ID, count: int = 3, error: int = 0) -> None:
        """Metadata of t arrives."""
        led = [
            MetadataResponsePartition(
                partition_index=number, leader_id=1, leader_epoch=epoch, replica_nodes=[1], isr_nodes=[1]
            )
            for number in range(count)
        ]
        topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=led, error_code=error)
        known = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)],
            topics=[topic],
        )
        self.cluster._refresher.metadata = self.cluster.metadata.merged(known)

    def add(self, *partitions: TopicPartition) -> list[PartitionState]:
        """Add partitions whose position is 0."""
        states = self.fetcher.add(partitions)
        for state in states:
            state.move(0)
        return states

    def fetched(self) -> list[TopicPartition]:
        """Partitions that are being fetched after a change."""
        self.fetcher.fetch_more()
        return [partition for partition, state in self.fetcher.states.items() if state.slot is not None]

    def take(self, most: int) -> list[tuple[int, int]]:
        return [(record.partition, record.offset) for record in self.fetcher.take(most)]


@asynccontextmanager
async def fetching(**options: Any) -> AsyncIterator[Fetching]:
    given = {"bootstrap_servers": "127.0.0.1:1", "auto_offset_reset": "earliest", **options}
    read = ConsumerOptions.read(given)
    async with Cluster(read) as cluster:
        here = Fetching(cluster, read)
        here.learn()
        yield here
        await here.fetcher.close()


def batch(first: int, count: int = 3) -> bytes:
    return bytes(encode_batch([Record(first + n, 0, None, b"x", []) for n in range(count)]))


def fetched_ahead(state: PartitionState, *, damaged: bool = False, times: int = 1) -> int:
    """Add what a fetch brought: batches of three records; return its size."""
    for _ in range(times):
        data = bytearray(batch(state.fetch_at))
        if damaged:
            data[-1] ^= 1
        state.add(PlainChunk(state.partition, bytes(data), (), check_crc=True))
    return len(data)


# Read-ahead


async def test_a_partition_is_fetched_once_at_a_time() -> None:
    async with fetching() as here:
        here.add(ZERO, ONE)
        assert here.fetched() == here.fetched() == [ZERO, ONE]
        fetches = [task for task in asyncio.all_tasks() if task.get_name().startswith("kohort-fetch")]
        assert len(fetches) == 1
        assert (here.lost, here.news) == ([], [])


@pytest.mark.parametrize(("more", "again"), [(0, False), (1, True)])
async def test_a_partition_is_fetched_ahead_until_it_has_the_bytes_of_one_fetch(more: int, again: bool) -> None:
    async with fetching(max_partition_fetch_bytes=len(batch(0)) + more) as here:
        (state,) = here.add(ZERO)
        fetched_ahead(state)
        assert (here.fetched() == [ZERO]) is again


@pytest.mark.parametrize(("more", "again"), [(0, []), (1, [ZERO, ONE])])
async def test_all_partitions_together_are_fetched_ahead_until_they_have_fetch_max_bytes(
    more: int, again: list[TopicPartition]
) -> None:
    async with fetching(fetch_max_bytes=2 * len(batch(0)) + more) as here:
        for state in here.add(ZERO, ONE):
            fetched_ahead(state)
        assert here.fetched() == again


async def test_a_partition_that_has_nothing_is_fetched_however_much_the_others_have() -> None:
    async with fetching(fetch_max_bytes=1) as here:
        full, _ = here.add(ZERO, ONE)
        fetched_ahead(full)
        assert here.fetched() == [ONE]


def later(state: PartitionState) -> None:
    state.retry_at = asyncio.get_running_loop().time() + 60


HINDRANCES: dict[str, Callable[[Fetching, PartitionState], object]] = {
    "it is paused": lambda here, state: here.fetcher.pause(state),
    "it has no position": lambda here, state: state.lose(None),
    "it failed a moment ago": lambda here, state: later(state),
    "its leader has to be checked": lambda here, state: state.move(5, EPOCH - 1),
    "it has enough": lambda here, state: fetched_ahead(state, times=2),
    "its topic is another one": lambda here, state: setattr(state, "topic_id", OTHER_ID),
}


@pytest.mark.parametrize("hindrance", HINDRANCES)
async def test_a_partition_that_is_not_fetched_keeps_no_other_waiting(hindrance: str) -> None:
    async with fetching(max_partition_fetch_bytes=len(batch(0))) as here:
        state, _ = here.add(ZERO, ONE)
        HINDRANCES[hindrance](here, state)
        assert here.fetched() == [ONE]


async def test_a_partition_that_failed_is_fetched_when_its_pause_is_over() -> None:
    async with fetching(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as here:
        (state,) = here.add(ZERO)
        state.retry_at = asyncio.get_running_loop().time() + 0.02
        assert here.fetched() == []
        await eventually(lambda: state.failures == 1)  # no server listens there


async def test_a_new_leader_is_checked_before_it_is_read_from() -> None:
    async with fetching() as here:
        (state,) = here.add(ZERO)
        state.move(5, EPOCH)
        here.learn(epoch=EPOCH + 1)
        assert (here.fetched(), len(here.lost), state.position) == ([], 1, 5)
        state.checked_epoch = EPOCH + 1
        assert (here.fetched(), len(here.lost)) == ([ZERO], 1)


async def test_a_partition_with_an_unknown_leader_is_not_checked() -> None:
    async with fetching() as here:
        (state,) = here.add(TopicPartition("u", 0))
        state.move(5, EPOCH)
        assert not here.fetcher.must_check(state)


async def test_the_position_in_a_topic_that_was_deleted_is_lost() -> None:
    async with fetching() as here:
        (state,) = here.add(ZERO)
        state.topic_id = ID
        here.learn(topic_id=OTHER_ID)
        assert here.fetched() == []
        assert (state.position, len(here.lost), here.renewed) == (None, 1, [ZERO])


async def test_a_topic_that_metadata_does_not_know_at_the_moment_keeps_its_position() -> None:
    async with fetching() as here:
        (state,) = here.add(ZERO)
        state.topic_id = ID
        here.cluster._refresher.metadata = ClusterMetadata()
        assert here.fetched() == []
        assert (state.position, here.lost, here.renewed) == (0, [], [])
        assert state.failures == 1 and state.retry_at > asyncio.get_running_loop().time()


async def test_an_error_is_raised_before_its_partition_is_fetched_again() -> None:
    async with fetching() as here:
        here.learn(count=0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        (state,) = here.add(ZERO)
        assert (here.fetched(), len(here.news)) == ([], 1)
        here.learn()
        assert here.fetched() == []
        with pytest.raises(KafkaError):
            here.take(1)
        state.retry_at = 0.0
        assert here.fetched() == [ZERO]


async def test_nothing_is_fetched_after_closing() -> None:
    async with fetching() as here:
        here.add(ZERO)
        here.fetched()
        fetches = [task for task in asyncio.all_tasks() if task.get_name().startswith("kohort-fetch")]
        await here.fetcher.close()
        assert here.fetcher.states == {}
        assert all(task.cancelled() for task in fetches)
        here.add(ZERO)
        assert here.fetched() == []


async def test_removing_a_partition_that_was_not_added_is_allowed() -> None:
    async with fetching() as here:
        here.add(ZERO)
        here.fetcher.remove([ONE, ZERO])
        assert here.fetched() == []


# How records are handed out


async def test_a_fetch_of_one_partition_is_handed_out_before_another_one() -> None:
    async with fetching() as here:
        for state in here.add(ZERO, ONE):
            fetched_ahead(state, times=2)
        assert here.take(2) == [(0, 0), (0, 1)]
        assert here.take(2) == [(0, 2), (0, 3)]  # into the next fetch, so that the others are next
        assert here.take(7) == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (0, 4)]
        assert here.take(2) == [(0, 5)]
        assert here.take(2) == []


async def test_as_many_records_as_asked_for_come_from_several_partitions() -> None:
    async with fetching() as here:
        for state in here.add(ZERO, ONE, TWO):
            fetched_ahead(state)
        assert here.take(5) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
        assert here.take(5) == [(1, 2), (2, 0), (2, 1), (2, 2)]


async def test_paused_partitions_and_those_without_records_are_passed_over() -> None:
    async with fetching() as here:
        paused, _, last = here.add(ZERO, ONE, TWO)
        here.fetcher.states[ONE].lose(None)
        fetched_ahead(paused)
        fetched_ahead(last)
        here.fetcher.pause(paused)
        assert here.take(5) == [(2, 0), (2, 1), (2, 2)]
        paused.paused = False
        assert here.take(5) == [(0, 0), (0, 1), (0, 2)]


async def test_more_is_fetched_as_soon_as_a_fetch_is_handed_out() -> None:
    async with fetching(max_partition_fetch_bytes=len(batch(0))) as here:
        (state,) = here.add(ZERO)
        fetched_ahead(state)
        assert here.fetched() == []
        here.take(2)
        assert state.slot is None
        here.take(2)
        assert state.slot is not None


async def test_an_error_is_raised_before_the_records_of_others_and_after_its_own() -> None:
    async with fetching() as here:
        states = here.add(ZERO, ONE)
        for state in states:
            fetched_ahead(state)
        here.learn(count=0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        here.fetched()  # an error of each of them
        assert here.take(3) == [(0, 0), (0, 1), (0, 2)]
        assert here.take(3) == [(1, 0), (1, 1), (1, 2)]
        fetched_ahead(states[1])
        with pytest.raises(KafkaError):
            here.take(3)
        assert here.take(3) == [(1, 3), (1, 4), (1, 5)]
        with pytest.raises(KafkaError):  # in the call that finds nothing more
            here.take(3)


async def test_a_damaged_batch_is_raised_by_the_call_after_the_records_before_it() -> None:
    async with fetching() as here:
        sound, damaged = here.add(ZERO, ONE)
        fetched_ahead(sound)
        fetched_ahead(damaged, damaged=True)
        assert here.take(5) == [(0, 0), (0, 1), (0, 2)]
        fetched_ahead(sound)
        with pytest.raises(BatchError, match=r"t-1 at offset 0: .*seek past it"):
            here.take(5)
        assert here.take(3) == [(0, 3), (0, 4), (0, 5)]  # all that were asked for: nothing of t-1 yet
        fetched_ahead(sound)
        assert here.take(3) == [(0, 6), (0, 7), (0, 8)]


@pytest.mark.parametrize("ended_by", ["a seek", "a pause", "its removal"])
async def test_a_damaged_batch_that_the_application_passes_over_is_not_raised(ended_by: str) -> None:
    async with fetching() as here:
        sound, damaged = here.add(ZERO, ONE)
        fetched_ahead(sound)
        fetched_ahead(damaged, damaged=True)
        assert here.take(5) == [(0, 0), (0, 1), (0, 2)]
        if ended_by == "a seek":
            damaged.move(3)
        elif ended_by == "a pause":
            here.fetcher.pause(damaged)
        else:
            here.fetcher.remove([ONE])
        assert here.take(5) == []


async def test_a_damaged_partition_is_tried_after_the_others() -> None:
    async with fetching() as here:
        damaged, sound = here.add(ZERO, ONE)
        fetched_ahead(damaged, damaged=True)
        fetched_ahead(sound)
        with pytest.raises(BatchError):
            here.take(5)
        assert here.take(5) == [(1, 0), (1, 1), (1, 2)]
        with pytest.raises(BatchError):
            here.take(5)
