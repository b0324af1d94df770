"""A member's link to its coordinator: each request gets one event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from kohort import Cluster, ErrorCode, testing
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.member import CoordinatorFound, CoordinatorUnavailable, Event, RequestFailed, Responded, Send
from kohort.testing import Broker, FaultHandle, Invariant
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.client.link import linked_broker

JOIN_GROUP, API_VERSIONS, CONSUMER_HEARTBEAT = 11, 18, 68

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=6_000,
    group_instance_id="i",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)
LEAVE = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="nobody")])


def commit(*topics: str) -> OffsetCommitRequest:
    """Requests of a consumer without a group."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in topics],
    )


@dataclass
class Member:
    """The link under test, and the events that it causes."""

    cluster: Cluster
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    numbers: Any = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.link = CoordinatorLink(self.cluster, "g", self.events.put_nowait)

    async def next(self) -> Event:
        async with asyncio.timeout(5):
            return await self.events.get()

    async def find(self) -> Event:
        self.link.find()
        return await self.next()

    def send(self, message: Message) -> int:
        number: int = next(self.numbers)
        before = self.events.qsize()
        self.link.send(Send(number, message))
        assert self.events.qsize() == before, "no event comes before the call has returned"
        return number

    async def ask(self, message: Message) -> Event:
        self.send(message)
        return await self.next()

    async def answered(self, message: Message) -> int:
        """Send it; return the error code of its answer."""
        event = await self.ask(message)
        assert isinstance(event, Responded)
        return getattr(event.response, "error_code", 0)


@asynccontextmanager
async def member_at(bootstrap: str) -> AsyncIterator[Member]:
    async with Cluster.of(bootstrap) as cluster:
        made = Member(cluster)
        yield made
        await made.link.stop()
        await made.link.close()


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(topics={"t": 1}) as made:
        made.allow(Invariant.GIVEN_EPOCHS)  # the member of these requests is none
        yield made


@pytest.fixture
async def member(broker: Broker) -> AsyncIterator[Member]:
    async with member_at(broker.bootstrap_servers) as made:
        yield made


def held(broker: Broker | testing.Cluster, key: str) -> FaultHandle:
    """Hold the answers to requests of that kind."""
    return broker.fault(keys=key, hold=True, when="after", count=-1)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.partition(" after ")[0].partition(": group=")[0] for line in caplog.messages if "coordinator" in line]


async def test_a_request_to_the_coordinator_that_was_found_is_answered(member: Member) -> None:
    assert await member.find() == CoordinatorFound()
    event = await member.ask(BEAT)
    assert isinstance(event, Responded)
    assert (event.request, type(event.response)) == (1, HeartbeatResponse)


async def test_without_a_connection_a_request_fails(member: Member) -> None:
    assert await member.ask(BEAT) == RequestFailed(1, ErrorCode.NETWORK_EXCEPTION)
    await member.find()
    for connection in member.cluster.connections:
        connection.abort("the test cuts it")
    assert await member.ask(BEAT) == RequestFailed(2, ErrorCode.NETWORK_EXCEPTION)


