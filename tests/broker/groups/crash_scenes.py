"""Members whose connections close, in ways that tell more or less surely that their process is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest
from tests.broker.peer import Peer, connected
from tests.broker.virtual import VirtualBroker

SHORT_S, FULL_S = 1.5, 5.5
"""Seconds after which a member is removed with default settings."""


async def joined(
    peer: Peer, member_id: str, group: str = "g", client_id: str = "app", instance_id: str | None = None
) -> int:
    joining = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        instance_id=instance_id,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    peer.send(joining, 1, client_id)
    return (await peer.answer(ConsumerGroupHeartbeatResponse)).member_epoch


async def waiting(peer: Peer, member_id: str, group: str = "g", client_id: str = "app") -> None:
    """Join, and send heartbeats until one is held."""
    await held(peer, member_id, await joined(peer, member_id, group, client_id), group, client_id)


async def held(peer: Peer, member_id: str, epoch: int, group: str = "g", client_id: str = "app") -> None:
    while True:
        beat(peer, member_id, epoch, group, client_id)
        try:
            async with asyncio.timeout(0.2):
                epoch = (await peer.answer(ConsumerGroupHeartbeatResponse)).member_epoch
        except TimeoutError:
            return


def beat(peer: Peer, member_id: str, epoch: int, group: str = "g", client_id: str = "app") -> None:
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch)
    peer.send(request, 1, client_id)


async def fetching(world: VirtualBroker, peer: Peer) -> None:
    world.broker.topics.create("orders", 1)
    wanted = [FetchTopic(topic="orders", partitions=[FetchPartition()])]
    peer.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=wanted), 4, "app")
    await asyncio.sleep(0.1)


async def named(peer: Peer, client_id: str) -> None:
    """Let the broker know whose connection it is."""
    peer.send(ApiVersionsRequest(), 0, client_id)
    await peer.answer(ApiVersionsResponse)


async def away(world: VirtualBroker, group: str = "g") -> float:
    """Return the seconds until the group has no member."""
    began = world.loop.time()
    while world.broker.groups.shard(group).members(group):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return world.loop.time() - began


Scene = Callable[[VirtualBroker, Peer, str], Awaitable[float]]
"""What happens to a member of a broker at an address. Returns the seconds until the member is removed."""


async def only_process(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "watcher")
    async with connected(at) as peer:
        await waiting(peer, "a")
    return await away(world)


async def without_a_request(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """A client that owes no heartbeat may take until the next one to connect again."""
    await named(watcher, "watcher")
    async with connected(at) as peer:
        await joined(peer, "a")
    return await away(world)


async def with_a_fetch_that_waited(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """The kernel closes all connections of a process: a living one would fetch again at once."""
    await named(watcher, "watcher")
    async with connected(at) as fetcher, connected(at) as peer:
        await fetching(world, fetcher)
        await joined(peer, "a")
    return await away(world)


async def with_a_fetch_that_waited_for_longer(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "watcher")
    async with connected(at) as fetcher:
        await fetching(world, fetcher)
        async with connected(at) as peer:
            await joined(peer, "a")
        await asyncio.sleep(0.3)
    return 0.3 + await away(world)


async def long_after_a_fetch_that_waited(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "watcher")
    async with connected(at) as peer:
        async with connected(at) as fetcher:
            await fetching(world, fetcher)
        await joined(peer, "a")
        await asyncio.sleep(1.2)
    return await away(world)


async def with_a_sync_that_waited(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """A client that lives may have to find its coordinator again before it repeats requests of a rebalance."""
    joining = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="compatible", metadata=b"")],
    )
    async with connected(at) as peer:
        watcher.send(joining, 3, "leader")
        await asyncio.sleep(0.1)
        peer.send(joining, 3, "app")
        leader, joined = await watcher.answer(JoinGroupResponse), await peer.answer(JoinGroupResponse)
        assert joined.leader == leader.member_id
        waits = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        peer.send(waits, 2, "app")  # the leader sends no assignment
        await asyncio.sleep(0.1)
    began = world.loop.time()
    while joined.member_id in world.broker.groups.shard("g").members("g"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return world.loop.time() - began


async def after_another_client_spoke_for_it(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "app")
    epoch = await joined(watcher, "a")
    async with connected(at) as peer:
        await held(peer, "a", epoch, client_id="stranger")
    return await away(world)


async def with_another_connection(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "app")
    async with connected(at) as peer:
        await waiting(peer, "a")
    return await away(world)


async def with_a_connection_of_nobody(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """The watcher has not said who it is: it may be the member that connects again."""
    async with connected(at) as peer:
        await waiting(peer, "a")
    return await away(world)


async def with_another_member_of_its_host(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "watcher")
    async with connected(at) as peer, connected(at) as other:
        await waiting(other, "b", "h", "other")
        await waiting(peer, "a")
    return await away(world)


async def with_a_static_member_of_its_host(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """A static member keeps its session, and shows that a proxy restarted."""
    await named(watcher, "watcher")
    async with connected(at) as peer, connected(at) as other:
        await joined(other, "b", "h", "other", "instance")
        await waiting(peer, "a")
    return await away(world)


async def after_a_member_of_its_host_that_left(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """Its connection closes because it ends."""
    await named(watcher, "watcher")
    async with connected(at) as peer:
        await waiting(peer, "a")
        async with connected(at) as other:
            await joined(other, "b", "h", "other")
            beat(other, "b", -1, "h", "other")
            assert (await other.answer(ConsumerGroupHeartbeatResponse)).member_epoch == -1
    return await away(world)


async def with_another_member_on_its_connection(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "watcher")
    async with connected(at) as peer:
        await joined(peer, "b", "h")
        await waiting(peer, "a")
    return await away(world)


async def after_another_member_of_its_host(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "watcher")
    async with connected(at) as peer:
        async with connected(at) as other:
            await waiting(other, "b", "h", "other")
        await asyncio.sleep(1.2)
        await waiting(peer, "a")
    return await away(world)


STREAMS = "words-2f1c1e0a-9d5e-4c55-8f4b-0a4d1f4b7c11"
"""What the client IDs of a process of Kafka Streams begin with."""


async def with_another_thread_of_its_process(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, "watcher")
    async with connected(at) as peer, connected(at) as other, connected(at) as admin:
        await named(admin, f"{STREAMS}-admin")
        epoch = await joined(other, "b", "g", f"{STREAMS}-StreamThread-2-consumer")
        await waiting(peer, "a", "g", f"{STREAMS}-StreamThread-1-consumer")
        await held(other, "b", epoch, "g", f"{STREAMS}-StreamThread-2-consumer")
    return await away(world)


async def without_the_other_threads_of_its_process(world: VirtualBroker, watcher: Peer, at: str) -> float:
    await named(watcher, f"{STREAMS}-StreamThread-2-producer")
    async with connected(at) as peer:
        await waiting(peer, "a", "g", f"{STREAMS}-StreamThread-1-consumer")
    return await away(world)


async def with_threads_of_another_process_of_its_host(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """As when a proxy restarts. The threads of both processes lose their connections in any order."""
    other_process = STREAMS.replace("2f1c", "3f1c")
    await named(watcher, "watcher")
    async with connected(at) as first, connected(at) as second, connected(at) as other:
        await waiting(other, "b", "h", f"{other_process}-StreamThread-1-consumer")
        await waiting(second, "c", "g", f"{STREAMS}-StreamThread-2-consumer")
        await waiting(first, "a", "g", f"{STREAMS}-StreamThread-1-consumer")
    return await away(world)


async def with_threads_whose_names_anybody_may_have(world: VirtualBroker, watcher: Peer, at: str) -> float:
    """If `client.id` is set, the threads of all processes of an application are named alike."""
    await named(watcher, "watcher")
    async with connected(at) as peer, connected(at) as other:
        await waiting(other, "b", "g", "words-StreamThread-2-consumer")
        await waiting(peer, "a", "g", "words-StreamThread-1-consumer")
    return await away(world)


SCENES: Sequence[tuple[Scene, float]] = [
    (only_process, SHORT_S),
    (without_a_request, FULL_S),
    (with_a_fetch_that_waited, SHORT_S),
    (with_a_fetch_that_waited_for_longer, FULL_S),
    (long_after_a_fetch_that_waited, FULL_S),
    (with_a_sync_that_waited, FULL_S),
    (after_another_client_spoke_for_it, FULL_S),
    (with_another_connection, FULL_S),
    (with_a_connection_of_nobody, FULL_S),
    (with_another_member_of_its_host, FULL_S),
    (with_a_static_member_of_its_host, FULL_S),
    (after_a_member_of_its_host_that_left, SHORT_S),
    (with_another_member_on_its_connection, FULL_S),
    (after_another_member_of_its_host, SHORT_S),
    (with_another_thread_of_its_process, SHORT_S),
    (without_the_other_threads_of_its_process, FULL_S),
    (with_threads_of_another_process_of_its_host, FULL_S),
    (with_threads_whose_names_anybody_may_have, FULL_S),
]
"""Scenes with the time that each takes."""
