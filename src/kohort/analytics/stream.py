"""The same decoder in a structured stream: commit rates and lag of groups while they happen.

Records are decoded and summed up within each batch, and what is kept between batches is native aggregation of Spark, a
few numbers per group or partition and window; Python keeps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.analytics.job import decoded
from kohort.analytics.schema import RAW, Kind
from kohort.analytics.source import OFFSETS_TOPIC
from kohort.model import TopicPartition
from pyspark_kohort import options as reading_options
from pyspark_kohort.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DECODED_WINDOW_MS = 1_000


def live(spark: SparkSession, bootstrap: str, starting: str = "latest") -> DataFrame:
    """The history as an unbounded frame, whose column `time` is when a commit or a record was made."""
    raw = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", OFFSETS_TOPIC)
        .option("startingOffsets", starting)
        .load()
    )
    return decoded(raw.select(*RAW.names), _DECODED_WINDOW_MS).selectExpr("*", "timestamp_millis(at) AS time")


def commit_rates(history: DataFrame, window: str = "1 minute", late: str = "2 minutes") -> DataFrame:
    """Commits of each group in each window; a window is final, and may be appended, when `late` has passed."""
    from pyspark.sql import functions as f

    return (
        _commits(history, late)
        .groupBy(f.window("time", window), "group_id")
        .agg(f.sum("commits").alias("commits"))
        .select("group_id", f.col("window.start").alias("begin"), f.col("window.end").alias("end"), "commits")
    )


def committed(history: DataFrame, window: str = "1 minute", late: str = "2 minutes") -> DataFrame:
    """What each group had committed last of each partition in each window."""
    from pyspark.sql import functions as f

    return (
        _commits(history, late)
        .groupBy(f.window("time", window), "group_id", "topic", "partition")
        .agg(f.max_by("last_offset", "last_position").alias("committed"), f.sum("commits").alias("commits"))
        .select("group_id", "topic", "partition", f.col("window.end").alias("end"), "committed", "commits")
    )


def with_lag(batch: DataFrame, bootstrap: str) -> DataFrame:
    """A batch of `committed`, inside `foreachBatch`, with `end_offset` as it is now, and `lag`.

    Both are null for a topic that was deleted since.
    """
    named = batch.select("topic", "partition").distinct().collect()
    tps = {TopicPartition(row["topic"], row["partition"]) for row in named}
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": OFFSETS_TOPIC}
    cluster = Cluster(reading_options.parse(given, streaming=False).broker)
    try:
        there = set(cluster.partitions(reading_options.Topics(pattern=".*")))
        ends = [(tp.topic, tp.partition, end) for tp, end in cluster.ends(sorted(tps & there)).items()]
    finally:
        cluster.close()
    known = batch.sparkSession.createDataFrame(ends, "topic STRING, partition INT, end_offset BIGINT")
    return batch.join(known, ["topic", "partition"], "left").selectExpr(
        "*", "greatest(end_offset - committed, 0) AS lag"
    )


def _commits(history: DataFrame, late: str) -> DataFrame:
    return history.where(f"kind = '{Kind.COMMITS}' AND commits > 0").withWatermark("time", late)
