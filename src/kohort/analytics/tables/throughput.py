"""Commit rates of groups, their lag in records, and the age of the record that they read next.

Past ends of topics are not in `__consumer_offsets`. The view `ends` has them, one row per partition
and window edge (see `kohort.analytics.ends`). Without it there is no lag.
"""

from kohort.analytics import timelines
from kohort.analytics.tables.through import ArrowView

RUNS = """
    SELECT group_id, topic, partition, shard, position, last_position, at, last_at, window_at, commits, last_offset,
      outermost
    FROM history WHERE kind = 'commits' AND commits > 0"""

VIEWS: dict[str, str | ArrowView] = {
    "commit_rate": """
        SELECT group_id, window_at, sum(commits) AS commits, sum(commits) * 1000.0 / {window_ms} AS per_second
        FROM _runs GROUP BY group_id, window_at""",
    "lag": ArrowView(
        """
        SELECT group_id, topic, partition, window_at + {window_ms} AS at, last_position AS position,
          last_offset AS offset
        FROM _runs
        UNION ALL
        SELECT NULL, topic, partition, at, 0L, end_offset FROM ends""",
        by=("topic", "partition"),
        function=timelines.lag,
        schema=timelines.LAG_DDL,
    ),
}
"""Views by name, in order; those with an underscore are intermediate."""
