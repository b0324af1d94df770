"""Bugs of brokers whose level of transaction.version is changed while producers use it; see planting."""

from __future__ import annotations

from random import Random

from pytest import MonkeyPatch

from kohort.broker.config import Features
from kohort.sim import Plan
from kohort.sim.plans import SOURCE
from kohort.sim.steps import ClientResetConnections, Effect, FeatureSetLevel, MessageFault, Produce, sort
from tests.sim.planting import plant
from tests.sim.transaction_plants import cluster_copies

SECONDS = 30


def level_changes(seed: int = 0) -> Plan:
    """Processes copy in a cluster, while its level of transaction.version changes and they connect again."""
    plan, rng = cluster_copies(seed), Random(f"levels {seed}")
    plan.copying, plan.copiers, plan.transactional_ids, plan.transaction_timeout = "-", 3, 3, 5_000
    plan.settings["transaction.producer.single.connection"] = "true"
    plan.steps += [Produce(0.5 * number, SOURCE, 2) for number in range(2 * SECONDS)]
    at = 1.0
    while at < SECONDS:
        plan.steps.append(FeatureSetLevel(round(at, 3), rng.choice([0, 1, 2, 2])))
        later = round(at + rng.choice([0.2, 0.5]), 3)
        plan.steps += [ClientResetConnections(later, plan.writers + copier) for copier in range(3)]
        at += rng.uniform(1.0, 3.0)
    for _ in range(10):
        at, seconds = round(rng.uniform(2.0, SECONDS - 2.0), 3), round(rng.uniform(0.1, 2.0), 3)
        effect = rng.choice([Effect.REQUEST_AFTER_CLOSE, Effect.RESPONSE_LOST])
        plan.steps.append(MessageFault(at, effect, rng.choice(["EndTxn", "AddPartitionsToTxn"]), seconds))
    sort(plan.steps)
    return plan


@plant("L11", plan=level_changes)
def a_broker_does_not_follow_the_level_that_another_one_changed(patch: MonkeyPatch) -> None:
    patch.setattr(Features, "changed", staticmethod(lambda before, now: False))
