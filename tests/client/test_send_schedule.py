"""When batches are sent, in which requests, and what becomes of them without a leader, an id or a connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client import Cluster
from kohort.client.options import ProducerOptions, read_options
from kohort.client.produce.producer_core import ProducerCore
from kohort.wire.batches.records import Codec, batches
from kohort.wire.messages.init_producer_id import InitProducerIdResponse
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.client.conftest import eventually
from tests.client.test_sender import METADATA, PRODUCE, Sending, sending

INIT_PRODUCER_ID = 22
LONG: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
SHORT: dict[str, Any] = {"delivery_timeout_ms": 100, "request_timeout_ms": 90}


def leaderless(answer: MetadataResponse, client: str | None) -> None:
    for topic in answer.topics:
        for one in topic.partitions:
            one.leader_id, one.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE


def no_id(code: ErrorCode) -> Callable[[InitProducerIdResponse, str | None], None]:
    def change(answer: InitProducerIdResponse, client: str | None) -> None:
        answer.error_code, answer.producer_id = code, -1

    return change


def requests_under_way() -> int:
    return sum(task.get_name().startswith("kohort-produce ") for task in asyncio.all_tasks())


# What a request has


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
        assert [one.partition for one in here.sent] == [1]
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
        if wait in ("was refused", "is under way"):
            await eventually(lambda: here.requests == 1)
        until, used = asyncio.get_running_loop().time() + 0.25, time.thread_time()
        await eventually(lambda: asyncio.get_running_loop().time() > until)
        assert time.thread_time() - used < 0.02
        assert not sent.done()  # type: ignore[attr-defined]
        await here.producer.close(timeout=0.0)
        with pytest.raises(KafkaError):
            await sent


# Errors


@pytest.mark.parametrize(
    ("code", "looks"), [(ErrorCode.NOT_ENOUGH_REPLICAS, False), (ErrorCode.FENCED_LEADER_EPOCH, True)]
)
async def test_a_leader_is_looked_up_only_if_it_may_have_moved(code: ErrorCode, looks: bool) -> None:
    async with sending() as here:
        await (await here.send(b"a"))
        await here.producer.cluster.refresh(["t"])
        asked = here.link.asked[METADATA]
        here.refusals = [code]
        await (await here.send(b"b"))
        assert (here.link.asked[METADATA] > asked) is looks


async def test_a_batch_that_the_broker_has_already_is_written() -> None:
    def again(answer: ProduceResponse, client: str | None) -> None:
        for one in answer.responses[0].partition_responses:
            one.error_code, one.base_offset, one.log_append_time_ms = ErrorCode.DUPLICATE_SEQUENCE_NUMBER, 7, 99

    async with sending() as here:
        here.link.change[PRODUCE] = again
        assert await (await here.send(b"a")) == ("t", 0, 7, 99)


async def test_the_number_of_a_batch_that_the_broker_refuses_for_good_goes_to_the_next_one() -> None:
    async with sending() as here:
        await (await here.send(b"a"))
        here.refusals = [ErrorCode.MESSAGE_TOO_LARGE]
        with pytest.raises(KafkaError, match="t-0: ") as raised:
            await (await here.send(b"b"))
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        await (await here.send(b"c"))
        assert [one.sequence for one in here.sent] == [0, 1, 1]


async def test_an_answer_that_leaves_the_batch_out_has_it_sent_again() -> None:
    def once(answer: ProduceResponse, client: str | None) -> None:
        answer.responses = []
        del here.link.change[PRODUCE]

    async with sending() as here:
        here.link.change[PRODUCE] = once
        assert (await (await here.send(b"a"))).partition == 0
        assert len({(one.producer_id, one.sequence) for one in here.sent}) == 1 and len(here.sent) == 2


async def test_a_broken_connection_has_the_batch_sent_again_with_the_same_number() -> None:
    async with sending() as here:
        here.link.cut_at[PRODUCE] = [True]
        assert (await (await here.send(b"a"))).offset == 0
        assert len({(one.producer_id, one.sequence) for one in here.sent}) == 1 and len(here.sent) == 2


async def test_a_request_that_is_cancelled_is_sent_again_with_the_same_numbers() -> None:
    async with sending() as here:
        held = here.link.held[PRODUCE] = asyncio.Event()
        sent = await here.send(b"a")
        await eventually(lambda: here.requests == 1)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("kohort-produce ")]
        task.cancel()
        await eventually(lambda: here.requests == 2)
        del here.link.held[PRODUCE]
        held.set()
        assert (await sent).offset == 0
        first, second = here.sent
        assert (first.producer_id, first.sequence) == (second.producer_id, second.sequence)


async def test_a_partition_whose_topic_is_refused_for_good_fails_at_once() -> None:
    def refused(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            topic.error_code, topic.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []

    async with sending(linger_ms=60_000) as here:
        sent = await here.send(b"a")
        here.link.change[METADATA] = refused
        await here.producer.cluster.refresh(["t"])
        async with asyncio.timeout(10):
            with pytest.raises(KafkaError) as raised:
                await here.producer.flush()
        assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError):
            await sent


async def test_a_batch_fails_in_its_time_although_its_next_attempt_would_be_later() -> None:
    async with sending(**SHORT, **LONG) as here:
        here.link.change[METADATA] = leaderless
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(10):
            with pytest.raises(KafkaError, match="delivery_timeout_ms: "):
                await (await here.send(b"a"))
        assert loop.time() - began > 0.099


async def test_a_batch_that_was_never_sent_leaves_no_gap_in_the_numbers() -> None:
    async with sending(**SHORT) as here:
        await (await here.send(b"a"))
        here.link.change[METADATA] = leaderless
        await here.producer.cluster.refresh(["t"])
        with pytest.raises(KafkaError):
            await (await here.send(b"b"))
        del here.link.change[METADATA]
        await here.producer.cluster.refresh(["t"])
        await (await here.send(b"c"))
        first, second = here.sent
        assert (second.producer_id, second.sequence) == (first.producer_id, 1)


async def test_without_a_producer_id_batches_fail_in_their_time() -> None:
    async with sending(**SHORT) as here:
        here.link.change[INIT_PRODUCER_ID] = no_id(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        async with asyncio.timeout(10):
            with pytest.raises(KafkaError, match=r"t-0 did not take it within delivery_timeout_ms$"):
                await (await here.send(b"a"))
        del here.link.change[INIT_PRODUCER_ID]
        assert (await (await here.send(b"b"))).offset == 0


async def test_a_producer_id_that_is_refused_for_good_fails_all_that_waits_with_that_reason() -> None:
    async with sending() as here:
        here.link.change[INIT_PRODUCER_ID] = no_id(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        sent = [await here.send(b"a", number) for number in range(2)]
        async with asyncio.timeout(10):
            for one in sent:
                with pytest.raises(KafkaError) as raised:
                    await one
                assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# Closing


async def closed_while(here: Sending, held: int, acks: str) -> None:
    """Close while an answer is held back, with a full batch that was added a moment ago."""
    here.link.held[held] = asyncio.Event()
    given: dict[str, Any] = {"bootstrap_servers": f"127.0.0.1:{here.link.port}", "linger_ms": 0, "acks": acks}
    core = ProducerCore(read_options(ProducerOptions, given))
    await core.ready("t")
    asked = here.link.asked[held]
    sent = [core.append("t", b"a", None, None, (), 0, 25)]
    await eventually(lambda: here.link.asked[held] > asked)
    produced = here.link.asked[PRODUCE]
    sent.append(core.append("t", b"x" * 20_000, None, None, (), 1, 20_024))
    async with asyncio.timeout(10):
        await core._sender.close()
    assert (requests_under_way(), here.link.asked[PRODUCE]) == (0, produced)
    for one in sent:
        with pytest.raises(KafkaError) as raised:
            one.result()
        assert raised.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "kohort-producer-id"]
    await core.close(None)


@pytest.mark.parametrize(("held", "acks"), [(PRODUCE, "all"), (PRODUCE, "1"), (INIT_PRODUCER_ID, "all")])
async def test_closing_ends_what_is_under_way_and_sends_nothing_more(held: int, acks: str) -> None:
    async with sending() as here:
        await closed_while(here, held, acks)
