"""Checks after the end of the faults: everything must come to rest, stay quiet, and leave (L1 to L6, S3, S15)."""

from __future__ import annotations

from collections.abc import Callable

from kohort.client import Cluster, KafkaError
from kohort.coordinator import OffsetExpiry
from kohort.coordinator.consumer import ConsumerGroup
from kohort.errors import ErrorCode
from kohort.member import Phase
from kohort.model import UUID, TopicPartition
from kohort.sim.checks import unbalanced
from kohort.sim.environment import FilesDisk
from kohort.sim.plans import COPIER_MAX_POLL_MS
from kohort.sim.processes import Application, WorldState
from kohort.sim.violation import Violation
from kohort.sim.world.old_assignments import keeps_old_assignment

_FAILOVER = 30.0
"""Time in seconds in which a broker is started, its shards are loaded, and every client has reconnected."""
_LOOK_EVERY = 1.0
_QUIET = 25.0

_NO_PLACE = (
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""Errors of a join that a restart does not resolve: the group is full, or is one of the other protocol and stays so.
They count only if the group's state gave them, which is checked when the coordinator answers."""


def check_rest(world: WorldState) -> None:
    """Run all checks. Raises Violation for the first one that fails."""
    _calm(world)
    _wait_for_rest(world)
    _drains(world)
    _stays_quiet(world)
    _leaves_nothing(world)


def _calm(world: WorldState) -> None:
    """End all faults: processes run, networks deliver, disks write, applications poll."""
    world.network.heal_all()
    world.network.speed_up()
    world.network.conditions.pieces = 0.0
    world.network.message_faults.clear()
    disk, brokers = world.brokers.disk, world.brokers
    disk.failure, disk.slowness = None, 0.0005
    if isinstance(disk, FilesDisk):
        disk.bits_to_flip = 0
    brokers.heal()
    # The operator's request to a dead machine may still wait, for longer than the lookup of a coordinator may
    # take.
    world.operator.kill()
    world.bad_client.kill()
    brokers.end_faults()
    world.gateways.end_faults()
    if world.security is not None:
        world.security.end_faults()
    if world.record_clients is not None:
        world.record_clients.end_faults()
    for number, process in enumerate(world.processes):
        process.resume()
        if process.starts and not process.alive and not _is_out(world, number):
            world.start_member(number)
    world.resting = True
    for application in _living(world):
        application.polls = True
        application.settings.callback = 0
        application.settings.batch = 1_000_000


def _is_out(world: WorldState, number: int) -> bool:
    """Return whether the member ended with an error that a restart does not resolve."""
    return world.ended.get(number) in (ErrorCode.FENCED_INSTANCE_ID, *_NO_PLACE)


def _living(world: WorldState) -> list[Application]:
    return [application for application in world.applications if application is not None]


def _longest_session(world: WorldState) -> int:
    """Return the longest session timeout in milliseconds; that of consumer groups is set by the broker."""
    consumer = int(world.plan.settings.get("group.consumer.session.timeout.ms", "45000"))
    return max([consumer, *(settings.session for settings in world.plan.members)])


def _until(world: WorldState, seconds: float, invariant: str, missing: Callable[[], str]) -> None:
    """Let time pass until nothing is missing. Raises Violation if that takes longer than `seconds`."""

    left = seconds
    while (what := missing()) and world.violation is None:
        if left <= 0:
            raise Violation(invariant, f"{what}, {seconds:.0f} s after the faults ended")
        world.pass_time(_LOOK_EVERY)
        left -= _LOOK_EVERY


def _wait_for_rest(world: WorldState) -> None:
    settings = [application.settings for application in _living(world)]
    slowest = max((max(each.session, each.max_poll) + 2 * each.heartbeat for each in settings), default=0) / 1000
    delay = int(world.plan.settings["group.initial.rebalance.delay.ms"]) / 1000
    # The group may have to remove members that never return; then the members that wait for them join again.
    bound = 2 * slowest + delay + 2 * _FAILOVER + 2 * world.plan.metadata_age / 1000
    _until(world, _FAILOVER, "L6", lambda: "" if world.brokers.active is not None else "no broker serves")
    _until(world, _FAILOVER, "L6", lambda: _unfound(world))
    _until(world, _FAILOVER, "L6", lambda: _withheld(world))
    _until(world, _FAILOVER, "L11", lambda: _disunited(world))
    _until(world, bound, "L1", lambda: _restless(world))
    _until(world, bound, "S12", lambda: _shared_instance_not_resolved(world))
    _until(world, bound, "S3", lambda: _unassigned(world))


def _withheld(world: WorldState) -> str:
    user = "" if world.security is None else world.security.withheld()
    return f"no broker takes the password and the rights of {user}" if user else ""


def _disunited(world: WorldState) -> str:
    """Return which levels of transaction.version the brokers have if they differ, or ""."""
    serving = [broker.features for broker in world.brokers.serving]
    found = [(features.epoch, features.transaction_version) for features in serving]
    return f"the epochs and levels of transaction.version are {found}" if len(set(found)) > 1 else ""


def _shared_instance_not_resolved(world: WorldState) -> str:
    """Return an instance id of several processes of which not exactly one is left in the group, or "".

    A process may end because of a join that it is not alone with; the last one that joined remains, unless
    the group had removed it and had no place for it when it joined again, or the disk has lost the record of its join
    since, so that it was fenced.
    """
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, settings in enumerate(world.plan.members):
        if settings.instance is not None and world.processes[number].starts:
            numbers.setdefault((settings.group, settings.instance), []).append(number)
    for place, sharing in numbers.items():
        living = [application for number in sharing if (application := world.applications[number]) is not None]
        joined = world.observations.joined.get(place, {})
        last = max(joined, key=lambda client: joined[client], default="")
        if len(living) > 1:
            names = " and ".join(application.name for application in living)
            return f"{names} both live with instance id {place[1]} of {place[0]}"
        # A process that leaves as planned is not wanted any more.
        wanted = [number for number in sharing if world.wanted[number]]
        ended = {f"{world.processes[number].name}.{world.processes[number].starts - 1}" for number in wanted}
        has_no_place = any((last, code) in world.observations.refused for code in _NO_PLACE)
        is_fenced = (last, ErrorCode.FENCED_INSTANCE_ID) in world.observations.refused
        is_forgotten = is_fenced and world.progress.damaged_at.get(place[0], -1.0) >= joined[last]
        if len(sharing) > 1 and not living and last in ended and not has_no_place and not is_forgotten:
            return f"no process with instance id {place[1]} of {place[0]} is left, although {last} joined last"
    return ""


def _unfound(world: WorldState) -> str:
    """Return the first group whose coordinator cannot be found, or ""."""
    missing = sorted({application.settings.group for application in _living(world)} - world.found)
    if missing and not world.operator.alive:
        world.operator.start(lambda: _look_up(world, missing))
    return f"the coordinator of {missing[0]} is not found" if missing else ""


async def _look_up(world: WorldState, groups: list[str]) -> None:
    cluster = Cluster.of(world.brokers.bootstrap, **world.operator_login())
    try:
        for group in groups:
            await cluster.coordinator(group, "look-up")
            world.found.add(group)
    except KafkaError:
        pass  # repeated after a second
    await cluster.close()
    world.after(0.0, world.operator.kill)


def _restless(world: WorldState) -> str:
    """Return a member that is not at rest, with the reason, or "" if all are."""
    for application in _living(world):
        membership = application.membership
        if membership is None or membership.state is not Phase.STABLE:
            state = "not begun" if membership is None else membership.state.value
            return f"{application.name} of {application.settings.group} is {state}"
        processed = application.positions.keys()
        if (membership.assignment - processed) & world.partitions() or processed - membership.assignment:
            return f"{application.name} does not process its partitions"
        stale = [
            partition for partition in application.positions if not _exists(world, application.topic_ids[partition])
        ]
        if stale:
            return f"{application.name} processes {sorted(stale)} of topics that were deleted"
    return ""


def _exists(world: WorldState, topic_id: UUID | None) -> bool:
    return topic_id is not None and world.progress.exists(topic_id)


def _unassigned(world: WorldState) -> str:
    there = world.partitions()
    for group in sorted({application.settings.group for application in _living(world)}):
        members = [application for application in _living(world) if application.settings.group == group]
        if keeps_old_assignment(world, group):
            continue
        if _lost_its_target(world, group):
            continue
        wanted = {tp for tp in there if any(member.settings.wants(tp.topic) for member in members)}
        owned: list[TopicPartition] = []
        for member in members:
            if member.membership is not None:
                owned += member.membership.assignment
        if len(owned) != len(set(owned)):
            return f"partitions of {group} have two owners: {sorted(owned)}"
        if set(owned) != wanted:
            return f"{group} subscribes to {sorted(wanted)}, but has {sorted(owned)}"
        if uneven := _uneven(world, group, members, there):
            return f"the assignment of {group} is not what its assignor promises: {uneven}"
    return ""


def _lost_its_target(world: WorldState, group_id: str) -> bool:
    """Return whether the disk may have lost the group's assignment, which is computed again at its next epoch."""
    damaged_at, group = world.progress.damaged_at.get(group_id), world.observations.group(group_id)
    if damaged_at is None or group is None:
        return False
    if isinstance(group, ConsumerGroup):
        return group.target_epoch <= world.progress.lost_generations[group_id]
    return world.generations.get(group_id, 0.0) < damaged_at


def _drains(world: WorldState) -> None:
    settings = [application.settings for application in _living(world)]
    bound = max((3 * each.poll_every + 2 * each.commit_every for each in settings), default=0) / 1000 + _FAILOVER
    bound += max((application.rest_takes() for application in _living(world)), default=0.0)
    for application in _living(world):
        application.settings.batch = 1_000_000
    _until(world, bound, "L5", lambda: _lag(world))
    if world.record_clients is not None:
        clients = world.record_clients
        # A coordinator that fails begins the sessions of dead members anew, which may have partitions to copy.
        longest = _longest_session(world) + COPIER_MAX_POLL_MS
        expiry = 0 if world.plan.copying == "-" else longest / 1000
        _until(world, _FAILOVER + expiry + 3 * world.plan.transaction_timeout / 1000, "L10", clients.uncopied)
        _until(world, _FAILOVER, "L9", clients.unstable)
        _until(world, _FAILOVER + clients.audit_takes(), "L7", clients.unread)


def _uneven(world: WorldState, group_id: str, members: list[Application], there: set[TopicPartition]) -> str:
    group = world.observations.group(group_id)
    if group is None:
        return ""
    if (
        isinstance(group, ConsumerGroup)
        and group.computing.made_by is None
        and any(member.settings.local for member in members)
    ):
        return ""  # a failover has forgotten whether a member's assignor computed the target
    topics = {partition.topic for partition in there}
    wanted = {member.name: {topic for topic in topics if member.settings.wants(topic)} for member in members}
    shares = {member.name: member.membership.assignment if member.membership else frozenset() for member in members}
    return unbalanced(world.observations.assignor(group), wanted, shares)


def _lag(world: WorldState) -> str:
    for application in _living(world):
        group = application.settings.group
        for partition in sorted(application.positions):
            topic_id = application.topic_ids[partition]
            end = world.progress.end_of(topic_id, partition)
            if not end or topic_id is None or (group, topic_id, partition) in world.progress.lost:
                continue  # it committed what the disk lost, and does not commit it again
            written = world.progress.written[group, topic_id, partition].values
            latest = written[-1] if written else None
            at = 0 if latest is None else latest.offset
            if at < end and (latest is None or latest.metadata not in world.answers.overtaken):
                return f"{group} has committed {partition} up to {at}, not to its end {end}"
    return ""


def _stays_quiet(world: WorldState) -> None:
    """Check that no group rebalances without a reason, nor when a broker is replaced within the session timeouts.

    Worlds without members are small, and these minutes would be most of their cost.
    """
    if not world.plan.members:
        return
    # A member may not know of the latest partitions yet, and the session of a dead member may not have
    # expired yet. If a member died while it waited for others to join, its session begins only after they
    # have joined or were removed.
    longest = _longest_session(world) + max(settings.max_poll for settings in world.plan.members)
    world.pass_time(max(2 * world.plan.metadata_age, longest) / 1000 + 2.0)
    _until(world, _FAILOVER, "S3", lambda: _restless(world) or _unassigned(world))
    before = world.observations.rebalances.copy()
    world.pass_time(_QUIET)
    if begun := world.observations.rebalances - before:
        raise Violation("L2", f"groups rebalanced without a reason: {begun}")
    victim = world.brokers.victim
    if victim is not None and world.violation is None:
        too_large, killed_at = _too_large(world), world.now
        world.brokers.kill(victim)
        world.pass_time(_QUIET)
        failed = world.observations.rebalances - before
        # The next broker may be the first to read what a flipped bit has destroyed.
        damaged = {group for group, at in world.progress.damaged_at.items() if at >= killed_at}
        if failed.keys() - too_large - damaged:
            raise Violation("L2", f"groups rebalanced because their broker was replaced: {failed}")
        if restless := _restless(world) or _unassigned(world):
            raise Violation("L2", f"after a failover {restless}")


def _too_large(world: WorldState) -> set[str]:
    """Return classic groups that exceeded their maximum size during a rebalance: loading them starts the next one."""
    most = float(world.plan.settings.get("group.max.size", "inf"))
    groups = [group for live in world.observations.live.values() for group in live.machine.groups.values()]
    return {group.group_id for group in groups if len(group.members) > most}


def _leaves_nothing(world: WorldState) -> None:
    longest = _longest_session(world) / 1000
    applications = _living(world)
    for application in applications:
        application.leave()
    if world.record_clients is not None:
        world.record_clients.leave()
    world.wanted = [False] * len(world.wanted)
    _until(world, 60.0, "S15", lambda: "" if not _living(world) else f"{_living(world)[0].name} does not end")
    if world.record_clients is not None:
        _until(world, 60.0, "S15", world.record_clients.remaining)
    # When the last consumer member of a group leaves, the group becomes classic and restarts the sessions of
    # the others.
    world.pass_time(2 * longest + (310.0 if world.observations.pending() else 10.0))
    if world.violation is not None:
        return
    for live in world.observations.live.values():
        for group_id, group in live.machine.groups.items():
            if group.members:
                raise Violation("S15", f"{group_id} still has {sorted(group.members)}")
            if group.pending:
                raise Violation("S15", f"{group_id} still waits for {sorted(group.pending)}")
        if live.machine.parked:
            raise Violation("S15", f"{len(live.machine.parked)} requests are still parked")
        left = set(live.timers) - {OffsetExpiry()}
        if left:
            raise Violation("S15", f"timers remain: {left}")
    left_ends = [end for end in world.network.ends.values() if end.loop.name.startswith("member-")]
    if left_ends:
        raise Violation("S15", f"{len(left_ends)} connections of members are still open")
    _until(world, 5.0, "S15", lambda: _queued(world))
    _until(world, 5.0, "S15", world.gateways.left)


def _queued(world: WorldState) -> str:
    waits = sum(broker.store.queued_bytes for broker in world.brokers.running.values())
    return f"{waits} bytes wait in the log's queue" if waits else ""
