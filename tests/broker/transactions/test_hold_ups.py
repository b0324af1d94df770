"""A group whose members wait long for a transaction: the log and the journal say which one, and what ends it."""

from __future__ import annotations

import asyncio
import re

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.groups.test_refused_members import journal
from tests.broker.peer import Peer
from tests.broker.transactions.producers import NONE, V2, TransactionalProducer, fetched_offset, started
from tests.broker.virtual import VirtualBroker, in_virtual_time


async def held_up(world: VirtualBroker, peer: Peer) -> TransactionalProducer:
    """Let a group wait for a transaction until that is logged."""
    producer = await started(world, peer, V2, "copier-1")
    assert await producer.commit_offset("g", "orders", 0, 7) is NONE
    for _ in range(12):
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await asyncio.sleep(1)
    return producer


def test_a_group_that_waits_is_in_the_log_and_in_the_journal_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        producer = await held_up(world, peer)
        assert await producer.end(commit=True) is NONE
        await producer.completed()
        assert await fetched_offset(peer, "g", "orders", stable=True) == (7, NONE)
        began, ended = await journal(world.broker)
        assert began.held_offsets is not None
        assert ended.held_offsets is not None
        assert (began.group_id, began.held_offsets.transactional_id, began.held_offsets.end) == ("g", "copier-1", None)
        assert 10_000 <= began.ended_at - began.held_offsets.waiting_since < 12_000
        assert (ended.held_offsets.end, ended.held_offsets.producer_id) == ("committed", producer.producer_id)

    with caplog.at_level("INFO", "kohort.broker"):
        in_virtual_time(steps)
    said = [record.getMessage() for record in caplog.records if "members of group=g" in record.getMessage()]
    warning, end = said
    assert "have waited 10.0 s for the open transaction of copier-1" in warning
    assert "kohort transactions fence copier-1" in warning
    assert "no longer wait for the transaction of copier-1" in end


def test_the_partition_and_the_producer_of_the_warning_are_those_to_abort(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await held_up(world, peer)
        [warning] = [text for text in map(str, caplog.messages) if "have waited" in text]
        found = re.search(r"abort __consumer_offsets (\d+) --producer-id (\d+)", warning)
        assert found is not None
        partition, producer_id = map(int, found.groups())
        asked = DescribeProducersRequest(
            topics=[TopicRequest(name="__consumer_offsets", partition_indexes=[partition])]
        )
        answer = await peer.ask(asked, 0, DescribeProducersResponse)
        [active] = answer.topics[0].partitions[0].active_producers
        assert (active.producer_id, active.current_txn_start_offset) == (producer_id, 0)
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=active.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[partition])],
            coordinator_epoch=active.coordinator_epoch,
        )
        written = await peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
        assert written.markers[0].topics[0].partitions[0].error_code == NONE
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, NONE)

    in_virtual_time(steps)
