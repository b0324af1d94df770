"""Generation of the part of a plan that concerns records: writers, readers, and faults of these processes.

It uses random numbers of its own, so worlds without records are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from kohort.model import TopicPartition
from kohort.sim.plans.plan import Plan
from kohort.sim.steps import (
    BrokerForgetFetchSessions,
    ClientBlockIncoming,
    ClientBlockOutgoing,
    ClientDisconnect,
    ClientKill,
    ClientResetConnections,
    ClientSeek,
    ClientSuspend,
    DiskBitFlipInRecords,
    Produce,
    RecordStep,
    sort,
)  # fmt: skip

VAULT = "vault"
"""Topic with records that no group reads, in which bits are flipped."""
SHARE = 0.1
"""Probability that a world of a few minutes has records."""
_LONGEST = 300.0
"""Maximum duration in seconds: in a world with records most events are idle fetches."""
_MOST_PARTITIONS = 8
"""Upper bound of partition numbers. Most topics have fewer, so readers request some that do not exist."""
_SEEKS_AFTER = (0.0005, 0.002, 0.5)
"""Time between two seeks in seconds: the first one is being looked up, or has been answered."""
_LIKELY = 0.35
"""Probability that a world has faults of one kind."""


def add_records(
    plan: Plan, topics: Sequence[str], fault_counts: Sequence[int], outages: Sequence[float], rng: Random
) -> None:
    """Add writers and readers of records to some plans.

    Faults last `outages` seconds, and divide the time into `fault_counts` parts.
    """
    if plan.seconds > _LONGEST or rng.random() >= SHARE:
        return
    plan.records, plan.writers = True, rng.choice([1, 2])
    plan.settings["log.message.timestamp.after.max.ms"] = str(2**63 - 1)  # clocks of brokers jump
    plan.settings["max.incremental.fetch.session.cache.slots"] = rng.choice(["0", "1", "3", "1000"])
    plan.topics[VAULT] = 3
    _add_readers(plan, topics, rng)
    plan.steps = [step for step in plan.steps if not isinstance(step, Produce)]
    for _ in range(rng.choice([5, 20, 40])):
        at = round(rng.uniform(0.0, plan.seconds), 3)
        count = rng.choice([1, 1, 5, 30])
        plan.steps.append(Produce(at, rng.choice([*topics, VAULT]), count))
    _add_accidents(plan, fault_counts, outages, rng)
    sort(plan.steps)


def _add_readers(plan: Plan, topics: Sequence[str], rng: Random) -> None:
    names = [*plan.topics, rng.choice(topics)]
    for _ in range(rng.choice([0, 1, 2, 3])):
        wanted = {TopicPartition(names[0], 0), TopicPartition(VAULT, 0)}
        for _ in range(rng.choice([2, 4, 8])):
            wanted.add(TopicPartition(rng.choice(names), rng.randrange(_MOST_PARTITIONS)))
        plan.readers.append(tuple(sorted(wanted)))


def _add_accidents(plan: Plan, fault_counts: Sequence[int], outages: Sequence[float], rng: Random) -> None:
    for make in _KINDS:
        mean = plan.seconds / rng.choice(fault_counts)
        at = rng.expovariate(1 / mean) if rng.random() < _LIKELY else plan.seconds
        while at < plan.seconds:
            plan.steps.append(make(_Draw(round(at, 3), plan.writers + len(plan.readers), outages, rng)))
            at += rng.expovariate(1 / mean)


@dataclass(frozen=True, slots=True)
class _Draw:
    """Random attributes of a step at that time. Each call draws another value."""

    at: float
    clients: int
    outages: Sequence[float]
    rng: Random

    def client(self) -> int:
        return self.rng.randrange(self.clients)

    def seconds(self) -> float:
        return self._scaled(self.outages)

    def seek_seconds(self) -> float:
        return self._scaled(_SEEKS_AFTER)

    def _scaled(self, choices: Sequence[float]) -> float:
        return round(self.rng.choice(choices) * self.rng.uniform(0.5, 1.5), 4)


# The next three draw a duration that they do not need, so that worlds stay the same.


def _reset_connections(draw: _Draw) -> ClientResetConnections:
    client = draw.client()
    draw.seconds()
    return ClientResetConnections(draw.at, client)


def _forget_sessions(draw: _Draw) -> BrokerForgetFetchSessions:
    draw.seconds()
    return BrokerForgetFetchSessions(draw.at)


def _flip_a_bit(draw: _Draw) -> DiskBitFlipInRecords:
    draw.seconds()
    return DiskBitFlipInRecords(draw.at)


_KINDS: tuple[Callable[[_Draw], RecordStep], ...] = (
    lambda draw: ClientKill(draw.at, draw.client(), draw.seconds()),
    lambda draw: ClientSuspend(draw.at, draw.client(), draw.seconds()),
    _reset_connections,
    lambda draw: ClientDisconnect(draw.at, draw.client(), draw.seconds()),
    lambda draw: ClientBlockIncoming(draw.at, draw.client(), draw.seconds()),
    lambda draw: ClientBlockOutgoing(draw.at, draw.client(), draw.seconds()),
    _forget_sessions,
    _flip_a_bit,
    lambda draw: ClientSeek(draw.at, draw.client(), draw.seek_seconds()),
)
"""Steps that a world with records has all or none of. Their order is part of what a seed means."""
