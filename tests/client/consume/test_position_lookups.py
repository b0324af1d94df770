"""Each answer of a look-up places its partition, sends it back, or is an error of that partition."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError, OffsetSpec, TopicPartition
from kohort.broker import Broker
from kohort.client import Cluster, LogTruncatedError, NoOffsetError
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.position_lookups import PositionLookups, Turns
from kohort.client.membership.committed import commit_outside
from kohort.client.options import ConsumerOptions
from kohort.client.reset import ByDuration
from kohort.member import OffsetAndMetadata
from kohort.model import NO_TOPIC_ID, UUID
from kohort.requests import ClusterMetadata
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from tests.client.consume.test_consumer import fill
from tests.client.link import Link, linked_broker

LIST_OFFSETS, OFFSET_FETCH, API_VERSIONS, EPOCH_END = 2, 9, 18, 23
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
MINUTE = 60_000


@dataclass
class Asking:
    """Look-ups at a broker with the topic t, of two partitions with five records each."""

    broker: Broker
    link: Link
    cluster: Cluster
    lookups: PositionLookups
    node: int
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def of(self, *partitions: TopicPartition) -> Turns:
        states = [self.states.setdefault(partition, PartitionState(partition)) for partition in partitions]
        return {state.partition: (state, state.turn) for state in states}

    def read_to(self, position: int, *, fetched: int | None = None, epoch: int = 0) -> PartitionState:
        """Partition 0, handed out up to `position` and fetched up to `fetched`."""
        state = self.states[ZERO] = PartitionState(ZERO)
        state.move(position, epoch)
        state.fetch_at = position if fetched is None else fetched
        return state


@asynccontextmanager
async def asking(*, too_old: bool = False, **options: Any) -> AsyncIterator[Asking]:
    def leave_out(answer: ApiVersionsResponse, client: str | None) -> None:
        answer.api_keys = [api for api in answer.api_keys if api.api_key != EPOCH_END]

    async with linked_broker() as (broker, link):
        if too_old:
            link.change[API_VERSIONS] = leave_out
        broker.topics.create("t", 2)
        bootstrap = f"127.0.0.1:{link.port}"
        await fill(bootstrap, "t", 10, 2)
        options = {"group_id": "g", "auto_offset_reset": "earliest", "retry_backoff_ms": 10, **options}
        async with Cluster.of(bootstrap) as cluster:
            metadata = await cluster.refresh(["t"])
            lookups = PositionLookups(cluster, ConsumerOptions.read({"bootstrap_servers": bootstrap, **options}))
            yield Asking(broker, link, cluster, lookups, min(metadata.brokers))


def ends(**fields: int) -> Any:
    """Change the answer of OffsetForLeaderEpoch for each partition."""

    def change(answer: OffsetForLeaderEpochResponse, client: str | None) -> None:
        for partition in answer.topics[0].partitions:
            partition.error_code = ErrorCode.NONE
            for name, value in fields.items():
                setattr(partition, name, value)

    return change


# Topics that are created again while they are looked up


async def test_a_position_belongs_to_the_topic_for_which_it_was_looked_up() -> None:
    # The topic may be created again before the partition is fetched: the position is not one of the new topic.
    async with asking() as ask:
        await commit_outside(ask.cluster, "g", {ZERO: 3})
        before = ask.cluster.metadata.topic_id("t")
        assert before is not None
        for lookup in (ask.lookups.ask_committed, partial(ask.lookups.ask_offsets, ask.node)):
            ask.states[ZERO] = PartitionState(ZERO)
            ask.states[ZERO].lose(OffsetSpec.EARLIEST)
            turns = ask.of(ZERO)
            ask.link.watch[OFFSET_FETCH] = ask.link.watch[LIST_OFFSETS] = lambda request: renew(ask)
            assert await lookup(turns) == {}
            assert ask.states[ZERO].position is not None
            assert ask.cluster.metadata.topic_id("t") != ask.states[ZERO].topic_id == before
            ask.cluster._refresher.metadata = known_as(ask.cluster.metadata, before)


def renew(ask: Asking) -> None:
    """Let the client know the topic under another ID from now on."""
    ask.cluster._refresher.metadata = known_as(ask.cluster.metadata, UUID(int=1))


def known_as(metadata: ClusterMetadata, topic_id: UUID) -> ClusterMetadata:
    return replace(metadata, topics={"t": replace(metadata.topics["t"], topic_id=topic_id)}, names={topic_id: "t"})


async def test_a_granted_partition_is_looked_up_by_the_id_that_was_granted() -> None:
    async with asking() as ask:
        await commit_outside(ask.cluster, "g", {ZERO: 3})
        granted = ask.cluster.metadata.topic_id("t")
        ask.states[ZERO] = PartitionState(ZERO, granted)
        renew(ask)
        assert await ask.lookups.ask_committed(ask.of(ZERO)) == {}
        assert (ask.states[ZERO].position, ask.states[ZERO].topic_id) == (3, granted)


# Committed offsets


async def test_a_committed_offset_is_the_position_and_its_epoch_has_to_be_checked() -> None:
    async with asking() as ask:
        await commit_outside(ask.cluster, "g", {ZERO: OffsetAndMetadata(3, leader_epoch=2)})
        assert await ask.lookups.ask_committed(ask.of(ZERO, ONE)) == {}
        state = ask.states[ZERO]
        assert (state.position, state.fetch_epoch) == (3, 2)
        assert (ask.states[ONE].position, ask.states[ONE].reset) == (None, OffsetSpec.EARLIEST)


async def test_without_a_committed_offset_and_a_policy_it_is_an_error_of_that_partition() -> None:
    async with asking(auto_offset_reset="none") as ask:
        await commit_outside(ask.cluster, "g", {ZERO: 3})
        errors = await ask.lookups.ask_committed(ask.of(ZERO, ONE))
        assert ask.states[ZERO].position == 3
        assert {partition: type(error) for partition, error in errors.items()} == {ONE: NoOffsetError}
        assert "t-1 has no committed offset" in str(errors[ONE])


async def test_a_requested_reset_precedes_the_policy() -> None:
    async with asking() as ask:
        state = PartitionState(ZERO)
        state.lose(OffsetSpec.LATEST)
        assert ask.lookups.resets(state) is None
        assert state.reset is OffsetSpec.LATEST


def refuse(code: ErrorCode) -> Any:
    """Change the answer of OffsetFetch for each partition."""

    def change(answer: OffsetFetchResponse, client: str | None) -> None:
        for partition in answer.groups[0].topics[0].partitions:
            partition.error_code = code

    return change


async def test_a_coordinator_that_does_not_know_the_id_of_an_existing_topic_is_asked_by_id_again() -> None:
    # It does not know the new topic yet. By name it would return the offset of the earlier topic.
    asked: list[bool] = []

    def by_id(request: OffsetFetchRequest) -> None:
        asked.append(all(topic.topic_id != NO_TOPIC_ID for group in request.groups for topic in group.topics or ()))

    async with asking() as ask:
        await commit_outside(ask.cluster, "g", {ZERO: 3})
        ask.link.watch[OFFSET_FETCH] = by_id
        ask.link.change[OFFSET_FETCH] = refuse(ErrorCode.UNKNOWN_TOPIC_ID)
        for _ in range(2):
            [error] = (await ask.lookups.ask_committed(ask.of(ZERO))).values()
            assert isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_ID
        del ask.link.change[OFFSET_FETCH]
        assert await ask.lookups.ask_committed(ask.of(ZERO)) == {}
        assert (asked, ask.states[ZERO].position) == ([True] * 3, 3)


async def test_a_deleted_topic_has_no_committed_offset_and_its_position_is_reset() -> None:
    async with asking() as ask:
        await commit_outside(ask.cluster, "g", {ZERO: 3})
        ask.broker.topics.delete(ask.broker.topics.all()["t"])
        assert await ask.lookups.ask_committed(ask.of(ZERO)) == {}
        assert (ask.states[ZERO].position, ask.states[ZERO].reset) == (None, OffsetSpec.EARLIEST)
        assert "t" not in ask.broker.topics.all()


# Offsets of resets


async def test_a_reset_leads_to_the_first_or_to_the_next_offset() -> None:
    async with asking() as ask:
        turns = ask.of(ZERO, ONE)
        ask.states[ZERO].reset, ask.states[ONE].reset = OffsetSpec.EARLIEST, OffsetSpec.LATEST
        assert await ask.lookups.ask_offsets(ask.node, turns) == {}
        assert [state.position for state in ask.states.values()] == [0, 5]


@pytest.mark.parametrize(("level", "isolation"), [("read_committed", 1), ("read_uncommitted", 0)])
async def test_the_end_of_a_log_is_what_the_isolation_level_lets_be_read(level: str, isolation: int) -> None:
    levels: list[int] = []

    async with asking(isolation_level=level) as ask:
        ask.link.watch[LIST_OFFSETS] = lambda request: levels.append(request.isolation_level)
        turns = ask.of(ZERO)
        ask.states[ZERO].reset = OffsetSpec.LATEST
        await ask.lookups.ask_offsets(ask.node, turns)
    assert levels == [isolation]


async def test_a_duration_is_relative_to_now_and_not_before_the_epoch() -> None:
    times: dict[int, int] = {}

    def watch(request: ListOffsetsRequest) -> None:
        times.update({partition.partition_index: partition.timestamp for partition in request.topics[0].partitions})

    async with asking() as ask:
        ask.link.watch[LIST_OFFSETS] = watch
        turns = ask.of(ZERO, ONE)
        before = int(time.time() * 1000)
        ask.states[ZERO].reset = ByDuration(10 * MINUTE)
        ask.states[ONE].reset = ByDuration(2 * before)
        assert await ask.lookups.ask_offsets(ask.node, turns) == {}
        assert before <= times[0] + 10 * MINUTE <= int(time.time() * 1000)
        assert times[1] == 0
        assert [state.position for state in ask.states.values()] == [0, 0]


async def test_if_every_record_is_older_than_the_duration_the_end_is_requested_next() -> None:
    async with asking() as ask:
        turns = ask.of(ZERO)
        ask.link.change[LIST_OFFSETS] = no_offset
        ask.states[ZERO].reset = ByDuration(MINUTE)
        assert await ask.lookups.ask_offsets(ask.node, turns) == {}
        assert (ask.states[ZERO].position, ask.states[ZERO].reset) == (None, OffsetSpec.LATEST)


async def test_a_leader_that_does_not_know_the_first_offset_is_asked_again() -> None:
    async with asking() as ask:
        turns = ask.of(ZERO)
        ask.link.change[LIST_OFFSETS] = no_offset
        ask.states[ZERO].reset = OffsetSpec.EARLIEST
        [error] = (await ask.lookups.ask_offsets(ask.node, turns)).values()
        assert isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert (ask.states[ZERO].position, ask.states[ZERO].reset) == (None, OffsetSpec.EARLIEST)


def no_offset(answer: ListOffsetsResponse, client: str | None) -> None:
    for partition in answer.topics[0].partitions:
        partition.offset = -1


async def test_a_partition_that_an_answer_leaves_out_is_an_error() -> None:
    def leave_out(answer: ListOffsetsResponse, client: str | None) -> None:
        answer.topics[0].partitions = [
            partition for partition in answer.topics[0].partitions if partition.partition_index
        ]

    async with asking() as ask:
        turns = ask.of(ZERO, ONE)
        ask.link.change[LIST_OFFSETS] = leave_out
        ask.states[ZERO].reset = ask.states[ONE].reset = OffsetSpec.LATEST
        errors = await ask.lookups.ask_offsets(ask.node, turns)
        assert list(errors) == [ZERO] and "lacks this partition" in str(errors[ZERO])
        assert ask.states[ONE].position == 5


# The log of a new leader (KIP-320)


@pytest.mark.parametrize("end", [8, 9])
async def test_a_leader_that_has_everything_that_was_fetched_is_read_from(end: int) -> None:
    async with asking() as ask:
        state = ask.read_to(5, fetched=8)
        ask.link.change[EPOCH_END] = ends(end_offset=end)
        assert await ask.lookups.ask_epochs(ask.node, ask.of(ZERO)) == {}
        assert (state.position, state.fetch_at, state.checked_epoch) == (5, 8, ask.cluster.metadata.leader(ZERO).epoch)  # type: ignore[union-attr]


@pytest.mark.parametrize("end", [5, 7])
async def test_records_truncated_before_they_were_returned_are_fetched_again(end: int) -> None:
    async with asking() as ask:
        state = ask.read_to(5, fetched=8)
        ask.link.change[EPOCH_END] = ends(end_offset=end)
        assert await ask.lookups.ask_epochs(ask.node, ask.of(ZERO)) == {}
        # The last returned records may be lost, too: the next check uses their epoch.
        assert (state.position, state.fetch_at, state.fetch_epoch, state.checked_epoch) == (5, 5, 0, None)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
async def test_with_a_policy_the_position_returns_to_where_the_logs_diverge(policy: str) -> None:
    async with asking(auto_offset_reset=policy) as ask:
        state = ask.read_to(5, fetched=8)
        ask.link.change[EPOCH_END] = ends(end_offset=4)
        assert await ask.lookups.ask_epochs(ask.node, ask.of(ZERO)) == {}
        assert (state.position, state.fetch_at, state.fetch_epoch) == (4, 4, None)


@pytest.mark.parametrize("end", [4, -1])
async def test_without_a_policy_records_that_were_handed_out_and_are_gone_are_an_error(end: int) -> None:
    async with asking(auto_offset_reset="none") as ask:
        state = ask.read_to(5, fetched=8)
        ask.link.change[EPOCH_END] = ends(end_offset=end)
        [error] = (await ask.lookups.ask_epochs(ask.node, ask.of(ZERO))).values()
        assert isinstance(error, LogTruncatedError)
        assert (error.partition, error.position, error.end) == (ZERO, 5, None if end < 0 else end)
        assert (state.position, state.checked_epoch) == (5, None)


async def test_a_leader_that_knows_nothing_of_the_epoch_has_the_policy_place_the_partition() -> None:
    async with asking() as ask:
        state = ask.read_to(5)
        ask.link.change[EPOCH_END] = ends(end_offset=-1)
        assert await ask.lookups.ask_epochs(ask.node, ask.of(ZERO)) == {}
        assert (state.position, state.reset, state.checked_epoch) == (None, OffsetSpec.EARLIEST, None)


async def test_a_check_that_is_refused_leaves_the_position_and_is_an_error() -> None:
    async with asking() as ask:
        state = ask.read_to(5)
        ask.link.change[EPOCH_END] = ends(error_code=ErrorCode.FENCED_LEADER_EPOCH)
        [error] = (await ask.lookups.ask_epochs(ask.node, ask.of(ZERO))).values()
        assert isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_LEADER_EPOCH
        assert (state.position, state.checked_epoch) == (5, None)


async def test_a_check_that_gets_no_answer_is_the_callers_to_repeat() -> None:
    async with asking() as ask:
        state = ask.read_to(5)
        ask.link.cut_at[EPOCH_END] = [False] * 10
        with pytest.raises(KafkaError) as raised:
            await ask.lookups.ask_epochs(ask.node, ask.of(ZERO))
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert state.checked_epoch is None


async def test_a_broker_too_old_for_epoch_ends_is_read_without_validation() -> None:
    async with asking(too_old=True) as ask:
        state = ask.read_to(5, fetched=8)
        assert await ask.lookups.ask_epochs(ask.node, ask.of(ZERO)) == {}
        assert (state.position, state.fetch_at, state.checked_epoch is None) == (5, 8, False)
        assert not ask.link.asked[EPOCH_END]
