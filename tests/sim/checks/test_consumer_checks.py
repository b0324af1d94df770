"""Few moves (S3) are asked for of the partitions of one topic, not of another that was created under its name."""

from __future__ import annotations

import pytest

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import Partitions
from kohort.model import UUID
from kohort.sim import Violation
from kohort.sim.checks.consumer_groups import GroupHistory, check_consumer_group

AUDIT, ORDERS, AUDIT_ANEW = (UUID(int=number) for number in (1, 2, 3))


def check(past: GroupHistory, group: ConsumerGroup, epoch: int, a: UUID, b: UUID) -> None:
    """Hold the group to its past after a target of that epoch, in which members a and b own a partition of these."""
    group.epoch = group.target_epoch = epoch
    group.targets = {"a": Partitions({a: frozenset({0})}), "b": Partitions({b: frozenset({0})})}
    names = {AUDIT: "audit", ORDERS: "orders", AUDIT_ANEW: "audit"}
    check_consumer_group(group, past, {"a", "b"}, names, None, "uniform")


def test_partitions_of_a_recreated_topic_have_not_moved() -> None:
    group, past = ConsumerGroup("g"), GroupHistory()
    for name in ("a", "b"):
        group.put(ConsumerMember(name))
    check(past, group, 1, a=AUDIT, b=ORDERS)
    check(past, group, 2, a=ORDERS, b=AUDIT_ANEW)
    with pytest.raises(Violation, match="S3: g at target epoch 3: nobody joined, and 2 partitions moved"):
        check(past, group, 3, a=AUDIT_ANEW, b=ORDERS)
