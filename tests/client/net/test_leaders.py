"""Requests to the leaders of partitions: each result once, again where a leader has moved, and every error told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort import Cluster, ErrorCode, KafkaError, OffsetSpec, TopicPartition
from kohort.client.net import BrokerConnection, ask_leaders, leader_epoch, list_offsets
from kohort.errors import ConfigError
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker

METADATA = 3
ZERO, ONE, OTHER, MISSING = (TopicPartition(*at) for at in (("t", 0), ("t", 1), ("u", 0), ("missing", 0)))

Refused = dict[TopicPartition, KafkaError]


@dataclass
class Asking:
    """A cluster with the topics t, of two partitions, and u, and what their leaders are asked."""

    cluster: Cluster
    link: Link
    refusals: list[Refused | KafkaError] = field(default_factory=list)
    """Of the next requests: errors of partitions, or of the request."""
    asked: list[dict[TopicPartition, str]] = field(default_factory=list)
    told: list[dict[TopicPartition, str]] = field(default_factory=list)
    looked_up: list[set[str | None]] = field(default_factory=list)
    """Topics of each request for metadata."""

    async def ask(
        self, connection: BrokerConnection, some: Mapping[TopicPartition, str]
    ) -> tuple[dict[TopicPartition, str], Refused]:
        assert connection.open
        self.asked.append(dict(some))
        refused = self.refusals.pop(0) if self.refusals else {}
        if isinstance(refused, KafkaError):
            raise refused
        return {partition: given.upper() for partition, given in some.items() if partition not in refused}, refused

    async def results(self, wanted: dict[TopicPartition, str], timeout_ms: int = 5_000) -> dict[TopicPartition, str]:
        return await ask_leaders(self.cluster, wanted, self.ask, timeout_ms, lambda some: self.told.append(dict(some)))


@asynccontextmanager
async def asking() -> AsyncIterator[Asking]:
    async with linked_broker(auto_create_topics_enable="false") as (broker, link):
        broker.topics.create("t", 2)
        broker.topics.create("u", 1)
        options: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20}
        async with Cluster.of(f"127.0.0.1:{link.port}", **options) as cluster:
            here = Asking(cluster, link)

            def look(request: MetadataRequest) -> None:
                here.looked_up.append({topic.name for topic in request.topics or ()})

            link.watch[METADATA] = look
            yield here


async def test_leaders_that_are_not_known_are_looked_up_and_asked_at_once() -> None:
    async with asking() as here:
        assert await here.results({ZERO: "a", ONE: "b"}, timeout_ms=0) == {ZERO: "A", ONE: "B"}
        assert here.asked == [{ZERO: "a", ONE: "b"}]
        lookups = len(here.looked_up)
        assert await here.results({ZERO: "c"}) == {ZERO: "C"}
        assert len(here.looked_up) == lookups
        assert await ask_leaders(here.cluster, {ONE: "d"}, here.ask) == {ONE: "D"}


async def test_only_what_is_missing_is_asked_for_again() -> None:
    moved = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    async with asking() as here:
        here.refusals = [{ONE: moved}, {ONE: moved}]
        assert await here.results({ZERO: "a", ONE: "b"}) == {ZERO: "A", ONE: "B"}
        assert here.asked == [{ZERO: "a", ONE: "b"}, {ONE: "b"}, {ONE: "b"}]
        assert here.told == [{ZERO: "A"}, {}, {ONE: "B"}]


async def test_only_topics_that_are_missing_are_looked_up_after_an_error() -> None:
    async with asking() as here:
        await here.cluster.refresh(["t", "u"])
        before = len(here.looked_up)
        here.refusals = [{OTHER: KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)}]
        await here.results({ZERO: "a", OTHER: "b"})
        await eventually(lambda: {"u"} in here.looked_up[before:])
        assert not any("t" in names for names in here.looked_up[before:])


async def test_a_request_that_fails_is_repeated_and_its_topics_are_looked_up() -> None:
    async with asking() as here:
        await here.cluster.refresh(["t"])
        before = len(here.looked_up)
        here.refusals = [KafkaError(ErrorCode.NETWORK_EXCEPTION)]
        assert await here.results({ZERO: "a"}) == {ZERO: "A"}
        await eventually(lambda: {"t"} in here.looked_up[before:])


@pytest.mark.parametrize("retriable", [False, True])
async def test_an_error_that_stays_is_raised_when_the_others_are_done(retriable: bool) -> None:
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER if retriable else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with asking() as here:
        await here.cluster.refresh(["t"])  # a slow machine may take longer for it than the time limit below
        here.refusals = [{ONE: KafkaError(code)} for _ in range(1_000)]
        with pytest.raises(KafkaError) as raised:
            await here.results({ZERO: "a", ONE: "b"}, timeout_ms=500)
        assert raised.value.code is code
        assert here.told[0] == {ZERO: "A"}
        assert (len(here.asked) > 1) is retriable


async def test_a_partition_without_a_leader_is_an_error_and_the_others_are_asked() -> None:
    async with asking() as here:
        with pytest.raises(KafkaError) as raised:
            await here.results({MISSING: "m", ZERO: "a"}, timeout_ms=50)
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert here.told == [{ZERO: "A"}]


async def test_a_request_has_the_leader_epoch_that_is_known() -> None:
    async with asking() as here:
        assert leader_epoch(here.cluster, ZERO) == -1
        led = [
            MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=7),
            MetadataResponsePartition(partition_index=1, leader_id=1, leader_epoch=-1),
        ]
        answer = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=led)])
        here.cluster._refresher.metadata = here.cluster.metadata.merged(answer)
        assert (leader_epoch(here.cluster, ZERO), leader_epoch(here.cluster, ONE)) == (7, -1)


async def test_offsets_are_asked_for_by_a_name_or_a_time() -> None:
    async with asking() as here:
        found = await list_offsets(here.cluster, {ZERO: OffsetSpec.LATEST, ONE: 0})
        assert {partition: at and at.offset for partition, at in found.items()} == {ZERO: 0, ONE: None}
        with pytest.raises(ConfigError, match="the time for t-0"):
            await list_offsets(here.cluster, {ZERO: -7})
