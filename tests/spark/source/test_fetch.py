"""Ranges out of a broker, as executors fetch them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kohort.errors import KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.wire.batches import BatchError
from pyspark_kohort.net.cluster import BlockingCluster, disconnect
from pyspark_kohort.offsets import EARLIEST, AtTime
from pyspark_kohort.options import Broker, Topics
from pyspark_kohort.source.fetch import read_ranges
from pyspark_kohort.source.plan import Range
from tests.columns.records import SCHEMA
from tests.interop.kafka import ApacheKafka
from tests.interop.kohort import running_kohort
from tests.spark.conftest import Topic, rows


def broker_at(bootstrap: str, **options: Any) -> Broker:
    host, _, port = bootstrap.rpartition(":")
    return replace(Broker(((host, int(port)),), retry_interval_ms=20), **options)


def read(topic: Topic, *ranges: Range, fail: bool = True, skip: bool = False, **options: int) -> list[tuple[int, int]]:
    broker = broker_at(topic.bootstrap, **options)
    batches = list(read_ranges(ranges, SCHEMA, broker, fail_on_data_loss=fail, skip_corrupt=skip))
    found = pa.Table.from_batches(batches, SCHEMA).to_pydict()
    return list(zip(found["partition"], found["offset"], strict=True))


def test_ranges_of_several_partitions_come_whole(bootstrap: str) -> None:
    topic = Topic(bootstrap, 3)
    for _ in range(5):
        topic.produce(rows(300, 3))
    ranges = [Range(topic.name, 0, 7, 431), Range(topic.name, 2, 0, 500), Range(topic.name, 1, 499, 500)]
    wanted = [(part.partition, offset) for part in ranges for offset in range(part.start, part.until)]
    assert sorted(read(topic, *ranges)) == sorted(wanted)
    # However little a fetch brings, and in however many pieces.
    assert sorted(read(topic, *ranges, fetch_bytes=2_000, partition_fetch_bytes=700)) == sorted(wanted)


def test_a_reader_that_stops_early_leaves_a_clean_slate(bootstrap: str) -> None:
    topic = Topic(bootstrap, 2)
    topic.produce(rows(100, 2))
    both = [Range(topic.name, 0, 0, 50), Range(topic.name, 1, 0, 50)]
    started = read_ranges(both, SCHEMA, broker_at(bootstrap, partition_fetch_bytes=100), fail_on_data_loss=True)
    next(started)
    started.close()  # type: ignore[attr-defined]
    assert len(read(topic, *both)) == 100


def test_missing_offsets_fail_or_are_skipped(bootstrap: str) -> None:
    topic = Topic(bootstrap, 2)
    topic.produce(rows(20, 2))
    beyond = Range(topic.name, 0, 40, 50)
    with pytest.raises(KohortError, match="offsets 40 to 50 are no longer there"):
        read(topic, beyond)
    assert read(topic, beyond, Range(topic.name, 1, 8, 10), fail=False) == [(1, 8), (1, 9)]


@pytest.mark.kafka
def test_a_damaged_batch_fails_or_is_skipped(apache_kafka: ApacheKafka, caplog: pytest.LogCaptureFixture) -> None:
    # On Apache Kafka's disk: it sends what it has, our broker would not.
    topic = Topic(apache_kafka.bootstrap, 1)
    for _ in range(3):
        topic.produce(rows(10, 1))
    segment = apache_kafka.log_dir / f"{topic.name}-0" / f"{0:020}.log"
    value = topic.written[0, 15][1]
    assert value is not None
    data = segment.read_bytes()
    with segment.open("r+b") as file:
        file.seek(data.index(value))
        file.write(b"V")
    whole = Range(topic.name, 0, 0, 30)
    with pytest.raises(BatchError, match=f"{topic.name}-0, batch with offsets 10 to 19: its checksum is wrong"):
        read(topic, whole)
    disconnect()
    assert [offset for _, offset in read(topic, whole, skip=True)] == [*range(10), *range(20, 30)]
    assert f"skipped 1 record batches whose checksum is wrong: {topic.name}-0 offsets 10 to 19" in caplog.text


def test_records_that_do_not_come_are_waited_for_and_then_named(bootstrap: str) -> None:
    topic = Topic(bootstrap, 1)
    topic.produce(rows(5, 1))
    with pytest.raises(KohortError, match=rf"No records for .* {topic.name}-0 from 5; see kafkaConsumer"):
        read(topic, Range(topic.name, 0, 0, 6), poll_timeout_ms=100)


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with running_kohort("--data", str(tmp_path)) as broker:
        topic = Topic(broker.bootstrap, 2)
        topic.produce(rows(40, 2))
        both = [Range(topic.name, 0, 0, 20), Range(topic.name, 1, 0, 20)]
        assert len(read(topic, *both)) == 40
    found: list[int] = []

    def waiting() -> None:
        found.append(len(read(topic, *both)))
        disconnect()

    reading = threading.Thread(target=waiting, daemon=True)
    reading.start()  # while no broker listens
    with running_kohort("--data", str(tmp_path), "--listen", topic.bootstrap):
        reading.join(30)
        assert found == [40]
        assert len(read(topic, *both)) == 40  # by the connection of the worker that has lived through it
        disconnect()


def test_the_cluster_returns_partitions_and_bounds(bootstrap: str) -> None:
    topic = Topic(bootstrap, 2)
    topic.produce(rows(10, 1))
    first, second = TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)
    cluster = BlockingCluster(broker_at(bootstrap))
    try:
        assert cluster.partitions(Topics(names=(topic.name,))) == [first, second]
        assert cluster.partitions(Topics(pattern=f"{topic.name[:-1]}.")) == [first, second]
        assert cluster.partitions(Topics(partitions=(second,))) == [second]
        assert cluster.ends([first, second]) == {first: 10, second: 0}
        assert cluster.resolve(EARLIEST, [first]) == {first: 0}
        # Everything was produced with one timestamp, see `Topic.produce`.
        assert cluster.bound(AtTime(1_700_000_000_000), [first]) == {first: 0}
        assert cluster.bound(AtTime(1_700_000_000_001, or_latest=True), [first]) == {first: 10}
        with pytest.raises(KohortError, match="no record at or after"):
            cluster.bound(AtTime(1_700_000_000_001), [first])
        with pytest.raises(KohortError, match=r"-9 does not exist"):
            cluster.partitions(Topics(partitions=(TopicPartition(topic.name, 9),)))
    finally:
        cluster.close()


def test_a_pattern_finds_no_internal_topics(bootstrap: str, group: str) -> None:
    topic = Topic(bootstrap, 2)
    topic.lag(group)  # looks the coordinator up, which makes __consumer_offsets
    cluster = BlockingCluster(broker_at(bootstrap))
    try:
        assert cluster.partitions(Topics(names=("__consumer_offsets",))), "named, it is there"
        assert cluster.partitions(Topics(pattern="__consumer_.*")) == []
        found = {partition.topic for partition in cluster.partitions(Topics(pattern=".*"))}
        assert topic.name in found
        assert not {name for name in found if name.startswith("__")}
        assert cluster.exists("__consumer_offsets") and not cluster.exists("__nothing")
        there = {partition.topic for partition in cluster.all_partitions()}
        assert {topic.name, "__consumer_offsets"} <= there
    finally:
        cluster.close()


def test_an_unreachable_broker_is_reported_in_time() -> None:
    cluster = BlockingCluster(Broker((("127.0.0.1", 1),), request_timeout_ms=50))
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1: Connection refused"):
        cluster.partitions(Topics(names=("flights",)))
