"""Answers to WriteTxnMarkers that arrive late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.broker.transactions.marking import MarkerWriting
from kohort.coordinator.transactions import Markers
from kohort.errors import ErrorCode
from kohort.log.cluster import Node
from kohort.model import TopicPartition
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

A = TopicPartition("orders", 0)


class Shard:
    """A coordinator on this broker, as far as its markers are concerned."""

    term, epoch, ready = 1, 5, True

    def __init__(self) -> None:
        self.reported: list[TopicPartition] = []

    def marked(self, markers: Markers, partitions: Collection[TopicPartition]) -> None:
        self.reported += partitions


class Others:
    """The broker that leads the partition, and answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[WriteTxnMarkersResponse], None]] = []

    def ask(
        self, node: object, request: object, answer: object, done: Callable[[WriteTxnMarkersResponse], None]
    ) -> None:
        self.waiting.append(done)

    def answer(self, code: ErrorCode) -> None:
        result = WritableTxnMarkerPartitionResult(partition_index=A.partition, error_code=code)
        topic = WritableTxnMarkerTopicResult(name=A.topic, partitions=[result])
        one = WritableTxnMarkerResult(producer_id=7, topics=[topic])
        self.waiting.pop()(WriteTxnMarkersResponse(markers=[one]))


def asked() -> tuple[Shard, Others]:
    """Return a coordinator that waits for the marker of a transaction of version 1."""
    leader = Node(2, "localhost", 9092)
    parts: Any = SimpleNamespace(
        node_id=1,
        stopping=False,
        topics=SimpleNamespace(named=lambda name: SimpleNamespace(partitions=1)),
        leadership=SimpleNamespace(leader=lambda topic, number: leader, node=lambda node_id: leader),
    )
    shard, others = Shard(), Others()
    markers = Markers("t", 7, 0, True, frozenset({A}), 0)
    MarkerWriting(parts, others).write(shard, markers)  # type: ignore[arg-type]
    return shard, others


@pytest.mark.parametrize(("term", "reported"), [(1, [A]), (2, [])], ids=["the same term", "a later term"])
async def test_only_a_marker_of_this_term_counts(term: int, reported: list[TopicPartition]) -> None:
    # In version 1, the next transaction has the same producer ID and epoch. If the coordinator has moved away and
    # back, the answer may be about the transaction before, and the next one has no marker in the partition yet.
    shard, others = asked()
    shard.term = term
    others.answer(ErrorCode.NONE)
    await asyncio.sleep(0)
    assert shard.reported == reported


@pytest.mark.parametrize(("term", "again"), [(1, 1), (2, 0)], ids=["the same term", "a later term"])
async def test_a_marker_that_is_not_written_is_sent_again_only_in_this_term(term: int, again: int) -> None:
    shard, others = asked()
    others.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    shard.term = term
    await asyncio.sleep(0.3)
    assert (len(others.waiting), shard.reported) == (again, [])


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
async def test_a_marker_that_is_refused_for_good_is_said_and_not_sent_again(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    shard, others = asked()
    others.answer(code)
    await asyncio.sleep(0.3)
    assert (others.waiting, shard.reported) == ([], [])
    assert f"a marker of transactional ID 't' is refused by orders-0: {code.name}" in caplog.text
