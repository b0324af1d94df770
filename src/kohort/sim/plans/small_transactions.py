"""Generation of small worlds with nothing but transactions: few records, one to three copiers, many faults in seconds.

One costs a tenth of a drawn world with transactions, whose members and readers cause most of the events. Its brokers,
its copiers and their checks are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kohort.sim.plans.copying import COPIES, SOURCE, SOURCE_PARTITIONS
from kohort.sim.plans.durations import about
from kohort.sim.plans.gateway_drawing import GATEWAY_FAULTS, add_gateway_clocks
from kohort.sim.plans.plan import Plan
from kohort.sim.plans.transaction_drawing import (
    COPYING,
    add_copier_faults,
    add_feature_changes,
    add_late_requests,
    add_leader_faults,
    add_transaction_message_faults,
)
from kohort.sim.steps import (
    BrokerClockJump,
    BrokerDisconnectDatabase,
    BrokerForgetFetchSessions,
    BrokerKill,
    BrokerPowerOff,
    BrokersSkipTime,
    BrokerSuspend,
    BrokerTerminate,
    ClientBlockIncoming,
    ClientBlockOutgoing,
    ClientDisconnect,
    ClientKill,
    ClientResetConnections,
    ClientSuspend,
    DiskError,
    DiskFull,
    DiskSlow,
    NetworkSlow,
    Produce,
    Step,
    sort,
)  # fmt: skip

_SESSION_MS = 6_000
"""Session timeout of copiers that are members of a consumer group: the shortest that brokers take by default."""
_OUTAGES = (0.05, 0.5, 2.0, 5.0)
"""Average durations of outages, in seconds."""
_LIKELY = 0.25
"""Probability that a world has faults of one kind."""
_SHORT = (0.01, 0.3, 1.0)
"""Average durations of failures of the disk or the network, and of the time without a broker, in seconds."""
_WITH_GATEWAYS, _WITH_DEATHS, _WITH_REMOVALS = 0.1, 0.15, 0.3
"""Probabilities that a world, if it can, has gateways, has copiers that die for good, or that are removed."""
_FOR_GOOD, _ENDED_WITHIN = 1_000.0, 28.0
"""Times in seconds: no copier is back before the end, and transactions of dead copiers have been ended (L9)."""
_SUSPENSIONS, _REMOVED_WITHIN = 6, 8.0


def draw_small_transactions(seed: int) -> Plan:
    """Return the plan of the small world with transactions of that seed."""
    rng = Random(f"small transactions {seed}")
    plan = Plan(seed, seconds=rng.choice([4.0, 6.0, 8.0]), records=True, metadata_age=2_000)
    plan.brokers = rng.choice([1, 2, 2, 3])
    plan.pieces = rng.choice([0.0, 0.0, 0.3])
    _choose_log(plan, rng)
    plan.settings = _settings(plan, rng)
    plan.topics = {SOURCE: SOURCE_PARTITIONS, **COPIES}
    plan.copying = rng.choice(COPYING)
    plan.transactional_ids = rng.choice([1, 1, 2])
    plan.copiers = plan.transactional_ids + rng.choice([0, 0, 1])
    plan.transaction_timeout = rng.choice([1_000, 2_000, 5_000])
    if plan.copying != "-" and rng.random() < _WITH_REMOVALS:
        _let_members_be_removed(plan, rng)
    if plan.copying != "-":
        plan.transactional_ids = plan.copiers
    for _ in range(rng.choice([4, 8, 16])):
        plan.steps.append(Produce(round(rng.uniform(0.0, plan.seconds), 3), SOURCE, rng.choice([1, 1, 2])))
    _add_faults(plan, rng)
    _add_gateways(plan, rng)
    if plan.copying == "-" and rng.random() < _WITH_DEATHS:
        _let_copiers_die(plan, rng)
    sort(plan.steps)
    return plan


def _let_copiers_die(plan: Plan, rng: Random) -> None:
    """Let all copiers die for good: only the brokers can end their transactions."""
    for copier in range(plan.copiers):
        plan.steps.append(ClientKill(_time(plan, rng), plan.writers + copier, _FOR_GOOD))
    plan.seconds += _ENDED_WITHIN


def _let_members_be_removed(plan: Plan, rng: Random) -> None:
    """Let copiers stand still until their group has removed them, while their transaction is open."""
    plan.seconds, plan.copiers, plan.transaction_timeout = 12.0, 2, 2 * _SESSION_MS
    for _ in range(_SUSPENSIONS):
        plan.steps.append(ClientSuspend(_time(plan, rng), plan.writers + rng.randrange(plan.copiers), _REMOVED_WITHIN))


def _choose_log(plan: Plan, rng: Random) -> None:
    log = rng.choice(["memory", "memory", "memory", "cluster", "cluster", "cluster", "files", "database"])
    plan.cluster, plan.files, plan.database = log == "cluster", log == "files", log == "database"
    if plan.cluster:
        plan.brokers = max(plan.brokers, 2)
    plan.secured = rng.random() < 0.1


def _settings(plan: Plan, rng: Random) -> dict[str, str]:
    settings = {
        "transaction.version": rng.choice(["1", "2", "2"]),
        "transaction.state.log.num.partitions": rng.choice(["1", "3"]),
        "group.initial.rebalance.delay.ms": rng.choice(["0", "0", "500"]),
        "group.consumer.min.session.timeout.ms": str(_SESSION_MS),
        "group.consumer.session.timeout.ms": str(_SESSION_MS),
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.heartbeat.interval.ms": str(_SESSION_MS // 3),
        "log.message.timestamp.after.max.ms": str(2**63 - 1),  # clocks of brokers jump
        "max.incremental.fetch.session.cache.slots": rng.choice(["0", "1", "1000"]),
    }
    if rng.random() < 0.25:  # brokers answer heartbeats at once and rely on session timeouts, like Apache Kafka
        settings |= {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}
    if plan.files:
        settings["offsets.topic.segment.bytes"] = rng.choice(["1024", "104857600"])
        settings |= {"log.cleaner.backoff.ms": "2000", "log.cleaner.min.cleanable.ratio": rng.choice(["0", "0.3"])}
    if plan.secured:
        settings["connections.max.reauth.ms"] = rng.choice(["0", "2000"])
        settings["connection.failed.authentication.delay.ms"] = "0"
    return settings


def _add_faults(plan: Plan, rng: Random) -> None:
    for make in _KINDS:
        for _ in range(rng.choice([1, 1, 3]) if rng.random() < _LIKELY else 0):
            plan.steps.append(make(_Draw(plan, rng)))
    add_copier_faults(plan, rng)
    add_transaction_message_faults(plan, rng)
    if plan.cluster:
        add_leader_faults(plan, rng)
    add_feature_changes(plan, rng)
    add_late_requests(plan, rng)


def _add_gateways(plan: Plan, rng: Random) -> None:
    """Let all clients of some plans use gateways."""
    if plan.secured or rng.random() >= _WITH_GATEWAYS:
        return
    gateways = rng.choice([1, 1, 2])
    add_gateway_clocks(plan, gateways, rng)
    plan.client_ways = [rng.randrange(gateways) for _ in range(_clients(plan))]
    for make in GATEWAY_FAULTS:
        if rng.random() < _LIKELY:
            plan.steps.append(make(_time(plan, rng), rng.randrange(gateways), about(_OUTAGES, rng)))


def _clients(plan: Plan) -> int:
    """Return the number of all clients, with the two readers of copies."""
    return plan.writers + plan.copiers + 2


def _time(plan: Plan, rng: Random) -> float:
    """Return the time of a fault; before, the copiers cannot have begun."""
    return round(rng.uniform(0.3, plan.seconds), 3)


class _Draw:
    """Random attributes of a step."""

    def __init__(self, plan: Plan, rng: Random) -> None:
        self.at = _time(plan, rng)
        self.client = rng.randrange(_clients(plan))
        self.broker = rng.randrange(plan.brokers)
        self.seconds = about(_OUTAGES, rng)
        self.short = about(_SHORT, rng)
        self.jump = rng.choice([-1, 1]) * rng.choice([0.2, 30.0, 4_000.0])
        self.skip = rng.choice([1.0, 10.0, 45.0])


_KINDS: tuple[Callable[[_Draw], Step], ...] = (
    lambda draw: ClientKill(draw.at, draw.client, draw.seconds),
    lambda draw: ClientSuspend(draw.at, draw.client, draw.seconds),
    lambda draw: ClientResetConnections(draw.at, draw.client),
    lambda draw: ClientDisconnect(draw.at, draw.client, draw.seconds),
    lambda draw: ClientBlockIncoming(draw.at, draw.client, draw.seconds),
    lambda draw: ClientBlockOutgoing(draw.at, draw.client, draw.seconds),
    lambda draw: BrokerKill(draw.at, draw.broker, draw.short),
    lambda draw: BrokerPowerOff(draw.at, draw.broker, draw.short),
    lambda draw: BrokerTerminate(draw.at, draw.broker, draw.short),
    lambda draw: BrokerSuspend(draw.at, draw.broker, draw.seconds),
    lambda draw: BrokerClockJump(draw.at, draw.broker, draw.jump),
    lambda draw: BrokerDisconnectDatabase(draw.at, draw.broker, draw.seconds),
    lambda draw: BrokersSkipTime(draw.at, draw.skip),
    lambda draw: BrokerForgetFetchSessions(draw.at),
    lambda draw: DiskError(draw.at, draw.short),
    lambda draw: DiskFull(draw.at, draw.short),
    lambda draw: DiskSlow(draw.at, draw.short),
    lambda draw: NetworkSlow(draw.at, draw.short),
)
"""Steps that a seed has all or none of. Their order is part of what a seed means."""
