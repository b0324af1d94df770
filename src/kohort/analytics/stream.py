"""Structured streams over the same decoder: commit rates, lag, rebalances and flapping members in real time.

Records are decoded and aggregated within each batch. The state between batches is native
aggregation of Spark, a few numbers per group or partition and window; Python keeps no state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.analytics.schema import Kind
from kohort.analytics.source import OFFSETS_TOPIC, decoded_rows
from kohort.model import TopicPartition
from pyspark_kohort.net import BlockingCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DECODED_WINDOW_MS = 1_000


def live(spark: SparkSession, bootstrap: str, starting: str = "latest") -> DataFrame:
    """Return the history as an unbounded frame; its column `time` is the time of the commit or record."""
    raw = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", OFFSETS_TOPIC)
        .option("startingOffsets", starting)
        .load()
    )
    return decoded_rows(raw, _DECODED_WINDOW_MS).rows().selectExpr("*", "timestamp_millis(at) AS time")


def commit_rates(history: DataFrame, window: str = "1 minute", late: str = "2 minutes") -> DataFrame:
    """Return the commits of each group in each window. A window is final, and may be appended, after `late`."""
    from pyspark.sql import functions as f

    return (
        _commits(history, late)
        .groupBy(f.window("time", window), "group_id")
        .agg(f.sum("commits").alias("commits"))
        .select("group_id", f.col("window.start").alias("begin"), f.col("window.end").alias("end"), "commits")
    )


def committed(history: DataFrame, window: str = "1 minute", late: str = "2 minutes") -> DataFrame:
    """Return the last offset that each group committed for each partition in each window."""
    from pyspark.sql import functions as f

    return (
        _commits(history, late)
        .groupBy(f.window("time", window), "group_id", "topic", "partition")
        .agg(f.max_by("last_offset", "last_position").alias("committed"), f.sum("commits").alias("commits"))
        .select("group_id", "topic", "partition", f.col("window.end").alias("end"), "committed", "commits")
    )


def rebalances(history: DataFrame, window: str = "1 minute", late: str = "2 minutes") -> DataFrame:
    """Return the number of generations or group epochs of each group in each window; many of them mean thrashing."""
    from pyspark.sql import functions as f

    return (
        history.where(f"kind IN ('{Kind.GENERATION}', '{Kind.EPOCH}') AND alive")
        .withWatermark("time", late)
        .groupBy(f.window("time", window), "group_id")
        .agg(f.count("*").alias("rebalances"), f.max("epoch").alias("epoch"))
        .select(
            "group_id", f.col("window.start").alias("begin"), f.col("window.end").alias("end"), "rebalances", "epoch"
        )
    )


def lives(history: DataFrame, window: str = "1 hour", late: str = "2 minutes") -> DataFrame:
    """Return the number of member ids of each member in each window: three or more mean that it flaps.

    A member is identified by its instance id, or by its client id and host, as in the table
    `flapping`. The state of a query has each member id of a window.
    """
    from pyspark.sql import functions as f

    seen = (
        history.where(f"kind IN ('{Kind.GENERATION}', '{Kind.MEMBER}') AND alive")
        .withWatermark("time", late)
        .selectExpr(
            *("time", "group_id"),
            f"explode(if(kind = '{Kind.GENERATION}', transform(members, m -> {_SEEN.format(of='m.')}),"
            f" array({_SEEN.format(of='')}))) AS seen",
        )
    )
    return (
        seen.groupBy(f.window("time", window), "group_id", "seen.member_name", "seen.client_host")
        # approx_count_distinct counts two ids as one in one of a thousand cases.
        .agg(f.size(f.collect_set("seen.member_id")).alias("lives"))
        .select("group_id", "member_name", "client_host", f.col("window.end").alias("end"), "lives")
    )


_SEEN = (
    "named_struct('member_id', {of}member_id, 'member_name', coalesce({of}instance_id, {of}client_id),"
    " 'client_host', {of}client_host)"
)


def with_lag(batch: DataFrame, bootstrap: str) -> DataFrame:
    """Return a batch of `committed`, inside `foreachBatch`, with the current `end_offset`, and `lag`.

    Both are null for a topic that was deleted since.
    """
    named = batch.select("topic", "partition").distinct().collect()
    tps = {TopicPartition(row["topic"], row["partition"]) for row in named}
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": OFFSETS_TOPIC}
    cluster = BlockingCluster.of(given)
    try:
        there = cluster.all_partitions()  # a group may read an internal topic
        ends = [(tp.topic, tp.partition, end) for tp, end in cluster.ends(sorted(tps & there)).items()]
    finally:
        cluster.close()
    known = batch.sparkSession.createDataFrame(ends, "topic STRING, partition INT, end_offset BIGINT")
    return batch.join(known, ["topic", "partition"], "left").selectExpr(
        "*",
        "if(end_offset IS NULL, NULL, greatest(end_offset - committed, 0)) AS lag",  # greatest ignores null
    )


def _commits(history: DataFrame, late: str) -> DataFrame:
    return history.where(f"kind = '{Kind.COMMITS}' AND commits > 0").withWatermark("time", late)
