"""Records that executors write, without Spark, to a Kohort broker (`--broker kafka`: Apache Kafka)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from kohort.client.produce import murmur2
from kohort.errors import KafkaError, KohortError
from kohort.requests import ProducerId
from pyspark_kohort.net.cluster import BlockingCluster
from pyspark_kohort.sink.options import SinkOptions, parse_sink_options
from pyspark_kohort.sink.sending import new_numbers
from pyspark_kohort.sink.sink import StreamWriter
from pyspark_kohort.sink.writing import write_rows
from tests.spark.conftest import Topic

NewTopic = Callable[[int], Topic]
Found = tuple[int, bytes | None, bytes | None]


def contents(topic: Topic) -> list[Found]:
    """(partition, key, value) of every record, each partition's in order."""
    # To be given the next partition it waits for the answer about the last one, which has no more records.
    quick = {"fetch.wait.max.ms": 10, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "contents"} | quick)
    found: list[Found] = []
    try:
        for number in range(topic.partitions):
            position = Position(topic.name, number, 0)
            _, end = consumer.get_watermark_offsets(position, timeout=10)
            consumer.assign([position])
            left = end
            while left:
                for message in consumer.consume(left, timeout=10):
                    assert message.error() is None
                    found.append((number, message.key(), message.value()))
                    left -= 1
    finally:
        consumer.close()
    return found


def options(topic: Topic, **given: str) -> SinkOptions:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return parse_sink_options({"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name} | named)


def batch(keys: list[bytes | None], values: list[bytes | None], **more: pa.Array) -> pa.RecordBatch:  # type: ignore[type-arg]
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())} | more
    return pa.record_batch(columns)


def numbered(count: int, first: int = 0) -> pa.RecordBatch:
    ids = range(first, first + count)
    return batch([b"k%d" % n for n in ids], [b"v%d" % n for n in ids])


def write(topic: Topic, *batches: pa.RecordBatch, **given: str) -> int:
    return write_rows(iter(batches), options(topic, **given), None, seed=0, resume=False)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_with_keys_go_where_every_other_producer_puts_them(new_topic: NewTopic, codec: str) -> None:
    topic = new_topic(5)
    assert write(topic, numbered(300), numbered(300, 300), kafka_compression_type=codec) == 600
    expected = [(murmur2(b"k%d" % n) % 5, b"k%d" % n, b"v%d" % n) for n in range(600)]
    assert contents(topic) == sorted(expected, key=lambda record: record[0])


def test_rows_without_a_key_share_a_partition_and_the_next_batch_takes_another(new_topic: NewTopic) -> None:
    topic = new_topic(3)
    write(topic, batch([None, None], [b"a", None]), batch([None], [b"b"]))
    assert contents(topic) == [(0, None, b"a"), (0, None, None), (1, None, b"b")]


def test_a_row_may_name_its_topic_and_partition(new_topic: NewTopic) -> None:
    one, other = new_topic(2), new_topic(2)
    rows = batch(
        [b"x"] * 4,
        [b"0", b"1", b"2", b"3"],
        topic=pa.array([one.name, other.name, other.name, one.name]),
        partition=pa.array([1, 0, 1, None], pa.int32()),
    )
    by_column = parse_sink_options({"kafka.bootstrap.servers": one.bootstrap})
    assert write_rows(iter([rows]), by_column, None, seed=0, resume=False) == 4
    assert contents(other) == [(0, b"x", b"1"), (1, b"x", b"2")]
    assert sorted(contents(one)) == sorted([(1, b"x", b"0"), (murmur2(b"x") % 2, b"x", b"3")])


def test_headers_are_written(new_topic: NewTopic) -> None:
    topic = new_topic(1)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None], kind)
    write(topic, batch([None, None], [b"x", b"y"], headers=headers))
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": "headers", "log_level": 0})
    consumer.assign([Position(topic.name, 0, 0)])
    first, second = consumer.consume(2, timeout=10)
    consumer.close()
    assert (first.headers(), second.headers()) == ([("a", b"1"), ("b", None)], None)


def test_many_rows_are_sent_in_requests_of_the_size_that_is_allowed(new_topic: NewTopic) -> None:
    topic = new_topic(3)
    given = {"kafka_max_request_size": "20000", "kafka_buffer_memory": "50000"}
    assert write(topic, *(numbered(2_000, first) for first in range(0, 10_000, 2_000)), **given) == 10_000
    assert {value for _, _, value in contents(topic)} == {b"v%d" % n for n in range(10_000)}
    assert len(contents(topic)) == 10_000


def test_a_row_that_the_topic_does_not_take_fails_the_task_with_the_reason(new_topic: NewTopic) -> None:
    topic = new_topic(1)
    with pytest.raises(KafkaError, match=r"a row is larger than the topic's max.message.bytes"):
        write(topic, batch([None], [b"x" * 2_000_000]))
    with pytest.raises(KohortError, match=f"A row's partition is 1, and topic {topic.name} has 1"):
        write(topic, batch([None], [b"x"], partition=pa.array([1], pa.int32())))


class Lost(Exception):
    """The executor is gone."""


@pytest.fixture
def number(new_topic: NewTopic) -> ProducerId:
    cluster = BlockingCluster(options(new_topic(1)).broker)
    (made,) = new_numbers(cluster, 1)
    cluster.close()
    return made


def test_an_attempt_after_a_failed_one_continues_behind_it(new_topic: NewTopic, number: ProducerId) -> None:
    topic = new_topic(3)
    tight = options(topic, kafka_max_request_size="16384", kafka_buffer_memory="40000")
    batches = [numbered(1_000, first) for first in range(0, 8_000, 1_000)]

    def dies(after: int) -> Iterator[pa.RecordBatch]:
        yield from batches[:after]
        raise Lost

    for after in (3, 6):
        with pytest.raises(Lost):
            write_rows(dies(after), tight, number, seed=0, resume=after > 3)
    begun = contents(topic)
    assert 0 < len(begun) < 8_000
    assert write_rows(iter(batches), tight, number, seed=0, resume=True) == 8_000
    expected = [(murmur2(b"k%d" % n) % 3, b"k%d" % n, b"v%d" % n) for n in range(8_000)]
    assert contents(topic) == sorted(expected, key=lambda record: record[0])


def test_two_attempts_at_once_write_each_row_once(new_topic: NewTopic, number: ProducerId) -> None:
    # The first one continues after the second has begun: the sequence shows the broker which of them is late.
    topic = new_topic(1)
    second = iter([numbered(10), numbered(10, 10)])

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield numbered(10)
        write_rows(second, options(topic), number, seed=0, resume=False)
        yield numbered(5, 10)

    with pytest.raises(KafkaError, match="another attempt of this task has written meanwhile"):
        write_rows(overtaken(), options(topic), number, seed=0, resume=False)
    assert len(contents(topic)) == 20


def test_a_query_keeps_its_producer_ids_and_raises_their_epoch_with_every_micro_batch(new_topic: NewTopic) -> None:
    # Spark pickles a writer more than once, and only tasks that have the same number know each other's rows.
    topic = new_topic(1)
    first, again = (StreamWriter(options(topic, checkpointLocation="a")) for _ in range(2))
    numbers, same, later = (pickle.loads(pickle.dumps(writer))._numbers for writer in (first, first, again))
    assert numbers == same
    assert [number.id for number in later] == [number.id for number in numbers]
    assert {number.epoch for number in later} == {numbers[0].epoch + 1}
    other = pickle.loads(pickle.dumps(StreamWriter(options(topic, checkpointLocation="b"))))._numbers
    assert not {number.id for number in other} & {number.id for number in numbers}
