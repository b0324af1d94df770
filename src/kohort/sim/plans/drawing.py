"""Generation of a plan from a seed.

Each seed omits most kinds of steps, which makes rare combinations likelier (swarm testing). Most
seeds give a busy minute or two, some a quarter of an hour. One in `CALM_EVERY` seeds gives a long
day: many groups whose members have long sessions, hours in which nothing happens, and an occasional
fault. It covers effects that need a long time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from kohort.log.cluster import OFFSETS_TOPIC
from kohort.sim.bad_request_names import BadRequest
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.plans.durations import about
from kohort.sim.plans.faultless import FAULTLESS_EVERY, is_faultless, make_faultless
from kohort.sim.plans.gateway_drawing import add_gateways
from kohort.sim.plans.message_fault_drawing import add_message_faults
from kohort.sim.plans.plan import Plan
from kohort.sim.plans.record_drawing import add_records
from kohort.sim.plans.security_drawing import add_security
from kohort.sim.plans.transaction_drawing import add_feature_changes, add_late_requests, add_transactions
from kohort.sim.steps import (
    BrokerClockJump,
    BrokerDisconnectDatabase,
    BrokerKill,
    BrokerKillAfterJoinPhase,
    BrokerPowerOff,
    BrokersSkipTime,
    BrokerSuspend,
    BrokerTerminate,
    DiskBitFlip,
    DiskError,
    DiskFull,
    DiskSlow,
    GroupDelete,
    GroupDeleteOffsets,
    GroupRemoveMembers,
    LeaderElect,
    MemberBlockIncoming,
    MemberBlockOutgoing,
    MemberDisconnect,
    MemberExpire,
    MemberKill,
    MemberLeave,
    MemberPowerOff,
    MemberResetConnections,
    MemberSetWeight,
    MemberSlowCallback,
    MemberStart,
    MemberStopPolling,
    MemberSubscribe,
    MemberSuspend,
    MemberSwitchProtocol,
    NetworkSlow,
    PartitionReassign,
    Produce,
    ReassignmentCancel,
    SendAllBadRequests,
    SendBadRequest,
    Step,
    TopicCreate,
    TopicDelete,
    TopicGrow,
    sort,
)  # fmt: skip

ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky", "range,roundrobin", "cooperative-sticky,range"]
PATTERNS = ["[a-p].*", "orders|clicks", "[b-z].*s", "pay.*|audit"]
TOPICS = ["orders", "payments", "clicks", "audit"]
REMOTE = ["uniform", "range", "rack", "lag", "rate", "weighted", "weighted"]
LOCAL = ["range", "roundrobin", "sticky", "cooperative-sticky", "sticky,range"]
WEIGHTS = [1, 2, 5, 20]


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of a world. Times are in milliseconds, and one element of each list is chosen."""

    seconds: tuple[float, ...]
    groups: tuple[int, ...]
    sessions: tuple[int, ...]
    polls: tuple[int, ...]
    max_polls: tuple[int, ...]
    commits: tuple[int, ...]
    metadata_ages: tuple[int, ...]
    fault_counts: tuple[int, ...] = (1, 2, 5, 12)
    """Average numbers of parts into which faults of one kind divide the world's time."""
    outages: tuple[float, ...] = (0.05, 0.5, 2.0, 8.0, 20.0, 45.0)
    """Average durations of outages, in seconds."""


