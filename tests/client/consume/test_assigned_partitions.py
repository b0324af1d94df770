"""Positions, lags and records of the partitions that a consumer reads, without a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from kohort import OffsetSpec, TopicPartition
from kohort.client import Cluster
from kohort.client.consume.assigned_partitions import AssignedPartitions
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.unpacking import PlainChunk
from kohort.client.options import ConsumerOptions
from kohort.errors import ConfigError, KohortError
from kohort.member import OffsetAndMetadata
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))
ID, OTHER_ID = UUID(int=1), UUID(int=2)


@dataclass
class Reading:
    """Partitions of one consumer whose brokers cannot be reached."""

    cluster: Cluster
    options: ConsumerOptions
    news: list[None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.partitions = AssignedPartitions(self.cluster, self.options, lambda: self.news.append(None))

    def read(self, *wanted: TopicPartition) -> list[PartitionState]:
        self.partitions.replace(set(wanted))
        return [self.partitions.state(partition) for partition in wanted]

    def learn(self) -> None:
        led = [MetadataResponsePartition(partition_index=n, leader_id=-1, leader_epoch=3) for n in range(3)]
        topic = MetadataResponseTopic(name="t", topic_id=ID, partitions=led)
        self.cluster._refresher.metadata = self.cluster.metadata.merged(MetadataResponse(topics=[topic]))


@asynccontextmanager
async def reading(**options: Any) -> AsyncIterator[Reading]:
    given = {"bootstrap_servers": "127.0.0.1:1", "auto_offset_reset": "earliest", **options}
    read = ConsumerOptions.read(given)
    async with Cluster(read) as cluster:
        here = Reading(cluster, read)
        yield here
        await here.partitions.close()


def fetched(state: PartitionState, count: int = 3) -> None:
    """Records arrive."""
    records = [Record(state.fetch_at + n, 0, None, b"x", []) for n in range(count)]
    state.add(PlainChunk(state.partition, bytes(encode_batch(records, leader_epoch=3)), (), check_crc=True))
    state.end = state.fetch_at


async def test_exactly_the_wanted_partitions_are_read_and_the_others_keep_their_positions() -> None:
    async with reading() as here:
        here.read(ZERO, ONE)[0].move(5)
        assert here.partitions.replace({ZERO, TWO}) == {ONE}
        assert here.partitions.all() == {ZERO, TWO}
        assert here.partitions.positions() == {ZERO: 5}
        with pytest.raises(KohortError, match="t-1 is not assigned"):
            here.partitions.position(ONE)
        here.partitions.remove([ZERO])
        assert here.partitions.all() == {TWO}


async def test_a_new_partition_is_looked_up_at_once() -> None:
    async with reading(auto_offset_reset="none") as here:
        here.read(ZERO)
        assert len(here.news) == 1  # neither a policy nor a group: an error
        with pytest.raises(KohortError, match="auto_offset_reset is none"):
            here.partitions.raise_error()


async def test_a_paused_partition_is_not_handed_out_until_it_is_resumed() -> None:
    async with reading() as here:
        state, _ = here.read(ZERO, ONE)
        state.move(0)
        fetched(state)
        here.partitions.pause([ZERO])
        assert here.partitions.paused() == {ZERO}
        assert here.partitions.take(10) == []
        before = len(here.news)
        here.partitions.resume([ZERO])
        assert (here.partitions.paused(), len(here.news)) == (frozenset(), before + 1)
        assert len(here.partitions.take(10)) == 3


async def test_a_resumed_partition_is_fetched_at_once() -> None:
    async with reading() as here:
        here.learn()
        (state,) = here.read(ZERO)
        state.move(0)
        here.partitions.pause([ZERO])
        here.partitions.resume([ZERO])
        assert state.failures == 1  # it has no leader


async def test_the_position_is_that_of_the_next_record_to_hand_out() -> None:
    async with reading() as here:
        zero, one = here.read(ZERO, ONE)
        assert here.partitions.position(ZERO) is None
        assert (here.partitions.lag(ZERO), here.partitions.lags()) == (None, {ZERO: None, ONE: None})
        for state in (zero, one):
            state.move(5)
            fetched(state)
        here.partitions.read_ahead(2)
        assert here.partitions.positions() == {ZERO: 5, ONE: 5}
        here.partitions.unread.pop()
        assert (here.partitions.position(ZERO), here.partitions.position(ONE)) == (6, 5)
        assert here.partitions.lags() == {ZERO: 2, ONE: 3}
        assert [record.offset for record in here.partitions.take(10)] == [6]  # the rest of what was taken
        assert [record.offset for record in here.partitions.take(10)] == [7, 5, 6, 7]
        assert here.partitions.lags() == {ZERO: 0, ONE: 0}
        zero.move(99)
        assert here.partitions.lag(ZERO) == 0  # beyond the end
        zero.lose(None)
        assert here.partitions.lag(ZERO) is None


async def test_columns_begin_with_what_was_taken_before() -> None:
    async with reading() as here:
        (state,) = here.read(ZERO)
        state.move(5)
        fetched(state)
        here.partitions.read_ahead(2)
        (first,) = here.partitions.take_columns(1)
        (second,) = here.partitions.take_columns(10)
        (third,) = here.partitions.take_columns(10)
        found = [(batch.partition, batch.records.column("offset").to_pylist()) for batch in (first, second, third)]
        assert found == [(ZERO, [5]), (ZERO, [6]), (ZERO, [7])]


async def test_a_commit_has_the_epoch_and_the_topic_of_what_was_read() -> None:
    async with reading() as here:
        zero, one = here.read(ZERO, ONE)
        zero.move(5, 2)
        zero.topic_id = ID
        assert here.partitions.offsets_to_commit() == {ZERO: OffsetAndMetadata(5, "", 2, ID)}
        one.topic_id = OTHER_ID
        given = {ZERO: OffsetAndMetadata(5), ONE: OffsetAndMetadata(6, "", None, ID), TWO: OffsetAndMetadata(7)}
        identified = here.partitions.with_topic_ids(given)
        assert [topic.topic_id for topic in identified.values()] == [ID, ID, None]
        assert given[ZERO].topic_id is None
        assert here.partitions.with_topic_ids({TWO: OffsetAndMetadata(7)}) == {TWO: OffsetAndMetadata(7)}


async def test_a_seek_moves_the_position_and_drops_what_was_taken_of_it() -> None:
    async with reading() as here:
        here.learn()
        zero, one = here.read(ZERO, ONE)
        for state in (zero, one):
            state.move(5)
            fetched(state)
        here.partitions.read_ahead(6)
        here.partitions.seek(ZERO, 7)
        assert (here.partitions.positions(), zero.topic_id) == ({ZERO: 7, ONE: 5}, ID)
        assert [(record.partition, record.offset) for record in here.partitions.take(10)] == [(1, 5), (1, 6), (1, 7)]
        with pytest.raises(ConfigError, match="offset"):
            here.partitions.seek(ZERO, -1)
        assert zero.failures > 0  # it is fetched at once, as far as there is a leader


async def test_a_reset_looks_up_the_given_partitions_or_all() -> None:
    async with reading() as here:
        zero, one = here.read(ZERO, ONE)
        for state in (zero, one):
            state.move(5)
            fetched(state)
        here.partitions.read_ahead(6)
        here.partitions.reset([ONE], OffsetSpec.LATEST)
        assert (here.partitions.positions(), one.reset) == ({ZERO: 5}, OffsetSpec.LATEST)
        assert {record.partition for record in here.partitions.take(10)} == {0}
        here.partitions.reset([], OffsetSpec.EARLIEST)
        assert here.partitions.positions() == {}
        assert (zero.reset, one.reset) == (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST)


async def test_a_committed_offset_places_only_a_partition_that_nobody_placed() -> None:
    async with reading(group_id="g") as here:
        placed, reset, new = here.read(ZERO, ONE, TWO)
        placed.move(9)
        reset.lose(OffsetSpec.LATEST)
        for partition in (ZERO, ONE, TWO, TopicPartition("t", 3)):
            here.partitions.start_at(partition, OffsetAndMetadata(5, "", 2, ID))
        assert here.partitions.positions() == {ZERO: 9, TWO: 5}
        assert (new.leader_epoch, new.topic_id) == (2, ID)


async def test_what_was_taken_of_a_removed_partition_is_not_handed_out() -> None:
    async with reading() as here:
        states = here.read(ZERO, ONE)
        for state in states:
            state.move(5)
            fetched(state)
        here.partitions.read_ahead(6)
        here.partitions.remove([ZERO])
        assert {record.partition for record in here.partitions.take(10)} == {1}


async def test_a_partition_that_was_removed_is_logged_again_when_it_fails_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with reading() as here:
        here.learn()
        for times in (1, 2):
            here.partitions.fetcher.add({ZERO}, lambda topic: OTHER_ID)
            for _ in range(2):
                here.partitions.state(ZERO).retry_at = 0.0
                here.partitions.find_positions()
            assert sum("no position yet" in record.getMessage() for record in caplog.records) == times
            here.partitions.remove([ZERO])


async def test_no_position_is_looked_up_after_closing() -> None:
    async with reading(auto_offset_reset="none") as here:
        await here.partitions.close()
        here.read(ZERO)
        assert here.news == []
        here.partitions.raise_error()


async def test_what_was_taken_of_a_topic_that_was_deleted_is_not_handed_out() -> None:
    async with reading() as here:
        (state,) = here.read(ZERO)
        state.move(5, None, OTHER_ID)
        fetched(state)
        here.partitions.read_ahead(6)
        here.learn()
        here.partitions.fetcher.fetch_more()
        assert here.partitions.take(10) == []
        assert state.position is None
