"""Batches after errors, without a leader or a producer id, and when the sender is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client.options import ProducerOptions
from kohort.client.produce.producer_core import ProducerCore
from kohort.wire.messages.init_producer_id import InitProducerIdResponse
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.produce import ProduceResponse
from tests.client.conftest import eventually
from tests.client.produce.test_send_schedule import INIT_PRODUCER_ID, LONG, leaderless, requests_under_way
from tests.client.produce.test_sender import METADATA, PRODUCE, Sending, sending

SHORT: dict[str, Any] = {"delivery_timeout_ms": 100, "request_timeout_ms": 90}


def no_id(code: ErrorCode) -> Callable[[InitProducerIdResponse, str | None], None]:
    def change(answer: InitProducerIdResponse, client: str | None) -> None:
        answer.error_code, answer.producer_id = code, -1

    return change


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
        for partition in answer.responses[0].partition_responses:
            partition.error_code, partition.base_offset, partition.log_append_time_ms = (
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                7,
                99,
            )

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
        assert [batch.sequence for batch in here.sent] == [0, 1, 1]


async def test_an_answer_that_leaves_the_batch_out_has_it_sent_again() -> None:
    def once(answer: ProduceResponse, client: str | None) -> None:
        answer.responses = []
        del here.link.change[PRODUCE]

    async with sending() as here:
        here.link.change[PRODUCE] = once
        assert (await (await here.send(b"a"))).partition == 0
        assert len({(batch.producer_id, batch.sequence) for batch in here.sent}) == 1 and len(here.sent) == 2


async def test_a_broken_connection_has_the_batch_sent_again_with_the_same_number() -> None:
    async with sending() as here:
        here.link.cut_at[PRODUCE] = [True]
        assert (await (await here.send(b"a"))).offset == 0
        assert len({(batch.producer_id, batch.sequence) for batch in here.sent}) == 1 and len(here.sent) == 2


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
            for delivery in sent:
                with pytest.raises(KafkaError) as raised:
                    await delivery
                assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# Closing


async def closed_while(here: Sending, held: int, acks: str) -> None:
    """Close while an answer is held back, with a full batch that was added a moment ago."""
    here.link.held[held] = asyncio.Event()
    given: dict[str, Any] = {"bootstrap_servers": f"127.0.0.1:{here.link.port}", "linger_ms": 0, "acks": acks}
    core = ProducerCore(ProducerOptions.read(given))
    await core.ready("t")
    asked = here.link.asked[held]
    sent = [core.append("t", b"a", None, None, (), 0, 25)]
    await eventually(lambda: here.link.asked[held] > asked)
    produced = here.link.asked[PRODUCE]
    sent.append(core.append("t", b"x" * 20_000, None, None, (), 1, 20_024))
    async with asyncio.timeout(10):
        await core._sender.close()
    assert (requests_under_way(), here.link.asked[PRODUCE]) == (0, produced)
    for delivery in sent:
        with pytest.raises(KafkaError) as raised:
            delivery.result()
        assert raised.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "kohort-producer-id"]
    await core.close(None)


@pytest.mark.parametrize(("held", "acks"), [(PRODUCE, "all"), (PRODUCE, "1"), (INIT_PRODUCER_ID, "all")])
async def test_closing_ends_what_is_under_way_and_sends_nothing_more(held: int, acks: str) -> None:
    async with sending() as here:
        await closed_while(here, held, acks)
