"""When batches are sent, and what a request has."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client import Cluster
from kohort.wire.batches import Codec, batches
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.produce import ProduceRequest
from tests.client.conftest import eventually
from tests.client.produce.test_sender import METADATA, PRODUCE, sending

INIT_PRODUCER_ID = 22
LONG: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}


def leaderless(answer: MetadataResponse, client: str | None) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE


def requests_under_way() -> int:
    return sum(task.get_name().startswith("kohort-produce ") for task in asyncio.all_tasks())


# Contents of a request


@pytest.mark.parametrize(("acks", "sent"), [("all", -1), ("-1", -1), (1, 1), (0, 0)])
async def test_the_brokers_are_told_which_acknowledgement_is_wanted(acks: str | int, sent: int) -> None:
    asked: list[int] = []

    async with sending(acks=acks) as here:
        here.link.watch[PRODUCE] = lambda request: asked.append(request.acks)
        written = await (await here.send(b"a"))
        assert written.offset == (-1 if acks == 0 else 0)
        await eventually(lambda: asked == [sent])
        assert await here.values() == [b"a"]


@pytest.mark.parametrize(
    ("options", "numbered"),
    [({}, True), ({"enable_idempotence": False}, False), ({"acks": 1}, False), ({"acks": 0}, False)],
)
async def test_batches_are_numbered_only_where_they_are_acknowledged_by_all(options: Any, numbered: bool) -> None:
    async with sending(**options) as here:
        await (await here.send(b"a"))
        await eventually(lambda: len(here.sent) == 1)
        assert (here.sent[0].producer_id >= 0) is numbered
        assert (here.link.asked[INIT_PRODUCER_ID] == 1) is numbered


async def test_batches_are_compressed_as_the_option_says() -> None:
    codecs: list[Codec] = []

    def watch(request: ProduceRequest) -> None:
        records = request.topic_data[0].partition_data[0].records
        codecs.extend(header.codec for _, header in batches(bytes(records or b"")))

    async with sending(compression_type="gzip") as here:
        here.link.watch[PRODUCE] = watch
        await (await here.send(b"a" * 1_000))
    assert codecs == [Codec.GZIP]


async def test_batches_that_fill_the_largest_request_exactly_share_it() -> None:
    async with sending(linger_ms=60_000, max_request_size=1_000) as here:
        sent = [await here.send(b"x" * 476, number) for number in range(2)]  # 24 more bytes for each record
        await here.producer.flush()
        await asyncio.gather(*sent)
        assert here.requests == 1


async def test_a_batch_of_many_small_records_is_sent_although_it_counts_for_more_than_a_request() -> None:
    async with sending(linger_ms=60_000, max_request_size=1_000) as here:
        sent = [await here.send(b"", 0) for _ in range(60)]  # 24 bytes each as counted, seven as encoded
        async with asyncio.timeout(10):
            await here.producer.flush()
        await asyncio.gather(*sent)
        assert here.requests == 1


async def test_as_many_requests_are_under_way_at_a_broker_as_allowed_again_and_again() -> None:
    async with sending(max_in_flight_requests_per_connection=2, max_request_size=1_000, linger_ms=0) as here:
        here.link.watch.pop(PRODUCE)  # of another topic
        numbers = range(5)
        await here.producer.partitions_for("u")
        for round_ in range(1, 4):
            held = here.link.held[PRODUCE] = asyncio.Event()
            sent = [await here.producer.send("u", b"x" * 600, partition=number) for number in numbers]
            await eventually(lambda at=round_: here.link.asked[PRODUCE] == 5 * at - 3)  # type: ignore[misc]
            async with Cluster.of(f"127.0.0.1:{here.link.port}") as other:
                await other.refresh(["u"])  # by now a third request would have arrived
            assert (here.link.asked[PRODUCE], requests_under_way()) == (5 * round_ - 3, 2)
            del here.link.held[PRODUCE]
            held.set()
            await asyncio.gather(*sent)


# When a batch is sent


async def test_a_record_is_sent_by_itself_when_it_has_lingered() -> None:
    async with sending(linger_ms=30) as here:
        began = asyncio.get_running_loop().time()
        sent = await here.send(b"a")
        await here.send(b"b")
        assert (await sent).offset == 0
        assert here.sent[0].at - began > 0.029
        assert here.requests == 1


async def test_a_batch_that_lingers_keeps_no_full_one_waiting() -> None:
    async with sending(linger_ms=60_000) as here:
        lingering, full = await here.send(b"a", 0), await here.send(b"x" * 20_000, 1)
        assert (await full).partition == 1
        assert [batch.partition for batch in here.sent] == [1]
        await here.producer.flush()
        await lingering


async def test_a_flush_of_nothing_is_over_at_once_and_two_may_overlap() -> None:
    async with sending(linger_ms=60_000) as here:
        async with asyncio.timeout(10):
            await here.producer.flush()
            sent = await here.send(b"a")
            await asyncio.gather(here.producer.flush(), here.producer.flush())
            await sent
            await here.send(b"b")
            await here.producer.flush()
        lingering = await here.send(b"c")
        await here.producer.cluster.refresh(["t"])
        assert len(here.sent) == 2
        await here.producer.flush()
        await lingering


async def test_a_flushed_batch_that_is_refused_is_sent_again_after_its_pause_however_long_it_may_linger() -> None:
    async with sending(linger_ms=60_000) as here:
        here.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]
        sent = await here.send(b"a")
        async with asyncio.timeout(10):
            await here.producer.flush()
        await sent
        assert len(here.sent) == 2


WAITS: dict[str, dict[str, Any]] = {
    "lingers": {"linger_ms": 60_000},
    "has no leader": LONG,
    "was refused": LONG,
    "is under way": {},
    "has no producer id": {},
}


@pytest.mark.parametrize("wait", WAITS)
async def test_a_batch_that_waits_takes_no_processor_time(wait: str) -> None:
    async with sending(**WAITS[wait]) as here:
        if wait == "has no leader":
            here.link.change[METADATA] = leaderless
        elif wait == "was refused":
            here.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]
        elif wait == "is under way":
            here.link.held[PRODUCE] = asyncio.Event()
        elif wait == "has no producer id":
            here.link.held[INIT_PRODUCER_ID] = asyncio.Event()
        sent = await here.send(b"a")
        if wait == "lingers":
            await (await here.send(b"x" * 20_000, 1))
        elif wait in ("was refused", "is under way"):
            await eventually(lambda: here.requests == 1)
        until, used = asyncio.get_running_loop().time() + 0.25, time.thread_time()
        await eventually(lambda: asyncio.get_running_loop().time() > until)
        assert time.thread_time() - used < 0.02
        assert not sent.done()  # type: ignore[attr-defined]
        await here.producer.close(timeout=0.0)
        with pytest.raises(KafkaError):
            await sent
