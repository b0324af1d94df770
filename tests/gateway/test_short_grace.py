"""The gateway leaves sooner in place of a member whose process is very likely gone, as a broker removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from kohort.gateway import Address, GatewayOptions
from kohort.model import Millis
from kohort.sim.processes.gateways import SimulatedGateway
from tests.broker.groups.crash_scenes import (
    FULL_S,
    SCENES,
    SHORT_S,
    Scene,
    away,
    beat,
    fetching,
    held,
    joined,
    named,
    only_process,
    waiting,
    with_a_fetch_that_waited,
)
from tests.broker.peer import Peer, connected
from tests.broker.virtual import PORT, VirtualBroker, in_virtual_time

SETTINGS = {"group.consumer.assignment.interval.ms": "0"}
LIKE_KAFKA = {**SETTINGS, "group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}
GATEWAY_PORT = 9_200
AT = f"127.0.0.1:{GATEWAY_PORT}"

_T = TypeVar("_T")


def gateway(settings: dict[str, str] | None = None) -> SimulatedGateway:
    upstream = [Address("127.0.0.1", PORT)]
    return SimulatedGateway(GatewayOptions(upstream, Address("127.0.0.1", GATEWAY_PORT), settings or {}))


def through_a_gateway(
    steps: Callable[[VirtualBroker, Peer], Awaitable[_T]],
    settings: dict[str, str] | None = None,
    broker: dict[str, str] = LIKE_KAFKA,
) -> _T:
    """Play a test with one peer at a gateway in front of a broker."""

    async def play(world: VirtualBroker, _: Peer) -> _T:
        async with gateway(settings), connected(AT) as watcher:
            return await steps(world, watcher)

    return in_virtual_time(play, broker)


def seconds_of(scene: Scene, settings: dict[str, str] | None = None, broker: dict[str, str] = LIKE_KAFKA) -> float:
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        return await scene(world, watcher, AT)

    return through_a_gateway(steps, settings, broker)


@pytest.mark.parametrize(("scene", "seconds"), SCENES)
def test_the_gateway_leaves_the_sooner_the_surer_it_is_that_the_process_is_gone(scene: Scene, seconds: float) -> None:
    assert seconds_of(scene) == pytest.approx(seconds, abs=0.15)


@pytest.mark.parametrize("scene", [only_process, with_a_fetch_that_waited])
def test_a_broker_of_ours_behind_the_gateway_changes_nothing(scene: Scene) -> None:
    assert seconds_of(scene, broker=SETTINGS) == pytest.approx(SHORT_S, abs=0.15)


def test_a_grace_period_of_the_operator_counts() -> None:
    assert seconds_of(only_process, {"group.disconnect.grace.ms": "4000"}) == pytest.approx(4.0, abs=0.15)


def test_a_member_that_comes_back_within_the_short_time_stays() -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> None:
        await named(watcher, "watcher")
        async with connected(AT) as peer:
            await waiting(peer, "a")
        await asyncio.sleep(1.4)
        async with connected(AT) as peer:
            beat(peer, "a", 2)
            await asyncio.sleep(10)
            assert set(world.broker.groups.shard("g").members("g")) == {"a"}

    through_a_gateway(steps)


def test_a_fetch_that_the_gateway_ended_tells_nothing() -> None:
    # The broker of the fetch cannot be reached, and the client may wait before it tries again.
    async def steps(world: VirtualBroker, _: Peer) -> float:
        async with gateway() as ours, connected(AT) as watcher:
            await named(watcher, "watcher")
            async with connected(AT) as fetcher, connected(AT) as peer:
                await fetching(world, fetcher)
                [link] = [link for link in ours.links if link.who[1] == "app"]
                await joined(peer, "a")
                link.upstream.transport.abort()
                assert await fetcher.closed()
            return await away(world)

    assert in_virtual_time(steps, LIKE_KAFKA) == pytest.approx(FULL_S, abs=0.15)


def test_a_broker_of_ours_keeps_the_only_member_while_its_gateway_is_started_again() -> None:
    # The broker sees what it sees when a process dies: all connections with the member's host and client ID close.
    async def steps(world: VirtualBroker, beside: Peer) -> None:
        await named(beside, "watcher")
        ours = gateway()
        await ours.start()
        async with connected(AT) as peer, connected(AT) as fetcher:
            await asyncio.sleep(1)
            await joined(peer, "a")
            await fetching(world, fetcher)
            await ours.stop()
        await asyncio.sleep(3)
        async with gateway(), connected(AT) as peer:
            beat(peer, "a", 2)
            await asyncio.sleep(10)
            assert set(world.broker.groups.shard("g").members("g")) == {"a"}

    in_virtual_time(steps, SETTINGS)


def test_a_member_that_came_back_leaves_when_it_is_lost_again() -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        await named(watcher, "watcher")
        async with connected(AT) as peer:
            await waiting(peer, "a")
        await asyncio.sleep(1)
        async with connected(AT) as peer:
            await held(peer, "a", 2)
        return await away(world)

    assert through_a_gateway(steps) == pytest.approx(SHORT_S, abs=0.15)


def test_a_member_leaves_although_another_one_of_its_connection_came_back() -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        await named(watcher, "watcher")
        async with connected(AT) as peer:
            epoch = await joined(peer, "b", "h")
            await waiting(peer, "a")
        await asyncio.sleep(1)
        async with connected(AT) as peer:
            beat(peer, "b", epoch, "h")
            passed = 1 + await away(world)
            assert set(world.broker.groups.shard("h").members("h")) == {"b"}
            return passed

    assert through_a_gateway(steps) == pytest.approx(FULL_S, abs=0.15)


@pytest.mark.parametrize(("most", "left"), [(1, {"b"}), (2, set())])
def test_of_more_members_than_it_may_wait_for_the_gateway_keeps_those_that_were_lost_last(
    monkeypatch: pytest.MonkeyPatch, most: int, left: set[str]
) -> None:
    monkeypatch.setattr("kohort.gateway.lost_members._MOST_WAITING", most)

    async def steps(world: VirtualBroker, watcher: Peer) -> None:
        await named(watcher, "watcher")
        async with connected(AT) as peer:
            await joined(peer, "a")
            await joined(peer, "b")
        await asyncio.sleep(20)
        assert set(world.broker.groups.shard("g").members("g")) == left

    through_a_gateway(steps)


def test_the_gateway_tells_for_how_long_a_member_has_been_gone() -> None:
    async def steps(world: VirtualBroker, _: Peer) -> list[Millis]:
        async with gateway() as ours, connected(AT) as watcher:
            lost, ages = ours.groups._lost, list[Millis]()
            tell = lost._leaves

            def leaves(group_id: str, member_id: str, age: Millis) -> None:
                ages.append(age)
                tell(group_id, member_id, age)

            lost._leaves = leaves
            await only_process(world, watcher, AT)
            return ages

    assert in_virtual_time(steps, LIKE_KAFKA) == [pytest.approx(1000 * SHORT_S, abs=100)]
