"""The events of a tapped broker: each request has one end, in the order in which the peer sees it."""

import pytest

from kohort.group_events import RebalanceStarted
from kohort.testing import (
    AnswerLost,
    AnswerSent,
    ConnectionClosed,
    ConnectionOpened,
    GroupChanged,
    RecordsAppended,
    RequestReceived,
)
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.produce import ProduceRequest
from tests.broker.peer import talking_to, until
from tests.testing.tapped import tapped

_SUBSCRIPTION = encode_subscription(Subscription(["orders"]), 1)


def join(group_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
    )


async def test_each_request_is_reported_before_its_answer() -> None:
    async with tapped() as (broker, seen):
        async with talking_to(broker) as peer:
            answer = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        await broker.stop()
    assert seen.names == ["ConnectionOpened", "RequestReceived", "AnswerSent", "ConnectionClosed"]
    opened, asked, answered, closed = seen
    assert isinstance(opened, ConnectionOpened) and isinstance(closed, ConnectionClosed)
    assert isinstance(asked, RequestReceived) and isinstance(answered, AnswerSent)
    assert opened.peer.startswith("127.0.0.1:")
    assert {event.connection for event in (opened, asked, answered, closed)} == {opened.connection}
    assert (asked.client_id, asked.version, asked.broker) == ("peer", 12, 1)
    assert answered.request_id == asked.request_id
    assert isinstance(answered.response, MetadataResponse)
    assert answered.response.cluster_id == answer.cluster_id


async def test_an_answer_is_sent_behind_those_of_earlier_requests() -> None:
    async with tapped({"group.initial.rebalance.delay.ms": "60000"}) as (broker, seen):
        async with talking_to(broker) as peer:
            peer.send(join("g"), 3)
            peer.send(MetadataRequest(topics=[]), 12)
            await until(lambda: len(seen.of(RequestReceived)) == 2)
            assert seen.of(AnswerSent) == []
        await until(lambda: bool(seen.of(ConnectionClosed)))
    # The first was parked, the second was answered; the peer receives neither.
    parked, behind = seen.of(AnswerLost)
    assert (parked.response, type(behind.response)) == (None, MetadataResponse)
    assert {parked.reason, behind.reason} == {"the connection closed"}


async def test_the_work_of_the_coordinator_is_reported_before_the_answer_that_follows_it() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        joined = await peer.ask(join("g"), 3, JoinGroupResponse)
        assert joined.error_code == 0
    (changed, *_), (appended, *_) = seen.of(GroupChanged), seen.of(RecordsAppended)
    assert isinstance(changed.event, RebalanceStarted)
    assert appended.partition == broker.groups.shard("g").partition and appended.records
    (answered,) = seen.of(AnswerSent)
    assert seen.index(appended) < seen.index(answered)


async def test_repeated_heartbeats_are_reported_each_time() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        for _ in range(3):
            answer = await peer.ask(HeartbeatRequest(group_id="g", member_id="m"), 4, HeartbeatResponse)
            assert answer.error_code
    asked, answered = seen.of(RequestReceived), seen.of(AnswerSent)
    assert [event.request_id for event in asked] == [event.request_id for event in answered]
    assert len({event.request_id for event in asked}) == 3
    assert asked[0].request is asked[2].request  # it is not decoded again


_AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.mark.parametrize("settings", [{}, _AUTHORIZED])
async def test_repeated_commits_are_reported_as_they_were_sent(settings: dict[str, str]) -> None:
    async with tapped(settings) as (broker, seen), talking_to(broker) as peer:
        sent = []
        for offset in range(4):
            partitions = [OffsetCommitRequestPartition(committed_offset=offset)]
            request = OffsetCommitRequest(
                group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)]
            )
            answer = await peer.ask(request, 8, OffsetCommitResponse)
            assert answer.topics[0].partitions[0].error_code == 0
            request.topics[0].topic_id = broker.topics.all()["orders"].topic_id  # the broker fills it in
            sent.append(request)
    assert [event.request for event in seen.of(RequestReceived)] == sent


async def test_a_request_without_an_answer_is_reported_as_such() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        peer.send(ProduceRequest(acks=0, timeout_ms=1000), 9)
        peer.send(MetadataRequest(topics=[]), 12)
        peer._asked.pop(0)
        await peer.answer(MetadataResponse)
    (lost,) = [event for event in seen.of(AnswerLost) if "acks" in event.reason]
    assert lost.reason == "the request asks for no answer (acks=0)"


async def test_a_version_that_is_not_served_is_reported_with_its_answer() -> None:
    async with tapped() as (broker, seen), talking_to(broker) as peer:
        peer.send_frame(b"\0\x12\0\x7f\0\0\0\1\0\4peer")
        await peer.receive_frame()
    assert seen.names[1:3] == ["RequestReceived", "AnswerSent"]
    assert isinstance(seen.of(RequestReceived)[0].request, ApiVersionsRequest)
    assert isinstance(seen.of(AnswerSent)[0].response, ApiVersionsResponse)


async def test_the_side_that_closed_a_connection_is_reported() -> None:
    async with tapped() as (broker, seen):
        async with talking_to(broker):
            await until(lambda: bool(seen.of(ConnectionOpened)))
        await until(lambda: bool(seen.of(ConnectionClosed)))
        async with talking_to(broker) as peer:
            peer.send_frame(b"?")  # no request has a header this short
            assert await peer.closed()
        await until(lambda: len(seen.of(ConnectionClosed)) == 2)
    assert [event.by_broker for event in seen.of(ConnectionClosed)] == [False, True]
