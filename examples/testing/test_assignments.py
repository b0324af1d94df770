"""Bugs of clients whose leader computes a wrong assignment. Each test sends what the leader sent."""

from collections.abc import Callable
from contextlib import closing

import pytest

from kohort.testing import Broker, Fault, Invariant, Limits, VerdictError, Workspace

from .conftest import Verdict
from .stubs import Member, rebalance

Classic = Callable[..., Member]
CLIENT = Fault.CLIENT


# Apache Kafka's sticky assignor: a member that missed generations reports what it had. Both keep the partition.
# https://github.com/apache/kafka/pull/5291 (KAFKA-7026)
def test_kafka_7026_a_partition_is_assigned_to_two_members(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders, assignor="sticky"), classic("b", orders, assignor="sticky")
    rebalance({a: [0], b: [1]})
    assert verdict() == []
    rebalance({a: [0, 1], b: [1]})
    assert verdict() == [("a", CLIENT, Invariant.ONE_OWNER)]


# Apache Kafka's cooperative assignor: the owner of the newest generation must keep the partition for now.
# https://github.com/apache/kafka/pull/10985 (KAFKA-12984)
def test_kafka_12984_a_partition_moves_before_its_owner_gives_it_up(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = (classic(name, orders, assignor="cooperative-sticky") for name in "ab")
    rebalance({a: [0, 1]})
    a.owned = a.generation, [0, 1]
    rebalance({a: [0], b: []})
    a.owned = a.generation, [0]
    rebalance({a: [0], b: [1]})
    assert verdict() == []
    a.owned, b.owned = (a.generation, [0]), (b.generation, [1])
    rebalance({a: [0, 1], b: []})
    assert verdict() == [("a", CLIENT, Invariant.TWO_STEP_MOVES)]


# KafkaJS: the round-robin assigner takes the leader's own topics for those of all members.
# https://github.com/tulios/kafkajs/issues/1679
def test_kafkajs_1679_a_member_gets_a_topic_that_it_does_not_read(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders, bills = kohort.topic("orders", 2), kohort.topic("bills", 2)
    a, b = classic("a", orders), classic("b", bills)
    rebalance({a: [0, 1], b: [0, 1]})
    assert verdict() == []
    rebalance({a: [0], b: [(orders, 1)]})
    assert verdict() == [("a", CLIENT, Invariant.SUBSCRIBED_ASSIGNMENT)]


# librdkafka: the leader looks for new partitions of its own topics only. Those of the other members' topics are never
# assigned. https://github.com/confluentinc/librdkafka/issues/4533
def test_librdkafka_4533_a_new_partition_is_never_assigned(kohort_factory: Callable[..., Broker]) -> None:
    broker = kohort_factory(topics={"orders": 1, "bills": 1}, limits=Limits(unassigned_ms=100, discovery_ms=0))
    kohort = Workspace(broker, "librdkafka_4533")
    a, b = Member(kohort, "a", broker.topic("orders")), Member(kohort, "b", broker.topic("bills"))
    with closing(a), closing(b):
        rebalance({a: [0], b: [0]})
        broker.check()
        broker.grow_topic("bills", 2)
        b.describe()
        rebalance({a: [0], b: [0]})
        while not broker.violations:
            b.fetch(0, 0, wait_ms=50)
        with pytest.raises(VerdictError, match=r"assigned partitions.* bills-1 "):
            broker.check()
