"""Heartbeats of consumer groups that are held until there is news (group.heartbeat.hold.ms)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.broker.conftest import Connect, MakeBroker
from tests.broker.peer import Peer, talking_to, until

SHORT = 50
USUAL = 5_000
HOUR = 3_600_000
"""Milliseconds; a session of an hour would be held for 20 minutes, so that nothing here ends by time."""

FOR_LONG = {
    "group.heartbeat.hold.ms": str(HOUR),
    "group.consumer.session.timeout.ms": str(HOUR),
    "group.consumer.max.session.timeout.ms": str(HOUR),
    "group.consumer.heartbeat.interval.ms": str(HOUR // 4),
    "group.consumer.max.heartbeat.interval.ms": str(HOUR // 4),
}


@pytest.fixture
async def broker(start_broker: MakeBroker) -> Broker:
    return await start_broker(BrokerOptions(port=0, settings=FOR_LONG))


class Member:
    """One member on a connection of its own, whose client does what it is told at once."""

    def __init__(self, peer: Peer, member_id: str, topic: str = "orders") -> None:
        self.peer = peer
        self.member_id = member_id
        self.epoch = 0
        self._topic = topic
        self._answer: asyncio.Task[ConsumerGroupHeartbeatResponse] | None = None

    def say(self, **fields: Any) -> None:
        """Send a heartbeat, with nothing in it but what is given."""
        self.peer.send(
            ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.member_id, member_epoch=self.epoch, **fields),
            1,
        )

    async def receive(self) -> ConsumerGroupHeartbeatResponse:
        answer = await (self._answer or self.peer.answer(ConsumerGroupHeartbeatResponse))
        self._answer = None
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
        return answer

    async def be_held(self, broker: Broker) -> None:
        """Send heartbeats without changes until one is held: earlier ones may return a new epoch."""
        while not await self._is_held(broker):
            await self.acknowledge(await self.receive())

    async def _is_held(self, broker: Broker) -> bool:
        before = holding(broker)
        self.say()
        answer = self._answer = asyncio.create_task(self.peer.answer(ConsumerGroupHeartbeatResponse))
        await until(lambda: holding(broker) > before or answer.done())
        return not answer.done()

    @property
    def was_told(self) -> bool:
        """Return whether a held heartbeat was answered and its answer was not received yet."""
        return self._answer is not None and self._answer.done()

    async def reconnect(self, peer: Peer, broker: Broker) -> None:
        """Leave the connection while a heartbeat is held there."""
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None
        self.peer.writer.close()
        await until(lambda: holding(broker) == 0)
        self.peer = peer

    async def introduce(self, software: str) -> None:
        """Say what client it is, as its connection's first request."""
        request = ApiVersionsRequest(client_software_name=software, client_software_version="4.3.1")
        await self.peer.ask(request, 3, ApiVersionsResponse)

    async def join(self, software: str = "kohort") -> "Member":
        await self.introduce(software)
        self.say(rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_names=[self._topic])
        await self.acknowledge(await self.receive())
        return self

    async def acknowledge(self, answer: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        """Report that it has what it was told to have, until it is told nothing new."""
        while answer.assignment is not None:
            self.say(topic_partitions=answer.assignment.topic_partitions)
            answer = await self.receive()
        return answer


Join = Callable[..., Awaitable[Member]]


@pytest.fixture
def join(connect: Connect, broker: Broker) -> Join:
    """A new member on a connection of its own."""

    async def join_one(member_id: str, **fields: Any) -> Member:
        return await Member(await connect(), member_id, **fields).join()

    return join_one


async def held(broker: Broker, *members: Member) -> None:
    """Let the broker hold a heartbeat of each."""
    for member in members:
        await member.be_held(broker)


async def at_rest(broker: Broker, onlooker: Peer, *members: Member) -> None:
    """Let the group reach its target, and the broker hold a heartbeat of each member then.

    A member whose heartbeat is held hears once more when another one gives up a partition that is to be its own.
    """
    await held(broker, *members)
    while await group_state(onlooker) != "Stable" or holding(broker) < len(members) or has_news(broker):
        for member in members:
            if member.was_told:
                await member.acknowledge(await member.receive())
                await member.be_held(broker)


async def group_state(onlooker: Peer) -> str:
    return (await onlooker.ask(ListGroupsRequest(), 4, ListGroupsResponse)).groups[0].group_state


def has_news(broker: Broker) -> bool:
    """Whether a held heartbeat is yet to be answered: members that only get another epoch are told last."""
    return any(shard._machine.has_news for shard in broker.groups)


def holding(broker: Broker) -> int:
    """How many heartbeats the broker holds."""
    return sum(len(shard.waiting) for shard in broker.groups)


def numbers(partitions: list[TopicPartitions]) -> list[int]:
    return sorted(number for topic in partitions for number in topic.partitions)


async def test_a_member_is_notified_at_once_that_another_joined(broker: Broker, join: Join) -> None:
    broker.topics.create("orders", 2)
    a = await join("a")
    await held(broker, a)
    b = await join("b")
    told = await a.receive()
    assert told.assignment is not None and len(numbers(told.assignment.topic_partitions)) == 1
    assert told.heartbeat_interval_ms == SHORT
    await held(broker, b)  # it waits for what `a` is to give up
    await a.acknowledge(told)
    got = await b.receive()
    assert got.assignment is not None and len(numbers(got.assignment.topic_partitions)) == 1


async def test_a_member_that_owes_an_acknowledgement_is_never_held(broker: Broker, join: Join) -> None:
    broker.topics.create("orders", 2)
    a = await join("a")
    await held(broker, a)
    await join("b")
    told = await a.receive()
    waits = []
    for _ in range(6):
        a.say()
        waits.append((await a.receive()).heartbeat_interval_ms)
    assert waits == sorted(waits) and waits[-1] > 10 * waits[0], "it is asked for patience, ever more"
    assert told.assignment is not None
    a.say(topic_partitions=told.assignment.topic_partitions)
    assert (await a.receive()).heartbeat_interval_ms == SHORT
    await held(broker, a)


async def test_a_client_that_never_acknowledges_what_it_was_given_is_held_all_the_same(
    broker: Broker, connect: Connect
) -> None:
    broker.topics.create("orders", 1)
    a = Member(await connect(), "a")
    await a.introduce("kohort")
    a.say(rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_names=["orders"])
    assert (await a.receive()).assignment is not None
    for _ in range(3):
        a.say()
        await a.receive()
    await held(broker, a)


async def test_members_are_notified_of_new_partitions_and_topics_at_once(broker: Broker, join: Join) -> None:
    topic = broker.topics.create("orders", 1)
    a = await join("a")
    await held(broker, a)
    broker.topics.grow(topic, 3)
    told = await a.receive()
    assert told.assignment is not None and numbers(told.assignment.topic_partitions) == [0, 1, 2]


async def test_a_request_behind_it_releases_it_and_answers_stay_in_order(broker: Broker, join: Join) -> None:
    a = await join("a")
    await held(broker, a)
    a.peer.send(ListGroupsRequest(), 4)
    released = await a.receive()
    assert released.error_code == ErrorCode.NONE and released.assignment is None
    assert SHORT <= released.heartbeat_interval_ms <= 1_000
    assert [group.group_id for group in (await a.peer.answer(ListGroupsResponse)).groups] == ["g"]


async def test_members_that_share_a_connection_are_served_plainly(broker: Broker, join: Join, connect: Connect) -> None:
    shared = await connect()
    first, second = await Member(shared, "a").join(), await Member(shared, "b").join()
    first.say()
    await first.receive()  # of the epoch that the second brought about
    first.say()
    second.say()
    assert (await first.receive()).heartbeat_interval_ms == HOUR // 4
    assert (await second.receive()).heartbeat_interval_ms == HOUR // 4
    first.say()
    assert (await first.receive()).heartbeat_interval_ms == HOUR // 4


async def test_a_hold_ends_when_the_next_heartbeat_would_come(start_broker: MakeBroker) -> None:
    often = {"group.consumer.heartbeat.interval.ms": "200", "group.consumer.min.heartbeat.interval.ms": "200"}
    broker = await start_broker(BrokerOptions(port=0, settings=often))
    async with talking_to(broker) as peer:
        a = await Member(peer, "a").join()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(3):
            a.say()
            assert (await a.receive()).heartbeat_interval_ms == SHORT
    assert 0.5 < loop.time() - began < 5.0


async def test_a_removed_member_is_notified_at_once(broker: Broker, join: Join, peer: Peer) -> None:
    a = await join("a")
    await held(broker, a)
    identity = MemberIdentity(member_id="a", reason="member was removed by an admin")
    await peer.ask(LeaveGroupRequest(group_id="g", members=[identity]), 5, LeaveGroupResponse)
    assert (await a.receive()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_stopping_broker_answers_all_held_requests(broker: Broker, join: Join) -> None:
    a = await join("a")
    await held(broker, a)
    await broker.stop()
    assert (await a.receive()).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_member_may_come_on_another_connection_while_it_is_held(
    broker: Broker, join: Join, connect: Connect
) -> None:
    broker.topics.create("orders", 2)
    a = await join("a")
    await held(broker, a)
    again = Member(await connect(), "a")
    again.epoch = a.epoch
    again.say()
    assert (await a.receive()).error_code == ErrorCode.NONE, "the old one is answered, be it that nobody hears it"
    await join("b")
    told = await again.receive()
    assert told.assignment is not None and len(numbers(told.assignment.topic_partitions)) == 1


async def test_a_client_that_does_not_live_with_it_is_served_plainly(
    broker: Broker, join: Join, connect: Connect
) -> None:
    a = await join("a")
    for _ in range(2):
        await held(broker, a)
        await a.reconnect(await connect(), broker)
        a.say(rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_names=["orders"])
        await a.acknowledge(await a.receive())
    a.say()
    assert (await a.receive()).heartbeat_interval_ms == HOUR // 4


async def test_a_java_member_that_waits_for_what_others_have_is_back_soon(
    broker: Broker, join: Join, connect: Connect
) -> None:
    broker.topics.create("orders", 2)
    a = await join("a")
    await held(broker, a)
    b = Member(await connect(), "b")
    await b.introduce("apache-kafka-java")
    b.say(rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_names=["orders"])
    waits = await b.receive()
    assert waits.assignment is not None and not waits.assignment.topic_partitions
    assert waits.heartbeat_interval_ms == 10
    told = await a.receive()
    b.say()
    await a.acknowledge(told)
    got = await b.receive()
    while got.assignment is None:
        assert got.heartbeat_interval_ms <= 250
        b.say()
        got = await b.receive()
    assert got.assignment is not None and len(numbers(got.assignment.topic_partitions)) == 1


async def test_more_members_than_one_turn_notifies_are_all_notified_each_time(
    broker: Broker, join: Join, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.broker.groups.shard._SLICES_PER_TURN", 2)
    broker.topics.create("orders", 5)
    members = [await join(f"m{number}") for number in range(5)]
    for grown in (10, 15):
        await at_rest(broker, peer, *members)
        topic = broker.topics.named("orders")
        assert topic is not None
        broker.grow_topic(topic, grown)
        for member in members:
            told = await member.receive()
            assert told.assignment is not None
            assert len(numbers(told.assignment.topic_partitions)) == grown // 5
            await member.acknowledge(told)
