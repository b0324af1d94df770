"""Generation of the part of a plan that concerns transactions: processes that copy, and their records.

It uses random numbers of its own, so worlds without transactions are unchanged.
"""

from __future__ import annotations

from random import Random

from kohort.log.cluster import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.sim.plans.copying import COPIES, SOURCE, SOURCE_PARTITIONS
from kohort.sim.plans.durations import about
from kohort.sim.plans.plan import Plan
from kohort.sim.steps import (
    BrokerKill,
    ClientDisconnect,
    ClientKill,
    ClientResetConnections,
    ClientSuspend,
    DiskBitFlip,
    DiskBitFlipInRecords,
    Effect,
    FeatureSetLevel,
    LeaderElect,
    LeaderKill,
    MessageFault,
    PartitionReassign,
    Produce,
    sort,
)  # fmt: skip

TRANSACTIONS_SHARE = 0.5
"""Probability that a world with records has transactions, if it can have them."""
_UNFIT = ("offsets.retention.minutes", "offsets.retention.check.interval.ms")
"""Settings by which the offsets of a group without members expire: then it copies again, as in Kafka."""

_EXPIRES = 8.0
"""Time in seconds after which a copier that stands still has been removed from its group, while its transaction is open
if it has the longest timeout."""
COPYING = ("-", "-", "range", "cooperative-sticky", "consumer")
_REQUESTS = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "Produce",
)
_EFFECTS = (Effect.REQUEST_LATE, Effect.RESPONSE_LATE, Effect.RESPONSE_LOST)
_GUARDED = ("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "EndTxn")
"""Requests whose late copies do no harm in version 1 if the brokers know the order of connections (decision 016)."""
_LED = (*COPIES, *COPIES, SOURCE, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
"""Topics whose leaders die and move; of `COPIES` more often."""


def add_transactions(plan: Plan, rng: Random) -> None:
    """Add transactions to some plans with records."""
    if plan.records and (rng.random() < TRANSACTIONS_SHARE or plan.cluster):
        make_transactional(plan, rng)


def make_transactional(plan: Plan, rng: Random) -> None:
    """Add processes that copy in transactions, and their records and faults, to a plan with records."""
    plan.transactional_ids = rng.choice([1, 2, 3])
    plan.copiers = plan.transactional_ids + rng.choice([0, 1, 2])
    plan.transaction_timeout = rng.choice([2_000, 5_000, 10_000])
    plan.topics |= {SOURCE: SOURCE_PARTITIONS, **COPIES}
    for name in _UNFIT:
        plan.settings.pop(name, None)
    plan.settings |= {
        "transaction.version": rng.choice(["1", "2", "2"]),
        "transaction.state.log.num.partitions": rng.choice(["1", "3"]),
    }
    # What a flipped bit destroys is not to be found again.
    plan.steps = [step for step in plan.steps if not isinstance(step, DiskBitFlip | DiskBitFlipInRecords)]
    for _ in range(rng.choice([10, 30])):
        plan.steps.append(Produce(round(rng.uniform(0.0, plan.seconds), 3), SOURCE, rng.choice([1, 1, 5, 20])))
    add_copier_faults(plan, rng)
    add_transaction_message_faults(plan, rng)
    if plan.cluster:
        add_leader_faults(plan, rng)
    plan.copying = rng.choice(COPYING)
    if plan.copying != "-":
        plan.transactional_ids = plan.copiers
    sort(plan.steps)


def add_feature_changes(plan: Plan, rng: Random) -> None:
    """Let an operator raise and lower transaction.version in some plans with transactions."""
    if not plan.copiers or rng.random() < 0.8:
        return
    first = plan.writers + len(plan.readers)
    for _ in range(rng.choice([1, 3, 8])):
        at = round(rng.uniform(0.0, plan.seconds), 3)
        plan.steps.append(FeatureSetLevel(at, rng.choice([0, 1, 1, 2, 2, 2])))
        if rng.random() < 0.5:  # clients learn of a change when they connect
            later = round(at + rng.choice([0.1, 1.0]), 3)
            plan.steps.append(ClientResetConnections(later, first + rng.randrange(plan.copiers)))
    sort(plan.steps)


def add_late_requests(plan: Plan, rng: Random) -> None:
    """Let requests of given-up connections arrive late, in some plans with transactions.

    Under version 1, or if the level changes, these are only requests that the brokers refuse then, with the
    setting for it.
    """
    if not plan.copiers or rng.random() < 0.5:
        return
    if plan.settings["transaction.version"] == "1" or any(isinstance(step, FeatureSetLevel) for step in plan.steps):
        plan.settings["transaction.producer.single.connection"] = "true"
        requests: tuple[str, ...] = _GUARDED
    else:
        requests = (*_GUARDED, "TxnOffsetCommit", "Produce", "InitProducerId")
    for _ in range(rng.choice([3, 10, 20])):
        at, seconds = rng.uniform(0.0, plan.seconds), rng.choice([0.05, 0.5, 2.0]) * rng.uniform(0.5, 1.5)
        effect = Effect.REQUEST_AFTER_CLOSE
        plan.steps.append(MessageFault(round(at, 3), effect, rng.choice(requests), round(seconds, 3)))
    sort(plan.steps)


def add_copier_faults(plan: Plan, rng: Random) -> None:
    first = plan.writers + len(plan.readers)
    for _ in range(rng.choice([0, 2, 6])):
        at, copier = round(rng.uniform(0.0, plan.seconds), 3), first + rng.randrange(plan.copiers)
        seconds = rng.choice([0.05, 1.0, _EXPIRES, 2 * plan.transaction_timeout / 1000])
        kind = rng.choice([ClientKill, ClientSuspend, ClientDisconnect, ClientResetConnections, BrokerKill])
        if kind is ClientResetConnections:
            plan.steps.append(ClientResetConnections(at, copier))
        elif kind is BrokerKill:
            plan.steps.append(BrokerKill(at, rng.randrange(plan.brokers), seconds))
        else:
            plan.steps.append(kind(at, copier, seconds))


def add_transaction_message_faults(plan: Plan, rng: Random) -> None:
    for _ in range(rng.choice([0, 0, 3, 10])):
        at, effect = round(rng.uniform(0.0, plan.seconds), 3), rng.choice(_EFFECTS)
        seconds = about([0.02, 0.5, 3.0], rng)
        plan.steps.append(MessageFault(at, effect, rng.choice(_REQUESTS), seconds))


def add_leader_faults(plan: Plan, rng: Random) -> None:
    """Kill and move leaders of partitions in transactions, of groups, and of the transactions themselves."""
    for _ in range(rng.choice([1, 3, 8])):
        at, topic = round(rng.uniform(0.0, plan.seconds), 3), rng.choice(_LED)
        partition = rng.randrange(2)
        if rng.random() < 0.6:
            plan.steps.append(LeaderKill(at, topic, partition, rng.choice([0.0, 0.5, 5.0])))
        else:
            replicas = tuple(rng.sample(range(1, plan.brokers + 1), rng.randint(1, plan.brokers)))
            plan.steps.append(PartitionReassign(at, topic, partition, replicas))
            plan.steps.append(LeaderElect(round(at + rng.choice([0.5, 3.0]), 3), topic, partition))
