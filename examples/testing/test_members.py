"""Bugs of clients that do not do their part in a classic group. Each test repeats what the client sent."""

from collections.abc import Callable

from kohort.errors import ErrorCode
from kohort.testing import Fault, Invariant, Workspace

from .conftest import Verdict
from .stubs import Member, rebalance

Classic = Callable[..., Member]
CLIENT = Fault.CLIENT


# aiokafka: a commit that fails during SyncGroup resets the generation, so the member syncs "with generation -1".
# https://github.com/aio-libs/aiokafka/issues/727
def test_aiokafka_727_a_member_has_generation_minus_one(kohort: Workspace, classic: Classic, verdict: Verdict) -> None:
    orders = kohort.topic("orders")
    a = classic("a", orders)
    rebalance({a: [0]})
    assert a.commit(0, 0) == ErrorCode.NONE
    assert verdict() == []
    a.generation = -1
    assert a.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert verdict() == [("a", CLIENT, Invariant.GIVEN_EPOCHS)]


# aiokafka: after max_poll_interval_ms, the consumer leaves the group, does not join again, and commits for ever.
# https://github.com/aio-libs/aiokafka/issues/625
def test_aiokafka_625_a_consumer_leaves_and_goes_on(kohort: Workspace, classic: Classic, verdict: Verdict) -> None:
    orders = kohort.topic("orders")
    orders.produce("0")
    a = classic("a", orders)
    rebalance({a: [0]})
    a.fetch(0, 0)
    a.leave()
    assert a.commit(0, 1) == ErrorCode.UNKNOWN_MEMBER_ID  # a commit may cross the LeaveGroup
    assert verdict() == []
    kohort.broker.advance(1_000)  # by now, all that crossed it has arrived
    for _ in range(40):
        a.commit(0, 1)
    assert verdict() == [("a", CLIENT, Invariant.FENCED_MEMBERS_JOIN)]


# KafkaJS 2: ILLEGAL_GENERATION counts as "rebalancing", and the consumer repeats its request instead of joining.
# https://github.com/tulios/kafkajs/pull/1727
def test_kafkajs_1727_a_consumer_repeats_a_generation_that_is_over(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0]})
    old = a.generation
    rebalance({a: [0], b: []})
    assert verdict() == []
    a.generation = old
    assert {a.heartbeat() for _ in range(12)} == {ErrorCode.ILLEGAL_GENERATION}
    assert verdict() == [("a", CLIENT, Invariant.FENCED_MEMBERS_JOIN)]


# KafkaEx: MEMBER_ID_REQUIRED is repeated like any error, so each JoinGroup gets another member ID.
# https://github.com/kafkaex/kafka_ex/issues/539
def test_kafka_ex_539_a_client_never_uses_the_member_id_that_it_gets(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0]})
    assert verdict() == []
    assert len({b.ask_for_an_id() for _ in range(12)}) == 12
    assert verdict() == [("b", CLIENT, Invariant.KEPT_MEMBER_ID)]


