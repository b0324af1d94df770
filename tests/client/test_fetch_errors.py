"""What a broker says against a fetch is heard, in time and once, and the other partitions are read on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kohort import Consumer, ErrorCode, KafkaError, TopicPartition
from kohort.wire.fetch import FetchResponse, PartitionData
from kohort.wire.metadata import MetadataResponse
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker
from tests.client.test_consumer import fill, take

FETCH, METADATA = 1, 3
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer_at(link: Link, **options: Any) -> Consumer:
    quick: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20, "retry_backoff_ms": 50}
    return Consumer(bootstrap_servers=f"127.0.0.1:{link.port}", **{**quick, "retry_backoff_max_ms": 100, **options})


def zero(change: Callable[[PartitionData], object]) -> Callable[[FetchResponse, str | None], None]:
    """Change what is answered for partition 0."""

    def changed(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            for one in topic.partitions:
                if one.partition_index == 0:
                    change(one)

    return changed


def refuse(code: ErrorCode) -> Callable[[FetchResponse, str | None], None]:
    def set_code(one: PartitionData) -> None:
        one.error_code, one.records = code, None

    return zero(set_code)


async def raised_by(consumer: Consumer) -> KafkaError:
    """What the next poll that raises something raises."""
    async with asyncio.timeout(10):
        while True:
            try:
                await consumer.poll(timeout=0.1)
            except KafkaError as problem:
                return problem


async def test_a_damaged_batch_is_raised_by_every_poll_until_somebody_seeks_and_others_are_read() -> None:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        await fill(f"127.0.0.1:{link.port}", "t", 4, 2)
        link.change[FETCH] = refuse(ErrorCode.CORRUPT_MESSAGE)
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO, ONE])
            for _ in range(2):
                problem = await raised_by(consumer)
                assert problem.code is ErrorCode.CORRUPT_MESSAGE
                assert "t-0 at offset 0: the record batch fails its checksum" in str(problem)
                assert "seek past the damaged batch to go on without it" in str(problem)
            assert consumer.positions()[ONE] == 2 or len(await take(consumer, 2)) == 2
            del link.change[FETCH]
            consumer.seek(ZERO, 1)
            assert [record.offset for record in await take(consumer, 1)] == [1]


async def test_what_was_fetched_before_the_error_is_handed_out_first() -> None:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 3)
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            await eventually(lambda: consumer.lag(ZERO) == 3)
            link.change[FETCH] = refuse(ErrorCode.CORRUPT_MESSAGE)
            await fill(f"127.0.0.1:{link.port}", "t", 1)  # in a session only partitions with news are answered
            await eventually(lambda: consumer._fetcher._errors.waits_to_be_told(consumer._fetcher.states[ZERO]))
            assert [record.offset for record in await take(consumer, 3)] == [0, 1, 2]
            assert (await raised_by(consumer)).code is ErrorCode.CORRUPT_MESSAGE


async def test_an_answer_without_a_whole_batch_is_raised_instead_of_fetched_again_for_ever() -> None:
    def cut(one: PartitionData) -> None:
        one.records = bytes(one.records)[:30] if one.records else None  # type: ignore[arg-type]

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
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        link.change[FETCH] = refuse(code)
        async with consumer_at(link, auto_offset_reset=policy) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 0)
            deadline = asyncio.get_running_loop().time() + 1.0
            while asyncio.get_running_loop().time() < deadline:
                try:
                    await consumer.poll(timeout=0.05)
                except KafkaError as problem:
                    assert problem.code is code
        assert 2 < link.asked[FETCH] < 25


@pytest.mark.parametrize("code", [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND])
async def test_a_broker_that_refuses_every_session_is_asked_again_after_a_pause_and_it_is_logged(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(answer: FetchResponse, client: str | None) -> None:
        answer.error_code, answer.responses = code, []

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        link.change[FETCH] = lost
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            assert await consumer.poll(timeout=1.0) == []
            assert 4 < link.asked[FETCH] < 50
            del link.change[FETCH]
            assert len(await take(consumer, 1)) == 1
    began, ended = [record.getMessage() for record in caplog.records]
    assert began == f"not fetched: t-0: {code.sentence} ({code.name})"
    assert ended.startswith("fetched again after ") and ended.endswith(" s: t-0")


async def test_partitions_that_fail_alike_are_one_line_and_their_end_another(caplog: pytest.LogCaptureFixture) -> None:
    def moved(answer: FetchResponse, client: str | None) -> None:
        for topic in answer.responses:
            for one in topic.partitions:
                one.error_code, one.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, None

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 8)
        await fill(f"127.0.0.1:{link.port}", "t", 8, 8)
        link.change[FETCH] = moved
        async with consumer_at(link) as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(8)])
            await eventually(lambda: link.asked[FETCH] > 6)
            del link.change[FETCH]
            await eventually(lambda: any("fetched again" in record.getMessage() for record in caplog.records))
    began = [one.getMessage() for one in caplog.records if one.getMessage().startswith("not fetched: ")]
    assert sum(line.count("t-") for line in began) <= 8 and len(began) <= 2  # two fetches at a broker
    assert "this broker does not lead that partition; the client looks for the leader and asks again" in began[0]


async def test_a_leader_without_a_listener_for_the_client_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def no_listener(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            for one in topic.partitions:
                one.leader_id, one.error_code = -1, ErrorCode.LISTENER_NOT_FOUND

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


async def test_a_broker_that_wants_clients_to_bootstrap_again_is_heeded() -> None:
    refusals = 0

    def refuse_once(answer: MetadataResponse, client: str | None) -> None:
        nonlocal refusals
        if not refusals and answer.topics:
            refusals += 1
            answer.error_code, answer.topics, answer.brokers = ErrorCode.REBOOTSTRAP_REQUIRED, [], []

    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        await fill(f"127.0.0.1:{link.port}", "t", 1)
        link.change[METADATA] = refuse_once
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO])
            assert len(await take(consumer, 1)) == 1
        assert refusals == 1
