"""Ends of topics at times in the past, which are needed for lag and are not in `__consumer_offsets`.

A broker finds the first record at or after a time. The offset of that record is the end of the
partition at that time. Brokers find it only while the records exist, so edges before the oldest
record are omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kohort.analytics.source import Servers, options_of
from kohort.model import Millis, TopicPartition
from pyspark_kohort.net import BlockingCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENDS_DDL = "topic STRING, partition INT, at BIGINT, end_offset BIGINT"
MOST_EDGES = 2_000
"""Maximum number of window edges. Each costs a request to each broker; longer histories use wider windows."""


def ends_of_cluster(
    spark: SparkSession, bootstrap: Servers, window_ms: Millis, on_progress: Callable[[str], None]
) -> DataFrame:
    """Return the ends of all partitions with commits at each edge of a window, from requests to the cluster.

    Reads the view `history`.
    """
    known = spark.sql(
        "SELECT topic, partition, min(window_at) AS first, max(window_at) AS last FROM history"
        " WHERE kind = 'commits' AND commits > 0 GROUP BY topic, partition"
    ).collect()
    if not known:
        return spark.createDataFrame([], ENDS_DDL)
    first, last = min(row["first"] for row in known), max(row["last"] for row in known) + window_ms
    step = window_ms * -(-(last - first) // (window_ms * MOST_EDGES))
    given = options_of(bootstrap) | {"subscribe": "unused"}
    cluster = BlockingCluster.of(given)
    try:
        there = cluster.all_partitions()  # a group may read an internal topic
        tps = sorted(there & {TopicPartition(row["topic"], row["partition"]) for row in known})
        rows = list(_rows(cluster, tps, range(first + step, last + 1, step), on_progress))
    finally:
        cluster.close()
    return spark.createDataFrame(rows, ENDS_DDL)


def _rows(
    cluster: BlockingCluster, tps: list[TopicPartition], edges: range, on_progress: Callable[[str], None]
) -> Iterable[tuple[str, int, int, int]]:
    if not tps:
        return
    lows, highs = cluster.starts(tps), cluster.ends(tps)
    for n, edge in enumerate(edges):
        if n % 100 == 0:
            on_progress(f"ends of topics: {n} of {len(edges)} times")
        for tp, offset in cluster.offsets(dict.fromkeys(tps, edge)).items():
            end = highs[tp] if offset is None else offset
            if end > lows[tp] or not lows[tp]:
                yield tp.topic, tp.partition, edge, end
