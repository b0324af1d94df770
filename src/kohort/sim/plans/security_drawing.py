"""Generation of the part of a plan that concerns security: sessions that end, passwords and rights that change.

It uses random numbers of its own, so worlds without security are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kohort.sim.plans.durations import about
from kohort.sim.plans.faultless import is_faultless
from kohort.sim.plans.plan import Plan
from kohort.sim.steps import MemberLoseRight, MemberRejectPassword, Right, sort

SECURED_EVERY = 18
"""One of this many seeds is a world with security, unless it is a calm one."""
_SECURED = 13
_LIFETIMES_MS = ("0", "2000", "5000", "20000")
"""Lifetimes of sessions (connections.max.reauth.ms); 0 is no end."""
_SECONDS = (0.05, 2.0, 8.0, 20.0)


def add_security(plan: Plan, topics: Sequence[str], rng: Random) -> None:
    """Let the clients of some plans authenticate; passwords are rejected and rights are lost for some time.

    Nothing is rejected or lost in a world without faults.
    """
    if plan.seed % SECURED_EVERY != _SECURED or plan.is_calm:
        return
    plan.secured = True
    plan.settings["connections.max.reauth.ms"] = rng.choice(_LIFETIMES_MS)
    plan.settings["connection.failed.authentication.delay.ms"] = rng.choice(("0", "100"))
    if is_faultless(plan):
        return
    for _ in range(rng.choice((0, 1, 2, 5))):
        at, member = round(rng.uniform(0.0, plan.seconds), 3), rng.randrange(len(plan.members))
        plan.steps.append(MemberRejectPassword(at, member, about(_SECONDS, rng)))
    for _ in range(rng.choice((0, 2, 5, 10, 20))):
        at, member = round(rng.uniform(0.0, plan.seconds), 3), rng.randrange(len(plan.members))
        topic = rng.choice([*plan.members[member].topics, *topics])
        plan.steps.append(MemberLoseRight(at, member, rng.choice(list(Right)), topic, about(_SECONDS, rng)))
    sort(plan.steps)
