"""A member that a group cannot take is named in the log and in the journal, with the reason."""

import asyncio

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord
from kohort.wire.batches import batches, decode_records
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.broker.conftest import MakeBroker
from tests.broker.groups.test_consumer_groups import AT_ONCE, beat
from tests.broker.peer import Peer, talking_to

TOPICS = [f"{number:0249}" for number in range(4_500)]
"""1.1 MB of names."""


async def join(peer: Peer, *topics: str, group: str = "g", assignor: str = "range") -> int:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name=assignor, metadata=encode_subscription(Subscription(topics=list(topics))))
        ],
    )
    return (await peer.ask(request, 3, JoinGroupResponse)).error_code


async def journal(broker: Broker) -> list[RebalanceRecord]:
    """Return the entries for rejected members that it has now."""
    await broker.writer.drain()
    log = broker.partition(JOURNAL_TOPIC, 0)
    found = [] if log is None else log.read(0, 1 << 20)
    values = [
        record.value or b""
        for buffer in found
        for position, _ in batches(buffer)
        for record in decode_records(buffer, position)
    ]
    return [record for record in map(RebalanceRecord.from_json, values) if not record.is_rebalance]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("a member cannot join")]


async def test_a_subscription_that_is_too_large(broker: Broker, peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):  # clients retry again and again, and the same line a thousand times helps no reader
        assert await join(peer, *TOPICS) == ErrorCode.UNKNOWN_SERVER_ERROR
    (warning,) = warnings(caplog)
    assert "group=g: client=peer host=/127.0.0.1 code=UNKNOWN_SERVER_ERROR: its subscription has 11" in warning
    (record,) = await journal(broker)
    (refused,) = record.refused_members
    assert (record.group_id, refused.client_id, refused.code) == ("g", "peer", "UNKNOWN_SERVER_ERROR")
    assert "more than the 1048576 that fit into a record of __consumer_offsets" in refused.reason


async def test_a_subscription_that_is_too_large_in_a_consumer_group(
    broker: Broker, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        topic_partitions=[],
        subscribed_topic_names=TOPICS,
    )
    answer = await peer.ask(request, 1, ConsumerGroupHeartbeatResponse)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "its subscription has 1120500 bytes" in (answer.error_message or "")
    assert len(warnings(caplog)) == 1
    assert [record.refused_members[0].member_id for record in await journal(broker)] == ["a"]


async def test_a_classic_member_that_a_consumer_group_cannot_serve(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**AT_ONCE, "group.consumer.migration.policy": "disabled"}
    broker = await start_broker(BrokerOptions(port=0, settings=settings))
    async with talking_to(broker) as peer:
        assert (await beat(peer)).error_code == ErrorCode.NONE
        assert await join(peer, "orders") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (warning,) = warnings(caplog)
    assert "the member the classic one, and group.consumer.migration.policy is disabled" in warning
    assert len(await journal(broker)) == 1


async def test_another_reason_is_another_line(broker: Broker, peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    waiting = asyncio.ensure_future(join(peer, "orders"))
    assert await waiting == ErrorCode.NONE
    async with talking_to(broker) as other:
        assert await join(other, "orders", assignor="sticky") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert await join(other, *TOPICS) == ErrorCode.UNKNOWN_SERVER_ERROR
    first, second = warnings(caplog)
    assert "its assignors sticky have none in common with range of the group" in first
    assert "its subscription has" in second
