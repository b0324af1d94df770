"""Contents of the report: the tables aggregated to the size of a page, as plain rows.

Only aggregates are sent to the driver: one row per group, and at most a few hundred points per
chart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kohort.model import Millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

MOST_GROUPS = 20
_MOST_LINES = 6
_AT_ONCE = 4

_COUNTED = "SELECT group_id, at, CAST(moved AS BIGINT) AS moved FROM rebalances WHERE cause <> 'group deleted'"
"""Rebalances that the page counts. The end of an empty group is none."""
COUNTED_WITH_JOURNAL = """
    SELECT group_id, ended_at AS at, CAST(coalesce(moved, 0) AS BIGINT) AS moved FROM journal
    UNION ALL
    SELECT r.group_id, r.at, CAST(r.moved AS BIGINT) FROM rebalances r
    LEFT JOIN (SELECT group_id, min(coalesce(started_at, ended_at)) AS first_at FROM journal GROUP BY group_id) j
      ON r.group_id = j.group_id
    WHERE r.cause <> 'group deleted' AND (j.first_at IS NULL OR r.at < j.first_at - 1000)"""
"""The same if there is a journal: its rebalances, as `kohort rebalances` counts them, and the older ones of the log.

A consumer group may raise its epoch several times in one rebalance; the log does not show where a
rebalance ends. The clocks of a record of the log and of the journal differ by less than a second.
"""
_GROUPS = """
    SELECT group_id, r.group_type, r.assignor, r.members, coalesce(c.rebalances, 0) AS rebalances,
      coalesce(c.moved, 0) AS moved, coalesce(r.needless, 0) AS needless, coalesce(r.stopped, 0) AS stopped,
      coalesce(r.excess_ms, 0) AS excess_ms, r.longest_dark_ms, coalesce(r.missing, 0) AS missing
    FROM (
      SELECT group_id, mode(group_type) AS group_type, mode(assignor) AS assignor, max(members) AS members,
        sum(needless) AS needless, sum(stopped) AS stopped, sum(excess_ms) AS excess_ms,
        max(longest_dark_ms) AS longest_dark_ms, sum(missing) AS missing
      FROM rebalances GROUP BY group_id) r
    FULL OUTER JOIN (
      SELECT group_id, count(*) AS rebalances, sum(moved) AS moved FROM _counted GROUP BY group_id) c
      USING (group_id)"""
_CAUSES = (
    "SELECT group_id, cause, count(*) AS times, sum(excess_ms) AS excess_ms FROM rebalances GROUP BY group_id, cause"
)
_WHOLE = """
    SELECT min(begin_at) AS begin_at, max(end_at) AS end_at, sum(commits) AS commits,
      count(DISTINCT group_id) AS groups,
      count(DISTINCT if(topic IS NULL, NULL, struct(topic, partition))) AS partitions
    FROM (
      SELECT group_id, if(kind = 'commits', topic, NULL) AS topic, partition, min(at) AS begin_at,
        max(coalesce(last_at, at)) AS end_at, sum(commits) AS commits
      FROM history WHERE at > 0 AND kind <> 'unreadable' GROUP BY 1, 2, 3)"""
_FLAPPING = """
    SELECT group_id, member_name, client_host, count(*) AS episodes, sum(returns) AS returns, min(begin_at) AS begin_at,
      max(end_at) AS end_at, CAST(avg(mean_away_ms) AS BIGINT) AS mean_away_ms
    FROM flapping GROUP BY group_id, member_name, client_host"""
_RATE = """
    SELECT window_at DIV {step} * {step} AS at, sum(commits) * 1000.0D / {step} AS per_second
    FROM commit_rate GROUP BY 1 ORDER BY 1"""
_RECORDED = """
    SELECT group_id, cause, count(*) AS times FROM journal WHERE cause IS NOT NULL
    GROUP BY group_id, cause ORDER BY times DESC"""
_WORST_LAG = "SELECT group_id, max(lag) AS lag, max(lag_ms) AS lag_ms FROM lag GROUP BY group_id"


@dataclass(slots=True)
class Findings:
    """Contents of the page, as plain rows."""

    whole: Row
    groups: list[Row]
    """Groups with rebalances, in descending order of cost."""
    causes: dict[str, list[Row]]
    """Causes by group, in descending order of cost."""
    flapping: list[Row]
    thrashing: list[Row]
    savings: dict[str, Row]
    worst_lag: dict[str, Row]
    rate: list[tuple[int, float]]
    """Commits per second of all groups, by time, without gaps."""
    times: list[tuple[str, int, int]]
    """Rebalances of the worst groups: group, time, count."""
    lags: list[tuple[str, int, int]]
    """Lag of the groups that are furthest behind: group, time, milliseconds."""
    journal: list[Row] = field(default_factory=list)
    """Rebalances in the journal with the longest dark times."""
    recorded: dict[str, list[Row]] = field(default_factory=dict)
    """Causes in the journal by group, in descending order of frequency."""
    unreadable: list[Row] = field(default_factory=list)
    """Number of unreadable records by topic, and the position of the first one."""


def gather(spark: SparkSession, window_ms: Millis, points: int = 300) -> Findings:
    """Query the tables, which are views of the session. `window_ms` is the window of `commit_rate`."""
    recorded_too = spark.catalog.tableExists("journal")
    spark.sql(COUNTED_WITH_JOURNAL if recorded_too else _COUNTED).createOrReplaceTempView("_counted")
    # The queries run concurrently: a small query is mostly planning, which keeps one core busy.
    with ThreadPoolExecutor(_AT_ONCE, "findings") as threads:

        def asked(query: str | DataFrame) -> Future[list[Row]]:
            return threads.submit(_rows, spark.sql(query) if isinstance(query, str) else query)

        whole_asked = asked(_WHOLE)
        groups_asked = asked(f"{_GROUPS} ORDER BY excess_ms DESC, rebalances DESC")
        worst_asked = asked(_WORST_LAG)
        causes_asked = asked(f"{_CAUSES} ORDER BY excess_ms DESC, times DESC")
        flapping = asked(f"{_FLAPPING} ORDER BY returns DESC LIMIT {MOST_GROUPS}")
        thrashing = asked(_most("thrashing", "excess_ms"))
        savings = asked("SELECT * FROM savings")
        unreadable = asked("SELECT topic, records, first.shard, first.position FROM unreadable WHERE records > 0")
        journal = recorded = None
        if recorded_too:
            journal, recorded = asked(_most("journal", "dark_ms")), asked(_RECORDED)

        (whole,) = whole_asked.result()
        step = max(1, ((whole["end_at"] or 0) - (whole["begin_at"] or 0)) // points)
        # A step that is no multiple of the window would count a window's commits in a part of its time.
        rate_step = -(-step // window_ms) * window_ms
        rate = asked(_RATE.format(step=rate_step))
        groups = groups_asked.result()
        times = asked(_counted(_of(spark, "_counted", [row["group_id"] for row in groups[:MOST_GROUPS]]), 3 * step))
        worst_lag = {row["group_id"]: row for row in worst_asked.result()}
        behind = sorted(worst_lag, key=lambda group: -(worst_lag[group]["lag_ms"] or 0))[:_MOST_LINES]
        lags = asked(_ages(_of(spark, "lag", behind), step))

        return Findings(
            whole=whole,
            groups=groups,
            causes=_by_group(causes_asked.result()),
            flapping=flapping.result(),
            thrashing=thrashing.result(),
            savings={row["group_id"]: row for row in savings.result()},
            worst_lag=worst_lag,
            rate=without_gaps(rate.result(), rate_step),
            times=[(row["group_id"], row["at"], row["count"]) for row in times.result()],
            lags=[(row["group_id"], row["at"], row["lag_ms"]) for row in lags.result()],
            journal=[] if journal is None else journal.result(),
            recorded={} if recorded is None else _by_group(recorded.result()),
            unreadable=unreadable.result(),
        )


def without_gaps(rates: Sequence[Row], step: Millis) -> list[tuple[Millis, float]]:
    """Return the rate at each step from the first to the last one; it is 0 where no window has commits."""
    known = {row["at"]: row["per_second"] for row in rates}
    return [(at, known.get(at, 0.0)) for at in range(min(known), max(known) + 1, step)] if known else []


def _by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).append(row)
    return found


def _counted(rebalances: DataFrame, step: int) -> DataFrame:
    return rebalances.groupBy("group_id", _floor(step)).count()


def _ages(lag: DataFrame, step: int) -> DataFrame:
    from pyspark.sql import functions as f

    oldest = lag.where("lag_ms IS NOT NULL").groupBy("group_id", _floor(step)).agg(f.max("lag_ms").alias("lag_ms"))
    return oldest.orderBy("at")


def _most(table: str, column: str) -> str:
    return f"SELECT * FROM {table} ORDER BY {column} DESC LIMIT {MOST_GROUPS}"


def _of(spark: SparkSession, table: str, groups: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.table(table).where(f.col("group_id").isin(list(groups)))


def _floor(step: int) -> Any:
    from pyspark.sql import functions as f

    return f.expr(f"at DIV {step} * {step}").alias("at")


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]
