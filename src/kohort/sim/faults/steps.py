"""Execution of the steps of a plan. A step without an applicable target does nothing and returns False."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from functools import partial

from kohort.client import Admin, KafkaError, NewTopic
from kohort.model import TopicPartition
from kohort.sim.environment.database import Database
from kohort.sim.environment.files import FilesDisk
from kohort.sim.faults.bad_clients import crowd, speak_up
from kohort.sim.faults.leader_moves import move_leaders
from kohort.sim.plans.bad_request_names import BadRequest
from kohort.sim.plans.plan import Step
from kohort.sim.processes.brokers import LEASE
from kohort.sim.processes.killable_clients import KillableAdmin
from kohort.sim.processes.state import WorldState

_CLOCK = 500_000.0
"""Maximum error of a clock, in seconds."""


def do(world: WorldState, step: Step) -> bool:
    """Execute a step; return whether it changed anything."""
    what, who = step.what, step.who
    if what == "ambush":
        world.ambushes += 1
        return True
    if what == "aim":
        how, request, seconds = step.value.split()
        world.network.aims.arm(how, request, float(seconds))
        return True
    if what == "clock-jump":
        clocks = world.site.clocks
        clocks[who] = max(-_CLOCK, min(_CLOCK, clocks[who] + float(step.value)))
        return True
    if what == "bit-flip":
        disk = world.site.disk
        if type(disk) is not FilesDisk:
            return False  # brokers that share a disk have the log open all the time
        disk.rot += 1
        return True
    if what in ("forget-sessions", "spoil") or what.startswith("client-"):
        return _traffic(world, step)
    if what.startswith("broker-"):
        return _broker(world, what, who, float(step.value))
    if what.startswith("disk-") or what == "slow-network":
        return _weather(world, what, float(step.value))
    if who >= 0:
        return _member(world, step)
    return _operate(world, step)


def _traffic(world: WorldState, step: Step) -> bool:
    traffic = world.traffic
    if traffic is None:
        return False
    match step.what:
        case "forget-sessions":
            return traffic.forget_sessions()
        case "spoil":
            return traffic.spoil()
        case "client-cut" | "client-deaf" | "client-mute":
            _block(world, traffic.process(step).name, step.what.removeprefix("client-"), float(step.value))
            return True
        case _:
            return traffic.step(step)


def _member(world: WorldState, step: Step) -> bool:
    number = step.who
    process, application = world.processes[number], world.applications[number]
    if step.what == "start":
        world.start_member(number)
        return True
    if application is None or not process.alive:
        return False
    match step.what:
        case "leave":
            application.leave()
            world.wanted[number] = False
            world.after(float(step.value) + 16.0, partial(world.start_member, number))
        case "kill" | "vanish":
            world.end_member(number, silently=step.what == "vanish")
            world.after(float(step.value), partial(world.start_member, number))
        case "stop":
            process.stop()
            world.after(float(step.value), process.go_on)
        case "reset":
            for end in [end for end in world.network.connections() if end.loop is process.loop]:
                world.network.reset(end)
        case "cut" | "deaf" | "mute":
            _block(world, process.name, step.what, float(step.value))
        case "switch":
            habits = world.habits[number]
            habits.protocol, habits.pattern = ("consumer" if habits.protocol == "classic" else "classic"), ""
            application.leave()
            world.wanted[number] = False
            world.after(float(step.value) + 16.0, partial(world.start_member, number))
        case "subscribe":
            world.habits[number].topics, world.habits[number].pattern = tuple(step.value.split(",")), ""
            application.subscribe(world.habits[number].topics)
        case "weigh":
            habits = world.habits[number]
            habits.weight = int(step.value)
            if habits.protocol != "consumer" or application.habits.protocol != "consumer":
                return False
            application.weigh(habits.weight)
        case "poll-stop":
            application.polls = False
            world.after(float(step.value) + application.habits.max_poll / 1000, partial(_poll_again, world, number))
        case "callback":
            application.habits.callback = int(step.value)
        case _:
            raise ValueError(f"no step is called {step.what!r}")
    return True


def _poll_again(world: WorldState, number: int) -> None:
    application = world.applications[number]
    if application is not None:
        application.polls = True


def _block(world: WorldState, name: str, what: str, seconds: float) -> None:
    for broker in world.site.processes:
        ways = [(name, broker.name)] if what != "deaf" else []
        ways += [(broker.name, name)] if what != "mute" else []
        for way in ways:
            world.network.block(*way)
            world.after(seconds, partial(world.network.heal, *way))


def _broker(world: WorldState, what: str, number: int, seconds: float) -> bool:
    site = world.site
    if what == "broker-cut":
        heals = site.cut_off(number)
        if heals is not None:
            world.after(seconds, heals)
        return heals is not None
    process = site.processes[number]
    if not site.serves(number) or not process.runs:
        return False
    site.fails(number, LEASE if what == "broker-stop" else min(seconds, 10.0))
    match what:
        case "broker-kill" | "broker-vanish":
            site.kill(number, silently=what == "broker-vanish")
        case "broker-term":
            site.stop(number)
        case "broker-stop":
            process.stop()
            world.after(seconds, partial(_broker_wakes, world, number))
    return True


def _broker_wakes(world: WorldState, number: int) -> None:
    """Resume a suspended broker; if another one holds the disk by then, the broker detects it and exits."""
    process = world.site.processes[number]
    if process.alive and not process.runs:
        process.go_on()
        world.woken.append(world.now)
        # A broker over a database detects that others lead, and exits.
        if not world.site.serves(number) and not isinstance(world.site.disk, Database):
            world.after(world.dice.uniform(0.0, 2.0), partial(world.site.kill, number))


def _weather(world: WorldState, what: str, seconds: float) -> bool:
    disk, weather = world.site.disk, world.network.weather
    match what:
        case "disk-error" | "disk-full":
            disk.failure = errno.EIO if what == "disk-error" else errno.ENOSPC
            world.after(seconds, partial(setattr, disk, "failure", None))
        case "disk-slow":
            disk.slowness = 0.5
            world.after(10 * seconds, partial(setattr, disk, "slowness", 0.0005))
        case _:
            weather.spread = seconds
            world.after(20.0, partial(setattr, weather, "spread", 0.001))
    return True


# Steps of operators and producers


def _operate(world: WorldState, step: Step) -> bool:
    words = step.value.split()
    match step.what:
        case "produce":
            return _produce(world, words[0], int(words[1]))
        case "stranger":
            return speak_up(world, words[0], BadRequest(words[1]))
        case "crowd":
            return crowd(world, words[0])
        case "create":
            return _ask(world, partial(_create, words[0], int(words[1])))
        case "grow":
            return _ask(world, partial(_grow, world, words[0], int(words[1])))
        case "delete":
            return _ask(world, lambda admin: admin.delete_topics(words[:1]))
        case "reassign" | "call-off" | "elect":
            return move_leaders(world, step.what, words)
        case "remove-member":
            return _ask(world, lambda admin: admin.remove_all_members(words[0]))
        case "delete-group":
            return _ask(world, lambda admin: admin.delete_groups(words))
        case "delete-offsets":
            return _ask(world, lambda admin: admin.delete_group_offsets(words[0], sorted(world.partitions())))
        case _:
            raise ValueError(f"no step is called {step.what!r}")


def _ask(world: WorldState, question: Callable[[Admin], Awaitable[object]]) -> bool:
    if world.operator.alive:
        return False
    bootstrap = world.site.bootstrap

    async def work() -> None:
        try:
            admin = KillableAdmin(bootstrap_servers=bootstrap, default_api_timeout_ms=5_000, client_id="operator")
            async with admin:
                await question(admin)
        except KafkaError:
            pass  # the cluster rejects the request or does not respond, both of which are expected
        world.after(0.0, world.operator.kill)

    world.operator.start(work)
    return True


def _produce(world: WorldState, topic: str, count: int) -> bool:
    if world.traffic is not None:
        return world.traffic.produce(topic, count)
    produced = world.ledger.produced
    found = [one for one in world.site.disk.topics.values() if one.name == topic]
    for one in found:
        for number in range(one.partitions):
            place = one.topic_id, TopicPartition(topic, number)
            produced[place] = produced.get(place, 0) + count
    return bool(found)


async def _create(topic: str, partitions: int, admin: Admin) -> None:
    await admin.create_topics([NewTopic(topic, partitions)])


async def _grow(world: WorldState, topic: str, more: int, admin: Admin) -> None:
    there = sum(partition.topic == topic for partition in world.partitions())
    await admin.create_partitions(topic, there + more)
