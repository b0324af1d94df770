"""Controls of the test kit: jumps of the brokers' clocks, by which no member expires that lives (S22), and members that
are expired although they live."""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import Any

from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import ConsumerGroup
from kohort.model import Millis
from kohort.sim.processes import Application, SimulatedBroker, WorldState
from kohort.sim.violation import Violation
from kohort.testing import KitActed, MemberKey, skip_time


def let_time_jump(world: WorldState, seconds: float) -> bool:
    """Let the clocks of all brokers jump ahead; return False if one of them is suspended, and cannot prepare for it."""
    brokers = world.brokers
    if any(process.alive and not process.runs for process in brokers.processes):
        return False
    by = Millis(seconds * 1000)
    brokers.ahead += by
    for number, broker in brokers.running.items():
        loop = brokers.processes[number].loop
        assert loop is not None
        loop.call_soon(partial(_jump, world, broker, by))
    return bool(brokers.running)


def expire_member(world: WorldState, application: Application) -> bool:
    """Let the coordinator remove a member that lives; return False if none does."""
    group_id, membership = application.settings.group, application.membership
    for number, broker in world.brokers.running.items():
        process, shard = world.brokers.processes[number], broker.groups.shard(group_id)
        if membership is not None and process.runs and shard.has_member(group_id, membership.member_id):
            assert process.loop is not None
            process.loop.call_soon(partial(_expire, broker, group_id, membership.member_id))
            return True
    return False


def _expire(broker: SimulatedBroker, group_id: str, member_id: str) -> None:
    broker.emit(KitActed(broker.now(), broker.node_id, f"expired member {member_id} of {group_id}"))
    broker.groups.shard(group_id).expire_member(group_id, member_id)


def _jump(world: WorldState, broker: SimulatedBroker, by: Millis) -> None:
    living = _living(world, broker)
    broker.emit(KitActed(broker.now(), broker.node_id, f"let {by} ms pass"))
    skip_time(broker.controlled, [broker], by)
    left = _members(broker)
    for group_id, member_id in sorted(living - left):
        raise Violation("S22", f"{member_id} of {group_id} lives, but expired when {by} ms were skipped")


def _members(broker: SimulatedBroker) -> Set[MemberKey]:
    return {(group.group_id, member_id) for group in _groups(broker) for member_id in group.members}


def _groups(broker: SimulatedBroker) -> list[ClassicGroup | ConsumerGroup]:
    machines: list[Any] = [shard._machine for shard in broker.groups if shard.ready]
    return [group for m in machines for group in (*m.groups.values(), *m.consumer_groups.values())]


def _living(world: WorldState, broker: SimulatedBroker) -> Set[MemberKey]:
    """Return the members whose processes run, know that they are members, are connected, and were heard lately."""
    running = {}
    for process, application in zip(world.processes, world.applications, strict=True):
        membership = None if application is None else application.membership
        if application is not None and membership is not None and process.runs:
            running[application.name] = membership.member_id
    now, connected = broker.now(), broker.member_connections.connected
    return {
        (group.group_id, member_id)
        for group in _groups(broker)
        for member_id, member in group.members.items()
        if running.get(member.client_id) == member_id
        and (group.group_id, member_id) in connected
        and (not member.session_deadline or member.session_deadline - now > _session_ms(broker, group, member_id) // 2)
    }


def _session_ms(broker: SimulatedBroker, group: ClassicGroup | ConsumerGroup, member_id: str) -> Millis:
    if isinstance(group, ClassicGroup):
        return group.members[member_id].session_timeout_ms
    classic = group.members[member_id].classic
    settings = broker.group_configs.settings(group.group_id)
    return settings.session_timeout_ms if classic is None else classic.session_timeout_ms
