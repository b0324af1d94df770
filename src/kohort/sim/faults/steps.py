"""Execution of the steps of a plan. A step without an applicable target does nothing and returns False."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

from kohort.client import Admin, FeatureUpdate, KafkaError, NewTopic, UpgradeType
from kohort.model import TopicPartition
from kohort.sim.environment import Blocked, Database, FilesDisk
from kohort.sim.faults.bad_clients import send_all_bad_requests, send_bad_request
from kohort.sim.faults.leader_moves import move_leader
from kohort.sim.faults.skipped_time import expire_member, let_time_jump
from kohort.sim.processes import LEASE, Application, KillableAdmin, WorldState
from kohort.sim.steps import (
    BrokerClockJump,
    BrokerDisconnectDatabase,
    BrokerKill,
    BrokerKillAfterJoinPhase,
    BrokerPowerOff,
    BrokersSkipTime,
    BrokerStep,
    BrokerSuspend,
    BrokerTerminate,
    DiskBitFlip,
    DiskError,
    DiskFull,
    DiskSlow,
    EnvironmentStep,
    FeatureSetLevel,
    GatewayDisconnect,
    GatewayKill,
    GatewayPowerOff,
    GatewayStep,
    GatewaySuspend,
    GatewayTerminate,
    GroupDelete,
    GroupDeleteOffsets,
    GroupRemoveMembers,
    LeaderStep,
    MemberBlockIncoming,
    MemberBlockOutgoing,
    MemberDisconnect,
    MemberExpire,
    MemberKill,
    MemberLeave,
    MemberLoseRight,
    MemberPowerOff,
    MemberRejectPassword,
    MemberResetConnections,
    MemberSetWeight,
    MemberSlowCallback,
    MemberStart,
    MemberStep,
    MemberStopPolling,
    MemberSubscribe,
    MemberSuspend,
    MemberSwitchProtocol,
    MessageFault,
    NetworkSlow,
    OperatorStep,
    Produce,
    RecordStep,
    SendAllBadRequests,
    SendBadRequest,
    Step,
    TopicCreate,
    TopicDelete,
    TopicGrow,
)  # fmt: skip

_TO_STOP = 1.0
"""Time in seconds after which a gateway that got SIGTERM has ended."""
_FEATURE = "transaction.version"
_CLOCK = 500_000.0
"""Maximum error of a clock, in seconds."""


def execute(world: WorldState, step: Step) -> bool:
    """Execute a step; return whether it changed anything."""
    if isinstance(step, MemberStep):
        return _change_member(world, step)
    if isinstance(step, BrokerStep):
        return _fail_broker(world, step)
    if isinstance(step, GatewayStep):
        return _fail_gateway(world, step)
    if isinstance(step, EnvironmentStep):
        return _change_environment(world, step)
    if isinstance(step, RecordStep):
        return world.record_clients is not None and world.record_clients.execute(step)
    if isinstance(step, LeaderStep):
        return move_leader(world, step)
    return _operate(world, step)


def _change_environment(world: WorldState, step: EnvironmentStep) -> bool:
    disk = world.brokers.disk
    match step:
        case BrokerClockJump():
            clocks = world.brokers.clocks
            clocks[step.broker] = max(-_CLOCK, min(_CLOCK, clocks[step.broker] + step.seconds))
        case BrokersSkipTime():
            return let_time_jump(world, step.seconds)
        case BrokerKillAfterJoinPhase():
            world.planned_kills += 1
        case MessageFault():
            world.network.message_faults.add(step.effect, step.request, step.seconds)
        case NetworkSlow():
            world.network.slow_down(step.delay)
            world.after(20.0, world.network.speed_up)
        case DiskBitFlip():
            if type(disk) is not FilesDisk:
                return False  # brokers that share a disk have the log open all the time
            disk.bits_to_flip += 1
        case DiskError():
            disk.failure = errno.EIO
            world.after(step.seconds, partial(setattr, disk, "failure", None))
        case DiskFull():
            disk.failure = errno.ENOSPC
            world.after(step.seconds, partial(setattr, disk, "failure", None))
        case DiskSlow():
            disk.slowness = 0.5
            world.after(10 * step.seconds, partial(setattr, disk, "slowness", 0.0005))
        case _:
            assert_never(step)
    return True


def _change_member(world: WorldState, step: MemberStep) -> bool:
    number = step.member
    process, application = world.processes[number], world.applications[number]
    if isinstance(step, MemberStart):
        world.start_member(number)
        return True
    if application is None or not process.alive:
        return False
    settings = world.member_settings[number]
    match step:
        case MemberLeave():
            _leave_and_return(world, application, step)
        case MemberSwitchProtocol():
            settings.protocol, settings.pattern = ("consumer" if settings.protocol == "classic" else "classic"), ""
            _leave_and_return(world, application, step)
        case MemberKill() | MemberPowerOff():
            world.end_member(number, silently=isinstance(step, MemberPowerOff))
            world.after(step.seconds, partial(world.start_member, number))
        case MemberSuspend():
            process.stop()
            world.after(step.seconds, process.resume)
        case MemberResetConnections():
            world.reset_connections(process)
        case MemberDisconnect():
            world.block(process.name, Blocked.BOTH, step.seconds)
        case MemberBlockIncoming():
            world.block(process.name, Blocked.INCOMING, step.seconds)
        case MemberBlockOutgoing():
            world.block(process.name, Blocked.OUTGOING, step.seconds)
        case MemberSubscribe():
            settings.topics, settings.pattern = step.topics, ""
            application.subscribe(settings.topics)
        case MemberSetWeight():
            settings.weight = step.weight
            if settings.protocol != "consumer" or application.settings.protocol != "consumer":
                return False
            application.set_weight(settings.weight)
        case MemberStopPolling():
            application.polls = False
            world.after(step.seconds + application.settings.max_poll / 1000, partial(_poll_again, world, number))
        case MemberRejectPassword():
            return world.security is not None and world.security.reject(process.name, step.seconds)
        case MemberLoseRight():
            security, right = world.security, step.right
            return security is not None and security.lose(process.name, right, step.topic, step.seconds)
        case MemberExpire():
            return expire_member(world, application)
        case MemberSlowCallback():
            application.settings.callback = step.milliseconds
        case _:
            assert_never(step)
    return True


def _leave_and_return(world: WorldState, application: Application, step: MemberLeave | MemberSwitchProtocol) -> None:
    application.leave()
    world.wanted[step.member] = False
    world.after(step.seconds + 16.0, partial(world.start_member, step.member))


def _poll_again(world: WorldState, number: int) -> None:
    application = world.applications[number]
    if application is not None:
        application.polls = True


def _fail_broker(world: WorldState, step: BrokerStep) -> bool:
    brokers, number = world.brokers, step.broker
    if isinstance(step, BrokerDisconnectDatabase):
        reconnect = brokers.cut_off(number)
        if reconnect is not None:
            world.after(step.seconds, reconnect)
        return reconnect is not None
    process = brokers.processes[number]
    if not brokers.serves(number) or not process.runs:
        return False
    brokers.fails(number, LEASE if isinstance(step, BrokerSuspend) else min(step.seconds, 10.0))
    match step:
        case BrokerKill() | BrokerPowerOff():
            brokers.kill(number, silently=isinstance(step, BrokerPowerOff))
        case BrokerTerminate():
            brokers.stop(number)
        case BrokerSuspend():
            process.stop()
            world.after(step.seconds, partial(_resume_broker, world, number))
        case _:
            assert_never(step)
    return True


def _fail_gateway(world: WorldState, step: GatewayStep) -> bool:
    gateways, number = world.gateways, step.gateway
    process = gateways.processes[number]
    if not process.runs:
        return False
    match step:
        case GatewayKill() | GatewayPowerOff():
            gateways.kill(number, silently=isinstance(step, GatewayPowerOff))
        case GatewayTerminate():
            gateways.terminate(number)
        case GatewaySuspend():
            process.stop()
            world.after(step.seconds, process.resume)
        case GatewayDisconnect():
            world.block(process.name, Blocked.BOTH, step.seconds)
        case _:
            assert_never(step)
    if not isinstance(step, GatewaySuspend | GatewayDisconnect):
        world.after(step.seconds + _TO_STOP, partial(gateways.start, number))
    return True


def _resume_broker(world: WorldState, number: int) -> None:
    """Resume a suspended broker; if another one holds the disk by then, the broker detects it and exits."""
    process = world.brokers.processes[number]
    if process.alive and not process.runs:
        process.resume()
        # A broker over a database detects that others lead, and exits.
        if not world.brokers.serves(number) and not isinstance(world.brokers.disk, Database):
            world.after(world.rng.uniform(0.0, 2.0), partial(world.brokers.kill, number))


# Steps of operators and producers


def _operate(world: WorldState, step: OperatorStep) -> bool:
    match step:
        case Produce():
            return _produce(world, step.topic, step.count)
        case SendBadRequest():
            return send_bad_request(world, step.group, step.request)
        case SendAllBadRequests():
            return send_all_bad_requests(world, step.group)
        case TopicCreate():
            return _ask(world, partial(_create, step.topic, step.partitions))
        case TopicGrow():
            return _ask(world, partial(_grow, world, step.topic, step.more))
        case TopicDelete():
            return _ask(world, lambda admin: admin.delete_topics([step.topic]))
        case FeatureSetLevel():
            return _ask(world, partial(_update_feature, step.level))
        case GroupRemoveMembers():
            return _ask(world, lambda admin: admin.remove_all_members(step.group))
        case GroupDelete():
            return _ask(world, lambda admin: admin.delete_groups([step.group]))
        case GroupDeleteOffsets():
            return _ask(world, lambda admin: admin.delete_group_offsets(step.group, sorted(world.partitions())))
        case _:
            assert_never(step)


def _ask(world: WorldState, question: Callable[[Admin], Awaitable[object]]) -> bool:
    if world.operator.alive:
        return False
    bootstrap = world.brokers.bootstrap

    async def work() -> None:
        try:
            login = world.operator_login()
            admin = KillableAdmin(
                bootstrap_servers=bootstrap, default_api_timeout_ms=5_000, client_id="operator", **login
            )
            async with admin:
                await question(admin)
        except KafkaError:
            pass  # the cluster rejects the request or does not respond, both of which are expected
        world.after(0.0, world.operator.kill)

    world.operator.start(work)
    return True


def _produce(world: WorldState, topic: str, count: int) -> bool:
    if world.record_clients is not None:
        return world.record_clients.produce(topic, count)
    produced = world.progress.produced
    found = [found_topic for found_topic in world.brokers.disk.topics.values() if found_topic.name == topic]
    for found_topic in found:
        for number in range(found_topic.partitions):
            place = found_topic.topic_id, TopicPartition(topic, number)
            produced[place] = produced.get(place, 0) + count
    return bool(found)


async def _update_feature(level: int, admin: Admin) -> None:
    current = (await admin.describe_features()).finalized_features.get(_FEATURE, 0)
    upgrade_type = UpgradeType.SAFE_DOWNGRADE if level < current else UpgradeType.UPGRADE
    await admin.update_features({_FEATURE: FeatureUpdate(level, upgrade_type)})


async def _create(topic: str, partitions: int, admin: Admin) -> None:
    await admin.create_topics([NewTopic(topic, partitions)])


async def _grow(world: WorldState, topic: str, more: int, admin: Admin) -> None:
    there = sum(partition.topic == topic for partition in world.partitions())
    await admin.create_partitions(topic, there + more)
