"""What the report shows: the tables summed up until they fit on a page, as plain rows.

Only sums come to the driver: a row per group, and at most some hundred points for each picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

MOST_GROUPS = 20
_MOST_LINES = 6

_GROUPS = """
    SELECT r.group_id, mode(r.group_type) AS group_type, mode(r.assignor) AS assignor, max(r.members) AS members,
      count(*) AS rebalances, sum(r.moved) AS moved, sum(r.needless) AS needless, sum(r.stopped) AS stopped,
      sum(r.excess_ms) AS excess_ms, max(r.longest_dark_ms) AS longest_dark_ms, sum(r.missing) AS missing
    FROM rebalances r GROUP BY r.group_id"""
_CAUSES = (
    "SELECT group_id, cause, count(*) AS times, sum(excess_ms) AS excess_ms FROM rebalances GROUP BY group_id, cause"
)
_WHOLE = """
    SELECT min(at) AS begin_at, max(coalesce(last_at, at)) AS end_at, sum(commits) AS commits,
      count(DISTINCT group_id) AS groups,
      count(DISTINCT if(kind = 'commits', struct(topic, partition), NULL)) AS partitions
    FROM history WHERE at > 0"""
_FLAPPING = """
    SELECT group_id, member_name, client_host, count(*) AS episodes, sum(returns) AS returns, min(begin_at) AS begin_at,
      max(end_at) AS end_at, CAST(avg(mean_away_ms) AS BIGINT) AS mean_away_ms
    FROM flapping GROUP BY group_id, member_name, client_host"""
_WORST_LAG = "SELECT group_id, max(lag) AS lag, max(lag_ms) AS lag_ms FROM lag GROUP BY group_id"


@dataclass(slots=True)
class Findings:
    """All that the page shows, as plain rows."""

    whole: Row
    groups: list[Row]
    """Those with rebalances, the one that hurts most first."""
    causes: dict[str, list[Row]]
    """By group, the cause that cost most first."""
    flapping: list[Row]
    thrashing: list[Row]
    savings: dict[str, Row]
    worst_lag: dict[str, Row]
    rate: list[tuple[int, float]]
    """Commits per second of all groups, by time."""
    times: list[tuple[str, int, int]]
    """Of the worst groups: group, a time, how many rebalances."""
    lags: list[tuple[str, int, int]]
    """Of the groups that are furthest behind: group, time, milliseconds."""
    journal: list[Row] = field(default_factory=list)


def gather(spark: SparkSession, points: int = 300) -> Findings:
    """Ask the tables, which are views of the session."""
    whole = spark.sql(_WHOLE).collect()[0].asDict()
    groups = _rows(spark.sql(f"{_GROUPS} ORDER BY excess_ms DESC, rebalances DESC"))
    causes: dict[str, list[Row]] = {}
    for row in _rows(spark.sql(f"{_CAUSES} ORDER BY excess_ms DESC, times DESC")):
        causes.setdefault(row["group_id"], []).append(row)
    worst_lag = {row["group_id"]: row for row in _rows(spark.sql(_WORST_LAG))}
    step = max(1, ((whole["end_at"] or 0) - (whole["begin_at"] or 0)) // points)
    behind = sorted(worst_lag, key=lambda group: -(worst_lag[group]["lag_ms"] or 0))[:_MOST_LINES]
    journal = spark.table("journal") if spark.catalog.tableExists("journal") else None
    return Findings(
        whole=whole,
        groups=groups,
        causes=causes,
        flapping=_rows(spark.sql(f"{_FLAPPING} ORDER BY returns DESC LIMIT {MOST_GROUPS}")),
        thrashing=_most(spark, "thrashing", "excess_ms"),
        savings={row["group_id"]: row for row in _rows(spark.table("savings"))},
        worst_lag=worst_lag,
        rate=_rate(spark, step),
        times=_times(spark, [row["group_id"] for row in groups[:MOST_GROUPS]], 3 * step),
        lags=_lags(spark, behind, step),
        journal=[] if journal is None else _most(spark, "journal", "dark_ms"),
    )


def _rate(spark: SparkSession, step: int) -> list[tuple[int, float]]:
    found = spark.sql(
        f"SELECT window_at DIV {step} * {step} AS at, sum(commits) * 1000.0D / {step} AS per_second"
        " FROM commit_rate GROUP BY 1 ORDER BY 1"
    )
    return [(row["at"], row["per_second"]) for row in _rows(found)]


def _times(spark: SparkSession, groups: Sequence[str], step: int) -> list[tuple[str, int, int]]:
    found = _of(spark, "rebalances", groups).groupBy("group_id", _floor(step)).count()
    return [(row["group_id"], row["at"], row["count"]) for row in _rows(found)]


def _lags(spark: SparkSession, groups: Sequence[str], step: int) -> list[tuple[str, int, int]]:
    found = _of(spark, "lag", groups).groupBy("group_id", _floor(step)).agg({"lag_ms": "max"}).orderBy("at")
    return [(row["group_id"], row["at"], row["max(lag_ms)"]) for row in _rows(found) if row["max(lag_ms)"] is not None]


def _most(spark: SparkSession, table: str, column: str) -> list[Row]:
    return _rows(spark.table(table).orderBy(column, ascending=False).limit(MOST_GROUPS))


def _of(spark: SparkSession, table: str, groups: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.table(table).where(f.col("group_id").isin(list(groups)))


def _floor(step: int) -> Any:
    from pyspark.sql import functions as f

    return f.expr(f"at DIV {step} * {step}").alias("at")


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]
