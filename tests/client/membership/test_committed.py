"""Committed offsets, asked for and written by a client that is no member, with a broker in the test's loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy
import pytest

from kohort import Cluster, CommitFailedError, ConfigError, ErrorCode, KafkaError, OffsetAndMetadata, TopicPartition
from kohort.broker import Broker
from kohort.client.membership.committed import (
    ask_committed,
    commit_outside,
    committed_offsets,
    committed_positions,
    identified,
)
from kohort.model import NO_TOPIC_ID
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest
from tests.client.link import Link, linked_broker

METADATA, OFFSET_COMMIT, OFFSET_FETCH, API_VERSIONS = 3, 8, 9, 18
T0, T1, U0, MISSING = (TopicPartition(*at) for at in (("t", 0), ("t", 1), ("u", 0), ("missing", 0)))


class World:
    """A broker behind a link, and a client."""

    def __init__(self, broker: Broker, link: Link, cluster: Cluster) -> None:
        self.broker, self.link, self.cluster = broker, link, cluster
        self.commits: list[OffsetCommitRequest] = []
        self.fetches: list[OffsetFetchRequest] = []
        link.watch = {OFFSET_COMMIT: self.commits.append, OFFSET_FETCH: self.fetches.append}

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await committed_offsets(self.cluster, "g", partitions)

    async def commit(self, offsets: dict[TopicPartition, Any], timeout_ms: int | None = None) -> None:
        await commit_outside(self.cluster, "g", offsets, timeout_ms)

    def refuse_commits(self, codes: dict[TopicPartition, ErrorCode], times: int = 1_000) -> None:
        """The next commits get these errors, whatever the broker says."""

        def refuse(answer: Any, client: str | None) -> None:
            nonlocal times
            times -= 1
            for topic in answer.topics if times >= 0 else ():
                name = topic.name or self.cluster.metadata.names[topic.topic_id]
                for partition in topic.partitions:
                    partition.error_code = codes.get(
                        TopicPartition(name, partition.partition_index), partition.error_code
                    )

        self.link.change[OFFSET_COMMIT] = refuse

    def refuse_fetches(self, codes: dict[TopicPartition, ErrorCode], times: int = 1_000) -> None:
        def refuse(answer: Any, client: str | None) -> None:
            nonlocal times
            times -= 1
            for topic in answer.groups[0].topics if times >= 0 else ():
                name = topic.name or self.cluster.metadata.names[topic.topic_id]
                for partition in topic.partitions:
                    partition.error_code = codes.get(
                        TopicPartition(name, partition.partition_index), partition.error_code
                    )

        self.link.change[OFFSET_FETCH] = refuse

    def limit(self, key: int, version: int) -> None:
        """The broker speaks no later version."""

        def older(answer: Any, client: str | None) -> None:
            for api in answer.api_keys:
                if api.api_key == key:
                    api.max_version = version

        self.link.change[API_VERSIONS] = older


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with (
        linked_broker() as (broker, link),
        Cluster.of(
            f"127.0.0.1:{link.port}", retry_backoff_ms=1, retry_backoff_max_ms=1, default_api_timeout_ms=3_000
        ) as cluster,
    ):
        broker.topics.create("t", 2)
        broker.topics.create("u", 1)
        yield World(broker, link, cluster)


# Fetching


@pytest.mark.parametrize("version", [5, 6, 7, 8, 9, 10])
async def test_what_was_committed_is_found_in_each_version(world: World, version: int) -> None:
    world.limit(OFFSET_FETCH, version)
    await world.cluster.refresh(["t", "u"])
    mine = {T0: OffsetAndMetadata(0, "note", 3), U0: OffsetAndMetadata(7, "", 0)}
    await world.commit(mine)
    assert await world.committed(T0, T1, U0) == {T1: None, **mine}
    assert world.fetches[-1].require_stable is (version >= 7)
    assert await committed_offsets(world.cluster, "g", None) == mine


async def test_offsets_are_asked_for_by_topic_id_where_it_is_known(world: World) -> None:
    assert await world.committed(T0) == {T0: None}
    assert world.fetches[-1].groups[0].topics[0].topic_id == NO_TOPIC_ID  # type: ignore[index]
    await world.cluster.refresh(["t"])
    assert await world.committed(T0) == {T0: None}
    assert world.fetches[-1].groups[0].topics[0].topic_id == world.cluster.metadata.topic_id("t")  # type: ignore[index]


async def test_an_answer_by_topic_id_is_read_with_the_ids_of_the_request(world: World) -> None:
    # The metadata may have changed meanwhile.
    topic = world.broker.topics.named("t")
    assert topic is not None
    await world.commit({T0: 5})
    found, refused = await ask_committed(world.cluster, "g", [T0], {"t": topic.topic_id, "u": None})
    assert (found, refused) == ({T0: OffsetAndMetadata(5)}, {})
    assert not world.cluster.metadata.names


@pytest.mark.parametrize(("version", "requests"), [(9, 1), (10, 2)])
async def test_topics_with_and_without_known_ids_are_asked_for_apart(world: World, version: int, requests: int) -> None:
    world.limit(OFFSET_FETCH, version)
    await world.commit({T0: 5, U0: 7})
    await world.cluster.refresh(["t"])
    assert await world.committed(T0, U0) == {T0: OffsetAndMetadata(5), U0: OffsetAndMetadata(7)}
    assert len(world.fetches) == requests


async def test_an_offset_is_that_of_the_topic_that_the_coordinator_assigned(world: World) -> None:
    topic = world.broker.topics.named("t")
    assert topic is not None
    await world.commit({T0: 5})
    granted = {"t": topic.topic_id}
    found = await committed_positions(world.cluster, "g", [T0, T1], granted=granted)
    assert found == {T0: OffsetAndMetadata(5, topic_id=topic.topic_id), T1: None}
    assert world.fetches[-1].groups[0].topics[0].topic_id == topic.topic_id  # type: ignore[index]
    assert await committed_offsets(world.cluster, "g", [T0], granted=granted) == {T0: OffsetAndMetadata(5)}


async def test_an_offset_without_metadata_has_an_empty_text(world: World) -> None:
    def drop(answer: Any, client: str | None) -> None:
        answer.groups[0].topics[0].partitions[0].metadata = None

    await world.commit({T0: 5})
    world.link.change[OFFSET_FETCH] = drop
    assert await world.committed(T0) == {T0: OffsetAndMetadata(5, "")}


async def test_for_no_partition_nothing_is_asked(world: World) -> None:
    assert await world.committed() == {}
    assert not world.fetches


async def test_a_pair_is_a_partition_too(world: World) -> None:
    await world.commit({T0: 5})
    found = await committed_offsets(world.cluster, "g", [("t", 0)])  # type: ignore[list-item]
    assert found == {T0: OffsetAndMetadata(5)}


async def test_a_refusal_that_a_retry_cannot_change_is_raised_before_one_that_it_can(world: World) -> None:
    codes = {T0: ErrorCode.UNSTABLE_OFFSET_COMMIT, T1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    await world.cluster.refresh(["t"])
    for first, second in ((T0, T1), (T1, T0)):
        world.refuse_fetches(codes)
        with pytest.raises(KafkaError, match="t-1") as raised:
            await world.committed(first, second)
        assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(world.fetches) == 2


async def test_what_is_refused_for_now_is_asked_for_again(world: World) -> None:
    await world.cluster.refresh(["t"])
    await world.commit({T0: 5})
    world.refuse_fetches({T0: ErrorCode.UNSTABLE_OFFSET_COMMIT}, times=2)
    assert await world.committed(T0) == {T0: OffsetAndMetadata(5)}
    assert len(world.fetches) == 3
    assert world.link.asked[METADATA] == 1


async def test_an_error_of_the_group_is_raised(world: World) -> None:
    def refuse(answer: Any, client: str | None) -> None:
        answer.groups[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    world.link.change[OFFSET_FETCH] = refuse
    with pytest.raises(KafkaError) as raised:
        await world.committed(T0)
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_partition_that_the_answer_leaves_out_is_refused(world: World) -> None:
    def leave_out(answer: Any, client: str | None) -> None:
        for topic in answer.groups[0].topics:
            topic.partitions = [partition for partition in topic.partitions if partition.partition_index != 1]

    await world.commit({T0: 5})
    world.link.change[OFFSET_FETCH] = leave_out
    found, refused = await ask_committed(world.cluster, "g", [T0, T1], {})
    assert found == {T0: OffsetAndMetadata(5)}
    assert {partition: problem.code for partition, problem in refused.items()} == {T1: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert "t-1: the coordinator's answer lacks this partition" in str(refused[T1])


async def test_a_deleted_topic_has_no_committed_offsets_and_is_not_made_again(world: World) -> None:
    await world.cluster.refresh(["t", "u"])
    await world.commit({T0: 5, U0: 7})
    topic = world.broker.topics.named("t")
    assert topic is not None
    world.broker.topics.delete(topic)
    world.refuse_fetches({T0: ErrorCode.UNKNOWN_TOPIC_ID})
    before = world.link.asked[METADATA]
    assert await world.committed(T0, U0) == {T0: None, U0: OffsetAndMetadata(7)}
    assert world.broker.topics.named("t") is None
    assert world.link.asked[METADATA] == before + 1


async def test_a_topic_that_the_coordinator_does_not_know_yet_is_asked_for_again_by_the_same_id(world: World) -> None:
    await world.cluster.refresh(["t"])
    await world.commit({T0: 5})
    world.refuse_fetches({T0: ErrorCode.UNKNOWN_TOPIC_ID}, times=1)
    before = world.link.asked[METADATA]
    assert await world.committed(T0) == {T0: OffsetAndMetadata(5)}
    assert len(world.fetches) == 2
    assert world.link.asked[METADATA] == before + 1, "its id is the same, so there is nothing to refresh"


async def test_a_topic_that_was_made_anew_is_asked_for_by_its_new_id(world: World) -> None:
    await world.cluster.refresh(["t"])
    topic = world.broker.topics.named("t")
    assert topic is not None
    world.broker.topics.delete(topic)
    world.broker.topics.create("t", 2)
    world.refuse_fetches({T0: ErrorCode.UNKNOWN_TOPIC_ID}, times=1)
    assert await world.committed(T0) == {T0: None}
    ids = [request.groups[0].topics[0].topic_id for request in world.fetches]  # type: ignore[index]
    assert ids[0] == topic.topic_id != ids[1] == world.cluster.metadata.topic_id("t")


# Committing


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_a_commit_is_durable_in_each_version(world: World, version: int) -> None:
    world.limit(OFFSET_COMMIT, version)
    await world.cluster.refresh(["t", "u"])
    await world.commit({T0: 5, U0: OffsetAndMetadata(6, "note")})
    assert await world.committed(T0, U0) == {T0: OffsetAndMetadata(5), U0: OffsetAndMetadata(6, "note")}
    assert len(world.commits) == 1
    (commit,) = world.commits
    assert (commit.member_id, commit.generation_id_or_member_epoch, commit.group_instance_id) == ("", -1, None)


async def test_nothing_is_sent_for_an_empty_commit(world: World) -> None:
    await world.commit({})
    assert not world.commits


@pytest.mark.parametrize("wrong", [-1, True, "5", 5.0, OffsetAndMetadata(-1)])
async def test_an_offset_is_a_whole_number(world: World, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="the offset of t-0"):
        await world.commit({T0: wrong})
    assert not world.commits


async def test_a_number_of_numpy_is_a_whole_number(world: World) -> None:
    await world.commit({T0: numpy.int64(5), T1: OffsetAndMetadata(numpy.int64(6), "note")})  # type: ignore[arg-type]
    assert await world.committed(T0, T1) == {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(6, "note")}


async def test_only_what_was_refused_for_now_is_committed_again(world: World) -> None:
    await world.cluster.refresh(["t", "u"])
    codes = {T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, U0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    world.refuse_commits(codes, times=6)
    with pytest.raises(CommitFailedError) as raised:
        await world.commit({T0: 5, T1: 6, U0: 7})
    assert raised.value.errors == {U0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    sent = [sum(len(topic.partitions) for topic in commit.topics) for commit in world.commits]
    assert sent == [3, 1, 1, 1, 1, 1, 1]
    assert await world.committed(T0, T1) == {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(6)}


async def test_a_commit_that_can_never_succeed_fails_and_the_others_count(world: World) -> None:
    await world.cluster.refresh(["t", "u"])
    world.refuse_commits({T0: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    with pytest.raises(CommitFailedError) as raised:
        await world.commit({T0: 5, U0: 7})
    assert raised.value.errors == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert len(world.commits) == 1
    assert (await world.committed(U0))[U0] == OffsetAndMetadata(7)


async def test_an_unknown_topic_is_given_up_at_the_fifth_refusal(world: World) -> None:
    with pytest.raises(CommitFailedError) as raised:
        await world.commit({MISSING: 5, T0: 6})
    assert raised.value.errors == {MISSING: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(world.commits) == 5


async def test_at_the_timeout_all_that_failed_is_named(world: World) -> None:
    await world.cluster.refresh(["t", "u"])
    codes = {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    world.refuse_commits(codes)
    with pytest.raises(CommitFailedError) as raised:
        await world.commit({T0: 5, T1: 6, U0: 7}, timeout_ms=20)
    assert raised.value.errors == codes


async def test_a_position_gets_the_id_of_its_topic_unless_it_has_one(world: World) -> None:
    await world.cluster.refresh(["t"])
    known = world.cluster.metadata.topic_id("t")
    assert known is not None
    other = OffsetAndMetadata(6, topic_id=NO_TOPIC_ID)
    found = identified(world.cluster, {T0: OffsetAndMetadata(5), T1: other, U0: OffsetAndMetadata(7)})
    assert found == {T0: OffsetAndMetadata(5, topic_id=known), T1: other, U0: OffsetAndMetadata(7)}
