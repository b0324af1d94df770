"""Generation of the part of a plan that concerns records: writers, readers, and faults of these processes.

It uses random numbers of its own, so worlds without records are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kohort.model import TopicPartition
from kohort.sim.plans.plan import Plan, Step

VAULT = "vault"
"""Topic with records that no group reads, in which bits are flipped."""
SHARE = 0.1
"""Probability that a world of a few minutes has records."""
_LONGEST = 300.0
"""Maximum duration in seconds: in a world with records most events are idle fetches."""
_MOST_PARTITIONS = 8
"""Upper bound of partition numbers. Most topics have fewer, so readers request some that do not exist."""
_KINDS = (
    "client-kill",
    "client-stop",
    "client-reset",
    "client-cut",
    "client-deaf",
    "client-mute",
    "forget-sessions",
    "spoil",
    "client-seek",
)
_SEEKS_AFTER = (0.0005, 0.002, 0.5)
"""Time between two seeks in seconds: the first one is being looked up, or has been answered."""
_LIKELY = 0.35
"""Probability that a world has faults of one kind."""


def add_records(
    plan: Plan, topics: Sequence[str], lulls: Sequence[int], outages: Sequence[float], dice: Random
) -> None:
    """Add writers and readers of records to some plans.

    Faults last `outages` seconds, and divide the time into `lulls` parts.
    """
    if plan.seconds > _LONGEST or dice.random() >= SHARE:
        return
    plan.records, plan.writers = True, dice.choice([1, 2])
    plan.settings["log.message.timestamp.after.max.ms"] = str(2**63 - 1)  # clocks of brokers jump
    plan.settings["max.incremental.fetch.session.cache.slots"] = dice.choice(["0", "1", "3", "1000"])
    plan.topics[VAULT] = 3
    _add_readers(plan, topics, dice)
    plan.steps = [step for step in plan.steps if step.what != "produce"]
    for _ in range(dice.choice([5, 20, 40])):
        at = round(dice.uniform(0.0, plan.seconds), 3)
        count = dice.choice([1, 1, 5, 30])
        plan.steps.append(Step(at, "produce", value=f"{dice.choice([*topics, VAULT])} {count}"))
    _add_accidents(plan, lulls, outages, dice)
    plan.steps.sort(key=lambda step: (step.at, step.what, step.who))


def _add_readers(plan: Plan, topics: Sequence[str], dice: Random) -> None:
    names = [*plan.topics, dice.choice(topics)]
    for _ in range(dice.choice([0, 1, 2, 3])):
        wanted = {TopicPartition(names[0], 0), TopicPartition(VAULT, 0)}
        for _ in range(dice.choice([2, 4, 8])):
            wanted.add(TopicPartition(dice.choice(names), dice.randrange(_MOST_PARTITIONS)))
        plan.readers.append(tuple(sorted(wanted)))


def _add_accidents(plan: Plan, lulls: Sequence[int], outages: Sequence[float], dice: Random) -> None:
    clients = plan.writers + len(plan.readers)
    for kind in _KINDS:
        mean = plan.seconds / dice.choice(lulls)
        at = dice.expovariate(1 / mean) if dice.random() < _LIKELY else plan.seconds
        while at < plan.seconds:
            who = dice.randrange(clients) if kind.startswith("client-") else -1
            seconds = dice.choice(_SEEKS_AFTER if kind == "client-seek" else outages) * dice.uniform(0.5, 1.5)
            lasts = "" if who < 0 or kind == "client-reset" else f"{seconds:.4f}"
            plan.steps.append(Step(round(at, 3), kind, who, lasts))
            at += dice.expovariate(1 / mean)
