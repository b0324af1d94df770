"""How often groups commit, how far they are behind in records, and how old the record is that they read next.

Where topics ended in the past is not in `__consumer_offsets`: `ends` has it, one row per partition and edge of a window
(see `kohort.analytics.ends`). Without it there is no lag.
"""

VIEWS = {
    "commit_rate": """
        SELECT group_id, window_at, sum(commits) AS commits, sum(commits) * 1000.0 / {window_ms} AS per_second
        FROM _runs GROUP BY group_id, window_at""",
    "_positions": """
        SELECT group_id, topic, partition, window_at + {window_ms} AS at,
          max_by(last_offset, last_position) AS committed
        FROM _runs GROUP BY group_id, topic, partition, window_at""",
    # At each edge what was committed last, in this window or in one before.
    "_behind": """
        SELECT *, greatest(end_offset - committed, 0) AS lag FROM (
          SELECT s.group_id, s.topic, s.partition, e.at, e.end_offset,
            last(p.committed, true) OVER (PARTITION BY s.group_id, s.topic, s.partition ORDER BY e.at) AS committed
          FROM (SELECT group_id, topic, partition, min(at) AS first_at FROM _positions GROUP BY 1, 2, 3) s
          JOIN ends e ON s.topic = e.topic AND s.partition = e.partition AND e.at >= s.first_at
          LEFT JOIN _positions p ON s.group_id = p.group_id AND s.topic = p.topic AND s.partition = p.partition
            AND e.at = p.at)""",
    # When the topic's end was where the group is now, between the two edges around: both sorted by offset, once.
    "_produced": """
        SELECT * FROM (
          SELECT *, last(edge_at, true) OVER forward AS at_below, last(edge, true) OVER forward AS below,
            last(edge_at, true) OVER backward AS at_above, last(edge, true) OVER backward AS above
          FROM (
            SELECT topic, partition, end_offset AS value, 0 AS kind, at AS edge_at, end_offset AS edge,
              NULL AS group_id, NULL AS at FROM ends
            UNION ALL
            SELECT topic, partition, committed, 1, NULL, NULL, group_id, at FROM _behind WHERE lag > 0)
          WINDOW forward AS (PARTITION BY topic, partition ORDER BY value, kind, edge_at ROWS UNBOUNDED PRECEDING),
            backward AS (PARTITION BY topic, partition ORDER BY value DESC, kind DESC, edge_at DESC
              ROWS UNBOUNDED PRECEDING))
        WHERE kind = 1""",
    "lag": """
        SELECT b.group_id, b.topic, b.partition, b.at, b.committed, b.end_offset, b.lag,
          CAST(if(b.lag = 0, 0, b.at - p.at_below
            - coalesce((b.committed - p.below) / nullif(p.above - p.below, 0), 0) * (p.at_above - p.at_below))
            AS BIGINT)
            AS lag_ms
        FROM _behind b LEFT JOIN _produced p
          ON b.group_id = p.group_id AND b.topic = p.topic AND b.partition = p.partition AND b.at = p.at""",
}
"""By name, in order; those with an underscore only lead to the others."""
