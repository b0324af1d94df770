"""Strangers at work: one who asks a group's coordinator for what it must refuse, or a crowd that asks for everything.

A crowd asks for two seconds, every few milliseconds, and has the coordinator write in between. Where that meets a disk
that fails, every request gets each of the answers that a broker gives while it has lost a shard or loads it again; on a
slow network it meets groups in the states that else last for a millisecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from kohort.broker.groups import group_partition
from kohort.client import Cluster, KafkaError
from kohort.client.connection import Connection
from kohort.coordinator.classic_group import ClassicGroup
from kohort.sim.process import Process
from kohort.sim.site import SHARDS
from kohort.sim.strangers import CLAIM, HARMLESS, REQUESTS, Victim, passer_by
from kohort.wire.codec import Message

if TYPE_CHECKING:
    from kohort.sim.world import World

_ASKED = 100
_ASKED_EVERY_S = 0.02
_BETWEEN = "commit-with-a-novel"
"""What a crowd asks for as soon as a join phase is over: no member commits before it has its assignment."""


def speak_up(world: World, group: str, what: str) -> bool:
    """Somebody asks the group's coordinator for what it has to refuse."""
    victim = _victim(world, group)
    request = REQUESTS[what](victim)
    if what == CLAIM and victim.instance_id is not None:
        world.claimed.add((group, victim.instance_id))

    async def ask(connection: Connection) -> None:
        await connection.send(request)

    return _begin(world, world.operator, group, ask)


def crowd(world: World, group: str) -> bool:
    """Many ask the group's coordinator for everything at once, and somebody commits what makes it write."""
    neighbour = next(name for n in range(100) if group_partition(name := f"by-{n}", SHARDS) == _shard(group))

    async def ask(connection: Connection) -> None:
        world.interrupt = lambda: _say(connection, REQUESTS[_BETWEEN](_victim(world, group)))
        try:
            for what in islice(cycle(HARMLESS), _ASKED):
                victim = _victim(world, group)
                _say(connection, passer_by(neighbour, victim.topic))
                _say(connection, REQUESTS[what](victim))
                await asyncio.sleep(_ASKED_EVERY_S)
        finally:
            world.interrupt = lambda: None

    return _begin(world, world.crowd, group, ask)


def _shard(group: str) -> int:
    return group_partition(group, SHARDS)


def _say(connection: Connection, request: Message) -> None:
    connection.send(request).add_done_callback(_heard)


def _heard(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()  # that the connection broke is no news


def _victim(world: World, group: str) -> Victim:
    nobody = Victim(group)
    now = _generation(world, group)
    if now == 0:
        return nobody  # what is said of generation 0, which is yesterday's elsewhere, would be taken for a member's
    for one in world.applications:
        if one is not None and one.habits.group == group and one.membership is not None and one.membership.member_id:
            member = one.membership
            topic = one.habits.topics[0] if one.habits.topics else nobody.topic
            instance = one.habits.instance
            in_epochs = instance is not None and one.habits.protocol == "consumer"
            generation = now or member.generation or 1
            return Victim(group, member.member_id, generation, instance, in_epochs, topic)
    return nobody


def _generation(world: World, group: str) -> int | None:
    """A classic group's, as its coordinator has it: the members are not told yet of one that begins."""
    live = world.watch.live.get(_shard(group))
    found = None if live is None else live.group(group)
    return found.generation if isinstance(found, ClassicGroup) else None


def _begin(world: World, process: Process, group: str, ask: Callable[[Connection], Awaitable[None]]) -> bool:
    if process.alive:
        return False

    async def work() -> None:
        cluster = Cluster.of(world.site.bootstrap, client_id="stranger", request_timeout_ms=5_000)
        try:
            async with asyncio.timeout(10.0):
                await ask(await cluster.coordinator(group, "stranger"))
        except (KafkaError, TimeoutError):
            pass  # nobody is there who could refuse it
        await cluster.close()
        world.after(0.0, process.kill)

    process.start(work)
    return True
