"""Generation of faults that affect single messages, with random numbers of their own."""

from __future__ import annotations

from random import Random

from kohort.sim.plans.plan import Plan
from kohort.sim.steps import Effect, MessageFault, sort

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


def add_message_faults(plan: Plan, rng: Random) -> None:
    """Add such faults to half of the busy plans, with random numbers of their own."""
    if plan.is_calm or rng.random() >= _LIKELY:
        return
    for _ in range(rng.choice([2, 5, 12, 25])):
        plan.steps.append(message_fault(plan, rng))
    sort(plan.steps)


def message_fault(plan: Plan, rng: Random, at: float | None = None) -> MessageFault:
    """Return a step that affects the next request of some kind from the time `at` on (default: random)."""
    effect = rng.choice([Effect.REQUEST_LATE, Effect.RESPONSE_LATE, Effect.RESPONSE_LOST, Effect.RESPONSE_LOST])
    at = rng.uniform(0.0, plan.seconds) if at is None else at
    seconds = rng.choice([0.02, 0.5, 3.0, 9.0]) * rng.uniform(0.5, 1.5)
    requests = (*_GROUPS, *_RECORDS) if plan.records else _GROUPS
    return MessageFault(round(at, 3), effect, rng.choice(requests), round(seconds, 3))
