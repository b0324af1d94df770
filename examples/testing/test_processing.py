"""Bugs that no request shows: the application gets records twice, in another order, or never. An audit finds them."""

from collections.abc import Callable

from kohort.testing import Workspace

from .conftest import Processed
from .stubs import ConsumerMember, Member, rebalance

Classic = Callable[..., Member]
NewMember = Callable[..., ConsumerMember]


# Faust with concurrency=2: the offset behind a record that is still in progress is committed. After a crash, nobody
# processes that record. https://github.com/faust-streaming/faust/issues/606
def test_faust_606_a_record_in_progress_is_committed(kohort: Workspace, classic: Classic, processed: Processed) -> None:
    orders = kohort.topic("orders")
    a, b = classic("a", orders), classic("b", orders)
    processed.produce(orders, 5)
    rebalance({a: [0]})
    _slow, *others = a.read(0, 0)
    processed.by(a, *others)
    a.commit(0, 5)  # `_slow` is still in progress when the process is killed
    kohort.broker.expire_member(kohort.group(), a.member_id)
    rebalance({b: [0]})
    processed.produce(orders, 1)
    processed.by(b, *b.read(0, b.committed(0)[0]))
    assert processed.findings() == [("skipped", 0, 0)]


# Faust without tables: after a rebalance, streams go on before the position is set back to the committed offset.
# https://github.com/faust-streaming/faust/issues/216
def test_faust_216_records_are_skipped_after_a_rebalance(
    kohort: Workspace, classic: Classic, processed: Processed
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    processed.produce(orders, 4)
    rebalance({a: [0, 1]})
    records = a.read(0, 0)
    processed.by(a, *records[:2])  # the other two wait in a queue, which the rebalance empties
    a.commit(0, 2)
    rebalance({a: [0], b: [1]})
    processed.produce(orders, 2)
    processed.by(a, *a.read(0, records[-1].offset + 1))  # instead of a.committed(0)
    assert processed.findings() == [("skipped", 2, 3)]


# Faust: an event that was fetched before the rebalance is processed after it, before those that should come first.
# https://github.com/faust-streaming/faust/issues/221
def test_faust_221_a_prefetched_record_comes_out_of_order(
    kohort: Workspace, classic: Classic, processed: Processed
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    processed.produce(orders, 4)
    rebalance({a: [0, 1]})
    *records, prefetched = a.read(0, 0)
    processed.by(a, records[0])
    a.commit(0, 1)
    rebalance({a: [0], b: [1]})
    processed.by(a, prefetched, *a.read(0, 1))
    assert processed.findings() == [("reordered", 1, 2), ("read twice", 3, 3)]


# FluidFramework's consumer of node-rdkafka: a record of a partition that is not assigned moves the saved position, from
# which the partition is read when it comes back. https://github.com/microsoft/FluidFramework/pull/9404
def test_fluid_framework_9404_a_record_of_an_unassigned_partition_moves_the_position(
    kohort: Workspace, classic: Classic, processed: Processed
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    processed.produce(orders, 3)
    rebalance({a: [0, 1]})
    processed.by(a, a.read(0, 0)[0])
    ignored = a.read(0, 1)[0]  # arrives while the partition is not assigned
    rebalance({a: [1], b: [0]})
    rebalance({a: [0, 1], b: []})
    processed.by(a, *a.read(0, ignored.offset + 1))
    assert processed.findings() == [("skipped", 1, 1)]


# Kafka-Pixy: the offset manager stops before it has committed the last offset of a partition that it gives up.
# https://github.com/mailgun/kafka-pixy/issues/62
def test_kafka_pixy_62_the_last_commit_is_missing(kohort: Workspace, classic: Classic, processed: Processed) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    processed.produce(orders, 3)
    rebalance({a: [0, 1]})
    processed.by(a, *a.read(0, 0))
    a.commit(0, 1)  # and 3 is lost
    rebalance({a: [1], b: [0]})
    processed.by(b, *b.read(0, b.committed(0)[0]))
    assert processed.findings() == [("read twice", 1, 2)]


# Apache Kafka's new consumer before 4.0: between its last commit for partitions and giving them up, it still returns
# their records. https://github.com/apache/kafka/pull/17777 (KAFKA-16460)
def test_kafka_16460_records_are_returned_after_the_last_commit(
    kohort: Workspace, consumer: NewMember, processed: Processed
) -> None:
    orders = kohort.topic("orders")
    a, b = consumer("a", orders), consumer("b", orders)
    processed.produce(orders, 3)
    a.settle()
    record, *buffered = a.read(0, 0)
    processed.by(a, record)
    a.commit(0, 1)
    processed.by(a, *buffered)
    a.leave()
    b.settle()
    processed.by(b, *b.read(0, b.committed(0)[0]))
    assert processed.findings() == [("read twice", 1, 2)]


# Silverback with auto commit: the consumer stops at a record that cannot be processed, and commits the offset behind
# it. https://github.com/BEagle1984/silverback/issues/253
def test_silverback_253_a_record_that_failed_is_committed(
    kohort: Workspace, classic: Classic, processed: Processed
) -> None:
    orders = kohort.topic("orders")
    a, b = classic("a", orders), classic("b", orders)
    processed.produce(orders, 3)
    rebalance({a: [0]})
    processed.by(a, a.read(0, 0)[0])
    a.commit(0, 2)  # the record at offset 1 has failed
    a.leave()
    rebalance({b: [0]})
    processed.by(b, *b.read(0, b.committed(0)[0]))
    assert processed.findings() == [("skipped", 1, 1)]


# Karafka: after a rebalance, a partition is delivered while its last batch is in progress.
# https://github.com/karafka/karafka/pull/758
def test_karafka_758_a_partition_is_delivered_while_its_last_batch_is_in_progress(
    kohort: Workspace, classic: Classic, processed: Processed
) -> None:
    orders = kohort.topic("orders", 2)
    a, b = classic("a", orders), classic("b", orders)
    processed.produce(orders, 3)
    rebalance({a: [0, 1]})
    batch = a.read(0, 0)
    rebalance({a: [0], b: [1]})
    processed.by(a, *a.read(0, 0))
    processed.by(a, *batch)
    assert processed.findings() == [("read twice", 0, 2)]


# Spark's Kafka source with failOnDataLoss=false: a range with missing offsets returns the record behind it twice.
# https://github.com/apache/spark/pull/22207 (SPARK-25214)
def test_spark_22207_a_range_with_missing_offsets_returns_a_record_twice(
    kohort: Workspace, classic: Classic, processed: Processed
) -> None:
    orders = kohort.topic("orders")
    executor = classic("executor", orders)
    processed.produce(orders, 3)
    for start in (0, 1, 1, 2):  # for a missing offset, it searches again and finds the same record
        processed.by(executor, executor.read(0, start)[0])
    assert processed.findings() == [("read twice", 1, 1)]
