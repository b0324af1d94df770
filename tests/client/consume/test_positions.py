"""Positions are found for each partition on its own, and a seek always wins over a look-up."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from kohort import Consumer, Producer, TopicPartition
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.position_lookups import PositionLookups
from kohort.client.membership.committed import commit_outside
from kohort.model import UUID
from kohort.testing import Broker
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from tests.client.conftest import broker_with, eventually
from tests.client.consume.test_consumer import fill, take
from tests.client.link import Link, linked_broker
from tests.interop.kafka import free_ports

FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, EPOCH_END = 1, 2, 3, 9, 23
ZERO, ONE, MISSING = (TopicPartition("t", number) for number in (0, 1, 5))
QUICK: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 20, "retry_backoff_max_ms": 50}


def consumer_at(broker: Broker | Link, **options: Any) -> Consumer:
    return Consumer(bootstrap_servers=f"127.0.0.1:{broker.port}", **{**QUICK, "fetch_max_wait_ms": 20, **options})


def new_leader_of_zero(answer: MetadataResponse, client: str | None) -> None:
    """As if partition 0 had another leader than the broker knows of."""
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_epoch += 7 if partition.partition_index == 0 else 0


async def test_a_partition_that_does_not_exist_does_not_stop_others_after_a_restart(tmp_path: Path) -> None:
    [port] = free_ports(1)
    async with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([ZERO, MISSING])
        async with Broker(data=tmp_path, port=port, topics={"t": 2}) as broker:
            broker.topic("t").produce("0")
            assert len(await take(consumer, 1)) == 1
        # The new life of the broker leads in a later epoch, so that the position has to be checked.
        async with Broker(data=tmp_path, port=port) as broker:
            broker.topic("t").produce("0")
            assert [record.offset for record in await take(consumer, 1)] == [1]


async def test_a_check_is_not_held_against_what_was_fetched_since_it_was_asked() -> None:
    # Records 4 and 5 are of epoch 1. That epoch 0 ends at 4 does not mean that they are lost.
    async with broker_with(4) as broker, consumer_at(broker) as consumer:
        metadata = await consumer.cluster.refresh(["t"])
        state = PartitionState(ZERO)
        state.move(4, 0)
        lookups = PositionLookups(consumer.cluster, consumer._options)
        check = asyncio.create_task(lookups.ask_epochs(min(metadata.brokers), {ZERO: (state, state.turn)}))
        await asyncio.sleep(0)  # it has noted what it asks for
        state.position, state.fetch_at, state.fetch_epoch = 6, 6, 1
        assert await check == {}
        assert (state.position, state.checked_epoch) == (6, None)


async def test_a_check_that_fails_does_not_hold_up_a_partition_without_a_position() -> None:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        await fill(f"127.0.0.1:{link.port}", "t", 4, 2)
        async with consumer_at(link) as consumer:
            consumer.assign([ZERO, ONE])
            await take(consumer, 4)
            link.change[METADATA] = new_leader_of_zero
            await consumer.partitions_for("t")
            await eventually(lambda: link.asked[EPOCH_END] > 2)  # the broker does not know that epoch yet
            consumer.seek_to_beginning([ONE])
            assert await asyncio.wait_for(consumer.position(ONE), 5) == 0
            assert [record.partition for record in await take(consumer, 2)] == [1, 1]


async def test_one_partition_in_an_open_transaction_does_not_hold_up_the_others() -> None:
    async with broker_with(4, partitions=2) as broker:
        unstable = broker.fault(keys="OffsetFetch", partitions=0, error="UNSTABLE_OFFSET_COMMIT", count=-1)
        async with consumer_at(broker, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([ZERO, ONE])
            assert [record.partition for record in await take(consumer, 2)] == [1, 1]
            unstable.remove()
            assert [record.partition for record in await take(consumer, 2)] == [0, 0]


async def test_a_position_that_is_not_found_is_logged_once_and_then_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    async with broker_with(0) as broker:
        broken = broker.fault(keys="ListOffsets", error="KAFKA_STORAGE_ERROR", count=-1)
        async with consumer_at(broker) as consumer:
            consumer.assign([ZERO])
            await broken.wait_async(hits=6)
            broken.remove()
            assert await asyncio.wait_for(consumer.position(ZERO), 5) == 0
    began, ended = [record.getMessage() for record in caplog.records]
    assert began.startswith("no position yet: t-0: the broker could not write or read its log on disk; ")
    assert began.endswith("(KAFKA_STORAGE_ERROR)")
    assert ended.startswith("position found after ") and ended.endswith(" s: t-0")


async def test_a_granted_partition_waits_while_another_topic_has_its_name(caplog: pytest.LogCaptureFixture) -> None:
    # The metadata may be outdated, too: then the position is still valid, and is not looked up again.
    def another(answer: MetadataResponse, client: str | None) -> None:
        for topic in answer.topics:
            topic.topic_id = UUID(int=1)

    caplog.set_level(logging.WARNING, "kohort.client")
    async with linked_broker() as (broker, link):
        granted = broker.topics.create("t", 1).topic_id
        await fill(f"127.0.0.1:{link.port}", "t", 4)
        link.change[METADATA] = another
        async with consumer_at(link) as consumer:
            await consumer.cluster.refresh(["t"])
            consumer._partitions.fetcher.add([ZERO], lambda topic: granted)
            consumer._partitions.find_positions()
            asked = link.asked[METADATA]
            await eventually(lambda: link.asked[METADATA] > asked + 3)
            assert (consumer.positions(), link.asked[LIST_OFFSETS]) == ({}, 0)
            link.change.clear()
            assert len(await take(consumer, 4)) == 4
            link.change[METADATA] = another
            await consumer.cluster.refresh()
            fetches = link.asked[FETCH]
            await eventually(lambda: link.asked[METADATA] > asked + 8)
            assert consumer.positions() == {ZERO: 4}
            assert link.asked[FETCH] <= fetches + 1  # one may have been under way
            link.change.clear()
            await fill(f"127.0.0.1:{link.port}", "t", 1)
            assert [record.offset for record in await take(consumer, 1)] == [4]
        assert link.asked[LIST_OFFSETS] == 1
    said = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0] for text in said if "UNKNOWN_TOPIC_ID" in text] == ["no position yet", "not fetched"]


@pytest.mark.parametrize("key", ["ListOffsets", "OffsetFetch"])
async def test_a_seek_during_a_look_up_is_not_overwritten(key: str) -> None:
    async with broker_with(10) as broker:
        group: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False} if key == "OffsetFetch" else {}
        async with consumer_at(broker, **group) as consumer:
            if group:
                await commit_outside(consumer.cluster, "g", {ZERO: 7})
            held = broker.fault(keys=key, hold=True)
            consumer.assign([ZERO])
            await held.wait_async()
            consumer.seek(ZERO, 3)
            held.release()
            assert (await take(consumer, 1))[0].offset == 3
            await consumer.partitions_for("t")  # answered on the look-up's connection, behind it
            assert await consumer.position(ZERO) == 10


@pytest.mark.parametrize("gives_up", [False, True])
async def test_a_seek_right_after_a_reset_of_several_partitions_leaves_the_others_to_be_read(gives_up: bool) -> None:
    # The look-up of both is a task that has not begun when the reset of one of them is withdrawn.
    async with broker_with(4, partitions=2) as broker, consumer_at(broker) as consumer:
        consumer.assign([ZERO, ONE])
        assert len(await take(consumer, 4)) == 4
        consumer.seek_to_beginning()
        if gives_up:
            consumer.assign([ONE])
        else:
            consumer.seek(ZERO, 2)
        assert [(record.partition, record.offset) for record in await take(consumer, 2)] == [(1, 0), (1, 1)]


async def test_a_seek_during_the_check_of_a_new_leader_is_not_overwritten() -> None:
    def ends_at_two(answer: OffsetForLeaderEpochResponse, client: str | None) -> None:
        answer.topics[0].partitions[0].error_code = 0
        answer.topics[0].partitions[0].end_offset = 2

    async with linked_broker() as (broker, link):
        broker.topics.create("t", 1)
        bootstrap = f"127.0.0.1:{link.port}"
        await fill(bootstrap, "t", 5)
        async with consumer_at(link) as consumer, Producer(bootstrap_servers=bootstrap):
            consumer.assign([ZERO])
            await take(consumer, 5)
            link.held[EPOCH_END] = asyncio.Event()
            link.change = {METADATA: new_leader_of_zero, EPOCH_END: ends_at_two}
            await consumer.partitions_for("t")
            await eventually(lambda: link.asked[EPOCH_END] == 1)
            consumer.seek(ZERO, 4)
            link.change.pop(METADATA)
            link.held[EPOCH_END].set()
            await consumer.partitions_for("t")
            assert await consumer.position(ZERO) == 4
