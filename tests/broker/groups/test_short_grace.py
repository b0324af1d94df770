"""A member whose process is very likely gone is removed sooner than one that only lost a connection."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.broker.groups.crash_scenes import FULL_S, SCENES, SHORT_S, Scene, away, beat, named, only_process, waiting
from tests.broker.groups.test_leading_again import lead_again
from tests.broker.peer import Peer, connected
from tests.broker.virtual import PORT, VirtualBroker, in_virtual_time

SETTINGS = {"group.consumer.assignment.interval.ms": "0"}
AT = f"127.0.0.1:{PORT}"


@pytest.mark.parametrize(("scene", "seconds"), SCENES)
def test_a_member_is_removed_the_sooner_the_surer_it_is_that_its_process_is_gone(scene: Scene, seconds: float) -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        return await scene(world, watcher, AT)

    assert in_virtual_time(steps, SETTINGS) == pytest.approx(seconds, abs=0.1)


def test_the_removal_of_a_member_is_logged_with_the_setting_that_governs_it(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        return await only_process(world, watcher, AT)

    with caplog.at_level(logging.INFO, "kohort.broker"):
        in_virtual_time(steps, SETTINGS)
    removed = "removing group=g member=a: its connection was closed 1500 ms ago, and it has not come back"
    assert f"{removed} (group.disconnect.grace.ms)" in caplog.messages


def test_a_member_that_left_before_its_time_was_over_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> None:
        await named(watcher, "watcher")
        async with connected(AT) as peer:
            await waiting(peer, "a")
        await asyncio.sleep(1)
        world.broker.groups.shard("g").expire_member("g", "a")
        await asyncio.sleep(10)

    with caplog.at_level(logging.INFO, "kohort.broker"):
        in_virtual_time(steps, SETTINGS)
    assert not [message for message in caplog.messages if message.startswith("removing ")]


def test_a_member_whose_coordinator_moved_and_came_back_meanwhile_keeps_its_session() -> None:
    # It may have connected to the other broker, and has no reason to connect to this one before its next heartbeat.
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        await named(watcher, "watcher")
        async with connected(AT) as peer:
            await waiting(peer, "a")
        await asyncio.sleep(1)
        await lead_again(world, "g")
        return 1 + await away(world)

    assert in_virtual_time(steps, SETTINGS) == pytest.approx(46.0, abs=0.2)


def test_a_grace_period_of_the_operator_counts() -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        return await only_process(world, watcher, AT)

    assert in_virtual_time(steps, {**SETTINGS, "group.disconnect.grace.ms": "4000"}) == pytest.approx(4.0, abs=0.1)


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

    in_virtual_time(steps, SETTINGS)


def test_a_process_that_connects_again_has_the_full_time() -> None:
    # Its heartbeat is yet to come: the fetcher is the first to need a connection.
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        await named(watcher, "watcher")
        async with connected(AT) as peer:
            await waiting(peer, "a")
        await asyncio.sleep(1.0)
        async with connected(AT) as fetcher:
            await named(fetcher, "app")
            return 1.0 + await away(world)

    assert in_virtual_time(steps, SETTINGS) == pytest.approx(FULL_S, abs=0.1)


@pytest.mark.parametrize("stays", [True, False])
def test_a_member_behind_a_gateway_has_the_time_of_a_restart_of_the_gateway(stays: bool) -> None:
    # All clients of a gateway have its host. It sees theirs, and removes a member sooner itself.
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        await named(watcher, "watcher")
        async with connected(AT) as visit:
            await named(visit, "kohort-gateway")
            if stays:
                return await only_process(world, watcher, AT)
        return await only_process(world, watcher, AT)

    assert in_virtual_time(steps, SETTINGS) == pytest.approx(FULL_S, abs=0.1)


def test_a_host_whose_gateway_is_gone_for_minutes_is_one_like_others() -> None:
    async def steps(world: VirtualBroker, watcher: Peer) -> float:
        await named(watcher, "watcher")
        async with connected(AT) as visit:
            await named(visit, "kohort-gateway")
        await asyncio.sleep(180)
        return await only_process(world, watcher, AT)

    assert in_virtual_time(steps, SETTINGS) == pytest.approx(SHORT_S, abs=0.1)
