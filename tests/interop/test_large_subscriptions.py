"""A subscription that no record of `__consumer_offsets` can hold gets the same error code from both brokers.

In a classic group Kohort gives it at JoinGroup, Kafka at SyncGroup, to all members (docs/interop.md).
"""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.peer import Peer, connected
from tests.interop.broker import Broker
from tests.interop.kohort import KohortBroker

TOPICS = [f"{number:0249}" for number in range(4_500)]
"""1.1 MB of names."""
_NOT_YET = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


async def until_loaded(peer: Peer, group: str) -> None:
    """Kafka makes the topic of its groups when the first one is looked for, and loads it."""
    heartbeat: Message = ConsumerGroupHeartbeatRequest(group_id=group, member_id="nobody", member_epoch=1)
    while True:
        found = await peer.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4, FindCoordinatorResponse)
        answer = await peer.ask(heartbeat, 1, ConsumerGroupHeartbeatResponse)
        if found.coordinators[0].error_code == ErrorCode.NONE and answer.error_code not in _NOT_YET:
            return


@pytest.mark.interop
async def test_a_classic_member_with_a_subscription_that_is_too_large_gets_kafkas_code(any_broker: Broker) -> None:
    group = "too-large-classic"
    async with connected(any_broker.bootstrap) as peer:
        await until_loaded(peer, group)
        joined = await peer.ask(join(group, TOPICS), 3, JoinGroupResponse)
        if not isinstance(any_broker, KohortBroker):
            assert joined.error_code == ErrorCode.NONE
            assert (await synced(peer, group, joined)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            assert joined.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.interop
async def test_a_subscription_that_is_too_large_fails_the_other_members_of_kafka_alone(any_broker: Broker) -> None:
    group = "too-large-beside-others"
    async with connected(any_broker.bootstrap) as peer, connected(any_broker.bootstrap) as other:
        await until_loaded(peer, group)
        first = await peer.ask(join(group, ["orders"]), 3, JoinGroupResponse)
        assert first.error_code == ErrorCode.NONE
        assert (await synced(peer, group, first)).error_code == ErrorCode.NONE
        other.send(join(group, TOPICS), 3)
        if isinstance(any_broker, KohortBroker):
            refused = await other.answer(JoinGroupResponse)
            assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            beat = HeartbeatRequest(group_id=group, generation_id=first.generation_id, member_id=first.member_id)
            assert (await peer.ask(beat, 2, HeartbeatResponse)).error_code == ErrorCode.NONE
            return
        again = await peer.ask(join(group, ["orders"], first.member_id), 3, JoinGroupResponse)
        assert again.error_code == ErrorCode.NONE
        assert (await synced(peer, group, again)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def join(group: str, topics: list[str], member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(topics=topics)))],
    )


async def synced(peer: Peer, group: str, joined: JoinGroupResponse) -> SyncGroupResponse:
    """The answer to the SyncGroup of a member that assigns nothing."""
    request = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[]
    )
    return await peer.ask(request, 2, SyncGroupResponse)


@pytest.mark.interop
async def test_a_consumer_with_a_subscription_that_is_too_large_gets_kafkas_code(any_broker: Broker) -> None:
    group = "too-large-consumer"
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        topic_partitions=[],
        subscribed_topic_names=TOPICS,
    )
    async with connected(any_broker.bootstrap) as peer:
        await until_loaded(peer, group)
        answer = await peer.ask(request, 1, ConsumerGroupHeartbeatResponse)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
