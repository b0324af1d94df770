"""Groups that commit while a query runs: their rate and their lag come out of the stream."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kohort.analytics.ends import ends_of_cluster
from kohort.analytics.source import OFFSETS_TOPIC
from kohort.analytics.stream import commit_rates, committed, live, lives, rebalances, with_lag
from tests.analytics.lives import live_twice
from tests.interop.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def _commit(bootstrap: str, group: str, topic: str, offsets: list[int]) -> None:
    """Commit from outside the group's membership, one offset after the other."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    for offset in offsets:
        consumer.commit(offsets=[Position(topic, 0, offset)], asynchronous=False)
    consumer.close()


def _run(directory: Path, **frames: DataFrame) -> None:
    """Each to its end, into a table in memory of that name."""
    for name, frame in frames.items():
        query = (
            frame.writeStream.format("memory")
            .queryName(name)
            .outputMode("complete")
            .option("checkpointLocation", str(directory / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def test_rate_and_lag_of_a_group_come_out_of_the_stream(
    spark: SparkSession, any_broker: Broker, tmp_path: Path
) -> None:
    bootstrap, topic, group = any_broker.bootstrap, f"flights-{uuid.uuid4().hex[:8]}", f"delays-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result(10)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(20):
        producer.produce(topic, b"late", partition=0)
    assert producer.flush(20) == 0
    _commit(bootstrap, group, topic, [3, 5, 9])

    history = live(spark, bootstrap, starting="earliest").where(f"group_id = '{group}'")
    _run(tmp_path, rates=commit_rates(history), positions=committed(history))
    assert sum(row["commits"] for row in spark.table("rates").collect()) == 3
    rows = with_lag(spark.table("positions"), bootstrap).orderBy("end").collect()
    assert (rows[-1]["topic"], rows[-1]["committed"], rows[-1]["end_offset"], rows[-1]["lag"]) == (topic, 9, 20, 11)


def test_a_group_that_reads_an_internal_topic_has_a_lag_and_a_deleted_topic_has_none(
    spark: SparkSession, any_broker: Broker
) -> None:
    bootstrap, group = any_broker.bootstrap, f"audit-{uuid.uuid4().hex[:8]}"
    _commit(bootstrap, group, OFFSETS_TOPIC, [0])
    positions = [(OFFSETS_TOPIC, 0, 0), ("deleted-since", 0, 3)]
    batch = spark.createDataFrame(positions, "topic STRING, partition INT, committed BIGINT")
    here, gone = with_lag(batch, bootstrap).orderBy("topic").collect()
    assert here["end_offset"] == here["lag"] is not None
    assert (gone["end_offset"], gone["lag"]) == (None, None)
    spark.createDataFrame(
        [(OFFSETS_TOPIC, 0, 0, "commits", 1)],
        "topic STRING, partition INT, window_at BIGINT, kind STRING, commits BIGINT",
    ).createOrReplaceTempView("history")
    ends = ends_of_cluster(spark, bootstrap, 60_000, lambda name: None).collect()
    assert {(row["topic"], row["partition"]) for row in ends} == {(OFFSETS_TOPIC, 0)}


def test_rebalances_and_members_that_return_come_out_of_the_stream(
    spark: SparkSession, any_broker: Broker, tmp_path: Path
) -> None:
    lived = {protocol: live_twice(any_broker.bootstrap, protocol) for protocol in ("classic", "consumer")}
    history = live(spark, any_broker.bootstrap, starting="earliest")
    _run(tmp_path, rebalanced=rebalances(history), lived=lives(history))
    for group_history in lived.values():
        # Two members joined, each of them alone.
        mine = spark.table("rebalanced").where(f"group_id = '{group_history.group}'").collect()
        assert sum(row["rebalances"] for row in mine) >= 2
        rows = spark.table("lived").where(f"group_id = '{group_history.group}'").collect()
        assert {row["member_name"] for row in rows} == {"rdkafka"}
        assert sum(row["lives"] for row in rows) >= 2