@pytest.mark.parametrize(("key", "message"), [("Heartbeat", BEAT), ("OffsetCommit", commit("t"))])
async def test_a_request_that_breaks_off_fails_and_is_logged(
    broker: Broker, member: Member, key: str, message: Message, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client.membership")
    broker.fault(keys=key, close=True)
    await member.find()
    assert await member.ask(message) == RequestFailed(1, ErrorCode.NETWORK_EXCEPTION)
    assert said(caplog) == ["no coordinator"]
    assert "; the member looks for it and asks again (NETWORK_EXCEPTION)" in caplog.text
    await member.find()
    await member.ask(message)
    assert said(caplog) == ["no coordinator", "the coordinator answers again"]


async def test_a_coordinator_that_cannot_be_found_is_an_event(
    broker: Broker, member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fault(keys="FindCoordinator", error="GROUP_AUTHORIZATION_FAILED")
    assert await member.find() == CoordinatorUnavailable(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert said(caplog) == ["no coordinator"]


# Requests behind one that the broker holds


async def test_a_request_behind_a_join_takes_another_connection(broker: Broker, member: Member) -> None:
    joins = held(broker, "JoinGroup")
    await member.find()
    joining = member.send(JOIN)
    assert await member.answered(LEAVE) == 0
    assert await member.answered(BEAT) == ErrorCode.UNKNOWN_MEMBER_ID
    joins.remove()
    event = await member.next()
    assert isinstance(event, Responded) and event.request == joining


async def test_other_requests_are_sent_one_behind_the_other(broker: Broker, member: Member) -> None:
    await member.find()
    await member.ask(JOIN)
    open_before = len(member.cluster.connections)
    beats, goodbye = held(broker, "Heartbeat"), broker.fault(keys="LeaveGroup", observe=True)
    first, second = member.send(BEAT), member.send(LEAVE)
    await goodbye.wait_async()
    assert len(member.cluster.connections) == open_before
    beats.remove()
    assert [getattr(await member.next(), "request", None) for _ in range(2)] == [first, second]


async def test_a_request_beside_a_join_may_fail(broker: Broker, member: Member) -> None:
    held(broker, "JoinGroup")
    broker.fault(keys="LeaveGroup", close=True)
    await member.find()
    member.send(JOIN)
    assert await member.ask(LEAVE) == RequestFailed(2, ErrorCode.NETWORK_EXCEPTION)


# Versions


@pytest.mark.parametrize("beside_a_join", [False, True])
@pytest.mark.parametrize("speaks", [False, True])
async def test_a_request_that_the_broker_does_not_support_fails(speaks: bool, beside_a_join: bool) -> None:
    # A version without the field of a subscription by pattern is no better than none.
    def older(answer: Any, client: str | None) -> None:
        if not speaks:
            answer.api_keys = [api for api in answer.api_keys if api.api_key != CONSUMER_HEARTBEAT]
        for api in answer.api_keys:
            if api.api_key == CONSUMER_HEARTBEAT:
                api.max_version = 0

    async with linked_broker() as (_, link), member_at(f"127.0.0.1:{link.port}") as member:
        link.change[API_VERSIONS] = older
        link.held[JOIN_GROUP] = asyncio.Event()
        await member.find()
        if beside_a_join:
            member.send(JOIN)
        number = member.send(ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_regex="t.*"))
        assert await member.next() == RequestFailed(number, ErrorCode.UNSUPPORTED_VERSION)


# A coordinator that moves


async def test_a_coordinator_found_at_the_same_broker_is_kept(broker: Broker, member: Member) -> None:
    beats = held(broker, "Heartbeat")
    await member.find()
    beat = member.send(BEAT)
    assert await member.find() == CoordinatorFound()
    beats.remove()
    event = await member.next()
    assert isinstance(event, Responded) and event.request == beat


async def test_unanswered_requests_fail_when_the_coordinator_moves() -> None:
    async with testing.Cluster(2) as brokers, member_at(brokers.bootstrap_servers) as member:
        brokers.allow(Invariant.GIVEN_EPOCHS)
        beats = held(brokers, "Heartbeat")
        await member.find()
        beat = member.send(BEAT)
        await beats.wait_async()
        brokers.move_coordinator("g")
        assert await member.find() == CoordinatorFound()
        assert await member.next() == RequestFailed(beat, ErrorCode.NETWORK_EXCEPTION)
        beats.remove()
        assert await member.answered(BEAT) == ErrorCode.UNKNOWN_MEMBER_ID


# The end


async def test_after_it_stops_nothing_happens_any_more(broker: Broker, member: Member) -> None:
    _, goodbyes = held(broker, "JoinGroup"), held(broker, "LeaveGroup")
    await member.find()
    member.send(JOIN)
    member.send(LEAVE)  # beside the join
    searches = held(broker, "FindCoordinator")
    member.link.find()
    await searches.wait_async()
    await goodbyes.wait_async()
    await member.link.stop()
    running = {task.get_name() for task in asyncio.all_tasks()}
    assert not running & {"kohort-find g", "kohort-aside"}
    open_before = len(member.cluster.connections)
    await member.link.close()
    await asyncio.sleep(0)
    assert len(member.cluster.connections) == open_before - 1
    broker.clear_faults()
    await member.cluster.close()
    assert member.events.empty()


async def test_a_link_that_found_nothing_can_be_ended(member: Member) -> None:
    await member.link.stop()
    await member.link.close()
    assert member.events.empty()


# Log messages


async def test_a_coordinator_that_cannot_work_is_logged_until_the_same_request_succeeds(
    broker: Broker, member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client.membership")
    await member.find()
    refusal = broker.fault(keys="OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", count=-1)
    await member.ask(commit("t"))
    assert said(caplog) == ["no coordinator"]
    # A heartbeat that succeeds does not show that commits work.
    await member.ask(BEAT)
    assert said(caplog) == ["no coordinator"]
    refusal.remove()
    await member.ask(commit("t"))
    assert said(caplog) == ["no coordinator", "the coordinator answers again"]
    # From now on, a failure of the connection ends with any answer.
    broker.fault(keys="Heartbeat", close=True)
    await member.ask(BEAT)
    await member.find()
    await member.ask(BEAT)
    assert said(caplog) == ["no coordinator", "the coordinator answers again"] * 2


async def test_a_refused_heartbeat_is_logged_if_the_coordinator_cannot_work(
    broker: Broker, member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fault(keys="Heartbeat", error="COORDINATOR_LOAD_IN_PROGRESS")
    await member.find()
    await member.ask(BEAT)
    assert said(caplog) == ["no coordinator"]
    await member.ask(BEAT)  # the coordinator works: it knows its members
    assert said(caplog) == ["no coordinator", "the coordinator answers again"]


async def test_a_commit_for_an_unknown_topic_keeps_the_coordinator(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    await member.find()
    event = await member.ask(commit("missing"))
    assert isinstance(event, Responded)
    assert said(caplog) == []
