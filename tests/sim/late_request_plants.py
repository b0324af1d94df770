"""Bugs of brokers that must refuse late requests of transaction version 1 (decision 016); see planting."""

from __future__ import annotations

from functools import partialmethod
from random import Random
from typing import Any

from pytest import MonkeyPatch

from kohort.broker.transactions import LateRequests
from kohort.broker.transactions.shard import TransactionPartition
from kohort.coordinator.transactions import ConnectionOrder
from kohort.log.cluster import TRANSACTIONS_TOPIC
from kohort.sim import Plan
from kohort.sim.plans import SOURCE
from kohort.sim.steps import Effect, LeaderElect, MessageFault, PartitionReassign, Produce, sort
from tests.sim.planting import plant
from tests.sim.transaction_plants import cluster_copies, copies

SECONDS = 30
SINGLE_CONNECTION = "transaction.producer.single.connection"


def late_requests(seed: int = 0, request: str = "EndTxn", *, is_defended: bool = True) -> Plan:
    """Producers of version 1 lose connections, and their requests of that name arrive later."""
    plan, rng = copies(seed), Random(f"late {request} {seed}")
    plan.copying, plan.copiers, plan.transactional_ids, plan.transaction_timeout = "-", 3, 3, 10_000
    plan.settings |= {"transaction.version": "1", SINGLE_CONNECTION: str(is_defended).lower()}
    plan.steps = [Produce(0.5 * number, SOURCE, 1) for number in range(2 * SECONDS)]
    for _ in range(20):
        at, seconds = round(rng.uniform(2.0, SECONDS - 2.0), 3), round(rng.uniform(0.1, 2.0), 3)
        plan.steps.append(MessageFault(at, Effect.REQUEST_AFTER_CLOSE, request, seconds))
    sort(plan.steps)
    return plan


def late_partitions(seed: int = 0, *, is_defended: bool = True) -> Plan:
    """The same for AddPartitionsToTxn, which then arrive in pauses that are longer than the transaction timeout."""
    plan, rng = late_requests(seed, "AddPartitionsToTxn", is_defended=is_defended), Random(f"pauses {seed}")
    plan.transaction_timeout = 2_000
    plan.steps = [Produce(5.0 * number, SOURCE, 1) for number in range(6)]
    for number in range(1, 6):
        seconds = round(rng.uniform(0.2, 2.5), 3)
        at = round(5.0 * number - 0.1, 3)
        plan.steps.append(MessageFault(at, Effect.REQUEST_AFTER_CLOSE, "AddPartitionsToTxn", seconds))
    sort(plan.steps)
    return plan


def moving_coordinators(seed: int = 8, request: str = "EndTxn") -> Plan:
    """Coordinators move away and back, while requests of producers of version 1 outlive their connections."""
    plan, rng = cluster_copies(seed), Random(f"moving {seed}")
    plan.copying, plan.copiers, plan.transactional_ids, plan.transaction_timeout = "-", 3, 3, 10_000
    plan.settings |= {
        "transaction.version": "1",
        SINGLE_CONNECTION: "true",
        "transaction.state.log.num.partitions": "1",
    }
    plan.steps = [Produce(0.25 * number, SOURCE, 1) for number in range(4 * SECONDS)]
    at = 3.0
    while at < SECONDS - 2:
        here, there = rng.sample([1, 2, 3], 2)
        for delay, replicas in ((0.0, (here, there)), (1.2, (there, here)), (2.4, (here, there))):
            plan.steps.append(PartitionReassign(round(at + delay, 3), TRANSACTIONS_TOPIC, 0, replicas))
            plan.steps.append(LeaderElect(round(at + delay + 0.6, 3), TRANSACTIONS_TOPIC, 0))
        for _ in range(3):
            sent, seconds = round(at + rng.uniform(0.7, 1.3), 3), round(rng.uniform(1.0, 3.0), 3)
            plan.steps.append(MessageFault(sent, Effect.REQUEST_AFTER_CLOSE, request, seconds))
        at += 4.5
    sort(plan.steps)
    return plan


@plant("S24", "S25", "S27", plan=late_requests)
def a_late_request_is_carried_out(patch: MonkeyPatch) -> None:
    patch.setattr(LateRequests, "refuses", lambda self, call, request: False)


@plant("S24", "S25", "S27", plan=late_requests)
def only_the_producer_that_spoke_last_is_remembered(patch: MonkeyPatch) -> None:
    patch.setattr(ConnectionOrder, "__init__", partialmethod(ConnectionOrder.__init__, most=1))


@plant("S24", "S25", "S27", plan=moving_coordinators)
def a_coordinator_that_returns_trusts_the_connections_that_it_had(patch: MonkeyPatch) -> None:
    real = TransactionPartition.lead

    def lead(self: TransactionPartition, log: Any) -> None:
        self.led_from = 0
        real(self, log)

    patch.setattr(TransactionPartition, "lead", lead)
