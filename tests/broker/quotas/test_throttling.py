"""Clients that exceed a quota: what they are told, and when the broker reads from them again. In virtual time."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import Peer, connected
from tests.broker.virtual import PORT, START_S, VirtualBroker, in_virtual_time

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
LIMIT = 1_000.0
AT_ONCE = 10 * LIMIT
"""Bytes that a client may send at once: those of all windows but one."""


async def set_quota(peer: Peer, name: str, value: float | None, entity: tuple[str, str | None]) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type=entity[0], entity_name=entity[1])],
        ops=[OpData(key=name, value=value or 0.0, remove=value is None)],
    )
    answer = await peer.ask(AlterClientQuotasRequest(entries=[entry]), 1, AlterClientQuotasResponse)
    assert answer.entries[0].error_code == ErrorCode.NONE, answer


def produce_request(size: int, acks: int = -1) -> ProduceRequest:
    records = encode_batch([Record(0, int(START_S * 1000), None, b"x" * size)])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[data])


async def produce(peer: Peer, size: int) -> int:
    """Send a record of that size; return the throttle time."""
    answer = await peer.ask(produce_request(size), 9, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return answer.throttle_time_ms


def fetch_request(offset: int = 0, session_id: int = 0, session_epoch: int = -1) -> FetchRequest:
    places = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    topics = [FetchTopic(topic="t", partitions=places)] if session_epoch <= 0 else []
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=session_epoch, topics=topics
    )


async def fetch(peer: Peer, offset: int = 0) -> FetchResponse:
    return await peer.ask(fetch_request(offset), 12, FetchResponse)


async def pause_of(world: VirtualBroker, peer: Peer) -> float:
    """Seconds until the broker reads the next request."""
    began = world.loop.time()
    await peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return world.loop.time() - began


def test_a_producer_above_its_quota_is_answered_at_once_and_read_from_later() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await set_quota(peer, PRODUCE, LIMIT, ("client-id", "peer"))
        assert await produce(peer, 9_000) == 0
        assert await pause_of(world, peer) < 0.1
        began = world.loop.time()
        throttle_ms = await produce(peer, 5_000)
        assert world.loop.time() - began < 0.1
        assert 4_000 < throttle_ms < 4_500  # about 14,150 bytes in all, and 10,000 at once
        assert await pause_of(world, peer) == pytest.approx(throttle_ms / 1000, abs=0.1)
        began = world.loop.time()
        while await produce(peer, 1):
            pass
        assert world.loop.time() - began < 12, "until the first bytes no longer count"

    in_virtual_time(steps)


def test_a_producer_without_acknowledgements_is_read_from_later() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await set_quota(peer, PRODUCE, LIMIT, ("client-id", "peer"))
        peer.send(produce_request(20_000, acks=0), 9)
        peer._asked.pop()  # no answer to it
        assert await pause_of(world, peer) == pytest.approx(10.1, abs=0.2)

    in_virtual_time(steps)


def test_a_consumer_above_its_quota_gets_nothing_until_later() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        for _ in range(4):
            await produce(peer, 4_000)
        await set_quota(peer, FETCH, LIMIT, ("client-id", None))
        first = await fetch(peer)
        (data,) = first.responses[0].partitions
        assert (first.throttle_time_ms, len(data.records or b"") // 4_000) == (0, 2)  # at most AT_ONCE
        second = await fetch(peer, 2)
        assert second.responses == []
        assert second.error_code == ErrorCode.NONE
        assert 5_000 < second.throttle_time_ms < 8_000
        assert await pause_of(world, peer) == pytest.approx(second.throttle_time_ms / 1000, abs=0.1)
        received, throttled = 0, 0
        began = world.loop.time()
        while received < 2:
            answer = await fetch(peer, 2 + received)
            throttled += not answer.responses
            if answer.responses:
                received += len(answer.responses[0].partitions[0].records or b"") // 4_000
        assert world.loop.time() - began < 20

    in_virtual_time(steps)


def test_a_throttled_fetch_of_a_session_loses_nothing() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await produce(peer, 8_000)
        first = await peer.ask(fetch_request(session_epoch=0), 12, FetchResponse)
        assert first.session_id > 0
        await set_quota(peer, FETCH, 1.0, ("client-id", "peer"))
        again = fetch_request(0, first.session_id, 1)
        throttled = await peer.ask(again, 12, FetchResponse)
        assert throttled.throttle_time_ms > 0
        assert (throttled.session_id, throttled.responses) == (first.session_id, [])
        async with connected(f"127.0.0.1:{PORT}") as other:
            await set_quota(other, FETCH, None, ("client-id", "peer"))
            again = fetch_request(0, first.session_id, 2)
            found = await other.ask(again, 12, FetchResponse)
            assert len(found.responses[0].partitions[0].records or b"") > 8_000

    in_virtual_time(steps)


def test_a_fetch_that_must_wait_is_not_counted() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await set_quota(peer, FETCH, LIMIT, ("client-id", None))
        (connection,) = world.broker.sockets
        quota = world.broker.client_quotas.fetch
        assert quota.throttle_instead(connection, 8_000) == 0
        first = quota.throttle_instead(connection, 8_000)
        assert first > 0
        assert quota.throttle_instead(connection, 8_000) == first, "its own bytes must not make it wait longer"

    in_virtual_time(steps)


def test_a_client_that_claims_to_be_a_replica_is_throttled_too() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        for _ in range(4):
            await produce(peer, 4_000)
        await set_quota(peer, FETCH, LIMIT, ("client-id", None))
        assert (await fetch(peer)).throttle_time_ms == 0
        claim = fetch_request(2)
        claim.replica_id = 7
        assert (await peer.ask(claim, 12, FetchResponse)).throttle_time_ms > 0

    in_virtual_time(steps)


def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        await pause_of(world, peer)
        (connection,) = world.broker.sockets
        for seconds in (5.0, 10.0, 1.0):
            connection.mute(seconds)
        assert await pause_of(world, peer) == pytest.approx(10.0, abs=0.1)

    in_virtual_time(steps)


def test_connections_of_one_client_share_its_quota_and_others_do_not() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await set_quota(peer, PRODUCE, LIMIT, ("client-id", "peer"))
        assert await produce(peer, 9_000) == 0
        async with connected(f"127.0.0.1:{PORT}") as same, connected(f"127.0.0.1:{PORT}") as other:
            other.send(produce_request(30_000), 9, client_id="other")
            assert (await other.answer(ProduceResponse)).throttle_time_ms == 0
            assert await produce(same, 9_000) > 0

    in_virtual_time(steps)


def test_a_quota_of_a_user_limits_clients_that_do_not_authenticate() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await set_quota(peer, PRODUCE, LIMIT, ("user", "ANONYMOUS"))
        assert await produce(peer, 20_000) > 0

    in_virtual_time(steps)


def test_a_removed_quota_ends_the_throttling() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await set_quota(peer, PRODUCE, LIMIT, ("client-id", "peer"))
        assert await produce(peer, 20_000) > 0
        await set_quota(peer, PRODUCE, None, ("client-id", "peer"))  # read when the pause is over
        assert await produce(peer, 50_000) == 0
        assert not world.broker.client_quotas.produce.enforced

    in_virtual_time(steps)


def test_a_connection_that_closes_while_muted_leaves_nothing_behind() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        world.broker.topics.create("t", 1)
        await set_quota(peer, PRODUCE, LIMIT, ("client-id", "peer"))
        async with connected(f"127.0.0.1:{PORT}") as other:
            assert await produce(other, 30_000) > 0
        assert await pause_of(world, peer) < 0.1

    in_virtual_time(steps)
