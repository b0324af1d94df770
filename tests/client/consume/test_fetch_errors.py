"""Fetch errors are reported in time and once, and the other partitions are still read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kohort import Consumer, ErrorCode, KafkaError, OffsetSpec, SubscriptionPattern, TopicPartition
from kohort.client import Cluster
from kohort.client.consume.fetch_errors import FetchErrors
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.read_replicas import ReadReplicas
from kohort.client.consume.unpacking import PlainChunk
from kohort.client.net.earliest_timer import EarliestTimer
from kohort.client.options import ConsumerOptions
from kohort.testing import Broker
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.fetch import FetchResponse, PartitionData
from kohort.wire.messages.list_offsets import ListOffsetsResponse
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.client.conftest import broker_with, eventually
from tests.client.consume.test_consumer import fill, take
from tests.client.link import Link, linked_broker

FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer_at(broker: Broker | Link, **options: Any) -> Consumer:
    quick: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20, "retry_backoff_ms": 50}
    return Consumer(bootstrap_servers=f"127.0.0.1:{broker.port}", **{**quick, "retry_backoff_max_ms": 100, **options})


def zero(change: Callable[[PartitionData], object]) -> Callable[[FetchResponse, str | None], None]:
    """Change what is answered for partition 0."""

    def changed(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.partition_index == 0:
                    change(partition)

    return changed


async def raised_by(consumer: Consumer) -> KafkaError:
    """Return the error of the next poll that raises one."""
    async with asyncio.timeout(10):
        while True:
            try:
                await consumer.poll(timeout=0.1)
            except KafkaError as problem:
                return problem


async def test_a_damaged_batch_is_raised_by_every_poll_until_somebody_seeks_and_others_are_read() -> None:
    async with broker_with(4, partitions=2) as broker:
        damage = broker.fault(keys="Fetch", partitions=0, error="CORRUPT_MESSAGE", count=-1)
        async with consumer_at(broker) as consumer:
            consumer.assign([ZERO, ONE])
            for _ in range(2):
                problem = await raised_by(consumer)
                assert problem.code is ErrorCode.CORRUPT_MESSAGE
                assert "t-0 at offset 0: the record batch fails its checksum" in str(problem)
                assert "seek past the damaged batch to go on without it" in str(problem)
            assert consumer.positions()[ONE] == 2 or len(await take(consumer, 2)) == 2
            damage.remove()
            consumer.seek(ZERO, 1)
            assert [record.offset for record in await take(consumer, 1)] == [1]


async def test_records_fetched_before_the_error_are_returned_first() -> None:
    async with broker_with(3) as broker, consumer_at(broker) as consumer:
        consumer.assign([ZERO])
        await eventually(lambda: consumer.lag(ZERO) == 3)
        broker.fault(keys="Fetch", error="CORRUPT_MESSAGE", count=-1)
        fetcher = consumer._partitions.fetcher
        await eventually(lambda: fetcher._errors.has_pending_error(fetcher.states[ZERO]))
        assert [record.offset for record in await take(consumer, 3)] == [0, 1, 2]
        assert (await raised_by(consumer)).code is ErrorCode.CORRUPT_MESSAGE


async def test_an_answer_without_a_whole_batch_is_raised_instead_of_fetched_again_for_ever() -> None:
    def cut(data: PartitionData) -> None:
        data.records = bytes(data.records)[:30] if data.records else None  # type: ignore[arg-type]

    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 3)
        link.change[FETCH] = zero(cut)
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            problem = await raised_by(consumer)
            assert problem.code is ErrorCode.CORRUPT_MESSAGE
            assert "t-0 at offset 0: the broker sent 30 bytes without a whole batch" in str(problem)


@pytest.mark.parametrize(
    ("code", "policy"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "earliest"),
        (ErrorCode.OFFSET_OUT_OF_RANGE, "none"),
        (ErrorCode.OFFSET_OUT_OF_RANGE, "earliest"),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "earliest"),
    ],
)
async def test_a_refused_partition_is_fetched_again_only_after_a_pause(code: ErrorCode, policy: str) -> None:
    async with broker_with(1) as broker:
        refusal = broker.fault(keys="Fetch", error=code.name, count=-1)
        async with consumer_at(broker, auto_offset_reset=policy) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 0)
            deadline = asyncio.get_running_loop().time() + 1.0
            while asyncio.get_running_loop().time() < deadline:
                try:
                    await consumer.poll(timeout=0.05)
                except KafkaError as problem:
                    assert problem.code is code
        assert 2 < refusal.hits < 25


@pytest.mark.parametrize("code", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND])
async def test_a_broker_that_refuses_every_session_is_asked_again_after_a_pause_and_it_is_logged(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    async with broker_with(1) as broker:
        refusal = broker.fault(keys="Fetch", error=code.name, top_level=True, count=-1)
        async with consumer_at(broker) as consumer:
            consumer.assign([ZERO])
            assert await consumer.poll(timeout=1.0) == []
            assert 4 < refusal.hits < 50
            refusal.remove()
            assert len(await take(consumer, 1)) == 1
    began, ended = [record.getMessage() for record in caplog.records]
    assert began == f"not fetched: t-0: {code.sentence} ({code.name})"
    assert ended.startswith("fetched again after ") and ended.endswith(" s: t-0")


async def test_an_answer_that_leaves_a_partition_out_is_logged_and_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def without_the_first(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            topic.partitions = [partition for partition in topic.partitions if partition.partition_index]

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        await fill(f"127.0.0.1:{link.port}", "t", 2, 2)
        link.change[FETCH] = without_the_first
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO, TopicPartition("t", 1)])
            assert [record.partition for record in await consumer.poll(timeout=1.0)] == [1]
            await consumer.poll(timeout=1.0)
            assert 4 < link.asked[FETCH] < 100
            del link.change[FETCH]
            assert [record.partition for record in await take(consumer, 1)] == [0]
    began, ended = [record.getMessage() for record in caplog.records]
    assert began.startswith("not fetched: t-0: the broker's answer lacks the partition; ")
    assert ended.startswith("fetched again after ") and ended.endswith(" s: t-0")


async def test_partitions_that_fail_alike_are_one_line_and_their_end_another(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    async with broker_with(8, partitions=8) as broker:
        moved = broker.fault(keys="Fetch", error="NOT_LEADER_OR_FOLLOWER", count=-1)
        async with consumer_at(broker) as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(8)])
            await moved.wait_async(hits=7)
            moved.remove()
            await eventually(lambda: any("fetched again" in record.getMessage() for record in caplog.records))
    began = [record.getMessage() for record in caplog.records if record.getMessage().startswith("not fetched: ")]
    assert sum(line.count("t-") for line in began) <= 8 and len(began) <= 2  # two fetches at a broker
    assert "this broker does not lead that partition; the client looks for the leader and asks again" in began[0]


async def test_a_leader_without_a_listener_for_the_client_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def no_listener(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.error_code = -1, ErrorCode.LISTENER_NOT_FOUND

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        link.change[METADATA] = no_listener
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            await eventually(lambda: link.asked[METADATA] > 3)
    assert [record.getMessage() for record in caplog.records] == [
        "no position yet: t-0: the listener was not found; give the leading broker a listener of the name by which this"
        " client connects (LISTENER_NOT_FOUND)"
    ]


async def test_an_answer_of_offsets_that_leaves_a_partition_out_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def nothing(answer: ListOffsetsResponse, client: str | None) -> None:
        answer.topics = []

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        link.change[LIST_OFFSETS] = nothing
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            await eventually(lambda: link.asked[LIST_OFFSETS] > 2)
            del link.change[LIST_OFFSETS]
            assert len(await take(consumer, 1)) == 1
    began, ended = [record.getMessage() for record in caplog.records]
    assert began.startswith("no position yet: t-0: ") and began.endswith("(UNKNOWN_SERVER_ERROR)")
    assert ended.startswith("position found after ") and ended.endswith(" s: t-0")


@pytest.mark.parametrize("protocol", ["none", "classic", "consumer"])
async def test_metadata_that_leaves_a_topic_out_is_logged_and_asked_for_after_a_pause(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    def nothing(answer: MetadataResponse, client: str | None) -> None:
        answer.topics = []

    caplog.set_level(logging.WARNING, "kohort.client")
    group: dict[str, Any] = {} if protocol == "none" else {"group_id": "g", "group_protocol": protocol}
    async with linked_broker(group_initial_rebalance_delay_ms="0") as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        link.change[METADATA] = nothing
        async with consumer_at(link, **group) as consumer:
            if group:
                consumer.subscribe(["t"])
            else:
                consumer.assign([ZERO])
            await consumer.poll(timeout=1.0)
            assert 2 < link.asked[METADATA] < 60
            del link.change[METADATA]
            assert len(await take(consumer, 1)) == 1
    lines = [
        record.getMessage() for record in caplog.records if record.getMessage().startswith("no metadata: topic=t:")
    ]
    assert len(lines) == 1


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
async def test_an_assigned_topic_without_a_name_is_logged_or_raised(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    def nameless(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            topic.name, topic.error_code, topic.partitions = None, code, []

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        topic = broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        link.change[METADATA] = nameless
        async with consumer_at(link, group_id="g", group_protocol="consumer") as consumer:
            consumer.subscribe(SubscriptionPattern("t"))
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                with pytest.raises(KafkaError, match=f"assigned topic {topic.topic_id}: {code.sentence[:20]}"):
                    await take(consumer, 1)
            else:
                assert await consumer.poll(timeout=1.0) == []
            assert not consumer.assignment
            del link.change[METADATA]
            assert len(await take(consumer, 1)) == 1
    began, ended = [record.getMessage() for record in caplog.records if str(topic.topic_id) in record.getMessage()]
    assert began.startswith(f"no metadata: topic id={topic.topic_id}: {code.sentence}")
    assert ended.startswith("metadata found after ")


async def test_a_cluster_that_wants_clients_to_bootstrap_again_and_again_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    async with Broker() as broker:
        refusal = broker.fault(keys="Metadata", error="REBOOTSTRAP_REQUIRED", top_level=True, count=-1)
        async with consumer_at(broker) as consumer:
            consumer.assign([ZERO])
            with pytest.raises(KafkaError, match="REBOOTSTRAP_REQUIRED"):
                await take(consumer, 1)
            await refusal.wait_async(hits=11)
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "asks this client to connect" in line]) == 1
    assert len(lines) == 2


async def test_a_partition_that_loses_its_leader_while_it_is_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def without_leader(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.error_code = -1, ErrorCode.LISTENER_NOT_FOUND

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            await take(consumer, 1)
            link.change[METADATA] = without_leader
            await consumer.partitions_for("t")
            await eventually(lambda: any("not fetched" in record.getMessage() for record in caplog.records))
            del link.change[METADATA]
            await eventually(lambda: any("fetched again" in record.getMessage() for record in caplog.records))
    began, ended = [record.getMessage() for record in caplog.records]
    assert began == (
        "not fetched: t-0: the listener was not found; give the leading broker a listener of the name by which this"
        " client connects (LISTENER_NOT_FOUND)"
    )
    assert ended.startswith("fetched again after ")


async def test_a_topic_that_is_denied_while_it_is_read_is_raised() -> None:
    async with broker_with(1) as broker, consumer_at(broker) as consumer:
        consumer.assign([ZERO])
        await take(consumer, 1)
        broker.fault(keys="Metadata", error="TOPIC_AUTHORIZATION_FAILED", count=-1)
        await consumer.partitions_for("t")
        problem = await raised_by(consumer)
        assert problem.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and "t-0" in str(problem)


async def test_a_batch_of_an_unknown_format_raises_instead_of_being_fetched_forever() -> None:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        link.change[FETCH] = zero(of_another_format)
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            problem = await raised_by(consumer)
            assert problem.code is ErrorCode.CORRUPT_MESSAGE
            assert "t-0 at offset 0: " in str(problem) and "seek past it" in str(problem)
            assert link.asked[FETCH] < 10


def of_another_format(data: PartitionData) -> None:
    if data.records:
        changed = bytearray(data.records)  # type: ignore[arg-type]
        changed[16] = 9  # the magic byte
        data.records = bytes(changed)


async def test_a_broker_that_wants_clients_to_bootstrap_again_is_heeded() -> None:
    async with broker_with(1) as broker:
        refusal = broker.fault(keys="Metadata", error="REBOOTSTRAP_REQUIRED", top_level=True)
        async with consumer_at(broker) as consumer:
            consumer.assign([ZERO])
            assert len(await take(consumer, 1)) == 1
        assert refusal.hits == 1


# Each reaction on its own


class Reacting:
    """The reactions of a consumer to what its fetches meet; nothing is fetched."""

    def __init__(self, cluster: Cluster, **options: Any) -> None:
        given = {"bootstrap_servers": "127.0.0.1:1", "auto_offset_reset": "earliest", "retry_backoff_ms": 1_000}
        self.options = ConsumerOptions.read({**given, "retry_backoff_max_ms": 100_000, **options})
        self.cluster = cluster
        self.loop = asyncio.get_running_loop()
        self.rung: list[None] = []
        self.news: list[None] = []
        self.lost: list[None] = []
        self.later = EarliestTimer(lambda: self.rung.append(None))
        self.replicas = ReadReplicas(cluster, self.loop.time)
        self.errors = FetchErrors(
            cluster,
            self.options,
            self.replicas,
            self.later,
            lambda: self.news.append(None),
            lambda: self.lost.append(None),
        )

    def pause_of(self, state: PartitionState) -> float:
        """Seconds until it may be fetched again."""
        return state.retry_at - self.loop.time()


@asynccontextmanager
async def reacting(*topics: MetadataResponseTopic, **options: Any) -> AsyncIterator[Reacting]:
    async with Cluster.of("127.0.0.1:1") as cluster:
        cluster._refresher.metadata = cluster.metadata.merged(MetadataResponse(brokers=[], topics=list(topics)))
        made = Reacting(cluster, **options)
        yield made
        made.later.cancel()


def at(position: int, partition: TopicPartition = ZERO) -> PartitionState:
    state = PartitionState(partition)
    state.move(position)
    return state


def with_records(state: PartitionState) -> PartitionState:
    """Three records of it were fetched and not handed out."""
    assert state.position is not None
    records = [Record(state.position + n, 0, None, b"%d" % n, []) for n in range(3)]
    state.add(PlainChunk(state.partition, bytes(encode_batch(records)), (), check_crc=True))
    assert state.has_records
    return state


async def test_an_offset_out_of_range_moves_the_position_only_when_what_was_fetched_is_handed_out() -> None:
    # Retention took the log's beginning away while records wait to be handed out: those are sound.
    async with reacting() as here:
        state = with_records(at(5))
        here.errors.refused({state: (ErrorCode.OFFSET_OUT_OF_RANGE, 8)})
        assert (state.position, state.reset, here.lost) == (5, None, [])
        assert here.pause_of(state) > 0.5
        assert [record.offset for record in state.take(10)] == [5, 6, 7]
        here.errors.refused({state: (ErrorCode.OFFSET_OUT_OF_RANGE, 8)})
        assert (state.position, state.reset, len(here.lost)) == (None, OffsetSpec.EARLIEST, 1)


async def test_a_reset_is_looked_up_at_once_and_a_reset_of_a_reset_after_a_pause_that_grows() -> None:
    async with reacting() as here:
        state = at(5)
        pauses = []
        for _ in range(4):
            here.errors.refused({state: (ErrorCode.OFFSET_OUT_OF_RANGE, 5)})
            assert state.position is None
            pauses.append(here.pause_of(state))
            retry_at = state.retry_at
            state.move(5)  # found again, where nothing is
            state.retry_at = retry_at
        assert pauses[0] < 0 < pauses[1]
        assert len(here.lost) == 4
        assert 1.5 < pauses[1] < 2.5 and 6 < pauses[2] < 10 and 25 < pauses[3] < 39


async def test_without_a_policy_an_offset_out_of_range_is_raised_when_what_was_fetched_is_handed_out() -> None:
    async with reacting(auto_offset_reset="none") as here:
        state = with_records(at(5))
        here.errors.refused({state: (ErrorCode.OFFSET_OUT_OF_RANGE, 8)})
        assert len(here.news) == 1 and here.errors.has_pending_error(state)
        here.errors.raise_error()
        state.take(10)
        with pytest.raises(KafkaError, match="t-0: offset 8 is out of range"):
            here.errors.raise_error()
        assert not here.errors.has_pending_error(state) and here.pause_of(state) > 0.5


async def test_the_error_of_a_paused_partition_waits_until_it_is_resumed() -> None:
    async with reacting() as here:
        state = at(5)
        here.errors.refused({state: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 5)})
        state.paused = True
        here.errors.raise_error()
        state.paused = False
        with pytest.raises(KafkaError, match="t-0 at offset 5"):
            here.errors.raise_error()


async def test_each_pause_of_a_partition_is_twice_the_one_before() -> None:
    async with reacting() as here:
        state = at(5)
        for seconds in (1, 2, 4, 8):
            here.errors.refused({state: (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)})
            assert 0.79 * seconds < here.pause_of(state) < 1.21 * seconds


async def test_the_fetcher_is_woken_when_the_pause_is_over() -> None:
    async with reacting(retry_backoff_ms=1) as here:
        here.errors.refused({at(5): (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)})
        await eventually(lambda: len(here.rung) == 1)


async def test_a_broker_that_refuses_every_fetch_for_good_is_an_error_of_all_its_partitions_once() -> None:
    async with reacting() as here:
        states = [at(5), at(5, ONE)]
        here.errors.unreachable(states, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        assert len(here.news) == 1
        with pytest.raises(KafkaError) as raised:
            here.errors.raise_error()
        assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        here.errors.raise_error()
        assert all(here.pause_of(state) > 0.5 for state in states)


async def test_partitions_of_one_answer_fare_each_by_its_own_code(caplog: pytest.LogCaptureFixture) -> None:
    async with reacting() as here:
        follower, moved, gone = at(5), at(5, ONE), at(5, TopicPartition("t", 2))
        here.replicas.prefer(follower, 7)
        leader_moved = (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)
        here.errors.refused({follower: leader_moved, moved: leader_moved, gone: (ErrorCode.OFFSET_OUT_OF_RANGE, 5)})
        assert here.pause_of(follower) > 0.5 and here.pause_of(moved) > 0.5
        assert gone.position is None and follower.position == moved.position == 5
        lines = [record.getMessage() for record in caplog.records]
        assert [line.split(":")[1] for line in lines if line.startswith("not fetched")] == [" t-1"]


async def test_a_partition_without_a_leader_is_logged_unless_its_whole_topic_has_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = ErrorCode.LEADER_NOT_AVAILABLE
    known = MetadataResponseTopic(name="t", partitions=[])
    whole_number = MetadataResponseTopic(name="u", error_code=away, partitions=[])
    async with reacting(known, whole_number) as here:
        states = [at(5), at(5, TopicPartition("u", 0)), at(5, TopicPartition("v", 0))]
        for state in states:
            here.errors.leaderless(state, KafkaError(away))
            assert here.pause_of(state) > 0.5
    logged = [record.getMessage() for record in caplog.records if record.getMessage().startswith("not fetched")]
    assert len(logged) == 1 and logged[0].startswith("not fetched: t-0: ")


async def test_a_topic_that_metadata_refuses_for_good_is_raised() -> None:
    async with reacting() as here:
        here.errors.leaderless(at(5), KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(KafkaError) as raised:
            here.errors.raise_error()
        assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_partition_that_is_given_up_and_fails_again_later_is_logged_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with reacting() as here:
        for _ in range(2):
            for _ in range(2):
                here.errors.refused({at(5): (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)})
            here.errors.forget([ZERO])
        here.errors.succeeded([ZERO])
    assert sum(record.getMessage().startswith("not fetched") for record in caplog.records) == 2
    assert not any(record.getMessage().startswith("fetched again") for record in caplog.records)


async def test_the_leader_of_a_rejected_partition_is_looked_up_again() -> None:
    async with broker_with(0) as broker, Cluster.of(broker.bootstrap_servers) as cluster:
        await cluster.refresh(["t"])
        asked = broker.fault(keys="Metadata", observe=True)
        here = Reacting(cluster)
        here.errors.refused({at(5): (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)})
        await asked.wait_async()
        here.later.cancel()