# kafka-python 2.1: REBALANCE_IN_PROGRESS resets the member ID too. The consumer joins under a new one, and all others
# wait for the old one until its timeout. https://github.com/dpkp/kafka-python/pull/2614
def test_kafka_python_2614_a_member_is_left_behind(kohort: Workspace, classic: Classic, verdict: Verdict) -> None:
    orders = kohort.topic("orders")
    a, b = classic("a", orders, timeout_ms=1_000), classic("b", orders)
    rebalance({a: [0]})
    b.join()
    assert a.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert verdict() == []
    a.member_id = ""
    a.join()
    assert (b.joined(), a.joined()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert verdict() == [("a", CLIENT, Invariant.KEPT_MEMBER_ID)]


# Apache Kafka's consumer: a member sends heartbeats but never SyncGroup, and the group waits for it.
# https://github.com/apache/kafka/pull/10863 (KAFKA-12890)
def test_kafka_12890_a_member_never_sends_sync_group(kohort: Workspace, classic: Classic, verdict: Verdict) -> None:
    orders = kohort.topic("orders")
    a = classic("a", orders, timeout_ms=1_000)
    a.join()
    a.joined()
    assert verdict() == []
    while a.heartbeat() != ErrorCode.UNKNOWN_MEMBER_ID:
        a.fetch(0, 0, wait_ms=50)
    assert verdict() == [("a", CLIENT, Invariant.SYNC_AFTER_JOIN)]


# ruby-kafka (and Karafka 1, which uses it): processing takes longer than the session, so the consumer leaves and joins
# all the time. https://github.com/zendesk/ruby-kafka/issues/767
def test_ruby_kafka_767_a_consumer_joins_and_leaves_all_the_time(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    a = classic("a", orders)
    rebalance({a: [0]})
    a.leave()
    assert verdict() == []
    for _ in range(6):
        a.member_id, a.generation = "", -1
        rebalance({a: [0]})
        a.leave()
    assert verdict() == [("a", CLIENT, Invariant.NO_STORM)]


# sarama-cluster: heartbeats begin when all partition consumers are made. If that takes longer than the session,
# the group rebalances without end. https://github.com/bsm/sarama-cluster/issues/25
def test_sarama_cluster_25_a_consumer_reads_without_heartbeats(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    a = classic("a", orders, timeout_ms=2_000)
    rebalance({a: [0]})
    assert verdict() == []
    while kohort.group().members:
        a.fetch(0, 0, wait_ms=50)
    assert verdict() == [("a", CLIENT, Invariant.HEARTBEATS)]


# brod: a fenced static member joins again after ten seconds. Two processes with one instance ID fence each other.
# https://github.com/kafka4beam/brod/pull/674
def test_brod_674_two_processes_with_one_instance_id(kohort: Workspace, classic: Classic, verdict: Verdict) -> None:
    orders = kohort.topic("orders")
    a, b = (classic(name, orders, instance_id="worker-1") for name in "ab")
    rebalance({a: [0]})
    for fenced, newcomer in ((a, b), (b, a), (a, b)):
        assert verdict() == []  # the first is a replacement, the second a process that returns once
        newcomer.member_id = ""
        newcomer.join()
        assert newcomer.joined() == ErrorCode.NONE
        assert fenced.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert verdict() == [("a", CLIENT, Invariant.ONE_INSTANCE)]


# Apache Kafka's consumer: REBALANCE_IN_PROGRESS in answer to a heartbeat does not make the member join, so the group
# waits for it until the rebalance timeout. https://github.com/apache/kafka/pull/9354
def test_kafka_9354_a_member_ignores_a_rebalance(kohort: Workspace, classic: Classic, verdict: Verdict) -> None:
    orders = kohort.topic("orders")
    a, b = classic("a", orders, timeout_ms=1_500), classic("b", orders, timeout_ms=1_500)
    rebalance({a: [0]})
    b.join()
    assert a.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert verdict() == []
    while a.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
        a.fetch(0, 0, wait_ms=50)
    assert b.joined() == ErrorCode.NONE
    assert verdict() == [("a", CLIENT, Invariant.JOINED_REBALANCES)]


# @platformatic/kafka: a static member that is fenced goes on under its old member ID.
# https://github.com/platformatic/kafka/pull/383
def test_platformatic_383_a_fenced_static_member_goes_on(kohort: Workspace, classic: Classic, verdict: Verdict) -> None:
    orders = kohort.topic("orders")
    a = classic("a", orders, instance_id="worker-1")
    rebalance({a: [0]})
    kohort.broker.fence_instance(kohort.group(), "worker-1")
    assert a.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert verdict() == []
    assert {a.heartbeat() for _ in range(12)} == {ErrorCode.FENCED_INSTANCE_ID}
    assert verdict() == [("a", CLIENT, Invariant.FENCED_MEMBERS_JOIN)]