_COUNTS = (1, 1, 2, 3)
_BUSY = Pace(
    seconds=(60.0, 60.0, 60.0, 60.0, 120.0),
    groups=_COUNTS,
    sessions=(6_000, 10_000, 30_000),
    polls=(500, 1_000, 3_000),
    max_polls=(10_000, 30_000, 60_000),
    commits=(1_000, 5_000, 20_000),
    metadata_ages=(10_000,),
)
_SLOW = replace(_BUSY, sessions=(30_000, 60_000, 120_000), polls=(5_000, 9_000))
"""Pace of some of the longest busy worlds."""
_CALM = Pace(
    seconds=(12 * 3600.0, 24 * 3600.0, 24 * 3600.0),
    groups=(10, 20, 40),
    sessions=(600_000, 1_800_000, 7_200_000),
    polls=(600_000, 1_800_000),
    max_polls=(3_600_000,),
    commits=(900_000, 3_600_000),
    metadata_ages=(900_000, 3_600_000),
    fault_counts=(2, 6, 24),
    outages=(0.05, 2.0, 45.0, 300.0, 2_000.0),
)
_DEAR_HOLD, _DEAR_SECONDS = 9_000, 2 * 3600.0
_HOLDS = (_DEAR_HOLD, 600_000, 600_000, 600_000)
"""Maximum time that heartbeats are held in calm worlds.

With production's default a group-hour is expensive, so the day is short; the other value is far
longer.
"""
CALM_EVERY = 30
"""One of this many seeds is a calm world."""
LONG_EVERY, LONG_SECONDS = 40, 900.0
"""One of `LONG_EVERY` worlds lasts `LONG_SECONDS`, for effects that need the time.

The number of faults does not depend on the length of a world. So a short world has as many of them
as a long one, and ten short worlds cost as much as one long one.
"""
PLAIN_EVERY = 4
"""In one of this many seeds brokers answer heartbeats at once and rely on session timeouts, like Apache Kafka."""

SKIPS_EVERY = 7
"""In one of this many seeds time is skipped, unless it is a calm one or one without faults."""
DATABASE_EVERY = 11
"""One of this many seeds has its log in a database, unless the log is in files."""


def draw(seed: int, longest: float = 86_400.0) -> Plan:
    """Return the plan of that seed, with at most `longest` seconds of steps.

    A world of at most an hour is never a calm one.
    """
    rng = Random(f"plan {seed}")
    plan = Plan(seed)
    pace = _CALM if longest > 3_600.0 and seed % CALM_EVERY == CALM_EVERY - 1 else _BUSY
    seconds = rng.choice(pace.seconds)
    if pace is _BUSY and seed % LONG_EVERY == LONG_EVERY - 2:
        seconds = LONG_SECONDS
    plan.seconds = min(seconds, longest)
    plan.brokers = rng.choice([1, 2, 2, 3])
    plan.pieces = rng.choice([0.0, 0.0, 0.3])
    if pace is _BUSY and plan.seconds >= 300 and rng.random() < 0.7:
        pace = _SLOW
    plan.metadata_age = rng.choice(pace.metadata_ages)
    plan.files = rng.random() < 0.15
    plan.database = not plan.files and seed % DATABASE_EVERY == DATABASE_EVERY - 1  # no random number, see below
    plan.settings = _settings(pace, rng, files=plan.files)
    if pace is _CALM and plan.settings["group.heartbeat.hold.ms"] == str(_DEAR_HOLD):
        plan.seconds = _DEAR_SECONDS
    if seed % PLAIN_EVERY == PLAIN_EVERY - 1:  # no random number is drawn, so all other worlds are unchanged
        plan.settings |= {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}
    plan.topics = {name: rng.randint(1, 6) for name in rng.sample(TOPICS, rng.randint(1, 3))}
    _add_members(plan, pace, rng)
    _add_steps(plan, pace, rng)
    _add_later_features(plan, Random(f"more {seed}"))
    add_records(plan, TOPICS, pace.fault_counts, pace.outages, Random(f"records {seed}"))
    if plan.cluster:
        _add_leader_moves(plan, Random(f"moves {seed}"))
    add_message_faults(plan, Random(f"aim {seed}"))
    if plan.database:
        _add_disconnections(plan, Random(f"database {seed}"))
    if seed % FAULTLESS_EVERY == FAULTLESS_EVERY - 1:
        make_faultless(plan, Random(f"faultless {seed}"))
    add_security(plan, TOPICS, Random(f"security {seed}"))
    add_gateways(plan, pace.fault_counts, pace.outages, Random(f"gateways {seed}"))
    if seed % SKIPS_EVERY == SKIPS_EVERY - 1 and not (plan.is_calm or is_faultless(plan)):
        _add_skipped_time(plan, Random(f"skipped {seed}"))
    if not is_faultless(plan):
        add_transactions(plan, Random(f"transactions {seed}"))
        add_feature_changes(plan, Random(f"features {seed}"))
        add_late_requests(plan, Random(f"late requests {seed}"))
    return plan


