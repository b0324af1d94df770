"""Generation of faults that affect single messages, with random numbers of their own."""

from __future__ import annotations

from random import Random

from kohort.sim.plans.plan import Plan, Step

_GROUPS = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "ConsumerGroupHeartbeat",
    "FindCoordinator",
)
_RECORDS = ("Fetch", "Produce", "ListOffsets", "OffsetForLeaderEpoch", "Produce")
_LIKELY = 0.5
"""Probability that a busy world has such faults."""


def add_aims(plan: Plan, dice: Random) -> None:
    """Add such faults to half of the busy plans, with random numbers of their own."""
    if plan.is_calm or dice.random() >= _LIKELY:
        return
    for _ in range(dice.choice([2, 5, 12, 25])):
        plan.steps.append(aim(plan, dice))
    plan.steps.sort(key=lambda step: (step.at, step.what, step.who))


def aim(plan: Plan, dice: Random, at: float | None = None) -> Step:
    """Return a step that affects the next request of some kind from the time `at` on (default: random)."""
    how = dice.choice(["late", "answer-late", "answer-lost", "answer-lost"])
    at = dice.uniform(0.0, plan.seconds) if at is None else at
    seconds = dice.choice([0.02, 0.5, 3.0, 9.0]) * dice.uniform(0.5, 1.5)
    requests = (*_GROUPS, *_RECORDS) if plan.records else _GROUPS
    return Step(round(at, 3), "aim", value=f"{how} {dice.choice(requests)} {seconds:.3f}")
