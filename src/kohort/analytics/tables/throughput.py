"""How often groups commit, how far they are behind in records, and how old the record is that they read next.

Where topics ended in the past is not in `__consumer_offsets`: `ends` has it, one row per partition and edge of a window
(see `kohort.analytics.ends`). Without it there is no lag.
"""

from kohort.analytics import timelines
from kohort.analytics.tables.through import Through

RUNS = """
    SELECT group_id, topic, partition, shard, position, last_position, at, last_at, window_at, commits, last_offset,
      outermost
    FROM history WHERE kind = 'commits' AND commits > 0"""

VIEWS: dict[str, str | Through] = {
    "commit_rate": """
        SELECT group_id, window_at, sum(commits) AS commits, sum(commits) * 1000.0 / {window_ms} AS per_second
        FROM _runs GROUP BY group_id, window_at""",
    "lag": Through(
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
"""By name, in order; those with an underscore only lead to the others."""
