"""A subscription that no record of `__consumer_offsets` can hold gets the same error code from both brokers."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.wire.codec import Message
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.consumer_protocol import Subscription, encode_subscription
from kohort.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.peer import Peer, connected
from tests.interop.broker import Broker

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
    said = encode_subscription(Subscription(topics=TOPICS))
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=said)],
    )
    async with connected(any_broker.bootstrap) as peer:
        await until_loaded(peer, group)
        joined = await peer.ask(request, 3, JoinGroupResponse)
        if joined.error_code == ErrorCode.NONE:
            # Kafka finds out when it writes the generation. Kohort does not begin a rebalance that must fail.
            sync = SyncGroupRequest(
                group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[]
            )
            assert (await peer.ask(sync, 2, SyncGroupResponse)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            assert joined.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


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
