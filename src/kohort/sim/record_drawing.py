"""The part of a plan that is about records: who writes and reads them, and what happens to these processes.

It is drawn by dice of its own, so that worlds without records stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kohort.model import TopicPartition
from kohort.sim.files import VAULT
from kohort.sim.plan import Plan, Step

SHARE = 0.1
"""How likely a world of some minutes has records."""
_LONGEST = 300.0
"""Seconds: idle fetches are most of what happens in a world with records."""
_MOST_PARTITIONS = 8
"""More than most topics have, so that readers want some that do not exist."""
_KINDS = (
    "client-kill",
    "client-stop",
    "client-reset",
    "client-cut",
    "client-deaf",
    "client-mute",
    "forget-sessions",
    "spoil",
)
_LIKELY = 0.35
"""How likely a world has accidents of one kind."""


def add_records(
    plan: Plan, topics: Sequence[str], lulls: Sequence[int], outages: Sequence[float], dice: Random
) -> None:
    """Have some plans read and write records. Accidents last `outages` seconds, and divide the time into `lulls`."""
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
            lasts = "" if who < 0 or kind == "client-reset" else f"{dice.choice(outages) * dice.uniform(0.5, 1.5):.3f}"
            plan.steps.append(Step(round(at, 3), kind, who, lasts))
            at += dice.expovariate(1 / mean)
