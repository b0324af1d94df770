"""Bugs of clients that commit what they should not. Each test repeats what the client sent."""

from collections.abc import Callable

from kohort.errors import ErrorCode
from kohort.testing import Fault, Invariant, Workspace

from .conftest import Verdict
from .stubs import Member, rebalance

Classic = Callable[..., Member]
CLIENT = Fault.CLIENT


# librdkafka: a partition comes back, and the consumer goes on at its own old position instead of the committed one.
# https://github.com/confluentinc/librdkafka/issues/1767
def test_librdkafka_1767_a_partition_that_comes_back_is_read_from_the_old_position(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0, 1]})
    orders.produce("0", "1", partition=0)
    a.commit(0, position := a.fetch(0, 0))
    rebalance({a: [1], b: [0]})
    orders.produce("2", "3", partition=0)
    b.commit(0, b.fetch(0, 2))
    rebalance({a: [0, 1], b: []})
    assert verdict() == []
    a.fetch(0, position)  # instead of a.committed(0)
    a.commit(0, position + 1)
    assert verdict() == [("a", CLIENT, Invariant.FORWARD_COMMITS)]


# librdkafka before 1.9: the application stores an offset of a partition that it has lost. It is committed as soon as
# the partition comes back. https://github.com/confluentinc/librdkafka/pull/3774
def test_librdkafka_3774_an_offset_stored_after_the_revocation_is_committed_later(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    orders.produce("0", "1", "2")
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0]})
    stored = a.fetch(0, 0) - 1  # while the application processes the second record ...
    rebalance({a: [], b: [0]})  # ... it loses the partition, and stores the offset all the same
    b.commit(0, b.fetch(0, 0))
    rebalance({a: [0], b: []})
    assert a.committed(0) == (3, ErrorCode.NONE)
    a.commit(0, 3)
    assert verdict() == []
    a.commit(0, stored)
    assert verdict() == [("a", CLIENT, Invariant.FORWARD_COMMITS)]


# reactive-kafka (Alpakka): the map of offsets to commit keeps partitions that another member has now.
# https://github.com/akka/alpakka-kafka/issues/141
def test_alpakka_141_offsets_of_a_partition_that_moved_are_committed_again(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders", 2)
    orders.produce("0", "1", partition=1)
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0, 1]})
    a.commit(1, a.fetch(1, 0))
    rebalance({a: [0], b: [1]})
    orders.produce("2", "3", partition=1)
    b.commit(1, b.fetch(1, 2))
    assert verdict() == []
    a.commit(1, 2)
    assert verdict() == [("a", CLIENT, Invariant.FORWARD_COMMITS), ("a", CLIENT, Invariant.OWNED_COMMITS)]


# Reactor Kafka with receiveAtmostOnce: at its end, a receiver commits every partition that it ever had, one too far.
# https://github.com/reactor/reactor-kafka/issues/421
def test_reactor_kafka_421_a_receiver_commits_at_its_end_what_it_has_lost(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders", 2)
    orders.produce("0", "1", partition=1)
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0, 1]})
    a.commit(1, read := a.fetch(1, 0))
    rebalance({a: [0], b: [1]})
    assert verdict() == []
    a.commit(1, read + 1)
    assert verdict() == [("a", CLIENT, Invariant.FETCHED_COMMITS), ("a", CLIENT, Invariant.OWNED_COMMITS)]


# ruby-kafka: the application marks a record of a partition that it lost as processed. Its offset is kept
# and committed. https://github.com/zendesk/ruby-kafka/pull/824
def test_ruby_kafka_824_a_buffered_record_of_a_lost_partition_is_committed(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    rebalance({a: [0, 1]})
    orders.produce("0", partition=0)
    orders.produce("1", "2", partition=1)
    buffered = a.read(1, 0)
    rebalance({a: [0], b: [1]})
    a.commit(0, a.fetch(0, 0))
    assert verdict() == []
    a.commit(1, buffered[-1].offset + 1)
    assert verdict() == [("a", CLIENT, Invariant.OWNED_COMMITS)]


# Kafka-Pixy: offsets beyond the end of the log were committed, and nothing was read until the log had grown.
# https://github.com/mailgun/kafka-pixy/issues/196
def test_kafka_pixy_196_an_offset_beyond_the_end_is_committed(
    kohort: Workspace, classic: Classic, verdict: Verdict
) -> None:
    orders = kohort.topic("orders")
    orders.produce("0", "1", "2")
    a = classic("a", orders)
    rebalance({a: [0]})
    a.commit(0, end := a.fetch(0, 0))
    assert verdict() == []
    a.commit(0, end + 108)
    assert verdict() == [("a", CLIENT, Invariant.FETCHED_COMMITS)]
