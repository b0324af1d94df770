"""Worlds without faults, in which each record is delivered exactly once and in order (S11).

Members join, leave, and change their subscription and their protocol; topics are created, extended
and deleted. None of this may repeat a record, because a member commits before it gives up a
partition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from kohort.sim.plans.plan import Plan
from kohort.sim.steps import MemberLeave, OrderlyStep, Produce, Step, sort

FAULTLESS_EVERY = 13
"""One of this many seeds is such a world."""

_EXPIRY = ("offsets.retention.minutes", "offsets.retention.check.interval.ms")
_LONGEST_CALLBACK = 3_000


def is_faultless(plan: Plan) -> bool:
    """Return whether nothing in the plan may repeat a record."""
    instances = Counter(
        (settings.group, settings.instance) for settings in plan.members if settings.instance is not None
    )
    return (
        all(isinstance(step, OrderlyStep) for step in plan.steps)
        and not any(name in plan.settings for name in _EXPIRY)
        and max(instances.values(), default=1) == 1
        and all(settings.callback <= _LONGEST_CALLBACK for settings in plan.members)
    )


def make_faultless(plan: Plan, rng: Random) -> None:
    """Remove the faults from a plan, and let members leave and records arrive more often instead."""
    for name in _EXPIRY:
        plan.settings.pop(name, None)
    seen: set[tuple[str, str]] = set()
    for number, settings in enumerate(plan.members):
        if settings.instance is not None and (settings.group, settings.instance) in seen:
            plan.members[number] = replace(settings, instance=None)
        elif settings.instance is not None:
            seen.add((settings.group, settings.instance))
    steps: list[Step] = [step for step in plan.steps if isinstance(step, OrderlyStep)]
    for number in range(len(plan.members)):
        for _ in range(rng.choice([0, 1, 2])):
            at = round(rng.uniform(0.2, 1.0) * plan.seconds, 3)
            steps.append(MemberLeave(at, number, rng.choice([0.05, 2.0, 20.0])))
    for topic in sorted(plan.topics):
        for _ in range(10):
            at = round(rng.uniform(0.0, plan.seconds), 3)
            steps.append(Produce(at, topic, rng.choice([1, 10, 200])))
    sort(steps)
    plan.steps = steps
    assert is_faultless(plan)
