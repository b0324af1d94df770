"""Generation of the part of a plan that concerns gateways: which members use them, and their faults.

It uses random numbers of its own, so worlds without gateways are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from kohort.sim.plans.durations import about
from kohort.sim.plans.faultless import is_faultless
from kohort.sim.plans.plan import Plan
from kohort.sim.steps import (
    GatewayDisconnect,
    GatewayKill,
    GatewayPowerOff,
    GatewayStep,
    GatewaySuspend,
    GatewayTerminate,
    sort,
)

GATEWAYS_EVERY = 10
"""One of this many seeds has gateways, unless it is a calm one, or its clients authenticate or read records."""
_WITH_GATEWAYS = 7
GATEWAY_FAULTS: tuple[Callable[[float, int, float], GatewayStep], ...] = (
    GatewayKill,
    GatewayPowerOff,
    GatewayTerminate,
    GatewaySuspend,
    GatewayDisconnect,
)
_LIKELY = 0.4
"""Probability that a world has faults of one kind."""


def add_gateways(plan: Plan, fault_counts: Sequence[int], outages: Sequence[float], rng: Random) -> None:
    """Let the members of some plans use gateways. Faults last `outages` seconds, and divide the time as given.

    Mostly, the brokers answer heartbeats at once and rely on session timeouts, like Apache Kafka.
    """
    if plan.seed % GATEWAYS_EVERY != _WITH_GATEWAYS or plan.is_calm or plan.secured or plan.records:
        return
    if rng.random() < 0.7:
        plan.settings |= {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}
    put_gateways(plan, rng.choice([1, 1, 2]), rng)
    if is_faultless(plan):
        return
    for make in GATEWAY_FAULTS:
        if rng.random() >= _LIKELY:
            continue
        mean = plan.seconds / rng.choice(fault_counts)
        at = rng.expovariate(1 / mean)
        while at < plan.seconds:
            seconds = about(outages, rng)
            plan.steps.append(make(round(at, 3), rng.randrange(len(plan.gateway_rates)), seconds))
            at += rng.expovariate(1 / mean)
    sort(plan.steps)


def add_gateway_clocks(plan: Plan, gateways: int, rng: Random) -> None:
    """Give a plan that many gateways, which nobody uses yet; the clocks of some are fast or slow."""
    plan.gateway_rates = [rng.choice([1.0, 1.0, 0.98, 1.02]) for _ in range(gateways)]


def put_gateways(plan: Plan, gateways: int, rng: Random) -> None:
    """Give a plan that many gateways, and let each member use one of them or, sometimes, none."""
    add_gateway_clocks(plan, gateways, rng)
    beside = rng.choice([0.0, 0.0, 0.3])
    plan.ways = [-1 if rng.random() < beside else rng.randrange(gateways) for _ in plan.members]
