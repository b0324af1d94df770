"""The replica that a partition is fetched from over time, without a broker; the test is the clock."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from kohort import TopicPartition
from kohort.client import Cluster
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.read_replicas import ReadReplicas
from kohort.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.conftest import broker_with

METADATA = 3
LEADER, FOLLOWER = 1, 7


@dataclass
class Reading:
    cluster: Cluster
    now: float = 1_000.0

    def __post_init__(self) -> None:
        self.replicas = ReadReplicas(self.cluster, lambda: self.now)
        self.state = PartitionState(TopicPartition("t", 0))

    def led_since(self, epoch: int) -> None:
        led = MetadataResponsePartition(
            partition_index=0, leader_id=LEADER, leader_epoch=epoch, replica_nodes=[LEADER], isr_nodes=[LEADER]
        )
        brokers = [MetadataResponseBroker(node_id=node, host="127.0.0.1", port=1) for node in (LEADER, FOLLOWER)]
        topics = [MetadataResponseTopic(name="t", partitions=[led])]
        self.cluster._refresher.metadata = self.cluster.metadata.merged(
            MetadataResponse(brokers=brokers, topics=topics)
        )


@asynccontextmanager
async def reading() -> AsyncIterator[Reading]:
    async with Cluster.of("127.0.0.1:1", metadata_max_age_ms=60_000) as cluster:
        made = Reading(cluster)
        made.led_since(3)
        yield made


async def test_a_follower_is_read_from_until_metadata_max_age_is_over_and_no_longer() -> None:
    async with reading() as here:
        assert here.replicas.source(here.state) == LEADER
        here.replicas.prefer(here.state, FOLLOWER)
        here.now += 59.99
        assert here.replicas.source(here.state) == FOLLOWER
        here.now += 0.01
        assert here.replicas.source(here.state) == LEADER
        here.now -= 1  # only the leader chooses a replica again
        assert here.replicas.source(here.state) == LEADER


async def test_a_follower_that_names_itself_is_left_for_the_leader() -> None:
    async with reading() as here:
        here.replicas.prefer(here.state, FOLLOWER)
        here.replicas.prefer(here.state, FOLLOWER)
        assert here.replicas.source(here.state) == LEADER
        assert here.replicas.rack_id([here.state], "b") == ""


async def test_a_follower_that_names_another_one_is_left_for_that() -> None:
    async with reading() as here:
        here.replicas.prefer(here.state, 8)
        here.replicas.prefer(here.state, FOLLOWER)
        assert here.replicas.source(here.state) == FOLLOWER


async def test_a_follower_that_metadata_does_not_know_is_not_asked_for_again_at_once() -> None:
    async with reading() as here:
        here.replicas.prefer(here.state, 8)
        assert here.replicas.source(here.state) == LEADER
        assert here.replicas.rack_id([here.state], "b") == ""


async def test_a_follower_is_taken_although_metadata_forgot_the_leader_meanwhile() -> None:
    async with Cluster.of("127.0.0.1:1") as cluster:
        here = Reading(cluster)
        here.replicas.prefer(here.state, FOLLOWER)
        assert here.replicas.give_up(here.state, "failed")


async def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kohort.client.consume.read_replicas")
    async with reading() as here:
        here.replicas.prefer(here.state, FOLLOWER)
        here.replicas.log_changes()
        here.replicas.log_changes()
        here.replicas.give_up(here.state, "failed")
        here.replicas.log_changes()
        here.replicas.log_changes()
    assert [record.getMessage() for record in caplog.records] == [
        f"fetched from a follower: broker={FOLLOWER} for 60 s: t-0",
        f"fetched from the leader again: broker {FOLLOWER} failed: t-0",
    ]


async def test_a_leader_of_another_epoch_ends_the_choice_also_if_the_first_epoch_comes_back() -> None:
    async with reading() as here:
        here.replicas.prefer(here.state, FOLLOWER)
        here.led_since(4)
        assert here.replicas.source(here.state) == LEADER
        assert not here.replicas.give_up(here.state, "failed")  # it is the leader that is read from


async def test_after_a_failure_no_rack_is_named_for_ten_seconds_in_any_fetch_of_that_partition() -> None:
    async with reading() as here:
        other = PartitionState(TopicPartition("t", 1))
        here.replicas.prefer(here.state, FOLLOWER)
        assert here.replicas.give_up(here.state, "failed")
        assert here.replicas.rack_id([here.state, other], "b") == ""
        assert here.replicas.rack_id([other], "b") == "b"
        here.now += 9.99
        assert here.replicas.rack_id([here.state], "b") == ""
        here.now += 0.01
        assert here.replicas.rack_id([here.state], "b") == "b"


async def test_a_partition_that_is_given_up_is_read_from_its_leader_when_it_is_back() -> None:
    async with reading() as here:
        here.replicas.prefer(here.state, FOLLOWER)
        here.replicas.forget(here.state)
        assert here.replicas.source(here.state) == LEADER
        here.replicas.prefer(here.state, FOLLOWER)
        here.replicas.give_up(here.state, "failed")
        here.replicas.forget(here.state)
        assert here.replicas.rack_id([here.state], "b") == "b"


async def test_a_failed_follower_makes_the_client_refresh_metadata() -> None:
    async with broker_with(0) as broker, Cluster.of(broker.bootstrap_servers) as cluster:
        await cluster.refresh(["t"])
        asked = broker.fault(keys="Metadata", observe=True)
        here = Reading(cluster)
        here.replicas.prefer(here.state, FOLLOWER)
        assert asked.hits == 0
        here.replicas.give_up(here.state, "failed")
        await asked.wait_async()