def _settings(pace: Pace, rng: Random, *, files: bool) -> dict[str, str]:
    settings = {"group.initial.rebalance.delay.ms": rng.choice(["0", "500", "3000"])}
    session = rng.choice(pace.sessions if pace is _CALM else _BUSY.sessions)
    settings |= {
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.max.session.timeout.ms": "7200000",
        "group.consumer.session.timeout.ms": str(session),
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.max.heartbeat.interval.ms": "2400000",
        "group.consumer.heartbeat.interval.ms": str(session // 3),
        "group.consumer.assignment.interval.ms": rng.choice(["0", "1000"]),
    }
    if pace is _CALM:
        settings |= {"group.max.session.timeout.ms": "7200000", "connections.max.idle.ms": "10800000"}
        settings["group.heartbeat.hold.ms"] = str(rng.choice(_HOLDS))
        # Members wait up to 20 s before they reconnect (`Application.backs_off`); no member may expire before
        # that.
        settings["group.disconnect.grace.ms"] = "30000"
        # Periodic work, which a broker does whatever happens, runs only as often as in a minute of
        # production.
        settings |= {"log.cleaner.backoff.ms": "600000", "group.consumer.load.interval.ms": "600000"}
    if files:
        # With small segments and an eager cleaner, a crash always coincides with a compaction.
        settings["offsets.topic.segment.bytes"] = rng.choice(["1024", "4096", "104857600"])
        settings |= {"log.cleaner.backoff.ms": "5000", "log.cleaner.min.cleanable.ratio": rng.choice(["0", "0.3"])}
    if rng.random() < 0.1:
        settings["group.consumer.migration.policy"] = rng.choice(["disabled", "upgrade", "downgrade"])
    if rng.random() < 0.15:
        settings["group.max.size"] = settings["group.consumer.max.size"] = str(rng.randint(2, 4))
    if rng.random() < 0.15:
        settings |= {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "20000"}
    return settings


def _add_members(plan: Plan, pace: Pace, rng: Random) -> None:
    for group in [f"group-{number}" for number in range(rng.choice(pace.groups))]:
        assignors = rng.choice(ASSIGNORS)
        static = rng.choice([0.0, 0.0, 0.5, 1.0])
        protocol = rng.choice(["classic", "classic", "consumer", "mixed"])
        session = rng.choice(pace.sessions)
        if protocol == "consumer":
            session = int(plan.settings["group.consumer.session.timeout.ms"])
        asks_by_pattern = 0.5 if rng.random() < 0.2 else 0.0
        for number in range(rng.choice([1, 2, 3, 3, 4, 5])):
            name = f"i{number}" if rng.random() < static else None
            if name is not None and number and rng.random() < 0.1:
                name = f"i{number - 1}"  # two processes with the same instance id
            mixed = rng.random() < 0.15
            plan.members.append(
                ApplicationSettings(
                    group=group,
                    topics=tuple(sorted(rng.sample(TOPICS, 2) if mixed and not static else plan.topics)),
                    assignors=assignors,
                    instance=name,
                    session=session,
                    heartbeat=session // 3,
                    # Members that learn of a rebalance after its timeout remove each other forever, in Kafka
                    # as well.
                    max_poll=max(rng.choice(pace.max_polls), session),
                    poll_every=rng.choice(pace.polls),
                    commit_every=rng.choice(pace.commits),
                    callback=rng.choice([0, 0, 10, 500, 3_000]),
                    batch=rng.choice([1, 10, 100]),
                    protocol=rng.choice(["classic", "consumer"]) if protocol == "mixed" else protocol,
                )
            )
            if plan.members[-1].protocol == "consumer" and rng.random() < asks_by_pattern:
                plan.members[-1].pattern = rng.choice(PATTERNS)
            plan.rates.append(1.0 if rng.random() < 0.8 else round(rng.uniform(0.97, 1.03), 4))


def _add_steps(plan: Plan, pace: Pace, rng: Random) -> None:
    count = len(plan.members)
    starts = [MemberStart(round(rng.uniform(0.1, min(plan.seconds / 3, 20.0)), 3), number) for number in range(count)]
    steps: list[Step] = [*starts]
    for make in _KINDS:
        if rng.random() < (0.8 if make is _produce else 0.35):
            mean = plan.seconds / rng.choice(pace.fault_counts)
            at = rng.expovariate(1 / mean)
            while at < plan.seconds:
                steps.append(make(_Draw(round(at, 3), plan, pace, rng)))
                at += rng.expovariate(1 / mean)
    if rng.random() < 0.3:
        # Kill in the few milliseconds between the first join, which only returns an id, and the second one
        # (KIP-394).
        start = rng.choice(starts)
        early = round(start.at + rng.uniform(0.003, 0.012), 4)
        steps.append(MemberKill(early, start.member, rng.choice([0.5, 30.0, 600.0])))
    if rng.random() < 0.3:
        steps += [BrokerKillAfterJoinPhase(round(rng.uniform(0.0, plan.seconds), 3)) for _ in range(rng.randint(1, 6))]
    slow = [step for step in steps if isinstance(step, DiskError | DiskFull | NetworkSlow)]
    if slow and rng.random() < 0.5:
        # Send requests of every kind while a shard is lost and reloaded, or while a group is in transition.
        groups = sorted({settings.group for settings in plan.members})
        steps += [SendAllBadRequests(round(max(step.at - 0.1, 0.0), 3), rng.choice(groups)) for step in slow]
    sort(steps)
    plan.steps = steps


def _add_disconnections(plan: Plan, rng: Random) -> None:
    """Add network partitions between one broker and its database, mostly longer than a lease."""
    for _ in range(rng.choice([0, 1, 2, 5])):
        at, seconds = rng.uniform(0.0, plan.seconds), rng.choice([0.3, 4.0, 15.0])
        plan.steps.append(BrokerDisconnectDatabase(round(at, 3), rng.randrange(plan.brokers), seconds))
    sort(plan.steps)


def _add_skipped_time(plan: Plan, rng: Random) -> None:
    """Add jumps of the brokers' clocks, and members that are expired.

    Some jumps are longer than all sessions and rebalance timeouts.
    """
    for _ in range(rng.choice([2, 5, 12])):
        at, seconds = rng.uniform(0.0, plan.seconds), rng.choice([1.0, 10.0, 45.0, 600.0])
        plan.steps.append(BrokersSkipTime(round(at, 3), seconds))
    for _ in range(rng.choice([0, 2, 5])):
        plan.steps.append(MemberExpire(round(rng.uniform(0.0, plan.seconds), 3), rng.randrange(len(plan.members))))
    sort(plan.steps)


def _add_leader_moves(plan: Plan, rng: Random) -> None:
    """Add reassignments and elections of topics and, half of the time, of coordinators."""
    for _ in range(rng.choice([0, 2, 5, 20])):
        topic = OFFSETS_TOPIC if rng.random() < 0.5 else rng.choice(TOPICS)
        nodes = list(range(1, plan.brokers + 1))
        replicas = tuple(rng.sample(nodes, rng.randint(1, plan.brokers)))
        at, partition = rng.uniform(0.0, plan.seconds), rng.randrange(3)
        plan.steps.append(PartitionReassign(round(at, 3), topic, partition, replicas))
        if rng.random() < 0.5:  # during the reassignment, or afterwards
            later = round(at + rng.choice([0.01, 0.4, 5.0]), 3)
            steps: list[Step] = [ReassignmentCancel(later, topic, partition), LeaderElect(later, topic, partition)]
            plan.steps.append(rng.choice(steps))
    sort(plan.steps)


def _add_later_features(plan: Plan, rng: Random) -> None:
    """Add later features with random numbers of their own, so that what was drawn before them is unchanged."""
    if not (plan.files or plan.database or plan.is_calm) and rng.random() < 0.2:
        plan.cluster, plan.brokers = True, max(plan.brokers, rng.choice([2, 3, 3]))
    for group in sorted({settings.group for settings in plan.members}):
        remote = rng.choice(REMOTE) if rng.random() < 0.4 else ""
        local = rng.choice(LOCAL) if rng.random() < 0.25 else ""
        for number, settings in enumerate(plan.members):
            if settings.group != group:
                continue
            settings.remote, settings.local = remote, local
            if remote != "weighted":
                continue
            settings.weight = rng.choice(WEIGHTS)
            for _ in range(rng.choice([0, 0, 1, 3])):
                at = round(rng.uniform(0.0, plan.seconds), 3)
                plan.steps.append(MemberSetWeight(at, number, rng.choice(WEIGHTS)))
    sort(plan.steps)


class _Draw:
    """Random attributes of a step at that time. All are drawn for each step, so that other steps are unchanged."""

    def __init__(self, at: float, plan: Plan, pace: Pace, rng: Random) -> None:
        self.at = at
        self.rng = rng
        self.member = rng.randrange(len(plan.members))
        self.broker = rng.randrange(plan.brokers)
        self.seconds = about(pace.outages, rng)
        self.group = plan.members[self.member].group

    @property
    def topic(self) -> str:
        """Another topic with each call."""
        return self.rng.choice(TOPICS)

    @property
    def disk_seconds(self) -> float:
        """Another duration of a failure of disk or network with each call."""
        return about([0.01, 0.5, 3.0], self.rng)


def _produce(draw: _Draw) -> Produce:
    return Produce(draw.at, draw.topic, draw.rng.choice([1, 10, 200]))


def _subscribe(draw: _Draw) -> MemberSubscribe:
    topics = draw.rng.sample(TOPICS, draw.rng.randint(1, 3))
    return MemberSubscribe(draw.at, draw.member, tuple(sorted(topics)))


def _clock_jump(draw: _Draw) -> BrokerClockJump:
    seconds = draw.rng.choice([-1, 1]) * draw.rng.choice([0.2, 30.0, 4_000.0, 100_000.0])
    return BrokerClockJump(draw.at, draw.broker, seconds)


def _delete_topic(draw: _Draw) -> TopicDelete:
    topic = draw.topic
    draw.rng.randint(1, 6)  # drawn as for the other steps of topics
    return TopicDelete(draw.at, topic)


_KINDS: tuple[Callable[[_Draw], Step], ...] = (
    lambda draw: MemberLeave(draw.at, draw.member, draw.seconds),
    lambda draw: MemberKill(draw.at, draw.member, draw.seconds),
    lambda draw: MemberPowerOff(draw.at, draw.member, draw.seconds),
    lambda draw: MemberSuspend(draw.at, draw.member, draw.seconds),
    lambda draw: MemberResetConnections(draw.at, draw.member),
    lambda draw: MemberDisconnect(draw.at, draw.member, draw.seconds),
    lambda draw: MemberBlockIncoming(draw.at, draw.member, draw.seconds),
    lambda draw: MemberBlockOutgoing(draw.at, draw.member, draw.seconds),
    _subscribe,
    lambda draw: MemberStopPolling(draw.at, draw.member, draw.seconds),
    lambda draw: MemberSlowCallback(draw.at, draw.member, draw.rng.choice([0, 1_000, 15_000, 40_000])),
    lambda draw: MemberSwitchProtocol(draw.at, draw.member, draw.seconds),
    lambda draw: BrokerKill(draw.at, draw.broker, draw.seconds),
    lambda draw: BrokerPowerOff(draw.at, draw.broker, draw.seconds),
    lambda draw: BrokerTerminate(draw.at, draw.broker, draw.seconds),
    lambda draw: BrokerSuspend(draw.at, draw.broker, draw.seconds),
    _clock_jump,
    lambda draw: DiskError(draw.at, draw.disk_seconds),
    lambda draw: DiskFull(draw.at, draw.disk_seconds),
    lambda draw: DiskSlow(draw.at, draw.disk_seconds),
    lambda draw: DiskBitFlip(draw.at),
    lambda draw: NetworkSlow(draw.at, draw.disk_seconds),
    _produce,
    lambda draw: TopicCreate(draw.at, draw.topic, draw.rng.randint(1, 6)),
    lambda draw: TopicGrow(draw.at, draw.topic, draw.rng.randint(1, 6)),
    _delete_topic,
    lambda draw: GroupRemoveMembers(draw.at, draw.group),
    lambda draw: GroupDelete(draw.at, draw.group),
    lambda draw: GroupDeleteOffsets(draw.at, draw.group),
    lambda draw: SendBadRequest(draw.at, draw.group, draw.rng.choice(list(BadRequest))),
)
"""Steps that a seed has all or none of. Their order is part of what a seed means."""
