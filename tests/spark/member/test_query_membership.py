"""The membership of a query: Spark's calls are made in the test's event loop, where the broker runs, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition
from pyspark_kohort.member.query_membership import QueryMembership
from pyspark_kohort.offsets import Offset, text_of_topic_id
from pyspark_kohort.options import parse
from pyspark_kohort.source.plan import Range
from tests.client.conftest import eventually

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TWO = frozenset({T0, T1})


@dataclass
class Query:
    """A query: Spark's calls of it, and its directory."""

    stay: QueryMembership
    done: Offset = field(default_factory=Offset)

    async def join(self) -> None:
        self.stay.ledger.resume(Offset())
        await self.stay.join(["t"])

    async def begin(self, end: int = 10) -> Offset:
        """Plan a batch up to this offset of each partition; earlier batches are done."""
        await self.stay.grant(await self.stay.boundary(self.done), dict.fromkeys(TWO, 0))
        return await self.stay.plan(self.done, dict.fromkeys(TWO, end), None)

    async def committed(self) -> dict[TopicPartition, int | None]:
        assert self.stay.membership is not None
        found = await self.stay.membership.committed(TWO)
        return {tp: at and at.offset for tp, at in found.items()}


Make = Callable[..., Query]


@asynccontextmanager
async def leaving_at_the_end(queries: list[Query]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for query in queries:
            query.stay.leaving = True
            query.stay.begin_to_leave(5.0)
        async with asyncio.timeout(10):
            for query in queries:
                assert query.stay._leave_task is not None
                await query.stay._leave_task


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(BrokerOptions(port=0, settings={"group.initial.rebalance.delay.ms": "0"})) as running:
        running.topics.create("t", 2)
        running.topics.create("u", 3)
        yield running


@pytest.fixture
async def query(broker: Broker) -> AsyncIterator[Make]:
    """Make queries that are members of one group; they leave at the end of the test."""
    made: list[Query] = []

    def make(**options: str) -> Query:
        given = {
            "kafka.bootstrap.servers": f"127.0.0.1:{broker.port}",
            "kafka.group.id": "g",
            "kafka.heartbeat.interval.ms": "100",
            "subscribe": "t",
        }
        if options.get("kafka.group.protocol") == "consumer":
            del given["kafka.heartbeat.interval.ms"]  # the broker sets it
        made.append(Query(QueryMembership(parse(given | options, streaming=True))))
        return made[-1]

    async with leaving_at_the_end(made):
        yield make


async def test_a_batch_proven_by_the_next_call_is_committed_before_planning(query: Make) -> None:
    one = query()
    await one.join()
    one.done = await one.begin()
    assert await one.committed() == {T0: 0, T1: 0}
    await one.stay.boundary(one.done)
    assert await one.committed() == {T0: 10, T1: 10}


async def test_committed_offsets_are_not_committed_again(query: Make) -> None:
    one = query()
    await one.join()
    await one.begin()
    assert one.stay.ledger.commits() == {}


async def test_a_partition_that_was_cut_off_is_read_from_where_it_ends(query: Make) -> None:
    one = query()
    await one.join()
    one.done = await one.begin()
    await one.stay.boundary(one.done)
    await one.stay.rewind({T0: 4})
    assert one.stay.ledger.owned == {T0: 4, T1: 10}


async def test_a_recreated_topic_is_not_read_before_the_coordinator_has_assigned_it(
    broker: Broker, query: Make
) -> None:
    # Spark's side may learn of the new topic first. Its partitions may become another member's.
    one = query(**{"kafka.group.protocol": "consumer"})
    await one.join()
    membership = one.stay.membership
    assert membership is not None
    await eventually(lambda: membership.assignment == TWO)
    deleted = broker.topics.named("t")
    assert deleted is not None
    broker.topics.delete(deleted)
    known = text_of_topic_id(broker.topics.create("t", 2).topic_id)
    assert known is not None
    await one.stay.know({"t": known})
    assert membership.topic_id("t") == deleted.topic_id and one.stay._readable() == frozenset()
    await eventually(lambda: one.stay._readable() == TWO)


async def test_partitions_without_a_claim_and_with_this_querys_claim_are_waited_for(query: Make) -> None:
    one = query()
    await one.join()
    await one.begin()
    assert one.stay.membership is not None
    others = {
        TopicPartition("u", 0): OffsetAndMetadata(5, "another"),
        TopicPartition("u", 1): OffsetAndMetadata(5, "this"),
    }
    await one.stay.membership.commit(others)
    planned = [Range("t", 0, 0, 10), *(Range("u", n, 0, 10) for n in range(3))]
    assert sorted(await one.stay.unclaimed(planned, "this")) == [TopicPartition("u", 1), TopicPartition("u", 2)]


async def test_a_query_does_not_create_the_topics_that_it_reads(query: Make, broker: Broker) -> None:
    one = query()
    one.stay.ledger.resume(Offset())
    await one.stay.join(["t", "missing"])
    assert one.stay.membership is not None and one.stay.membership.assignment == TWO
    assert broker.topics.named("missing") is None


async def test_the_checkpoint_ends_the_wait_of_a_revocation_for_its_batch(query: Make, tmp_path: Path) -> None:
    # Spark's next call may be minutes away.
    one, two = query(checkpointLocation=str(tmp_path)), query()
    await one.join()
    end = await one.begin()
    for log, text in (("offsets", json.dumps(end.to_json())), ("commits", "{}")):
        (tmp_path / log).mkdir()
        (tmp_path / log / "0").write_text(f"v1\n{{}}\n{text}")
    await two.join()
    await eventually(lambda: two.stay.membership is not None and len(two.stay.membership.assignment) == 1)
    assert len(one.stay.ledger.owned) == 1
    assert await one.committed() == {T0: 10, T1: 10}


async def test_a_revocation_waits_for_the_call_that_proves_its_batch_done(query: Make) -> None:
    one, two = query(), query()
    await one.join()
    one.done = await one.begin()
    await two.join()
    assert one.stay.ledger.owned.keys() == TWO
    assert len(await one.stay.boundary(one.done)) == 0
    assert len(one.stay.ledger.owned) == 1, "the call returns when the revocation is complete"
    await eventually(lambda: two.stay.membership is not None and len(two.stay.membership.assignment) == 1)
    assert await one.committed() == {T0: 10, T1: 10}
