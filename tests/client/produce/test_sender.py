"""Batches on their way: each is sent until it is written or its time is over, under a number that counts it once."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort import Consumer, ErrorCode, KafkaError, Producer, TopicPartition
from kohort.client import Cluster
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker

PRODUCE, METADATA = 0, 3


@dataclass
class Sent:
    """One batch of a request."""

    at: float
    partition: int
    producer_id: int
    sequence: int


@dataclass
class Sending:
    """A producer of the topic t, of two partitions, and what it sends."""

    link: Link
    producer: Producer
    sent: list[Sent] = field(default_factory=list)
    requests: int = 0
    refusals: list[ErrorCode] = field(default_factory=list)
    """What the next answers say instead of that all is well."""

    def watch(self, request: ProduceRequest) -> None:
        self.requests += 1
        now = asyncio.get_running_loop().time()
        for partition in request.topic_data[0].partition_data:
            assert partition.records is not None
            producer_id, _, sequence = struct.unpack_from(">qhi", bytes(partition.records), 43)
            self.sent.append(Sent(now, partition.index, producer_id, sequence))

    def answer(self, answer: ProduceResponse, client: str | None) -> None:
        if self.refusals:
            code = self.refusals.pop(0)
            for partition in answer.responses[0].partition_responses:
                partition.error_code, partition.base_offset = code, -1

    async def send(self, value: bytes, partition: int = 0) -> Awaitable[Any]:
        return await self.producer.send("t", value, partition=partition)

    async def values(self) -> list[bytes | None]:
        """Return the records of the topic, partition by partition."""
        found: list[bytes | None] = []
        async with Consumer(bootstrap_servers=f"127.0.0.1:{self.link.port}") as consumer:
            partitions = [TopicPartition("t", number) for number in range(2)]
            for partition, end in (await consumer.end_offsets(partitions)).items():
                consumer.assign([partition])
                consumer.seek(partition, 0)
                while consumer.positions()[partition] < end:
                    found += [record.value for record in await consumer.poll()]
        return found


@asynccontextmanager
async def sending(**options: Any) -> AsyncIterator[Sending]:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        broker.topics.create("u", 5)
        quick: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 20, "retry_backoff_max_ms": 1_000, **options}
        async with Producer(bootstrap_servers=f"127.0.0.1:{link.port}", **quick) as producer:
            made = Sending(link, producer)
            link.watch[PRODUCE], link.change[PRODUCE] = made.watch, made.answer
            yield made


async def test_a_batch_is_sent_again_after_pauses_that_grow_and_is_written_once() -> None:
    async with sending() as here:
        here.refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 4
        delivered = await here.send(b"a")
        asked = here.link.asked[METADATA]
        await delivered
        assert here.link.asked[METADATA] > asked  # where the leader may be found
        gaps = [after.at - before.at for before, after in zip(here.sent, here.sent[1:], strict=False)]
        assert len(gaps) == 4
        assert all(gap > 0.0159 * 2**n for n, gap in enumerate(gaps))
        assert len({(batch.producer_id, batch.sequence) for batch in here.sent}) == 1
        assert await here.values() == [b"a"]


async def test_a_batch_whose_sequence_is_lost_is_sent_under_another_producer_id() -> None:
    async with sending() as here:
        await (await here.send(b"a"))
        here.refusals = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        await (await here.send(b"b"))
        first, refused, again = here.sent
        assert (refused.producer_id, refused.sequence) == (first.producer_id, 1)
        assert again.producer_id != first.producer_id and again.sequence == 0


async def test_without_sequence_numbers_a_lost_sequence_is_not_retried() -> None:
    async with sending(enable_idempotence=False) as here:
        here.refusals = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        with pytest.raises(KafkaError) as raised:
            await (await here.send(b"a"))
        assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert len(here.sent) == 1


async def test_a_partition_that_waits_for_its_answer_keeps_no_other_waiting() -> None:
    async with sending() as here:
        held = here.link.held[PRODUCE] = asyncio.Event()
        first = await here.send(b"a", 0)
        await eventually(lambda: here.requests == 1)
        more, other = await here.send(b"b", 0), await here.send(b"c", 1)
        await eventually(lambda: here.requests == 2)
        assert [batch.partition for batch in here.sent] == [0, 1]
        held.set()
        await asyncio.gather(first, more, other)
        assert await here.values() == [b"a", b"b", b"c"]


async def test_no_more_requests_are_under_way_at_a_broker_than_allowed() -> None:
    async with sending(max_in_flight_requests_per_connection=1) as here:
        held = here.link.held[PRODUCE] = asyncio.Event()
        first = await here.send(b"a", 0)
        await eventually(lambda: here.requests == 1)
        second = await here.send(b"b", 1)
        async with Cluster.of(f"127.0.0.1:{here.link.port}") as other:
            await other.refresh(["t"])  # by now the second would have arrived
        assert here.requests == 1
        held.set()
        await asyncio.gather(first, second)
        assert here.requests == 2


async def test_batches_of_one_broker_share_a_request() -> None:
    async with sending(linger_ms=60_000) as here:
        sent = [await here.send(b"a", 0), await here.send(b"b", 1)]
        await here.producer.flush()
        await asyncio.gather(*sent)
        assert (here.requests, [batch.partition for batch in here.sent]) == (1, [0, 1])


async def test_batches_that_exceed_the_largest_request_together_are_sent_in_two() -> None:
    async with sending(linger_ms=60_000, max_request_size=1_000) as here:
        sent = [await here.send(b"x" * 600, 0), await here.send(b"x" * 600, 1)]
        await here.producer.flush()
        await asyncio.gather(*sent)
        assert here.requests == 2


async def test_a_flush_hurries_only_the_batches_that_exist_when_it_begins() -> None:
    async with sending(linger_ms=60_000) as here:
        await here.send(b"a")
        await here.producer.flush()
        later = await here.send(b"b", 1)
        quick = await here.producer.send("t", b"x" * 20_000, partition=0)  # more than a batch: sent at once
        await quick
        assert [batch.partition for batch in here.sent] == [0, 0]
        await here.producer.flush()
        await later
        assert [batch.partition for batch in here.sent] == [0, 0, 1]


async def test_expired_batches_fail_and_later_ones_are_renumbered() -> None:
    times: dict[str, Any] = {"delivery_timeout_ms": 300, "request_timeout_ms": 200, "retry_backoff_max_ms": 40}
    async with sending(**times) as here:
        here.refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1_000
        with pytest.raises(KafkaError, match="t-0 did not take it within delivery_timeout_ms: ") as raised:
            await (await here.send(b"a"))
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        before = here.sent[-1]
        here.refusals.clear()
        await (await here.send(b"b"))
        # Nobody knows whether the first was written: its sequence may have a hole.
        assert here.sent[-1].producer_id != before.producer_id and here.sent[-1].sequence == 0


async def test_records_for_a_partition_without_a_leader_fail_with_that_as_the_reason() -> None:
    def leaderless(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE

    async with sending(delivery_timeout_ms=300, request_timeout_ms=200) as here:
        here.link.change[METADATA] = leaderless
        await here.producer.cluster.refresh(["t"])
        sent = await here.send(b"a")
        with pytest.raises(KafkaError, match=r"delivery_timeout_ms: .*leader"):
            await sent
        assert not here.sent


async def test_a_defect_of_the_producer_fails_what_it_was_about_to_send(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with sending() as here:

        def broken(*arguments: Any, **options: Any) -> ProduceRequest:
            raise ZeroDivisionError("division by zero")

        with monkeypatch.context() as patch:
            patch.setattr("kohort.client.produce.sender.produce_request", broken)
            with pytest.raises(KafkaError, match="sending failed: ZeroDivisionError"):
                await asyncio.wait_for(await here.send(b"a"), 10)
        await asyncio.wait_for(await here.send(b"b", 1), 10)
    assert "which is a defect of Kohort" in caplog.text
