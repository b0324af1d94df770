"""A consumer's subscription: which callback runs, what is committed before a partition is given up, and how it ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from kohort import Cluster, Consumer, ErrorCode, KafkaError, KohortError, Partitions, TopicPartition
from kohort.client import ClosedError, ConfigError
from kohort.client.consume.assigned_partitions import AssignedPartitions
from kohort.client.consume.commits import Commits
from kohort.client.consume.group_subscription import GroupSubscription
from kohort.client.membership import MemberDriver, member_config
from kohort.client.options import ConsumerOptions
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.member import CallbackKind, Event, OffsetAndMetadata
from kohort.model import Millis
from kohort.testing import Broker
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.client.conftest import broker_with, eventually

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Driver(MemberDriver):
    """A driver whose member does nothing, and whose commits take some time."""

    committed: list[dict[TopicPartition, int]]
    own: list[float]

    def handle(self, event: Event) -> None:
        pass

    def callback_done(self, *, own: float = 0.0) -> None:
        self.own.append(own)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: Millis) -> None:
        self.committed.append({partition: at.offset for partition, at in offsets.items()})
        await asyncio.sleep(0.02)


class Subscribing:
    """A subscription whose brokers cannot be reached, and whose rebalances the test begins."""

    def __init__(self, **given: Any) -> None:
        options = ConsumerOptions.read({"bootstrap_servers": "127.0.0.1:1", "group_id": "g", **given})
        self.cluster = Cluster(options)
        self.partitions = AssignedPartitions(self.cluster, options, lambda: None)
        self.commits = Commits(self.cluster, options, self.partitions.offsets_to_commit)
        self.group = GroupSubscription(self.cluster, options, self.partitions, self.commits, lambda: None)
        self.driver = Driver(self.cluster, member_config(options), self.group.rebalances.begin, lambda: None)
        self.driver.committed, self.driver.own = [], []
        self.group.driver = self.commits.driver = self.driver
        self.told: list[str] = []

    def subscribe(self, *callbacks: str) -> None:
        def tell(name: str) -> Callable[[Partitions], None] | None:
            return (lambda partitions: self.told.append(name)) if name in callbacks else None

        self.group.subscribe(["t"], tell("assigned"), tell("revoked"), tell("lost"))

    async def rebalance(self, kind: CallbackKind, *partitions: TopicPartition) -> None:
        self.group.rebalances.begin(kind, frozenset(partitions))
        await self.group.rebalances.run_pending()

    def learn(self, *topics: MetadataResponseTopic) -> None:
        self.cluster._refresher.metadata = self.cluster.metadata.merged(MetadataResponse(topics=list(topics)))


@asynccontextmanager
async def subscribing(**given: Any) -> AsyncIterator[Subscribing]:
    here = Subscribing(**given)
    yield here
    await here.group.close()
    await here.partitions.close()
    await here.cluster.close()


@pytest.mark.parametrize(
    ("given", "called"), [(["revoked"], "revoked"), (["revoked", "lost"], "lost"), (["lost"], "lost")]
)
async def test_lost_partitions_are_told_to_on_lost_or_without_it_to_on_revoked(given: list[str], called: str) -> None:
    async with subscribing() as here:
        here.subscribe(*given)
        await here.rebalance(CallbackKind.LOST, ZERO)
        assert here.told == [called]
        assert here.driver.committed == []  # another member may own them by now


async def test_the_time_of_the_commit_before_a_revocation_is_not_the_applications() -> None:
    async with subscribing() as here:
        here.subscribe("revoked")
        await here.rebalance(CallbackKind.ASSIGN, ZERO)
        here.partitions.state(ZERO).move(5)
        await here.rebalance(CallbackKind.REVOKE, ZERO)
        await here.rebalance(CallbackKind.REVOKE)
        assigned, revoked, nothing = here.driver.own
        assert assigned == 0.0 and 0.019 < revoked < 10.0 and nothing < revoked


async def test_the_position_of_a_partition_that_was_away_is_committed_even_if_it_is_the_same() -> None:
    # Another member may have committed meanwhile.
    async with subscribing() as here:
        here.subscribe()
        for _ in range(2):
            await here.rebalance(CallbackKind.ASSIGN, ZERO)
            here.partitions.state(ZERO).move(5)
            await here.rebalance(CallbackKind.REVOKE, ZERO)
        assert here.driver.committed == [{ZERO: 5}, {ZERO: 5}]


async def test_a_consumer_with_a_manual_assignment_does_not_subscribe() -> None:
    async with subscribing() as here:
        here.partitions.replace({ZERO})
        here.group.driver = None
        with pytest.raises(KohortError, match="assigned manually"):
            here.subscribe()
        with pytest.raises(KohortError, match="only a consumer that subscribed has a weight"):
            here.group.required_driver("a weight")
        here.group.driver = here.driver
        here.subscribe()  # partitions that the group assigned are no hindrance
        assert here.group.required_driver("a weight") is here.driver


async def test_a_pattern_of_the_broker_replaces_the_topics_before_it() -> None:
    async with subscribing(group_protocol="consumer") as here:
        here.subscribe()
        assert here.group.topics == {"t"}
        here.group.subscribe(SubscriptionPattern("u.*"), None, None, None)
        assert here.group.topics == frozenset()


async def test_a_topic_that_is_refused_is_raised_once_for_each_answer() -> None:
    refused = MetadataResponseTopic(name="t", topic_id=UUID(int=1), error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    other = MetadataResponseTopic(name="u", topic_id=UUID(int=2), error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assigned = MetadataResponseTopic(name=None, topic_id=UUID(int=3), error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async with subscribing() as here:
        here.subscribe()
        for answer, told in ((refused, "t: "), (refused, "t: "), (assigned, f"the assigned topic {UUID(int=3)}: ")):
            here.learn(MetadataResponseTopic(name="t", topic_id=UUID(int=1)))
            here.group.raise_error()
            here.learn(answer)
            with pytest.raises(KafkaError) as raised:
                here.group.raise_error()
            assert raised.value.sentence.startswith(told)
            here.group.raise_error()
        here.learn(other, MetadataResponseTopic(name="t", topic_id=UUID(int=1)))
        here.group.raise_error()  # no member subscribed to u


async def test_closing_ends_the_callback_that_runs_and_the_member() -> None:
    async with subscribing() as here:
        began, ended = asyncio.Event(), asyncio.Event()

        async def assigned(partitions: Partitions) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        here.group.subscribe(["t"], None, assigned, None)
        polling = asyncio.ensure_future(here.rebalance(CallbackKind.LOST, ZERO))
        await began.wait()
        await here.group.close()
        assert ended.is_set()
        await asyncio.wait([polling])
        with pytest.raises(ClosedError):
            await MemberDriver.commit(here.driver, {}, 0)


@pytest.mark.parametrize("name", ["on_assigned", "on_revoked", "on_lost"])
async def test_a_callback_without_topics_is_refused(name: str) -> None:
    given: dict[str, Any] = {name: lambda partitions: None, "bootstrap_servers": "b:9092", "group_id": "g"}
    with pytest.raises(ConfigError, match="need topics"):
        Consumer(**given)
    await Consumer("t", **given).abandon()


# At a broker

GIVEN: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 50}


def subscribed(broker: Broker, *topics: str, **options: Any) -> Consumer:
    return Consumer(*topics, bootstrap_servers=broker.bootstrap_servers, **{**GIVEN, **options})


async def polled(consumer: Consumer, until: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not until():
            await consumer.poll(timeout=0.02)


async def test_committed_offsets_are_positions_and_are_fetched_from_while_on_assigned_runs() -> None:
    async with broker_with(5) as broker:
        async with subscribed(broker, "t") as consumer:
            await polled(consumer, lambda: consumer.positions() == {ZERO: 5})
            await consumer.commit({ZERO: 3})
            consumer.seek(ZERO, 3)
        fetch = broker.fault(keys="Fetch", observe=True)
        positions: list[dict[TopicPartition, int]] = []

        async def assigned(partitions: Partitions) -> None:
            positions.append(again.positions())
            await fetch.wait_async()

        async with subscribed(broker, "t", on_assigned=assigned) as again:
            await polled(again, lambda: bool(positions))
        assert positions == [{ZERO: 3}]


async def test_a_callback_commits_while_the_consumer_closes() -> None:
    async with broker_with(7) as broker:

        async def revoked(partitions: Partitions) -> None:
            await consumer.commit({ZERO: 7})

        given: dict[str, Any] = {"enable_auto_commit": False, "on_revoked": revoked}
        async with subscribed(broker, "t", **given) as consumer:
            await polled(consumer, lambda: consumer.positions() == {ZERO: 7})
        assert broker.group("g").committed == {ZERO: 7}


async def test_closing_waits_for_an_automatic_commit_no_longer_than_its_timeout() -> None:
    async with broker_with(5) as broker:
        async with subscribed(broker, "t") as consumer:
            await polled(consumer, lambda: consumer.positions() == {ZERO: 5})
            broker.fault(keys="OffsetCommit", hold=True)
            async with asyncio.timeout(10):
                await consumer.close(timeout=0.1)


async def test_a_consumer_that_unsubscribed_has_left_and_may_subscribe_again() -> None:
    async with broker_with(0) as broker:
        told: list[Partitions] = []
        goodbye = broker.fault(keys="LeaveGroup", observe=True, count=-1)
        async with subscribed(broker) as consumer:
            consumer.subscribe(re.compile("t.*"))
            await polled(consumer, lambda: bool(consumer.assignment))
            before = consumer._group.driver
            await consumer.unsubscribe()
            assert goodbye.hits == 1
            assert before is not None
            with pytest.raises(ClosedError):
                await before.commit({}, 0)
            requests: list[object] = []
            broker.observe(lambda event: requests.append(getattr(event, "request", None)))
            await consumer.cluster.refresh(["t"])
            asked = [request for request in requests if isinstance(request, MetadataRequest)]
            assert asked and all(request.topics is not None for request in asked)  # no pattern is subscribed
            assert (consumer.subscription, consumer.assignment) == (frozenset(), frozenset())
            consumer.subscribe(["t"], on_assigned=told.append)
            await eventually(lambda: consumer._group.rebalances.waiting)
            assert told == []  # callbacks run inside poll
            await polled(consumer, lambda: bool(told))


async def test_an_error_that_ends_the_membership_ends_the_poll_that_waits() -> None:
    async with broker_with(0) as broker:
        broker.fault(keys="JoinGroup", error="GROUP_AUTHORIZATION_FAILED", count=-1)
        async with subscribed(broker, "t") as consumer, asyncio.timeout(20):
            with pytest.raises(KafkaError) as raised:
                await consumer.poll(timeout=60)
            assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_members_with_a_pattern_look_for_new_topics_before_a_rebalance() -> None:
    async with broker_with(0) as broker:
        async with subscribed(broker) as one:
            one.subscribe(re.compile("t.*"))
            await polled(one, lambda: bool(one.assignment))
            broker.create_topic("t2")
            async with subscribed(broker, "t") as other:
                found = asyncio.Event()
                polling = asyncio.ensure_future(polled(other, found.is_set))
                await polled(one, lambda: one.subscription == {"t", "t2"})
                found.set()
                await polling
