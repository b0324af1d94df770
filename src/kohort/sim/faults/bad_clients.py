"""Misbehaving clients: one sends a request that a coordinator must reject, or a burst sends requests of every kind.

A burst sends requests every few milliseconds for two seconds, and makes the coordinator write in
between. During a disk failure, every kind of request receives each of the responses of a broker
that has lost a shard or reloads it. On a slow network, the requests meet groups in states that
otherwise last for a millisecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from typing import Any

from kohort.broker.groups import group_partition
from kohort.client import Cluster, KafkaError
from kohort.client.net import BrokerConnection
from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import ConsumerGroup
from kohort.sim.bad_request_names import BadRequest
from kohort.sim.environment import Process
from kohort.sim.faults.bad_requests import HARMLESS, REQUESTS, TargetGroup, commit_without_member
from kohort.sim.processes import SHARDS, WorldState
from kohort.wire.codec import Message

_ASKED = 100
_ASKED_EVERY_S = 0.02
_BETWEEN = BadRequest.COMMIT_LARGE_METADATA
"""Request that is sent as soon as a join phase is over: no member commits before it has its assignment."""


def send_bad_request(world: WorldState, group: str, what: BadRequest) -> bool:
    """Send the group's coordinator a request that it must reject."""
    request = REQUESTS[what](_victim(world, group))

    async def ask(connection: BrokerConnection) -> None:
        await connection.send(request)

    return _begin(world, world.operator, group, ask)


def send_all_bad_requests(world: WorldState, group: str) -> bool:
    """Send a burst of requests of every kind to the group's coordinator, with commits that make it write."""
    neighbour = next(name for n in range(100) if group_partition(name := f"by-{n}", SHARDS) == _shard(group))

    async def ask(connection: BrokerConnection) -> None:
        world.interrupt = lambda: _send(connection, REQUESTS[_BETWEEN](_victim(world, group)))
        try:
            for what in islice(cycle(HARMLESS), _ASKED):
                victim = _victim(world, group)
                _send(connection, commit_without_member(neighbour, victim.topic))
                _send(connection, REQUESTS[what](victim))
                await asyncio.sleep(_ASKED_EVERY_S)
        finally:
            world.interrupt = lambda: None

    return _begin(world, world.bad_client, group, ask)


def _shard(group: str) -> int:
    return group_partition(group, SHARDS)


def _send(connection: BrokerConnection, request: Message) -> None:
    connection.send(request).add_done_callback(_heard)


def _heard(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()  # a broken connection is expected


def _victim(world: WorldState, group: str) -> TargetGroup:
    nobody = TargetGroup(group)
    now = _generation(world, group)
    if now == 0:
        return nobody  # in a group at generation 0, a request with generation 0 would be accepted as a member's
    for application in world.applications:
        if application is None or application.settings.group != group:
            continue
        member, settings = application.membership, application.settings
        if member is not None and member.member_id:
            topic = settings.topics[0] if settings.topics else nobody.topic
            instance = settings.instance
            in_epochs = instance is not None and settings.protocol == "consumer"
            generation = now or member.generation or 1
            return TargetGroup(group, member.member_id, generation, instance, in_epochs, topic)
    return nobody


def _generation(world: WorldState, group: str) -> int | None:
    """Return a classic group's generation from its coordinator: members do not know yet of a new one.

    0 also if a consumer group has a classic member from generation 0; else None for a consumer group.
    """
    live = world.observations.live.get(_shard(group))
    found = None if live is None else live.group(group)
    if isinstance(found, ConsumerGroup) and any(member.epoch == 0 for member in found.members.values()):
        return 0
    return found.generation if isinstance(found, ClassicGroup) else None


def _begin(world: WorldState, process: Process, group: str, ask: Callable[[BrokerConnection], Awaitable[None]]) -> bool:
    if process.alive:
        return False

    async def work() -> None:
        login = world.operator_login()
        cluster = Cluster.of(world.brokers.bootstrap, client_id="stranger", request_timeout_ms=5_000, **login)
        try:
            async with asyncio.timeout(10.0):
                await ask(await cluster.coordinator(group, "stranger"))
        except (KafkaError, TimeoutError):
            pass  # no broker is there to reject it
        await cluster.close()
        world.after(0.0, process.kill)

    process.start(work)
    return True
