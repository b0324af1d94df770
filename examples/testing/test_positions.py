"""Bugs of clients that read from a wrong position, or read partitions of others. Each test repeats the requests."""

from collections.abc import Callable

from kohort.errors import ErrorCode
from kohort.testing import Fault, Invariant, Workspace

from .conftest import Verdict
from .stubs import ConsumerMember, Member, rebalance

Classic = Callable[..., Member]
NewMember = Callable[..., ConsumerMember]
CLIENT = Fault.CLIENT


# @platformatic/kafka: an OffsetFetch that fails with STALE_MEMBER_EPOCH counts as "nothing is committed".
# https://github.com/platformatic/kafka/issues/267
def test_platformatic_267_the_position_is_reset_because_offset_fetch_failed(
    kohort: Workspace, consumer: NewMember, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    orders.produce("0", "1")
    a, b = consumer("a", orders), consumer("b", orders)
    a.settle()
    a.commit(0, a.fetch(0, 0))
    a.leave()
    b.settle()
    kohort.fault(keys="OffsetFetch", error="STALE_MEMBER_EPOCH")
    assert b.committed(0) == (-1, ErrorCode.STALE_MEMBER_EPOCH)
    assert verdict() == []
    b.fetch(0, b.first_offset(0))  # instead of b.committed(0) once more
    assert verdict() == [("b", CLIENT, Invariant.LEARNED_POSITIONS)]


# Reactor Kafka: records of partitions that were revoked are still read, 15 s later in this report.
# https://github.com/reactor/reactor-kafka/issues/181
def test_reactor_kafka_181_a_consumer_reads_on_after_the_revocation(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0, 1]})
    a.fetch(1, 0)
    rebalance({a: [0], b: [1]})
    a.fetch(1, 0)  # may have been on its way
    assert verdict() == []
    kohort.broker.advance(15_000)
    a.fetch(1, 0)
    assert verdict() == [("a", CLIENT, Invariant.OWNED_FETCHES)]


# librdkafka: a consumer that is no member any more, as the broker says, goes on as if it were one.
# https://github.com/confluentinc/librdkafka/issues/939
def test_librdkafka_939_a_consumer_that_was_removed_reads_on(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    a = classic("a", orders, timeout_ms=10_000)
    rebalance({a: [0]})
    a.fetch(0, 0)
    kohort.broker.expire_member(kohort.group(), a.member_id)
    assert a.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    a.fetch(0, 0)  # may have been on its way
    assert verdict() == []
    kohort.broker.advance(15_000)
    a.fetch(0, 0)
    assert verdict() == [("a", CLIENT, Invariant.OWNED_FETCHES)]
